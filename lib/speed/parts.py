"""What a time to first token and a time per output token are made of: parts of 0 or more that add up to the time.

Reading weights overlaps with arithmetic, and launching with both. What overlaps is counted once: the longer of the two has its whole time,
the other what it adds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lib.laws import forward_pass, serving
from lib.laws.forward_pass import overlapped_time
from lib.memory.resolve import resolve_media
from lib.speed.batch import count_read
from lib.speed.predict import STATIC_BATCH_ENGINES
from lib.speed.result import SpeedPart

if TYPE_CHECKING:
    from lib.laws import Law
    from lib.speed.batch import Deployment
    from lib.speed.predict import SpeedTable
    from lib.speed.timing import ForwardPass


class _Work(NamedTuple):
    """What a pass is over, for the inputs of its parts: tokens, sequences, and tokens of cache of each (0 for a prompt)."""

    tokens: float
    sequences: float
    cached: float


def decode_parts(table: SpeedTable) -> tuple[SpeedPart, ...]:
    """Parts of the time per output token: a step of the sequences that decode together, and what others' prompts add to it."""
    of, times = table.deployments[0], table.times
    request, busy = of.request, float(times.decoding_sequences[0])
    if _starts_together(table):
        step, busy = times.step, of.running_requests
    else:
        step = times.busy_step
    parts = list(_pass_parts(table, step, _Work(busy, busy, request.prompt_tokens + request.output_tokens / 2)))
    rest = float(table.tpot_s.value[0]) - sum(part.seconds for part in parts)
    inputs = {"in flight": f"{request.concurrency}", "output tokens": f"{request.output_tokens}"}
    return (*parts, *_waits((("prompts of others", rest, serving.INTERRUPTIONS, inputs),)))


def prompt_parts(table: SpeedTable) -> tuple[SpeedPart, ...]:
    """Parts of the time to first token: the own prompt (a static batch: all prompts), the encoder before it, what a request waits for."""
    of, times, first = table.deployments[0], table.times, table.times.first_token
    together = _starts_together(table)
    prefill = times.prefill if together else times.lone_prefill
    sequences = of.running_requests if together else 1.0
    tokens = float(table.inputs.prompt_tokens[0]) * sequences
    own = [
        *_pass_parts(table, prefill.matrices, _Work(tokens, sequences, 0.0)),
        _part("attention", float(prefill.attention[0]), forward_pass.ATTENTION, {"T": f"{float(table.inputs.prompt_tokens[0]):g}"}),
    ]
    stages = float(prefill.total[0]) / sum(part.seconds for part in own)  # stages that work on chunks at the same time
    parts = [replace(part, seconds=part.seconds * stages) for part in own]
    if table.encoder_s[0]:
        parts.append(
            SpeedPart(
                name="encoder",
                seconds=float(table.encoder_s[0]),
                law="as for the prompt, with the encoder's layers",
                inputs=_encoder_inputs(of),
                source=forward_pass.FITTED_CONSTANTS,
            )
        )
    inputs = {"in flight": f"{of.request.concurrency}", "running": f"{of.running_requests:g}"}
    fixed_s = times.request_s if together else first.fixed_s
    waits = [
        ("prompts ahead", 0.0 if together else float(np.asarray(first.prompts_ahead_s)[0]), serving.PROMPTS_AHEAD, inputs),
        ("decode steps waited for", 0.0 if together else float(np.asarray(first.steps_s)[0]), serving.STEPS_WAITED, inputs),
        ("fixed time of a request", float(np.asarray(fixed_s)[0]), serving.FIXED_TIME, {"engine": of.layout.engine}),
    ]
    rest = float(table.ttft_s.value[0]) - sum(part.seconds for part in parts) - sum(wait[1] for wait in waits)
    return (*parts, *_waits((*waits, ("wait for a place", rest, serving.PLACES, inputs))))


def _starts_together(table: SpeedTable) -> bool:
    of = table.deployments[0]
    return of.layout.engine in STATIC_BATCH_ENGINES or of.work.decoder is None


_LEAST_S = 1e-9  # below it a part is rounding


def _waits(waits: tuple[tuple[str, float, Law, dict[str, str]], ...]) -> Iterator[SpeedPart]:
    """Those that take any time."""
    return (_part(name, seconds, law, inputs) for name, seconds, law, inputs in waits if seconds > _LEAST_S)


