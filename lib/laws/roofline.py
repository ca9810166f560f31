"""The least time that a datasheet allows: the roofline. No prediction, and no end of a range, may lie below it.

    t ≥ max( M / β ,  F / φ )

    M  bytes that have to cross the memory's bus        β  bandwidth of the memory, bytes/s
    F  floating-point operations                        φ  dense peak in the dtype that multiplies, FLOP/s

Several devices that work at the same time have N · β and N · φ. Without a published peak only the memory bounds.

One decode step reads the weights once for all sequences and each sequence's cache once:

    M = r · W + B · C        F = 2 · P · B

    W  bytes of weights      r  share of W that the step reads (`lib.laws.forward_pass.expert_share`; 1 for a dense model)
    B  sequences             C  bytes of cache of one sequence        P  parameters that one token uses

Reading a prompt, or one pass of an encoder, over B sequences of T tokens:

    M = W                    F = 2 · P · B · T

A multiplication and an addition per parameter and token are 2 FLOP. 1 / t of a decode step is an upper bound on the tokens per second of
each request, B / t on those of all together.

Limits: these are bounds, not predictions. Kernels reach 25 to 90 % of them, and frameworks add milliseconds per step. Sequences that share
a prefix, and caches kept on chip, could read less than C. Attention's own 2 · layers · heads · width · T² is left out; it is smaller than
the rest up to several thousand tokens, and without it the bound stays a bound.
Sources: Williams et al. 2009, "Roofline", doi:10.1145/1498765.1498785; Pope et al. 2022, "Efficiently Scaling Transformer Inference",
arXiv:2211.05102, §2 (what a step reads); Kaplan et al. 2020, arXiv:2001.08361, §2.1 (2 FLOP per parameter and token).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from lib.laws.forward_pass import Array, Quantity, linear_flop


@dataclass(frozen=True, slots=True, kw_only=True)
class Floor:
    """Seconds that moving the bytes and that the arithmetic take at least; `compute_s` is None where no peak is known."""

    memory_s: float
    compute_s: float | None

    @property
    def seconds(self) -> float:
        """The larger of the two."""
        return max(self.memory_s, self.compute_s or 0.0)

    @property
    def bound(self) -> Literal["bandwidth", "compute"]:
        """Which of the two is larger."""
        return "compute" if self.compute_s is not None and self.compute_s > self.memory_s else "bandwidth"


def roofline(*, moved_bytes: float, flop: float, bandwidth: float, peak: float | None) -> Floor:
    """The floor of any piece of work.

    16.06 GB on 300 GB/s take 53.5 ms, far more than 16.06 GFLOP on 121 TFLOP/s:

    >>> found = roofline(moved_bytes=16.06e9, flop=16.06e9, bandwidth=300e9, peak=121e12)
    >>> round(found.seconds, 4), found.bound
    (0.0535, 'bandwidth')
    """
    return Floor(memory_s=moved_bytes / bandwidth, compute_s=None if peak is None else flop / peak)


def decode_floor(
    *,
    weight_bytes: float,
    cache_bytes: float,
    bandwidth: float,
    active_parameters: int,
    batch: int = 1,
    share_read: float = 1.0,
    peak: float | None = None,
) -> Floor:
    """The floor of one decode step.

    An 8B model in bf16 on a card of 300 GB/s gives no more than 18.7 tokens/s:

    >>> step = decode_floor(weight_bytes=16_060_000_000, cache_bytes=0, bandwidth=300e9, active_parameters=8_030_000_000)
    >>> round(1 / step.seconds, 1)
    18.7
    """
    moved = share_read * weight_bytes + batch * cache_bytes
    return roofline(moved_bytes=moved, flop=2.0 * active_parameters * batch, bandwidth=bandwidth, peak=peak)


def prefill_floor(
    *,
    active_parameters: int,
    tokens: int,
    weight_bytes: float,
    bandwidth: float,
    batch: int = 1,
    peak: float | None = None,
    head_parameters: float = 0.0,
) -> Floor:
    """The floor of reading prompts; the output projection's `head_parameters` are passed once for each, as in `linear_flop`.

    A BERT of 110 million parameters on 8 virtual CPUs of 300 GFLOP/s reads 512 tokens in 0.38 s:

    >>> pass_ = prefill_floor(active_parameters=110_000_000, tokens=512, weight_bytes=440_000_000, bandwidth=45e9, peak=300e9)
    >>> round(pass_.seconds, 2)
    0.38
    """
    flop = linear_flop(parameters=active_parameters, tokens=batch * tokens, head_parameters=head_parameters, sequences=batch)
    return roofline(moved_bytes=weight_bytes, flop=float(flop), bandwidth=bandwidth, peak=peak)


def roofline_seconds(*, read_bytes: Quantity, flop: Quantity, devices: Quantity, bandwidth: Quantity, peak: Quantity) -> Array:
    """`roofline` for many cases at once, in seconds; `bandwidth` and `peak` are those of one device, a peak of 0 is not known.

    >>> round(float(roofline_seconds(read_bytes=16.06e9, flop=16.06e9, devices=1, bandwidth=300e9, peak=121e12)), 4)
    0.0535
    """
    moved = np.divide(read_bytes, np.multiply(devices, bandwidth))
    computed = np.where(np.greater(peak, 0), np.divide(flop, np.multiply(devices, np.maximum(peak, 1.0))), 0.0)
    least: Array = np.maximum(moved, computed)
    return least
