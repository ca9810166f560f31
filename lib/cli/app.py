"""The commands of `scripts/manage_space.py`, with the help that teaches them.

Only click and this package's own small modules are imported here: `--help` answers at once, the services are imported by the command
that asks them.

Options of commands that ask an endpoint are the endpoint's own arguments (`EndpointCommand`).
"""

from __future__ import annotations

import pkgutil
from typing import TYPE_CHECKING, Any, get_args

import click

from lib.cli.fleet import fleet
from lib.cli.outcome import DONE, MEANINGS, end_command, guard_command, print_answer, say, write_line

if TYPE_CHECKING:
    from lib.request.fields import Argument  # which imports pydantic

SCRIPT = "python scripts/manage_space.py"
MOST_CHARACTERS = 200_000
"""Of a file to explain; a longer one is refused, as over the API."""


def examples(*lines: str) -> str:
    """Lines for the foot of a help text, each a whole command."""
    return "\b\nExamples:\n" + "\n".join(f"  {SCRIPT} {line}" for line in lines)


space_argument = click.argument("space", metavar="USER/SPACE")
as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout; everything else goes to stderr.")
yes = click.option("--yes", "-y", is_flag=True, help="Do not ask: you agree to the price that is shown.")
no_wait = click.option("--no-wait", is_flag=True, help="Do not watch until the Space runs.")


