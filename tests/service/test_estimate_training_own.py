"""`/estimate_training` on graphics cards of the caller's own: text and pictures, several cards, the RAM of their machine."""

from __future__ import annotations

from typing import Any

import pytest
from written import ask

from lib.catalog import load
from lib.errors import BadArgument, UnknownHardware
from lib.service.endpoint import App
from lib.service.estimate_training import estimate_training
from lib.service.models import Models

ASK = ask(estimate_training, App(catalog=load, models=Models()))
LLAMA = "meta-llama/Llama-3.1-8B"
FLUX = "black-forest-labs/FLUX.1-dev"
OFFLOADED = {"method": "full", "sharding": "zero2_offload", "platforms": "jobs"}


@pytest.mark.parametrize("model", [LLAMA, FLUX])
def test_own_cards_are_judged_as_rented_ones(model: str) -> None:
    """The same bytes and the same verdict as on the offer with this card, and no price."""
    answer = ASK(model, own_hardware="L4", platforms="spaces")
    own, rented = answer["own"]["cards"], next(option for option in answer["options"] if option["hardware"] == "l4x1")
    assert (own["hardware"], own["platform"], own["usd"], own["usd_per_hour"]) == ("L4", "own", None, None)
    for name in ("needed_bytes", "capacity_bytes", "verdict", "largest_micro_batch", "hours", "reasons"):
        assert own[name] == rented[name]
    assert "own" not in ASK(model, platforms="spaces")


def test_all_own_cards_train_where_one_is_not_enough() -> None:
    """As on an offer: one card where it is enough, else all with FSDP; where these do not do, the fewest more of them."""
    alone = ASK(LLAMA, own_hardware="RTX-4090x4")["own"]["cards"]
    assert (alone["devices"], alone["sharding"]) == (1, "none")
    shared = ASK(LLAMA, own_hardware="RTX-4090x4", method="full", optimizer="adamw_8bit", precision="bf16")["own"]
    assert (shared["cards"]["devices"], shared["cards"]["sharding"], shared["larger"]) == (4, "fsdp", None)
    few = ASK(LLAMA, own_hardware="A100-SXM4-80GB", method="full")["own"]
    assert few["cards"]["verdict"] == "no"
    assert [why["code"] for why in few["cards"]["reasons"]] == ["training_card_memory"]
    assert (few["larger"]["hardware"], few["larger"]["devices"]) == ("A100-SXM4-80GBx2", 2)


def test_a_bare_parameter_count_is_sharded_as_well() -> None:
    """13B does not fit on one card and does on eight, as with the sharding stated; rows and changes name the way as well."""
    asked = {"method": "full", "own_hardware": "A100-SXM4-80GBx8", "platforms": "jobs"}
    answer, stated = ASK("13B", **asked), ASK("13B", sharding="fsdp", **asked)
    own = answer["own"]["cards"]
    assert (own["verdict"], own["sharding"], own["devices"]) == ("fits", "fsdp", 8)
    assert own["needed_bytes"] == stated["own"]["cards"]["needed_bytes"]
    assert {option["sharding"] for option in answer["options"] if option["verdict"] == "fits"} == {"fsdp"}
    assert next(row for row in answer["shardings"] if row["sharding"] == "fsdp")["hardware"] is not None
    assert "shard_8" in {change["code"] for change in answer["changes"]}


def test_the_ram_of_their_machine_counts() -> None:
    """With a CPU optimizer too little RAM is a no with its reason; RAM that is not stated is a caveat."""
    little, enough, unstated = (ASK(LLAMA, own_hardware="A100-SXM4-80GB", host_memory=ram, **OFFLOADED) for ram in ("64 GB", "192 GB", ""))
    cards = little["own"]["cards"]
    assert (cards["verdict"], [why["code"] for why in cards["reasons"]]) == ("no", ["training_host_memory"])
    assert little["own"]["larger"] is None
    assert [enough["own"]["cards"]["verdict"], unstated["own"]["cards"]["verdict"]] == ["fits", "risky"]
    assert [why["code"] for why in unstated["own"]["cards"]["reasons"]] == ["training_host_unstated"]
    assert "training_host_unstated" in {caveat["code"] for caveat in unstated["caveats"]}
    assert "training_host_unstated" not in {caveat["code"] for caveat in enough["caveats"]}


