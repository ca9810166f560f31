"""Bytes of a model's weights as a llama.cpp file: a file type is a mix of block types, chosen tensor by tensor.

    M = Σ_t bytes(type(t)) · elements(t) / block(type(t))

Q4_K_M, for instance, stores most matrices as Q4_K and as Q6_K the output matrix (or the embedding that doubles as one) and the
value and down projections of every third layer and of the first and last eighth. One-dimensional tensors, routers and small
convolutions stay float32. A row that a block does not divide falls back to a block of 32, else to float16.
Vision and audio towers are kept apart, in a float16 file of their own, and are counted so.
Source: llama.cpp, `src/llama-quant.cpp` at 007dbbf3 (mix and fallbacks, without an importance matrix); block sizes are ggml's.
Limits: layers of one group count as neighbours, so a model that mixes dense and sparse layers may be a few tensors off.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from lib.laws import Law
from lib.laws.weights import Tensors

LAW = Law(equation="Σ block bytes · elements / block length over all tensors", source="llama.cpp, src/llama-quant.cpp at 007dbbf3")

BLOCKS: dict[str, tuple[int, int]] = {
    "F32": (1, 4), "F16": (1, 2), "BF16": (1, 2), "Q8_0": (32, 34), "Q6_K": (256, 210), "Q5_K": (256, 176), "Q5_1": (32, 24),
    "Q5_0": (32, 22), "Q4_K": (256, 144), "Q4_1": (32, 20), "Q4_0": (32, 18), "IQ4_NL": (32, 18), "IQ4_XS": (256, 136), "Q3_K": (256, 110),
    "IQ3_S": (256, 110), "Q2_K": (256, 84), "MXFP4": (32, 17),
    "IQ3_XXS": (256, 98), "IQ2_S": (256, 82), "IQ2_XS": (256, 74), "IQ2_XXS": (256, 66), "IQ1_M": (256, 56), "IQ1_S": (256, 50),
    "TQ2_0": (256, 66), "TQ1_0": (256, 54), "NVFP4": (64, 36), "Q1_0": (128, 18), "Q8_1": (32, 40), "Q8_K": (256, 292),
    "F64": (1, 8), "I64": (1, 8), "I32": (1, 4), "I16": (1, 2), "I8": (1, 1),
}  # fmt: skip
"""ggml's block types: weights in a block, bytes of a block."""

FILE_TYPES: dict[int, str] = {
    0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 7: "Q8_0", 8: "Q5_0", 9: "Q5_1", 10: "Q2_K", 11: "Q3_K_S", 12: "Q3_K_M", 13: "Q3_K_L",
    14: "Q4_K_S", 15: "Q4_K_M", 16: "Q5_K_S", 17: "Q5_K_M", 18: "Q6_K", 19: "IQ2_XXS", 20: "IQ2_XS", 21: "Q2_K_S", 22: "IQ3_XS",
    23: "IQ3_XXS", 24: "IQ1_S", 25: "IQ4_NL", 26: "IQ3_S", 27: "IQ3_M", 28: "IQ2_S", 29: "IQ2_M", 30: "IQ4_XS", 31: "IQ1_M", 32: "BF16",
    36: "TQ1_0", 37: "TQ2_0", 38: "MXFP4_MOE", 39: "NVFP4", 40: "Q1_0",
}  # fmt: skip
"""llama.cpp's file types by `general.file_type`: what a file was made as, whatever single tensors are stored in."""

_TYPICAL = {"Q5_K": "Q5_K_M", "Q4_K": "Q4_K_M", "Q3_K": "Q3_K_M", "MXFP4": "MXFP4_MOE"}


def file_type_of(block: str) -> str:
    """The usual file type of files whose tensors are mostly of this block type."""
    name = _TYPICAL.get(block, block)
    return name if name in FILE_TYPES.values() else "F16"


_BASE = {"Q5_K_M": "Q5_K", "Q5_K_S": "Q5_K", "Q4_K_M": "Q4_K", "Q4_K_S": "Q4_K", "Q3_K_L": "Q3_K", "Q3_K_M": "Q3_K", "Q3_K_S": "Q3_K",
         "IQ3_M": "IQ3_S", "MXFP4_MOE": "Q8_0"}  # fmt: skip
