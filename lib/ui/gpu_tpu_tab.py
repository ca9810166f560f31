"""The tab *GPU or TPU*: a short form on the left; verdict, options, the table to read and recipes on the right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import gradio as gr

from lib.errors import AdvisorError
from lib.present.cards import caveat_list, model_name, source_list
from lib.present.gpu_tpu_cards import (
    generations_table,
    options_notes,
    options_table,
    reasons_table,
    recipe_boxes,
    region_table,
    retired_table,
    side_by_side_table,
    verdict_card,
    verdict_text,
)
from lib.present.markup import answer_actions, hint_note, refusal_note
from lib.present.tables import answer_json
from lib.ui import fields as ask
from lib.ui.events import AT_ONCE, changes, follow
from lib.ui.fields import Value, link_query
from lib.ui.model_field import ModelReference

if TYPE_CHECKING:
    from gradio.events import Dependency

    from lib.service.app import Services

FLAGS = {"never": "static_shapes", "buckets": "shape_changes", "every_step": "dynamic_shapes"}
"""How often shapes change, as the flag of the API."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuTpuInputs:
    """The questions, in the order of `lib.ui.fields.GPU_TPU`."""

    phase: gr.Radio
    framework: gr.Dropdown
    shapes: gr.Dropdown
    kernels: gr.Dropdown
    precision: gr.Dropdown
    places: gr.CheckboxGroup
    traits: gr.CheckboxGroup
    batch: gr.Dropdown
    chips: gr.Number
    steps: gr.Number
    team: gr.Dropdown
    budget: gr.Dropdown
    context: gr.Number
    concurrency: gr.Number
    ttft: gr.Number
    region: gr.Dropdown
    commitment: gr.Dropdown
    claim: gr.Radio

    def all(self) -> list[Any]:
        """Every input, in order."""
        return [getattr(self, field.name) for field in fields(self)]


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuTpuView:
    """Inputs and outputs of the tab. `shown`: whether it was opened, from when on it follows the model above."""

    inputs: GpuTpuInputs
    verdict: gr.HTML
    options: gr.HTML
    table: gr.HTML
    recipes: gr.HTML
    sources: gr.HTML
    shown: gr.State

    def outputs(self) -> list[Any]:
        """Where an answer goes, in the order of `GpuTpuMarkup.updates`."""
        return [self.verdict, self.options, self.table, self.recipes, self.sources]


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuTpuMarkup:
    """An answer as markup."""

    verdict: str
    options: str = ""
    table: str = ""
    recipes: str = ""
    sources: str = ""

    def updates(self) -> list[Any]:
        """One value for each of `GpuTpuView.outputs`."""
        return [self.verdict, self.options, self.table, self.recipes, self.sources]


def build(services: Services) -> GpuTpuView:
    """The layout of the tab."""
    with gr.Row(elem_classes="two"):
        with gr.Column(scale=1, min_width=280, elem_classes="controls"):
            inputs = _inputs(services)
        with gr.Column(scale=3, min_width=320, elem_classes="answers"):
            verdict = gr.HTML(elem_id="choice")
            options = gr.HTML(elem_id="tpu-options")
            with gr.Accordion("Recipes to copy", open=False, elem_classes="quiet-accordion", elem_id="recipes"):
                recipes = gr.HTML()
            with gr.Accordion("GPU and TPU side by side; retired TPU tiers", open=False, elem_classes="quiet-accordion", elem_id="sides"):
                table = gr.HTML()
            with gr.Accordion("Open points and sources", open=False, elem_classes="quiet-accordion"):
                sources = gr.HTML()
    return GpuTpuView(
        inputs=inputs, verdict=verdict, options=options, table=table, recipes=recipes, sources=sources, shown=gr.State(value=False)
    )


