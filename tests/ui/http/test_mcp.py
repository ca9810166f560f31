"""Schemas of the tools, from signatures and docstrings."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import jsonschema
import pytest
from contract import ARGUMENTS, ENGINES, REQUIRED
from starlette.applications import Starlette
from starlette.testclient import TestClient

from lib.service.app import services
from lib.ui.http import mcp
from lib.ui.http.api import output_schema, public_signature
from lib.ui.http.fair_queue import Threads
from lib.ui.http.mcp import description, input_schema
from lib.ui.http.shortcuts import direct_routes

ASKED = {name: endpoint.question for name, endpoint in services().endpoints().items()}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_both_schemas_are_schemas_and_every_argument_is_described(name: str) -> None:
    """The description ends before the list of arguments, whose words stand at the arguments."""
    question = ASKED[name]
    schema = input_schema(question)
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.Draft202012Validator.check_schema(output_schema(question))
    assert all(field["description"] for field in schema["properties"].values())
    assert "Args:" not in description(question)
    assert description(question).endswith(".")


def test_choices_are_listed() -> None:
    """An agent sees which engines there are."""
    schema = input_schema(ASKED["estimate_memory"])
    assert schema["properties"]["engine"]["enum"] == ENGINES
    assert schema["properties"]["context_tokens"] == {
        "type": "integer",
        "description": "Tokens that each sequence's cache holds, pictures and sound apart (decoder tokens of an encoder-decoder).",
        "default": 4096,
        "minimum": 1,
        "maximum": 100_000_000,
    }


def test_the_arguments_of_the_questions_are_those_of_the_contract() -> None:
    """Order and defaults too; the caller's token is none of them."""
    for name, expected in ARGUMENTS.items():
        parameters = public_signature(ASKED[name]).parameters.values()
        defaults = {p.name: REQUIRED if p.default is inspect.Parameter.empty else p.default for p in parameters}
        assert list(defaults.items()) == list(expected.items())


def message_of(method: str, number: object, **params: object) -> dict[str, object]:
    """One request of the protocol."""
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def test_questions_that_compute_for_long_wait_in_the_narrow_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over the API and as tools. Of these questions few run at a time, and two of one caller."""
    table, noted = services().endpoints(), list[bool]()
    run = Threads.run

    async def note(threads: Threads, work: Callable[[], Any], *, heavy: bool = False) -> Any:
        noted.append(heavy)
        return await run(threads, work, heavy=heavy)

    monkeypatch.setattr(Threads, "run", note)
    heavy = {"compare_gpu_tpu", "estimate_training", "simulate_batching", "solve"}
    asked = {name: ["7B"] if name == "estimate_training" else ["7B", "l4x1"] for name in heavy} | {"estimate_speed": ["7B", "l4x1"]}
    asked["compare_gpu_tpu"] = ["7B"]
    threads, kinds = Threads(), {"accept": "application/json, text/event-stream"}
    with TestClient(Starlette(routes=[*direct_routes(table, threads), *mcp.routes(table, threads)])) as server:
        for name, data in asked.items():
            noted.clear()
            assert server.post(f"/gradio_api/run/{name}", json={"data": data}).status_code == 200
            named = dict(zip(ARGUMENTS[name], data, strict=False))
            server.post("/gradio_api/mcp/", json=message_of("tools/call", 1, name=name, arguments=named), headers=kinds)
            assert noted == [name in heavy] * 2, name


def test_descriptions_are_put_together_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """`/agents`, `/llms.txt`, the schema, `tools/list` and `initialize` are bytes from their second request on; the id is the caller's."""
    table = {name: endpoint for name, endpoint in services().endpoints().items() if name in {"list_hardware", "solve"}}
    made: list[str] = []
    for name in ("input_schema", "agents_text"):
        make = getattr(mcp, name)
        monkeypatch.setattr(mcp, name, lambda *given, name=name, make=make: (made.append(name), make(*given))[1])
    passed_on: list[str] = []
    pass_on = mcp.McpEndpoint._pass_on
    monkeypatch.setattr(mcp.McpEndpoint, "_pass_on", lambda *given: (passed_on.append("library"), pass_on(*given))[1])
    client = {"name": "test", "version": "1"}
    kinds = {"accept": "application/json, text/event-stream"}
    with TestClient(Starlette(routes=[*mcp.routes(table, Threads()), *mcp.agent_routes(table)])) as server:

        def ask(number: object) -> list[dict[str, Any]]:
            assert "http://testserver/gradio_api/mcp/" in server.get("/agents").text
            assert server.get("/llms.txt", headers={"host": "other.example"}).text.count("http://other.example/gradio_api/mcp/")
            assert len(server.get("/gradio_api/mcp/schema").json()) == 2
            sent = [
                message_of("tools/list", number),
                message_of("initialize", number, protocolVersion="2025-06-18", capabilities={}, clientInfo=client),
                message_of("initialize", number, protocolVersion="1999-01-01", capabilities={}, clientInfo=client),
            ]
            return [server.post("/gradio_api/mcp/", json=one, headers=kinds).json() for one in sent]

        first, work = ask(1), (len(made), len(passed_on))
        second = ask('"b"')
        assert (len(made), len(passed_on)) == work
        assert [answer["id"] for answer in second] == ['"b"'] * 3
        assert [answer["result"] for answer in first] == [answer["result"] for answer in second]
        assert {tool["name"] for tool in first[0]["result"]["tools"]} == {"list_hardware", "solve"}
        assert first[1]["result"]["protocolVersion"] == "2025-06-18"
        assert first[2]["result"]["protocolVersion"] > "2025-06-18"
        assert server.post("/gradio_api/mcp/", json=message_of("ping", 5), headers=kinds).json() == {
            "jsonrpc": "2.0",
            "id": 5,
            "result": {},
        }
