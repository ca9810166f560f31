"""The tab *Memory*: what it takes, part by part, where it fits, and the law behind each number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import gradio as gr

from lib.errors import AdvisorError
from lib.platforms import traits_of
from lib.present.cards import held_words, memory_card, memory_explanation, model_name, old_prices_note
from lib.present.charts import draw_growth, growth_head, growth_table
from lib.present.live_cards import progress_line
from lib.present.markup import answer_actions, no_model_note
from lib.present.tables import answer_json, fits_csv, memory_text, tiers_table
from lib.present.wording import page_note
from lib.request.media import MediaRequest
from lib.service.memory import estimate_memory
from lib.service.resolve_model import resolve_model
from lib.ui import fields as ask
from lib.ui import memory_boxes, workload
from lib.ui.events import Outputs, Panel, Tab, Updates, Wiring
from lib.ui.fields import Value
from lib.ui.workload import link_query

if TYPE_CHECKING:
    from lib.answers.memory import FitEntry
    from lib.service.app import Services

_SPAN = 1024  # the curve begins at the longest context over this


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryView:
    """Inputs and outputs of the tab, and of its boxes."""

    inputs: workload.Inputs
    outputs: Outputs
    curve: Outputs
    precisions: Outputs
    solve: memory_boxes.SolveView
    tensors: Outputs
    dry_run: memory_boxes.DryRunView


def build(services: Services) -> MemoryView:
    """The layout of the tab."""
    with gr.Row(elem_classes="two"):
        with gr.Column(scale=1, min_width=280, elem_classes="controls"):
            workload.fold_button("Cache precision, GPUs", ".controls")
            inputs = _inputs()
        with gr.Column(scale=3, min_width=320, elem_classes="answers"):
            need = gr.HTML(progress_line(page_note("answering")), elem_id="need")
            with gr.Accordion("How each number is computed", open=False, elem_classes="quiet-accordion"):
                explain = gr.HTML(elem_id="explain")
            with gr.Column(elem_id="curve", visible=False) as curve_box:
                curve_head = gr.HTML()
                curve = gr.Plot(label="Memory by context length", show_label=False)
                curve_table = gr.HTML()
            precisions = memory_boxes.build_precisions()
            solve = memory_boxes.build_solve(services)
            tensors = memory_boxes.build_tensors()
            dry_run = memory_boxes.build_dry_run()
            fits = gr.HTML(elem_id="tiers")
    return MemoryView(
        inputs=inputs,
        outputs={"need": need, "tiers": fits, "explain": explain, "curve_box": curve_box},
        curve={"head": curve_head, "chart": curve, "table": curve_table},
        precisions=precisions,
        solve=solve,
        tensors=tensors,
        dry_run=dry_run,
    )


def _inputs() -> workload.Inputs:
    q: workload.Inputs = {"kv": gr.Dropdown(ask.kv_precision_choices(), value="auto", label="Cache precision")}
    with gr.Accordion("Number of GPUs, layers on the GPU", open=False, elem_classes="quiet-accordion"):
        q["devices"] = workload.slider(ask.FIELDS_BY_NAME["devices"], "0: as many as the hardware has")
        q["ngl"] = workload.slider(ask.FIELDS_BY_NAME["ngl"], "llama.cpp (-ngl); −1 is everything.")
    q["offload"] = gr.Dropdown(list(ask.OFFLOAD_WORDS), value="none", label="Moved to host memory", visible=False)
    return workload.in_order(ask.MEMORY, q)


def makes_pictures(services: Services, model: str) -> bool:
    """Whether the model is a pipeline, which is asked for sizes and not for a context."""
    return services[resolve_model](model).library == "diffusers"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryQuestion:
    """The question about memory, as arguments of the service, and whose configuration it is ("" for none)."""

    arguments: dict[str, Any]
    configured: str = ""


def memory_question(services: Services, model: str, values: Sequence[Value]) -> MemoryQuestion:
    """The configuration that `/recommend` found on the chosen hardware; the values of the form where it found none."""
    of_workload, of_tab = workload.recommend_arguments(values), workload.tab_arguments(values, ask.MEMORY)
    arguments: dict[str, Any] = {
        "context_tokens": of_workload["context_tokens"],
        "batch_size": of_workload["concurrency"],
        "precision": of_workload["precision"],
        "engine": "transformers" if of_workload["engine"] == "auto" else of_workload["engine"],
        "kv_precision": of_tab["kv_precision"],
        "devices": of_tab["devices"] or 1,
        "serving": of_workload["serving"],
    }
    if makes_pictures(services, model):
        arguments |= {name: of_workload[name] for name in ("width", "height", "frames", "guidance")} | {"offload": of_tab["offload"]}
    else:
        arguments |= {name: of_workload[name] for name in MediaRequest.__slots__} | {"gpu_layers": of_tab["gpu_layers"]}
    choice = workload.choose_hardware(services, model, values)
    arguments["hardware"] = choice.hardware
    entry = choice.entry
    if entry is None or entry.memory is None:
        return MemoryQuestion(arguments=arguments)
    request = {name: getattr(entry.memory, name) for name in ("context_tokens", "batch_size")}
    runs = workload.run_settings(entry, of_workload["serving"]) | {"devices": of_tab["devices"] or max(1, entry.devices)}
    if of_tab["gpu_layers"] >= 0 or makes_pictures(services, model):
        del runs["gpu_layers"]
    held = "" if makes_pictures(services, model) else ", for " + held_words(entry.memory, of_workload["context_tokens"])
    return MemoryQuestion(arguments=arguments | request | runs, configured=f"{entry.name}{held}")


def memory_arguments(services: Services, model: str, values: Sequence[Value]) -> dict[str, Any]:
    """The arguments of `memory_question`, for the boxes."""
    return memory_question(services, model, values).arguments


def memory_updates(services: Services, model: str, values: Sequence[Value]) -> Updates:
    """Ask for the memory and word it; a refusal becomes a sentence."""
    if not model:
        return {"need": no_model_note("memory")}
    try:
        question = memory_question(services, model, values)
        answer = services[estimate_memory](model, **question.arguments)
    except AdvisorError as refused:
        return {"need": ask.format_error(refused, "No memory estimate.")}
    name = model_name(answer.model, model)
    acts = answer_actions(
        text=memory_text(answer, name),
        query=link_query("memory", model, (*ask.QUESTION, *ask.MEMORY), values),
        files=(
            ("Download CSV", "memory.csv", "text/csv", fits_csv(answer.fits)),
            ("Download JSON", "memory.json", "application/json", answer_json(answer)),
        ),
    )
    return {
        "need": memory_card(answer, name, question.arguments["devices"], question.configured) + acts + old_prices_note(services.prices()),
        "tiers": tiers_table(answer.fits, answer),
        "explain": memory_explanation(answer),
        "curve_box": gr.update(visible=not makes_pictures(services, model)),
    }


def curve_updates(services: Services, model: str, values: Sequence[Any]) -> Updates:
    """The chart of memory over context, its heading and its table; none if there is no answer (the card says why).

    The first value is the model's longest context.
    """
    limit, *values = values
    try:
        if not model or makes_pictures(services, model):
            return {}
        question = memory_question(services, model, values).arguments
        context = question["context_tokens"]
        points = [
            (length, services[estimate_memory](model, **{**question, "context_tokens": length}))
            for length in choose_lengths(context, limit)
        ]
    except AdvisorError:
        return {}
    fits, hardware = points[0][1].fits, question.get("hardware")
    here = [fit for fit in fits if hardware in {f"{fit.platform}:{fit.hardware}", fit.hardware}]
    of_hardware = list_capacities(here)
    figure = draw_growth(points, list_capacities(fits), int(context), of_hardware[0] if of_hardware else None)
    return {
        "head": growth_head(points[0][1], here[0] if here else None, question["batch_size"]),
        "chart": figure,
        "table": growth_table(points),
    }


def choose_lengths(context: float, limit: int) -> list[int]:
    """Context lengths for the curve: powers of two and the lengths half-way, up to the model's limit; the one asked for is among them."""
    own_length = int(context)
    end = max(own_length, limit)
    start = min(own_length, max(1, end // _SPAN))
    steps = {size for power in range(end.bit_length()) for size in (2**power, 3 * 2**power // 2)}
    return sorted({size for size in steps if start <= size <= end} | {own_length, end})


def list_capacities(fits: Sequence[FitEntry]) -> list[tuple[str, int]]:
    """Memory of one device of each accelerator, under its name."""
    return list(dict.fromkeys((_card(fit), fit.capacity_bytes) for fit in fits if fit.accelerator))


def _card(fit: FitEntry) -> str:
    """ZeroGPU by its own name, for its large size is half a card."""
    traits = traits_of(fit.platform)
    return traits.label if traits.per_call else str(fit.accelerator)


def wire(view: MemoryView, page: Wiring) -> None:
    """The answer; the curve when it comes into view; the boxes while they are open."""
    inputs = [*page.question, *view.inputs.values()]
    page.follow("memory", memory_updates, inputs, view.outputs, "memory_changed")
    page.follow("curve", curve_updates, [page.limit, *inputs], view.curve, "curve_changed")
    page.follow("solve", memory_boxes.solve_updates, [*view.solve.inputs, *inputs], view.solve.outputs, "solve_changed")
    precisions = partial(memory_boxes.precision_updates, memory_arguments)
    page.follow("precisions", precisions, inputs, view.precisions, "precisions_changed")
    page.follow("tensors", partial(memory_boxes.tensors_updates, memory_arguments), inputs, view.tensors, "tensors_changed")
    memory_boxes.wire_dry_run(view.dry_run, page.services, page.model, inputs)


TAB = Tab(
    name="memory",
    word="Memory",
    panels=(
        Panel("memory"),
        Panel("curve", "#curve"),
        Panel("precisions", "#precisions"),
        Panel("solve", "#solve"),
        Panel("tensors", "#tensors"),
    ),
    build=build,
    wire=wire,
    boxes={"solve": memory_boxes.SOLVE},
    box_inputs=lambda view: view.solve.inputs,
)
