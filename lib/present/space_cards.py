"""A Space in words: what it is doing and what that costs, the tier that suits it, its account, and every action before and after.

The account is one table of everything that it pays for, dearest first, with the sum, and what stopping one row means.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Literal

from lib.answers.spaces import (
    AccountOverview,
    ActionAnswer,
    ActionPreview,
    ResourceEntry,
    RightSizeAnswer,
    SpaceProgress,
    SpaceStatus,
    StopAnswer,
    Volume,
)
from lib.platforms import traits_of
from lib.present.cards import PLATFORM_NAMES, note_list, prices_line, reason_lists
from lib.present.markup import answer_actions, bullet_list, definition_list, escape, refusal_note
from lib.present.numbers import gib, span, usd, usd_per_hour, usd_per_month, whole
from lib.present.sentences import sentence
from lib.present.tables import Key, TableTools, answer_files, csv_text, table_markup

STATIC = "static"
_SDKS = {"gradio": "Gradio", "docker": "Docker", STATIC: "static files", "streamlit": "Streamlit"}


def sleep_words(seconds: int) -> str:
    """A sleep time: "1 hour", "90 minutes", "never"."""
    return "never" if seconds < 0 else span(seconds, days=True)


def tier_words(name: str | None, hardware: str | None) -> str:
    """A tier by its name with its id beside; markup."""
    if hardware is None:
        return "none"
    code = f"<code>{escape(hardware)}</code>"
    return code if name is None or name == hardware else f"{escape(name)} {code}"


def price_words(usd_hourly: Decimal | None) -> str:
    """A price per hour inside a sentence: "$0.80 per hour", "free", "no list price"."""
    words = usd_per_hour(usd_hourly)
    return f"{words} per hour" if words.startswith("$") else words


def billed_words(status: SpaceStatus) -> str:
    """Whether money is running now."""
    if status.sdk == STATIC:
        return "Free of charge."
    if status.billed_now is None:
        return "Whether it is billed now is not known."
    if status.billed_now:
        return "Billed now, used or not."
    return "Free of charge." if status.usd_per_hour == 0 else "Not billed now."


def status_card(status: SpaceStatus) -> str:
    """The stage in a sentence, hardware and price, what was asked for, sleep, replicas, volumes, models."""
    what = [_SDKS.get(str(status.sdk), escape(status.sdk or "SDK not told")), "private" if status.private else "public"]
    if status.sdk == STATIC:
        note = "<p>A static Space is files that are served, without hardware: there is nothing to switch or size.</p>"
    else:
        hourly, monthly = usd_per_hour(status.usd_per_hour), usd_per_month(status.usd_per_month)
        prices = [("Price per hour", hourly), ("Price per month, always awake", monthly)]
        known = prices if status.hardware else [(title, "–") for title, _ in prices]
        note = definition_list([("Hardware", tier_words(status.hardware_name, status.hardware)), *known])
    facts = [] if status.sdk == STATIC else _details(status)
    error = refusal_note(status.error, "The platform says:") if status.error else ""
    return (
        '<section class="card space" aria-labelledby="space-stage">'
        f'<p class="eyebrow">{escape(status.space)} · {" · ".join(what)}</p>'
        f'<h2 id="space-stage">{escape(status.stage_message)} <code>{escape(status.stage)}</code></h2>'
        f'<p class="quiet">{billed_words(status)}</p>{note}{error}{definition_list(facts, "facts")}'
        f"{note_list(status.caveats)}</section>"
    )


def _details(status: SpaceStatus) -> list[tuple[str, str]]:
    facts = []
    if status.changing:
        bill = f", {usd_per_month(status.requested_usd_per_month)} per month" if status.requested_usd_per_month else ""
        request = f"{tier_words(None, status.requested_hardware)}, {price_words(status.requested_usd_per_hour)}"
        facts.append(("Asked for", request + bill))
    return [
        *facts,
        ("Sleep", escape(status.sleep_message)),
        ("Replicas", _replicas(status)),
        ("Volumes", "<br>".join(map(_volume, status.volumes)) or "none"),
        ("Models", ", ".join(map(escape, status.models)) or "none linked"),
    ]


def _replicas(status: SpaceStatus) -> str:
    replicas, target = status.replicas, status.requested_replicas
    words = whole(replicas, "not told") + (f", {whole(target)} asked for" if target is not None and target != replicas else "")
    if (replicas or 1) > 1 and status.total_usd_per_hour:
        words += f": {usd(status.total_usd_per_hour)} per hour, {usd_per_month(status.total_usd_per_month)} per month together"
    return words


def _volume(volume: Volume) -> str:
    access = {True: ", read-only", False: ", written to", None: ""}[volume.read_only]
    return f"{escape(volume.type)} {escape(volume.source)} at <code>{escape(volume.mount_path)}</code>{access}"


def status_text(status: SpaceStatus) -> str:
    """The same in a few plain lines."""
    hardware = status.hardware or "no hardware"
    price = f"{usd_per_hour(status.usd_per_hour)} per hour, {usd_per_month(status.usd_per_month)} per month"
    return f"{status.space}: {status.stage_message}\nOn {hardware}, {price}. {billed_words(status)}\n{status.sleep_message}"


def size_card(answer: RightSizeAnswer) -> str:
    """The recommended tier beside the current one: what moving saves or costs, and why."""
    pick, current = answer.pick, answer.current
    needs = {one.id: one.total_bytes for one in answer.models}
    need = f", which takes {gib(needs[answer.model])} for one request" if answer.model in needs else ""
    figures = [("Current", _tier(current.name, current.hardware, current.usd_per_hour, current.total_usd_per_month))]
    if pick is not None and answer.decision == "move":
        cost = pick.cost
        figures.append(("Recommended", _tier(pick.name, pick.hardware, cost.usd_per_hour, cost.total_usd_per_month)))
    reasons = reason_lists(answer.reasons, [escape(sentence(caveat)) for caveat in dict.fromkeys(answer.caveats)])
    why = escape(current.reason)
    name = escape(answer.model or "the model")
    head = f'<p class="eyebrow">The right size for {name}{need}</p><h2 id="size-name">{_verdict(answer)}</h2>'
    today = f'<p class="quiet">{"Now" if current.fits is not False else "The current tier does not run it"}: {why}</p>' if why else ""
    body = f"{today}{definition_list(figures)}{reasons}"
    return f'<section class="card size" aria-labelledby="size-name">{head}{body}</section>'


def _tier(name: str | None, hardware: str | None, hourly: Decimal | None, monthly: Decimal | None) -> str:
    price = price_words(hourly)
    bill = f", {usd_per_month(monthly)} a month" if monthly else ""
    return f"{tier_words(name, hardware)}<small>{price}{bill}</small>"


def _verdict(answer: RightSizeAnswer) -> str:
    if answer.decision == "stay":
        return "Already on the right tier"
    pick, saving = answer.pick, answer.saving_usd_per_month
    if pick is None:
        return "Nothing on the chosen platforms runs it"
    where = "" if traits_of(pick.platform).runs_spaces else f" ({escape(PLATFORM_NAMES.get(pick.platform, pick.platform))})"
    to = f"Move to <code>{escape(pick.hardware)}</code>{where}"
    if saving is None:
        return to
    if saving == 0:
        return f"{to} at the same price"
    return f"{to} and save {usd(saving)} a month" if saving > 0 else f"{to} for {usd(-saving)} a month more"


KIND_WORDS = {"space": "Space", "endpoint": "Inference Endpoint", "job": "Job"}
_IDLING = {
    "always_on": "never stops by itself",
    "sleeps_after": "sleeps when idle",
    "ends": "ends by itself",
    "asleep": "asleep",
    "paused": "paused",
    "not_running": "not running",
    "free": "free",
    "unknown": "not known",
}
STOP_EFFECTS = {
    "space": "It is paused: it stops, is not billed, and only its owner can restart it.",
    "endpoint": "It is paused: it stops, is not billed, and answers nothing until it is resumed by hand.",
    "job": "It is cancelled: it ends now, and what it has not saved is lost.",
}
_FIRST = 6
_HEADS = ("Name", "Hardware", "State", "When idle", "Per hour now", "Per month")
_CSV = (
    "kind", "name", "hardware", "hardware_name", "replicas", "stage", "idling", "idling_message", "usd_per_hour", "usd_per_month",
    "usd_per_month_running",
)  # fmt: skip


def account_card(answer: AccountOverview) -> str:
    """The sum in a heading, what was not listed, the table."""
    rows = answer.resources
    billed_rows = sum(bool(row.usd_per_hour) for row in rows)
    idle = answer.always_on
    head = f"{usd_per_month(answer.usd_per_month)} a month" if answer.usd_per_month else "Nothing is billed by the month now"
    summary = (
        f"{len(rows)} found, {billed_rows} billed now at {usd(answer.usd_per_hour)} per hour together. "
        + (f"{idle} of them never stop by themselves. " if idle > 1 else "One of them never stops by itself. " if idle else "")
        + "The month is 720 hours at what is billed now, and less where something sleeps; Jobs end by themselves and are not in it."
    )
    refusals = "".join(refusal_note(one.message, f"{KIND_WORDS[one.kind]}s are not listed.") for one in answer.not_listed)
    search = "Search" if len(rows) > _FIRST else ""
    keys: list[tuple[Key, ...]] = [(row.name, row.hardware, row.stage, row.idling, row.usd_per_hour, row.usd_per_month) for row in rows]
    tools = TableTools(keys=keys, first=_FIRST, more="cheaper ones", search=search)
    caption = f"What runs in {answer.owner}, most expensive first"
    table = table_markup(caption, _HEADS, list(map(_row, rows)), "account", tools) if rows else ""
    lines = (
        f"{row.name} ({KIND_WORDS[row.kind]}), {row.hardware or 'no hardware'}: {row.stage}, {_money(row, row.usd_per_month)} a month"
        for row in rows
    )
    text = f"{answer.owner}: {head}\n" + "\n".join(lines)
    files = answer_files("account", csv_text(_CSV, rows), answer)
    acts = answer_actions(text=text, query=None, files=files)  # names of private Spaces belong into no link
    return (
        '<section class="card account" aria-labelledby="account-sum">'
        f'<p class="eyebrow">{escape(answer.owner)}</p><h2 id="account-sum">{head}</h2><p class="quiet">{summary}</p>'
        f"{refusals}{table}{note_list(answer.caveats)}</section>{acts}{prices_line(answer.prices)}"
    )


def _row(row: ResourceEntry) -> tuple[str, ...]:
    replicas = f" × {row.replicas}" if (row.replicas or 1) > 1 else ""
    name = f"{escape(row.name)}<small>{KIND_WORDS[row.kind]}</small>"
    monthly = _money(row, row.usd_per_month)
    if row.usd_per_month_running and row.usd_per_month_running != row.usd_per_month:
        monthly += f"<small>{usd_per_month(row.usd_per_month_running)} if it runs</small>"
    idling = _IDLING[row.idling]
    badge = f'<em class="badge lacks">{idling}</em>' if row.idling == "always_on" else idling
    since = f"<small>since {escape(row.since[:16].replace('T', ' '))} UTC</small>" if row.since else ""
    return (
        name,
        tier_words(row.hardware_name, row.hardware) + replicas,
        f"<code>{escape(row.stage)}</code>{since}",
        f"{badge}<small>{escape(row.idling_message)}</small>",
        _money(row, row.usd_per_hour),
        monthly,
    )


def _money(row: ResourceEntry, amount: Decimal | None) -> str:
    """A price; "–" for a resource that is not billed now, which does not make it free."""
    return usd(amount) if amount else "free" if row.idling == "free" else "–"


def stop_label(row: ResourceEntry) -> str:
    """A row among those that can be stopped: its name, kind and price."""
    return f"{row.name} · {KIND_WORDS[row.kind]} · {usd_per_hour(row.usd_per_hour)} per hour"


def stop_review(kind: str, name: str) -> str:
    """What stopping it means, before anything is done."""
    return (
        '<section class="card review" aria-label="Review">'
        f"<h3>Stop {escape(name)}</h3><p>{STOP_EFFECTS[kind]} Nothing has been changed yet.</p></section>"
    )


def stop_button(kind: str, name: str) -> str:
    """The words of the button that does it."""
    return f"{'Cancel' if kind == 'job' else 'Pause'} {name}"


def stopped_note(answer: StopAnswer) -> str:
    """That it was done; in the Hub's own word for the stage."""
    result = f"{escape(answer.name)}: <code>{escape(answer.stage)}</code>."
    return f'<p class="hint" role="status">{result} List again to see the new sum.</p>'


