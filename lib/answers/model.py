"""The answers of `/resolve_model`, `/tensors` and `/dry_run`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

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
    """The figure of the closed form; null if no form exists."""
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
    """Every figure, with that of the closed form."""


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
    """Inputs besides text: images, sound."""
    task: str
    """Task on the Hub, such as text-generation."""
    objectives: tuple[str, ...] = ()
    """Objectives of `/estimate_training` for this kind of model, the usual one first."""
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
    """Cache of each kind of layer."""
    license: str | None
    """License as the repository states it."""
    gated: bool | None
    """Whether the repository asks for access; null if unknown."""
    source: str
    """Origin of parameters and weights: safetensors, gguf, catalog, architecture or rule_of_thumb."""
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
