"""The answers of the tab *Traffic* in words and lines: a simulation, policies along the load, hardware for a target, the latency."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from markupsafe import Markup

from lib.answers.traffic import BatchingAnswer, CapacityNeedEntry, LatencyAnswer, LatencyPartEntry, LoadEntry, LoadsAnswer, TierNeedEntry
from lib.laws.price import HOUR_S
from lib.platforms import OWN
from lib.present.cards import caveat_list
from lib.present.charts import MARK, axis, chart_head, lay_out
from lib.present.html import STRONG, call_macro, trusted, with_small
from lib.present.markup import definition_list, escape, fold, hint_note
from lib.present.numbers import gib, seconds, tokens_per_s, usd, usd_per_hour, whole
from lib.present.sentences import say, sentence, to_json
from lib.present.tables import FIRST_ROWS, Key, TableTools, csv_text, hardware_name, show_table
from lib.provenance import Caveat

if TYPE_CHECKING:
    from plotly.graph_objects import Figure  # type: ignore[import-untyped]


POLICY_NAMES = {"static": "Static", "dynamic": "Dynamic", "continuous": "Continuous"}
COLOURS = {"static": "#8b93a1", "dynamic": "#c98018", "continuous": "#3d74b8"}
DASHES = {"static": "dot", "dynamic": "dash", "continuous": "solid"}
MEASURES: Mapping[str, tuple[str, str, bool]] = {
    "ttft": ("TTFT p99, seconds", "Time to first token at p99", True),
    "latency": ("Latency p99, seconds", "Time of a request at p99", True),
    "throughput": ("Output tokens per second", "Throughput", False),
    "price": ("USD per million output tokens", "Price of a million tokens", True),
}
"""The drawing: the axis, the heading, whether the axis is logarithmic."""


def policy_swatch(policy: str) -> str:
    """The stroke of a policy, for legends and tables."""
    style = DASHES[policy].replace("dot", "dotted")
    return f'<i class="stroke {style}" style="border-color:{COLOURS[policy]}"></i>'


def point_figure(point: LoadEntry, measure: str) -> float | None:
    """The figure of a point that is drawn."""
    match measure:
        case "latency":
            return point.latency_p99_s
        case "throughput":
            return point.throughput_tokens_per_s
        case "price":
            return None if point.usd_per_million_tokens is None else float(point.usd_per_million_tokens)
    return point.ttft_p99_s


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnLoads:
    """Content of the chart: the points, and the policy, the rate and the targets that were asked about."""

    answer: LoadsAnswer
    policy: str
    requests_per_s: float
    max_ttft_s: float = 0.0
    max_tpot_s: float = 0.0

    def chosen(self) -> list[LoadEntry]:
        """The points of the chosen policy, from the lowest load."""
        points = (point for point in self.answer.points if point.policy == self.policy)
        return sorted(points, key=lambda point: point.asked_requests_per_s)

    def keeps(self, point: LoadEntry) -> bool:
        """Whether the targets hold at the 99th percentile."""
        return (not self.max_ttft_s or point.ttft_p99_s <= self.max_ttft_s) and not self.slow_tokens(point)

    def slow_tokens(self, point: LoadEntry) -> bool:
        """Whether its time per token misses the target."""
        return bool(self.max_tpot_s) and point.tpot_p99_s is not None and point.tpot_p99_s > self.max_tpot_s

    def held(self) -> tuple[LoadEntry | None, LoadEntry | None]:
        """The highest load up to which the targets hold, and the first one beyond; None if there is none."""
        points = self.chosen()
        beyond = next((number for number, point in enumerate(points) if not self.keeps(point)), len(points))
        return points[beyond - 1] if beyond else None, points[beyond] if beyond < len(points) else None


def loads_finding(drawn: DrawnLoads, measure: str) -> str:
    """The finding of the chart in a sentence; its kind while points are missing."""
    points = drawn.chosen()
    if drawn.answer.done < drawn.answer.total or not points:
        return say("findings", "traffic", "by_load", measure=MEASURES[measure][1])
    if measure == "ttft":
        return _held_finding(drawn)
    if measure == "throughput":
        return _throughput_finding(drawn)
    first, last = points[0], drawn.held()[0] or points[-1]
    low, high = per_s(first.asked_requests_per_s), per_s(last.asked_requests_per_s)
    if measure == "latency":
        return say(
            "findings", "traffic", "latency", first=seconds(first.latency_p99_s), low=low, last=seconds(last.latency_p99_s), high=high
        )
    if first.usd_per_million_tokens is None or last.usd_per_million_tokens is None:
        return say("findings", "traffic", "no_price", name=drawn.answer.name)
    prices = {"first": usd(first.usd_per_million_tokens), "last": usd(last.usd_per_million_tokens)}
    return say("findings", "traffic", "price", **prices, low=low, high=high)


def _held_finding(drawn: DrawnLoads) -> str:
    """The highest load within the targets, and the miss of the next one."""
    (held, beyond), name = drawn.held(), drawn.answer.name
    if held is None:
        return say("findings", "traffic", "holds_none", name=name, policy=POLICY_NAMES[drawn.policy].lower())
    load = per_s(held.asked_requests_per_s)
    if beyond is None:
        return say("findings", "traffic", "holds_all", name=name, load=load)
    code, time = (
        ("holds_slow", optional_seconds(beyond.tpot_p99_s)) if drawn.slow_tokens(beyond) else ("holds_late", seconds(beyond.ttft_p99_s))
    )
    return say("findings", "traffic", code, name=name, load=load, beyond=per_s(beyond.asked_requests_per_s), time=time)


def _throughput_finding(drawn: DrawnLoads) -> str:
    """The most tokens per second of the chosen policy, compared with the others."""
    best = {name: max((p.throughput_tokens_per_s for p in drawn.answer.points if p.policy == name), default=0.0) for name in POLICY_NAMES}
    others = [f"{POLICY_NAMES[policy].lower()} {rate:,.0f}" for policy, rate in best.items() if policy != drawn.policy]
    return f"{POLICY_NAMES[drawn.policy]} batching reaches {tokens_per_s(best[drawn.policy])}, {' and '.join(others)}"


def loads_head(drawn: DrawnLoads, measure: str) -> str:
    """The heading of the chart with its key."""
    key = (policy_swatch(policy) + name for policy, name in POLICY_NAMES.items())
    return chart_head(
        escape(loads_finding(drawn, measure)), [*key, "bold = selected", *_own_load(drawn), f"{MEASURES[measure][1]} by load"]
    )


def _own_load(drawn: DrawnLoads) -> list[str]:
    """The stated rate, which the drawing marks with a dotted line; it can be so low that the line is at the axis."""
    return [f"dotted line = yours: {per_s(drawn.requests_per_s)}"] if _is_marked(drawn) else []


_BEYOND = 1.13
"""End of the axis over the highest load."""


def _is_marked(drawn: DrawnLoads) -> bool:
    """Whether the stated rate is within the drawing."""
    return 0 < drawn.requests_per_s <= drawn.answer.most_requests_per_s * _BEYOND


def draw_loads(drawn: DrawnLoads, measure: str) -> Figure:
    """A line for each policy along the requests per second, the chosen one thick, with the stated rate marked.

    All loads are on the axis from the start.

    Points without a steady part of their run are hollow.
    """
    answer, stated_rate, chosen_policy = drawn.answer, drawn.requests_per_s, drawn.policy
    from plotly.graph_objects import Figure  # noqa: PLC0415  a quarter of a second that only figures need

    figure = Figure()
    title, _, logarithmic = MEASURES[measure]
    for policy, name in POLICY_NAMES.items():
        points = [point for point in answer.points if point.policy == policy]
        figure.add_scatter(
            x=[point.asked_requests_per_s for point in points],
            y=[point_figure(point, measure) for point in points],
            name=name,
            mode="lines+markers",
            line={"width": 5 if policy == chosen_policy else 2.5, "color": COLOURS[policy], "dash": DASHES[policy]},
            marker={
                "size": 9 if policy == chosen_policy else 5,
                "symbol": ["circle" if point.steady else "circle-open" for point in points],
            },
            hovertemplate="%{y:.3~g}",
        )
    most = answer.most_requests_per_s
    if _is_marked(drawn):
        figure.add_vline(x=stated_rate, line={"width": 1.2, "dash": "dot", "color": MARK})
    scale = {"type": "log", "tickformat": "~g", "nticks": 6} if logarithmic else {"tickformat": "~s", "rangemode": "tozero"}
    along = axis("Requests per second", range=[0, most * _BEYOND], tickformat="~g")
    lay_out(figure, along, axis(title, **scale), hover="x unified")
    return figure


PART_NAMES = {
    "preprocess": "Preprocessing on the host",
    "transfer": "Transfer",
    "queue": "Queue",
    "prefill": "Prefill, to the first token",
    "decode": "Decode, the other tokens",
    "postprocess": "Postprocessing on the host",
}
VERDICTS = {
    "as_expected": Markup('<em class="badge fits">as expected</em>'),
    "slower": Markup('<em class="badge lacks">slower</em>'),
    "faster": Markup('<em class="badge">faster</em>'),
    "no_law": "no law",
    "not_measured": "not measured",
}


_RARE = 0.1


def per_s(rate: float) -> str:
    """Requests per second: "0.35/s", "12/s"; rare ones per hour: "12.5 an hour"."""
    if 0 < rate < _RARE:
        return f"{rate * HOUR_S:.3g} an hour"
    return f"{rate:.2f}/s" if rate < 10 else f"{rate:,.0f}/s"  # noqa: PLR2004  two figures


def requests_at(rate: float) -> str:
    """The same with its noun: "0.35 requests/s", "12.5 requests an hour"."""
    return per_s(rate).replace("/s", " requests/s").replace(" an hour", " requests an hour")


def optional_seconds(value: float | None) -> str:
    """A time, or a dash."""
    return "–" if value is None else seconds(value)


def batching_finding(answer: BatchingAnswer, name: str) -> str:
    """Whether the hardware of this name keeps up with the traffic, in a sentence."""
    share = answer.on_target
    if any(caveat.code == "queue_grows" for caveat in answer.caveats):
        return say("findings", "traffic", "overrun", name=name, answered=per_s(answer.requests_per_s))
    if share is not None and share < _NEARLY_ALL:
        return say("findings", "traffic", "missing", name=name, missed=100 * (1 - share))
    return say("findings", "traffic", "keeps_up" if share is None else "within_targets", name=name)


_NEARLY_ALL = 0.99
"""Share of requests within the targets from which the targets are kept: they are about the 99th percentile."""


def batching_card(answer: BatchingAnswer, model: str, loads: LoadsAnswer, asked: str, drawn: DrawnLoads | None = None) -> str:
    """One simulation: a sentence, the three figures that matter, and the others folded.

    Args:
        answer: the simulation.
        model: name of the model.
        loads: the loads, for the hardware's name.
        asked: which requests were simulated, in a phrase.
        drawn: the finished loads, for the rate that the hardware holds.
    """
    held = None if drawn is None else drawn.held()[0]
    capacity = f"about {per_s(answer.most_requests_per_s)}"
    if drawn is not None:
        capacity = (
            "none"
            if held is None
            else with_small(per_s(held.asked_requests_per_s), _times(held, drawn.requests_per_s or answer.requests_per_s))
        )
    figures = [
        ("First token, p99", seconds(answer.ttft_p99_s)),
        ("Whole request, p99", seconds(answer.latency_p99_s)),
        ("Capacity, at most" if drawn is None else "Rate it holds", capacity),
    ]
    copies = f"{answer.replicas} replicas of " if answer.replicas > 1 else ""
    where, every = copies + loads.name, trusted(_every_figure(answer))
    policy, finding = POLICY_NAMES[answer.policy].lower(), batching_finding(answer, where)
    return str(call_macro("traffic.html.j2", "simulation", answer, model, where, policy, finding, asked, figures, every))


def _times(held: LoadEntry, own: float) -> str:
    """How many times the visitor's own rate that is."""
    times = held.asked_requests_per_s / own
    return f"{times:,.0f} × yours" if times >= 10 else f"{times:.1f} × yours"  # noqa: PLR2004  two figures