class EndpointCommand(click.Command):
    """A command that takes the arguments of an endpoint as options, in addition to its own.

    They are read off the endpoint's model when the command is used or explained: the list of the commands imports none of it.
    """

    def __init__(self, *args: Any, arguments: str, **attributes: Any) -> None:
        """`arguments` is the path of the model, as "module:class"."""
        super().__init__(*args, **attributes)
        self._arguments = arguments

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Its own parameters, those of the endpoint that are not among them, and --help."""
        own = {parameter.name for parameter in self.params}
        arguments = pkgutil.resolve_name(self._arguments).list_fields()
        self.params += [_option(argument) for name, argument in arguments.items() if name not in own]
        return super().get_params(ctx)


def _option(argument: Argument) -> click.Option:
    """An argument as an option; the endpoint checks its value."""
    shown = argument.check.shown
    return click.Option(
        [f"--{argument.name.replace('_', '-')}"],
        default=argument.default,
        type=shown if shown in {int, float} else str,
        metavar="JSON" if argument.check.properties else "|".join(get_args(shown)) or None,
        show_default=argument.default != "",
        help=argument.help,
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
    (`hf auth login`, or HF_TOKEN in the environment); a token is never an argument, because arguments are in the shell's history.

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
        lambda services, preview, token: services.switch_hardware(
            space, preview.after.hardware, preview.confirm_usd_per_hour, sleep_time, token=token
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
    from lib.cli.act import (  # noqa: PLC0415
        login,
        open_services,
        status_text,
    )

    services, token, code = open_services(), login(), DONE
    if watch:
        from lib.cli.act import watch_stages  # noqa: PLC0415

        _, code = watch_stages(services, space, "", token)
    answer = services.space_status(space, token=token)
    print_answer(answer, status_text(answer), as_json=as_json)
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
        lambda services, _, token: services.pause_space(space, token=token),
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
        lambda services, _, token: services.restart_space(space, factory, token=token),
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
        lambda services, _, token: services.set_sleep_time(space, given[0], token=token),
        planned={"sleep_time_s": given[0]},
        yes=yes,
        watch=False,
        as_json=as_json,
    )


@main.command(
    cls=EndpointCommand,
    arguments="lib.service.account_overview:OverviewArguments",
    short_help="List what your account pays for.",
    epilog=examples("account", "account --owner my-organization --json"),
)
@as_json
@guard_command
def account(*, as_json: bool, **arguments: Any) -> None:
    """List the Spaces, Inference Endpoints and Jobs of your account: what idles, and what each costs a month."""
    from lib.cli.act import account_text, open_services, require_login  # noqa: PLC0415

    token = require_login("list what runs in your account")
    answer = open_services().account_overview(**arguments, token=token)
    print_answer(answer, account_text(answer), as_json=as_json)


@main.command(
    cls=EndpointCommand,
    arguments="lib.service.zerogpu_quota:ZeroGpuArguments",
    short_help="Check a ZeroGPU call against the quota.",
    epilog=examples("zerogpu --call-s 12", "zerogpu --call-s 40 --size xlarge --account pro --json"),
)
@as_json
@guard_command
def zerogpu(*, as_json: bool, **arguments: Any) -> None:
    """Say what to write in @spaces.GPU, what a call reserves, and whether it passes; signed in, with the rest of your quota."""
    from lib.cli.act import login, open_services  # noqa: PLC0415
    from lib.present.zerogpu_cards import quota_lines  # noqa: PLC0415

    answer = open_services().zerogpu_quota(**arguments, token=login())
    print_answer(answer, "\n".join(quota_lines(answer)), as_json=as_json)


@main.command(short_help="Stop one thing that is billed.", epilog=examples("stop space ada/chat", "stop job ada/687fb701 --yes"))
@click.argument("kind", type=click.Choice(["space", "endpoint", "job"]))
@click.argument("name", metavar="OWNER/NAME")
@yes
@as_json
@guard_command
def stop(*, kind: str, name: str, yes: bool, as_json: bool) -> None:
    """Stop what `account` lists: pause a Space or an Inference Endpoint, or cancel a Job."""
    from lib.cli.act import stop_resource  # noqa: PLC0415

    stop_resource(kind, name, yes=yes, as_json=as_json)


@main.command(short_help="List the tiers with memory and price.", epilog=examples("tiers", "tiers --json", "tiers --all"))
@click.option("--all", "retired", is_flag=True, help="Also what the platform no longer offers.")
@as_json
@guard_command
def tiers(*, retired: bool, as_json: bool) -> None:
    """List the tiers of Spaces with their memory and price; works offline with the bundled prices."""
    from lib.cli.act import (  # noqa: PLC0415
        open_services,
        prices_line,
        tiers_text,
    )

    services = open_services()
    answer = services.list_hardware("spaces", include_retired=retired)
    say(prices_line(services.prices()))
    print_answer(answer, tiers_text(answer.hardware), as_json=as_json)


@main.command(
    cls=EndpointCommand,
    arguments="lib.service.recommend:RecommendArguments",
    short_help="Recommend hardware for a model.",
    epilog=examples(
        "recommend Qwen/Qwen3-8B", "recommend 7B --priority cheapest --platforms all", "recommend Qwen/Qwen3-8B --files pytorch"
    ),
)
@click.argument("model")
@click.option("--files", metavar="FRAMEWORK", help="Also print README front matter and requirements.txt: pytorch, jax or tensorflow.")
@as_json
@guard_command
def recommend(*, model: str, files: str | None, as_json: bool, **arguments: Any) -> None:
    """Recommend hardware for MODEL: a Hub id, a parameter count such as 7B, or the text of a config.json.

    Bundled models and parameter counts work offline; a gated model is read with the login of this machine.
    """
    from lib.cli.act import (  # noqa: PLC0415
        login,
        open_services,
        recommendation_text,
    )

    services = open_services()
    found = services.recommend(model, **arguments, token=login())
    answer, text = found, recommendation_text(found, model)
    if files and found.pick:
        from lib.cli.act import files_entry, files_text  # noqa: PLC0415
        from lib.present.sentences import to_json  # noqa: PLC0415

        sizes = {"context_tokens": arguments["context_tokens"], "sequences": arguments["concurrency"]}
        written = files_entry(found, services.catalog(), files, model=model, **sizes)
        answer, text = {**to_json(found), "files": written}, f"{text}\n\n{files_text(written)}"
    print_answer(answer, text, as_json=as_json)


@main.command(
    "right-size",
    cls=EndpointCommand,
    arguments="lib.service.right_size:RightSizeArguments",
    short_help="Say whether a Space's tier fits its models.",
    epilog=examples("right-size ada/chat", "right-size ada/chat --model Qwen/Qwen3-8B --hours-per-day 8 --json"),
)
@click.argument("space_id", metavar="USER/SPACE")
@as_json
@guard_command
def right_size(*, space_id: str, as_json: bool, **arguments: Any) -> None:
    """Say whether a Space's tier fits its models: what moving saves, or the reason to move up."""
    from lib.cli.act import (  # noqa: PLC0415
        login,
        open_services,
        right_size_text,
    )

    say(write_line("answers", "checking", space=space_id))  # one that is not bundled takes some seconds to build
    answer = open_services().right_size(space_id, **arguments, token=login())
    print_answer(answer, right_size_text(answer), as_json=as_json)


