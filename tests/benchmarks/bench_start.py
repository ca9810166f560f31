"""`python app.py` to its first HTTP 200, beside an empty Gradio app started the same way.

    python tests/benchmarks/bench_start.py [pairs]

Pairs alternate, so that a change in the machine's load meets both; medians are compared. Both have been compiled before; the first start
in a new folder also compiles the modules of this repository. Seconds of the clock need a quiet machine (an empty app waits for a request
to itself); processor seconds are those of the process until it has answered, and stand about as they are beside other work. Linux only.
"""

from __future__ import annotations

import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).parents[2]
EMPTY = "import gradio as gr\nwith gr.Blocks() as demo:\n    pass\ndemo.launch()\n"
PROMISED_S = 1.0


def processor_seconds(process: int) -> float:
    """What a process has used: user and system time, which stand 14th and 15th in its line (proc(5)), after its name in brackets."""
    fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


def first_answer(script: Path) -> tuple[float, float]:
    """Seconds from starting the interpreter to the first page served, and processor seconds."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    keep = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}  # else ours is compiled each time
    environment = keep | {"GRADIO_SERVER_PORT": str(port), "GRADIO_ANALYTICS_ENABLED": "False", "HF_HUB_OFFLINE": "1"}
    began = time.perf_counter()
    app = subprocess.Popen([sys.executable, str(script)], cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while True:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=30) as page:
                    page.read()
                return time.perf_counter() - began, processor_seconds(app.pid)
            except OSError:
                if app.poll() is not None:
                    raise SystemExit(f"{script.name} ended with status {app.returncode}") from None
                time.sleep(0.01)
    finally:
        app.kill()
        app.wait()


def main() -> None:
    """Measure pairs, print medians and the differences."""
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    with tempfile.TemporaryDirectory() as folder:
        empty = Path(folder) / "empty.py"
        empty.write_text(EMPTY, encoding="utf-8")
        for script in (empty, ROOT / "app.py"):
            first_answer(script)  # fills the file cache and compiles
        measured = [(first_answer(empty), first_answer(ROOT / "app.py")) for _ in range(pairs)]
    behind = [statistics.median(ours[kind] - bare[kind] for bare, ours in measured) for kind in (0, 1)]
    for kind, what in enumerate(("clock", "processor")):
        bare, ours = (statistics.median(pair[app][kind] for pair in measured) for app in (0, 1))
        print(f"{what}: empty app {bare:.2f} s, app.py {ours:.2f} s, behind {behind[kind]:+.2f} s")  # noqa: T201 - a benchmark prints
    print(f"promised: at most {PROMISED_S:.1f} s behind by the clock; {pairs} pairs")  # noqa: T201 - a benchmark prints
    sys.exit(behind[0] > PROMISED_S)


if __name__ == "__main__":
    main()
