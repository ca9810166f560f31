"""The estimate: four parts that add up, each with its law, inputs and source; a range; and caveats.

    total = weights + kv_cache + activation + runtime, summed over the devices

The parts are worded for people elsewhere (`lib.present`); here are the numbers, the codes and the sentences of the open points.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from lib.engines import traits_of
from lib.laws import Law, pipeline, runtime
from lib.laws.kv_cache_by_engine import LAWS
from lib.laws.runtime import MemoryReservation
from lib.laws.weights import rule_of_thumb_bytes
from lib.memory.per_device import count_per_device
from lib.memory.resolve import count_expert_layers, find_largest, settle_serving
from lib.precision import PUBLISHED_LAWS, lacks_stored_format, weight_format
from lib.provenance import Caveat, Source, Value
from lib.request.serving import keep_experts_in_host
from lib.result import Result
from lib.workload import MemoryRequest

if TYPE_CHECKING:
    from lib.catalog.silicon import Accelerator
    from lib.memory.per_device import PerDevice
    from lib.memory.pipeline import StageBytes
    from lib.model.spec import ModelSpec


_TEXT = frozenset({"image-text-to-text", "video-text-to-text", "audio-text-to-text", "any-to-any"})
_AUTO = frozenset({"bf16", "fp16", "gguf:BF16"})  # what auto takes where nothing is stated
_UNKNOWN_ACTIVATIONS = frozenset({"diffusers", "timm"})
_LONG = 1024
CHECK_DATE = "2026-11-21"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPart(Result):
    """One part of an estimate."""

    name: str
    """weights, kv_cache, activation or runtime."""
    bytes: int
    """Bytes of the part."""
    law: str
    """The equation."""
    inputs: Mapping[str, str]
    """Symbols of the equation with their values."""
    source: str
    """Source of the equation."""
    details: Mapping[str, int]
    """The part divided further (cache by kind of layer, weights by component); adds up to `bytes`, or is empty."""


@dataclass(frozen=True, kw_only=True)
class MemoryEstimate:
    """Memory of one configuration, by component, over all devices, and on the fullest one.

    `total_bytes` = weights + kv_cache + activation + runtime, summed over the devices. `per_device_bytes` is the peak of the
    fullest device. `low_bytes`/`high_bytes` bound the total where the truth is a range. `stages` are those of a pipeline, on one device.
    `claim` is the part of a device that the engine may fill. `host_bytes` is the part of the total in host memory, if llama.cpp leaves
    layers there (else 0). The advisor weighs thousands of configurations by their bytes and shows a few, so laws, inputs, caveats and
    sources are put together when they are asked for.
    """

    of: PerDevice
    tokens: int
    batch: int
    weights_bytes: int
    kv_cache_bytes: int
    activation_bytes: int
    runtime_bytes: int
    total_bytes: int
    low_bytes: int
    high_bytes: int
    per_device_bytes: int
    claim: MemoryReservation
    host_bytes: int

    @property
    def precision(self) -> str:
        """The format of the weights that is really used ("auto" is resolved)."""
        return self.of.request.precision

    @property
    def kv_precision(self) -> str:
        """The format of the cache that is really used."""
        return self.of.request.kv_precision

    @property
    def engine(self) -> str:
        """The engine."""
        return self.of.request.engine

    @cached_property
    def weights(self) -> MemoryPart:
        """Weights over all devices, copies included."""
        of, by_component = self.of, self.of.stage_weights(self.batch)
        inputs = {"format": of.request.precision, "P": f"{of.spec.parameters_total:,} parameters", "devices": str(of.request.devices)}
        if of.on_gpu is not None:
            inputs["layers on the GPU"] = f"{of.on_gpu} of {of.spec.dimensions.layers}"
        if of.host_expert_bytes:
            inputs["experts in host memory"] = f"of {of.request.experts_in_host} of {of.expert_layers} layers with experts"
        details = of.weights.by_component if by_component is None else by_component
        return _part("weights", self.weights_bytes, of.weights.law, inputs, _with_copies(details, self.weights_bytes))

    @cached_property
    def kv_cache(self) -> MemoryPart:
        """Cache over all devices, copies included."""
        of = self.of
        element = f"{of.request.kv_element_bytes:g} bytes ({of.request.kv_precision})"
        inputs = {"B": str(self.batch), "T": _length(of, self.tokens), "b": element, **_media(of)}
        if of.request.encoder_tokens:
            inputs["E"] = f"{of.request.encoder_tokens:,} encoder positions"
        details = _with_copies(of.cache.by_kind(self.tokens, self.batch), self.kv_cache_bytes)
        return _part("kv_cache", self.kv_cache_bytes, LAWS[traits_of(of.request.engine).cache], inputs, details)

    @cached_property
    def activation(self) -> MemoryPart:
        """Activations of all devices; in training also gradients and optimizer states."""
        of, size = self.of, self.of.output_size
        details = {name: one * of.request.devices for name, one in of.activations(self.tokens, self.batch).items()}
        if of.on_gpu is not None:
            details["host buffer"] = of.activation.host_buffer(self.tokens)
        element = f"{of.request.element_bytes} bytes"
        if size is None:
            inputs = {"B": str(self.batch), "T": _length(of, self.tokens), "b": element, **of.activation.inputs, **_media(of)}
            return _part("activation", self.activation_bytes, of.activation.law, inputs, details)
        inputs = {"B": str(self.batch), "A": f"{size.width:,} x {size.height:,} pixels", "b": element}
        inputs |= {"f": f"latents of {size.frames} frames"} if size.frames else {}
        return _part("activation", self.activation_bytes, pipeline.BYTES, inputs, details)

    @cached_property
    def runtime(self) -> MemoryPart:
        """Memory of each process without the model, for all devices."""
        of = self.of
        details = {name: part.typical * of.request.devices for name, part in of.runtime.items()}
        if of.on_gpu is not None:
            details["process"] = runtime.CPU_NATIVE.typical
        silicon = of.request.silicon if of.request.is_named else f"a {of.request.silicon.upper()}, which one is not named"
        inputs = {"processes": str(of.request.devices), "engine": of.request.engine, "silicon": silicon}
        return _part("runtime", self.runtime_bytes, runtime.LAW, inputs, details)

    @property
    def rule_of_thumb_bytes(self) -> int:
        """The community's parameters × bytes × 1.2."""
        return rule_of_thumb_bytes(self.of.spec.parameters_total, weight_format(self.precision).effective_bits / 8)

    @property
    def stages(self) -> tuple[StageBytes, ...]:
        """The stages of a pipeline that was run, on one device."""
        return self.of.stages(self.batch)

    @cached_property
    def caveats(self) -> tuple[Caveat, ...]:
        """Caveats at this length."""
        of, spec, request = self.of, self.of.spec, self.of.request
        inference, own = request.mode == "inference", traits_of(request.engine).own_modules
        untraced = own and inference and not spec.activations and spec.library != "diffusers"
        holds = {
            "unknown_cache": spec.unknown_cache,
            "dtype_unstated": request.precision in _AUTO and spec.source != "rule_of_thumb" and lacks_stored_format(spec),
            "experts_not_converted": weight_format(request.precision).takes == "modules" and any(g.kind == "expert" for g in spec.tensors),
            "activation_typical": not of.activation.is_known and spec.library not in _UNKNOWN_ACTIVATIONS,
            "activation_by_law": untraced and of.activation.is_known,
            "activation_unknown": spec.library in _UNKNOWN_ACTIVATIONS and spec.pipeline is None,
            "layer_split": request.devices > 1 and not of.parallel,
            "training_assumed": not inference,
            "attention_scores": of.activation.scores(_LONG, 1) > 0,
        }
        # What is not known of the device, the cache and the media.
        open_points = [Caveat(code) for code, true in holds.items() if true]
        if request.silicon in {"tpu", "neuron", "apple"}:
            open_points.append(Caveat("device_runtime", variant="apple" if request.silicon == "apple" else ""))
        if own and inference and spec.cache_terms is not None:
            eager = [fit for fit in spec.activations if fit.kernel == of.activation.kernel == "eager"]
            squared = any(fit.per_token_squared for fit in eager)
            open_points.append(Caveat("one_prompt", variant="" if not eager else "eager" if squared else "scan"))
        if spec.task in _TEXT and not request.media.images:
            open_points.append(Caveat("media_not_counted", variant="images" if spec.vision else ""))
        traits = traits_of(request.engine)
        if traits.preallocates and inference:
            stated = request.serving.gpu_memory_utilization
            variant = {"a share of the rest": "rest", "weights and cache": "computed" if stated is None else ""}.get(traits.claims, "")
            claimed = traits.memory_share if stated is None else stated * traits.share_factor
            cache = request.serving.kv_cache_memory_bytes
            values: dict[str, Value] = {"engine": request.engine, "share": claimed, "cache_bytes": cache or 0}
            open_points.append(Caveat("preallocates", values, variant=variant if cache is None else "bytes"))
        # Defaults of the server that differ between releases or silicon.
        chosen = request.serving.stated.keys() & {"gpu_memory_utilization", "kv_cache_memory_bytes"}
        if traits.share_by_release and inference and not chosen:
            old, new = runtime.VLLM_SHARES[-2:]
            changed = ".".join(map(str, new.since))
            shares: dict[str, Value] = {"old_share": old.share, "new_share": new.share, "changed": changed, "share": traits.memory_share}
            open_points.append(Caveat("share_by_release", shares))
        tokens_of_step, least = request.profiled_tokens, min(each for _, each in traits.batched_tokens)
        by_default = request.serving.max_num_batched_tokens is None
        if inference and by_default and traits.start_up == "profile run" and tokens_of_step > least:
            values = {"tokens": tokens_of_step, "least_tokens": least, "engine": request.engine}
            open_points.append(Caveat("step_tokens", values))
        # Lengths: of a clip that is decoded at once, and beyond the model's limit.
        size = of.output_size
        if size is not None and size.frames > 1 and (tiled := of.tiled_decoding(self.batch)) is not None:
            open_points.append(Caveat("clip_decoding", {"decode_bytes": tiled[0], "tiled_bytes": tiled[1]}))
        limit = spec.context_limit
        counted = self.tokens + request.media.tokens
        if limit is not None and counted > limit:
            open_points.append(Caveat("beyond_context_limit", {"limit_tokens": limit, "counted_tokens": counted}))
        return (*open_points, *(Caveat(code) for code in of.cache.codes))

    @property
    def sources(self) -> tuple[Source, ...]:
        """Sources of the laws."""
        rows = [
            ("weights", self.of.weights.law.source),
            ("cache", "transformers 5.23.0, cache classes as executed"),
            ("activations", "transformers 5.23.0 and torch 2.13.0, forward pass traced on the meta device"),
            (f"room: {runtime.CLAIM.equation}", runtime.CLAIM.source),
            ("runtime", "published start-up logs and driver figures, listed in lib/laws/runtime.py"),
        ]
        if not traits_of(self.engine).preallocates:
            del rows[3]
        return tuple(Source(what=what, source=source, checked=CHECK_DATE) for what, source in rows)


