"""The commands of `scripts/manage_space.py`, with the help that teaches them.

Only click and this package's own small modules are imported here: `--help` answers at once, the services are imported by the command
that asks them.

Arguments and options that several commands share, and their examples.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from lib.cli.outcome import DONE, MEANINGS, end_command, guard_command, print_answer, say

Command = TypeVar("Command", bound=Callable[..., Any])
SCRIPT = "python scripts/manage_space.py"


def _options(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Several options as one decorator, shown in the order given."""

    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def examples(*lines: str) -> str:
    """Lines for the foot of a help text, each a whole command."""
    return "\b\nExamples:\n" + "\n".join(f"  {SCRIPT} {line}" for line in lines)


space_argument = click.argument("space", metavar="USER/SPACE")
as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout; everything else goes to stderr.")
yes = click.option("--yes", "-y", is_flag=True, help="Do not ask: you agree to the price that is shown.")
no_wait = click.option("--no-wait", is_flag=True, help="Do not watch until the Space runs.")
workload = _options(
    click.option("--task", default="auto", show_default=True, help="A Hub task such as text-generation."),
    click.option("--context-tokens", default=4096, show_default=True, help="Tokens per request, prompt and answer together."),
    click.option("--concurrency", default=1, show_default=True, help="Requests served at the same time."),
    click.option("--requests-per-day", default=100, show_default=True, help="How many requests arrive in a day."),
    click.option("--hours-per-day", default=24.0, show_default=True, help="Hours a day that the hardware runs."),
    click.option("--precision", default="auto", show_default=True, help="fp16, bf16, fp8, int8, int4, bnb-nf4, gguf:Q4_K_M, ..."),
    click.option("--account", default="free", show_default=True, help="Plan of the account that hosts: free, pro, team, enterprise."),
    click.option("--visitor-account", default="auto", show_default=True, help="Plan of ZeroGPU's visitors; auto: that of --account."),
    click.option("--max-usd-per-month", default=0.0, show_default=True, help="Budget; 0 sets no limit."),
    click.option("--min-tokens-per-s", default=0.0, show_default=True, help="What each request must get; 0 sets no limit."),
    click.option("--priority", default="balanced", show_default=True, help="cheapest, balanced or fastest."),
    click.option("--platforms", default="spaces", show_default=True, help="Comma list of spaces, zerogpu, endpoints, jobs, tpu, all."),
    click.option("--prompt-tokens", default=0, show_default=True, help="Usual prompt; 0 takes an eighth of the context."),
    click.option("--output-tokens", default=0, show_default=True, help="Usual answer; 0 takes up to 256 tokens."),
    click.option("--max-ttft-s", default=0.0, show_default=True, help="Longest time to the first token; 0 sets no limit."),
    click.option("--engine", default="auto", show_default=True, help="transformers, vllm, llama.cpp, ...; auto tries all."),
    click.option("--sdk", default="auto", show_default=True, help="What the Space is built with: gradio, docker or auto."),
)


_STATUSES = "\n".join(f"  {status:>3}  {meaning}" for status, meaning in MEANINGS.items())
_EXAMPLES = """\b
Examples:
  python scripts/manage_space.py recommend Qwen/Qwen3-8B --requests-per-day 500
  python scripts/manage_space.py status ada/chat
  python scripts/manage_space.py right-size ada/chat
  python scripts/manage_space.py hardware ada/chat --tier l4x1 --sleep-time 3600
  python scripts/manage_space.py pause ada/chat"""
_EPILOG = f"{_EXAMPLES}\n\n\b\nExit status:\n{_STATUSES}"


@click.group(context_settings={"help_option_names": ["-h", "--help"]}, epilog=_EPILOG)
def main() -> None:
    """See, right-size and switch the hardware of a Hugging Face Space.

    Looking at public Spaces, the tiers and recommendations need no login. What changes a Space uses the login of this machine
    (`hf auth login`, or HF_TOKEN in the environment); a token is never an argument, for arguments stand in the shell's history.

    Before anything is changed, the price per hour and per month is shown and has to be confirmed, at the prompt or with --yes.
    Without a terminal and without --yes nothing is changed.
    """


