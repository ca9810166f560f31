"""Temporary tensors, work and time of a pipeline that makes pictures or clips, as functions of their size.

    bytes = (c0 + c1·B) + (c2 + c3·B)·A + (c4 + c5·B)·A·f          of one moment; the peak is the fullest
    FLOP  = w0 + w1·A + w2·A·f + w3·A²·f + w4·A·f² + w5·A²·f²      for one picture or clip

    B  pictures or clips at once          A  megapixels of a frame          f  latent frames (1 of a picture)

The size of a tensor follows the picture that it describes. Convolutions and matrices work on each latent once (A·f); attention within a
frame on pairs of its latents (A²·f), over time on pairs of frames (A·f²), over both on all pairs (A²·f²). The coefficients come from runs
of the pipeline on the meta device (`lib.model.diffusion`).

    t = B · V / r + s · e · t_e          t_e = (c⁴ + τ⁴)^(1/4)   eager: launching overlaps with computing
                                         t_e = c + τ             compiled
    c = B · ((F - F_a) / r + F_a / r_a)          1 / r = 1 / (φ · η) + κ · b / β          r_a = φ_a · η · α

    s  steps   e  evaluations per step (2 with guidance)   F  FLOP of an evaluation, F_a of them attention   V  FLOP of the decoder
    φ  dense peak of the units that multiply, φ_a that of the compute dtype     η  share of it that is reached     τ  host time of an
    evaluation     b  bytes of activations that products read and write per FLOP (1 / width in a transformer)     β  bandwidth
    κ  how often these bytes pass the memory, by the card's class: products stall on them, other kernels move them again

Narrow models reach less than wide ones: an H100 does 211 TFLOP/s in SD 3.5 medium (1,536 wide), 281 in large (2,432), 320 in FLUX.1.

Limits: a size far outside those of the runs is an extrapolation.
Source: diffusers 0.42.1 and torch 2.13.0, executed; checked 2026-11-25; η, κ, α and τ from `scripts/calibration_pictures.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from lib.laws import Law
from lib.laws.forward_pass import FITTED_CONSTANTS, Quantity

BYTES = Law(
    equation="(c0 + c1·B) + (c2 + c3·B)·A + (c4 + c5·B)·A·f, the fullest moment of the fullest stage",
    source="diffusers 0.42.1 and torch 2.13.0, the pipeline run on the meta device",
)


def byte_terms(batch: float, megapixels: float, frames: float) -> tuple[float, ...]:
    """The terms of the bytes, in their order.

    >>> byte_terms(2, 1.0, 3)
    (1.0, 2, 1.0, 2.0, 3.0, 6.0)
    """
    return (1.0, batch, megapixels, batch * megapixels, megapixels * frames, batch * megapixels * frames)


def work_terms(megapixels: float, frames: float) -> tuple[float, ...]:
    """The terms of the FLOP, in their order.

    >>> work_terms(2.0, 3.0)
    (1.0, 2.0, 6.0, 12.0, 18.0, 36.0)
    """
    a, f = megapixels, frames
    return (1.0, a, a * f, a * a * f, a * f * f, a * a * f * f)


def sum_terms(coefficients: Sequence[float], terms: Sequence[float]) -> float:
    """Their sum of products."""
    return sum(c * t for c, t in zip(coefficients, terms, strict=True))


def latent_frames(frames: int, step: int) -> float:
    """Frames of the latents of a clip, each for `step` frames after the first; 1 of a picture (step 0).

    >>> latent_frames(81, 4), latent_frames(0, 0)
    (21.0, 1.0)
    """
    return float((frames - 1) // step + 1) if step else 1.0


_OVERLAP = 4.0  # as `lib.laws.forward_pass.step_time`
DENOISING = Law(
    "pictures · FLOP of the decoder / compute reached + evaluations · (pictures · FLOP / compute reached, or the host's time where longer)",
    "lib/laws/pipeline.py; " + FITTED_CONSTANTS,
)


def denoising(
    *,
    batch: Quantity,
    evaluations: Quantity,
    flop: Quantity,
    attention_flop: Quantity,
    decoder_flop: Quantity,
    rate: Quantity,
    attention_rate: Quantity,
    host_s: Quantity,
    eager: bool | NDArray[np.bool_],
) -> Quantity:
    """Seconds for a batch; `rate` = r, `attention_rate` = r_a, `host_s` = τ.

    FLUX.1-dev, 28 evaluations of 74.4 TFLOP on 300 TFLOP/s reached, 10 TFLOP to decode: 2093.2 / 300 = 6.98 s:

    >>> law = dict(batch=1, evaluations=28, flop=74.4e12, attention_flop=11.7e12, decoder_flop=10e12, host_s=0.0)
    >>> round(float(denoising(rate=3e14, attention_rate=3e14, eager=True, **law)), 2)
    6.98
    """
    computed_s = batch * (np.subtract(flop, attention_flop) / rate + attention_flop / attention_rate)
    together_s = (computed_s**_OVERLAP + host_s**_OVERLAP) ** (1 / _OVERLAP)
    return batch * decoder_flop / rate + evaluations * np.where(eager, together_s, np.add(computed_s, host_s))


TRANSFER = Law(
    "model: 2 · bytes of all components / r; group, sequential: bytes of the denoiser · its runs / r; 1 / r = 1 / bus + 1 / host",
    "lib/laws/pipeline.py",
)
BUS_REACHED = 0.8
"""Share of a bus's rate that copies from pinned memory reach: 12.4-12.8 of 15.8 GB/s (PCIe 3.0 x16, 5 cards), 25.2-26.1 of 31.5 (4.0, 3
cards), 55.4-56.7 of 63 (5.0, 2 hosts); bandwidthTest and nvbandwidth outputs of 2019-2026, read 2026-11-23. A T4 of AWS's g4dn reaches
6.3 GB/s."""
HOST_COPY = {"model": 4.8e9, "sequential": 13.4e9, "group": 22.9e9}
"""Bytes per second at which the host copies weights, apart from the bus. A model that is taken off the card is written back to memory that
has to be allocated again. From 67.7 GB in 15.1 s (FLUX.1-dev, model), 666 GB in 61.8 s (sequential) and in 41.1 s (group): the table of
github.com/huggingface/diffusers pull request 11682 (2025-06-09), one row each, card and steps inferred (H100, 28); with model offload also
25 GB in 6.5 s on an RTX 4090 (diffusers documentation, 2025). Checked 2026-11-25."""
HOST_PROCESS_BYTES = 1_838_000_000
"""Host memory of a process whose weights are all on the card (same table, one row)."""


def transfer_time(*, moved_bytes: float, bus: float, offload: str) -> float:
    """Seconds that weights take to the card (and, with "model", back), at the bus's stated rate.

    >>> round(transfer_time(moved_bytes=67.7e9, bus=64e9, offload="model"), 1)
    15.4
    """
    return moved_bytes * (1 / (BUS_REACHED * bus) + 1 / HOST_COPY[offload])
