"""What a law of speed computes with: one number, or an array with one entry per case."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Quantity: TypeAlias = "float | NDArray[np.float64]"
Array: TypeAlias = NDArray[np.float64]


def fraction(logit: Quantity) -> Array:
    """A share between 0 and 1 from its logit z: 1 / (1 + e⁻ᶻ); fitted shares are kept as logits so that none can pass 1.

    >>> float(fraction(0.0))
    0.5
    """
    share: Array = 1.0 / (1.0 + np.exp(-np.asarray(logit, dtype=np.float64)))
    return share
