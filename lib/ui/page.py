"""The page: header, model bar, workload, one tab per question, and what happens when it opens."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import gradio as gr

from lib.present.glossary import glossary_list, privacy_note
from lib.present.markup import PASTED, hint_note, refusal_note
from lib.present.wording import page_note
from lib.ui import account, explain_box, model_field, recommend_tab, workload
from lib.ui import fields as ask
from lib.ui.events import (
    AT_ONCE,
    Page,
    RefreshTriggers,
    Updates,
    Wiring,
    as_properties,
    build_refresh_triggers,
    by_component,
    explain_markups,
)
from lib.ui.http import api
from lib.ui.model_field import ModelView
from lib.ui.tabs import TAB_NAMES, TABS
from lib.ui.theme import ASSETS, TITLE, launch_options
from lib.ui.workload import Inputs, current_link, read_link
from lib.workload import LONGEST_CONTEXT

if TYPE_CHECKING:
    from lib.service.app import Services

__all__ = ["build_page", "launch_options"]

_NEAR = 0.75
"""Similarity from which a parameter of a link counts as a misspelt field: "concurency" and "concurrency" have 0.95."""
OF_MEDIA = tuple(name for names in ask.FIELDS_BY_MEDIUM.values() for name in names)


@dataclass(frozen=True, slots=True, kw_only=True)
class PageView:
    """Everything on the page that events connect.

    `tab` holds the tabs by name, and `views` the result of each tab's `build`. The page's script raises `link` to fill the fields from the
    address. It presses `look` to make panels answer, and `go` to select other hardware.
    """

    model: ModelView
    workload: Inputs
    media: list[Any]
    tabs: gr.Tabs
    tab: dict[str, gr.Tab]
    views: dict[str, Any]
    explain: explain_box.ExplainView
    triggers: RefreshTriggers
    link: gr.Number
    look: gr.Button
    go: gr.Button

    def question(self) -> list[Any]:
        """The inputs of `lib.ui.fields.QUESTION`."""
        return list(self.workload.values())

    def every(self) -> list[Any]:
        """The inputs of `lib.ui.fields.ALL_FIELDS`."""
        own = [self.views[name] for name in ask.TAB_FIELDS]
        return [*self.question(), self.views["recommend"].compare.columns, *(one for view in own for one in view.inputs.values())]

    def outputs(self) -> dict[str, Any]:
        """Values of an opened page: the fields by their names, and the outputs of `model_outputs`, of Recommend and of the tabs."""
        fields = dict(zip(ask.FIELDS_BY_NAME, self.every(), strict=True))
        others = {"tabs": self.tabs, "model": self.model.model, "space": self.views["space"].space}
        return {**fields, **self.model_outputs(), **self.views["recommend"].outputs, **others}

    def model_outputs(self) -> dict[str, Any]:
        """Values that another model fills in: its line, the fields of `OF_MEDIA`, and the parts shown for its media alone."""
        memory = self.views["memory"]
        shown = {name: memory.inputs[name] for name in ("offload", "kv", "ngl")} | {"solve": memory.solve.box}
        shown |= dict(zip(ask.FIELDS_BY_MEDIUM, self.media, strict=True))
        return {
            "facts": self.model.facts,
            "reference": self.model.reference.text,
            "context_limit": self.model.limit,
            **{f"shown:{name}": component for name, component in shown.items()},
            **{name: self.workload[name] for name in (*OF_MEDIA, "context")},
        }


def build_page(services: Services) -> Page:
    """The whole page with the API behind it, not launched.

    Every event here is private and has a stated name. Otherwise Gradio could give it a name that a public endpoint has promised.
    """
    page: Page
    with Page(title=TITLE, analytics_enabled=False, fill_width=True) as page:
        gr.HTML((ASSETS / "header.html").read_text(encoding="utf-8"), elem_id="masthead")
        view = build_view(services)
        notes = glossary_list() + privacy_note(account_actions=services.account_actions)
        gr.HTML((ASSETS / "footer.html").read_text(encoding="utf-8") + notes, elem_id="colophon")
        _wire(page, view, services)
        api.register(services.endpoints())
    account.close_status(page)
    return page


def build_view(services: Services) -> PageView:
    """The model bar, the workload and the tabs, without their events."""
    with gr.Column(elem_classes="model-bar"):
        model = model_field.build(services)
        workload_view, media = workload.build(services, model.config)
    explain = explain_box.build()
    triggers = build_refresh_triggers(panel for tab in TABS for panel in tab.panels)
    link = gr.Number(0, visible=False, label="link", container=False)
    look = gr.Button("Answer again", visible="hidden", elem_id="settle")
    go = gr.Button("Look at this hardware", visible="hidden", elem_id="go")
    tabs: dict[str, gr.Tab] = {}
    views: dict[str, Any] = {}
    with gr.Tabs(elem_id="tabs", overflow_behavior="wrap") as all_tabs:
        for tab in TABS:
            with gr.Tab(tab.word, id=tab.name) as tabs[tab.name]:
                views[tab.name] = tab.build(services)
    return PageView(
        model=model,
        workload=workload_view,
        media=media,
        tabs=all_tabs,
        tab=tabs,
        views=views,
        explain=explain,
        triggers=triggers,
        link=link,
        look=look,
        go=go,
    )


def _wire(page: Page, view: PageView, services: Services) -> None:
    """Connect the events of the model bar, of links, and of the buttons that the page's script presses; tabs connect their own."""
    reference, question = view.model.reference, view.question()
    for tab in TABS:
        wiring = Wiring(
            services=services, model=reference, limit=view.model.limit, question=question, triggers=view.triggers, tab=view.tab[tab.name]
        )
        tab.wire(view.views[tab.name], wiring)
    model_field.wire(view.model, services)
    explain_box.wire(view.explain, services, view.views["space"].paste)
    opened, changed = view.outputs(), view.model_outputs()

    # The page as it opens, from its address, and its answer to the defaults, which is sent with the page.
    def open_page(request: gr.Request) -> dict[Any, Any]:
        return by_component(opened, drop_defaults(answer_link(services, request.query_params)))

    def first_answer() -> dict[int, dict[str, Any]]:
        updates = drop_defaults(answer_link(services, {}))
        del updates["context_limit"]  # the server keeps it
        return {component._id: as_properties(update) for component, update in by_component(opened, updates).items()}  # noqa: SLF001

    page.first_answer = first_answer

    # Another model.
    def change_model(model: str | None, config: str | None, context: float | None, before: int) -> dict[Any, Any]:
        return by_component(changed, model_changed(services, model, config, context, before))

    opening = view.link.change(open_page, None, list(dict.fromkeys(opened.values())), api_name="page_opened", **AT_ONCE)
    inputs = [view.model.model, view.model.config, view.workload["context"], view.model.limit]
    outputs = list(changed.values())
    # A name that is entered is the model; a config is one only where its box is open.
    by_name = view.model.model.submit(
        change_model,
        inputs,
        outputs,
        js="(model, _, ...rest) => [model, '', ...rest]",
        api_name="model_named",
        **AT_ONCE,
    )
    changing = gr.on(
        [view.model.config.submit, view.model.check.click, view.model.token.submit],
        change_model,
        inputs,
        outputs,
        js="(...values) => advisor.find(...values)",
        trigger_mode="always_last",
        api_name="model_changed",
        **AT_ONCE,
    )
    # Buttons that the page's script presses, and events after which panels answer again.
    boxes = [one for tab in TABS for one in tab.box_inputs(view.views[tab.name])]
    every = [reference.text, view.model.model, *view.every(), *boxes]
    settling: dict[str, Any] = {"show_progress": "hidden", "queue": False, "trigger_mode": "multiple", "api_visibility": "private"}
    hidden = list(view.triggers.values())
    view.look.click(None, every, hidden, js="(...values) => advisor.now(...values)", api_name="settled", **settling)
    compare = view.views["recommend"].compare
    taking = compare.take.click(None, None, compare.columns, js="() => advisor.compared()", api_name="columns_taken", **settling)
    view.go.click(None, None, view.workload["hardware"], js="() => advisor.go()", api_name="hardware_taken", **settling)
    for name, event in (("named", by_name), ("changed", changing), ("compared", taking)):
        event.then(None, every, hidden, js="(...values) => advisor.now(...values)", api_name=f"settled_{name}", **settling)
    page.load(None, None, view.link, js="() => advisor.start()", api_name="started", **settling)
    opening.then(None, every, hidden, js="(...values) => advisor.opened(...values)", api_name="settled_opened", **settling)


