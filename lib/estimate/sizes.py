"""The sizes that laws for a plain decoder need, from a spec."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from lib.model.spec import ModelSpec


class Sizes(NamedTuple):
    """Widths of one decoder layer, per token."""

    hidden: int
    query_width: int
    key_width: int
    mlp_width: int
    heads: int
    kv_heads: int
    vocabulary: int
    layers: int
    known: bool


# Published decoders are some 128 times wider than they are deep (Llama 7B: 4096 and 32); a layer holds about 12·h² parameters.
_ASPECT = 128
_PER_LAYER = 12
_WIDENING = 4
_VOCABULARY = 128_000
_FUSED = 3  # a fused tensor has the experts as its first extent


def _typical(parameters: int) -> Sizes:
    """A decoder of the usual proportions with this many parameters: N = L·12·h² with L = h / 128."""
    hidden = max(_ASPECT, round((parameters * _ASPECT / _PER_LAYER) ** (1 / 3) / _ASPECT) * _ASPECT)
    heads = hidden // _ASPECT
    return Sizes(hidden, hidden, hidden, _WIDENING * hidden, heads, heads, _VOCABULARY, heads, known=False)


def _expert_width(spec: ModelSpec) -> int:
    """Width of the experts that one token reaches in a layer: k · parameters of one expert / 3h."""
    fused = [g for g in spec.tensors if g.kind == "expert" and g.experts]
    hidden = spec.dimensions.hidden_size
    if not fused or not hidden:
        return 0
    layers = max([1, *(g.count // g.experts if len(g.shape) < _FUSED else g.count for g in fused)])
    each = sum(g.parameters for g in fused) // (fused[0].experts * layers)
    return max(g.experts_per_token for g in fused) * each // (3 * hidden)


def sizes(spec: ModelSpec) -> Sizes:
    """Sizes of the decoder; of a typical one with as many parameters when only a count is known."""
    d = spec.dimensions
    if not d.hidden_size:
        return _typical(spec.parameters_total)
    heads = d.attention_heads
    width = d.head_dim or (d.hidden_size // heads if heads else 0)
    kv_heads = d.kv_heads or heads
    mlp = max(d.intermediate_size, _expert_width(spec))
    return Sizes(d.hidden_size, heads * width, kv_heads * width, mlp, heads, kv_heads, d.vocab_size, d.layers, known=True)
