"""Bytes of the files that a start fetches from the Hub."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lib.memory.result import MemoryEstimate, estimate_memory
from lib.precision import PUBLISHED_LAWS, weight_format
from lib.workload import MemoryRequest

if TYPE_CHECKING:
    from lib.model.spec import ModelSpec


def stored_bytes(spec: ModelSpec) -> int:
    """Bytes of the model's own files: as their headers state, else what its own precision takes."""
    return sum(spec.stored.bytes_by_dtype.values()) or estimate_memory(spec, MemoryRequest(context_tokens=1)).weights.bytes


def download_bytes(memory: MemoryEstimate, stored: int) -> int:
    """Bytes to fetch for a configuration: of a quantized checkpoint its own size, else the model's files, which the engine converts."""
    return memory.weights_bytes if weight_format(memory.precision).law in PUBLISHED_LAWS else stored
