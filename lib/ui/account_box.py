"""*My Space*, the whole account: its Spaces, Inference Endpoints and Jobs in one table, and stopping one of them in two steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import gradio as gr

from lib.errors import AdvisorError, NotSignedIn
from lib.present.markup import hint_note, refusal_note
from lib.present.space_cards import account_card, stop_button, stop_label, stop_review, stopped_note
from lib.ui import login

if TYPE_CHECKING:
    from lib.answers.spaces import AccountOverview
    from lib.service.app import Services

_HINT = "Sign in, or paste a token above, to see every Space, Inference Endpoint and Job of your account with what it costs a month."
_STRANGER = (
    "To list or stop what runs in your account, your own Hugging Face token is needed. Sign in, or paste a token under “Your token”: to "
    "list, with read access to your repositories, Inference Endpoints and Jobs; to stop something, with write access to it."
)
OWN = ("My own account", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountView:
    """The table, and what stops one row of it; `stopping` is there while something can be stopped."""

    owner: gr.Dropdown
    ask: gr.Button
    table: gr.HTML
    stopping: gr.Column
    to_stop: gr.Dropdown
    review: gr.Button
    card: gr.HTML
    confirm: gr.Button
    reviewed: gr.State


def build(*, acts: bool) -> AccountView:
    """The layout; nothing can be stopped where actions are switched off (`acts`)."""
    with gr.Column(elem_id="account"):
        gr.HTML("<h2>Everything in your account</h2>")
        with gr.Row(elem_classes="change-fields"):
            owner = gr.Dropdown([OWN], value="", label="Account", info="Your organizations stand here after the first list.", min_width=240)
            ask = gr.Button("List what runs", elem_id="list-account", min_width=160)
        table = gr.HTML(hint_note(_HINT), elem_id="account-table")
        with gr.Column(visible=acts), gr.Column(visible=False, elem_id="stop-box") as stopping:
            to_stop = gr.Dropdown([], value=None, label="Stop one of them", info="What is billed now, dearest first.", min_width=240)
            review = gr.Button("Review", elem_id="stop-review")
            card = gr.HTML(elem_id="stop-card")
            confirm = gr.Button("", variant="primary", visible=False, elem_id="stop-confirm")
    return AccountView(
        owner=owner,
        ask=ask,
        table=table,
        stopping=stopping,
        to_stop=to_stop,
        review=review,
        card=card,
        confirm=confirm,
        reviewed=gr.State(""),
    )


def overview_updates(services: Services, owner: str | None, token: str | None) -> tuple[str, AccountOverview | None]:
    """The table as markup and the answer behind it; a refusal becomes a sentence."""
    try:
        answer = services.account.account_overview(owner or "", token=token)
    except NotSignedIn:
        return refusal_note(_STRANGER, "Not listed."), None
    except AdvisorError as refused:
        return refusal_note(str(refused), "Not listed."), None
    return account_card(answer), answer


def stop_choices(answer: AccountOverview) -> list[tuple[str, str]]:
    """What can be stopped: words, and kind and name in one value."""
    return [(stop_label(row), f"{row['kind']} {row['name']}") for row in answer["resources"] if row["can_stop"]]


def stop_markup(services: Services, resource: str, token: str | None) -> tuple[str, bool]:
    """Stop it; whether it was done."""
    kind, _, name = resource.partition(" ")
    try:
        return stopped_note(services.account.stop_resource(kind, name, token=token)), True
    except NotSignedIn:
        return refusal_note(f"{_STRANGER} Nothing was changed."), False
    except AdvisorError as refused:
        return refusal_note(str(refused)), False


def wire(view: AccountView, token: gr.Textbox, services: Services) -> None:
    """List, review, stop; a token that was pasted is emptied once it was sent."""
    cleared: dict[Any, Any] = {view.card: "", view.confirm: gr.update(visible=False), view.reviewed: ""}

    def ask(signed: gr.OAuthToken | None, pasted: str | None, owner: str | None) -> dict[Any, Any]:
        markup, answer = overview_updates(services, owner, login.token_of(pasted, signed))
        emptied = {view.table: markup, token: "" if pasted else gr.skip(), **cleared}
        if answer is None:
            return {**emptied, view.stopping: gr.update(visible=False), view.to_stop: gr.skip(), view.owner: gr.skip()}
        choices = stop_choices(answer)
        return {
            **emptied,
            view.stopping: gr.update(visible=bool(choices)),
            view.to_stop: gr.update(choices=choices, value=None),
            view.owner: gr.update(choices=[OWN, *((name, name) for name in answer["organizations"])]),
        }

    def review(item: str | None) -> dict[Any, Any]:
        if not item:
            return {**cleared, view.card: hint_note("Choose what is to be stopped.")}
        kind, _, name = item.partition(" ")
        return {
            view.card: stop_review(kind, name),
            view.confirm: gr.update(value=stop_button(kind, name), visible=True),
            view.reviewed: item,
        }

    def confirm(signed: gr.OAuthToken | None, pasted: str | None, item: str) -> dict[Any, Any]:
        markup, done = stop_markup(services, item, login.token_of(pasted, signed))
        again = {view.confirm: gr.update(visible=not done), view.reviewed: "" if done else item}
        return {view.card: markup, token: "" if pasted else gr.skip(), **again}

    quiet: dict[str, Any] = {"queue": False, "api_visibility": "private", "show_progress": "minimal"}
    steps = list(cleared)
    asking = [view.table, token, view.stopping, view.to_stop, view.owner, *steps]
    view.ask.click(ask, [token, view.owner], asking, api_name="account_listed", **quiet)
    view.to_stop.input(lambda: cleared, None, steps, api_name="stop_chosen", **quiet)
    view.review.click(review, [view.to_stop], steps, api_name="stop_reviewed", **quiet)
    view.confirm.click(confirm, [token, view.reviewed], [token, *steps], api_name="stop_confirmed", **quiet)
