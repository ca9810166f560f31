"""What a model takes of memory: ModelSpec × request × device → bytes by part, and whether they fit.

    estimate_memory(spec, MemoryRequest(context_tokens=8192)).total_bytes
    fit_memory(spec, MemoryRequest(), usable_memory(offer), offer.silicon).max_context_tokens

This package is the only place that unpacks a spec for the laws of memory. `resolve` decides what "auto" left open; `components` gives
weights, cache and activations as functions of tokens and batch, `pipeline` the stages of one that makes pictures, `training` a step;
`per_device` adds them up on the fullest device and searches for the longest context and the largest batch; `result` is the estimate with
its laws, ranges, caveats and sources. Functions that take a spec and a request raise BadArgument for a precision that
no format has and for a model that the engine does not run.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from lib.memory.per_device import PerDevice, max_batch, max_context, per_device
from lib.memory.resolve import ENDLESS, UNLIMITED, find_largest, resolve_request, tensor_parallel_degree
from lib.memory.result import MemoryEstimate, MemoryFit, MemoryPart, compose

if TYPE_CHECKING:
    from lib.catalog.offers import Offer
    from lib.catalog.silicon import Accelerator, Cards
    from lib.model.spec import ModelSpec
    from lib.workload import MemoryRequest

__all__ = [
    "CacheRoom", "GenerationMemory", "MemoryEstimate", "MemoryFit", "MemoryPart", "PerDevice", "attention_scores", "cache_room",
    "compose", "count_sequences", "estimate_generation", "estimate_memory", "find_largest", "fit_memory", "hold_model",
    "host_memory", "most_layers_on_card", "tensor_parallel_degree", "usable_memory",
]  # fmt: skip

SYSTEM_SHARE = 0.05
"""Of a CPU host's memory, for other processes of the container and for pages of mapped files. A judgement, not a measurement."""


def hold_model(spec: ModelSpec, request: MemoryRequest, accelerator: Accelerator | None = None) -> PerDevice:
    """What each device holds of the model, at any length and batch: `compose` takes those."""
    return per_device(spec, resolve_request(spec, request, accelerator))


def estimate_memory(spec: ModelSpec, request: MemoryRequest, accelerator: Accelerator | None = None) -> MemoryEstimate:
    """What a request takes, by component; without an accelerator, on a GPU of which nothing else is known."""
    return compose(hold_model(spec, request, accelerator), request.context_tokens, request.batch_size)


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
    """What `generate` takes from its prompt to its last step; the last token is written and never read."""
    lengths = (prompt_tokens, prompt_tokens + output_tokens - 1, 1)
    prompt, last, single = (estimate_memory(spec, replace(request, context_tokens=max(1, n)), accelerator) for n in lengths)
    moments = [(prompt.kv_cache_bytes, prompt.activation_bytes), (last.kv_cache_bytes, single.activation_bytes)]
    return GenerationMemory(prompt, last, single, prompt.weights_bytes + spec.buffer_bytes, moments)


def attention_scores(spec: ModelSpec, request: MemoryRequest, accelerator: Accelerator | None = None) -> int:
    """Bytes of attention scores on a device that a fused kernel would not hold: 0 where one is taken (`MemoryEstimate.high_bytes`)."""
    return hold_model(spec, request, accelerator).activation.scores(request.context_tokens, request.batch_size)


def fit_memory(
    spec: ModelSpec, request: MemoryRequest, memory_bytes: int, accelerator: Accelerator | None = None, *, host_bytes: int | None = None
) -> MemoryFit:
    """Whether a request fits devices with this usable memory each, and the longest context and largest batch that would.

    `host_bytes` is the usable memory of the host, which counts where layers are left to it; None where it is not known.

    An engine that claims a share of the device at start has no more than that (`lib.laws.runtime`).
    """
    of = hold_model(spec, request, accelerator)
    return _fit(of, memory_bytes, request.context_tokens, request.batch_size, UNLIMITED if host_bytes is None else host_bytes)


def count_sequences(
    spec: ModelSpec, request: MemoryRequest, memory_bytes: int, accelerator: Accelerator | None = None, *, at_most: int = ENDLESS
) -> int | None:
    """Most sequences of the request's length that the engine holds at once on such devices; None where nothing bounds them.

    With `at_most` nothing is searched for beyond it: few requests that all fit are one look.
    """
    return _count_sequences(hold_model(spec, request, accelerator), memory_bytes, request.context_tokens, at_most)


def most_layers_on_card(spec: ModelSpec, request: MemoryRequest, accelerator: Accelerator | None, capacity_bytes: int) -> int:
    """The most `gpu_layers` (llama.cpp's -ngl) with which a device holds no more than so many bytes, at most layers + 1; 0 for none."""
    return find_largest(
        lambda gpu_layers: estimate_memory(spec, replace(request, gpu_layers=gpu_layers), accelerator).per_device_bytes,
        capacity_bytes,
        spec.dimensions.layers + 1,
    )


@lru_cache(maxsize=4096)
def _count_sequences(of: PerDevice, memory_bytes: int, tokens: int, at_most: int = ENDLESS, host_bytes: int = UNLIMITED) -> int | None:
    return max_batch(of, of.claim(tokens, 1).capacity_bytes(memory_bytes), tokens, at_most, host_bytes)


@lru_cache(maxsize=4096)
def _fit(of: PerDevice, memory_bytes: int, tokens: int, batch: int, host_bytes: int) -> MemoryFit:
    """The same silicon is offered on several platforms: asked once. `free_bytes` is that of the scarcer of device and host."""
    capacity_bytes = of.claim(tokens, batch).capacity_bytes(memory_bytes)
    free = min(capacity_bytes - of.peak(tokens, batch), host_bytes - of.host(tokens, batch))
    return MemoryFit(
        fits=free >= 0,
        capacity_bytes=capacity_bytes,
        free_bytes=free,
        max_context_tokens=max_context(of, capacity_bytes, batch, host_bytes),
        max_batch_size=_count_sequences(of, memory_bytes, tokens, host_bytes=host_bytes),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheRoom:
    """Bytes that are left for the cache on the fullest device, negative where nothing is, and what a sequence takes of them."""

    of: PerDevice
    capacity_bytes: int

    def sequence_bytes(self, tokens: int) -> int:
        """Bytes of the cache of one sequence, at the worst length up to so many tokens."""
        return self.of.worst_cache(tokens, 1)


def cache_room(spec: ModelSpec, request: MemoryRequest, memory_bytes: int, accelerator: Accelerator | None = None) -> CacheRoom:
    """What devices with this usable memory each leave for the cache beside weights, runtime, and the activations of the request's size.

    An engine that claims a share of the device at start has no more than that.
    """
    of = hold_model(spec, request, accelerator)
    claimed = of.claim(request.context_tokens, request.batch_size).capacity_bytes(memory_bytes)
    return CacheRoom(of=of, capacity_bytes=claimed - of.beside_cache(request.context_tokens, request.batch_size))


def host_memory(offer: Offer | Cards) -> int | None:
    """Usable memory of the host that cards stand in, less the system's share; None where it is not known."""
    memory = getattr(offer, "ram_bytes", None)
    return None if memory is None else int(memory * (1 - SYSTEM_SHARE))


def usable_memory(offer: Offer | Cards) -> int | None:
    """Usable memory of one device of an offer; of a CPU, its memory less the system's share. None where it is not known."""
    if offer.accelerator is not None:
        return offer.vram_bytes_per_accelerator
    return None if offer.ram_bytes is None else int(offer.ram_bytes * (1 - SYSTEM_SHARE))
