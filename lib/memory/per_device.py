"""Bytes on the fullest device, as a function of tokens and batch, and the longest context and largest batch that fit it.

    peak(T, B) = weights + runtime + activations + cache, at the worst length up to T

Tensor parallelism (vLLM) gives each device its share of every matrix and of the heads; the other engines deal whole layers out
(`lib.laws.parallelism`). The largest T or B with peak ≤ capacity is found by
`lib.memory.resolve.find_largest`.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, cast

from lib.catalog.rows import ById
from lib.engines import traits_of
from lib.laws import parallelism
from lib.laws.parallelism import ceil_divide, head_share, layer_split_bytes, tensor_parallel_bytes
from lib.laws.runtime import CPU_NATIVE, GRAPHS, WORKSPACE, ByteRange, Claim, runtime_parts
from lib.laws.training import StepPart
from lib.memory.components import WHOLE, ActivationBytes, CacheBytes, Shares, WeightBytes, count_weight_bytes, is_latent
from lib.memory.pipeline import OutputSize, PipelineMemory, StageBytes
from lib.memory.resolve import ENDLESS, UNLIMITED, find_largest
from lib.memory.training import TrainingMemory, estimate_training
from lib.precision import QLORA
from lib.workload import TrainingRequest

if TYPE_CHECKING:
    from lib.memory.resolve import ResolvedRequest
    from lib.model.spec import CacheTerm, ModelSpec
    from lib.workload import Method


_UNPACKED = frozenset({*QLORA.values(), "bnb-fp4", "bnb-int8"})


class PerDevice:
    """Weights, cache, activations and runtime of a request; everything that does not depend on length and batch is worked out once."""

    def __init__(self, spec: ModelSpec, request: ResolvedRequest, of: WeightBytes) -> None:
        self.spec, self.request, self.weights = spec, request, of
        self.parallel = traits_of(request.engine).tensor_parallel and request.devices > 1
        self.activation = ActivationBytes(spec, request)
        self._first_token: dict[int, int] = {}  # its temporary tensors by batch, the last one asked: a search for a length asks one often
        self.runtime: dict[str, ByteRange] = runtime_parts(
            engine=request.engine, silicon=request.silicon, compute_capability=request.compute_capability
        )
        self._stages = PipelineMemory(spec, spec.pipeline, request) if spec.pipeline and request.mode == "inference" else None
        self._layers = max(1, spec.dimensions.layers)
        self.cache = CacheBytes(_cache_terms(spec, request), request, spec.dimensions.head_dim, self._shares())
        self.trains = request.mode != "inference"
        if self.trains:
            self.runtime = {name: part for name, part in self.runtime.items() if name != WORKSPACE}  # among what was fitted
        self.on_gpu = None if request.gpu_layers is None else parallelism.layers_on_gpu(layers=self._layers, gpu_layers=request.gpu_layers)
        self.host_weights = 0
        self.device_weights = ceil_divide(of.total, request.devices) if self.trains else self._device_weights()
        self.device_runtime = sum(part.typical for part in self.runtime.values())
        unpacks = traits_of(request.engine).own_modules and request.precision in _UNPACKED
        self.unpacked = of.largest_matrix * request.element_bytes if unpacks else 0

    def _shares(self) -> Shares:
        if not self.parallel:
            return WHOLE
        n = self.request.devices
        return Shares(head_share(kv_heads=self.spec.dimensions.kv_heads, devices=n), n, latent=is_latent(self.spec))

    def _device_weights(self) -> int:
        of, n = self.weights, self.request.devices
        if self.on_gpu is not None:
            return self._offloaded_weights(self.on_gpu)
        if n == 1:
            return of.total
        if self.parallel:
            return tensor_parallel_bytes(sharded=of.cut, replicated=of.total - of.cut, devices=n)
        return layer_split_bytes(in_layers=of.total - of.ends, ends=of.ends, layers=self._layers, devices=n)

    def _offloaded_weights(self, on_gpu: int) -> int:
        """Bytes on the fullest GPU beside a host, which keeps the table and the other layers; a tied table lies on both."""
        parts, n = self.weights.by_component, self.request.devices
        table = parts.get("embeddings", 0)
        output = (parts.get("head", 0) or table) if self.request.gpu_layers else 0
        in_layers = self.weights.total - table - parts.get("head", 0)
        gpu_bytes = parallelism.gpu_part(in_layers, layers=self._layers, on_gpu=on_gpu)
        self.host_weights = self.weights.total - gpu_bytes - (parts.get("head", 0) if output else 0)
        return layer_split_bytes(in_layers=gpu_bytes, ends=output, layers=max(1, on_gpu), devices=n)

    def host(self, tokens: int, batch: int) -> int:
        """Bytes in the memory of the host beside GPUs that hold some of the layers; 0 where everything lies on the devices."""
        if self.on_gpu is None:
            return 0
        cache = self.cache.share(tokens, batch)
        on_host = cache - parallelism.gpu_part(cache, layers=self._layers, on_gpu=self.on_gpu)
        return self.host_weights + on_host + self.activation.host_buffer(tokens) + CPU_NATIVE.typical

    def fullest_share(self, cache: int) -> int:
        """The fullest device's part of a cache whose layers are dealt out whole."""
        n = self.request.devices
        if self.on_gpu is not None:
            gpu_cache = parallelism.gpu_part(cache, layers=self._layers, on_gpu=self.on_gpu)
            return ceil_divide(gpu_cache * ceil_divide(self.on_gpu, n), max(1, self.on_gpu))
        return cache if n == 1 or self.parallel else ceil_divide(cache * ceil_divide(self._layers, n), self._layers)

    def activations(self, tokens: int, batch: int) -> dict[str, int]:
        """Activations on one device by what they are; with the states of training, when there is any."""
        if self.trains:
            apart = {StepPart.WEIGHTS, StepPart.CONTEXT}
            return {name: size for name, size in self.training(tokens, batch).parts.items() if name not in apart}
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

    def claim(self, tokens: int, batch: int) -> Claim:
        """What lies on the fullest device beside the cache; training claims no share ahead, whatever the engine."""
        active = sum(self.activations(tokens, batch).values())
        engine = "transformers" if self.trains else self.request.engine
        graphs = self.runtime[GRAPHS].typical if GRAPHS in self.runtime else 0
        return Claim(
            engine, self.request.silicon, self._weights_on_device(batch), active, self.device_runtime, graphs, self.request.devices
        )

    def peak(self, tokens: int, batch: int) -> int:
        """Bytes on the fullest device at the worst length up to `tokens`."""
        return self.beside_cache(tokens, batch) + self.worst_cache(tokens, batch)

    def worst_cache(self, tokens: int, batch: int) -> int:
        """Bytes of the cache on the fullest device at the worst length up to `tokens`."""
        return self.fullest_share(self.cache.worst_share(tokens, batch))

    def beside_cache(self, tokens: int, batch: int) -> int:
        """Bytes of everything but the cache on the fullest device, at the worst length up to `tokens`."""
        if self._stages or self.trains:
            active = sum(self.activations(tokens, batch).values())
        else:  # a moment's temporary tensors may shrink as the cache beside them grows
            if (first := self._first_token.get(batch)) is None:
                first = self.activation.bytes(1, batch)
                self._first_token = {batch: first}
            active = max(first, self.activation.bytes(tokens, batch)) + self.unpacked
        return self._weights_on_device(batch) + self.device_runtime + active


