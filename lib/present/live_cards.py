"""The cards of the live demo: the device, what an answer or a measurement took, each figure beside its prediction, and progress."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Literal
from urllib.parse import quote

from lib.answers.common import Answer
from lib.answers.live import (
    ChatMetrics,
    ChatPiece,
    ChatPrediction,
    ErrorRatio,
    ExpectedAnswer,
    MeasureAnswer,
    MeasurePrediction,
    RunEnd,
    RunFigures,
)
from lib.present.cards import caveat_list, model_name, source_list
from lib.present.markup import escape
from lib.present.numbers import gib, tokens_per_s, whole
from lib.present.tables import table_markup

if TYPE_CHECKING:
    from lib.live.device import Device

FigureName = Literal["ttft_s", "decode_tokens_per_s", "peak_bytes"]
KINDS: tuple[tuple[FigureName, str], ...] = (
    ("ttft_s", "Time to first token"),
    ("decode_tokens_per_s", "Tokens per second"),
    ("peak_bytes", "Peak memory"),
)
_MORE_LESS = {
    "ttft_s": ("pessimistic", "optimistic"),
    "decode_tokens_per_s": ("optimistic", "pessimistic"),
    "peak_bytes": ("high", "low"),
}
_SAME = 0.005
_TWICE = 2.0
_NEAR = 0.995  # below this a rate of 10 tokens/s and more is not rounded up to a digit more


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedFigure:
    """One figure; texts are "" where nothing was predicted. `ratio` is predicted / measured."""

    name: str
    measured: str
    predicted: str
    between: str
    off: str
    ratio: float | None


def format_seconds(seconds: float) -> str:
    """A time with three significant digits, in the unit that suits it: "0.164 ms", "23.4 ms", "1.24 s"."""
    for size, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if seconds >= size * _NEAR or (unit == "ms" and seconds >= 1e-5):  # noqa: PLR2004  a hundredth of a millisecond still reads well
            return f"{_three(seconds / size)} {unit}"
    return f"{_three(seconds * 1e6)} µs"


def _three(value: float) -> str:
    rounded = Decimal(f"{value:.3g}")
    return f"{rounded:,f}" if rounded >= 100 else f"{rounded:f}"  # noqa: PLR2004  thousands are separated


def format_figure(kind: FigureName, value: float) -> str:
    """A figure of this kind with its unit."""
    if kind == "peak_bytes":
        return gib(int(value))
    return tokens_per_s(value) if kind == "decode_tokens_per_s" else format_seconds(value)


def format_error(kind: FigureName, ratio: float | None) -> str:
    """How far a prediction was off, from (predicted / measured − 1): memory "4 % too high", a time or a rate "3.1× too optimistic".

    A time that was predicted too short and a rate that was predicted too high are the same mistake, and are called the same.
    """
    if ratio is None:
        return ""
    if abs(ratio) < _SAME:
        return "right to half a percent"
    more, less = _MORE_LESS[kind]
    word = f"too {more if ratio > 0 else less}"
    factor = ratio + 1
    if factor >= _TWICE:
        return f"{factor:.1f}× {word}"
    if factor <= 1 / _TWICE:
        return f"{1 / factor:.1f}× {word}" if factor > 0 else word
    return f"{abs(ratio) * 100:.0f} % {word}"


def compare_figures(run: MeasureAnswer | ChatMetrics) -> Iterator[ComparedFigure]:
    """The measured figures of a run, each with its prediction and the error of that."""
    for kind, name in KINDS:
        figure = _beside(kind, name, run[kind], run["predicted"], run["error_ratio"])
        if figure is not None:
            yield figure


def _beside(
    kind: FigureName, name: str, measured: float | None, predicted: MeasurePrediction | ChatPrediction, errors: ErrorRatio
) -> ComparedFigure | None:
    """One measured figure beside its prediction; None where it was not measured."""
    if measured is None:
        return None
    guess, error = predicted[kind], errors[kind]
    return ComparedFigure(
        name=name,
        measured=format_figure(kind, measured),
        predicted="" if guess is None else format_figure(kind, guess),
        between=_between(kind, predicted["low"], predicted["high"]),
        off=format_error(kind, error),
        ratio=None if error is None else error + 1,
    )


def _between(kind: FigureName, low: RunEnd | RunFigures, high: RunEnd | RunFigures) -> str:
    """The predicted range, "" where the prediction gives none for this figure."""
    ends = [end.get(kind) for end in (low, high)]
    numbers = [float(end) for end in ends if isinstance(end, int | float)]
    if len(numbers) < len(ends):
        return ""
    first, last = format_figure(kind, min(numbers)), format_figure(kind, max(numbers))
    if first == last:
        return ""
    number, _, unit = first.rpartition(" ")
    return f"{number} to {last}" if last.endswith(f" {unit}") else f"{first} to {last}"


_PEAK_OF = {
    "allocator": "counted by torch's allocator",
    "weights_and_growth": "weights as loaded and what the process grew by",
    "weights_and_cache": "weights as loaded and the cache",
}
_STOPPED = {"end": "the model was done", "limit": "the longest answer was reached", "stopped": "its time was up"}
_WIDEST = 2.0


def device_line(device: Device, *, on_space: bool, chat: str = "", quota_per_s: float = 1.0) -> str:
    """Where this app runs and what that means for a visitor; `chat` is who answers, `quota_per_s` ZeroGPU's price of a declared second."""
    who = "This Space" if on_space else "This app"
    memory = gib(device.memory_bytes)
    match device.kind:
        case "cpu":
            cores = "1 core" if device.cores == 1 else f"{device.cores} cores"
            text = (
                f"{who} runs on <strong>CPU ({cores}, {memory})</strong>, {escape(device.name)}. What is measured here "
                f"has to fit the {gib(device.free_bytes)} that are free now."
            )
        case "cuda":
            text = f"{who} runs on <strong>{escape(device.name)} ({memory})</strong>; {gib(device.free_bytes)} of its memory are free now."
        case "zerogpu":
            text = (
                f"{who} runs on <strong>{escape(device.name)}</strong>: each run gets {memory} of a GPU for the seconds that it declares, "
                f"and takes {quota_per_s:g} s of your own daily quota for each of them."
            )
    answers = f" The chat is answered by <strong>{escape(chat)}</strong>." if chat else ""
    return f'<p class="device" role="status">{text}{answers}</p>'