_LAW_MARGIN = 0.15


def _part(name: str, size: int, law: Law, inputs: dict[str, str], details: dict[str, int]) -> MemoryPart:
    return MemoryPart(name=name, bytes=size, law=law.equation, inputs=inputs, source=law.source, details=details)


def _with_copies(parts: dict[str, int], total: int) -> dict[str, int]:
    """The parts, and those that other devices hold."""
    missing = total - sum(parts.values())
    return {**parts, "copies on other devices": missing} if missing else parts


def _length(of: PerDevice, tokens: int) -> str:
    """T of the laws: text with the tokens of its pictures; positions if no text is read."""
    media = of.request.media
    if media.read_positions and of.spec.context_limit is None:
        return f"{media.read_positions:,} positions"
    return f"{tokens + media.tokens:,} tokens, {media.tokens:,} of them of pictures" if media.tokens else f"{tokens:,} tokens"


def _media(of: PerDevice) -> dict[str, str]:
    """The pictures or the sound of a request in the inputs of a part; nothing without any."""
    media = of.request.media
    if media.images:
        return {"pictures": f"{media.images:,}, of {media.tokens // media.images:,} tokens each"}
    if not media.sound_s:
        return {"positions": f"{media.read_positions:,}"} if media.read_positions else {}
    read = {"positions": media.read_positions} if media.read_positions else {"windows, one after another": media.windows}
    return {"sound": f"{media.sound_s:,g} s", **{name: f"{count:,}" for name, count in read.items()}}


