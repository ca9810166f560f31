"""What the page's events do, as functions of plain values."""

from __future__ import annotations

from typing import Any

import gradio as gr
import pytest
from page_fake import LLAMA, FakeServices

from lib.service.app import Services
from lib.ui import cost_tab, memory_tab, model_field, page, recommend_tab
from lib.ui import fields as ask

RECOMMEND = [field.default for field in ask.RECOMMEND]
MEMORY = [field.default for field in ask.MEMORY]


@pytest.fixture
def services() -> Any:
    """Services with fixed answers."""
    return FakeServices()


def test_the_page_opens_with_an_example_answered(services: Any) -> None:
    """Without a link, the example model is answered on both tabs and no tab is forced."""
    tab, model, *values = page.answer_link(services, {})
    assert tab == {"__type__": "update"}
    assert model == LLAMA
    text = " ".join(value for value in values if isinstance(value, str))
    assert "1x Nvidia L4" in text
    assert "16.9 GiB" in text


def test_a_link_sets_the_tab_and_its_questions(services: Any) -> None:
    """A link to the Memory tab asks its own questions and leaves the other tab at its defaults."""
    tab, model, *values = page.answer_link(services, {"tab": "memory", "model": "openai-community/gpt2", "context": "8192", "batch": "2"})
    assert tab["selected"] == "memory"
    assert model == "openai-community/gpt2"
    asked = [question for name, question in services.asked if name == "estimate_memory"]
    assert any(question["context_tokens"] == 8192 and question["batch_size"] == 2 for question in asked)
    assert values[1]["value"] == 4096  # context of the tab Recommend
    assert values[len(RECOMMEND)]["value"] == 8192


def test_a_broken_link_says_what_was_not_used(services: Any) -> None:
    """A value that reads as nothing leaves the default and is named."""
    values = page.answer_link(services, {"tab": "memory", "context": "<b>", "batch": "-3"})
    assert any("context, batch" in value for value in values if isinstance(value, str))


def test_pictures_are_asked_for_sizes_and_text_for_a_context(whole: Services) -> None:
    """The fields of the other kind are not shown, and what they hold is not asked."""
    sizes = [512 if field.argument in {"width", "height"} else field.default for field in ask.MEMORY]
    for model, pictures in (("stabilityai/stable-diffusion-xl-base-1.0", True), ("Qwen/Qwen3-0.6B", False)):
        changed = page.model_changed(whole, model, "", [*RECOMMEND, *sizes])
        assert changed[-1]["visible"] is pictures
        assert changed[5]["visible"] is not pictures
        need = memory_tab.memory_markup(whole, model, sizes).need
        assert ("By stage" in need) is pictures
        assert 'role="alert"' not in need


def test_a_refused_model_is_said_once_and_nothing_is_guessed(services: Any) -> None:
    """An unknown model gives one sentence; both answers are cleared, and no question is asked about it."""
    facts, ref, *_, pick, _, _, _, _, _, _, _, _, _, need, tiers, explain, _, curve, _ = page.model_changed(
        services, "no/such", "", [*RECOMMEND, *MEMORY]
    )
    assert 'role="alert"' in facts
    assert "&#x27;no/such&#x27; is not a model." in facts
    assert (ref, tiers, curve, explain) == ("", "", None, "")
    assert recommend_tab.CHOOSE in pick
    assert memory_tab.CHOOSE in need
    assert services.asked == []


def test_a_pasted_config_goes_before_the_name(services: Any) -> None:
    """While the config field holds text, it is the model."""
    resolved = model_field.resolve(services, LLAMA, ' {"model_type": "llama"} ')
    assert resolved.reference == '{"model_type": "llama"}'


def test_a_context_beyond_the_model_is_cut_and_said(services: Any) -> None:
    """The sliders end where the model does, and the page says that it moved them."""
    values = [*RECOMMEND, *MEMORY]
    values[1] = 1_000_000
    facts, _, _, limit, slider, *_ = page.model_changed(services, LLAMA, "", values)
    assert (limit, slider["maximum"], slider["value"]) == (131_072, 131_072, 131_072)
    assert "longer than this model takes; it was set to 131,072 tokens" in facts


@pytest.mark.parametrize("limit", [1, 77, 448, 8_192, 40_960, ask.LONGEST_CONTEXT])
@pytest.mark.parametrize("value", [None, 1, 100, 448, 512, 4_096, 500_000])
def test_the_context_slider_holds_its_own_value(limit: int, value: int | None) -> None:
    """Gradio refuses every later event while a slider's value lies outside its range: after Whisper (448 tokens) the page stood still."""
    slider = model_field.context_slider(limit, value)
    assert 1 <= slider["minimum"] <= slider["value"] <= slider["maximum"] == limit
    assert value is None or slider["value"] == min(value, limit)


@pytest.mark.parametrize("context", ["100", "500000"])
def test_a_link_to_a_refused_model_leaves_the_sliders_usable(services: Any, context: str) -> None:
    """The model can be corrected afterwards: the sliders hold what the link asked for."""
    for tab, at in (("recommend", 1), ("memory", len(RECOMMEND))):
        _, _, *values = page.answer_link(services, {"tab": tab, "model": "", "context": context})
        assert values[at]["minimum"] <= values[at]["value"] == int(context) <= values[at]["maximum"]


