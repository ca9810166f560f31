"""The token's account, and everything that runs in it.

The browser's sign-in with Hugging Face, or a token pasted for the next request. The page has the button only where it can work.
On a Space it has one if `hf_oauth` has filled the environment. Elsewhere MOCK_LOGIN=1 turns on Gradio's mock, whose token opens nothing, to
try the page against an emulated Hub. It is off by default: the mock asks the Hub three times who the machine is, and the page cannot be
built if the Hub does not answer. A token never gets into a State, a link or a message: it is an argument of the one call that needs it, or
a header where it reads models.

Of the whole account, *My Space* shows Spaces, Inference Endpoints and Jobs in one table, and stops one of them in two steps.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import gradio as gr
from gradio.utils import get_space

from lib.errors import AdvisorError, NotSignedIn
from lib.present.markup import hint_note, refusal_note
from lib.present.space_cards import account_card, framed_note, stop_button, stop_label, stop_review, stopped_note
from lib.present.wording import page_note
from lib.service.account_overview import account_overview, stop_resource

if TYPE_CHECKING:
    from lib.answers.spaces import AccountOverview
    from lib.service.app import Services


OAUTH = ("OAUTH_CLIENT_ID", "OAUTH_CLIENT_SECRET", "OAUTH_SCOPES", "OPENID_PROVIDER_URL")
_STATUS_EVENT = "_check_login_status"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginView:
    """The sign-in, if there is one, and the field for a token."""

    button: gr.LoginButton | None
    token: gr.Textbox


def can_sign_in() -> bool:
    """Whether a sign-in can work here."""
    if get_space() is not None:
        return all(os.environ.get(name) for name in OAUTH)
    return os.environ.get("MOCK_LOGIN") == "1" and _machine_is_known()


def _machine_is_known() -> bool:
    """The login of this machine that the mock needs to be built."""
    from huggingface_hub import get_token, whoami  # noqa: PLC0415  only for the mock
    from huggingface_hub.errors import HfHubHTTPError  # noqa: PLC0415

    if get_token() is None:
        return False
    try:
        return {"name", "fullname", "avatarUrl"} <= set(whoami())
    except (HfHubHTTPError, OSError):
        return False


def build_login(*, acts: bool = True) -> LoginView:
    """The box that says who acts; where Spaces cannot be changed from here (`acts`), who looks."""
    with gr.Column(elem_classes="login"):
        can_log_in = acts and can_sign_in()
        gr.HTML(hint_note(page_note("login" if can_log_in else "no_login" if acts else "actions_off")))
        button = gr.LoginButton("Sign in with Hugging Face", "Sign out ({})", icon=None, size="md", elem_id="login") if can_log_in else None
        if can_log_in:
            gr.HTML(framed_note())
        with gr.Accordion("Use a pasted token", open=not can_log_in, elem_classes="quiet-accordion"):
            token = token_field("token", "Your token", page_note("token"))
            if can_log_in:
                gr.HTML(hint_note(page_note("login_scopes")))
    return LoginView(button=button, token=token)


def token_field(element: str, label: str, info: str) -> gr.Textbox:
    """A field for a visitor's token, which no browser is asked to keep."""
    return gr.Textbox(
        label=label,
        info=info,
        type="password",
        placeholder="hf_…",
        max_lines=1,
        elem_id=element,
        html_attributes=gr.InputHTMLAttributes(autocomplete="off", spellcheck=False, autocorrect="off"),
    )


def token_of(typed_token: str | None, login_token: gr.OAuthToken | None) -> str | None:
    """The visitor's own token: the pasted one first; never the server's."""
    if typed_token and typed_token.strip():
        return typed_token.strip()
    return login_token.token if login_token is not None else None


def close_status(page: gr.Blocks) -> None:
    """Gradio's own question whether somebody is signed in is for the page alone, not for the API or MCP."""
    for event in page.fns.values():
        if event.api_name == _STATUS_EVENT:
            event.api_visibility = "private"


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


