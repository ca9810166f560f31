"""What this Space sends and keeps, in words for the page."""

from __future__ import annotations

from lib.present.markup import bullet_list, escape

TITLE = "What this Space sends and keeps"
_SENT = (
    "To huggingface.co: the name of the model or Space that you ask about, what you type to search for one, and your token with requests "
    "about Spaces and your account, if you gave one (the list of an account also asks api.endpoints.huggingface.cloud). To nobody else: no "
    "analytics, nothing from third parties. A pasted config.json is sent nowhere."
)
_KEPT = (
    "Kept here: what was measured on the Live demo (the architecture, a public model's name, the device and the figures, never who asked "
    "or what was said), and in memory what the Hub answered. Your browser alone keeps your last questions and the theme."
    " A line of the log holds the kind of a question, how it ended and how long it "
    "took."
)
_ACTS = (
    "A pasted token acts for the request that it comes with and is kept nowhere. A sign-in lives in a cookie of your browser until you "
    "sign out. It asks for manage-repos, the Hub's scope for the settings of repositories, a Space's hardware among them; it covers more, "
    "but nothing is created, renamed or deleted here."
)
_ACTS_OFF = (
    "Changing a Space is switched off in this copy of the app. A pasted token is used to look at your private Spaces, for the request that "
    "it comes with, and is kept nowhere."
)


def privacy_note(*, account_actions: bool) -> str:
    """A box to open at the foot of the page."""
    told = [escape(sentence) for sentence in (_SENT, _KEPT, _ACTS if account_actions else _ACTS_OFF)]
    return f'<details class="colophon" id="privacy"><summary>{escape(TITLE)}</summary>{bullet_list(told, "notes")}</details>'