# Actions: the review that names the price, the label that confirms it, the stages on the way.

Action = Literal["switch", "sleep", "pause", "restart", "factory"]

_STEPS = (("BUILDING", "Building"), ("APP_STARTING", "Starting"), ("RUNNING", "Running"))
_OLD_STILL_UP = {"RUNNING_BUILDING": "BUILDING", "RUNNING_APP_STARTING": "APP_STARTING"}


def review_title(action: Action, space: str, hardware: str | None, sleep_time_s: int | None) -> str:
    """What is about to be done, as a heading; markup."""
    name = escape(space)
    match action:
        case "switch":
            return f"Switch {name} to <code>{escape(hardware or '')}</code>"
        case "sleep":
            return f"Let {name} never sleep" if (sleep_time_s or 0) < 0 else f"Let {name} sleep after {sleep_words(sleep_time_s or 0)}"
        case "pause":
            return f"Pause {name}"
        case "restart":
            return f"Restart {name}"
        case "factory":
            return f"Build {name} anew and restart it"


def confirm_label(action: Action, preview: ActionPreview) -> str:
    """What the confirming button says: the deed, and its price where it costs."""
    after = preview.after
    hourly = usd_per_hour(after.usd_per_hour)
    each = f" for each of {preview.replicas} replicas" if preview.replicas > 1 else ""
    price = f"at {hourly}/hour{each}" if hourly.startswith("$") else "free of charge" if hourly == "free" else "without a list price"
    match action:
        case "switch":
            return f"Switch to {after.hardware} {price}"
        case "sleep":
            seconds = int(after.sleep_time_s or 0)
            return "Never sleep" if seconds < 0 else f"Sleep after {sleep_words(seconds)}"
        case "pause":
            return f"Pause {preview.space}"
        case "restart":
            return f"Restart {price}"
        case "factory":
            return f"Factory restart {price}"


