"""`/recommend` asks the Hub for quantized checkpoints only where the pick needs one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, timedelta
from typing import Any

import pytest
from written import ask

from lib import advisor
from lib.catalog import load
from lib.errors import BadArgument, InvalidInput, UnknownHardware, UnsupportedModel
from lib.model.bundled import find_spec
from lib.present.sentences import sentence
from lib.service.endpoint import App
from lib.service.memory import estimate_memory
from lib.service.models import Models
from lib.service.recommend import explain_paid_pick, recommend
from lib.service.speed import estimate_speed
from lib.workload import Workload

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
    return ask(recommend, App(catalog=load, models=Models(), quantized=hub.find))


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
    pick = question(hub)(LARGE, platforms="spaces", max_usd_per_month=1_500)["pick"]
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


def test_own_cards_are_judged_like_an_offer_of_the_same_silicon() -> None:
    """An L4 of one's own is the L4 of a Space without a price: the same memory and speed of one configuration, and never a slower one."""
    ask = question(Hub({}))
    for model in (SMALL, "openai/whisper-large-v3", "stabilityai/stable-diffusion-xl-base-1.0", "sentence-transformers/all-MiniLM-L6-v2"):
        answer = ask(model, own_hardware="L4", requests_per_day=10)
        runs, rented = answer["own"]["runs_as"], next(one for one in answer["ranked"] if one["hardware"] == "l4x1")
        if (runs["precision"], runs["engine"]) == (rented["precision"], rented["engine"]):
            assert all(runs[name] == rented[name] for name in ("accelerator", "devices", "memory", "speed", "verdict"))
        assert runs["speed"]["request_s"] <= rented["speed"]["request_s"]
        assert "cost" not in runs
        assert not {reason["code"] for reason in runs["reasons"]} & {"price", "free", "needs_credits"}
        assert answer["own"]["usd_per_hour"] is None


def test_a_checkpoint_for_own_cards_is_looked_for_as_for_the_pick() -> None:
    """70B on an L40S of one's own needs four bits, rented eight H200 do not: the Hub is asked, and what it lists is taken."""
    hub = Hub({"gptq-4": "org/large-gptq"})
    answer = question(hub)(LARGE, own_hardware="L40S", priority="fastest", platforms="spaces")
    assert "checkpoint" not in {reason["code"] for reason in answer["pick"]["reasons"]}
    assert hub.asked == [LARGE]
    assert answer["own"]["runs_as"]["precision"] == "gptq-4"
    assert "org/large-gptq" in " ".join(reason["message"] for reason in answer["own"]["runs_as"]["reasons"])


@pytest.mark.parametrize(
    ("own", "engine", "differs"),
    [
        ("RTX-3090x2", "vllm", "activation_bytes"),
        ("M4-Max-64GB", "llama.cpp", "runtime_bytes"),
        ("H100-SXM", "transformers", "runtime_bytes"),
    ],
)
def test_memory_is_that_of_the_estimate_which_names_the_card(own: str, engine: str, differs: str) -> None:
    """Without the card the engine's run at start and what lies outside torch are those of an unnamed GPU, which the part says."""
    runs = question(Hub({}))(SMALL, own_hardware=own, engine=engine)["own"]["runs_as"]
    held = runs["memory"]
    asked = {name: runs[name] for name in ("precision", "engine", "devices")} | {
        name: held[name] for name in ("context_tokens", "batch_size")
    }
    estimate = ask(estimate_memory, App(catalog=load, models=Models()))
    named, unnamed = estimate(SMALL, **asked, hardware=own), estimate(SMALL, **asked)
    assert {name: named[name] for name in ("total_bytes", "per_device_bytes", differs)} == {
        name: held[name] for name in ("total_bytes", "per_device_bytes", differs)
    }
    assert named["fits"][0]["hardware"] == own
    parts = ("weights_bytes", "kv_cache_bytes", "activation_bytes", "runtime_bytes")
    assert [name for name in parts if unnamed[name] != named[name]] == [differs]
    assert [answer["parts"][3]["inputs"]["silicon"] for answer in (unnamed, named)] == [
        "a GPU, which one is not named",
        "apple" if own.startswith("M4") else "gpu",
    ]
    assert ("step_tokens" in {caveat["code"] for caveat in unnamed["caveats"]}) == (differs == "activation_bytes")


def test_own_cards_change_nothing_else() -> None:
    """The answer without them has no such field, and with them is the same but for their sources.

    The Hub could not be asked for quantized checkpoints: for the cards it is asked even where the pick needs none.
    """
    ask = question(Hub(None))
    without, beside = ask(SMALL), ask(SMALL, own_hardware="RTX-4090")
    assert set(beside) - set(without) == {"own"}
    assert all(beside[name] == value for name, value in without.items() if name != "sources")


