"""A model repository on the Hub: its description, which of its files are the model, and its contents as values.

HubModel
├── documents      small JSON files as text (config.json, hf_quant_config.json, adapter_config.json …)
├── components     one for a transformers model (folder ""), several for a pipeline (unet, vae, text_encoder …)
│   └── weights    the one copy of the weights that the library would load: tensors, bytes by dtype
└── other_weights  further copies that are not loaded by default (original/, consolidated, fp16, ONNX, other GGUF …)

The description (/api/models/{id}?blobs=true) is checked field by field: a field has the type that the Hub documents, or the answer is
refused, or the field stays empty if nothing depends on it. A repository may hold its weights several times; by file names alone, the
copy that counts is the one that its library loads by default:

    transformers   model.safetensors, else model.safetensors.index.json, else pytorch_model.bin (and its index)
    diffusers      the same in each component's folder, under the name diffusion_pytorch_model (or model)
    peft           adapter_model.safetensors, else adapter_model.bin
    llama.cpp      the file that is named, else Q4_K_M, else the first .gguf (`lib.hub.weight_files`)

Source: `from_pretrained` of transformers 5.23 (modeling_utils.py), diffusers 0.42 (model_loading_utils.py), peft, and
llama.cpp's README on `-hf`; checked 2026-11-21.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from lib.errors import InvalidInput, UnreadableJson, read_json
from lib.hub import refusals
from lib.hub.client import check_id
from lib.hub.weight_files import PART, Tensor, Value, choose_gguf
from lib.provenance import Caveat
from lib.units import MIB

Kind = Literal["transformers", "diffusers", "sentence-transformers", "adapter", "gguf", "weights", "none"]
Format = Literal["safetensors", "gguf", "pickle", "none"]


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


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPart:
    """A part with its own folder: `folder` is "" for the root, `class_name` as model_index.json names it."""

    folder: str
    weights: Weights
    config_text: str | None = None
    class_name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherWeights:
    """A copy of the weights that is not loaded by default: the files of one name pattern, by size only."""

    pattern: str
    files: int
    total_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """The Hub's answer about a model at one commit: its files with their sizes (None = not told) and the fields of its card.

    `gated` is "" (open), "auto" or "manual". `base_model` is the model that an adapter was trained on.
    """

    id: str
    revision: str
    files: Mapping[str, int | None]
    pipeline_tag: str | None = None
    license: str | None = None
    gated: str = ""
    private: bool = False
    base_model: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HubModel(Listing):
    """A model repository at one commit, read.

    `gguf` holds the keys of a GGUF header ("general.architecture", "llama.context_length" …). `file` is the GGUF file that was asked for,
    by its label; "" for the repository as such.
    """

    kind: Kind
    components: tuple[StoredPart, ...]
    documents: Mapping[str, str]
    other_weights: tuple[OtherWeights, ...] = ()
    gguf: Mapping[str, Value] = field(default_factory=dict)
    caveats: tuple[Caveat, ...] = ()
    file: str = ""

    @property
    def config_text(self) -> str | None:
        """The text of config.json, None if the repository has none."""
        text = self.documents.get("config.json")
        if text is None and self.kind == "sentence-transformers":  # older ones keep it in 0_Transformer/
            text = next((part.config_text for part in self.components if part.config_text), None)
        return text

    @property
    def weight(self) -> int:
        """Memory that it takes, in tensors of 400 bytes each: a repository of anybody's may hold long texts and many names instead."""
        names = [*self.files, *(copy.pattern for copy in self.other_weights), *self.gguf]
        texts = [*names, *self.documents.values(), *map(str, self.gguf.values()), *(part.config_text or "" for part in self.components)]
        tensors = sum(len(part.weights.tensors) for part in self.components)  # `self.tensors` would be built for it: 7 ms for 45,000
        return 1000 + tensors + sum(200 + len(text) for text in texts) // 400

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
        """Bytes of weights that are loaded: those of the tensors, or of the files if no header could be read."""
        return sum(part.weights.total_bytes for part in self.components)

    @property
    def bytes_by_dtype(self) -> dict[str, int]:
        """Bytes by stored dtype, over all components."""
        total: Counter[str] = Counter()
        for part in self.components:
            total.update(part.weights.bytes_by_dtype)
        return dict(total)


