"""What fails behind the door leaves it as a sentence with the status of its cause."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from fastapi import FastAPI
from pydantic import BaseModel
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.testclient import TestClient

from lib.ui.http.api import FAILED
from lib.ui.http.failures import HANDLERS, Failures, drop_wrong_hosts


class Form(BaseModel):
    """What one route takes."""

    number: int


async def as_gradio(request: Request) -> Response:
    """Answers as Gradio does: status 500, with a refusal's words or without any."""
    told = {"refused": {"error": "It is too large. Send less.", "title": "bad_argument"}, "busy": {"error": "Wait.", "title": "busy"}}
    return JSONResponse(told.get(request.path_params["how"], {"error": None}), status_code=500)


async def break_off(request: Request) -> Response:
    """Dies before its answer, or in the middle of it."""
    if request.path_params["when"] == "before":
        raise RuntimeError("a library speaks of hf_a_secret_token")

    async def pieces() -> Iterator[str]:  # type: ignore[misc]
        yield "half"
        raise RuntimeError

    return StreamingResponse(pieces())


@pytest.fixture
def client() -> TestClient:
    """A server that fails in many ways."""
    app = FastAPI(middleware=[Middleware(Failures)], exception_handlers=HANDLERS)
    app.add_route("/gradio/{how}", as_gradio)
    app.add_route("/dies/{when}", break_off)

    @app.post("/form")
    async def form(sent: Form) -> int:
        return sent.number

    return TestClient(app, raise_server_exceptions=False)


@pytest.mark.parametrize(
    ("path", "status", "code", "says"),
    [
        ("/gradio/refused", 422, "bad_argument", "It is too large. Send less."),
        ("/gradio/busy", 503, "busy", "Wait."),
        ("/gradio/silent", 500, "internal", FAILED),
        ("/dies/before", 500, "internal", FAILED),
    ],
)
def test_a_failure_has_a_sentence_and_the_status_of_its_cause(client: TestClient, path: str, status: int, code: str, says: str) -> None:
    """Gradio's 500 says nothing of who can mend it."""
    answer = client.get(path)
    assert (answer.status_code, answer.json()) == (status, {"error": says, "title": code})


def test_an_answer_that_breaks_in_the_middle_is_not_completed(client: TestClient, caplog: pytest.LogCaptureFixture) -> None:
    """A half answer that ends well would be taken for a whole one."""
    with caplog.at_level(logging.ERROR):
        assert client.get("/dies/within").text == "half"
    assert "GET request failed" in caplog.text


def test_a_wrong_form_is_refused_without_being_repeated(client: TestClient) -> None:
    """FastAPI's own answer holds the whole body."""
    answer = client.post("/form", json={"number": "hf_a_secret_token", "oauth_token": "hf_another"})
    assert answer.status_code == 422
    assert "hf_" not in answer.text
    assert "not of the form" in answer.json()["error"]


@pytest.mark.parametrize("host", ["hf_é", "a b", "[::1", "999.999.999.999", "a" * 400])
def test_a_host_that_cannot_be_one_is_not_passed_on(host: str) -> None:
    """Gradio makes its own address of it, and would die of it; a proxy's good one passes."""
    named = [(b"host", b"app.example:80"), (b"x-forwarded-host", host.encode("utf-8")), (b"x-gradio-server", b"http://evil.example")]
    drop_wrong_hosts({"type": "http", "headers": named})
    assert named == [(b"host", b"app.example:80")]
    wrong = [(b"host", host.encode("utf-8"))]
    drop_wrong_hosts({"type": "http", "headers": wrong})
    assert wrong == [(b"host", b"localhost")]
    good = [(b"host", b"10.0.0.1:7860"), (b"x-forwarded-host", b"user-space.hf.space, proxy.internal")]
    drop_wrong_hosts({"type": "http", "headers": good})
    assert len(good) == 2
