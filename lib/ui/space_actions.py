"""*My Space*: a Space's card, the form of an action, its review with the price, the confirmation of exactly that price, the way there.

Two steps: `review_request` asks what an action would do and changes nothing; `action_scenes` does it at the price that was on the
card. If the price has changed by then, the service refuses, and the review is shown again.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, get_args
from urllib.parse import urlencode

import anyio
import gradio as gr
from anyio import to_thread

from lib.catalog.offers import FREE_CPU_TIER, ZEROGPU_TIER, tier_of
from lib.errors import AdvisorError, NotSignedIn, PriceNotConfirmed
from lib.platforms import traits_of
from lib.present import space_cards
from lib.present.cards import prices_line
from lib.present.markup import answer_actions, escape, hint_note, refusal_note
from lib.present.snippets import action_code, action_snippet
from lib.present.tables import answer_json
from lib.present.wording import page_note
from lib.service.recommend import list_hardware
from lib.service.space_actions import pause_space, preview, restart_space, set_sleep_time, switch_hardware
from lib.service.space_status import space_status, watch
from lib.ui import account

if TYPE_CHECKING:
    from lib.answers.spaces import ActionAnswer, SpaceStatus
    from lib.service.app import Services


ACTION_WORDS: tuple[tuple[str, space_cards.Action], ...] = (
    ("Switch tier", "switch"),
    ("Sleep time", "sleep"),
    ("Pause", "pause"),
    ("Restart", "restart"),
    ("Factory restart", "factory"),
)
SLEEP_WORDS: tuple[tuple[str, int], ...] = (
    ("Never", -1),
    *((space_cards.sleep_words(seconds), seconds) for seconds in (300, 900, 1_800, 3_600, 7_200, 21_600, 43_200, 86_400, 172_800)),
)
USUAL_SLEEP_S = 3_600
OWN_SLEEP = frozenset({FREE_CPU_TIER, ZEROGPU_TIER})
"""Tiers whose sleep is the platform's own affair."""
_ACTIONS = get_args(space_cards.Action)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpaceRequest:
    """An action with the fields that it takes; the others have their neutral value, so that two equal actions are equal."""

    space: str
    action: space_cards.Action
    hardware: str = ""
    sleep_time_s: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Confirmation:
    """An action whose review was shown, with the price per hour that it showed (`None`: the action has no price to confirm)."""

    request: SpaceRequest
    usd_per_hour: Decimal | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Review:
    """A review as markup, what the confirming button says ("" without one), and what it then confirms."""

    card: str
    label: str = ""
    confirmation: Confirmation | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewState:
    """One picture of an action under way. `review`, where it is given, takes the place of the old one; `status` likewise.

    `watching`: the Space is being watched, which can be stopped. `again`: the same confirmation may be pressed again. `arrived`: it
    runs on the requested hardware.
    """

    progress: str
    review: Review | None = None
    status: str | None = None
    watching: bool = False
    again: bool = False
    arrived: bool = False


def form_request(space: str, action: object, hardware: object, sleep_time_s: object) -> SpaceRequest:
    """Request of the form."""
    form_action: space_cards.Action = next((name for name in _ACTIONS if name == action), "switch")
    tier = str(hardware or "") if form_action == "switch" else ""
    timed = form_action == "sleep" or (form_action == "switch" and tier not in OWN_SLEEP)
    seconds = sleep_time_s if timed and isinstance(sleep_time_s, int) else -1
    return SpaceRequest(space=space, action=form_action, hardware=tier, sleep_time_s=seconds)


