"""Actions and output of the commands: actions in two steps, the answers as text for a terminal, and the files for a recommendation.

An action shows what would happen and what it costs, asks, acts, and watches until the Space runs. The commands ask the services in this
process, with today's prices where they can be had. The token belongs to the user who runs the command: the login on this machine
(`hf auth login`) or HF_TOKEN. It is never an argument, because the shell's history and the list of processes show arguments.

As text nothing is computed; every figure is formatted by `lib.present.numbers`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import click

from lib.advisor.result import Entry, Recommendation
from lib.advisor.space_rules import HOURS_PER_MONTH
from lib.answers import spaces
from lib.answers.batch import BatchAnswer
from lib.answers.explain import ExplainAnswer
from lib.answers.files import FilesAnswer
from lib.answers.hardware import ListedHardware
from lib.catalog import Catalog, PriceState, load
from lib.cli.outcome import DONE, FAILED, INTERRUPTED, NotConfirmed, end_command, print_answer, say, write_line
from lib.errors import BadArgument, NotSignedIn
from lib.hub.prices import PriceFeed
from lib.present.cards import old_prices, own_text
from lib.present.numbers import gib, tokens_per_s, usd, usd_per_hour, usd_per_month
from lib.present.sentences import sentence, to_json
from lib.present.setup_files import write_setup
from lib.present.space_cards import KIND_WORDS, stop_effect
from lib.present.wording import load_wording, write_text
from lib.provenance import Statement
from lib.service.account_overview import check_resource_name
from lib.service.app import Services
from lib.service.endpoint import App
from lib.service.models import Models
from lib.service.space_actions import preview as preview_action
from lib.service.space_status import watch as watch_space


def open_services() -> Services:
    """The services, with the platform's prices of now if it answers within some seconds, else the bundled ones."""
    feed = PriceFeed(load())
    feed.refresh()
    return Services(App(catalog=feed.catalog, refreshed_catalog=feed.refresh, models=Models()))


def login() -> str | None:
    """The token of this machine's own login, if there is one."""
    from huggingface_hub import get_token  # noqa: PLC0415  slow to import

    return get_token()


def require_login(what: str) -> str:
    """The token, or a refusal without a login."""
    token = login()
    if token is None:
        raise NotSignedIn(
            f"To {what}, a Hugging Face login is needed, and this machine has none. "
            "Run `hf auth login` with a token that may do it, or set HF_TOKEN, and try again."
        )
    return token


_WORDS = {
    "switch": "switch the hardware of a Space",
    "sleep": "set the sleep time of a Space",
    "pause": "pause a Space",
    "restart": "restart a Space",
}
Act = Callable[[Services, spaces.ActionPreview, str], spaces.ActionAnswer]


def carry_out(space: str, action: str, act: Act, *, planned: Mapping[str, Any], yes: bool, watch: bool, as_json: bool) -> None:
    """Preview, ask, act, watch. `planned` are the preview's own arguments; `act` gets the preview and the token."""
    token = require_login(_WORDS[action])
    services = open_services()
    preview = services[preview_action](space, action, **planned, token=token)
    for line in preview_lines(preview):
        say(line)
    price = preview.confirm_usd_per_hour
    _confirm(write_line("acting", "confirm_price" if price else "confirm", price=usd(price or 0)), yes=yes)
    done = act(services, preview, token)
    say(write_line("acting", "sent", stage=done.stage_message))
    for line in note_lines(caveat for caveat in done.caveats if caveat not in preview.caveats):
        say(line)
    hardware = (done.after.hardware if isinstance(done, spaces.SwitchAnswer) else "") or ""
    last, status = watch_stages(services, done.space, hardware, token) if watch else (None, DONE)
    print_answer({**to_json(done), "watched": to_json(last)}, action_lines(done, last), as_json=as_json)
    end_command(status)


def _terminal() -> bool:
    """Whether somebody can be asked."""
    return sys.stdin.isatty()


def _confirm(question: str, *, yes: bool) -> None:
    """Ask, unless that was done with --yes."""
    if yes:
        return
    if not _terminal():
        raise NotConfirmed("Nothing was changed: this is not a terminal, so nobody can confirm. Read the price above and add --yes.")
    if not click.confirm(question, default=False, err=True):
        raise NotConfirmed(write_line("acting", "not_confirmed"))


def stop_resource(kind: str, name: str, *, yes: bool, as_json: bool) -> None:
    """Show the effect of stopping, ask, and stop one thing of the account."""
    name = check_resource_name(name)
    token = require_login("stop what runs in your account")
    say(f"{KIND_WORDS[kind]} {name}. {stop_effect(kind)}")
    _confirm("Stop it?", yes=yes)
    done = open_services().stop_resource(kind, name, token=token)
    print_answer(done, f"{name}: {done.stage}. {done.stage_message}", as_json=as_json)


