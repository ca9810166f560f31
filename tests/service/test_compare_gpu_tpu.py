"""/compare_gpu_tpu in-process: checked arguments, sentences, priced options, what is retired."""

from __future__ import annotations

import json
from typing import Any

import pytest
from contract import EXAMPLE, check_fields
from written import ask

from lib.catalog import load
from lib.catalog.gpu_or_tpu import load_decision_rules
from lib.errors import BadArgument
from lib.present.wording import load_wording
from lib.service.compare_gpu_tpu import compare_gpu_tpu
from lib.service.endpoint import App
from lib.service.models import Models

ASK: Any = ask(compare_gpu_tpu, App(catalog=load, models=Models()))
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
    types = next(row for row in answer["side_by_side"] if row["property"] == "Computes in")
    assert ("fp64" in types["gpu"], "fp64" in types["tpu"]) == (True, False)
    assert answer["recipes"]


def test_every_rule_has_a_sentence_and_every_sentence_a_rule() -> None:
    """The words and the rows name the same codes."""
    assert load_wording("reasons")["gpu_or_tpu"].keys() == {rule.code for rule in load_decision_rules().rules}


STATED: dict[str, Any] = {
    "framework": "jax", "phase": "both", "shape_changes": True, "custom_kernels": True, "irregular_control_flow": True,
    "unstructured_sparsity": True, "large_embeddings": True, "on_gcp": False, "on_prem": True, "edge": True, "multi_cloud": True,
    "regulated": True, "chips_at_scale": 300, "latency_sensitive": True, "precision": "fp64", "training_steps": 10**6,
    "batch": "large_regular", "team": "cuda", "experiments": True, "budget": "committed",
}  # fmt: skip