def _cache_terms(spec: ModelSpec, request: ResolvedRequest) -> tuple[CacheTerm, ...] | None:
    """What the layers cache in a request; those that attend to pictures alone where there are any."""
    if request.mode != "inference":
        return None
    cross = spec.vision.cross if spec.vision and request.media.images else None
    return spec.cache_terms if cross is None else (*(spec.cache_terms or ()), cross)


@lru_cache(maxsize=256)
def _weights(key: ById[ModelSpec], precision: str, compute_dtype: str, *, keeps_fp32: bool) -> WeightBytes:
    return count_weight_bytes(key.value, precision, compute_dtype, keeps_fp32=keeps_fp32)


@lru_cache(maxsize=1024)
def _build(key: ById[ModelSpec], request: ResolvedRequest) -> PerDevice:
    own = traits_of(request.engine).own_modules
    of = _weights(key, request.precision, request.compute_dtype, keeps_fp32=own)
    return PerDevice(key.value, request, of)


def per_device(spec: ModelSpec, request: ResolvedRequest) -> PerDevice:
    """The bytes of a request on each device; the last few hundred are remembered, so that a slider's move is arithmetic only."""
    return _build(ById(spec), request)


def max_context(of: PerDevice, capacity: int, batch: int, host_capacity: int = UNLIMITED) -> int | None:
    """Longest context that fits device and host, bounded by the model's own limit; None when nothing bounds it."""
    limit = of.spec.context_limit
    if limit is not None:
        limit -= of.request.media.tokens
        if limit < 1:
            return 0
    most = find_largest(lambda tokens: of.peak(tokens, batch), capacity, limit or ENDLESS)
    if of.on_gpu is not None and most:
        most = find_largest(lambda tokens: of.host(tokens, batch), host_capacity, most)
    return None if limit is None and most == ENDLESS else most


def max_batch(of: PerDevice, capacity: int, tokens: int, at_most: int = ENDLESS, host_capacity: int = UNLIMITED) -> int | None:
    """Most sequences of this length that fit device and host, of `at_most` that are asked about; None when nothing bounds them."""
    most = find_largest(lambda batch: of.peak(tokens, batch), capacity, at_most)
    if of.on_gpu is not None and most:
        most = find_largest(lambda batch: of.host(tokens, batch), host_capacity, most)
    return None if most == ENDLESS else most
