"""`/estimate_memory`: the estimate, its parts with their laws, and every tier that it is compared with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Annotated

from lib import memory
from lib.answers.common import SCHEMA, FitEntry, MemoryAnswer, PartEntry, StageEntry, source_entries, usd
from lib.catalog import Catalog
from lib.catalog.offers import Hardware as AnyHardware
from lib.catalog.silicon import Accelerator, Cards
from lib.engines import MICRO_BATCH, traits_of
from lib.errors import BadArgument
from lib.memory import MemoryPart, fit_memory, host_memory, usable_memory
from lib.memory.pipeline import StageBytes, resolve_size
from lib.memory.resolve import choose_engine, encoder_caveats, limit_context, picture_caveats, split_caveats
from lib.model.spec import ModelSpec
from lib.present.sentences import caveat_entries
from lib.service.arguments import (
    MAX_BATCH,
    MAX_DEVICES,
    Arguments,
    CachePrecision,
    Engine,
    Flag,
    Frames,
    GpuLayers,
    Guidance,
    Hardware,
    ImageCount,
    ImageSide,
    Mode,
    Model,
    Offload,
    Pixels,
    Precision,
    Quantized,
    SoundSeconds,
    Tokens,
    TokensOrNone,
    argument,
    check_hardware,
    whole_number,
)
from lib.service.endpoint import App
from lib.workload import MemoryRequest, gather_media

PLATFORMS = ("spaces", "zerogpu")
MAX_MICRO_BATCH = 65_536
MOST_BYTES = 10**18  # an exabyte: beyond every machine, and within the integers that JSON readers share


class MemoryArguments(Arguments):
    """Arguments of `/estimate_memory`."""

    model: Model
    precision: Precision = "auto"
    engine: Engine = "transformers"
    context_tokens: Tokens = argument(4096, "tokens that each sequence's cache has seen (decoder tokens of an encoder-decoder)")
    batch_size: Annotated[int, whole_number(1, MAX_BATCH)] = argument(1, "sequences held at the same time")
    kv_precision: CachePrecision = "auto"
    mode: Mode = "inference"
    devices: Annotated[int, whole_number(1, MAX_DEVICES)] = argument(1, "accelerators that share the model")
    encoder_tokens: TokensOrNone = argument(0, "length of the encoder's side; 0 is the model's own full length")
    gpu_layers: GpuLayers = -1
    micro_batch: Annotated[int, whole_number(1, MAX_MICRO_BATCH)] = argument(MICRO_BATCH, "llama.cpp: tokens computed at once (-ub)")
    flash_attention: Flag = argument(True, "llama.cpp: whether attention holds no scores (-fa)")
    width: Pixels = argument(0, "pictures and clips: pixels; 0 is the pipeline's own, as for height and frames")
    height: Pixels = argument(0, "pixels, as width")
    frames: Frames = argument(0, "frames of a clip")
    guidance: Guidance = "auto"
    offload: Offload = "none"
    vae_tiling: Flag = argument(False, "the VAE decodes a large picture by tiles")
    vae_slicing: Flag = argument(False, "the VAE decodes one picture of a batch at a time")
    quantized: Quantized = "all"
    images: ImageCount = 0
    image_width: ImageSide = argument(1024, "pixels of each picture in a prompt")
    image_height: ImageSide = argument(1024, "pixels, as image_width")
    audio_seconds: SoundSeconds = 0


def estimate_memory(app: App, arguments: MemoryArguments) -> MemoryAnswer:
    """What a model takes in memory, part by part, and which hardware holds it.

    Returns:
        The estimate, its parts with their laws, and the hardware it fits.
    """
    spec = app.models(arguments.model)
    return memory_answer(spec, memory_request(spec, arguments), app.catalog())


def memory_request(spec: ModelSpec, arguments: MemoryArguments) -> MemoryRequest:
    """The arguments as the laws take them.

    Raises:
        BadArgument: a size that this pipeline cannot make, or that this model makes none of.
    """
    values = gather_media({name: getattr(arguments, name) for name in MemoryArguments.model_fields if name != "model"})
    resolve_size(spec, values["pictures"])
    values["gpu_layers"] = None if arguments.gpu_layers < 0 else arguments.gpu_layers
    return MemoryRequest(**values)


class MemoryOnArguments(MemoryArguments):
    """Arguments of the tab *Memory*: as `/estimate_memory`, on hardware that is named."""

    hardware: Hardware = ""


def estimate_memory_on(app: App, arguments: MemoryOnArguments) -> MemoryAnswer:
    """The same on the silicon of an offer or of the visitor's own cards, which a few parts depend on; without as `/estimate_memory`.

    Returns:
        The estimate, its parts with their laws, and the hardware it fits.
    """
    catalog = app.catalog()
    hardware = check_hardware(catalog, arguments.hardware) if arguments.hardware else None
    silicon = None if hardware is None else hardware.silicon or hardware.host_cpu
    spec = app.models(arguments.model)
    return memory_answer(spec, memory_request(spec, arguments), catalog, silicon, hardware if isinstance(hardware, Cards) else None)


def memory_answer(
    spec: ModelSpec, request: MemoryRequest, catalog: Catalog, silicon: Accelerator | None = None, own: Cards | None = None
) -> MemoryAnswer:
    """The estimate on the silicon (`None`: unnamed), and the fit on each tier of Spaces with that tier's own, after the visitor's cards.

    Raises:
        BadArgument: what is asked would take more than an exabyte.
    """
    counted, cut = limit_context(spec, request.context_tokens)
    request = replace(request, context_tokens=counted)
    estimate = memory.estimate_memory(spec, request, silicon)
    if estimate.total_bytes > MOST_BYTES:
        product = f"{request.batch_size:,} × {request.context_tokens:,}"
        raise BadArgument("batch_size × context_tokens", product, "a request that takes less than an exabyte (10^18 bytes)")
    return {
        "schema": SCHEMA,
        "model": spec.id,
        "precision": estimate.precision,
        "kv_precision": estimate.kv_precision,
        "engine": estimate.engine,
        "weights_bytes": estimate.weights.bytes,
        "kv_cache_bytes": estimate.kv_cache.bytes,
        "activation_bytes": estimate.activation.bytes,
        "runtime_bytes": estimate.runtime.bytes,
        "total_bytes": estimate.total_bytes,
        "low_bytes": estimate.low_bytes,
        "high_bytes": estimate.high_bytes,
        "per_device_bytes": estimate.per_device_bytes,
        "host_bytes": estimate.host_bytes,
        "rule_of_thumb_bytes": estimate.rule_of_thumb_bytes,
        "parts": [_part(part) for part in (estimate.weights, estimate.kv_cache, estimate.activation, estimate.runtime)],
        "stages": [_stage(stage) for stage in estimate.stages],
        "fits": list(_fits(spec, request, [*(() if own is None else (own,)), *catalog.on(PLATFORMS)])),
        "caveats": caveat_entries(
            (
                *cut,
                *spec.caveats,
                *estimate.caveats,
                *encoder_caveats(spec, request.encoder_tokens),
                *picture_caveats(spec, request),
                *split_caveats(spec, estimate.engine, request.devices),
            )
        ),
        "sources": source_entries((*spec.sources, *estimate.sources)),
    }


def _stage(stage: StageBytes) -> StageEntry:
    return {
        "name": stage.name,
        "weights_bytes": sum(stage.weights.values()),
        "activation_bytes": stage.activation,
        "total_bytes": stage.total,
    }


def _part(part: MemoryPart) -> PartEntry:
    return {
        "name": part.name,
        "bytes": part.bytes,
        "law": part.law,
        "inputs": dict(part.inputs),
        "source": part.source,
        "details": dict(part.details),
    }


def _devices(request: MemoryRequest, offer: AnyHardware) -> int:
    """Cards of the offer that share the model: all of them, or as many as were asked for."""
    count = max(1, offer.accelerator_count)
    return count if request.devices == 1 else min(request.devices, count)


def _fits(spec: ModelSpec, request: MemoryRequest, places: Iterable[AnyHardware]) -> Iterator[FitEntry]:
    for offer in places:
        capacity = usable_memory(offer)
        if capacity is None:
            continue
        devices = _devices(request, offer)
        silicon = offer.silicon or offer.host_cpu
        fit = fit_memory(spec, replace(request, devices=devices), capacity, silicon, host_bytes=host_memory(offer))
        traits = traits_of(choose_engine(spec, request.engine))
        if (silicon is not None and not traits.runs_on(silicon)) or (offer.platform == "zerogpu" and not traits.on_zerogpu):
            fit = replace(fit, fits=False, max_context_tokens=0, max_batch_size=0)
        yield {
            "hardware": offer.id,
            "platform": offer.platform,
            "name": offer.name,
            "accelerator": offer.accelerator,
            "accelerator_count": offer.accelerator_count,
            "devices": devices,
            "usd_per_hour": usd(offer.usd_per_hour),
            "fits": fit.fits,
            "capacity_bytes": fit.capacity_bytes,
            "free_bytes": fit.free_bytes,
            "max_context_tokens": fit.max_context_tokens,
            "max_batch_size": fit.max_batch_size,
        }
