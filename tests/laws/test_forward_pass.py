"""What a forward pass moves, computes and takes, on numbers worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lib.laws.forward_pass import (
    achieved_bandwidth,
    achieved_compute,
    all_reduce_time,
    attention_flop,
    cache_bytes_copied,
    cache_bytes_read,
    decode_floor,
    device_time,
    expert_share,
    launch_overhead,
    linear_flop,
    pipeline_share,
    prefill_floor,
    roofline,
    roofline_seconds,
    step_time,
    unpacked_bytes_moved,
    weight_bytes_read,
)

TIMES = st.floats(min_value=1e-7, max_value=1e4)


def test_one_token_reads_its_experts_and_many_tokens_nearly_all() -> None:
    """Mixtral reaches 2 of 8 experts: 1/4 of them for one token, 1 - 0.75³² = 99.99 % for 32; a dense model is always read whole."""
    assert float(expert_share(experts=8, per_token=2, tokens=1)) == pytest.approx(0.25)
    assert float(expert_share(experts=8, per_token=2, tokens=32)) == pytest.approx(1 - 0.75**32)
    assert float(expert_share(experts=0, per_token=0, tokens=1)) == 1.0
    assert weight_bytes_read(dense_bytes=10.0, expert_bytes=100.0, expert_share=0.25) == 35.0


def test_the_cache_read_is_the_sum_of_the_kinds_of_layers() -> None:
    """Gemma 3 27B, 16 bit: 10 full layers and 52 with a window of 1023, 4096 elements a token each, at 8192 tokens.

    Full: 10 · 4096 · 2 · 8192 = 671,088,640; windowed: 52 · 4096 · 2 · 1023 = 435,781,632.
    """
    held = cache_bytes_read(constant=0, per_token=10 * 8192, windowed_per_token=52 * 8192, window=1023, tokens=8192)
    assert held == 671_088_640 + 435_781_632


def test_a_cache_that_grows_by_a_token_is_read_and_written_whole() -> None:
    """Reading and writing C bytes moves 2 · C; keys repeated for 4 query heads are read once and written four times more: 7 · C."""
    assert float(cache_bytes_copied(cache_bytes=100.0, repeats=1.0)) == 200
    assert cache_bytes_copied(cache_bytes=np.array([100.0, 100.0]), repeats=np.array([1.0, 4.0])).tolist() == [200, 700]


def test_packed_weights_are_unpacked_once_whatever_the_number_of_rows() -> None:
    """Written and read in 16 bits, 4 bytes a weight, beyond the rows that the kernel unpacks in registers."""
    moved = unpacked_bytes_moved(parameters=np.full(3, 1e9), rows=np.array([50.0, 51.0, 5000.0]), fused_rows=np.full(3, 50.0))
    assert moved.tolist() == [0, 4e9, 4e9]


def test_only_the_last_position_of_each_sequence_passes_the_output_projection() -> None:
    """2 sequences of 50 tokens, 1000 parameters of which 100 are the head: 2 · (1000 · 100 - 100 · 98); a decode step passes all."""
    assert linear_flop(parameters=1000, tokens=100, head_parameters=100, sequences=2) == 2 * (100_000 - 9_800)
    assert linear_flop(parameters=1000, tokens=4, head_parameters=100, sequences=4) == 8_000


def test_emulated_arithmetic_overlaps_with_nothing() -> None:
    """3 s of reading and 4 s of conversion: 7 s; units of their own would take (27 + 64)^(1/3) = 4.5 s."""
    assert float(device_time(weights_s=3.0, compute_s=4.0, cache_s=0.0, emulated=True)) == pytest.approx(7)
    assert float(device_time(weights_s=3.0, compute_s=4.0, cache_s=0.0)) == pytest.approx(91 ** (1 / 3))


def test_attention_over_a_window_grows_linearly() -> None:
    """Past twice the window a windowed layer costs 4 · a · w per token: 4 · 4096 · 1024 · 8192 = 137.4 GFLOP for one layer."""
    flop = attention_flop(width=4096, full_layers=0, windowed_layers=1, window=1024, tokens=8192)
    assert flop == 4 * 4096 * 1024 * 8192
    assert linear_flop(parameters=2.0, tokens=3.0) == 12.0


def test_a_faster_card_is_not_credited_with_less_than_the_slower_ones() -> None:
    """Own class 1 reaches σ(-2) = 11.9 % of 200; class 0, of which it exceeds a card of 100, reaches half of that: 50 wins."""
    reached = achieved_bandwidth(by_class=np.array([[100.0, 200.0]]), logit=0.0, class_logit=np.array([0.0, -2.0]))
    assert reached == pytest.approx([50.0])


def test_compute_grows_with_the_rows() -> None:
    """At as many rows as `half_rows` half of the rate is reached, at three times as many 3/4: 1000 · 1/2 · 3/4."""
    reached = achieved_compute(
        by_class=np.array([[1000.0]]), logit=0.0, class_logit=np.zeros(1), rows=np.array([240.0]), half_rows=np.array([80.0])
    )
    assert reached == pytest.approx([375.0])


def test_host_time_adds_layers_steps_and_sequences() -> None:
    """10 layers of 2 ms, doubled by the format, a step of 3 ms, 5 sequences of 1 ms: 40 + 3 + 5."""
    assert launch_overhead(layers=10, layer_s=0.002, step_s=0.003, sequence_s=0.001, sequences=5, factor=2) == pytest.approx(0.048)


def test_exchange_is_nothing_alone_and_two_all_reduces_a_layer_together() -> None:
    """Four devices: 2 · 10 layers · (10 µs · log₂ 4 + 2 · 200,000 B / 1 GB/s · 3/4) = 20 · (20 µs + 300 µs) = 6.4 ms."""
    assert float(all_reduce_time(layers=10, devices=1, tokens=100, hidden=1000, latency_s=1e-5, link=1e9)) == 0.0
    assert float(all_reduce_time(layers=10, devices=4, tokens=100, hidden=1000, latency_s=1e-5, link=1e9)) == pytest.approx(6.4e-3)


@given(weights=TIMES, compute=TIMES, cache=TIMES, host=TIMES, eager=st.booleans())
def test_a_step_is_at_least_its_longest_part_and_at_most_their_sum(
    weights: float, compute: float, cache: float, host: float, eager: bool
) -> None:
    """Overlap saves time but cannot hide the longest part."""
    device = device_time(weights_s=weights, compute_s=compute, cache_s=cache)
    whole = float(step_time(device_s=device, launch_s=host, all_reduce_s=0.0, eager=eager))
    assert max(weights + cache, compute + cache, host) <= whole * (1 + 1e-9)
    assert whole <= (weights + compute + cache + host) * (1 + 1e-9)


def test_a_pass_with_prompts_takes_its_launches_at_least() -> None:
    """2 ms of work behind 40 ms of launches take 40 ms; 400 ms of work hide them."""
    for device, least, most in ((0.002, 0.040, 0.0401), (0.4, 0.4, 0.4001)):
        whole = float(step_time(device_s=device, launch_s=0.0, all_reduce_s=0.0, eager=False, prompt_launch_s=0.04))
        assert least <= whole <= most


def test_the_floor_is_the_slower_of_memory_and_arithmetic() -> None:
    """100 GB over two devices of 1 TB/s: 50 ms; 400 TFLOP over 2 · 1 PFLOP/s: 200 ms; without a peak only the memory counts."""
    both = roofline_seconds(read_bytes=100e9, flop=400e12, devices=2, bandwidth=1e12, peak=1e15)
    memory = roofline_seconds(read_bytes=100e9, flop=400e12, devices=2, bandwidth=1e12, peak=0.0)
    assert float(both) == pytest.approx(0.2)
    assert float(memory) == pytest.approx(0.05)


def test_laws_take_arrays_as_they_take_numbers() -> None:
    """The calibration runs the same lines on columns."""
    many = np.array([1.0, 8.0])
    each = [float(expert_share(experts=8, per_token=2, tokens=n)) for n in many]
    assert expert_share(experts=np.array([8, 8]), per_token=np.array([2, 2]), tokens=many).tolist() == each
    assert not math.isnan(float(np.sum(device_time(weights_s=many, compute_s=many, cache_s=many))))


@given(st.floats(1, 1e4), st.integers(1, 16))
def test_a_pipeline_saves_at_most_its_stages(chunks: float, stages: int) -> None:
    """One stage saves nothing; many chunks on S stages come close to 1/S, and never below."""
    share = pipeline_share(chunks=chunks, stages=float(stages))
    assert 1 / stages <= share * (1 + 1e-12)
    assert share <= 1 + 1e-12
    assert pipeline_share(chunks=1e9, stages=float(stages)) == pytest.approx(1 / stages)


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
