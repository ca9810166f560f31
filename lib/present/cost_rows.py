"""The answer of the tab *Cost* in words: the card, the table of ways, ways to save, the laws, CSV and text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

from lib.answers.cost import CostPartEntry, LineEntry, OutlookAnswer
from lib.present.cards import PLATFORM_NAMES, caveat_list, source_list
from lib.present.cost_charts import line_swatch
from lib.present.markup import bullet_list, escape
from lib.present.numbers import usd, usd_per_hour, usd_per_month
from lib.present.source_links import link_source
from lib.present.tables import csv_text, table_markup

_CENT = 0.01
LineField = Literal[
    "label",
    "kind",
    "hardware",
    "platform",
    "runs_as",
    "usd_per_hour",
    "billed_hours_per_month",
    "compute_usd_per_month",
    "storage_usd_per_month",
    "total_usd_per_month",
    "usd_per_request",
]
_CSV_FIELDS: tuple[LineField, ...] = get_args(LineField)


def cost_card(answer: OutlookAnswer, model: str) -> str:
    """The bill of the chosen hardware: a month, an hour, a request, a million tokens."""
    bill = answer["bill"]
    figures = [
        ("Per hour while it runs", usd_per_hour(bill["usd_per_hour"])),
        ("Billed hours a month", f"{bill['billed_hours_per_month']:,.0f}"),
    ]
    if bill["usd_per_request"] is not None:
        figures.append(("Per request", usd_per_month(bill["usd_per_request"])))
    if bill["usd_per_million_output_tokens"] is not None:
        figures.append(
            (f"Per million output tokens, concurrent requests: {bill['concurrency']}", usd(bill["usd_per_million_output_tokens"]))
        )
    best = bill["best_load"]
    if best is not None and best["concurrency"] != bill["concurrency"]:
        figures.append((f"The same at {best['concurrency']}", usd(best["usd_per_million_output_tokens"])))
    capacity = bill["capacity"]
    if capacity is not None and bill["utilisation"] is not None and bill["utilisation"] > 1:
        figures.append((f"{capacity['replicas_needed']:,} replicas, which serve it", usd_per_month(capacity["total_usd_per_month"])))
    elif bill["utilisation"] is not None:
        figures.append(("Utilisation", f"{100 * bill['utilisation']:.0f} %"))
    if bill["left_running_usd_per_month"] is not None:
        figures.append(("Left running outside its hours", usd_per_month(bill["left_running_usd_per_month"])))
    cells = "".join(f"<div><dt>{name}</dt><dd>{text}</dd></div>" for name, text in figures)
    first = answer["lines"][0]
    chosen, total = answer["chosen"], bill["total_usd_per_month"]
    rest = "visitors pay with their own quota" if bill["payer"] != "owner" else "a month" if total else ""
    why = "" if chosen in {"", "recommended"} else f'<p class="thumb"><strong>Does not qualify.</strong> {escape(chosen)}</p>'
    return (
        '<section class="card" aria-label="Bill per month"><h2 class="sr">Bill per month</h2>'
        f'<p class="eyebrow">{escape(model)} on {escape(answer["name"])} <code>{escape(answer["hardware"])}</code> costs</p>'
        f'<p class="headline"><span class="figure">{usd_per_month(total)}</span> {rest}</p>'
        f'<p class="quiet">{escape(PLATFORM_NAMES[answer["platform"]])} · {escape(first["runs_as"])}'
        f"{' · the best Space for this model' if chosen == 'recommended' and answer['platform'] == 'spaces' else ''}</p>"
        f'<dl class="figures">{cells}</dl>{why}</section>'
    )


def ways_table(answer: OutlookAnswer) -> str:
    """Every way with its bill in parts, the cheapest first; those that cannot carry the traffic last."""
    ordered = sorted(answer["lines"], key=lambda line: (line["total_usd_per_month"] is None, line["total_usd_per_month"] or 0))
    heads = ("Way", "Per hour", "Billed hours", "Computing", "Storage", "Per month", "Per request")
    return table_markup("Ways to run it at the stated use, cheapest first", heads, [_way(line) for line in ordered], "ways")


def _way(line: LineEntry) -> tuple[str, ...]:
    total = line["total_usd_per_month"]
    hours = line["billed_hours_per_month"]
    month = (
        "<strong>" + usd_per_month(total) + "</strong>" if total is not None else "not at this traffic<small>the quota ends before</small>"
    )
    return (
        f"{line_swatch(line)}{escape(line['label'])}<small>{escape(line['runs_as'])}</small>",
        "–" if line["usd_per_hour"] is None else usd_per_hour(line["usd_per_hour"]),
        "–" if hours is None else f"{hours:,.0f}",
        usd_per_month(line["compute_usd_per_month"]),
        usd(line["storage_usd_per_month"]),
        month,
        usd_per_month(line["usd_per_request"]),
    )


def savings_table(answer: OutlookAnswer) -> str:
    """Ways to save, most first, and behind a line those that save nothing."""
    ways = [(way, saved) for way in answer["savings"] if (saved := way["saves_usd_per_month"]) >= _CENT]
    heads = ("What to do", "Saves a month", "Then a month", "What it costs in quality and speed")
    rows = [
        (
            escape(way["message"]),
            f"<strong>{usd(saved)}</strong>",
            usd_per_month(way["usd_per_month"]),
            escape(way["effect"]) or "Nothing known.",
        )
        for way, saved in ways
    ]
    title = "Ways to save, most first: savings are not cumulative"
    shown = table_markup(title, heads, rows, "savings") if rows else '<p class="hint">Nothing found that costs less.</p>'
    others = [f"<strong>{escape(none['message'])}.</strong> {escape(none['reason'])}" for none in answer["no_savings"]]
    if not others:
        return shown
    said = "1 way that saves nothing here" if len(others) == 1 else f"{len(others)} ways that save nothing here"
    return f'{shown}<details class="rest"><summary>{said}</summary>{bullet_list(others, "notes")}</details>'


def cost_laws(answer: OutlookAnswer) -> str:
    """Every part of the bill and every break-even opened, then what is left open, then the sources."""
    bill = answer["bill"]
    parts = "".join(_law(part["name"], usd(part["usd_per_month"]), part) for part in bill["parts"])
    points = "".join(
        f'<section class="law"><h3>Break-even</h3><p>{escape(point["message"])}</p><pre>{escape(point["law"])}</pre></section>'
        for point in bill["break_even"]
    )
    return f'<div class="explain">{parts}{points}{caveat_list(answer["caveats"])}{source_list(answer["sources"])}</div>'


def _law(name: str, figure: str, part: CostPartEntry) -> str:
    inputs = "".join(f"<div><dt>{escape(key)}</dt><dd>{escape(value)}</dd></div>" for key, value in part["inputs"].items())
    return (
        f'<section class="law"><h3>{escape(name)} <span>{figure} a month</span></h3><pre>{escape(part["law"])}</pre>'
        f'<dl class="inputs">{inputs}</dl><p class="quiet">Source: {link_source(part["source"])}</p></section>'
    )


def ways_csv(lines: Sequence[LineEntry]) -> str:
    """The table of ways as CSV in base units; labels start with a word, never with a formula."""
    return csv_text(_CSV_FIELDS, lines)


def cost_text(answer: OutlookAnswer, model: str) -> str:
    """The bill and its alternatives in a few plain lines."""
    bill = answer["bill"]
    lines = [f"{model} on {answer['name']} ({answer['hardware']}): {usd_per_month(bill['total_usd_per_month'])} a month."]
    lines += [
        f"{line['label']}: {usd_per_month(line['total_usd_per_month'])} a month."
        for line in answer["lines"]
        if line["total_usd_per_month"] is not None
    ]
    return "\n".join(lines + [change["message"] for change in answer["changes"]])
