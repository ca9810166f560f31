"""Compare the laws of memory with published measurements, and print the errors by source, engine and kind.

    python scripts/check_memory.py                      the points in tests/data/measured_memory.json
    python scripts/check_memory.py --all                every point with its error, worst last

What a source calls memory differs: the peak of bytes allocated by tensors (weights + cache + activations), what is allocated at the
end (without activations), or all of a process (with the runtime). The prompt's length sets the activations, prompt and output together
the cache. Before transformers 4.45 the logits of the whole prompt were kept, and once more in float32. Training is compared with what
torch reserves; scripts/check_training.py does so for many more runs.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from lib.laws.activation import logits_bytes  # noqa: E402
from lib.memory import estimate_memory  # noqa: E402
from lib.memory.training import estimate_training  # noqa: E402
from lib.model import bundled  # noqa: E402
from lib.model.spec import ModelSpec  # noqa: E402
from lib.units import GIB  # noqa: E402
from lib.workload import MemoryRequest, Method, TrainingRequest  # noqa: E402

POINTS = ROOT / "tests" / "data" / "measured_memory.json"
AT_THE_END = frozenset({"qwen3-speed"})
OF_SOURCE: dict[str, dict[str, Any]] = {
    "litgpt": {"checkpointing": "none", "stack": "torchtune", "fused_loss": False, "rank": 8},
    "peft-metamath": {"checkpointing": "none", "stack": "transformers", "optimizer": "adamw_foreach"},
    "torchtune": {"stack": "torchtune"},
}
"""litgpt has modules of its own, which cast nothing, as torchtune's do."""
WHOLE_PROCESS = frozenset({"premai"})
ALL_LOGITS = frozenset({"4.38.2"})
MODES: dict[str, Method] = {"lora": "lora", "qlora": "qlora", "full": "full"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One measured point and what the laws say."""

    point: dict[str, Any]
    measured: int
    estimated: int

    @property
    def error(self) -> float:
        """Relative error of the estimate."""
        return self.estimated / self.measured - 1

    @property
    def group(self) -> str:
        """Source, engine, kind of run and weight format."""
        kind = self.point["method"] if self.point["method"] != "inference" else f"inference {self.point['precision']}"
        return f"{self.point['source']:14} {self.point['engine']:30} {kind}"


def estimated(spec: ModelSpec, point: dict[str, Any]) -> int:
    """Bytes by the laws, of what this source measures."""
    if point["method"] != "inference":
        return _training(spec, point)
    request = MemoryRequest(
        precision=point["precision"],
        context_tokens=point["tokens"],
        batch_size=point["batch"],
        devices=point["devices"],
    )
    whole = estimate_memory(spec, request)
    if point["source"] in AT_THE_END:
        return whole.weights.bytes + whole.kv_cache.bytes
    prompt = point["prompt"] or point["tokens"]
    at_prompt = estimate_memory(spec, replace(request, context_tokens=prompt))
    total = whole.weights.bytes + whole.kv_cache.bytes + at_prompt.activation.bytes
    if point["version"] in ALL_LOGITS:
        total += logits_bytes(rows=prompt, vocabulary=spec.dimensions.vocab_size, element_bytes=2)
    return total + whole.runtime.bytes if point["source"] in WHOLE_PROCESS else total


def _training(spec: ModelSpec, point: dict[str, Any]) -> int:
    """What a training run reserves, asked as its source ran it; the files say more than a point holds (`OF_SOURCE`)."""
    devices: int = point["devices"]
    asked = TrainingRequest(
        method=MODES[point["method"]],
        sequence_tokens=point["tokens"],
        micro_batch=point["batch"],
        precision="bf16",
        sharding="fsdp" if devices > 1 else "none",
        devices=devices,
    )
    return estimate_training(spec, replace(asked, **OF_SOURCE[point["source"]])).reserved.typical


def checks(path: Path = POINTS) -> list[Check]:
    """Every point whose model is bundled and whose kind of run is modelled."""
    found = []
    for point in json.loads(path.read_text(encoding="utf-8"))["points"]:
        spec = bundled.find_spec(point["model"])
        if spec is None or point["method"] not in {"inference", *MODES}:
            continue
        found.append(Check(point=point, measured=point["bytes"], estimated=estimated(spec, point)))
    return found


def table(found: list[Check]) -> list[tuple[str, int, float, float, float]]:
    """Per group: points, median error, median and 90th percentile of its size."""
    groups: dict[str, list[float]] = {}
    for check in found:
        groups.setdefault(check.group, []).append(check.error)
    return [
        (
            name,
            len(errors),
            statistics.median(errors),
            statistics.median(map(abs, errors)),
            sorted(map(abs, errors))[int(0.9 * (len(errors) - 1))],
        )
        for name, errors in sorted(groups.items())
    ]


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true", help="every point with its error")
    arguments = parser.parse_args()
    found = checks()
    if arguments.all:
        for check in sorted(found, key=lambda c: abs(c.error)):
            p = check.point
            print(
                f"{check.error:+7.1%}  {p['model']:34} {p['precision']:9} {p['method']:9} B {p['batch']} T {p['tokens']:6} "
                f"{check.estimated / GIB:8.2f} of {check.measured / GIB:8.2f} GiB  {p['source']}"
            )
    print(f"{'source, engine, kind':68} {'points':>6} {'bias':>8} {'median':>8} {'p90':>8}")
    for name, count, bias, median, p90 in table(found):
        print(f"{name:68} {count:6} {bias:+8.1%} {median:8.1%} {p90:8.1%}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
