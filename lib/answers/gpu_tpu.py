"""The answer of `/compare_gpu_tpu`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lib.advisor.gpu_tpu import Side
from lib.advisor.tpu_options import RegionPrice
from lib.catalog.gpu_or_tpu import Stage
from lib.provenance import Answer
from lib.result import Result, Usd


@dataclass(frozen=True, slots=True, kw_only=True)
class WeighedReasonEntry(Result):
    """A reason for one side."""

    code: str
    """A stable code."""
    message: str
    """The reason as a sentence."""
    favours: str
    """The side that it favours: gpu or tpu."""
    weight: int
    """Its weight, from 1 to 3."""
    hard: bool
    """Whether it is a constraint."""
    stages: tuple[str, ...]
    """Stages that it concerns: training, inference."""
    source: str
    """The source."""
    checked: str
    """The ISO date on which it was read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIfEntry(Result):
    """The prediction multiplied by a vendor's claim; not a prediction."""

    label: str
    """The assumption."""
    throughput_tokens_per_s_low: float
    """Lower end of the throughput."""
    throughput_tokens_per_s_high: float
    """Upper end of the throughput."""
    usd_per_million_output_tokens_low: Usd
    """Lower end of the price of a million output tokens."""
    usd_per_million_output_tokens_high: Usd
    """Upper end of the price of a million output tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionEntry(Result):
    """Hardware that serves the model; memory, speed and price per hour are those of one machine."""

    kind: str
    """gpu or tpu."""
    role: str
    """smallest (fewest chips that hold the model), cheapest (per token, within the limit), both, or gpu."""
    hardware: str
    """Id of the hardware."""
    platform: str
    """Platform that rents it out."""
    name: str
    """Name for people."""
    accelerator: str | None
    """Id of the card or chip."""
    accelerator_count: int
    """Cards or chips."""
    generation: str | None
    """Generation of TPU; null for GPUs."""
    topology: str | None
    """Chips along each axis of the torus, such as 2x4; null for GPUs."""
    hosts: int | None
    """Machines of the slice; null for GPUs."""
    support: str | None
    """How far vLLM supports the model on this generation; null for GPUs."""
    precision: str
    """Number format of the weights."""
    engine: str
    """Inference engine."""
    devices: int
    """Cards or chips that each copy of the model is spread over."""
    replicas: int
    """Machines that the requests take."""
    weights_bytes: int
    """Weights, over all devices."""
    kv_cache_bytes: int
    """KV cache, over all devices."""
    per_device_bytes: int
    """Bytes on the fullest device."""
    capacity_bytes: int | None
    """Bytes that the engine may fill on one device; null if unknown."""
    ttft_s: float | None
    """Time to first token in seconds; null if not predicted."""
    prefill_tokens_per_s: float | None
    """Prompt tokens per second of one request; null if not predicted."""
    decode_tokens_per_s: float | None
    """Output tokens per second of one request; null if not predicted."""
    throughput_tokens_per_s: float | None
    """Output tokens per second of all requests; null if not predicted."""
    within_ttft: bool
    """Whether it keeps the limit on the time to first token."""
    region: str | None
    """Region of the price; null for GPUs."""
    commitment: str
    """on_demand, spot, 1_year or 3_years."""
    usd_per_hour: Usd | None
    """Price per hour on these terms; null if none was found."""
    usd_per_million_output_tokens: Usd | None
    """Price of a million output tokens; null if not predicted."""
    prices: tuple[RegionPrice, ...]
    """Prices of the slice by region."""
    what_if: WhatIfEntry | None
    """The figures if TorchTPU's claim held; null if not asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceEntry(Result):
    """A slice of Cloud TPU for the model."""

    hardware: str
    """Id of the hardware."""
    topology: str
    """Chips along each axis of the torus, such as 2x4; null for GPUs."""
    chips: int
    """Number of chips."""
    hosts: int
    """Machines of the slice; null for GPUs."""
    usd_per_hour: Usd
    """List price per hour."""
    fits: bool
    """Whether one slice serves the work."""
    reason: str
    """Why it does not, as a sentence; empty if it does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationEntry(Result):
    """A generation of TPU for the model."""

    id: str
    """Id of the generation."""
    name: str
    """Name for people."""
    accelerator: str
    """Id of the card or chip."""
    memory_bytes_per_chip: int | None
    """Usable memory of a chip."""
    bandwidth_bytes_per_s: float
    """Memory bandwidth of a chip."""
    vllm: str
    """How vLLM's TPU backend rates the generation."""
    support: str
    """How far vLLM supports the model on it: passing, untested …"""
    support_message: str
    """The same as a sentence."""
    chips_needed: int | None
    """Chips that hold the work; null if no slice does."""
    slices: tuple[SliceEntry, ...]
    """Every slice, and whether the model runs on it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GuidanceEntry(Result):
    """The sizes that were advised when Spaces had TPUs, next to those by the laws of memory."""

    generation: str
    """Generation of TPU."""
    advised_chips: int
    """Advised chips."""
    chips_by_laws: int | None
    """Chips by the laws of memory; null if no slice holds the model."""
    message: str
    """Both as a sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimumEntry(Result):
    """Optimum TPU."""

    version: str
    """Its last version."""
    state: str
    """Its state."""
    models: tuple[str, ...]
    """Its models."""
    lists_this_family: bool
    """Whether the model is of their families."""
    source: str
    """The source."""
    checked: str
    """The ISO date on which it was read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetiredEntry(Result):
    """A TPU tier that Spaces or Endpoints once had."""

    hardware: str
    """Id of the hardware."""
    platform: str
    """Platform that rents it out."""
    name: str
    """Name for people."""
    accelerator_count: int
    """Cards or chips."""
    last_usd_per_hour: Usd | None
    """Its last price per hour."""
    since: str | None
    """The ISO date since which it is gone."""
    successor: str | None
    """Hardware that replaces it."""
    notes: str
    """Further notes."""
    source: str
    """The source."""
    checked: str
    """The ISO date on which it was read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PropertyEntry(Result):
    """A property of GPUs and TPUs, side by side."""

    property: str
    """Name of the property."""
    gpu: str
    """The property of GPUs."""
    tpu: str
    """The property of TPUs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecipeEntry(Result):
    """Code to copy."""

    name: str
    """Short name."""
    title: str
    """Title."""
    language: str
    """bash, python, yaml, dockerfile or text."""
    code: str
    """The code."""
    notes: Sequence[str]
    """Notes to read before running it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuTpuAnswer(Answer):
    """GPU or TPU: the verdict with its reasons, and for a model the slices, prices and recipes."""

    model: str
    """Id of the model; empty without one."""
    verdict: str
    """gpu, tpu or either."""
    score: int
    """Sum of the weights; positive if the TPU leads."""
    by_stage: Mapping[Stage, Side]
    """Side of each stage that was asked about."""
    reasons: tuple[WeighedReasonEntry, ...]
    """Weighted reasons, constraints first."""
    options: tuple[OptionEntry, ...]
    """Hardware that serves the model: slices of TPU, then GPU offers."""
    generations: tuple[GenerationEntry, ...]
    """Generations of TPU for the model."""
    guidance: GuidanceEntry | None
    """Advised sizes; null without a model."""
    optimum_tpu: OptimumEntry
    """Optimum TPU and this model."""
    retired: tuple[RetiredEntry, ...]
    """TPU tiers that are gone."""
    side_by_side: tuple[PropertyEntry, ...]
    """Properties of both."""
    recipes: tuple[RecipeEntry, ...]
    """Code from the project to the server."""
