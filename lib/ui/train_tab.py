"""The tab *Fine-tune*: how it is trained on the left; where, how long and how much, then memory, on the right."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import gradio as gr

from lib.errors import AdvisorError
from lib.present.cards import answer_details, model_name, old_prices_note
from lib.present.live_cards import progress_line
from lib.present.markup import answer_actions, hint_note, no_model_note
from lib.present.tables import answer_json
from lib.present.training_cards import (
    changes_table,
    options_csv,
    options_table,
    own_training_card,
    phases_table,
    recipe,
    shardings_table,
    training_card,
    training_text,
)
from lib.present.training_notes import training_notes
from lib.present.wording import page_note
from lib.request.sharding import SHARDING_TRAITS
from lib.service.estimate_training import estimate_training
from lib.ui import fields as ask
from lib.ui import workload
from lib.ui.events import FormView, Outputs, Panel, Tab, Updates, Wiring
from lib.ui.fields import Value
from lib.ui.train_form import (
    SHOWN_ALONE,
    TrainedKind,
    find_counting,
    find_kind,
    form_updates,
    suit_model,
    suit_values,
    suited_notes,
    word_refusal,
)
from lib.ui.workload import link_query

if TYPE_CHECKING:
    from lib.service.app import Services

_YES_NO = [("Yes", "yes"), ("No", "no")]


def build(_: Services) -> FormView:
    """The layout of the tab."""
    with gr.Row(elem_classes="two"):
        with gr.Column(scale=1, min_width=280, elem_classes="controls"):
            workload.fold_button("Method, dataset, optimizer, GPUs", ".controls")
            inputs, boxes = _inputs()
        with gr.Column(scale=3, min_width=320, elem_classes="answers"):
            need = gr.HTML(progress_line(page_note("answering")), elem_id="training")
            options = gr.HTML(elem_id="training-hardware")
            with gr.Accordion("Script and command", open=False, elem_classes="quiet-accordion", elem_id="training-recipe"):
                recipe_box = gr.HTML()
            sources = gr.HTML()
    return FormView(inputs=inputs, outputs={"need": need, "options": options, "recipe": recipe_box, "sources": sources, **boxes})


def _inputs() -> tuple[workload.Inputs, Outputs]:
    """The fields; and those of them, and the boxes, that an answer changes."""
    q: workload.Inputs = {"method": gr.Radio(list(ask.METHOD_WORDS), value="lora", label="Method", elem_classes="segments wraps")}
    q["objective"] = gr.Dropdown(list(ask.OBJECTIVE_WORDS), value="sft", label="Objective")
    for first, second in (("microbatch", "accumulation"), ("rows", "epochs")):
        q[first], q[second] = workload.number(first), workload.number(second, step=0.1 if second == "epochs" else 1)
    with gr.Column() as lengths:
        q["sequence"], q["row"] = workload.number("sequence"), workload.number("row")
    q["tower"] = gr.Dropdown(list(ask.TOWER_WORDS), value="auto", label="Encoder of pictures or sound", visible=False)
    boxes = {"lengths": lengths, "tower": q["tower"], **_pair_inputs(q), **_picture_inputs(q), **_rollout_inputs(q)}
    q["where"] = gr.CheckboxGroup(list(ask.TRAINING_PLACES), value=["spaces", "jobs"], label="Where", elem_classes="plain-choices")
    with gr.Accordion("Adapters, optimizer, precision", open=False, elem_classes="quiet-accordion"):
        q["rank"] = workload.number("rank")
        info, modules = "Or module names, separated by commas.", list(ask.MODULE_WORDS)
        q["modules"] = gr.Dropdown(modules, value="all-linear", label="Target modules", info=info, allow_custom_value=True)
        q["optimizer"] = gr.Dropdown(list(ask.OPTIMIZER_WORDS), value="adamw", label="Optimizer")
        q["master"] = gr.Dropdown(list(ask.TRAINING_PRECISION_WORDS), value="mixed", label="Precision")
        q["checkpointing"] = gr.Dropdown(list(ask.CHECKPOINTING_WORDS), value="layers", label="Gradient checkpointing")
    with gr.Accordion("Stack and several GPUs", open=False, elem_classes="quiet-accordion") as several:
        q["stack"] = gr.Dropdown(list(ask.STACK_WORDS), value="trl", label="Stack")
        q["loss"] = gr.Dropdown([("Automatic", "auto"), *_YES_NO], value="auto", label="Fused loss")
        q["attention"] = gr.Dropdown(list(ask.ATTENTION_WORDS), value="sdpa", label="Attention kernel")
        q["packing"] = gr.Radio(_YES_NO, value="yes", label="Packing", elem_classes="segments")
        q["doublequant"] = gr.Radio(_YES_NO, value="yes", label="QLoRA: double quantization", elem_classes="segments", visible=False)
        q["sharding"] = gr.Dropdown(list(ask.SHARDING_WORDS), value="none", label="Sharding")
        # Hidden as `find_counting` has it for the defaults.
        q["gpus"] = workload.number("gpus", "Hardware with several GPUs trains on all of them.", visible=False)
    changed = {f"q_{name}": q[name] for name in (*SHOWN_ALONE, "method", "microbatch")}
    return workload.in_order(ask.TRAIN, q), {**boxes, "several": several, **changed}


def _pair_inputs(q: workload.Inputs) -> Outputs:
    """Hard negatives of a pair, and the size of the parts in which a micro-batch passes, each shown by itself."""
    q |= {name: workload.number(name, visible=False) for name in ("negatives", "cachedbatch")}
    return {"negatives": q["negatives"], "parts": q["cachedbatch"]}


def _picture_inputs(q: workload.Inputs) -> Outputs:
    """Fields of a model that makes pictures or clips, in boxes that are shown with one."""
    with gr.Column(visible=False) as pictures:
        q["trainwidth"], q["trainheight"] = workload.number("trainwidth"), workload.number("trainheight")
        q["trainframes"] = workload.number("trainframes", visible=False)
        q["cached"] = gr.Dropdown(list(ask.CACHED_WORDS), value="all", label="Computed before training")
        q["base"] = gr.Dropdown(list(ask.BASE_WORDS), value="bf16", label="Frozen weights")
    return {"pictures": pictures, "clips": q["trainframes"]}


def _rollout_inputs(q: workload.Inputs) -> Outputs:
    """Fields of GRPO; those of a colocated vLLM in a box of their own."""
    with gr.Column(visible=False) as grpo:
        for first, second in (("generations", "beta"), ("completion", "meancompletion")):
            q[first], q[second] = workload.number(first), workload.number(second, step=0.01 if second == "beta" else 1)
        q["rollouts"] = gr.Dropdown(list(ask.ROLLOUT_WORDS), value="transformers", label="Answers are written by")
        q["vllmgpus"] = workload.number("vllmgpus", visible=False)
        with gr.Column(visible=False) as colocated:
            q["vllmshare"] = workload.number("vllmshare", step=0.05)
            q["vllmsleep"] = gr.Radio(_YES_NO, value="no", label="vLLM sleeps during the update", elem_classes="segments")
    return {"grpo": grpo, "colocated": colocated, "server": q["vllmgpus"]}


def filled_values(values: Sequence[Value]) -> list[Value]:
    """The form with the default of each emptied field."""
    return [field.default if value is None or value == [] else value for field, value in zip(ask.TRAIN, values, strict=True)]


def asked_arguments(values: Sequence[Value]) -> dict[str, Any]:
    """The form as arguments of the API, with at least the devices of the sharding."""
    arguments = ask.arguments(ask.TRAIN, filled_values(values))
    shared = arguments["sharding"] != "none"
    machines = 2 if SHARDING_TRAITS[arguments["sharding"]].within_machine else 1  # the form has no box for them
    each = max(2, int(arguments["devices"]) // machines)
    devices = each * machines if shared else 1
    choices = {name: arguments[name] == "yes" for name in ("packing", "double_quantization", "rollout_sleep")}
    return {**arguments, **choices, "devices": devices, "machines": machines}


_IMAGES = ("images", "image_width", "image_height")


def train_updates(services: Services, model: str, values: Sequence[Value]) -> Updates:
    """Ask, with the own cards and the picture size of the workload, and word the answer; a refusal becomes a sentence.

    Values that do not suit the model are replaced in the form, which says so.
    """
    question, form = values[: len(ask.QUESTION)], filled_values(values[len(ask.QUESTION) :])
    asked, stated = ask.arguments(ask.QUESTION, question), ask.arguments(ask.TRAIN, form)
    kind = find_kind(services, model, asked["images"]) if model else TrainedKind()
    suited = suit_model(kind, stated)
    form = suit_values(form, suited)
    arguments = asked_arguments(form)
    counting = find_counting(kind, arguments)
    suited = {name: value for name, value in suited.items() if name in counting}
    boxes = form_updates(kind, counting, suited)
    if not model:
        return {"need": no_model_note("train")} | boxes
    arguments = {name: value for name, value in arguments.items() if name in counting} | workload.own_hardware(services, values)
    said = "".join(map(hint_note, suited_notes(stated, suited, model_name(kind.id, model))))
    names = ("width", "height", "frames") if kind.pictures else _IMAGES if "images" in kind.media else ()
    try:
        answer = services[estimate_training](model, **arguments | {name: asked[name] for name in names})
    except AdvisorError as refused:
        return {"need": said + ask.format_error(word_refusal(refused), "No training estimate.")} | boxes
    name = model_name(answer.model, model)
    acts = answer_actions(
        text=training_text(answer, name),
        query=link_query("train", model, (*ask.QUESTION, *ask.TRAIN), [*question, *form]),
        files=(
            ("Download CSV", "fine-tuning.csv", "text/csv", options_csv(answer)),
            ("Download JSON", "fine-tuning.json", "application/json", answer_json(answer)),
        ),
    )
    return {
        "need": said + own_training_card(answer) + training_card(answer, name) + acts + old_prices_note(services.prices()),
        "options": training_notes(answer)
        + options_table(answer.options)
        + shardings_table(answer)
        + changes_table(answer)
        + phases_table(answer.phases),
        "recipe": recipe(answer),
        "sources": answer_details(answer),
    } | boxes


def wire(view: FormView, page: Wiring) -> None:
    """It answers while its tab is shown."""
    page.follow("train", train_updates, [*page.question, *view.inputs.values()], view.outputs, "train_changed")


TAB = Tab(name="train", word="Fine-tune", panels=(Panel("train"),), build=build, wire=wire)
