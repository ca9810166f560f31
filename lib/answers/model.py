"""The answers of `/resolve_model`, `/tensors`, `/dry_run`, `/estimate_memory`, `/solve` and `/estimate_training`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lib.advisor.alternatives import MemorySaving
from lib.memory import MemoryFit
from lib.memory.result import MemoryPart
from lib.model.spec import CacheTerm
from lib.provenance import Answer
from lib.result import Result, Usd
from lib.speed.shardings import ShardingOption
from lib.speed.training import TrainingOption


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


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureEntry(Result):
    """A figure of a dry run: as executed, and as the closed form gives it."""

    name: str
    """The counted quantity: weights and buffers, peak, prefill …"""

    unit: str
    """bytes, FLOP, operations or parameters."""

    executed: int
    """The executed figure."""

    closed_form: int | None
    """The figure of the closed form; null where no form exists."""

    ratio: float | None
    """Closed form divided by executed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DryRunAnswer(Answer):
    """The cost of an execution without values."""

    model: str
    """Id of the model; empty without one."""

    architecture: str
    """Class that was executed."""

    mode: str
    """inference, or the method of a training step."""

    layers: int
    """Layers of the model."""

    layers_run: int
    """Layers that were computed; the others are counted like them."""

    peak_bytes: int
    """Bytes at the fullest moment."""

    figures: tuple[FigureEntry, ...]
    """Every figure beside the closed form."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorEntry(Result):
    """Parameters that share a name (layer numbers as *) and a shape."""

    component: str
    """Part of the model."""

    block: str
    """Module of a layer: self_attn, mlp …"""

    kind: str
    """linear, expert, embedding, head, norm, conv or other."""

    name: str
    """Name, with * for layer numbers."""

    shape: tuple[int, ...]
    """Shape of one tensor."""

    count: int
    """Number of tensors."""

    parameters: int
    """Parameters of all of them."""

    bytes: int
    """Bytes of all of them."""

    share: float
    """Their share of the weights of the whole model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorsAnswer(Answer):
    """Every tensor of a model, the largest first."""

    model: str
    """Id of the model; empty without one."""

    precision: str
    """Number format of the weights."""

    engine: str
    """Inference engine."""

    parameters_total: int
    """All parameters."""

    weights_bytes: int
    """Bytes of all weights, the sum over the tensors."""

    tensors: tuple[TensorEntry, ...]
    """The tensors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FitEntry(MemoryFit):
    """One piece of hardware: whether the configuration fits it, and how far the configuration could be stretched there."""

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
    """Price per hour; null where there is none."""


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
    """Runtime of each process beside the model: CUDA context, libraries, fragmentation."""

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
    """What one more would exceed: memory, model, engine, ttft, speed, zerogpu or nothing."""

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
    """Whether it keeps the limits."""

    weights_bytes: int
    """Bytes of the weights."""

    per_device_bytes: int
    """Bytes on the fullest device."""

    ttft_s: float | None
    """Time to first token in seconds; null if not predicted."""

    tokens_per_s: float | None
    """Tokens per second of one request; null if not predicted."""


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
    """What to change, as a sentence."""

    effect: str
    """What it does to speed, in words."""

    needs: Mapping[str, str | int]
    """Settings that change, by the names of the arguments."""


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
    """Whether the stated requests fit."""

    meets_limits: bool
    """Whether the stated requests keep the limits."""

    per_device_bytes: int
    """Bytes on the fullest device."""

    capacity_bytes: int
    """Bytes that the engine may fill on one device."""

    free_bytes: int
    """Bytes left on the fullest device; negative where the model does not fit."""

    ttft_s: float | None
    """Time to first token in seconds; null if not predicted."""

    tokens_per_s: float | None
    """Tokens per second of one request; null if not predicted."""

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
    """Ways to take less memory, the largest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingPartEntry(Result):
    """A part of the fullest device at the fullest moment of a step."""

    name: str
    """What holds the bytes."""

    bytes: int
    """Bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingChangeEntry(Result):
    """A change that saves memory."""

    code: str
    """A stable code."""

    message: str
    """What to change, as a sentence."""

    saved_bytes: int
    """Bytes that it saves on the fullest device."""

    device_bytes: int
    """Bytes that the fullest device then needs."""

    speed_ratio: float | None
    """Speed as a share of today's; null if not predicted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardingEntry(ShardingOption):
    """A way to share the states over GPUs, with its sentence."""

    message: str
    """GPUs, sharding and bytes as a sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingAnswer(Answer):
    """A training step in memory by part, and the hardware that runs the training, with hours and dollars."""

    model: str
    """Id of the model; empty without one."""

    method: str
    """full, lora, dora or qlora."""

    stack: str
    """Training stack."""

    optimizer: str
    """Optimizer."""

    precision: str
    """mixed, bf16 or fp32."""

    weights_format: str
    """Number format of the frozen or trained weights."""

    checkpointing: str
    """none, layers or offloaded."""

    sharding: str
    """How several devices share the states."""

    devices: int
    """Devices that train together."""

    trained_parameters: int
    """Parameters that are trained."""

    tokens_per_step: int
    """Tokens of an optimizer step, at most."""

    total_tokens: int
    """Tokens over all epochs."""

    steps: int
    """Optimizer steps."""

    longest_row_tokens: int
    """Tokens of a row in the longest batch, which decides `device_bytes`; the upper bounds count rows of `sequence_tokens`."""

    parts: tuple[TrainingPartEntry, ...]
    """Parts of `device_bytes`; they add up to it."""

    allocated_bytes: int
    """Bytes that tensors hold."""

    reserved_low_bytes: int
    """Lower bound of the reserved bytes."""

    reserved_bytes: int
    """Bytes that the allocator takes for the tensors."""

    reserved_high_bytes: int
    """Upper bound of the reserved bytes."""

    device_low_bytes: int
    """Lower bound of the device's bytes."""

    device_bytes: int
    """Reserved bytes and the CUDA context: they decide whether a step fits."""

    device_high_bytes: int
    """Upper bound of the device's bytes."""

    host_bytes: int
    """Bytes in the host's memory."""

    options: tuple[TrainingOption, ...]
    """Hardware that trains it: first what fits, then by the price of the whole training."""

    shardings: tuple[ShardingEntry, ...]
    """Ways to share the states over GPUs: for each the hardware with the lowest price that holds the training, and how many GPUs."""

    changes: tuple[TrainingChangeEntry, ...]
    """Changes that save memory."""

    command: str | None
    """Command that starts the training on Jobs; null where no flavor fits, with sharding, for text encoders and without a Hub id."""

    script: str | None
    """Script that the command runs."""
