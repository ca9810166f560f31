"""Seconds of one training step of a denoiser.

    step   A · (micro + e + u) + optimizer
    micro  ((c · C)^4 + τ^4)^(1/4)          τ = h · blocks · (2 + k · s)
    C      seconds that the card needs for (F - F_a) · (1 + b + s) + F_a · (1 + 2.5 + s) FLOP

    F  FLOP of a forward pass, F_a of them attention      A  micro-batches of a step      s  share of the blocks that are recomputed
    b  products of the backward pass for each of the forward pass: 1 with adapters (frozen weights need no gradient), 2 in full
    e  seconds of text encoders and VAE if their results are not computed before training      u  seconds of unpacking 4-bit weights
    h  host seconds of a block in one pass      τ  host seconds of a micro-batch      k  host time of recomputing a block, in passes
    c  computing time in training by that of inference, 1 if equal (`lib.laws.pipeline`)

Launching kernels overlaps with computing, as in `lib.laws.pipeline`. FlashAttention's backward pass has five products, its
forward pass two (Dao et al. 2022, arXiv:2205.14135). A base in 4 or 8 bits multiplies c and h by factors of its own (`FormatTimes`).

Source: fitted by `scripts/check_picture_seconds.py` on SimpleTuner's sweep (bc8e6ab77, 2026-08-22; H100 and L40S). Limits: one card;
host times are those of two servers; the law assumes no compilation, though some of the runs used it.
"""

from __future__ import annotations

from typing import NamedTuple

from lib.laws import Law

ATTENTION_BACKWARD = 2.5
"""Products of attention in the backward pass for each one in the forward pass: 5 / 2."""
_OVERLAP = 4.0
LAW = Law(
    "A · ((c · C)^4 + (h · blocks · (2 + k · s))^4)^(1/4) + optimizer",
    "lib/laws/picture_training.py; fitted on SimpleTuner's sweep (bc8e6ab77, 2026-08-22)",
)


class FormatTimes(NamedTuple):
    """Factors of a base in 4 or 8 bits compared with 16: on computing time, and on host time."""

    flops: float
    host: float


PLAIN = FormatTimes(1.0, 1.0)


class PictureTimes(NamedTuple):
    """Fitted constants: `flops` is c, `host_s` is h, `recompute` is k."""

    flops: float
    host_s: float
    recompute: float


def pass_flop(flop: float, attention_flop: float, *, full: bool, share: float) -> tuple[float, float]:
    """FLOP of all passes of a micro-batch, and those of attention in them.

    >>> pass_flop(10.0, 2.0, full=False, share=1.0)
    (33.0, 9.0)
    """
    attention = attention_flop * (1 + ATTENTION_BACKWARD + share)
    return (flop - attention_flop) * (1 + (2 if full else 1) + share) + attention, attention


def micro_step(computes_s: float, *, blocks: int, share: float, times: PictureTimes, form: FormatTimes = PLAIN) -> float:
    """Seconds of the passes of a micro-batch.

    >>> round(micro_step(2.0, blocks=30, share=1.0, times=PictureTimes(1.0, 0.003, 2.0)), 3)
    2.0
    """
    host_s = times.host_s * form.host * blocks * (2 + times.recompute * share)
    return float(((times.flops * form.flops * computes_s) ** _OVERLAP + host_s**_OVERLAP) ** (1 / _OVERLAP))
