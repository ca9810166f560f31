"""/compare_gpu_tpu in-process: checked arguments, sentences, priced options, what is retired."""

from __future__ import annotations

import json
from typing import Any

import pytest
from contract import EXAMPLE, check_fields

from lib.catalog import load
from lib.catalog.gpu_or_tpu import load_decision_rules
from lib.errors import BadArgument
from lib.present.gpu_tpu_words import RULES
from lib.service.compare_gpu_tpu import compare_gpu_tpu
from lib.service.endpoint import App, bind_arguments
from lib.service.models import Models

ASK: Any = bind_arguments(compare_gpu_tpu, App(catalog=load, models=Models()))
LLAMA = "meta-llama/Llama-3.1-8B-Instruct"


def test_the_answer_keeps_the_contract() -> None:
    """Every field, and plain JSON without NaN."""
    answer = ASK(**EXAMPLE["compare_gpu_tpu"])
    check_fields("compare_gpu_tpu", answer)
    json.dumps(answer, allow_nan=False)


def test_questions_alone_need_no_model() -> None:
    """A verdict without options; the table, the retired tiers and the recipes are there to read."""
    answer = ASK(framework="jax", chips_at_scale=256)
    assert (answer["verdict"], answer["options"], answer["guidance"]) == ("tpu", [], None)
    assert len(answer["side_by_side"]) > 10
    assert answer["recipes"]


def test_every_rule_has_a_sentence_and_every_sentence_a_rule() -> None:
    """The words and the rows name the same codes."""
    assert RULES.keys() == {rule.code for rule in load_decision_rules().rules}


STATED: dict[str, Any] = {
    "framework": "jax", "phase": "both", "shape_changes": True, "custom_kernels": True, "irregular_control_flow": True,
    "unstructured_sparsity": True, "large_embeddings": True, "on_gcp": True, "on_prem": True, "edge": True, "multi_cloud": True,
    "regulated": True, "chips_at_scale": 300, "latency_sensitive": True, "precision": "fp64", "training_steps": 10**6,
    "batch": "large_regular", "team": "cuda", "experiments": True, "budget": "committed",
}  # fmt: skip


@pytest.mark.parametrize(
    "others",
    [
        {"model": LLAMA},
        {"model": "openai/whisper-large-v3"},
        {"model": "deepseek-ai/DeepSeek-V3", "budget": "interruptible", "dynamic_shapes": True, "kernels": "pallas"},
        {"model": "7B", "max_ttft_s": 1e-6, "framework": "tensorflow", "kernels": "triton", "precision": "fp4", "training_steps": 10},
        {"chips_at_scale": 20, "shape_changes": False, "static_shapes": True, "precision": "fp32", "framework": "pytorch", "team": "jax"},
        {"on_gcp": False, "outside_gcp": True, "batch": "small_irregular"},
    ],
)
def test_every_answer_is_worded(others: dict[str, Any]) -> None:
    """All questions answered at once: no value is missing in a sentence, and each reason has its source and date."""
    answer = ASK(**(STATED | others))
    assert answer["verdict"] in {"gpu", "both"}
    for reason in answer["reasons"]:
        assert "{" not in reason["message"]
        assert reason["source"]
        assert len(reason["checked"]) == 10
    assert [reason["hard"] for reason in answer["reasons"]] == sorted((reason["hard"] for reason in answer["reasons"]), reverse=True)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"on_gcp": True, "outside_gcp": True}, "on_gcp was 'true'. Accepted: false where outside_gcp is true"),
        ({"static_shapes": True, "dynamic_shapes": True}, "static_shapes was 'true'"),
        ({"region": "us-centra1"}, "region was 'us-centra1'. Accepted: one of 17 names, the nearest: us-central1"),
        ({"region": 10**400}, "region was 'a whole number of about 400 digits'"),
        ({"framework": "caffe"}, "framework was 'caffe'. Accepted: pytorch, jax, tensorflow"),
        ({"chips_at_scale": -1}, "chips_at_scale was '-1'"),
        ({"shape_changes": "yes"}, "shape_changes was 'yes'. Accepted: true or false"),
        ({"max_ttft_s": float("nan")}, "max_ttft_s was 'nan'"),
        ({"commitment": "5_years"}, "commitment was '5_years'"),
    ],
)
def test_a_wrong_argument_is_named(arguments: dict[str, Any], says: str) -> None:
    """What was seen, and what is accepted."""
    with pytest.raises(BadArgument) as refused:
        ASK(**arguments)
    assert says in str(refused.value)


