"""The least share of its cards with which a server starts and holds its requests: the inverse of the claims of `lib.laws.runtime`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from lib.advisor.setup import ServingConfig
from lib.engines import traits_of
from lib.laws.runtime import CLAIMING, LARGEST_SHARE, VLLM_GRAPHS, VLLM_SHARES
from lib.memory.resolve import LONGEST_WHOLE_PROFILE, first_engine_step
from lib.provenance import Caveat, Value
from lib.request.serving import drop_settings

_HUNDRED = 100


def with_share(config: ServingConfig, share: float) -> ServingConfig:
    """The same server with this gpu_memory_utilization."""
    return replace(config, serving=replace(config.serving, gpu_memory_utilization=share))


def find_least_share(config: ServingConfig) -> float | None:
    """The least gpu_memory_utilization in hundredths; None if the engine lacks or ignores it, or none up to `LARGEST_SHARE` does.

    A larger share never holds less, so it is found by halving.
    """
    low, high = 0, int(LARGEST_SHARE * _HUNDRED)
    if not _has_share(config) or not with_share(config, LARGEST_SHARE).fit().fits:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        if with_share(config, middle / _HUNDRED).fit().fits:
            high = middle
        else:
            low = middle
    return high / _HUNDRED


def choose_start(config: ServingConfig, least: float | None) -> ServingConfig | None:
    """The server with its stated share where that holds the requests, else with the least; None if none up to `LARGEST_SHARE` does."""
    stated = config.serving.gpu_memory_utilization
    if least is not None:
        config = with_share(config, least if stated is None else max(least, min(stated, LARGEST_SHARE)))
    elif _has_share(config):
        return None
    return config if config.fit().fits else None


def write_longest_start(config: ServingConfig) -> str:
    """The flag of the longest max_model_len with which the server starts with its share and one request; "" if none does."""
    command = traits_of(config.engine).command
    if command is None or "max_model_len" not in command.settings:
        return ""
    longest = _with_one_request(config).fit().max_context_tokens
    return command.settings["max_model_len"].format(longest) if longest else ""


def _with_one_request(config: ServingConfig) -> ServingConfig:
    """The server with one request of any length and a share that it may take."""
    alone = replace(config, requests=1, serving=drop_settings(config.serving, "max_model_len"))
    stated = config.serving.gpu_memory_utilization
    return with_share(alone, LARGEST_SHARE) if stated is not None and stated > LARGEST_SHARE else alone


def warn_of_releases(config: ServingConfig) -> Iterator[Caveat]:
    """Differences of older releases that decide whether the server starts: graphs outside the share, and the length of the profile run."""
    traits, serving = traits_of(config.engine), config.serving
    if not traits.share_by_release or config.silicon.kind not in CLAIMING or serving.kv_cache_memory_bytes is not None:
        return
    share = serving.gpu_memory_utilization
    if share is not None and share > traits.memory_share and serving.cuda_graphs is not False:
        inside = next(rule.since for rule in VLLM_SHARES if rule.graphs_inside)
        outside = config.memory_bytes - int(config.memory_bytes * share)
        values: dict[str, Value] = {"share": share, "outside_bytes": outside, "release": ".".join(map(str, inside))}
        yield Caveat("graphs_outside_share", values | {"low_bytes": VLLM_GRAPHS.low, "high_bytes": VLLM_GRAPHS.high})
    length = serving.max_model_len or config.spec.context_limit
    alone = _with_one_request(config)
    now = alone.fit().max_context_tokens
    stated = serving.max_num_batched_tokens is not None
    if (
        length is None or length > LONGEST_WHOLE_PROFILE or not now or stated
    ):  # longer models are newer than those releases, or read in chunks
        return
    step = first_engine_step(config.spec, length)
    older = replace(alone, serving=replace(alone.serving, max_num_batched_tokens=step)).fit().max_context_tokens
    if older and older < now:
        yield Caveat("whole_length_profiled", {"length_tokens": length, "older_tokens": older, "tokens": now})


def _has_share(config: ServingConfig) -> bool:
    """Whether the server claims a share of its devices, which a setting changes."""
    has_setting = "gpu_memory_utilization" in traits_of(config.engine).settings
    return has_setting and config.serving.kv_cache_memory_bytes is None and config.silicon.kind in CLAIMING
