"""The tab *Recommend*: the hardware to take, and the boxes under it. All its questions are in the panel above the tabs.

The roofline is drawn when its box is opened. The code to copy is the files of the Space for the chosen framework, its app.py among
them, or the line that starts its server.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import gradio as gr

from lib.engines import usual_engine
from lib.errors import AdvisorError
from lib.platforms import TPU_PLATFORMS, traits_of
from lib.present.app_files import Purpose
from lib.present.cards import answer_details, model_name, pick_card, prices_line, recommendation_notes
from lib.present.charts import draw_roofline, roofline_words
from lib.present.checked_cards import checked_card, no_pick_card, own_card
from lib.present.front_chart import draw_front, front_foot, front_head, speed_front
from lib.present.markup import answer_actions, hint_note, no_model_note, refusal_note
from lib.present.sentences import say
from lib.present.setup_files import FRAMEWORKS, files_code, setup_code, write_setup
from lib.present.tables import answer_json, pick_text, ranked_csv, ranked_table, rejected_table, row_links
from lib.present.wording import page_note
from lib.service.memory import solve
from lib.service.recommend import recommend
from lib.service.speed import roofline
from lib.service.write_files import FilesArguments, write_files
from lib.ui import compare_box, workload
from lib.ui import fields as ask
from lib.ui.compare_box import CompareView
from lib.ui.events import Outputs, Panel, Tab, Updates, Wiring
from lib.ui.fields import Value, arguments, format_error
from lib.ui.workload import link_query
from lib.workload import prompt_and_output_tokens

if TYPE_CHECKING:
    from lib.advisor.result import Entry
    from lib.answers.memory import SolveAnswer
    from lib.service.app import Services


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeView:
    """The question of the box, and the output."""

    framework: gr.Radio
    outputs: Outputs


def build_code() -> CodeView:
    """The layout of the box."""
    with gr.Accordion(
        "Code to copy: README.md, app.py, requirements.txt or Dockerfile",
        open=False,
        elem_classes="quiet-accordion",
        elem_id="code",
    ):
        words = [(name, key) for key, name in FRAMEWORKS.items()]
        framework = gr.Radio(words, value="pytorch", label="Framework", elem_classes="segments")
        code = gr.HTML(elem_id="setup-code")
    return CodeView(framework=framework, outputs={"code": code})


def setup_updates(services: Services, model: str, values: Sequence[Value]) -> Updates:
    """The files for the pick, or for the hardware that is looked at; a refusal becomes a sentence. The first value is the framework."""
    framework, *values = values
    if not model:
        return {"code": no_model_note("code")}
    arguments = workload.recommend_arguments(values)
    try:
        choice = workload.choose_hardware(services, model, values)
        entry = choice.entry
        if entry is None:
            several = write_for(services, model, choice.hardware, "multi-node", arguments) if choice.by_visitor else ""
            return {"code": hint_note(page_note("nothing_to_set_up")) + several}
        answer = services[recommend](model, **arguments)
        setup = write_setup(
            entry,
            services.catalog(),
            model=answer.model,
            task=answer.task,
            spec=answer.spec,
            framework=str(framework),
            context_tokens=int(arguments["context_tokens"]),
            sequences=int(arguments["concurrency"]),
            serving=answer.workload.serving,
        )
        rented = write_for(services, model, choice.hardware, "tpu", arguments) if traits_of(entry.platform).rents_tpus else ""
        return {"code": rented + setup_code(setup)}
    except AdvisorError as refused:
        return {"code": format_error(refused, "No files.")}


def write_for(services: Services, model: str, hardware: str, purpose: Purpose, asked: Mapping[str, Any]) -> str:
    """The files of `/write_files` for a purpose under the same question, or why there are none."""
    same = {field: asked[field] for field in FilesArguments.model_fields if field in asked}
    try:
        return files_code(services[write_files](model, hardware, purpose, **same))
    except AdvisorError as refused:
        return format_error(refused, page_note("no_machines" if purpose == "multi-node" else "no_slice"))


def build_roofline() -> Outputs:
    """The layout of the box; words and chart."""
    title = "Roofline: what limits prefill and decode on this hardware"
    with gr.Accordion(title, open=False, elem_classes="quiet-accordion", elem_id="roofline"), gr.Column(elem_classes="chart"):
        words = gr.HTML()
        chart = gr.Plot(label="Roofline", show_label=False)
    return {"words": words, "chart": chart}


def roofline_updates(services: Services, model: str, values: Sequence[Value]) -> Updates:
    """Words and picture for the configuration that is recommended, on its hardware or on the one looked at; a refusal is a sentence."""
    if not model:
        return {"words": no_model_note("roofline")}
    arguments = workload.recommend_arguments(values)
    length, at_once = int(arguments["context_tokens"]), arguments["concurrency"]
    usual = prompt_and_output_tokens(length)
    prompt, answer = int(arguments["prompt_tokens"] or usual[0]), int(arguments["output_tokens"] or usual[1])
    try:
        choice = workload.choose_hardware(services, model, values)
        if not choice.hardware:
            return {"words": hint_note(page_note("no_roofline"))}
        entry = choice.entry
        if entry is None:
            precision, engine = "auto", _engine(choice.hardware)
        else:
            precision, engine, at_once = entry.precision, entry.engine, entry.speed.concurrency or at_once
        picture = services[roofline](model, choice.hardware, precision, engine, prompt, answer, at_once)
    except AdvisorError as refused:
        return {"words": format_error(refused, "No roofline.")}
    return {"words": roofline_words(picture), "chart": draw_roofline(picture)}


def _engine(hardware: str) -> str:
    return usual_engine("tpu" if hardware.partition(":")[0] in TPU_PLATFORMS else "gpu")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecommendView:
    """Outputs of the tab, and the parts that answer by themselves."""

    outputs: Outputs
    compare: CompareView
    front: Outputs
    roofline: Outputs
    code: CodeView


def build(_: Services) -> RecommendView:
    """The layout of the tab."""
    with gr.Column(elem_classes="answers"):
        pick = gr.HTML(elem_id="pick")
        table = gr.HTML(elem_id="ranked")
        compare = compare_box.build()
        with gr.Column(elem_id="front", elem_classes="chart", visible=False) as front_box:
            head = gr.HTML()
            chart = gr.Plot(label="Price against predicted speed", show_label=False, visible=False)  # an empty one costs a layout
            foot = gr.HTML()
        code = build_code()
        roof = build_roofline()
        with gr.Accordion(say("findings", "tables", "rejected"), open=False, visible=False, elem_classes="quiet-accordion") as rejected_box:
            refused = gr.HTML(elem_id="rejected")
        sources = gr.HTML(elem_id="recommend-sources")
    return RecommendView(
        outputs={
            "pick": pick, "ranked": table, "front_box": front_box, "rejected_box": rejected_box, "rejected": refused,
            "sources": sources,
        },
        compare=compare,
        front={"head": head, "chart": chart, "foot": foot},
        roofline=roof,
        code=code,
    )  # fmt: skip


def recommend_updates(services: Services, model: str, values: Sequence[Value]) -> Updates:
    """Ask for a recommendation and word it; a refusal becomes a sentence."""
    if not model:
        return {"pick": no_model_note("recommend")}
    if not arguments(ask.QUESTION, values)["platforms"]:
        return {"pick": refusal_note(page_note("no_platform"), "No recommendation.")}
    try:
        own_hardware = workload.own_hardware(services, values)
        answer = services[recommend](model, **workload.recommend_arguments(values), **own_hardware)
        of_checked = checked(services, model, values)
    except AdvisorError as refused:
        return {"pick": ask.format_error(refused, "No recommendation.")}
    pick, entries, own = answer.pick, answer.ranked, answer.own
    name = model_name(answer.model, model)
    card = pick_card(pick, name, answer.notes, has_own=own is not None) if pick else no_pick_card(answer, name)
    of_own = own_card(own, name, row_links(own.name, own_links(model, values), own_hardware["own_hardware"])) if own else ""
    acts = answer_actions(
        text=pick_text(pick, name, own),
        query=link_query("recommend", model, ask.QUESTION, values),
        files=(
            ("Download CSV", "recommendation.csv", "text/csv", ranked_csv(entries)),
            ("Download JSON", "recommendation.json", "application/json", answer_json(answer)),
        ),
    )
    rejected = answer.rejected
    return {
        "pick": of_own + of_checked + card + acts + prices_line(answer.prices),
        "ranked": ranked_table(entries, pick, entry_links(model, values)) + recommendation_notes(answer),
        "front_box": gr.update(visible=len(speed_front(answer).points) > 1),
        "rejected_box": gr.update(label=f"{say('findings', 'tables', 'rejected')} ({len(rejected)})", visible=bool(rejected)),
        "rejected": rejected_table(rejected),
        "sources": answer_details(answer),
    }


def checked(services: Services, model: str, values: Sequence[Value]) -> str:
    """The card of the rented hardware that a visitor names, with its limits; "" if none is named, or it cannot be judged."""
    hardware = str(arguments(ask.QUESTION, values)["hardware"])
    if hardware == "auto" or hardware in services.catalog().accelerators:
        return ""
    asked = workload.recommend_arguments(values)
    answer = services[recommend](model, **{**asked, "platforms": "all"})
    entry = workload.find_entry(answer, hardware)
    limits = None if entry is None else _limits(services, model, hardware, entry, asked)
    return checked_card(
        answer, hardware, limits, row_links(services.catalog().resolve_offer(hardware).name, own_links(model, values), hardware)
    )


def _limits(services: Services, model: str, hardware: str, entry: Entry, asked: Mapping[str, Any]) -> SolveAnswer | None:
    """The most that fits on this hardware, run as recommended; None for work without tokens, which has no such limits."""
    if entry.memory is None or entry.speed.decode_tokens_per_s is None:
        return None
    runs = workload.run_settings(entry, asked["serving"])
    return services[solve](model, hardware, context_tokens=asked["context_tokens"], concurrency=asked["concurrency"], **runs)


def entry_links(model: str, values: Sequence[Value]) -> Callable[[Entry], list[tuple[str, str]]]:
    """For a row of the table: its memory and its bill under the same question, and the tab that switches a Space to it."""
    at = [field.argument for field in ask.QUESTION].index("hardware")

    def links(entry: Entry) -> list[tuple[str, str]]:
        there = [*values[:at], workload.entry_name(entry), *values[at + 1 :]]
        tabs = [("memory", "Memory"), ("cost", "Cost")]
        if traits_of(entry.platform).runs_spaces:
            tabs.append(("space", "Switch"))
        queries = [(words, link_query(tab, model, ask.QUESTION, there)) for tab, words in tabs]
        return [(words, query) for words, query in queries if query is not None]

    return links


def own_links(model: str, values: Sequence[Value]) -> list[tuple[str, str]]:
    """The other tabs for the visitor's own cards, which the question names."""
    tabs = (("memory", "Memory"), ("cost", "Cost"), ("traffic", "Traffic"))
    queries = [(words, link_query(tab, model, ask.QUESTION, values)) for tab, words in tabs]
    return [(words, query) for words, query in queries if query is not None]


