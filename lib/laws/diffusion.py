"""Time of a diffusion pipeline.

    t = B · (s · e · F + V) / (N · φ · η) + s · e · τ

    B  pictures in a batch   s  steps   e  evaluations per step (2 with guidance)   F  FLOP of an evaluation   V  FLOP of the decoder
    φ  dense peak in the compute dtype     η  share of it that is reached     τ  host time of an evaluation     N  copies that share B

Eager pipelines reach 30-34 % of an H100's or A100's peak, compiled ones 48-50 %, Stable Diffusion 1.5 at batch 1 16-20 %.
Limits: the text encoder's pass is left out (under 2 %); F holds for one resolution and must be given.
Source: FLOP per evaluation as listed with the measurements; η, τ from `scripts/calibrate.py`.
"""

from __future__ import annotations

from lib.laws import Law
from lib.laws.forward_pass import FITTED, Quantity

LAW = Law(
    "pictures · (steps · evaluations · FLOP + FLOP of the decoder) / compute reached + evaluations · host time",
    "lib/laws/diffusion.py; " + FITTED,
)


def denoising(
    *, batch: Quantity, evaluations: Quantity, flop: Quantity, decoder_flop: Quantity, rate: Quantity, host_s: Quantity
) -> Quantity:
    """Seconds for a batch; `rate` = N · φ · η.

    FLUX.1-dev, 28 evaluations of 74.4 TFLOP on 300 TFLOP/s reached, 10 TFLOP to decode: 2093.2 / 300 = 6.98 s:

    >>> round(denoising(batch=1, evaluations=28, flop=74.4e12, decoder_flop=10e12, rate=3e14, host_s=0.0), 2)
    6.98
    """
    return batch * (evaluations * flop + decoder_flop) / rate + evaluations * host_s
