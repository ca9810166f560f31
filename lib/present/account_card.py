"""Everything that an account pays for as one table, dearest first, with the sum; and what stopping one row means."""

from __future__ import annotations

from lib.answers.spaces import AccountOverview, ResourceEntry, StopAnswer
from lib.present.cards import prices_line
from lib.present.markup import answer_actions, bullet_list, escape
from lib.present.numbers import usd, usd_per_hour, usd_per_month
from lib.present.space_cards import tier_words
from lib.present.tables import Key, TableTools, answer_json, csv_text, table_markup

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
