"""The cards of the live demo: the device, progress, figures of a chat answer, and the heartbeat.

Of the heartbeat: the first product apart from the warm ones, the floor, and whether the times are physically possible; and why a time that
was published for a TPU is not (every figure of that explanation but the published one comes from the catalog).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from markupsafe import Markup

from lib.answers.live import ChatMetrics, ChatPiece, HeartbeatAnswer, HeartbeatProgress
from lib.catalog.silicon import Accelerator
from lib.laws.forward_pass import roofline
from lib.live.heartbeat import MatmulCase, datasheet_roof
from lib.platforms import PER_CALL, TRAITS
from lib.present.cards import answer_details, speed_figure
from lib.present.html import call_macro, render_html, trusted
from lib.present.live_measurements import compare_figures, figure_words, predicted_below
from lib.present.markup import code_blocks, download_link, fold
from lib.present.numbers import count_words, format_flops, format_seconds, usd_per_hour, whole
from lib.present.sentences import say, sentence
from lib.present.tables import hardware_name, show_table
from lib.present.wording import write_text

if TYPE_CHECKING:
    from lib.advisor.result import Recommendation
    from lib.live.device import Device


def run_words(model: str, prompt_tokens: int, output_tokens: int, seconds: float | None) -> str:
    """A run and its predicted time, as plain words."""
    time = "" if seconds is None else f" takes about {format_seconds(max(1.0, round(seconds)))}"
    return f"a run of {whole(prompt_tokens)} prompt and {whole(output_tokens)} output tokens with {model}{time}"


def smaller_run_note(asked: str, run: str) -> str:
    """Said where the default run was made smaller; `run` is from `run_words`."""
    return str(call_macro("live.html.j2", "smaller_run", asked, run))


def press_line(where: str) -> str:
    """The head of the tab: the button to press, and its result; `where` names the hardware."""
    return str(call_macro("live.html.j2", "press", where))


def where_words(device: Device) -> str:
    """The device in a heading."""
    if device.kind == "cpu":
        return count_words(device.cores, "CPU core")
    return TRAITS[device.kind].label if device.kind in PER_CALL else device.name


def device_line(device: Device, *, on_space: bool, chat: str = "", quota_per_s: float = 1.0) -> str:
    """Device of this app and its meaning for a visitor; `chat` is who answers, `quota_per_s` ZeroGPU's price of a declared second."""
    who = "This Space" if on_space else "This app"
    return str(call_macro("live.html.j2", "device", device, who, chat, f"{quota_per_s:g}"))


def run_memory_note() -> str:
    """The reason why the figure differs from that of the tab *Memory*."""
    return str(call_macro("live.html.j2", "run_memory"))


def progress_line(note: str, steps: int = 0, total: int = 0) -> str:
    """The present step, with a bar where the amount of work is known."""
    return str(call_macro("live.html.j2", "progress", note, steps, total))


def run_tiers(answer: Recommendation) -> str:
    """A run on ZeroGPU and every tier, the fastest first, behind a line; a tier that does not do it has its reason."""
    ranked = sorted(answer.ranked, key=lambda entry: -(entry.speed.decode_tokens_per_s or 0.0))
    rows = [
        (
            hardware_name(entry.name, entry.hardware, entry.platform),
            "–" if entry.speed.ttft_s is None else format_seconds(entry.speed.ttft_s),
            "–" if (pace := speed_figure(entry.speed)) is None else pace[1],
            usd_per_hour(entry.cost.usd_per_hour),
        )
        for entry in ranked
    ]
    rows += [
        (
            hardware_name(one.name, one.hardware, one.platform),
            "–",
            Markup("<small>{}</small>").format(sentence(one.reason)),
            usd_per_hour(one.offer.usd_per_hour),
        )
        for one in answer.rejected
    ]
    if not rows:
        return ""
    title = "The same run on every tier, predicted"
    return fold(title, show_table(title, ("Hardware", "First token", "Speed", "Per hour"), rows, "run-tiers"))


def stage_list(names: Mapping[str, str], stage: str) -> str:
    """The steps of a run, those that are done marked, and the present one."""
    order = list(names)
    at = order.index(stage) if stage in names else 0
    return str(call_macro("live.html.j2", "stages", [names[name] for name in order], at))


def stopped_line(what: str) -> str:
    """Said after the visitor stopped a run."""
    return str(call_macro("live.html.j2", "stopped", what))


def chat_card(metrics: ChatMetrics, piece: ChatPiece) -> str:
    """Time and memory of one answer, each figure with its prediction for exactly this run."""
    figures = [(figure.name, trusted(predicted_below(figure))) for figure in compare_figures(metrics)]
    ending, peak = write_text("live", "endings", metrics.stopped), write_text("live", "peak", metrics.peak_of)
    return str(call_macro("live.html.j2", "chat", metrics, figures, ending, peak, trusted(answer_details(piece))))


def chat_text(text: str, metrics: ChatMetrics) -> str:
    """The answer and its figures, as plain words."""
    return "\n".join([text.strip(), "", f"{metrics.model} on {metrics.device}", *map(figure_words, compare_figures(metrics))])


PUBLISHED_S = 5.6e-6
"""0.0056 ms on a TPU v6e for 128 × 4096 × 16384 in float32, mean of 100 iterations: the result that this explains."""
_PUBLISHED = MatmulCase(batch=128, hidden=4096, intermediate=16384, dtype="float32")


