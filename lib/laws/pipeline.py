"""Temporary tensors and work of a pipeline that makes pictures or clips, by what is made.

    bytes = (c0 + c1·B) + (c2 + c3·B)·A + (c4 + c5·B)·A·f          of one moment; the peak is the fullest
    FLOP  = w0 + w1·A + w2·A·f + w3·A²·f + w4·A·f² + w5·A²·f²      for one picture or clip

    B  pictures or clips at once          A  megapixels of a frame          f  latent frames (1 of a picture)

Tensors are as large as what they describe. Convolutions and matrices work on each latent once (A·f); attention within a frame on pairs
of its latents (A²·f), over time on pairs of frames (A·f²), over both on all pairs (A²·f²). The coefficients come from runs of the
pipeline on the meta device (`lib.model.pipeline_fits`).

Limits: eager PyTorch without torch.compile; a size far outside those of the runs is an extrapolation.
Source: diffusers 0.42.1 and torch 2.13.0, executed; checked 2026-11-22.
"""

from __future__ import annotations

from collections.abc import Sequence

from lib.laws import Law

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


def weigh(coefficients: Sequence[float], terms: Sequence[float]) -> float:
    """Their sum of products."""
    return sum(c * t for c, t in zip(coefficients, terms, strict=True))