def test_options_are_priced_by_region_and_commitment() -> None:
    """v6e-1 on spot in us-central1 is 0.544208 USD an hour; three years of v5e have no price here."""
    spot = {option["hardware"]: option for option in ASK(LLAMA, commitment="spot")["options"]}
    three = {option["hardware"]: option for option in ASK(LLAMA, commitment="3_years")["options"]}
    listed = {option["hardware"]: option for option in ASK(LLAMA)["options"]}
    assert spot["v6e-1"]["usd_per_hour"] == 0.544208
    assert three["v6e-1"]["usd_per_hour"] == 1.22
    assert three["v5litepod-4"]["usd_per_hour"] is None
    assert three["v5litepod-4"]["usd_per_million_output_tokens"] is None
    ratio = spot["v6e-1"]["usd_per_million_output_tokens"] / listed["v6e-1"]["usd_per_million_output_tokens"]
    assert ratio == pytest.approx(0.544208 / 2.7)
    gpus = [option for option in listed.values() if option["kind"] == "gpu"]
    assert gpus
    assert all(spot[option["hardware"]]["usd_per_hour"] == option["usd_per_hour"] for option in gpus)


def test_a_claim_is_beside_the_figures_and_in_none() -> None:
    """With and without the claim the same predictions; it is labelled as a question."""
    plain, claimed = ASK(LLAMA), ASK(LLAMA, torchtpu_claim=True)
    for before, after in zip(plain["options"], claimed["options"], strict=True):
        assert before["what_if"] is None
        assert {key: value for key, value in before.items() if key != "what_if"} == {k: v for k, v in after.items() if k != "what_if"}
        assert (after["what_if"] is None) == (after["kind"] == "gpu")
        assert after["what_if"] is None or after["what_if"]["label"].startswith("What if")
    assert plain["verdict"] == claimed["verdict"]


def test_retired_tiers_name_date_price_and_successor() -> None:
    """v5e 1x1, 2x2 and 2x4 of Spaces and of Endpoints."""
    gone = {(one["platform"], one["hardware"]): one for one in ASK()["retired"]}
    assert {key for key, _ in gone} == {"spaces", "endpoints"}
    assert gone["spaces", "v5e-2x2"]["last_usd_per_hour"] == 5.5
    assert gone["spaces", "v5e-2x2"]["since"] == "2025-04-02"
    assert gone["spaces", "v5e-2x2"]["successor"] == "v5litepod-4"
    assert gone["endpoints", "gcp-tpu-2x4"]["last_usd_per_hour"] == 9.5
    assert gone["endpoints", "gcp-tpu-2x4"]["since"] == "2025-07-17"


def test_untested_is_an_answer() -> None:
    """The matrix does not list v5e; Llama-3.1-8B passes on v6e, with the release and its date."""
    answer = ASK(LLAMA)
    support = {generation["id"]: generation["support_message"] for generation in answer["generations"]}
    assert support["v5e"] == "untested"
    assert support["v6e"] == "tested, passes"
    assert any("vllm-tpu 0.32.0" in reason["message"] and "2026-08-22" in reason["message"] for reason in answer["reasons"])


def test_gpu_recipes_are_those_of_the_recommendation() -> None:
    """A Docker Space, a Job and an Endpoint with vLLM, each on the cheapest offer of its platform."""
    recipes = {recipe["name"]: recipe for recipe in ASK(LLAMA)["recipes"]}
    assert recipes["gpu_spaces_dockerfile"]["code"].startswith("FROM vllm/vllm-openai:")
    assert "sdk: docker" in recipes["gpu_spaces_readme"]["code"]
    assert recipes["gpu_jobs_command"]["code"].startswith("hf jobs run ")
    assert recipes["gpu_endpoints_command"]["code"].startswith("hf endpoints deploy ")
    assert LLAMA in recipes["gpu_jobs_command"]["code"]
