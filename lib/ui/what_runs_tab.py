"""The tab *What runs here*: the visitor's hardware on the left; the models of the catalog that it runs on the right. It needs no model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import gradio as gr

from lib.errors import AdvisorError
from lib.present.cards import answer_details
from lib.present.live_cards import progress_line, stopped_line
from lib.present.markup import answer_actions, hint_note
from lib.present.what_runs_cards import finding, finding_card, misses_table, models_csv, models_table
from lib.present.wording import page_note
from lib.service.recommend import MAX_ENTRIES
from lib.service.what_runs import stream_judging, what_runs
from lib.ui import fields as ask
from lib.ui import workload
from lib.ui.events import AT_ONCE, FormView, Panel, Tab, Updates, Wiring, by_component, close_on_exit, explain_markups
from lib.ui.fields import Value
from lib.ui.workload import link_query

if TYPE_CHECKING:
    from lib.service.app import Services

OF_WORKLOAD = ("context_tokens", "concurrency", "precision", "engine", "account", "serving")
"""Arguments that the workload above the tabs asks."""


def build(services: Services) -> FormView:
    """The layout of the tab."""
    catalog = services.catalog()
    with gr.Row(elem_classes="two"):
        with gr.Column(scale=1, min_width=280, elem_classes="controls"):
            workload.fold_button("Hardware, speed, kind of model", ".controls")
            q: workload.Inputs = {"have": workload.choice("have", [*ask.own_words(catalog), *ask.hardware_words(catalog)])}
            q["count"], q["least"] = workload.number("count"), workload.number("least")
            q["kind"] = workload.choice("kind", ask.KIND_WORDS)
        with gr.Column(scale=3, min_width=320, elem_classes="answers"):
            stop = gr.Button("Stop", visible=False, min_width=120, elem_id="what-runs-stop")
            found = gr.HTML(hint_note(page_note("what_runs")), elem_id="what-runs")
            models = gr.HTML(elem_id="what-runs-models")
    return FormView(inputs=workload.in_order(ask.WHAT_RUNS, q), outputs={"stop": stop, "found": found, "models": models})


_EMPTY: Updates = {"stop": gr.update(visible=False), "models": ""}


def asked_arguments(services: Services, values: Sequence[Value]) -> dict[str, Any]:
    """The workload and the form as arguments of the API: the number of cards is part of the hardware's name."""
    asked = ask.arguments(ask.QUESTION, values[: len(ask.QUESTION)])
    form = workload.tab_arguments(values, ask.WHAT_RUNS)
    cards = form.pop("cards")
    if (card := services.catalog().accelerators.get(str(form["hardware"]))) is not None:
        form["hardware"] = workload.name_cards(card, cards)
    if card is not None and card.kind == "gpu":
        form["host_memory"] = asked["host_memory"]
    return {**form, **{name: asked[name] for name in OF_WORKLOAD}, "limit": MAX_ENTRIES}


def is_default(values: Sequence[Value]) -> bool:
    """Whether the hardware of the form is its example, which no visitor chose."""
    form = ask.arguments(ask.WHAT_RUNS, values[len(ask.QUESTION) :])
    return all(form[field.argument] == field.default for field in ask.WHAT_RUNS if field.argument in {"hardware", "cards"})


def what_runs_updates(services: Services, model: str, values: Sequence[Value]) -> Updates:
    """Ask, and word the answer; a refusal becomes a sentence. The page's model has no part in it."""
    try:
        answer = services[what_runs](**asked_arguments(services, values))
    except AdvisorError as refused:
        return {"found": ask.format_error(refused, page_note("no_models"))}
    acts = answer_actions(
        text=finding(answer),
        query=link_query("what-runs", model, (*ask.QUESTION, *ask.WHAT_RUNS), values),
        files=(("Download CSV", "what-runs.csv", "text/csv", models_csv(answer)),),
    )
    return {
        "found": finding_card(answer, example=is_default(values)) + acts,
        "models": models_table(answer) + misses_table(answer) + answer_details(answer),
    }


def what_runs_scenes(services: Services, model: str, values: Sequence[Value]) -> Iterator[Updates]:
    """The progress while models are judged, with the Stop button, then the answer. Closed early, it judges no further."""
    try:
        with close_on_exit(services[stream_judging](**asked_arguments(services, values))) as progress:
            for judged, total in progress:
                yield {"stop": gr.update(visible=True), "found": progress_line(page_note("judging"), judged, total)}
    except AdvisorError as refused:
        yield _EMPTY | {"found": ask.format_error(refused, page_note("no_models"))}
    else:
        yield _EMPTY | what_runs_updates(services, model, values)


def wire(view: FormView, page: Wiring) -> None:
    """It answers while its tab is shown; Stop ends the judging."""
    outputs = view.outputs

    def run(model: str, *values: Value) -> Iterator[dict[Any, Any]]:
        for scene in what_runs_scenes(page.services, model, values):
            yield by_component(outputs, explain_markups(scene))

    def stopped() -> dict[Any, Any]:
        return by_component(outputs, {"stop": gr.update(visible=False), "found": stopped_line(page_note("stopped:what_runs"))})

    inputs, filled = [page.model.text, *page.question, *view.inputs.values()], list(outputs.values())
    options: dict[str, Any] = {**AT_ONCE, "queue": True, "concurrency_limit": None, "trigger_mode": "always_last"}
    running = page.triggers["what-runs"].change(run, inputs, filled, api_name="what_runs_changed", **options)
    stopping = outputs["stop"].click(None, cancels=[running], api_name="what_runs_cancelled", **AT_ONCE)
    stopping.then(stopped, None, filled, api_name="what_runs_stopped", **AT_ONCE)


TAB = Tab(name="what-runs", word="What runs here", panels=(Panel("what-runs"),), build=build, wire=wire)
