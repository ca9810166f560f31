"""The page: header, model bar, one tab per question, and what happens when it opens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import gradio as gr

from lib.present.markup import hint_note, refusal_note
from lib.present.privacy import privacy_note
from lib.ui import cost_tab, gpu_tpu_tab, live_tab, login, memory_tab, model_field, recommend_tab, space_tab, traffic_tab, train_tab
from lib.ui import fields as ask
from lib.ui.cost_tab import CostView
from lib.ui.events import AT_ONCE, Page
from lib.ui.gpu_tpu_tab import GpuTpuView
from lib.ui.http import api
from lib.ui.http.api import endpoints
from lib.ui.live_tab import LiveView
from lib.ui.memory_tab import MemoryView
from lib.ui.model_field import ModelReference, ModelView, ResolvedModel
from lib.ui.recommend_tab import RecommendView
from lib.ui.space_tab import SpaceView
from lib.ui.theme import ASSETS, launch_options
from lib.ui.traffic_tab import TrafficView
from lib.ui.train_tab import TrainView

if TYPE_CHECKING:
    from gradio.events import Dependency

    from lib.service.app import Services

__all__ = ["build_page", "launch_options"]

TITLE = "Spaces Hardware Advisor"


@dataclass(frozen=True, slots=True, kw_only=True)
class PageView:
    """Everything on the page that events connect."""

    model: ModelView
    tabs: gr.Tabs
    recommend: RecommendView
    memory: MemoryView
    train: TrainView
    cost: CostView
    gpu_tpu: GpuTpuView
    traffic: TrafficView
    live: LiveView
    space: SpaceView
    train_tab: gr.Tab
    cost_tab: gr.Tab
    gpu_tpu_tab: gr.Tab
    traffic_tab: gr.Tab
    live_tab: gr.Tab
    others: tuple[gr.Tab, ...]
    costs_shown: gr.State

    def outputs(self) -> list[Any]:
        """What opening the page fills in, in the order of `answer_link`."""
        inputs = [self.model.model, *self.recommend.inputs.all(), *self.memory.inputs.all()]
        return [
            self.tabs,
            *inputs,
            self.model.facts,
            *self.model.reference.outputs(),
            self.model.limit,
            *self.recommend.outputs(),
            *self.memory.outputs(),
            *self.memory.curve_outputs(),
            self.memory.pictures,
            *self.train.inputs.all(),
            self.train.shown,
            *self.traffic.inputs.all(),
            self.traffic.shown,
            *self.gpu_tpu.inputs.all(),
            self.gpu_tpu.shown,
            *self.cost.inputs.all(),
            self.costs_shown,
        ]

    def model_outputs(self) -> list[Any]:
        """What another model fills in, in the order of `model_changed`."""
        return [
            self.model.facts,
            *self.model.reference.outputs(),
            self.model.limit,
            self.recommend.inputs.context,
            self.memory.inputs.context,
            *self.recommend.outputs(),
            *self.memory.outputs(),
            *self.memory.curve_outputs(),
            self.memory.pictures,
        ]


def build_page(services: Services) -> gr.Blocks:
    """The whole page with the API behind it, not launched.

    Every event here is private and carries its own name: private events too take names, and the public ones are a contract.
    """
    page: gr.Blocks
    with Page(title=TITLE, analytics_enabled=False, fill_width=True) as page:
        gr.HTML((ASSETS / "header.html").read_text(encoding="utf-8"), elem_id="masthead")
        view = build_view(services)
        gr.HTML((ASSETS / "footer.html").read_text(encoding="utf-8"), elem_id="colophon")
        gr.HTML(privacy_note(account_actions=services.account_actions), elem_id="sends-and-keeps")
        _wire(page, view, services)
        api.register(endpoints(services))
    login.close_status(page)
    return page


def build_view(services: Services) -> PageView:
    """The model bar and the tabs, without their events."""
    model = model_field.build(services)
    with gr.Tabs(elem_id="tabs", overflow_behavior="wrap") as tabs:
        with gr.Tab("Recommend", id="recommend") as first:
            recommend = recommend_tab.build(services)
        with gr.Tab("Memory", id="memory", render_children=True) as second:
            memory = memory_tab.build(services)
        with gr.Tab("Fine-tune", id="train", render_children=True) as tuned:
            train = train_tab.build()
        with gr.Tab("Cost", id="cost", render_children=True) as third:
            cost = cost_tab.build(services)
        with gr.Tab("GPU or TPU", id="tpu", render_children=True) as choice:
            gpu_tpu = gpu_tpu_tab.build(services)
        with gr.Tab("Traffic", id="traffic", render_children=True) as busy:
            traffic = traffic_tab.build(services)
        with gr.Tab("Live demo", id="live", render_children=True) as fourth:
            live = live_tab.build(services)
        with gr.Tab("My Space", id="space", render_children=True) as fifth:
            space = space_tab.build(services)
    return PageView(
        model=model,
        tabs=tabs,
        recommend=recommend,
        memory=memory,
        train=train,
        cost=cost,
        gpu_tpu=gpu_tpu,
        traffic=traffic,
        live=live,
        space=space,
        train_tab=tuned,
        cost_tab=third,
        gpu_tpu_tab=choice,
        traffic_tab=busy,
        live_tab=fourth,
        others=(first, second, tuned, choice, busy, fourth, fifth),
        costs_shown=gr.State(value=False),
    )


def _wire(page: gr.Blocks, view: PageView, services: Services) -> None:
    recommend_tab.wire(view.recommend, services, view.model.reference)
    memory_tab.wire(view.memory, services, view.model.reference, view.model.limit)
    model_field.wire(view.model, services)
    live_tab.wire(view.live, view.live_tab, services, view.model.reference)
    space_tab.wire(view.space, page, services)

    def open_page(request: gr.Request) -> list[Any]:
        return answer_link(services, request.query_params)

    def change_model(model: str | None, config: str | None, *values: ask.Value) -> list[Any]:
        return model_changed(services, model, config, values)

    opening = page.load(open_page, None, view.outputs(), api_name="page_opened", api_visibility="private", show_progress="minimal")
    inputs = [*view.recommend.inputs.all(), *view.memory.inputs.all()]
    changing = gr.on(
        [view.model.model.submit, view.model.config.submit, view.model.check.click],
        change_model,
        [view.model.model, view.model.config, *inputs],
        view.model_outputs(),
        trigger_mode="always_last",
        api_name="model_changed",
        api_visibility="private",
    )
    _wire_cost(view, services, opening, changing)
    gpu_tpu_tab.wire(view.gpu_tpu, view.gpu_tpu_tab, services, view.model.reference, opening)
    train_tab.wire(view.train, view.train_tab, services, view.model.reference, opening)
    traffic_tab.wire(view.traffic, view.traffic_tab, services, view.model.reference, opening)


def _wire_cost(view: PageView, services: Services, opening: Dependency, changing: Dependency) -> None:
    """Bills are worked out while their tab is seen, for they ask more (a provider's price, every way to save) than the other answers."""
    cost_tab.wire(view.cost, services, view.model.reference)

    def show(ref: str, *values: ask.Value) -> list[Any]:
        return [True, *cost_tab.cost_markup(services, ref, values).updates()]

    def follow(shown: bool, ref: str, *values: ask.Value) -> list[Any]:
        return cost_tab.cost_markup(services, ref, values).updates() if shown else [gr.skip() for _ in view.cost.outputs()]

    def leave() -> bool:
        return False

    inputs = [view.model.reference.text, *view.cost.inputs.all()]
    view.cost_tab.select(show, inputs, [view.costs_shown, *view.cost.outputs()], api_name="cost_shown", **AT_ONCE)
    for number, tab in enumerate(view.others, start=1):
        tab.select(leave, None, view.costs_shown, api_name=f"cost_left_{number}", **AT_ONCE)
    opening.then(follow, [view.costs_shown, *inputs], view.cost.outputs(), api_name="cost_opened", **AT_ONCE)
    changing.then(follow, [view.costs_shown, *inputs], view.cost.outputs(), api_name="cost_followed", **AT_ONCE)


def model_changed(services: Services, model: str | None, config: str | None, values: Sequence[ask.Value]) -> list[Any]:
    """Another model: what it is, context sliders up to its limit, and both answers anew."""
    resolved = model_field.resolve(services, model, config)
    if not resolved.reference:
        return [resolved.facts, *ModelReference.updates(""), resolved.context_limit, gr.skip(), gr.skip(), *_nothing()]
    recommend_values, recommend_context = _bounded(resolved, ask.RECOMMEND, values[: len(ask.RECOMMEND)])
    memory_values, memory_context = _bounded(resolved, ask.MEMORY, values[len(ask.RECOMMEND) :])
    note = "" if [*recommend_values, *memory_values] == list(values) else model_field.context_note(resolved.context_limit)
    return [
        resolved.facts + note,
        *ModelReference.updates(resolved.reference),
        resolved.context_limit,
        recommend_context,
        {**memory_context, "visible": not resolved.pictures},
        *recommend_tab.recommend_markup(services, resolved.reference, recommend_values).updates(),
        *memory_tab.memory_markup(services, resolved.reference, memory_values).updates(),
        *memory_tab.curve_updates(memory_tab.draw_curve(services, resolved.reference, resolved.context_limit, memory_values)),
        gr.update(visible=resolved.pictures),
    ]


def _nothing() -> list[Any]:
    """Both tabs without an answer, when there is no model to ask about."""
    empty = recommend_tab.RecommendMarkup(pick=hint_note(recommend_tab.CHOOSE)), memory_tab.MemoryMarkup(need=hint_note(memory_tab.CHOOSE))
    return [*empty[0].updates(), *empty[1].updates(), *memory_tab.curve_updates(None), gr.update(visible=False)]


def _bounded(resolved: ResolvedModel, fields: Sequence[ask.Field], values: Sequence[ask.Value]) -> tuple[list[ask.Value], dict[str, Any]]:
    """The values with the context inside the model's limit, and the slider that shows it."""
    at = [field.argument for field in fields].index("context_tokens")
    slider = model_field.context_slider(resolved.context_limit, values[at])
    return [*values[:at], slider["value"], *values[at + 1 :]], slider


def answer_link(services: Services, params: Mapping[str, str]) -> list[Any]:
    """The page as it opens: an example answered, or what the link asks for. A tab is selected only if the link names one."""
    tab = params.get("tab", "")
    model = params.get("model", ask.EXAMPLE)[: ask.MODEL_LENGTH]
    recommend_values, unread = ask.read_link(ask.RECOMMEND, params if tab not in {"memory", "cost", "tpu", "traffic", "train"} else {})
    memory_values, more = ask.read_link(ask.MEMORY, params if tab == "memory" else {})
    cost_values, rest = ask.read_link(ask.cost_fields(services.catalog()), params if tab == "cost" else {})
    choice_values, left = ask.read_link(ask.gpu_tpu_fields(services.catalog()), params if tab == "tpu" else {})
    train_values, lost = ask.read_link(ask.TRAIN, params if tab == "train" else {})
    traffic_values, over = ask.read_link(ask.traffic_fields(services.catalog()), params if tab == "traffic" else {})
    facts, reference, fingerprint, limit, *sliders_and_answers = model_changed(services, model, None, [*recommend_values, *memory_values])
    recommend_context, memory_context, *answers = sliders_and_answers
    if not reference:
        recommend_context, memory_context = (model_field.context_slider(limit, value) for value in (recommend_values[1], memory_values[0]))
    inputs = [recommend_values[0], recommend_context, *recommend_values[2:], memory_context, *memory_values[1:]]
    wrong = [*unread, *more, *rest, *left, *over, *lost]
    if wrong:
        facts += refusal_note(f"The link held a value that cannot be used for: {', '.join(wrong)}. The defaults stand there.")
    selected = gr.update(selected=tab) if tab in ask.TABS else gr.skip()
    return [
        selected,
        model,
        *inputs,
        facts,
        reference,
        fingerprint,
        limit,
        *answers,
        *train_values,
        tab == "train",
        *traffic_values,
        tab == "traffic",
        *choice_values,
        tab == "tpu",
        *cost_values,
        tab == "cost",
    ]