def review_card(action: Action, preview: ActionPreview, code: str = "") -> str:
    """What would change, now and after, with price per hour and month, what follows from it, the rules, and the code that does it."""
    rows = [(head, now, f"<strong>{then}</strong>" if then != now else then) for head, now, then in _review_rows(action, preview)]
    effects = bullet_list([escape(effect) for effect in preview.effects], "why")
    cautions = note_list(preview.caveats)
    after = preview.after
    deed = review_title(action, preview.space, after.hardware, after.sleep_time_s)
    return (
        '<section class="card review" aria-labelledby="review-name"><p class="eyebrow">Nothing has been changed yet</p>'
        f'<h2 id="review-name">{deed}</h2><p class="quiet">{escape(preview.stage_message)}{_change(preview)}</p>'
        f"{table_markup('Before and after, for one replica', ('What', 'Now', 'After'), rows, 'review')}{effects}"
        + (f"<h3>Keep in mind</h3>{cautions}" if cautions else "")
        + f"{code}</section>"
    )


def _review_rows(action: Action, preview: ActionPreview) -> list[tuple[str, str, str]]:
    """Hardware, prices and sleep, before and after; a Space at rest is not billed, whatever its tier costs."""
    before, after = preview.before, preview.after
    change = preview.change_usd_per_hour
    rests_now = action in {"restart", "factory"} and change is not None and change > 0
    prices = [
        (head, "not billed" if rests_now else words(now), "not billed" if action == "pause" and now else words(then))
        for head, words, now, then in (
            ("Price per hour", usd_per_hour, before.usd_per_hour, after.usd_per_hour),
            ("Price per month, always awake", usd_per_month, before.usd_per_month, after.usd_per_month),
        )
    ]
    hardware = ("Hardware", tier_words(before.name, before.hardware), tier_words(after.name, after.hardware))
    sleeps = ("Sleeps after", _sleep(before.sleep_time_s), _sleep(after.sleep_time_s))
    return prices if action == "pause" else [hardware, *prices, sleeps]


