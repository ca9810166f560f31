"""`/recommend` asks the Hub for quantized checkpoints only where the pick needs one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from lib.catalog import load
from lib.errors import BadArgument
from lib.service.endpoint import App, bind_arguments
from lib.service.models import Models
from lib.service.recommend import recommend

LARGE, SMALL = "meta-llama/Llama-3.1-70B-Instruct", "meta-llama/Llama-3.1-8B-Instruct"


class Hub:
    """What the Hub lists, and what it was asked."""

    def __init__(self, listed: Mapping[str, str] | None) -> None:
        self.listed, self.asked = listed, list[str]()

    def find(self, model: str) -> Mapping[str, str] | None:
        """As `lib.hub.search.find_quantized`."""
        self.asked.append(model)
        return self.listed


def question(hub: Hub) -> Any:
    """The endpoint with this Hub."""
    return bind_arguments(recommend, App(catalog=load, models=Models(), quantized=hub.find))


@pytest.mark.parametrize(
    ("listed", "precision", "said"),
    [
        (None, "awq-4", "availability not checked"),
        ({}, "awq-4", "the Hub lists none for this model"),
        ({"gptq-4": "org/large-gptq", "gguf": "org/large-gguf"}, "gptq-4", "org/large-gptq"),
    ],
)
def test_a_checkpoint_on_the_hub_is_preferred_and_named(listed: Mapping[str, str] | None, precision: str, said: str) -> None:
    """70B on one L40S needs four bits: the format that is published, else AWQ with what is to be done."""
    hub = Hub(listed)
    pick = question(hub)(LARGE, platforms="spaces")["pick"]
    assert hub.asked == [LARGE]
    assert pick["precision"] == precision
    assert said in " ".join(reason["message"] for reason in pick["reasons"])


def test_what_is_loaded_as_stored_asks_nobody() -> None:
    """8B in bf16, and a bare parameter count, which no checkpoint belongs to."""
    hub = Hub({})
    assert question(hub)(SMALL)["pick"]["precision"] == "bf16"
    assert question(hub)("70B")["pick"] is not None
    assert hub.asked == []


def test_a_request_beyond_the_models_limit_is_refused() -> None:
    """gpt2 has 1,024 positions: a prompt of 2,000 tokens is refused with the limit, not cut."""
    with pytest.raises(BadArgument, match=r"at most 1,024 together"):
        question(Hub(None))("openai-community/gpt2", prompt_tokens=2000)


def test_a_request_beyond_the_context_raises_it() -> None:
    """6,000 tokens of prompt do not fit the default context of 4,096: what is held follows the request, and a note says so."""
    answer = question(Hub(None))(SMALL, prompt_tokens=6000, output_tokens=500)
    assert answer["pick"]["speed"]["prompt_tokens"] == 6000
    assert "context_raised" in {note["code"] for note in answer["notes"]}
