"""The shapes of what a model is (`/resolve_model`, `/tensors`, `/dry_run`), its memory, what of it fits (`/solve`), and its training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from typing_extensions import TypedDict

from lib.answers.common import Answer as AnswerShape
from lib.model.spec import CacheTerm
from lib.provenance import Answer
from lib.result import Result


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFormat(Result):
    """The quantization of a checkpoint, in its own words."""

    method: str
    """Quantization method, as the checkpoint calls it (gptq, awq, fp8 …)."""

    format: str
    """Number format of the weights."""

    group_size: int
    """Weights that share a scale; 0 if not stated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GgufFile(Result):
    """A GGUF file of the model's repository."""

    model: str
    """The name by which endpoints accept the file as their model."""

    bytes: int
    """Size of the file; 0 if unknown."""


class FigureEntry(TypedDict):
    """A figure of a dry run: as executed, as the closed form gives it, and closed form over executed; None where there is no form."""

    name: str
    unit: str
    executed: int
    closed_form: int | None
    ratio: float | None


class DryRunAnswer(AnswerShape):
    """What an execution without values took. `layers_run` of `layers` computed, the others were counted like them."""

    model: str
    architecture: str
    mode: str
    layers: int
    layers_run: int
    peak_bytes: int
    figures: list[FigureEntry]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelAnswer(Answer):
    """The model as it was understood."""

    id: str
    """Id on the Hub, with the GGUF file after a colon; empty for a pasted config or a parameter count."""

    architecture: str
    """Class that runs the model, such as LlamaForCausalLM."""

    model_type: str
    """`model_type` of its config.json."""

    library: str
    """transformers, diffusers, timm, sentence-transformers or gguf."""

    media: tuple[str, ...]
    """What it reads besides text: images, sound."""

    task: str
    """Task on the Hub, such as text-generation."""

    parameters_total: int
    """All parameters."""

    parameters_active: int
    """Parameters that a token uses; fewer than all in a mixture of experts."""

    parameters_by_component: Mapping[str, int]
    """Parameters of each part of the model."""

    weights_bytes: int
    """Bytes of the weights when the model is loaded as it is stored."""

    weights_bytes_by_dtype: Mapping[str, int]
    """Bytes of the weights by the dtype that they are stored in."""

    weights_bytes_by_component: Mapping[str, int]
    """Bytes of the weights of each part of the model."""

    quantization: StoredFormat | None
    """Quantization of the checkpoint; null if it is not quantized."""

    context_limit_tokens: int | None
    """Longest context in tokens; null if there is no limit or none is known."""

    layer_kinds: Mapping[str, int]
    """Number of layers of each kind."""

    cache: tuple[CacheTerm, ...]
    """What each kind of layer caches."""

    license: str | None
    """License as the repository states it."""

    gated: bool | None
    """Whether the repository asks for access; null if unknown."""

    source: str
    """Where parameters and weights were read: safetensors, gguf, catalog, architecture or rule_of_thumb."""

    gguf_files: tuple[GgufFile, ...]
    """GGUF files of the repository that can be named instead, the smallest first."""


class TensorEntry(TypedDict):
    """Parameters that share a name (layer numbers as *) and a shape, which is that of one of `count` tensors.

    `block` is the module of a layer that they belong to (self_attn, mlp …), `kind` what they are: linear, expert, embedding, head, norm,
    conv or other. `share` is that of `bytes` in the weights of the whole model.
    """

    component: str
    block: str
    kind: str
    name: str
    shape: list[int]
    count: int
    parameters: int
    bytes: int
    share: float


class TensorsAnswer(AnswerShape):
    """Every tensor of a model, the largest first; their bytes add up to `weights_bytes`."""

    model: str
    precision: str
    engine: str
    parameters_total: int
    weights_bytes: int
    tensors: list[TensorEntry]


class PartEntry(TypedDict):
    """One number, opened: the law that gave it, what went in, and how it splits."""

    name: str
    bytes: int
    law: str
    inputs: dict[str, str]
    source: str
    details: dict[str, int]


class FitEntry(TypedDict):
    """Whether the configuration fits one piece of hardware, and how far it could be stretched there (null: no limit found)."""

    hardware: str
    platform: str
    name: str
    accelerator: str | None
    accelerator_count: int
    devices: int
    usd_per_hour: float | None
    fits: bool
    capacity_bytes: int
    free_bytes: int
    max_context_tokens: int | None
    max_batch_size: int | None


class StageEntry(TypedDict):
    """A stage of a pipeline (encode, denoise, decode) on one device: weights that lie there and temporary tensors."""

    name: str
    weights_bytes: int
    activation_bytes: int
    total_bytes: int