def _part(name: str, seconds: float, law: Law, inputs: dict[str, str]) -> SpeedPart:
    return SpeedPart(name=name, seconds=seconds, law=law.equation, inputs=inputs, source=law.source)


def _pass_parts(table: SpeedTable, of_pass: ForwardPass, work: _Work) -> Iterator[SpeedPart]:
    """The parts of one forward pass, which add up to it."""
    of, inputs = table.deployments[0], table.inputs
    weights, compute, cache, copy, unpack, exchange, total = (
        float(np.asarray(part)[0])
        for part in (of_pass.weights, of_pass.compute, of_pass.cache, of_pass.copy, of_pass.unpack, of_pass.all_reduce, of_pass.total)
    )
    both = float(overlapped_time(weights_s=weights, compute_s=compute, emulated=bool(inputs.emulated[0])))
    longer = max(weights, compute)
    reads_longer = weights == longer
    overlaps = not bool(inputs.emulated[0])
    stack = of.work.decoder or of.work.encoder
    stored = stack.dense_bytes + stack.expert_bytes if stack else 0.0
    used = stack.active_parameters if stack else 0.0
    yield _part(
        "reading weights",
        weights if reads_longer else both - longer,
        forward_pass.WEIGHTS,
        {"bytes": f"{stored:,.0f}", "precision": of.precision, "sequences": f"{work.sequences:.3g}", **_card(of)}
        | (_overlap(weights, "arithmetic") if overlaps and not reads_longer else {}),
    )
    yield _part(
        "arithmetic",
        both - longer if reads_longer else compute,
        forward_pass.ARITHMETIC,
        {"parameters a token uses": f"{used:,.0f}", "tokens": f"{work.tokens:,.0f}", "units": of.arithmetic}
        | (_overlap(compute, "reading weights") if overlaps and reads_longer else {}),
    )
    per_token = {"bytes per token": f"{of.work.cache_per_token:,.0f}"}
    if work.cached:
        load = {"tokens": f"{work.cached:g}", "sequences": f"{work.sequences:.3g}"}
        yield _part("reading the cache", cache, forward_pass.CACHE, per_token | load)
    if copy:
        yield _part("copying the cache", copy, forward_pass.CACHE_COPY, per_token)
    if unpack:
        yield _part("unpacking weights", unpack, forward_pass.UNPACKING, {"packed parameters": f"{inputs.packed_parameters[0]:,.0f}"})
    yield _part(
        "host and launches",
        max(0.0, total - exchange - (both + cache + copy + unpack)),
        forward_pass.LAUNCHES,
        {"layers": f"{stack.layers:g}" if stack else "0", "engine": of.layout.engine},
    )
    yield _part(
        "exchange between devices",
        exchange,
        forward_pass.ALL_REDUCE,
        {"N": str(of.layout.tensor_parallel), "link": _rate(of.devices.link, "B")},
    )


def _overlap(alone_s: float, longer: str) -> dict[str, str]:
    """What the law gives for the shorter of two parts that overlap; it counts with what it adds to the longer."""
    return {"alone": f"{alone_s * 1e3:.3g} ms", "counted": f"what it adds to '{longer}'; together {forward_pass.OVERLAP.equation}"}


def _rate(per_s: float, unit: str) -> str:
    return f"{per_s / 1e12:.2f} T{unit}/s" if per_s >= 1e12 else f"{per_s / 1e9:.1f} G{unit}/s"  # noqa: PLR2004


def _card(of: Deployment) -> dict[str, str]:
    card, share = of.devices.silicon, of.devices.share
    rented = "" if share == 1 else f", {share:.2g} of it"
    return {"hardware": f"{of.layout.tensor_parallel} × {card.name}{rented}", "bandwidth": _rate(card.bandwidth * share, "B")}


def _encoder_inputs(of: Deployment) -> dict[str, str]:
    """How much an encoder or a vision tower reads before the decoder."""
    media = resolve_media(of.spec, of.request.media)
    if media.images:
        return {"pictures": f"{media.images:,}", "passes": f"{media.passes:,}", "positions": f"{media.positions:,}"}
    return {"positions": f"{count_read(of):,}"}