def review_request(services: Services, request: SpaceRequest, token: str | None) -> Review:
    """The effect of the action, priced; a refusal becomes a sentence, and then there is nothing to confirm."""
    if request.action == "switch" and not request.hardware:
        return Review(card=refusal_note(page_note("no_tier")))
    try:
        seen = services[preview](
            request.space,
            "restart" if request.action == "factory" else request.action,
            request.hardware,
            request.sleep_time_s,
            request.action == "factory",
            token=token,
        )
    except AdvisorError as refused:
        return Review(card=refusal_note(str(refused)))
    tier = seen.after.hardware or request.hardware
    timed = None if tier in OWN_SLEEP else request.sleep_time_s
    code = action_code(action_snippet(request.action, seen.space, tier, timed))
    return Review(
        card=space_cards.review_card(request.action, seen, code),
        label=space_cards.confirm_label(request.action, seen),
        confirmation=Confirmation(request=request, usd_per_hour=seen.confirm_usd_per_hour),
    )


def action_scenes(services: Services, confirmation: Confirmation | None, request: SpaceRequest, token: str | None) -> Iterator[ViewState]:
    """Do the reviewed action and follow it: a switch or a restart until the Space runs, has failed, or time is over."""
    if confirmation is None or confirmation.request != request:
        yield ViewState(progress=refusal_note(page_note("form_changed")), review=Review(card=""))
        return
    yield ViewState(progress=space_cards.sending_card(request.action, request.space))
    try:
        answer = _act(services, confirmation, token)
    except PriceNotConfirmed:
        # The service's own sentence names its argument; here it is a button.
        sentence = page_note("price_changed").format(tier=request.hardware, price=space_cards.price_words(confirmation.usd_per_hour))
        yield ViewState(progress=refusal_note(sentence), review=review_request(services, request, token))
        return
    except NotSignedIn:
        yield ViewState(
            progress=refusal_note(page_note("token_needed:space")), again=True
        )  # the service's own sentence speaks of the API, too
        return
    except AdvisorError as refused:
        yield ViewState(progress=refusal_note(str(refused)), again=True)
        return
    if request.action in {"sleep", "pause"}:
        yield ViewState(
            progress=space_cards.done_card(request.action, answer),
            review=Review(card=""),
            status=_status_now(services, request.space, token),
        )
        return
    yield from _watch_scenes(services, request, token)


def _act(services: Services, confirmation: Confirmation, token: str | None) -> ActionAnswer:
    request = confirmation.request
    match request.action:
        case "switch":
            price = confirmation.usd_per_hour
            if price is None:
                raise PriceNotConfirmed(f"{request.hardware} has no list price today, so none can be confirmed. Choose another tier.")
            return services[switch_hardware](request.space, request.hardware, price, request.sleep_time_s, token=token)
        case "sleep":
            return services[set_sleep_time](request.space, request.sleep_time_s, token=token)
        case "pause":
            return services[pause_space](request.space, token=token)
        case "restart" | "factory":
            return services[restart_space](request.space, request.action == "factory", token=token)


def _watch_scenes(services: Services, request: SpaceRequest, token: str | None) -> Iterator[ViewState]:
    try:
        for progress in services[watch](request.space, token=token, hardware=request.hardware):
            yield ViewState(
                progress=space_cards.progress_card(progress),
                review=Review(card=""),
                status=status_markup(progress),
                watching=not progress.done,
                arrived=progress.arrived,
            )
    except AdvisorError as lost:
        yield ViewState(progress=refusal_note(f"{page_note('unwatched')} {lost}"), review=Review(card=""))


def _status_now(services: Services, space: str, token: str | None) -> str:
    try:
        return status_markup(services[space_status](space, token=token))
    except AdvisorError as refused:
        return refusal_note(str(refused))


