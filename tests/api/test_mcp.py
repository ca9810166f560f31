"""The endpoints as tools of the Model Context Protocol, through its own client."""

from __future__ import annotations

from typing import Any

import httpx
import jsonschema
import pytest
from contract import ARGUMENTS, EXAMPLE, REQUIRED, check_fields
from mcp.types import TextContent
from mcp_client import call, with_session


def test_the_tools_are_the_endpoints(app_url: str) -> None:
    """Same names, same arguments, same defaults; every argument is described."""
    tools = with_session(app_url, lambda session: session.list_tools()).tools
    assert [tool.name for tool in tools] == list(ARGUMENTS)
    for tool in tools:
        properties = tool.inputSchema["properties"]
        assert {name: field.get("default", REQUIRED) for name, field in properties.items()} == ARGUMENTS[tool.name]
        assert tool.inputSchema["required"] == [name for name, default in ARGUMENTS[tool.name].items() if default is REQUIRED]
        assert all(field["description"] for field in properties.values())
        assert tool.description


@pytest.mark.parametrize("tool", EXAMPLE)
def test_an_answer_is_structured_and_keeps_its_schema(app_url: str, tool: str) -> None:
    """The structured content validates against the tool's outputSchema and has the fields of the contract."""
    schemas = {listed.name: listed.outputSchema for listed in with_session(app_url, lambda session: session.list_tools()).tools}
    answer = call(app_url, tool, EXAMPLE[tool])
    assert not answer.isError
    jsonschema.validate(answer.structuredContent, schemas[tool] or {})
    check_fields(tool, answer.structuredContent)


@pytest.mark.parametrize(
    ("tool", "arguments", "says"),
    [
        ("list_hardware", {"platform": "moon"}, "platform was 'moon'"),
        ("estimate_memory", {"model": "7B", "context_tokens": "many"}, "context_tokens was"),
        ("estimate_memory", {"modell": "7B"}, "Did you mean model?"),
        ("estimate_memory", {}, "model is missing"),
        ("delete_space", {}, "There is no tool 'delete_space'"),
    ],
)
def test_a_refused_call_is_an_error_with_a_sentence(app_url: str, tool: str, arguments: dict[str, Any], says: str) -> None:
    """The sentences are the same as everywhere else."""
    answer = call(app_url, tool, arguments)
    assert answer.isError
    assert isinstance(answer.content[0], TextContent)
    assert says in answer.content[0].text


def test_the_listing_for_the_hub_needs_no_session(app_url: str) -> None:
    """GET /gradio_api/mcp/schema tells the tools in plain JSON."""
    assert [tool["name"] for tool in httpx.get(f"{app_url}/gradio_api/mcp/schema", timeout=60).json()] == list(ARGUMENTS)


def test_any_host_name_may_stand_in_front(app_url: str) -> None:
    """Behind the Hub's proxy the Host header names the Space."""
    request = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    headers = {"host": "someone-advisor.hf.space", "accept": "application/json, text/event-stream"}
    answer = httpx.post(f"{app_url}/gradio_api/mcp/", json=request, headers=headers, timeout=60)
    assert answer.status_code == 200
    assert len(answer.json()["result"]["tools"]) == len(ARGUMENTS)


def test_without_sessions_there_is_nothing_to_listen_to(app_url: str) -> None:
    """GET would open a stream that never says anything."""
    assert httpx.get(f"{app_url}/gradio_api/mcp/", timeout=60).status_code == 405
