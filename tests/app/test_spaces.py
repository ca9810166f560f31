"""The account actions against a really started app, through `gradio_client`, plain HTTP and MCP: whose token goes where, and nowhere else.

The app runs with a token of its own in the environment (HF_TOKEN). Everything that it prints, answers, asks the Hub for and writes is
kept, and searched at the end for the visitor's token.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import jsonschema
import pytest
from contract import check_fields
from gradio_client import Client
from gradio_client.exceptions import AppError
from hub_repos import llama_8b
from hub_stand_in import Fault
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CallToolResult
from running_app import start_app
from space_stand_in import FakeSpace, Person, SpaceStandIn

SECONDS = 60
SERVER = "hf_SERVERservSERVERservSERVERserv"
VISITOR = "hf_VISITORvisiVISITORvisiVISITORv"
STRANGER = "hf_STRANGERstraSTRANGERstraSTRANG"
SIGN_IN = "hf_SIGNINsignSIGNINsignSIGNINsign"
MODEL = "Qwen/Qwen2.5-7B-Instruct"
ACTING: dict[str, list[Any]] = {
    "switch_hardware": ["ada/chat", "l4x1", 0.8],
    "set_sleep_time": ["ada/large", 3600],
    "pause_space": ["ada/chat"],
    "restart_space": ["ada/chat"],
    "stop_resource": ["space", "ada/chat"],
}
LOOKING: dict[str, list[Any]] = {"space_status": ["ada/secret"], "right_size": ["ada/secret"], "account_overview": [""]}
NAMES = {
    "space_status": ["space_id"],
    "right_size": ["space_id", "model"],
    "switch_hardware": ["space_id", "hardware", "confirm_usd_per_hour"],
    "set_sleep_time": ["space_id", "seconds"],
    "pause_space": ["space_id"],
    "restart_space": ["space_id", "factory"],
    "stop_resource": ["kind", "name"],
    "account_overview": ["owner"],
}


@dataclass
class World:
    """A started app, its Hub, what it printed, where it may write, and every body that it answered with."""

    url: str
    hub: SpaceStandIn
    log: Path
    home: Path
    bodies: list[str] = field(default_factory=list)

    def run(self, endpoint: str, values: list[Any], token: str | None = None, **more: Any) -> httpx.Response:
        """POST /gradio_api/run/<endpoint>."""
        sent = {"data": values} | ({} if token is None else {"oauth_token": token})
        answer = httpx.post(f"{self.url}/gradio_api/run/{endpoint}", json=sent, timeout=SECONDS, **more)
        self.bodies += [answer.text, str(answer.headers)]
        return answer

    def call(self, endpoint: str, named: dict[str, Any], token: str | None = None) -> str:
        """POST /gradio_api/call/v2/<endpoint>, and its stream."""
        sent = named | ({} if token is None else {"oauth_token": token})
        event = httpx.post(f"{self.url}/gradio_api/call/v2/{endpoint}", json=sent, timeout=SECONDS)
        stream = httpx.get(f"{self.url}/gradio_api/call/{endpoint}/{event.json()['event_id']}", timeout=SECONDS).text
        self.bodies += [event.text, stream]
        return stream

    def tool(self, name: str, named: dict[str, Any], token: str | None = None) -> CallToolResult:
        """Call an MCP tool, with the token in its header."""

        async def session() -> CallToolResult:
            headers = {} if token is None else {"X-HF-Token": token}
            async with (
                httpx.AsyncClient(headers=headers, timeout=SECONDS) as client,
                streamable_http_client(f"{self.url}/gradio_api/mcp/", http_client=client) as (read, write, _),
                ClientSession(read, write) as opened,
            ):
                await opened.initialize()
                return await opened.call_tool(name, named)

        answer = asyncio.run(session())
        self.bodies.append(answer.model_dump_json())
        return answer


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """The app with the server's token in its environment, and folders of its own for whatever it writes."""
    home = tmp_path_factory.mktemp("home")
    for name in ("tmp", "gradio", "hf"):
        (home / name).mkdir()
    log = tmp_path_factory.mktemp("log") / "app.log"
    with SpaceStandIn() as hub:
        hub.people |= {
            VISITOR: Person(name="ada", is_pro=True),
            SERVER: Person(name="ada", is_pro=True),  # it would be allowed everything
            SIGN_IN: Person(name="ada", kind="oauth"),
        }
        hub.add(llama_8b("ada/gated-model", gated="auto", readers=frozenset({VISITOR, SERVER})))
        hub.add(llama_8b("ada/private-model", private=True, readers=frozenset({VISITOR, SERVER})))
        settings = {"HOME": str(home), "TMPDIR": str(home / "tmp"), "GRADIO_TEMP_DIR": str(home / "gradio"), "HF_HOME": str(home / "hf")}
        with start_app(log, HF_ENDPOINT=hub.url, HF_TOKEN=SERVER, **settings) as url:
            yield World(url=url, hub=hub, log=log, home=home)


