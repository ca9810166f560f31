"""Bytes on the fullest device by context length and batch size; whether they fit; the longest context and largest batch that fit.

    peak(T, B) = weights + runtime + activations + cache, at the worst length up to T

Tensor parallelism (vLLM) gives each device a share of every matrix and of the heads. The other engines place whole layers on devices
(`lib.laws.parallelism`). The largest T or B with peak ≤ capacity is found by
`lib.memory.resolve.find_largest`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, cast

from lib.catalog.host_memory import assume_host
from lib.catalog.offers import Hardware
from lib.catalog.rows import ById
from lib.engines import traits_of
from lib.laws import expert_split, parallelism
from lib.laws.parallelism import ceil_divide, head_share, layer_split_bytes, tensor_parallel_bytes
from lib.laws.runtime import CPU_NATIVE, GRAPHS, WORKSPACE, ByteRange, MemoryReservation, runtime_parts
from lib.laws.training import StepPart
from lib.memory.components import WHOLE, ActivationBytes, CacheBytes, Shares, WeightBytes, count_weight_bytes, is_latent
from lib.memory.pipeline import OutputSize, PipelineMemory, StageBytes
from lib.memory.resolve import ENDLESS, UNLIMITED, count_expert_layers, find_largest, resolve_request, settle_serving
from lib.memory.training import TrainingMemory, estimate_training
from lib.precision import QLORA
from lib.request.serving import DEFAULTS
from lib.result import Result
from lib.workload import TrainingRequest

if TYPE_CHECKING:
    from collections.abc import Callable

    from lib.catalog.silicon import Accelerator
    from lib.memory.resolve import ResolvedRequest
    from lib.model.spec import ModelSpec
    from lib.workload import MemoryRequest, Method


_UNPACKED = frozenset({*QLORA.values(), "bnb-fp4", "bnb-int8"})


class PerDevice:
    """Weights, cache, activations and runtime of a request. Values that do not depend on length and batch size are computed once."""

    def __init__(self, spec: ModelSpec, request: ResolvedRequest, of: WeightBytes) -> None:
        self.spec, self.request, self.weights = spec, request, of
        tensor, self.groups = traits_of(request.engine).tensor_parallel, request.stages
        self.shards = request.devices // self.groups if tensor else 1  # devices that split every layer
        self.parallel = self.shards > 1
        self.layer_groups = self.groups if tensor else request.devices  # devices or groups of them that hold layers in turn
        self.activation = ActivationBytes(spec, request)
        self.runtime: dict[str, ByteRange] = runtime_parts(
            engine=request.engine,
            silicon=request.silicon,
            compute_capability=request.compute_capability,
            graphs=request.serving.cuda_graphs is not False,
        )
        self._stages = PipelineMemory(spec, spec.pipeline, request) if spec.pipeline and request.mode == "inference" else None
        self._layers = max(1, spec.dimensions.layers)
        self.trains = request.mode != "inference"
        terms = None if self.trains else spec.cache_terms
        if not self.trains and spec.vision and spec.vision.cross and request.media.images:  # of layers that attend to pictures alone
            terms = (*(terms or ()), spec.vision.cross)
        shares = WHOLE
        if self.parallel:
            kv_share = head_share(kv_heads=spec.dimensions.kv_heads, devices=self.shards)
            shares = Shares(kv_share, self.shards, latent=is_latent(spec))
        self.cache = CacheBytes(terms, request, spec.dimensions.head_dim, shares)
        if self.trains:
            self.runtime = {name: part for name, part in self.runtime.items() if name != WORKSPACE}  # the fitted constants include it
        self.on_gpu = None if request.gpu_layers is None else parallelism.layers_on_gpu(layers=self._layers, gpu_layers=request.gpu_layers)
        # Offloading (`_offloaded_weights` sets them): weights in the host's memory, weights that a step reads, and those it reads on GPUs.
        self.host_weights = self.read_bytes = self.gpu_read_bytes = 0
        self.expert_layers = count_expert_layers(spec) if request.experts_in_host else 0
        self.host_expert_bytes = 0  # experts in the host's memory that belong to layers on the GPU
        self.device_weights = ceil_divide(of.total, request.devices) if self.trains else self._device_weights()
        self.device_runtime = sum(part.typical for part in self.runtime.values())
        unpacks = traits_of(request.engine).own_modules and request.precision in _UNPACKED
        self.unpacked = of.largest_matrix * request.element_bytes if unpacks else 0

    def _device_weights(self) -> int:
        of, n = self.weights, self.request.devices
        if self.on_gpu is not None:
            return self._offloaded_weights(self.on_gpu)
        if n == 1:
            return of.total
        if not self.parallel:
            return layer_split_bytes(in_layers=of.total - of.ends, ends=of.ends, layers=self._layers, devices=n)
        shard, ends = self.shard_weights, ceil_divide(of.ends, self.shards)
        return shard if self.groups == 1 else layer_split_bytes(in_layers=shard - ends, ends=ends, layers=self._layers, devices=self.groups)

    @property
    def shard_weights(self) -> int:
        """Bytes of one device's part of every layer, those of all stages together."""
        return tensor_parallel_bytes(sharded=self.weights.cut, replicated=self.weights.total - self.weights.cut, devices=self.shards)

    def _offloaded_weights(self, on_gpu: int) -> int:
        """Weights on the fullest GPU if the host holds the embedding table and the other layers; a tied table is on both.

        Sets the bytes of the host and those that a step reads.
        """
        parts = self.weights.by_component
        table, head = parts.get("embeddings", 0), parts.get("head", 0)
        output = (head or table) if self.request.gpu_layers else 0
        in_layers = self.weights.total - table - head
        gpu_bytes = parallelism.gpu_part(in_layers, layers=self._layers, on_gpu=on_gpu)
        self.host_expert_bytes = self._experts_in_host(on_gpu)
        self.host_weights = self.weights.total - gpu_bytes + self.host_expert_bytes - (head if output else 0)
        self.read_bytes, self.gpu_read_bytes = in_layers + (head or table), gpu_bytes - self.host_expert_bytes + output
        if self.host_expert_bytes and self.request.devices > 1:
            return self._last_gpu_weights(gpu_bytes, output, on_gpu)
        return layer_split_bytes(
            in_layers=gpu_bytes - self.host_expert_bytes, ends=output, layers=max(1, on_gpu), devices=self.request.devices
        )

    @property
    def expert_bytes(self) -> int:
        """Bytes of the routed experts of all layers."""
        return sum(size for group, size in zip(self.spec.tensors, self.weights.by_group, strict=True) if group.kind == "expert")

    def _experts_in_host(self, on_gpu: int) -> int:
        """Bytes of experts in the host's memory that belong to layers on the GPU.

        Experts move to the host from the first layer on. Whole layers do too, so layers that already left the GPU are subtracted.
        """
        in_host = max(0, self.request.experts_in_host - (self._layers - on_gpu))
        return expert_split.expert_bytes_in_host(
            expert_bytes=self.expert_bytes, expert_layers=self.expert_layers, in_host=min(in_host, self.expert_layers)
        )

    def _last_gpu_weights(self, gpu_bytes: int, output: int, on_gpu: int) -> int:
        """Weights on the last GPU, the fullest one: its layers keep their experts, and the host holds those of the first layers."""
        share = ceil_divide(on_gpu, self.request.devices)
        each = self.expert_bytes // max(1, self.expert_layers)
        kept = self.expert_bytes - self.host_expert_bytes if on_gpu == self._layers else each * on_gpu - self.host_expert_bytes
        others = ceil_divide((gpu_bytes - self.host_expert_bytes - kept) * share, max(1, on_gpu))
        return others + min(each * share, kept) + output

    def host(self, tokens: int, batch: int) -> int:
        """Bytes in the host's memory: layers that GPUs do not hold, or an offloaded pipeline; 0 if everything is on the devices."""
        if self._stages is not None:
            return self._stages.host_bytes
        if self.on_gpu is None:
            return 0
        cache = self.cache.share(tokens, batch)
        on_host = cache - parallelism.gpu_part(cache, layers=self._layers, on_gpu=self.on_gpu)
        return self.host_weights + on_host + self.activation.host_buffer(tokens) + CPU_NATIVE.typical

    def fullest_share(self, cache: int) -> int:
        """Bytes of `cache` on the device with most layers, if devices hold whole layers."""
        n = self.request.devices
        if self.on_gpu is not None:
            gpu_cache = parallelism.gpu_part(cache, layers=self._layers, on_gpu=self.on_gpu)
            return ceil_divide(gpu_cache * ceil_divide(self.on_gpu, n), max(1, self.on_gpu))
        groups = self.layer_groups
        return cache if groups == 1 else ceil_divide(cache * ceil_divide(self._layers, groups), self._layers)

    def activations(self, tokens: int, batch: int) -> dict[str, int]:
        """Activations on one device by name; in training every part of the step except weights and CUDA context."""
        if self.trains:
            counted_elsewhere = {StepPart.WEIGHTS, StepPart.CONTEXT}
            return {name: size for name, size in self.training(tokens, batch).parts.items() if name not in counted_elsewhere}
        if self._stages:
            fullest = self._stages.fullest(batch)
            passing: dict[str, int] = {fullest.name: fullest.activation}
        else:
            passing = {"forward pass": self.activation.bytes(tokens, batch)}
        return {**passing, "one unpacked matrix": self.unpacked} if self.unpacked else passing

    def training(self, tokens: int, batch: int) -> TrainingMemory:
        """A training step with the defaults of `TrainingRequest`, on the weights that were asked for; several devices share by FSDP."""
        request = TrainingRequest(
            method=cast("Method", self.request.mode),
            sequence_tokens=tokens,
            micro_batch=batch,
            double_quantization=self.request.precision != QLORA[False],
        )
        if self.request.devices > 1:
            request = replace(request, sharding="fsdp", devices=self.request.devices)
        return estimate_training(self.spec, replace(request, precision="fp32") if self.request.compute_dtype == "fp32" else request)

    def stages(self, batch: int) -> tuple[StageBytes, ...]:
        """The stages of a pipeline that was run; none of any other model."""
        return self._stages.all(batch) if self._stages else ()

    def tiled_decoding(self, batch: int) -> tuple[int, int] | None:
        """Temporary bytes of the decoding whole and in tiles; None if tiles take no less, or were asked for."""
        return self._stages.tiled_decoding(batch) if self._stages else None

    def stage_weights(self, batch: int) -> dict[str, int] | None:
        """Weights on the device in a pipeline's fullest stage, by component; None of any other model."""
        return self._stages.fullest(batch).weights if self._stages else None

    @property
    def tensor_bytes(self) -> tuple[int, ...]:
        """Bytes of each group of the model's tensors, all devices and offloading left aside."""
        return self._stages.tensor_bytes if self._stages else self.weights.by_group

    @property
    def output_size(self) -> OutputSize | None:
        """The size of the pictures or clips."""
        return self._stages.size if self._stages else None

    def _weights_on_device(self, batch: int) -> int:
        by_component = self.stage_weights(batch)
        return self.device_weights if by_component is None else sum(by_component.values())

    def claim(self, tokens: int, batch: int) -> MemoryReservation:
        """Bytes on the fullest device without the cache. In training no engine reserves a share of the device in advance."""
        active = sum(self.activations(tokens, batch).values())
        engine = "transformers" if self.trains else self.request.engine
        graphs = self.runtime[GRAPHS].typical if GRAPHS in self.runtime else 0
        serving = DEFAULTS if self.trains else self.request.serving
        return MemoryReservation(
            engine,
            self.request.silicon,
            self._weights_on_device(batch),
            active,
            self.device_runtime,
            graphs,
            self.request.devices,
            serving.gpu_memory_utilization,
            serving.kv_cache_memory_bytes,
        )

    def peak(self, tokens: int, batch: int) -> int:
        """Bytes on the fullest device at the worst length up to `tokens`."""
        return self.beside_cache(tokens, batch) + max(self.worst_cache(tokens, batch), self.start_cache)

    @cached_property
    def start_cache(self) -> int:
        """Bytes of the cache without which the server does not start: one request of `max_model_len`, or all of `ctx_size`."""
        serving = self.request.serving
        slots = 1 if serving.max_model_len else serving.parallel or 1
        longest = serving.longest_tokens(slots)
        return 0 if longest is None else self.worst_cache(longest, slots)

    def worst_cache(self, tokens: int, batch: int) -> int:
        """Bytes of the cache on the fullest device at the worst length up to `tokens`."""
        return self.fullest_share(self.cache.worst_share(tokens, batch))

    def beside_cache(self, tokens: int, batch: int) -> int:
        """Bytes of everything but the cache on the fullest device, at the worst length up to `tokens`."""
        if self._stages or self.trains:
            active = sum(self.activations(tokens, batch).values())
        else:
            active = self.activation.worst_bytes(tokens, batch) + self.unpacked
        return self._weights_on_device(batch) + self.device_runtime + active


