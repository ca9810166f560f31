"""Denoising, on numbers worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest

from lib.laws.pipeline import denoising


def test_denoising_counts_evaluations_and_the_decoder() -> None:
    """Two pictures, 10 evaluations of 1 TFLOP and 5 TFLOP to decode at 1 TFLOP/s: 30 s; 10 · 0.1 s of host time, hidden where eager."""
    of: dict[str, Any] = {"batch": 2, "evaluations": 10, "flop": 1e12, "decoder_flop": 5e12, "rate": 1e12, "host_s": 0.1}
    of |= {"attention_flop": 0.5e12, "attention_rate": 1e12}
    assert denoising(**of, eager=False) == pytest.approx(31.0)
    assert denoising(**of, eager=True) == pytest.approx(30.0, abs=0.01)
