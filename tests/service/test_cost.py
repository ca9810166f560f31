"""/estimate_cost in-process: checked arguments, the bill as JSON, prices per token from a fake router; and /ways_to_save."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from llama import llama_config
from stated_speed import stated_speed
from written import ask

from lib.catalog import load
from lib.cost import TokenPrice, Usage
from lib.errors import AdvisorError, BadArgument, UnknownHardware, UnknownModel, UnsupportedModel
from lib.hub.search import ProviderOffers
from lib.present.sentences import to_json
from lib.provenance import Source
from lib.service.cost import cost_answer, estimate_cost, ways_to_save
from lib.service.endpoint import App
from lib.service.models import Models
from lib.service.speed import estimate_speed
from lib.speed import ExplainedSpeed

SOURCE = Source(what="prices per token", source="a fake router", checked="2026-11-21")
CONFIG = json.dumps(llama_config())


def router(_: str) -> ProviderOffers:
    """Two providers serve every model; one of them says for how much."""
    price = TokenPrice(provider="x", usd_per_million_input=Decimal("0.10"), usd_per_million_output=Decimal("0.40"), source=SOURCE)
    return ProviderOffers(status="live", live=("x", "y"), prices=(price,))


def find_no_offers(_: str) -> ProviderOffers:
    """A router that cannot be reached."""
    return ProviderOffers(status="unknown", reason="The router could not be reached.")


QUESTION = ask(estimate_cost, App(catalog=load, models=Models(), providers=find_no_offers))
SAVE = ask(ways_to_save, App(catalog=load, models=Models(), providers=find_no_offers))
LLAMA = "meta-llama/Llama-3.1-8B-Instruct"
TIMED = ask(estimate_cost, App(catalog=load, models=Models(), providers=router, predict=lambda *_: stated_speed(sources=(SOURCE,))))


def codes(answer: Any) -> set[str]:
    """Codes of the caveats."""
    return {caveat["code"] for caveat in answer["caveats"]}


def test_a_month_around_the_clock() -> None:
    """0.80 × 24 × 30 = 576 USD; without a model and without requests the prices per unit are open."""
    answer = QUESTION("l4x1")
    assert (answer["usd_per_hour"], answer["billed_hours_per_month"]) == (0.8, 720)
    assert (answer["compute_usd_per_month"], answer["storage_usd_per_month"], answer["total_usd_per_month"]) == (576, 0, 576)
    assert (answer["usd_per_request"], answer["usd_per_million_output_tokens"]) == (None, None)
    assert json.loads(json.dumps(answer, allow_nan=False)) == answer


def test_every_offer_of_today_has_an_answer() -> None:
    """The price of the catalog comes back to the last digit, on every platform."""
    for offer in load().on(("all",)):
        answer = QUESTION(f"{offer.platform}:{offer.id}", hours_per_day=1, days_per_month=1)
        assert (answer["hardware"], answer["platform"]) == (offer.id, offer.platform)
        assert answer["total_usd_per_month"] == answer["usd_per_hour"] == float(offer.usd_per_hour or 0)


def test_hardware_is_found_by_older_names_and_platform() -> None:
    """`l4` is `l4x1`; alone an id is the Space's; withdrawn hardware says since when it is gone."""
    assert QUESTION("l4")["hardware"] == "l4x1"
    assert QUESTION("l4x1")["platform"] == "spaces"
    assert QUESTION("Jobs: l4x1")["platform"] == "jobs"
    with pytest.raises(UnknownHardware, match="no longer offered"):
        QUESTION("h100")
    with pytest.raises(UnknownHardware, match="plain silicon, without a price"):
        QUESTION("H100-SXM")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("hours_per_day", 25), ("hours_per_day", float("nan")), ("hours_per_day", "24"), ("hours_per_day", True), ("days_per_month", 32),
        ("replicas", 0), ("replicas", 1.5), ("requests_per_day", -1), ("requests_per_day", 10**10), ("sleep_after_s", -2),
        ("storage_gb", -1), ("storage_gb", "huge"), ("account", "gold"), ("precision", "int3"), ("precision", 8), ("engine", "triton"),
        ("prompt_tokens", 0), ("output_tokens", -1), ("output_tokens", None),
        ("concurrency", 0), ("provider_usd_per_million_output_tokens", -1), ("region", 7), ("region", "mars"),
    ],
)  # fmt: skip
def test_wrong_arguments_are_named(name: str, value: Any) -> None:
    """The refusal says which argument, what was seen and what is accepted."""
    with pytest.raises(BadArgument, match=f"{name} was .*Accepted"):
        QUESTION("l4x1", **{name: value})


