"""Turns on the device: however a call comes in, one at a time on a device of one's own; side by side on ZeroGPU, up to a width."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from typing_extensions import TypedDict

from lib.live import device_queue
from lib.service.app import services
from lib.service.endpoint import Endpoint
from lib.ui import events
from lib.ui.http import api, mcp

WAYS = ("API", "MCP", "page")


class Beat(TypedDict):
    """How many were at work when this one began."""

    beside: int


class Device:
    """A question that notes how many are at work at the same time; `together` makes each wait until that many are."""

    def __init__(self, together: int = 1) -> None:
        self._barrier = threading.Barrier(together)
        self._lock = threading.Lock()
        self._now = self.most = 0

    def heartbeat(self) -> Beat:
        """Beat."""
        with self._lock:
            self._now += 1
            self.most = max(self.most, self._now)
        self._barrier.wait(timeout=60)
        time.sleep(0.02)  # long enough for the others to come in, if they may
        with self._lock:
            self._now -= 1
        return {"beside": self._now}


def _ways(device: Device) -> dict[str, Callable[[], object]]:
    """The question as the three interfaces ask it."""
    endpoint = Endpoint(question=device.heartbeat, queue=device_queue.DEVICE)

    def stream_beat() -> Iterator[Beat]:
        yield device.heartbeat()

    def raise_words(words: str) -> Beat:
        raise AssertionError(words)

    return {
        "API": api.gradio_function(endpoint),
        "MCP": mcp.tool_function(endpoint),
        "page": lambda: list(events.scenes(stream_beat, device_queue.DEVICE, raise_words)),
    }


@pytest.fixture
def _reset_slots(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slots that nobody has used."""
    monkeypatch.setattr(device_queue, "_queues", {})


def _at_once(ways: dict[str, Callable[[], object]], times: int) -> None:
    with ThreadPoolExecutor(max_workers=len(ways) * times) as threads:
        for done in [threads.submit(way) for way in ways.values() for _ in range(times)]:
            done.result(timeout=120)


@pytest.mark.usefixtures("_reset_slots")
def test_one_device_has_one_caller() -> None:
    """Nine calls at the same time, three each way: never two at work."""
    device = Device()
    _at_once(_ways(device), times=3)
    assert device.most == 1


@pytest.mark.usefixtures("_reset_slots")
@pytest.mark.parametrize("way", WAYS)
def test_every_way_waits_for_the_device(way: str) -> None:
    """While somebody has the slot nothing begins; then it does."""
    device = Device()
    with ThreadPoolExecutor() as threads:
        with device_queue.turn(device_queue.DEVICE):
            waiting = threads.submit(_ways(device)[way])
            time.sleep(0.1)
            assert device.most == 0
        waiting.result(timeout=60)
    assert device.most == 1


@pytest.mark.usefixtures("_reset_slots")
def test_on_zero_gpu_calls_run_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each call gets a GPU of its own: six are at work together, and each of them waits for the other five; a ninth would wait."""
    monkeypatch.setenv("SPACES_ZERO_GPU", "true")
    device = Device(together=6)
    _at_once(_ways(device), times=2)
    assert device.most == 6
    held = [device_queue.turn(device_queue.DEVICE, wait_s=0.01) for _ in range(8)]
    for one in held:
        one.__enter__()
    with pytest.raises(device_queue.Occupied), device_queue.turn(device_queue.DEVICE, wait_s=0.01):
        raise AssertionError
    for one in held:
        one.__exit__(None, None, None)


def test_the_width_is_where_we_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what runs on the device is wide, and only on ZeroGPU."""
    monkeypatch.delenv("SPACES_ZERO_GPU", raising=False)
    assert {device_queue.width(slot) for slot in (device_queue.DEVICE, device_queue.CHAT, "account")} == {1}
    monkeypatch.setenv("SPACES_ZERO_GPU", "true")
    assert [device_queue.width(slot) for slot in (device_queue.DEVICE, device_queue.CHAT, "account")] == [8, 8, 1]


def test_measurements_on_zero_gpu_do_not_wait_for_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """The turn below the interfaces, which the heartbeat and a measurement take, is free there."""
    monkeypatch.setenv("SPACES_ZERO_GPU", "true")
    with device_queue.hardware_turn(0.01), device_queue.hardware_turn(0.01):
        pass


def test_all_that_runs_on_the_device_takes_turns() -> None:
    """Measure and heartbeat share one slot, the chat has its own; all wait in the queue."""
    asked = services().endpoints()
    assert {name: asked[name].queue for name in ("measure", "heartbeat", "chat")} == {
        "measure": device_queue.DEVICE,
        "heartbeat": device_queue.DEVICE,
        "chat": device_queue.CHAT,
    }
