"""The speed of a model whose layers llama.cpp splits between GPUs and their host: both predicted for the whole model, then mixed.

The law is `lib.laws.parallelism`. Reading prompts, the GPU computes the host's layers as well where copying their weights to it is faster.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from lib.catalog.host_memory import assume_host
from lib.catalog.offers import Hardware, own_hardware
from lib.engines.traits import MICRO_BATCH
from lib.laws import parallelism
from lib.memory import count_per_device, fit_memory, host_memory, usable_memory
from lib.memory.resolve import UNLIMITED
from lib.memory.spread import spread
from lib.provenance import Caveat, Value
from lib.speed.batch import SpeedRequest
from lib.speed.hardware import TYPICAL_CPUS, find_host_link_rate, resolve_devices
from lib.speed.predict import ExplainedSpeed, Interval, SpeedEstimate, SpeedFloor, SpeedPart, combine_bands
from lib.units import GIB, Seconds, TokensPerSecond
from lib.workload import MemoryRequest

if TYPE_CHECKING:
    from lib.catalog.silicon import Accelerator
    from lib.model.spec import ModelSpec


class GpuHostSplit(NamedTuple):
    """Which hardware does which part: the GPUs `share` of the bytes that a step reads, the host the rest, in which `host_bytes` lie.

    The GPUs are described without their limit of memory, for bytes left to the host do not count against it. `link` is bytes per second
    from the host's memory to a GPU.
    """

    gpus: Hardware
    host: Hardware
    share: float
    host_bytes: int
    on_gpu: int
    layers: int
    link: float
    caveats: tuple[Caveat, ...]


def split_model(spec: ModelSpec, hardware: Hardware, request: SpeedRequest, accelerators: Mapping[str, Accelerator]) -> GpuHostSplit | None:
    """Placement of the request's layers on this hardware; None if all are in one memory: nothing is split, or there is no GPU.

    Raises:
        BadArgument: another engine than llama.cpp, which alone splits so.
    """
    silicon = hardware.silicon
    if request.gpu_layers is None or hardware.accelerator is None or silicon is None:
        return None
    memory_request = MemoryRequest(
        precision=request.precision,
        engine=request.engine,
        context_tokens=request.prompt_tokens + request.output_tokens,
        batch_size=request.concurrency,
        kv_precision=request.kv_precision,
        devices=spread(spec, request.engine, hardware, request.serving).devices,
        gpu_layers=request.gpu_layers,
        serving=request.serving,
    )
    of = count_per_device(spec, memory_request, hardware.silicon)
    read, on_gpu, layers = max(1, of.read_bytes), of.on_gpu or 0, max(1, spec.dimensions.layers)
    host, caveats = find_host(hardware, accelerators)
    fit = fit_memory(spec, memory_request, usable_memory(hardware) or UNLIMITED, hardware.silicon, host_bytes=host_memory(hardware))
    if not fit.fits:
        values = {"needed_gib": (fit.capacity_bytes - fit.free_bytes) / GIB, "capacity_gib": fit.capacity_bytes / GIB}
        caveats = (*caveats, Caveat("does_not_fit", values, variant="offload"))
    return GpuHostSplit(
        gpus=hardware.model_copy(update={"silicon": silicon.model_copy(update={"memory_usable": UNLIMITED})}),
        host=host,
        share=min(1.0, of.gpu_read_bytes / read),
        host_bytes=read - of.gpu_read_bytes,
        on_gpu=on_gpu,
        layers=layers,
        link=find_host_link_rate(silicon),
        caveats=caveats,
    )


def find_host(hardware: Hardware, accelerators: Mapping[str, Accelerator]) -> tuple[Hardware, tuple[Caveat, ...]]:
    """The processor that the cards are plugged into; of cards that people own a typical one."""
    if not hardware.traits.owned:
        without = {"silicon": None, "accelerator_count": 0, "accelerator_fraction": 1.0, "ram_bytes": None}
        return hardware.model_copy(update=without), ()
    typical = accelerators[TYPICAL_CPUS[1]]
    return own_hardware(typical), (Caveat("offload_typical_host", {"silicon": typical.name}),)


def find_host_rate(hardware: Hardware, accelerators: Mapping[str, Accelerator]) -> tuple[float, bool, tuple[Caveat, ...]]:
    """Bandwidth of the host's memory in bytes/s, whether programs reach it, and assumptions. Rented hardware has its CPU's reached rate."""
    if hardware.traits.owned:
        host = hardware.host or assume_host()
        values: dict[str, Value] = {"host": host.name, "size_gib": host.size / GIB, "bandwidth_gb_s": host.bandwidth / 1e9}
        assumed = (Caveat("host_memory_assumed", values),) if host.bandwidth_assumed or host.size_assumed else ()
        return float(host.bandwidth), False, assumed
    devices = resolve_devices(find_host(hardware, accelerators)[0], accelerators)
    return float(devices.silicon.bandwidth), True, devices.caveats


def combine_split(of: GpuHostSplit, gpu: ExplainedSpeed, host: ExplainedSpeed) -> ExplainedSpeed:
    """The estimate of the split from those of the whole model on either part."""
    prompt_on_host = _prompt_on_host(of, gpu, host)
    ttft = _mix(of.share, gpu.ttft_s, prompt_on_host)
    tpot = None if gpu.tpot_s is None or host.tpot_s is None else _mix(of.share, gpu.tpot_s, host.tpot_s)
    prefill_s = floor = None
    if gpu.prefill_s is not None and host.prefill_s is not None:  # copied weights shorten the host's part as they do its first token
        on_host_s = host.prefill_s * prompt_on_host.value / host.ttft_s.value
        prefill_s = Seconds(of.share * gpu.prefill_s + (1 - of.share) * on_host_s)
    if gpu.floor is not None and host.floor is not None:  # the prompts of the host may be on the GPU too
        least = None
        if gpu.floor.tpot_s is not None and host.floor.tpot_s is not None:
            least = parallelism.mixed_time(on_gpu_s=gpu.floor.tpot_s, on_host_s=host.floor.tpot_s, share=of.share)
        floor = SpeedFloor(ttft_s=Seconds(min(gpu.floor.ttft_s, host.floor.ttft_s)), tpot_s=least)
    split = Caveat("layers_split", {"on_gpu": of.on_gpu, "layers": of.layers, "share": of.share})
    return replace(
        gpu,
        ttft_s=ttft,
        tpot_s=tpot,
        prefill_s=prefill_s,
        throughput_tokens_per_s=batch_throughput(gpu.request, ttft, tpot),
        bound=host.bound if host.ttft_s.value * (1 - of.share) > gpu.ttft_s.value * of.share else gpu.bound,
        floor=floor,
        decode_parts=(*_parts("GPU", of.share, gpu.decode_parts), *_parts("processor", 1 - of.share, host.decode_parts)),
        prompt_parts=(
            *_parts("GPU", of.share, gpu.prompt_parts),
            *_parts("processor", 1 - of.share, host.prompt_parts, copied=prompt_on_host.value / host.ttft_s.value),
        ),
        caveats=tuple(dict.fromkeys((*gpu.caveats, *host.caveats, *of.caveats, split))),
        sources=(*gpu.sources, *(source for source in host.sources if source not in gpu.sources)),
        items_per_s=None,
    )


def _prompt_on_host(split: GpuHostSplit, gpu: SpeedEstimate, host: SpeedEstimate) -> Interval[Seconds]:
    """The host's time of a whole prompt, or the GPU's with the weights copied to it, whichever is less."""
    tokens = gpu.request.prompt_tokens * gpu.request.concurrency
    if tokens < parallelism.LEAST_TOKENS or split.share >= 1:
        return host.ttft_s
    whole_bytes = split.host_bytes / (1 - split.share)

    def least(on_gpu_s: float, on_host_s: float) -> Seconds:
        copied = parallelism.copied_prompt_time(
            on_gpu_s=on_gpu_s, host_bytes=whole_bytes, tokens=tokens, micro_batch=MICRO_BATCH, link=split.link
        )
        return Seconds(min(on_host_s, copied))

    return combine_bands(least, gpu.ttft_s, host.ttft_s)


def _mix(share: float, gpu: Interval[Seconds], host: Interval[Seconds]) -> Interval[Seconds]:
    return combine_bands(lambda gpu_s, host_s: parallelism.mixed_time(on_gpu_s=gpu_s, on_host_s=host_s, share=share), gpu, host)


def batch_throughput(request: SpeedRequest, ttft: Interval[Seconds], tpot: Interval[Seconds] | None) -> Interval[TokensPerSecond]:
    """Tokens per second of a batch that starts together."""
    tokens = request.concurrency * (request.output_tokens if tpot else request.prompt_tokens)

    def rate(first: float, each: float) -> TokensPerSecond:
        return TokensPerSecond(tokens / (first + each * (request.output_tokens - 1)))

    return Interval(
        value=rate(ttft.value, tpot.value if tpot else 0.0),
        low=rate(ttft.high, tpot.high if tpot else 0.0),
        high=rate(ttft.low, tpot.low if tpot else 0.0),
    )


def _parts(where: str, share: float, parts: tuple[SpeedPart, ...], *, copied: float = 1.0) -> tuple[SpeedPart, ...]:
    """The parts of one side's time, in its share; `copied` is its rest where the weights are copied to the GPU instead."""
    law = f"{share * copied:.2f} · ({{}})"
    return tuple(
        replace(part, name=f"{where}: {part.name}", seconds=part.seconds * share * copied, law=law.format(part.law)) for part in parts
    )
