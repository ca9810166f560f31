"""What `/agents` tells a script, and that it works as it stands there."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from contract import ARGUMENTS
from mcp_client import with_session


@pytest.fixture(scope="module")
def text(app_url: str) -> str:
    """The page, as `curl` gets it."""
    answer = httpx.get(f"{app_url}/agents", timeout=60)
    assert answer.headers["content-type"].startswith("text/plain")
    assert httpx.get(f"{app_url}/llms.txt", timeout=60).text == answer.text
    return answer.text


def _block(text: str, language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)\n```", text, re.DOTALL)
    assert found is not None
    return found[1]


def test_every_endpoint_is_told_with_its_arguments(text: str) -> None:
    """Names and order are those of the contract; no argument is without words."""
    told = {
        re.match(r"/(\w+)", section)[1]: re.findall(r"^- (\w+) \(.+?\): (?!None)\S", section, re.MULTILINE)  # type: ignore[index]
        for section in text.split("\n### ")[1:]
    }
    assert told == {name: list(arguments) for name, arguments in ARGUMENTS.items()}


def test_the_python_example_runs(text: str, tmp_path: Path) -> None:
    """It prints hardware and a price."""
    script = tmp_path / "example.py"
    script.write_text(_block(text, "python"))
    ran = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=300, check=True)
    assert re.search(r"^\S+ [0-9.]+$", ran.stdout, re.MULTILINE)


def test_the_curl_example_runs(text: str) -> None:
    """Both ways give the same pick."""
    ran = subprocess.run(["/bin/sh", "-c", _block(text, "sh")], capture_output=True, text=True, timeout=300, check=True)
    once, stream = ran.stdout.split("event: complete\ndata: ")
    picks = [json.loads(once)["data"][0]["pick"]["hardware"], json.loads(stream)[0]["pick"]["hardware"]]
    assert picks[0] == picks[1]


def test_the_mcp_address_is_served(app_url: str, text: str) -> None:
    """The settings name the server that answers, and every tool says what it may do."""
    (server,) = json.loads(_block(text, "json"))["mcpServers"].values()
    assert server["url"] == f"{app_url}/gradio_api/mcp/"
    hints = {tool.name: tool.annotations for tool in with_session(app_url, lambda session: session.list_tools()).tools}
    stopping = {"switch_hardware", "pause_space", "restart_space", "stop_resource"}
    assert {name for name, hint in hints.items() if hint and hint.destructiveHint} == stopping
    changing = {name for name, hint in hints.items() if hint and not hint.readOnlyHint}
    assert changing == stopping | {"set_sleep_time", "measure"}


def test_a_host_that_is_none_is_not_repeated(app_url: str) -> None:
    """What a caller writes into a header does not become part of a command to copy."""
    assert "rm -rf" not in httpx.get(f"{app_url}/agents", headers={"x-forwarded-host": "a;rm -rf /"}, timeout=60).text