def _sleep(seconds: int | None) -> str:
    return "not documented" if seconds is None else sleep_words(seconds)


def _change(preview: ActionPreview) -> str:
    hourly, monthly = preview.change_usd_per_hour, preview.change_usd_per_month
    if not hourly or not monthly:
        return ""
    word = "more" if hourly > 0 else "less"
    every = f" for all {preview.replicas} replicas" if preview.replicas > 1 else ""
    return f" <strong>{usd(abs(hourly))} per hour {word}, up to {usd(abs(monthly))} a month {word}{every}.</strong>"


def format_elapsed(seconds: float) -> str:
    """A time that has passed: "42 s", "3 min 05 s"."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"


def progress_card(progress: SpaceProgress) -> str:
    """The stages on the way, the one reached marked, with the time since and the words of the stage."""
    stage = _OLD_STILL_UP.get(progress.stage, progress.stage)
    names = [name for name, _ in _STEPS]
    at = names.index(stage) if stage in names and (stage != "RUNNING" or progress.arrived) else -1
    items = "".join(_step(index, at, name, words, arrived=progress.arrived) for index, (name, words) in enumerate(_STEPS))
    verdict, kind = _progress_verdict(progress)
    missed = f"The Hub did not answer this time, and is asked again: {escape(progress.trouble)}" if progress.trouble else ""
    trouble = f'<p class="quiet">{missed}</p>' if missed else ""
    # Until the end `assets/page.js` lets the time go on between two looks.
    ticking = "" if progress.done else f' data-elapsed="{progress.elapsed_s}"'
    why = f'<p class="quiet">The platform says: {escape(progress.error)}</p>' if progress.error else ""
    return (
        f'<section class="card progress {kind}" aria-labelledby="progress-now">'
        f'<p class="eyebrow">{escape(progress.space)} · <span{ticking}>{format_elapsed(progress.elapsed_s)}</span></p>'
        f'<h2 id="progress-now" role="status">{verdict} <code>{escape(progress.stage)}</code></h2>'
        f'<ol class="stages">{items}</ol>{why}{trouble}</section>'
    )


def _step(index: int, at: int, name: str, words: str, *, arrived: bool) -> str:
    state = "done" if index < at or (index == at and arrived) else "now" if index == at else "ahead"
    current = ' aria-current="step"' if state == "now" else ""
    word = {"done": "done", "now": "now", "ahead": "to come"}[state]
    return f'<li class="{state}"{current}>{words} <code>{name}</code><span class="sr"> {word}</span></li>'


def _progress_verdict(progress: SpaceProgress) -> tuple[str, str]:
    hardware = f"on {escape(progress.hardware)}, {price_words(progress.usd_per_hour)}" if progress.hardware else ""
    if progress.arrived:
        return f"It runs {hardware}." if hardware else "It runs.", "arrived"
    if progress.failed:
        return escape(progress.stage_message), "failed"
    if progress.done:
        return f"{escape(progress.stage_message)} It is no longer watched; “Load Space” shows it again.", "left"
    if progress.stage == "RUNNING":
        return "The Hub has taken the request; the change has not begun.", "going"
    return escape(progress.stage_message), "going"


def sending_card(action: Action, space: str) -> str:
    """While the Hub is asked to do it."""
    words = {
        "switch": "Asking the Hub to switch",
        "sleep": "Asking the Hub for the new sleep time of",
        "pause": "Asking the Hub to pause",
        "restart": "Asking the Hub to restart",
        "factory": "Asking the Hub to rebuild",
    }[action]
    return f'<section class="card progress going"><p class="quiet" role="status">{words} {escape(space)} …</p></section>'


def done_card(action: Action, answer: ActionAnswer) -> str:
    """What the Hub answered to an action that needs no watching."""
    if action == "pause":
        words = "It is paused and not billed. Only its owner can restart it."
    else:
        seconds = answer.sleep_time_s
        words = "When it sleeps is not documented." if seconds is None else f"Sleep time: {sleep_words(seconds)}."
    return (
        f'<section class="card progress arrived"><p class="eyebrow">{escape(answer.space)}</p>'
        f'<h2 role="status">Done <code>{escape(answer.stage)}</code></h2><p class="quiet">{words}</p>'
        f"{note_list(answer.caveats)}</section>"
    )


def stopped_card() -> str:
    """After “Stop watching”."""
    return (
        '<section class="card progress left"><p class="quiet" role="status">No longer watched. What was asked of the Hub goes on; '
        "“Load Space” shows where it stands, and only another action changes it.</p></section>"
    )