@pytest.mark.parametrize(
    ("own", "fits", "larger"), [("RTX-4090", False, ["RTX-4090x2"]), ("RTX 4090x2", True, []), ("M4-16GB", False, ["M1-Max-64GB"])]
)
def test_what_own_cards_lack_is_said_with_what_would_do(own: str, fits: bool, larger: list[str]) -> None:
    """More of the same cards, or the smallest Mac that holds it."""
    answer = question(Hub(None))("70B", own_hardware=own)["own"]
    assert answer["fits"] is fits
    assert [one["hardware"] for one in answer["larger"]] == larger
    assert [reason["code"] for reason in answer["obstacles"]] == ([] if fits else ["too_small"])


def test_traffic_that_own_cards_do_not_carry_is_refused_with_their_number() -> None:
    """Own machines cannot be multiplied by renting."""
    answer = question(Hub(None))(SMALL, own_hardware="RTX-4090", concurrency=64, requests_per_day=2_000_000)["own"]
    assert [reason["code"] for reason in answer["obstacles"]] == ["traffic_exceeds"]
    assert "take 3 such machines" in answer["obstacles"][0]["message"]


def test_a_mac_reads_compressed_weights_from_llama_cpp_alone() -> None:
    """Bitsandbytes and fp8 have kernels for graphics cards."""
    runs = question(Hub(None))(SMALL, own_hardware="M2-16GB")["own"]["runs_as"]
    assert (runs["engine"], runs["precision"]) == ("llama.cpp", "gguf:Q4_K_M")


@pytest.mark.parametrize("own", ["TPU-v6e", "foo", "M4-16GBx2", 5, "cpu-basic", "RTX-4090x0", "spaces:l4x1"])
def test_what_nobody_owns_is_refused(own: object) -> None:
    """Chips of clouds, ids of offers that are not silicon, and several Macs; nothing that is rented is named as a way out."""
    with pytest.raises(UnknownHardware) as refused:
        question(Hub(None))(SMALL, own_hardware=own)
    assert "list_hardware" not in str(refused.value)
    assert "x8'" in str(refused.value) or "M4-" in str(refused.value)


@pytest.mark.parametrize("pipeline", ["black-forest-labs/FLUX.1-dev", "stabilityai/stable-diffusion-xl-base-1.0"])
def test_pictures_on_a_mac_fit_or_not_and_their_speed_is_not_made_up(pipeline: str) -> None:
    """No time of a picture on a Mac was measured."""
    answer = question(Hub(None))(pipeline, own_hardware="M4-Max-64GB")["own"]
    assert answer["runs_as"]["memory"]["per_device_bytes"] < 48 << 30
    assert (answer["runs_as"]["speed"]["request_s"], answer["runs_as"]["speed"]["basis"]) == (None, "datasheet peak")


@pytest.mark.parametrize(
    ("card", "model", "least"),
    [
        ("RTX-5090", "Qwen/Qwen3-32B", 57),
        ("RTX-3060", "meta-llama/Llama-3.1-8B-Instruct", 50),
        ("RTX-3060", "google/gemma-3-12b-it", 30),  # sees pictures too: llama.cpp was left out, and transformers reached 18
        ("RTX-4090", "Qwen/Qwen3-30B-A3B", 140),
        ("M4-Max-64GB", "Qwen/Qwen3-14B", 33),
    ],
)
def test_own_cards_run_the_fastest_way(card: str, model: str, least: float) -> None:
    """They were told 17, 9, 20 and 12 tokens per second: the first configuration that did was taken, not the fastest."""
    runs = question(Hub(None))(model, own_hardware=card)["own"]["runs_as"]
    assert runs["speed"]["decode_tokens_per_s"] >= least
    assert runs["verdict"] != "slow"


def test_own_cards_take_a_tight_fit_that_is_much_faster() -> None:
    """70B on 48 GB was told 10 tokens/s: only transformers left a tenth of the card free. llama.cpp runs the same bits at 14.5."""
    runs = question(Hub(None))(LARGE, own_hardware="L40S")["own"]["runs_as"]
    assert runs["verdict"] == "tight"
    assert runs["speed"]["decode_tokens_per_s"] >= 14
    assert runs["memory"]["free_bytes"] > 0


