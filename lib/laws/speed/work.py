"""Floating-point operations of a forward pass.

    F_linear(n) = 2 · P · n              F_attention(T) = 2 · a · (L_full · T² + L_win · T · min(T, 2w))

    P  parameters one token uses   n  tokens   T  length of the prompt   a  heads · width of a head
    L_full, L_win  layers with full and with windowed attention   w  length of the window, tokens

A multiplication and an addition per parameter and token; scores and their product with the values take 4·a per pair of positions and
layer, and a causal mask leaves half of the T² pairs (for a window T·w of them, once T is well past w).
Limits: latent attention computes its products in a width of its own; layers without attention have no such term.
Source: Kaplan et al. 2020, arXiv:2001.08361, §2.1.
"""

from __future__ import annotations

import numpy as np

from lib.laws.speed.quantity import Quantity


def linear_flop(*, parameters: Quantity, tokens: Quantity) -> Quantity:
    """FLOP of the matrices.

    >>> linear_flop(parameters=8e9, tokens=1000)
    16000000000000.0
    """
    return 2.0 * parameters * tokens


def attention_flop(*, width: Quantity, full_layers: Quantity, windowed_layers: Quantity, window: Quantity, tokens: Quantity) -> Quantity:
    """FLOP of attention over a prompt of one sequence.

    Llama-3.1-8B (32 layers, 4096 wide) over 8192 tokens: 2 · 4096 · 32 · 8192² = 17.6 TFLOP, a seventh of its matrices' 131:

    >>> round(float(attention_flop(width=4096, full_layers=32, windowed_layers=0, window=0, tokens=8192)) / 1e12, 1)
    17.6
    """
    return 2.0 * width * tokens * (full_layers * tokens + windowed_layers * np.minimum(tokens, 2.0 * window))
