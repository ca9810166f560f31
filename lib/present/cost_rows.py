"""The answer of the tab *Cost* in words and lines: the card, bills along traffic or hours, the tables of ways and savings, CSV and text.

Next to it a comparison: the verdict, before and after in a table, and the arithmetic.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING

from lib.advisor.result import OwnHardware
from lib.answers.cost import OutlookAnswer, WayLine
from lib.platforms import traits_of
from lib.present.cards import PLATFORM_COLOURS, PLATFORM_NAMES, caveat_list, own_text, source_list
from lib.present.charts import MARK, RING, axis, chart_head, curve_table, lay_out
from lib.present.html import STRONG, render_html, trusted, with_small
from lib.present.markup import escape
from lib.present.numbers import count_words, usd, usd_per_hour, usd_per_month
from lib.present.sentences import say, sentence, to_json
from lib.present.tables import csv_text, show_table

if TYPE_CHECKING:
    from plotly.graph_objects import Figure  # type: ignore[import-untyped]


_CENT = Decimal("0.01")
_WAY_FIELDS = (
    "label", "kind", "hardware", "platform", "runs_as", "usd_per_hour", "billed_hours_per_month", "compute_usd_per_month",
    "storage_usd_per_month", "total_usd_per_month", "usd_per_request",
)  # fmt: skip


def cost_card(answer: OutlookAnswer, model: str) -> str:
    """The bill of the chosen hardware: a month and the saving by sleep, then an hour and a request; folded, tokens and utilisation."""
    bill = answer.bill
    figures, rates = [], []
    if bill.usd_per_hour != 0:  # of free hardware every price is free
        figures.append(("Per hour while it runs", usd_per_hour(bill.usd_per_hour)))
        figures.append(("Billed hours a month", f"{bill.billed_hours_per_month:,.0f}"))
    if bill.usd_per_request:
        figures.append(("Per request", usd_per_month(bill.usd_per_request)))
    if bill.usd_per_million_output_tokens:
        at_once = count_words(bill.concurrency, "request")
        rates.append((f"Per million output tokens, {at_once} at a time", usd_per_month(bill.usd_per_million_output_tokens)))
    for name, price in (("Per picture or clip", bill.usd_per_picture), ("Per hour of sound", bill.usd_per_audio_hour)):
        if price:
            rates.append((f"{name}, at full use", usd_per_month(price)))
    best = bill.best_load
    if best is not None and best.concurrency != bill.concurrency:
        rates.append((f"{best.concurrency} at a time", usd(best.usd_per_million_output_tokens)))
    capacity = bill.capacity
    if capacity is not None and bill.utilisation is not None and capacity.total_usd_per_month > bill.total_usd_per_month:
        figures.append((f"{capacity.replicas_needed:,} replicas, which serve it", usd_per_month(capacity.total_usd_per_month)))
    elif bill.utilisation is not None:
        rates.append(("Utilisation", f"{100 * bill.utilisation:.0f} %"))
    if bill.left_running_usd_per_month is not None:
        figures.append(("Left running outside its hours", usd_per_month(bill.left_running_usd_per_month)))
    standing, total = answer.chosen, bill.total_usd_per_month
    return render_html(
        "cost.html.j2",
        answer=answer,
        model=model,
        where=PLATFORM_NAMES[answer.platform],
        figures=figures,
        rates=rates,
        rest=_headline_rest(answer),
        use=answer.lines[0].use if bill.payer == "owner" and total else "",
        saving=_sleep_saves(answer),
        best=standing == "recommended" and traits_of(answer.platform).rents_spaces,
        obstacle="" if standing == "recommended" else standing,
    )


def _headline_rest(answer: OutlookAnswer) -> str:
    """The words after the month's bill: its unit, and who pays for the computing where the owner does not."""
    unit = " a month" if answer.bill.total_usd_per_month else ""
    return unit if answer.bill.payer == "owner" else f"{unit}: {say('cards', 'cost', 'visitors_pay')}"


def _sleep_saves(answer: OutlookAnswer) -> str:
    """The saving of hardware that sleeps when idle, in a sentence; "" if it cannot sleep or is free."""
    # The first line is the hardware awake; if it can sleep, the second is the same asleep.
    asleep = next((line for line in answer.lines[1:2] if line.kind == "sleeping"), None)
    awake_usd = answer.lines[0].total_usd_per_month
    if asleep is None or asleep.total_usd_per_month is None or not awake_usd:
        return ""
    saved = awake_usd - asleep.total_usd_per_month
    if saved < _CENT:
        return say("cards", "cost", "sleep_saves_nothing", use=asleep.use)
    return say("cards", "cost", "sleep_saves", use=asleep.use, usd_per_month=saved, asleep_usd_per_month=asleep.total_usd_per_month)


def own_bill_card(own: OwnHardware) -> str:
    """In place of a bill for the visitor's own cards: there is nothing to rent."""
    return render_html("own_bill.html.j2", name=own.name, runs=own_text(own))


