"""`python app.py`, started for a test and ended with everything it started."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

ROOT = Path(__file__).parents[2]
START_S = 90  # a busy machine takes five times as long as a quiet one


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def started(log: Path | None = None, script: str = "app.py", **environment: str) -> Iterator[str]:
    """`python app.py` as a process of its own, killed with everything it started; yields its address. `log` keeps what it prints."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "GRADIO_", "SPACE"))}
    settings = {"GRADIO_ANALYTICS_ENABLED": "False", "PYTHONFAULTHANDLER": "1", **environment}
    with TemporaryFile() if log is None else log.open("w+b") as output:
        app, url = _answering(script, inherited | settings, output)
        try:
            yield url
        except BaseException:
            _show(output)
            raise
        finally:
            _end(app)


def _answering(script: str, environment: dict[str, str], output: IO[bytes]) -> tuple[subprocess.Popen[bytes], str]:
    """The app once it answers. One start in a hundred stood still without a word: its stacks are shown, and it is begun anew."""
    for again in (True, False):
        port = free_port()
        app = subprocess.Popen(
            [sys.executable, script],
            cwd=ROOT,
            env=environment | {"GRADIO_SERVER_PORT": str(port)},
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        url = f"http://127.0.0.1:{port}"
        try:
            _wait(url, app)
        except BaseException as failure:
            if app.poll() is None:
                app.send_signal(signal.SIGABRT)  # faulthandler writes where every thread is
                with suppress(subprocess.TimeoutExpired):
                    app.wait(5)
            _end(app)
            _show(output)
            if again and isinstance(failure, TimeoutError):
                continue
            raise
        return app, url
    raise AssertionError("the loop returns or raises")


def _show(output: IO[bytes]) -> None:
    output.seek(0)
    sys.stderr.write(output.read().decode(errors="replace")[-8000:])


def _end(app: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):  # it ended by itself
        os.killpg(app.pid, signal.SIGKILL)
    app.wait()


def _wait(url: str, app: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + START_S
    while time.monotonic() < until:
        if app.poll() is not None:
            raise AssertionError(f"the app ended with status {app.returncode}")
        try:
            with urllib.request.urlopen(f"{url}/gradio_api/info", timeout=5):
                return
        except (OSError, urllib.error.URLError):
            time.sleep(0.05)
    raise TimeoutError(f"the app did not answer within {START_S} s")
