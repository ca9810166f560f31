"""How an engine spreads a model over the devices of a machine: the one place that decides it.

tensor    every layer over as many devices as divide its heads and widths; copies on the rest
layers    some of the layers on each device: one copy over all of them
none      one device holds the whole model; a copy on each

On Neuron every engine splits every layer, over a power of two of devices with at least one attention head each.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from lib.catalog.rows import ById
from lib.engines import TRAITS, Engine, traits_of
from lib.engines.traits import Split
from lib.errors import BadArgument
from lib.laws import parallelism
from lib.memory.per_device import count_per_device, fit_memory, host_memory, usable_memory
from lib.memory.resolve import choose_engine, layer_sizes, limit_context, settle_serving
from lib.provenance import Caveat
from lib.request.serving import DEFAULTS, Serving

if TYPE_CHECKING:
    from lib.catalog.offers import Hardware
    from lib.model.spec import ModelSpec
    from lib.workload import MemoryRequest


class Spread(NamedTuple):
    """Devices that share one copy of the model, copies, how a copy is split, and in how many groups of devices that hold layers in turn."""

    devices: int
    copies: int
    split: Split
    stages: int = 1


def spread(spec: ModelSpec, engine: Engine | str, hardware: Hardware, serving: Serving = DEFAULTS) -> Spread:
    """How the engine uses the devices of the hardware (a processor counts as one), as its settings say.

    Raises:
        BadArgument: the settings take more devices than there are, or the model's heads and widths cannot be split so.
    """
    count, split = max(1, hardware.accelerator_count), traits_of(engine).split
    if serving.sets_devices:
        return _spread_as_stated(spec, engine, hardware, serving)
    if hardware.processor.kind == "neuron":
        degree = parallelism.largest_power_of_two(min(count, layer_sizes(spec).heads or 1))
        return Spread(degree, count // degree, "tensor")
    match split:
        case "tensor":
            degree = tensor_parallel_degree(spec, count)
            return Spread(degree, count // degree, split)
        case "none":
            return Spread(1, count, split)
    return Spread(count, 1, split)


def _spread_as_stated(spec: ModelSpec, engine: Engine | str, hardware: Hardware, serving: Serving) -> Spread:
    """The stated groups and copies; without a stated degree as many devices of a group split a layer as the model allows."""
    count, stages, copies = max(1, hardware.accelerator_count), serving.pipeline_parallel or 1, serving.data_parallel or 1
    if serving.devices > count:
        named = " × ".join(name for name in ("tensor_parallel", "pipeline_parallel", "data_parallel") if getattr(serving, name) is not None)
        raise BadArgument(f"serving: {named}", serving.devices, f"at most {count}, the devices of {hardware.name}")
    check_stages(spec, stages)
    most = count // (stages * copies)
    degree = serving.tensor_parallel or tensor_parallel_degree(spec, most)
    if tensor_parallel_degree(spec, degree) != degree:
        able = ", ".join(str(n) for n in range(1, most + 1) if tensor_parallel_degree(spec, n) == n)
        raise BadArgument("serving.tensor_parallel", degree, f"{able} for {spec.id or 'this model'}, by its heads and widths")
    return Spread(degree * stages, copies, traits_of(engine).split, stages)


def check_stages(spec: ModelSpec, stages: int) -> None:
    """Refuse more groups of devices that hold layers in turn than the model has layers.

    Raises:
        BadArgument: with the number of layers.
    """
    layers = layer_sizes(spec).layers
    if 0 < layers < stages:
        raise BadArgument("serving.pipeline_parallel", stages, f"at most {layers}, the layers of {spec.id or 'this model'}")


class Held(NamedTuple):
    """A model on hardware: devices that share one copy, bytes on the fullest of them, and whether they fit.

    `fits` is None if the memory of the hardware is not known.
    """

    devices: int
    per_device_bytes: int
    fits: bool | None


def hold_model(spec: ModelSpec, request: MemoryRequest, hardware: Hardware) -> Held:
    """The request, cut at the model's context limit, on as many devices of the hardware as the engine spreads the model over."""
    devices = spread(spec, choose_engine(spec, request.engine), hardware, request.serving).devices
    request = settle_serving(replace(request, devices=devices, context_tokens=limit_context(spec, request.context_tokens)[0]))
    needed = count_per_device(spec, request, hardware.processor).peak(request.context_tokens, request.batch_size)
    capacity = usable_memory(hardware)
    if capacity is None:
        return Held(devices, needed, None)
    host_bytes = host_memory(hardware, experts=bool(request.serving.cpu_moe_layers))
    return Held(devices, needed, fit_memory(spec, request, capacity, hardware.processor, host_bytes=host_bytes).fits)


def tensor_parallel_degree(spec: ModelSpec, devices: int) -> int:
    """The most of `devices` over which vLLM splits this model; the heads of a bare parameter count are only typical and do not count."""
    return _tensor_parallel_degree(ById(spec), devices)


@lru_cache(maxsize=1024)
def _tensor_parallel_degree(key: ById[ModelSpec], devices: int) -> int:
    spec = key.value
    d = spec.dimensions
    # Width of one routed expert: the extent of its smallest matrix that is not the hidden size; 0 without experts.
    matrices = [g.shape[-2:] for g in spec.tensors if g.kind == "expert" and len(g.shape) > 1 and not g.name.endswith("bias")]
    widths = (min([extent for extent in shape if extent != d.hidden_size] or [d.hidden_size]) for shape in matrices)
    return parallelism.tensor_parallel_degree(
        heads=0 if spec.source == "rule_of_thumb" else d.attention_heads,
        kv_heads=d.kv_heads,
        devices=devices,
        mlp_widths=(d.intermediate_size, min(widths, default=0)),
        vocabulary=d.vocab_size,
    )


def split_caveats(spec: ModelSpec, engine: str, devices: int) -> list[Caveat]:
    """Devices that an engine with tensor parallelism leaves unused, because the model's heads and widths do not divide by them."""
    traits = TRAITS.get(engine)  # type: ignore[call-overload]  # "host" and "neuron" are names of fitted constants, not of engines
    if traits is None or not traits.tensor_parallel or devices <= 1:
        return []
    degree = tensor_parallel_degree(spec, devices)
    if devices % degree == 0:
        return []
    return [Caveat("devices_unused", {"engine": engine, "devices": devices, "degree": degree})]


def unused_devices(spec: ModelSpec, engine: str, devices: int, serving: Serving) -> list[Caveat]:
    """Devices that the stated settings leave unused, else those that the engine cannot use (`split_caveats`)."""
    if not serving.sets_devices:
        return split_caveats(spec, engine, devices)
    groups = (serving.pipeline_parallel or 1) * (serving.data_parallel or 1)
    used = groups * (serving.tensor_parallel or tensor_parallel_degree(spec, devices // groups))
    return [Caveat("devices_unused", {"engine": engine, "devices": devices, "degree": used}, variant="stated")] if used < devices else []
