"""The box *Before and after*: values in, markup out, with the real services and no network."""

from __future__ import annotations

from functools import partial
from typing import Any

import page_values
import pytest
from page_fake import LLAMA

from lib.catalog import load
from lib.hub.search import ProviderOffers
from lib.service.app import Services
from lib.service.endpoint import App
from lib.service.models import Models
from lib.ui import compare_box, page

traffic = partial(page_values.asked, "cost")
COST = traffic()
UNTYPED: list[Any] = [None]
L4: list[Any] = ["", "spaces:l4x1", "auto", "vllm", 8, 0, 0, 0]


@pytest.fixture(scope="module")
def services() -> Services:
    """The services as the app has them, with the bundled models and a router that says nothing."""
    unasked = ProviderOffers(status="unknown", reason="The router was not asked.")
    return Services(App(catalog=load, models=Models(), search=lambda _: (), providers=lambda _: unasked))


def side(**named: Any) -> list[Any]:
    """An L4 with vLLM and eight at once, some questions answered otherwise."""
    names = ("model", "hardware", "precision", "engine", "concurrency", "rate", "p50", "p99")
    return [named.get(name, value) for name, value in zip(names, L4, strict=True)]


def test_measured_numbers_need_no_model(services: Services) -> None:
    """135000 requests of 256 tokens a day are 400 tokens/s: 5 L4 at 100/s and 2 at 250/s, 2880 and 1152 USD a month of 720 hours.

    1728 saved a month pay an effort of 3000 back in 1.7 months. 10⁶ / (3600 · 100) = 2.78 GPU-hours.
    """
    own = [3000, *side(rate=100, p50=1.5, p99=4), *side(rate=250, p50=0.5, p99=2)]
    shown = compare_box.comparison_html(services, "", traffic(requests=135_000), own)
    assert '<span class="figure">Optimise</span>' in shown
    assert "$1,728 less" in shown
    assert "1.7 months" in shown
    assert "It saves $20,736 over 12 months, more than the effort of $3,000." in shown
    assert "no effort is stated." in compare_box.comparison_html(services, "", traffic(requests=135_000), [0, *own[1:]])
    assert "<strong>$2,880</strong><small>5 replicas" in shown
    assert "<strong>$1,152</strong><small>2 replicas" in shown
    assert "2.78 GPU-hours" in shown
    assert "80.0 % × 5 × $0.80<small>$3.20 an hour in use" in shown
    assert "1.5 s<small>measured" in shown
    assert "p99 latency, after / before</dt><dd>0.5 ×" in shown
    assert "⌈400 / (0.8 · 100 tokens/s)⌉ = 5 × 0.80 USD/h × 720 h = 2880.00 USD/month" in shown


@pytest.mark.parametrize(
    ("requests", "after", "effort", "verdict"),
    [
        (135_000, 110, 0, "Scale out"),  # still ⌈400/88⌉ = 5 replicas
        (135_000, 250, 30_000, "Scale out"),  # 1728 · 12 = 20736 is below the effort
        (3_375, 200, 0, "Not worth it at this traffic"),  # 10 of 100 tokens/s
        (20_250, 200, 0, "Keep it as it is"),  # 60 of 100 tokens/s
    ],
)
def test_every_other_verdict(services: Services, requests: int, after: int, effort: int, verdict: str) -> None:
    """The verdict of `lib.cost.compare` in words."""
    shown = compare_box.comparison_html(services, "", traffic(requests=requests), [effort, *side(rate=100), *side(rate=after)])
    assert f'<span class="figure">{verdict}</span>' in shown
    assert "not measured" in shown


def test_an_estimated_side_is_the_speed_estimate(services: Services) -> None:
    """The rate and its range are those of `/estimate_speed`, and a request takes at least its own time."""
    found = services.compare(LLAMA, {"hardware": "spaces:l4x1", "concurrency": 1}, {"hardware": "l4x1", "engine": "vllm", "concurrency": 8})
    speed = services.estimate_speed(LLAMA, "l4x1", engine="vllm", concurrency=8)
    after = found["after"]
    assert after["tokens_per_s"] == pytest.approx(speed["throughput_tokens_per_s"])
    assert (after["low"], after["high"]) == (speed["low"]["throughput_tokens_per_s"], speed["high"]["throughput_tokens_per_s"])
    assert speed["inter_token_s"] is not None
    assert after["latency_p50_s"] == pytest.approx(speed["ttft_s"] + 255 * speed["inter_token_s"])
    assert after["gpu_hours_per_million_tokens"] == pytest.approx(1e6 / 3600 / after["tokens_per_s"])
    assert found["before"]["usd_per_month"] == found["after"]["usd_per_month"] == pytest.approx(576)
    assert found["verdict"] == "fill_first"
    shown = compare_box.comparison_html(services, LLAMA, COST, [0, *side(engine="transformers", concurrency=1), *L4])
    assert "estimated, with the wait" in shown
    assert "no effort stated" in shown