def drop_defaults(updates: Updates) -> Updates:
    """The updates without the values that the fields have from the start: a visitor may have changed one of them meanwhile."""
    start: dict[str, Any] = {name: field.default for name, field in ask.FIELDS_BY_NAME.items()}
    start |= {"context": model_field.context_slider(LONGEST_CONTEXT, start["context"]), "model": ask.EXAMPLE, "space": ""}
    return {name: value for name, value in updates.items() if name not in start or value != start[name]}


def model_changed(
    services: Services, model: str | None, config: str | None, context: ask.Value | None, before: int = LONGEST_CONTEXT
) -> Updates:
    """Updates for another model: its line of facts, the fields of its media, and the context up to its limit. The tabs answer afterwards.

    A context that the last model's limit (`before`) had cut goes back to the usual one.
    """
    resolved = model_field.resolve(services, model, config)
    usual = ask.FIELDS_BY_NAME["context"].default
    if context == before < resolved.context_limit:
        context = max(before, usual)
    slider = model_field.context_slider(resolved.context_limit, context)
    medium_of = {"offload": "pictures", "kv": "answer", "ngl": "tokens", "solve": "tokens"} | {name: name for name in ask.FIELDS_BY_MEDIUM}
    updates: Updates = {"facts": resolved.facts, "reference": resolved.reference, "context_limit": resolved.context_limit}
    updates |= {f"shown:{name}": gr.update(visible=medium in resolved.media) for name, medium in medium_of.items()}
    if not resolved.reference:
        return updates
    if context not in {None, slider["value"], usual}:
        updates["facts"] += model_field.context_note(resolved.context_limit)
    unasked = [name for medium, names in ask.FIELDS_BY_MEDIUM.items() if medium not in resolved.media for name in names]
    return updates | {name: ask.FIELDS_BY_NAME[name].default for name in unasked} | {"context": slider}


