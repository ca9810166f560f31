"""Published runs of preference and reinforcement learning as questions to the law, from the folder of facts and from three threads.

A row states model, cards, layout, lengths and batch; here it becomes a `TrainingRequest`. Left out are asynchronous policies, whose phases
overlap, and batches that are padded to the limit. Where a row of verl prints no mean length, the tokens of its step follow from the MFU
that it prints for its update. TRL has no tensor or pipeline parallelism for training: Megatron's layouts are asked as ZeRO-1.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from lib import catalog
from lib.catalog.silicon import Accelerator
from lib.memory.resolve import layer_sizes
from lib.model.spec import ModelSpec
from lib.request.objectives import RolloutRequest
from lib.units import GIB
from lib.workload import TrainingRequest
from scripts.training_points import find_model

Phase = Literal["rollout", "scoring", "update", "step"]
CARDS = {
    "H100-80GB": "H100-SXM", "H100-SXM5-80GB": "H100-SXM", "H20-96GB": "H20", "B200": "B200", "T4": "T4", "A100-40GB": "A100-SXM4-40GB",
    "A100-80GB": "A100-SXM4-80GB", "A800-80GB": "A100-SXM4-80GB", "H800-80GB": "H100-SXM", "H100-96GB": "H20", "L4": "L4",
    "RTX-6000-Ada-48GB": "RTX-6000-Ada", "48 GB": "L40S",
}  # fmt: skip
"""Names of the facts by id of the catalog: A800 and H800 have the memory of A100 and H100, and a card of 96 GB that of an H20."""
PROMPT_TOKENS = 150
"""Mean tokens of a prompt of DAPO-Math, MATH, NuminaMath and OpenMathInstruct with its template, which no row prints; a judgement."""
ANSWERS = 16
"""Answers to a prompt by the scripts of ISEEKYAN/verl_megatron_practice (DAPO_7B, DAPO-14B, DAPO_MOE235B, GRPO_7B), read 2026-11-26."""
FILTERS_GROUPS = 20_480
"""Longest answer of the rows that drop groups without a spread of rewards and write again (DAPO-14B): only one rollout is compared, and
no step. FSDP's scripts write 3 × 512 prompts at once (`data.gen_batch_size`), Megatron's 512."""
FSDP_WRITES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class RlRun:
    """A published step: request, measured seconds by phase, and the bytes of a card: all, or those that torch reserved.

    `rollout_accumulation` is that of the rollout, where more answers are written than are trained on. `repeats` counts how often rollout
    and update alternate before the optimizer steps, as in TRL 0.14.
    """

    source: str
    spec: ModelSpec
    card: Accelerator
    request: TrainingRequest
    seconds: Mapping[Phase, float] = field(default_factory=dict)
    device_bytes: int = 0
    reserved_bytes: int = 0
    rollout_accumulation: int = 0
    repeats: int = 1

    @property
    def has_experts(self) -> bool:
        """Whether its layers have routed experts."""
        return any(group.kind == "expert" for group in self.spec.tensors)


def rl_runs(facts: Path) -> Iterator[RlRun]:
    """Every run of which model, cards and lengths are known."""
    for point in json.loads((facts / "training_points.json").read_text(encoding="utf-8"))["points"]:
        spec = find_model(point.get("model_hf_id") or "")
        if spec is None or point["accelerator"] not in CARDS:
            continue
        card = catalog.load().accelerators[CARDS[point["accelerator"]]]
        match point["source"]:
            case "verl-megatron-practice":
                yield from _verl_run(point, spec, card)
            case "nemo-rl-perf" if point["policy"] == "On policy":
                yield _nemo_run(point, spec, card)
            case "trl-notebooks" if point["method"] == "grpo qlora":
                yield RlRun(source="TRL's notebook", spec=spec, card=card, request=NOTEBOOK, reserved_bytes=round(point["value"] * GIB))
    yield from thread_runs()


def _mean_tokens(point: dict[str, Any], spec: ModelSpec, card: Accelerator) -> float:
    """Mean tokens of a sequence: as printed, else those whose FLOPs, counted as verl does, give the printed MFU of the update.

    verl counts 6 a parameter that a token passes, and 12 times width and length for each layer's attention. All sequences count alike.
    """
    if point.get("mean_response_len"):
        return float(point["mean_response_len"]) + PROMPT_TOKENS
    speed, peak, sizes = point["speed"], card.fastest("bf16") or 0.0, layer_sizes(spec)
    flops = speed["mfu"] * speed["update_actor_s"] * point["n_devices"] * peak / (point["train_batch_prompts"] * ANSWERS)
    linear, square = 6 * spec.parameters_active, 12 * sizes.layers * sizes.query_width
    return float(((linear**2 + 4 * square * flops) ** 0.5 - linear) / (2 * square))


def _verl_run(point: dict[str, Any], spec: ModelSpec, card: Accelerator) -> Iterator[RlRun]:
    """A run of ISEEKYAN/verl_megatron_practice: GRPO scores with a reference too, DAPO has none; the rollout's seconds include the sync."""
    fixed = not (point.get("micro_or_dynamic_tokens") or "22k").endswith("k")
    if fixed or point.get("dynamic_batch") == "FALSE" or not (point.get("mean_response_len") or point["speed"].get("mfu")):
        return  # padded to the limit, or of an unknown length
    mean, speed, limit = _mean_tokens(point, spec, card), point["speed"], point["max_response_len"]
    answers = point["train_batch_prompts"] * ANSWERS // point["n_devices"]
    budget = 1024 * int((point.get("micro_or_dynamic_tokens") or "22k").rstrip("k"))
    micro = next(size for size in (16, 8, 4, 2, 1) if size * mean <= budget or size == 1)
    scores_reference, fsdp = point["method"].startswith("grpo"), "fsdp" in point["sharding"]
    request = _full(
        micro_batch=micro, accumulation=answers // micro, devices=point["n_devices"], sharding="fsdp" if fsdp else "zero1",
        sequence_tokens=point["max_prompt_len"] + limit, recomputes=not _keeps_activations(point),
        rollout=RolloutRequest(
            generations=ANSWERS, completion_tokens=limit, mean_completion_tokens=max(1, round(mean) - PROMPT_TOKENS),
            rollouts="vllm-colocate", rollout_share=point.get("rollout_mem_share", 0.6), rollout_sleep=True,
            rollout_tensor_parallel=_tensor_parallel(point), beta=0.001 if scores_reference else 0,
        ),
    )  # fmt: skip
    filtered = limit == FILTERS_GROUPS
    seconds: dict[Phase, float] = {"update": speed["update_actor_s"]}
    rollout = speed.get("generation_s") if filtered else speed.get("rollout_s")
    seconds |= {"rollout": rollout} if rollout else {}
    if speed.get("old_log_prob_s"):
        seconds["scoring"] = speed["old_log_prob_s"] * (2 if scores_reference else 1)
    if rollout and not filtered:
        seconds["step"] = point["value"]
    writes = FSDP_WRITES if filtered and fsdp else 1
    yield RlRun(source="verl", spec=spec, card=card, request=request, seconds=seconds, rollout_accumulation=writes * request.accumulation)


