"""A page tells browsers who may put it into a frame."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route
from starlette.testclient import TestClient

from lib.ui.http.callers import FrameAncestors


async def page(request: Request) -> Response:
    """Stands where Gradio stands."""
    return JSONResponse({}) if request.url.path == "/data" else HTMLResponse("<p>page</p>")


def test_only_the_hub_may_frame_the_page() -> None:
    """Pages carry the header, data does not need it."""
    app = Starlette(routes=[Route("/{path:path}", page)], middleware=[Middleware(FrameAncestors)])
    with TestClient(app) as client:
        said = client.get("/").headers["content-security-policy"]
        assert said == "frame-ancestors 'self' https://huggingface.co https://*.huggingface.co"
        assert "content-security-policy" not in client.get("/data").headers