@lru_cache(maxsize=4096)
def _weights(key: ById[ModelSpec], precision: str, compute_dtype: str, *, keeps_fp32: bool, towers: bool) -> WeightBytes:
    return count_weight_bytes(key.value, precision, compute_dtype, keeps_fp32=keeps_fp32, towers=towers)


@lru_cache(maxsize=16_384)
def _build(key: ById[ModelSpec], request: ResolvedRequest) -> PerDevice:
    traits = traits_of(request.engine)
    towers = not traits.own_files or request.media.images > 0 or request.media.sound_s > 0  # llama.cpp has them in a second file (mmproj)
    keeps_fp32 = traits.own_modules
    return PerDevice(key.value, request, _weights(key, request.precision, request.compute_dtype, keeps_fp32=keeps_fp32, towers=towers))


def count_per_device(spec: ModelSpec, request: MemoryRequest, accelerator: Accelerator | None = None) -> PerDevice:
    """The bytes of a request on each device, at any length and batch; remembered by what requests resolve to.

    Raises:
        BadArgument: as `lib.memory.resolve.resolve_request`.
    """
    return _build(ById(spec), resolve_request(spec, request, accelerator))


def _find_largest(of: PerDevice, peak: Callable[[int], int], host: Callable[[int], int], capacity: int, host_bytes: int, limit: int) -> int:
    """The largest n up to `limit` that fits the fullest device, and the host where it holds layers."""
    most = find_largest(peak, capacity, limit)
    return find_largest(host, host_bytes, most) if most and of.host(1, 1) else most


