"""The least share of its cards with which a server starts and holds its requests: the inverse of the claims of `lib.laws.runtime`."""

from __future__ import annotations

from dataclasses import replace

from lib.advisor.setup import ServingConfig
from lib.engines import traits_of
from lib.laws.runtime import CLAIMING

_HUNDRED = 100


def with_share(config: ServingConfig, share: float) -> ServingConfig:
    """The same server with this gpu_memory_utilization."""
    return replace(config, serving=replace(config.serving, gpu_memory_utilization=share))


def find_least_share(config: ServingConfig) -> float | None:
    """The least gpu_memory_utilization in hundredths; None where the engine has no such setting or ignores it, or no share holds them.

    A larger share never holds less, so it is found by halving.
    """
    has_share = "gpu_memory_utilization" in traits_of(config.engine).settings and config.serving.kv_cache_memory_bytes is None
    if not has_share or config.silicon.kind not in CLAIMING:
        return None
    low, high = 0, _HUNDRED
    if not with_share(config, 1.0).fit().fits:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        if with_share(config, middle / _HUNDRED).fit().fits:
            high = middle
        else:
            low = middle
    return high / _HUNDRED


def choose_start(config: ServingConfig, least: float | None) -> ServingConfig | None:
    """The server with its stated share where that holds the requests, else with the least one; None where none does."""
    stated = config.serving.gpu_memory_utilization
    if least is not None and (stated is None or stated < least):
        config = with_share(config, least)
    return config if config.fit().fits else None