def _keeps_activations(point: dict[str, Any]) -> bool:
    return "no recompute" in point.get("other", "") or point.get("gradient_checkpointing") == "FALSE"


def _tensor_parallel(point: dict[str, Any]) -> int:
    """Cards of one vLLM: "tp4", "TP,PP [32,1]"."""
    found = re.search(r"\d+", point["rollout_layout"])
    return int(found[0]) if found else 1


def _nemo_run(point: dict[str, Any], spec: ModelSpec, card: Accelerator) -> RlRun:
    """A run of NeMo RL's table: a reference is scored; how a sequence splits into prompt and answer is a judgement."""
    answers, limit = point["samples_per_step"] // point["n_devices"], point["train_max_seq_len"]
    request = _full(
        micro_batch=1, accumulation=max(1, answers), devices=point["n_devices"], sharding="zero1", sequence_tokens=limit, recomputes=True,
        rollout=RolloutRequest(
            generations=ANSWERS, completion_tokens=limit - PROMPT_TOKENS,
            mean_completion_tokens=round(point["mean_seq_len"]) - PROMPT_TOKENS,
            rollouts="vllm-colocate", rollout_share=0.6, rollout_sleep=True, rollout_tensor_parallel=_tensor_parallel(point), beta=0.01,
        ),
    )  # fmt: skip
    return RlRun(source="NeMo RL", spec=spec, card=card, request=request, seconds={"step": point["value"]})


