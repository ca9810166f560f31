"""A model of timm: its config.json names an architecture that only timm can build, so that its parameters are read off the weights' header.

What it takes while it computes follows from pixels and is not known here. Layers are not told apart; statistics of batch norms are buffers.
Source: transformers 5.23.0, `TimmWrapperConfig` (a config.json with `architecture`, `num_classes` and `pretrained_cfg`), read 2026-11-22.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

from lib.errors import UnsupportedModel, quote_value
from lib.model.spec import ModelSpec, StoredTensor, StoredWeights, TensorGroup, TensorKind, make_tokenless_spec
from lib.provenance import Source

_BUFFERS = ("running_mean", "running_var", "num_batches_tracked")
_WIDTHS = {"F64": 8, "I64": 8, "F32": 4, "F16": 2, "BF16": 2}
_DTYPES = {"F32": "float32", "F16": "float16", "BF16": "bfloat16"}
_RANK_OF_CONV = 4


def is_timm(config: Mapping[str, Any]) -> bool:
    """Whether a config.json is one of timm's: an architecture by name, and none of the types of `transformers`."""
    return (
        isinstance(config.get("architecture"), str) and "model_type" not in config and bool({"num_classes", "pretrained_cfg"} & set(config))
    )


def resolve_timm(
    config: Mapping[str, Any],
    tensors: Mapping[str, StoredTensor],
    *,
    id: str = "",  # noqa: A002 the field's own name
    task: str = "",
    license: str | None = None,  # noqa: A002
    gated: bool | None = None,
    checked: str = "",
) -> ModelSpec:
    """Resolve a model of timm from its configuration and the header of its weights.

    Raises:
        UnsupportedModel: there is no header to read (pickled weights).
    """
    architecture = str(config["architecture"])[:200]
    if not tensors:
        raise UnsupportedModel(
            f"{quote_value(id)} is a model of timm without safetensors, so nothing counts its parameters. Give the parameter count instead."
        )
    parameters = {name: tensor for name, tensor in tensors.items() if not name.endswith(_BUFFERS)}
    by_dtype: Counter[str] = Counter()
    for tensor in parameters.values():
        by_dtype[tensor.dtype] += math.prod(tensor.shape) * _WIDTHS.get(tensor.dtype, 4)
    head = (
        str((config.get("pretrained_cfg") or {}).get("classifier") or "head")
        if isinstance(config.get("pretrained_cfg"), Mapping)
        else "head"
    )
    groups = tuple(
        TensorGroup(
            name=name,
            component="head" if name.startswith((f"{head}.", "head.", "fc.", "classifier.")) else "backbone",
            kind=_kind(name, tensor.shape),
            shape=tensor.shape,
            count=1,
        )
        for name, tensor in parameters.items()
    )
    buffers = sum(math.prod(t.shape) * _WIDTHS.get(t.dtype, 4) for name, t in tensors.items() if name not in parameters)
    return make_tokenless_spec(
        groups,
        id=id,
        architecture=architecture,
        task=task or "image-classification",
        library="timm",
        source="safetensors",
        stored=StoredWeights(dtype=_DTYPES.get(max(by_dtype, key=lambda kind: by_dtype[kind]), ""), bytes_by_dtype=dict(by_dtype)),
        license=license,
        gated=gated,
        sources=(Source(what="parameters", source=f"header of the weights of {architecture}, a model of timm", checked=checked),),
        buffer_bytes=buffers,
    )


def _kind(name: str, shape: tuple[int, ...]) -> TensorKind:
    if len(shape) <= 1:
        return "norm" if "norm" in name or "bn" in name else "other"
    return "conv" if len(shape) == _RANK_OF_CONV else "linear"