@pytest.mark.parametrize(
    "others",
    [
        {"model": LLAMA},
        {"model": "openai/whisper-large-v3"},
        {
            "model": "deepseek-ai/DeepSeek-V3",
            "budget": "interruptible",
            "shape_changes": False,
            "dynamic_shapes": True,
            "kernels": "pallas",
        },
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
        ({"on_gcp": True, "on_prem": True}, "on_gcp was 'true'. Accepted: false where on_prem is true"),
        ({"static_shapes": True, "dynamic_shapes": True}, "static_shapes was 'true'"),
        ({"shape_changes": True, "dynamic_shapes": True}, "shape_changes was 'true'. Accepted: false where dynamic_shapes is true"),
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
    spot = {option["hardware"]: option for option in ASK(LLAMA, precision="bf16", commitment="spot")["options"]}
    three = {option["hardware"]: option for option in ASK(LLAMA, precision="bf16", commitment="3_years")["options"]}
    listed = {option["hardware"]: option for option in ASK(LLAMA, precision="bf16")["options"]}
    assert spot["v6e-1"]["usd_per_hour"] == 0.544208
    assert three["v6e-1"]["usd_per_hour"] == 1.22
    assert three["v5litepod-4"]["usd_per_hour"] is None
    assert three["v5litepod-4"]["usd_per_million_output_tokens"] is None
    ratio = spot["v6e-1"]["usd_per_million_output_tokens"] / listed["v6e-1"]["usd_per_million_output_tokens"]
    assert ratio == pytest.approx(0.544208 / 2.7)
    gpus = [option for option in listed.values() if option["kind"] == "gpu"]
    assert gpus
    assert all(spot[option["hardware"]]["usd_per_hour"] == option["usd_per_hour"] for option in gpus)


def test_terms_of_the_price_reach_the_cheapest_slice_and_the_verdict() -> None:
    """Spot of v6e is a fifth of its list price, which makes it the cheapest; TPU7x has none, so no slice of it is the cheapest."""
    listed, spot, years = (ASK(LLAMA, precision="bf16", commitment=terms) for terms in ("on_demand", "spot", "3_years"))
    prices = [reason["code"] for reason in listed["reasons"] if reason["code"].startswith("tpu_price")]
    assert prices == ["tpu_price_higher"]  # 1.67 beside 1.20 USD
    for answer, terms in ((spot, "spot, us-central1"), (years, "three years committed, us-central1")):
        priced = {one["hardware"]: one["usd_per_million_output_tokens"] for one in answer["options"] if one["kind"] == "tpu"}
        best = min((usd, name) for name, usd in priced.items() if usd is not None)[1]
        told = next(reason for reason in answer["reasons"] if reason["code"].startswith("tpu_price"))
        assert f"on {best} ({terms})" in told["message"]
        assert answer["score"] > listed["score"]
        assert not any(one["generation"] == "tpu7x" and "cheapest" in one["role"] for one in answer["options"])
    south = ASK(LLAMA, precision="bf16", region="southamerica-west1")
    assert {one["generation"] for one in south["options"] if "cheapest" in one["role"]} == {"v5e", "v6e"}  # the others are not there
    assert (listed["verdict"], spot["verdict"]) == ("either", "tpu")


def test_a_budget_that_the_price_counts_is_not_counted_twice() -> None:
    """Spot prices are what an interruptible budget is about; without a model the budget itself counts."""
    codes = {reason["code"] for reason in ASK(LLAMA, commitment="spot", budget="interruptible")["reasons"]}
    assert "budget_interruptible" not in codes
    assert any(code.startswith("tpu_price") for code in codes)
    assert "budget_interruptible" in {reason["code"] for reason in ASK(LLAMA, budget="interruptible")["reasons"]}
    assert "budget_interruptible" in {reason["code"] for reason in ASK(commitment="spot", budget="interruptible")["reasons"]}


def test_tested_means_on_the_chip_that_is_named() -> None:
    """Llama-3.3-70B passed on v6e and TPU7x; where v5p is the cheapest, it is untested, and the reason says so."""
    answer = ASK("meta-llama/Llama-3.3-70B-Instruct")
    slices = [option for option in answer["options"] if option["kind"] == "tpu" and option["usd_per_million_output_tokens"] is not None]
    best = min(slices, key=lambda option: option["usd_per_million_output_tokens"])
    codes = {reason["code"]: reason["message"] for reason in answer["reasons"]}
    assert ("support_passing" in codes) == (best["support"] == "passing")
    assert ("support_elsewhere" in codes) == (best["support"] != "passing")
    assert any(best["hardware"] in recipe["code"] or best["topology"] in recipe["code"] for recipe in answer["recipes"])


def test_options_of_training_are_said_to_be_those_of_serving() -> None:
    """Chips needed hold weights and cache, no gradients."""
    assert "options_serve" in {caveat["code"] for caveat in ASK(LLAMA, phase="training")["caveats"]}
    assert "options_serve" not in {caveat["code"] for caveat in ASK(LLAMA)["caveats"]}


def test_a_limit_that_neither_side_keeps_is_said() -> None:
    """The nearest of each, and that it favours neither."""
    told = [caveat["message"] for caveat in ASK(LLAMA, max_ttft_s=1e-6)["caveats"] if caveat["code"] == "limit_not_kept"]
    assert len(told) == 2
    assert told[0].startswith("No TPU option is predicted to answer within")
    assert told[1].startswith("No GPU option is predicted")
    assert not [one for one in ASK(LLAMA, max_ttft_s=100)["caveats"] if one["code"] == "limit_not_kept"]


@pytest.mark.parametrize("model", ["google-bert/bert-base-uncased", "stabilityai/stable-diffusion-xl-base-1.0"])
def test_encoders_and_pictures_have_gpu_options_by_the_hour(model: str) -> None:
    """No price per token, so the cheapest hours that hold them; and that no slice is compared."""
    answer = ASK(model)
    prices = [option["usd_per_hour"] * option["replicas"] for option in answer["options"]]
    assert prices
    assert prices == sorted(prices)
    assert {option["kind"] for option in answer["options"]} == {"gpu"}
    assert {"no_slice_compared", "priced_by_the_hour"} <= {caveat["code"] for caveat in answer["caveats"]}


def test_an_embedding_decoder_runs_on_a_tpu() -> None:
    """Qwen3-Embedding-8B passed on v6e, its small sister is untested: slices of both are compared, and neither is ruled out."""
    for model, code in (("Qwen/Qwen3-Embedding-8B", "support_passing"), ("Qwen/Qwen3-Embedding-0.6B", "support_untested")):
        answer = ASK(model, precision="bf16")
        assert (answer["verdict"], code) == ("either", answer["reasons"][0]["code"])
        slices = [option for option in answer["options"] if option["kind"] == "tpu"]
        assert slices
        assert all(option["ttft_s"] for option in slices)


def test_a_context_beyond_the_model_is_said() -> None:
    """GPT-2 takes 1,024 tokens; the options are those of that length."""
    answer = ASK("openai-community/gpt2", context_tokens=100_000)
    assert "1,024" in next(caveat["message"] for caveat in answer["caveats"] if caveat["code"] == "context_cut")
    assert [one["hardware"] for one in answer["options"]] == [
        one["hardware"] for one in ASK("openai-community/gpt2", context_tokens=1024)["options"]
    ]


def test_a_claim_is_beside_the_figures_and_in_none() -> None:
    """With and without the claim the same predictions; it is labelled as a question."""
    plain, claimed = ASK(LLAMA), ASK(LLAMA, torchtpu_claim=True)
    for before, after in zip(plain["options"], claimed["options"], strict=True):
        assert before["what_if"] is None
        assert {key: value for key, value in before.items() if key != "what_if"} == {k: v for k, v in after.items() if k != "what_if"}
        assert (after["what_if"] is None) == (after["kind"] == "gpu")
        assert after["what_if"] is None or after["what_if"]["label"].startswith("What if")
    assert plain["verdict"] == claimed["verdict"]


def test_a_claim_is_worked_out_at_the_price_that_is_asked_for() -> None:
    """Spot: twice as fast is half the spot price per token, not half the list price."""
    spot = [
        one
        for one in ASK(LLAMA, commitment="spot", torchtpu_claim=True)["options"]
        if one["usd_per_million_output_tokens"] and one["what_if"]
    ]
    assert spot
    for option in spot:
        assert option["what_if"]["usd_per_million_output_tokens_low"] == pytest.approx(option["usd_per_million_output_tokens"] / 2)


def test_prices_in_different_precisions_are_named() -> None:
    """As stored, an 8B needs eight bits to fit one chip of v5e, in int8, while an L4 takes FP8: its price is that of another precision.

    The recipe says that it takes a checkpoint made in it.
    """
    (caveat,) = [one for one in ASK(LLAMA)["caveats"] if one["code"] == "precisions_differ"]
    assert "v5litepod-1 in int8-channel" in caveat["message"]
    assert "gcp-nvidia-l4-x1 in fp8-tensor" in caveat["message"]
    vllm = next(recipe for recipe in ASK(LLAMA)["recipes"] if recipe["name"] == "vllm")
    assert "by a checkpoint in that precision" in vllm["notes"][0]
    assert "precisions_differ" not in {one["code"] for one in ASK(LLAMA, precision="bf16")["caveats"]}


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
    assert support["v5e"] == "tested on another generation only"
    assert support["v5p"] == "untested"
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
