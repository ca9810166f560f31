"""A Space in words: its state and price, the tier that suits it, its account, and every action before and after.

The account is one table of everything that it pays for, most expensive first, with the sum and the effect of stopping a row.
"""

from __future__ import annotations

from decimal import Decimal
from functools import partial
from typing import Literal

from markupsafe import Markup

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
from lib.present.cards import PLATFORM_NAMES, prices_line, reason_lists
from lib.present.html import call_macro, render_html, trusted, with_small
from lib.present.markup import answer_actions, escape
from lib.present.numbers import span, usd, usd_per_hour, usd_per_month, whole
from lib.present.sentences import say, sentence, stage_words
from lib.present.tables import Key, TableTools, answer_files, csv_text, render_table

_say = partial(say, "cards", "space")
STATIC = "static"
_SDKS = {"gradio": "Gradio", "docker": "Docker", STATIC: "static files", "streamlit": "Streamlit"}


def sleep_words(seconds: int) -> str:
    """A sleep time: "1 hour", "90 minutes", "never"."""
    return "never" if seconds < 0 else span(seconds, days=True)


def tier_words(name: str | None, hardware: str | None) -> Markup:
    """A tier by its name; one without a name by its id."""
    return call_macro("parts.html.j2", "tier", name, hardware)


def price_words(usd_hourly: Decimal | None) -> str:
    """A price per hour inside a sentence: "$0.80 per hour", "free", "no list price"."""
    words = usd_per_hour(usd_hourly)
    return f"{words} per hour" if words.startswith("$") else words


def billed_words(status: SpaceStatus) -> str:
    """Whether it is billed now, and when it sleeps."""
    if status.sdk == STATIC:
        return _say("free")
    hourly, sleep_s = price_words(status.usd_per_hour), status.sleep_time_s
    if status.billed_now and sleep_s is not None and sleep_s > 0:
        return _say("billed_until", hourly=hourly, time=sleep_words(sleep_s))
    if status.billed_now is None:
        code = "bill_unknown"
    else:
        code = "billed" if status.billed_now else "free" if status.usd_per_hour == 0 else "not_billed"
    return f"{_say(code, hourly=hourly)} {status.sleep_message}"


def status_card(status: SpaceStatus) -> str:
    """The stage in a sentence, hardware and price, requested hardware, sleep, replicas, volumes, models."""
    prices: list[tuple[str, str]] = []
    if status.sdk != STATIC:
        hourly, monthly = usd_per_hour(status.usd_per_hour), usd_per_month(status.usd_per_month)
        known = (hourly, monthly) if status.hardware else ("–", "–")
        titles = ("Hardware", "Price per hour", _say("always_awake"))
        prices = list(zip(titles, (tier_words(status.hardware_name, status.hardware), *known), strict=True))
    facts = [] if status.sdk == STATIC else _details(status)
    sdk = _SDKS.get(str(status.sdk), status.sdk or "SDK unknown")
    return render_html("space_status.html.j2", status=status, sdk=sdk, billed=billed_words(status), prices=prices, facts=facts)


def _details(status: SpaceStatus) -> list[tuple[str, str]]:
    facts: list[tuple[str, str]] = []
    if status.changing:
        bill = f", {usd_per_month(status.requested_usd_per_month)} per month" if status.requested_usd_per_month else ""
        facts.append(("Asked for", tier_words(None, status.requested_hardware) + f", {price_words(status.requested_usd_per_hour)}{bill}"))
    return [
        *facts,
        ("Replicas", _replicas(status)),
        ("Volumes", Markup("<br>").join(map(_volume, status.volumes)) or "none"),
        ("Models", ", ".join(status.models) or "none linked"),
    ]


def _replicas(status: SpaceStatus) -> str:
    replicas, target = status.replicas, status.requested_replicas
    words = whole(replicas, "not told") + (f", {whole(target)} asked for" if target is not None and target != replicas else "")
    if (replicas or 1) > 1 and status.total_usd_per_hour:
        words += _say("per_replicas", hourly=usd(status.total_usd_per_hour), monthly=usd_per_month(status.total_usd_per_month))
    return words


def _volume(volume: Volume) -> Markup:
    access = {True: ", read-only", False: ", written to", None: ""}[volume.read_only]
    return Markup("{} {} at <code>{}</code>{}").format(volume.type, volume.source, volume.mount_path, access)


def status_text(status: SpaceStatus) -> str:
    """The same in a few plain lines."""
    return _say(
        "hardware_now",
        space=status.space,
        stage=status.stage_message,
        hardware_id=status.hardware or "no hardware",
        hourly=usd_per_hour(status.usd_per_hour),
        monthly=usd_per_month(status.usd_per_month),
        billed=billed_words(status),
    )