def progress_line(note: str, done: int = 0, of: int = 0) -> str:
    """The present step, with a bar where the amount of work is known."""
    bar = f'<progress max="{of}" value="{done}" aria-label="Progress"></progress>' if of else ""
    return f'<div class="working" role="status"><span class="pulse" aria-hidden="true"></span><span>{escape(note)}</span>{bar}</div>'


def stage_list(names: Mapping[str, str], now: str) -> str:
    """The steps of a run, those that are done marked, and the present one."""
    order = list(names)
    at = order.index(now) if now in names else 0
    items = "".join(
        f'<li class="{"done" if place < at else "now" if place == at else "ahead"}"{" aria-current=step" if place == at else ""}>'
        f"{escape(names[name])}</li>"
        for place, name in enumerate(order)
    )
    return f'<ol class="stages" aria-label="Progress" aria-live="polite">{items}</ol>'


def stopped_line(what: str) -> str:
    """Said after the visitor stopped a run."""
    return f'<p class="stopped" role="status">{escape(what)}</p>'


def answer_details(answer: Answer) -> str:
    """The caveats and sources of a result, folded behind a line."""
    inner = caveat_list(answer["caveats"]) + source_list(answer["sources"])
    return f'<details class="behind"><summary>Assumptions and sources</summary>{inner}</details>' if inner else ""


