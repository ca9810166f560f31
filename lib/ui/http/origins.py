"""Where a request comes from, and what a page of another site may not do with a visitor's login.

The session cookie travels with requests from any site: Gradio sets SameSite=None, for a Space is shown inside another site, and its CORS
rules let any site send any header along with it. So a form on a foreign page could act in the name of the user who is signed in here, or
sign the user out; and a foreign page could lay this one under its own buttons and have a visitor confirm a switch unknowingly.
`FrameAncestors` adds a header to every page: only the Hub, where a Space's page stands in a frame, and the page itself may frame it. What
of a request is kept, `lib.ui.http.middleware` decides by the functions here.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_LOGOUT = "/logout"
_FRAME_ANCESTORS = "frame-ancestors 'self' https://huggingface.co https://*.huggingface.co"


class FrameAncestors:
    """Every page says who may show it in a frame."""

    def __init__(self, app: ASGIApp) -> None:
        """Stand in front of `app`."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, and add the header to a response that is a page."""

        async def send_with_header(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                if headers.get("content-type", "").startswith("text/html"):
                    headers.append("content-security-policy", _FRAME_ANCESTORS)
            await send(message)

        await self._app(scope, receive, send_with_header if scope["type"] == "http" else send)


def is_foreign(scope: Scope) -> bool:
    """Whether a page of another site sent this request. One with neither Origin nor Sec-Fetch-Site was not sent by a page.

    A page cannot set Host, Origin and Sec-Fetch-Site; it can set X-Forwarded-Host, so that header is not read.
    """
    headers = Headers(scope=scope)
    origin, site = headers.get("origin"), headers.get("sec-fetch-site")
    if site is not None:  # the browser says so itself, whatever proxy stands between; "none" is an address that was typed
        return site not in ("same-origin", "none")
    return origin is not None and _host(origin) not in _own_hosts(headers.get("host", ""))


def is_foreign_logout(scope: Scope) -> bool:
    """Whether this signs a visitor out without having been asked to by our own page (or by hand): a picture elsewhere would do.

    The sign-out is a GET, which has no Origin; a browser that does not tell where it comes from tells the page that it left.
    """
    if str(scope.get("path", "")).rstrip("/") != _LOGOUT or not has_cookies(scope):
        return False
    headers = Headers(scope=scope)
    if "sec-fetch-site" in headers:
        return is_foreign(scope)
    return _host(headers.get("referer", "")) not in _own_hosts(headers.get("host", ""))


def has_cookies(scope: Scope) -> bool:
    """Whether the browser sent cookies along; a login is one of them."""
    return "cookie" in Headers(scope=scope)


def strip_login(scope: Scope) -> Scope:
    """The same request from somebody who is not signed in: no cookies, and nothing of what was read from them."""
    unsigned = {**scope, "headers": [(name, value) for name, value in scope["headers"] if name.lower() != b"cookie"]}
    if "session" in scope:  # Gradio's session middleware stands before ours and has read the cookie already
        unsigned["session"] = type(scope["session"])()
    return unsigned


def _host(origin: str) -> str | None:
    """Host and port of an origin; None for the opaque one (`null`)."""
    try:
        return urlsplit(origin).netloc.lower() or None
    except ValueError:
        return None


def _own_hosts(host: str) -> set[str]:
    """The names of this server. On a Space, SPACE_HOST lists them, a custom domain too."""
    names = [host, *os.environ.get("SPACE_HOST", "").split(",")]
    return {name.strip().lower() for name in names if name.strip()}
