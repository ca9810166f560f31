"""Computes values for next steps with the memory laws: those that the text does not state, for the predicted model and hardware."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from lib.catalog.silicon import Accelerator
from lib.engines import traits_of
from lib.laws.runtime import LARGEST_SHARE
from lib.memory import PerDevice, count_per_device, count_sequences, fewest_experts_on_host, fit_memory, most_layers_on_card
from lib.memory.resolve import choose_engine
from lib.model.spec import ModelSpec
from lib.precision import loads, weight_format
from lib.request.types import AUTO
from lib.workload import MemoryRequest

_COUNTS = (1, 2, 4, 8, 16)
"""Numbers of devices that are tried."""
SHARES = frozenset({"share_needed", "share_hopeless"})
"""Codes for the smallest share of a device that holds one request: a share that a server may take, and a share that is too large."""
_CENT = 100
_HALF = 16
"""Bits of the formats that older releases of transformers load in 32 bits unless a dtype is given."""


def advise(
    spec: ModelSpec, request: MemoryRequest, device_bytes: int, silicon: Accelerator, share: float | None
) -> dict[str, int | float | str]:
    """Values of settings with which one request fits, by their names in explain.yaml. A setting that cannot make it fit is missing.

    `share` is the server's share of a device, if the text states it.
    """
    of = count_per_device(spec, request, silicon)
    traits = traits_of(of.request.engine)
    found: dict[str, int | float | str] = {"half_profiled_tokens": of.request.profiled_tokens // 2}
    if spec.stored.quantization is not None:
        found["stored_format"] = spec.stored.quantization.method
    elif (unpacked := count_per_device(spec, replace(request, precision=AUTO), silicon).device_weights) > of.device_weights:
        found["loading_bytes"] = unpacked
    if spec.work == "pipeline":
        found |= _offloaded(spec, request, device_bytes, silicon)
    most = count_sequences(spec, request, device_bytes, silicon)
    if most:
        found["most_requests"] = most
    longest = fit_memory(spec, request, device_bytes, silicon).max_context_tokens
    if longest:
        found["longest_tokens"] = longest
    if traits.preallocates:
        found |= _share(of, request, device_bytes, share)
    if traits.own_files and (layers := most_layers_on_card(spec, request, silicon, device_bytes)):
        found["gpu_layers"] = layers
    if traits.own_files and (experts := fewest_experts_on_host(spec, request, silicon, device_bytes)) is not None:
        found["cpu_moe_layers"] = experts
    devices = next(
        (count for count in _COUNTS if count > request.devices and _fits(spec, replace(request, devices=count), device_bytes, silicon)),
        None,
    )
    if devices is not None and traits.tensor_parallel and not spec.dimensions.attention_heads % devices:
        found["devices_needed"] = devices
    smaller = next(_smaller(spec, request, device_bytes, silicon, of), None)
    return found if smaller is None else found | {"smaller_format": smaller}


def _offloaded(spec: ModelSpec, request: MemoryRequest, device_bytes: int, silicon: Accelerator) -> dict[str, int | float | str]:
    """Bytes of a pipeline with model offload, which has one part on the device at a time; their name says whether that fits."""
    moved = replace(request, pictures=replace(request.pictures, offload="model"))
    needed = count_per_device(spec, moved, silicon).peak(request.context_tokens, request.batch_size)
    return {"offloaded_bytes" if _fits(spec, moved, device_bytes, silicon) else "largest_part_bytes": needed}


def advise_beyond(spec: ModelSpec, request: MemoryRequest, silicon: Accelerator) -> dict[str, int | float | str]:
    """Bytes that can fill a device although one request fits: weights in 32 bits, and the whole model on one of several devices."""
    traits, alone = traits_of(request.engine), replace(request, devices=1)
    if not traits.eager:
        return {}
    found: dict[str, int | float | str] = {}
    if weight_format(count_per_device(spec, request, silicon).request.precision).bits == _HALF:
        found["whole_fp32_bytes"] = count_per_device(spec, replace(alone, precision="fp32"), silicon).device_weights
    if request.devices > 1:
        found |= {"alone_bytes": count_per_device(spec, alone, silicon).device_weights, "cards": request.devices}
    return found


def _fits(spec: ModelSpec, request: MemoryRequest, device_bytes: int, silicon: Accelerator) -> bool:
    return fit_memory(spec, request, device_bytes, silicon).fits


def _share(of: PerDevice, request: MemoryRequest, device_bytes: int, share: float | None) -> dict[str, int | float | str]:
    """The smallest share of a device that holds one request: `share_enough` if the claimed share suffices, otherwise one of `SHARES`."""
    least = math.ceil(_CENT * of.peak(request.context_tokens, request.batch_size) / device_bytes) / _CENT
    claimed = share or of.claim(request.context_tokens, request.batch_size).capacity_bytes(device_bytes) / device_bytes
    if claimed >= least:
        one = of.worst_cache(request.context_tokens, request.batch_size)
        return {"share_enough": least, "enough_tokens": request.context_tokens, "one_cache_bytes": one}
    return {"share_needed" if least <= LARGEST_SHARE else "share_hopeless": least}


def _smaller(spec: ModelSpec, request: MemoryRequest, device_bytes: int, silicon: Accelerator, now: PerDevice) -> Iterator[str]:
    """Formats of 8 and 4 bits of the engine with smaller weights, in which one request fits."""
    engine = choose_engine(spec, request.engine)
    if spec.library == "gguf" or spec.stored.quantization is not None:
        return
    for family in ("int8", "int4"):
        if not loads(engine, family):
            continue
        smaller = replace(request, precision=weight_format(family, engine).name)
        lighter = count_per_device(spec, smaller, silicon).device_weights < now.device_weights
        if lighter and _fits(spec, smaller, device_bytes, silicon):
            yield smaller.precision
