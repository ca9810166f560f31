"""Embedding models, rerankers and classification heads in `/estimate_training`."""

from __future__ import annotations

from typing import Any

import pytest
from written import ask

from lib.catalog import load
from lib.errors import BadArgument
from lib.service.endpoint import App
from lib.service.estimate_training import estimate_training as question
from lib.service.models import Models

ASK = ask(question, App(catalog=load, models=Models()))
BGE, QWEN = "BAAI/bge-large-en", "Qwen/Qwen2.5-7B-Instruct"


def test_negatives_cost_memory_and_parts_save_it() -> None:
    """Each hard negative is one more sequence that is kept; in parts the micro-batch costs time instead."""
    asked = {"method": "full", "micro_batch": 32, "sequence_tokens": 512, "checkpointing": "none"}
    pairs, negatives, parts = (
        ASK(BGE, objective=objective, negatives=count, **asked)
        for objective, count in (("contrastive", 0), ("contrastive", 6), ("contrastive-cached", 6))
    )
    assert negatives["tokens_per_step"] == 4 * pairs["tokens_per_step"]
    assert negatives["device_bytes"] > 3 * pairs["device_bytes"]
    assert parts["device_bytes"] < pairs["device_bytes"]
    assert parts["device_bytes"] == pytest.approx(
        ASK(BGE, objective="contrastive-cached", negatives=6, **{**asked, "micro_batch": 256})["device_bytes"], rel=0.02
    )
    on = {option["hardware"]: option["step_s"] for option in negatives["options"]}
    assert all(option["step_s"] > on[option["hardware"]] for option in parts["options"])
    assert (negatives["stack"], negatives["objective"]) == ("transformers", "contrastive")


def test_a_score_replaces_the_head() -> None:
    """A classifier holds no logits over the vocabulary."""
    parts = {part["name"] for part in ASK(QWEN, objective="classify", micro_batch=8)["parts"]}
    assert "logits and loss" not in parts
    assert ASK(BGE, objective="cross-encoder", negatives=3)["objective"] == "rerank"
    weights = {name: ASK(QWEN, objective=name)["parts"][0]["bytes"] for name in ("sft", "rerank", "classify")}
    assert weights["sft"] == weights["rerank"] > weights["classify"]


def test_the_smallest_micro_batch_of_an_objective_takes_the_place_of_the_default() -> None:
    """A batch of one has no other row to compare with: the answer says which size it counts, and the script has it."""
    default = ASK(BGE, objective="contrastive")
    stated = ASK(BGE, objective="contrastive", micro_batch=2)
    assert [caveat["code"] for caveat in default["caveats"] if caveat not in stated["caveats"]] == ["training_least_micro_batch"]
    assert {**default, "caveats": ()} == {**stated, "caveats": ()}
    assert "per_device_train_batch_size=2" in default["script"]


@pytest.mark.parametrize(
    ("model", "asked", "sentence"),
    [
        (BGE, {"objective": "dpo"}, "objective was 'dpo'. Accepted: sft, contrastive, contrastive-cached, rerank, classify"),
        (QWEN, {"objective": "contrastive", "micro_batch": 8}, "rerank, classify: this model is a decoder"),
        (BGE, {"objective": "rerank", "checkpointing": "offloaded"}, "none or layers with objective rerank"),
        (BGE, {"objective": "contrastive", "micro_batch": 8, "negatives": 257}, "a whole number from 0 to 256"),
    ],
)
def test_refusals_say_what_is_accepted(model: str, asked: dict[str, Any], sentence: str) -> None:
    """What the trainer does not do, before a GPU is rented."""
    with pytest.raises(BadArgument, match=sentence):
        ASK(model, **asked)
