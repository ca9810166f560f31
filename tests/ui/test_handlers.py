"""What the page's events do, as functions of plain values."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import gradio as gr
import page_values
import pytest
from page_fake import LLAMA, FakeServices

from lib.present.wording import page_note
from lib.service.app import Services
from lib.ui import cost_tab, memory_tab, model_field, page, recommend_tab
from lib.ui import fields as ask
from lib.ui.events import by_component, fill_outputs
from lib.ui.tabs import BOX_FIELDS
from lib.workload import LONGEST_CONTEXT

RECOMMEND = page_values.fill_form("recommend")
MEMORY = page_values.fill_form("memory")


def _open_link(services: Any, **params: str) -> dict[str, Any]:
    """What opening a link fills in: the fields by their names in a link."""
    return page.answer_link(services, params)


@pytest.fixture
def services() -> Any:
    """Services with fixed answers."""
    return FakeServices()


def test_the_page_opens_with_an_example_answered(services: Any) -> None:
    """Without a link, the example model is answered and no tab is forced."""
    opened = page.answer_link(services, {})
    assert "tabs" not in opened
    assert opened["model"] == LLAMA
    assert "1x Nvidia L4" in opened["ranked"]


def test_a_link_sets_the_tab_and_every_field(services: Any) -> None:
    """A link carries the workload and the fields of the tab; another tab than the first asks when it is shown."""
    opened = page.answer_link(services, {"tab": "memory", "model": "openai-community/gpt2", "context": "8192"})
    assert (opened["tabs"]["selected"], opened["model"]) == ("memory", "openai-community/gpt2")
    opened = _open_link(services, tab="memory", context="8192", concurrency="2", kv="fp8", hardware="spaces:l4x1")
    assert opened["context"]["value"] == 8192
    assert (opened["concurrency"], opened["kv"], opened["hardware"]) == (2, "fp8", "spaces:l4x1")
    assert services.questions == []


def test_a_link_of_a_pasted_config_says_so(services: Any) -> None:
    """It opens without a model, not with another one."""
    opened = page.answer_link(services, {"config": "pasted", "context": "8192"})
    assert opened["model"] == ""
    assert "Links do not carry" in opened["facts"]


def test_a_broken_link_says_what_was_not_used(services: Any) -> None:
    """A value that reads as nothing leaves the default and is named."""
    opened = page.answer_link(services, {"tab": "memory", "context": "<b>", "concurrency": "-3"})
    assert "context, concurrency" in opened["facts"]


def test_misspelt_parts_of_a_link_are_said(services: Any) -> None:
    """A tab that does not exist and a name near a known one; what a messenger or a proxy adds is passed over."""
    assert page.unknown_parts({"utm_source": "x", "__sign": "y", "model": "7B", "tab": "memory", "view": "api"}) == []
    tab, near = page.unknown_parts({"tab": "memroy", "concurency": "3"})
    assert tab.startswith("tab=memroy (the tabs are recommend, ")
    assert near == "concurency (did you mean concurrency?)"
    assert "concurency" in page.answer_link(services, {"concurency": "3"})["facts"]


def test_pictures_are_asked_for_sizes_and_text_for_a_context(real_app: Services) -> None:
    """Sizes and steps are shown for a pipeline, frames where it makes clips; another model sets them back, and a link cannot hide them."""
    sdxl, wan, text = "stabilityai/stable-diffusion-xl-base-1.0", "Wan-AI/Wan2.1-T2V-1.3B-Diffusers", "Qwen/Qwen3-0.6B"
    for model, shown in ((sdxl, [True, True, False]), (wan, [True, True, True]), (text, [False, False, False])):
        changed = page.model_changed(real_app, model, "", 4096)
        boxes = {name.removeprefix("shown:"): row["visible"] for name, row in changed.items() if name.startswith("shown:")}
        assert [boxes[name] for name in ("offload", "pictures", "clips")] == shown
        assert {boxes[name] for name in ("kv", "ngl", "solve", "context", "prompt", "answer")} == {not shown[0]}
        assert [changed.get("width") == 0, changed.get("guidance") == "auto", changed.get("frames") == 0] == [not one for one in shown]
    sizes = {"width": "512", "height": "512", "denoising": "20"}
    assert [_open_link(real_app, model=sdxl, **sizes)[name] for name in sizes] == [512, 512, 20]
    assert [_open_link(real_app, model=text, **sizes)[name] for name in sizes] == [0, 0, 0]
    assert "width, height, denoising" in page.answer_link(real_app, {"model": text, **sizes})["facts"]


def test_sizes_of_pictures_count_in_memory_cost_and_recommendation(real_app: Services) -> None:
    """A quarter of the pixels in 20 steps takes less memory, and a picture costs less."""
    model = "stabilityai/stable-diffusion-xl-base-1.0"
    small = {"width": 512, "height": 512, "denoising": 20}
    here = {"hardware": "spaces:l4x1", "beside": ["spaces"]}
    for answer in (
        lambda **asked: memory_tab.memory_updates(real_app, model, page_values.fill_form("memory", **asked))["need"],
        lambda **asked: cost_tab.cost_updates(real_app, model, page_values.fill_form("cost", **here, **asked))["bill"],
        lambda **asked: recommend_tab.recommend_updates(real_app, model, page_values.fill_form("recommend", **asked))["pick"],
    ):
        usual, less = answer(), answer(**small)
        assert 'role="alert"' not in usual + less
        assert usual != less
    assert "Per picture or clip" in cost_tab.cost_updates(real_app, model, page_values.fill_form("cost", **here, **small))["bill"]


def test_images_and_sound_are_asked_of_models_that_take_them(real_app: Services) -> None:
    """The row is shown for such a model alone; another one is asked without either, and the two pictures stand in the answer."""
    cases = (("Qwen/Qwen2.5-VL-7B-Instruct", [True, False]), ("openai/whisper-tiny", [False, True]), ("Qwen/Qwen3-0.6B", [False, False]))
    for model, taken in cases:
        changed = page.model_changed(real_app, model, "", 4096)
        assert [changed["shown:images"]["visible"], changed["shown:sound"]["visible"]] == taken
        assert ["images" not in changed, "sound" not in changed] == taken
    answers = [
        memory_tab.memory_updates(real_app, "Qwen/Qwen2.5-VL-7B-Instruct", page_values.fill_form("memory", images=n)) for n in (0, 2)
    ]
    assert "2, of 1,369 tokens each" in answers[1]["explain"]
    assert "of 1,369 tokens" not in answers[0]["explain"]


def test_a_refused_model_is_said_once_and_nothing_is_guessed(services: Any) -> None:
    """An unknown model gives one sentence; answers are cleared, and no question is asked about it."""
    changed = page.model_changed(services, "no/such", "", 4096)
    facts, ref = changed["facts"], changed["reference"]
    assert 'role="alert"' in facts
    assert "&#x27;no/such&#x27; is not a model." in facts
    assert ref == ""
    assert page_note("name_model:recommend") in recommend_tab.recommend_updates(services, ref, RECOMMEND)["pick"]
    assert page_note("name_model:memory") in memory_tab.memory_updates(services, ref, MEMORY)["need"]
    assert services.questions == []


def test_a_pasted_config_goes_before_the_name(services: Any) -> None:
    """While the config field holds text, it is the model."""
    resolved = model_field.resolve(services, LLAMA, ' {"model_type": "llama"} ')
    assert resolved.reference == '{"model_type": "llama"}'


def test_a_context_beyond_the_model_is_cut_and_said(services: Any) -> None:
    """The slider ends where the model does, and the page says that it moved it."""
    changed = page.model_changed(services, LLAMA, "", 1_000_000)
    slider = changed["context"]
    assert (changed["context_limit"], slider["maximum"], slider["value"]) == (131_072, 131_072, 131_072)
    assert "longer than this model takes; it was set to 131,072 tokens" in changed["facts"]


def test_a_context_that_the_last_model_cut_goes_back(services: Any) -> None:
    """Whisper takes 448 tokens; Llama after it is asked about the usual 4,096. A context that was chosen stays."""
    assert page.model_changed(services, LLAMA, "", 448, 448)["context"]["value"] == 4096
    assert page.model_changed(services, LLAMA, "", 1000, 448)["context"]["value"] == 1000
    assert page.model_changed(services, LLAMA, "", 32_768, 32_768)["context"]["value"] == 32_768


@pytest.mark.parametrize("limit", [1, 77, 448, 8_192, 40_960, LONGEST_CONTEXT])
@pytest.mark.parametrize("value", [None, 1, 100, 448, 512, 4_096, 500_000])
def test_the_context_slider_holds_its_own_value(limit: int, value: int | None) -> None:
    """Gradio refuses every later event while a slider's value lies outside its range: after Whisper (448 tokens) the page stood still."""
    slider = model_field.context_slider(limit, value)
    assert 1 <= slider["minimum"] <= slider["value"] <= slider["maximum"] == limit
    assert value is None or slider["value"] == min(value, limit)


