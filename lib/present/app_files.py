"""`app.py` of a Space: a whole Gradio app around a model, and the packages that it imports.

    write_app("text-generation", "Qwen/Qwen3-8B", AppPlace(precision="bf16", where="gpu"))

A row of `lib/data/file_kinds.json` has the template of a task and an engine, its imports, and the part that the tests executed. A
format that is a checkpoint of its own is loaded as it is stored; a format that transformers makes while it loads is asked for. Embeddings
are pooled as the model's own repository says. Written for transformers 5.24, sentence-transformers 6.2, diffusers 0.42, gradio 6.31 and
spaces 0.51, whose `@spaces.GPU` does nothing off ZeroGPU.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from lib.catalog.rows import Row, Text, read_rows, require_distinct
from lib.engines import Engine
from lib.engines import traits_of as engine_traits
from lib.memory.pipeline import picture_work, resolve_size
from lib.model.picture_defaults import find_card_defaults
from lib.model.spec import ModelSpec
from lib.platforms import Platform
from lib.precision import TORCH_DTYPES, weight_format
from lib.present.releases import load_versions
from lib.present.templates import render
from lib.workload import PipelineRequest

Purpose = Literal["app", "serve", "tpu", "multi-node", "train", "job", "batch"]
FILE = Path(__file__).parent.parent / "data" / "file_kinds.json"
ANSWER_TOKENS = 512
"""Tokens of an answer if none are stated."""


class FileKind(Row):
    """A file of Python: the work and the engine that it is for."""

    name: Text
    tasks: tuple[Text, ...]
    """Hub tasks."""
    engines: tuple[Engine, ...]
    model_types: tuple[Text, ...] = ()
    """`model_type` of the configurations that it loads; empty: every one."""
    template: Text
    packages: tuple[Text, ...]
    """Packages that it imports, or that those need to load a model."""
    needs_torch: bool = False
    """Whether its code names torch at every precision."""
    by_map: bool = True
    """Whether weights are put on one card by a device map too; else by the name of the device."""
    draws: bool = False
    """Whether it makes pictures."""
    column: str = ""
    """Of a script, the column that it reads."""
    tested_with: Text
    """`executed: MODEL`, `parsed` or `none`."""


class LoadQuantized(Row):
    """How a format is made while a checkpoint is loaded."""

    config: Text
    """Class of transformers."""
    arguments: Mapping[str, bool | str]
    compute: str
    """The argument that takes the compute dtype; empty: none."""
    backend: str
    """The backend of diffusers' PipelineQuantizationConfig; empty: none."""
    package: Text
    """Packages that it needs besides transformers."""


class PurposeRow(Row):
    """Purposes of the files."""

    name: Purpose
    platforms: tuple[Platform | Literal["own"], ...]
    """Hardware for such files; of one hardware id that several platforms have, the first is taken."""
    files: Literal["apps", "batches", "server", "training"]
    """The rows that it has; "server": none, but the command of an engine's server; "training": those of objectives."""
    writer: Literal["setup", "batch", "training", "tpu", "machines"]
    """How its files are put together."""
    tested_with: str = ""
    """Tests of files that have no row of their own."""

    @property
    def kinds(self) -> tuple[FileKind, ...] | None:
        """Its rows of file_kinds.json; None if it has none there."""
        return getattr(load_kinds(), self.files, None)


class FileKinds(Row):
    """file_kinds.json."""

    what: Text
    purposes: Annotated[tuple[PurposeRow, ...], require_distinct("name")]
    apps: tuple[FileKind, ...]
    batches: tuple[FileKind, ...]
    """Scripts that work through a dataset."""
    on_load: Mapping[str, LoadQuantized]
    """By format."""


