"""The tab *GPU or TPU*: values in, markup out, with the real services and no network."""

from __future__ import annotations

from functools import partial
from urllib.parse import parse_qs

import page_values
import pytest
from space_fake import status

from lib.present.numbers import usd
from lib.service.app import Services
from lib.ui import fields as ask
from lib.ui import page, workload
from lib.ui.gpu_tpu_tab import asked_arguments, gpu_tpu_updates
from lib.ui.space_actions import tpu_link

LLAMA = "meta-llama/Llama-3.1-8B-Instruct"
fill_form = partial(page_values.fill_form, "tpu")
DEFAULTS = fill_form()


@pytest.mark.parametrize("model", [LLAMA, "", "7B", "openai/whisper-large-v3", "{not a config"])
def test_every_output_has_a_value(real_app: Services, model: str) -> None:
    """With a model, without one, with one that no slice runs, and with nonsense."""
    assert gpu_tpu_updates(real_app, model, DEFAULTS)["verdict"]


def test_the_form_becomes_the_flags_of_the_api() -> None:
    """RefreshTriggers are flags, shapes are one of three, an emptied number is its default."""
    sent = asked_arguments(
        fill_form(places=["on_gcp", "regulated"], traits=["latency_sensitive"], shapes="buckets", chips=None, claim="yes")
    )
    flags = {"on_gcp", "regulated", "latency_sensitive", "shape_changes", "torchtpu_claim"}
    assert {name for name, value in sent.items() if value is True} == flags
    assert sent["chips_at_scale"] == 0
    assert asked_arguments(DEFAULTS)["torchtpu_claim"] is False


def test_the_workload_says_what_the_form_leaves_open() -> None:
    """Context, concurrency and precision are those of the page; a precision that the form states goes first."""
    sent = asked_arguments(fill_form(context=9000, concurrency=3, precision="fp8"))
    assert (sent["context_tokens"], sent["concurrency"], sent["precision"]) == (9000, 3, "fp8")
    assert asked_arguments(fill_form(precision="fp8", needs="fp64"))["precision"] == "fp64"
    assert asked_arguments(fill_form(precision="gguf:Q4_K_M"))["precision"] == "auto"


@pytest.mark.parametrize("field", [field for field in ask.GPU_TPU if field.choices], ids=lambda field: field.name)
def test_every_choice_is_one_that_the_api_takes(real_app: Services, field: ask.Field) -> None:
    """No word of the form is refused."""
    for choice in field.choices:
        value = [choice] if isinstance(field.default, list) else choice
        real_app.compare_gpu_tpu("", **asked_arguments(fill_form(**{field.name: value})))


def test_a_constraint_is_told_apart(real_app: Services) -> None:
    """In one's own data centre: a GPU, by a constraint, whatever else speaks for a TPU."""
    shown = gpu_tpu_updates(real_app, LLAMA, fill_form(places=["on_prem"], framework="jax", chips=512))
    assert "Choose a GPU" in shown["verdict"]
    assert "No TPU meets 1 requirement." in shown["verdict"]
    assert "<strong>constraint</strong>" in shown["verdict"]


def test_options_regions_and_retired_tiers_are_there(real_app: Services) -> None:
    """Slices beside GPU offers, prices by region, and the tiers that are gone with their last price and successor."""
    shown = gpu_tpu_updates(real_app, LLAMA, fill_form(commitment="spot", claim="yes"))
    for text in ("v6e-1", "TPU prices: us-central1, spot", "$0.54", "europe-west4", "what if:", "int8-channel with vllm-tpu"):
        assert text in shown["options"]
    for text in ("Chips needed", "v5e-2x2", "$1.375", "$5.50", "2025-04-02", "v5litepod-4", "gcp-tpu-2x4", "$9.50"):
        assert text in shown["table"]
    assert "vllm serve" in shown["recipes"]


def test_the_verdict_names_the_price_of_both_sides(real_app: Services) -> None:
    """The lowest price on each side, as the options have it; the order of the table is that of prices."""
    shown = gpu_tpu_updates(real_app, LLAMA, DEFAULTS)
    options = real_app.compare_gpu_tpu(LLAMA, **asked_arguments(DEFAULTS)).options
    for kind in ("gpu", "tpu"):
        best = min((one for one in options if one.kind == kind), key=lambda one: one.usd_per_million_output_tokens or 1e9)
        assert f"({best.name}) " in shown["verdict"]
        assert usd(best.usd_per_million_output_tokens or 0) in shown["verdict"]
    cheapest = min(options, key=lambda one: one.usd_per_million_output_tokens or 1e9)
    assert cheapest.hardware in shown["options"].partition("<tbody")[2].partition("</tr>")[0]


def test_what_comes_from_outside_is_escaped(real_app: Services) -> None:
    """A model that is markup stays text."""
    assert "<script>" not in "".join(gpu_tpu_updates(real_app, "<script>alert(1)</script>/x", DEFAULTS).values())


def test_a_link_repeats_the_question(real_app: Services) -> None:
    """The page that a link opens has its values in the form, and the tab answers."""
    values = fill_form(framework="jax", places=["on_gcp", "multi_cloud"], chips=256, region="europe-west4")
    query = workload.link_query("tpu", LLAMA, page_values.fields_of("tpu"), values)
    assert query is not None
    params = {name: found[0] for name, found in parse_qs(query[1:]).items()}
    opened = page.answer_link(real_app, params)
    every = opened
    assert [every[field.name] for field in page_values.fields_of("tpu")][1:] == values[1:]
    assert opened["tabs"]["selected"] == "tpu"


def test_my_space_links_to_its_model() -> None:
    """Of a public Space with a model; the models of a private one are not put into an address."""
    assert 'href="?tab=tpu&amp;model=a%2Fb%26c"' in tpu_link(status(private=False, models=("a/b&c",)))
    assert tpu_link(status(private=True, models=("a/b&c",))) == ""
    assert tpu_link(status(private=False, models=())) == ""
