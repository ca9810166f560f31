"""The tab *Cost*, and the charts of *Recommend*: values in, markup out, with the real services and no network."""

from __future__ import annotations

import csv
import io
import itertools
import math
import re
from decimal import Decimal
from functools import partial
from types import SimpleNamespace
from typing import cast
from urllib.parse import parse_qs

import page_values
import pytest
from hypothesis import given
from hypothesis import strategies as st
from page_fake import LLAMA, FakeServices

from lib.advisor.result import Recommendation
from lib.catalog import load
from lib.hub.search import ProviderOffers
from lib.present.charts import RING, draw_roofline, roofline_words
from lib.present.cost_rows import cost_card, draw_bills, ways_csv
from lib.present.front_chart import Front, FrontPoint, draw_front, front_finding, speed_front
from lib.present.numbers import usd
from lib.present.sentences import short_name
from lib.service.app import Services
from lib.service.endpoint import App
from lib.service.models import Models
from lib.service.outlook import outlook
from lib.service.recommend import recommend
from lib.service.speed import roofline
from lib.ui import cost_tab, page, recommend_tab, workload
from lib.ui import fields as ask

fill_form = partial(page_values.fill_form, "cost")
COST = fill_form()
UNASKED = ProviderOffers(status="unknown", reason="The router was not asked.")


@pytest.fixture(scope="module")
def services() -> Services:
    """The services as the app has them, with the bundled models and a router that says nothing."""
    return Services(App(catalog=load, models=Models(), search=lambda _: (), providers=lambda _: UNASKED))


def test_every_output_has_a_value(services: Services) -> None:
    """One value for each component, with an answer, with a refusal, and without a model."""
    for model in (LLAMA, "no/such model", ""):
        assert cost_tab.cost_updates(services, model, COST)["bill"]


def test_the_bill_of_named_hardware(services: Services) -> None:
    """An L4 that never sleeps: 0.80 × 24 × 30 = 576 USD a month, and its law is shown."""
    shown = cost_tab.cost_updates(services, LLAMA, fill_form(hardware="spaces:l4x1", sleep="0"))
    assert '<span class="figure">$576</span>' in shown["bill"]
    assert "USD/h · (hours · replicas + extra replica hours)" in shown["laws"]
    assert "a month on 1x Nvidia L4, always on</h2>" in shown["bill"]
    assert "Space 1x L4, always on" in shown["ways"]
    assert "Space 1x L4, sleeping" not in shown["ways"]


def test_an_own_price_is_a_way(services: Services) -> None:
    """512 · 0.2 + 256 · 0.6 USD per million, 100 a day for 30 days: 0.77 USD, less the free account's credits of 0.10: 0.67."""
    shown = cost_tab.cost_updates(services, LLAMA, fill_form(**{"in": 0.2, "out": 0.6}))
    assert "Per token, your own price" in shown["ways"]
    assert "<strong>$0.67</strong>" in shown["ways"]
    assert "your own price" not in cost_tab.cost_updates(services, LLAMA, COST)["ways"]


def test_a_link_repeats_the_question(services: Services) -> None:
    """What the link says is read back as the same values."""
    values = fill_form(hardware="jobs:l4x1", along="hours", hours=8.0, beside=["jobs", "zerogpu"], storage=250.0)
    shown = cost_tab.cost_updates(services, LLAMA, values)
    query = re.search(r'data-copy-link href="\?([^"]+)"', shown["bill"])
    assert query is not None
    params = {name: values[0] for name, values in parse_qs(query[1].replace("&amp;", "&")).items()}
    every = dict(zip([field.name for field in ask.ALL_FIELDS], workload.read_link(ask.every_field(load()), params)[0], strict=True))
    assert [every[field.name] for field in page_values.fields_of("cost")] == values


def test_the_csv_holds_every_way(services: Services) -> None:
    """The rows of the file are the rows of the table."""
    answer = services[outlook](LLAMA)
    rows = list(csv.DictReader(io.StringIO(ways_csv(answer.lines))))
    assert [row["label"] for row in rows] == [line.label for line in answer.lines]
    assert {"spaces", "zerogpu", "endpoints", "jobs"} <= {row["platform"] for row in rows}


def test_parts_add_up_to_the_month(services: Services) -> None:
    """Computing and storage are the whole bill of every way."""
    answer = services[outlook](LLAMA, storage_gb=250)
    for line in answer.lines:
        if line.total_usd_per_month is not None and line.compute_usd_per_month is not None:
            assert line.compute_usd_per_month + line.storage_usd_per_month == pytest.approx(line.total_usd_per_month)