@pytest.mark.parametrize("hardware", ["", None, 7, "moon", ["l4x1"], "x" * 10_000, ":" * 500, "jobs:", "spaces:h200"])
def test_hardware_that_is_none(hardware: Any) -> None:
    """Refused with a sentence, whatever was sent."""
    with pytest.raises(AdvisorError):
        QUESTION(hardware)


def test_never_is_minus_one_as_on_the_platform() -> None:
    """A sleep time of -1 means never, as 0 does."""
    assert QUESTION("l4x1", sleep_after_s=-1, requests_per_day=5)["billed_hours_per_month"] == 720


def test_an_old_storage_tier_by_its_name() -> None:
    """`medium` was 150 GB for 25 USD; today on a free account (150 - 100) × 0.018 = 0.90."""
    answer = QUESTION("l4x1", storage_gb="medium")  # type: ignore[arg-type]
    assert answer["storage_usd_per_month"] == 0.9
    assert "storage_tier_retired" in codes(answer)


def test_with_a_model_and_its_speed() -> None:
    """100 requests a day of 13.25 s on 576 USD: 0.192 each; at full use 0.80 / 72000 × 10⁶ = 11.11 USD per million answer tokens."""
    answer = TIMED("l4x1", requests_per_day=100, model=CONFIG)
    assert answer["usd_per_request"] == pytest.approx(0.192)
    assert answer["usd_per_million_output_tokens"] == pytest.approx(11.1111, abs=1e-4)
    assert answer["usd_per_million_output_tokens_at_traffic"] == pytest.approx(576 / (3000 * 256) * 1e6)
    assert answer["utilisation"] == pytest.approx(100 * 13.25 / 86400)
    assert answer["per_token"]["status"] == "unknown"  # a pasted config has no name to ask the router for


def test_more_than_a_tier_serves_is_priced_in_replicas() -> None:
    """Issue 11: L8 on an L4, 100,000 requests a day, were $0.000192 each, although the card cannot serve them; 0.00378 at least."""
    answer = QUESTION("l4x1", model="meta-llama/Llama-3.1-8B-Instruct", requests_per_day=100_000)
    assert answer["usd_per_request"] is not None
    assert answer["usd_per_request"] >= 0.0037
    assert answer["capacity"] is not None
    assert answer["capacity"]["replicas_needed"] * 576 == answer["capacity"]["total_usd_per_month"]
    assert answer["total_usd_per_month"] == 576
    assert "too_little_capacity" in codes(answer)


def test_a_million_tokens_at_the_best_load_beside_one_at_a_time() -> None:
    """Issue 11: $14.82 was the price of one request at a time; with vLLM thirty-two at a time are far below a dollar."""
    model = "meta-llama/Llama-3.1-8B-Instruct"
    alone = QUESTION("l4x1", model=model, engine="vllm")
    best = alone["best_load"]
    assert best is not None
    assert alone["usd_per_million_output_tokens"] == alone["usd_per_million_output_tokens_one_at_a_time"]
    assert best["usd_per_million_output_tokens"] < 1
    assert (alone["usd_per_million_output_tokens"] or 0) > 11
    assert best["ttft_s"] <= best["max_ttft_s"]
    together = QUESTION("l4x1", model=model, engine="vllm", concurrency=32)
    assert 0.3 < (together["usd_per_million_output_tokens"] or 0) < 0.8
    assert together["usd_per_million_output_tokens_one_at_a_time"] == alone["usd_per_million_output_tokens"]
    assert "one_at_a_time" in codes(alone) - codes(together)


def test_three_hours_a_day_say_what_they_need() -> None:
    """Issue 11: 72 USD are true only if it is paused outside its hours; both figures are told."""
    answer = QUESTION("l4x1", hours_per_day=3)
    assert (answer["total_usd_per_month"], answer["left_running_usd_per_month"]) == (72, 576)
    (message,) = [caveat["message"] for caveat in answer["caveats"] if caveat["code"] == "paused_outside_hours"]
    assert "$72" in message
    assert "$576" in message


def test_a_providers_price_as_an_argument() -> None:
    """576.10 / 30 / (256 × 2 / 10⁶) = 37,506.5 requests a day; the router is not asked, and prompts are said to be counted as free."""
    answer = TIMED("l4x1", model="1B", provider_usd_per_million_output_tokens=2)
    assert [price["provider"] for price in answer["per_token"]["prices"]] == ["your own price"]
    point = next(one for one in answer["break_even"] if (one["below"], one["above"]) == ("per_token", "always_on"))
    assert point["requests_per_day"] == pytest.approx(37_506.5, abs=0.1)
    assert point["best_utilisation"] == pytest.approx(37_506.5 * 13.25 / 86_400, rel=1e-4)
    assert "prompt_price_unknown" in codes(answer)


