"""What a repository on the Hub holds, as values.

HubModel
├── documents      small JSON files as text (config.json, hf_quant_config.json, adapter_config.json …)
├── components     one for a transformers model (folder ""), several for a pipeline (unet, vae, text_encoder …)
│   └── weights    the one copy of the weights that the library would load: tensors, bytes and elements by dtype
└── other_weights  further copies that are not loaded by default (original/, consolidated, fp16, ONNX, other GGUF …)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from lib.provenance import Caveat

Kind = Literal["transformers", "diffusers", "sentence-transformers", "adapter", "gguf", "weights", "none"]
Format = Literal["safetensors", "gguf", "pickle", "none"]


class Tensor(NamedTuple):
    """One stored tensor: dtype in the file's own word ("BF16", "Q4_K"), shape in torch's order, the file that holds it."""

    dtype: str
    shape: tuple[int, ...]
    file: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """One copy of the weights of one component.

    `tensors` is empty when the format has no readable header (pickle); then the dtypes are unknown too and only
    `total_bytes`, from file sizes, is known. Elements are as stored: packed formats hold several weights in one element.
    """

    format: Format
    files: tuple[str, ...]
    total_bytes: int
    tensors: Mapping[str, Tensor] = field(default_factory=dict)
    bytes_by_dtype: Mapping[str, int] = field(default_factory=dict)
    elements_by_dtype: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    """A part with its own folder: `folder` is "" for the root, `library` and `class_name` as model_index.json names them."""

    folder: str
    weights: Weights
    config_text: str | None = None
    library: str = ""
    class_name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherWeights:
    """A copy of the weights that is not loaded by default: the files of one name pattern, by size only."""

    pattern: str
    files: int
    total_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HubModel:
    """A model repository at one commit.

    `gated` is "" (open), "auto" or "manual". `base_model` is what an adapter is trained on. `gguf` holds the scalar keys of a
    GGUF header ("general.architecture", "llama.context_length" …). `published_parameters` is what the Hub's own page says,
    by dtype, for cross-checks only.
    """

    id: str
    revision: str
    kind: Kind
    components: tuple[Component, ...]
    documents: Mapping[str, str]
    files: Mapping[str, int | None]
    other_weights: tuple[OtherWeights, ...] = ()
    pipeline_tag: str | None = None
    library_name: str | None = None
    tags: tuple[str, ...] = ()
    license: str | None = None
    gated: str = ""
    private: bool = False
    base_model: str | None = None
    gguf: Mapping[str, str | int | float | bool] = field(default_factory=dict)
    published_parameters: Mapping[str, int] = field(default_factory=dict)
    caveats: tuple[Caveat, ...] = ()

    @property
    def config_text(self) -> str | None:
        """The text of config.json, None where the repository has none."""
        text = self.documents.get("config.json")
        if text is None and self.kind == "sentence-transformers":  # older ones keep it in 0_Transformer/
            text = next((part.config_text for part in self.components if part.config_text), None)
        return text

    @property
    def tensor_count(self) -> int:
        """How many tensors were read."""
        return sum(len(part.weights.tensors) for part in self.components)

    @property
    def tensors(self) -> dict[str, Tensor]:
        """Every tensor; names carry their component's folder ("unet/conv_in.weight") except those of the root."""
        return {
            f"{part.folder}/{name}" if part.folder else name: tensor
            for part in self.components
            for name, tensor in part.weights.tensors.items()
        }

    @property
    def total_bytes(self) -> int:
        """Bytes of weights that are loaded: those of the tensors, or of the files where no header could be read."""
        return sum(part.weights.total_bytes for part in self.components)

    @property
    def bytes_by_dtype(self) -> dict[str, int]:
        """Bytes by stored dtype, over all components."""
        return _summed(part.weights.bytes_by_dtype for part in self.components)

    @property
    def elements_by_dtype(self) -> dict[str, int]:
        """Stored elements by dtype, over all components."""
        return _summed(part.weights.elements_by_dtype for part in self.components)


def _summed(tables: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for table in tables:
        total.update(table)
    return dict(total)
