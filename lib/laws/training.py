"""Memory of fine-tuning beside the weights: gradients, optimizer states, adapters, kept activations.

AdamW, bytes for each trained parameter of b bytes:

    gradient     b
    moments      8           two in float32
    master copy  4           float32 copy of 16-bit weights; none when b = 4

LoRA of rank r on a matrix (out, in) trains r · (out + in) parameters, in float32 as peft keeps them: 4 + 4 + 8 bytes each.
Activations kept for the backward pass, over N = B·T tokens:

    with checkpointing      b·N·h·L + one layer in full (`layer_bytes`)
    without                 L layers in full
    logits of all tokens    N·V·(b + 8): compute dtype, float32 copy, its gradient

    h  hidden size    L  layers    V  vocabulary    B, T  sequences and their tokens

Limits: FlashAttention or sdpa (no T² scores kept); dense decoders; neither paged nor 8-bit optimizers; no sharding of states over devices.
Sources: Rajbhandari et al. 2020, "ZeRO", arXiv:1910.02054 (2 + 2 + 12 bytes in mixed precision); Korthikanti et al. 2022, arXiv:2205.05198,
counts 34·s·b·h bytes for a GPT layer, which gated MLPs and fewer key heads change.
"""

from __future__ import annotations

from lib.laws import Law
from lib.units import Bytes

LAW = Law(
    equation="kept activations + logits + gradients + optimizer + master weights",
    source="arXiv:1910.02054 and arXiv:2205.05198; lib/laws/training.py",
)
FLOAT32 = 4
MOMENTS = 8


def gradient_bytes(*, parameters: int, element_bytes: int) -> Bytes:
    """One gradient for each trained parameter, in the parameter's dtype."""
    return Bytes(parameters * element_bytes)


def optimizer_bytes(*, parameters: int) -> Bytes:
    """AdamW's two moments in float32."""
    return Bytes(parameters * MOMENTS)


def master_bytes(*, parameters: int, element_bytes: int) -> Bytes:
    """Float32 copy of weights that are trained in 16 bits."""
    return Bytes(0 if element_bytes >= FLOAT32 else parameters * FLOAT32)


def adapter_parameters(*, rank: int, shapes: dict[tuple[int, int], int]) -> int:
    """Parameters of LoRA: r · (out + in) for each of `count` matrices of a shape.

    >>> adapter_parameters(rank=16, shapes={(4096, 4096): 2})
    262144
    """
    return sum(rank * (rows + columns) * count for (rows, columns), count in shapes.items())


def layer_bytes(*, tokens: int, element_bytes: int, hidden: int, query_width: int, key_width: int, mlp_width: int) -> Bytes:
    """What one layer keeps for its backward pass.

        N · (b · (4h + 3q + 4k + 4f) + 8h)

    Inputs of two norms and of the projections behind them (4h), queries before and after rotation and the attention's output (3q), keys
    likewise and values twice where heads are shared (4k), gate, its activation, up and the product (4f); two norms work in float32 (8h).
    """
    inner = 4 * hidden + 3 * query_width + 4 * key_width + 4 * mlp_width
    return Bytes(tokens * (element_bytes * inner + 2 * FLOAT32 * hidden))


def stored_activation_bytes(*, tokens: int, element_bytes: int, hidden: int, layers: int, layer: int, checkpointing: bool) -> Bytes:
    """Activations kept by all layers: with checkpointing each layer's input and one layer in full."""
    if checkpointing:
        return Bytes(element_bytes * tokens * hidden * layers + layer)
    return Bytes(layer * layers)


def loss_bytes(*, tokens: int, vocabulary: int, element_bytes: int) -> Bytes:
    """Logits of every token, their float32 copy and its gradient: N·V·(b + 8)."""
    return Bytes(tokens * vocabulary * (element_bytes + 2 * FLOAT32))
