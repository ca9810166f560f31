"""The heartbeat: its arithmetic by hand, and its product really run on the processors of this machine."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from written import Written

from lib.answers.live import HeartbeatProgress
from lib.catalog import load
from lib.errors import BadArgument, DoesNotFit, LiveError, TooLong
from lib.live import device_queue, heartbeat, limits
from lib.live.device import Device
from lib.live.heartbeat import (
    LIMIT_S,
    MARGIN,
    DeviceRoof,
    HeartbeatEvent,
    HeartbeatRun,
    MatmulCase,
    MatmulTimes,
    check_memory,
    datasheet_roof,
    floor,
    gpu_seconds,
    host_timer,
    judge_times,
    nearest_rank,
    run_heartbeat,
    run_matmuls,
)
from lib.service import measure
from lib.service.app import Services
from lib.service.endpoint import App
from lib.service.measure import stream_heartbeat
from lib.service.models import Models

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import torch

SMALL = MatmulCase(batch=4, hidden=64, intermediate=32, iterations=5, warmup=2)
PROCESSORS = Device(
    kind="cpu",
    name="Test CPU",
    accelerator=None,
    memory_bytes=8 * 2**30,
    free_bytes=4 * 2**30,
    capability=None,
    cores=2,
    driver=None,
    torch="2.13.0",
    transformers="5.23.0",
)
L4 = load().accelerator("L4")
CARD = replace(PROCESSORS, kind="cuda", name="NVIDIA L4", accelerator="L4", capability=(8, 9))


def asked_on(device: Device, run: Any = heartbeat.on_device) -> Any:
    """What runs on this device, as `run` does it."""
    return Written(Services(App(catalog=load, models=Models(), find_device=lambda _="large": device, run_heartbeat=run)))


def _roof(bandwidth: float, peak: float | None = None, cache: int = 0) -> DeviceRoof:
    return DeviceRoof(bandwidth=bandwidth, peak=peak, cache_bytes=cache, measured=False, sources=())


def test_default_case_is_the_published_one() -> None:
    """17.18 GFLOP and 268 MB of weights."""
    case = MatmulCase()
    assert case.flops == 17_179_869_184  # 2 · 128 · 4096 · 16384
    assert case.weight_bytes == 268_435_456  # 4 · 4096 · 16384
    assert case.moved_bytes == 268_435_456 + 4 * 128 * (4096 + 16384)  # and x, and y


def test_floor_is_the_larger_of_memory_and_arithmetic() -> None:
    """On an L4 the default case is bound by its 30.3 TFLOP/s, in bfloat16 by its 300 GB/s."""
    l4 = load().accelerator("L4")
    single = floor(MatmulCase(), datasheet_roof(l4, "float32"))
    # (278 921 216 − 48 MiB of cache) / 300e9 = 0.762 ms;  17.18e9 / 30.3e12 = 0.567 ms
    assert single.memory_s == pytest.approx(228_589_568 / 300e9)
    assert single.compute_s == pytest.approx(17_179_869_184 / 30.3e12)
    assert single.bound == "bandwidth"
    thousand = floor(MatmulCase(batch=1024), datasheet_roof(l4, "float32"))
    assert thousand.bound == "compute"
    assert thousand.seconds == pytest.approx(8 * 17_179_869_184 / 30.3e12)


def test_type_without_a_unit_gets_the_fastest_one_s_peak() -> None:
    """A TPU publishes no fp32 rate, a T4 no bf16 rate: nothing on the chip is faster than the rate that stands in."""
    assert datasheet_roof(load().accelerator("TPU-v6e"), "float32").peak == 918e12
    assert datasheet_roof(load().accelerator("T4"), "bfloat16").peak == 65e12
    assert datasheet_roof(load().accelerator("A100-SXM4-80GB"), "float32", tf32=True).peak == 156e12


def test_what_the_cache_holds_need_not_cross_the_bus() -> None:
    """Matrices that fit the cache have no floor from the memory, only one from the arithmetic."""
    least = floor(SMALL, _roof(1e9, peak=1e9, cache=SMALL.moved_bytes))
    assert least.memory_s == 0.0
    assert least.seconds == SMALL.flops / 1e9


def test_card_whose_cache_is_not_stated_gets_the_largest_that_is_built() -> None:
    """An RTX 6000 Ada has 96 MB, which its row does not say: a product of 17 MB read from there beats 960 GB/s, and rightly so."""
    ada = load().accelerator("RTX-6000-Ada")
    assert ada.l2 is None
    case = MatmulCase(hidden=2048, intermediate=4096, dtype="float16")
    least = floor(case, datasheet_roof(ada, "float16"))
    assert least.memory_s == 0.0  # 18 350 080 B fit 256 MiB
    assert least.compute_s == pytest.approx(2 * 128 * 2048 * 4096 / 364e12)
    seen = judge_times(case, MatmulTimes(cold_first_s=1e-3, warm_s=(1.5e-5,) * 5), least)  # 18.35 MB / 960 GB/s would be 19 µs
    assert seen.valid
    assert datasheet_roof(load().accelerator("TPU-v6e"), "bfloat16").cache_bytes == 0

    def run_once(*_: object) -> Iterator[HeartbeatEvent]:
        yield HeartbeatRun(beat=seen, roof=datasheet_roof(ada, "float16"), floor=least, done=5, emulated=False, in_tf32=False)

    on = replace(CARD, accelerator=ada.id, name=ada.name)
    answer = asked_on(on, run_once).heartbeat(128, 2048, 4096, 5, 0, "float16")
    assert {"cache_unknown"} == {c["code"] for c in answer["caveats"]}


def test_published_time_of_a_tpu_is_called_impossible() -> None:
    """0.0056 ms on a TPU v6e lies below the 0.17 ms that its memory needs: the dispatch was timed."""
    least = floor(MatmulCase(), datasheet_roof(load().accelerator("TPU-v6e"), "float32"))
    seen = judge_times(MatmulCase(), MatmulTimes(cold_first_s=5e-3, warm_s=(5.6e-6,) * 100), least)
    assert least.seconds == pytest.approx(278_921_216 / 1640e9)
    assert not seen.valid
    assert seen.efficiency is None


def test_one_time_below_the_floor_makes_the_run_invalid() -> None:
    """A clock that stops early once may stop early always."""
    least = floor(SMALL, _roof(1e9))
    fair = 2 * least.seconds
    assert judge_times(SMALL, MatmulTimes(cold_first_s=1.0, warm_s=(fair,) * 5), least).efficiency == pytest.approx(0.5)
    assert not judge_times(SMALL, MatmulTimes(cold_first_s=1.0, warm_s=(fair,) * 4 + (0.9 * least.seconds,)), least).valid
    assert not judge_times(SMALL, MatmulTimes(cold_first_s=0.0, warm_s=(fair,) * 5), least).valid


@pytest.mark.parametrize(("count", "expected"), [(100, 95), (20, 19), (3, 3), (1, 1)])
def test_p95_is_the_nearest_rank(count: int, expected: int) -> None:
    """Of 1 … n the ⌈0.95 n⌉-th: 95 of 100, 19 of 20, 3 of 3."""
    assert nearest_rank([float(n) for n in range(count, 0, -1)], 0.95) == expected


times = st.floats(min_value=1e-7, max_value=1e3)


@given(st.lists(times, min_size=1, max_size=50), times, st.floats(min_value=1e6, max_value=1e13))
def test_efficiency_of_a_valid_run_lies_in_0_1(warm: list[float], cold: float, bandwidth: float) -> None:
    """And the figures keep their order: shortest ≤ median ≤ 95 %."""
    least = floor(SMALL, _roof(bandwidth))
    seen = judge_times(SMALL, MatmulTimes(cold_first_s=cold, warm_s=tuple(warm)), least)
    assert seen.min_s <= seen.median_s <= max(warm)
    assert seen.p95_s <= max(warm)
    if seen.valid:
        assert seen.efficiency is not None
        assert 0 < seen.efficiency <= 1
    else:
        assert min(*warm, cold) < least.seconds


class Dispatch:
    """A device that takes the work and hands the call back at once: the clock stops after the call, not after the work."""

    def __call__(self, work: Callable[[], torch.Tensor]) -> tuple[torch.Tensor, float]:
        return work(), 1e-9


class Lost:
    """A device that never does the work."""

    def __call__(self, work: Callable[[], torch.Tensor]) -> tuple[torch.Tensor, float]:
        return 0 * work(), 1e-3


class Slow:
    """A device that takes this long for everything."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.calls = 0

    def __call__(self, work: Callable[[], torch.Tensor]) -> tuple[torch.Tensor, float]:
        self.calls += 1
        return work(), self.seconds


