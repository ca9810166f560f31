"""Bytes of weights that one step reads.

    W(n) = D + X · (1 - (1 - k/E)ⁿ)

    D  bytes of the weights that every token uses     X  bytes of the routed experts
    E  experts of a layer     k  experts a token reaches     n  tokens in the step

Weights are read once for all tokens of a step. Each token reaches k of E experts; with n tokens that choose independently an
expert is missed by all with probability (1 - k/E)ⁿ.
Limits: routers are trained to balance their load over long texts; within one batch of similar texts the choices are correlated and fewer
experts are read. A dense model has X = 0.
Source: expected coverage of independent draws; Pope et al. 2022, arXiv:2211.05102, §2 for the weights read once per step.
"""

from __future__ import annotations

import numpy as np

from lib.laws.speed.quantity import Array, Quantity


def share_reached(*, experts: Quantity, per_token: Quantity, tokens: Quantity) -> Array:
    """Expected share of the experts that n tokens reach; 1 without experts.

    Two of eight experts, one token and eight tokens: 1/4 and 1 - (3/4)⁸ = 0.8999:

    >>> [round(float(share_reached(experts=8, per_token=2, tokens=n)), 4) for n in (1, 8)]
    [0.25, 0.8999]
    """
    each = np.minimum(1.0, np.asarray(per_token, dtype=np.float64) / np.maximum(experts, 1.0))
    reached: Array = np.where(np.asarray(experts) > 0, 1.0 - (1.0 - each) ** tokens, 1.0)
    return reached


def weights_read(*, dense_bytes: Quantity, expert_bytes: Quantity, reached: Quantity) -> Quantity:
    """Bytes of weights a step reads, with this share of the experts reached."""
    return dense_bytes + expert_bytes * reached