def ways_table(answer: OutlookAnswer) -> str:
    """Every way with its bill in parts, the cheapest first; those that cannot carry the traffic last."""
    ordered = sorted(answer.lines, key=lambda line: (line.total_usd_per_month is None, line.total_usd_per_month or 0))
    stores = any(line.storage_usd_per_month for line in ordered)
    heads = ("Option", "Per hour", "Billed hours", *(("Computing", "Storage") if stores else ()), "Per month", "Per request")
    table = show_table(say("findings", "bills", "ways"), heads, [_way(line, stores=stores) for line in ordered], "ways")
    return table + f'<p class="quiet">{escape(say("findings", "bills", "ways_rule"))}</p>'


def provider_note(answer: OutlookAnswer) -> str:
    """Why no price per token is among the options, as markup; "" if one is."""
    if any(line.kind == "per_token" for line in answer.lines):
        return ""
    offered = answer.bill.per_token
    failure = next((sentence(caveat) for caveat in answer.caveats if caveat.code == "token_price_unknown"), "")
    code = offered.status if offered.status != "unknown" else "failed" if failure else "not_sold"
    providers = ", ".join(offered.providers)
    return f'<p class="quiet">{escape(say("findings", "per_token", code, failure=failure, providers=providers))}</p>'


def _way(line: WayLine, *, stores: bool) -> tuple[str, ...]:
    """The cells of a way; the month in its parts only where some way has storage."""
    total = line.total_usd_per_month
    hours = line.billed_hours_per_month
    month = with_small("not at this traffic", "the quota ends before") if total is None else STRONG.format(usd_per_month(total))
    parts = (usd_per_month(line.compute_usd_per_month), usd(line.storage_usd_per_month)) if stores else ()
    return (
        with_small(trusted(line_swatch(line)) + line.label, line.runs_as),
        "–" if line.usd_per_hour is None else usd_per_hour(line.usd_per_hour),
        "–" if hours is None else f"{hours:,.0f}",
        *parts,
        month,
        usd_per_month(line.usd_per_request),
    )


def savings_table(answer: OutlookAnswer) -> str:
    """Ways to save, most first."""
    ways = [(way, saved) for way in answer.savings if (saved := way.saves_usd_per_month) >= _CENT]
    heads = ("What to do", "Saves a month", "Then a month", "Trade-off")
    rows = [
        (
            way.message,
            STRONG.format(usd(saved)),
            usd_per_month(way.usd_per_month),
            way.effect or "Nothing known.",
        )
        for way, saved in ways
    ]
    return show_table(say("findings", "bills", "savings"), heads, rows, "savings") if rows else ""


def cost_laws(answer: OutlookAnswer) -> str:
    """Every part of the bill and every break-even with its law, then the caveats, then the sources."""
    return render_html("cost_laws.html.j2", bill=answer.bill, open=trusted(caveat_list(answer.caveats) + source_list(answer.sources)))


def ways_csv(lines: Sequence[WayLine]) -> str:
    """The table of ways as CSV in base units; labels start with a word, never with a formula."""
    return csv_text(_WAY_FIELDS, map(to_json, lines))


def cost_text(answer: OutlookAnswer, model: str) -> str:
    """The bill and its alternatives in a few plain lines."""
    bill = answer.bill
    lines = [f"{model} on {answer.name} ({answer.hardware}): {usd_per_month(bill.total_usd_per_month)} a month."]
    lines += [
        f"{line.label}: {usd_per_month(line.total_usd_per_month)} a month." for line in answer.lines if line.total_usd_per_month is not None
    ]
    return "\n".join(lines + [change.message for change in answer.changes])


_HEADROOM = 1.15
_FOOTROOM = 0.07  # of the height: a ring at USD 0 lies over no number of the axis
_MOST_MARKS = 9
_ROW_STEP = 5
"""The table has every fifth place of the axis."""


def line_dash(line: WayLine) -> str:
    """Sleeping is drawn in dashes next to running."""
    return "dash" if line.kind == "sleeping" else "solid"


def line_swatch(line: WayLine) -> str:
    """The stroke of a way, for legends and tables."""
    return f'<i class="stroke {line_dash(line)}" style="border-color:{PLATFORM_COLOURS[line.platform]}"></i>'


def bills_head(answer: OutlookAnswer) -> str:
    """The heading of the chart with its key."""
    return chart_head(escape(bills_finding(answer)), [*(line_swatch(line) + escape(line.label) for line in answer.lines), "◯ your traffic"])


def bills_finding(answer: OutlookAnswer) -> str:
    """The way with the lowest bill at the stated use, and up to where."""
    priced = [(line.total_usd_per_month, line.label) for line in answer.lines if line.total_usd_per_month is not None]
    if not priced:
        return say("findings", "bills", f"by_{answer.axis}")
    amount, label = min(priced, key=lambda pair: pair[0])
    cheapest = {"way": label, "bill": f"{usd_per_month(amount)}{' a month' if amount else ''}"}
    change = next((one for one in answer.changes if one.at > answer.stated), None)
    if change is None:
        return say("findings", "bills", "cheapest", **cheapest)
    return say("findings", "bills", f"cheapest_up_to_{answer.axis}", **cheapest, end=change.at)


