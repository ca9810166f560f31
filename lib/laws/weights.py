"""Bytes of a model's weights in one number format.

    M = Σ_t n_t · (payload(t) + scales(t))      over the groups of tensors t, n_t tensors each

For a matrix of r rows (out) and c columns (in), w bits a weight and g weights a scale, one format a line:

    plain          r·c·w/8                              float32 where transformers keeps it
    fp8_block      r·c      + 4·⌈r/g⌉·⌈c/g⌉             one float32 scale per g × g block
    fp8_block_e8m0 r·c      +   ⌈r/g⌉·⌈c/g⌉             the same with a one-byte exponent as scale
    scaled_rows    r·c      + 4·r                       one float32 scale per row
    scaled_tensor  r·c      + 8                         one float32 scale for the matrix, one for its input
    bnb8           r·c      + 4·r                       row maxima in float32
    bnb4           ⌈r·c/2⌉  + 4·⌈r·c/g⌉                 block maxima in float32 (no double quantization)
    bnb4_double    ⌈r·c/2⌉  + m + 4·⌈m/256⌉ + 4         m = ⌈r·c/g⌉ maxima, quantized to a byte in blocks of 256
    gptq           r·c·w/8  + 2·r·⌈c/g⌉ + zeros + 4·c   float16 scales, zero points packed like weights, group index
    awq            r·c·w/8  + 2·r·⌈c/g⌉ + zeros         the same without the index
    int_groups     r·c·w/8  + 2·r·⌈c/g⌉ + 16            16-bit scales, symmetric; the shape in two int64
    mxfp4          r·c/2    + r·⌈c/g⌉                   one exponent byte per g weights; biases of the experts in float32
    nvfp4          r·c/2    + r·⌈c/g⌉ + 8               one fp8 scale per g weights, two float32 for the matrix

A stack of E experts is E matrices. Tensors that a format does not cover stay in the checkpoint's half precision.
Sources: the quantizers of transformers 5.23.0 (bitsandbytes, finegrained fp8, mxfp4), AutoGPTQ and AutoAWQ tensor layouts,
compressed-tensors "pack-quantized", NVIDIA ModelOpt NVFP4; checked against checkpoints' published element counts in the tests.
Limits: parameters only; buffers, packing workspace and the allocator's rounding belong to the runtime.

In a llama.cpp file a file type is a mix of block types, chosen tensor by tensor.

    M = Σ_t bytes(type(t)) · elements(t) / block(type(t))

Q4_K_M, for instance, stores most matrices as Q4_K. It stores as Q6_K the output matrix (or the embedding that doubles as one), and the
value and down projections of every third layer and of the first and last eighth. One-dimensional tensors, routers and small convolutions
stay float32. A row that a block does not divide falls back to a block of 32, else to float16.
Vision and audio towers are kept apart, in a float16 file of their own, and are counted so.
Source: llama.cpp, `src/llama-quant.cpp` at 007dbbf3 (mix and fallbacks, without an importance matrix); block sizes are ggml's.
Limits: layers of one group count as neighbours, so a model that mixes dense and sparse layers may be a few tensors off.
"""

# ruff: noqa: D102 the class docstring of the protocol says it
from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

from lib.laws import Law
from lib.laws.media_tokens import TOWERS
from lib.precision import WeightFormat, weight_format
from lib.units import Bytes

LAW = Law(equation="Σ n·(payload + scales) over all tensors", source="tensor layouts of the quantizers named in lib/laws/weights.py")
BY_COUNT = Law(equation="P · bits / 8", source="effective bits per weight of the format, lib/precision.py")

STACK = frozenset({"language_model", "decoder", "encoder", "text_encoder", "transformer", "transformer_2", "unet"})
"""Components whose matrices post-training quantization converts: language and denoising models; towers, projector, head, VAE stay."""
ENDS = frozenset({"embedding", "head"})
"""Kinds of tensors before the first layer and behind the last."""