def front_updates(services: Services, model: str, values: Sequence[Value]) -> Updates:
    """Price against predicted speed; nothing if there is no answer (the card says why)."""
    try:
        answer = services[recommend](model, **workload.recommend_arguments(values)) if model else None
        front = speed_front(answer) if answer else None
    except AdvisorError:
        front = None
    if front is None or len(front.points) < 2:  # noqa: PLR2004  one point compares nothing
        return {}
    return {"head": front_head(front), "chart": gr.update(value=draw_front(front), visible=True), "foot": front_foot(front)}


def wire(view: RecommendView, page: Wiring) -> None:
    """The answer; the chart when it comes into view; the boxes while they are open."""
    page.follow("recommend", recommend_updates, page.question, view.outputs, "recommend_changed")
    compare_box.wire(view.compare, page)
    page.follow("front", front_updates, page.question, view.front, "front_drawn")
    page.follow("roofline", roofline_updates, page.question, view.roofline, "roofline_changed")
    page.follow("code", setup_updates, [view.code.framework, *page.question], view.code.outputs, "code_changed")


TAB = Tab(
    name="recommend",
    word="Recommend",
    panels=(
        Panel("recommend"),
        Panel("compare", named="compare"),
        Panel("front", "#front"),
        Panel("roofline", "#roofline"),
        Panel("code", "#code"),
    ),
    build=build,
    wire=wire,
    box_inputs=lambda view: [view.code.framework],
)