def build_account(*, acts: bool) -> AccountView:
    """The layout; nothing can be stopped where actions are switched off (`acts`)."""
    with gr.Column(elem_id="account"):
        gr.HTML("<h2>Everything in your account</h2>")
        with gr.Row(elem_classes="change-fields"):
            owner = gr.Dropdown([OWN], value="", label="Account", info="Organizations appear after the first load.", min_width=240)
            ask = gr.Button("List what runs", elem_id="list-account", min_width=160)
        table = gr.HTML(hint_note(page_note("account")), elem_id="account-table")
        with gr.Column(visible=acts), gr.Column(visible=False, elem_id="stop-box") as stopping:
            to_stop = gr.Dropdown([], value=None, label="Stop one of them", info="Billed now, most expensive first.", min_width=240)
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
        answer = services[account_overview](owner or "", token=token)
    except NotSignedIn:
        return refusal_note(page_note("token_needed:account"), "Not listed."), None
    except AdvisorError as refused:
        return refusal_note(str(refused), "Not listed."), None
    return account_card(answer), answer


def stop_choices(answer: AccountOverview) -> list[tuple[str, str]]:
    """Things that can be stopped: words, and kind and name in one value."""
    return [(stop_label(row), f"{row.kind} {row.name}") for row in answer.resources if row.can_stop]


def stop_markup(services: Services, resource: str, token: str | None) -> tuple[str, bool]:
    """Stop it; whether it was done."""
    kind, _, name = resource.partition(" ")
    try:
        return stopped_note(services[stop_resource](kind, name, token=token)), True
    except NotSignedIn:
        return refusal_note(f"{page_note('token_needed:account')} Nothing was changed."), False
    except AdvisorError as refused:
        return refusal_note(str(refused)), False


def wire_account(view: AccountView, token: gr.Textbox, services: Services) -> None:
    """List, review, stop; a token that was pasted is emptied once it was sent."""
    cleared: dict[Any, Any] = {view.card: "", view.confirm: gr.update(visible=False), view.reviewed: ""}

    def ask(login_token: gr.OAuthToken | None, typed_token: str | None, owner: str | None) -> dict[Any, Any]:
        markup, answer = overview_updates(services, owner, token_of(typed_token, login_token))
        emptied = {view.table: markup, token: "" if typed_token else gr.skip(), **cleared}
        if answer is None:
            return {**emptied, view.stopping: gr.update(visible=False), view.to_stop: gr.skip(), view.owner: gr.skip()}
        choices = stop_choices(answer)
        return {
            **emptied,
            view.stopping: gr.update(visible=bool(choices)),
            view.to_stop: gr.update(choices=choices, value=None),
            view.owner: gr.update(choices=[OWN, *((name, name) for name in answer.organizations)]),
        }

    def review(item: str | None) -> dict[Any, Any]:
        if not item:
            return {**cleared, view.card: hint_note(page_note("nothing_to_stop"))}
        kind, _, name = item.partition(" ")
        return {
            view.card: stop_review(kind, name),
            view.confirm: gr.update(value=stop_button(kind, name), visible=True),
            view.reviewed: item,
        }

    def confirm(login_token: gr.OAuthToken | None, typed_token: str | None, item: str) -> dict[Any, Any]:
        markup, stopped = stop_markup(services, item, token_of(typed_token, login_token))
        again = {view.confirm: gr.update(visible=not stopped), view.reviewed: "" if stopped else item}
        return {view.card: markup, token: "" if typed_token else gr.skip(), **again}

    quiet: dict[str, Any] = {"queue": False, "api_visibility": "private", "show_progress": "minimal"}
    steps = list(cleared)
    asking = [view.table, token, view.stopping, view.to_stop, view.owner, *steps]
    view.ask.click(ask, [token, view.owner], asking, api_name="account_listed", **quiet)
    view.to_stop.input(lambda: cleared, None, steps, api_name="stop_chosen", **quiet)
    view.review.click(review, [view.to_stop], steps, api_name="stop_reviewed", **quiet)
    view.confirm.click(confirm, [token, view.reviewed], [token, *steps], api_name="stop_confirmed", **quiet)
