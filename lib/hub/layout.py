"""Which files of a repository are the model, judged by their names alone.

A repository may hold its weights several times. The copy that counts is the one its library loads by default:

    transformers   model.safetensors, else model.safetensors.index.json, else pytorch_model.bin (and its index)
    diffusers      the same in each component's folder, under the name diffusion_pytorch_model (or model)
    peft           adapter_model.safetensors, else adapter_model.bin
    llama.cpp      the Q4_K_M file, else the first .gguf (its `-hf` option); a projector (mmproj) is not the model

Source: `from_pretrained` of transformers 5.23 (modeling_utils.py), diffusers 0.42 (model_loading_utils.py), peft, and
llama.cpp's README on `-hf`; checked 2026-11-21.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from lib.hub.repository import Format, Kind, OtherWeights

DOCUMENTS = ("config.json", "hf_quant_config.json", "adapter_config.json", "model_index.json", "modules.json", "params.json")
_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".ckpt", ".gguf", ".ggml", ".onnx", ".onnx_data", ".msgpack", ".h5", ".tflite", ".npz")
_STATE = re.compile(r"(^|/)(training_args|optimizer|scheduler|rng_state[^/]*|scaler)\.[a-z]+$")
_PART = re.compile(r"-(\d{5})-of-(\d{5})(?=\.)")
_VARIANTS = ("fp16", "bf16")

_STEMS = {"diffusers": ("diffusion_pytorch_model", "model"), "adapter": ("adapter_model",)}
_PICKLES = {"model": "pytorch_model"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The copy of the weights that counts: its files, or the index that names them.

    `why` is empty for the default copy, else a code: "variant" (only an fp16 or bf16 copy exists), "consolidated" (only the
    vendor's own format), "single_file" (one file of an unknown name).
    """

    format: Format
    files: tuple[str, ...] = ()
    index: str = ""
    why: str = ""


def kind_of(files: Mapping[str, int | None]) -> Kind:
    """What sort of repository this is."""
    if "model_index.json" in files:
        return "diffusers"
    if "modules.json" in files:
        return "sentence-transformers"
    root = choose(files, "", "transformers")
    usual = root.format != "none" and root.why in ("", "variant")
    if "adapter_config.json" in files and not usual:
        return "adapter"
    if not usual and _gguf(files):
        return "gguf"
    if "config.json" in files:
        return "transformers"
    return "none" if root.format == "none" else "weights"


def choose(files: Mapping[str, int | None], folder: str, kind: Kind) -> Choice:
    """The copy of the weights in one folder that the library of this kind loads."""
    if kind == "gguf":
        return Choice(format="gguf", files=_gguf(files))
    at = f"{folder}/" if folder else ""
    for stem in _STEMS.get(kind, ("model", "diffusion_pytorch_model")):
        found = _named(files, at, stem)
        if found:
            return found
    return _last_resort(files, at) if kind != "diffusers" else Choice(format="none")


def _named(files: Mapping[str, int | None], at: str, stem: str) -> Choice | None:
    """The default copy under one name, else the variants of that name."""
    pickle = _PICKLES.get(stem, stem)
    candidates: list[tuple[str, Format, str]] = [(stem, "safetensors", ""), (pickle, "pickle", "")]
    candidates += [(f"{stem}.{variant}", "safetensors", "variant") for variant in _VARIANTS]
    for name, form, why in candidates:
        stored, _, variant = name.partition(".") if why else (name, "", "")
        ending = "bin" if form == "pickle" else "safetensors"
        index = f"{at}{stored}.{ending}.index.{variant}.json" if variant else f"{at}{name}.{ending}.index.json"
        if f"{at}{name}.{ending}" in files:
            return Choice(format=form, files=(f"{at}{name}.{ending}",), why=why)
        if index in files:
            return Choice(format=form, index=index, why=why)
    return None


def _last_resort(files: Mapping[str, int | None], at: str) -> Choice:
    """The vendor's own format, or a single file of any name."""
    if f"{at}consolidated.safetensors" in files:
        return Choice(format="safetensors", files=(f"{at}consolidated.safetensors",), why="consolidated")
    if f"{at}consolidated.safetensors.index.json" in files:
        return Choice(format="safetensors", index=f"{at}consolidated.safetensors.index.json", why="consolidated")
    here = [name for name in files if name.startswith(at) and "/" not in name.removeprefix(at)]
    loose = [name for name in here if name.endswith(".safetensors")]
    if len(loose) == 1:
        return Choice(format="safetensors", files=(loose[0],), why="single_file")
    return Choice(format="none")


def _gguf(files: Mapping[str, int | None]) -> tuple[str, ...]:
    """The GGUF file that llama.cpp takes by default, with all its parts."""
    found = sorted(name for name in files if name.lower().endswith(".gguf") and "mmproj" not in name.lower())
    if not found:
        return ()
    first = next((name for name in found if "q4_k_m" in name.lower()), found[0])
    part = _PART.search(first)
    if part is None:
        return (first,)
    return tuple(name for name in found if _PART.sub("", name) == _PART.sub("", first) and part[2] in name)


def folders(files: Mapping[str, int | None], named: Iterable[str]) -> tuple[str, ...]:
    """Those of the named folders that hold any file."""
    present = {name.rpartition("/")[0] for name in files}
    return tuple(dict.fromkeys(folder for folder in named if folder in present))


def others(files: Mapping[str, int | None], used: Iterable[str]) -> tuple[OtherWeights, ...]:
    """The weight files that are not used, grouped by name pattern (part numbers as `*`), largest first."""
    taken = set(used)
    groups: dict[str, list[int]] = {}
    for name, size in files.items():
        if name not in taken and name.lower().endswith(_WEIGHTS) and not _STATE.search(name):
            groups.setdefault(_PART.sub("-*", re.sub(r"consolidated\.\d+", "consolidated.*", name)), []).append(size or 0)
    found = [OtherWeights(pattern=pattern, files=len(sizes), total_bytes=sum(sizes)) for pattern, sizes in groups.items()]
    return tuple(sorted(found, key=lambda group: (-group.total_bytes, group.pattern)))
