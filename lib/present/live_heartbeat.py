"""The heartbeat in words: the first product apart from the warm ones, the floor, and whether the times are physically possible.

It also shows why a time that was published for a TPU is impossible. Every figure but the published one comes from the catalog.
"""

from __future__ import annotations

from dataclasses import dataclass

from lib.answers.live import HeartbeatAnswer, HeartbeatProgress
from lib.catalog.silicon import Accelerator
from lib.laws.forward_pass import Floor, roofline
from lib.live.heartbeat import MatmulCase, datasheet_roof
from lib.present.live_cards import answer_details, format_seconds
from lib.present.markup import download_link, escape
from lib.present.numbers import whole
from lib.present.snippets import code_blocks

PUBLISHED_S = 5.6e-6
"""0.0056 ms on a TPU v6e for 128 × 4096 × 16384 in float32, mean of 100 iterations: the result that this explains."""
_PUBLISHED = MatmulCase(batch=128, hidden=4096, intermediate=16384, dtype="float32")


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedTimeCheck:
    """The arithmetic against a published time: what the work needs at least, and what the time would mean if it were true."""

    published_s: float
    flops: int
    weight_bytes: int
    least: Floor
    bandwidth_needed: float
    rate_needed: float


def check_published_time(chip: Accelerator, published_s: float = PUBLISHED_S) -> PublishedTimeCheck:
    """The published case on this chip; a chip without a float32 peak multiplies float32 in passes of its bf16 units, which bounds it."""
    flops, weights = _PUBLISHED.flops, _PUBLISHED.weight_bytes
    roof = datasheet_roof(chip, _PUBLISHED.dtype)
    return PublishedTimeCheck(
        published_s=published_s,
        flops=flops,
        weight_bytes=weights,
        least=roofline(moved_bytes=weights, flop=flops, bandwidth=roof.bandwidth, peak=roof.peak),
        bandwidth_needed=weights / published_s,
        rate_needed=flops / published_s,
    )


def explain_published_time(chip: Accelerator, published_s: float = PUBLISHED_S) -> str:
    """Why the published time timed the dispatch."""
    run = check_published_time(chip, published_s)
    least = run.least.seconds
    return (
        f"A published run of this product on a {chip.name} took {_ms(published_s)}. It cannot have: the weights alone are "
        f"{run.weight_bytes / 1e6:,.0f} MB, which at the chip's {chip.bandwidth / 1e9:,.0f} GB/s take {_ms(run.least.memory_s)}, and its "
        f"{run.flops / 1e9:,.1f} GFLOP take {_ms(run.least.compute_s or 0.0)} at the peak of its matrix units. At least {_ms(least)}, "
        f"{least / published_s:,.0f} times as long. Taken at its word, the chip would have read {run.bandwidth_needed / 1e12:,.0f} TB/s "
        f"and computed {run.rate_needed / 1e15:,.1f} PFLOP/s. What was timed is the dispatch: on a TPU (and on a GPU) the call returns "
        "when the work has been handed over, and the clock was stopped there. The script below waits: it reads each product's sum back "
        "before it looks at the clock."
    )


def verdict_sentences(answer: HeartbeatAnswer) -> str:
    """A result of /heartbeat in two sentences."""
    cold = _ms(answer["cold_first_s"])
    took = f"One product takes {_ms(answer['median_s'])} here (median of {answer['iterations']:,}; the first, cold, {cold})"
    if not answer["valid"]:
        return f"{took}, and that is not possible: at least {_ms(answer['floor_s'])} are needed. The caveats say why it is not believed."
    rate = f"{answer['achieved_flops_per_s'] / 1e9:,.0f} GFLOP/s"
    if answer["efficiency"] is None:
        return f"{took}: {rate}."
    bound = "memory" if answer["bound"] == "bandwidth" else "arithmetic"
    least = f"It cannot take less than {_ms(answer['floor_s'])} by the {bound}"
    return f"{took}: {rate}. {least}, so it reaches {answer['efficiency']:.0%} of the theoretical peak."


def _ms(seconds: float) -> str:
    """A time in milliseconds with two or three figures that count."""
    return f"{seconds * 1e3:,.3g} ms" if seconds < 1 else f"{seconds:,.2f} s"


_INVALID = "beats_the_floor"
PHASES = {
    "cold": "The first product, before anything is warm",
    "warm-up": "Warming up: product {done} of {of}",
    "warm": "Product {done} of {of}, each awaited",
    "bandwidth": "No datasheet is known for this device: measuring how fast its memory can be read",
}


