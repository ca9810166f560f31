"""A walk over the tabs: what stands on several of them is the same figure."""

from __future__ import annotations

import re
from typing import Any

import page_values
import pytest
from written import Written

from lib.catalog.silicon import OWNED_KINDS
from lib.errors import AdvisorError
from lib.present.front_chart import speed_front
from lib.present.markup import escape
from lib.present.numbers import gib, seconds, tokens_per_s, usd_per_hour, usd_per_month
from lib.present.sentences import to_json
from lib.service.app import Services
from lib.service.outlook import outlook
from lib.ui import cost_tab, gpu_tpu_tab, memory_boxes, memory_tab, model_field, recommend_tab, theme, traffic_tab, workload
from lib.ui.fields import Value

LLAMA = "meta-llama/Llama-3.1-8B-Instruct"
PICTURES, SOUND, VECTORS = "stabilityai/stable-diffusion-xl-base-1.0", "openai/whisper-large-v3", "BAAI/bge-small-en-v1.5"
WORKLOADS: list[tuple[str, dict[str, Any]]] = [
    (LLAMA, {}),
    (LLAMA, {"context": 16_384, "concurrency": 8, "requests": 20_000, "hours": 8.0, "platforms": ["spaces", "jobs", "endpoints"]}),
    (LLAMA, {"engine": "vllm", "precision": "fp8", "prompt": 2_000, "answer": 500, "account": "pro"}),
    (SOUND, {"platforms": ["spaces", "jobs"]}),
    (PICTURES, {"platforms": ["spaces", "jobs", "endpoints"]}),
    (PICTURES, {"width": 512, "height": 768, "denoising": 20, "concurrency": 4, "requests": 500}),
    ("openai-community/gpt2", {"priority": "cheapest"}),
]