def _every_figure(answer: BatchingAnswer) -> str:
    price, share = answer.usd_per_million_tokens, answer.on_target
    figures = [
        *_percentiles(answer),
        ("Requests waiting: mean, most", f"{_mean_waiting(answer.queue_mean)}, {whole(answer.queue_longest)}"),
        ("Engine busy", f"{100 * answer.utilisation:.0f} %"),
        ("KV cache at its peak", f"{gib(answer.cache_peak_bytes)} of {gib(answer.cache_bytes)}"),
    ]
    if share is not None and answer.goodput_per_s is not None:
        answered = f"{per_s(answer.goodput_per_s)} of {per_s(answer.requests_per_s)}, {100 * share:.0f} %"
        figures.append(("Goodput: answered within the targets", answered))
    if price is not None:
        figures.append(("Per million output tokens, at your load", usd(price)))
    if answer.cold_starts:
        figures.append(("Cold starts", whole(answer.cold_starts)))
    run = f"{whole(answer.completed)} requests in {seconds(answer.span_s)}{_part_of_run(answer)}"
    estimate = f"capacity about {per_s(answer.most_requests_per_s)} (estimate)"
    return f'<p class="quiet">{run} · {estimate}</p>{definition_list(figures)}'


def _mean_waiting(mean: float) -> str:
    """The mean number of waiting requests with two digits after the point; smaller ones are "under 0.01"."""
    return "under 0.01" if 0 < mean < 0.01 else f"{mean:,.2f}"  # noqa: PLR2004  the last digit shown