@lru_cache(maxsize=4096)
def max_context(of: PerDevice, capacity: int, batch: int, host_bytes: int) -> int | None:
    """Longest context that fits device and host, bounded by model and server; None when nothing bounds it."""
    limits = [limit for limit in (of.spec.context_limit, of.request.serving.longest_tokens(batch)) if limit is not None]
    limit = min(limits, default=None)
    if limit is not None:
        limit -= of.request.media.tokens
        if limit < 1:
            return 0
    most = _find_largest(of, lambda n: of.peak(n, batch), lambda n: of.host(n, batch), capacity, host_bytes, limit or ENDLESS)
    return None if limit is None and most == ENDLESS else most


@lru_cache(maxsize=4096)
def max_batch(of: PerDevice, memory_bytes: int, tokens: int, host_bytes: int, at_most: int = ENDLESS) -> int | None:
    """Most sequences of this length that fit device and host, of `at_most` that are asked about; None when nothing bounds them."""
    capacity, at_most = of.claim(tokens, 1).capacity_bytes(memory_bytes), min(at_most, of.request.serving.sequences or at_most)
    most = _find_largest(of, lambda n: of.peak(tokens, n), lambda n: of.host(tokens, n), capacity, host_bytes, at_most)
    return None if most == ENDLESS else most


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryFit(Result):
    """Whether a configuration fits the memory of an offer, and the largest context and batch that would."""

    fits: bool
    """Whether the configuration fits."""
    capacity_bytes: int
    """Bytes that the engine may fill on one device: its usable memory, or the share that the engine claims of it."""
    free_bytes: int
    """Bytes left on the fullest device; negative if it does not fit."""
    max_context_tokens: int | None
    """Longest context that fits with all else unchanged, up to the model's limit; 0 if none, null if no limit was found."""
    max_batch_size: int | None
    """Largest batch that fits with all else unchanged; 0 if not even one, null if no limit was found."""
    kv_cache_tokens: int | None = None
    """Tokens, in requests of this length, of the KV cache that the engine allocates at start; null if it allocates none ahead."""


