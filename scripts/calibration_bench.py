"""Points of `bench_throughput.json`: raw result files of public benchmarks (prefill and decode apart, batches, long prompts).

The meaning of a metric in each source is in that file's `sources`; here are the sizes of the models that `measured_throughput.json` does
not hold, and which rows are left out: other tasks, low reliability, caches beyond the card's memory, formats that no engine of ours loads.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from scripts.calibration_points import Point, public_case

SIZES: dict[str, dict[str, float]] = {
    "glm-4-9b": {"n_layers": 40, "hidden": 4096, "heads": 32, "kv_heads": 2, "head_dim": 128},
    "glm-4-32b-0414": {"n_layers": 61, "hidden": 6144, "heads": 48, "kv_heads": 2, "head_dim": 128},
    "llama-3-8b-1m": {"n_layers": 32, "hidden": 4096, "heads": 32, "kv_heads": 8, "head_dim": 128},
    "llama-7b": {"n_layers": 32, "hidden": 4096, "heads": 32, "kv_heads": 32, "head_dim": 128},
    "llama-65b": {"n_layers": 80, "hidden": 8192, "heads": 64, "kv_heads": 64, "head_dim": 128},
    "opt-350m": {"n_layers": 24, "hidden": 1024, "heads": 16, "kv_heads": 16, "head_dim": 64},
    "bloom-7b1": {"n_layers": 30, "hidden": 4096, "heads": 32, "kv_heads": 32, "head_dim": 128},
    "qwen1.5-7b": {"n_layers": 32, "hidden": 4096, "heads": 32, "kv_heads": 32, "head_dim": 128},
    "bge-base": {"n_layers": 12, "hidden": 768, "heads": 12, "kv_heads": 12, "head_dim": 64, "body_params_b": 0.085},
}
"""From each model's config.json."""
SHARES = {"CPU-ICX-2core": ("CPU-ICX-32core", 2 / 32)}
"""Processors that the catalog knows only whole."""
FEW_MODELS = 0.35
"""Weight of a point of a source that has many points of few models, as of the served ones."""
WEIGHTS = {"ob-llm": 1.0, "glm4": 0.5, "minference": 0.5, "argonne": 0.2, "ob-bge": FEW_MODELS}
SOURCES = frozenset(
    {"ob-llm", "glm4", "minference", "bnb-bench", "tf-docs-sdpa", "lmdeploy-210", "argonne", "torchao-llama", "exllama1", "ob-bge"}
    | {"hf-blog-infinity-cpu"}
)
OTHER_KERNELS = frozenset({"bnb-int8", "nf4-dq"})
"""In bnb-bench: LLM.int8 without outliers is not what transformers loads by default (threshold 6); double quantization has no constants."""
LONG_VLLM = (100_000, 21_700.0)
"""Tokens and milliseconds of the same prompt with vLLM, from the text of the same README: the only long prompt of another engine."""
LONG_WEIGHT = 8.0
TASKS = {"llm": "llm", "encoder": "encoder", "embedding": "encoder"}


def _usable(p: Mapping[str, Any]) -> bool:
    if p["source"] not in SOURCES or p["task"] not in TASKS or p["reliability"] == "low" or p.get("over_memory"):
        return False
    if p["source"] == "bnb-bench" and ("0.44" in p["engine_version"] or p["quant"] in OTHER_KERNELS):
        return False
    if p["source"] == "tf-docs-sdpa" and p.get("attention") != "sdpa":
        return False
    if p["source"] == "torchao-llama" and (not p["compiled"] or p["quant"] == "fp6"):
        return False
    return bool(p["metric"] != "request_ms" and p["model"] != "deci-7b")


def _case(p: Mapping[str, Any], models: Mapping[str, Mapping[str, Any]]) -> tuple[dict[str, float], tuple[str, float, str]]:
    whole, share = SHARES.get(p["accelerator"], (p["accelerator"], 1.0))
    engine = {"transformers+bitsandbytes": "transformers", "onnxruntime-cuda": "onnxruntime", "torchao-gptfast": "gpt-fast"}
    row = dict(p) | {
        "accelerator": whole,
        "engine": engine.get(p["engine"], p["engine"]),
        "task": TASKS[p["task"]],
        "active_params_b": p["active_params_b"] or p["params_b"],
        "quant": {"bnb-4bit": "nf4", "bnb-int8-decomp": "bnb-int8", "int4wo-64": "int4", "int8wo": "int8"}.get(p["quant"], p["quant"]),
    }
    sizes = SIZES.get(p["model"]) or models[p["model"]]
    if p["quant"] not in {"bf16", "fp16", "fp32"} and row["compute_dtype"] == "int8":
        row["compute_dtype"] = "fp16"
    case, (card, _, arithmetic) = public_case(row, {"params_b": p["params_b"], **sizes})
    return case, (card, share, arithmetic)


def bench(facts: Path) -> Iterator[Point]:
    """The points of the sources that state all conditions."""
    content = json.loads((facts / "bench_throughput.json").read_text(encoding="utf-8"))
    longest = next(p for p in content["points"] if p["source"] == "minference" and p["prompt_tokens"] == LONG_VLLM[0])
    content["points"].append(longest | {"engine": "vllm", "engine_version": "2024", "value": LONG_VLLM[1]})
    models = json.loads((facts / "measured_throughput.json").read_text(encoding="utf-8"))["models"]
    for p in content["points"]:
        if not _usable(p):
            continue
        case, card = _case(p, models)
        yield Point(
            case=case,
            card=card,
            metric=p["metric"],
            value=p["value"],
            weight=LONG_WEIGHT if p["source"] == "minference" and p["engine"] == "vllm" else WEIGHTS.get(p["source"], 1.0),
            model=p["model"],
            accelerator=p["accelerator"],
            regime=p["source"],
            source="bench",
        )
