"""The cache by engine: one door to the law of each.

transformers holds what its cache classes hold (`lib.laws.kv_cache`, exact). The others allocate blocks, pages or cells:
`lib.laws.kv_cache_vllm`, `lib.laws.kv_cache_llamacpp`, `lib.laws.kv_cache_tpu`, each with its sources and codes for what it leaves open.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from lib.laws.kv_cache import Term, cache_bytes_by_kind
from lib.laws.kv_cache_llamacpp import llamacpp_cache_bytes
from lib.laws.kv_cache_tpu import tpu_cache_bytes
from lib.laws.kv_cache_vllm import vllm_cache_bytes
from lib.units import Bytes

CODES = {
    "engine_cache_layout": "The engine lays out a kind of layer of this model in its own way; it is counted as transformers does.",
    "engine_state_dtype": "Recurrent states are counted in the dtype that transformers keeps; the engine has a setting of its own.",
    "engine_latent_build": "Latent attention is counted as builds of 2026 keep it; older builds expand it to full heads.",
}
"""Sentences for the codes of what an engine's law leaves open."""


class EngineCache(NamedTuple):
    """Bytes by layer kind, and codes of what is left open (keys of `CODES`)."""

    by_kind: dict[str, Bytes]
    codes: tuple[str, ...]

    @property
    def bytes(self) -> Bytes:
        """The sum."""
        return Bytes(sum(self.by_kind.values()))


def engine_cache(
    engine: str,
    terms: Sequence[Term] | None,
    *,
    tokens: int,
    batch: int,
    element_bytes: float,
    head_dim: int = 0,
    encoder_tokens: int = 0,
    state_bytes: float | None = None,
) -> EngineCache:
    """What `engine` holds or allocates for B sequences of T tokens; arguments as in `lib.laws.kv_cache` and `lib.laws.kv_cache_tpu`.

    Raises:
        ValueError: no law for an engine of this name.
    """
    held = tuple(terms or ())
    size = {"tokens": tokens, "batch": batch, "encoder_tokens": encoder_tokens}
    if not held:
        return EngineCache({}, ())
    if engine == "transformers":
        return EngineCache(cache_bytes_by_kind(held, **size, element_bytes=element_bytes, state_bytes=state_bytes), ())
    if engine == "vllm":
        return EngineCache(*vllm_cache_bytes(held, **size, element_bytes=element_bytes, state_bytes=state_bytes))
    if engine == "llama.cpp":
        return EngineCache(*llamacpp_cache_bytes(held, **size, element_bytes=element_bytes))
    if engine == "vllm-tpu":
        return EngineCache(*tpu_cache_bytes(held, **size, element_bytes=element_bytes, head_dim=head_dim, state_bytes=state_bytes))
    raise ValueError(f"no law of the cache for engine {engine}")