def fit_memory(
    spec: ModelSpec, request: MemoryRequest, memory_bytes: int, accelerator: Accelerator | None = None, *, host_bytes: int | None = None
) -> MemoryFit:
    """Whether a request fits devices with this usable memory each, and the longest context and largest batch that would.

    `host_bytes` is the usable memory of the host, which counts where layers are left to it; None if it is not known.

    An engine that claims a share of the device at start has no more than that (`lib.laws.runtime`).
    """
    request = settle_serving(request)
    of = count_per_device(spec, request, accelerator)
    return _fit(of, memory_bytes, request.context_tokens, request.batch_size, UNLIMITED if host_bytes is None else host_bytes)


@lru_cache(maxsize=4096)
def _fit(of: PerDevice, memory_bytes: int, tokens: int, batch: int, host_bytes: int) -> MemoryFit:
    """`fit_memory` with a cache, because several platforms offer the same silicon. The host counts only if it holds layers."""
    capacity_bytes, on_host = of.claim(tokens, batch).capacity_bytes(memory_bytes), of.host(tokens, batch)
    free = capacity_bytes - of.peak(tokens, batch)
    free = min(free, host_bytes - on_host) if on_host else free
    return MemoryFit(
        fits=free >= 0,
        capacity_bytes=capacity_bytes,
        free_bytes=free,
        max_context_tokens=max_context(of, capacity_bytes, batch, host_bytes),
        max_batch_size=max_batch(of, memory_bytes, tokens, host_bytes),
        kv_cache_tokens=_count_cache_tokens(of, capacity_bytes, tokens, batch),
    )


