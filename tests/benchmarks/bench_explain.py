"""How long the longest pasted text takes to read, whatever it repeats.

    python -m tests.benchmarks.bench_explain

Every known message, every plain text that is searched, the beginnings of secrets and other hostile repetitions, each repeated to 200 kB.
Each is read once, and the slowest ones three times more. Printed are the least milliseconds of CPU and of the clock, the slowest text
first; other programs on the machine lengthen only the latter. The promise is 100 ms of CPU for the worst.
"""

from __future__ import annotations

import time

from lib.explain import MAX_BYTES, explain_text
from lib.explain.rows import load_messages

HOSTILE = (
    "a", "1", "1.", "1,", " ", "\n", "\r\n", "hf_a\n", "hf_" + "a" * 19 + "\n", "sk-a\n", "Bearer ", "Bearer a\n", "token = ",
    "eyJ" + "a" * 20 + ".", "-eyJ", "-----BEGIN PRIVATE KEY-----", "https://a:", "&#", "&amp;", "&amp;#95;", "\x1b[", "\\n",
    "GPU 0 has a total capacity of ", "Process 1 has 1 MiB memory in use. ",
    "MiB / ", "| 0 NVIDIA A", "RTX 4090 ", "--model a/b ", "max_model_len=1 ", "ﷺ", "\U0001f600", "\u202e", "\ud800",
)  # fmt: skip
RUNS, SLOWEST = 3, 12


def measure(unit: str) -> tuple[float, float]:
    """Milliseconds of CPU and of the clock for a text that repeats `unit`."""
    text = unit * (MAX_BYTES // len(unit.encode("utf-8", "replace")))
    cpu, clock = time.process_time(), time.perf_counter()
    explain_text(text)
    return 1000 * (time.process_time() - cpu), 1000 * (time.perf_counter() - clock)


def main() -> None:
    """Print the slowest texts."""
    needles = [text for message in load_messages().messages for text in message.find]
    texts = {*HOSTILE, *needles, " ".join(needles), "\n".join(needles)}
    explain_text("warm")
    slowest = sorted(texts, key=measure, reverse=True)[:SLOWEST]
    for unit in slowest:
        cpu, clock = (min(times) for times in zip(*(measure(unit) for _ in range(RUNS)), strict=True))
        print(f"{cpu:7.1f} ms of CPU {clock:7.1f} ms  {unit[:60]!r}")  # noqa: T201
    print(f"The slowest of {len(texts)} texts of {MAX_BYTES:,} bytes.")  # noqa: T201


if __name__ == "__main__":
    main()