def phase_words(progress: HeartbeatProgress) -> str:
    """The progress of a heartbeat in words."""
    words = PHASES.get(progress["phase"], "At work").format(done=whole(progress["done"]), of=whole(progress["of"]))
    return words if progress["last_s"] is None else f"{words}: {format_seconds(progress['last_s'])}"


def heartbeat_card(beat: HeartbeatAnswer) -> str:
    """Times, floor, efficiency; a result that cannot be right says so first, and why."""
    return (
        f'<section class="card {"pulse-card" if beat["valid"] else "none"}" aria-label="Heartbeat">'
        f'<p class="eyebrow">{escape(shape_words(beat))}, on {escape(beat["device"])}</p>{_headline(beat)}'
        f'<dl class="figures">{"".join(_cells(beat))}</dl>{_floor(beat)}{answer_details(beat)}</section>'
    )


def shape_words(beat: HeartbeatAnswer) -> str:
    """The shapes that were multiplied, in words."""
    sizes = f"{whole(beat['batch'])} × {whole(beat['hidden'])} by {whole(beat['hidden'])} × {whole(beat['intermediate'])}"
    return f"One product of {sizes} in {beat['dtype']}"


def _headline(beat: HeartbeatAnswer) -> str:
    mark, word = ("fits", "valid") if beat["valid"] else ("lacks", "not valid")
    head = f'<p class="headline"><span class="figure">{format_seconds(beat["median_s"])}</span> <em class="badge {mark}">{word}</em></p>'
    if beat["valid"]:
        return f"{head}<p>{escape(verdict_sentences(beat))}</p>"
    why = next((caveat["message"] for caveat in beat["caveats"] if caveat["code"] == _INVALID), verdict_sentences(beat))
    return f'{head}<p class="invalid" role="alert"><strong>These times cannot be right.</strong> {escape(why)}</p>'


def _cells(beat: HeartbeatAnswer) -> list[str]:
    figures = [
        ("First product, cold", format_seconds(beat["cold_first_s"])),
        ("Warm, median", format_seconds(beat["median_s"])),
        ("Warm, 95 % within", format_seconds(beat["p95_s"])),
        ("Floor", format_seconds(beat["floor_s"])),
        ("Efficiency", "none" if beat["efficiency"] is None else f"{100 * beat['efficiency']:.1f} %"),
        ("Achieved", format_flops(beat["achieved_flops_per_s"])),
    ]
    return [f"<div><dt>{name}</dt><dd>{text}</dd></div>" for name, text in figures]


def format_flops(rate: float) -> str:
    """Operations per second as TFLOP/s, GFLOP/s below a tenth of one."""
    return f"{rate / 1e12:,.2f} TFLOP/s" if rate >= 1e11 else f"{rate / 1e9:,.3g} GFLOP/s"  # noqa: PLR2004  a tenth of a TFLOP/s


def _floor(beat: HeartbeatAnswer) -> str:
    """The arithmetic of the floor."""
    bandwidth = f"{beat['bandwidth_bytes_per_s'] / 1e9:,.3g} GB/s"
    memory = f"{beat['moved_bytes'] / 1e6:,.0f} MB at {bandwidth} take {format_seconds(beat['floor_memory_s'])}"
    if beat["floor_compute_s"] is None:
        sums = "what the arithmetic takes at least is not known of this device"
    else:
        peak = format_flops(beat["peak_flops_per_s"] or 0.0)
        sums = f"{beat['flops'] / 1e9:,.3g} GFLOP at {peak} take {format_seconds(beat['floor_compute_s'])}"
    counted = f"Median of {whole(beat['iterations'])} warm products; the {whole(beat['warmup'])} before them and the first do not count."
    return f'<p class="quiet">Floor: {memory}; {sums}. {counted}</p>'


def heartbeat_text(beat: HeartbeatAnswer) -> str:
    """The result in plain words."""
    efficiency = "" if beat["efficiency"] is None else f", efficiency {100 * beat['efficiency']:.1f} %"
    return (
        f"{shape_words(beat)} on {beat['device']}: median {format_seconds(beat['median_s'])}, 95 % within {format_seconds(beat['p95_s'])}, "
        f"first {format_seconds(beat['cold_first_s'])}, floor {format_seconds(beat['floor_s'])}{efficiency}, "
        f"{format_flops(beat['achieved_flops_per_s'])}, {'valid' if beat['valid'] else 'NOT valid'} (torch {beat['torch']})"
    )


def script_block(name: str, code: str) -> str:
    """A script to read, copy and save. Gradio's own code box colours strings too faintly to be read, and its link has no name."""
    saved = f'<div class="actions">{download_link(f"Download {name}", name, "text/x-python", code)}</div>'
    return f'<div class="long-code">{code_blocks([(name, code)])}{saved}</div>'