def test_a_machine_without_enough_ram_is_no_want_of_gpus() -> None:
    """An offload that RAM refuses is told by its RAM, not by larger cards or more machines."""
    answer = ASK("meta-llama/Meta-Llama-3.1-405B", **OFFLOADED)
    row = next(row for row in answer["shardings"] if row["sharding"] == "zero3_offload")
    assert row["hardware"] is None
    assert row["host_bytes"] > row["host_memory_bytes"]
    assert "of RAM" in row["message"]
    assert "several machines" not in row["message"]


def test_hardware_without_stated_ram_ranks_after_what_has_enough() -> None:
    """An offload on Inference Endpoints, most of which state no RAM, comes after the offers that fit and state it."""
    answer = ASK(LLAMA, **{**OFFLOADED, "platforms": "endpoints,jobs"})
    held = [o for o in answer["options"] if o["verdict"] != "no"]
    unstated = [o["host_memory_bytes"] is None for o in held]
    assert set(unstated) == {False, True}
    assert unstated == sorted(unstated)
    assert all(
        o["verdict"] == "risky" and o["reasons"][0]["code"] == "training_host_unstated" for o in held if o["host_memory_bytes"] is None
    )
    offloads = [row for row in answer["shardings"] if row["host_bytes"] and row["hardware"]]
    assert offloads
    assert all(row["host_memory_bytes"] >= row["host_bytes"] for row in offloads)
    own = ASK(LLAMA, **{**OFFLOADED, "platforms": "own"})["shardings"]
    assert all("is risky on" in row["message"] for row in own if row["host_bytes"] and row["hardware"])


def test_own_cards_are_those_of_all_machines() -> None:
    """64 cards on eight machines are 64 devices, with the bytes a card that 64 need."""
    answer = ASK(LLAMA, method="full", sharding="fsdp", own_hardware="H100-SXMx64", devices=64, machines=8, platforms="jobs")
    cards = answer["own"]["cards"]
    assert (cards["devices"], cards["hardware"]) == (64, "H100-SXMx8")
    single = ASK(LLAMA, method="full", sharding="fsdp", own_hardware="H100-SXMx64", devices=64, platforms="jobs")["own"]["cards"]
    assert cards["needed_bytes"] == single["needed_bytes"]