def _margins(of: PerDevice, tokens: int, batch: int, cache: int, activation: int) -> tuple[int, int]:
    """How far the total may lie below and above, in bytes.

    A traced forward pass is exact, a law is not. A cache that grows by concatenation leaves the allocator with freed blocks of odd
    sizes, up to one cache more, which it gives back before it refuses; that counts in the high value only. For training the allocator's
    share is fitted (`lib.memory.training`).
    """
    n = of.request.devices
    low = sum(part.typical - part.low for part in of.runtime.values()) * n
    high = sum(part.high - part.typical for part in of.runtime.values()) * n
    if of.trains:
        reserved = of.training(tokens, batch).reserved
        return low + (reserved.typical - reserved.low) * n, high + (reserved.high - reserved.typical) * n
    if of.activation.by_law or 0 < activation == of.activation.tower(batch) * n:
        low, high = low + int(activation * _LAW_MARGIN), high + int(activation * _LAW_MARGIN)
    if traits_of(of.request.engine).own_modules and of.request.silicon == "gpu":
        high += cache + of.activation.scores(tokens, batch) * n
    return low, high


def compose(of: PerDevice, tokens: int, batch: int) -> MemoryEstimate:
    """The estimate at one length and batch."""
    n = of.request.devices
    claim, share = of.claim(tokens, batch), of.cache.share(tokens, batch)
    by_component = of.stage_weights(batch)
    weights = (
        sum(by_component.values())
        if by_component is not None
        else of.device_weights * n
        if of.trains
        else of.shard_weights * of.shards
        if of.parallel
        else of.weights.total
    )
    cache = share * of.shards
    activation, runtime_bytes = claim.activation * n, claim.runtime * n
    if of.on_gpu is not None:
        weights = max(weights, of.host_weights + of.device_weights) if n == 1 else weights
        activation, runtime_bytes = activation + of.activation.host_buffer(tokens), runtime_bytes + runtime.CPU_NATIVE.typical
    total = weights + cache + activation + runtime_bytes
    low, high = _margins(of, tokens, batch, cache, activation)
    return MemoryEstimate(
        of=of,
        tokens=tokens,
        batch=batch,
        weights_bytes=weights,
        kv_cache_bytes=cache,
        activation_bytes=activation,
        runtime_bytes=runtime_bytes,
        total_bytes=total,
        low_bytes=total - low,
        high_bytes=total + high,
        per_device_bytes=claim.beside + of.fullest_share(share),
        claim=claim,
        host_bytes=of.host(tokens, batch),
    )


