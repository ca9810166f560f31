"""Whether a configuration fits an offer, in memory and on disk, how much memory it leaves free, and which changes would make it fit.

The bytes to hold depend on the engine's cache. Engines with a static batch hold every request at the longest length. Servers must hold one
request of the longest length, and all concurrent requests at their mean length. ZeroGPU lends every call a slice of its own, so it holds
one request. A disk that is too small is a reason only if the memory is large enough.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial

from lib.advisor.candidates import SERVERS, Candidate
from lib.catalog.host_memory import assume_host
from lib.catalog.offers import Hardware
from lib.catalog.rows import ById
from lib.catalog.rules import PlatformRules
from lib.catalog.silicon import Accelerator
from lib.engines import Engine
from lib.laws.parallelism import ceil_divide
from lib.memory import (
    MemoryEstimate,
    PerDevice,
    compose,
    count_per_device,
    count_sequences,
    estimate_memory,
    fewest_experts_on_host,
    fit_memory,
    host_memory,
    most_layers_on_card,
)
from lib.memory.result import download_bytes
from lib.model.spec import ModelSpec
from lib.provenance import Reason, Value
from lib.request.media import MediaRequest
from lib.request.serving import DEFAULTS, Serving, drop_settings, keep_experts_in_host
from lib.speed import SpeedRequest
from lib.units import GIB
from lib.workload import Family, MemoryRequest, PipelineRequest, Workload

NEARLY_FULL = 0.05
"""Share of the engine's own part of a device that stays free in a comfortable fit, for longer prompts and for memory that a new release
takes at start (our judgement). With less, the reason states the free bytes."""
COMFORT = 0.10
"""Share of a device that stays free in a comfortable fit: fragmentation of the allocator, longer prompts, other libraries."""

# Peak beyond the weights for pipelines that were not run: decoding the picture dominates.
# CogVideoX 2b and 5b, bf16 and int8, 49 frames of 480 x 720 on A100: 24.53 - 12.55, 31.75 - 19.76, 22.29 - 10.30 = 12.0 GiB each.
# FLUX.1-dev bf16, 1024 px on H100: 36.17 GiB less 31.42 GiB of weights; the largest of the published pipelines for pictures.
# github.com/sayakpaul/diffusers-torchao at 9b9f238 (2024-09)
WORKING_BYTES = {"video": 12 * GIB, "image": int(4.75 * GIB)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Headroom:
    """Memory of a configuration compared with the part of one device that the engine may fill.

    `device_bytes` are usable on the device, `capacity_bytes` the engine's share of them. `working_bytes` were added for a pipeline.
    """

    memory: MemoryEstimate
    needed_bytes: int
    device_bytes: int
    capacity_bytes: int
    working_bytes: int

    @property
    def free_bytes(self) -> int:
        """Bytes that stay free on the fullest device; negative when it does not fit."""
        return self.capacity_bytes - self.needed_bytes

    @property
    def fits(self) -> bool:
        """Whether it fits at all."""
        return self.free_bytes >= 0

    @property
    def comfortable(self) -> bool:
        """Whether a tenth of the device is free, and the engine's part holds the high end of the estimate and is not nearly full."""
        tenth_free = self.device_bytes - self.needed_bytes >= COMFORT * self.device_bytes
        return tenth_free and self.high_bytes <= self.capacity_bytes and not self.nearly_full

    @property
    def high_bytes(self) -> int:
        """The high end of the estimate of `needed_bytes`."""
        return ceil_divide(self.needed_bytes * self.memory.high_bytes, max(1, self.memory.total_bytes))

    @property
    def nearly_full(self) -> bool:
        """Whether the engine claims a share of the device and less than `NEARLY_FULL` of it is left."""
        return self.capacity_bytes < self.device_bytes and self.free_bytes < NEARLY_FULL * self.capacity_bytes


