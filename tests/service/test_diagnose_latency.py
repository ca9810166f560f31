"""/diagnose_latency in-process; the diagnosis itself is tests/traffic/test_latency.py."""

from __future__ import annotations

import json
import math
from typing import Any, get_args

import pytest
from contract import check_fields

from lib.catalog import load
from lib.errors import BadArgument
from lib.present.reason_words import REASONS
from lib.service.diagnose_latency import diagnose_latency
from lib.service.endpoint import App, bind_arguments
from lib.service.models import Models
from lib.traffic.latency import RequestPart

QUESTION = bind_arguments(diagnose_latency, App(catalog=load, models=Models()))
LLAMA = "meta-llama/Llama-3.1-8B-Instruct"
METRICS = "vllm:time_to_first_token_seconds_sum 4\nvllm:time_to_first_token_seconds_count 10\n"


def test_the_answer_is_plain_json_with_the_fields_of_the_contract() -> None:
    """Shares add up; every sentence is worded."""
    answer = QUESTION(LLAMA, "l4x1", preprocess_ms=10, ttft_ms=400, tpot_ms=60)
    check_fields("diagnose_latency", answer)
    assert json.loads(json.dumps(answer, allow_nan=False)) == answer
    assert sum(part["share"] for part in answer["parts"]) == pytest.approx(1)
    assert [part["name"] for part in answer["parts"]] == list(get_args(RequestPart))
    assert answer["dominant"] == "decode"
    assert all(one["message"] for one in (*answer["reasons"], *answer["next_steps"], *answer["precisions"]))


def test_times_that_are_stated_win_over_those_of_a_text() -> None:
    """400 ms to the first token in the text, 60 ms a token stated."""
    answer = QUESTION(LLAMA, "l4x1", tpot_ms=60, metrics_text=METRICS)
    parts = {part["name"]: part["measured_ms"] for part in answer["parts"]}
    assert (parts["prefill"], parts["decode"]) == (400, 60 * 255)
    assert answer["read_from"] == "vllm"
    assert QUESTION(LLAMA, "l4x1", ttft_ms=100, metrics_text=METRICS)["parts"][3]["measured_ms"] == 100


@pytest.mark.parametrize(
    "asked", [{"ttft_ms": -1}, {"tpot_ms": math.inf}, {"metrics_text": 7}, {"metrics_text": "hello"}, {"queue_ms": "soon"}]
)
def test_what_cannot_be_asked_is_refused(asked: dict[str, Any]) -> None:
    """In a sentence that names the argument."""
    with pytest.raises(BadArgument, match=f"^{next(iter(asked))} was "):
        QUESTION(LLAMA, "l4x1", **asked)


def test_every_part_and_every_effect_has_its_sentence() -> None:
    """Codes that are put together from a name."""
    assert {f"next_{part}" for part in get_args(RequestPart)} | {
        f"format_{effect}" for effect in ("latency", "prompt", "memory", "slower")
    } <= REASONS.keys()
