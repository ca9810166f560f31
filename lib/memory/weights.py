"""Weights of a spec in one format: by group of tensors, by component, and what tensor parallelism can cut."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from lib.laws import Law
from lib.laws.weights import BY_COUNT, GGUF_LAW, LAW, GgufShape, bytes_by_group, bytes_by_group_gguf
from lib.precision import weight_format

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lib.model.spec import ModelSpec

AS_STORED = Law(equation="Σ bytes of the tensors, each in its own type", source="header of the GGUF file")
_CUT = frozenset({"linear", "expert", "embedding", "head"})
_ENDS = frozenset({"embedding", "head"})


class Weights(NamedTuple):
    """Bytes of each group of `ModelSpec.tensors`, and by component: both add up to `total`.

    Tensor parallelism cuts `cut`; `ends` is the larger of table and head.
    """

    total: int
    by_group: tuple[int, ...]
    by_component: dict[str, int]
    cut: int
    ends: int
    largest_matrix: int
    law: Law


def weights(spec: ModelSpec, precision: str, compute_dtype: str, *, keeps_fp32: bool) -> Weights:
    """The weights in one format; a bare parameter count takes the format's published bits per weight.

    Args:
        spec: the model.
        precision: a resolved format name.
        compute_dtype: what the tensors are in that the format does not take.
        keeps_fp32: the engine keeps in float32 what transformers keeps so.
    """
    form = weight_format(precision)
    if not spec.tensors:
        total = -(-round(spec.parameters_total * form.effective_bits) // 8)
        return Weights(total, (), {"parameters": total}, total, 0, 0, BY_COUNT)
    sizes = group_bytes(spec, precision, compute_dtype, keeps_fp32=keeps_fp32)
    pairs = tuple(zip(spec.tensors, sizes, strict=True))
    cut = sum(size for group, size in pairs if group.kind in _CUT)
    ends = max((size for group, size in pairs if group.kind in _ENDS), default=0)
    matrices = [g.shape[-1] * g.shape[-2] for g in spec.tensors if g.kind == "linear" and len(g.shape) > 1]
    law = AS_STORED if spec.library == "gguf" else GGUF_LAW if form.law == "gguf" else LAW
    return Weights(sum(sizes), sizes, sum_by_component(spec, sizes), cut, ends, max(matrices, default=0), law)


def group_bytes(spec: ModelSpec, precision: str, compute_dtype: str, *, keeps_fp32: bool) -> tuple[int, ...]:
    """Bytes of each group of the spec's tensors in one format; the arguments are those of `weights`."""
    form = weight_format(precision)
    if spec.library == "gguf":
        return tuple(group.stored_bytes for group in spec.tensors)
    if form.law == "gguf":
        d = spec.dimensions
        experts = max((g.experts for g in spec.tensors), default=0)
        queries = d.attention_heads // d.kv_heads if d.kv_heads else 1
        shape = GgufShape(layers=d.layers, queries_per_kv=queries, experts=experts)
        return tuple(bytes_by_group_gguf(spec.tensors, form.name.removeprefix("gguf:"), shape))
    quantization = spec.stored.quantization
    stored = quantization if quantization is not None and quantization.format == form.name else None
    group = stored.group_size if stored else 0
    return tuple(bytes_by_group(spec.tensors, form, rest=compute_dtype, stored=stored is not None, group=group, keeps_fp32=keeps_fp32))


def sum_by_component(spec: ModelSpec, sizes: Iterable[int]) -> dict[str, int]:
    """Sizes of the groups added up for each component."""
    totals: dict[str, int] = {}
    for group, size in zip(spec.tensors, sizes, strict=True):
        totals[group.component] = totals.get(group.component, 0) + size
    return totals
