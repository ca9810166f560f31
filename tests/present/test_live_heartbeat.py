"""The heartbeat in words."""

from __future__ import annotations

import pytest

from lib.catalog import load
from lib.live.heartbeat import MatmulCase
from lib.present import live_heartbeat
from lib.present.live_heartbeat import check_published_time, explain_published_time, verdict_sentences


def test_published_time_is_thirty_times_too_short() -> None:
    """268 MB at 1640 GB/s are 0.164 ms, 17.2 GFLOP at 918 TFLOP/s 0.0187 ms; 0.164 / 0.0056 = 29."""
    said = explain_published_time(load().accelerator("TPU-v6e"))
    for part in (
        "0.0056 ms",
        "268 MB",
        "1,640 GB/s",
        "0.164 ms",
        "17.2 GFLOP",
        "0.0187 ms",
        "29 times as long",
        "48 TB/s",
        "3.1 PFLOP/s",
        "dispatch",
    ):
        assert part in said


def test_figures_come_from_the_catalog() -> None:
    """A chip twice as fast needs half the time."""
    chip = load().accelerator("TPU-v6e")
    twice = chip.model_copy(update={"bandwidth": 2 * chip.bandwidth})
    assert check_published_time(twice).least.memory_s == pytest.approx(check_published_time(chip).least.memory_s / 2)


def test_its_case_is_the_default_one() -> None:
    """The words speak of the product that the heartbeat runs."""
    seen = check_published_time(load().accelerator("TPU-v6e"))
    assert (seen.flops, seen.weight_bytes) == (MatmulCase().flops, MatmulCase().weight_bytes)


ANSWER = {
    "median_s": 0.3,
    "iterations": 100,
    "cold_first_s": 0.5,
    "floor_s": 0.03,
    "achieved_flops_per_s": 57e9,
    "efficiency": 0.1,
    "bound": "bandwidth",
    "valid": True,
}


def test_verdict_of_each_kind() -> None:
    """Valid, without a floor, impossible."""
    assert "57 GFLOP/s" in verdict_sentences(ANSWER)
    assert "reaches 10%" in verdict_sentences(ANSWER)
    assert "reaches" not in verdict_sentences(ANSWER | {"efficiency": None})
    assert "not possible" in verdict_sentences(ANSWER | {"valid": False, "efficiency": None})
    assert live_heartbeat.PUBLISHED_S == 5.6e-6
