"""The choice between GPU and TPU: cases as sentences, and what no preference can outweigh."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lib.advisor.gpu_tpu import (
    BATCHES,
    BUDGETS,
    FRAMEWORKS,
    KERNELS,
    PHASES,
    PLACES,
    PRECISIONS,
    SHAPES,
    TEAMS,
    Decision,
    Findings,
    Work,
    decide,
)
from lib.catalog.gpu_or_tpu import load_decision_rules

RULES = load_decision_rules()
HARD_PLACES = frozenset({"on_prem", "outside_gcp", "edge"})


def ask(findings: Findings | None = None, *, places: tuple[str, ...] = (), **answers: Any) -> Decision:
    """The decision for a few answers."""
    return decide(Work(places=frozenset(places), **answers), RULES, findings)  # type: ignore[arg-type]


TRAINING = {"phase": "training"}
CASES: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("either", "nothing is known but that a model is served", {}),
    # Choose a GPU when, alone
    ("gpu", "shapes change at every step", {"shapes": "every_step"}),
    ("gpu", "the model has CUDA kernels of its own", {"kernels": "cuda"}),
    ("gpu", "the model has Triton kernels of its own", {"kernels": "triton"}),
    ("gpu", "control flow depends on the data", {"control_flow": "irregular"}),
    ("gpu", "sparsity has no structure", {"sparsity": "unstructured"}),
    ("gpu", "it runs in one's own data centre", {"places": ("on_prem",)}),
    ("gpu", "it has to run outside Google Cloud", {"places": ("outside_gcp",)}),
    ("gpu", "it runs at the edge", {"places": ("edge",)}),
    ("gpu", "it runs in several clouds", {"places": ("multi_cloud",)}),
    ("either", "the place is regulated, which alone decides nothing", {"places": ("regulated",)}),
    ("gpu", "it computes in FP64", {"precision": "fp64"}),
    ("gpu", "it computes in FP32", {"precision": "fp32"}),
    ("gpu", "it computes in FP4", {"precision": "fp4"}),
    ("gpu", "the slowest requests have a limit", {"latency": "tail"}),
    ("gpu", "batches are small and irregular", {"batch": "small_irregular"}),
    ("gpu", "the team writes CUDA", {"team": "cuda"}),
    ("either", "the work is experiments, which alone decides nothing", {"work": "experiments"}),
    ("gpu", "experiments in PyTorch are trained", {"work": "experiments", **TRAINING}),
    ("gpu", "a short training run in PyTorch", {"training_steps": 500, **TRAINING}),
    ("either", "shapes lie in buckets, which alone decides nothing", {"shapes": "buckets"}),
    ("either", "a bf16 model is trained in PyTorch", {**TRAINING}),
    ("either", "a model is trained in TensorFlow", {"framework": "tensorflow", **TRAINING}),
    # Choose a TPU when, alone
    ("tpu", "shapes never change", {"shapes": "never"}),
    ("tpu", "the program is JAX", {"framework": "jax"}),
    ("tpu", "the model has Pallas kernels", {"kernels": "pallas"}),
    ("tpu", "embedding tables are very large", {"embeddings": "very_large"}),
    ("tpu", "256 chips work together", {"chips": 256}),
    ("tpu", "32 chips work together", {"chips": 32}),
    ("either", "8 chips work together", {"chips": 8}),
    ("tpu", "batches are large and regular", {"batch": "large_regular"}),
    ("tpu", "the team writes JAX", {"team": "jax"}),
    ("tpu", "a JAX model is trained for 200,000 steps", {"framework": "jax", "training_steps": 200_000, **TRAINING}),
    ("either", "a PyTorch model is trained for 200,000 steps", {"training_steps": 200_000, **TRAINING}),
    ("either", "it runs on Google Cloud, which alone decides nothing", {"places": ("on_gcp",)}),
    ("either", "the work may be interrupted, which alone decides nothing", {"budget": "interruptible"}),
    # In pairs
    ("tpu", "on Google Cloud, and it may be interrupted", {"places": ("on_gcp",), "budget": "interruptible"}),
    ("tpu", "on Google Cloud with a commitment of years", {"places": ("on_gcp",), "budget": "committed"}),
    ("tpu", "JAX on 256 chips", {"framework": "jax", "chips": 256}),
    ("tpu", "PyTorch trained on a pod", {"chips": 1024, **TRAINING}),
    ("tpu", "fixed shapes and large batches", {"shapes": "never", "batch": "large_regular"}),
    ("gpu", "CUDA kernels in several clouds", {"kernels": "cuda", "places": ("multi_cloud",)}),
    ("gpu", "every step another shape, and tail latency", {"shapes": "every_step", "latency": "tail"}),
    ("gpu", "buckets of shapes in a regulated place", {"shapes": "buckets", "places": ("regulated",)}),
    # In conflict
    ("either", "JAX with CUDA kernels", {"framework": "jax", "kernels": "cuda"}),
    ("either", "JAX that computes in FP32", {"framework": "jax", "precision": "fp32"}),
    ("either", "large batches with a limit on the slowest", {"batch": "large_regular", "latency": "tail"}),
    ("gpu", "fixed shapes, CUDA kernels, a CUDA team", {"shapes": "never", "kernels": "cuda", "team": "cuda"}),
    ("tpu", "a pod of JAX in several clouds", {"framework": "jax", "chips": 512, "places": ("multi_cloud",)}),
    ("gpu", "a pod of JAX in FP64", {"framework": "jax", "chips": 512, "precision": "fp64"}),
    ("gpu", "a pod of JAX in one's own data centre", {"framework": "jax", "chips": 512, "places": ("on_prem",)}),
    ("tpu", "fixed shapes on Google Cloud, experiments", {"shapes": "never", "places": ("on_gcp",), "work": "experiments"}),
    # By stage
    ("both", "long JAX training, served in small batches with tail latency",
     {"phase": "both", "training_steps": 200_000, "framework": "jax", "batch": "small_irregular", "latency": "tail"}),
    ("tpu", "long JAX training and serving", {"phase": "both", "training_steps": 200_000, "framework": "jax"}),
    ("gpu", "training and serving with Triton kernels", {"phase": "both", "kernels": "triton"}),
)  # fmt: skip


@pytest.mark.parametrize(("verdict", "sentence", "answers"), CASES, ids=[case[1] for case in CASES])
def test_a_case_has_its_verdict(verdict: str, sentence: str, answers: dict[str, Any]) -> None:
    """The sentence ends in this verdict."""
    assert verdict == ask(**answers).verdict, sentence


FOUND: tuple[tuple[str, str, Findings, dict[str, Any]], ...] = (
    ("gpu", "no engine serves it on a TPU", Findings(engine="none_on_tpu"), {"framework": "jax", "shapes": "never"}),
    ("tpu", "no engine serves it, but it is trained", Findings(engine="none_on_tpu"), {"framework": "jax", **TRAINING}),
    ("both", "trained in JAX, and no engine serves it", Findings(engine="none_on_tpu"), {"framework": "jax", "phase": "both"}),
    ("tpu", "tested and half the price", Findings(support="passing", tpu_price=50), {}),
    ("gpu", "untested and dearer", Findings(support="untested", tpu_price=130), {}),
    ("either", "tested and dearer", Findings(support="passing", tpu_price=130), {}),
    ("gpu", "twice the price", Findings(tpu_price=200), {}),
    ("either", "the same price", Findings(tpu_price=100, support="not_enough_hbm", fits="both", ttft="both"), {}),
    ("tpu", "only slices hold it", Findings(fits="no_gpu_offer"), {}),
    ("gpu", "no slice holds it", Findings(fits="no_tpu_slice"), {}),
    ("gpu", "only GPUs answer in time", Findings(ttft="gpu_only"), {}),
    ("tpu", "only TPUs answer in time", Findings(ttft="tpu_only"), {}),
)


@pytest.mark.parametrize(("verdict", "sentence", "findings", "answers"), FOUND, ids=[case[1] for case in FOUND])
def test_what_was_found_of_a_model_counts(verdict: str, sentence: str, findings: Findings, answers: dict[str, Any]) -> None:
    """The catalog's findings weigh as answers do."""
    assert verdict == ask(findings, **answers).verdict, sentence


