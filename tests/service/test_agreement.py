"""Endpoints that are asked about one model, engine and hardware give one answer: devices, bytes on each, and whether it fits."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from written import ask

from lib.catalog import load
from lib.engines import traits_of
from lib.errors import AdvisorError
from lib.hub.search import ProviderOffers
from lib.memory.spread import spread
from lib.model import bundled
from lib.present.cards import month_figures
from lib.present.numbers import usd_per_month
from lib.service.cost import estimate_cost, ways_to_save
from lib.service.endpoint import App, bind_arguments
from lib.service.memory import estimate_memory, solve
from lib.service.models import Models
from lib.service.recommend import recommend
from lib.service.speed import estimate_speed

APP = App(catalog=load, models=Models(), quantized=lambda _: {}, providers=lambda _: ProviderOffers(status="none"))
MEMORY, SOLVE, SAVE = (ask(question, APP) for question in (estimate_memory, solve, ways_to_save))
RECOMMEND, SPEED, COST = (ask(question, APP) for question in (recommend, estimate_speed, estimate_cost))
MODEL_8B = "Qwen/Qwen3-8B"
ENGINES = ("transformers", "vllm", "sglang", "tgi", "llama.cpp")
SPECS = {name: spec for name in bundled.list_ids() if (spec := bundled.find_spec(name)) is not None}
EMBEDDERS = tuple(name for name, spec in SPECS.items() if spec.work in {"text encoder", "embedding decoder"})
DECODERS = tuple(name for name, spec in SPECS.items() if spec.work == "decoder" and spec.library == "transformers")
PLACES = tuple(
    offer
    for offer in load().on(["spaces", "jobs", "endpoints"])
    if offer.silicon is not None and offer.silicon.kind == "gpu" and offer.accelerator_count > 1
)


def questions(step: int) -> Iterator[tuple[str, str]]:
    """Models and engines: every `step`-th decoder with each engine, and the embedders with TEI."""
    yield from ((model, engine) for model in DECODERS[::step] for engine in ENGINES)
    yield from ((model, "tei") for model in EMBEDDERS[:: max(1, step // 8)])


def compare(step: int) -> int:
    """Triples of model, engine and hardware about which four endpoints say the same: devices, bytes on the fullest, and whether it fits."""
    compared, lengths = 0, {"prompt_tokens": 3_840, "output_tokens": 256}  # together the 4,096 tokens that memory is counted for
    for at, (model, engine) in enumerate(questions(step)):
        try:
            fits = {(entry["platform"], entry["hardware"]): entry for entry in MEMORY(model, engine=engine)["fits"]}
        except AdvisorError:  # the engine does not run this model, or not in the format of its checkpoint
            continue
        for place in PLACES[at % 3 :: 3]:
            entry = fits.get((place.platform, place.id))
            if entry is None:
                continue
            name = f"{place.platform}:{place.id}"
            try:
                answers = [COST(model=model, hardware=name, engine=engine, **lengths), SPEED(model, name, engine=engine, **lengths)]
                limits = SOLVE(model, name, engine=engine)
            except AdvisorError:  # no speed is known of this engine or format there
                continue
            expected = (entry["devices"], entry["capacity_bytes"] - entry["free_bytes"], entry["fits"])
            assert entry["devices"] == spread(SPECS[model], engine, place).devices
            assert (limits["devices"], limits["capacity_bytes"] - limits["free_bytes"], limits["fits"]) == expected, (model, engine, name)
            for answer in answers:
                assert tuple(answer[field] for field in ("devices", "per_device_bytes", "fits")) == expected, (model, engine, name)
            compared += 1
    return compared


def test_memory_speed_cost_and_limits_agree_on_devices_bytes_and_fit() -> None:
    """Over a sample; `tei` holds a model on one device, whatever the machine has."""
    assert compare(80) >= 75


SERVINGS: tuple[dict[str, object], ...] = (
    {"gpu_memory_utilization": 0.8, "kv_cache_dtype": "fp8"},
    {"max_model_len": 8192, "cuda_graphs": False},
    {"tensor_parallel": 2, "max_num_batched_tokens": 1024},
    {"tensor_parallel": 2, "pipeline_parallel": 2},
)


@pytest.mark.parametrize("serving", SERVINGS)
def test_endpoints_agree_about_a_server_with_settings(serving: dict[str, object]) -> None:
    """Devices, bytes on the fullest and whether it fits: memory, limits, speed and cost with the same settings, on four cards."""
    lengths, name = {"prompt_tokens": 3_840, "output_tokens": 256}, "spaces:l4x4"
    for model in ("Qwen/Qwen3-8B", "Qwen/Qwen2.5-14B-Instruct"):
        of_server = {"engine": "vllm", "serving": serving}
        fits = MEMORY(model, **of_server)["fits"]
        entry = next(fit for fit in fits if (fit["platform"], fit["hardware"]) == ("spaces", "l4x4"))
        expected = (entry["devices"], entry["capacity_bytes"] - entry["free_bytes"], entry["fits"])
        limits = SOLVE(model, name, **of_server)
        assert (limits["devices"], limits["capacity_bytes"] - limits["free_bytes"], limits["fits"]) == expected
        for answer in (COST(model=model, hardware=name, **of_server, **lengths), SPEED(model, name, **of_server, **lengths)):
            assert tuple(answer[field] for field in ("devices", "per_device_bytes", "fits")) == expected


@pytest.mark.slow
def test_memory_speed_cost_and_limits_agree_everywhere() -> None:
    """The same over at least 2,000 triples of model, engine and hardware."""
    assert compare(3) >= 2_000


def compare_entries(step: int) -> int:
    """Entries of `/recommend` that were compared with the memory, speed and price of the other endpoints for the same configuration."""
    compared = 0
    for at, (model, engine) in enumerate(questions(step)):
        try:
            entries = RECOMMEND(model, engine=engine, platforms="spaces,jobs,endpoints", limit=1_000)["ranked"]
        except AdvisorError:  # the engine does not run this model
            continue
        # Layers that are left to the processor have bytes of their own; every third entry is enough.
        for entry in [of for of in entries if of["memory"] is not None and of["gpu_layers"] < 0][at % 3 :: 3]:
            memory, where = entry["memory"], (model, engine, entry["platform"], entry["hardware"])
            of_engine = {"engine": entry["engine"], "precision": entry["precision"]}
            held = {name: memory[name] for name in ("context_tokens", "batch_size")}
            fits = {(of["platform"], of["hardware"]): of for of in MEMORY(model, **of_engine, **held)["fits"]}
            fit = fits.get((entry["platform"], entry["hardware"]))  # it lists one region of an Endpoint
            if fit is not None and entry["devices"] < fit["devices"]:
                # Layers on several devices are not faster: the recommendation takes as few devices as hold the model.
                assert traits_of(engine).split == "layers", where
            elif fit is not None and fit["accelerator"] is not None:
                assert (fit["devices"], fit["free_bytes"], fit["fits"]) == (entry["devices"], memory["free_bytes"], True), where
            hardware = f"{entry['platform']}:{entry['hardware']}"
            speed = SPEED(model, hardware, **of_engine)
            rate = "decode_tokens_per_s"
            assert (speed[rate] or 0) == pytest.approx(entry["speed"][rate] or 0, rel=1e-9), where
            cost = COST(model=model, hardware=hardware, **of_engine)
            price = "usd_per_million_output_tokens"
            assert (cost[price] or 0) == pytest.approx(entry["cost"][price] or 0, rel=1e-9), where
            compared += 1
    return compared


def test_recommended_entries_are_those_of_the_other_endpoints() -> None:
    """`/recommend`, `/estimate_memory`, `/estimate_speed` and `/estimate_cost` over a sample: one configuration, one figure."""
    assert compare_entries(160) >= 30


@pytest.mark.slow
def test_recommended_entries_agree_everywhere() -> None:
    """The same over at least 2,000 triples of model, engine and hardware."""
    assert compare_entries(6) >= 2_000


@pytest.mark.parametrize("requests", [1, 3, 40])
def test_the_price_asleep_is_that_of_the_bill(requests: int) -> None:
    """An Endpoint that is scaled to zero: `/recommend` names the month that `/estimate_cost` counts, beside the one that never sleeps."""
    model = "meta-llama/Llama-3.1-8B-Instruct"
    pick = RECOMMEND(model, platforms="endpoints", requests_per_day=requests)["pick"]
    asked = {name: pick[name] for name in ("hardware", "engine", "precision")}
    asleep = COST(model=model, **asked, requests_per_day=requests, sleep_after_s=pick["cost"]["sleep_after_s"])["total_usd_per_month"]
    assert asleep == pytest.approx(pick["cost"]["usd_per_month_asleep"])
    assert 2 * asleep < pick["cost"]["total_usd_per_month"]
    assert any(usd_per_month(asleep) in reason["message"] for reason in pick["reasons"])


def test_hours_a_day_name_the_price_of_one_who_never_pauses_it() -> None:
    """One hour a day: $21 in the headline stands beside the $504 of an Endpoint that nobody pauses."""
    pick = bind_arguments(recommend, APP)("meta-llama/Llama-3.1-8B-Instruct", platforms="endpoints", hours_per_day=1).pick
    assert pick is not None
    cost = pick.cost
    assert cost.usd_per_month_unpaused == 24 * cost.total_usd_per_month
    assert [figure for _, figure in month_figures(cost)] == ["$21.00", "$504"]


@pytest.mark.parametrize(
    ("requests_per_day", "concurrency", "refused"),
    [(1_000, 1, ""), (3_000, 1, "traffic_too_high"), (300_000, 1, "traffic_too_high"), (1_000, 10, ""), (1_000, 11, "crowd")],
)
def test_zerogpu_saves_only_where_it_is_advised(requests_per_day: int, concurrency: int, refused: str) -> None:
    """About 7.5 s a request: 3,000 exceed the 6 hours of GPU time a day for which ZeroGPU is advised, so both endpoints reject it.

    More than ten requests at a time would wait for each other.
    """
    asked = {"requests_per_day": requests_per_day, "concurrency": concurrency, "account": "pro", "engine": "transformers"}
    hosted = not refused
    rejected = RECOMMEND(MODEL_8B, platforms="zerogpu", precision="bf16", **asked)["rejected"]
    saved = SAVE("l4x1", MODEL_8B, **asked)
    reasons = [way for way in saved["no_ways"] if way["code"] == "zerogpu"]
    assert ("zero-a10g" not in {offer["hardware"] for offer in rejected}) is hosted
    assert ("zerogpu" in {way["code"] for way in saved["ways"]}) is hosted
    assert [way["reason_code"] for way in reasons] == ([] if hosted else [refused])
    said = f"{concurrency} requests would wait" if refused == "crowd" else f"{requests_per_day:,} requests need the daily quota of"
    assert all(said in way["reason"] for way in reasons)


@pytest.mark.parametrize("model", EMBEDDERS)
def test_ways_to_save_refuse_nothing_that_was_not_sent(model: str) -> None:
    """TEI loads no formats of 8 and 4 bits: each such way gives that as its reason, and the question is answered."""
    answer = SAVE("l4x4", model, engine="tei")
    lacking = {way["code"] for way in answer["no_ways"] if way["reason_code"] == "engine_lacks_format"}
    assert {"fp8", "int8", "int4"} <= lacking