_FALLBACK = {"Q6_K": "Q8_0", "Q5_K": "Q5_1", "Q4_K": "Q5_0", "Q3_K": "Q4_0", "Q2_K": "Q4_0", "IQ3_S": "IQ4_NL", "IQ4_XS": "IQ4_NL"}
_APART = frozenset({"vision_tower", "audio_tower", "projector"})
_ROLES = (
    ("qkv", re.compile(r"\.(?:qkv_proj|query_key_value|c_attn|Wqkv|W_pack|wqkv|in_proj_qkv\w*|qkv)\.weight$")),
    ("v", re.compile(r"\.(?:v_proj|value|wv|kv_b_proj)\.weight$")),
    ("k", re.compile(r"\.(?:k_proj|key|wk)\.weight$")),
    ("down", re.compile(r"(?:down_proj|\.fc2|\.wo|dense_4h_to_h|fc_out|mlp\.c_proj|\.w2|\.output_linear)(?:\.weight)?$")),
    ("out", re.compile(r"\.(?:o_proj|out_proj|self_attention\.dense|attn\.c_proj|attention\.dense|self_attn\.dense)\.weight$")),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GgufShape:
    """What the mix asks about the model: layers, query heads per key/value head, routed experts (0 = dense)."""

    layers: int
    queries_per_kv: int
    experts: int


def _role(tensor: Tensors, *, tied: bool) -> str:
    if tensor.kind == "head" or (tied and tensor.component == "embeddings"):
        return "output"
    return next((role for role, pattern in _ROLES if pattern.search(tensor.name)), "other")


def _more_bits(layer: int, layers: int) -> bool:
    """The layers that a medium mix spends more on: first and last eighth, and every third between."""
    return layer < layers // 8 or layer >= 7 * layers // 8 or (layer - layers // 8) % 3 == 2  # noqa: PLR2004


def _value_type(kind: str, base: str, layer: int, layers: int, shape: GgufShape) -> str:
    """Block type of a value projection (or of the fused one)."""
    shared = shape.queries_per_kv >= 4  # noqa: PLR2004
    early = 2 if kind == "Q3_K_M" else 4
    block = {
        "Q2_K": "Q4_K" if shared else "Q3_K",
        "IQ3_S": "Q4_K" if shared else base,
        "IQ3_M": "Q4_K",
        "Q3_K_M": "Q5_K" if layer < early else "Q4_K",
        "Q3_K_L": "Q5_K",
        "IQ4_NL": "Q5_K" if shared else base,
        "IQ4_XS": "Q5_K" if shared else base,
        "Q4_K_S": "Q5_K" if layer < early else base,
        "Q4_K_M": "Q6_K" if _more_bits(layer, layers) else base,
        "Q5_K_M": "Q6_K" if _more_bits(layer, layers) else base,
    }.get(kind, base)
    if shape.layers == 80 and shape.queries_per_kv > 1 and block in {"Q3_K", "Q4_K"}:  # noqa: PLR2004 the 70B shape
        block = "Q5_K"
    return "Q8_0" if shape.experts == 8 else block  # noqa: PLR2004 the eight-expert shape


def _down_type(kind: str, base: str, layer: int, layers: int) -> str:
    """Block type of a down projection."""
    eighth = layer < layers // 8
    return {
        "Q2_K": "Q3_K",
        "Q3_K_M": "Q5_K" if layer < layers // 16 else "Q4_K",
        "Q3_K_L": "Q5_K",
        "IQ3_M": "Q4_K" if eighth else base,
        "Q4_K_M": "Q6_K" if _more_bits(layer, layers) else base,
        "Q5_K_M": "Q6_K" if _more_bits(layer, layers) else base,
        "Q4_K_S": "Q5_K" if eighth else base,
        "IQ4_NL": "Q5_K" if eighth else base,
        "IQ4_XS": "Q5_K" if eighth else base,
    }.get(kind, base)


def _out_type(kind: str, base: str, shape: GgufShape) -> str:
    """Block type of an attention output projection."""
    if shape.experts == 8:  # noqa: PLR2004
        small = {"Q2_K", "Q3_K_S", "Q3_K_M", "IQ4_NL", "Q4_K_S", "Q4_K_M", "IQ3_S", "IQ3_M", "IQ4_XS"}
        return "Q5_K" if kind in small else base
    return {"Q2_K": "Q3_K", "Q3_K_M": "Q4_K", "Q3_K_L": "Q5_K", "IQ3_M": "Q4_K"}.get(kind, base)


def block_type(kind: str, role: str, layer: int, layers: int, shape: GgufShape) -> str:
    """The block type that a file type gives a tensor of this role in this layer.

    Args:
        kind: the file type, "Q4_K_M".
        role: "output", "qkv", "v", "k", "down", "out", "expert" or "other".
        layer: its place among the tensors of its role.
        layers: how many there are.
        shape: of the model.
    """
    base = _BASE.get(kind, kind)
    if kind in {"F32", "F16", "BF16"}:
        return kind
    if kind == "MXFP4_MOE":
        return "MXFP4" if role == "expert" else base
    wide = "Q8_0" if shape.experts == 8 else base  # noqa: PLR2004
    value = _value_type(kind, base, layer, layers, shape)
    return {
        "output": base if base == "Q8_0" else "Q6_K",
        "qkv": value,
        "v": value,
        "k": wide,
        "down": _down_type(kind, base, layer, layers),
        "out": _out_type(kind, base, shape),
    }.get(role, base)


def _fitting(block: str, row: int) -> str:
    """The block type, or the one that llama.cpp falls back to when its block does not divide the row."""
    if row % BLOCKS[block][0] == 0:
        return block
    smaller = _FALLBACK.get(block, "F16")
    return smaller if row % BLOCKS[smaller][0] == 0 else "F16"


def _tensor_bytes(tensor: Tensors, kind: str, role: str, layer: int, shape: GgufShape) -> int:
    block = block_type(kind, role, layer, tensor.count, shape)
    row = tensor.shape[-1]
    if role == "output" and row % BLOCKS[block][0]:
        block = "Q8_0"
    weights, size = BLOCKS[_fitting(block, row)]
    return math.prod(tensor.shape) * size // weights


def bytes_by_group_gguf(tensors: Iterable[Tensors], kind: str, shape: GgufShape) -> Iterator[int]:
    """Bytes of each group, all of a model's, in a llama.cpp file type ("Q4_K_M").

    Raises:
        KeyError: not one of the file types of `lib.precision.GGUF_TYPES`.
    """
    everything = tuple(tensors)
    tied = not any(t.kind == "head" for t in everything)
    for tensor in everything:
        size = math.prod(tensor.shape)
        if tensor.component in _APART:
            yield tensor.count * size * (2 if len(tensor.shape) > 1 else 4)
        elif tensor.kind not in {"linear", "expert", "embedding", "head"} or len(tensor.shape) < 2 or tensor.name.endswith("bias"):  # noqa: PLR2004
            yield tensor.count * size * 4
        else:
            role = _role(tensor, tied=tied)
            role = "expert" if kind == "MXFP4_MOE" and tensor.kind == "expert" else role
            yield sum(_tensor_bytes(tensor, kind, role, layer, shape) for layer in range(tensor.count))