WORKS = st.builds(
    Work,
    framework=st.sampled_from(FRAMEWORKS),
    phase=st.sampled_from(PHASES),
    shapes=st.sampled_from(SHAPES),
    kernels=st.sampled_from(KERNELS),
    control_flow=st.sampled_from(["regular", "irregular"]),
    sparsity=st.sampled_from(["dense", "unstructured"]),
    embeddings=st.sampled_from(["usual", "very_large"]),
    places=st.frozensets(st.sampled_from([place for place in PLACES if place not in HARD_PLACES])),
    precision=st.sampled_from([name for name in PRECISIONS if name != "fp64"]),
    chips=st.integers(0, 9216),
    training_steps=st.integers(0, 10**7),
    latency=st.sampled_from(["not_stated", "tail"]),
    batch=st.sampled_from(BATCHES),
    team=st.sampled_from(TEAMS),
    work=st.sampled_from(["production", "experiments"]),
    budget=st.sampled_from(BUDGETS),
)


@given(WORKS, st.sampled_from(["fp64", "none_on_tpu", *sorted(HARD_PLACES)]))
def test_a_constraint_decides_whatever_else_is_answered(work: Work, constraint: str) -> None:
    """With any one constraint every stage that it is about goes to the GPU; without it, no reason is a constraint."""
    assert not any(reason.rule.hard for reason in decide(work, RULES).reasons)
    if constraint == "none_on_tpu":
        bound = decide(work, RULES, Findings(engine="none_on_tpu"))
        assert bound.by_stage.get("inference", "gpu") == "gpu"
        assert bound.by_stage.get("training") == decide(work, RULES).by_stage.get("training")
        return
    changed = replace(work, precision="fp64") if constraint == "fp64" else replace(work, places=work.places | {constraint})  # type: ignore[arg-type]
    bound = decide(changed, RULES)
    assert bound.verdict == "gpu"
    assert bound.reasons[0].rule.hard


