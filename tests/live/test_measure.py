"""A measurement in a process of its own: what it may see, how it ends, and what is said when it ends badly."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from llama import llama_config

from lib.errors import LiveError, OutOfMemory, TaskAborted, TooLong
from lib.live.device_queue import hardware_turn
from lib.live.limits import RunWork
from lib.live.measure import MeasuredRun, MeasureRequest, run_in_child

GIB = 2**30
CONFIG = llama_config(
    hidden_size=512, intermediate_size=1536, num_attention_heads=8, num_key_value_heads=8, num_hidden_layers=4, vocab_size=4000
)
WORK = RunWork(weights_bytes=40_000_000, parameters_per_token=10**7, step_bytes=40_000_000, layers=4, prompt_tokens=16, output_tokens=4)
ASK = MeasureRequest(config=CONFIG, precision="fp32", prompt_tokens=16, output_tokens=4, device="cpu", work=WORK, limit_s=60.0)
MEASURED = {
    "peak_bytes": 5, "weights_bytes": 4, "before_bytes": 3, "reserved_bytes": None, "ttft_s": 0.5, "decode_tokens_per_s": None,
    "mean_tokens_per_s": None, "steps": 0, "weights_s": 0.1, "kernel": "sdpa", "device_name": None,
}  # fmt: skip


def _fake_worker(*lines: object, then: str = "") -> list[str]:
    """A stand-in for the worker that reads the question, says these lines, and does something more."""
    said = "".join(f"print({json.dumps(line)!r}, flush=True);" for line in lines)
    return [sys.executable, "-c", f"import sys, os, signal, time; sys.stdin.readline(); {said} {then}"]


def test_stages_then_figures() -> None:
    """What the worker says line by line; a stage is told again while it lasts."""
    found = list(run_in_child(ASK, command=_fake_worker({"stage": "building"}, {"stage": "running"}, {"measured": MEASURED})))
    assert list(dict.fromkeys(found)) == ["starting", "building", "running", MeasuredRun(**MEASURED)]  # type: ignore[arg-type]


def test_a_refusal_keeps_its_kind_and_its_sentence() -> None:
    """The code names the class."""
    with pytest.raises(TooLong, match=r"^Too long by half\.$"):
        list(run_in_child(ASK, command=_fake_worker({"code": "too_long", "sentence": "Too long by half."})))


@pytest.mark.parametrize(
    ("then", "kind", "words"),
    [
        ("os.kill(os.getpid(), signal.SIGKILL)", OutOfMemory, "most likely because memory ran out"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", TaskAborted, "ended by SIGSEGV"),
        ("sys.exit(3)", LiveError, "without an answer \\(status 3\\)"),
    ],
)
def test_an_end_without_an_answer_is_explained(then: str, kind: type[LiveError], words: str) -> None:
    """Killed by the kernel, crashed, or simply gone; and the next measurement finds the device free."""
    with pytest.raises(kind, match=words):
        list(run_in_child(ASK, command=_fake_worker({"stage": "running"}, then=then)))
    with hardware_turn(0):
        pass


def test_what_takes_too_long_is_ended() -> None:
    """After the time that was given; nothing of it stays."""
    with pytest.raises(TaskAborted, match="more than 1 s"):
        list(run_in_child(ASK, command=_fake_worker({"stage": "running"}, then="time.sleep(60)"), longest_s=1.0))


def test_closing_ends_the_worker_and_what_it_started(tmp_path: Path) -> None:
    """The caller goes away in the middle: the whole process group is gone when `close` returns."""
    note = tmp_path / "child"
    child = f"import subprocess; open({str(note)!r}, 'w').write(str(subprocess.Popen(['sleep', '60']).pid))"
    running = run_in_child(ASK, command=_fake_worker(then=f'{child}; print(\'{{"stage": "running"}}\', flush=True); time.sleep(60)'))
    assert next(running) == "starting"
    assert next(item for item in running if item != "starting") == "running"
    child_pid = int(note.read_text())
    running.close()  # type: ignore[attr-defined]
    until = time.monotonic() + 60
    while _is_running(child_pid) and time.monotonic() < until:
        time.sleep(0.05)
    assert not _is_running(child_pid)
    with hardware_turn(0):
        pass


def _is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_one_at_a_time() -> None:
    """A second one waits, and is refused when its patience ends."""
    with hardware_turn(), pytest.raises(LiveError, match="Another measurement or"), hardware_turn(0.1):
        pass


def test_no_secret_reaches_the_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """No token, no login, no way to the Hub: the environment holds names that are listed and nothing else."""
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "OAUTH_CLIENT_SECRET", "MY_SECRET"):
        monkeypatch.setenv(name, "secret-of-the-server")
    show = "import json; print(json.dumps({'code': 'live_error', 'sentence': json.dumps(dict(os.environ))}), flush=True)"
    with pytest.raises(LiveError) as told:
        list(run_in_child(ASK, command=_fake_worker(then=show)))
    seen = json.loads(str(told.value))
    assert "secret-of-the-server" not in str(told.value)
    assert seen["HF_HUB_OFFLINE"] == "1"
    assert seen["HOME"] != os.environ.get("HOME")
    assert not Path(seen["HOME"]).exists()  # taken away again


def test_a_real_worker_killed_in_the_middle() -> None:
    """As the kernel does it when memory runs out: a sentence, and the device is free again."""
    running = run_in_child(MeasureRequest(**{**_fields(ASK), "output_tokens": 4000}))
    while next(running) != "running":
        pass
    os.kill(_worker(), signal.SIGKILL)
    with pytest.raises(OutOfMemory, match="the app was not touched"):
        list(running)
    with hardware_turn(0):
        pass


def test_a_long_silence_is_broken_by_signs_of_life() -> None:
    """Two seconds without a word: the stage is told again and again, so that whoever goes away is noticed within half a second."""
    found = list(
        run_in_child(ASK, command=_fake_worker({"stage": "running"}, then=f"time.sleep(2); print({json.dumps({'measured': MEASURED})!r})"))
    )
    assert found.count("running") >= 3  # one line of the worker; told again after 0.5, 1.0 and 1.5 s
    assert isinstance(found[-1], MeasuredRun)


def _fields(ask: MeasureRequest) -> dict[str, object]:
    return {name: getattr(ask, name) for name in MeasureRequest.__slots__}


def _worker() -> int:
    """The pid of our only child that runs the worker."""
    children = subprocess.run(["ps", "-o", "pid=,args=", "--ppid", str(os.getpid())], capture_output=True, text=True, check=True)  # noqa: S607
    return next(int(line.split()[0]) for line in children.stdout.splitlines() if "lib.live.measure" in line)


def test_a_real_worker_that_may_not_take_more_says_so() -> None:
    """1.5 GiB of weights and a bound of 1 GiB on the process: an allocation fails, which is a sentence."""
    big = MeasureRequest(
        **{**_fields(ASK), "config": CONFIG | {"vocab_size": 400_000}, "memory_limit_bytes": GIB}
    )  # 2 × 400,000 × 512 × 4 B
    with pytest.raises(OutOfMemory, match="ran out of memory"):
        list(run_in_child(big))