def measure_headroom(memory: MemoryEstimate, device_bytes: int, family: Family) -> Headroom:
    """The headroom of an estimate on a device with `device_bytes` usable; an engine may fill only the share that it claims."""
    working = 0 if memory.stages else max(0, WORKING_BYTES.get(family, 0) - memory.activation_bytes)
    return Headroom(
        memory=memory,
        needed_bytes=memory.per_device_bytes + working,
        device_bytes=device_bytes,
        capacity_bytes=memory.claim.capacity_bytes(device_bytes),
        working_bytes=working,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class HostedModel:
    """The model that the hardware runs.

    `stored_bytes` is the size of the download, `published` the quantized checkpoints that the Hub lists: repository by format; `None`
    where it was not asked.
    """

    spec: ModelSpec
    stored_bytes: int
    published: Mapping[str, str] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeContext:
    """The requirements that every offer of one answer is checked against.

    `model` is `None` when the Space runs none itself. `context_tokens` is the longest request to hold, `speed_request` the usual one, whose
    speed is predicted.
    """

    model: HostedModel | None
    family: Family
    workload: Workload
    context_tokens: int
    speed_request: SpeedRequest
    rules: PlatformRules
    cpus: tuple[Accelerator, ...]
    accelerators: Mapping[str, Accelerator]

    @property
    def hosted(self) -> HostedModel:
        """The model, for code that is called only if there is one.

        Raises:
            ValueError: the Space runs no model.
        """
        if self.model is None:
            raise ValueError("This Space runs no model itself.")
        return self.model

    @property
    def held_tokens(self) -> int:
        """Tokens of each request that a server's cache holds while all run: the usual length, or half of a stated context if that is more.

        Lengths that are spread evenly up to a limit are half of it on average. With a stated prompt or the default context, the usual
        length counts.
        """
        usual = self.speed_request.prompt_tokens + self.speed_request.output_tokens
        asked = self.workload.context_tokens not in {0, Workload().context_tokens} and not self.workload.prompt_tokens
        return min(max(usual, self.context_tokens // 2 if asked else 0), self.context_tokens)

    def concurrency(self, offer: Hardware) -> int:
        """Requests that share the hardware at the same time: on ZeroGPU every call has a slice of its own."""
        return 1 if offer.traits.per_call else self.workload.concurrency


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """A configuration that fits an offer with `concurrency` requests, and the memory it leaves free."""

    candidate: Candidate
    headroom: Headroom
    concurrency: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DoesNotFitReason:
    """Obstacle of a configuration, the missing bytes, and a function that builds the explanation on demand."""

    missing_bytes: int
    explain: Callable[[], Reason]


def place_candidate(
    offer: Hardware, candidate: Candidate, context: JudgeContext, model: HostedModel, device_bytes: int, concurrency: int
) -> Placement | DoesNotFitReason:
    """The placement of one configuration, or the shortage."""
    silicon = offer.processor
    of = _hold(
        ById(model.spec),
        candidate.precision,
        candidate.engine,
        candidate.devices,
        context.workload.pictures,
        context.workload.media,
        context.workload.serving,
        ById(silicon),
    )
    shapes = _shapes(candidate, context, concurrency)
    headroom = max((measure_headroom(compose(of, *shape), device_bytes, context.family) for shape in shapes), key=_needed_bytes)
    if not headroom.fits:
        request = _memory_request(candidate, headroom.memory.tokens, headroom.memory.batch, context.workload)
        split = _leave_experts(offer, candidate, context, model, device_bytes, request) if candidate.may_leave_experts else None
        if not isinstance(split, tuple) and candidate.may_offload:
            split = _leave_layers(offer, candidate, context, model, device_bytes, request)
        if split is not None:
            return (
                split if isinstance(split, DoesNotFitReason) else Placement(candidate=split[0], headroom=split[1], concurrency=concurrency)
            )
        explain = partial(_too_small, candidate, headroom, model.spec, request, shapes[-1], silicon)
        return DoesNotFitReason(missing_bytes=-headroom.free_bytes, explain=explain)
    if (short := _find_host_shortage(offer, headroom.memory, context.workload)) is not None:
        return short
    download = download_bytes(headroom.memory, model.stored_bytes)
    if offer.disk_bytes is not None and download > offer.disk_bytes:
        too_small = Reason("disk_too_small", {"download_bytes": download, "disk_bytes": offer.disk_bytes})
        return DoesNotFitReason(missing_bytes=0, explain=lambda: too_small)
    return Placement(candidate=candidate, headroom=headroom, concurrency=concurrency)


def _find_host_shortage(offer: Hardware, memory: MemoryEstimate, workload: Workload) -> DoesNotFitReason | None:
    """Bytes that the host lacks for its layers, experts or parts of a pipeline; None if it holds them."""
    experts, on_host = workload.serving.cpu_moe_layers or 0, memory.host_bytes
    host = host_memory(offer, experts=experts > 0)
    if host is None or on_host <= host:
        return None
    explain: Callable[[], Reason] = partial(_host_too_small, offer, memory.of.spec.dimensions.layers, experts, on_host)
    if not experts:
        values: dict[str, Value] = {"host_bytes": on_host, "ram_bytes": host, "offload": workload.pictures.offload}
        explain = partial(Reason, "host_too_small", values)
    return DoesNotFitReason(missing_bytes=on_host - host, explain=explain)


def _leave_experts(
    offer: Hardware, candidate: Candidate, context: JudgeContext, model: HostedModel, device_bytes: int, request: MemoryRequest
) -> tuple[Candidate, Headroom] | DoesNotFitReason | None:
    """The fewest layers whose experts the host must hold so that the rest fits the cards comfortably; or the bytes that the host lacks."""
    layers, host = model.spec.dimensions.layers, host_memory(offer, experts=True)
    least = fewest_experts_on_host(model.spec, request, offer.silicon, int(device_bytes * (1 - COMFORT)))
    if least is None or host is None:
        return None
    estimate = estimate_memory(model.spec, replace(request, serving=keep_experts_in_host(request.serving, least)), offer.silicon)
    missing = estimate.host_bytes - host
    if missing > 0:
        return DoesNotFitReason(missing_bytes=missing, explain=partial(_host_too_small, offer, layers, least, estimate.host_bytes))
    headroom = measure_headroom(estimate, device_bytes, context.family)
    return replace(candidate, cpu_moe_layers=least, may_leave_experts=False, may_offload=False), headroom


def _host_too_small(offer: Hardware, layers: int, cpu_moe_layers: int, needed_bytes: int) -> Reason:
    """How much memory the host lacks for experts."""
    room, owned = host_memory(offer, experts=True) or 0, offer.traits.owned
    host = offer.host or assume_host()
    values: dict[str, Value] = {"cpu_moe_layers": cpu_moe_layers, "layers": layers, "needed_bytes": needed_bytes, "ram_bytes": room}
    values |= {"missing_bytes": needed_bytes - room}
    return Reason("host_too_small", values, variant="assumed" if owned and host.size_assumed else "experts")


def _leave_layers(
    offer: Hardware, candidate: Candidate, context: JudgeContext, model: HostedModel, device_bytes: int, request: MemoryRequest
) -> tuple[Candidate, Headroom] | None:
    """The most layers that llama.cpp can put on the cards comfortably; None if the host cannot hold the others."""
    host = host_memory(offer)
    most = most_layers_on_card(model.spec, request, offer.silicon, int(device_bytes * (1 - COMFORT)))
    if most == 0 or host is None:
        return None
    estimate = estimate_memory(model.spec, replace(request, gpu_layers=most), offer.silicon)
    if estimate.host_bytes > host:
        return None
    headroom = measure_headroom(estimate, device_bytes, context.family)
    return replace(candidate, gpu_layers=most, may_offload=False), headroom


def max_concurrency(offer: Hardware, candidate: Candidate, context: JudgeContext, model: HostedModel, device_bytes: int) -> int:
    """Number of requests of `held_tokens` that a server's cache holds; the requested concurrency if nothing limits it."""
    usual = _memory_request(candidate, *_shapes(candidate, context, 1)[-1], context.workload)
    most = count_sequences(model.spec, usual, device_bytes, offer.processor)
    return context.workload.concurrency if most is None else most * (context.workload.serving.data_parallel or 1)


def _shapes(candidate: Candidate, context: JudgeContext, concurrency: int) -> tuple[tuple[int, int], ...]:
    """Shapes (tokens, batch) that must fit: all requests at the longest length; with a server one of these, and all at `held_tokens`."""
    longest, serving = context.context_tokens, context.workload.serving
    if serving is not DEFAULTS:
        each = ceil_divide(concurrency, serving.data_parallel or 1)
        concurrency = serving.parallel or min(each, serving.max_num_seqs or each)
        longest = max(longest, serving.longest_tokens(concurrency) or 0)
    return ((longest, 1), (context.held_tokens, concurrency)) if candidate.engine in SERVERS else ((longest, concurrency),)


def _memory_request(candidate: Candidate, tokens: int, batch: int, workload: Workload) -> MemoryRequest:
    return MemoryRequest(
        precision=candidate.precision,
        engine=candidate.engine,
        context_tokens=tokens,
        batch_size=batch,
        devices=candidate.devices,
        pictures=workload.pictures,
        media=workload.media,
        serving=drop_settings(workload.serving, "data_parallel"),
    )


@lru_cache(maxsize=16_384)
def _hold(
    spec: ById[ModelSpec],
    precision: str,
    engine: Engine,
    devices: int,
    pictures: PipelineRequest,
    media: MediaRequest,
    serving: Serving,
    silicon: ById[Accelerator],
) -> PerDevice:
    """Cached, because several platforms offer the same silicon, and most questions differ only in length or number.

    The cache takes the whole catalog on one piece of hardware: about 9,000 entries, 20 MB.
    """
    request = MemoryRequest(precision=precision, engine=engine, devices=devices, pictures=pictures, media=media, serving=serving)
    return count_per_device(spec.value, request, silicon.value)


def _needed_bytes(headroom: Headroom) -> int:
    return headroom.needed_bytes


def _too_small(
    candidate: Candidate, headroom: Headroom, spec: ModelSpec, request: MemoryRequest, usual: tuple[int, int], silicon: Accelerator
) -> Reason:
    """The missing bytes, and the longest context or the most requests that would fit.

    If the longest request decides, a shorter context counts only if `usual` (tokens and batch, cut to that context) fits too.
    """
    values: dict[str, Value] = {
        "needed_bytes": headroom.needed_bytes,
        "capacity_bytes": headroom.capacity_bytes,
        "missing_bytes": -headroom.free_bytes,
        "precision": headroom.memory.precision,
        "engine": candidate.engine,
        "devices": candidate.devices,
    }
    room = max(1, headroom.device_bytes - headroom.working_bytes)
    fit = fit_memory(spec, request, room, silicon)
    tokens, batch = usual
    if request.batch_size < batch and fit.max_context_tokens:
        together = replace(request, batch_size=batch)
        longest = fit_memory(spec, together, room, silicon)
        if (longest.max_context_tokens or 0) < min(tokens, fit.max_context_tokens):
            request, fit = together, longest
    if spec.cache_terms is not None and fit.max_context_tokens:
        return Reason("too_small", values | {"fits_tokens": fit.max_context_tokens, "at_once": request.batch_size}, variant="context")
    if fit.max_batch_size:
        return Reason("too_small", values | {"fits_at_once": fit.max_batch_size}, variant="batch")
    return Reason("too_small", values)
