"""Who may show the page in a frame: the Hub, where a Space's page is one, and the page itself.

A login's cookie comes along into a frame on any site (it has to, for the Hub's own frame), so a foreign page could lay this one under its
own buttons and have a visitor confirm a switch unknowingly. The browser refuses frames of other sites by this header.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_HEADER = (b"content-security-policy", b"frame-ancestors 'self' https://huggingface.co https://*.huggingface.co")


class Framing:
    """ASGI middleware: every page says who may frame it."""

    def __init__(self, app: ASGIApp) -> None:
        """Stand in front of `app`."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, and add the header to an answer that is a page."""

        async def told(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = list(message.get("headers", ()))
                if any(name.lower() == b"content-type" and value.startswith(b"text/html") for name, value in headers):
                    message = {**message, "headers": [*headers, _HEADER]}
            await send(message)

        await self._app(scope, receive, told if scope["type"] == "http" else send)
