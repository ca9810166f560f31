"""Boxes on the tab *Memory*: every precision, the tensors, the limits of some hardware, and a dry run.

The first three answer when they are opened and follow the questions while they are open; the dry run executes the architecture without
values at a button.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import gradio as gr

from lib.errors import AdvisorError, BadArgument
from lib.precision import list_formats
from lib.present.cards import model_name
from lib.present.charts import draw_tensors, tensor_map_head
from lib.present.limits_card import solve_card
from lib.present.live_cards import progress_line, stopped_line
from lib.present.markup import hint_note, no_model_note
from lib.present.tables import dry_run_table, memory_savings_table, precision_table, tensors_table
from lib.present.wording import page_note
from lib.service.memory import estimate_memory, solve
from lib.service.resolve_model import stream_dry_run, tensors
from lib.ui import fields as ask
from lib.ui import workload
from lib.ui.events import AT_ONCE, Outputs, Updates, close_on_exit
from lib.ui.fields import Value, format_error
from lib.ui.model_field import ModelReference
from lib.ui.workload import link_query

if TYPE_CHECKING:
    from lib.answers.memory import MemoryAnswer
    from lib.service.app import Services


Ask = Callable[[Any, str, Sequence[Value]], dict[str, Any]]
"""Services, a model and the values of the tab *Memory* as arguments of `estimate_memory`."""


def build_precisions() -> Outputs:
    """The layout of the box; its table."""
    title = "Every precision: memory, and the tiers with enough of it"
    with gr.Accordion(title, open=False, elem_classes="quiet-accordion", elem_id="precisions"):
        table = gr.HTML(elem_id="precision-table")
    return {"table": table}


def precision_updates(question: Ask, services: Services, model: str, values: Sequence[Value]) -> Updates:
    """The table for the questions of the tab; a refusal becomes a sentence."""
    if not model:
        return {"table": no_model_note("precisions")}
    try:
        arguments = question(services, model, values)
        current = services[estimate_memory](model, **arguments)
    except AdvisorError as refused:
        return {"table": ask.format_error(refused, page_note("no_precisions"))}
    answers: dict[str, MemoryAnswer] = {current.precision: current}
    for name in list_formats(current.engine):
        try:
            answer = services[estimate_memory](model, **{**arguments, "precision": name})
        except BadArgument:  # a GGUF file is stored in one format only
            continue
        answers.setdefault(answer.precision, answer)
    fields = (*ask.QUESTION, *ask.MEMORY)
    at = [field.name for field in fields].index("precision")

    def link(name: str) -> str | None:
        return link_query("memory", model, fields, [*values[:at], name, *values[at + 1 :]])

    return {"table": precision_table(list(answers.values()), current.precision, link)}


def build_tensors() -> Outputs:
    """The layout of the box; heading, chart and table."""
    title = "Tensors: the size of each weight"
    with gr.Accordion(title, open=False, elem_classes="quiet-accordion", elem_id="tensors"), gr.Column(elem_classes="chart"):
        head = gr.HTML()
        chart = gr.Plot(label="Where the bytes of the weights are", show_label=False)
        table = gr.HTML()
    return {"head": head, "chart": chart, "table": table}


def tensors_updates(question: Ask, services: Services, model: str, values: Sequence[Value]) -> Updates:
    """Heading, picture and table in the precision of the estimate above; a refusal is a sentence."""
    if not model:
        return {"head": no_model_note("tensors")}
    try:
        arguments = question(services, model, values)
        memory = services[estimate_memory](model, **arguments)
        answer = services[tensors](model, precision=memory.precision, engine=memory.engine)
    except AdvisorError as refused:
        return {"head": format_error(refused, "No tensors.")}
    name = model_name(answer.model, model)
    return {"head": tensor_map_head(answer), "chart": draw_tensors(answer, name), "table": tensors_table(answer, name)}


SOLVE = (
    ask.Field(argument="max_ttft_s", name="solve-ttft", default=0.0, high=86_400, label="Time to first token, s, at most"),
    ask.Field(argument="min_tokens_per_s", name="solve-rate", default=0.0, high=1_000_000, label="Tokens per second, at least"),
)
"""The numbers of the box."""
_USUAL = "spaces:l4x1"
"""Its limits are shown if nothing qualifies, with what comes closest."""
_SHARED = ("context_tokens", "precision", "kv_precision", "engine", "gpu_layers", "serving")


@dataclass(frozen=True, slots=True, kw_only=True)
class SolveView:
    """The box, its questions (hardware, TTFT, tokens per second), and the output."""

    box: gr.Accordion
    inputs: list[Any]
    outputs: Outputs


def build_solve(services: Services) -> SolveView:
    """The layout of the box."""
    title = "Limits of this hardware, server flags, ways to save memory"
    with gr.Accordion(title, open=False, elem_classes="quiet-accordion", elem_id="solve") as box:
        with gr.Row():
            hardware = gr.Dropdown(
                [("As above", "auto"), *ask.hardware_words(services.catalog())], value="auto", label="On this hardware",
                allow_custom_value=True,
                info="Type to search, or name your own cards: RTX-4090x2.",
            )  # fmt: skip
            ttft, rate = workload.number(SOLVE[0], "0: no limit", step=0.1), workload.number(SOLVE[1], "0: no limit")
        answer = gr.HTML(elem_id="solved")
    return SolveView(box=box, inputs=[hardware, ttft, rate], outputs={"answer": answer})


def solve_updates(services: Services, model: str, values: Sequence[Value]) -> Updates:
    """The answer for the questions of the box, whose values come first, and of the tab; a refusal becomes a sentence."""
    hardware, ttft, rate, *memory = values
    if not model:
        return {"answer": no_model_note("solve")}
    arguments = {**workload.recommend_arguments(memory), **workload.tab_arguments(memory, ask.MEMORY)}
    shared = {name: arguments[name] for name in _SHARED}
    if arguments["output_tokens"]:
        shared["output_tokens"] = arguments["output_tokens"]
    limits = {"max_ttft_s": ttft or 0, "min_tokens_per_s": rate or 0}
    try:
        if hardware == "auto":  # as the other parts of the tab
            hardware = workload.choose_hardware(services, model, memory).hardware or _USUAL
        entry = workload.configure_named(services, model, memory, str(hardware))
        if entry is not None:  # as every other tab says that it runs
            runs = workload.run_settings(entry, arguments["serving"])
            shared |= runs if arguments["gpu_layers"] < 0 else {**runs, "gpu_layers": arguments["gpu_layers"]}
        elif shared["engine"] == "auto":
            shared["engine"] = "transformers"
        answer = services[solve](model, hardware or "", concurrency=arguments["concurrency"], **limits, **shared)
    except AdvisorError as refused:
        return {"answer": ask.format_error(refused, "No solution.", SOLVE)}
    return {"answer": solve_card(answer, model_name(answer.model, model)) + memory_savings_table(answer)}


_ANSWER = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class DryRunView:
    """The box."""

    run: gr.Button
    stop: gr.Button
    table: gr.HTML


def build_dry_run() -> DryRunView:
    """The layout of the box."""
    with gr.Accordion("Dry run: execute the real architecture and compare", open=False, elem_classes="quiet-accordion"):
        with gr.Row():
            run = gr.Button("Run", variant="primary", min_width=120)
            stop = gr.Button("Stop", min_width=120)
        table = gr.HTML(hint_note(page_note("dry_run")), elem_id="dry-run")
    return DryRunView(run=run, stop=stop, table=table)


def dry_run_markup(services: Services, model: str, values: Sequence[Value]) -> Iterator[str]:
    """Progress, then the table; a refusal becomes a sentence. The context holds the prompt and a short answer.

    Closed early it ends the run.
    """
    if not model:
        yield no_model_note("dry_run")
        return
    question = {**workload.recommend_arguments(values), **workload.tab_arguments(values, ask.MEMORY)}
    length = int(question["context_tokens"])
    output = min(_ANSWER, max(1, length // 2))
    prompt = max(1, length - output)
    try:
        streamed = services[stream_dry_run](model, prompt_tokens=prompt, output_tokens=output, batch_size=question["concurrency"])
        with close_on_exit(streamed) as answers:
            for answer in answers:
                yield progress_line(page_note("executing")) if answer is None else dry_run_table(answer)
    except AdvisorError as refused:
        yield ask.format_error(refused, "No dry run.")


def wire_dry_run(view: DryRunView, services: Services, model: ModelReference, inputs: Sequence[Any]) -> None:
    """Run asks; Stop closes the stream, and with it the run."""

    def run(reference: str, *values: Value) -> Iterator[Any]:
        before = None
        for markup in dry_run_markup(services, reference, values):
            yield gr.skip() if markup == before else markup  # drawn once, or a screen reader says it twice a second
            before = markup

    options: dict[str, Any] = {**AT_ONCE, "queue": True, "concurrency_limit": None}
    running = view.run.click(run, [model.text, *inputs], view.table, api_name="dry_run_asked", **options)
    stopping = view.stop.click(None, cancels=[running], api_name="dry_run_cancelled", **AT_ONCE)
    stopping.then(lambda: stopped_line(page_note("stopped:dry_run")), None, view.table, api_name="dry_run_stopped", **AT_ONCE)