def _run_case(case: MatmulCase = SMALL, **named: object) -> HeartbeatRun:
    *_, last = run_heartbeat(case, PROCESSORS, None, **named)  # type: ignore[arg-type]
    assert isinstance(last, HeartbeatRun)
    return last


def test_it_runs_on_this_machine() -> None:
    """A small product: every count as asked for, valid, held against a bandwidth measured here."""
    seen = _run_case()
    assert seen.done == SMALL.iterations
    assert seen.beat.valid
    assert seen.beat.efficiency is not None
    assert 0 < seen.beat.efficiency <= 1
    assert seen.roof.measured
    assert 1e9 < seen.roof.bandwidth < 1e13  # a machine below 1 GB/s or above 10 TB/s is not this one


def test_bandwidth_is_measured_again_before_a_time_is_called_impossible(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first look fell into a busy moment: 1 MB/s cannot be beaten by this product's own millisecond, 1 GB/s can."""
    seen = iter([1e6, 1e9])
    monkeypatch.setattr(heartbeat, "read_bandwidth", lambda *_: next(seen))
    outcome = _run_case(clock=Slow(1e-3))  # 17 kB in 1 ms: 17 MB/s
    assert outcome.beat.valid
    assert outcome.roof.bandwidth == 1e9 * MARGIN


def test_dispatch_alone_is_found_out() -> None:
    """The answer says that the time is impossible, with the arithmetic, and gives no efficiency."""

    def run_without_waiting(case: MatmulCase, device: Device, *_: object) -> Iterator[HeartbeatEvent]:
        return run_heartbeat(case, device, None, clock=Dispatch())  # type: ignore[return-value]

    question = asked_on(PROCESSORS, run_without_waiting)
    answer = question.heartbeat(batch=8, hidden=512, intermediate=1024, iterations=5)
    assert answer["valid"] is False
    assert answer["efficiency"] is None
    told = {c["code"]: c["message"] for c in answer["caveats"]}
    assert "1e-06 ms" in told["beats_the_floor"]  # a nanosecond
    assert "GB/s need" in told["beats_the_floor"]


def test_work_that_was_not_done_is_an_error() -> None:
    """The sums of the results have to be those of the inputs."""
    with pytest.raises(LiveError, match="results are wrong"):
        _run_case(clock=Lost())


def test_host_timer_counts_the_waiting() -> None:
    """The clock stops after the wait, not before it."""
    order: list[str] = []
    ticks = itertools.count(0, 500_000_000)
    timed = host_timer(lambda: order.append("waited"), lambda: (order.append("clock"), next(ticks))[1])
    _, seconds = timed(lambda: order.append("worked"))  # type: ignore[arg-type,return-value]
    assert order == ["clock", "worked", "waited", "clock"]
    assert seconds == 0.5


def test_too_slow_a_device_is_refused_after_its_first_product() -> None:
    """30 s each: the four that a result needs take 120 s, a run may take 60 s."""
    slow = Slow(30.0)
    with pytest.raises(TooLong, match=r"takes 30\.00 s .* would take 120\.0 s, and a run may take 60 s"):
        _run_case(clock=slow)
    assert slow.calls == 1


def test_large_product_is_tried_on_a_corner_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a case far beyond the probe only a corner runs before it is refused: 1/64 of it in 1 s makes 64 s."""
    monkeypatch.setitem(heartbeat._PROBE_FLOPS, "cpu", 2 * 64 * 64)
    slow = Slow(1.0)
    with pytest.raises(TooLong, match=r"takes 64\.00 s on this device \(by a corner of it"):
        _run_case(MatmulCase(batch=64, hidden=64, intermediate=64, iterations=5), clock=slow)
    assert slow.calls == 2


def test_run_ends_at_its_limit_with_fewer_products() -> None:
    """Each turn of the clock is 10 s: after the limit of 60 s no further product starts, and the caveat says how many there were."""
    device, clock = matmul_device(), itertools.count(0, 5)
    *_, last = run_matmuls(replace(SMALL, iterations=1000), device, limit_s=60, now=lambda: float(next(clock)))
    assert isinstance(last, MatmulTimes)
    assert 3 <= len(last.warm_s) < 20


def matmul_device() -> torch.device:
    """Torch's name of the processors."""
    import torch  # noqa: PLC0415

    return torch.device("cpu")


def test_what_does_not_fit_is_refused_before_anything_is_made() -> None:
    """The arithmetic is in the message; on a CPU half of what is free may be used, at most 4 GiB."""
    with pytest.raises(DoesNotFit, match=r"take 8\.\d\d GiB in float32 .* has 4\.00 GiB free, .* may use 2\.00 GiB"):
        check_memory(MatmulCase(hidden=65_536, intermediate=32_768), PROCESSORS)
    with pytest.raises(DoesNotFit, match=r"may use 4\.00 GiB"):
        check_memory(MatmulCase(hidden=65_536, intermediate=32_768), replace(PROCESSORS, free_bytes=64 * 2**30))
    check_memory(MatmulCase(), PROCESSORS)


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ({"batch": 0}, "batch was '0'"),
        ({"hidden": 1.5}, "hidden was '1.5'"),
        ({"intermediate": "16384"}, "intermediate was"),
        ({"iterations": 2}, "from 3 to"),
        ({"warmup": -1}, "warmup was"),
        ({"dtype": "int8"}, "float32, float16, bfloat16"),
    ],
)
def test_arguments_are_checked(named: dict[str, object], message: str) -> None:
    """Nothing runs for an argument that makes no sense."""
    question = asked_on(PROCESSORS, lambda *_: pytest.fail("ran"))
    with pytest.raises(BadArgument, match=message):
        question.heartbeat(**named)  # type: ignore[arg-type]


