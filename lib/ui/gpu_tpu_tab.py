"""The tab *GPU or TPU*: a short form on the left; verdict, options, the table to read and recipes on the right."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import gradio as gr

from lib.errors import AdvisorError
from lib.present import gpu_tpu_cards
from lib.present.cards import answer_details, model_name, old_prices_note
from lib.present.live_cards import progress_line
from lib.present.markup import answer_actions, no_model_note
from lib.present.tables import answer_json
from lib.present.wording import page_note
from lib.service.compare_gpu_tpu import OF_WORKLOAD, compare_gpu_tpu
from lib.ui import fields as ask
from lib.ui import workload
from lib.ui.events import FormView, Panel, Tab, Updates, Wiring
from lib.ui.fields import Value
from lib.ui.workload import link_query

if TYPE_CHECKING:
    from lib.service.app import Services

FLAGS = {"never": "static_shapes", "buckets": "shape_changes", "every_step": "dynamic_shapes"}
"""How often shapes change, as the flag of the API."""


def build(services: Services) -> FormView:
    """The layout of the tab."""
    with gr.Row(elem_classes="two"):
        with gr.Column(scale=1, min_width=280, elem_classes="controls"):
            workload.fold_button("Framework, shapes, place", ".controls")
            inputs = _inputs(services)
        with gr.Column(scale=3, min_width=320, elem_classes="answers"):
            verdict = gr.HTML(progress_line(page_note("answering")), elem_id="choice")
            options = gr.HTML(elem_id="tpu-options")
            with gr.Accordion("Recipes to copy", open=False, elem_classes="quiet-accordion", elem_id="recipes"):
                recipes = gr.HTML()
            with gr.Accordion(
                "Slices of Cloud TPU; GPU and TPU side by side; retired TPU tiers",
                open=False,
                elem_classes="quiet-accordion",
                elem_id="sides",
            ):
                table = gr.HTML()
            sources = gr.HTML()
    outputs = {"verdict": verdict, "options": options, "table": table, "recipes": recipes, "sources": sources}
    return FormView(inputs=inputs, outputs=outputs)


def _inputs(services: Services) -> workload.Inputs:
    q: workload.Inputs = {"phase": gr.Radio(list(ask.PHASE_WORDS), value="inference", label="Use", elem_classes="segments")}
    q["framework"] = gr.Dropdown(list(ask.FRAMEWORK_WORDS), value="pytorch", label="Framework", min_width=120, elem_classes="half")
    q["needs"] = gr.Dropdown(list(ask.PRECISION_NEEDED), value="auto", label="Precision needed", min_width=120, elem_classes="half")
    q["shapes"] = gr.Dropdown(list(ask.SHAPE_WORDS), value="not_stated", label="Shapes change", min_width=120, elem_classes="half")
    q["kernels"] = gr.Dropdown(list(ask.KERNEL_WORDS), value="none", label="Own kernels", min_width=120, elem_classes="half")
    q["places"] = gr.CheckboxGroup(list(ask.PLACE_WORDS), value=[], label="Where it runs", elem_classes="plain-choices")
    q["traits"] = gr.CheckboxGroup(list(ask.TRAIT_WORDS), value=[], label="Special requirements", elem_classes="plain-choices")
    with gr.Accordion("Scale, team, budget", open=False, elem_classes="quiet-accordion"):
        q["batches"] = gr.Dropdown(list(ask.BATCH_WORDS), value="not_stated", label="Batches")
        q["chips"], q["steps"] = workload.number("chips", "0: not stated"), workload.number("steps", "0: not stated")
        q["team"] = gr.Dropdown(list(ask.TEAM_WORDS), value="not_stated", label="The team knows")
        q["spend"] = gr.Dropdown(list(ask.BUDGET_WORDS), value="not_stated", label="Budget")
    with gr.Accordion("TPU prices", open=False, elem_classes="quiet-accordion"):
        q["region"] = gr.Dropdown(ask.tpu_regions(services.catalog()), value="us-central1", label="Region")
        q["commitment"] = gr.Dropdown(list(ask.COMMITMENT_WORDS), value="on_demand", label="TPU price")
        claim = "Add TorchTPU's claimed speed as a what-if"
        q["claim"] = gr.Radio([("No", "no"), ("Yes", "yes")], value="no", label=claim, elem_classes="segments")
    return workload.in_order(ask.GPU_TPU, q)


def asked_arguments(values: Sequence[Value]) -> dict[str, Any]:
    """The workload and the form as arguments of the API: several triggers as a flag each."""
    arguments = workload.recommend_arguments(values)
    pairs = zip(ask.GPU_TPU, values[len(ask.QUESTION) :], strict=True)
    form = {field.argument: field.default if value is None else value for field, value in pairs}
    form |= {name: arguments[name] for name in ("max_ttft_s", *OF_WORKLOAD.names.split())}
    if form["precision"] == "auto" and arguments["precision"] in {word for _, word in ask.PRECISION_NEEDED}:
        form["precision"] = arguments["precision"]
    ticked = [*_words(form.pop("places")), *_words(form.pop("traits"))]
    shapes = str(form.pop("shapes"))
    flags = dict.fromkeys([*ticked, *([FLAGS[shapes]] if shapes in FLAGS else [])], True)
    return {**form, "torchtpu_claim": form["torchtpu_claim"] == "yes", **flags}


def _words(value: Value) -> list[str]:
    return value if isinstance(value, list) else []


def gpu_tpu_updates(services: Services, model: str, values: Sequence[Value]) -> Updates:
    """Ask, and word the answer; a refusal becomes a sentence."""
    try:
        answer = services[compare_gpu_tpu](model, **asked_arguments(values))
    except AdvisorError as refused:
        return {"verdict": ask.format_error(refused, "No comparison.")}
    name = model_name(answer.model, model) if model else ""
    acts = answer_actions(
        text=gpu_tpu_cards.verdict_text(answer, name),
        query=link_query("tpu", model, (*ask.QUESTION, *ask.GPU_TPU), values),
        files=(("Download JSON", "gpu-or-tpu.json", "application/json", answer_json(answer)),),
    )
    without = "" if model else no_model_note("tpu")
    return {
        "verdict": gpu_tpu_cards.verdict_card(answer, name)
        + acts
        + old_prices_note(services.prices())
        + gpu_tpu_cards.reasons_table(answer)
        + without,
        "options": gpu_tpu_cards.options_table(answer) + gpu_tpu_cards.region_table(answer),
        "table": gpu_tpu_cards.generations_table(answer)
        + gpu_tpu_cards.options_notes(answer)
        + gpu_tpu_cards.side_by_side_table(answer)
        + gpu_tpu_cards.retired_table(answer),
        "recipes": gpu_tpu_cards.recipe_boxes(answer),
        "sources": answer_details(answer),
    }


def wire(view: FormView, page: Wiring) -> None:
    """It answers while its tab is shown."""
    page.follow("tpu", gpu_tpu_updates, [*page.question, *view.inputs.values()], view.outputs, "gpu_tpu_changed")


TAB = Tab(name="tpu", word="GPU or TPU", panels=(Panel("tpu"),), build=build, wire=wire)