DOCUMENTS = (
    "config.json", "hf_quant_config.json", "adapter_config.json", "model_index.json", "modules.json", "params.json",
    "sentence_bert_config.json",
)  # fmt: skip
_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".ckpt", ".gguf", ".ggml", ".onnx", ".onnx_data", ".msgpack", ".h5", ".tflite", ".npz")
_STATE = re.compile(r"(^|/)(training_args|optimizer|scheduler|rng_state[^/]*|scaler)\.[a-z]+$")
_VARIANTS = ("fp16", "bf16")

_STEMS = {"diffusers": ("diffusion_pytorch_model", "model"), "adapter": ("adapter_model",)}
_PICKLES = {"model": "pytorch_model"}


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsChoice:
    """The copy of the weights that counts: its files, or the index that names them.

    `why` is empty for the default copy, else a code: "variant" (only an fp16 or bf16 copy exists), "consolidated" (only the
    vendor's own format), "single_file" (one file of an unknown name).
    """

    format: Format
    files: tuple[str, ...] = ()
    index: str = ""
    why: str = ""


def kind_of(files: Mapping[str, int | None]) -> Kind:
    """The kind of this repository."""
    if "model_index.json" in files:
        return "diffusers"
    if "modules.json" in files:
        return "sentence-transformers"
    root = choose_weights(files, "", "transformers")
    usual = root.format != "none" and root.why in ("", "variant")
    if "adapter_config.json" in files and not usual:
        return "adapter"
    if not usual and choose_gguf(files):
        return "gguf"
    if "config.json" in files:
        return "transformers"
    return "none" if root.format == "none" else "weights"


def nested_pipelines(files: Mapping[str, int | None]) -> tuple[str, ...]:
    """Folders that each hold a whole pipeline, in order.

    >>> nested_pipelines({"base/model_index.json": 1, "refiner/model_index.json": 1, "config.json": 1})
    ('base', 'refiner')
    """
    return tuple(sorted(name.removesuffix("/model_index.json") for name in files if name.endswith("/model_index.json")))


def choose_weights(files: Mapping[str, int | None], folder: str, kind: Kind, file: str = "") -> WeightsChoice:
    """The copy of the weights in one folder that the library of this kind loads; `file` names one of several GGUF files."""
    if kind == "gguf":
        return WeightsChoice(format="gguf", files=choose_gguf(files, file))
    at = f"{folder}/" if folder else ""
    for stem in _STEMS.get(kind, ("model", "diffusion_pytorch_model")):
        copy = _named_copy(files, at, stem)
        if copy:
            return copy
    return _last_resort(files, at) if kind != "diffusers" else WeightsChoice(format="none")


def _named_copy(files: Mapping[str, int | None], at: str, stem: str) -> WeightsChoice | None:
    """The default copy under one name, else the variants of that name."""
    pickle = _PICKLES.get(stem, stem)
    candidates: list[tuple[str, Format, str]] = [(stem, "safetensors", ""), (pickle, "pickle", "")]
    candidates += [(f"{stem}.{variant}", "safetensors", "variant") for variant in _VARIANTS]
    for name, form, why in candidates:
        stored, _, variant = name.partition(".") if why else (name, "", "")
        ending = "bin" if form == "pickle" else "safetensors"
        index = f"{at}{stored}.{ending}.index.{variant}.json" if variant else f"{at}{name}.{ending}.index.json"
        if f"{at}{name}.{ending}" in files:
            return WeightsChoice(format=form, files=(f"{at}{name}.{ending}",), why=why)
        if index in files:
            return WeightsChoice(format=form, index=index, why=why)
    return None


def _last_resort(files: Mapping[str, int | None], at: str) -> WeightsChoice:
    """The vendor's own format, or a single file of any name."""
    if f"{at}consolidated.safetensors" in files:
        return WeightsChoice(format="safetensors", files=(f"{at}consolidated.safetensors",), why="consolidated")
    if f"{at}consolidated.safetensors.index.json" in files:
        return WeightsChoice(format="safetensors", index=f"{at}consolidated.safetensors.index.json", why="consolidated")
    here = [name for name in files if name.startswith(at) and "/" not in name.removeprefix(at)]
    loose = [name for name in here if name.endswith(".safetensors")]
    if len(loose) == 1:
        return WeightsChoice(format="safetensors", files=(loose[0],), why="single_file")
    return WeightsChoice(format="none")


