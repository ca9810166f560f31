"""The shape of `/compare_gpu_tpu`."""

from __future__ import annotations

from typing_extensions import TypedDict

from lib.answers.common import Answer, ReasonEntry


class WeighedReasonEntry(ReasonEntry):
    """A reason: whom it favours, how strongly (1 to 3), whether it is a constraint, the stages it is about, and where it was read."""

    favours: str
    weight: int
    hard: bool
    stages: list[str]
    source: str
    checked: str


class RegionPriceEntry(TypedDict):
    """Prices of a slice in one region; null where none was found."""

    region: str
    usd_per_hour: float
    spot_usd_per_hour: float | None
    one_year_usd_per_hour: float | None
    three_years_usd_per_hour: float | None


class WhatIfEntry(TypedDict):
    """The prediction times a vendor's claim; not a prediction."""

    label: str
    throughput_tokens_per_s_low: float
    throughput_tokens_per_s_high: float
    usd_per_million_output_tokens_low: float
    usd_per_million_output_tokens_high: float


class OptionEntry(TypedDict):
    """Hardware that serves the model; of TPU with its slice, and the price in a region by commitment (null where none was found).

    `role`: smallest (fewest chips that hold it), cheapest (per token, within the limit), both, or gpu. Memory, speed and price per hour are
    those of one of `replicas` machines.
    """

    kind: str
    role: str
    hardware: str
    platform: str
    name: str
    accelerator: str | None
    accelerator_count: int
    generation: str | None
    topology: str | None
    hosts: int | None
    support: str | None
    precision: str
    engine: str
    devices: int
    replicas: int
    weights_bytes: int
    kv_cache_bytes: int
    per_device_bytes: int
    capacity_bytes: int | None
    ttft_s: float | None
    prefill_tokens_per_s: float | None
    decode_tokens_per_s: float | None
    throughput_tokens_per_s: float | None
    within_ttft: bool
    region: str | None
    commitment: str
    usd_per_hour: float | None
    usd_per_million_output_tokens: float | None
    prices: list[RegionPriceEntry]
    what_if: WhatIfEntry | None


class SliceEntry(TypedDict):
    """A slice that exists, and whether the model runs on it."""

    hardware: str
    topology: str
    chips: int
    hosts: int
    usd_per_hour: float
    fits: bool
    reason: str


class GenerationEntry(TypedDict):
    """A generation of TPU for the model; `chips_needed` is null where no slice holds it."""

    id: str
    name: str
    accelerator: str
    memory_bytes_per_chip: int | None
    bandwidth_bytes_per_s: float
    vllm: str
    support: str
    support_message: str
    chips_needed: int | None
    slices: list[SliceEntry]


class GuidanceEntry(TypedDict):
    """The sizes that were advised when Spaces had TPUs, beside what memory takes."""

    generation: str
    advised_chips: int
    chips_by_laws: int | None
    message: str


class OptimumEntry(TypedDict):
    """Optimum TPU: its state, its models, and whether this one is of their families."""

    version: str
    state: str
    models: list[str]
    lists_this_family: bool
    source: str
    checked: str


class RetiredEntry(TypedDict):
    """A TPU tier that Spaces or Endpoints once had."""

    hardware: str
    platform: str
    name: str
    accelerator_count: int
    last_usd_per_hour: float | None
    since: str | None
    successor: str | None
    notes: str
    source: str
    checked: str


class PropertyEntry(TypedDict):
    """A property of both, side by side."""

    property: str
    gpu: str
    tpu: str


class RecipeEntry(TypedDict):
    """Code to copy. `language`: bash, python, yaml, dockerfile or text."""

    name: str
    title: str
    language: str
    code: str
    notes: list[str]


class GpuTpuAnswer(Answer):
    """GPU or TPU: the verdict with its reasons, and for a model the slices, prices and recipes."""

    model: str
    verdict: str
    score: int
    by_stage: dict[str, str]
    reasons: list[WeighedReasonEntry]
    options: list[OptionEntry]
    generations: list[GenerationEntry]
    guidance: GuidanceEntry | None
    optimum_tpu: OptimumEntry
    retired: list[RetiredEntry]
    side_by_side: list[PropertyEntry]
    recipes: list[RecipeEntry]
