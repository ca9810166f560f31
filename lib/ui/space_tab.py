"""The tab *My Space*: which Space and who asks on the left; what it is, its right size, and changing it on the right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import gradio as gr

from lib.present.markup import hint_note
from lib.ui import account_box, login, space_actions, space_look
from lib.ui.account_box import AccountView
from lib.ui.events import Ticks
from lib.ui.fields import MODEL_LENGTH, QUESTION
from lib.ui.login import LoginView
from lib.ui.space_actions import SLEEP_WORDS, USUAL_SLEEP_S, FormView, TabParts, clear_review
from lib.ui.space_look import CHOOSE

if TYPE_CHECKING:
    from lib.service.app import Services


@dataclass(frozen=True, slots=True, kw_only=True)
class SpaceView:
    """Inputs and outputs of the tab. `space_id` is the Space that was found, `pick` the tier to move to."""

    space: gr.Textbox
    look: gr.Button
    login: LoginView
    size: gr.Textbox
    resize: gr.Button
    status: gr.HTML
    sized: gr.HTML
    use: gr.Button
    form: FormView
    account: AccountView
    space_id: gr.State
    pick: gr.State


def build(services: Services) -> SpaceView:
    """The layout of the tab."""
    with gr.Row(elem_classes="two"):
        with gr.Column(scale=1, min_width=280, elem_classes="controls"):
            space = gr.Textbox(
                label="Space",
                info="Your own, or any public one.",
                placeholder="owner/name",
                max_lines=1,
                elem_id="space",
                max_length=MODEL_LENGTH,
            )
            look = gr.Button("Load Space", variant="primary", elem_id="look")
            who = login.build(acts=services.account_actions)
            size = space_look.build_size()
            resize = gr.Button("Right-size", elem_id="resize")
        with gr.Column(scale=3, min_width=320, elem_classes="answers"):
            with gr.Row(elem_classes="beside"):
                status = gr.HTML(hint_note(CHOOSE), elem_id="space-status")
                with gr.Column(elem_id="space-size", min_width=300):
                    sized = gr.HTML()
                    use = gr.Button("Use this tier", visible=False, elem_id="use-tier")
            form = space_actions.build(services)
    account = account_box.build(acts=services.account_actions)
    return SpaceView(
        space=space,
        look=look,
        login=who,
        size=size,
        resize=resize,
        status=status,
        sized=sized,
        use=use,
        form=form,
        account=account,
        space_id=gr.State(""),
        pick=gr.State(""),
    )


def wire(view: SpaceView, services: Services, question: Sequence[Any], ticks: Ticks) -> None:
    """Seeing first, then acting in two steps."""
    login.wire(view.login, view.space)
    _wire_look(view, services, question, ticks)
    account_box.wire(view.account, view.login.token, services)
    space_actions.wire(
        view.form, TabParts(space=view.space_id, token=view.login.token, status=view.status, sized=view.sized, use=view.use), services
    )


def _wire_look(view: SpaceView, services: Services, question: Sequence[Any], ticks: Ticks) -> None:
    form = view.form

    at = [field.argument for field in QUESTION].index("hardware")

    token = view.login.token

    def look(signed: gr.OAuthToken | None, space: str | None, pasted: str | None, hardware: str | None) -> dict[Any, Any]:
        markup = space_look.space_markup(services, space, login.token_of(pasted, signed))
        sleeps = markup.sleep_time_s if markup.sleep_time_s in {seconds for _, seconds in SLEEP_WORDS} else USUAL_SLEEP_S
        return {
            view.status: markup.status,
            view.space_id: markup.space,
            view.sized: hint_note("Working out the right size …") if markup.space else "",
            view.use: gr.update(visible=False),
            form.box: gr.update(visible=bool(markup.space)),
            form.tier: _tier_update(services, hardware),
            form.sleep: sleeps,
            form.progress: "",
            **clear_review(form),
        }

    def size(signed: gr.OAuthToken | None, space: str, pasted: str | None, model: str | None, *values: Any) -> dict[Any, Any]:
        markup = space_look.size_markup(services, space, model, values, login.token_of(pasted, signed))
        emptied = "" if pasted else gr.skip()  # the last step of looking; a token that is pasted meanwhile stays
        return {view.sized: markup.card, view.pick: markup.tier, view.use: gr.update(visible=bool(markup.tier)), token: emptied}

    quiet: dict[str, Any] = {"queue": False, "api_visibility": "private", "show_progress": "minimal"}
    outputs = [view.status, view.space_id, view.sized, view.use, form.box, form.tier, form.sleep, form.progress, *clear_review(form)]
    asking = [view.space, token, question[at]]
    looking = gr.on([view.look.click, view.space.submit, ticks["space"].change], look, asking, outputs, api_name="space_looked", **quiet)
    sizing = [view.space_id, token, view.size, *question]
    answers = [view.sized, view.pick, view.use, token]
    looking.then(size, sizing, answers, api_name="space_sized", **quiet)
    gr.on([view.resize.click, view.size.submit], size, sizing, answers, api_name="space_resized", **quiet)

    def prefer(hardware: str | None) -> Any:
        return _tier_update(services, hardware)

    question[at].change(prefer, question[at], form.tier, api_name="space_tier_preferred", **quiet)

    def take(tier: str) -> dict[Any, Any]:
        return {form.action: "switch", form.tier: tier, **clear_review(form)}

    view.use.click(take, view.pick, [form.action, form.tier, *clear_review(form)], api_name="space_tier_taken", **quiet)


def _tier_update(services: Services, hardware: str | None) -> Any:
    """The tiers of today; the hardware that is looked at is chosen, if it is one of them."""
    choices, wanted = space_look.tier_choices(services), space_look.tier_of_hardware(hardware)
    on_offer = any(value == wanted for _, value in choices)
    return gr.update(choices=choices, value=wanted) if on_offer else gr.update(choices=choices)
