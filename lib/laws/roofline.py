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

The shortest time in which a prompt can be read, or an encoder can run: the roofline, from the datasheet.

    t ≥ max( 2 · P · B · T / φ ,  W / β )

    P  parameters one token uses   B  sequences   T  tokens per sequence   φ  peak rate in the compute dtype, FLOP/s
    W  bytes of weights            β  bandwidth of the memory, bytes/s

Where it stops: attention's own 2 · layers · heads · width · T² is left out (it lies below the rest up to several thousand tokens, and
leaving it out keeps this a lower bound); large matrix products reach 50 to 90 % of the peak.
Source: Kaplan et al. 2020, arXiv:2001.08361, §2.1 (2 FLOP per parameter and token); Williams et al. 2009, "Roofline".

The least time that the datasheet allows for a pass: no prediction, and no end of a range, may be below it.

    t ≥ max( (W + C) / (N · β),  F / (N · φ) )

    W  bytes of weights the pass reads   C  bytes of cache it reads   F  its FLOP
    N  devices that work at the same time   β, φ  datasheet bandwidth and dense peak of one of them

Without a published peak only the memory bounds. For a decode step of one sequence this is `lib.laws.roofline`, with the cache.
Source: Williams et al. 2009, "Roofline", doi:10.1145/1498765.1498785.
"""

from __future__ import annotations

import numpy as np

from lib.laws.forward_pass import Array, Quantity
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


def prefill_seconds(
    *,
    active_parameters: int,
    tokens: int,
    weight_bytes: Bytes,
    bandwidth: BytesPerSecond,
    batch: int = 1,
    peak: FlopPerSecond | None = None,
) -> Seconds:
    """Seconds that a prefill takes at least; without a published peak only the memory bounds it.

    A BERT of 110 million parameters on 8 virtual CPUs of 300 GFLOP/s needs 0.38 s for 512 tokens:

    >>> round(prefill_seconds(active_parameters=110_000_000, tokens=512, weight_bytes=440_000_000, bandwidth=45e9, peak=300e9), 2)
    0.38
    """
    memory = weight_bytes / bandwidth
    compute = 0.0 if peak is None else 2.0 * active_parameters * batch * tokens / peak
    return Seconds(max(memory, compute))


def floor(*, read_bytes: Quantity, flop: Quantity, devices: Quantity, bandwidth: Quantity, peak: Quantity) -> Array:
    """Seconds at least.

    16.06 GB on 300 GB/s: 53.5 ms, far above the 16.06 GFLOP's 0.13 ms:

    >>> round(float(floor(read_bytes=16.06e9, flop=16.06e9, devices=1, bandwidth=300e9, peak=121e12)), 4)
    0.0535
    """
    moved = np.divide(read_bytes, np.multiply(devices, bandwidth))
    computed = np.where(np.greater(peak, 0), np.divide(flop, np.multiply(devices, np.maximum(peak, 1.0))), 0.0)
    least: Array = np.maximum(moved, computed)
    return least
