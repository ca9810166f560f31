"""The community's estimate of the memory a model needs.

    M = P · b · 1.2

    P  parameters        b  bytes per parameter: 2 at 16 bit        1.2  a fifth more for everything beside the weights

It knows neither context, batch nor architecture, so it is shown beside the computed figure and never used in its place.
At 16 bit: GPT-2 0.3 GB, Llama-3-8B 19 GB, Llama-3-70B 168 GB (0.124, 8 and 70 billion parameters), Mixtral-8x7B 113 GB (47 billion).
Source: EleutherAI 2023, "Transformer Math 101" (total inference memory ≈ 1.2 × model memory).
Limits: overestimates long before 100 billion parameters, underestimates long contexts, large batches and any training.
"""

from __future__ import annotations

from fractions import Fraction

from lib.units import Bytes

OVERHEAD = Fraction(6, 5)


def rule_of_thumb_bytes(parameters: int, bytes_per_parameter: float = 2) -> Bytes:
    """Parameters × bytes × 1.2, rounded to a whole byte.

    >>> rule_of_thumb_bytes(70_000_000_000)
    168000000000
    """
    return Bytes(round(parameters * Fraction(bytes_per_parameter) * OVERHEAD))
