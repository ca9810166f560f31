"""An action on a Space in words, before and after: the review that names the price, the label to confirm it with, the stages passed."""

from __future__ import annotations

from decimal import Decimal
from typing import Literal

from lib.answers.spaces import ActionAnswer, ActionPreview, SpaceProgress
from lib.present.markup import bullet_list, escape
from lib.present.numbers import usd, usd_per_hour, usd_per_month
from lib.present.space_cards import price_words, sleep_words, tier_words
from lib.present.tables import table_markup

Action = Literal["switch", "sleep", "pause", "restart", "factory"]

_STEPS = (("BUILDING", "Building"), ("APP_STARTING", "Starting"), ("RUNNING", "Running"))
_OLD_STILL_UP = {"RUNNING_BUILDING": "BUILDING", "RUNNING_APP_STARTING": "APP_STARTING"}
_MINUTE = 60


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
    after = preview["after"]
    hourly = usd_per_hour(after["usd_per_hour"])
    each = f" for each of {preview['replicas']} replicas" if preview["replicas"] > 1 else ""
    price = f"at {hourly}/hour{each}" if hourly.startswith("$") else "free of charge" if hourly == "free" else "without a list price"
    match action:
        case "switch":
            return f"Switch to {after['hardware']} {price}"
        case "sleep":
            seconds = int(after["sleep_time_s"] or 0)
            return "Never sleep" if seconds < 0 else f"Sleep after {sleep_words(seconds)}"
        case "pause":
            return f"Pause {preview['space']}"
        case "restart":
            return f"Restart {price}"
        case "factory":
            return f"Factory restart {price}"


def review_card(action: Action, preview: ActionPreview, code: str = "") -> str:
    """What would change, now and after, with price per hour and month, what follows from it, the rules, and the code that does it."""
    rows = [(head, now, f"<strong>{then}</strong>" if then != now else then) for head, now, then in _rows(action, preview)]
    effects = bullet_list([escape(effect) for effect in preview["effects"]], "why")
    cautions = bullet_list([escape(caveat["message"]) for caveat in preview["caveats"]], "notes")
    after = preview["after"]
    deed = review_title(action, preview["space"], after["hardware"], after["sleep_time_s"])
    return (
        '<section class="card review" aria-labelledby="review-name"><p class="eyebrow">Nothing has been changed yet</p>'
        f'<h2 id="review-name">{deed}</h2><p class="quiet">{escape(preview["stage_message"])}{_change(preview)}</p>'
        f"{table_markup('Before and after, for one replica', ('What', 'Now', 'After'), rows, 'review')}{effects}"
        + (f"<h3>Keep in mind</h3>{cautions}" if cautions else "")
        + f"{code}</section>"
    )


def _rows(action: Action, preview: ActionPreview) -> list[tuple[str, str, str]]:
    """Hardware, prices and sleep from now to then; what rests is not billed, whatever its tier costs."""
    before, after = preview["before"], preview["after"]
    change = preview["change_usd_per_hour"]
    rests_now = action in {"restart", "factory"} and change is not None and change > 0
    prices = [
        (head, "not billed" if rests_now else words(now), "not billed" if action == "pause" and now else words(then))
        for head, words, now, then in (
            ("Price per hour", usd_per_hour, before["usd_per_hour"], after["usd_per_hour"]),
            ("Price per month, always awake", usd_per_month, before["usd_per_month"], after["usd_per_month"]),
        )
    ]
    hardware = ("Hardware", tier_words(before["name"], before["hardware"]), tier_words(after["name"], after["hardware"]))
    sleeps = ("Sleeps after", _sleep(before["sleep_time_s"]), _sleep(after["sleep_time_s"]))
    return prices if action == "pause" else [hardware, *prices, sleeps]


def _sleep(seconds: int | None) -> str:
    return "not documented" if seconds is None else sleep_words(seconds)