def test_page_sees_how_it_goes() -> None:
    """Progress first, the measuring of the bandwidth told, the answer last."""
    *told, answer = asked_on(PROCESSORS)[stream_heartbeat](4, 64, 32, 5, 1)
    phases = [item["phase"] for item in told]  # type: ignore[typeddict-item]
    assert phases[0] == "cold"
    assert phases[-1] == "bandwidth"
    assert {"median_s", "schema", "sources"} <= answer.keys()


def test_closing_ends_the_run() -> None:
    """A visitor who leaves stops the work: no further product is run."""
    slow = Slow(1e-6)
    running = run_heartbeat(replace(SMALL, iterations=1000), PROCESSORS, None, clock=slow)
    assert isinstance(next(running), HeartbeatProgress)
    running.close()  # type: ignore[attr-defined]
    assert slow.calls == 1


def test_emulated_type_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A processor without such a unit still answers, and says what the time is worth."""
    monkeypatch.setattr(heartbeat, "is_emulated", lambda *_: True)
    answer = asked_on(PROCESSORS).heartbeat(batch=2, hidden=64, intermediate=64, iterations=3, dtype="bfloat16")
    assert answer["valid"]
    assert "not_native" in {c["code"] for c in answer["caveats"]}


def test_native_types_of_a_card() -> None:
    """bfloat16 from compute capability 8.0 on, float16 from 5.3 on."""
    import torch  # noqa: PLC0415

    gpu = torch.device("cuda")
    assert heartbeat.is_emulated(replace(SMALL, dtype="bfloat16"), gpu, (7, 5))
    assert not heartbeat.is_emulated(replace(SMALL, dtype="bfloat16"), gpu, (8, 0))
    assert not heartbeat.is_emulated(replace(SMALL, dtype="float16"), gpu, (7, 5))
    assert not heartbeat.is_emulated(SMALL, gpu, (3, 5))


def test_declared_seconds_of_a_gpu_follow_the_work() -> None:
    """The default case on an L4: 106 products of 0.76 ms, ten times that, and four seconds for the start; never beyond the limit."""
    assert gpu_seconds(MatmulCase(), CARD, L4) == pytest.approx(4.0 + 106 * 10 * 228_589_568 / 300e9)
    assert gpu_seconds(MatmulCase(batch=65_536, iterations=10_000), CARD, L4) == 4.0 + LIMIT_S["zerogpu"]
    assert gpu_seconds(MatmulCase(), CARD, L4, placed_bytes=3_000_000_000) == pytest.approx(
        gpu_seconds(MatmulCase(), CARD, L4) + 2.0
    )  # at 1.5 GB/s


def test_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """While a measurement has the device, the heartbeat waits and then says so; afterwards it runs."""
    question = asked_on(PROCESSORS)
    monkeypatch.setattr(measure, "hardware_turn", lambda: device_queue.hardware_turn(0.05))
    with device_queue.hardware_turn(), pytest.raises(LiveError, match="Another measurement"):
        question.heartbeat(2, 64, 64, 3, 0)
    assert question.heartbeat(2, 64, 64, 3, 0)["valid"]


def test_visitor_who_leaves_gives_the_device_back() -> None:
    """Closing in the middle of a run frees it for the next."""
    running = asked_on(PROCESSORS)[stream_heartbeat](4, 64, 32, 1000, 1)
    next(running)
    running.close()  # type: ignore[attr-defined]
    with device_queue.hardware_turn(0.05):
        pass


def test_measured_bandwidth_is_that_of_a_memory() -> None:
    """A set that fits no cache is read at the speed of memory, within what any machine has."""
    assert 5e8 < limits.read_bandwidth(64 * 2**20, matmul_device(), lambda: None) < 2e12