@pytest.mark.parametrize("context", ["100", "500000"])
def test_a_link_to_a_refused_model_leaves_the_sliders_usable(services: Any, context: str) -> None:
    """The model can be corrected afterwards: the sliders hold what the link asked for."""
    slider = _open_link(services, model="", context=context)["context"]
    assert slider["minimum"] <= slider["value"] == int(context) <= slider["maximum"]


def test_no_link_leads_outside_a_question(services: Any) -> None:
    """What a link may ask for, the question's own component takes, and each component has its field."""
    with gr.Blocks():
        components = page.build_view(services).every()
    for component, field in zip(components, ask.ALL_FIELDS, strict=True):
        if isinstance(component, gr.Number) and component.elem_id:
            assert (component.elem_id, component.label) == (f"q-{field.name}", field.label)
            assert (component.minimum, component.maximum) == (None, None), "Gradio's own check would freeze the page"
        elif isinstance(component, gr.Slider) and field.name != "context":
            assert component.minimum <= field.low <= field.high <= component.maximum


def test_each_number_is_checked_beside_its_field(services: Any) -> None:
    """Those of the boxes too: the page's script is told each visible number's name, its range and its label."""
    known = {f"q-{name}": field for name, field in ask.FIELDS_BY_NAME.items()}
    known |= {f"q-{field.name}": field for fields in BOX_FIELDS.values() for field in fields}
    with gr.Blocks() as blocks:
        page.build_view(services)
    numbers = [one for one in blocks.blocks.values() if isinstance(one, (gr.Number, gr.Slider)) and (one.visible or one.elem_id)]
    assert {str(one.elem_id): one.label for one in numbers} == {name: field.label for name, field in known.items() if not field.choices}
    assert all(one.value == known[str(one.elem_id)].default for one in numbers)