@main.command(
    short_help="Switch a Space to another tier.",
    epilog=examples("hardware ada/chat --tier l4x1", "hardware ada/chat --tier a100-large --sleep-time 1800 --yes --json"),
)
@space_argument
@click.option("--tier", required=True, metavar="ID", help="The tier, such as l4x1 (see `tiers`); older names such as l4 are understood.")
@click.option(
    "--sleep-time",
    type=int,
    metavar="SECONDS",
    help="Sleep after so long without a visit; -1 is never. Left out, a Space keeps what it has on paid hardware, else never sleeps.",
)
@yes
@no_wait
@as_json
@guard_command
def hardware(*, space: str, tier: str, sleep_time: int | None, yes: bool, no_wait: bool, as_json: bool) -> None:
    """Switch a Space to another tier.

    Shows the price, asks, switches, and watches until the Space runs on the new tier. The app restarts; paid hardware is billed by the
    minute while it starts or runs, used or not, so a sleep time is what saves most. Going down to cheaper hardware asks too.
    """
    from lib.cli.act import carry_out  # noqa: PLC0415

    carry_out(
        space,
        "switch",
        lambda account, preview, token: account.switch_hardware(
            space, preview["after"]["hardware"], preview["confirm_usd_per_hour"], sleep_time, token=token
        ),
        planned={"hardware": tier, "sleep_time_s": sleep_time},
        yes=yes,
        watch=not no_wait,
        as_json=as_json,
    )


@main.command(
    short_help="Show what a Space is doing, on what, and its price.",
    epilog=examples("status ada/chat", "status ada/chat --json", "status ada/chat --watch"),
)
@space_argument
@click.option("--watch", is_flag=True, help="Show the stages until the Space runs or has failed.")
@as_json
@guard_command
def status(*, space: str, watch: bool, as_json: bool) -> None:
    """Show a Space's stage, hardware, price per hour and month, sleep time, volumes and models."""
    from lib.cli.act import login, open_services  # noqa: PLC0415
    from lib.cli.show import status_text  # noqa: PLC0415

    account, token, code = open_services().account, login(), DONE
    if watch:
        from lib.cli.act import watch_stages  # noqa: PLC0415

        _, code = watch_stages(account, space, "", token)
    found = account.space_status(space, token=token)
    print_answer(found, status_text(found), as_json=as_json)
    end_command(code)


@main.command(short_help="Stop a Space until its owner restarts it.", epilog=examples("pause ada/chat", "pause ada/chat --yes"))
@space_argument
@yes
@as_json
@guard_command
def pause(*, space: str, yes: bool, as_json: bool) -> None:
    """Pause a Space: it stops, is not billed, and only its owner can restart it."""
    from lib.cli.act import carry_out  # noqa: PLC0415

    carry_out(
        space,
        "pause",
        lambda account, _, token: account.pause_space(space, token=token),
        planned={},
        yes=yes,
        watch=False,
        as_json=as_json,
    )


@main.command(short_help="Restart a Space.", epilog=examples("restart ada/chat", "restart ada/chat --factory --yes"))
@space_argument
@click.option("--factory", is_flag=True, help="Build it from scratch, without what earlier builds left.")
@yes
@no_wait
@as_json
@guard_command
def restart(*, space: str, factory: bool, yes: bool, no_wait: bool, as_json: bool) -> None:
    """Restart a Space; one that was paused or asleep is billed again at its tier's price."""
    from lib.cli.act import carry_out  # noqa: PLC0415

    carry_out(
        space,
        "restart",
        lambda account, _, token: account.restart_space(space, factory, token=token),
        planned={"factory": factory},
        yes=yes,
        watch=not no_wait,
        as_json=as_json,
    )


