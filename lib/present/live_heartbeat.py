"""The heartbeat in words: the first product apart from the warm ones, the time that cannot be beaten, and whether to believe it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lib.present.heartbeat_words import verdict
from lib.present.live_cards import behind
from lib.present.live_figures import fine
from lib.present.markup import download, escaped
from lib.present.numbers import whole
from lib.present.space_code import blocks_of

Found = Mapping[str, Any]
_INVALID = "beats_the_floor"
PHASES = {
    "cold": "The first product, before anything is warm",
    "warm-up": "Warming up: product {done} of {of}",
    "warm": "Product {done} of {of}, each awaited",
    "bandwidth": "No datasheet is known for this device: measuring how fast its memory can be read",
}


def phase_words(told: Found) -> str:
    """How far a heartbeat is."""
    words = PHASES.get(told["phase"], "At work").format(done=whole(told["done"]), of=whole(told["of"]))
    return words if told["last_s"] is None else f"{words}: {fine(told['last_s'])}"


def heartbeat_card(beat: Found) -> str:
    """Times, floor, efficiency; a result that cannot be right says so first, and why."""
    return (
        f'<section class="card {"pulse-card" if beat["valid"] else "none"}" aria-label="Heartbeat">'
        f'<p class="eyebrow">{escaped(shape(beat))}, on {escaped(beat["device"])}</p>{_headline(beat)}'
        f'<dl class="figures">{"".join(_cells(beat))}</dl>{_floor(beat)}{behind(beat)}</section>'
    )


def shape(beat: Found) -> str:
    """What was multiplied."""
    sizes = f"{whole(beat['batch'])} × {whole(beat['hidden'])} by {whole(beat['hidden'])} × {whole(beat['intermediate'])}"
    return f"One product of {sizes} in {beat['dtype']}"


def _headline(beat: Found) -> str:
    mark, word = ("fits", "valid") if beat["valid"] else ("lacks", "not valid")
    head = f'<p class="headline"><span class="figure">{fine(beat["median_s"])}</span> <em class="badge {mark}">{word}</em></p>'
    if beat["valid"]:
        return f"{head}<p>{escaped(verdict(beat))}</p>"
    why = next((caveat["message"] for caveat in beat["caveats"] if caveat["code"] == _INVALID), verdict(beat))
    return f'{head}<p class="invalid" role="alert"><strong>These times cannot be right.</strong> {escaped(why)}</p>'


def _cells(beat: Found) -> list[str]:
    figures = [
        ("First product, cold", fine(beat["cold_first_s"])),
        ("Warm, median", fine(beat["median_s"])),
        ("Warm, 95 % within", fine(beat["p95_s"])),
        ("Floor", fine(beat["floor_s"])),
        ("Efficiency", "none" if beat["efficiency"] is None else f"{100 * beat['efficiency']:.1f} %"),
        ("Achieved", flops(beat["achieved_flops_per_s"])),
    ]
    return [f"<div><dt>{name}</dt><dd>{text}</dd></div>" for name, text in figures]


def flops(rate: float) -> str:
    """Operations per second as TFLOP/s, GFLOP/s below a tenth of one."""
    return f"{rate / 1e12:,.2f} TFLOP/s" if rate >= 1e11 else f"{rate / 1e9:,.3g} GFLOP/s"  # noqa: PLR2004  a tenth of a TFLOP/s


def _floor(beat: Found) -> str:
    """The arithmetic of the floor."""
    memory = f"{beat['moved_bytes'] / 1e6:,.0f} MB at {beat['bandwidth_bytes_per_s'] / 1e9:,.3g} GB/s take {fine(beat['floor_memory_s'])}"
    if beat["floor_compute_s"] is None:
        sums = "what the arithmetic takes at least is not known of this device"
    else:
        sums = f"{beat['flops'] / 1e9:,.3g} GFLOP at {flops(beat['peak_flops_per_s'])} take {fine(beat['floor_compute_s'])}"
    counted = f"Median of {whole(beat['iterations'])} warm products; the {whole(beat['warmup'])} before them and the first do not count."
    return f'<p class="quiet">Floor: {memory}; {sums}. {counted}</p>'


def as_text_heartbeat(beat: Found) -> str:
    """The result in plain words."""
    efficiency = "" if beat["efficiency"] is None else f", efficiency {100 * beat['efficiency']:.1f} %"
    return (
        f"{shape(beat)} on {beat['device']}: median {fine(beat['median_s'])}, 95 % within {fine(beat['p95_s'])}, "
        f"first {fine(beat['cold_first_s'])}, floor {fine(beat['floor_s'])}{efficiency}, {flops(beat['achieved_flops_per_s'])}, "
        f"{'valid' if beat['valid'] else 'NOT valid'} (torch {beat['torch']})"
    )


def script(name: str, code: str) -> str:
    """A script to read, copy and save. Gradio's own code box colours strings too faintly to be read, and its link has no name."""
    saved = f'<div class="actions">{download(f"Download {name}", name, "text/x-python", code)}</div>'
    return f'<div class="long-code">{blocks_of([(name, code)])}{saved}</div>'