def test_every_question_reaches_the_service_by_name(services: Any) -> None:
    """The values arrive as the arguments of the public contract: platforms as a comma list, an emptied number as its default."""
    values = page_values.fill_form("recommend", context=8192, requests=None, priority="cheapest", platforms=["spaces", "jobs"], ttft=2.5)
    recommend_tab.recommend_updates(services, LLAMA, values)
    name, sent = services.questions[0]
    assert name == "recommend"
    assert {field.argument for field in ask.QUESTION} - {"hardware", "cards", "host_memory"} == set(sent)
    assert (sent["context_tokens"], sent["requests_per_day"], sent["platforms"]) == (8192, 100, "spaces,jobs")
    assert (sent["priority"], sent["max_ttft_s"]) == ("cheapest", 2.5)


def test_no_platform_is_an_error_in_words(services: Any) -> None:
    """Unticking everything asks for a tick and asks the services nothing."""
    shown = recommend_tab.recommend_updates(services, LLAMA, page_values.fill_form("recommend", platforms=[]))
    assert "Tick at least one" in shown["pick"]
    assert services.questions == []


def test_nothing_qualifying_is_said(services: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a pick there is a sentence with ways out, and the rejected stand below."""
    answer = replace(services.recommend(LLAMA, context_tokens=4096), pick=None, ranked=())
    monkeypatch.setattr(services, "recommend", lambda *_, **__: answer)
    shown = recommend_tab.recommend_updates(services, LLAMA, RECOMMEND)
    assert "Nothing listed qualifies" in shown["pick"]
    assert (shown["ranked"].count("<table"), f"({len(answer.rejected)})" in shown["rejected_box"]["label"]) == (0, True)


def test_the_curve_spans_what_matters() -> None:
    """It reaches the model's limit, begins at a thousandth of it or at the context itself, and holds that; steps of a half at most."""
    for context, limit in ((4096, 131_072), (512, 1024), (50_000, 131_072), (448, 448), (1, 10_000_000), (2048, 1024)):
        lengths = memory_tab.choose_lengths(context, limit)
        assert (lengths[-1], context in lengths) == (max(context, limit), True)
        assert lengths[0] <= max(1, lengths[-1] // 512)
        assert lengths == sorted(set(lengths))
        assert all(later <= max(2, 1.5 * length) for length, later in itertools.pairwise(lengths))


def test_suggestions_do_without_the_hub() -> None:
    """Bundled ids that hold every word come first; an unreachable Hub takes nothing away."""
    assert model_field.suggestions(FakeServices(), "qwen 8b") == ["Qwen/Qwen3-8B", "found/qwen 8b"]
    assert model_field.suggestions(FakeServices(hub=False), "qwen 8b") == ["Qwen/Qwen3-8B"]
    assert model_field.suggestions(FakeServices(), '{"model_type"') == []


def test_every_answer_has_its_place_on_the_page(services: Any, real_app: Services) -> None:
    """An answer names outputs that the page has; an output without one is emptied, a box without one hidden."""
    with gr.Blocks():
        view = page.build_view(real_app)
    for link in ({}, {"tab": "cost"}, {"model": "no/such"}):
        assert by_component(view.outputs(), page.answer_link(services, link))[view.model.model] == link.get("model", LLAMA)
    for model in (LLAMA, "no/such", ""):
        changed = by_component(view.model_outputs(), page.model_changed(services, model, "", 4096))
        assert changed[view.model.reference.text] == (model if model == LLAMA else "")
    recommended = fill_outputs(view.views["recommend"].outputs, recommend_tab.recommend_updates(services, "", RECOMMEND))
    assert recommended[view.views["recommend"].outputs["front_box"]] == gr.update(visible=False)
    assert recommended[view.views["recommend"].outputs["ranked"]] == ""
    assert fill_outputs(view.views["recommend"].front, recommend_tab.front_updates(real_app, LLAMA, RECOMMEND))
    assert fill_outputs(view.views["memory"].outputs, memory_tab.memory_updates(real_app, LLAMA, MEMORY))
    curve = memory_tab.curve_updates(real_app, LLAMA, [131_072, *MEMORY])
    assert fill_outputs(view.views["memory"].curve, curve)[view.views["memory"].curve["chart"]] is not None
    assert "4,096" in curve["table"]
    assert "Cache" in curve["head"]
    with pytest.raises(KeyError, match="nowhere"):
        fill_outputs(view.views["recommend"].outputs, {"nowhere": ""})


def test_a_field_gets_its_value_and_is_hidden_at_once(services: Any) -> None:
    """A link names the offload of a pipeline; the field is one component, and Gradio takes one update of it."""
    with gr.Blocks():
        view = page.build_view(services)
    opened = by_component(view.outputs(), page.answer_link(services, {"kv": "fp8"}))
    assert opened[view.views["memory"].inputs["kv"]] == gr.update(value="fp8", visible=True)


def test_a_pasted_config_is_kept_by_no_state(services: Any) -> None:
    """A State lives on the server for as long as the session does; the text goes back to the visitor's page and nowhere else."""
    config = '{"model_type": "llama", "hidden_size": 4096}'
    with gr.Blocks():
        view = page.build_view(services)
    filled = by_component(view.model_outputs(), page.model_changed(services, "", config, 4096))
    assert [component for component, value in filled.items() if value == config] == [view.model.reference.text]
    assert not [value for component, value in filled.items() if isinstance(component, gr.State) and "llama" in str(value)]


def test_named_hardware_has_a_card_with_its_limits(real_app: Services) -> None:
    """A rented tier that runs the model, one that does not, and none that is named."""
    shown = recommend_tab.checked(real_app, LLAMA, page_values.fill_form("recommend", hardware="spaces:t4-small"))
    assert "On Nvidia T4 - small: runs in " in shown
    assert "<dt>Longest context</dt>" in shown
    refused = recommend_tab.checked(real_app, LLAMA, page_values.fill_form("recommend", hardware="spaces:cpu-basic"))
    assert "On CPU Basic: does not run" in refused
    assert "Too slow on 2 virtual CPUs" in refused
    assert recommend_tab.checked(real_app, LLAMA, page_values.fill_form("recommend")) == ""


def test_where_nothing_qualifies_the_budget_is_counted_in_hours(real_app: Services) -> None:
    """$500 of the $1,800 that the cheapest costs is 6.6 of 24 hours a day."""
    values = page_values.fill_form("recommend", concurrency=20, budget=500.0)
    shown = recommend_tab.recommend_updates(real_app, "meta-llama/Llama-3.3-70B-Instruct", values)["pick"]
    assert "$1,800 a month is the cheapest that fits (Nvidia A100 - large); your $500 pays 6.6 hours a day." in shown


def test_a_card_shows_at_most_five_reasons_and_the_table_the_same(real_app: Services) -> None:
    """Figures of the card are not said again; grounds of the quota are folded, and are printed once on the page."""
    updates = recommend_tab.recommend_updates(real_app, LLAMA, page_values.fill_form("recommend"))
    first = updates["pick"].partition('<ul class="why">')[2].partition("</ul>")[0]
    assert 1 < first.count("<li>") <= 5
    assert "of its memory is free" not in first
    assert (updates["pick"] + updates["ranked"]).count("<li>A call reserves the duration that it declares") == 1
