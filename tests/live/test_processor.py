"""This machine's processor with its own rates: measured once in a while, the best of them kept, and what the laws make of them."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from lib.catalog import load
from lib.live.device import Device, device_hardware, last_cache_bytes
from lib.live.limits import RATES_VALID_S, DeviceRates, RateProbe, apply_measured_rates, choose_working_set, rates_caveat
from lib.model import bundled
from lib.present.sentences import sentence
from lib.service.runs import Run, predict_run
from lib.speed import SpeedRequest, predict_speed

GIB, MIB = 2**30, 2**20
CPU = Device(
    kind="cpu", name="Some Processor", accelerator=None, memory_bytes=16 * GIB, free_bytes=12 * GIB, capability=None, cores=2, driver=None,
    torch="2.13.0", transformers="5.23.0",
)  # fmt: skip
PACE = DeviceRates(flop_per_s=100e9, bytes_per_s=20e9)
MODEL = "HuggingFaceTB/SmolLM2-1.7B-Instruct"


class Machine:
    """A stand-in for the probe: gives what it is told to, and keeps what it was asked."""

    def __init__(self, *paces: DeviceRates) -> None:
        self.left = list(paces)
        self.asked: list[tuple[str, str, int]] = []
        self.clock = 0.0

    def __call__(self, dtype: str, device: str, read_bytes: int) -> DeviceRates:
        self.asked.append((dtype, device, read_bytes))
        return self.left.pop(0)


def test_rates_are_measured_once_in_a_while_and_the_best_counts() -> None:
    """A busy moment lowers a rate, nothing raises it; each type has its own."""
    machine = Machine(DeviceRates(flop_per_s=5e9, bytes_per_s=30e9), PACE, DeviceRates(flop_per_s=7e9, bytes_per_s=9e9))
    paces = RateProbe(machine, lambda: machine.clock)
    assert paces(CPU, "fp32") == paces(CPU, "fp32") == DeviceRates(flop_per_s=5e9, bytes_per_s=30e9)
    machine.clock = RATES_VALID_S + 1
    assert paces(CPU, "fp32") == DeviceRates(flop_per_s=100e9, bytes_per_s=30e9)
    assert paces(CPU, "bf16") == DeviceRates(flop_per_s=7e9, bytes_per_s=9e9)
    assert [asked[:2] for asked in machine.asked] == [("float32", "cpu"), ("float32", "cpu"), ("bfloat16", "cpu")]


def test_a_card_has_a_datasheet() -> None:
    """Nothing is measured for one, nor for a format that is unpacked before it is multiplied."""
    paces = RateProbe(Machine())
    assert paces(replace(CPU, kind="cuda"), "fp32") is None
    assert paces(CPU, "int4") is None


def test_asking_for_rates_does_not_import_transformers() -> None:
    """It did, beside the thread that loads the chat's model: one of the two then found a half-made module."""
    code = (
        "import sys; sys.path.insert(0, 'tests/live'); import test_processor as t\n"
        "assert t.RateProbe(t.Machine(t.PACE))(t.CPU, 'fp32') == t.PACE\n"
        "assert not {'torch', 'transformers'} & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[2], check=True)


@pytest.mark.parametrize(
    ("cache", "free", "read"),
    [(32 * MIB, 12 * GIB, 128 * MIB), (0, 12 * GIB, 64 * MIB), (2 * GIB, 12 * GIB, 512 * MIB), (32 * MIB, 256 * MIB, 64 * MIB)],
)
def test_what_is_read_leaves_the_caches(cache: int, free: int, read: int) -> None:
    """Four times the last cache; at least 64 MiB, at most 512, and never more than a fourth of what is free."""
    assert choose_working_set(cache, free) == read


def test_the_last_cache_as_the_kernel_tells_it(tmp_path: Path) -> None:
    """The largest of all; nothing told is 0."""
    assert last_cache_bytes(tmp_path) == 0
    for number, size in enumerate(("32K", "512K", "32768K", "nonsense")):
        folder = tmp_path / f"sys/devices/system/cpu/cpu0/cache/index{number}"
        folder.mkdir(parents=True)
        (folder / "size").write_text(f"{size}\n")
    assert last_cache_bytes(tmp_path) == 32 * MIB


def test_a_real_probe_is_plausible() -> None:
    """Any machine multiplies between 0.1 GFLOP/s and 100 TFLOP/s and reads between 0.1 and 2000 GB/s."""
    pace = RateProbe()(CPU, "fp32")
    assert pace is not None
    assert 1e8 < pace.flop_per_s < 1e14
    assert 1e8 < pace.bytes_per_s < 2e12


def test_a_rate_that_was_reached_is_taken_whole() -> None:
    """No share is taken off what was reached: the fit's would make it a third.

    1 711 376 384 parameters, of which the tied head of 49152 × 2048 works on the last token only: (512 · 1.711e9 - 511 · 0.101e9) · 2 FLOP
    / 100 GFLOP/s = 16.5 s, attention on top. A step reads 6.85 GB at 20 GB/s: 342 ms, and 24 layers take a few milliseconds of the host.
    Ranges are not cut at these rates: they are no ceilings.
    """
    catalog, spec = load(), bundled.find_spec(MODEL)
    assert spec is not None
    on = device_hardware(CPU, catalog, cpu=apply_measured_rates(PACE, "fp32", CPU, catalog.accelerator("CPU-2vCPU")))
    assert on is not None
    found = predict_speed(spec, on, SpeedRequest(precision="fp32", prompt_tokens=512, output_tokens=32), catalog.accelerators)
    assert found.tpot_s is not None
    assert 16.5 < found.ttft_s.value < 1.15 * 16.5
    assert 0.342 < found.tpot_s.value < 1.1 * 0.342
    assert found.ttft_s.low < 16.5
    assert found.tpot_s.low < 0.342


def test_the_prediction_says_where_its_rates_are_from() -> None:
    """It names this machine and its rates, with a source and without the words of a typical host; other precisions have other rates."""
    spec = bundled.find_spec(MODEL)
    assert spec is not None
    run = Run(spec=spec, precision="bf16", device=CPU, prompt_tokens=128, output_tokens=16, rates=PACE)
    mine, typical = predict_run(run, load()), predict_run(replace(run, rates=None), load())
    assert (mine.hardware, typical.hardware) == ("this-machine", "cpu-basic")
    assert mine.peak_bytes == typical.peak_bytes
    said = {caveat.code: sentence(caveat) for caveat in mine.caveats}
    assert "20.0 GB/s, 100 GFLOP/s in bf16" in said["rates_measured"]
    assert "not from a datasheet" in said["rates_measured"]
    assert "cpu_estimate" not in said
    assert "cpu_estimate" in {caveat.code for caveat in typical.caveats}
    assert any("rates of this processor" in source.what for source in mine.sources)
    assert rates_caveat(PACE, "bf16") in mine.caveats
    assert mine.speed is not None
    assert typical.speed is not None
    assert mine.speed.ttft_s.value < typical.speed.ttft_s.value  # 100 GFLOP/s, and 60
