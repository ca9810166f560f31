"""How fast each configuration is, as `lib.speed` predicts it: one call for all of them, and nothing where it has no answer.

The shape of a request is `lib.workload.prompt_and_output_tokens` of the context asked for. Sound counts as 1500 positions of a prompt (half
a minute; an encoder of its own hears its full length), one pass of an encoder as the prompt alone. Pictures and clips have the shape that
was published for their pipeline.

What the datasheet of an offer allows at best, for one configuration. Upper bounds only: `lib.advisor.speed` asks for predictions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from lib.advisor.candidates import DIVIDED, Candidate
from lib.advisor.result import Prediction, Speed
from lib.advisor.tasks import Family
from lib.catalog.offers import Offer
from lib.catalog.silicon import Accelerator
from lib.errors import InvalidInput, UnsupportedModel
from lib.laws.forward_pass import share_reached
from lib.laws.roofline import decode_floor, prefill_floor
from lib.memory import MemoryEstimate
from lib.model.spec import ModelSpec
from lib.precision import weight_format
from lib.speed import Band, Bands, SpeedRequest, Speeds, speed, speeds
from lib.speed.predict import STATIC, floors
from lib.units import BytesPerSecond, FlopPerSecond, Seconds
from lib.workload import OUTPUT_TOKENS, PROMPT_TOKENS, prompt_and_output_tokens

SOUND_TOKENS = 1500  # positions of half a minute of sound in Whisper's encoder; wav2vec2 makes as many frames
# Published times of one request without torch.compile (which ZeroGPU lacks), batch 1: a common pipeline stands for its kind.
PICTURE_S = 3.704  # SDXL fp16, 1024 px, 30 steps, A100; huggingface.co/stabilityai/stable-diffusion-xl-1.0-tensorrt (2023-10)
CLIP_S = 93.896  # CogVideoX-2b bf16, 49 frames of 480 x 720, 50 steps, A100; github.com/sayakpaul/diffusers-torchao at 9b9f238 (2024-09)


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Bandwidth and peak of the devices that work at the same time."""

    bandwidth: BytesPerSecond
    peak: FlopPerSecond | None
    basis: str


def machine(offer: Offer, candidate: Candidate, precision: str, cpus: tuple[Accelerator, ...]) -> Machine | None:
    """The offer as the roofline sees it; `None` for a CPU of which nothing is known."""
    if offer.silicon is None:
        return _host(offer.vcpu, cpus)
    at_once = candidate.devices if candidate.engine in DIVIDED else 1
    share = offer.accelerator_fraction * at_once
    peak = _peak(offer.silicon, precision)
    return Machine(
        bandwidth=BytesPerSecond(offer.silicon.bandwidth * share),
        peak=None if peak is None else FlopPerSecond(peak * share),
        basis="roofline floor",
    )


def _host(vcpu: int | None, cpus: tuple[Accelerator, ...]) -> Machine | None:
    """A CPU from the largest class whose figures are known and that is not larger (else the smallest), in proportion to its virtual CPUs.

    Larger machines gain less than in proportion (48 cores of Sapphire Rapids read 230 GB/s, not 540), so this stays an upper bound.
    """
    known = [(cpu.vcpu, cpu) for cpu in cpus if cpu.vcpu]
    if vcpu is None or not known:
        return None
    size, host = max((pair for pair in known if pair[0] <= vcpu), key=lambda pair: pair[0], default=known[0])
    peak = host.peak("fp32")
    return Machine(
        bandwidth=BytesPerSecond(host.bandwidth * vcpu / size),
        peak=None if peak is None else FlopPerSecond(peak * vcpu / size),
        basis=f"estimate for {size} virtual CPUs" + ("" if size == vcpu else f", scaled to {vcpu}"),
    )


def _peak(silicon: Accelerator, precision: str) -> FlopPerSecond | None:
    """The fastest rate that the weights of this precision can be multiplied at; storage formats multiply in half precision."""
    own = weight_format(precision).arithmetic
    names = ("fp32", "tf32") if own == "fp32" else (own, "bf16", "fp16")
    rates = [rate for name in names if name and silicon.supports(name) and (rate := silicon.peak(name)) is not None]
    return max(rates, default=None)


