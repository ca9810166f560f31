"""The tab *Traffic*: values in, markup and figures out, with the real services and no network."""

from __future__ import annotations

import csv
import io
import re
from functools import partial
from typing import Any
from urllib.parse import parse_qs, unquote

import page_values
import pytest

from lib.present.traffic_rows import MEASURES, POLICY_NAMES, DrawnLoads, draw_loads, loads_table
from lib.service.app import Services
from lib.service.simulate_batching import BatchingArguments, stream_loads
from lib.traffic.arrivals import ARRIVALS, LENGTHS
from lib.traffic.replica import POLICIES
from lib.ui import fields as ask
from lib.ui import page
from lib.ui.events import Updates
from lib.ui.traffic_tab import latency_updates, traffic_arguments, traffic_scenes

LLAMA = "meta-llama/Llama-3.1-8B-Instruct"
NOTHING: list[Any] = [0, 0, 0, 0, 0, 0, 1, ""]
fill_form = partial(page_values.fill_form, "traffic")
DEFAULTS = fill_form()


def last_value(scenes: list[Updates], name: str) -> Any:
    """What a field shows in the end."""
    return next(value for scene in reversed(scenes) if (value := scene.get(name)) is not None)


def test_a_run_shows_the_simulation_then_loads_then_tiers(real_app: Services) -> None:
    """Scene by scene, with progress, the chart growing; at the end nothing is busy any more."""
    scenes = list(traffic_scenes(real_app, LLAMA, fill_form(hardware="spaces:l4x1", rate=1.0, duration=60.0), "ttft"))
    assert [bool(scene.get("busy")) for scene in scenes] == [True] * (len(scenes) - 1) + [False]
    drawn = [scene["loads"].answer.done for scene in scenes if scene.get("loads")]
    assert len(drawn) > 10
    card = last_value(scenes, "card")
    assert "First token, p99" in card
    assert "1x Nvidia L4 keeps up with your traffic, within the targets" in card
    assert "1x Nvidia L4 holds" in last_value(scenes, "head")
    assert "continuous batching" in card
    assert "Continuous" in last_value(scenes, "table")
    assert "cheapest first" in last_value(scenes, "needs")
    assert "steps_predicted" not in last_value(scenes, "notes")
    rows = list(csv.DictReader(io.StringIO(unquote(re.search(r'href="data:text/csv[^,]*,([^"]+)"', card)[1].replace("&amp;", "&")))))  # type: ignore[index]
    assert {row["policy"] for row in rows} == set(POLICY_NAMES)