@pytest.mark.parametrize("where", [{"own_hardware": "RTX-3060"}, {"platforms": "spaces"}])
def test_llama_cpp_runs_models_that_see_where_it_is_asked_for(where: dict[str, str]) -> None:
    """`/recommend` answered that it does not run them, while `/estimate_memory` and `/estimate_speed` counted it."""
    answer = question(Hub({}))("google/gemma-3-12b-it", engine="llama.cpp", **where)
    entry = answer["own"]["runs_as"] if "own_hardware" in where else answer["pick"]
    assert entry["engine"] == "llama.cpp"


@pytest.mark.slow
def test_own_cards_are_told_nearly_the_best_speed_that_is_known() -> None:
    """60 cards and 12 models: at least 0.9 of the best that `/estimate_speed` knows of the formats that may be taken, where it fits."""
    app = App(catalog=load, models=Models())
    recommended, speed = question(Hub(None)), ask(estimate_speed, app)
    models = [
        SMALL, "Qwen/Qwen3-0.6B", "Qwen/Qwen3-4B", "Qwen/Qwen3-8B", "Qwen/Qwen3-14B", "Qwen/Qwen3-32B", "Qwen/Qwen3-30B-A3B",
        "openai/gpt-oss-20b", "mistralai/Mistral-7B-Instruct-v0.3", "google/gemma-2-9b-it", "google/gemma-3-12b-it", LARGE,
    ]  # fmt: skip
    cards = [card.id for card in load().accelerators.values() if card.kind == "gpu"][:60]
    compared = 0
    for card in cards:
        for model in models:
            runs = recommended(model, own_hardware=card)["own"]["runs_as"]
            if runs is None or runs["verdict"] not in {"comfortable", "usable"}:
                continue
            lengths = {name: runs["speed"][name] for name in ("prompt_tokens", "output_tokens")}
            for engine, precision in (("vllm", "auto"), ("vllm", "awq-4"), ("llama.cpp", "gguf:Q4_K_M"), ("llama.cpp", "gguf:Q8_0")):
                if model.startswith("openai/gpt-oss") and precision == "awq-4":  # its files hold 4 bits already
                    continue
                found = recommend_own(model, card, engine, precision, recommended)
                if found is None:
                    continue
                serving = {"cpu_moe_layers": found["cpu_moe_layers"]} if found["cpu_moe_layers"] else {}
                known = speed(model, card, engine=engine, precision=found["precision"], serving=serving, **lengths)["decode_tokens_per_s"]
                assert runs["speed"]["decode_tokens_per_s"] >= 0.9 * known, (card, model, engine, precision)
                compared += 1
    assert compared > 500


def recommend_own(model: str, card: str, engine: str, precision: str, ask: Callable[..., Any]) -> dict[str, Any] | None:
    """How the card runs the model with this engine and format, where that is comfortable."""
    try:
        runs = ask(model, own_hardware=card, engine=engine, precision=precision, platforms="spaces")["own"]["runs_as"]
    except (InvalidInput, UnsupportedModel):
        return None
    return runs if runs is not None and runs["verdict"] == "comfortable" else None


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"requests_per_day": 20_000}, "calls would wait in the queue"),
        ({"sdk": "docker"}, "Gradio Spaces only"),
        ({"engine": "vllm"}, "vllm does not run this"),
    ],
)
def test_a_paid_pick_says_why_not_the_free_one(asked: dict[str, Any], why: str) -> None:
    """ZeroGPU's obstacle is the pick's last reason. A free pick has none."""
    pick = question(Hub({}))(SMALL, **asked)["pick"]
    assert pick["cost"]["usd_per_hour"] > 0
    assert pick["reasons"][-1]["code"] == "why_not_free"
    assert why in pick["reasons"][-1]["message"]
    free = question(Hub({}))(SMALL)["pick"]
    assert free["cost"]["usd_per_hour"] == 0
    assert "why_not_free" not in {reason["code"] for reason in free["reasons"]}


def test_a_price_older_than_thirty_days_is_said_at_the_pick() -> None:
    """By the day of the reader: the list of Spaces was read on 2026-07-21."""
    spec = find_spec(SMALL)
    answer = advisor.recommend(spec, Workload(platforms=("spaces",)), load())
    assert answer.pick is not None
    day = date.fromisoformat(answer.pick.offer.checked)
    fresh, old = (explain_paid_pick(answer, day + timedelta(days=days)).pick for days in (30, 31))
    assert fresh is not None
    assert old is not None
    assert "price_old" not in {reason.code for reason in fresh.reasons}
    assert f"read on {day}, 31 days ago" in next(sentence(reason) for reason in old.reasons if reason.code == "price_old")