class Tensors(Protocol):
    """A group of equal tensors, as far as laws look at it (`lib.model.spec.TensorGroup`)."""

    @property
    def name(self) -> str: ...
    @property
    def component(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def count(self) -> int: ...
    @property
    def fp32(self) -> bool: ...
    @property
    def fp32_in_fp16(self) -> bool: ...
    @property
    def skipped(self) -> bool: ...
    @property
    def convertible(self) -> bool: ...
    @property
    def stored_as(self) -> str: ...
    @property
    def experts(self) -> int: ...
    @property
    def experts_per_token(self) -> int: ...


def is_tied(tensors: Iterable[Tensors]) -> bool:
    """Whether the model multiplies by its table of words where others have an output projection (a head) of their own."""
    return not any(tensor.kind == "head" for tensor in tensors)


def _matrices(shape: tuple[int, ...]) -> tuple[int, int, int]:
    """How many matrices a tensor stacks, with their rows and columns."""
    if len(shape) < 2:  # noqa: PLR2004 a vector is one row
        return 1, 1, math.prod(shape)
    return math.prod(shape[:-2]), shape[-2], shape[-1]


def _zeros(rows: int, columns: int, bits: int, group: int) -> int:
    """Zero points, packed into int32 along the rows."""
    return 4 * math.ceil(rows * bits / 32) * math.ceil(columns / group)


_Matrix = Callable[[int, int, int, int], int]

_MATRIX_BYTES: dict[str, _Matrix] = {
    "fp8_block": lambda r, c, w, g: r * c * w // 8 + 4 * math.ceil(r / g) * math.ceil(c / g),
    "fp8_block_e8m0": lambda r, c, w, g: r * c * w // 8 + math.ceil(r / g) * math.ceil(c / g),
    "scaled_rows": lambda r, c, w, _g: r * c * w // 8 + 4 * r,
    "scaled_tensor": lambda r, c, w, _g: r * c * w // 8 + 8,
    "bnb8": lambda r, c, w, _g: r * c * w // 8 + 4 * r,
    "bnb4": lambda r, c, w, g: math.ceil(r * c * w / 8) + 4 * math.ceil(r * c / g),
    "bnb4_double": lambda r, c, w, g: math.ceil(r * c * w / 8) + (m := math.ceil(r * c / g)) + 4 * math.ceil(m / 256) + 4,
    "gptq": lambda r, c, w, g: 4 * r * math.ceil(c * w / 32) + 2 * r * math.ceil(c / g) + _zeros(r, c, w, g) + 4 * c,
    "awq": lambda r, c, w, g: 4 * c * math.ceil(r * w / 32) + 2 * r * math.ceil(c / g) + _zeros(r, c, w, g),
    "int_groups": lambda r, c, w, g: 4 * r * math.ceil(c * w / 32) + 2 * r * math.ceil(c / g) + 16,
    "mxfp4": lambda r, c, w, g: r * math.ceil(c * w / 8) + r * math.ceil(c / g),
    "nvfp4": lambda r, c, w, g: r * math.ceil(c * w / 8) + r * math.ceil(c / g) + 8,
}
"""Bytes of one matrix: rows, columns, bits of a weight, weights per scale."""


def converts(tensor: Tensors, form: WeightFormat, *, stored: bool, mixture: bool) -> bool:
    """Whether the format converts these tensors.

    Args:
        tensor: the group.
        form: the format.
        stored: the checkpoint comes in this format: its own list of skipped modules decides.
        mixture: the model has routed experts.
    """
    if stored and tensor.stored_as:
        return len(tensor.shape) > 1 and not tensor.name.endswith("bias")  # the head too, where it is listed
    matrix, expert = tensor.kind == "linear", tensor.kind == "expert" and len(tensor.shape) > 1
    if not (matrix or expert) or (expert and _is_bias(tensor)):
        return False
    if stored:
        language = form.law not in {"gptq", "awq"} or tensor.component in STACK  # these two only see the decoder's blocks
        return not tensor.skipped and language and (expert or form.takes != "experts")
    if form.takes == "modules":
        return tensor.convertible and matrix
    if form.takes == "modules_and_experts":
        return tensor.convertible
    wanted = expert or (matrix and not (form.takes == "experts" and mixture))
    return wanted and tensor.component in STACK


def _is_bias(tensor: Tensors) -> bool:
    """Biases of fused experts are experts × features: two axes where their matrices have three."""
    return tensor.kind == "expert" and tensor.name.endswith("bias")


def weight_bytes(
    tensors: Iterable[Tensors], form: WeightFormat, *, rest: str = "bf16", stored: bool = False, group: int = 0, keeps_fp32: bool = True
) -> Bytes:
    """Bytes that the weights occupy in one format.

    Args:
        tensors: every group of the model.
        form: a format other than llama.cpp's (those mix types: `bytes_by_group_gguf`).
        rest: "fp32", "fp16" or "bf16": what the tensors are in that the format does not take.
        stored: the checkpoint comes in this format.
        group: weights per scale where the checkpoint states another than the format's customary one; -1 = a whole row.
        keeps_fp32: the engine keeps the tensors in float32 that transformers keeps so.
    """
    return Bytes(sum(bytes_by_group(tensors, form, rest=rest, stored=stored, group=group, keeps_fp32=keeps_fp32)))


def bytes_by_group(
    tensors: Iterable[Tensors], form: WeightFormat, *, rest: str, stored: bool, group: int, keeps_fp32: bool
) -> Iterator[int]:
    """Bytes of each group; the arguments are those of `weight_bytes`."""
    everything = tuple(tensors)
    mixture = any(t.kind == "expert" for t in everything)
    plain = form.name if form.law == "plain" else rest
    element = 4 if plain == "fp32" else 2
    for tensor in everything:
        if form.law != "plain" and converts(tensor, form, stored=stored, mixture=mixture):
            own = weight_format(tensor.stored_as) if stored and tensor.stored_as else form
            stack, rows, columns = _matrices(tensor.shape)
            per_scale = own.group if own is not form else group or form.group
            yield tensor.count * stack * _MATRIX_BYTES[own.law](rows, columns, own.bits, per_scale if per_scale > 0 else columns)
        elif form.law == "mxfp4" and _is_bias(tensor):
            yield tensor.count * math.prod(tensor.shape) * 4
        elif keeps_fp32:
            fp32 = tensor.fp32 or (tensor.fp32_in_fp16 and plain == "fp16")
            yield tensor.count * math.prod(tensor.shape) * (4 if fp32 else element)
        else:
            yield tensor.count * math.prod(tensor.shape) * element


_OVERHEAD = Fraction(6, 5)


def rule_of_thumb_bytes(parameters: int, bytes_per_parameter: float = 2) -> Bytes:
    """The community's estimate of the memory a model needs: M = P · b · 1.2, rounded to a whole byte.

        P  parameters        b  bytes per parameter: 2 at 16 bits        1.2  a fifth more for everything apart from the weights

    It knows neither context, batch nor architecture, so it is shown next to the computed figure and never replaces it. It is too
    high long before 100 billion parameters, and too low for long contexts, large batches and any training.
    Source: EleutherAI 2023, "Transformer Math 101" (total inference memory ≈ 1.2 × model memory).

    >>> rule_of_thumb_bytes(70_000_000_000)
    168000000000
    """
    return Bytes(round(parameters * Fraction(bytes_per_parameter) * _OVERHEAD))


GGUF_LAW = Law(equation="Σ block bytes · elements / block length over all tensors", source="llama.cpp, src/llama-quant.cpp at 007dbbf3")

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
"""llama.cpp's file types by `general.file_type`: the type of the file; single tensors may have others."""

_TYPICAL = {"Q5_K": "Q5_K_M", "Q4_K": "Q4_K_M", "Q3_K": "Q3_K_M", "MXFP4": "MXFP4_MOE"}


def file_type_of(block: str) -> str:
    """The usual file type of files whose tensors are mostly of this block type."""
    name = _TYPICAL.get(block, block)
    return name if name in FILE_TYPES.values() else "F16"


_BASE = {"Q5_K_M": "Q5_K", "Q5_K_S": "Q5_K", "Q4_K_M": "Q4_K", "Q4_K_S": "Q4_K", "Q3_K_L": "Q3_K", "Q3_K_M": "Q3_K", "Q3_K_S": "Q3_K",
         "IQ3_M": "IQ3_S", "MXFP4_MOE": "Q8_0"}  # fmt: skip
_FALLBACK = {"Q6_K": "Q8_0", "Q5_K": "Q5_1", "Q4_K": "Q5_0", "Q3_K": "Q4_0", "Q2_K": "Q4_0", "IQ3_S": "IQ4_NL", "IQ4_XS": "IQ4_NL"}
_ROLES = (
    ("qkv", re.compile(r"\.(?:qkv_proj|query_key_value|c_attn|Wqkv|W_pack|wqkv|in_proj_qkv\w*|qkv)\.weight$")),
    ("v", re.compile(r"\.(?:v_proj|value|wv|kv_b_proj)\.weight$")),
    ("k", re.compile(r"\.(?:k_proj|key|wk)\.weight$")),
    ("down", re.compile(r"(?:down_proj|\.fc2|\.wo|dense_4h_to_h|fc_out|mlp\.c_proj|\.w2|\.output_linear)(?:\.weight)?$")),
    ("out", re.compile(r"\.(?:o_proj|out_proj|self_attention\.dense|attn\.c_proj|attention\.dense|self_attn\.dense)\.weight$")),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GgufShape:
    """Properties of the model that the mix depends on: layers, query heads per key/value head, routed experts (0 = dense)."""

    layers: int
    queries_per_kv: int
    experts: int


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
    tied = is_tied(everything)
    for tensor in everything:
        size = math.prod(tensor.shape)
        if tensor.component in TOWERS:
            yield tensor.count * size * (2 if len(tensor.shape) > 1 else 4)
        elif tensor.kind not in {"linear", "expert", *ENDS} or len(tensor.shape) < 2 or tensor.name.endswith("bias"):  # noqa: PLR2004
            yield tensor.count * size * 4
        else:
            role = next((role for role, pattern in _ROLES if pattern.search(tensor.name)), "other")
            if tensor.kind == "head" or (tied and tensor.component == "embeddings"):
                role = "output"
            elif kind == "MXFP4_MOE" and tensor.kind == "expert":
                role = "expert"
            yield sum(_tensor_bytes(tensor, kind, role, layer, shape) for layer in range(tensor.count))