def test_sleep_saves_the_same_in_the_card_and_among_the_savings(services: Services) -> None:
    """The line asleep and the way to save count one start of the same files."""
    answer = services[outlook](LLAMA, requests_per_day=200, hardware="spaces:l4x1")
    asleep = next(line for line in answer.lines if line.kind == "sleeping")
    saving = next(way for way in answer.savings if way.code == "sleep")
    assert asleep.total_usd_per_month == saving.usd_per_month
    assert f"Sleeping when idle, it costs {usd(saving.usd_per_month)} a month" in cost_card(answer, LLAMA)


def test_the_lines_hold_the_bill_that_is_stated(services: Services) -> None:
    """At the stated traffic each line shows what the table says."""
    answer = services[outlook](LLAMA, requests_per_day=200)
    at = answer.x.index(Decimal(200))
    assert [line.usd[at] for line in answer.lines] == [line.total_usd_per_month for line in answer.lines]
    assert len(draw_bills(answer).data) >= len(answer.lines)


def test_hardware_that_cannot_hold_the_model_is_priced_and_says_so(services: Services) -> None:
    """A T4 is too small for 70 billion parameters, whatever it costs."""
    shown = cost_tab.cost_updates(services, "70B", fill_form(hardware="spaces:t4-small"))
    assert "Does not qualify." in shown["bill"]


def test_nothing_from_outside_is_markup(services: Services) -> None:
    """A model's name goes through as text."""
    shown = cost_tab.cost_updates(services, '<img src=x onerror="alert(1)">', COST)
    assert "<img" not in shown["bill"]
    assert 'role="alert"' in shown["bill"]


def test_the_page_opens_on_the_tab_of_a_link() -> None:
    """Its questions stand in the fields, what cannot be used is named, and the answers are left to the tab."""
    values = page.answer_link(FakeServices(), {"tab": "cost", "requests": "250", "along": "hours", "storage": "-1"})  # type: ignore[arg-type]
    every = values
    assert values["tabs"]["selected"] == "cost"
    assert (every["requests"], every["along"], every["storage"]) == (250, "hours", 0.0)
    assert "storage" in values["facts"]


def test_the_scatter_marks_what_is_unbeaten() -> None:
    """Entries without a prediction are left out; the front is drawn through the marked ones."""
    ends = SimpleNamespace(throughput_tokens_per_s=9.0, ttft_s=1.2)
    told = SimpleNamespace(
        low=ends, high=SimpleNamespace(throughput_tokens_per_s=12.0, ttft_s=1.2), throughput_tokens_per_s=10.0, ttft_s=1.0
    )
    vars(told).update(concurrency=1, prompt_tokens=512, output_tokens=256, real_time_factor=None, request_s=30.0)
    entry = {"hardware": "a", "platform": "spaces", "name": "<b>A</b>", "precision": "bf16", "engine": "vllm", "pareto": True}
    ranked = [
        SimpleNamespace(**entry | {"speed": told, "cost": SimpleNamespace(total_usd_per_month=100)}),
        SimpleNamespace(**entry | {"hardware": "b", "pareto": False, "speed": told, "cost": SimpleNamespace(total_usd_per_month=0)}),
        SimpleNamespace(**entry | {"speed": SimpleNamespace(low=None, high=None), "cost": SimpleNamespace(total_usd_per_month=1)}),
    ]
    shown = speed_front(cast("Recommendation", SimpleNamespace(ranked=ranked, pick=None, task="text-generation")))
    assert [(point.low, point.value, point.high) for point in shown.points] == [(9.0, 10.0, 12.0)] * 2
    figure = draw_front(shown)
    assert list(figure.data[0].x) == [100.0]
    assert "<b>A</b>" not in str(figure.data[1].hovertemplate)


def test_no_pass_is_above_the_roof(services: Services) -> None:
    """Predictions stay below both ceilings, and decoding one request of Llama-3.1-8B is left of the L4's ridge."""
    answer = services[roofline](LLAMA, "l4x1", "bf16", "vllm", 512, 256, 1)
    for one in answer.passes:
        assert one.flop_per_s <= min(answer.peak_flop_per_s, one.flop_per_byte * answer.bandwidth_bytes_per_s)
    decoding, reading = answer.passes
    ridge = answer.peak_flop_per_s / answer.bandwidth_bytes_per_s
    assert decoding.flop_per_byte < ridge < reading.flop_per_byte  # 2·P·1 FLOP over about 2·P bytes; 512 tokens read at once
    assert decoding.flop_per_byte == pytest.approx(1.0, rel=0.05)
    assert "memory bandwidth bounds it" in roofline_words(answer)
    assert len(draw_roofline(answer).data) == 5


