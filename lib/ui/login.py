"""Whose token acts: the browser's sign-in with Hugging Face, or a token pasted for the next request.

The button stands on the page only where it can work. On a Space that is where `hf_oauth` has filled the environment; elsewhere Gradio
mocks the sign-in with a token that opens nothing, for trying the page against a stand-in of the Hub, and only if MOCK_LOGIN=1 asks for
it (the mock asks the Hub who the machine is, three times, and the page cannot be built when the Hub does not answer).
A token never gets into a State, a link or a message: it is an argument of the one call that needs it, or a header where it reads models.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

import gradio as gr
from gradio.utils import get_space

from lib.present.markup import hint_note

OAUTH = ("OAUTH_CLIENT_ID", "OAUTH_CLIENT_SECRET", "OAUTH_SCOPES", "OPENID_PROVIDER_URL")
_STATUS_EVENT = "_check_login_status"
_ACTIONS_OFF = "To look at a public Space no sign-in is needed. Changing one is switched off in this copy of the app."
_NO_LOGIN = "To look at a public Space no sign-in is needed. To change one, paste a token of your own: this copy of the app has no sign-in."
_LOGIN = "To look at a public Space no sign-in is needed. To change one, sign in or paste a token of your own."
_SCOPES = (
    "What a sign-in may do at the Hub is not fully documented: for some, changing the hardware, the sleep time or restarting is answered "
    "with 401. A pasted token then does it."
)
_FIELD = (
    "Fine-grained, with write access to this Space (huggingface.co, Settings, Access Tokens). It overrides the sign-in, is sent with "
    "your requests on this tab only, is kept nowhere, and this field is emptied after each use: paste it again for the next one."
)
_FRAMED = (
    '<p class="framed-note" hidden>Inside the frame of huggingface.co a browser may block the sign-in. '
    '<a href="?tab=space" target="_blank" rel="noopener">Open this page on its own</a></p>'
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginView:
    """The sign-in, where there is one, and the field for a token."""

    button: gr.LoginButton | None
    token: gr.Textbox


def can_sign_in() -> bool:
    """Whether a sign-in can work here."""
    if get_space() is not None:
        return all(os.environ.get(name) for name in OAUTH)
    return os.environ.get("MOCK_LOGIN") == "1" and _machine_is_known()


def _machine_is_known() -> bool:
    """What the mock needs to be built: a login of this machine that the Hub knows."""
    from huggingface_hub import get_token, whoami  # noqa: PLC0415  only for the mock
    from huggingface_hub.errors import HfHubHTTPError  # noqa: PLC0415

    if get_token() is None:
        return False
    try:
        return {"name", "fullname", "avatarUrl"} <= set(whoami())
    except (HfHubHTTPError, OSError):
        return False


def build(*, acts: bool = True) -> LoginView:
    """The box that says who acts; where Spaces cannot be changed from here (`acts`), who looks."""
    with gr.Column(elem_classes="login"):
        there = acts and can_sign_in()
        gr.HTML(hint_note(_ACTIONS_OFF if not acts else _LOGIN if there else _NO_LOGIN))
        button = gr.LoginButton("Sign in with Hugging Face", "Sign out ({})", icon=None, size="md", elem_id="login") if there else None
        if there:
            gr.HTML(_FRAMED)
        with gr.Accordion("Use a pasted token", open=not there, elem_classes="quiet-accordion"):
            token = token_field("token", "Your token", _FIELD)
            if there:
                gr.HTML(hint_note(_SCOPES))
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


def wire(view: LoginView, space: gr.Textbox) -> None:
    """Coming back from the sign-in, the tab stands open with the same Space."""
    if view.button is not None:
        view.button.click(None, space, None, js="(space) => advisor.remember(space)", api_name="login_remembered", api_visibility="private")


def token_of(pasted: str | None, signed: gr.OAuthToken | None) -> str | None:
    """The visitor's own token: the pasted one first; never the server's."""
    if pasted and pasted.strip():
        return pasted.strip()
    return signed.token if signed is not None else None


def close_status(page: gr.Blocks) -> None:
    """Gradio's own question whether somebody is signed in is for the page alone, not for the API or MCP."""
    for event in page.fns.values():
        if event.api_name == _STATUS_EVENT:
            event.api_visibility = "private"
