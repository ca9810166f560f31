"""Which Space a caller means, and whose token came with the request."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from lib.errors import BadArgument, NotSignedIn
from lib.service.arguments import MAX_NAME, seen
from lib.service.reference import PAGE_HOSTS

ACCEPTED = "owner/name, or the address of the Space's page on the Hub"
_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", re.ASCII)
_LONGEST_PAGE = 1_000


def space_of(space_id: object) -> str:
    """The id of the Space, owner/name.

    Raises:
        BadArgument: the text cannot be one.
    """
    if not isinstance(space_id, str) or len(space_id) > _LONGEST_PAGE:
        raise BadArgument("space_id", seen(space_id), ACCEPTED)
    text = space_id.strip()
    if text.startswith("hf_") and "/" not in text:  # pasted into the wrong field: not to be repeated
        raise BadArgument("space_id", "what looks like a token", f"{ACCEPTED}; a token has a place of its own")
    name = _of_page(text) if "://" in text else text
    if len(name) > MAX_NAME or not _ID.fullmatch(name) or ".." in name:
        raise BadArgument("space_id", text, ACCEPTED)
    return name


def _of_page(text: str) -> str:
    try:
        page = urlsplit(text)
    except ValueError:  # half a bracket, or letters that turn into a slash
        return ""
    kind, _, rest = page.path.strip("/").partition("/")
    return "/".join(rest.split("/")[:2]) if page.hostname in PAGE_HOSTS and kind == "spaces" else ""


def signed_in(token: object, what: str) -> str:
    """The caller's own token; `what` is the action that needs it.

    Raises:
        NotSignedIn: none came with the request; the server's own is never taken instead.
    """
    if isinstance(token, str) and token:
        return token
    raise NotSignedIn(
        f"To {what}, your own Hugging Face token is needed, and none came with this request. "
        "On the page sign in, or paste a fine-grained token with write access to the Space; "
        'over the API send it as "oauth_token", over MCP in the X-HF-Token header.'
    )