@pytest.fixture(autouse=True)
def _reset_spaces(world: World) -> None:
    """Spaces as new for each test."""
    world.hub.faults.clear()
    world.hub.spaces.clear()
    world.hub.add_space(FakeSpace(id="ada/chat", models=[MODEL]))
    world.hub.add_space(FakeSpace(id="ada/large", hardware="a100-large", requested="a100-large", sleep_s=None, models=[MODEL]))
    world.hub.add_space(FakeSpace(id="ada/secret", private=True, models=[MODEL]))


def posts(world: World) -> int:
    """How many actions the Hub was asked for."""
    return len(world.hub.actions())


@pytest.mark.parametrize(("endpoint", "values"), ACTING.items())
def test_without_a_token_every_action_is_refused(world: World, endpoint: str, values: list[Any]) -> None:
    """By all three ways in, also with a cookie or an Authorization header that nobody asked for; the Hub hears nothing of it."""
    asked = [seen for seen in world.hub.requests if "/ada/" in seen.path]
    named = dict(zip(NAMES[endpoint], values, strict=False))
    for more in ({}, {"headers": {"authorization": f"Bearer {VISITOR}"}}, {"cookies": {"session": VISITOR}}):
        answer = world.run(endpoint, values, **more)
        assert answer.json()["title"] == "not_signed_in"
        assert "your own Hugging Face token" in answer.json()["error"]
    for empty in ("", None):
        assert world.run(endpoint, values, empty).json()["title"] == "not_signed_in"
    assert "your own Hugging Face token" in world.call(endpoint, named)
    tool = world.tool(endpoint, named)
    assert tool.isError
    client = Client(world.url, verbose=False, analytics_enabled=False)
    with pytest.raises(AppError, match="your own Hugging Face token"):
        client.predict(*values, api_name=f"/{endpoint}")
    assert [seen for seen in world.hub.requests if "/ada/" in seen.path] == asked


def test_looking_at_a_public_space_needs_none(world: World) -> None:
    """Neither for the status nor for the right size, and the server's own is not used either."""
    for endpoint, values in (("space_status", ["ada/large"]), ("right_size", ["ada/large"])):
        answer = world.run(endpoint, values)
        assert answer.status_code == 200
        check_fields(endpoint, answer.json()["data"][0])
    assert world.run("space_status", ["ada/secret"]).status_code == 404
    assert all("authorization" not in seen.headers for seen in world.hub.requests if seen.path.startswith("/api/spaces/ada/"))


def test_over_plain_http(world: World) -> None:
    """/run in order and /call/v2 by name; the token stands in the body."""
    switched = world.run("switch_hardware", ["ada/chat", "l4x1", 0.8, 3600], VISITOR)
    assert switched.status_code == 200
    check_fields("switch_hardware", switched.json()["data"][0])
    status = world.run("space_status", ["ada/chat"], VISITOR).json()["data"][0]
    assert (status["stage"], status["requested_hardware"], status["sleep_time_s"]) == ("BUILDING", "l4x1", 3600)
    assert "event: complete" in world.call("pause_space", {"space_id": "ada/chat"}, VISITOR)
    assert world.hub.spaces["ada/chat"].stage == "PAUSED"
    assert world.run("switch_hardware", ["ada/large", "l4x1", 0.4], VISITOR).json()["title"] == "price_not_confirmed"
    assert world.run("pause_space", ["ada/large"], STRANGER).status_code == 403
    assert world.run("pause_space", ["ada/large"], VISITOR + "\n").json()["title"] == "invalid_input"


def test_through_gradio_client(world: World) -> None:
    """`Client(url, oauth_token=...)`, as its documentation says."""
    client = Client(world.url, oauth_token=VISITOR, verbose=False, analytics_enabled=False)
    for endpoint, values in {**LOOKING, **ACTING}.items():
        answer = client.predict(*values, api_name=f"/{endpoint}")
        world.bodies.append(json.dumps(answer))
        check_fields(endpoint, answer)
    assert [path.rpartition("/")[2] for path, _ in world.hub.actions()[-5:]] == ["hardware", "sleeptime", "pause", "restart", "pause"]
    with pytest.raises(AppError, match="Nothing was changed") as refused:
        client.predict("ada/large", "l4x1", 0.81, api_name="/switch_hardware")
    world.bodies.append(str(refused.value))


