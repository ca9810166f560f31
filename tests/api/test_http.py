"""The endpoints over plain HTTP, as `curl` would call them."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from contract import ARGUMENTS, EXAMPLE, check_fields

SECONDS = 60


@pytest.mark.parametrize("endpoint", EXAMPLE)
def test_one_request_one_answer(app_url: str, endpoint: str) -> None:
    """POST /gradio_api/run/<endpoint> with the values in order; those left out at the end get their defaults."""
    given = EXAMPLE[endpoint] if endpoint != "estimate_memory" else {"model": EXAMPLE[endpoint]["model"]}
    names = list(ARGUMENTS[endpoint])
    sent = names[: max((names.index(name) + 1 for name in given), default=0)]
    values = [given.get(name, ARGUMENTS[endpoint][name]) for name in sent]
    answer = httpx.post(f"{app_url}/gradio_api/run/{endpoint}", json={"data": values}, timeout=SECONDS)
    assert answer.status_code == 200
    check_fields(endpoint, answer.json()["data"][0])


@pytest.mark.parametrize("endpoint", EXAMPLE)
def test_a_call_by_name_and_its_event_stream(app_url: str, endpoint: str) -> None:
    """POST /gradio_api/call/v2/<endpoint> with named arguments gives an event, whose stream ends with the answer."""
    event = httpx.post(f"{app_url}/gradio_api/call/v2/{endpoint}", json=EXAMPLE[endpoint], timeout=SECONDS).json()["event_id"]
    stream = httpx.get(f"{app_url}/gradio_api/call/{endpoint}/{event}", timeout=SECONDS).text
    assert "event: complete" in stream
    check_fields(endpoint, _data(stream)[0])


def test_a_refused_call_says_why_in_its_stream(app_url: str) -> None:
    """The stream ends with an error event that holds the sentence."""
    event = httpx.post(f"{app_url}/gradio_api/call/list_hardware", json={"data": ["moon"]}, timeout=SECONDS).json()["event_id"]
    stream = httpx.get(f"{app_url}/gradio_api/call/list_hardware/{event}", timeout=SECONDS).text
    assert "event: error" in stream
    assert "platform was 'moon'. Accepted: spaces, zerogpu, endpoints, jobs, tpu, all." in stream


def test_a_refusal_has_the_sentence_and_the_code(app_url: str) -> None:
    """The body is Gradio's own form of an error."""
    answer = httpx.post(f"{app_url}/gradio_api/run/list_hardware", json={"data": ["moon"]}, timeout=SECONDS)
    assert answer.status_code == 422
    assert answer.json()["error"].startswith("platform was 'moon'.")
    assert answer.json()["title"] == "bad_argument"


def test_answers_are_described_field_by_field(app_url: str) -> None:
    """/gradio_api/info shows the type of every field of the answer, not "Any"."""
    endpoints = httpx.get(f"{app_url}/gradio_api/info", timeout=SECONDS).json()["named_endpoints"]
    answer = endpoints["/list_hardware"]["returns"][0]["type"]
    row = answer["properties"]["hardware"]["items"]["$ref"].rpartition("/")[2]
    described = answer["$defs"][row]["properties"]
    assert described["id"]["type"] == "string"
    assert described["accelerator_count"]["type"] == "integer"


def test_nothing_else_is_public(app_url: str) -> None:
    """Names that are not in the contract are not called, also not Gradio's own private ones."""
    for name in ("nothing", "load", "lambda", "_check_login_status"):
        answer = httpx.post(f"{app_url}/gradio_api/call/{name}", json={"data": []}, timeout=SECONDS)
        assert answer.status_code == 404
        assert "The endpoints are" in answer.json()["error"]


def test_monitoring_is_closed_and_the_page_is_served(app_url: str) -> None:
    """The page answers; what it would tell about its visitors' calls does not."""
    assert httpx.get(app_url, timeout=SECONDS).status_code == 200
    assert httpx.get(f"{app_url}/monitoring/summary", timeout=SECONDS).status_code == 404


def _data(stream: str) -> Any:
    """The JSON of the last event."""
    return json.loads(stream.rstrip().rpartition("data: ")[2])
