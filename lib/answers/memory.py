"""The answers of `/estimate_memory` and `/solve`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lib.advisor.memory_savings import MemorySaving
from lib.memory import MemoryFit
from lib.memory.result import MemoryPart
from lib.provenance import Answer
from lib.result import Result, Usd


@dataclass(frozen=True, slots=True, kw_only=True)
class FitEntry(MemoryFit):
    """One piece of hardware: whether the configuration fits it, and the largest context and batch that would."""

    hardware: str
    """Id of the hardware."""
    platform: str
    """Platform that rents it out; empty for silicon that is not rented, "own" for the visitor's own cards."""
    name: str
    """Name for people."""
    accelerator: str | None
    """Id of the card or chip; null on a CPU."""
    accelerator_count: int
    """Cards or chips."""
    devices: int
    """Cards or chips that the model is spread over."""
    usd_per_hour: Usd | None
    """Price per hour; null if there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageEntry(Result):
    """A stage of a pipeline on one device."""

    name: str
    """encode, denoise or decode."""
    weights_bytes: int
    """Weights that are on the device."""
    activation_bytes: int
    """Temporary tensors."""
    total_bytes: int
    """Both."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryAnswer(Answer):
    """The memory of a configuration, and the hardware that holds it."""

    model: str
    """Id of the model; empty without one."""
    precision: str
    """Number format of the weights."""
    kv_precision: str
    """Number format of the KV cache."""
    engine: str
    """Inference engine."""
    weights_bytes: int
    """Weights, over all devices."""
    kv_cache_bytes: int
    """KV cache, over all devices."""
    activation_bytes: int
    """Activations, over all devices; in training also gradients and optimizer states."""
    runtime_bytes: int
    """Runtime of each process apart from the model: CUDA context, libraries, fragmentation."""
    total_bytes: int
    """The sum of the four parts."""
    low_bytes: int
    """Lower bound of the total."""
    high_bytes: int
    """Upper bound of the total."""
    per_device_bytes: int
    """Peak of the fullest device."""
    host_bytes: int
    """Bytes of the total that are in the memory of the host."""
    rule_of_thumb_bytes: int
    """The community's rule of thumb: parameters × bytes × 1.2."""
    parts: tuple[MemoryPart, ...]
    """The four parts with their laws and inputs."""
    stages: tuple[StageEntry, ...]
    """Stages of a pipeline; empty for other models."""
    fits: tuple[FitEntry, ...]
    """Hardware and whether the configuration fits it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MaximumEntry(Result):
    """The most that is possible."""

    value: int | None
    """The maximum; 0 if not even one is possible, null if nothing bounds it."""
    limited_by: str
    """The limit that one more would exceed: memory, model, engine, ttft, speed, zerogpu, support (the model is known to fail here) or
    nothing; or the stated setting of the server that does it: max_model_len, max_num_seqs, ctx_size or parallel."""
    message: str
    """The same as a sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrecisionTryEntry(Result):
    """One precision of the weights."""

    precision: str
    """Number format of the weights."""
    fits: bool
    """Whether it fits."""
    meets_limits: bool
    """Whether it fits and keeps the limits."""
    weights_bytes: int
    """Bytes of the weights."""
    per_device_bytes: int
    """Bytes on the fullest device."""
    ttft_s: float | None
    """Time to first token in seconds; null if it does not fit or is not predicted."""
    tokens_per_s: float | None
    """Tokens per second of one request; null if it does not fit or is not predicted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheapestTierEntry(Result):
    """The offer with the lowest price per hour that does the work within the limits."""

    hardware: str
    """Id of the hardware."""
    platform: str
    """Platform that rents it out; empty for silicon that is not rented, "own" for the visitor's own cards."""
    name: str
    """Name for people."""
    precision: str
    """Number format of the weights."""
    engine: str
    """Inference engine."""
    replicas: int
    """Machines that share the requests."""
    usd_per_hour: Usd
    """Price per hour of all machines."""
    ttft_s: float | None
    """Time to first token in seconds; null if not predicted."""
    tokens_per_s: float | None
    """Tokens per second of one request; null if not predicted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySavingEntry(MemorySaving):
    """A way to take less memory."""

    message: str
    """The change, as a sentence."""
    effect: str
    """Speed after the change and how much it changes, in words, or that it does not fit."""
    needs: Mapping[str, str | int]
    """Settings that change, by the names of the arguments."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerStartEntry(Result):
    """How the engine's server is started so that it holds the requests."""

    least_gpu_memory_utilization: float | None
    """Least share of each card in hundredths, at most 0.97, that holds the requests, as the engine's own setting; null if it has none or
    none suffices."""
    kv_cache_bytes: int
    """KV cache of the requests on the fullest device."""
    kv_cache_tokens: int | None
    """Tokens of the KV cache that the server allocates at start with these flags; null if it allocates none ahead."""
    flags: str
    """Flags in one line that start the server with room for the requests; empty if they do not fit or the engine has no server."""
    cache_flag: str
    """Flag that fixes the KV cache to the size of the requests, which vLLM takes instead of gpu_memory_utilization; empty if they do not
    fit or the engine has none."""
    cache_flag_tokens: int | None
    """Tokens of the KV cache that the server allocates with `cache_flag`; null without it."""
    shorter_flag: str
    """Flag of the longest maximum length with which the server starts, if it does not hold the requests; else empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SolveAnswer(Answer):
    """The maxima of a model on hardware, within limits on the first token and on speed."""

    model: str
    """Id of the model; empty without one."""
    hardware: str
    """Id of the hardware."""
    platform: str
    """Platform that rents it out; empty for silicon that is not rented, "own" for the visitor's own cards."""
    name: str
    """Name for people."""
    precision: str
    """Number format of the weights."""
    engine: str
    """Inference engine."""
    devices: int
    """Cards or chips of each copy of the model."""
    copies: int
    """Copies of the model that the engine runs on this hardware."""
    context_tokens: int
    """Tokens of each request."""
    concurrency: int
    """Requests at a time."""
    fits: bool
    """Whether the stated requests fit; false for a model that is known to fail here with any amount of memory."""
    meets_limits: bool
    """Whether the stated requests fit and keep the limits."""
    per_device_bytes: int
    """Bytes on the fullest device."""
    capacity_bytes: int
    """Bytes that the engine may fill on one device."""
    free_bytes: int
    """Bytes left on the fullest device; negative if the model does not fit."""
    ttft_s: float | None
    """Time to first token in seconds; null if the requests do not fit or it is not predicted."""
    tokens_per_s: float | None
    """Tokens per second of one request; null if the requests do not fit or it is not predicted."""
    longest_context: MaximumEntry
    """Longest context."""
    most_requests: MaximumEntry
    """Most requests at a time."""
    largest_batch: MaximumEntry
    """Largest batch that fits, without limits on speed."""
    best_precision: str | None
    """The first of `precisions` that fits and keeps the limits; null if none does."""
    precisions: tuple[PrecisionTryEntry, ...]
    """Precisions of the weights, from most bytes to fewest."""
    cheapest: CheapestTierEntry | None
    """Cheapest tier within the limits; null if none."""
    memory_savings: tuple[MemorySavingEntry, ...]
    """Ways to take less memory, on the same hardware first. If the requests fit, the largest saving comes first; if not, the ways that fit,
    by their tokens per second."""
    server: ServerStartEntry
    """The least share of the cards, and the flags of a server that holds the requests."""