def size_card(answer: RightSizeAnswer) -> str:
    """The recommended tier next to the current one: the saving or cost of moving, and the reasons."""
    pick, current = answer.pick, answer.current
    needs = {one.id: one.total_bytes for one in answer.models}
    figures = [("Current", _tier(current.name, current.hardware, current.usd_per_hour, current.total_usd_per_month))]
    if pick is not None and answer.decision == "move":
        cost = pick.cost
        figures.append(("Recommended", _tier(pick.name, pick.hardware, cost.usd_per_hour, cost.total_usd_per_month)))
    reasons = trusted(reason_lists(answer.reasons, [escape(sentence(caveat)) for caveat in dict.fromkeys(answer.caveats)]))
    return render_html(
        "space_size.html.j2", answer=answer, need_bytes=needs.get(answer.model), verdict=_verdict(answer), figures=figures, reasons=reasons
    )


def _tier(name: str | None, hardware: str | None, hourly: Decimal | None, monthly: Decimal | None) -> Markup:
    bill = f", {usd_per_month(monthly)} a month" if monthly else ""
    return with_small(tier_words(name, hardware), price_words(hourly) + bill)


def _verdict(answer: RightSizeAnswer) -> str:
    if answer.decision == "stay":
        return _say("stay")
    pick, saving = answer.pick, answer.saving_usd_per_month
    if pick is None:
        return _say("nothing_runs")
    where = "" if traits_of(pick.platform).runs_spaces else f" ({PLATFORM_NAMES.get(pick.platform, pick.platform)})"
    if saving is None:
        effect = ""
    elif saving == 0:
        effect = " at the same price"
    else:
        effect = f" and save {usd(saving)} a month" if saving > 0 else f" for {usd(-saving)} a month more"
    return f"Move to {pick.name}{where}{effect}"


KIND_WORDS = {"space": "Space", "endpoint": "Inference Endpoint", "job": "Job"}

_FIRST = 6
_HEADS = ("Name", "Hardware", "State", "When idle", "Per hour now", "Per month")
_CSV = (
    "kind", "name", "hardware", "hardware_name", "replicas", "stage", "idling", "idling_message", "usd_per_hour", "usd_per_month",
    "usd_per_month_running",
)  # fmt: skip


def account_card(answer: AccountOverview) -> str:
    """The sum in a heading, the kinds that could not be listed, the table."""
    rows = answer.resources
    head = f"{usd_per_month(answer.usd_per_month)} a month" if answer.usd_per_month else _say("nothing_billed")
    search = "Search" if len(rows) > _FIRST else ""
    keys: list[tuple[Key, ...]] = [
        (row.name, row.hardware, stage_words(row.stage), row.idling, row.usd_per_hour, row.usd_per_month) for row in rows
    ]
    tools = TableTools(keys=keys, first=_FIRST, more="cheaper ones", search=search)
    caption = _say("account", owner=answer.owner)
    table = render_table(caption, _HEADS, list(map(_row, rows)), "account", tools) if rows else ""
    lines = (
        f"{row.name} ({KIND_WORDS[row.kind]}), {row.hardware or 'no hardware'}: {stage_words(row.stage)}, "
        f"{_money(row, row.usd_per_month)} a month"
        for row in rows
    )
    text = f"{answer.owner}: {head}\n" + "\n".join(lines)
    files = answer_files("account", csv_text(_CSV, rows), answer)
    card = render_html(
        "account.html.j2", answer=answer, head=head, billed_rows=sum(bool(row.usd_per_hour) for row in rows), kinds=KIND_WORDS, table=table
    )
    acts = answer_actions(text=text, query=None, files=files)  # names of private Spaces belong into no link
    return card + acts + prices_line(answer.prices)