def read_parameters(spec: ModelSpec) -> int:
    """Parameters that a decode step multiplies by: the active ones without a separate input embedding, which is only looked up."""
    if not any(group.kind == "head" for group in spec.tensors):
        return spec.parameters_active
    looked_up = sum(group.parameters for group in spec.tensors if group.kind == "embedding")
    return max(1, spec.parameters_active - looked_up)


def encoder_parameters(spec: ModelSpec) -> int:
    """Parameters that each token of one pass is multiplied by: without the embedding tables."""
    looked_up = sum(group.parameters for group in spec.tensors if group.kind == "embedding")
    return max(1, spec.parameters_active - looked_up)


def speed_bounds(spec: ModelSpec, family: Family, memory: MemoryEstimate, on: Machine | None, concurrency: int) -> Speed:
    """Bounds for one request among `concurrency`, at the memory's context."""
    if on is None:
        return Speed(decode_tokens_per_s_upper_bound=None, request_s_lower_bound=None, peak_flops_per_s=None, basis="no figure")
    if family in {"image", "video"}:
        return Speed(decode_tokens_per_s_upper_bound=None, request_s_lower_bound=None, peak_flops_per_s=on.peak, basis="datasheet peak")
    if family == "encode":
        passed = encoder_parameters(spec)
        whole = _prefill(passed, PROMPT_TOKENS, memory.weights.bytes * passed // max(1, spec.parameters_total), on, concurrency)
        return Speed(decode_tokens_per_s_upper_bound=None, request_s_lower_bound=whole, peak_flops_per_s=on.peak, basis=on.basis)
    step = _step(spec, memory, on, concurrency)
    prompt = SOUND_TOKENS if family == "speech" else PROMPT_TOKENS
    first = _prefill(read_parameters(spec), prompt, 0, on, concurrency)
    decodes = spec.cache_terms is not None or spec.source == "rule_of_thumb"
    return Speed(
        decode_tokens_per_s_upper_bound=1.0 / step if decodes else None,
        request_s_lower_bound=first + (OUTPUT_TOKENS * step if decodes else 0.0),
        peak_flops_per_s=on.peak,
        basis=on.basis,
    )


def _prefill(parameters: int, tokens: int, weight_bytes: int, on: Machine, batch: int) -> Seconds:
    least = prefill_floor(
        active_parameters=parameters, tokens=tokens, weight_bytes=weight_bytes, bandwidth=on.bandwidth, batch=batch, peak=on.peak
    )
    return Seconds(least.seconds)


def _step(spec: ModelSpec, memory: MemoryEstimate, on: Machine, batch: int) -> Seconds:
    read = read_parameters(spec)
    dense = read + spec.parameters_total - spec.parameters_active
    least = decode_floor(
        weight_bytes=memory.weights.bytes * dense // max(1, spec.parameters_total),
        cache_bytes=memory.kv_cache.bytes // batch,
        bandwidth=on.bandwidth,
        active_parameters=read,
        batch=batch,
        share_read=float(share_reached(experts=dense, per_token=read, tokens=batch)),
        peak=on.peak,
    )
    return Seconds(least.seconds)


PREDICTED = "prediction"
DRAWN = ("image", "video")
Key = tuple[object, ...]
Question = tuple[ModelSpec, Offer, SpeedRequest]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """One request: tokens in and out, and how many such requests are in flight."""

    prompt_tokens: int
    output_tokens: int
    concurrency: int


def shape(family: Family, context: int, concurrency: int) -> Shape:
    """The request that is timed, by the rule above."""
    prompt, answer = prompt_and_output_tokens(context)
    if family == "encode":
        return Shape(prompt_tokens=min(PROMPT_TOKENS, context), output_tokens=1, concurrency=concurrency)
    return Shape(prompt_tokens=SOUND_TOKENS if family == "speech" else prompt, output_tokens=answer, concurrency=concurrency)


def key(offer: Offer, candidate: Candidate) -> Key:
    """What a prediction depends on: the same cards are rented out by several platforms."""
    silicon = offer.silicon or offer.host_cpu
    memory = offer.vram_bytes_per_accelerator or offer.ram_bytes
    of = (silicon.id if silicon else "", offer.accelerator_fraction, memory, None if offer.silicon else offer.vcpu)
    return (*of, candidate.devices, candidate.engine, candidate.precision)


def question(spec: ModelSpec, offer: Offer, candidate: Candidate, of: Shape) -> Question:
    """The question for `lib.speed`: the cards that the configuration uses, not all that are rented."""
    used = offer if offer.silicon is None or candidate.devices == offer.accelerator_count else _some(offer, candidate.devices)
    asked = SpeedRequest(
        precision=candidate.precision,
        engine=candidate.engine,
        prompt_tokens=of.prompt_tokens,
        output_tokens=of.output_tokens,
        concurrency=of.concurrency,
    )
    return spec, used, asked


def _some(offer: Offer, devices: int) -> Offer:
    return offer.model_copy(update={"accelerator_count": devices})


def predictions(spec: ModelSpec, family: Family, asked: Iterable[tuple[Offer, Candidate]], of: Shape) -> Mapping[Key, Prediction]:
    """The predictions by `key`; what has no answer (a processor or a pipeline of which nothing is known) is left out."""
    drawn = family in DRAWN
    if drawn != (spec.library == "diffusers"):
        return {}
    wanted: dict[Key, Question] = {}
    for offer, candidate in asked:
        at = key(offer, candidate)
        if at not in wanted:
            wanted[at] = question(spec, offer, candidate, of)
    if not wanted:
        return {}
    if drawn:
        found = ((at, _picture(one, of)) for at, one in wanted.items())
        return {at: one for at, one in found if one is not None}
    try:
        return dict(zip(wanted, _together(list(wanted.values()), of, decodes=family != "encode"), strict=True))
    except (InvalidInput, UnsupportedModel):  # one of them has no answer: each for itself
        each = ((at, _one(asked_for, of, decodes=family != "encode")) for at, asked_for in wanted.items())
        return {at: one for at, one in each if one is not None}


def pace(of: Prediction) -> Speed:
    """A prediction with the bounds of the datasheet beside it."""
    first, between = of.least_first_s, of.least_between_s
    return Speed(
        decode_tokens_per_s_upper_bound=None if between is None else 1.0 / between,
        request_s_lower_bound=None if first is None else first + (between or 0.0) * (of.output_tokens - 1),
        peak_flops_per_s=None,
        basis=PREDICTED,
        predicted=of,
    )


def _together(questions: Sequence[Question], of: Shape, *, decodes: bool) -> list[Prediction]:
    found = speeds(questions)
    firsts, betweens, rates = _bands(found.first_s), _bands(found.between_s), _bands(found.throughput)
    least_first, least_between = _floors(found)
    rows = zip(firsts, betweens, rates, found.bound, least_first, least_between, found.setups, strict=True)
    return [
        _prediction(of, first, between if decodes and setup.numbers.decoder is not None else None, rate, bound, (least, each))
        for first, between, rate, bound, least, each, setup in rows
    ]


def _floors(of: Speeds) -> tuple[list[float], list[float]]:
    """What the datasheet allows for the first token and between tokens, as the engine runs the requests."""
    c = of.cases
    together = np.array([s.laid.engine in STATIC or s.numbers.decoder is None for s in of.setups])
    batch = c.batch / c.copies
    busy = np.where(together, batch, of.forecast.served_running)
    first = floors(of.setups, c, c.prompt * np.where(together, batch, 1.0), 1.0, 0.0)
    return first.tolist(), floors(of.setups, c, busy, busy, c.prompt + c.answer / 2).tolist()


def _bands(of: Bands) -> list[Band]:
    ends = zip(of.value.tolist(), of.low.tolist(), of.high.tolist(), strict=True)
    return [Band(value=value, low=low, high=high) for value, low, high in ends]


def _one(asked: Question, of: Shape, *, decodes: bool) -> Prediction | None:
    try:
        return _together([asked], of, decodes=decodes)[0]
    except (InvalidInput, UnsupportedModel):
        return None


def _picture(asked: Question, of: Shape) -> Prediction | None:
    try:
        found = speed(*asked)
    except (InvalidInput, UnsupportedModel):
        return None
    return _prediction(of, found.ttft_s, None, None, found.bound, None)


def _prediction(
    of: Shape, first: Band, between: Band | None, rate: Band | None, bound: str, least: tuple[float, float] | None
) -> Prediction:
    return Prediction(
        prompt_tokens=of.prompt_tokens,
        output_tokens=of.output_tokens,
        concurrency=of.concurrency,
        ttft_s=first,
        inter_token_s=between,
        throughput_tokens_per_s=None if between is None else rate,
        bound=bound,
        least_first_s=None if least is None else least[0],
        least_between_s=None if least is None or between is None else least[1],
    )