def test_where_eight_cards_are_not_enough_the_machines_that_are_have_a_layout() -> None:
    """671B in full: 64 H100 hold none of it, 256 with ZeRO 3 do. Machines without devices take all cards, shared with FSDP."""
    full = {"method": "full", "own_hardware": "H100-SXMx64", "sharding": "zero3", "devices": 64, "machines": 8, "platforms": "jobs"}
    own = ASK("deepseek-ai/DeepSeek-R1", **full)["own"]
    assert own["cards"]["verdict"] == "no"
    larger = own["larger"]
    assert (larger["machines"], larger["devices"], larger["sharding"]) == (32, 256, "zero3")
    assert larger["needed_bytes"] <= larger["capacity_bytes"]
    alone = ASK("deepseek-ai/DeepSeek-R1", method="full", own_hardware="H100-SXMx8", platforms="jobs")["own"]["larger"]
    assert (alone["machines"], alone["sharding"]) == (32, "zero3")
    cards = ASK(LLAMA, method="full", own_hardware="H100-SXMx16", machines=2, platforms="jobs")["own"]["cards"]
    assert (cards["machines"], cards["devices"], cards["sharding"]) == (2, 16, "fsdp")


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"own_hardware": "RTX-4090", "sharding": "fsdp", "devices": 2}, BadArgument, r"own_hardware was 'RTX-4090'. Accepted: 2 or more"),
        (
            {"own_hardware": "RTX-4090x2", "objective": "grpo", "rollouts": "vllm-server", "rollout_devices": 2, "generations": 2},
            BadArgument,
            "vLLM takes 2",
        ),
        ({"own_hardware": "RTX-4090x3", "objective": "grpo", "sharding": "ddp", "devices": 4}, BadArgument, "a multiple of 8"),
        (
            {"own_hardware": "H100-SXMx8", "sharding": "fsdp", "devices": 64, "machines": 8},
            BadArgument,
            "64 cards, those of all 8 machines",
        ),
        ({"own_hardware": "TPU-v6e"}, UnknownHardware, "not a graphics card or a Mac"),
        ({"own_hardware": "moon"}, UnknownHardware, "own_hardware was 'moon'"),
        ({"host_memory": "64 GB"}, BadArgument, "an empty text where own_hardware names no cards"),
        ({"own_hardware": "M4-16GB", "host_memory": "64 GB"}, BadArgument, "only graphics cards of your own"),
    ],
)
def test_refusals_say_what_is_accepted(arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    """Too few cards for a sharding or for vLLM, hardware that people do not own, RAM without cards."""
    with pytest.raises(error, match=message):
        ASK(LLAMA, **{"accumulation": 1, "micro_batch": 2, **arguments})


def test_a_mac_is_not_judged() -> None:
    """A caveat says so; hardware for rent is listed as ever."""
    answer = ASK(LLAMA, own_hardware="M4-Max-64GB")
    assert "own" not in answer
    assert answer["options"]
    assert any(caveat["code"] == "training_not_on" and "M4 Max" in caveat["message"] for caveat in answer["caveats"])


def test_states_in_host_memory_take_time() -> None:
    """The step is longer by `host_s`, more so with slower memory; DeepSpeed's range reaches lower; a caveat says how it is counted."""
    plain, slow, fast = (
        ASK(LLAMA, method="full", own_hardware="H100-SXMx8", sharding=sharding, host_memory=ram, platforms="jobs")
        for sharding, ram in (("zero2", ""), ("zero2_offload", "1 TB DDR4-3200"), ("zero2_offload", "1 TB DDR5-4800 8 channels"))
    )
    cards = {name: answer["own"]["cards"] for name, answer in (("plain", plain), ("slow", slow), ("fast", fast))}
    assert cards["plain"]["host_s"] is None
    for name in ("slow", "fast"):
        assert cards[name]["step_s"] - cards["plain"]["step_s"] == pytest.approx(cards[name]["host_s"])
        lowest, lowest_plain = (cards[one]["tokens_per_s_low"] / cards[one]["tokens_per_s"] for one in (name, "plain"))
        assert lowest < lowest_plain
    assert cards["slow"]["host_s"] > cards["fast"]["host_s"] > 0
    assert any(caveat["code"] == "training_offload" and "DeepSpeed took" in caveat["message"] for caveat in fast["caveats"])


def test_more_ram_than_any_known_host_has_is_refused() -> None:
    """Full fine-tuning of 671 B parameters offloads about 10,000 GiB; the largest GPU host of the catalog states 2,048."""
    answer = ASK("deepseek-ai/DeepSeek-R1", method="full", sharding="fsdp_offload", platforms="endpoints", own_hardware="H200-SXMx8")
    assert {option["verdict"] for option in answer["options"]} == {"no"}
    host = [why for option in answer["options"] for why in option["reasons"] if why["code"] == "training_host_memory"]
    assert any("largest known GPU host has 2,048 GiB" in why["message"] for why in host)
    assert answer["own"]["cards"]["verdict"] == "no"
    assert all(one["hardware"] is None for one in answer["shardings"])
    wide = ASK("deepseek-ai/DeepSeek-R1", method="full", platforms="all")["shardings"]
    offloaded = {one["sharding"]: one["message"] for one in wide if one["host_bytes"] and one["devices"]}
    assert offloaded
    assert all("2,048 GiB" in said or "has at most" in said for said in offloaded.values()), offloaded
