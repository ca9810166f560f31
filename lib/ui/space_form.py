"""*My Space*, the form of an action: what to change, its review, the confirming button, and the way of the Space."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import anyio
import gradio as gr
from anyio import to_thread

from lib.present.markup import hint
from lib.present.space_steps import stopped_card
from lib.ui import login, space_look
from lib.ui import space_change as change
from lib.ui.space_change import ACTION_WORDS, OWN_SLEEP, SLEEP_WORDS, USUAL_SLEEP_S, Review, Reviewed, Scene

if TYPE_CHECKING:
    from lib.service.services import Services

WATCHERS = anyio.CapacityLimiter(200)
"""Threads of their own: whoever watches a Space for half an hour must not take a thread from those who ask for an answer."""
RESIZE = "The tier is being changed: “Size it” judges the new one."


@dataclass(frozen=True, slots=True, kw_only=True)
class FormView:
    """The form of an action, its review, its confirmation and its way; `reviewed` is what may be confirmed."""

    box: gr.Column
    action: gr.Radio
    tier: gr.Dropdown
    sleep: gr.Dropdown
    review: gr.Button
    card: gr.HTML
    confirm: gr.Button
    progress: gr.HTML
    stop: gr.Button
    reviewed: gr.State

    def fields(self) -> list[Any]:
        """What a review is about; a change of one of them makes it void."""
        return [self.action, self.tier, self.sleep]


@dataclass(frozen=True, slots=True, kw_only=True)
class Around:
    """What the form needs of the tab: the Space that was found, the pasted token, the cards of the Space and of its right size."""

    space: gr.State
    token: gr.Textbox
    status: gr.HTML
    sized: gr.HTML
    use: gr.Button


def build(services: Services) -> FormView:
    """The layout of the form, hidden until a Space was found."""
    with gr.Column(visible=False, elem_id="change") as box:
        gr.HTML("<h2>Change it</h2>")
        action = gr.Radio(list(ACTION_WORDS), value="switch", label="What to do", elem_classes="segments wraps")
        with gr.Row(elem_classes="change-fields"):
            tier = gr.Dropdown(space_look.tiers_shown(services), value=None, label="Tier", info="Type to search: l4, a100…", min_width=240)
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
        reviewed=gr.State(None),
    )


def wire(form: FormView, around: Around, services: Services) -> None:
    """The form shows the fields that the action takes; whatever is changed in it makes a review void."""

    def shape(action: str, tier: str | None) -> dict[Any, Any]:
        timed = action == "sleep" or (action == "switch" and tier not in OWN_SLEEP)
        return {form.tier: gr.update(visible=action == "switch"), form.sleep: gr.update(visible=timed), **unreviewed(form)}

    gr.on(
        [field.change for field in form.fields()],
        shape,
        [form.action, form.tier],
        [form.tier, form.sleep, *unreviewed(form)],
        trigger_mode="always_last",
        queue=False,
        show_progress="hidden",
        api_name="space_form_changed",
        api_visibility="private",
    )
    _wire_review(form, around, services)
    _wire_confirm(form, around, services)


def _wire_review(form: FormView, around: Around, services: Services) -> None:
    def review(signed: gr.OAuthToken | None, pasted: str | None, space: str, action: str, tier: str | None, sleep: int) -> dict[Any, Any]:
        wanted = change.asked(space, action, tier, sleep)
        return {form.progress: "", **_reviewed(form, change.reviewed(services, wanted, login.token_of(pasted, signed)))}

    form.review.click(
        review,
        [around.token, around.space, *form.fields()],
        [form.progress, *unreviewed(form)],
        queue=False,
        show_progress="minimal",
        api_name="space_reviewed",
        api_visibility="private",
    )


def _wire_confirm(form: FormView, around: Around, services: Services) -> None:
    """The deed and its way through the queue, so that watching can be stopped; what the Hub was asked for is not."""

    async def confirm(
        signed: gr.OAuthToken | None,
        pasted: str | None,
        seen: Reviewed | None,
        space: str,
        action: str,
        tier: str | None,
        sleep: int,
    ) -> AsyncIterator[dict[Any, Any]]:
        wanted = change.asked(space, action, tier, sleep)
        async for scene in stepped(change.carried_out(services, seen, wanted, login.token_of(pasted, signed))):
            yield {**_around(around, scene, stale=wanted.action == "switch"), **_pictured(form, scene, seen)}

    def stop() -> dict[Any, Any]:
        return {form.progress: stopped_card(), form.stop: gr.update(visible=False)}

    private: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}
    confirming = form.confirm.click(
        confirm,
        [around.token, form.reviewed, around.space, *form.fields()],
        [form.progress, form.stop, around.token, around.status, around.sized, around.use, *unreviewed(form)],
        concurrency_limit=None,
        api_name="space_confirmed",
        **private,
    )
    form.stop.click(stop, None, [form.progress, form.stop], cancels=[confirming], queue=False, api_name="space_unwatched", **private)


async def stepped(scenes: Iterator[Scene]) -> AsyncIterator[Scene]:
    """The scenes one by one, each waited for in a thread of the watchers."""
    while (scene := await to_thread.run_sync(next, scenes, None, limiter=WATCHERS)) is not None:
        yield scene


def _around(around: Around, scene: Scene, *, stale: bool) -> dict[Any, Any]:
    """The tab beside a scene: the token is emptied, and a right size that was found for another tier goes."""
    if scene.status is None:
        return {around.token: "", around.status: gr.skip(), around.sized: gr.skip(), around.use: gr.skip()}
    sized, use = (hint(RESIZE), gr.update(visible=False)) if stale else (gr.skip(), gr.skip())
    return {around.token: "", around.status: scene.status, around.sized: sized, around.use: use}


def _pictured(form: FormView, scene: Scene, seen: Reviewed | None) -> dict[Any, Any]:
    """A scene on the page; the confirmation holds for one press, unless the scene says that it may be pressed again."""
    confirm = {form.card: gr.skip(), form.confirm: gr.update(visible=scene.again), form.reviewed: seen if scene.again else None}
    new = confirm if scene.review is None else _reviewed(form, scene.review)
    return {form.progress: scene.progress, form.stop: gr.update(visible=scene.watching), **new}


def _reviewed(form: FormView, review: Review) -> dict[Any, Any]:
    """A review on the page, with the button that confirms it where there is something to confirm."""
    return {
        form.card: review.card,
        form.confirm: gr.update(value=review.label, visible=bool(review.label)),
        form.reviewed: review.reviewed,
    }


def unreviewed(form: FormView) -> dict[Any, Any]:
    """No review, and nothing to confirm."""
    return _reviewed(form, Review(card=""))
