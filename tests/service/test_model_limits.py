"""What a question asks beyond its model is told wherever it can be asked; /recommend keeps its lists short; /list_hardware by region."""

from __future__ import annotations

import json
from typing import Any

import pytest
from written import Written

from lib.catalog import load
from lib.errors import BadArgument
from lib.hub.search import ProviderOffers
from lib.service.app import Services
from lib.service.endpoint import App
from lib.service.models import Models

SERVICES = Written(
    Services(App(catalog=load, models=Models(), providers=lambda _: ProviderOffers(status="unknown", reason="Nobody was asked.")))
)
LLAMA = "meta-llama/Llama-3.1-8B-Instruct"  # 131,072 tokens, 32 heads, 8 for keys and values


def codes(answer: Any) -> set[str]:
    """Codes of the caveats."""
    return {caveat["code"] for caveat in answer["caveats"]}


def test_a_prompt_beyond_the_limit() -> None:
    """131,072 tokens are the model's, and what is beyond is said first; an encoder-decoder's prompt is read in the encoder."""
    assert SERVICES.estimate_speed(LLAMA, "l4x1", prompt_tokens=131_072)["caveats"][0]["code"] == "beyond_context"
    assert "beyond_context" not in codes(SERVICES.estimate_speed(LLAMA, "l4x1", prompt_tokens=130_816))
    assert SERVICES.estimate_cost("l4x1", model=LLAMA, prompt_tokens=131_072)["caveats"][0]["code"] == "beyond_context"
    whisper = "openai/whisper-large-v3"  # 448 tokens of text
    assert "beyond_context" not in codes(SERVICES.estimate_speed(whisper, "l4x1", prompt_tokens=1500, output_tokens=200))
    assert "beyond_context" in codes(SERVICES.estimate_speed(whisper, "l4x1", output_tokens=449))
    cache = SERVICES.estimate_memory(whisper)["parts"][1]
    assert (cache["inputs"]["T"], cache["bytes"]) == ("448 tokens", 32 * 2 * 1280 * 2 * (448 + 1500))
    assert "beyond_context" not in codes(SERVICES.estimate_speed("openai/clip-vit-large-patch14", "l4x1"))


def test_an_encoder_that_is_not_there() -> None:
    """A decoder has no encoder's side; Whisper has."""
    assert "no_encoder" in codes(SERVICES.estimate_memory(LLAMA, encoder_tokens=200))
    assert "no_encoder" not in codes(SERVICES.estimate_memory(LLAMA))
    assert "no_encoder" not in codes(SERVICES.estimate_memory("openai/whisper-large-v3", encoder_tokens=200))


@pytest.mark.parametrize(("engine", "devices", "said"), [("vllm", 3, True), ("vllm", 4, False), ("transformers", 3, False)])
def test_devices_that_the_heads_do_not_divide_by(engine: str, devices: int, said: bool) -> None:
    """VLLM starts Llama's 32 heads on 1, 2, 4, 8 devices, not on 3; transformers deals out whole layers."""
    assert ("devices_unused" in codes(SERVICES.estimate_memory(LLAMA, devices=devices, engine=engine))) is said
    assert ("devices_unused" in codes(SERVICES.estimate_speed(LLAMA, f"L4x{devices}", engine=engine))) is said


def test_a_short_list_for_agents() -> None:
    """Three entries of each list, the pick among them, and how many there are; 0 is all."""
    whole, short = SERVICES.recommend(LLAMA, platforms="all"), SERVICES.recommend(LLAMA, platforms="all", limit=3)
    assert (len(short["ranked"]), len(short["rejected"])) == (3, 3)
    assert short["ranked"] == whole["ranked"][:3]
    assert short["pick"] == short["ranked"][0]
    assert (short["ranked_total"], short["rejected_total"]) == (len(whole["ranked"]), len(whole["rejected"]))
    assert len(json.dumps(short)) < len(json.dumps(whole)) / 10
    with pytest.raises(BadArgument, match="limit"):
        SERVICES.recommend(LLAMA, limit=-1)


def test_hardware_by_region() -> None:
    """The catalog's chip-hour of each region × chips; Endpoints name their regions, at one price."""
    rows = {row["id"]: row for row in SERVICES.list_hardware("all")["hardware"]}
    v6e = rows["v6e-8"]
    assert v6e["usd_per_hour"] == v6e["usd_per_hour_by_region"]["us-central1"] == 21.6
    assert v6e["usd_per_hour_by_region"]["europe-west4"] == 23.76
    assert v6e["regions"] == list(v6e["usd_per_hour_by_region"])
    assert "us-east-1" in rows["aws-intel-spr-x1"]["regions"]
    assert rows["aws-intel-spr-x1"]["usd_per_hour_by_region"] == rows["l4x1"]["usd_per_hour_by_region"] == {}