def explain_published_time(chip: Accelerator) -> str:
    """Why the published time timed the dispatch; a chip without a float32 peak multiplies float32 in passes of its bf16 units."""
    flops, weights = _PUBLISHED.flops, _PUBLISHED.weight_bytes
    roof = datasheet_roof(chip, _PUBLISHED.dtype)
    least = roofline(moved_bytes=weights, flop=flops, bandwidth=roof.bandwidth, peak=roof.peak)
    return say(
        "cards",
        "live",
        "published",
        chip=chip.name,
        published_ms=1e3 * PUBLISHED_S,
        weights_mb=weights / 1e6,
        bandwidth_gb=chip.bandwidth / 1e9,
        memory_s=format_seconds(least.memory_s),
        gflop=flops / 1e9,
        compute_s=format_seconds(least.compute_s or 0.0),
        least_s=format_seconds(least.seconds),
        times=least.seconds / PUBLISHED_S,
        read_tb=weights / PUBLISHED_S / 1e12,
        rate_pflop=flops / PUBLISHED_S / 1e15,
    )


def verdict_sentences(answer: HeartbeatAnswer) -> str:
    """A result of /heartbeat in two sentences."""
    median, cold, floor = map(format_seconds, (answer.median_s, answer.cold_first_s, answer.floor_s))
    took = say("cards", "live", "took", median_s=median, iterations=answer.iterations, cold_s=cold)
    if not answer.valid:
        return say("cards", "live", "impossible", took=took, floor_s=floor)
    rate = format_flops(answer.achieved_flops_per_s)
    if answer.efficiency is None:
        return say("cards", "live", "rate", took=took, rate=rate)
    return say("cards", "live", f"efficiency_{answer.bound}", took=took, rate=rate, floor_s=floor, efficiency=answer.efficiency)


def phase_words(progress: HeartbeatProgress) -> str:
    """The progress of a heartbeat in words."""
    words = write_text("live", "phases", progress.phase, done=progress.done, of=progress.of)
    return words if progress.last_s is None else f"{words}: {format_seconds(progress.last_s)}"


def heartbeat_card(beat: HeartbeatAnswer) -> str:
    """Times, floor, efficiency; a result that cannot be right says so first, and why."""
    verdict = verdict_sentences(beat)
    if not beat.valid:
        verdict = next((sentence(caveat) for caveat in beat.caveats if caveat.code == "beats_the_floor"), verdict)
    return render_html(
        "heartbeat.html.j2",
        beat=beat,
        shape=shape_words(beat),
        verdict=verdict,
        figures=_heartbeat_figures(beat),
        floor=_floor(beat),
        details=trusted(answer_details(beat)),
    )


def shape_words(beat: HeartbeatAnswer) -> str:
    """The shapes that were multiplied, in words."""
    sizes = f"{whole(beat.batch)} × {whole(beat.hidden)} by {whole(beat.hidden)} × {whole(beat.intermediate)}"
    return f"One product of {sizes} in {beat.dtype}"


def _heartbeat_figures(beat: HeartbeatAnswer) -> list[tuple[str, str]]:
    return [
        ("First product, cold", format_seconds(beat.cold_first_s)),
        ("Warm, median", format_seconds(beat.median_s)),
        ("Warm, 95 % within", format_seconds(beat.p95_s)),
        ("Floor", format_seconds(beat.floor_s)),
        ("Efficiency", "none" if beat.efficiency is None else f"{100 * beat.efficiency:.1f} %"),
        ("Achieved", format_flops(beat.achieved_flops_per_s)),
    ]


def _floor(beat: HeartbeatAnswer) -> str:
    """The arithmetic of the floor."""
    bandwidth = f"{beat.bandwidth_bytes_per_s / 1e9:,.3g} GB/s"
    memory = f"{beat.moved_bytes / 1e6:,.0f} MB at {bandwidth} take {format_seconds(beat.floor_memory_s)}"
    if beat.floor_compute_s is None:
        sums = say("cards", "live", "arithmetic_unknown")
    else:
        peak = format_flops(beat.peak_flops_per_s or 0.0)
        sums = f"{beat.flops / 1e9:,.3g} GFLOP at {peak} take {format_seconds(beat.floor_compute_s)}"
    return f"{memory}; {sums}"


def heartbeat_text(beat: HeartbeatAnswer) -> str:
    """The result in plain words."""
    efficiency = "" if beat.efficiency is None else f", efficiency {100 * beat.efficiency:.1f} %"
    return (
        f"{shape_words(beat)} on {beat.device}: median {format_seconds(beat.median_s)}, 95 % within {format_seconds(beat.p95_s)}, "
        f"first {format_seconds(beat.cold_first_s)}, floor {format_seconds(beat.floor_s)}{efficiency}, "
        f"{format_flops(beat.achieved_flops_per_s)}, {'valid' if beat.valid else 'NOT valid'} (torch {beat.torch})"
    )


def script_block(name: str, code: str) -> str:
    """A script to read, copy and save. Gradio's own code box colours strings too faintly to be read, and its link has no name."""
    saved = f'<div class="actions">{download_link(f"Download {name}", name, "text/x-python", code)}</div>'
    return f'<div class="long-code">{code_blocks([(name, code)])}{saved}</div>'
