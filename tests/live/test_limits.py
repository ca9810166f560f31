"""Refused beforehand, with the arithmetic; and what a verdict says."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lib.answers.live import MemoryNeed
from lib.errors import DoesNotFit, TooLong
from lib.live.device import Device
from lib.live.limits import (
    DeviceRates,
    Duration,
    RunWork,
    check_memory,
    check_time,
    estimate_duration,
    measure_rates,
    memory_limit_bytes,
)
from lib.live.measure import ComparedRate, judge_prediction

GIB, MIB = 2**30, 2**20
DEVICE = Device(
    kind="cpu",
    name="Some Processor",
    accelerator=None,
    memory_bytes=16 * GIB,
    free_bytes=10 * GIB,
    capability=None,
    cores=2,
    driver=None,
    torch="2.13.0",
    transformers="5.23.0",
)
NEED = MemoryNeed(weights_bytes=8 * GIB, kv_cache_bytes=GIB // 2, activation_bytes=GIB // 4, runtime_bytes=GIB // 4)  # 9 GiB in all
WORK = RunWork(
    weights_bytes=14 * 10**8,
    parameters_per_token=10**9,
    step_bytes=2 * 10**9,
    layers=20,
    prompt_tokens=984,
    output_tokens=7,
)


def test_memory_up_to_nine_tenths_of_what_is_free() -> None:
    """9 GiB of 10 GiB × 0.9 fit exactly; one byte more does not, and every part is in the sentence."""
    check_memory(NEED, DEVICE, "")
    with pytest.raises(DoesNotFit) as refused:
        check_memory(replace(NEED, weights_bytes=8 * GIB + 1), DEVICE, "In bf16 it fits.")
    assert str(refused.value) == (
        "This run needs 9.00 GiB: weights 8.00 GiB + cache 0.50 GiB + activations 0.25 GiB + process 0.25 GiB. Some Processor has "
        "10.00 GiB free, of which a run may take 9.00 GiB. In bf16 it fits."
    )


def test_seconds_of_a_run() -> None:
    """1.4 GB at 0.7 GB/s; 2·10⁹ FLOP × (16 + 984) at 10¹¹/s; 3 + 7 steps of 2 GB at 10 GB/s and 20 × 0.5 ms."""
    found = estimate_duration(WORK, DeviceRates(flop_per_s=1e11, bytes_per_s=1e10), "cpu")
    assert (found.weights_s, found.prompt_s, found.decode_s) == pytest.approx((2.0, 20.0, 10 * (0.2 + 0.01)))
    assert found.total_s == pytest.approx(24.1)


def test_too_long_says_which_prompt_would_do() -> None:
    """Of 14 s, 2 + 2.1 are spent besides the prompt: 9.9 s are 495 tokens at 2 GFLOP and 10¹¹ FLOP/s, less 32 for the warm-up."""
    pace = DeviceRates(flop_per_s=1e11, bytes_per_s=1e10)
    needed = Duration(weights_s=2.0, prompt_s=20.0, decode_s=2.1)
    check_time(WORK, pace, needed, 24.2)
    with pytest.raises(
        TooLong, match=r"about 24 s: .*20 s for 984 prompt tokens × 2\.00 GFLOP at 100 GFLOP/s.*A prompt of 46\d tokens would do"
    ):
        check_time(WORK, pace, needed, 14.0)
    with pytest.raises(TooLong, match="Name a smaller model"):
        check_time(WORK, pace, needed, 4.0)


def test_the_pace_of_this_machine_is_measured() -> None:
    """Between 0.1 GFLOP/s and 10 TFLOP/s: any processor that can run the tests."""
    found = measure_rates("float32", "cpu")
    assert 1e8 < found.flop_per_s < 1e13
    assert 1e7 < found.bytes_per_s < 1e13


RATE = ComparedRate(predicted=20.0, low=10.0, high=40.0, measured=15.0)


@pytest.mark.parametrize(
    ("predicted", "measured", "rate", "floor", "resolution", "code", "words"),
    [
        (95, 100, RATE, None, 0, "confirmed", "5.0% less than was measured, inside the promised 10%"),
        (80, 100, RATE, None, 0, "memory_off", "20.0% less than was measured."),
        (80, 100, RATE, None, 16, "memory_off", "20.0% less"),  # 20 MiB apart, 16 cannot be told apart
        (90, 102, RATE, None, 16, "confirmed", "12.0 MiB between them are less than can be measured here (16 MiB)"),
        (100, 100, replace(RATE, measured=50.0), None, 0, "speed_off", "outside the predicted range of 10.0 to 40.0"),
        (100, 100, replace(RATE, measured=10.0), None, 0, "speed_off", "Wrong by a factor of two or more: decoding"),
        (100, 100, replace(RATE, measured=None), None, 0, "confirmed", "does not decode"),
        (100, 100, ComparedRate(predicted=None, low=None, high=None, measured=5.0), None, 0, "confirmed", "nothing predicted"),
        (100, 100, RATE, 14.9, 0, "invalid", "more than the 14.9"),
        (100, 100, RATE, 15.1, 0, "confirmed", "inside the predicted range"),
    ],
)
def test_the_verdict(
    predicted: int, measured: int, rate: ComparedRate, floor: float | None, resolution: int, code: str, words: str
) -> None:
    """One code and one sentence; a rate above what the bandwidth allows makes the whole measurement invalid."""
    found, said = judge_prediction(predicted * MIB, measured * MIB, rate, floor_tokens_per_s=floor, resolution=resolution * MIB)
    assert (found, words in said) == (code, True), said


@pytest.mark.parametrize(("error", "code"), [(0.5, "confirmed"), (1.0, "speed_off"), (-0.5, "speed_off"), (None, "confirmed")])
def test_nothing_is_confirmed_beside_twice_too_slow(error: float | None, code: str) -> None:
    """A first token predicted at twice or half its time is no confirmation, whatever the memory is."""
    verdict, words = judge_prediction(100 * MIB, 100 * MIB, RATE, floor_tokens_per_s=None, resolution=0, first_token_error=error)
    assert verdict == code
    assert ("the first token" in words) == (code == "speed_off")


def test_a_process_is_bounded_near_its_prediction() -> None:
    """Twice the 9 GiB that are predicted and one for libraries, never more than is free; a card's memory is not the process's."""
    assert memory_limit_bytes(NEED, replace(DEVICE, free_bytes=64 * GIB)) == 19 * GIB
    assert memory_limit_bytes(NEED, DEVICE) == 10 * GIB
    assert memory_limit_bytes(NEED, replace(DEVICE, kind="cuda")) == 0
