"""Runs in a job with several GPUs: vLLM's own latency benchmark with dummy weights, twice, for the first token and for all of them.

Shipped as it stands, so it needs nothing but Python and vLLM. With one answer token a request is its prompt; what the others add is the
decoding:  rate = (tokens − 1) / (whole − first).  vLLM fills the memory it is given, so no peak is reported.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from importlib import metadata
from pathlib import Path
from typing import Any

BEGIN, END = "<<<measured ", " measured>>>"
WARM, TIMED = 2, 5
DTYPES = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}


def measure_latencies(request: dict[str, Any], model: str, folder: Path, output_tokens: int) -> list[float]:
    """Seconds of one request with so many answer tokens, some times."""
    out = folder / f"latency-{output_tokens}.json"
    program = [shutil.which("vllm") or "vllm", "bench", "latency", "--model", model, "--load-format", "dummy", "--skip-tokenizer-init"]
    options = {
        "--tensor-parallel-size": request["devices"],
        "--input-len": request["prompt_tokens"],
        "--output-len": output_tokens,
        "--max-model-len": request["prompt_tokens"] + request["output_tokens"],
        "--batch-size": 1,
        "--num-iters-warmup": WARM,
        "--num-iters": TIMED,
        "--dtype": DTYPES[request["precision"]],
        "--output-json": out,
    }
    subprocess.run([*program, "--disable-detokenize", *(str(part) for pair in options.items() for part in pair)], check=True)  # noqa: S603
    latencies: list[float] = json.loads(out.read_text(encoding="utf-8"))["latencies"]
    return latencies


def describe_machine() -> dict[str, Any]:
    """The cards' name and the driver, as nvidia-smi tells them; the versions installed."""
    command = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    try:
        lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()  # noqa: S603
        name, _, driver = lines[0].partition(", ")
    except (OSError, subprocess.CalledProcessError, IndexError):
        name, driver = "unknown card", None
    return {"device": name, "driver": driver, "torch": metadata.version("torch"), "vllm": metadata.version("vllm")}


def measure(request: dict[str, Any], model: str, config: dict[str, Any] | None) -> dict[str, Any]:
    """One model: its result, or why there is none."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if config is not None:
            (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
        source = model if config is None else str(folder)
        try:
            first = measure_latencies(request, source, folder, 1)
            whole = measure_latencies(request, source, folder, request["output_tokens"])
        except (OSError, subprocess.CalledProcessError, ValueError, KeyError) as error:
            return {"model": model, "error": f"vllm bench latency failed ({type(error).__name__}); the log says more."}
        return {"model": model, "first_s": first, "whole_s": whole} | describe_machine()


def main(request: dict[str, Any]) -> None:
    """Measure each model and print its line."""
    for model, config in request["models"]:
        sys.stdout.write(f"{BEGIN}{json.dumps(measure(request, model, config))}{END}\n")
        sys.stdout.flush()