def _count_cache_tokens(of: PerDevice, capacity_bytes: int, tokens: int, batch: int) -> int | None:
    """Tokens, in whole blocks, of the cache that an engine allocates at start. None if it allocates none ahead."""
    each, traits = of.worst_cache(tokens, 1), traits_of(of.request.engine)
    if of.trains or not traits.preallocates or not each:
        return None
    held = int(max(0, capacity_bytes - of.beside_cache(tokens, batch)) / each * tokens)
    return held - held % traits.block_tokens


def count_sequences(
    spec: ModelSpec, request: MemoryRequest, memory_bytes: int, accelerator: Accelerator | None = None, *, at_most: int = ENDLESS
) -> int | None:
    """Most sequences of the request's length that the engine holds at once on such devices; None if nothing bounds them.

    `at_most` ends the search early: if that many fit, one check is enough.
    """
    request = settle_serving(request)
    return max_batch(count_per_device(spec, request, accelerator), memory_bytes, request.context_tokens, UNLIMITED, at_most)


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheHeadroom:
    """Bytes left for the cache on the fullest device, negative if the rest does not fit, and the bytes of one sequence."""

    of: PerDevice
    capacity_bytes: int

    def sequence_bytes(self, tokens: int) -> int:
        """Bytes of the cache of one sequence, at the worst length up to so many tokens."""
        return self.of.worst_cache(tokens, 1)


def cache_headroom(spec: ModelSpec, request: MemoryRequest, memory_bytes: int, accelerator: Accelerator | None = None) -> CacheHeadroom:
    """Memory that each device leaves for the cache, next to weights, runtime, and the activations of the request's size.

    An engine that claims a share of the device at start has no more than that.
    """
    request = settle_serving(request)
    of = count_per_device(spec, request, accelerator)
    capacity = of.claim(request.context_tokens, request.batch_size).capacity_bytes(memory_bytes)
    return CacheHeadroom(of=of, capacity_bytes=capacity - of.beside_cache(request.context_tokens, request.batch_size))


SYSTEM_SHARE = 0.05
"""Of a CPU host's memory, for other processes of the container and for pages of mapped files. A judgement, not a measurement."""


def host_memory(offer: Hardware, *, experts: bool = False) -> int | None:
    """Usable memory of the host of the cards, less the system's share; None if it is not known.

    Where it has to hold `experts`, the assumed size is taken for own cards whose host is not stated.
    """
    size = offer.ram_bytes
    if size is None and experts and offer.traits.owned:
        size = (offer.host or assume_host()).size
    return None if size is None else int(size * (1 - SYSTEM_SHARE))


def usable_memory(offer: Hardware) -> int | None:
    """Usable memory of one device of an offer; of a CPU, its memory less the system's share. None if it is not known."""
    return host_memory(offer) if offer.accelerator is None else offer.vram_bytes_per_accelerator