def test_the_roofline_box_answers_in_words_where_it_cannot_draw(services: Services) -> None:
    """No model, or none that is known."""
    values = page_values.fill_form("recommend")
    assert "chart" not in recommend_tab.roofline_updates(services, "", values)
    refused = recommend_tab.roofline_updates(services, "no/such model", values)
    assert "chart" not in refused
    assert 'role="alert"' in refused["words"]
    assert recommend_tab.roofline_updates(services, LLAMA, page_values.fill_form("recommend", hardware="spaces:l4x1"))["chart"] is not None


@given(st.lists(st.tuples(st.floats(0, 3), st.floats(0.01, 2)), min_size=2, max_size=9))
def test_names_on_the_front_do_not_write_over_each_other(steps: list[tuple[float, float]]) -> None:
    """On a phone's plot of 270 × 270 pixels, with letters of 6.6 pixels and lines of 13; whatever the prices and speeds."""
    price, speed, points = 1.0, 0.0, []
    for number, (dearer, faster) in enumerate(steps):
        price, speed = price + dearer, speed + faster
        rate = {"value": 10**speed, "low": 10**speed / 1.5, "high": 10**speed * 1.5}
        points.append(
            FrontPoint(hardware=f"hardware-x{number}", platform="spaces", name="", runs_as="", usd=10**price, pareto=True, **rate)
        )
    figure = draw_front(Front(unit="tokens/s", shape="", points=tuple(points)))
    left, right = figure.layout.xaxis.range
    tall = math.log10(1.5 * points[-1].value * 1.5 / points[0].value)
    boxes = [(270 * (note.x - left) / (right - left), 270 * note.y / tall, 6.6 * len(note.text)) for note in figure.layout.annotations]
    assert boxes
    for (x, y, _), (further, higher, width) in itertools.combinations(boxes, 2):
        assert higher - y > 13 or further - width > x


@pytest.mark.parametrize("along", ["requests", "hours"])
def test_the_bills_mark_the_stated_use_and_stand_in_a_table(services: Services, along: str) -> None:
    """A ring at the bill of the chosen hardware, and the curve's numbers with the stated use among them."""
    values = fill_form(hardware="spaces:l4x1", along=along, requests=250, beside=["spaces", "zerogpu"])
    shown = cost_tab.cost_updates(services, LLAMA, values)
    assert shown["chart"] is not None
    rings = [trace for trace in shown["chart"].data if trace.marker.size == RING["size"]]
    (ring,) = rings
    assert f"${ring.y[0]:,.0f}" in shown["bill"]
    assert "Show as table" in shown["foot"]
    assert f'<th scope="row">{ring.x[0]:,.0f}</th>' in shown["foot"]


def test_the_rows_of_the_table_are_named_in_the_chart(services: Services) -> None:
    """Of the example all that the table shows before more are asked for; the pick off the front has its reason there."""
    answer = services[recommend](LLAMA)
    front = speed_front(answer)
    names = {note.text for note in draw_front(front).layout.annotations}
    assert {short_name(entry.name) for entry in answer.ranked[:5]} <= names
    pick = answer.pick
    assert pick is not None
    assert bool(front.why_off) is not pick.pareto
    assert front_finding(front).startswith(pick.name)


def test_free_hardware_and_a_missing_provider_are_said_in_words(services: Services) -> None:
    """The headline says who pays; the ticked provider has no row, so the reason is there, and only while it is ticked."""
    shown = cost_tab.cost_updates(services, LLAMA, fill_form(hardware="zerogpu:zero-a10g"))
    assert '<span class="figure">Free</span>: visitors use their own quota on ZeroGPU' in shown["bill"]
    assert "No provider is listed. The router was not asked." in shown["ways"]
    assert "No provider is listed" not in cost_tab.cost_updates(services, LLAMA, fill_form(beside=["spaces"]))["ways"]
    assert "No provider is listed: providers serve models of the Hub" in cost_tab.cost_updates(services, "7B", COST)["ways"]