def test_the_region_of_a_tpu() -> None:
    """Eight v6e chips are 21.60 USD an hour in us-central1 and 23.76 in europe-west4; other hardware has no regions to choose."""
    assert QUESTION("v6e-8")["usd_per_hour"] == 21.6
    assert QUESTION("v6e-8", region="Europe-West4")["usd_per_hour"] == 23.76
    with pytest.raises(BadArgument, match="one price everywhere"):
        QUESTION("l4x1", region="europe-west4")


def test_hardware_whose_speed_cannot_be_told_still_has_a_bill() -> None:
    """The refusal of the estimate becomes a caveat."""

    def refuse_prediction(*_: object) -> ExplainedSpeed:
        raise UnsupportedModel("Nothing was measured on this silicon.")

    question = ask(estimate_cost, App(catalog=load, models=Models(), providers=find_no_offers, predict=refuse_prediction))
    answer = question("aws-inf2-x1", model=CONFIG)
    assert (answer["total_usd_per_month"], answer["usd_per_million_output_tokens"]) == (540, None)
    assert any("Nothing was measured" in caveat["message"] for caveat in answer["caveats"])


def test_the_started_services_know_the_speed() -> None:
    """8B in bf16 on an L4 reads 16.06 GB at 300 GB/s per token: at least 53.5 ms, so at least 0.80 / 3600 × 0.0535 × 10⁶ = 11.9 USD."""
    question = ask(estimate_cost, App(catalog=load, models=Models(), providers=find_no_offers))
    answer = question("l4x1", model="8B", requests_per_day=100)
    assert answer["usd_per_million_output_tokens"] is not None
    assert answer["usd_per_million_output_tokens"] > 11.8
    assert 0 < (answer["utilisation"] or 0) < 0.2
    encoder = json.dumps({"architectures": ["BertModel"], "model_type": "bert", "hidden_size": 64, "num_hidden_layers": 2,
                          "num_attention_heads": 4, "intermediate_size": 128, "vocab_size": 1000})  # fmt: skip
    passed = question("l4x1", model=encoder, requests_per_day=100)
    assert passed["usd_per_million_output_tokens"] is None  # an encoder makes no answer tokens
    assert passed["utilisation"] is not None


def test_a_model_that_does_not_fit_is_said() -> None:
    """70 billion parameters in two bytes do not go into 24 GB."""
    assert "does_not_fit" in codes(QUESTION("l4x1", model="70B"))
    assert "does_not_fit" not in codes(QUESTION("a100x8", model="70B", engine="vllm"))


def test_prices_per_token_of_the_router_and_of_the_visitor() -> None:
    """1000 requests a day at 0.10 and 0.40: 30000 × (51.2 + 102.4) / 10⁶ = 4.608, less 0.10 of credits.

    A price that the visitor states goes before those of the router.
    """
    usage = Usage(requests_per_day=Decimal(1000))
    offer = load().offer("l4x1", "spaces")
    answer = to_json(cost_answer(offer, usage, load(), offered=router("x")))
    assert answer["per_token"]["providers"] == ["x", "y"]
    assert answer["per_token"]["prices"][0]["total_usd_per_month"] == 4.508
    assert {"per_token", "always_on"} in [{found["below"], found["above"]} for found in answer["break_even"]]
    mine = TokenPrice(provider="own price", usd_per_million_input=Decimal(1), usd_per_million_output=Decimal(1), source=SOURCE)
    dearer = to_json(cost_answer(offer, usage, load(), offered=router("x"), own_price=mine))
    assert dearer["per_token"]["prices"][0]["provider"] == "own price"
    assert dearer["break_even"][0]["requests_per_day"] < answer["break_even"][0]["requests_per_day"]


def test_zerogpu_tells_what_visitors_spend() -> None:
    """A call of 13.25 s asks for 19.875 s: 300 s hold 15, users report 8 runs: 100 want 13 visitors; the owner pays nothing."""
    answer = TIMED("zero-a10g", model=CONFIG, requests_per_day=100)
    used = answer["zerogpu"]
    assert used is not None
    assert (used["quota_s_per_request"], used["requests_in_quota"], used["visitors"]) == (19.875, 8, 13)
    assert (answer["total_usd_per_month"], answer["payer"], answer["break_even"]) == (0, "visitor", [])


def test_break_even_is_told_in_sentences() -> None:
    """Every crossing has a message without placeholders; sleeping against always on is among them."""
    answer = TIMED("l4x1", requests_per_day=100, sleep_after_s=300, account="pro", model="1B")
    pairs = {(found["below"], found["above"]) for found in answer["break_even"]}
    assert ("sleeping", "always_on") in pairs
    assert all(len(found["message"]) > 30 and "None" not in found["message"] for found in answer["break_even"])


SDXL, WHISPER = "stabilityai/stable-diffusion-xl-base-1.0", "openai/whisper-tiny"