def watch_stages(services: Services, space: str, hardware: str, token: str | None) -> tuple[spaces.SpaceProgress | None, int]:
    """Show the stages until the Space rests; Ctrl-C ends the watching, and nothing else."""
    say(write_line("acting", "watching"))
    last: spaces.SpaceProgress | None = None
    try:
        with closing(services[watch_space](space, token=token, hardware=hardware)) as stages:  # type: ignore[type-var]
            for last in stages:
                say(progress_line(last))
    except KeyboardInterrupt:
        say(write_line("acting", "unwatched", space=space))
        return last, INTERRUPTED
    return last, DONE if last is not None and last.arrived else FAILED


def files_entry(
    found: Recommendation, catalog: Catalog, framework: str, *, model: str, context_tokens: int, sequences: int
) -> dict[str, Any]:
    """The files for the pick: front matter of the README, app.py, requirements.txt, Dockerfile and the `hf` line; null without one."""
    assert found.pick is not None  # noqa: S101  the caller looks
    setup = write_setup(
        found.pick, catalog, model=model, task=found.task, spec=found.spec, framework=framework,
        context_tokens=context_tokens, sequences=sequences, serving=found.workload.serving,
    )  # fmt: skip
    return {
        "framework": setup.framework,
        "readme_front_matter": setup.front_matter,
        "app_py": setup.app,
        "requirements_txt": setup.requirements,
        "dockerfile": setup.dockerfile,
        "command": setup.command,
        "notes": list(setup.notes),
        "sources": [to_json(one) for one in setup.sources],
    }


def files_text(files: Mapping[str, Any]) -> str:
    """The files one below the other, each under its name."""
    named = {
        "readme_front_matter": "README.md",
        "app_py": "app.py",
        "requirements_txt": "requirements.txt",
        "dockerfile": "Dockerfile",
        "command": "Command",
    }
    blocks = [part for key, name in named.items() if files[key] is not None for part in (f"{name}:", "", files[key])]
    return "\n".join([*blocks, *(f"note: {note}" for note in files["notes"])])


def save_files(files: Mapping[str, str], out: str) -> None:
    """Write each file into the folder."""
    folder = Path(out)
    if existing := [name for name in files if (folder / name).exists()]:
        raise BadArgument("out", out, f"a folder without {', '.join(existing)}: no file is replaced")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise BadArgument("out", out, f"a folder that can be written ({error.strerror})") from error


def written_text(answer: FilesAnswer, out: str | None) -> str:
    """The files one below the other, or the folder that they are in, with the command and the notes."""
    blocks = [f"{name}:\n\n{text}" for name, text in answer.files.items()] if out is None else [f"{out}: {', '.join(answer.files)}"]
    lines = [f"runs on: {answer.runs_on}, {answer.precision} with {answer.engine}", f"tested with: {answer.tested_with}"]
    lines += [f"command: {answer.command}"] if answer.command else []
    return "\n".join([*blocks, *lines, *(f"note: {note}" for note in answer.notes)])


