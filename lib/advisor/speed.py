"""What the datasheet of an offer allows at best, for one configuration. Upper bounds only: `lib.advisor.forecast` asks for predictions."""

from __future__ import annotations

from dataclasses import dataclass

from lib.advisor.candidates import DIVIDED, Candidate
from lib.advisor.result import Speed
from lib.advisor.tasks import Family
from lib.estimate import MemoryEstimate
from lib.laws.decode_floor import experts_read, step_seconds
from lib.laws.prefill_floor import prefill_seconds
from lib.model.spec import ModelSpec
from lib.offer import Offer
from lib.precision import weight_format
from lib.silicon import Accelerator
from lib.units import Bytes, BytesPerSecond, FlopPerSecond, Seconds

PROMPT_TOKENS = 512  # the shape of a request wherever none is stated: the defaults of /estimate_speed
ANSWER_TOKENS = 256
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


def speed(spec: ModelSpec, family: Family, memory: MemoryEstimate, on: Machine | None, concurrency: int) -> Speed:
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
        request_s_lower_bound=first + (ANSWER_TOKENS * step if decodes else 0.0),
        peak_flops_per_s=on.peak,
        basis=on.basis,
    )


def _prefill(parameters: int, tokens: int, weight_bytes: int, on: Machine, batch: int) -> Seconds:
    return prefill_seconds(
        active_parameters=parameters,
        tokens=tokens,
        weight_bytes=Bytes(weight_bytes),
        bandwidth=on.bandwidth,
        batch=batch,
        peak=on.peak,
    )


def _step(spec: ModelSpec, memory: MemoryEstimate, on: Machine, batch: int) -> Seconds:
    read = read_parameters(spec)
    dense = read + spec.parameters_total - spec.parameters_active
    return step_seconds(
        weight_bytes=Bytes(memory.weights.bytes * dense // max(1, spec.parameters_total)),
        cache_bytes=Bytes(memory.kv_cache.bytes // batch),
        bandwidth=on.bandwidth,
        active_parameters=read,
        batch=batch,
        share_read=experts_read(active=read, total=dense, batch=batch),
        peak=on.peak,
    )