def _row(row: ResourceEntry) -> tuple[str, ...]:
    replicas = f" × {row.replicas}" if (row.replicas or 1) > 1 else ""
    monthly, running = _money(row, row.usd_per_month), row.usd_per_month_running
    if running and running != row.usd_per_month:
        monthly = with_small(monthly, f"{usd_per_month(running)} if it runs")
    idling = say("cards", "idling", row.idling)
    badge = Markup('<em class="badge lacks">{}</em>').format(idling) if row.idling == "always_on" else idling
    since = Markup("<small>since {} UTC</small>").format(row.since[:16].replace("T", " ")) if row.since else ""
    return (
        with_small(row.name, KIND_WORDS[row.kind]),
        tier_words(row.hardware_name, row.hardware) + replicas,
        Markup("{}{}").format(stage_words(row.stage), since),
        with_small(badge, row.idling_message),
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
    """Effect of stopping it, before anything is done."""
    return str(call_macro("space_notes.html.j2", "stop_review", name, stop_effect(kind)))


def framed_note() -> str:
    """Hidden on a page of its own: inside the Hub's frame a browser may block the sign-in."""
    return str(call_macro("space_notes.html.j2", "framed"))


def stop_effect(kind: str) -> str:
    """The same in a sentence."""
    return say("cards", "stop", kind)


def stop_button(kind: str, name: str) -> str:
    """The words of the button that does it."""
    return f"{'Cancel' if kind == 'job' else 'Pause'} {name}"


def stopped_note(answer: StopAnswer) -> str:
    """That it was done."""
    return str(call_macro("space_notes.html.j2", "stopped", answer.name, stage_words(answer.stage)))


# Actions: the review that names the price, the label that confirms it, the stages on the way.

Action = Literal["switch", "sleep", "pause", "restart", "factory"]

_STEPS = (("BUILDING", "Building"), ("APP_STARTING", "Starting"), ("RUNNING", "Running"))
_OLD_STILL_UP = {"RUNNING_BUILDING": "BUILDING", "RUNNING_APP_STARTING": "APP_STARTING"}


def review_title(action: Action, space: str, tier: str | None, sleep_time_s: int | None) -> str:
    """The pending action, as a heading."""
    if action == "switch":
        return f"Switch {space} to {tier or ''}"
    never = action == "sleep" and (sleep_time_s or 0) < 0
    return say("cards", "action", "never_sleep" if never else action, space=space, time=sleep_words(sleep_time_s or 0))


def confirm_label(action: Action, preview: ActionPreview) -> str:
    """Label of the confirming button: the action, with its price if any."""
    after = preview.after
    hourly = usd_per_hour(after.usd_per_hour)
    each = f" for each of {preview.replicas} replicas" if preview.replicas > 1 else ""
    price = f"at {hourly}/hour{each}" if hourly.startswith("$") else "free of charge" if hourly == "free" else "without a list price"
    match action:
        case "switch":
            return f"Switch to {after.name or after.hardware} {price}"
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
    """The change, now and after, with price per hour and month, the consequences, the rules and the code (markup)."""
    strong = Markup("<strong>{}</strong>")
    rows = [(head, now, strong.format(then) if then != now else then) for head, now, then in _review_rows(action, preview)]
    after = preview.after
    return render_html(
        "space_review.html.j2",
        preview=preview,
        title=review_title(action, preview.space, after.name or after.hardware, after.sleep_time_s),
        table=render_table(_say("before_after"), ("What", "Now", "After"), rows, "review"),
        code=trusted(code),
    )


def _review_rows(action: Action, preview: ActionPreview) -> list[tuple[str, str, str]]:
    """Hardware, prices and sleep, before and after; a Space at rest is not billed at any tier."""
    before, after = preview.before, preview.after
    change = preview.change_usd_per_hour
    rests_now = action in {"restart", "factory"} and change is not None and change > 0
    prices = [
        (head, "not billed" if rests_now else words(now), "not billed" if action == "pause" and now else words(then))
        for head, words, now, then in (
            ("Price per hour", usd_per_hour, before.usd_per_hour, after.usd_per_hour),
            (_say("always_awake"), usd_per_month, before.usd_per_month, after.usd_per_month),
        )
    ]
    hardware = ("Hardware", tier_words(before.name, before.hardware), tier_words(after.name, after.hardware))
    sleeps = ("Sleeps after", _sleep(before.sleep_time_s), _sleep(after.sleep_time_s))
    return prices if action == "pause" else [hardware, *prices, sleeps]


def _sleep(seconds: int | None) -> str:
    return "not documented" if seconds is None else sleep_words(seconds)


def format_elapsed(seconds: float) -> str:
    """A time that has passed: "42 s", "3 min 05 s"."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"


def progress_card(progress: SpaceProgress) -> str:
    """The stages on the way, the one reached marked, with the time since and the words of the stage."""
    stage = _OLD_STILL_UP.get(progress.stage, progress.stage)
    names = [name for name, _ in _STEPS]
    at = names.index(stage) if stage in names and (stage != "RUNNING" or progress.arrived) else -1
    steps = [
        (name, title, "done" if index < at or (index == at and progress.arrived) else "now" if index == at else "ahead")
        for index, (name, title) in enumerate(_STEPS)
    ]
    verdict, kind = _progress_verdict(progress)
    elapsed = format_elapsed(progress.elapsed_s)
    return render_html("space_progress.html.j2", progress=progress, verdict=verdict, kind=kind, elapsed=elapsed, steps=steps)


def _progress_verdict(progress: SpaceProgress) -> tuple[str, str]:
    hardware = f"on {progress.hardware_name or progress.hardware}, {price_words(progress.usd_per_hour)}" if progress.hardware else ""
    if progress.arrived:
        return f"It runs {hardware}." if hardware else "It runs.", "arrived"
    if progress.failed:
        return progress.stage_message, "failed"
    if progress.done:
        return _say("left", stage=progress.stage_message), "left"
    if progress.stage == "RUNNING":
        return _say("requested"), "going"
    return progress.stage_message, "going"


def sending_card(action: Action, space: str) -> str:
    """While the Hub is asked to do it."""
    return str(call_macro("space_notes.html.j2", "sending", say("cards", "asking", action), space))


def done_card(action: Action, answer: ActionAnswer) -> str:
    """The Hub's answer to an action that needs no watching."""
    if action == "pause":
        words = _say("paused")
    else:
        seconds = answer.sleep_time_s
        words = _say("sleep_unknown") if seconds is None else f"Sleep time: {sleep_words(seconds)}."
    return str(call_macro("space_notes.html.j2", "done", answer, stage_words(answer.stage), words))


def stopped_card() -> str:
    """After “Stop watching”."""
    return str(call_macro("space_notes.html.j2", "unwatched"))