@main.command(
    cls=EndpointCommand,
    arguments="lib.service.explain:ExplainArguments",
    short_help="Explain an error, a log or an nvidia-smi table.",
    epilog=examples("explain error.txt", "explain server.log --model Qwen/Qwen3-8B --hardware l4x1 --json"),
)
@click.argument("text", metavar="FILE", type=click.Path(dir_okay=False, allow_dash=True))
@as_json
@guard_command
def explain(*, text: str, as_json: bool, **arguments: Any) -> None:
    """Explain the text of FILE (- is standard input): the cause, its numbers, what to change, and which hardware holds it.

    The text stays on this machine; tokens in it are masked.
    """
    from lib.cli.act import explanation_text, open_services  # noqa: PLC0415

    try:
        with click.open_file(text, encoding="utf-8", errors="replace") as file:
            pasted = file.read(MOST_CHARACTERS + 1)
    except OSError as error:
        raise click.UsageError(f"{text} cannot be read ({error.strerror}). Name a text file, or - for standard input.") from error
    answer = open_services().explain(pasted, **arguments)
    print_answer(answer, explanation_text(answer), as_json=as_json)


@main.command(
    cls=EndpointCommand,
    arguments="lib.service.write_files:FilesArguments",
    short_help="Write the files that run a model on hardware.",
    epilog=examples("files Qwen/Qwen3-8B l4x1 --purpose app --out my-space", "files Qwen/Qwen3-8B jobs:l4x1 --purpose job --json"),
)
@click.argument("model")
@click.argument("hardware")
@click.option("--out", metavar="DIRECTORY", type=click.Path(file_okay=False), help="Write the files there; none that exists is replaced.")
@as_json
@guard_command
def files(*, model: str, hardware: str, out: str | None, as_json: bool, **arguments: Any) -> None:
    """Write the files that run MODEL on HARDWARE: an app, a server or a script, and the command that starts them."""
    from lib.cli.act import login, open_services, save_files, written_text  # noqa: PLC0415

    answer = open_services().write_files(model, hardware, **arguments, token=login())
    if out is not None:
        save_files(answer.files, out)
    print_answer(answer, written_text(answer, out), as_json=as_json)


@main.command(
    cls=EndpointCommand,
    arguments="lib.service.estimate_batch:BatchArguments",
    short_help="Plan a pile of work: hours, price, machines.",
    epilog=examples("batch Qwen/Qwen3-8B 1000000 --deadline-hours 24", "batch BAAI/bge-m3 5000000 --platforms jobs --json"),
)
@click.argument("model")
@click.argument("items", type=int)
@as_json
@guard_command
def batch(*, model: str, items: int, as_json: bool, **arguments: Any) -> None:
    """Plan ITEMS of work for MODEL: documents, rows to embed, pictures, clips or hours of sound.

    Shows hours, price and machines on each kind of hardware, and the command that starts the pick on Jobs.
    """
    from lib.cli.act import batch_text, login, open_services  # noqa: PLC0415

    answer = open_services().estimate_batch(model, items, **arguments, token=login())
    print_answer(answer, batch_text(answer), as_json=as_json)


@main.command(
    "what-runs",
    cls=EndpointCommand,
    arguments="lib.service.what_runs:WhatRunsArguments",
    short_help="List the models that run on hardware.",
    epilog=examples("what-runs RTX-4090 --context-tokens 8192 --min-tokens-per-s 15", "what-runs l4x1 --task feature-extraction --json"),
)
@click.argument("hardware")
@as_json
@guard_command
def what_runs(*, hardware: str, as_json: bool, **arguments: Any) -> None:
    """List the bundled models that run on HARDWARE: a tier (l4x1), your cards (RTX-3090x2) or a Mac (M4-Max-64GB). Works offline."""
    from lib.cli.act import open_services  # noqa: PLC0415
    from lib.cli.what_runs import what_runs_text  # noqa: PLC0415

    answer = open_services().what_runs(hardware, **arguments)
    print_answer(answer, what_runs_text(answer), as_json=as_json)


main.add_command(fleet)