def _full(*, recomputes: bool, **fields: Any) -> TrainingRequest:
    return TrainingRequest(
        method="full", objective="grpo", precision="mixed", attention="flash", packing=False, row_tokens=PROMPT_TOKENS,
        checkpointing="layers" if recomputes else "none", **fields,
    )  # fmt: skip


NOTEBOOK = TrainingRequest(
    method="qlora", objective="grpo", rank=32, optimizer="paged_adamw_8bit", packing=False, micro_batch=8,
    sequence_tokens=PROMPT_TOKENS + 256, row_tokens=PROMPT_TOKENS, rollout=RolloutRequest(generations=8, completion_tokens=256),
)  # fmt: skip
"""huggingface/trl, examples/notebooks/grpo_trl_lora_qlora.ipynb at 08806954f, read 2026-11-26; it divides by 1024³ and prints GB."""
NOTEBOOK_STEPS = {"T4": (13 * 3600 + 5 * 60 + 4) / 500, "A100-SXM4-40GB": 1 / 0.03, "A100-SXM4-80GB": 1 / 0.04}
"""Seconds of a step: 500 steps took 13:05:04 on a T4; the others from its rounded table."""
OPEN_R1 = TrainingRequest(
    method="full", objective="grpo", precision="bf16", packing=False, checkpointing="none", micro_batch=8, sharding="zero3", devices=8,
    sequence_tokens=512, row_tokens=PROMPT_TOKENS, rollout=RolloutRequest(generations=8, completion_tokens=256, beta=0.04),
)  # fmt: skip
"""The command of open-r1#100: 16 micro-batches of one prompt with 8 answers of 256 tokens, TRL's defaults of 2025-01."""
TRL_2972 = TrainingRequest(
    method="full", objective="grpo", precision="bf16", packing=False, checkpointing="none", sharding="ddp", devices=4, sequence_tokens=768,
    rollout=RolloutRequest(generations=2, completion_tokens=512, beta=0.04),
)  # fmt: skip
"""The settings of trl#2972. Sharding and format are not stated: DDP, as without a configuration, and bf16, because 40 GB hold no more."""
TIME_R1 = TrainingRequest(
    method="full", objective="grpo", precision="bf16", packing=False, attention="flash", micro_batch=8, sharding="zero3_offload", devices=8,
    sequence_tokens=8392, rollout=RolloutRequest(generations=8, completion_tokens=200, beta=0.04),
)  # fmt: skip
"""xiaomi-research/time-r1, scripts/posttrain/train_rl.sh (ZeRO-3 with offload), on 8 GPUs as in its issue 6; the decoder of
Qwen2.5-VL-3B is that of Qwen2.5-3B."""


def thread_runs() -> Iterator[RlRun]:
    """Runs of threads with TRL whose settings are printed: trl#2972 and time-r1#6 with memory, open-r1#100 with seconds."""
    cards = catalog.load().accelerators
    qwen7, qwen3 = find_model("Qwen/Qwen2.5-7B-Instruct"), find_model("Qwen/Qwen2.5-3B-Instruct")
    r1, qwen2 = find_model("deepseek-ai/DeepSeek-R1-Distill-Qwen-7B"), find_model("Qwen/Qwen2-7B-Instruct")
    if not (qwen7 and qwen3 and r1 and qwen2):
        return
    for card, step_s in NOTEBOOK_STEPS.items():
        yield RlRun(source="TRL's notebook", spec=qwen2, card=cards[card], request=NOTEBOOK, seconds={"step": step_s})
    yield RlRun(source="open-r1#100", spec=r1, card=cards["H100-SXM"], request=OPEN_R1, seconds={"step": 119.0}, repeats=16)
    yield RlRun(source="time-r1#6", spec=qwen3, card=cards["A100-SXM4-80GB"], request=TIME_R1, device_bytes=74 * 10**9)


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedRl:
    """A published run that ended out of memory."""

    source: str
    spec: ModelSpec
    card: Accelerator
    request: TrainingRequest
    first_step_bytes: int = 0
    """Bytes of a card before the optimizer had states; 0: not stated."""