def unknown_parts(params: Mapping[str, str]) -> list[str]:
    """Parameters that look like a misspelt one, and a tab that does not exist. Others may be a proxy's or a messenger's own."""
    known = [*ask.FIELDS_BY_NAME, "tab", "model", "config", "space", "tier", "units"]
    near = {name: difflib.get_close_matches(name[: ask.MODEL_LENGTH], known, n=1, cutoff=_NEAR) for name in params if name not in known}
    parts = [f"{name} (did you mean {found[0]}?)" for name, found in near.items() if found]
    tab = params.get("tab", "")
    return [f"tab={tab[:40]} (the tabs are {', '.join(TAB_NAMES)})", *parts] if tab and tab not in TAB_NAMES else parts


def answer_link(services: Services, params: Mapping[str, str]) -> Updates:
    """The page as it opens: an example answered, or what the link asks for. A tab is selected only if the link names one.

    The answer of the first tab is there at once; other tabs are asked by the page when it shows them.
    """
    params = current_link(params)
    tab = params.get("tab", "")
    read, unread = read_link(ask.every_field(services.catalog()), params)
    values = dict(zip(ask.FIELDS_BY_NAME, read, strict=True))
    pasted = params.get("config") == PASTED
    model = "" if pasted else params.get("model", ask.EXAMPLE)[: ask.MODEL_LENGTH]
    changed = model_changed(services, model, None, values["context"])
    unread += [name for name in OF_MEDIA if name in changed and values[name] != changed[name]]  # the model neither makes nor takes it
    if pasted:
        changed["facts"] = hint_note(page_note("pasted_config"))
    if unknown := unknown_parts(params):
        changed["facts"] += refusal_note(page_note("unknown_in_link").format(parts=", ".join(unknown)), page_note("link_cut"))
    if unread:
        changed["facts"] += refusal_note(page_note("bad_link").format(fields=", ".join(unread)), page_note("link_cut"))
    slider = changed.get("context") or model_field.context_slider(changed["context_limit"], values["context"])
    opened = {"model": model, **values, **changed, "context": slider, "space": params.get("space", "")[: ask.MODEL_LENGTH]}
    if tab in TAB_NAMES:
        opened["tabs"] = gr.update(selected=tab)
    if tab not in TAB_NAMES or tab == "recommend":
        question = [slider["value"] if field.name == "context" else opened[field.name] for field in ask.QUESTION]
        answer = recommend_tab.recommend_updates(services, changed["reference"], question)
        opened |= explain_markups(answer)
    return opened