class MemoryAnswer(AnswerShape):
    """What a configuration takes, and where it fits."""

    model: str
    precision: str
    kv_precision: str
    engine: str
    weights_bytes: int
    kv_cache_bytes: int
    activation_bytes: int
    runtime_bytes: int
    total_bytes: int
    low_bytes: int
    high_bytes: int
    per_device_bytes: int
    host_bytes: int
    rule_of_thumb_bytes: int
    parts: list[PartEntry]
    stages: list[StageEntry]
    fits: list[FitEntry]


class MaximumEntry(TypedDict):
    """The most that is possible; 0: not even one, null: nothing bounds it.

    `limited_by`: what one more would pass: memory, model, engine, ttft, speed, zerogpu or nothing.
    """

    value: int | None
    limited_by: str
    message: str


class PrecisionTryEntry(TypedDict):
    """One precision of the weights: whether it fits, and whether it meets the limits; speed is null where it is not predicted."""

    precision: str
    fits: bool
    meets_limits: bool
    weights_bytes: int
    per_device_bytes: int
    ttft_s: float | None
    tokens_per_s: float | None


class CheapestTierEntry(TypedDict):
    """The offer with the lowest price per hour that does the work within the limits, all its machines together."""

    hardware: str
    platform: str
    name: str
    precision: str
    engine: str
    replicas: int
    usd_per_hour: float
    ttft_s: float | None
    tokens_per_s: float | None


class MemorySavingEntry(TypedDict):
    """A way to take less memory: bytes that a device saves, whether it fits then, and seconds after / before (null: not predicted)."""

    code: str
    message: str
    effect: str
    saved_bytes: int
    per_device_bytes: int
    fits: bool
    tpot_ratio: float | None
    ttft_ratio: float | None
    needs: dict[str, str | int]


class SolveAnswer(AnswerShape):
    """What hardware takes of a model at most, within limits on the first token and on speed.

    Bytes are those of the fullest device for what was asked, which `fits` and `meets_limits` judge; the engine runs `copies` of the model,
    each on `devices`. `precisions` go from most bytes to fewest; `best_precision` is the first of them that fits and keeps the limits.
    """

    model: str
    hardware: str
    platform: str
    name: str
    precision: str
    engine: str
    devices: int
    copies: int
    context_tokens: int
    concurrency: int
    fits: bool
    meets_limits: bool
    per_device_bytes: int
    capacity_bytes: int
    free_bytes: int
    ttft_s: float | None
    tokens_per_s: float | None
    longest_context: MaximumEntry
    most_requests: MaximumEntry
    largest_batch: MaximumEntry
    best_precision: str | None
    precisions: list[PrecisionTryEntry]
    cheapest: CheapestTierEntry | None
    memory_savings: list[MemorySavingEntry]


class TrainingPartEntry(TypedDict):
    """What holds so many bytes of the fullest device at the fullest moment of a step."""

    name: str
    bytes: int


class TrainingOptionEntry(TypedDict):
    """A training on one piece of hardware; `platform` is "own" for a card of one's own. Null where nothing is published to derive it from.

    `verdict` is "fits" where even the high value of what a device needs does, "risky" where the typical one does, "no" otherwise.
    `usd` and `hours` are for all tokens. `mfu` is the share of the dense peak that the model's own FLOPs reach. `sharding` is "fsdp" where
    one card of the offer is not enough and all its cards share the model.
    """

    hardware: str
    platform: str
    name: str
    accelerator: str
    devices: int
    verdict: str
    capacity_bytes: int
    needed_bytes: int
    longest_sequence_tokens: int
    largest_micro_batch: int
    tokens_per_s_low: float | None
    tokens_per_s: float | None
    tokens_per_s_high: float | None
    mfu: float | None
    hours: float | None
    usd_per_hour: float | None
    usd: float | None
    sharding: str


class TrainingChangeEntry(TypedDict):
    """Something to change: what it saves on the fullest device, what that then needs, and its speed as a share of today's."""

    code: str
    message: str
    saved_bytes: int
    device_bytes: int
    speed_ratio: float | None


class TrainingAnswer(AnswerShape):
    """What a training step takes, by part, and where, how fast and for how much it runs.

    `parts` add up to `device_bytes`. Allocated is what tensors hold, reserved what the allocator takes for them, device reserved and the
    CUDA context: it decides whether a step fits. `host_bytes` lie in the host's memory. `command` and
    `script` are null where no flavor of Jobs fits, with sharding, for text encoders, and for models without a Hub id.
    """

    model: str
    method: str
    stack: str
    optimizer: str
    precision: str
    weights_format: str
    checkpointing: str
    sharding: str
    devices: int
    trained_parameters: int
    tokens_per_step: int
    total_tokens: int
    steps: int
    parts: list[TrainingPartEntry]
    allocated_bytes: int
    reserved_low_bytes: int
    reserved_bytes: int
    reserved_high_bytes: int
    device_low_bytes: int
    device_bytes: int
    device_high_bytes: int
    host_bytes: int
    options: list[TrainingOptionEntry]
    changes: list[TrainingChangeEntry]
    command: str | None
    script: str | None