def present_folders(files: Mapping[str, int | None], folders: Iterable[str]) -> tuple[str, ...]:
    """Those of the folders that hold any file."""
    present = {name.rpartition("/")[0] for name in files}
    return tuple(dict.fromkeys(folder for folder in folders if folder in present))


def group_other_weights(files: Mapping[str, int | None], used: Iterable[str]) -> tuple[OtherWeights, ...]:
    """The weight files that are not used, grouped by name pattern (part numbers as `*`), largest first."""
    loaded = set(used)
    groups: dict[str, list[int]] = {}
    for name, size in files.items():
        if name not in loaded and name.lower().endswith(_WEIGHTS) and not _STATE.search(name):
            groups.setdefault(PART.sub("-*", re.sub(r"consolidated\.\d+", "consolidated.*", name)), []).append(size or 0)
    others = [OtherWeights(pattern=pattern, files=len(sizes), total_bytes=sum(sizes)) for pattern, sizes in groups.items()]
    return tuple(sorted(others, key=lambda group: (-group.total_bytes, group.pattern)))


MAX_LISTING_BYTES = 16 * MIB
MAX_NODES = 1_000_000  # the description of a model with 50,000 files has 700,000; 16 MiB of "[],[],…" would have 11 million
_MAX_FILES = 50_000
_MAX_NAME = 1024
_MAX_TEXT = 200
_MAX_TAGS = 500
_SHA = re.compile(r"[0-9a-f]{40}")


def parse_json(text: bytes, what: str, of: str, most: int = MAX_NODES) -> Any:
    """JSON from outside of at most `most` nodes (`lib.errors`); `of` names it in the sentence."""
    try:
        return read_json(text, most)
    except UnreadableJson as error:
        raise refusals.garbage(what, f"{of} cannot be read: {error}") from error


def parse_object(text: bytes, what: str, of: str, most: int = MAX_NODES) -> dict[str, Any]:
    """JSON that has to be an object."""
    value = parse_json(text, what, of, most)
    if not isinstance(value, dict):
        raise refusals.garbage(what, f"{of} is not a JSON object")
    return value


def read_listing(text: bytes, model_id: str) -> Listing:
    """Read the Hub's description of a model; `model_id` is the id that was asked for."""
    data = parse_object(text, model_id, "the description of the model")
    sha = data.get("sha")
    if not (isinstance(sha, str) and _SHA.fullmatch(sha)):
        raise refusals.garbage(model_id, "the description of the model names no commit")
    gated = data.get("gated")
    card = data.get("cardData") if isinstance(data.get("cardData"), dict) else {}
    tags = tuple(tag for tag in _list(data.get("tags"))[:_MAX_TAGS] if _text(tag))
    return Listing(
        id=_id(data.get("id"), model_id),
        revision=sha,
        files=_files(data.get("siblings"), model_id),
        pipeline_tag=_text(data.get("pipeline_tag")),
        license=_text((card or {}).get("license"))
        or next((tag.removeprefix("license:") for tag in tags if tag.startswith("license:")), None),
        gated=gated if gated in ("auto", "manual") else ("auto" if gated is True else ""),
        private=data.get("private") is True,
        base_model=next((tag.rpartition(":")[2] for tag in tags if tag.startswith("base_model:adapter:")), None),
    )


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and 0 < len(value) <= _MAX_TEXT and value.isprintable() else None


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _id(value: Any, model_id: str) -> str:
    """The model's present id: a renamed model is answered under its new one."""
    text = _text(value)
    if text is None or text.lower() == model_id.lower():
        return text or model_id
    try:
        return check_id(text, None)
    except InvalidInput as error:
        raise refusals.garbage(model_id, "the description of the model names no id") from error


def _files(value: Any, model_id: str) -> dict[str, int | None]:
    if not isinstance(value, list) or len(value) > _MAX_FILES:
        raise refusals.garbage(model_id, f"the description of the model has no list of at most {_MAX_FILES:,} files")
    files: dict[str, int | None] = {}
    for entry in value:
        name = entry.get("rfilename") if isinstance(entry, dict) else None
        if not isinstance(name, str) or not 0 < len(name) <= _MAX_NAME or name.startswith("/") or {"..", "."} & set(name.split("/")):
            raise refusals.garbage(model_id, "the description of the model lists a file without a usable name")
        size = entry.get("size")
        files[name] = size if type(size) is int and size >= 0 else None
    return files
