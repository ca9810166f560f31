"""Seeded nonsense against the app: in process, over HTTP, against events of the page by their number, and over MCP.

python tests/benchmarks/bench_fuzz.py [--part process,configs,http,events,mcp] [--count 0] [--seed 1] [--seconds 0] [--only dry_run,solve]

Counted are answers and refusals; every fault (`tests/support/fuzz_runs.py`) is shown with the number of its case. The app that is started
and the Hub stand-in behind it are on the loopback. The exit status is 1 where there was a fault.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from fuzz_runs import SERVED, SHOWN, bad_lines, configs, in_process, serve_app

COUNTS = {"process": 100_000, "configs": 3_000, "http": 5_000, "events": 5_000, "mcp": 3_000}


def run_served(counts: dict[str, int], seed: int) -> bool:
    """The parts that need a started app; its log is looked through afterwards. Whether there was no fault."""
    clean = True
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        with serve_app(log) as url:
            for part, count in counts.items():
                clean &= SERVED[part](url, count, seed).show()
        bad = bad_lines(log)
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
        print(  # noqa: T201 - a benchmark prints
            f"log      {len(lines):,} lines, the longest of {max(map(len, lines), default=0):,} characters; bad ones: {len(bad)}"
        )
        for line in bad[:SHOWN]:
            print("   ", line[:400])  # noqa: T201
    return clean and not bad


def main() -> None:
    """Run the parts and print what came of them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--part", default=",".join(COUNTS))
    parser.add_argument("--count", type=int, default=0, help=f"of each part; 0 takes {COUNTS}")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=0, help="at most, for the part configs; 0 sets no limit")
    parser.add_argument("--only", default="", help="questions, for the part process")
    options = parser.parse_args()
    counts = {part: options.count or COUNTS[part] for part in options.part.split(",")}
    over = {part: count for part, count in counts.items() if part in SERVED}
    clean = not over or run_served(over, options.seed)
    if "process" in counts:
        clean &= in_process(counts["process"], options.seed, options.only.split(",") if options.only else ()).show()
    if "configs" in counts:
        clean &= configs(counts["configs"], options.seed, options.seconds or math.inf).show()
    sys.exit(not clean)


if __name__ == "__main__":
    main()
