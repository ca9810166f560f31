"""The tab *Fine-tune*: how it is trained on the left; where, how long and how much, then memory, on the right."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import gradio as gr

from lib.errors import AdvisorError
from lib.present.cards import caveat_list, model_name, source_list
from lib.present.markup import answer_actions, no_model_note
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
from lib.request.objectives import OBJECTIVE_TRAITS, ROLLOUT_TRAITS
from lib.request.sharding import SHARDING_TRAITS
from lib.service.estimate_training import estimate_training
from lib.service.resolve_model import resolve_model
from lib.ui import fields as ask
from lib.ui import workload
from lib.ui.events import FormView, Outputs, Panel, Tab, Updates, Wiring
from lib.ui.fields import Value
from lib.ui.memory_tab import makes_pictures
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
            need = gr.HTML(elem_id="training")
            options = gr.HTML(elem_id="training-hardware")
            with gr.Accordion("Script and command for Jobs", open=False, elem_classes="quiet-accordion", elem_id="training-recipe"):
                recipe_box = gr.HTML()
            with gr.Accordion("Assumptions and sources", open=False, elem_classes="quiet-accordion"):
                sources = gr.HTML()
    return FormView(inputs=inputs, outputs={"need": need, "options": options, "recipe": recipe_box, "sources": sources, **boxes})


def _inputs() -> tuple[workload.Inputs, Outputs]:
    """The fields, and the boxes of those that some objectives or models alone have."""
    q: workload.Inputs = {"method": gr.Radio(list(ask.METHOD_WORDS), value="lora", label="Method", elem_classes="segments wraps")}
    q["objective"] = gr.Dropdown(list(ask.OBJECTIVE_WORDS), value="sft", label="Objective")
    for first, second in (("microbatch", "accumulation"), ("rows", "epochs")):
        with gr.Row(elem_classes="pair"):
            q[first], q[second] = workload.number(first), workload.number(second, step=0.1 if second == "epochs" else 1)
    with gr.Row(elem_classes="pair") as lengths:
        q["sequence"], q["row"] = workload.number("sequence"), workload.number("row")
    with gr.Column(visible=False) as tower:
        q["tower"] = gr.Dropdown(list(ask.TOWER_WORDS), value="auto", label="Encoder of pictures or sound")
    boxes = {"lengths": lengths, "tower": tower, **_pair_inputs(q), **_picture_inputs(q), **_rollout_inputs(q)}
    q["where"] = gr.CheckboxGroup(list(ask.TRAINING_PLACES), value=["spaces", "jobs"], label="Where", elem_classes="plain-choices")
    with gr.Accordion("Adapters, optimizer, precision", open=False, elem_classes="quiet-accordion"):
        q["rank"] = workload.number("rank")
        info, modules = "Or module names, separated by commas.", list(ask.MODULE_WORDS)
        q["modules"] = gr.Dropdown(modules, value="all-linear", label="Target modules", info=info, allow_custom_value=True)
        q["optimizer"] = gr.Dropdown(list(ask.OPTIMIZER_WORDS), value="adamw", label="Optimizer")
        q["master"] = gr.Dropdown(list(ask.TRAINING_PRECISION_WORDS), value="mixed", label="Precision")
        q["checkpointing"] = gr.Dropdown(list(ask.CHECKPOINTING_WORDS), value="layers", label="Gradient checkpointing")
    with gr.Accordion("Stack and several GPUs", open=False, elem_classes="quiet-accordion"):
        q["stack"] = gr.Dropdown(list(ask.STACK_WORDS), value="trl", label="Stack")
        q["loss"] = gr.Dropdown([("Automatic", "auto"), *_YES_NO], value="auto", label="Fused loss")
        q["attention"] = gr.Dropdown(list(ask.ATTENTION_WORDS), value="sdpa", label="Attention kernel")
        q["packing"] = gr.Radio(_YES_NO, value="yes", label="Packing", elem_classes="segments")
        q["doublequant"] = gr.Radio(_YES_NO, value="yes", label="QLoRA: double quantization", elem_classes="segments")
        q["sharding"] = gr.Dropdown(list(ask.SHARDING_WORDS), value="none", label="Sharding")
        q["gpus"] = workload.number("gpus", "Hardware with several GPUs trains on all of them.")
    return workload.in_order(ask.TRAIN, q), boxes


def _pair_inputs(q: workload.Inputs) -> Outputs:
    """Hard negatives of a pair, and the size of the parts in which a micro-batch passes, in boxes of their own."""
    with gr.Column(visible=False) as negatives:
        q["negatives"] = workload.number("negatives")
    with gr.Column(visible=False) as parts:
        q["cachedbatch"] = workload.number("cachedbatch")
    return {"negatives": negatives, "parts": parts}


def _picture_inputs(q: workload.Inputs) -> Outputs:
    """Fields of a model that makes pictures or clips, in boxes that are shown with one."""
    with gr.Column(visible=False) as pictures:
        with gr.Row(elem_classes="pair"):
            q["trainwidth"], q["trainheight"] = workload.number("trainwidth"), workload.number("trainheight")
        with gr.Column(visible=False) as clips:
            q["trainframes"] = workload.number("trainframes")
        q["cached"] = gr.Dropdown(list(ask.CACHED_WORDS), value="all", label="Computed before training")
        q["base"] = gr.Dropdown(list(ask.BASE_WORDS), value="bf16", label="Frozen weights")
    return {"pictures": pictures, "clips": clips}


def _rollout_inputs(q: workload.Inputs) -> Outputs:
    """Fields of GRPO; those of a colocated vLLM and of one on other GPUs in boxes of their own."""
    with gr.Column(visible=False) as grpo:
        for first, second in (("generations", "beta"), ("completion", "meancompletion")):
            with gr.Row(elem_classes="pair"):
                q[first], q[second] = workload.number(first), workload.number(second, step=0.01 if second == "beta" else 1)
        q["rollouts"] = gr.Dropdown(list(ask.ROLLOUT_WORDS), value="transformers", label="Answers are written by")
        with gr.Column(visible=False) as colocated:
            q["vllmshare"] = workload.number("vllmshare", step=0.05)
            q["vllmsleep"] = gr.Radio(_YES_NO, value="no", label="vLLM sleeps during the update", elem_classes="segments")
        with gr.Column(visible=False) as server:
            q["vllmgpus"] = workload.number("vllmgpus")
    return {"grpo": grpo, "colocated": colocated, "server": server}


_IMAGES = ("images", "image_width", "image_height")
_PICTURES = ("width", "height", "frames", "cached", "base_precision")


def show_boxes(arguments: dict[str, Any], medium: Literal["text", "pictures", "clips"] = "text", *, reads: bool = False) -> Updates:
    """Boxes that are shown: lengths for text, sizes for pictures, frames for clips, those of the objective; the tower if one `reads`."""
    objective, traits = OBJECTIVE_TRAITS[arguments["objective"]], ROLLOUT_TRAITS[arguments["rollouts"]]
    samples = objective.samples
    shown = {
        "negatives": objective.negatives, "parts": objective.in_parts,
        "lengths": medium == "text", "tower": reads, "pictures": medium != "text", "clips": medium == "clips",
        "grpo": samples, "colocated": samples and traits.holds_share, "server": samples and traits.own_devices,
    }  # fmt: skip
    return {name: gr.update(visible=holds) for name, holds in shown.items()}


def find_medium(services: Services, model: str) -> Literal["text", "pictures", "clips"]:
    """The medium that a model is trained on; text where it cannot be resolved."""
    try:
        found = services[resolve_model](model)
    except AdvisorError:
        return "text"
    if found.library != "diffusers":
        return "text"
    return "clips" if found.task == "text-to-video" else "pictures"


def find_media(services: Services, model: str, images: int) -> frozenset[str]:
    """Pictures or sound that a training of this model reads: pictures only where examples have some; none of an unknown model."""
    try:
        found = services[resolve_model](model)
    except AdvisorError:
        return frozenset()
    pictures, speech = "images" in found.media and images > 0, found.task == "automatic-speech-recognition"
    return frozenset(name for name, read in (("images", pictures), ("sound", "sound" in found.media and speech)) if read)


def asked_arguments(values: Sequence[Value]) -> dict[str, Any]:
    """The form as arguments of the API, with at least the devices of the sharding and the micro-batch of the objective."""
    filled_values = [field.default if value is None or value == [] else value for field, value in zip(ask.TRAIN, values, strict=True)]
    arguments = ask.arguments(ask.TRAIN, filled_values)
    shared = arguments["sharding"] != "none"
    machines = 2 if SHARDING_TRAITS[arguments["sharding"]].within_machine else 1  # the form has no box for them
    each = max(2, int(arguments["devices"]) // machines)
    devices = each * machines if shared else 1
    choices = {name: arguments[name] == "yes" for name in ("packing", "double_quantization", "rollout_sleep")}
    micro_batch = max(OBJECTIVE_TRAITS[arguments["objective"]].least_micro_batch, int(arguments["micro_batch"]))
    return {**arguments, **choices, "devices": devices, "machines": machines, "micro_batch": micro_batch}


def train_updates(services: Services, model: str, values: Sequence[Value]) -> Updates:
    """Ask, with the own cards and the picture size of the workload, and word the answer; a refusal becomes a sentence."""
    question, form = values[: len(ask.QUESTION)], values[len(ask.QUESTION) :]
    arguments = asked_arguments(form) | workload.own_hardware(services, values)
    if not model:
        return {"need": no_model_note("train")} | show_boxes(arguments)
    medium = find_medium(services, model)
    asked = ask.arguments(ask.QUESTION, question)
    media = find_media(services, model, asked["images"])
    boxes = show_boxes(arguments, medium, reads=bool(media))
    hidden = {*{"text": _PICTURES, "pictures": ("frames",), "clips": ()}[medium], *(() if media else ("train_tower",))}
    arguments = {name: value for name, value in arguments.items() if name not in hidden}
    try:
        names = ("width", "height", "frames") if makes_pictures(services, model) else _IMAGES if "images" in media else ()
        arguments |= {name: asked[name] for name in names}
        answer = services[estimate_training](model, **arguments)
    except AdvisorError as refused:
        return {"need": ask.format_error(refused, "No training estimate.")} | boxes
    name = model_name(answer.model, model)
    acts = answer_actions(
        text=training_text(answer, name),
        query=link_query("train", model, (*ask.QUESTION, *ask.TRAIN), values),
        files=(
            ("Download JSON", "fine-tuning.json", "application/json", answer_json(answer)),
            ("Download CSV", "fine-tuning.csv", "text/csv", options_csv(answer)),
        ),
    )
    return {
        "need": own_training_card(answer) + training_card(answer, name) + acts,
        "options": options_table(answer.options) + shardings_table(answer) + changes_table(answer) + phases_table(answer.phases),
        "recipe": recipe(answer),
        "sources": caveat_list(answer.caveats) + source_list(answer.sources),
    } | boxes


def wire(view: FormView, page: Wiring) -> None:
    """It answers while its tab is shown."""
    page.follow("train", train_updates, [*page.question, *view.inputs.values()], view.outputs, "train_changed")


TAB = Tab(name="train", word="Fine-tune", panels=(Panel("train"),), build=build, wire=wire)
