"""The published files beside the architecture: why a total on a model's page is not its number of parameters.

Stored elements differ from parameters for a few reasons only, each recognised by the tensors' names, dtypes and places: layers for
multi-token prediction that `transformers` does not load, a tied head stored twice, scales of quantized weights, weights packed
several to an element. A caveat tells what is left as unexplained.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Protocol

from lib.model.spec import ModelSpec
from lib.provenance import Caveat

# A header may hold hundreds of thousands of names of a thousand characters each, so no expression here may go back over a name.
_MTP = re.compile(r"(?:^|\.)(?:mtp|mtp_\w+|nextn|eh_proj|enorm|hnorm|shared_head)(?:\.|$)")
_LAYER = re.compile(r"(?:^|\.)layers\.(\d+)(?=\.)")
_SCALES = (
    "scale", "scales", "scale_inv", "scale_2", "absmax", "quant_map", "qzeros", "zero_point", "zeros", "g_idx", "SCB", "weight_shape",
)  # fmt: skip
_BUFFERS = ("position_ids", "inv_freq", "masked_bias", "attn.bias", "attention.bias", "e_score_correction_bias")
_PACKED = frozenset({"U8", "I32", "I8", "F4", "F8_E8M0"})


class StoredWeights(Protocol):
    """A tensor as the header lists it: dtype in safetensors' words, shape in torch's order."""

    @property
    def dtype(self) -> str:
        """For instance "BF16"."""

    @property
    def shape(self) -> tuple[int, ...]:
        """For instance (4096, 4096)."""


def _elements(tensors: Iterable[StoredWeights]) -> int:
    return sum(math.prod(t.shape) for t in tensors)


def _layer_number(name: str) -> int:
    """The number of the innermost layer that the tensor belongs to; -1 for none."""
    numbers = _LAYER.findall(name)
    return int(numbers[-1]) if numbers else -1


def _is_scale(name: str) -> bool:
    """Whether the name is that of data which quantization adds: a scale, a zero point, or a part of bitsandbytes' state."""
    parent, _, last = name.rpartition(".")
    return name.endswith(_SCALES) or "nested_" in last[:-1] or (parent.endswith("quant_state") and last != "")


def _extra_layers(spec: ModelSpec, tensors: Mapping[str, StoredWeights]) -> set[str]:
    """Tensors of layers that the architecture does not have."""
    last = spec.dimensions.layers
    beyond = {n for n in tensors if last and _layer_number(n) >= last and "vision" not in n and "audio" not in n}
    return beyond | {n for n in tensors if _MTP.search(n)}


def _second_heads(spec: ModelSpec, names: Iterable[str]) -> set[str]:
    """Heads in the files of a model whose head is its embedding."""
    if any(g.kind == "head" for g in spec.tensors):
        return set()
    return {n for n in names if n.endswith("lm_head.weight") or n == "output.weight"}


def _missing_head(spec: ModelSpec, tensors: Mapping[str, StoredWeights]) -> int:
    """Parameters of an output head that the architecture has and the files have not (embedding models)."""
    heads = [g for g in spec.tensors if g.kind == "head"]
    stored = {n.rpartition(".")[0].rpartition(".")[2] for n in tensors}
    return sum(g.parameters for g in heads if g.name.rpartition(".")[0].rpartition(".")[2] not in stored)


def reconcile(spec: ModelSpec, tensors: Mapping[str, StoredWeights]) -> tuple[Caveat, ...]:
    """Caveats that account for the difference between stored elements and parameters.

    Args:
        spec: the architecture's counts.
        tensors: every tensor of the checkpoint, by name.
    """
    if not tensors or spec.source == "rule_of_thumb":
        return ()
    stored = _elements(tensors.values())
    difference = stored - spec.parameters_total
    if difference == 0:
        return ()
    extra = _extra_layers(spec, tensors)
    scales = {n for n in tensors if n not in extra and _is_scale(n)}
    second_heads = _second_heads(spec, tensors.keys() - extra)
    buffers = {n for n in tensors if n not in extra and n.endswith(_BUFFERS)}
    packed = {n for n, t in tensors.items() if n not in extra | scales and t.dtype in _PACKED}
    reasons = (
        ("extra_layers_stored", extra),
        ("tied_weight_stored", second_heads),
        ("buffers_stored", buffers),
        ("scales_stored", scales),
    )
    caveats = [Caveat(code, {"elements": _elements(tensors[n] for n in names), "stored": stored}) for code, names in reasons if names]
    explained = sum(_elements(tensors[n] for n in names) for _code, names in reasons)
    if missing := _missing_head(spec, tensors):
        explained -= missing
        caveats.append(Caveat("head_not_stored", {"parameters": missing}))
    if packed:
        count = _elements(tensors[n] for n in packed)
        caveats.append(Caveat("packed_weights", {"elements": count}))
    elif explained != difference:
        values = {"stored": stored, "parameters": spec.parameters_total, "unexplained": abs(difference - explained)}
        caveats.append(Caveat("unexplained_difference", values))
    return tuple(caveats)