WATCHERS = anyio.CapacityLimiter(200)
"""Threads of their own: a visitor who watches a Space for half an hour must not take a thread from a visitor who asks for an answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FormView:
    """The form of an action, its review, its confirmation and its way; `confirmation` is what may be confirmed."""

    box: gr.Column
    action: gr.Radio
    tier: gr.Dropdown
    sleep: gr.Dropdown
    review: gr.Button
    card: gr.HTML
    confirm: gr.Button
    progress: gr.HTML
    stop: gr.Button
    confirmation: gr.State

    def fields(self) -> list[Any]:
        """The inputs of a review; a change of one of them makes it void."""
        return [self.action, self.tier, self.sleep]


@dataclass(frozen=True, slots=True, kw_only=True)
class TabParts:
    """Values of the tab that the form needs: the Space that was found, the pasted token, the cards of the Space and of its right size."""

    space: gr.State
    token: gr.Textbox
    status: gr.HTML
    sized: gr.HTML
    use: gr.Button


def build(services: Services) -> FormView:
    """The layout of the form, hidden until a Space was found, and for good where actions are switched off."""
    with gr.Column(visible=services.account_actions), gr.Column(visible=False, elem_id="change") as box:
        gr.HTML("<h2>Change it</h2>")
        action = gr.Radio(list(ACTION_WORDS), value="switch", label="What to do", elem_classes="segments wraps")
        with gr.Row(elem_classes="change-fields"):
            tier = gr.Dropdown(tier_choices(services), value=None, label="Tier", info="Type to search: l4, a100…", min_width=240)
            sleep = gr.Dropdown(list(SLEEP_WORDS), value=USUAL_SLEEP_S, label="Sleep after", info="Time without a visit.", min_width=160)
        review = gr.Button("Review", elem_id="review")
        card = gr.HTML(elem_id="review-card")
        confirm = gr.Button("", variant="primary", visible=False, elem_id="confirm")
        progress = gr.HTML(elem_id="progress")
        stop = gr.Button("Stop watching", visible=False, elem_id="stop")
    return FormView(
        box=box,
        action=action,
        tier=tier,
        sleep=sleep,
        review=review,
        card=card,
        confirm=confirm,
        progress=progress,
        stop=stop,
        confirmation=gr.State(None),
    )


def wire(form: FormView, tab: TabParts, services: Services) -> None:
    """The form shows the fields that the action takes; any change in it makes a review void."""

    def shape(action: str, tier: str | None) -> dict[Any, Any]:
        timed = action == "sleep" or (action == "switch" and tier not in OWN_SLEEP)
        return {form.tier: gr.update(visible=action == "switch"), form.sleep: gr.update(visible=timed), **clear_review(form)}

    gr.on(
        [field.change for field in form.fields()],
        shape,
        [form.action, form.tier],
        [form.tier, form.sleep, *clear_review(form)],
        trigger_mode="always_last",
        queue=False,
        show_progress="hidden",
        api_name="space_form_changed",
        api_visibility="private",
    )
    _wire_review(form, tab, services)
    _wire_confirm(form, tab, services)


def _wire_review(form: FormView, tab: TabParts, services: Services) -> None:
    def review(
        login_token: gr.OAuthToken | None, typed_token: str | None, space: str, action: str, tier: str | None, sleep: int
    ) -> dict[Any, Any]:
        request = form_request(space, action, tier, sleep)
        return {form.progress: "", **_review_updates(form, review_request(services, request, account.token_of(typed_token, login_token)))}

    form.review.click(
        review,
        [tab.token, tab.space, *form.fields()],
        [form.progress, *clear_review(form)],
        queue=False,
        show_progress="minimal",
        api_name="space_reviewed",
        api_visibility="private",
    )


def _wire_confirm(form: FormView, tab: TabParts, services: Services) -> None:
    """The action and its way through the queue, so that watching can be stopped; the Hub's work is not stopped."""

    async def confirm(
        login_token: gr.OAuthToken | None,
        typed_token: str | None,
        confirmation: Confirmation | None,
        space: str,
        action: str,
        tier: str | None,
        sleep: int,
    ) -> AsyncIterator[dict[Any, Any]]:
        request = form_request(space, action, tier, sleep)
        async for scene in each_scene(action_scenes(services, confirmation, request, account.token_of(typed_token, login_token))):
            yield {**_tab_updates(tab, scene, stale=request.action == "switch"), **_scene_updates(form, scene, confirmation)}

    def stop() -> dict[Any, Any]:
        return {form.progress: space_cards.stopped_card(), form.stop: gr.update(visible=False)}

    private: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}
    confirming = form.confirm.click(
        confirm,
        [tab.token, form.confirmation, tab.space, *form.fields()],
        [form.progress, form.stop, tab.token, tab.status, tab.sized, tab.use, *clear_review(form)],
        concurrency_limit=None,
        api_name="space_confirmed",
        **private,
    )
    form.stop.click(stop, None, [form.progress, form.stop], cancels=[confirming], queue=False, api_name="space_unwatched", **private)


