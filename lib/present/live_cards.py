"""What the live demo says: where it runs, what an answer took, what a measurement found, and how far a run has come."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lib.present.explain import caveats, sources
from lib.present.live_figures import Beside, beside
from lib.present.markup import escaped
from lib.present.numbers import gib, whole
from lib.present.rows import table

if TYPE_CHECKING:
    from lib.live.device import Device

Found = Mapping[str, Any]
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
                f"{who} runs on <strong>CPU ({cores}, {memory})</strong>, {escaped(device.name)}. What is measured here "
                f"has to fit the {gib(device.free_bytes)} that are free now."
            )
        case "cuda":
            text = f"{who} runs on <strong>{escaped(device.name)} ({memory})</strong>; {gib(device.free_bytes)} of its memory are free now."
        case "zerogpu":
            text = (
                f"{who} runs on <strong>{escaped(device.name)}</strong>: each run gets {memory} of a GPU for the seconds that it declares, "
                f"and takes {quota_per_s:g} s of your own daily quota for each of them."
            )
    answers = f" The chat is answered by <strong>{escaped(chat)}</strong>." if chat else ""
    return f'<p class="device" role="status">{text}{answers}</p>'


def working(note: str, done: int = 0, of: int = 0) -> str:
    """What is going on; with a bar where it is known how much there is to do."""
    bar = f'<progress max="{of}" value="{done}" aria-label="Progress"></progress>' if of else ""
    return f'<div class="working" role="status"><span class="pulse" aria-hidden="true"></span><span>{escaped(note)}</span>{bar}</div>'


def stages(names: Mapping[str, str], now: str) -> str:
    """The steps of a run, those that are done marked, and the present one."""
    order = list(names)
    at = order.index(now) if now in names else 0
    items = "".join(
        f'<li class="{"done" if place < at else "now" if place == at else "ahead"}"{" aria-current=step" if place == at else ""}>'
        f"{escaped(names[name])}</li>"
        for place, name in enumerate(order)
    )
    return f'<ol class="stages" aria-label="Progress" aria-live="polite">{items}</ol>'


def stopped(what: str) -> str:
    """Said after the visitor stopped a run."""
    return f'<p class="stopped" role="status">{escaped(what)}</p>'


def behind(answer: Found) -> str:
    """What a result leaves open and where it comes from, behind a line."""
    inner = caveats(answer["caveats"]) + sources(answer["sources"])
    return f'<details class="behind"><summary>What this leaves open, and sources</summary>{inner}</details>' if inner else ""


def chat_card(metrics: Found, piece: Found) -> str:
    """What one answer took, each figure beside its prediction for exactly this run."""
    cells = "".join(_cell(figure) for figure in beside(metrics))
    tokens = f"{whole(metrics['prompt_tokens'])} tokens read, {whole(metrics['output_tokens'])} written"
    ended = _STOPPED.get(metrics["stopped"], "")
    return (
        '<section class="card run" aria-label="What this answer took">'
        f'<p class="eyebrow">{escaped(metrics["model"])} in {escaped(metrics["precision"])} on {escaped(metrics["device"])}</p>'
        f'<dl class="figures">{cells}</dl>'
        f'<p class="quiet">{tokens}; {ended}. Peak memory: {_PEAK_OF.get(metrics["peak_of"], "as measured")}.</p>{behind(piece)}</section>'
    )


def _cell(figure: Beside) -> str:
    between = f" ({figure.between})" if figure.between else ""
    guess = f"<small>predicted {figure.predicted}{between}</small><small>{figure.off}</small>" if figure.predicted else ""
    return f"<div><dt>{figure.name}</dt><dd>{figure.measured}{guess or '<small>not predicted</small>'}</dd></div>"


def compared(run: Found, caption: str) -> str:
    """Measured against predicted, a row and two bars for each figure."""
    heads = ("Figure", "Measured", "Predicted", "The prediction was")
    rows = [
        (
            escaped(figure.name) + pair(figure.ratio),
            f"<strong>{figure.measured}</strong>",
            (figure.predicted or "–") + (f"<small>{figure.between}</small>" if figure.between else ""),
            figure.off or "–",
        )
        for figure in beside(run)
    ]
    return table(caption, heads, rows, "against")


def pair(ratio: float | None) -> str:
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


def as_text_chat(text: str, metrics: Found) -> str:
    """The answer and what it took, as plain words."""
    return "\n".join([text.strip(), "", f"{metrics['model']} on {metrics['device']}", *map(in_words, beside(metrics))])


def in_words(figure: Beside) -> str:
    """A figure on one line."""
    guess = f", predicted {figure.predicted} ({figure.off})" if figure.predicted else ""
    return f"{figure.name}: {figure.measured}{guess}"
