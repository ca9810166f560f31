"""The roofline of a prefill."""

from __future__ import annotations

import pytest

from lib.laws.roofline import prefill_seconds


def test_long_prompts_are_bound_by_arithmetic() -> None:
    """8.03e9 parameters, 4096 tokens, 121 TFLOP/s: 2 · 8.03e9 · 4096 / 121e12 = 0.5436 s."""
    took = prefill_seconds(active_parameters=8_030_000_000, tokens=4096, weight_bytes=16_060_000_000, bandwidth=300e9, peak=121e12)
    assert took == pytest.approx(0.5436, rel=1e-3)


def test_one_token_is_bound_by_memory() -> None:
    """A single token still needs one read of the weights: 16.06 GB / 300 GB/s = 53.5 ms."""
    took = prefill_seconds(active_parameters=8_030_000_000, tokens=1, weight_bytes=16_060_000_000, bandwidth=300e9, peak=121e12)
    assert took == pytest.approx(0.0535, rel=1e-3)
