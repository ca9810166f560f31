"""The shortest time in which a prompt can be read, or an encoder can run: the roofline, from the datasheet.

    t ≥ max( 2 · P · B · T / φ ,  W / β )

    P  parameters one token uses   B  sequences   T  tokens per sequence   φ  peak rate in the compute dtype, FLOP/s
    W  bytes of weights            β  bandwidth of the memory, bytes/s

Where it stops: attention's own 2 · layers · heads · width · T² is left out (it lies below the rest up to several thousand tokens, and
leaving it out keeps this a lower bound); large matrix products reach 50 to 90 % of the peak.
Source: Kaplan et al. 2020, arXiv:2001.08361, §2.1 (2 FLOP per parameter and token); Williams et al. 2009, "Roofline".
"""

from __future__ import annotations

from lib.units import Bytes, BytesPerSecond, FlopPerSecond, Seconds


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
