"""The models that come with the app: resolved specs and the configurations behind them, read on demand.

`lib/data/models.jsonl` holds one model a line, so that listing them costs no parsing and one answer parses one line.
`lib/data/model_configs.jsonl.gz` holds what they were resolved from. Both are written by `scripts/build_models.py`.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from importlib.resources import files
from typing import Any

from lib.errors import BadCatalog
from lib.laws.media_tokens import ImageRules, SoundRules
from lib.model.spec import (
    ActivationFit,
    CacheTerm,
    Dimensions,
    KeptFit,
    ModelSpec,
    PicturePass,
    Pipeline,
    Quantization,
    StageFit,
    StoredWeights,
    TensorGroup,
    VisionInput,
)
from lib.provenance import Caveat, Source

SPECS = "models.jsonl"
CONFIGS = "model_configs.jsonl.gz"
COUNTS = "model_counts.json"
"""Rows of both files, written with them."""
_START = '{"id":"'
_ROWS = (("tensors", TensorGroup), ("cache_terms", CacheTerm), ("activations", ActivationFit), ("caveats", Caveat), ("sources", Source))

_OPTIONAL = (
    "buffer_bytes", "gguf_files", "pipeline", "vision", "sound", "picture_pass", "read_with_token", "caps_logits", "drops_hidden",
    "drops_scores",
)  # fmt: skip
"""Fields that a row leaves out where they are empty."""

_PIPELINE_LISTS = ("fits", "kept", "blocks")
"""The last fields of a pipeline, whose rows are written apart."""


def _to_row(value: Any) -> list[Any]:
    """A flat dataclass as its field values in order, trailing defaults dropped."""
    row = [getattr(value, f.name) for f in fields(value)]
    defaults = [f.default for f in fields(value)]
    while row and row[-1] == defaults[len(row) - 1]:
        row.pop()
    return row


def _from_row(kind: Any, row: list[Any]) -> Any:
    return kind(**{f.name: tuple(v) if isinstance(v, list) else v for f, v in zip(fields(kind), row, strict=False)})


def to_json(spec: ModelSpec) -> dict[str, Any]:
    """A spec as plain JSON values; `from_json` is the inverse."""
    plain = {f.name: getattr(spec, f.name) for f in fields(spec)}
    for name, _kind in _ROWS:
        plain[name] = None if plain[name] is None else [_to_row(v) for v in plain[name]]
    for name in _OPTIONAL:
        if not plain[name]:
            del plain[name]
    if spec.pipeline is not None:
        of = spec.pipeline
        row = [getattr(of, f.name) for f in fields(of)[: -len(_PIPELINE_LISTS)]]
        plain["pipeline"] = [*row, [_to_row(fit) for fit in of.fits], [_to_row(fit) for fit in of.kept], list(of.blocks)]
    if (vision := spec.vision) is not None:
        cross = None if vision.cross is None else _to_row(vision.cross)
        plain["vision"] = [list(vision.rules), _to_row(vision.tower), vision.windowed_layers, vision.window, vision.kept_layers, cross]
    if spec.picture_pass is not None:
        plain["picture_pass"] = _to_row(spec.picture_pass)
    plain["dimensions"] = _to_row(spec.dimensions)
    quantization = spec.stored.quantization
    plain["stored"] = [spec.stored.dtype, spec.stored.bytes_by_dtype, None if quantization is None else _to_row(quantization)]
    return plain


def from_json(plain: Mapping[str, Any]) -> ModelSpec:
    """The spec that `to_json` wrote."""
    try:
        values = dict(plain)
        for name, kind in _ROWS:
            values[name] = None if values[name] is None else tuple(_from_row(kind, row) for row in values[name])
        if "pipeline" in values:
            *row, units, fits, kept, blocks = values["pipeline"]
            lists = [tuple(_from_row(kind, fit) for fit in rows) for kind, rows in ((StageFit, fits), (KeptFit, kept))]
            values["pipeline"] = _from_row(Pipeline, [*row, {name: tuple(sizes) for name, sizes in units.items()}, *lists, tuple(blocks)])
        if "vision" in values:
            rules, tower, windowed, window, kept_layers, cross = values["vision"]
            values["vision"] = VisionInput(
                rules=ImageRules(*rules[:10], *(tuple((high, wide) for high, wide in grids) for grids in rules[10:])),
                tower=_from_row(Dimensions, tower),
                windowed_layers=windowed,
                window=window,
                kept_layers=kept_layers,
                cross=None if cross is None else _from_row(CacheTerm, cross),
            )
        if "sound" in values:
            rule, positions, bins, kernels, strides = values["sound"]
            values["sound"] = SoundRules(rule, positions, bins, tuple(kernels), tuple(strides))
        if "picture_pass" in values:
            values["picture_pass"] = _from_row(PicturePass, values["picture_pass"])
        values["dimensions"] = _from_row(Dimensions, values["dimensions"])
        dtype, by_dtype, row = values["stored"]
        quantization = None if row is None else _from_row(Quantization, row)
        values["stored"] = StoredWeights(dtype=dtype, bytes_by_dtype=by_dtype, quantization=quantization)
        return ModelSpec(**values)
    except (KeyError, TypeError, ValueError) as error:
        raise BadCatalog(f"A bundled model cannot be read ({type(error).__name__}). Run scripts/build_models.py again.") from None


def _check_count(name: str, rows: int) -> None:
    """Refuse a file that was cut: `model_counts.json` has the number of its rows."""
    stated = json.loads(files("lib.data").joinpath(COUNTS).read_text(encoding="utf-8"))[name]
    if rows != stated:
        raise BadCatalog(f"{name} has {rows} rows instead of {stated}: it was cut or changed. Run scripts/build_models.py again.")


@cache
def _lines() -> dict[str, str]:
    """Lines by lower-case id, unparsed."""
    text = files("lib.data").joinpath(SPECS).read_text(encoding="utf-8")
    lines = [line for line in text.split("\n") if line]
    if not all(line.startswith(_START) for line in lines):
        raise BadCatalog(f"{SPECS} holds a line that does not start with an id. Run scripts/build_models.py again.")
    _check_count(SPECS, len(lines))
    return {line[len(_START) : line.index('"', len(_START))].lower(): line for line in lines}


@cache
def list_ids() -> tuple[str, ...]:
    """Ids of all bundled models, in alphabetical order."""
    return tuple(sorted((line[len(_START) : line.index('"', len(_START))] for line in _lines().values()), key=str.lower))


@cache
def _spec(key: str) -> ModelSpec:
    return from_json(json.loads(_lines()[key]))


def find_spec(model_id: str) -> ModelSpec | None:
    """The bundled model with this id (capitals do not matter), or None."""
    key = model_id.lower()
    return _spec(key) if key in _lines() else None


@cache
def _configs() -> dict[str, dict[str, Any]]:
    packed = files("lib.data").joinpath(CONFIGS).read_bytes()
    try:
        records = [json.loads(line) for line in gzip.decompress(packed).decode().split("\n") if line]
    except (EOFError, OSError, ValueError):
        raise BadCatalog(f"{CONFIGS} cannot be unpacked: it was cut or changed. Run scripts/build_models.py again.") from None
    _check_count(CONFIGS, len(records))
    return {record["hub_id"].lower(): record for record in records}


def find_config(model_id: str) -> dict[str, Any] | None:
    """The configuration that a bundled model was resolved from; for a pipeline, one by component. None if it is not bundled."""
    record = _configs().get(model_id.lower())
    return None if record is None else record["config"]