def test_the_wait_counts_the_slots_of_all_replicas(services: Services) -> None:
    """Ten times the traffic on as many more replicas waits no longer: more slots share one queue."""
    asked = {"hardware": "l4x1", "engine": "vllm", "concurrency": 4}
    little = services.compare(LLAMA, asked, asked, requests_per_day=15_000)["after"]
    much = services.compare(LLAMA, asked, asked, requests_per_day=150_000)["after"]
    assert much["replicas"] > little["replicas"]
    assert little["latency_p99_s"] is not None
    assert much["latency_p99_s"] is not None
    assert much["latency_p99_s"] <= little["latency_p99_s"]


@pytest.mark.parametrize(
    ("model", "asked", "own", "sentence"),
    [
        (LLAMA, {}, [0, *side(hardware="t4-small", precision="fp32"), *L4], "Before: Nvidia T4"),
        (LLAMA, {}, [0, *L4, *side(hardware="nothing")], "After: "),
        (LLAMA, {}, [0, *L4, *side(hardware="zerogpu:zero-a10g")], "not rented by the hour"),
        (LLAMA, {}, [0, *L4, *side(engine="vllm-tpu")], "After: "),
        (LLAMA, {}, [0, *L4, *side(concurrency=None)], "After: concurrent requests was "),
        (LLAMA, {}, [-1, *L4, *L4], "effort in USD"),
        (LLAMA, {"hours": 0}, [0, *L4, *L4], "Hours a day is 0"),
        (LLAMA, {"requests": -5}, [0, *L4, *L4], "Requests a day was"),
        ("", {}, [0, *side(rate=10, p50=2, p99=1), *side(rate=1)], "at least the p50 latency of 2 s"),
        ("", {}, [0, *side(rate=1e-9), *side(rate=1)], "0.001 and more"),
        ("", {}, [0, *side(rate=float("nan")), *side(rate=1)], "measured tokens per second"),
        ("<img src=x>", {}, [0, *L4, *L4], "No comparison."),
    ],
)
def test_a_refusal_is_a_sentence(services: Services, model: str, asked: dict[str, Any], own: list[Any], sentence: str) -> None:
    """Whatever is wrong says so where the answer would stand, and as text."""
    shown = compare_box.comparison_html(services, model, traffic(**asked), own)
    assert 'role="alert"' in shown
    assert sentence in shown
    assert "<img" not in shown


def test_without_a_model_nothing_is_estimated(services: Services) -> None:
    """One side measured is not enough."""
    assert compare_box.CHOOSE in compare_box.comparison_html(services, "", COST, [*UNTYPED, *side(rate=5), *side(rate=None)])


def test_an_encoder_asks_for_a_measurement(services: Services) -> None:
    """A model that writes no tokens has no rate of answer tokens."""
    shown = compare_box.comparison_html(services, "sentence-transformers/all-MiniLM-L6-v2", COST, [0, *side(engine="transformers"), *L4])
    assert "Type the measured tokens per second" in shown


def test_its_events_are_private_and_named(services: Services) -> None:
    """No public endpoint is added."""
    events = {one["api_name"]: one for one in page.build_page(services).config["dependencies"]}
    assert events["compare_changed"]["api_visibility"] == "private"


def test_two_models_stand_side_by_side(services: Services) -> None:
    """Each side names its model, and the smaller one answers faster on the same card."""
    small = "Qwen/Qwen2.5-0.5B-Instruct"
    shown = compare_box.comparison_html(services, LLAMA, COST, [0, *side(), *side(model=small)])
    assert small in shown
    assert LLAMA in shown
    both = services.compare(LLAMA, {"hardware": "l4x1"}, {"hardware": "l4x1", "model": small})
    assert (both["before"]["model"], both["after"]["model"]) == (LLAMA, small)
    assert both["speed_ratio"] > 1
