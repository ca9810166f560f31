"""The memory of an entry: as counted for its placement, and with every request at full length."""

from __future__ import annotations

from dataclasses import dataclass

from lib.advisor.fit import Headroom
from lib.memory import MemoryEstimate
from lib.result import Hidden, Result


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryMemory(Result):
    """Memory of the configuration, over all devices; a server holds one request of the longest, or all of their mean length."""

    context_tokens: int
    """Tokens of each request that is held."""
    batch_size: int
    """Requests that are held."""
    weights_bytes: int
    """Weights."""
    kv_cache_bytes: int
    """KV cache."""
    activation_bytes: int
    """Activations."""
    runtime_bytes: int
    """CUDA context, kernels and fragmentation."""
    total_bytes: int
    """All of them, over all devices."""
    per_device_bytes: int
    """Bytes on the fullest device."""
    capacity_bytes: int
    """Bytes of a device that the engine may fill."""
    free_bytes: int
    """Bytes of it that stay free on the fullest device."""
    estimate: Hidden[MemoryEstimate]
    """The estimate with its laws."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FullLength(Result):
    """Memory of the same configuration when every request of a machine has the longest length that was asked for."""

    context_tokens: int
    """Tokens of each request."""
    batch_size: int
    """Requests at the same time."""
    kv_cache_bytes: int
    """KV cache, over all devices."""
    per_device_bytes: int
    """Bytes on the fullest device."""
    fits: bool
    """Whether a device holds them; otherwise requests wait until others have ended."""
    requests_held: int
    """Requests of this length that fit at the same time."""


def show_memory(headroom: Headroom) -> EntryMemory:
    """The bytes of an estimate with its headroom."""
    memory = headroom.memory
    return EntryMemory(
        context_tokens=memory.tokens,
        batch_size=memory.batch,
        weights_bytes=memory.weights_bytes,
        kv_cache_bytes=memory.kv_cache_bytes,
        activation_bytes=memory.activation_bytes,
        runtime_bytes=memory.runtime_bytes,
        total_bytes=memory.total_bytes,
        per_device_bytes=memory.per_device_bytes,
        capacity_bytes=headroom.capacity_bytes,
        free_bytes=headroom.free_bytes,
        estimate=memory,
    )