async def each_scene(scenes: Iterator[ViewState]) -> AsyncIterator[ViewState]:
    """The scenes one by one, each waited for in a thread of the watchers."""
    while (scene := await to_thread.run_sync(next, scenes, None, limiter=WATCHERS)) is not None:
        yield scene


def _tab_updates(tab: TabParts, scene: ViewState, *, stale: bool) -> dict[Any, Any]:
    """The rest of the tab in a scene: the token is emptied, and a right size that was found for another tier goes."""
    if scene.status is None:
        return {tab.token: "", tab.status: gr.skip(), tab.sized: gr.skip(), tab.use: gr.skip()}
    note = hint_note(page_note("tier_changed" if scene.arrived else "tier_changes"))
    sized, use = (note, gr.update(visible=False)) if stale else (gr.skip(), gr.skip())
    return {tab.token: "", tab.status: scene.status, tab.sized: sized, tab.use: use}


def _scene_updates(form: FormView, scene: ViewState, confirmation: Confirmation | None) -> dict[Any, Any]:
    """A scene on the page; the confirmation holds for one press, unless the scene says that it may be pressed again."""
    confirm = {form.card: gr.skip(), form.confirm: gr.update(visible=scene.again), form.confirmation: confirmation if scene.again else None}
    new = confirm if scene.review is None else _review_updates(form, scene.review)
    return {form.progress: scene.progress, form.stop: gr.update(visible=scene.watching), **new}


def _review_updates(form: FormView, review: Review) -> dict[Any, Any]:
    """A review on the page, with the button that confirms it if there is something to confirm."""
    return {
        form.card: review.card,
        form.confirm: gr.update(value=review.label, visible=bool(review.label)),
        form.confirmation: review.confirmation,
    }


def clear_review(form: FormView) -> dict[Any, Any]:
    """No review, and nothing to confirm."""
    return _review_updates(form, Review(card=""))


def status_markup(status: SpaceStatus) -> str:
    """The card of a Space with what can be done with it; without a link for a private one, because a link shows its name."""
    acts = answer_actions(
        text=space_cards.status_text(status),
        query=None if status.private else "?" + urlencode({"tab": "space", "space": status.space}),
        files=(("Download JSON", "space.json", "application/json", answer_json(status)),),
    )
    return space_cards.status_card(status) + acts + tpu_link(status) + prices_line(status.prices)


def tpu_link(status: SpaceStatus) -> str:
    """The link to the needs of the Space's first model on a TPU; nothing for a private Space, whose models may be private too."""
    if status.private or not status.models:
        return ""
    query = "?" + urlencode({"tab": "tpu", "model": status.models[0]})
    return f'<p class="quiet"><a href="{escape(query)}">What would {escape(status.models[0])} take on a TPU?</a></p>'


def tier_choices(services: Services) -> list[tuple[str, str]]:
    """The tiers that a Space can have today, each with its price; ZeroGPU is one, its sizes are asked for by the app's functions."""
    rows = services[list_hardware]("spaces").hardware
    choices = []
    for row in rows:
        if row.id == tier_of(row.id):
            traits = traits_of(row.platform)
            name = traits.label if traits.per_call else row.name
            choices.append((f"{name} · {row.id} · {space_cards.price_words(row.usd_per_hour)}", row.id))
    return choices
