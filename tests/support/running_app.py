"""`python app.py`, started for a test and ended with everything it started.

A start takes several seconds of processor time, most of it Gradio's own imports: on a machine that twenty processes share that is more
than a minute. So a start is not judged by the clock but by its work: it has failed when its process ends, when it uses no processor time
for a while without answering, or when it uses far more than any start needs. In the last two cases the stacks of all its threads are shown.
"""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

import httpx
import psutil

ROOT = Path(__file__).parents[2]
STILL_S = 60.0
"""Without any processor time used, this is a standstill: even one process among fifty is given some every second."""
MOST_CPU_S = 180.0
"""Of processor time until the first answer. A start takes about 6 s on an idle machine, three times as much on a crowded one."""


def free_port() -> int:
    """A port that nobody listens on, below those that Linux gives to outgoing connections: none of these can take it meanwhile."""
    while True:
        port = random.randrange(20_000, 32_000)  # noqa: S311 not a secret
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


@contextmanager
def start_app(log: Path | None = None, script: str = "app.py", **environment: str) -> Iterator[str]:
    """`python app.py` as a process of its own, killed with everything it started; yields its address. `log` keeps what it prints."""
    environment_of_tests = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "GRADIO_", "SPACE"))}
    port = free_port()
    settings = {"GRADIO_ANALYTICS_ENABLED": "False", "PYTHONFAULTHANDLER": "1", "GRADIO_SERVER_PORT": str(port), **environment}
    with TemporaryFile() if log is None else log.open("w+b") as output:
        app = subprocess.Popen(
            [sys.executable, script], cwd=ROOT, env=environment_of_tests | settings, stdout=output, stderr=output, start_new_session=True
        )
        try:
            url = f"http://127.0.0.1:{port}"
            _wait(url, app)
            yield url
        except BaseException:
            _show(output)
            raise
        finally:
            _end(app)


def _wait(url: str, app: subprocess.Popen[bytes]) -> None:
    """Until the app answers.

    Raises:
        AssertionError: it ended, stands still or spins; the stacks are in its output.
    """
    used_s, since = 0.0, time.monotonic()
    while not _answers(url):
        if app.poll() is not None:
            raise AssertionError(f"the app ended with status {app.returncode} before it answered")
        with suppress(psutil.NoSuchProcess):
            times = psutil.Process(app.pid).cpu_times()
            now = times.user + times.system + times.children_user + times.children_system
            if now != used_s:
                used_s, since = now, time.monotonic()
        still = time.monotonic() - since
        if still > STILL_S or used_s > MOST_CPU_S:
            app.send_signal(signal.SIGABRT)  # faulthandler writes where every thread is
            with suppress(subprocess.TimeoutExpired):
                app.wait(30)
            raise AssertionError(f"the app did not answer: {used_s:.0f} s of processor time used, none of it in the last {still:.0f} s")
        time.sleep(0.1)


def _answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/gradio_api/info", timeout=20, trust_env=False).is_success
    except httpx.HTTPError:
        return False


def _show(output: IO[bytes]) -> None:
    output.seek(0)
    sys.stderr.write(output.read().decode(errors="replace")[-8000:])


def _end(app: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):  # it ended by itself
        os.killpg(app.pid, signal.SIGKILL)
    app.wait()
