"""Compare the laws of memory with published measurements, and print the errors by source, engine and kind.

    python scripts/check_memory.py                      the points in tests/data/measured_memory.json
    python scripts/check_memory.py --all                every point with its error, worst last
    python scripts/check_memory.py --facts FACTS        prompts (`allocated_peak` of bench_memory.json), pictures and clips (also
                                                        measured_memory.json)

What a source calls memory differs: the peak of bytes allocated by tensors (weights + cache + activations), bytes allocated at the end
(without activations), or all of a process (with the runtime). The prompt's length sets the activations, prompt and output together the
cache. Before transformers 4.45 the logits of the whole prompt were kept, and once more in float32. Training is compared with what torch
reserves; scripts/check_training.py does so for many more runs. Of pictures and clips all that ran in diffusers and that a question can ask
for is compared, for any meaning of "memory" in the source; a quantized denoiser's peak may be that of its 16-bit weights while they load.
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

from lib.laws.activation import HALF, logits_bytes  # noqa: E402
from lib.memory import estimate_memory  # noqa: E402
from lib.memory.training import estimate_training  # noqa: E402
from lib.model import bundled  # noqa: E402
from lib.model.spec import ModelSpec  # noqa: E402
from lib.units import GIB, MIB  # noqa: E402
from lib.workload import MemoryRequest, Method, PipelineRequest, TrainingRequest  # noqa: E402
from scripts.accuracy import record, summarize_errors  # noqa: E402

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
UNITS = {"MB": 10**6, "GB": 10**9, "MiB": MIB, "GiB": GIB}
SAME_MATRICES = dict.fromkeys(("TheBloke/LLaMa-7B-GPTQ", "TheBloke/Llama-2-7B-GPTQ"), "meta-llama/Llama-2-7b-hf")
"""Files of a model whose configuration is bundled; LLaMA and Llama 2 of 7B differ in their longest context alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One measured point and what the laws say."""

    point: dict[str, Any]
    measured_bytes: int
    estimated: int

    @property
    def error(self) -> float:
        """Relative error of the estimate."""
        return self.estimated / self.measured_bytes - 1

    @property
    def group(self) -> str:
        """Source, engine, kind of run and weight format."""
        kind = self.point["method"] if self.point["method"] != "inference" else f"inference {self.point['precision']}"
        return f"{self.point['source']:14} {self.point['engine']:30} {kind}"


def estimate_bytes(spec: ModelSpec, point: dict[str, Any]) -> int:
    """Bytes by the laws, of what this source measures."""
    if point["method"] != "inference":
        return _training(spec, point)
    request = MemoryRequest(
        precision=point["precision"],
        context_tokens=point["tokens"],
        batch_size=point["batch"],
        devices=point["devices"],
    )
    estimate = estimate_memory(spec, request)
    if point["source"] in AT_THE_END:
        return estimate.weights.bytes + estimate.kv_cache.bytes
    prompt = point["prompt"] or point["tokens"]
    at_prompt = estimate_memory(spec, replace(request, context_tokens=prompt))
    total = estimate.weights.bytes + estimate.kv_cache.bytes + at_prompt.activation.bytes
    if point["version"] in ALL_LOGITS:
        total += logits_bytes(rows=prompt, vocabulary=spec.dimensions.vocab_size, element_bytes=2)
    return total + estimate.runtime.bytes if point["source"] in WHOLE_PROCESS else total


def _training(spec: ModelSpec, point: dict[str, Any]) -> int:
    """Bytes that a training run reserves, for the request of its source; the files say more than a point holds (`OF_SOURCE`)."""
    devices: int = point["devices"]
    request = TrainingRequest(
        method=MODES[point["method"]],
        sequence_tokens=point["tokens"],
        micro_batch=point["batch"],
        precision="bf16",
        sharding="fsdp" if devices > 1 else "none",
        devices=devices,
    )
    return estimate_training(spec, replace(request, **OF_SOURCE[point["source"]])).reserved.typical


def checks(path: Path = POINTS) -> list[Check]:
    """Every point whose model is bundled and whose kind of run is modelled."""
    checks_of_facts = []
    for point in json.loads(path.read_text(encoding="utf-8"))["points"]:
        spec = bundled.find_spec(point["model"])
        if spec is None or point["method"] not in {"inference", *MODES}:
            continue
        checks_of_facts.append(Check(point=point, measured_bytes=point["bytes"], estimated=estimate_bytes(spec, point)))
    return checks_of_facts


def _read(facts: Path, name: str) -> list[dict[str, Any]]:
    points: list[dict[str, Any]] = json.loads((facts / name).read_text(encoding="utf-8"))["points"]
    return points


def prompts(facts: Path) -> list[Check]:
    """The peak of one prompt: hidden states and logits of every position, the logits in float32 too, as in transformers 4.33 to 4.35."""
    prompt_checks = []
    for point in _read(facts, "bench_memory.json"):
        spec = bundled.find_spec(SAME_MATRICES.get(point["model_hf_id"], point["model_hf_id"]))
        if spec is None or point["memory_kind"] != "allocated_peak" or point.get("phase") != "prefill only":
            continue
        tokens, batch = point["prompt_tokens"], point["batch"]
        precision = {"gptq-int4": "gptq-4"}.get(point["quant"], point["quant"])
        whole = estimate_memory(spec, MemoryRequest(precision=precision, context_tokens=tokens, batch_size=batch))
        rows, vocabulary = tokens * batch, spec.dimensions.vocab_size
        logits = logits_bytes(rows=rows, vocabulary=vocabulary, element_bytes=HALF) + rows * HALF * spec.dimensions.hidden_size
        total = whole.weights.bytes + whole.kv_cache.bytes + max(whole.activation.bytes, logits)
        case = {"model": spec.id, "method": f"prompt {precision}", "precision": precision, "batch": batch, "tokens": tokens}
        case |= {"source": point["source"], "engine": point["engine"]}
        prompt_checks.append(Check(point=case, measured_bytes=round(point["value"] * UNITS[point["unit"]]), estimated=total))
    return prompt_checks


def pictures(facts: Path) -> list[Check]:
    """The fullest stage of pipelines in diffusers; not what cannot be asked (a text encoder left out) and the whole card by NVML."""
    rows = []
    for point in (*_read(facts, "bench_memory.json"), *_read(facts, "measured_memory.json")):
        spec = bundled.find_spec(point.get("model_hf_id") or "")
        whole_card = point.get("memory_kind", "").startswith("nvml")
        if spec is None or spec.pipeline is None or point["engine"] != "diffusers" or "no T5" in point["method"] or whole_card:
            continue
        sides = [int(side) for side in str(point["resolution"]).split("x")]
        height, width = sides[0], sides[min(1, len(sides) - 1)]
        how: str = point["method"]
        size = PipelineRequest(
            width=width, height=height, frames=sides[2] if len(sides) > 2 else 0, vae_slicing="slicing" in how,  # noqa: PLR2004 and frames
            offload="sequential" if "sequential" in how else "model" if "offload" in how else "none",
            quantized="all" if "all te" in how else "denoiser",
        )  # fmt: skip
        request = MemoryRequest(precision=point["quant"], batch_size=point["batch"], pictures=size)
        total = max(stage.total for stage in estimate_memory(spec, request).stages)
        kind = "as stored" if point["quant"] in {"fp16", "bf16", "fp32"} else "quantized"
        case = {"model": spec.id, "method": f"pictures {kind}", "precision": point["quant"], "batch": point["batch"], "tokens": 0}
        case |= {"source": point["source"], "engine": point["engine"]}
        rows.append(Check(point=case, measured_bytes=round(point["value"] * UNITS[point["unit"]]), estimated=total))
    return rows


def table(rows: list[Check]) -> list[tuple[str, int, float, float, float]]:
    """Per group: points, median error, median and 90th percentile of its size."""
    groups: dict[str, list[float]] = {}
    for check in rows:
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
    parser.add_argument("--facts", type=Path, help="prompts and pictures of this folder instead")
    parser.add_argument("--record", action="store_true", help="write the errors into docs/accuracy.json")
    arguments = parser.parse_args()
    of_facts = {"prompts": prompts(arguments.facts), "pictures": pictures(arguments.facts)} if arguments.facts else {}
    every = [one for some in of_facts.values() for one in some] or checks()
    if arguments.all:
        for check in sorted(every, key=lambda c: abs(c.error)):
            p = check.point
            print(
                f"{check.error:+7.1%}  {p['model']:34} {p['precision']:9} {p['method']:9} B {p['batch']} T {p['tokens']:6} "
                f"{check.estimated / GIB:8.2f} of {check.measured_bytes / GIB:8.2f} GiB  {p['source']}"
            )
    print(f"{'source, engine, kind':68} {'points':>6} {'bias':>8} {'median':>8} {'p90':>8}")
    for name, count, bias, median, p90 in table(every):
        print(f"{name:68} {count:6} {bias:+8.1%} {median:8.1%} {p90:8.1%}")
    if arguments.record:
        command = "python scripts/check_memory.py --facts FACTS --record"
        record("memory", command, [{"kind": name, **summarize_errors([1 + one.error for one in some])} for name, some in of_facts.items()])
    for name, some in of_facts.items():
        print(f"all {name}: {len(some)} points, median error {statistics.median(abs(one.error) for one in some):.1%}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
