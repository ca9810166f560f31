"""The tab *My Space*: which Space and who asks on the left; what it is, the tier that suits it, and changing it on the right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import gradio as gr

from lib.catalog.offers import tier_of
from lib.errors import AdvisorError, NoLinkedModel
from lib.platforms import SPACE_PLATFORMS
from lib.present.glossary import explain_terms
from lib.present.markup import hint_note, refusal_note
from lib.present.space_cards import STATIC, size_card
from lib.present.wording import page_note
from lib.service.right_size import right_size
from lib.service.space_status import space_status
from lib.ui import account, fleet_box, space_actions, workload, zerogpu_box
from lib.ui import fields as ask
from lib.ui.account import AccountView, LoginView
from lib.ui.events import Panel, RefreshTriggers, Tab, Wiring
from lib.ui.fields import MODEL_LENGTH, QUESTION
from lib.ui.live_boxes import RunView
from lib.ui.space_actions import SLEEP_WORDS, USUAL_SLEEP_S, FormView, TabParts, clear_review, status_markup, tier_choices
from lib.ui.zerogpu_box import ZeroGpuView

if TYPE_CHECKING:
    from lib.service.app import Services


@dataclass(frozen=True, slots=True, kw_only=True)
class SpaceMarkup:
    """A Space as it was found: markup, its id ("" when it was not found or has no hardware to change), and the sleep time that it has."""

    status: str
    space: str = ""
    sleep_time_s: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeMarkup:
    """The right size as markup, and the tier to move to ("" when there is none)."""

    card: str
    tier: str = ""


def space_markup(services: Services, space: str | None, token: str | None) -> SpaceMarkup:
    """Look at the Space; a refusal becomes a sentence."""
    if not (space or "").strip():
        return SpaceMarkup(status=hint_note(page_note("name_space")))
    try:
        status = services[space_status]((space or "").strip(), token=token)
    except AdvisorError as refused:
        return SpaceMarkup(status=refusal_note(str(refused)))
    return SpaceMarkup(status=status_markup(status), space="" if status.sdk == STATIC else status.space, sleep_time_s=status.sleep_time_s)


def size_markup(services: Services, space: str, model: str | None, values: Sequence[Any], token: str | None) -> SizeMarkup:
    """Ask for the right size under the workload of the page; a refusal becomes a sentence."""
    if not space:
        return SizeMarkup(card="")
    try:
        answer = services[right_size](space, model=model or "", **workload.recommend_arguments(values), token=token)
    except NoLinkedModel:
        return SizeMarkup(card=hint_note(page_note("no_linked_model")))
    except AdvisorError as refused:
        return SizeMarkup(card=ask.format_error(refused, "No right size."))
    pick = answer.pick
    tier = ""
    if pick is not None and answer.decision == "move":
        tier = _tier(pick.platform, pick.hardware) or ""
    return SizeMarkup(card=size_card(answer), tier=tier)


def tier_of_hardware(hardware: object) -> str | None:
    """The tier of a Space that the page's hardware names; `None` if Spaces do not have it."""
    platform, _, flavor = str(hardware or "").partition(":")
    return _tier(platform, flavor)


def _tier(platform: str, hardware: str) -> str | None:
    return tier_of(hardware) if platform in SPACE_PLATFORMS else None


@dataclass(frozen=True, slots=True, kw_only=True)
class SpaceView:
    """Inputs and outputs of the tab. `space_id` is the Space that was found, `pick` the tier to move to."""

    paste: gr.Button
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
    fleet: RunView
    quota: ZeroGpuView
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
            who = account.build_login(acts=services.account_actions)
            size = gr.Textbox(
                label="Model it runs", info="Empty: the models named in the Space's README.md.", max_lines=1, elem_id="size-model"
            )
            resize = gr.Button("Right-size", elem_id="resize")
            paste = gr.Button("It ran out of memory", elem_id="space-paste")
        with gr.Column(scale=3, min_width=320, elem_classes="answers"):
            with gr.Row(elem_classes="beside"):
                status = gr.HTML(hint_note(page_note("name_space")), elem_id="space-status")
                with gr.Column(elem_id="space-size", min_width=300):
                    sized = gr.HTML()
                    use = gr.Button("Use this tier", visible=False, elem_id="use-tier")
            form = space_actions.build(services)
    overview = account.build_account(acts=services.account_actions)
    fleet = fleet_box.build()
    quota = zerogpu_box.build()
    return SpaceView(
        paste=paste,
        space=space,
        look=look,
        login=who,
        size=size,
        resize=resize,
        status=status,
        sized=sized,
        use=use,
        form=form,
        account=overview,
        fleet=fleet,
        quota=quota,
        space_id=gr.State(""),
        pick=gr.State(""),
    )


def wire(view: SpaceView, page: Wiring) -> None:
    """Seeing first, then acting in two steps."""
    services = page.services
    _wire_look(view, services, page.question, page.triggers)
    account.wire_account(view.account, view.login.token, services)
    fleet_box.wire(view.fleet, services)
    zerogpu_box.wire(view.quota, view.login.token, services)
    space_actions.wire(
        view.form, TabParts(space=view.space_id, token=view.login.token, status=view.status, sized=view.sized, use=view.use), services
    )


def _wire_look(view: SpaceView, services: Services, question: Sequence[Any], triggers: RefreshTriggers) -> None:
    form = view.form

    at = [field.argument for field in QUESTION].index("hardware")

    token = view.login.token

    def look(login_token: gr.OAuthToken | None, space: str | None, typed_token: str | None, hardware: str | None) -> dict[Any, Any]:
        markup = space_markup(services, space, account.token_of(typed_token, login_token))
        sleeps = markup.sleep_time_s if markup.sleep_time_s in {seconds for _, seconds in SLEEP_WORDS} else USUAL_SLEEP_S
        return {
            view.status: explain_terms(markup.status),
            view.space_id: markup.space,
            view.sized: hint_note(page_note("sizing")) if markup.space else "",
            view.use: gr.update(visible=False),
            form.box: gr.update(visible=bool(markup.space)),
            form.tier: _tier_update(services, hardware),
            form.sleep: sleeps,
            form.progress: "",
            **clear_review(form),
        }

    def size(login_token: gr.OAuthToken | None, space: str, typed_token: str | None, model: str | None, *values: Any) -> dict[Any, Any]:
        markup = size_markup(services, space, model, values, account.token_of(typed_token, login_token))
        emptied = "" if typed_token else gr.skip()  # the last step of looking; a token that is pasted meanwhile stays
        return {
            view.sized: explain_terms(markup.card),
            view.pick: markup.tier,
            view.use: gr.update(visible=bool(markup.tier)),
            token: emptied,
        }

    quiet: dict[str, Any] = {"queue": False, "api_visibility": "private", "show_progress": "minimal"}
    outputs = [view.status, view.space_id, view.sized, view.use, form.box, form.tier, form.sleep, form.progress, *clear_review(form)]
    asking = [view.space, token, question[at]]
    looking = gr.on([view.look.click, view.space.submit, triggers["space"].change], look, asking, outputs, api_name="space_looked", **quiet)
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
    choices, tier = tier_choices(services), tier_of_hardware(hardware)
    on_offer = any(value == tier for _, value in choices)
    return gr.update(choices=choices, value=tier) if on_offer else gr.update(choices=choices)


TAB = Tab(
    name="space",
    word="My Space",
    panels=(Panel("space", once=True, named="space"),),
    build=build,
    wire=wire,
    asks_workload=False,
    boxes={"zerogpu": zerogpu_box.FIELDS},
)