def _part_of_run(answer: BatchingAnswer) -> str:
    """The counted part of the run, if it is not the whole, and the reason why its rate differs from the requested one."""
    notes = []
    if answer.counted_from_s:
        notes.append(say("findings", "traffic", "counted", first_s=answer.counted_from_s, last_s=answer.counted_until_s))
    if answer.arrivals in {"poisson", "bursty"}:
        notes.append(say("findings", "traffic", "completed", rate=per_s(answer.requests_per_s)))
    return f" ({'; '.join(notes)})" if notes else ""


def _percentiles(answer: BatchingAnswer) -> list[tuple[str, str]]:
    """The figures that card and text share."""
    times = {
        "Time to first token (TTFT)": (answer.ttft_p50_s, answer.ttft_p95_s, answer.ttft_p99_s),
        "Time per output token (TPOT)": (answer.tpot_p50_s, answer.tpot_p95_s, answer.tpot_p99_s),
        "Latency": (answer.latency_p50_s, answer.latency_p95_s, answer.latency_p99_s),
    }
    figures = [(f"{name} p50, p95, p99", " · ".join(map(optional_seconds, values))) for name, values in times.items()]
    return [*figures, ("Throughput", tokens_per_s(answer.throughput_tokens_per_s))]


def batching_text(answer: BatchingAnswer, model: str) -> str:
    """The simulation in a few plain lines."""
    head = f"{model} on {answer.replicas} × {answer.hardware}, {answer.policy} batching, {answer.completed} requests:"
    return "\n".join([head, *(f"{name}: {figure}" for name, figure in _percentiles(answer))])


