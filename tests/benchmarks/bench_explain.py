"""How long the longest pasted text takes to read, whatever it repeats.

    python -m tests.benchmarks.bench_explain

Every known message, every plain text that is searched, the beginnings of secrets and other hostile repetitions, each repeated to 200 kB;
the best of three runs each, in milliseconds, the slowest first. The promise is 100 ms for the worst.
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
RUNS = 3


def main() -> None:
    """Print the slowest texts."""
    needles = [text for message in load_messages().messages for text in message.find]
    texts = {*HOSTILE, *needles, " ".join(needles), "\n".join(needles)}
    explain_text("warm")
    slowest = []
    for unit in texts:
        text = unit * (MAX_BYTES // len(unit.encode("utf-8", "replace")))
        times = []
        for _ in range(RUNS):
            start = time.perf_counter()
            explain_text(text)
            times.append(1000 * (time.perf_counter() - start))
        slowest.append((min(times), unit))
    slowest.sort(reverse=True)
    for taken, unit in slowest[:12]:
        print(f"{taken:7.1f} ms  {unit[:60]!r}")  # noqa: T201
    print(f"{len(slowest)} texts of {MAX_BYTES:,} bytes; the worst takes {slowest[0][0]:.1f} ms")  # noqa: T201


if __name__ == "__main__":
    main()