def estimate_memory(spec: ModelSpec, request: MemoryRequest, accelerator: Accelerator | None = None) -> MemoryEstimate:
    """Memory of a request, by component; without an accelerator, on a GPU of which nothing else is known."""
    request = settle_serving(request)
    return compose(count_per_device(spec, request, accelerator), request.context_tokens, request.batch_size)


class GenerationMemory(NamedTuple):
    """A prompt and its answer in turn: the estimates of the prompt, of the last length and of a single token; bytes made before the run.

    `moments` are cache and activations at the fullest points: while the prompt is read, and at the last step.
    """

    prompt: MemoryEstimate
    last: MemoryEstimate
    single: MemoryEstimate
    weights_bytes: int
    moments: list[tuple[int, int]]


def estimate_generation(
    spec: ModelSpec, request: MemoryRequest, prompt_tokens: int, output_tokens: int, accelerator: Accelerator | None = None
) -> GenerationMemory:
    """Memory of `generate` from its prompt to its last step; the last token is written and never read."""
    lengths = (prompt_tokens, prompt_tokens + output_tokens - 1, 1)
    prompt, last, single = (estimate_memory(spec, replace(request, context_tokens=max(1, n)), accelerator) for n in lengths)
    moments = [(prompt.kv_cache_bytes, prompt.activation_bytes), (last.kv_cache_bytes, single.activation_bytes)]
    return GenerationMemory(prompt, last, single, prompt.weights_bytes + spec.buffer_bytes, moments)


def attention_scores(spec: ModelSpec, request: MemoryRequest, accelerator: Accelerator | None = None) -> int:
    """Bytes of attention scores on a device that a fused kernel would not hold: 0 if one is taken (`MemoryEstimate.high_bytes`)."""
    return count_per_device(spec, request, accelerator).activation.scores(request.context_tokens, request.batch_size)


def most_layers_on_card(spec: ModelSpec, request: MemoryRequest, accelerator: Accelerator | None, capacity_bytes: int) -> int:
    """The most `gpu_layers` (llama.cpp's -ngl) with which a device stays within a number of bytes, at most layers + 1; 0 for none."""
    return find_largest(
        lambda gpu_layers: estimate_memory(spec, replace(request, gpu_layers=gpu_layers), accelerator).per_device_bytes,
        capacity_bytes,
        spec.dimensions.layers + 1,
    )


def fewest_experts_on_host(spec: ModelSpec, request: MemoryRequest, accelerator: Accelerator | None, capacity_bytes: int) -> int | None:
    """The fewest layers whose experts the host has to hold (llama.cpp's --n-cpu-moe) so that a device stays within a number of bytes.

    None for a model without experts, and if no number of layers is enough.
    """
    if not count_expert_layers(spec):
        return None

    def needed(layers: int) -> int:
        serving = keep_experts_in_host(request.serving, layers)
        return estimate_memory(spec, replace(request, serving=serving), accelerator).per_device_bytes

    layers = spec.dimensions.layers
    least = bisect_left(range(1, layers + 1), True, key=lambda count: needed(count) <= capacity_bytes) + 1
    return least if least <= layers else None


def stored_bytes(spec: ModelSpec) -> int:
    """Bytes of the model's own files: those of their headers, else those of its own precision."""
    return sum(spec.stored.bytes_by_dtype.values()) or estimate_memory(spec, MemoryRequest(context_tokens=1)).weights.bytes


def download_bytes(memory: MemoryEstimate, stored: int) -> int:
    """Bytes to fetch for a configuration: of a quantized checkpoint its own size, else the model's files, which the engine converts."""
    return memory.weights_bytes if weight_format(memory.precision).law in PUBLISHED_LAWS else stored