def loads_table(answer: LoadsAnswer) -> str:
    """Every point of the plot, folded behind a line."""
    heads = ("Policy", "Arriving", "Answered", "TTFT p50", "TTFT p99", "TPOT p99", "Latency p99", "Tokens per second", "USD per 1M tokens")
    table = show_table("Three policies along the load", heads, list(map(_load_row, answer.points)), "loads")
    unsteady = caveat_list([one for one in answer.caveats if one.code == "loads_not_steady"])
    return unsteady + fold("Show as table", table)


def _load_row(point: LoadEntry) -> tuple[str, ...]:
    price = point.usd_per_million_tokens
    return (
        trusted(policy_swatch(point.policy)) + POLICY_NAMES[point.policy],
        per_s(point.asked_requests_per_s),
        per_s(point.requests_per_s),
        seconds(point.ttft_p50_s),
        seconds(point.ttft_p99_s),
        optional_seconds(point.tpot_p99_s),
        seconds(point.latency_p99_s),
        with_small(f"{point.throughput_tokens_per_s:,.0f}", _whole_run(point.steady)),
        "–" if price is None else with_small(usd(price), _whole_run(point.steady)),
    )


def _whole_run(steady: bool) -> str:
    return "" if steady else "whole run"


def loads_csv(points: Sequence[LoadEntry]) -> str:
    """The points as CSV in base units."""
    first = ("policy", "asked_requests_per_s", "steady")
    return csv_text([*first, *(name for name in to_json(points[0]) if name not in first)], points) if points else ""