@main.command(
    short_help="Set after how long a Space falls asleep.",
    epilog=examples("sleep ada/chat --sleep-time 3600", "sleep ada/chat 3600", "sleep ada/chat --sleep-time -1 --yes"),
)
@space_argument
@click.argument("seconds", required=False, type=int)
@click.option("--sleep-time", type=int, metavar="SECONDS", help="The same as SECONDS; -1 is never.")
@yes
@as_json
@guard_command
def sleep(*, space: str, seconds: int | None, sleep_time: int | None, yes: bool, as_json: bool) -> None:
    """Set after how many SECONDS without a visit a Space on paid hardware falls asleep; -1 is never.

    A sleeping Space is not billed, and a visit wakes it. The free CPU sleeps after 48 hours, which is fixed.
    """
    from lib.cli.act import carry_out  # noqa: PLC0415

    given = [value for value in (seconds, sleep_time) if value is not None]
    if len(given) != 1:
        raise click.UsageError("Name the sleep time once: `sleep USER/SPACE 3600` or `--sleep-time 3600`; -1 is never.")
    carry_out(
        space,
        "sleep",
        lambda account, _, token: account.set_sleep_time(space, given[0], token=token),
        planned={"sleep_time_s": given[0]},
        yes=yes,
        watch=False,
        as_json=as_json,
    )


@main.command(short_help="List the tiers with memory and price.", epilog=examples("tiers", "tiers --json", "tiers --all"))
@click.option("--all", "retired", is_flag=True, help="Also what the platform no longer offers.")
@as_json
@guard_command
def tiers(*, retired: bool, as_json: bool) -> None:
    """List the tiers of Spaces with their memory and price; works offline with the bundled prices."""
    from lib.cli.act import open_services  # noqa: PLC0415
    from lib.cli.show import prices_line, tiers_text  # noqa: PLC0415

    services = open_services()
    found = services.list_hardware("spaces", include_retired=retired)
    say(prices_line(services.prices()))
    print_answer(found, tiers_text(found["hardware"]), as_json=as_json)


@main.command(
    short_help="Recommend hardware for a model.",
    epilog=examples(
        "recommend Qwen/Qwen3-8B", "recommend 7B --priority cheapest --platforms all", "recommend Qwen/Qwen3-8B --files pytorch"
    ),
)
@click.argument("model")
@workload
@click.option("--files", metavar="FRAMEWORK", help="Also print README front matter and requirements.txt: pytorch, jax or tensorflow.")
@as_json
@guard_command
def recommend(*, model: str, files: str | None, as_json: bool, **asked: Any) -> None:
    """Recommend hardware for MODEL: a Hub id, a parameter count such as 7B, or the text of a config.json.

    Bundled models and parameter counts work offline.
    """
    from lib.cli.act import open_services  # noqa: PLC0415
    from lib.cli.show import recommendation_text  # noqa: PLC0415

    services = open_services()
    found: Mapping[str, Any] = services.recommend(model, **asked)
    shown = recommendation_text(found)
    if files and found["pick"]:
        from lib.cli.act import files_entry, files_text  # noqa: PLC0415

        sizes = {"context_tokens": asked["context_tokens"], "sequences": asked["concurrency"]}
        written = files_entry(found["pick"], services.catalog(), files, model=model, **sizes)
        found, shown = {**found, "files": written}, f"{shown}\n\n{files_text(written)}"
    print_answer(found, shown, as_json=as_json)


@main.command(
    "right-size",
    short_help="Say whether a Space's tier fits its models.",
    epilog=examples("right-size ada/chat", "right-size ada/chat --model Qwen/Qwen3-8B --hours-per-day 8 --json"),
)
@space_argument
@click.option("--model", default="", help="Judge for this model; by default for those that the Space links.")
@workload
@as_json
@guard_command
def right_size(*, space: str, as_json: bool, **asked: Any) -> None:
    """Say whether a Space's tier fits its models: what moving saves, or the reason to move up."""
    from lib.cli.act import login, open_services  # noqa: PLC0415
    from lib.cli.show import right_size_text  # noqa: PLC0415

    say(f"Looking at {space}, and at its models ...")  # one that is not bundled takes some seconds to build
    found = open_services().account.right_size(space, **asked, token=login())
    print_answer(found, right_size_text(found), as_json=as_json)
