"""The tab *Recommend*: what it has to do on the left, the hardware to take on the right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import gradio as gr

from lib.errors import AdvisorError
from lib.present.cards import caveat_list, model_name, no_pick_card, pick_card, prices_line, recommendation_notes, source_list
from lib.present.markup import answer_actions, hint_note, refusal_note
from lib.present.speed_charts import draw_front, front_foot, front_head, speed_front
from lib.present.tables import answer_json, pick_text, ranked_csv, ranked_table, rejected_table
from lib.ui import code_box, roofline_box
from lib.ui import fields as ask
from lib.ui.code_box import CodeView
from lib.ui.events import changes, follow
from lib.ui.fields import Value, arguments, link_query
from lib.ui.model_field import ModelReference
from lib.ui.roofline_box import RooflineView

if TYPE_CHECKING:
    from plotly.graph_objects import Figure  # type: ignore[import-untyped]

    from lib.service.app import Services

CHOOSE = "Name a model above to see the hardware that runs it."


@dataclass(frozen=True, slots=True, kw_only=True)
class RecommendInputs:
    """The questions, in the order of `lib.ui.fields.RECOMMEND`."""

    task: gr.Dropdown
    context: gr.Slider
    concurrency: gr.Slider
    precision: gr.Dropdown
    priority: gr.Radio
    requests: gr.Number
    hours: gr.Slider
    budget: gr.Number
    speed: gr.Number
    account: gr.Dropdown
    prompt: gr.Number
    answer: gr.Number
    ttft: gr.Number
    engine: gr.Dropdown
    sdk: gr.Radio
    platforms: gr.CheckboxGroup

    def all(self) -> list[Any]:
        """Every input, in order."""
        return [getattr(self, field.name) for field in fields(self)]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecommendView:
    """Inputs and outputs of the tab."""

    inputs: RecommendInputs
    pick: gr.HTML
    ranked: gr.HTML
    front_box: gr.Column
    front_head: gr.HTML
    front: gr.Plot
    front_foot: gr.HTML
    rejected_box: gr.Accordion
    rejected: gr.HTML
    sources_box: gr.Accordion
    sources: gr.HTML
    roofline: RooflineView
    code: CodeView

    def outputs(self) -> list[Any]:
        """Where an answer goes, in the order of `RecommendMarkup.updates`."""
        drawn = [self.front_box, self.front_head, self.front, self.front_foot]
        return [self.pick, self.ranked, *drawn, self.rejected_box, self.rejected, self.sources_box, self.sources]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecommendMarkup:
    """An answer as markup; boxes without content are not shown."""

    pick: str
    ranked: str = ""
    front_head: str = ""
    front: Figure | None = None
    front_foot: str = ""
    rejected: str = ""
    rejected_count: int = 0
    sources: str = ""

    def updates(self) -> list[Any]:
        """One value for each of `RecommendView.outputs`."""
        box = gr.update(label=f"What does not qualify, and why ({self.rejected_count})", visible=self.rejected_count > 0)
        drawn = [gr.update(visible=self.front is not None), self.front_head, self.front, self.front_foot]
        return [self.pick, self.ranked, *drawn, box, self.rejected, gr.update(visible=bool(self.sources)), self.sources]


def build(services: Services) -> RecommendView:
    """The layout of the tab."""
    with gr.Row(elem_classes="two"):
        with gr.Column(scale=1, min_width=280, elem_classes="controls"):
            inputs = _inputs()
        with gr.Column(scale=3, min_width=320, elem_classes="answers"):
            pick = gr.HTML(elem_id="pick")
            table = gr.HTML(elem_id="ranked")
            with gr.Column(elem_id="front", elem_classes="chart", visible=False) as front_box:
                head = gr.HTML()
                chart = gr.Plot(label="Price against predicted speed", show_label=False)
                foot = gr.HTML()
            code = code_box.build()
            roof = roofline_box.build(services)
            with gr.Accordion("What does not qualify, and why", open=False, visible=False, elem_classes="quiet-accordion") as rejected_box:
                refused = gr.HTML(elem_id="rejected")
            with gr.Accordion("Open points and sources", open=False, visible=False, elem_classes="quiet-accordion") as sources_box:
                behind = gr.HTML(elem_id="recommend-sources")
    return RecommendView(
        inputs=inputs,
        pick=pick,
        ranked=table,
        front_box=front_box,
        front_head=head,
        front=chart,
        front_foot=foot,
        rejected_box=rejected_box,
        rejected=refused,
        sources_box=sources_box,
        sources=behind,
        roofline=roof,
        code=code,
    )


def _inputs() -> RecommendInputs:
    task = gr.Dropdown(list(ask.TASKS), value="auto", label="Task")
    context = gr.Slider(
        512, 131_072, value=4096, step=512, buttons=[], label="Context length", info="Tokens per request: prompt and answer together."
    )
    concurrency = gr.Slider(1, ask.MOST_AT_ONCE, value=1, step=1, buttons=[], label="Requests at once")
    priority = gr.Radio(list(ask.PRIORITY_WORDS), value="balanced", label="Priority", elem_classes="segments")
    with gr.Accordion("Engine, precision, platforms", open=False, elem_classes="quiet-accordion"):
        sdk = gr.Radio(list(ask.SDK_WORDS), value="auto", label="Space SDK", info="Servers need Docker.", elem_classes="segments")
        engine = gr.Dropdown(list(ask.ENGINE_WORDS), value="auto", label="Engine", info="Automatic tries all that the hardware runs.")
        precision = gr.Dropdown(ask.precision_choices(), value="auto", label="Precision", info="Automatic may quantize to make it fit.")
        platforms = gr.CheckboxGroup(list(ask.PLATFORM_WORDS), value=["spaces"], label="Where", elem_classes="plain-choices")
    with gr.Accordion("Traffic, budget, account", open=False, elem_classes="quiet-accordion"):
        requests = gr.Number(100, label="Requests per day", minimum=0, precision=0)
        hours = gr.Slider(1, 24, value=24, step=1, buttons=[], label="Hours per day it runs")
        budget = gr.Number(0, label="Budget, USD per month", info="0 sets no limit.", minimum=0)
        account = gr.Dropdown(list(ask.ACCOUNT_WORDS), value="free", label="Account that hosts")
    with gr.Accordion("Request length and speed", open=False, elem_classes="quiet-accordion"):
        prompt = gr.Number(0, label="Prompt tokens", info="Of the usual request; 0 takes an eighth of the context.", minimum=0, precision=0)
        output = gr.Number(0, label="Output tokens", info="Of the usual request; 0 takes up to 256.", minimum=0, precision=0)
        ttft = gr.Number(0, label="Longest time to first token, s", info="0 sets no limit.", minimum=0)
        speed = gr.Number(0, label="Minimum speed, tokens/s", info="For each request; 0 sets no limit.", minimum=0)
    return RecommendInputs(
        task=task,
        context=context,
        concurrency=concurrency,
        precision=precision,
        priority=priority,
        requests=requests,
        hours=hours,
        budget=budget,
        speed=speed,
        account=account,
        prompt=prompt,
        answer=output,
        ttft=ttft,
        engine=engine,
        sdk=sdk,
        platforms=platforms,
    )


def recommend_markup(services: Services, model: str, values: Sequence[Value]) -> RecommendMarkup:
    """Ask for a recommendation and word it; a refusal becomes a sentence."""
    if not model:
        return RecommendMarkup(pick=hint_note(CHOOSE))
    asked = arguments(ask.RECOMMEND, values)
    if not asked["platforms"]:
        return RecommendMarkup(pick=refusal_note("No platform is ticked. Tick at least one under “Where”."))
    try:
        answer = services.recommend(model, **asked)
    except AdvisorError as refused:
        return RecommendMarkup(pick=refusal_note(str(refused)))
    pick, entries = answer["pick"], answer["ranked"]
    name = model_name(answer["model"], model)
    card = pick_card(pick, name) if pick else no_pick_card(name)
    shown = speed_front(entries)
    drawn = len(shown.places) > 1
    acts = answer_actions(
        text=pick_text(pick, name),
        query=link_query("recommend", model, ask.RECOMMEND, values),
        files=(
            ("Download CSV", "recommendation.csv", "text/csv", ranked_csv(entries)),
            ("Download JSON", "recommendation.json", "application/json", answer_json(answer)),
        ),
    )
    return RecommendMarkup(
        pick=card + acts + prices_line(answer["prices"]),
        ranked=ranked_table(entries, pick) + recommendation_notes(answer),
        front_head=front_head(shown) if drawn else "",
        front=draw_front(shown) if drawn else None,
        front_foot=front_foot(shown) if drawn else "",
        rejected=rejected_table(answer["rejected"]),
        rejected_count=len(answer["rejected"]),
        sources=caveat_list(answer["caveats"]) + source_list(answer["sources"]),
    )


def wire(view: RecommendView, services: Services, model: ModelReference) -> None:
    """Every question answers at once when it changes; the last change wins."""

    def answer(ref: str, *values: Value) -> list[Any]:
        return recommend_markup(services, ref, values).updates()

    follow(changes(view.inputs.all()), answer, [model.text, *view.inputs.all()], view.outputs(), "recommend_changed")
    roofline_box.wire(view.roofline, services, model, view.inputs.all())
    code_box.wire(view.code, services, model, view.inputs.all())
