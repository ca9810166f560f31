"""Whose page sent a request, and the request without the browser's login.

The session cookie travels with requests from any site (Gradio sets SameSite=None, for a Space is shown inside another site), and Gradio's
own CORS rules let any site send any header along with it. So a form on a foreign page could act in the name of whoever is signed in here.
What a page cannot set are Host, Origin and Sec-Fetch-Site; X-Forwarded-Host it can, so that one is not asked.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from starlette.types import Scope


def foreign(scope: Scope) -> bool:
    """Whether a page of another site sent this. What names no origin was not sent by a page at all."""
    headers: dict[bytes, str] = {name.lower(): value.decode("latin-1") for name, value in scope["headers"]}
    origin = headers.get(b"origin")
    if origin is None:
        return False
    site = headers.get(b"sec-fetch-site")
    if site is not None:  # the browser itself says so, and it knows of no proxy between
        return site != "same-origin"
    return _host(origin) not in _ours(headers.get(b"host", ""))


def signed_in(scope: Scope) -> bool:
    """Whether the browser sent cookies along; a login is one of them."""
    return any(name.lower() == b"cookie" for name, _ in scope["headers"])


def anonymous(scope: Scope) -> Scope:
    """The same request from somebody who is not signed in: no cookies, and nothing of what was read from them."""
    unsigned = {**scope, "headers": [(name, value) for name, value in scope["headers"] if name.lower() != b"cookie"]}
    if "session" in scope:  # Gradio's session middleware stands before ours and has read the cookie already
        unsigned["session"] = type(scope["session"])()
    return unsigned


def _host(origin: str) -> str | None:
    """Host and port of an origin; none of the opaque one (`null`)."""
    try:
        return urlsplit(origin).netloc.lower() or None
    except ValueError:
        return None


def _ours(host: str) -> set[str]:
    """The names of this server. On a Space, SPACE_HOST lists them, a custom domain too."""
    names = [host, *os.environ.get("SPACE_HOST", "").split(",")]
    return {name.strip().lower() for name in names if name.strip()}
