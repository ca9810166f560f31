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

A stack of E experts is E matrices. What a format does not take stays in the checkpoint's half precision.
Sources: the quantizers of transformers 5.23.0 (bitsandbytes, finegrained fp8, mxfp4), AutoGPTQ and AutoAWQ tensor layouts,
compressed-tensors "pack-quantized", NVIDIA ModelOpt NVFP4; checked against checkpoints' published element counts in the tests.
Limits: parameters only; buffers, packing workspace and the allocator's rounding belong to the runtime.
"""

# ruff: noqa: D102 the class docstring of the protocol says it
from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from typing import Protocol

from lib.laws import Law
from lib.precision import WeightFormat
from lib.units import Bytes

LAW = Law(equation="Σ n·(payload + scales) over all tensors", source="tensor layouts of the quantizers named in lib/laws/weights.py")
BY_COUNT = Law(equation="P · bits / 8", source="effective bits per weight of the format, lib/precision.py")

STACK = frozenset({"language_model", "decoder", "encoder", "text_encoder", "transformer", "transformer_2", "unet"})
"""Components whose matrices post-training quantization converts: language and denoising models; towers, projector, head, VAE stay."""


class Tensors(Protocol):
    """A group of equal tensors, as far as this law looks at it (`lib.model.spec.TensorGroup`)."""

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


def _plain_bytes(tensor: Tensors, element_bytes: int, dtype: str) -> int:
    held = 4 if tensor.fp32 or (tensor.fp32_in_fp16 and dtype == "fp16") else element_bytes
    return tensor.count * math.prod(tensor.shape) * held


def converts(tensor: Tensors, form: WeightFormat, *, stored: bool, mixture: bool) -> bool:
    """Whether the format converts these tensors.

    Args:
        tensor: the group.
        form: the format.
        stored: the checkpoint comes in this format: its own list of skipped modules decides.
        mixture: the model has routed experts.
    """
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


def _group(stated: int, columns: int) -> int:
    return stated if stated > 0 else columns


def weight_bytes(
    tensors: Iterable[Tensors], form: WeightFormat, *, rest: str = "bf16", stored: bool = False, group: int = 0, keeps_fp32: bool = True
) -> Bytes:
    """Bytes that the weights occupy in one format.

    Args:
        tensors: every group of the model.
        form: a format other than llama.cpp's (those mix types: `lib.laws.weights_gguf`).
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
            stack, rows, columns = _matrices(tensor.shape)
            yield tensor.count * stack * _MATRIX_BYTES[form.law](rows, columns, form.bits, _group(group or form.group, columns))
        elif form.law == "mxfp4" and _is_bias(tensor):
            yield tensor.count * math.prod(tensor.shape) * 4
        elif keeps_fp32:
            yield _plain_bytes(tensor, element, plain)
        else:
            yield tensor.count * math.prod(tensor.shape) * element


_OVERHEAD = Fraction(6, 5)


def rule_of_thumb_bytes(parameters: int, bytes_per_parameter: float = 2) -> Bytes:
    """The community's estimate of the memory a model needs: M = P · b · 1.2, rounded to a whole byte.

        P  parameters        b  bytes per parameter: 2 at 16 bits        1.2  a fifth more for everything beside the weights

    It knows neither context, batch nor architecture, so it is shown beside the computed figure and never used in its place. It is too
    high long before 100 billion parameters, and too low for long contexts, large batches and any training.
    Source: EleutherAI 2023, "Transformer Math 101" (total inference memory ≈ 1.2 × model memory).

    >>> rule_of_thumb_bytes(70_000_000_000)
    168000000000
    """
    return Bytes(round(parameters * Fraction(bytes_per_parameter) * _OVERHEAD))