@pytest.mark.parametrize("measure", MEASURES)
def test_every_measure_is_drawn_for_every_policy(real_app: Services, measure: str) -> None:
    """Three lines, each with all loads."""
    *_, answer = real_app[stream_loads](LLAMA, "l4x1", max_batch_size=8)
    figure = draw_loads(DrawnLoads(answer=answer, policy="continuous", requests_per_s=0.5), measure)
    assert [len(line.x) for line in figure.data] == [answer.total // 3] * 3
    assert len(figure.layout.shapes) == 1


def test_points_without_a_steady_part_are_hollow_and_explained(real_app: Services) -> None:
    """In the plot, in the table and in a sentence; with small batches there is nothing to say."""
    *_, answer = real_app[stream_loads](LLAMA, "a100-large", max_batch_size=512)
    static = draw_loads(DrawnLoads(answer=answer, policy="continuous", requests_per_s=0.5), "price").data[0]
    assert "circle-open" in static.marker.symbol
    assert static.marker.symbol[0] == "circle"
    shown = loads_table(answer)
    assert "count the whole run" in shown
    assert "<small>whole run</small>" in shown
    *_, answer = real_app[stream_loads](LLAMA, "a100-large", max_batch_size=8)
    assert "whole run" not in loads_table(answer)


def test_what_is_refused_is_said_and_ends_the_run(real_app: Services) -> None:
    """Hardware that is too small, too much work, no model."""
    for values, text in (
        (fill_form(hardware="spaces:t4-small", precision="bf16"), "leaves nothing"),
        (fill_form(rate=9999.0, duration=9999.0), "too much to simulate"),
    ):
        scene = list(traffic_scenes(real_app, LLAMA, values, "ttft"))[-1]
        assert 'role="alert"' in scene["status"]
        assert text in scene["status"]
        assert not scene.get("busy")
    (only,) = traffic_scenes(real_app, "", DEFAULTS, "ttft")
    assert "Name a model" in only["status"]


def test_the_form_becomes_arguments_of_the_api(real_app: Services) -> None:
    """An emptied number is its default; clients and a trace only count where they are asked for; auto is a paid Space that holds it."""
    sent = traffic_arguments(real_app, LLAMA, fill_form(rate=None, clients=9, trace="1\n2"))
    assert (sent["requests_per_s"], sent["clients"], sent["trace"]) == (pytest.approx(100 * 3 / 86_400), 0, "")
    assert (sent["engine"], sent["prompt_tokens"], sent["output_tokens"]) == ("vllm", 512, 256)
    assert traffic_arguments(real_app, LLAMA, fill_form(arrivals="closed", clients=9))["clients"] == 9
    assert traffic_arguments(real_app, LLAMA, fill_form(engine="transformers", hardware="jobs:l4x1"))["engine"] == "transformers"
    assert sent["hardware"].startswith("spaces:")
    real_app.simulate_batching(LLAMA, **sent)


def test_the_assumed_peak_is_among_the_assumptions(real_app: Services) -> None:
    """Only where the rate follows from requests a day."""
    for values, told in ((fill_form(peak=2.0), True), (fill_form(rate=0.5), False)):
        scenes = traffic_scenes(real_app, LLAMA, values, "ttft")
        notes = next(scene["notes"] for scene in scenes if scene.get("notes"))
        scenes.close()  # type: ignore[attr-defined]
        assert ("counted as 2 × the mean" in notes) is told


def test_the_rate_follows_the_workload(real_app: Services) -> None:
    """Requests a day over the hours in use, times the peak; a rate in the form counts instead. The run is long enough for a p99."""
    sent = traffic_arguments(real_app, LLAMA, fill_form(requests=36_000, hours=10, peak=2.0))
    assert sent["requests_per_s"] == pytest.approx(2.0)
    assert sent["duration_s"] == 300
    sent = traffic_arguments(real_app, LLAMA, fill_form(requests=36_000, rate=0.5))
    assert (sent["requests_per_s"], sent["duration_s"]) == (0.5, 600)
    least = traffic_arguments(real_app, LLAMA, fill_form(requests=1))
    real_app.simulate_batching(LLAMA, **least)


def test_the_words_are_those_of_the_api() -> None:
    """Every policy, kind of arrivals and of lengths can be chosen."""
    for words, names in ((ask.POLICY_WORDS, POLICIES), (ask.ARRIVAL_WORDS, ARRIVALS), (ask.LENGTH_WORDS, LENGTHS)):
        assert {value for _, value in words} == set(names)
    assert {value for _, value in ask.MEASURE_WORDS} == set(MEASURES)


def test_the_form_begins_with_the_defaults_of_the_api(real_app: Services) -> None:
    """Lengths are drawn on the page as they are for callers who state none."""
    fields = ("lengths", "spread", "burstiness", "seed", "policy", "max_batch_size", "timeout_s")
    sent, stated = traffic_arguments(real_app, LLAMA, DEFAULTS), BatchingArguments.list_fields()
    assert {name: sent[name] for name in fields} == {name: stated[name].default for name in fields}


def test_where_the_latency_goes_follows_times_and_texts(real_app: Services) -> None:
    """The dominant part as a headline, the parts as a table; a pasted text that cannot be read is refused in a sentence."""
    shown = latency_updates(real_app, LLAMA, [*fill_form(hardware="spaces:l4x1"), 0, 0, 0, 400, 60, 0, 1, ""])["answer"]
    assert "Decode, the other tokens takes the most" in shown
    assert "Smaller formats" in shown
    assert "Nothing measured yet" in latency_updates(real_app, LLAMA, [*fill_form(hardware="spaces:l4x1"), *NOTHING])["answer"]
    assert 'role="alert"' in latency_updates(real_app, LLAMA, [*DEFAULTS, *NOTHING[:-1], "<script>alert(1)</script>"])["answer"]
    assert "<script>" not in latency_updates(real_app, LLAMA, [*DEFAULTS, *NOTHING[:-1], "<script>alert(1)</script>"])["answer"]
    assert "Name a model" in latency_updates(real_app, "", [*DEFAULTS, *NOTHING])["answer"]


def test_a_link_repeats_the_question(real_app: Services) -> None:
    """The page that a link opens has its values in the form, recorded arrivals are no part of a link."""
    values = fill_form(hardware="spaces:a100-large", policy="dynamic", rate=4.5, lengths="lognormal", machines=2)
    scenes = traffic_scenes(real_app, LLAMA, values, "ttft")
    card = next(scene["card"] for scene in scenes if scene.get("card"))
    query = re.search(r'data-copy-link href="\?([^"]+)"', card)
    assert query is not None
    params = {name: found[0] for name, found in parse_qs(query[1].replace("&amp;", "&")).items()}
    opened = page.answer_link(real_app, params)
    every = opened
    assert [every[field.name] for field in page_values.fields_of("traffic")][1:] == values[1:]