_NEVER = -1
_MOST_ALTERNATIVES = 8


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], *, right: int) -> list[str]:
    """Aligned columns; the last `right` ones lean to the right, as figures do."""
    widths = [max(len(row[column]) for row in (heads, *rows)) for column in range(len(heads))]
    first = len(heads) - right
    return [
        "  ".join(
            cell.rjust(width) if column >= first else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in (heads, *rows)
    ]


Priced = spaces.TierEntry | spaces.ActionAnswer | spaces.SpaceStatus


def note_lines(statements: Iterable[Statement]) -> list[str]:
    """Each distinct caveat or reason as a line."""
    return [f"note: {sentence(statement)}" for statement in dict.fromkeys(statements)]


def rate(entry: Priced) -> str:
    """A price per hour and month: "$0.80 an hour ($576 a month of 30 days around the clock)"."""
    return "free" if entry.usd_per_hour == 0 else _price(entry)


def _price(entry: Priced) -> str:
    """As `rate`, with $0 in figures."""
    if entry.usd_per_hour is None or entry.usd_per_month is None:
        return write_text("cards", "prices", "unknown")
    return write_line("prices", "rate", hourly=usd(entry.usd_per_hour), monthly=usd(entry.usd_per_month))


def sleep_words(after_s: int | None) -> str:
    """A sleep time: -1 never, `None` not documented."""
    if after_s is None:
        return "not documented"
    return "never" if after_s == _NEVER else f"after {after_s:,} s without a visit"


def preview_lines(preview: spaces.ActionPreview) -> list[str]:
    """Effect and price of an action, before it is confirmed."""
    before, after = preview.before, preview.after
    lines = [f"{preview.space}: {preview.stage_message} Now on {before.hardware or 'no hardware'}, {rate(before)}."]
    if preview.action == "switch":
        each = write_line("prices", "each", replicas=preview.replicas) if preview.replicas > 1 else ""
        lines.append(f"{after.hardware} ({after.name}) costs {_price(after)}{each}.")
    lines += preview.effects
    change, monthly = preview.change_usd_per_hour, preview.change_usd_per_month
    if change and monthly:
        more = "more" if change > 0 else "less"
        lines.append(write_line("prices", more, hourly=usd(abs(change)), monthly=usd(abs(monthly))))
    lines += note_lines(preview.caveats)
    return [*lines, prices_line(preview.prices)]


def prices_line(prices: PriceState) -> str:
    """Which prices these are, and how old."""
    line = write_line("prices", "live" if prices.basis == "live" else "bundled", checked=prices.checked)
    return f"{line} {old_prices(prices)}".rstrip()


def progress_line(progress: spaces.SpaceProgress) -> str:
    """A Space under way, as one line."""
    trouble = f" ({progress.trouble})" if progress.trouble else ""
    failed = f" {progress.error}" if progress.error else ""
    on = progress.hardware or "no hardware"
    return f"{progress.elapsed_s:6.0f} s  {progress.stage}  on {on}. {progress.stage_message}{failed}{trouble}"


def action_lines(done: spaces.ActionAnswer, last: spaces.SpaceProgress | None) -> str:
    """The state in which an action ended, as lines."""
    state = last or done
    on = state.hardware or state.requested_hardware or "no hardware"
    line = f"{done.space}: {state.stage} on {on}, {rate(state)}; sleeps: {sleep_words(state.sleep_time_s)}."
    if last is None or last.arrived:
        return line
    return "\n".join((line, write_line("acting", "not_running", error=last.error or "").rstrip()))


def status_text(status: spaces.SpaceStatus) -> str:
    """State of a Space, its hardware, and the price."""
    changing = f" → {status.requested_hardware}" if status.changing else ""
    billed = {True: "billed now", False: "not billed now", None: write_line("prices", "billed_unknown")}[status.billed_now]
    rows = [
        ("stage", f"{status.stage}: {status.stage_message}"),
        ("hardware", f"{status.hardware or status.requested_hardware or 'none'} {status.hardware_name or ''}".rstrip() + changing),
        ("price", f"{rate(status)}; {billed}"),
        ("replicas", str(status.replicas or 1)),
        ("sleep", status.sleep_message),
        ("volumes", ", ".join(f"{one.source} at {one.mount_path}" for one in status.volumes) or "none"),
        ("models", ", ".join(status.models) or "none linked"),
        *([("error", status.error)] if status.error else []),
    ]
    return "\n".join(
        [f"{status.space} ({status.sdk or 'no SDK'})", *(f"  {name:<9} {text}" for name, text in rows), *note_lines(status.caveats)]
    )


def tiers_text(hardware: Sequence[ListedHardware]) -> str:
    """The tiers, as the platform lists them."""
    rows = [
        (
            row.id,
            row.name if row.status == "listed" else f"{row.name} (gone since {row.since or 'a day not known'})",
            "-" if row.vram_bytes_per_accelerator is None else gib(row.vram_bytes_per_accelerator * row.accelerator_count),
            "-" if row.vcpu is None else str(row.vcpu),
            "-" if row.ram_bytes is None else gib(row.ram_bytes),
            usd_per_hour(row.usd_per_hour) if row.status == "listed" else "-",
            usd_per_month(row.usd_per_hour * HOURS_PER_MONTH) if row.usd_per_hour is not None and row.status == "listed" else "-",
        )
        for row in hardware
    ]
    lines = table(("tier", "hardware", "GPU memory", "vCPU", "RAM", "USD/hour", "USD/month"), rows, right=5)
    return "\n".join([*lines, write_line("prices", "month")])


def _place(entry: Entry) -> tuple[str, ...]:
    memory, speed, cost = entry.memory, entry.speed, entry.cost
    pace = speed.decode_tokens_per_s
    return (
        entry.hardware,
        entry.precision,
        f"{entry.engine} (Docker)" if entry.sdk == "docker" else entry.engine,
        entry.verdict,
        "-" if memory is None else gib(memory.per_device_bytes),
        "-" if pace is None else tokens_per_s(pace),
        usd_per_hour(cost.usd_per_hour),
        usd_per_month(cost.total_usd_per_month),
    )


_PLACE = ("tier", "precision", "engine", "verdict", "per device", "speed", "USD/hour", "USD/month")


def recommendation_text(answer: Recommendation, asked: str) -> str:
    """The pick with its reasons, the alternatives, and how many were rejected; `asked` is the model as it was named."""
    named = answer.model or ("Pasted config.json" if asked.lstrip().startswith("{") else asked.strip() or "No model")
    lines = [f"{named}: {answer.task}"]
    if answer.pick is None:
        lines.append(write_line("answers", "none"))
        lines += [f"  {row.hardware}: {sentence(row.reason)}" for row in answer.rejected]
    else:
        pick = answer.pick
        lines += [f"Pick: {pick.hardware} ({pick.name})", *(f"  - {sentence(reason)}" for reason in pick.reasons), ""]
        lines += table(_PLACE, [_place(entry) for entry in answer.ranked[:_MOST_ALTERNATIVES]], right=4)
        left = len(answer.ranked) - _MOST_ALTERNATIVES
        more = write_line("answers", "more", more=left) if left > 0 else ""
        lines.append(more + write_line("answers", "rejected", rejected=len(answer.rejected)))
    if answer.own is not None:
        lines.append(own_text(answer.own))
    notes = note_lines((*answer.notes, *answer.caveats))
    return "\n".join([*lines, *notes, prices_line(answer.prices)])


def _saving(usd_per_month: Decimal | None) -> str:
    if not usd_per_month:
        return ""
    return write_line("answers", "saves" if usd_per_month > 0 else "costs", monthly=usd(abs(usd_per_month)))


def right_size_text(answer: spaces.RightSizeAnswer) -> str:
    """The recommendation, compared with the current tier."""
    current, pick, saving = answer.current, answer.pick, answer.saving_usd_per_month
    code = "nothing" if answer.decision == "none" else answer.decision
    decision = write_line("answers", code, hardware=pick.hardware if pick else "")
    hardware, model = current.hardware or "no hardware", answer.model or "no model"
    lines = [
        write_line("answers", "runs_on", space=answer.space, hardware=hardware, model=model),
        decision + (_saving(saving) if answer.decision == "move" else ""),
        *(f"  - {sentence(reason)}" for reason in answer.reasons),
    ]
    if answer.ranked:
        lines += ["", *table(_PLACE, [_place(entry) for entry in answer.ranked[:_MOST_ALTERNATIVES]], right=4)]
    notes = note_lines((*answer.notes, *answer.caveats))
    return "\n".join([*lines, *notes, prices_line(answer.prices)])


def account_text(answer: spaces.AccountOverview) -> str:
    """Everything that an account pays for, most expensive first, the sums, and the kinds that could not be listed."""
    rows = [
        (
            row.kind,
            row.name,
            row.hardware or "-",
            row.stage,
            row.idling.replace("_", " "),
            "-" if row.usd_per_hour is None else usd(row.usd_per_hour),
            "-" if row.usd_per_month is None else usd(row.usd_per_month),
        )
        for row in answer.resources
    ]
    lines = table(("kind", "name", "hardware", "stage", "when idle", "USD/hour now", "USD/month"), rows, right=2)
    sums = {"hourly": usd(answer.usd_per_hour), "monthly": usd(answer.usd_per_month)}
    total = write_line("prices", "account", owner=answer.owner, **sums)
    refused = [f"{KIND_WORDS[one.kind]}s are not listed: {one.message}" for one in answer.not_listed]
    notes = note_lines(answer.caveats)
    return "\n".join([*lines, total, *refused, *notes, prices_line(answer.prices)])


def explanation_text(answer: ExplainAnswer) -> str:
    """An answer of `/explain` for a terminal."""
    lines = [answer.cause] if answer.recognised else [load_wording("explain")["unknown"]]
    if answer.recognised and not answer.certain:
        lines.append(write_line("answers", "likely"))
    lines += [f"  {line}" for line in answer.arithmetic]
    for step in answer.next_steps:
        tier = f"  [{step.hardware}: {usd_per_hour(step.usd_per_hour)}]" if step.hardware else ""
        lines.append(f"- {step.message}{tier}")
        lines += [f"    {step.change}"] if step.change else []
    lines += [f"Also: {other.cause}" for other in answer.also]
    return "\n".join(lines)


def batch_text(answer: BatchAnswer) -> str:
    """The options of a pile of work, the best first, and the command of the pick."""
    rows = [
        (one.hardware, one.platform, one.engine, one.precision, str(one.shards), f"{one.hours:,.1f}", usd(one.usd))
        for one in answer.options[:_MOST_ALTERNATIVES]
    ]
    lines = [sentence(note) for note in answer.notes]
    if rows:
        lines += ["", *table(("hardware", "on", "engine", "precision", "machines", "hours", "USD"), rows, right=3)]
    else:
        reasons = dict.fromkeys(sentence(one.reason) for one in answer.rejected)
        lines += [f"- {reason}" for reason in list(reasons)[:_MOST_ALTERNATIVES]]
    if answer.pick is not None:
        command = answer.pick.command
        lines += ["", *(f"- {sentence(reason)}" for reason in answer.pick.reasons), *(["", command] if command else [])]
    return "\n".join([*lines, *(f"note: {sentence(note)}" for note in answer.caveats)])
