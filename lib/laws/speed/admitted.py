"""How many sequences an engine runs at once when more requests wait than it takes.

    n = max(1, min(limit, ⌊(0.92 · M - W) / C(T)⌋))

    limit  the engine's own   M  memory of the devices that share the model   W  weights   C(T)  cache of one sequence at its mean length

0.92 is the share of the memory that servers claim by default (vLLM 0.9, TensorRT-LLM 0.9 of what is free, SGLang about 0.9). Where
the weights leave less than 2 % of the memory, 2 % is taken: something ran, or there would be no measurement.
Limits: the limit can be configured; paging and prefix sharing admit more. Source: the engines' documented defaults.
"""

from __future__ import annotations

import numpy as np

from lib.laws.speed.quantity import Array, Quantity

_CLAIMED = 0.92
_LEAST = 0.02


def admitted(*, limit: Quantity, memory: Quantity, weight_bytes: Quantity, sequence_bytes: Quantity) -> Array:
    """Sequences that run at once; not rounded, so that it is smooth for the fit.

    A 16.06 GB model on 24 GB leaves 6.02 GB: 22 sequences of 2048 tokens of 128 KiB:

    >>> int(admitted(limit=256, memory=24e9, weight_bytes=16.06e9, sequence_bytes=2048 * 131072))
    22
    """
    free = np.maximum(_CLAIMED * np.asarray(memory, dtype=np.float64) - weight_bytes, np.multiply(memory, _LEAST))
    count: Array = np.maximum(1.0, np.minimum(limit, free / np.maximum(sequence_bytes, 1.0)))
    return count
