"""The tab *Live demo*: where this runs, a chat, a measurement of the page's model, the heartbeat, and what has been measured.

Nothing here runs when the page opens: the device is looked at (which loads torch) when the tab is, once for each visit of it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import gradio as gr

from lib.catalog import Catalog
from lib.live.demo_model import ON_CPU, ON_GPU, display_name
from lib.live.device import Device, current_device
from lib.live.zerogpu import quota_seconds
from lib.present.live_cards import device_line
from lib.present.markup import hint_note
from lib.ui import live_boxes, live_chat
from lib.ui.events import AT_ONCE, Ticks, follow
from lib.ui.live_boxes import HeartbeatView, LedgerView, MeasureView
from lib.ui.live_chat import ChatView
from lib.ui.model_field import ModelReference

if TYPE_CHECKING:
    from lib.service.app import Services


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveView:
    """The parts of the tab; `was_opened` says whether a visitor opened it: the ledger is read only then."""

    device: gr.HTML
    chat: ChatView
    measure: MeasureView
    heartbeat: HeartbeatView
    ledger: LedgerView
    was_opened: gr.State


def build(services: Services) -> LiveView:
    """The layout of the tab."""
    with gr.Column(elem_id="live"):
        device = gr.HTML(hint_note("Looking at the device …"), elem_id="device")
        chat = live_chat.build()
        measure = live_boxes.build_measure()
        heartbeat = live_boxes.build_heartbeat(services)
        ledger = live_boxes.build_ledger()
    return LiveView(device=device, chat=chat, measure=measure, heartbeat=heartbeat, ledger=ledger, was_opened=gr.State(value=False))


def device_markup(catalog: Catalog, look: Callable[[Catalog], Device] = current_device) -> str:
    """The device and the chat's model in a few words. The first look loads torch."""
    device = look(catalog)
    price = quota_seconds(catalog.rules.zerogpu, 10.0) / 10 if device.kind == "zerogpu" else 1.0
    chat = display_name(os.environ.get("DEMO_MODEL", "").strip() or (ON_CPU if device.kind == "cpu" else ON_GPU))
    return device_line(device, on_space=bool(os.environ.get("SPACE_ID")), chat=chat, quota_per_s=price)


def wire(view: LiveView, tab: gr.Tab, services: Services, model: ModelReference, ticks: Ticks) -> None:
    """Opening the tab (by hand or by a link, which selects it) fills it; each run then fills its own part, and the ledger after it."""
    live_chat.wire(view.chat, services)
    live_boxes.wire_heartbeat(view.heartbeat, services)
    live_boxes.wire_ledger(view.ledger, services)
    running = live_boxes.wire_measure(view.measure, services, model)
    questions = [model.text, *view.measure.inputs()]

    def arrive() -> list[Any]:
        return [True, device_markup(services.catalog())]

    def foresee(ref: str, *values: Any) -> list[Any]:
        return [live_boxes.expected_html(services, ref, *values)]

    def refresh(was_opened: bool, figure: str) -> list[Any]:
        return live_boxes.ledger_markup(services, figure).updates() if was_opened else [gr.skip() for _ in view.ledger.outputs()]

    ledger: list[Any] = [view.was_opened, view.ledger.figure]
    coming = tab.select(arrive, None, [view.was_opened, view.device], api_name="live_opened", **AT_ONCE)
    coming.then(refresh, ledger, view.ledger.outputs(), api_name="ledger_opened", **AT_ONCE)
    running.then(refresh, ledger, view.ledger.outputs(), api_name="ledger_followed", **AT_ONCE)
    follow(ticks["expected"], foresee, questions, [view.measure.expected], "measure_expected")