def failed_rl(facts: Path) -> Iterator[FailedRl]:
    """Out-of-memory statements of which model, card, cards, batch and lengths are known, and those of the threads."""
    cards = catalog.load().accelerators
    for point in json.loads((facts / "training_points.json").read_text(encoding="utf-8"))["oom_points"]:
        asked = _FAILED.get(point["source_path"].split(" @")[0])
        spec = find_model(point.get("model_hf_id") or "") or find_model(_SAME.get(point.get("model_hf_id") or "", ""))
        if point.get("category") != 1 or asked is None or spec is None or point["accelerator"] not in CARDS:
            continue
        share = {"rollout_share": point["rollout_mem_share"]} if "rollout_mem_share" in point and point["source"] != "threads" else {}
        fields = {**asked, "rollout": RolloutRequest(**{**asked.get("rollout", {}), **share})}
        yield FailedRl(
            source=point["source_path"], spec=spec, card=cards[CARDS[point["accelerator"]]],
            request=TrainingRequest(**{"method": "full", "packing": False, **fields}),
        )  # fmt: skip
    for model, card, request, source, first in (
        ("Qwen/Qwen2.5-7B-Instruct", "H20", TRL_2972, "huggingface/trl#2972", 40 * 10**9),
        ("deepseek-ai/DeepSeek-R1-Distill-Qwen-7B", "A100-SXM4-40GB", OPEN_R1, "huggingface/open-r1#100, A100-40", 0),
        ("Qwen/Qwen2.5-3B-Instruct", "L40S", TIME_R1, "xiaomi-research/time-r1#6, 48 GB", 0),
    ):
        spec = find_model(model)
        if spec is not None:
            yield FailedRl(source=source, spec=spec, card=cards[card], request=request, first_step_bytes=first)


_SAME = {"OpenRLHF/Llama-3-8b-sft-mixture": "meta-llama/Meta-Llama-3-8B"}
_GRPO: dict[str, Any] = {"objective": "grpo"}
_BENCH: dict[str, Any] = {
    **_GRPO, "attention": "flash", "checkpointing": "none", "micro_batch": 4, "accumulation": 256, "devices": 8, "sharding": "zero1",
    "sequence_tokens": 10_240,
    "rollout": {"generations": 16, "completion_tokens": 8192, "rollouts": "vllm-colocate", "rollout_sleep": True},
}  # fmt: skip
_FAILED: dict[str, dict[str, Any]] = {
    "huggingface/trl examples/notebooks/grpo_trl_lora_qlora.ipynb": {
        **_GRPO, "precision": "bf16", "checkpointing": "none", "attention": "eager", "micro_batch": 8, "sequence_tokens": 406,
        "rollout": {"generations": 8, "completion_tokens": 256},
    },
    "OpenRLHF/OpenRLHF#1066": {
        **_GRPO, "attention": "flash", "sharding": "zero3_offload", "devices": 4, "accumulation": 2, "sequence_tokens": 12_288,
        "rollout": {"generations": 2, "completion_tokens": 8192, "rollouts": "vllm-colocate", "rollout_share": 0.6, "beta": 0.001},
    },
    "OpenRLHF/OpenRLHF#901": {
        **_GRPO, "sharding": "zero2", "devices": 2, "micro_batch": 2, "accumulation": 2, "sequence_tokens": 1025,
        "rollout": {"generations": 8, "completion_tokens": 1, "beta": 0.001},
    },
    "huggingface/trl#2719": {
        **_GRPO, "micro_batch": 2, "sequence_tokens": 512, "rollout": {"generations": 2, "completion_tokens": 53, "beta": 0.05},
    },
    "verl-project/verl#3124": {
        **_GRPO, "sharding": "zero1", "devices": 8, "accumulation": 8, "sequence_tokens": 3072, "attention": "flash",
        "rollout": {"generations": 8, "completion_tokens": 2048, "rollouts": "vllm-colocate", "rollout_sleep": True, "beta": 0.001},
    },
    "huggingface/trl#3218": {
        "objective": "reward", "precision": "bf16", "optimizer": "sgd", "checkpointing": "none", "sharding": "fsdp_offload", "devices": 8,
        "sequence_tokens": 1024,
    },
    "ISEEKYAN/verl_megatron_practice grpo_qwen2.5_7b.csv": _BENCH,
}  # fmt: skip
"""Settings that the thread or table of a row states beyond the row. trl#2719 is PPO with four models: asked as GRPO, which has two.
Left out: rows without lengths, without a card, or of TRL's losses before tiles (trl#3168)."""
