"""GPU or TPU: answers about the work, weighed against the rules of `lib.catalog.rules`.

    decide(Work(framework="jax", chips=256), load_decision_rules()).verdict  # "tpu"

The score of a stage is the sum of the weights that favour a TPU less those that favour a GPU. A side that is ahead by `decisive_score`
wins the stage, less than that is "either". A constraint (`hard`: no TPU is there, no TPU computes that, no engine runs it) gives the
stage to the GPU at every score. Where training and inference are both asked for and go to different sides, the verdict is "both": a
side for each stage. A question that is not answered says nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Literal, get_args

from lib.catalog.gpu_or_tpu import DecisionRules, Rule, Stage
from lib.provenance import Reason, Source, Value

Verdict = Literal["gpu", "tpu", "either", "both"]
Side = Literal["gpu", "tpu", "either"]
Phase = Literal["inference", "training", "both"]
Framework = Literal["pytorch", "jax", "tensorflow"]
Shapes = Literal["not_stated", "never", "buckets", "every_step"]
Kernels = Literal["none", "cuda", "triton", "pallas"]
Batch = Literal["not_stated", "large_regular", "small_irregular"]
Team = Literal["not_stated", "cuda", "jax"]
Precision = Literal["auto", "bf16", "fp64", "fp32", "fp16", "fp8", "int8", "int4", "fp4"]
Budget = Literal["not_stated", "interruptible", "committed"]
Place = Literal["on_gcp", "outside_gcp", "on_prem", "edge", "multi_cloud", "regulated"]
PHASES: tuple[Phase, ...] = get_args(Phase)
FRAMEWORKS: tuple[Framework, ...] = get_args(Framework)
SHAPES: tuple[Shapes, ...] = get_args(Shapes)
KERNELS: tuple[Kernels, ...] = get_args(Kernels)
BATCHES: tuple[Batch, ...] = get_args(Batch)
TEAMS: tuple[Team, ...] = get_args(Team)
PRECISIONS: tuple[Precision, ...] = get_args(Precision)
BUDGETS: tuple[Budget, ...] = get_args(Budget)
PLACES: tuple[Place, ...] = get_args(Place)


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """Answers to the questions; a default is "not stated", except for framework and phase, which every program has."""

    framework: Framework = "pytorch"
    phase: Phase = "inference"
    shapes: Shapes = "not_stated"
    """How often the shapes of tensors change: each new shape is compiled."""
    kernels: Kernels = "none"
    """The language of kernels that were written for the model."""
    control_flow: Literal["regular", "irregular"] = "regular"
    """Irregular: branches that depend on the data."""
    sparsity: Literal["dense", "unstructured"] = "dense"
    embeddings: Literal["usual", "very_large"] = "usual"
    """Tables of ranking and recommendation."""
    places: frozenset[Place] = frozenset()
    """Places that it may run in."""
    precision: Precision = "bf16"
    chips: int = 0
    """Chips or cards that work together; 0 is not stated."""
    training_steps: int = 0
    """Steps of a training run; 0 is not stated."""
    latency: Literal["not_stated", "tail"] = "not_stated"
    """`tail`: a limit on the slowest requests (p99)."""
    batch: Batch = "not_stated"
    team: Team = "not_stated"
    """Framework that the team knows."""
    work: Literal["production", "experiments"] = "production"
    budget: Budget = "not_stated"
    """`interruptible`: may be stopped at any time (spot). `committed`: used for one to three years."""


SupportFinding = Literal["", "passing", "passing_elsewhere", "same_class", "untested", "not_enough_hbm"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """Statements of the catalog and the laws about a model (`lib.advisor.tpu_options`); `None` or "" was not asked."""

    engine: Literal["", "some", "none_on_tpu"] = ""
    support: SupportFinding = ""
    """Of the chip with the lowest price per token; `passing_elsewhere` was tested on other chips only."""
    fits: Literal["", "both", "no_gpu_offer", "no_tpu_slice"] = ""
    ttft: Literal["", "both", "neither", "gpu_only", "tpu_only"] = ""
    tpu_price: int | None = None
    """USD per token of the best TPU slice in percent of that of the best GPU offer, at the same target."""
    values: Mapping[str, Mapping[str, Value]] = field(default_factory=dict)
    """Values of the sentences, by question."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WeighedReason:
    """A rule that applies."""

    reason: Reason
    rule: Rule
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The verdict; `score` is positive if the TPU is ahead, of `by_stage` the side of each stage that was asked for."""

    verdict: Verdict
    score: int
    by_stage: Mapping[Stage, Side]
    reasons: tuple[WeighedReason, ...]


def decide(work: Work, rules: DecisionRules, findings: Findings | None = None) -> Decision:
    """Weigh the answers. Reasons come constraints first, then by weight."""
    facts = findings or Findings()
    stages: tuple[Stage, ...] = ("training", "inference") if work.phase == "both" else (work.phase,)
    applying = [
        _weigh(rule, rules, value, facts)
        for question, value in _answers(work, facts)
        for rule in rules.rules
        if rule.question == question and rule.covers(value) and set(rule.stages) & set(stages)
    ]
    sides = {stage: _side_of(stage, applying, rules.decisive_score) for stage in stages}
    decided: set[Verdict] = {side for side in sides.values() if side != "either"}  # a stage that can go either way follows the other
    return Decision(
        verdict="both" if len(decided) > 1 else decided.pop() if decided else "either",
        score=sum(_signed_weight(reason) for reason in applying),
        by_stage=sides,
        reasons=tuple(sorted(applying, key=lambda reason: (not reason.rule.hard, -reason.rule.weight))),
    )


def _answers(work: Work, findings: Findings) -> Iterator[tuple[str, str | int]]:
    """Questions with their answers, in the order of the questions."""
    for question in fields(work):
        value = getattr(work, question.name)
        if question.name == "places":
            yield from (("place", place) for place in PLACES if place in value)
        else:
            yield question.name, value
    for name in ("engine", "support", "fits", "ttft"):
        yield name, getattr(findings, name)
    if findings.tpu_price is not None:
        yield "tpu_price", findings.tpu_price


def _weigh(rule: Rule, rules: DecisionRules, value: str | int, findings: Findings) -> WeighedReason:
    values: dict[str, Value] = {"answer": value, **findings.values.get(rule.question, {})}
    return WeighedReason(reason=Reason(rule.code, values), rule=rule, source=rules.sources[rule.source])


def _signed_weight(reason: WeighedReason) -> int:
    return reason.rule.weight if reason.rule.favours == "tpu" else -reason.rule.weight


def _side_of(stage: Stage, reasons: list[WeighedReason], decisive: int) -> Side:
    of_stage = [reason for reason in reasons if stage in reason.rule.stages]
    if any(reason.rule.hard for reason in of_stage):
        return "gpu"
    score = sum(_signed_weight(reason) for reason in of_stage)
    return "tpu" if score >= decisive else "gpu" if score <= -decisive else "either"
