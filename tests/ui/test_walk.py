"""A walk over the tabs: what stands on several of them is the same figure."""

from __future__ import annotations

import re
from typing import Any

import page_values
import pytest

from lib.present.markup import escape
from lib.present.numbers import gib, usd_per_month
from lib.service.app import Services
from lib.ui import cost_tab, memory_tab, recommend_tab, workload
from lib.ui.fields import Value

LLAMA = "meta-llama/Llama-3.1-8B-Instruct"
WORKLOADS: list[tuple[str, dict[str, Any]]] = [
    (LLAMA, {}),
    (LLAMA, {"context": 16_384, "concurrency": 8, "requests": 20_000, "hours": 8.0, "platforms": ["spaces", "jobs", "endpoints"]}),
    (LLAMA, {"engine": "vllm", "precision": "fp8", "prompt": 2_000, "answer": 500, "account": "pro"}),
    ("openai/whisper-large-v3", {"platforms": ["spaces", "jobs"]}),
    ("openai-community/gpt2", {"priority": "cheapest"}),
]


@pytest.fixture(scope="module", params=WORKLOADS, ids=lambda case: f"{case[0]} {len(case[1])}")
def case(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    """A model and a workload."""
    model, named = request.param
    return model, {**named, "beside": ["spaces", "zerogpu", "endpoints", "jobs"]}  # no provider is asked for


def _values(tab: str, named: dict[str, Any], hardware: str) -> list[Value]:
    of_tab = {field.name for field in page_values.fields_of(tab)}
    return page_values.asked(tab, hardware=hardware, **{name: value for name, value in named.items() if name in of_tab})


def test_cost_memory_and_speed_of_an_offer_are_the_same_on_every_tab(whole: Services, case: tuple[str, dict[str, Any]]) -> None:
    """Every eighth offer that qualifies, and the pick: the bill, the memory of the fullest device, the configuration, tokens per second."""
    model, named = case
    question = workload.recommend_arguments(_values("recommend", named, "auto"))
    answer = whole.recommend(model, **question)
    for entry in [answer["pick"], *answer["ranked"][::8]]:
        hardware = workload.entry_name(entry)
        bill = cost_tab.cost_markup(whole, model, _values("cost", named, hardware)).bill
        assert f'<span class="figure">{usd_per_month(entry["cost"]["total_usd_per_month"])}</span>' in bill
        assert f"{entry['precision']} with {entry['engine']}" in bill
        need = memory_tab.memory_markup(whole, model, _values("memory", named, hardware)).need
        assert f'<span class="figure">{gib(entry["memory"]["per_device_bytes"])}</span>' in need
        asked = memory_tab.memory_question(whole, model, _values("memory", named, hardware)).arguments
        assert whole.estimate_memory_on(model, **asked)["per_device_bytes"] == entry["memory"]["per_device_bytes"]
        priced = whole.outlook(model, **question, hardware=hardware, beside="spaces")["bill"]
        assert priced["total_usd_per_month"] == pytest.approx(entry["cost"]["total_usd_per_month"])
        assert priced["usd_per_million_output_tokens"] == pytest.approx(entry["cost"]["usd_per_million_output_tokens"])


def test_without_named_hardware_every_tab_looks_at_the_pick(whole: Services, case: tuple[str, dict[str, Any]]) -> None:
    """Cost bills it, Memory measures it."""
    model, named = case
    pick = whole.recommend(model, **workload.recommend_arguments(_values("recommend", named, "auto")))["pick"]
    assert f"<code>{pick['hardware']}</code>" in cost_tab.cost_markup(whole, model, _values("cost", named, "auto")).bill
    assert (
        f"as recommended for {escape(pick['name'])} ({pick['hardware']})"
        in memory_tab.memory_markup(whole, model, _values("memory", named, "auto")).need
    )


def test_each_row_leads_to_its_own_figures(whole: Services) -> None:
    """The links of a row carry the question and name the row's hardware; only tiers of a Space can be switched to."""
    values = page_values.asked("recommend", context=8192, platforms=["spaces", "jobs"])
    table = recommend_tab.recommend_markup(whole, LLAMA, values).ranked
    rows = re.findall(r'<span class="row-links">(.*?)</span></td>|<span class="row-links">(.*?)</a></span>', table)
    assert len(rows) >= 8
    assert "?tab=cost&amp;model=meta-llama%2FLlama-3.1-8B-Instruct&amp;context=8192&amp;hardware=spaces%3Al4x1" in table
    assert "tab=memory" in table
    assert "tab=space&amp;model=meta-llama%2FLlama-3.1-8B-Instruct&amp;context=8192&amp;hardware=spaces%3Al4x1" in table
    assert "tab=space&amp;model=meta-llama%2FLlama-3.1-8B-Instruct&amp;context=8192&amp;hardware=jobs" not in table
