"""Training steps that this project measured on its own (`scripts/measure_training.py`), as questions to the law and its answers.

Every sequence of these runs has exactly the stated length, so that no mask and no padding is there. The memory of a phase is the largest
of the moments (`lib.laws.training`) that fall into it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal

from lib import catalog
from lib.catalog.silicon import Accelerator
from lib.errors import AdvisorError
from lib.memory.objectives import OBJECTIVE_STACKS
from lib.memory.picture_training import check_picture_training, estimate_picture_training
from lib.memory.rollouts import estimate_step, list_moments
from lib.memory.tower import read_examples
from lib.memory.training import check_training
from lib.model import bundled
from lib.model.spec import ModelSpec
from lib.request.media import MediaRequest
from lib.request.objectives import OBJECTIVE_TRAITS, PairsRequest, RolloutRequest
from lib.request.pictures import PictureTrainingRequest
from lib.speed.picture_training import predict_picture_step
from lib.speed.training import predict_step, train_on
from lib.workload import TrainingRequest

OwnPhase = Literal["rollout", "scoring", "forward", "backward", "optimizer"]
MOMENTS: Mapping[OwnPhase, tuple[str, ...]] = {
    "rollout": ("rollout",), "scoring": ("scoring",), "forward": ("logits", "encoder_forward"),
    "backward": ("loss", "layer", "end", "encoder_backward"),
    "optimizer": ("update",),
}  # fmt: skip
"""Moments of the law in each measured phase."""
MEASURED = Path(__file__).resolve().parent.parent / "tests" / "data" / "measured_training.json"
CARDS = {"NVIDIA H100 80GB HBM3": "H100-SXM"}
_FIELDS = {field.name for field in fields(TrainingRequest)}


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnRun:
    """A measured step: the case, model, request and card, and the measured row."""

    name: str
    spec: ModelSpec
    request: TrainingRequest
    card: Accelerator
    row: dict[str, Any]

    @property
    def case(self) -> dict[str, Any]:
        """The case as it was measured."""
        return dict(self.row["case"])

    @property
    def kind(self) -> str:
        """The kind of model where it is not one of text, else the objective."""
        return str(self.case.get("kind") or self.request.objective)

    @property
    def has_experts(self) -> bool:
        """Whether its layers have routed experts."""
        return any(group.kind == "expert" for group in self.spec.tensors)


def measured_seconds(run: OwnRun) -> dict[str, float]:
    """Seconds of the phases of GRPO: rollout, scoring, and all else as update; empty for other objectives."""
    seconds = {name: float(phase["seconds"]) for name, phase in run.row["phases"].items()}
    if not run.request.samples:
        return {}
    apart = {name: seconds[name] for name in ("rollout", "scoring") if seconds.get(name)}
    return apart | {"update": run.row["step_s"] - sum(apart.values())}


TEXT = frozenset({"sft", "dpo", "kto", "reward", "orpo", "grpo", "contrastive", "rerank"})
ENDED_EARLY = "grpo-qwen3-0.6b-full-bf16-beta"
"""Some of its answers ended before the limit, so that lengths varied."""


def teaches_speed(run: OwnRun) -> bool:
    """Whether the constants of speed are fitted on this run: a dense model of text and rows of one length.

    With each new length torch's sdpa lets cuDNN build a plan, which takes up to seconds and fades as lengths repeat.
    """
    return not run.has_experts and _has_equal_rows(run)


def teaches_experts(run: OwnRun) -> bool:
    """Whether the constants of experts are fitted on this run."""
    return run.has_experts and _has_equal_rows(run)


def _has_equal_rows(run: OwnRun) -> bool:
    return run.kind in TEXT and not run.case.get("row_tokens") and run.name != ENDED_EARLY


def ask(spec: ModelSpec, case: dict[str, Any]) -> TrainingRequest:
    """The request of a case; fields of other kinds of runs are left out. Tokens of pictures are part of `sequence_tokens`."""
    plain = {name: value for name, value in case.items() if name in _FIELDS}
    plain |= {"target_modules": tuple(case["target_modules"])} if "target_modules" in case else {}
    plain |= {"rollout": RolloutRequest(**case["rollout"])} if "rollout" in case else {}
    plain |= {"pairs": PairsRequest(**case["pairs"])} if "pairs" in case else {}
    if case.get("kind") == "diffusion":
        plain |= {
            "pictures": PictureTrainingRequest(width=case["width"], height=case["height"], cached="all"),
            "optimizer": "adamw_foreach",
        }
        plain["sequence_tokens"] = 1
    if case.get("kind") == "vlm":
        plain["media"] = MediaRequest(images=case["pictures"], image_width=case["width"], image_height=case["height"])
    if case.get("kind") in {"vlm", "speech"}:
        plain["train_tower"] = "no" if case.get("frozen_tower") else "yes"
    stack = OBJECTIVE_STACKS[OBJECTIVE_TRAITS[case["objective"]].trainer] if case["objective"] != "sft" else "trl"
    alike: dict[str, Any] = {
        "packing": not case.get("row_tokens"),
        "attention": "flash",
    }  # rows of one length, and no mask that would repeat keys
    request = TrainingRequest(**alike | {"stack": "transformers" if case.get("kind") else stack} | plain)
    return replace(read_examples(spec, request), sequence_tokens=request.sequence_tokens, packing=request.packing)


def own_runs(path: Path) -> Iterator[OwnRun]:
    """The measured rows whose model the app has."""
    cards = catalog.load().accelerators
    measured = json.loads(path.read_text(encoding="utf-8"))
    card = cards[CARDS[measured["machine"]["card"]]]
    for row in measured["rows"]:
        spec = bundled.find_spec(row["case"]["model"])
        if spec is not None and "error" not in row:
            yield OwnRun(name=row["case"]["name"], spec=spec, request=ask(spec, row["case"]), card=card, row=row)


def predict(spec: ModelSpec, case: dict[str, Any], card: Accelerator) -> dict[str, Any]:
    """The law's answer to a case in the form of a measured row; with `error` where the law refuses it."""
    request = train_on(card, ask(spec, case), card.memory_usable or 0)
    try:
        if case.get("kind") == "diffusion":
            check_picture_training(spec, request)
            memory = estimate_picture_training(spec, request)
            step = predict_picture_step(spec, request, card)
            return {
                "allocated": memory.allocated_bytes, "reserved": memory.reserved.typical, "reserved_high": memory.reserved.high,
                "step_s": None if step is None else step.step_s, "phases": {}, "seconds": {},
            }  # fmt: skip
        check_training(spec, request)
    except AdvisorError as error:
        return {"error": str(error)}
    memory, peaks = estimate_step(spec, request), list_moments(spec, request)._asdict()
    speed = predict_step(spec, request, card, catalog.load().accelerators)
    allocated = {
        phase: max(sum(peaks[name].values()) for name in names) for phase, names in MOMENTS.items() if any(peaks.get(n) for n in names)
    }
    seconds: dict[str, float] = {}
    if speed is not None and speed.phases is not None:
        seconds = {"rollout": speed.phases.rollout, "scoring": speed.phases.scoring, "update": speed.phases.update}
    return {
        "allocated": memory.allocated_bytes, "reserved": memory.reserved.typical, "reserved_high": memory.reserved.high,
        "step_s": None if speed is None else speed.step_s, "phases": allocated, "seconds": seconds,
    }  # fmt: skip
