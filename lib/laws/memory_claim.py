"""How much of a device an engine leaves to the cache: the share of its memory that it claims by default.

    K = M - W - A - R                         transformers, llama.cpp: all that is left
    K = u · M - W - A - R                     vLLM, vLLM on TPU: u = gpu_memory_utilization

    K  room for the cache on one device       M  usable memory of the device           W  weights on it
    A  activations that are set aside         R  runtime: context, libraries, captured graphs

vLLM refuses to start with a maximum length whose cache is larger than K, and admits no more sequences than K holds; so K decides whether a
request fits, the longest context, the largest batch and how many requests run at once.

    u = 0.9     the default up to the releases of 2025 and what the code to copy sets. Newer releases default to 0.92 and count captured
                graphs within the share (before v0.21 they came on top); they are within it here.
                vllm `vllm/config/cache.py` (`gpu_memory_utilization`, 002f10e); start-up log in github.com/gpustack/runner/pull/251;
                docs.vllm.ai/en/v0.8.5/serving/engine_args.html; tpu-inference sizes its pages by the same option

Limits: shares can be set, and another process on the device takes from M. On a CPU nothing is claimed ahead.
Source: the engines' defaults, as listed; read 2026-11-22.
"""

from __future__ import annotations

from typing import NamedTuple

from lib.engines import traits_of
from lib.laws import Law

LAW = Law(equation="weights + activations + runtime + cache ≤ u · M", source="engines' defaults, listed in lib/laws/memory_claim.py")
CLAIMING = frozenset({"gpu", "tpu"})
"""Kinds of silicon of which engines claim a share."""


class Claim(NamedTuple):
    """What lies on one device beside the cache, in bytes, and whose it is."""

    engine: str
    silicon: str
    weights: int
    activation: int
    runtime: int

    @property
    def beside(self) -> int:
        """W + A + R."""
        return self.weights + self.activation + self.runtime

    def cache_room_bytes(self, memory: int) -> int:
        """K, the room for the cache on one device of M = `memory` bytes; negative where even the rest is too large.

        Llama-3.1-8B in bf16 on 22.03 GiB, with 2 GiB beside the weights: 0.9 · 22.03 - 14.96 - 2 = 2.87 GiB:

        >>> claim = Claim(engine="vllm", silicon="gpu", weights=16_060_522_496, activation=2**30, runtime=2**30)
        >>> round(claim.cache_room_bytes(int(22.03 * 2**30)) / 2**30, 2)
        2.87
        """
        share = traits_of(self.engine).memory_share if self.silicon in CLAIMING else 1.0
        return int(share * memory) - self.beside

    def capacity_bytes(self, memory: int) -> int:
        """Bytes of the device that the cache and what lies beside it may take together."""
        return self.beside + self.cache_room_bytes(memory)