def chat_card(metrics: ChatMetrics, piece: ChatPiece) -> str:
    """What one answer took, each figure beside its prediction for exactly this run."""
    cells = "".join(_cell(figure) for figure in compare_figures(metrics))
    tokens = f"{whole(metrics['prompt_tokens'])} tokens read, {whole(metrics['output_tokens'])} written"
    ended = _STOPPED.get(metrics["stopped"], "")
    return (
        '<section class="card run" aria-label="What this answer took">'
        f'<p class="eyebrow">{escape(metrics["model"])} in {escape(metrics["precision"])} on {escape(metrics["device"])}</p>'
        f'<dl class="figures">{cells}</dl>'
        f'<p class="quiet">{tokens}; {ended}. Peak memory: {_PEAK_OF.get(metrics["peak_of"], "as measured")}.</p>'
        f"{answer_details(piece)}</section>"
    )


def _cell(figure: ComparedFigure) -> str:
    between = f" ({figure.between})" if figure.between else ""
    guess = f"<small>predicted {figure.predicted}{between}</small><small>{figure.off}</small>" if figure.predicted else ""
    return f"<div><dt>{figure.name}</dt><dd>{figure.measured}{guess or '<small>not predicted</small>'}</dd></div>"


def measured_table(run: MeasureAnswer, caption: str) -> str:
    """Measured against predicted, a row and two bars for each figure."""
    heads = ("Figure", "Measured", "Predicted", "The prediction was")
    rows = [
        (
            escape(figure.name) + ratio_bars(figure.ratio),
            f"<strong>{figure.measured}</strong>",
            (figure.predicted or "–") + (f"<small>{figure.between}</small>" if figure.between else ""),
            figure.off or "–",
        )
        for figure in compare_figures(run)
    ]
    return table_markup(caption, heads, rows, "against")


def ratio_bars(ratio: float | None) -> str:
    """Two bars of one length scale: what was measured, and below it what had been predicted. Drawing only; the numbers stand beside it."""
    if ratio is None:
        return ""
    longest = max(1.0, ratio)
    cut = min(ratio, _WIDEST * 1.0) if longest > _WIDEST else ratio
    scale = max(1.0, cut)
    return (
        '<span class="bars" aria-hidden="true">'
        f'<i class="measured" style="width:{100 / scale:.1f}%"></i><i class="predicted" style="width:{100 * cut / scale:.1f}%"></i></span>'
    )


def chat_text(text: str, metrics: ChatMetrics) -> str:
    """The answer and what it took, as plain words."""
    return "\n".join([text.strip(), "", f"{metrics['model']} on {metrics['device']}", *map(figure_words, compare_figures(metrics))])


def figure_words(figure: ComparedFigure) -> str:
    """A figure on one line."""
    guess = f", predicted {figure.predicted} ({figure.off})" if figure.predicted else ""
    return f"{figure.name}: {figure.measured}{guess}"


STAGES = {
    "starting": "A fresh process",
    "building": "Building the architecture",
    "weights": "Random weights on the device",
    "warm-up": "Warming up",
    "running": "Measured run",
}
"""The stages of a measurement, in order."""
_VERDICTS = {
    "confirmed": ("fits", "prediction confirmed"),
    "memory_off": ("lacks", "memory was off"),
    "speed_off": ("lacks", "speed was off"),
    "invalid": ("lacks", "not valid"),
}


def expected_card(run: ExpectedAnswer, reference: str) -> str:
    """What is predicted of a run before it, and the memory that it needs beside what it may take."""
    cells = ""
    for kind, name in KINDS:
        figure = run["predicted"][kind]
        if figure is not None:
            between = _between(kind, run["low"], run["high"])
            cells += f"<div><dt>{name}</dt><dd>{format_figure(kind, figure)}{f'<small>{between}</small>' if between else ''}</dd></div>"
    needs = (
        f"weights {gib(run['weights_bytes'])} + cache {gib(run['kv_cache_bytes'])} + activations {gib(run['activation_bytes'])} + "
        f"the process's own {gib(run['runtime_bytes'])} = at most {gib(run['need_bytes'])}"
    )
    return (
        '<section class="card expected" aria-label="Expected of this run">'
        f'<p class="eyebrow">Predicted for {escape(model_name(run["model"], reference))} in {escape(run["precision"])}, '
        f"{whole(run['prompt_tokens'])} prompt and {whole(run['output_tokens'])} output tokens</p>"
        f'<dl class="figures">{cells}</dl>'
        f'<p class="quiet"><em class="badge fits">memory fits</em> {needs}. A run may take {gib(run["allowed_bytes"])} of the '
        f"{gib(run['free_bytes'])} that are free. {_time(run)}</p></section>"
    )


