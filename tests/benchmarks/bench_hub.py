"""How long reading a model from the Hub takes in a warm process, over loopback: `python tests/benchmarks/bench_hub.py`.

The stand-in runs in a process of its own. Each model is read `--rounds` times past the cache; medians are printed, with the time
that huggingface_hub's own `get_safetensors_metadata` takes for the same model beside it. Both wait for the same server.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MODELS = {
    "org/llama-8b": "4 shards, 291 tensors",
    "org/dense-135": "135 shards, 1 137 tensors",
    "org/experts-135": "135 shards, 45 312 tensors",
}


def median_ms(work: Callable[[], object], rounds: int) -> float:
    """Median time of a call in milliseconds, after one that is not counted."""
    work()
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return 1000 * statistics.median(times)


def main() -> None:
    """Start the stand-in, read each model both ways, print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=9)
    rounds = parser.parse_args().rounds
    script = ROOT / "tests" / "support" / "hub_stand_in.py"
    with (
        subprocess.Popen([sys.executable, str(script), "--port", "0"], stdout=subprocess.PIPE, text=True) as server,
        tempfile.TemporaryDirectory() as home,
    ):
        try:
            assert server.stdout is not None
            os.environ |= {"HF_ENDPOINT": server.stdout.readline().strip(), "HF_HOME": home, "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
            sys.path.insert(0, str(ROOT))
            _compare(rounds)
        finally:
            server.terminate()


def _compare(rounds: int) -> None:
    from huggingface_hub import HfApi  # noqa: PLC0415 - it reads HF_ENDPOINT when it is imported

    from lib.hub.model_files import clear_cache, read_model  # noqa: PLC0415

    api = HfApi(token=False)
    for name, size in MODELS.items():

        def read_here(name: str = name) -> None:
            clear_cache()
            read_model(name)

        def read_there(name: str = name) -> None:
            api.get_safetensors_metadata(name)

        print(f"{size:28} ours {median_ms(read_here, rounds):7.1f} ms   huggingface_hub {median_ms(read_there, min(rounds, 3)):7.1f} ms")  # noqa: T201


if __name__ == "__main__":
    main()
