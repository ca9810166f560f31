"""Published start-up logs of vLLM compared with the predicted size of its KV cache, one by one.

    python -m scripts.check_start_logs FACTS [--record]

FACTS holds `field_points.json`. A log is compared if it names the model, the card and the share of the memory. Its release must be 0.8 or
newer, and no patch may have changed the engine; the others are printed with the reason. The release says whether captured graphs lie inside
the share (`lib.laws.runtime.vllm_share`); the capacity is that of requests of the log's own maximum length.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from lib.catalog import load
from lib.laws.runtime import vllm_share
from lib.memory import cache_headroom
from lib.model.bundled import find_spec
from lib.units import GIB
from lib.workload import MemoryRequest
from scripts.accuracy import record, summarize_errors

FIRST_RELEASE = (0, 8)
METRICS = {"kv_cache_tokens", "available_kv_gib"}
CALENDAR = (0, 26)
"""A log that states a month of 2026 in place of a release."""
NAMED = {
    "8B class, 36 layers x 8 KV heads x 128 (Qwen3-8B)": "Qwen/Qwen3-8B", "Qwen2.5-7B-class GPTQ/AWQ": "Qwen/Qwen3-8B",
    "Phi-4 bnb-4bit with LoRA": "microsoft/phi-4", "Qwen3.6-35B-A3B-NVFP4": "nvidia/Qwen3.6-35B-A3B-NVFP4",
}  # fmt: skip
"""The log's bytes per token, layers or size of the checkpoint are those of one model."""
FORMATS = {"bf16": "bf16", "fp16": "fp16", "awq": "awq-4", "nf4": "bnb-nf4"}
DEFAULT_LENGTH = 4096
DEFAULT_SHARE = 0.9


class Comparison(NamedTuple):
    """One log: measured and predicted tokens (or GiB a card), or why it is not compared."""

    model: str
    card: str
    release: str
    share: str
    measured: float
    predicted: float | None
    reason: str = ""


def release_of(version: str) -> tuple[int, int] | None:
    """Major and minor release; a year means a late release; None if nothing is stated."""
    if match := re.search(r"\b0\.(\d+)(x?)", version):
        return 0, int(match[1]) * (10 if match[2] else 1)
    return CALENDAR if "2026" in version else None


def _compare(p: Mapping[str, Any]) -> Comparison:
    catalog = load()
    devices = p["n_devices"]
    share, version = p.get("gpu_memory_utilization"), str(p["engine_version"])
    row = Comparison(
        NAMED.get(p["model_hf_id"], p["model_hf_id"]), f"{devices} × {p['accelerator']}", version, str(share or "default"), p["value"], None
    )
    release, card, spec = release_of(version), catalog.accelerators.get(p["accelerator"]), find_spec(row.model)
    reasons = (
        ("patch" in version, "patched build"),
        (release is None or release < FIRST_RELEASE, "older than 0.8"),
        (card is None, "card not named"),
        (spec is None, "model not bundled, or not named"),
        ("DCP" in p["parallelism"] and "DCP1" not in p["parallelism"], "cache cut over devices (DCP)"),
    )
    if reason := next((text for holds, text in reasons if holds), ""):
        return row._replace(reason=reason)
    assert card is not None  # noqa: S101 looked at above
    assert spec is not None  # noqa: S101 looked at above
    assert release is not None  # noqa: S101 looked at above
    rule, length = vllm_share(release), p.get("max_model_len") or DEFAULT_LENGTH
    precision = FORMATS.get(p.get("quant", ""), "auto")
    request = MemoryRequest(
        precision=precision, engine="vllm", context_tokens=length, devices=devices, kv_precision=p.get("kv_dtype", "auto")
    )
    if step := p.get("max_num_batched_tokens"):
        row = row._replace(reason=f"steps of {step} tokens")
    memory = int(card.memory_usable or 0)
    room = cache_headroom(spec, request, memory, card)
    claim = room.of.claim(length, 1)
    capacity = int((share or rule.share) * memory) + (0 if rule.graphs_inside else claim.graphs)
    free = capacity - room.of.beside_cache(length, 1)
    found = free / GIB if p["metric"] == "available_kv_gib" else free / room.sequence_bytes(length) * length
    return row._replace(predicted=found)


def main() -> None:
    """Print every log, then the number that was compared with their errors."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("facts", type=Path)
    parser.add_argument("--record", action="store_true")
    arguments = parser.parse_args()
    content = json.loads((arguments.facts / "field_points.json").read_text(encoding="utf-8"))
    rows = [_compare(p) for p in content["points"] if p["metric"] in METRICS and p["engine"] == "vllm"]
    errors, recorded = [], []
    for row in sorted(rows, key=lambda row: (row.predicted is None, row.share == "default", row.reason, row.model)):
        what = f"{row.model[:46]:46s} {row.card[:38]:38s} {row.release[:26]:26s} share {row.share:8s} {row.measured:12,.0f}"
        if row.predicted is None:
            print(f"{what}  not compared: {row.reason}")
            continue
        error = row.predicted / row.measured - 1
        errors.append((error, row.share != "default"))
        print(f"{what} {row.predicted:12,.0f} {error:+7.1%} {row.reason}")
    for title, chosen in (("share stated", [e for e, stated in errors if stated]), ("all compared", [e for e, _ in errors])):
        if chosen:
            bias = statistics.median(chosen)
            recorded.append({"logs": title, **summarize_errors([1 + error for error in chosen])})
            print(f"{title}: n = {len(chosen)}, median error {statistics.median(map(abs, chosen)):.1%}, bias {bias:+.1%}")
    if arguments.record:
        record("start logs", "python -m scripts.check_start_logs FACTS --record", recorded)


if __name__ == "__main__":
    main()
