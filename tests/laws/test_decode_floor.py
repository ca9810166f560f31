"""The roofline of a decode step."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lib.laws.roofline import experts_read, step_seconds

sizes = st.integers(1, 10**12)


def test_llama_8b_on_an_l4() -> None:
    """16.06 GB of weights at 300 GB/s are 53.5 ms; a published 7B run on this card reached 17.9 of at most 20.7 tokens/s."""
    step = step_seconds(weight_bytes=16_060_000_000, cache_bytes=0, bandwidth=300e9, active_parameters=8_030_000_000, peak=121e12)
    assert step == pytest.approx(0.05353, rel=1e-3)
    assert 1 / step_seconds(weight_bytes=14_480_000_000, cache_bytes=0, bandwidth=300e9, active_parameters=7_240_000_000) == pytest.approx(
        20.7, rel=0.01
    )


def test_large_batches_are_bound_by_arithmetic() -> None:
    """1000 sequences of an 8B model at 121 TFLOP/s: 2 · 8.03e9 · 1000 / 121e12 = 132.7 ms, more than one read of the weights."""
    step = step_seconds(
        weight_bytes=16_060_000_000, cache_bytes=0, bandwidth=300e9, active_parameters=8_030_000_000, batch=1000, peak=121e12
    )
    assert step == pytest.approx(0.1327, rel=1e-3)


@given(sizes, sizes, st.integers(1, 512))
def test_a_larger_batch_takes_longer_but_less_each(weights: int, cache: int, batch: int) -> None:
    """A step over more sequences is not shorter, and its time per sequence not longer."""
    one = step_seconds(weight_bytes=weights, cache_bytes=cache, bandwidth=1e12, active_parameters=weights // 2 + 1, peak=1e14)
    many = step_seconds(weight_bytes=weights, cache_bytes=cache, bandwidth=1e12, active_parameters=weights // 2 + 1, batch=batch, peak=1e14)
    assert many >= one
    assert many / batch <= one * (1 + 1e-9)


def test_a_mixture_reads_more_with_every_sequence() -> None:
    """13 of 47 billion parameters for one token; with 20 independent tokens nearly all: 1 - (34/47)^20 = 0.9985."""
    assert experts_read(active=13, total=47, batch=1) == pytest.approx(13 / 47)
    assert experts_read(active=13, total=47, batch=20) == pytest.approx(0.9985, abs=1e-4)