@cache
def load_kinds() -> FileKinds:
    """The bundled rows, read at the first call."""
    return read_rows(FileKinds, FILE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """Settings of a pipeline."""

    width: int
    height: int
    steps: int
    guided: bool
    """Whether the denoiser is asked with the prompt and without it."""
    quantized: tuple[str, ...] = ()
    """Components that a format of 8 or 4 bits applies to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AppPlace:
    """Device of the app, and how its model is loaded: on a processor, on one or more cards, or on ZeroGPU in one of its sizes."""

    precision: str
    engine: str = "transformers"
    where: Literal["cpu", "gpu", "lent gpu"]
    devices: int = 1
    size: str = ""
    """ZeroGPU's size; empty: its default."""
    duration_s: int | None = None
    """Seconds that a call declares on ZeroGPU; None: the platform's default."""
    compute: str = "bf16"
    """The plain format that compressed weights are multiplied in: fp16 on cards without bfloat16, fp32 on a processor."""
    on_load: bool = False
    """Whether the weights are quantized while they load, which takes a card: ZeroGPU lends none then."""
    answer_tokens: int = ANSWER_TOKENS
    context_tokens: int = 0
    """llama.cpp: tokens of the context; 0 is the model's own."""
    gpu_layers: int = 0
    gated: bool = False
    model_type: str = ""
    """Of the model's configuration; empty: not known."""
    picture: Picture | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AppFile:
    """The file, ending with a line break, with its requirements."""

    text: str
    packages: tuple[str, ...]
    """Names of the packages that it imports or that loading needs, apart from gradio and spaces."""
    tested_with: str


def picture_of(spec: ModelSpec, request: PipelineRequest) -> Picture | None:
    """Settings of a pipeline: those of the request, else of its model card or its class; None for a model that makes no pictures."""
    of = spec.pipeline
    if of is None:
        return None
    size, card = resolve_size(spec, request), find_card_defaults(spec.id)
    return Picture(
        width=size.width,
        height=size.height,
        steps=picture_work(spec, size, request).steps,
        guided=request.guidance != "off" and (card is None or card.guided),
        quantized=tuple(name for name in of.units if name != "vae" and (request.quantized == "all" or not name.startswith("text_"))),
    )


def find_kind(task: str, engine: str, model_type: str = "", kinds: Sequence[FileKind] = ()) -> FileKind | None:
    """The file for a task and an engine, if there is one; of apps, unless other `kinds` are given."""
    fitting = (kind for kind in kinds or load_kinds().apps if task in kind.tasks and engine in kind.engines)
    return next((kind for kind in fitting if not model_type or not kind.model_types or model_type in kind.model_types), None)


def list_tasks(kinds: Sequence[FileKind]) -> tuple[str, ...]:
    """The tasks that these files are for."""
    return tuple(dict.fromkeys(task for kind in kinds for task in kind.tasks))


def gguf_pattern(label: str) -> str:
    """A pattern for the file of this quantization, in capitals or not: `Q8_0` → `*[Qq]8_0*.gguf`; the name of a file is its own pattern."""
    if label.lower().endswith(".gguf"):
        return label
    return "*" + "".join(f"[{letter.upper()}{letter.lower()}]" if letter.isalpha() else letter for letter in label) + "*.gguf"


def write_app(task: str, model: str, place: AppPlace) -> AppFile | None:
    """The app of a model; `None` for a task or a format that has no app here. `model` is a Hub id, with a GGUF file if there is one."""
    kind = find_kind(task, place.engine, place.model_type)
    return None if kind is None else write_code(kind, model, place)


def write_code(kind: FileKind, model: str, place: AppPlace, **more: Any) -> AppFile | None:
    """The file of a kind, with the further values of its template; `None` for a format that it does not load there."""
    form = weight_format(place.precision, place.engine)
    lent, own_modules = place.where == "lent gpu", engine_traits(place.engine).own_modules
    on_load = load_kinds().on_load.get(form.name) if place.on_load else None
    if (form.law == "gguf") != engine_traits(place.engine).own_files or (place.on_load and (lent or on_load is None)):
        return None
    if kind.draws and (place.picture is None or (on_load is not None and not on_load.backend)):
        return None
    # Where the weights go, and in which type.
    dtype = TORCH_DTYPES.get(place.precision) or (TORCH_DTYPES[place.compute] if place.on_load or kind.draws else None)
    several = "balanced" if kind.draws else "auto"
    mapped = place.where == "gpu" and (kind.by_map or place.devices > 1 or (on_load is not None and not kind.draws))
    device_map = None if not mapped else several if place.devices > 1 else "cuda"
    repository, _, file = model.partition(":")
    # Packages: of the kind of file, of the format, and for a device map.
    needs = [*kind.packages]
    needs += ["transformers"] if on_load else []  # for the class of its configuration
    needs += ["accelerate"] if own_modules and (device_map or on_load) else []
    package = on_load.package if on_load is not None else FORMAT_PACKAGES.get(form.law, "")
    needs += [package] if package and own_modules else []
    packages = tuple(dict.fromkeys(needs))
    values: dict[str, Any] = {
        "model": model,
        "repository": repository,
        "gguf_file": gguf_pattern(file or form.name.partition(":")[2]),
        "context_tokens": place.context_tokens,
        "gpu_layers": place.gpu_layers,
        "dtype": dtype,
        "needs_torch": kind.needs_torch,
        "on_load": on_load,
        "device_map": device_map,
        "device": None if device_map else "cpu" if place.where == "cpu" else "cuda",
        "lent": _declare(place) if lent else None,
        "gated": place.gated,
        "answer_tokens": place.answer_tokens,
        "picture": place.picture,
        "requirements": [load_versions().requirement(name) for name in packages],
        "quantized": () if place.picture is None else place.picture.quantized,
    }
    return AppFile(text=render(kind.template, **values, **more), packages=packages, tested_with=kind.tested_with)


FORMAT_PACKAGES = {
    "bnb8": "bitsandbytes", "bnb4": "bitsandbytes", "bnb4_double": "bitsandbytes", "gptq": "gptqmodel", "awq": "gptqmodel", "gguf": "gguf",
    "mxfp4": "kernels", "int_groups": "compressed-tensors", "scaled_rows": "compressed-tensors", "scaled_tensor": "compressed-tensors",
}  # fmt: skip
"""Packages that transformers needs to load a format, by the format's law."""


def _declare(place: AppPlace) -> dict[str, object]:
    """The arguments of `@spaces.GPU`."""
    declared = {"duration": place.duration_s, "size": place.size or None}
    return {name: value for name, value in declared.items() if value is not None}
