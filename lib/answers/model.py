"""The shapes of what a model is: `/resolve_model`, `/tensors` and `/dry_run`."""

from __future__ import annotations

from typing_extensions import TypedDict

from lib.answers.common import Answer


class QuantizationEntry(TypedDict):
    """How the checkpoint is stored, in its own words."""

    method: str
    format: str
    group_size: int


class CacheEntry(TypedDict):
    """What one kind of layer caches: layers × elements × n(T), with n by `growth` (see lib/model/spec.py)."""

    kind: str
    holds: str
    layers: int
    elements: int
    growth: str
    span: int
    dtype: str


class FileEntry(TypedDict):
    """A GGUF file of the model's repository: how to name it, and its bytes (0: not told)."""

    model: str
    bytes: int


class FigureEntry(TypedDict):
    """A figure of a dry run: as executed, as the closed form gives it, and closed form over executed; None where there is no form."""

    name: str
    unit: str
    executed: int
    closed_form: int | None
    ratio: float | None


class DryRunAnswer(Answer):
    """What an execution without values took. `layers_run` of `layers` computed, the others were counted like them."""

    model: str
    architecture: str
    mode: str
    layers: int
    layers_run: int
    peak_bytes: int
    figures: list[FigureEntry]


class ModelAnswer(Answer):
    """What a model is; `gguf_files` are files of its repository that can be named instead, the smallest first."""

    id: str
    architecture: str
    model_type: str
    library: str
    media: list[str]
    task: str
    parameters_total: int
    parameters_active: int
    parameters_by_component: dict[str, int]
    weights_bytes: int
    weights_bytes_by_dtype: dict[str, int]
    weights_bytes_by_component: dict[str, int]
    quantization: QuantizationEntry | None
    context_limit_tokens: int | None
    layer_kinds: dict[str, int]
    cache: list[CacheEntry]
    license: str | None
    gated: bool | None
    source: str
    gguf_files: list[FileEntry]


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


class TensorsAnswer(Answer):
    """Every tensor of a model, the largest first; their bytes add up to `weights_bytes`."""

    model: str
    precision: str
    engine: str
    parameters_total: int
    weights_bytes: int
    tensors: list[TensorEntry]