@pytest.fixture(scope="module", params=WORKLOADS, ids=lambda case: f"{case[0]} {len(case[1])}")
def case(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    """A model and a workload."""
    model, named = request.param
    return model, {**named, "beside": ["spaces", "zerogpu", "endpoints", "jobs"]}  # no provider is asked for


def _values(tab: str, named: dict[str, Any], hardware: str) -> list[Value]:
    of_tab = {field.name for field in page_values.fields_of(tab)}
    return page_values.fill_form(tab, hardware=hardware, **{name: value for name, value in named.items() if name in of_tab})


def test_cost_memory_and_speed_of_an_offer_are_the_same_on_every_tab(real_app: Services, case: tuple[str, dict[str, Any]]) -> None:
    """Every eighth offer that qualifies, and the pick: the bill, the memory of the fullest device, the configuration, tokens per second."""
    model, named = case
    question = workload.recommend_arguments(_values("recommend", named, "auto"))
    answer = Written(real_app).recommend(model, **question)
    for entry in [answer["pick"], *answer["ranked"][::8]]:
        hardware = f"{entry['platform']}:{entry['hardware']}"
        bill = cost_tab.cost_updates(real_app, model, _values("cost", named, hardware))["bill"]
        assert f'<span class="figure">{usd_per_month(entry["cost"]["total_usd_per_month"]).capitalize()}</span>' in bill
        assert f"{entry['precision']} with {entry['engine']}" in bill
        hourly = f"<dt>Per hour while it runs</dt><dd>{usd_per_hour(entry['cost']['usd_per_hour'])}</dd>"
        assert (hourly in bill) == (entry["cost"]["usd_per_hour"] != 0)  # free hardware is called free once
        need = memory_tab.memory_updates(real_app, model, _values("memory", named, hardware))["need"]
        assert f'<span class="figure">{gib(entry["memory"]["per_device_bytes"])}</span>' in need
        asked = memory_tab.memory_question(real_app, model, _values("memory", named, hardware)).arguments
        assert Written(real_app).estimate_memory(model, **asked)["per_device_bytes"] == entry["memory"]["per_device_bytes"]
        priced = Written(real_app)[outlook](model, **question, hardware=hardware, beside="spaces")["bill"]
        assert priced["total_usd_per_month"] == pytest.approx(entry["cost"]["total_usd_per_month"])
        assert priced["usd_per_million_output_tokens"] == pytest.approx(entry["cost"]["usd_per_million_output_tokens"])


def test_speed_and_first_token_of_an_offer_are_the_same_wherever_they_are_asked(
    real_app: Services, case: tuple[str, dict[str, Any]]
) -> None:
    """Every eighth offer and the pick: *Memory* (limits) and `/compare` say what *Recommend* says of the same requests."""
    model, named = case
    question = workload.recommend_arguments(_values("recommend", named, "auto"))
    answer = Written(real_app).recommend(model, **question)
    for entry in [answer["pick"], *answer["ranked"][::8]]:
        speed, hardware = entry["speed"], f"{entry['platform']}:{entry['hardware']}"
        shape = {"precision": entry["precision"], "engine": entry["engine"], "concurrency": speed["concurrency"]}
        prompt, output = speed["prompt_tokens"], speed["output_tokens"]
        if model == PICTURES:  # both boxes ask about tokens
            with pytest.raises(AdvisorError, match="makes pictures"):
                Written(real_app).solve(model, hardware, **shape)
            with pytest.raises(AdvisorError, match=r"no output tokens|not rented by the hour|lacks"):
                Written(real_app).compare(model, {"hardware": hardware, **shape}, {"hardware": hardware, **shape})
            sizes = {name: value for name, value in question.items() if name in {"width", "height", "steps"}}
            assert Written(real_app).estimate_speed(model, entry["hardware"], **shape, **sizes)["ttft_s"] == pytest.approx(
                speed["request_s"]
            )
            continue
        limits = Written(real_app).solve(model, hardware, context_tokens=prompt + output, output_tokens=output, **shape)
        assert (limits["tokens_per_s"], limits["ttft_s"]) == pytest.approx((speed["decode_tokens_per_s"], speed["ttft_s"]))
        if entry["platform"] == "zerogpu":  # it is not rented by the hour
            continue
        side = {"hardware": hardware, **shape}
        traffic = {name: question[name] for name in ("requests_per_day", "hours_per_day")}
        compared = Written(real_app).compare(model, side, side, prompt_tokens=prompt, output_tokens=output, **traffic)["before"]
        assert compared["latency_p50_s"] == pytest.approx(speed["request_s"])
        assert compared["tokens_per_s"] == pytest.approx(speed["throughput_tokens_per_s"])


@pytest.mark.parametrize(("model", "named"), WORKLOADS, ids=str)
def test_boxes_and_gpu_or_tpu_show_an_offer_as_it_is_recommended(real_app: Services, model: str, named: dict[str, Any]) -> None:
    """*Limits* and *Traffic* take its precision and engine, the roofline its step, *GPU or TPU* says its speed, price and configuration."""
    values = _values("recommend", {**named, "platforms": ["spaces", "endpoints", "jobs", "tpu"]}, "auto")
    ranked = Written(real_app).recommend(model, **workload.recommend_arguments(values))["ranked"]
    for entry in ranked[::12]:
        hardware, speed = f"{entry['platform']}:{entry['hardware']}", entry["speed"]
        if model == PICTURES:
            continue
        limits = memory_boxes.solve_updates(real_app, model, [hardware, 0, 0, *_values("memory", named, "auto")])["answer"]
        assert f"{entry['engine']}, {entry['precision']}" in limits
        asked = traffic_tab.traffic_arguments(real_app, model, _values("traffic", named, hardware))
        assert asked["precision"] == entry["precision"] or entry["engine"] not in {asked["engine"], "vllm-tpu"}
        roof = recommend_tab.roofline_updates(real_app, model, _values("recommend", named, hardware))["words"]
        if speed["concurrency"] == 1:  # among others a token also waits for their prompts to be read
            assert f"({1000 * speed['inter_token_s']:,.1f} ms)" in roof
    tab = gpu_tpu_tab.gpu_tpu_updates(real_app, model, _values("tpu", named, "auto"))["options"]
    rows = {row["hardware"] + row["platform"]: row for row in ranked}
    options = Written(real_app).compare_gpu_tpu(model, **gpu_tpu_tab.asked_arguments(_values("tpu", named, "auto")))["options"]
    same = [(one, rows[one["hardware"] + one["platform"]]) for one in options if one["hardware"] + one["platform"] in rows]
    load = named.get("concurrency", 1)  # /recommend fills a machine further where the day's requests want it
    same = [
        (one, row)
        for one, row in same
        if (one["precision"], one["engine"], load) == (row["precision"], row["engine"], row["speed"]["concurrency"])
    ]
    assert same
    for one, row in same:
        assert one["ttft_s"] == pytest.approx(row["speed"]["ttft_s"])
        assert one["decode_tokens_per_s"] == pytest.approx(row["speed"]["decode_tokens_per_s"])
        assert one["throughput_tokens_per_s"] == pytest.approx(row["speed"]["throughput_tokens_per_s"])
        rate = row["speed"]["decode_tokens_per_s"]
        for text in (seconds(row["speed"]["ttft_s"]), "" if rate is None else tokens_per_s(rate), usd_per_hour(one["usd_per_hour"])):
            assert text in tab
        assert f"{row['precision']} with {row['engine']}" in tab


@pytest.mark.parametrize(("requests", "visitors"), [(50, 0), (160, 20), (161, 20), (2000, 0), (2000, 300), (20_000, 0)])
@pytest.mark.parametrize("account", ["free", "pro"])
def test_cost_carries_on_zerogpu_what_recommend_does(real_app: Services, account: str, requests: int, visitors: int) -> None:
    """One limit on quota and GPU time: where it qualifies the way is free, where it does not the table says so."""
    named = {"account": account, "requests": requests, "daily_visitors": visitors, "beside": ["spaces", "zerogpu"]}
    answer = Written(real_app).recommend(LLAMA, **workload.recommend_arguments(_values("recommend", named, "auto")))
    qualifies = any(one["hardware"] == "zero-a10g" for one in answer["ranked"])
    by_runs = account == "pro" or not visitors or requests <= 8 * visitors  # users report 8 runs a day of free visitors
    assert qualifies == (by_runs and requests < 20_000)  # which take more than six hours of GPU time
    for hardware in ("spaces:l4x1", "zerogpu:zero-a10g"):
        shown = cost_tab.cost_updates(real_app, LLAMA, _values("cost", named, hardware))
        assert ("not at this traffic" in shown["ways"]) == (not qualifies and hardware.startswith("zerogpu"))
        if hardware.startswith("zerogpu"):
            assert ("Does not qualify" in shown["bill"]) == (not qualifies)


@pytest.mark.parametrize("named", [WORKLOADS[0][1], WORKLOADS[2][1], {"context": 8192}], ids=str)
def test_traffic_of_one_client_is_served_as_predicted(real_app: Services, named: dict[str, Any]) -> None:
    """A request after the other, nothing waits: the medians of *Traffic* are the TTFT and the TPOT of *Recommend*."""
    ranked = Written(real_app).recommend(LLAMA, **workload.recommend_arguments(_values("recommend", named, "auto")))["ranked"]
    entry = next(one for one in ranked if one["engine"] == "vllm" and one["accelerator"])
    speed = entry["speed"]
    shape = {name: speed[name] for name in ("prompt_tokens", "output_tokens")} | {"engine": "vllm", "precision": entry["precision"]}
    one = {"arrivals": "closed", "clients": 1, "max_batch_size": 1, "duration_s": 60, "lengths": "fixed"}
    served = Written(real_app).simulate_batching(LLAMA, f"{entry['platform']}:{entry['hardware']}", **shape, **one)
    assert speed["concurrency"] == 1
    assert served["ttft_p50_s"] == pytest.approx(speed["ttft_s"], rel=1e-3)
    assert served["tpot_p50_s"] == pytest.approx(speed["inter_token_s"], rel=1e-3)


def test_without_named_hardware_every_tab_looks_at_the_pick(real_app: Services, case: tuple[str, dict[str, Any]]) -> None:
    """Cost bills it, Memory measures it."""
    model, named = case
    pick = Written(real_app).recommend(model, **workload.recommend_arguments(_values("recommend", named, "auto")))["pick"]
    assert f" on {escape(pick['name'])}" in cost_tab.cost_updates(real_app, model, _values("cost", named, "auto"))["bill"]
    assert (
        f"as recommended for {escape(pick['name'])}" in memory_tab.memory_updates(real_app, model, _values("memory", named, "auto"))["need"]
    )


@pytest.mark.parametrize(("card", "cards", "name"), [("RTX-4090", 1, "RTX-4090"), ("RTX-3090", 2, "RTX-3090x2"), ("M4-16GB", 2, "M4-16GB")])
def test_own_hardware_is_the_same_on_every_tab(real_app: Services, card: str, cards: int, name: str) -> None:
    """Recommend, Memory, Cost, the roofline and Traffic look at the cards that the visitor owns; none of them has a price."""
    named = {"hardware": card, "cards": cards}
    question = workload.recommend_arguments(page_values.fill_form("recommend", **named))
    runs = Written(real_app).recommend(LLAMA, **question, own_hardware=name)["own"]["runs_as"]
    assert (runs["platform"], runs["hardware"]) == ("own", name)
    speed, need = tokens_per_s(runs["speed"]["decode_tokens_per_s"]), gib(runs["memory"]["per_device_bytes"])
    shown = recommend_tab.recommend_updates(real_app, LLAMA, page_values.fill_form("recommend", **named))["pick"]
    line = shown[: shown.index('class="card pick"')]
    fewer = [reason["message"].split()[1] for reason in runs["reasons"] if reason["code"] == "quantized"]
    bits = f" in {fewer[0]} bits" if fewer else ""
    assert f"Your {runs['name']}: fits{bits}, {speed}" in line
    assert f'data-copy="On your {runs["name"]}: fits' in shown  # first in the text too, before the rented pick
    assert "$" not in line
    assert f"tab=memory&amp;model=meta-llama%2FLlama-3.1-8B-Instruct&amp;hardware={card}" in line
    memory = memory_tab.memory_updates(real_app, LLAMA, page_values.fill_form("memory", **named))
    assert f'<span class="figure">{need}</span>' in memory["need"]
    assert memory["tiers"].index(f'data-words="{name}"') < memory["tiers"].index("cpu-basic")
    bill = cost_tab.cost_updates(real_app, LLAMA, page_values.fill_form("cost", **named, beside=["spaces"]))["bill"]
    assert f"Your {runs['name']}: nothing to rent." in bill
    assert speed in bill[: bill.index("What renting would cost instead")]
    assert runs["name"] in recommend_tab.roofline_updates(real_app, LLAMA, page_values.fill_form("recommend", **named))["words"]
    asked = traffic_tab.traffic_arguments(real_app, LLAMA, page_values.fill_form("traffic", **named))
    assert asked["hardware"] == name
    assert asked["engine"] == ("llama.cpp" if card.startswith("M4") else "vllm")
    assert (
        Written(real_app).simulate_batching(LLAMA, **{**asked, "duration_s": 30.0, "requests_per_s": 0.1})["usd_per_million_tokens"] is None
    )


def _files(services: Services, model: str, **asked: Any) -> str:
    return recommend_tab.setup_updates(services, model, ["pytorch", *page_values.fill_form("recommend", **asked)])["code"]


def test_own_hardware_that_does_not_run_it_says_what_would(real_app: Services) -> None:
    """70B on one RTX 4090: how much is missing, two of them, and what to rent instead."""
    values = page_values.fill_form("recommend", hardware="RTX-4090", engine="transformers")
    shown = recommend_tab.recommend_updates(real_app, "70B", values)["pick"]
    line = shown[: shown.index('class="card pick"')]
    assert "Your NVIDIA GeForce RTX 4090: does not run it" in line
    assert "Too small" in line
    assert "2 × NVIDIA GeForce RTX 4090 would run it" in line
    setup = _files(real_app, "70B", hardware="RTX-4090", engine="transformers")
    assert "does not qualify" in setup


def test_a_mac_is_told_from_cards_by_its_id(real_app: Services) -> None:
    """The page's script shows the number of own cards for what can be several, and tells a Mac by its id."""
    told = re.compile(r"^M\d")
    assert f"/:|{told.pattern}/" in (theme.ASSETS / "page.js").read_text(encoding="utf-8")
    owned = [card for card in real_app.catalog().accelerators.values() if card.kind in OWNED_KINDS]
    assert {card.id for card in owned if told.match(card.id)} == {card.id for card in owned if card.kind == "apple"}


@pytest.mark.parametrize("model", [LLAMA, PICTURES, SOUND, VECTORS])
def test_a_length_is_asked_of_those_whose_answer_it_changes(real_app: Services, model: str) -> None:
    """Prompt and output tokens: what is asked changes the speed or the memory of the pick, what is not asked changes neither."""

    def pick(**lengths: int) -> tuple[Any, ...]:
        found = Written(real_app).recommend(model, context_tokens=400, **lengths)["pick"]
        return found["speed"]["request_s"], found["memory"]["per_device_bytes"]

    asked = model_field.resolve(real_app, model, "").media
    usual = pick()
    assert ("prompt" in asked) == (pick(prompt_tokens=40) != usual)
    assert ("answer" in asked) == (pick(output_tokens=40) != usual)
    assert ("context" in asked) == (model != PICTURES)


def test_what_a_model_has_not_is_not_shown(real_app: Services) -> None:
    """Pictures and vectors have no cache, pictures no length; with a cache its part stands in the card, the key, and the laws."""
    for model, cached in ((LLAMA, True), (SOUND, True), (PICTURES, False), (VECTORS, False)):
        shown = memory_tab.memory_updates(real_app, model, page_values.fill_form("memory"))
        head = memory_tab.curve_updates(real_app, model, [448, *page_values.fill_form("memory")]).get("head")
        pick = recommend_tab.recommend_updates(real_app, model, page_values.fill_form("recommend"))["pick"]
        for text in (shown["need"], shown["explain"], pick, *([head] if head else [])):
            assert (">Cache" in text) == cached
        assert (" cache, " in shown["need"]) == cached
        values = page_values.fill_form("memory")
        every = memory_boxes.precision_updates(memory_tab.memory_arguments, real_app, model, values)["table"]
        assert ("Longest context" in shown["tiers"]) == ("Longest context" in every) == bool(head) == (model != PICTURES)


def test_the_memory_of_a_pipeline_is_one_figure(real_app: Services) -> None:
    """Card, row of that hardware, and *Recommend* say the same; cards whose runtime takes another amount are explained."""
    values = page_values.fill_form("recommend", hardware="auto")
    pick = Written(real_app).recommend(PICTURES, **workload.recommend_arguments(values))["pick"]
    shown = memory_tab.memory_updates(real_app, PICTURES, page_values.fill_form("memory"))
    need = gib(pick["memory"]["per_device_bytes"])
    assert f'<span class="figure">{need}</span>' in shown["need"]
    assert need.split()[0] + " of " + gib(pick["memory"]["capacity_bytes"]) in shown["tiers"]
    assert "differ from card to card" in shown["tiers"]


@pytest.mark.parametrize("concurrency", [1, 4])
@pytest.mark.parametrize(
    ("model", "unit", "asked"),
    [(LLAMA, "tokens/s", "512 prompt and 256 output tokens"), (SOUND, "× real time", "30 s of sound"), (PICTURES, "requests/s", "picture")],
)
def test_the_chart_speaks_the_unit_of_the_card(real_app: Services, model: str, unit: str, asked: str, concurrency: int) -> None:
    """Of one request the chart's point is the card's figure; of several it is that of all of them together."""
    values = page_values.fill_form("recommend", concurrency=concurrency)
    answer = real_app.recommend(model, **workload.recommend_arguments(values))
    front = speed_front(answer)
    assert (front.unit, asked in front.shape) == (unit, True)
    for point, entry in zip(front.points, to_json(answer)["ranked"], strict=True):
        speed = entry["speed"]
        of_card = {
            "tokens/s": speed["throughput_tokens_per_s"],
            "× real time": speed["concurrency"] * (speed["real_time_factor"] or 0),
            "requests/s": speed["concurrency"] / speed["request_s"],
        }[unit]
        assert point.low <= point.value <= point.high
        assert point.value == pytest.approx(of_card)


def test_a_pipeline_has_no_curve_and_no_simulation(real_app: Services) -> None:
    """Its size is no length: no empty chart is shown, and the refusal of a simulation blames no engine that nobody chose."""
    assert not memory_tab.memory_updates(real_app, PICTURES, page_values.fill_form("memory"))["curve_box"]["visible"]
    assert memory_tab.memory_updates(real_app, LLAMA, page_values.fill_form("memory"))["curve_box"]["visible"]
    with pytest.raises(AdvisorError, match="makes pictures"):
        Written(real_app).simulate_batching(PICTURES, **traffic_tab.traffic_arguments(real_app, PICTURES, page_values.fill_form("traffic")))


def test_files_for_own_hardware(real_app: Services) -> None:
    """A server starts for this machine alone; nothing of a Space is written, and for a Mac nothing."""
    two = _files(real_app, LLAMA, hardware="RTX-4090", cards=2, engine="vllm", precision="bf16")
    assert "vllm serve meta-llama/Llama-3.1-8B-Instruct --host 127.0.0.1" in two
    one = _files(real_app, LLAMA, hardware="RTX-4090", engine="transformers")
    assert "transformers==" in one
    fastest = _files(real_app, LLAMA, hardware="RTX-4090", engine="vllm")
    assert "Replace organization/model with a repository that holds weights in awq-4" in fastest
    assert "suggested_hardware" not in one
    mac = _files(real_app, LLAMA, hardware="M4-16GB")
    assert "a card of NVIDIA" in mac


def test_each_row_leads_to_its_own_figures(real_app: Services) -> None:
    """The links of a row carry the question and name the row's hardware; only tiers of a Space can be switched to."""
    values = page_values.fill_form("recommend", context=8192, platforms=["spaces", "jobs"])
    table = recommend_tab.recommend_updates(real_app, LLAMA, values)["ranked"]
    rows = re.findall(r'<span class="row-links">(.*?)</span></td>|<span class="row-links">(.*?)</a></span>', table)
    assert len(rows) >= 8
    assert "?tab=cost&amp;model=meta-llama%2FLlama-3.1-8B-Instruct&amp;context=8192&amp;hardware=spaces%3Al4x1" in table
    assert "tab=memory" in table
    assert "tab=space&amp;model=meta-llama%2FLlama-3.1-8B-Instruct&amp;context=8192&amp;hardware=spaces%3Al4x1" in table
    assert "tab=space&amp;model=meta-llama%2FLlama-3.1-8B-Instruct&amp;context=8192&amp;hardware=jobs" not in table
