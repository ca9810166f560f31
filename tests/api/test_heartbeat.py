"""The heartbeat of a running app: through gradio_client, MCP, and the direct way that names the queue instead."""

from __future__ import annotations

import httpx
import pytest
from contract import check_fields
from gradio_client import Client
from gradio_client.exceptions import AppError
from mcp_client import call

SMALL = {"batch": 16, "hidden": 512, "intermediate": 1024, "iterations": 5, "warmup": 1}


@pytest.fixture(scope="module")
def client(app_url: str) -> Client:
    """A client of the app."""
    return Client(app_url, verbose=False, analytics_enabled=False)


def test_heartbeat_is_valid_and_below_the_roof(client: Client) -> None:
    """Every figure of the contract, efficiency in (0, 1], the floor below each time."""
    answer = client.predict(**SMALL, api_name="/heartbeat")
    check_fields("heartbeat", answer)
    assert answer["valid"] is True
    assert 0 < answer["efficiency"] <= 1
    assert answer["flops"] == 2 * 16 * 512 * 1024
    assert answer["floor_s"] <= answer["median_s"] <= answer["p95_s"]
    assert answer["achieved_flops_per_s"] == pytest.approx(answer["flops"] / answer["median_s"])


def test_refusal_reaches_the_caller(client: Client) -> None:
    """What does not fit the machine is refused with the arithmetic."""
    with pytest.raises(AppError, match="The three matrices take"):
        client.predict(batch=65_536, hidden=131_072, intermediate=131_072, api_name="/heartbeat")
    with pytest.raises(AppError, match="dtype was 'int8'"):
        client.predict(dtype="int8", api_name="/heartbeat")


def test_heartbeat_over_mcp(app_url: str) -> None:
    """The same as a tool."""
    answer = call(app_url, "heartbeat", SMALL)
    check_fields("heartbeat", answer.structuredContent)
    assert answer.structuredContent["valid"] is True


def test_direct_call_names_the_queue(app_url: str) -> None:
    """It takes its turn, so POST /run does not answer it."""
    answer = httpx.post(f"{app_url}/gradio_api/run/heartbeat", json={"data": []}, timeout=60)
    assert answer.status_code >= 400
    assert "/call" in answer.json()["error"]
