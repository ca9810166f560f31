"""A Space in words: what it is doing and what that costs, the tier that suits it beside the one it has; and its account.

The account is one table of everything that it pays for, dearest first, with the sum, and what stopping one row means.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from lib.answers.spaces import AccountOverview, ResourceEntry, RightSizeAnswer, SpaceStatus, StopAnswer, VolumeEntry
from lib.present.cards import PLATFORM_NAMES, prices_line, reason_lists
from lib.present.markup import answer_actions, bullet_list, escape
from lib.present.numbers import gib, span, usd, usd_per_hour, usd_per_month, whole
from lib.present.tables import Key, TableTools, answer_json, csv_text, table_markup

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


def price_words(usd_hourly: float | None) -> str:
    """A price per hour inside a sentence: "$0.80 per hour", "free", "no list price"."""
    words = usd_per_hour(usd_hourly)
    return f"{words} per hour" if words.startswith("$") else words


def _figures(pairs: Sequence[tuple[str, str]]) -> str:
    return '<dl class="figures">' + "".join(f"<div><dt>{name}</dt><dd>{text}</dd></div>" for name, text in pairs) + "</dl>"


def _facts(pairs: Sequence[tuple[str, str]]) -> str:
    return '<dl class="facts">' + "".join(f"<div><dt>{name}</dt><dd>{text}</dd></div>" for name, text in pairs) + "</dl>"


def billed_words(status: SpaceStatus) -> str:
    """Whether money is running now."""
    if status["sdk"] == STATIC:
        return "Free of charge."
    if status["billed_now"] is None:
        return "Whether it is billed now is not known."
    if status["billed_now"]:
        return "Billed now, used or not."
    return "Free of charge." if status["usd_per_hour"] == 0 else "Not billed now."


def status_card(status: SpaceStatus) -> str:
    """The stage in a sentence, hardware and price, what was asked for, sleep, replicas, volumes, models."""
    what = [_SDKS.get(str(status["sdk"]), escape(status["sdk"] or "SDK not told")), "private" if status["private"] else "public"]
    if status["sdk"] == STATIC:
        note = "<p>A static Space is files that are served, without hardware: there is nothing to switch or size.</p>"
    else:
        note = _figures(_prices(status))
    facts = [] if status["sdk"] == STATIC else _details(status)
    error = (
        f'<div class="refusal" role="alert"><strong>The platform says:</strong> {escape(status["error"])}</div>' if status["error"] else ""
    )
    return (
        '<section class="card space" aria-labelledby="space-stage">'
        f'<p class="eyebrow">{escape(status["space"])} · {" · ".join(what)}</p>'
        f'<h2 id="space-stage">{escape(status["stage_message"])} <code>{escape(status["stage"])}</code></h2>'
        f'<p class="quiet">{billed_words(status)}</p>{note}{error}{_facts(facts)}'
        f"{bullet_list([escape(caveat['message']) for caveat in status['caveats']], 'notes')}</section>"
    )


def _prices(status: SpaceStatus) -> list[tuple[str, str]]:
    there = bool(status["hardware"])
    return [
        ("Hardware", tier_words(status["hardware_name"], status["hardware"])),
        ("Price per hour", usd_per_hour(status["usd_per_hour"]) if there else "–"),
        ("Price per month, always awake", usd_per_month(status["usd_per_month"]) if there else "–"),
    ]


def _details(status: SpaceStatus) -> list[tuple[str, str]]:
    facts = []
    if status["changing"]:
        bill = f", {usd_per_month(status['requested_usd_per_month'])} per month" if status["requested_usd_per_month"] else ""
        request = f"{tier_words(None, status['requested_hardware'])}, {price_words(status['requested_usd_per_hour'])}"
        facts.append(("Asked for", request + bill))
    facts.append(("Sleep", escape(status["sleep_message"])))
    facts.append(("Replicas", _replicas(status)))
    volumes = "<br>".join(_volume(volume) for volume in status["volumes"])
    facts.append(("Volumes", volumes or "none"))
    facts.append(("Models", ", ".join(escape(model) for model in status["models"]) or "none linked"))
    return facts


def _replicas(status: SpaceStatus) -> str:
    now, target = status["replicas"], status["requested_replicas"]
    words = whole(now, "not told") + (f", {whole(target)} asked for" if target is not None and target != now else "")
    if (now or 1) > 1 and status["total_usd_per_hour"]:
        words += f": {usd(status['total_usd_per_hour'])} per hour, {usd_per_month(status['total_usd_per_month'])} per month together"
    return words


def _volume(volume: VolumeEntry) -> str:
    access = {True: ", read-only", False: ", written to", None: ""}[volume["read_only"]]
    return f"{escape(volume['type'])} {escape(volume['source'])} at <code>{escape(volume['mount_path'])}</code>{access}"


def status_text(status: SpaceStatus) -> str:
    """The same in a few plain lines."""
    hardware = status["hardware"] or "no hardware"
    price = f"{usd_per_hour(status['usd_per_hour'])} per hour, {usd_per_month(status['usd_per_month'])} per month"
    return f"{status['space']}: {status['stage_message']}\nOn {hardware}, {price}. {billed_words(status)}\n{status['sleep_message']}"


def size_card(answer: RightSizeAnswer) -> str:
    """The recommended tier beside the current one: what moving saves or costs, and why."""
    pick, current = answer["pick"], answer["current"]
    needs = {one["id"]: one["total_bytes"] for one in answer["models"]}
    need = f", which takes {gib(needs[answer['model']])} for one request" if answer["model"] in needs else ""
    figures = [("Current", _tier(current["name"], current["hardware"], current["usd_per_hour"], current["total_usd_per_month"]))]
    if pick is not None and answer["decision"] == "move":
        cost = pick["cost"]
        figures.append(("Recommended", _tier(pick["name"], pick["hardware"], cost["usd_per_hour"], cost["total_usd_per_month"])))
    reasons = reason_lists(answer["reasons"], [escape(caveat["message"]) for caveat in answer["caveats"]])
    why = escape(current["reason"])
    name = escape(answer["model"] or "the model")
    head = f'<p class="eyebrow">The right size for {name}{need}</p><h2 id="size-name">{_verdict(answer)}</h2>'
    now = f'<p class="quiet">{"Now" if current["fits"] is not False else "The current tier does not run it"}: {why}</p>' if why else ""
    body = f"{now}{_figures(figures)}{reasons}"
    return f'<section class="card size" aria-labelledby="size-name">{head}{body}</section>'


def _tier(name: str | None, hardware: str | None, hourly: float | None, monthly: float | None) -> str:
    price = price_words(hourly)
    bill = f", {usd_per_month(monthly)} a month" if monthly else ""
    return f"{tier_words(name, hardware)}<small>{price}{bill}</small>"


def _verdict(answer: RightSizeAnswer) -> str:
    if answer["decision"] == "stay":
        return "Already on the right tier"
    pick, saving = answer["pick"], answer["saving_usd_per_month"]
    if pick is None:
        return "Nothing on the chosen platforms runs it"
    where = "" if pick["platform"] in {"spaces", "zerogpu"} else f" ({escape(PLATFORM_NAMES.get(pick['platform'], pick['platform']))})"
    to = f"Move to <code>{escape(pick['hardware'])}</code>{where}"
    if saving is None:
        return to
    amount = Decimal(str(saving))
    if amount == 0:
        return f"{to} at the same price"
    return f"{to} and save {usd(amount)} a month" if amount > 0 else f"{to} for {usd(-amount)} a month more"


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
_STOPS = {
    "space": "It is paused: it stops, is not billed, and only its owner can restart it.",
    "endpoint": "It is paused: it stops, is not billed, and answers nothing until it is resumed by hand.",
    "job": "It is cancelled: it ends now, and what it has not saved is lost.",
}
_SHOWN = 6
_HEADS = ("Name", "Hardware", "State", "When idle", "Per hour now", "Per month")
_CSV = (
    "kind", "name", "hardware", "hardware_name", "replicas", "stage", "idling", "idling_message", "usd_per_hour", "usd_per_month",
    "usd_per_month_running",
)  # fmt: skip


def account_card(answer: AccountOverview) -> str:
    """The sum in a heading, what was not listed, the table."""
    rows = answer["resources"]
    billed = sum(bool(row["usd_per_hour"]) for row in rows)
    idle = answer["always_on"]
    head = f"{usd_per_month(answer['usd_per_month'])} a month" if answer["usd_per_month"] else "Nothing is billed by the month now"
    summary = (
        f"{len(rows)} found, {billed} billed now at {usd(answer['usd_per_hour'])} per hour together. "
        + (f"{idle} of them never stop by themselves. " if idle > 1 else "One of them never stops by itself. " if idle else "")
        + "The month is 720 hours at what is billed now, and less where something sleeps; Jobs end by themselves and are not in it."
    )
    refusals = "".join(
        f'<div class="refusal" role="alert"><strong>{KIND_WORDS[one["kind"]]}s are not listed.</strong> {escape(one["message"])}</div>'
        for one in answer["not_listed"]
    )
    tools = TableTools(
        keys=[_keys(row) for row in rows],
        first=_SHOWN,
        more="more, the cheapest",
        search="Search" if len(rows) > _SHOWN else "",
    )
    table = (
        table_markup(f"What runs in {answer['owner']}, dearest first", _HEADS, [_row(row) for row in rows], "account", tools)
        if rows
        else ""
    )
    notes = bullet_list([escape(caveat["message"]) for caveat in answer["caveats"]], "notes")
    acts = answer_actions(
        text=f"{answer['owner']}: {head}\n" + "\n".join(_line(row) for row in rows),
        query=None,  # names of private Spaces belong into no link
        files=(
            ("Download CSV", "account.csv", "text/csv", csv_text(_CSV, rows)),
            ("Download JSON", "account.json", "application/json", answer_json(answer)),
        ),
    )
    return (
        '<section class="card account" aria-labelledby="account-sum">'
        f'<p class="eyebrow">{escape(answer["owner"])}</p><h2 id="account-sum">{head}</h2><p class="quiet">{summary}</p>'
        f"{refusals}{table}{notes}</section>{acts}{prices_line(answer['prices'])}"
    )


def _row(row: ResourceEntry) -> tuple[str, ...]:
    replicas = f" × {row['replicas']}" if (row["replicas"] or 1) > 1 else ""
    name = f"{escape(row['name'])}<small>{KIND_WORDS[row['kind']]}</small>"
    monthly = _money(row, row["usd_per_month"])
    if row["usd_per_month_running"] and row["usd_per_month_running"] != row["usd_per_month"]:
        monthly += f"<small>{usd_per_month(row['usd_per_month_running'])} if it runs</small>"
    since = f"<small>since {escape(row['since'][:16].replace('T', ' '))} UTC</small>" if row["since"] else ""
    return (
        name,
        tier_words(row["hardware_name"], row["hardware"]) + replicas,
        f"<code>{escape(row['stage'])}</code>{since}",
        f"{_badge(row)}<small>{escape(row['idling_message'])}</small>",
        _money(row, row["usd_per_hour"]),
        monthly,
    )


def _money(row: ResourceEntry, amount: float | None) -> str:
    """A price; what is not billed for now is not free for that."""
    return usd(amount) if amount else "free" if row["idling"] == "free" else "–"


def _badge(row: ResourceEntry) -> str:
    words = _IDLING[row["idling"]]
    return f'<em class="badge lacks">{words}</em>' if row["idling"] == "always_on" else words


def _keys(row: ResourceEntry) -> tuple[Key, ...]:
    return row["name"], row["hardware"], row["stage"], row["idling"], row["usd_per_hour"], row["usd_per_month"]


def _line(row: ResourceEntry) -> str:
    on = row["hardware"] or "no hardware"
    return f"{row['name']} ({KIND_WORDS[row['kind']]}), {on}: {row['stage']}, {_money(row, row['usd_per_month'])} a month"


def stop_label(row: ResourceEntry) -> str:
    """A row among those that can be stopped: its name, kind and price."""
    return f"{row['name']} · {KIND_WORDS[row['kind']]} · {usd_per_hour(row['usd_per_hour'])} per hour"


def stop_review(kind: str, name: str) -> str:
    """What stopping it means, before anything is done."""
    return (
        '<section class="card review" aria-label="Review">'
        f"<h3>Stop {escape(name)}</h3><p>{_STOPS[kind]} Nothing has been changed yet.</p></section>"
    )


def stop_button(kind: str, name: str) -> str:
    """The words of the button that does it."""
    return f"{'Cancel' if kind == 'job' else 'Pause'} {name}"


def stopped_note(answer: StopAnswer) -> str:
    """That it was done; in the Hub's own word for the stage."""
    done = f"{escape(answer['name'])}: <code>{escape(answer['stage'])}</code>."
    return f'<p class="hint" role="status">{done} List again to see the new sum.</p>'