def expected_s(run: ExpectedAnswer) -> float | None:
    """Seconds that a run is predicted to take; None where its speed is not predicted."""
    first, rate = run["predicted"]["ttft_s"], run["predicted"]["decode_tokens_per_s"]
    return None if first is None else first + (run["output_tokens"] / rate if rate else 0.0)


def instead_link(model: str) -> str:
    """A link that takes another model in place of one that is refused here (`assets/page.js`); nothing where there is none."""
    name = escape(model)
    link = f'<a class="act" href="?tab=live&amp;model={quote(model)}" data-model="{name}">Try {name} instead</a>'
    return f'<p class="actions">{link}</p>' if model else ""


def _time(run: ExpectedAnswer) -> str:
    """How long it is predicted to take, beside how long a run may take; the device's own pace, probed at the start, decides."""
    seconds = expected_s(run)
    if seconds is None:
        return f"It may take {run['limit_s']:,.0f} s; the device's pace is tried first."
    near = "" if seconds <= run["limit_s"] else " The device's pace is tried first, and decides: most likely the run will be refused."
    return f"Predicted time {format_seconds(seconds)}; a run may take {run['limit_s']:,.0f} s.{near}"


def measure_card(run: MeasureAnswer, reference: str) -> str:
    """The result: what ran, the verdict, and every figure beside the prediction for exactly this run."""
    mark, word = _VERDICTS.get(run["verdict"]["code"], ("", run["verdict"]["code"]))
    name = model_name(run["model"], reference)
    what = f"{escape(name)} with {run['weights']} weights in {escape(run['precision'])}, on {escape(run['device'])}"
    caption = f"{whole(run['prompt_tokens'])} prompt tokens, {whole(run['output_tokens'])} output tokens: measured against predicted"
    return (
        '<section class="card run measured-card" aria-label="Measurement">'
        f'<p class="eyebrow">{what}</p>'
        f'<p class="headline"><em class="badge {mark}">{escape(word)}</em> {escape(run["verdict"]["message"])}</p>'
        f"{measured_table(run, caption)}{_parts(run)}{answer_details(run)}</section>"
    )


def _parts(run: MeasureAnswer) -> str:
    """What the prediction is made of, and what was seen beside it."""
    guess, details = run["predicted"], run["device_details"]
    parts = (
        f"Predicted peak: weights {gib(guess['weights_bytes'])}, cache {gib(guess['kv_cache_bytes'])}, "
        f"activations {gib(guess['activation_bytes'])}."
    )
    weights = f"Weights alone, measured: {gib(run['weights_bytes'])}, made in {format_seconds(run['weights_s'])}."
    beside_it = f"The process held {gib(run['before_bytes'])} without the model." if run["before_bytes"] else ""
    kernel = f" attention {escape(run['attention'])}," if run["attention"] else ""
    ran = f"{escape(run['architecture'])},{kernel} torch {escape(details['torch'])}, transformers {escape(details['transformers'])}."
    return f'<p class="quiet">{parts} {weights} {beside_it}</p><p class="quiet">{ran}</p>'


def measure_text(run: MeasureAnswer, reference: str) -> str:
    """The result in plain words."""
    head = (
        f"{model_name(run['model'], reference)} with {run['weights']} weights in {run['precision']} on {run['device']}, "
        f"{run['prompt_tokens']} prompt and {run['output_tokens']} output tokens"
    )
    return "\n".join([head, run["verdict"]["message"], *map(figure_words, compare_figures(run))])


def measure_csv(run: MeasureAnswer) -> str:
    """The figures as rows: name, measured, predicted, predicted / measured − 1."""
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(("figure", "measured", "predicted", "error_ratio"))
    for kind, _ in KINDS:
        writer.writerow((kind, run[kind], run["predicted"][kind], run["error_ratio"][kind]))
    return out.getvalue()
