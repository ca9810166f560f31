"""The roofline: of a decode step, of a prefill, and of many cases at once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lib.laws.forward_pass import expert_share
from lib.laws.roofline import decode_floor, prefill_floor, roofline, roofline_seconds

sizes = st.integers(1, 10**12)
LLAMA = {"weight_bytes": 16_060_000_000, "bandwidth": 300e9, "active_parameters": 8_030_000_000}


def test_llama_8b_on_an_l4() -> None:
    """16.06 GB of weights at 300 GB/s are 53.5 ms; a published 7B run on this card reached 17.9 of at most 20.7 tokens/s."""
    step = decode_floor(**LLAMA, cache_bytes=0, peak=121e12)
    assert (step.seconds, step.bound) == (pytest.approx(0.05353, rel=1e-3), "bandwidth")
    smaller = decode_floor(weight_bytes=14_480_000_000, cache_bytes=0, bandwidth=300e9, active_parameters=7_240_000_000)
    assert 1 / smaller.seconds == pytest.approx(20.7, rel=0.01)


def test_large_batches_are_bound_by_arithmetic() -> None:
    """1000 sequences of an 8B model at 121 TFLOP/s: 2 · 8.03e9 · 1000 / 121e12 = 132.7 ms, more than one read of the weights."""
    step = decode_floor(**LLAMA, cache_bytes=0, batch=1000, peak=121e12)
    assert (step.seconds, step.bound) == (pytest.approx(0.1327, rel=1e-3), "compute")


def test_long_prompts_are_bound_by_arithmetic() -> None:
    """8.03e9 parameters, 4096 tokens, 121 TFLOP/s: 2 · 8.03e9 · 4096 / 121e12 = 0.5436 s."""
    assert prefill_floor(**LLAMA, tokens=4096, peak=121e12).seconds == pytest.approx(0.5436, rel=1e-3)


def test_one_token_is_bound_by_memory() -> None:
    """A single token still needs one read of the weights: 16.06 GB / 300 GB/s = 53.5 ms."""
    assert prefill_floor(**LLAMA, tokens=1, peak=121e12).seconds == pytest.approx(0.0535, rel=1e-3)


@given(sizes, sizes, st.integers(1, 512))
def test_a_larger_batch_takes_longer_but_less_each(weights: int, cache: int, batch: int) -> None:
    """A step over more sequences is not shorter, and its time per sequence not longer."""
    work = {"weight_bytes": weights, "cache_bytes": cache, "bandwidth": 1e12, "active_parameters": weights // 2 + 1, "peak": 1e14}
    one, many = decode_floor(**work).seconds, decode_floor(**work, batch=batch).seconds
    assert many >= one
    assert many / batch <= one * (1 + 1e-9)


@given(sizes, sizes, st.floats(1e9, 1e13), st.none() | st.floats(1e9, 1e16))
def test_one_case_and_many_have_the_same_floor(moved: int, flop: int, bandwidth: float, peak: float | None) -> None:
    """The law for arrays gives what the law for one case gives, on one device and on two of half the figures."""
    least = roofline(moved_bytes=moved, flop=flop, bandwidth=bandwidth, peak=peak).seconds
    for devices in (1, 2):
        each = roofline_seconds(read_bytes=moved, flop=flop, devices=devices, bandwidth=bandwidth / devices, peak=(peak or 0.0) / devices)
        assert float(each) == pytest.approx(least, rel=1e-12)


def test_a_mixture_reads_more_with_every_sequence() -> None:
    """13 of 47 billion parameters for one token; with 20 independent tokens nearly all: 1 - (34/47)^20 = 0.9985."""
    assert float(expert_share(experts=47, per_token=13, tokens=1)) == pytest.approx(13 / 47)
    assert float(expert_share(experts=47, per_token=13, tokens=20)) == pytest.approx(0.9985, abs=1e-4)