def needs_table(need: CapacityNeedEntry, rate: float) -> str:
    """Replicas and tiers that keep the targets at the 99th percentile, the cheapest first."""
    targets = [f"{name} {seconds(limit)}" for name, limit in (("TTFT", need.max_ttft_s), ("TPOT", need.max_tpot_s)) if limit > 0]
    caption = say("findings", "traffic", "needs", requests=requests_at(rate), targets=" and ".join(targets))
    heads = ("Hardware", "Replicas", "Total per hour", "TTFT p99", "TPOT p99", "USD per 1M tokens at this load")
    unsteady = sum(tier.replicas is not None and not tier.steady for tier in need.tiers)
    note = sentence(Caveat("needs_not_steady", {"unsteady": unsteady, "total": len(need.tiers)})) if unsteady else ""
    if need.left_out:
        left_out = Caveat("needs_left_out", {"hardware": ", ".join(need.left_out)})
        note = " ".join(filter(None, (note, sentence(left_out))))
    tools = TableTools(keys=[_tier_keys(tier) for tier in need.tiers], first=FIRST_ROWS, more="more expensive")
    return show_table(caption, heads, [_tier_row(tier) for tier in need.tiers], "needs", tools) + (hint_note(note) if note else "")


def _tier_keys(tier: TierNeedEntry) -> tuple[Key, ...]:
    price = None if tier.replicas is None else tier.usd_per_hour
    return tier.name, tier.replicas, price, tier.ttft_p99_s, tier.tpot_p99_s, tier.usd_per_million_tokens


def _tier_row(tier: TierNeedEntry) -> tuple[str, ...]:
    price = tier.usd_per_million_tokens
    return (
        hardware_name(tier.name, tier.hardware, tier.platform or OWN),
        "not within 64" if tier.replicas is None else STRONG.format(tier.replicas),
        "–" if tier.replicas is None else usd_per_hour(tier.usd_per_hour),
        optional_seconds(tier.ttft_p99_s),
        optional_seconds(tier.tpot_p99_s),
        "–" if price is None else with_small(usd(price), _whole_run(tier.steady)),
    )


def latency_card(answer: LatencyAnswer) -> str:
    """The dominant part and the first step; then reasons, the parts and the formats."""
    dominant = answer.dominant
    head = say("findings", "latency", "empty" if dominant is None else "dominant", part="" if dominant is None else PART_NAMES[dominant])
    first, *others = answer.next_steps
    return str(call_macro("traffic.html.j2", "latency", head, first, (*others, *answer.reasons)))


def latency_table(answer: LatencyAnswer) -> str:
    """Each part measured and expected, then the effect of each format and each other engine."""
    heads = ("Part", "Measured", "Share", "Expected here", "Verdict")
    load = f"{answer.prompt_tokens:,} tokens in, {answer.output_tokens:,} out, {answer.concurrency:,} at a time"
    parts = show_table(f"Parts of a request: {load}", heads, list(map(_part_row, answer.parts)), "latency")
    formats = [(one.precision, seconds(one.tpot_ms / 1e3), gib(one.weights_bytes), one.message) for one in answer.precisions]
    columns = ("Format", "A step", "Weights", "Effect here")
    smaller = show_table(say("findings", "latency", "formats"), columns, formats, "formats") if formats else ""
    others = [(one.engine, one.precision, seconds(one.ttft_ms / 1e3), seconds(one.tpot_ms / 1e3)) for one in answer.engines]
    titles = ("Engine", "Format", "First token", "A step")
    return parts + smaller + (show_table(say("findings", "latency", "engines"), titles, others, "engines") if others else "")


def _part_row(part: LatencyPartEntry) -> tuple[str, ...]:
    expected, low, high = part.expected_ms, part.low_ms, part.high_ms
    span = "–"
    if expected is not None and low is not None and high is not None:
        span = "none" if high <= 0 else with_small(seconds(expected / 1e3), f"{seconds(low / 1e3)} to {seconds(high / 1e3)}")
    return (
        PART_NAMES[part.name],
        seconds(part.measured_ms / 1e3) if part.measured_ms > 0 else "–",
        "–" if not part.share else f"{100 * part.share:.0f} %",
        span,
        VERDICTS[part.verdict],
    )