def test_no_link_leads_outside_a_question(services: Any) -> None:
    """What a link may ask for, the question's own component takes."""
    with gr.Blocks():
        views = (recommend_tab.build(services), memory_tab.build(services), cost_tab.build(services))
    for view, fields in zip(views, (ask.RECOMMEND, ask.MEMORY, ask.COST), strict=True):
        for component, field in zip(view.inputs.all(), fields, strict=True):
            if isinstance(component, gr.Slider | gr.Number) and field.argument != "context_tokens":
                assert component.minimum <= field.low, field.name
                assert component.maximum is None or field.high <= component.maximum, field.name


def test_every_question_reaches_the_service_by_name(services: Any) -> None:
    """The tab's values arrive as the arguments of the public contract, platforms as a comma list."""
    values = ["auto", 8192, 4, "fp8", "cheapest", 1000, 8, 50, 10, "pro", 900, 300, 2.5, "vllm", "docker", ["spaces", "jobs"]]
    recommend_tab.recommend_markup(services, LLAMA, values)
    assert services.asked[0] == (
        "recommend",
        {
            "task": "auto",
            "context_tokens": 8192,
            "concurrency": 4,
            "precision": "fp8",
            "priority": "cheapest",
            "requests_per_day": 1000,
            "hours_per_day": 8,
            "max_usd_per_month": 50,
            "min_tokens_per_s": 10,
            "account": "pro",
            "prompt_tokens": 900,
            "output_tokens": 300,
            "max_ttft_s": 2.5,
            "engine": "vllm",
            "sdk": "docker",
            "platforms": "spaces,jobs",
        },
    )


def test_no_platform_is_an_error_in_words(services: Any) -> None:
    """Unticking everything asks for a tick and asks the services nothing."""
    shown = recommend_tab.recommend_markup(services, LLAMA, [*RECOMMEND[:-1], []])
    assert "Tick at least one" in shown.pick
    assert services.asked == []


def test_nothing_qualifying_is_said(services: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a pick there is a sentence with ways out, and the rejected stand below."""
    answer = services.recommend(LLAMA, context_tokens=4096) | {"pick": None, "ranked": []}
    monkeypatch.setattr(services, "recommend", lambda *_, **__: answer)
    shown = recommend_tab.recommend_markup(services, LLAMA, RECOMMEND)
    assert "Nothing listed qualifies" in shown.pick
    assert (shown.ranked.count("<table"), shown.rejected_count) == (0, 1)


def test_the_curve_spans_what_matters() -> None:
    """The curve reaches the model's limit for short models, four times the context for long ones, and holds the context itself."""
    assert memory_tab.choose_lengths(4096, 131_072)[-1] == 32_768
    assert memory_tab.choose_lengths(512, 1024)[-1] == 1024
    assert memory_tab.choose_lengths(50_000, 131_072)[-1] == 131_072
    assert 50_000 in memory_tab.choose_lengths(50_000, 131_072)


def test_suggestions_do_without_the_hub() -> None:
    """Bundled ids that hold every word come first; an unreachable Hub takes nothing away."""
    assert model_field.suggestions(FakeServices(), "qwen 8b") == ["Qwen/Qwen3-8B", "found/qwen 8b"]
    assert model_field.suggestions(FakeServices(hub=False), "qwen 8b") == ["Qwen/Qwen3-8B"]
    assert model_field.suggestions(FakeServices(), '{"model_type"') == []


def test_every_output_has_a_value(services: Any, whole: Services) -> None:
    """Each event returns exactly one value for each component it fills."""
    filled = {fn.api_name: len(fn.outputs) for fn in page.build_page(whole).fns.values()}
    assert len(page.answer_link(services, {})) == filled["page_opened"]
    for model in (LLAMA, "no/such", ""):
        assert len(page.model_changed(services, model, "", [*RECOMMEND, *MEMORY])) == filled["model_changed"]
    assert len(recommend_tab.recommend_markup(services, LLAMA, RECOMMEND).updates()) == filled["recommend_changed"]
    assert len(memory_tab.memory_markup(services, LLAMA, MEMORY).updates()) == filled["memory_changed"]
    curve = memory_tab.draw_curve(services, LLAMA, 131_072, MEMORY)
    assert len(memory_tab.curve_updates(curve)) == len(memory_tab.curve_updates(None)) == filled["curve_changed"]


def test_a_pasted_config_is_kept_by_no_state(services: Any) -> None:
    """A State lives on the server for as long as the session does; the text goes back to the visitor's page and nowhere else."""
    config = '{"model_type": "llama", "hidden_size": 4096}'
    with gr.Blocks():
        view = page.build_view(services)
    filled = list(zip(view.model_outputs(), page.model_changed(services, "", config, [*RECOMMEND, *MEMORY]), strict=True))
    assert [component for component, value in filled if value == config] == [view.model.reference.text]
    assert not [value for component, value in filled if isinstance(component, gr.State) and "llama" in str(value)]


def test_the_fingerprint_changes_with_the_model() -> None:
    """What follows the model listens to it: another model is another fingerprint, no model none."""
    given = [model_field.ModelReference.updates(reference) for reference in (LLAMA, "7B", LLAMA, "")]
    assert [reference for reference, _ in given] == [LLAMA, "7B", LLAMA, ""]
    fingerprints = [fingerprint for _, fingerprint in given]
    assert fingerprints[0] == fingerprints[2] != fingerprints[1]
    assert fingerprints[3] == ""
