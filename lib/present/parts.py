"""The four parts of a memory estimate: their names, their order and their colours, the same in every bar, legend and chart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

PARTS: tuple[tuple[str, str, str], ...] = (
    ("weights", "Weights", "weights_bytes"),
    ("cache", "Cache", "kv_cache_bytes"),
    ("activations", "Activations", "activation_bytes"),
    ("runtime", "Runtime", "runtime_bytes"),
)
# Distinct in hue and in lightness, so that the order survives colour blindness and grey print; both themes carry them.
COLOURS: dict[str, str] = {"weights": "#3d74b8", "cache": "#e39a2d", "activations": "#2f9e7a", "runtime": "#8b93a1"}


def part_bytes(memory: Mapping[str, Any]) -> dict[str, int]:
    """Bytes of each part of a memory answer, in the order of `PARTS`."""
    return {key: int(memory[field]) for key, _, field in PARTS}