def test_over_mcp(world: World) -> None:
    """The token in the header X-HF-Token; the answer keeps its schema."""
    tools = {tool["name"]: tool for tool in httpx.get(f"{world.url}/gradio_api/mcp/schema", timeout=SECONDS).json()}
    for endpoint, values in {**LOOKING, **ACTING}.items():
        answer = world.tool(endpoint, dict(zip(NAMES[endpoint], values, strict=False)), VISITOR)
        assert not answer.isError, answer.content
        jsonschema.validate(answer.structuredContent, tools[endpoint]["outputSchema"])
        check_fields(endpoint, answer.structuredContent)
        assert "token" not in tools[endpoint]["inputSchema"]["properties"]


def test_a_refusal_of_the_hub_is_passed_on_and_nothing_is_repeated(world: World) -> None:
    """One POST each; a sign-in that the Hub does not let switch is told what to do."""
    before = posts(world)
    refused = world.run("switch_hardware", ["ada/chat", "l4x1", 0.8], SIGN_IN)
    assert refused.status_code == 403
    assert "fine-grained token" in refused.json()["error"]
    assert posts(world) == before + 1
    for number, status in enumerate((402, 403, 409, 429, 500), 2):
        world.hub.faults["/ada/large/"] = Fault(status=status, body=json.dumps({"error": f"no, {VISITOR} may not"}).encode())
        assert world.run("set_sleep_time", ["ada/large", 60], VISITOR).status_code != 200
        assert posts(world) == before + number


@pytest.mark.parametrize(("model", "refused"), [("ada/gated-model", "repo_gated"), ("ada/private-model", "repo_not_found")])
def test_a_closed_model_is_read_with_the_callers_token_alone(world: World, model: str, refused: str) -> None:
    """By all three ways in; the next caller without it is refused, with a stranger's too, and the server's own is not used."""
    assert world.run("resolve_model", [model]).json()["title"] == refused
    for endpoint in ("resolve_model", "estimate_memory", "recommend"):
        answer = world.run(endpoint, [model], VISITOR).json()["data"][0]
        check_fields(endpoint, answer)
    assert "event: complete" in world.call("estimate_speed", {"model": model, "hardware": "l4x1"}, VISITOR)
    assert not world.tool("resolve_model", {"model": model}, VISITOR).isError
    client = Client(world.url, oauth_token=VISITOR, verbose=False, analytics_enabled=False)
    world.bodies.append(json.dumps(client.predict(model, api_name="/resolve_model")))
    for token in (None, STRANGER):
        assert world.run("resolve_model", [model], token).json()["title"] == refused
        assert world.run("recommend", [model], token).json()["title"] == refused
        assert world.tool("estimate_memory", {"model": model}, token).isError
    assert world.run("resolve_model", [model], cookies={"session": VISITOR}).json()["title"] == refused


def test_no_token_is_ever_told_printed_or_written(world: World) -> None:
    """After all of the above: not in a body or header that was answered, not in the log, not in the Hub's addresses, not in a file.

    The visitor's token was sent to the Hub and in one header only; the server's own was sent nowhere.
    """
    assert world.run("space_status", [VISITOR], VISITOR).status_code == 422  # pasted into the wrong field
    hidden = (VISITOR, SIGN_IN, STRANGER, SERVER)
    assert len(world.bodies) > 40
    for body in world.bodies:
        assert not any(token in body for token in hidden)
    printed = world.log.read_text(errors="replace")
    assert not any(token in printed for token in hidden)
    for path in world.home.rglob("*"):
        if path.is_file():
            held = path.read_bytes()
            assert not any(token.encode() in held for token in hidden), path.name
    assert any(seen.headers.get("authorization") == f"Bearer {VISITOR}" for seen in world.hub.requests)
    for seen in world.hub.requests:
        assert not any(token in seen.path for token in hidden)
        assert not any(token.encode() in seen.body for token in hidden)
        others = {name: value for name, value in seen.headers.items() if name != "authorization"}
        assert not any(token in str(others) for token in hidden)
        assert SERVER not in seen.headers.get("authorization", "")
        if not re.match(
            r"/(ada/(gated|private)-model/|api/(models/ada/(gated|private)-model|spaces/ada/|spaces\?|jobs/ada|whoami-v2)|v2/endpoint/ada)",
            seen.path,
        ):
            assert "authorization" not in seen.headers
