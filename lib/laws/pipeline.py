"""Temporary tensors, work and time of a pipeline that makes pictures or clips, by what is made.

    bytes = (c0 + c1·B) + (c2 + c3·B)·A + (c4 + c5·B)·A·f          of one moment; the peak is the fullest
    FLOP  = w0 + w1·A + w2·A·f + w3·A²·f + w4·A·f² + w5·A²·f²      for one picture or clip

    B  pictures or clips at once          A  megapixels of a frame          f  latent frames (1 of a picture)

Tensors are as large as what they describe. Convolutions and matrices work on each latent once (A·f); attention within a frame on pairs
of its latents (A²·f), over time on pairs of frames (A·f²), over both on all pairs (A²·f²). The coefficients come from runs of the
pipeline on the meta device (`lib.model.diffusion`).

    t = B · V / (N · φ · η) + s · e · t_e          t_e = ((B · F / (N · φ · η))⁴ + τ⁴)^(1/4)   eager: launching overlaps with computing
                                                   t_e = B · F / (N · φ · η) + τ                compiled

    s  steps   e  evaluations per step (2 with guidance)   F  FLOP of an evaluation   V  FLOP of the decoder   N  copies that share B
    φ  dense peak in the compute dtype     η  share of it that is reached     τ  host time of an evaluation
    Kernels between the products move k bytes for each FLOP of them: for φ · η stands 1 / (1 / (φ · η) + k / bandwidth).

Limits: a size far outside those of the runs is an extrapolation.
Source: diffusers 0.42.1 and torch 2.13.0, executed; checked 2026-11-22; η and τ from `scripts/calibration_pictures.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

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
    """Frames of the latents of a clip of which each stands for `step` frames after the first; 1 of a picture (step 0).

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
    *, batch: Quantity, evaluations: Quantity, flop: Quantity, decoder_flop: Quantity, rate: Quantity, host_s: Quantity, eager: bool
) -> Quantity:
    """Seconds for a batch; `rate` = N · φ · η with the bytes between products, `host_s` = τ.

    FLUX.1-dev, 28 evaluations of 74.4 TFLOP on 300 TFLOP/s reached, 10 TFLOP to decode: 2093.2 / 300 = 6.98 s:

    >>> round(denoising(batch=1, evaluations=28, flop=74.4e12, decoder_flop=10e12, rate=3e14, host_s=0.0, eager=True), 2)
    6.98
    """
    computed_s = batch * flop / rate
    each_s = (computed_s**_OVERLAP + host_s**_OVERLAP) ** (1 / _OVERLAP) if eager else computed_s + host_s
    return batch * decoder_flop / rate + evaluations * each_s
