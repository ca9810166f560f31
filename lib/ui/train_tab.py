"""The tab *Fine-tune*: how it is trained on the left; what a step takes, hardware with hours and dollars, what to change on the right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import gradio as gr

from lib.errors import AdvisorError
from lib.present.cards import caveat_list, model_name, source_list
from lib.present.markup import answer_actions, hint_note
from lib.present.tables import answer_json
from lib.present.training_cards import changes_table, options_csv, options_table, recipe, training_card, training_text
from lib.ui import fields as ask
from lib.ui import workload
from lib.ui.events import Ticks, follow
from lib.ui.fields import Value
from lib.ui.model_field import ModelReference
from lib.ui.workload import link_query

if TYPE_CHECKING:
    from lib.service.app import Services

CHOOSE = "Name a model above to see what it takes to fine-tune it."


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainInputs:
    """The questions, in the order of `lib.ui.fields.TRAIN`."""

    method: gr.Radio
    sequence: gr.Number
    batch: gr.Number
    accumulation: gr.Number
    rows: gr.Number
    row: gr.Number
    epochs: gr.Number
    where: gr.CheckboxGroup
    rank: gr.Number
    modules: gr.Dropdown
    optimizer: gr.Dropdown
    precision: gr.Dropdown
    checkpointing: gr.Dropdown
    attention: gr.Dropdown
    packing: gr.Radio
    stack: gr.Dropdown
    loss: gr.Dropdown
    scales: gr.Radio
    sharding: gr.Dropdown
    devices: gr.Number

    def all(self) -> list[Any]:
        """Every input, in order."""
        return [getattr(self, field.name) for field in fields(self)]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainView:
    """Inputs and outputs of the tab."""

    inputs: TrainInputs
    need: gr.HTML
    options: gr.HTML
    recipe: gr.HTML
    sources: gr.HTML

    def outputs(self) -> list[Any]:
        """Where an answer goes, in the order of `TrainMarkup.updates`."""
        return [self.need, self.options, self.recipe, self.sources]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainMarkup:
    """An answer as markup."""

    need: str
    options: str = ""
    recipe: str = ""
    sources: str = ""

    def updates(self) -> list[Any]:
        """One value for each of `TrainView.outputs`."""
        return [self.need, self.options, self.recipe, self.sources]


def build() -> TrainView:
    """The layout of the tab."""
    with gr.Row(elem_classes="two"):
        with gr.Column(scale=1, min_width=280, elem_classes="controls"):
            workload.fold_button("Method, dataset, optimizer, GPUs", ".controls")
            inputs = _inputs()
        with gr.Column(scale=3, min_width=320, elem_classes="answers"):
            need = gr.HTML(elem_id="training")
            options = gr.HTML(elem_id="training-hardware")
            with gr.Accordion("Script and command for Jobs", open=False, elem_classes="quiet-accordion", elem_id="training-recipe"):
                recipe_box = gr.HTML()
            with gr.Accordion("Assumptions and sources", open=False, elem_classes="quiet-accordion"):
                sources = gr.HTML()
    return TrainView(inputs=inputs, need=need, options=options, recipe=recipe_box, sources=sources)


def _inputs() -> TrainInputs:
    method = gr.Radio(list(ask.METHOD_WORDS), value="lora", label="Method", elem_classes="segments")
    with gr.Row(elem_classes="pair"):
        sequence = workload.number("sequence")
        batch = workload.number("microbatch")
    with gr.Row(elem_classes="pair"):
        rows = workload.number("rows")
        row = workload.number("row")
    with gr.Row(elem_classes="pair"):
        epochs = workload.number("epochs", step=0.1)
        accumulation = workload.number("accumulation")
    where = gr.CheckboxGroup(list(ask.TRAINING_PLACES), value=["spaces", "jobs"], label="Where", elem_classes="plain-choices")
    with gr.Accordion("Adapters, optimizer, precision", open=False, elem_classes="quiet-accordion"):
        rank = workload.number("rank")
        modules = gr.Dropdown(
            list(ask.MODULE_WORDS),
            value="all-linear",
            label="Target modules",
            info="Or module names, separated by commas.",
            allow_custom_value=True,
        )
        optimizer = gr.Dropdown(list(ask.OPTIMIZER_WORDS), value="adamw", label="Optimizer")
        precision = gr.Dropdown(list(ask.TRAINING_PRECISION_WORDS), value="mixed", label="Precision")
        checkpointing = gr.Dropdown(list(ask.CHECKPOINTING_WORDS), value="layers", label="Gradient checkpointing")
    with gr.Accordion("Stack and several GPUs", open=False, elem_classes="quiet-accordion"):
        stack = gr.Dropdown(list(ask.STACK_WORDS), value="trl", label="Stack")
        loss = gr.Dropdown([("Automatic", "auto"), ("Yes", "yes"), ("No", "no")], value="auto", label="Fused loss")
        attention = gr.Dropdown(list(ask.ATTENTION_WORDS), value="sdpa", label="Attention kernel")
        packing = gr.Radio([("Yes", "yes"), ("No", "no")], value="yes", label="Packing", elem_classes="segments")
        scales = gr.Radio([("Yes", "yes"), ("No", "no")], value="yes", label="QLoRA: double quantization", elem_classes="segments")
        sharding = gr.Dropdown(list(ask.SHARDING_WORDS), value="none", label="Sharding")
        devices = workload.number("gpus", "Hardware with several GPUs trains on all of them.")
    return TrainInputs(
        method=method, sequence=sequence, batch=batch, accumulation=accumulation, rows=rows, row=row, epochs=epochs, where=where, rank=rank,
        modules=modules, optimizer=optimizer, precision=precision, checkpointing=checkpointing, attention=attention, packing=packing,
        stack=stack, loss=loss, scales=scales, sharding=sharding, devices=devices,
    )  # fmt: skip


def asked_arguments(values: Sequence[Value]) -> dict[str, Any]:
    """The form as arguments of the API: an emptied field as its default, two devices where sharding is asked of one."""
    filled = [field.default if value is None or value == [] else value for field, value in zip(ask.TRAIN, values, strict=True)]
    arguments = ask.arguments(ask.TRAIN, filled)
    shared = arguments["sharding"] != "none"
    devices = max(2, int(arguments["devices"])) if shared else 1
    choices = {name: arguments[name] == "yes" for name in ("packing", "double_quantization")}
    return {**arguments, **choices, "devices": devices}


def train_markup(services: Services, model: str, values: Sequence[Value]) -> TrainMarkup:
    """Ask, and word the answer; a refusal becomes a sentence."""
    if not model:
        return TrainMarkup(need=hint_note(CHOOSE))
    try:
        answer = services.estimate_training(model, **asked_arguments(values))
    except AdvisorError as refused:
        return TrainMarkup(need=ask.word_refusal(refused, "No training estimate."))
    name = model_name(answer["model"], model)
    acts = answer_actions(
        text=training_text(answer, name),
        query=link_query("train", model, ask.TRAIN, values),
        files=(
            ("Download JSON", "fine-tuning.json", "application/json", answer_json(answer)),
            ("Download CSV", "fine-tuning.csv", "text/csv", options_csv(answer["options"])),
        ),
    )
    return TrainMarkup(
        need=training_card(answer, name) + acts,
        options=options_table(answer["options"]) + changes_table(answer["changes"]),
        recipe=recipe(answer),
        sources=caveat_list(answer["caveats"]) + source_list(answer["sources"]),
    )


def wire(view: TrainView, services: Services, model: ModelReference, ticks: Ticks) -> None:
    """It answers while its tab is shown."""

    def answer(ref: str, *values: Value) -> list[Any]:
        return train_markup(services, ref, values).updates()

    follow(ticks["train"], answer, [model.text, *view.inputs.all()], view.outputs(), "train_changed")
