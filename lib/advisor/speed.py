"""How fast each configuration is: predicted by `lib.speed`, one call for all of them; bounds of the datasheet if it has no answer.

The shape of a request is as stated, else `lib.workload.prompt_and_output_tokens` of the context. Sound is heard by its length
(`lib.laws.media_tokens`), by a decoder as 1500 tokens; one pass of an encoder is the prompt alone. Pictures and clips have the shape that
was published for their pipeline. The bounds are those of `lib.laws.forward_pass`: no engine can be faster on this hardware.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from threading import Lock

from cachetools import LRUCache

from lib.advisor.candidates import TENSOR_PARALLEL_ENGINES, Candidate
from lib.advisor.fit import JudgeContext, Placement
from lib.advisor.result import Speed
from lib.catalog.offers import Hardware
from lib.catalog.rows import ById
from lib.catalog.silicon import Accelerator
from lib.laws.forward_pass import decode_floor, expert_share, prefill_floor
from lib.memory import MemoryEstimate
from lib.model.spec import ModelSpec
from lib.precision import weight_format
from lib.request.serving import keep_experts_in_host
from lib.speed import SpeedEstimate, SpeedRequest, predict_each
from lib.speed.batch import SpeedQuestion
from lib.speed.hardware import HALVES
from lib.speed.model_work import count_head_parameters, count_multiplied
from lib.units import BytesPerSecond, FlopPerSecond
from lib.workload import OUTPUT_TOKENS, PROMPT_TOKENS, Family, Workload, prompt_and_output_tokens

SOUND_TOKENS = 1500  # of half a minute of sound, for a decoder whose rule is not known: positions of Whisper's encoder
# Published times of one request without torch.compile (which ZeroGPU lacks), batch 1: a common pipeline stands for its kind.
PICTURE_S = 3.704  # SDXL fp16, 1024 px, 30 steps, A100; huggingface.co/stabilityai/stable-diffusion-xl-1.0-tensorrt (2023-10)
CLIP_S = 93.896  # CogVideoX-2b bf16, 49 frames of 480 x 720, 50 steps, A100; github.com/sayakpaul/diffusers-torchao at 9b9f238 (2024-09)
PREDICTION = "prediction"
PICTURE_KINDS = ("image", "video")
Key = tuple[object, ...]


# Predictions


def shape_request(family: Family, context: int, workload: Workload) -> SpeedRequest:
    """The usual request, as stated or by the rule above; each configuration puts its own precision, engine and concurrency in."""
    usual_prompt, usual_output = prompt_and_output_tokens(context)
    output = min(workload.output_tokens or usual_output, max(1, context - 1))
    prompt = min(workload.prompt_tokens or usual_prompt, max(1, context - output))
    if family == "encode":
        prompt, output = min(workload.prompt_tokens or PROMPT_TOKENS, context), 1
    return SpeedRequest(
        prompt_tokens=SOUND_TOKENS if family == "speech" else prompt,
        output_tokens=output,
        concurrency=workload.concurrency,
        pictures=workload.pictures,
        media=workload.media,
        serving=workload.serving,
    )


def _hardware_key(offer: Hardware) -> Key:
    """The part of an offer that a prediction reads: platforms that rent out the same cards share it."""
    memory = offer.vram_bytes_per_accelerator or offer.ram_bytes
    return (offer.processor.id, offer.accelerator_fraction, memory, None if offer.silicon else offer.vcpu, offer.host)


_PREDICTIONS: LRUCache[Key, SpeedEstimate | None] = LRUCache(maxsize=16_384)
_LOCK = Lock()


def predict_placements(placed: Sequence[tuple[Hardware, Placement, JudgeContext]]) -> list[SpeedEstimate | None]:
    """The prediction for each placement; `None` if nothing is known of the processor or the pipeline. Remembered between answers.

    Models may differ; all contexts have one and share the catalog. The question is about the cards that the configuration uses, not all
    that are rented. One pass of an encoder is the prompt alone, also for a model that could decode.
    """
    keys: list[Key | None] = []
    questions: dict[Key, SpeedQuestion] = {}
    estimates: dict[Key, SpeedEstimate | None] = {}
    encoded: set[Key] = set()
    for offer, placement, context in placed:
        # A key for everything that the prediction depends on.
        spec, request = context.hosted.spec, context.speed_request
        if (context.family in PICTURE_KINDS) != (spec.library == "diffusers"):
            keys.append(None)
            continue
        lengths = (request.prompt_tokens, request.output_tokens, request.pictures, request.media, request.serving)
        of_answer = (ById(spec), ById(context.accelerators), *lengths)
        used = placement.candidate
        chosen = (used.devices, used.engine, used.precision, used.gpu_layers, used.cpu_moe_layers)
        key = (*of_answer, *_hardware_key(offer), *chosen, placement.concurrency)
        keys.append(key)
        if context.family == "encode":
            encoded.add(key)
        # Ask only for what no earlier answer has predicted.
        if key in estimates or key in questions:
            continue
        with _LOCK:
            remembered = key in _PREDICTIONS
            if remembered:
                estimates[key] = _PREDICTIONS[key]
        if not remembered:
            cards = used.devices * (request.serving.data_parallel or 1)
            whole = offer.silicon is None or cards == offer.accelerator_count
            hardware = offer if whole else offer.with_count(cards)
            question = replace(
                request,
                precision=used.precision,
                engine=used.engine,
                concurrency=placement.concurrency,
                gpu_layers=used.gpu_layers,
                serving=keep_experts_in_host(request.serving, used.cpu_moe_layers),
            )
            questions[key] = (spec, hardware, question)
    # Predict the new ones together.
    if questions:
        new = dict(zip(questions, predict_each(list(questions.values()), placed[0][2].accelerators), strict=True))
        with _LOCK:
            _PREDICTIONS.update(new)
        estimates |= new
    for key in encoded:  # one pass
        if (estimate := estimates[key]) is not None:
            floor = None if estimate.floor is None else replace(estimate.floor, tpot_s=None)
            estimates[key] = replace(estimate, tpot_s=None, floor=floor)
    return [None if key is None else estimates[key] for key in keys]


def attach_bounds(estimate: SpeedEstimate) -> Speed:
    """A prediction with the bounds of the datasheet; rates that were measured on the machine have none (their floor is 0)."""
    ttft_s, tpot_s = (None, None) if estimate.floor is None else (estimate.floor.ttft_s, estimate.floor.tpot_s)
    return Speed(
        decode_tokens_per_s_upper_bound=1.0 / tpot_s if tpot_s else None,
        request_s_lower_bound=None if not ttft_s else estimate.windows * (ttft_s + (tpot_s or 0.0) * (estimate.request.output_tokens - 1)),
        peak_flops_per_s=None,
        basis=PREDICTION,
        predicted=estimate,
    )


# Bounds of the datasheet


@dataclass(frozen=True, slots=True, kw_only=True)
class Roofline:
    """Bandwidth and peak of the devices that work at the same time."""

    bandwidth: BytesPerSecond
    peak: FlopPerSecond | None
    basis: str


def find_roofline(offer: Hardware, candidate: Candidate, precision: str, cpus: tuple[Accelerator, ...]) -> Roofline | None:
    """The offer as the roofline sees it; `None` for a CPU of which nothing is known."""
    if offer.silicon is None:
        return _scale_cpu(offer.vcpu, precision, cpus)
    concurrency = candidate.devices if candidate.engine in TENSOR_PARALLEL_ENGINES else 1
    share = offer.accelerator_fraction * concurrency
    peak = _find_limit(offer.silicon, precision)
    return Roofline(
        bandwidth=BytesPerSecond(offer.silicon.bandwidth * share),
        peak=None if peak is None else FlopPerSecond(peak * share),
        basis="roofline floor",
    )


def _scale_cpu(vcpu: int | None, precision: str, cpus: tuple[Accelerator, ...]) -> Roofline | None:
    """A CPU from the largest class whose figures are known and that is not larger (else the smallest), in proportion to its virtual CPUs.

    Larger machines gain less than in proportion (48 cores of Sapphire Rapids read 230 GB/s, not 540), so this stays an upper bound.
    """
    sized = [(cpu.vcpu, cpu) for cpu in cpus if cpu.vcpu]
    if vcpu is None or not sized:
        return None
    size, host = max((pair for pair in sized if pair[0] <= vcpu), key=lambda pair: pair[0], default=sized[0])
    peak = _find_limit(host, precision)
    return Roofline(
        bandwidth=BytesPerSecond(host.bandwidth * vcpu / size),
        peak=None if peak is None else FlopPerSecond(peak * vcpu / size),
        basis=f"estimate for {size} virtual CPUs" + ("" if size == vcpu else f", scaled to {vcpu}"),
    )


def _find_limit(silicon: Accelerator, precision: str) -> FlopPerSecond | None:
    """A rate that weights of this precision are not multiplied faster than; storage formats multiply in half precision."""
    own = weight_format(precision).arithmetic
    return silicon.limit(*(("fp32", "tf32") if own == "fp32" else (own, *HALVES)))


def bound_speed(spec: ModelSpec, family: Family, memory: MemoryEstimate, on: Roofline | None, concurrency: int) -> Speed:
    """Bounds for one request among `concurrency`, at the memory's context."""
    if on is None:
        return Speed(decode_tokens_per_s_upper_bound=None, request_s_lower_bound=None, peak_flops_per_s=None, basis="no figure")
    if family in {"image", "video"}:
        return Speed(decode_tokens_per_s_upper_bound=None, request_s_lower_bound=None, peak_flops_per_s=on.peak, basis="datasheet peak")
    if family == "encode":
        passed = count_multiplied(spec)
        whole = _prefill_floor_s(passed, PROMPT_TOKENS, memory.weights_bytes * passed // max(1, spec.parameters_total), on, concurrency)
        return Speed(decode_tokens_per_s_upper_bound=None, request_s_lower_bound=whole, peak_flops_per_s=on.peak, basis=on.basis)
    prompt, read = SOUND_TOKENS if family == "speech" else PROMPT_TOKENS, count_multiplied(spec)
    dense = read + spec.parameters_total - spec.parameters_active
    step = decode_floor(
        weight_bytes=memory.weights_bytes * dense // max(1, spec.parameters_total),
        cache_bytes=memory.kv_cache_bytes // concurrency,
        bandwidth=on.bandwidth,
        active_parameters=read,
        batch=concurrency,
        share_read=float(expert_share(experts=dense, per_token=read, tokens=concurrency)),
        peak=on.peak,
    ).seconds
    first = _prefill_floor_s(read, prompt, 0, on, concurrency, head_parameters=count_head_parameters(spec, read))
    decodes = spec.cache_terms is not None or spec.source == "rule_of_thumb"
    return Speed(
        decode_tokens_per_s_upper_bound=1.0 / step if decodes else None,
        request_s_lower_bound=first + (OUTPUT_TOKENS * step if decodes else 0.0),
        peak_flops_per_s=on.peak,
        basis=on.basis,
    )


def _prefill_floor_s(parameters: int, tokens: int, weight_bytes: int, on: Roofline, batch: int, *, head_parameters: float = 0.0) -> float:
    return prefill_floor(
        active_parameters=parameters,
        tokens=tokens,
        weight_bytes=weight_bytes,
        bandwidth=on.bandwidth,
        batch=batch,
        peak=on.peak,
        head_parameters=head_parameters,
    ).seconds
