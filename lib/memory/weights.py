"""Weights of a spec in one format: by component, and what tensor parallelism can cut."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from lib.laws import Law, weights_gguf
from lib.laws.weights import BY_COUNT, LAW, weight_bytes
from lib.laws.weights_gguf import GgufShape, weight_bytes_gguf
from lib.precision import WeightFormat, weight_format

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lib.model.spec import ModelSpec, TensorGroup

AS_STORED = Law(equation="Σ bytes of the tensors, each in its own type", source="header of the GGUF file")
_CUT = frozenset({"linear", "expert", "embedding", "head"})
_ENDS = frozenset({"embedding", "head"})


class Weights(NamedTuple):
    """Bytes by component (they add up to `total`); tensor parallelism cuts `cut`; `ends` is the larger of table and head."""

    total: int
    by_component: dict[str, int]
    cut: int
    ends: int
    largest_matrix: int
    law: Law


def weights(spec: ModelSpec, precision: str, compute_dtype: str, *, keeps_fp32: bool, several: bool) -> Weights:
    """The weights in one format; a bare parameter count takes the format's published bits per weight.

    Args:
        spec: the model.
        precision: a resolved format name.
        compute_dtype: what the tensors are in that the format does not take.
        keeps_fp32: the engine keeps in float32 what transformers keeps so.
        several: more than one device shares them, so `cut` is asked for.
    """
    form = weight_format(precision)

    def size(tensors: Sequence[TensorGroup]) -> int:
        return _bytes(spec, form, tensors, compute_dtype, keeps_fp32=keeps_fp32)

    if not spec.tensors:
        total = -(-round(spec.parameters_total * form.effective_bits) // 8)
        return Weights(total, {"parameters": total}, total, 0, 0, BY_COUNT)
    total = size(spec.tensors)
    parts: dict[str, list[TensorGroup]] = {}
    for group in spec.tensors:
        parts.setdefault(group.component, []).append(group)
    by_component = {name: size(groups) for name, groups in parts.items()}
    if sum(by_component.values()) != total:
        by_component = {"weights": total}
    cut = size([g for g in spec.tensors if g.kind in _CUT]) if several else total
    ends = max((size([g]) for g in spec.tensors if g.kind in _ENDS), default=0)
    matrices = [g.shape[-1] * g.shape[-2] for g in spec.tensors if g.kind == "linear" and len(g.shape) > 1]
    law = AS_STORED if spec.library == "gguf" else weights_gguf.LAW if form.law == "gguf" else LAW
    return Weights(total, by_component, min(cut, total), ends, max(matrices, default=0), law)


def component_bytes(spec: ModelSpec, precision: str, compute_dtype: str) -> dict[str, int]:
    """The weights of each component in a format of its own, in transformers and diffusers."""
    parts: dict[str, list[TensorGroup]] = {}
    for group in spec.tensors:
        parts.setdefault(group.component, []).append(group)
    form = weight_format(precision)
    return {name: _bytes(spec, form, groups, compute_dtype, keeps_fp32=True) for name, groups in parts.items()}


def _bytes(spec: ModelSpec, form: WeightFormat, tensors: Sequence[TensorGroup], rest: str, *, keeps_fp32: bool) -> int:
    if spec.library == "gguf":
        return sum(group.stored_bytes for group in tensors)
    if form.law == "gguf":
        d = spec.dimensions
        experts = max((g.experts for g in spec.tensors), default=0)
        queries = d.attention_heads // d.kv_heads if d.kv_heads else 1
        return weight_bytes_gguf(
            tensors, form.name.removeprefix("gguf:"), GgufShape(layers=d.layers, queries_per_kv=queries, experts=experts)
        )
    kept = spec.stored.quantization
    stored = kept if kept is not None and kept.format == form.name else None
    group = stored.group_size if stored else 0
    return weight_bytes(tensors, form, rest=rest, stored=stored is not None, group=group, keeps_fp32=keeps_fp32)