def _change(preview: ActionPreview) -> str:
    hourly, monthly = preview["change_usd_per_hour"], preview["change_usd_per_month"]
    if hourly is None or monthly is None or Decimal(str(hourly)) == 0:
        return ""
    amount = Decimal(str(hourly))
    word = "more" if amount > 0 else "less"
    every = f" for all {preview['replicas']} replicas" if preview["replicas"] > 1 else ""
    return f" <strong>{usd(abs(amount))} per hour {word}, up to {usd(abs(Decimal(str(monthly))))} a month {word}{every}.</strong>"


def format_elapsed(seconds: float) -> str:
    """A time that has passed: "42 s", "3 min 05 s"."""
    whole = int(seconds)
    return f"{whole} s" if whole < _MINUTE else f"{whole // _MINUTE} min {whole % _MINUTE:02d} s"


def progress_card(progress: SpaceProgress) -> str:
    """The stages on the way, the one reached marked, with the time since and the words of the stage."""
    stage = _OLD_STILL_UP.get(progress["stage"], progress["stage"])
    names = [name for name, _ in _STEPS]
    at = names.index(stage) if stage in names and (stage != "RUNNING" or progress["arrived"]) else -1
    items = "".join(_step(index, at, name, words, arrived=progress["arrived"]) for index, (name, words) in enumerate(_STEPS))
    verdict, kind = _verdict(progress)
    trouble = (
        f'<p class="quiet">The Hub did not answer this time, and is asked again: {escape(progress["trouble"])}</p>'
        if progress["trouble"]
        else ""
    )
    why = f'<p class="quiet">The platform says: {escape(progress["error"])}</p>' if progress["error"] else ""
    return (
        f'<section class="card progress {kind}" aria-labelledby="progress-now">'
        f'<p class="eyebrow">{escape(progress["space"])} · {_clock(progress)}</p>'
        f'<h2 id="progress-now" role="status">{verdict} <code>{escape(progress["stage"])}</code></h2>'
        f'<ol class="stages">{items}</ol>{why}{trouble}</section>'
    )


def _clock(progress: SpaceProgress) -> str:
    """The time since; until the end `assets/page.js` lets it go on between two looks."""
    ticking = "" if progress["done"] else f' data-elapsed="{progress["elapsed_s"]}"'
    return f"<span{ticking}>{format_elapsed(progress['elapsed_s'])}</span>"


def _step(index: int, at: int, name: str, words: str, *, arrived: bool) -> str:
    state = "done" if index < at or (index == at and arrived) else "now" if index == at else "ahead"
    current = ' aria-current="step"' if state == "now" else ""
    word = {"done": "done", "now": "now", "ahead": "to come"}[state]
    return f'<li class="{state}"{current}>{words} <code>{name}</code><span class="sr"> {word}</span></li>'


def _verdict(progress: SpaceProgress) -> tuple[str, str]:
    hardware = f"on {escape(progress['hardware'])}, {price_words(progress['usd_per_hour'])}" if progress["hardware"] else ""
    if progress["arrived"]:
        return f"It runs {hardware}." if hardware else "It runs.", "arrived"
    if progress["failed"]:
        return escape(progress["stage_message"]), "failed"
    if progress["done"]:
        return f"{escape(progress['stage_message'])} It is no longer watched; “Look” shows it again.", "left"
    if progress["stage"] == "RUNNING":
        return "The Hub has taken the request; the change has not begun.", "going"
    return escape(progress["stage_message"]), "going"


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
        seconds = answer["sleep_time_s"]
        words = "When it sleeps is not documented." if seconds is None else f"Sleep time: {sleep_words(seconds)}."
    cautions = bullet_list([escape(caveat["message"]) for caveat in answer["caveats"]], "notes")
    return (
        f'<section class="card progress arrived"><p class="eyebrow">{escape(answer["space"])}</p>'
        f'<h2 role="status">Done <code>{escape(answer["stage"])}</code></h2><p class="quiet">{words}</p>{cautions}</section>'
    )


def stopped_card() -> str:
    """After “Stop watching”."""
    return (
        '<section class="card progress left"><p class="quiet" role="status">No longer watched. What was asked of the Hub goes on; '
        "“Look” shows where it stands, and only another action changes it.</p></section>"
    )
