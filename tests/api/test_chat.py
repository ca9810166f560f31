"""The chat of the really started app on the CPU: through `gradio_client`, over MCP, and when its model is not there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest
import tiny_chat
from contract import check_fields
from gradio_client import Client
from gradio_client.exceptions import AppError

METRICS = {
    "ttft_s", "decode_tokens_per_s", "peak_bytes", "device", "prompt_tokens", "output_tokens", "stopped", "predicted", "error_ratio",
}  # fmt: skip


@pytest.fixture(scope="module")
def client(app_url: str) -> Client:
    """One client for all tests of this file."""
    return Client(app_url, verbose=False, analytics_enabled=False)


def test_without_its_model_the_chat_says_why(client: Client, demo_folder: Path) -> None:
    """The rest of the app goes on, and no path of the server is told."""
    assert not demo_folder.exists(), "this test comes before those that put the model there"
    with pytest.raises(AppError, match=r"'tiny-instruct' is not at hand: .* Next: ") as told:
        client.predict("Hello", api_name="/chat")
    assert str(demo_folder.parent) not in str(told.value)
    assert client.predict(api_name="/list_hardware")["hardware"]


def test_the_chat_streams_and_ends_with_metrics(client: Client, demo_folder: Path) -> None:
    """More than one item; each has the fields of the contract, the last one the metrics beside their prediction."""
    tiny_chat.save(demo_folder)
    items = list(client.submit("Hello", [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yes"}], 30, api_name="/chat"))
    assert len(items) > 1
    for item in items:
        check_fields("chat", item)
    assert [item["metrics"] is None for item in items] == [True] * (len(items) - 1) + [False]
    metrics = items[-1]["metrics"]
    assert metrics.keys() >= METRICS
    assert metrics["predicted"].keys() >= {"ttft_s", "decode_tokens_per_s", "peak_bytes"}
    assert metrics["output_tokens"] == 30
    assert metrics["prompt_tokens"] == len("<user\nHi>\n<assistant\nYes>\n<user\nHello>\n<assistant\n")


def test_a_conversation_that_is_stopped_lets_the_next_one_in(client: Client) -> None:
    """Cancelled in the middle of an answer that would take long, the model is free again."""
    job = client.submit("Tell me everything", [], 256, api_name="/chat")
    for item in job:
        if item["stage"] == "writing":
            break
    job.cancel()
    assert client.predict("Hello", [], 2, api_name="/chat")["metrics"]["output_tokens"] == 2


def test_over_mcp_the_last_item_is_the_answer(app_url: str) -> None:
    """A tool call has one result."""
    ask: dict[str, Any] = {"name": "chat", "arguments": {"message": "Hello", "max_new_tokens": 3}}
    accepted = {"accept": "application/json, text/event-stream"}
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": ask}
    answer = httpx.post(f"{app_url}/gradio_api/mcp/", json=call, headers=accepted, timeout=60).json()["result"]
    assert not answer["isError"]
    check_fields("chat", answer["structuredContent"])
    assert answer["structuredContent"]["metrics"]["output_tokens"] == 3