def test_a_picture_costs_the_share_of_an_hour_that_it_takes() -> None:
    """Four at once at 0.80 USD/h: the seconds of the batch over 4 · 3,600; a quarter of the pixels and 20 steps cost less."""
    size = {"width": 512, "height": 512, "steps": 20, "concurrency": 4}
    whole, small = (QUESTION("l4x1", model=SDXL, **asked) for asked in ({}, size))
    batch_s = ask(estimate_speed, App(catalog=load, models=Models()))(SDXL, "l4x1", **size)["ttft_s"]
    assert small["usd_per_picture"] == pytest.approx(0.80 * batch_s / (4 * 3600)) == pytest.approx(small["usd_per_request"])
    assert small["usd_per_picture"] < whole["usd_per_picture"] / 4
    assert small["usd_per_audio_hour"] is None


def test_an_hour_of_sound_costs_the_same_in_any_piece() -> None:
    """An hour is 120 windows of half a minute, each a request where sound of half a minute is asked about."""
    hour, half_a_minute = (QUESTION("l4x1", model=WHISPER, audio_seconds=seconds) for seconds in (3600, 30))
    assert hour["usd_per_audio_hour"] == pytest.approx(half_a_minute["usd_per_audio_hour"])
    assert hour["usd_per_request"] == pytest.approx(120 * half_a_minute["usd_per_request"]) == pytest.approx(hour["usd_per_audio_hour"])
    assert hour["usd_per_picture"] is None


def test_images_of_a_prompt_are_billed_with_it() -> None:
    """They are read before the answer, so a request takes longer."""
    without, four = (QUESTION("l4x1", model="Qwen/Qwen2.5-VL-7B-Instruct", images=images) for images in (0, 4))
    assert four["usd_per_request"] > without["usd_per_request"]


@pytest.mark.parametrize("asked", [{"model": SDXL, "width": 100_000}, {"model": CONFIG, "width": 512}, {"model": CONFIG, "images": 1}])
def test_what_a_model_cannot_make_or_take_has_no_bill(asked: dict[str, Any]) -> None:
    """The sentence says what it makes and takes."""
    with pytest.raises(BadArgument, match=r"multiple of 8|makes no pictures|takes pictures"):
        QUESTION("l4x1", **asked)


def way(answer: Any, code: str) -> Any:
    """The way of this code."""
    return next(one for one in answer["ways"] if one["code"] == code)


def test_a_smaller_card_with_its_speed() -> None:
    """An A10G at 1.00 USD an hour holds it, an L4 at 0.80 does too: 144 USD less a month, at half the bandwidth."""
    answer = SAVE("a10g-small", model=LLAMA)
    found = way(answer, "l4_over_a10g")
    assert (answer["usd_per_month"], found["saves_usd_per_month"], found["usd_per_month"]) == (720, 144, 576)
    assert (found["slower"], found["needs"]) == (True, {"hardware": "l4x1", "platform": "spaces"})
    assert json.loads(json.dumps(answer, allow_nan=False)) == answer


def test_more_at_a_time_instead_of_replicas() -> None:
    """100,000 requests a day take many L4 one at a time; with vLLM one card serves them."""
    answer = SAVE("l4x1", model=LLAMA, requests_per_day=100_000)
    assert answer["usd_per_month"] > 10 * 576
    found = way(answer, "more_at_once")
    assert found["usd_per_month"] == 576
    assert found["needs"]["engine"] == "vllm"
    assert found["needs"]["concurrency"] > 8
    few = SAVE("l4x1", model=LLAMA, requests_per_day=100)
    assert next(one for one in few["no_ways"] if one["code"] == "more_at_once")["reason_code"] == "one_replica_serves"


def test_every_way_is_listed_once_and_says_why() -> None:
    """The most first; nothing that saves nothing among them."""
    answer = SAVE("a100-large", model=LLAMA, requests_per_day=500, hours_per_day=12, provider_usd_per_million_output_tokens=0.3)
    saved = [one["saves_usd_per_month"] for one in answer["ways"]]
    assert saved == sorted(saved, reverse=True)
    assert min(saved) > 0
    assert way(answer, "provider")["needs"] == {"provider": "your own price"}
    assert all(one["message"] and one["reason"] for one in answer["no_ways"])


def test_a_model_is_needed() -> None:
    """Nothing can be made smaller without one."""
    with pytest.raises(UnknownModel, match="The model is empty"):
        SAVE("l4x1", "")


def test_an_endpoint_says_that_it_needs_credits() -> None:
    """The sentence is that of /recommend's reason; a Space has no such rule."""
    sentence = "needs a positive credit balance, also with a subscription"
    endpoint, space = (json.dumps(QUESTION(hardware)["caveats"]) for hardware in ("aws-nvidia-l4-x1", "l4x1"))
    assert sentence in endpoint
    assert sentence not in space