def bills_foot(answer: OutlookAnswer) -> str:
    """The numbered points of the chart as sentences, then the exact break-even points of the chosen hardware."""
    numbered = "".join(f"<li>{escape(change.message)}</li>" for change in answer.changes[:_MOST_MARKS])
    marks = f'<ol class="marks">{numbered}</ol>' if numbered else ""
    dotted = any(_full(line, answer.x) is not None for line in answer.lines)
    at_once = answer.bill.concurrency
    note = f'<p class="quiet">Dotted: more requests than the hardware can serve with {at_once} at a time.</p>' if dotted else ""
    return f'<div class="chart-foot">{marks}{note}{_bills_table(answer)}</div>'


def _bills_table(answer: OutlookAnswer) -> str:
    """The bills in numbers, at every fifth place of the axis and at the stated use."""
    hours = answer.axis == "hours"
    rows = [
        (
            f"{float(x):g}" if hours else f"{x:,.0f}",
            *("–" if line.usd[n] is None else usd_per_month(line.usd[n]) for line in answer.lines),
        )
        for n, x in enumerate(answer.x)
        if n % _ROW_STEP == 0 or x == answer.stated
    ]
    return curve_table(("Hours a day" if hours else "Requests a day", *(f"{escape(line.label)}, per month" for line in answer.lines)), rows)


def draw_bills(answer: OutlookAnswer) -> Figure:
    """USD per month of each way, along requests a day (logarithmic) or hours a day."""
    from plotly.graph_objects import Figure  # noqa: PLC0415  a quarter of a second that only figures need

    figure, xs = Figure(), answer.x
    for line in answer.lines:
        for number, (places, points, dash) in enumerate(_pieces(line, xs)):
            stroke = {"width": 2.5, "color": PLATFORM_COLOURS[line.platform], "dash": dash}
            style = {"mode": "lines", "connectgaps": False, "line": stroke, "hovertemplate": "$%{y:,.2f}"}
            figure.add_scatter(x=_floats(places), y=_floats(points), name=escape(line.label), showlegend=number == 0, **style)
    if changes := answer.changes[:_MOST_MARKS]:
        figure.add_scatter(
            x=_floats(change.at for change in changes),
            y=_floats(change.usd_per_month for change in changes),
            mode="markers+text",
            text=[str(number) for number in range(1, len(changes) + 1)],
            textfont={"size": 10},
            marker={"size": 17, "color": "rgba(139,147,161,.35)", "line": {"width": 1.5, "color": MARK}},
            cliponaxis=False,
            showlegend=False,
            hovertemplate=[f"{escape(change.after)} from here on, {usd(change.usd_per_month)}<extra></extra>" for change in changes],
        )
    if answer.stated > 0:
        figure.add_vline(x=float(answer.stated), line={"width": 1.2, "dash": "dot", "color": MARK})
        stated, bill_usd = _floats((answer.stated, answer.lines[0].total_usd_per_month))
        figure.add_scatter(x=[stated], y=[bill_usd], mode="markers", marker=RING, cliponaxis=False, hoverinfo="skip", showlegend=False)
    if answer.axis == "hours":
        along = axis("Hours a day", range=[0, 24], dtick=4)
    else:
        along = axis("Requests a day", type="log", tickformat="~s", hoverformat=",.0f", dtick=1)
    top = _top(answer.lines)
    lay_out(figure, along, axis("USD a month", range=[-_FOOTROOM * top, top], tickformat=",~f"), hover="x unified")
    return figure


def _floats(numbers: Iterable[Decimal | None]) -> list[float | None]:
    return [None if number is None else float(number) for number in numbers]


def _top(lines: Sequence[WayLine]) -> float:
    """The highest bill of rented hardware: bills per token and per quota may leave the picture at the top."""
    rented = [point for line in lines if line.kind in {"running", "sleeping"} for point in line.usd if point is not None]
    every = [point for line in lines for point in line.usd if point is not None]
    return float(max(rented or every, default=0)) * _HEADROOM or 1.0


def _full(line: WayLine, xs: Sequence[Decimal]) -> Decimal | None:
    """Traffic at which the hardware is at full load; None beyond the picture."""
    full_at = line.full_at
    return full_at if full_at is not None and full_at < xs[-1] else None


def _pieces(line: WayLine, xs: Sequence[Decimal]) -> list[tuple[Sequence[Decimal], Sequence[Decimal | None], str]]:
    """A line, or its part within and its part beyond the capacity of the hardware."""
    full_at = _full(line, xs)
    if full_at is None:
        return [(xs, line.usd, line_dash(line))]
    last = max(1, sum(x <= full_at for x in xs))
    return [(xs[:last], line.usd[:last], line_dash(line)), (xs[last - 1 :], line.usd[last - 1 :], "dot")]
