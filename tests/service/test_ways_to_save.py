"""/ways_to_save in-process; each way's own arithmetic is tests/advisor/test_savings.py."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lib.catalog import load
from lib.errors import UnknownModel
from lib.hub.search import ProviderOffers
from lib.service.cost import ways_to_save
from lib.service.endpoint import App, bind_arguments
from lib.service.models import Models

QUESTION = bind_arguments(
    ways_to_save, App(catalog=load, models=Models(), providers=lambda _: ProviderOffers(status="unknown", reason="Nobody was asked."))
)
LLAMA = "meta-llama/Llama-3.1-8B-Instruct"


def way(answer: Any, code: str) -> Any:
    """The way of this code."""
    return next(one for one in answer["ways"] if one["code"] == code)


def test_a_smaller_card_with_its_speed() -> None:
    """An A10G at 1.00 USD an hour holds it, an L4 at 0.80 does too: 144 USD less a month, at half the bandwidth."""
    answer = QUESTION("a10g-small", model=LLAMA)
    found = way(answer, "l4_over_a10g")
    assert (answer["usd_per_month"], found["saves_usd_per_month"], found["usd_per_month"]) == (720, 144, 576)
    assert (found["slower"], found["needs"]) == (True, {"hardware": "l4x1", "platform": "spaces"})
    assert json.loads(json.dumps(answer, allow_nan=False)) == answer


def test_more_at_a_time_instead_of_replicas() -> None:
    """100,000 requests a day take many L4 one at a time; with vLLM one card serves them."""
    answer = QUESTION("l4x1", model=LLAMA, requests_per_day=100_000)
    assert answer["usd_per_month"] > 10 * 576
    found = way(answer, "more_at_once")
    assert found["usd_per_month"] == 576
    assert found["needs"]["engine"] == "vllm"
    assert found["needs"]["concurrency"] > 8
    few = QUESTION("l4x1", model=LLAMA, requests_per_day=100)
    assert next(one for one in few["no_ways"] if one["code"] == "more_at_once")["reason_code"] == "one_replica_serves"


def test_every_way_is_listed_once_and_says_why() -> None:
    """The most first; nothing that saves nothing among them."""
    answer = QUESTION("a100-large", model=LLAMA, requests_per_day=500, hours_per_day=12, provider_usd_per_million_output_tokens=0.3)
    saved = [one["saves_usd_per_month"] for one in answer["ways"]]
    assert saved == sorted(saved, reverse=True)
    assert min(saved) > 0
    assert way(answer, "provider")["needs"] == {"provider": "your own price"}
    assert all(one["message"] and one["reason"] for one in answer["no_ways"])


def test_a_model_is_needed() -> None:
    """Nothing can be made smaller without one."""
    with pytest.raises(UnknownModel, match="The model is empty"):
        QUESTION("l4x1", "")
