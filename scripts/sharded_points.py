"""Published trainings over several cards, and full fine-tuning: peaks of torch's allocator, by sharding, as questions to the law.

Left out are rows without a stated length, GPTQ checkpoints, and tensor and pipeline parallelism, which `lib.workload` does not have.
LitGPT's figures under FSDP are left out because they are those of loading: one card more or four times the batch hardly change them. So are
steps of torchtune's table with `torch.compile` or the optimizer in the backward pass.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from lib.memory.training import estimate_training
from lib.model.spec import ModelSpec
from lib.request.sharding import Sharding
from lib.workload import TrainingRequest
from scripts.training_points import find_model, read_points, targets_of

TOO_LOW = -0.1
OWN_LOSS = "cross entropy of fms-acceleration's own kernels"
OLD_LOSS = "loss of gpt_bigcode before transformers 4.50"
MEANING = "table whose two figures are not explained"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardedRun:
    """A published training: the request, and the bytes of its fullest card."""

    source: str
    model: str
    spec: ModelSpec
    request: TrainingRequest
    peak_bytes: int
    apart: str
    """A reason to judge it apart from the others, because it does something that no stack of the app does; or empty."""

    @property
    def error(self) -> float:
        """Relative error of the bytes that tensors hold."""
        return estimate_training(self.spec, self.request).reserved.low / self.peak_bytes - 1


class _Found(NamedTuple):
    request: TrainingRequest
    peak_bytes: int
    apart: str = ""


def sharded_runs(facts: Path) -> Iterator[ShardedRun]:
    """Runs of `training_points.json` over several cards, and those of full fine-tuning and adapters from the same tables on one."""
    for point in read_points(facts, "training_points.json"):
        read = _READERS.get(point["source"])
        spec = find_model(point["model_hf_id"] or "") if read is not None and point["reliability"] != "low" else None
        found = read(point, spec) if read is not None and spec is not None else None
        if found is not None and spec is not None:
            yield ShardedRun(source=point["source"], model=spec.id, spec=spec, **found._asdict())


def _fms(point: dict[str, Any], spec: ModelSpec) -> _Found | None:
    """fms-acceleration, which trains with TRL: the largest of the cards' allocated peaks, lengths reached by packing.

    Its fast kernels compute the loss themselves unless Liger does; bitsandbytes converts the experts of transformers 4.48. Several cards
    ran FSDP version 1 with reentrant checkpoints (scripts/benchmarks/accelerate.yaml at 876e2ed6).
    """
    peak, setup = point.get("peak_torch_allocated_bytes"), point["engine"].rpartition("config ")[2]
    if not peak or point["quant"].startswith("gptq"):
        return None
    method, several = point["method"], point["n_devices"] > 1
    converts_experts = method == "qlora" and any(group.kind == "expert" for group in spec.tensors)
    request = TrainingRequest(
        method=method,
        rank=point.get("lora_rank") or 16,
        target_modules=targets_of(point.get("target_modules", "").replace(" ", ","), spec),
        optimizer="adamw_foreach",
        precision="mixed" if "float32 master" in point.get("state_note", "") or method != "full" else "bf16",
        attention="flash",
        sequence_tokens=point["seq_len"],
        micro_batch=point["batch"],
        sharding="fsdp1" if several else "none",
        devices=point["n_devices"],
        stack="axolotl" if converts_experts else "transformers" if setup.startswith("baseline") else "trl",
        fused_loss="liger" in setup,
    )
    own_loss = "foak" in setup and "liger" not in setup
    old_loss = "bigcode" in point["model_hf_id"]
    return _Found(request, peak, OLD_LOSS if old_loss else OWN_LOSS if own_loss else "")


_ZERO: dict[str, Sharding] = {
    "ZeRO-2": "zero2", "ZeRO-3": "zero3", "ZeRO-2, optimizer offload": "zero2_offload", "ZeRO-3, optimizer offload": "zero3_offload",
}  # fmt: skip


def _gist(point: dict[str, Any], _spec: ModelSpec) -> _Found | None:
    """LLaMA-7B with DeepSpeed on eight A800: the second of two figures, read as the peak."""
    sharding = _ZERO.get(point["sharding"])
    if sharding is None:
        return None
    request = TrainingRequest(
        method="full", checkpointing="layers" if point["gradient_checkpointing"] else "none", attention="flash",
        sequence_tokens=point["seq_len"], micro_batch=point["batch"],
        accumulation=max(1, point["batch_second_printed"] // 8 // point["batch"]),
        sharding=sharding, devices=8, stack="transformers",
    )  # fmt: skip
    return _Found(request, point["bytes"], MEANING)


def _torchtune(point: dict[str, Any], _spec: ModelSpec) -> _Found | None:
    """Torchtune's table: the packed step of its ladder, which is not compiled, and the recipe with FSDP and offload."""
    if point.get("ladder_step") == "+ packed":
        return _Found(
            TrainingRequest(
                method="full", precision="bf16", checkpointing="none", sequence_tokens=point["seq_len"], micro_batch=point["batch"],
                stack="torchtune", fused_loss=False,
            ),
            point["bytes"],
        )  # fmt: skip
    if "offload" not in point.get("sharding", ""):
        return None
    return _Found(
        TrainingRequest(
            method="full", precision="bf16", sequence_tokens=point["seq_len"], micro_batch=point["batch"], stack="torchtune",
            sharding="fsdp_offload", devices=point["n_devices"],
        ),
        point["bytes"],
    )  # fmt: skip


_READERS = {"fms-acceleration": _fms, "a800-gist": _gist, "torchtune-readme": _torchtune}


def print_sharded(facts: Path) -> None:
    """Errors of the bytes that tensors hold: by method and sharding, all of them, and those judged apart by their reason."""
    runs = [(run, run.error) for run in sharded_runs(facts)]
    plain = [(run, error) for run, error in runs if not run.apart]
    several = [(run, error) for run, error in plain if run.request.devices > 1 or run.request.method == "full"]
    print(f"\n{'several cards and full fine-tuning':52} {'runs':>5} {'median':>8} {'bias':>8} {'too low':>8}")
    for kind in sorted({(run.request.method, run.request.sharding) for run, _ in plain}):
        _print_row(" ".join(kind), (error for run, error in plain if (run.request.method, run.request.sharding) == kind))
    _print_row("several cards or full", (error for _, error in several))
    for reason in dict.fromkeys(run.apart for run, _ in runs if run.apart):
        _print_row(f"apart: {reason}", (error for run, error in runs if run.apart == reason))
    _print_row("all, with those apart", (error for run, error in runs if run.request.devices > 1 or run.request.method == "full"))


def _print_row(name: str, errors: Iterable[float]) -> None:
    of = list(errors)
    low = sum(error < TOO_LOW for error in of) / len(of)
    print(f"{name:52} {len(of):5} {statistics.median(map(abs, of)):8.1%} {statistics.median(of):+8.1%} {low:8.0%}")


if __name__ == "__main__":
    import sys

    print_sharded(Path(sys.argv[1]))
    for one in sharded_runs(Path(sys.argv[1])) if "--all" in sys.argv else ():
        asked = one.request
        print(
            f"{one.error:+7.1%}  {one.model:36} {asked.method:6} {asked.sharding:13} × {asked.devices} {asked.checkpointing:6} "
            f"B {asked.micro_batch:2} T {asked.sequence_tokens:5} {one.peak_bytes / 1e9:6.2f} GB  {one.apart}"
        )