@pytest.mark.parametrize("constraint", [{"precision": "fp64"}, *({"places": frozenset({place})} for place in sorted(HARD_PLACES))])
def test_flipping_a_constraint_flips_the_verdict(constraint: dict[str, Any]) -> None:
    """Everything speaks for a TPU until the constraint is stated, and again when it is taken back."""
    work = Work(framework="jax", shapes="never", chips=512, batch="large_regular", team="jax")
    assert decide(work, RULES).verdict == "tpu"
    assert decide(replace(work, **constraint), RULES).verdict == "gpu"
    assert decide(work, RULES, Findings(engine="none_on_tpu")).verdict == "gpu"


@given(WORKS)
def test_the_score_is_the_sum_of_the_reasons(work: Work) -> None:
    """Nothing is counted that is not shown, and every reason is about a stage that was asked for."""
    decision = decide(work, RULES)
    assert decision.score == sum(reason.rule.weight if reason.rule.favours == "tpu" else -reason.rule.weight for reason in decision.reasons)
    assert all(set(reason.rule.stages) & set(decision.by_stage) for reason in decision.reasons)


def test_every_rule_is_reached_by_an_answer() -> None:
    """No row is dead: its question is one that is asked, and its answer one that can be given."""
    spoken: dict[str, tuple[str, ...]] = {
        "framework": FRAMEWORKS, "shapes": SHAPES, "kernels": KERNELS, "control_flow": ("irregular",), "sparsity": ("unstructured",),
        "embeddings": ("very_large",), "place": PLACES, "precision": PRECISIONS, "latency": ("tail",), "batch": BATCHES, "team": TEAMS,
        "work": ("experiments",), "budget": BUDGETS, "engine": ("none_on_tpu",),
        "support": ("passing", "passing_elsewhere", "same_class", "untested"),
        "fits": ("no_gpu_offer", "no_tpu_slice"), "ttft": ("gpu_only", "tpu_only"),
    }  # fmt: skip
    for rule in RULES.rules:
        if rule.at_least is None and rule.at_most is None:
            assert rule.answer in spoken[rule.question], rule.code
        else:
            assert rule.question in {"chips", "training_steps", "tpu_price"}, rule.code
