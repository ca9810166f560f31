"""*Compare* on the tab *Recommend*: ticked rows of its table, or the page's model and others, in up to three columns.

The choice is a hidden field, written as a link has it; the page's script keeps it, and `take` copies it there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import gradio as gr

from lib.catalog.offers import Offer
from lib.errors import AdvisorError, UnknownHardware
from lib.platforms import OWN
from lib.present.cards import model_name
from lib.present.html import render_html
from lib.present.markup import answer_actions
from lib.present.sentences import sentence
from lib.present.side_by_side import Column, comparison_card, comparison_text, find_difference
from lib.present.wording import page_note
from lib.service.recommend import recommend
from lib.service.what_runs import find_hardware
from lib.ui import fields as ask
from lib.ui import workload
from lib.ui.events import Outputs, Updates, Wiring
from lib.ui.fields import Value

if TYPE_CHECKING:
    from lib.advisor.result import ConfiguredHardware
    from lib.service.app import Services


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareView:
    """The hidden field with the choice, the button that fills it, and the outputs."""

    columns: gr.Textbox
    take: gr.Button
    outputs: Outputs


def build() -> CompareView:
    """The layout: a line with the choice, the comparison, and the field for another model."""
    columns = gr.Textbox("", visible=False, label="Compare", container=False, elem_id="q-compare")
    take = gr.Button("Compare", visible="hidden", elem_id="compare-take")
    bar = gr.HTML(elem_id="compare-bar")
    with gr.Column(elem_id="compare"):
        card = gr.HTML(elem_id="compared")
        gr.HTML(render_html("compare_model.html.j2"), elem_id="compare-model")
    return CompareView(columns=columns, take=take, outputs={"bar": bar, "card": card})


def compare_updates(services: Services, model: str, values: Sequence[Value]) -> Updates:
    """The comparison under the question, whose values come first, then the choice; a refusal becomes a sentence."""
    *asked, chosen = values
    if not model or not chosen:
        return {}
    try:
        items = ask.split_columns("compare", chosen)
        places = [place for item in items if (place := _hardware(services, item))]
        models = [model, *(item for item in items if not _hardware(services, item))]
        if len(models) * max(1, len(places)) > ask.MOST_COLUMNS:
            many = page_note("compare_too_many").format(models=len(models), places=len(places), most=ask.MOST_COLUMNS)
            return {"bar": _bar(items, many)}
        if len(models) * max(1, len(places)) == 1:
            return {"bar": _bar(items, page_note("compare_one"))}
        columns = list(_columns(services, models, places, asked))
    except AdvisorError as refused:
        return {"card": ask.format_error(refused, "No comparison.")}
    query = workload.link_query("recommend", model, (*ask.QUESTION, ask.COMPARED), values)
    acts = answer_actions(text=comparison_text(columns), query=query, files=(), more=render_html("compare_acts.html.j2"))
    return {"bar": _bar(items, find_difference(columns), shown=True), "card": comparison_card(columns, acts)}


def _bar(items: Sequence[str], words: str, *, shown: bool = False) -> str:
    return render_html("compare_bar.html.j2", items=items, words=words, shown=shown)


def _hardware(services: Services, item: str) -> str:
    """The name of the hardware that a part of the choice means; "" if it means none, so that it is a model."""
    try:
        found = find_hardware(services.catalog(), item)
    except UnknownHardware:
        return ""
    return f"{found.platform}:{found.id}" if isinstance(found, Offer) else found.id


def _columns(services: Services, models: Sequence[str], places: Sequence[str], asked: Sequence[Value]) -> Iterator[Column]:
    """Each model on each piece of hardware, or on its best. A refusal of another model than the page's is the obstacle of its column."""
    for number, model in enumerate(models):
        for place in places or [""]:
            try:
                yield _column(services, model, place, asked)
            except AdvisorError as refused:
                if number == 0:
                    raise
                yield Column(model=model, hardware="–", platform="", runs=None, obstacle=str(refused))


def _column(services: Services, model: str, place: str, asked: Sequence[Value]) -> Column:
    """A model on hardware ("" is its best), as `/recommend` configures it, or the reason why it does not run.

    Raises:
        AdvisorError: the question is refused.
    """
    arguments = workload.recommend_arguments(asked)
    if place:
        arguments |= workload.place_arguments(services, asked, place)
    answer = services[recommend](model, **arguments)
    listed = [one for one in (*answer.ranked, *answer.rejected) if f"{one.platform}:{one.hardware}" == place]
    runs: ConfiguredHardware | None
    if answer.own is not None:
        runs, hardware, platform, obstacles = answer.own.runs_as, f"your {answer.own.name}", str(OWN), answer.own.obstacles
    elif place:
        runs, refused_here = workload.find_entry(answer, place), next((one for one in answer.rejected if one in listed), None)
        hardware, platform = listed[0].name, listed[0].platform
        obstacles = () if refused_here is None else (refused_here.reason,)
    else:
        runs, obstacles = answer.pick, ()
        hardware, platform = ("–", "") if runs is None else (runs.name, runs.platform)
    why = " ".join(map(sentence, obstacles)) or page_note("nothing_qualifies")
    return Column(
        model=model_name(answer.model, model),
        parameters=None if answer.spec is None else answer.spec.parameters_total,
        task=answer.task,
        hardware=hardware,
        platform=platform,
        runs=runs,
        obstacle="" if runs else why,
    )


def wire(view: CompareView, page: Wiring) -> None:
    """It answers while the address names columns."""
    page.follow("compare", compare_updates, [*page.question, view.columns], view.outputs, "compare_changed")
