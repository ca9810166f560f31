"""The shortest time in which one decode step can be over: the roofline, from the datasheet.

    t ≥ max( (r · W + B · C) / β ,  2 · P · B / φ )

    W  bytes of weights            C  bytes of cache read per sequence      β  bandwidth of the memory, bytes/s
    r  share of W that one step reads (`experts_read`; 1 for a dense model)
    P  parameters one token uses   B  sequences in the step                 φ  peak rate in the compute dtype, FLOP/s

Every step reads the weights once for all sequences and each sequence's cache once; a multiplication and an addition per parameter
and token are 2 FLOP. 1 / t is an upper bound on the tokens per second of each request, B / t on those of all together.

Where it stops: it is a bound, not a prediction. Kernels reach 25 to 90 % of it, and frameworks add milliseconds per step. Sequences
that share a prefix, and caches kept on chip, could read less than C.
Source: Pope et al. 2022, "Efficiently Scaling Transformer Inference", arXiv:2211.05102, §2; Williams et al. 2009, "Roofline".
"""

from __future__ import annotations

from lib.units import Bytes, BytesPerSecond, FlopPerSecond, Seconds


def experts_read(*, active: int, total: int, batch: int) -> float:
    """Expected share of the weights that B independent tokens reach in a mixture of experts: 1 - (1 - active/total)^B.

    >>> round(experts_read(active=13, total=47, batch=1), 3), experts_read(active=8, total=8, batch=1)
    (0.277, 1.0)
    """
    return 1.0 - (1.0 - min(1.0, active / total)) ** batch


def step_seconds(
    *,
    weight_bytes: Bytes,
    cache_bytes: Bytes,
    bandwidth: BytesPerSecond,
    active_parameters: int,
    batch: int = 1,
    share_read: float = 1.0,
    peak: FlopPerSecond | None = None,
) -> Seconds:
    """Seconds that a step takes at least; without a published peak only the memory bounds it.

    An 8B model in bf16 on a card of 300 GB/s needs 53.5 ms, so no more than 18.7 tokens/s:

    >>> round(step_seconds(weight_bytes=16_060_000_000, cache_bytes=0, bandwidth=300e9, active_parameters=8_030_000_000), 4)
    0.0535
    """
    memory = (share_read * weight_bytes + batch * cache_bytes) / bandwidth
    compute = 0.0 if peak is None else 2.0 * active_parameters * batch / peak
    return Seconds(max(memory, compute))
