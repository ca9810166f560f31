"""The box of *My Space* about the ZeroGPU quota: what one call reserves, the rest, and the decorator to copy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import gradio as gr

from lib.errors import AdvisorError
from lib.present.glossary import explain_terms
from lib.present.markup import hint_note, refusal_note
from lib.present.wording import page_note
from lib.present.zerogpu_cards import quota_card
from lib.service.zerogpu_quota import LARGEST_GB, LONGEST_CALL_S, zerogpu_quota
from lib.ui import workload
from lib.ui.account import token_of
from lib.ui.fields import ACCOUNT_WORDS, Field

if TYPE_CHECKING:
    from lib.service.app import Services

FIELDS = (
    Field(argument="call_s", name="call-seconds", default=0.0, high=LONGEST_CALL_S, label="Seconds of a call"),
    Field(argument="weights_gb", name="call-weights", default=0.0, high=LARGEST_GB, label="Weights, GB"),
)
"""The numbers of the box."""
SIZES = [("Automatic", "auto"), ("large", "large"), ("xlarge", "xlarge")]


@dataclass(frozen=True, slots=True, kw_only=True)
class ZeroGpuView:
    """The components of the box."""

    seconds: gr.Number
    size: gr.Dropdown
    weights: gr.Number
    plan: gr.Dropdown
    ask: gr.Button
    answer: gr.HTML


def build() -> ZeroGpuView:
    """The layout."""
    with gr.Column(elem_id="zerogpu"):
        gr.HTML("<h2>ZeroGPU quota of a call</h2>")
        with gr.Row(elem_classes="change-fields"):
            seconds = workload.number(FIELDS[0], "As measured; 0: not stated")
            size = gr.Dropdown(SIZES, value="auto", label="Size", info="Automatic: by the weights.", min_width=130)
            weights = workload.number(FIELDS[1], "Put on the GPU at start.")
            plan = gr.Dropdown(list(ACCOUNT_WORDS), value="free", label="Visitor's plan", info="Used without a token.", min_width=150)
            ask = gr.Button("Check the call", elem_id="zerogpu-check", min_width=150)
        answer = gr.HTML(hint_note(page_note("zerogpu")), elem_id="zerogpu-answer")
    return ZeroGpuView(seconds=seconds, size=size, weights=weights, plan=plan, ask=ask, answer=answer)


def quota_markup(services: Services, token: str | None, seconds: object, size: object, weights: object, plan: object) -> str:
    """The answer as markup; a refusal becomes a sentence."""
    try:
        answer = services[zerogpu_quota](call_s=seconds or 0, size=size, weights_gb=weights or 0, account=plan, token=token)
    except AdvisorError as refused:
        return refusal_note(str(refused))
    return explain_terms(quota_card(answer))


def wire(view: ZeroGpuView, token: gr.Textbox, services: Services) -> None:
    """The button answers; a token that was pasted is emptied once it was sent."""

    def check(
        login_token: gr.OAuthToken | None, typed_token: str | None, seconds: float | None, size: str, weights: float | None, plan: str
    ) -> dict[Any, Any]:
        markup = quota_markup(services, token_of(typed_token, login_token), seconds, size, weights, plan)
        return {view.answer: markup, token: "" if typed_token else gr.skip()}

    asked = [token, view.seconds, view.size, view.weights, view.plan]
    quiet: dict[str, Any] = {"queue": False, "api_visibility": "private", "show_progress": "minimal"}
    view.ask.click(check, asked, [view.answer, token], api_name="zerogpu_checked", **quiet)