def _inputs(services: Services) -> GpuTpuInputs:
    phase = gr.Radio(list(ask.PHASE_WORDS), value="inference", label="Use", elem_classes="segments")
    with gr.Row(elem_classes="pair"):
        framework = gr.Dropdown(list(ask.FRAMEWORK_WORDS), value="pytorch", label="Framework", min_width=120)
        precision = gr.Dropdown(list(ask.PRECISION_NEEDED), value="bf16", label="Precision needed", min_width=120)
    with gr.Row(elem_classes="pair"):
        shapes = gr.Dropdown(list(ask.SHAPE_WORDS), value="not_stated", label="Shapes change", min_width=120)
        kernels = gr.Dropdown(list(ask.KERNEL_WORDS), value="none", label="Own kernels", min_width=120)
    places = gr.CheckboxGroup(list(ask.PLACE_WORDS), value=[], label="Where it runs", elem_classes="plain-choices")
    traits = gr.CheckboxGroup(list(ask.TRAIT_WORDS), value=[], label="What is true of it", elem_classes="plain-choices")
    with gr.Accordion("Scale, team, budget", open=False, elem_classes="quiet-accordion"):
        batch = gr.Dropdown(list(ask.BATCH_WORDS), value="not_stated", label="Batches")
        chips = gr.Number(0, label="Chips or cards together", info="0: not stated.", minimum=0, precision=0)
        steps = gr.Number(0, label="Training steps", info="0: not stated.", minimum=0, precision=0)
        team = gr.Dropdown(list(ask.TEAM_WORDS), value="not_stated", label="The team knows")
        budget = gr.Dropdown(list(ask.BUDGET_WORDS), value="not_stated", label="Budget")
    with gr.Accordion("Requests and TPU prices", open=False, elem_classes="quiet-accordion"):
        context = gr.Number(4096, label="Context, tokens", minimum=1, maximum=ask.LONGEST_CONTEXT, precision=0)
        concurrency = gr.Number(8, label="Concurrent requests", minimum=1, maximum=ask.MOST_AT_ONCE, precision=0)
        ttft = gr.Number(0, label="Limit on time to first token, s", info="0 sets no limit.", minimum=0)
        region = gr.Dropdown(ask.tpu_regions(services.catalog()), value="us-central1", label="Region")
        commitment = gr.Dropdown(list(ask.COMMITMENT_WORDS), value="on_demand", label="TPU price")
        claim = gr.Radio(
            [("No", "no"), ("Yes", "yes")], value="no", label="Add TorchTPU's claimed speed as a what-if", elem_classes="segments"
        )
    return GpuTpuInputs(
        phase=phase,
        framework=framework,
        shapes=shapes,
        kernels=kernels,
        precision=precision,
        places=places,
        traits=traits,
        batch=batch,
        chips=chips,
        steps=steps,
        team=team,
        budget=budget,
        context=context,
        concurrency=concurrency,
        ttft=ttft,
        region=region,
        commitment=commitment,
        claim=claim,
    )


def asked_arguments(values: Sequence[Value]) -> dict[str, Any]:
    """The form as arguments of the API: several ticks as a flag each, an emptied number as its default."""
    named = {field.argument: field.default if value is None else value for field, value in zip(ask.GPU_TPU, values, strict=True)}
    ticked = [*_words(named.pop("places")), *_words(named.pop("traits"))]
    shapes = str(named.pop("shapes"))
    flags = dict.fromkeys([*ticked, *([FLAGS[shapes]] if shapes in FLAGS else [])], True)
    return {**named, "torchtpu_claim": named["torchtpu_claim"] == "yes", **flags}


def _words(value: Value) -> list[str]:
    return value if isinstance(value, list) else []


def gpu_tpu_markup(services: Services, model: str, values: Sequence[Value]) -> GpuTpuMarkup:
    """Ask, and word the answer; a refusal becomes a sentence."""
    try:
        answer = services.compare_gpu_tpu(model, **asked_arguments(values))
    except AdvisorError as refused:
        return GpuTpuMarkup(verdict=refusal_note(str(refused)))
    name = model_name(answer["model"], model) if model else ""
    acts = answer_actions(
        text=verdict_text(answer, name),
        query=link_query("tpu", model, ask.GPU_TPU, values),
        files=(("Download JSON", "gpu-or-tpu.json", "application/json", answer_json(answer)),),
    )
    without = "" if model else hint_note("Name a model above to see what it takes on slices of TPU, and what that costs.")
    return GpuTpuMarkup(
        verdict=verdict_card(answer, name) + acts + reasons_table(answer) + without,
        options=options_table(answer) + options_notes(answer) + generations_table(answer) + region_table(answer),
        table=side_by_side_table(answer) + retired_table(answer),
        recipes=recipe_boxes(answer),
        sources=caveat_list(answer["caveats"]) + source_list(answer["sources"]),
    )


def wire(view: GpuTpuView, tab: gr.Tab, services: Services, model: ModelReference, opening: Dependency) -> None:
    """It answers when it is opened, by a click or by a link, and from then on when a question or the model changes."""
    inputs = [model.text, *view.inputs.all()]

    def answer(ref: str, *values: Value) -> list[Any]:
        return gpu_tpu_markup(services, ref, values).updates()

    def show(ref: str, *values: Value) -> list[Any]:
        return [True, *answer(ref, *values)]

    def update(shown: bool, ref: str, *values: Value) -> list[Any]:
        return answer(ref, *values) if shown else [gr.skip() for _ in view.outputs()]

    follow(changes(view.inputs.all()), answer, inputs, view.outputs(), "gpu_tpu_changed")
    tab.select(show, inputs, [view.shown, *view.outputs()], api_name="gpu_tpu_shown", **AT_ONCE)
    opening.then(update, [view.shown, *inputs], view.outputs(), api_name="gpu_tpu_opened", **AT_ONCE)
    follow([model.fingerprint.change], update, [view.shown, *inputs], view.outputs(), "gpu_tpu_followed")
