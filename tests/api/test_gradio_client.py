"""The endpoints through `gradio_client`, against a really started app."""

from __future__ import annotations

from typing import Any

import pytest
from contract import ARGUMENTS, EXAMPLE, REQUIRED, TINY_CACHE_BYTES_PER_TOKEN, TINY_CONFIG, TINY_PARAMETERS, check_fields
from gradio_client import Client
from gradio_client.exceptions import AppError


@pytest.fixture(scope="module")
def client(app_url: str) -> Client:
    """One client for all tests of this file."""
    return Client(app_url, verbose=False, analytics_enabled=False)


def test_exactly_the_endpoints_of_the_contract_are_public(client: Client) -> None:
    """Names, arguments, their order and their defaults are what scripts rely on."""
    endpoints: dict[str, Any] = client.view_api(return_format="dict", print_info=False)["named_endpoints"]  # type: ignore[index, assignment]
    seen = {
        name.removeprefix("/"): {
            parameter["parameter_name"]: parameter["parameter_default"] if parameter["parameter_has_default"] else REQUIRED
            for parameter in endpoint["parameters"]
        }
        for name, endpoint in endpoints.items()
    }
    assert seen == ARGUMENTS
    assert {name: list(arguments) for name, arguments in seen.items()} == {name: list(arguments) for name, arguments in ARGUMENTS.items()}


@pytest.mark.parametrize("endpoint", EXAMPLE)
def test_every_endpoint_answers_with_the_fields_of_the_contract(client: Client, endpoint: str) -> None:
    """An object, not a text and not a tuple."""
    check_fields(endpoint, client.predict(**EXAMPLE[endpoint], api_name=f"/{endpoint}"))


def test_a_pasted_config_is_counted_exactly(client: Client) -> None:
    """Two layers of 36 992 parameters and 128 064 around them (worked out in contract.py)."""
    answer = client.predict(TINY_CONFIG, api_name="/resolve_model")
    assert answer["parameters_total"] == TINY_PARAMETERS
    assert answer["source"] == "architecture"
    assert sum(answer["layer_kinds"].values()) == 2


def test_the_cache_is_exact_and_the_parts_add_up(client: Client) -> None:
    """3 sequences of 100 tokens at 256 bytes per token; the total is the sum of its parts."""
    answer = client.predict(TINY_CONFIG, context_tokens=100, batch_size=3, api_name="/estimate_memory")
    assert answer["kv_cache_bytes"] == 3 * 100 * TINY_CACHE_BYTES_PER_TOKEN
    assert answer["weights_bytes"] == 2 * TINY_PARAMETERS
    parts = ("weights_bytes", "kv_cache_bytes", "activation_bytes", "runtime_bytes")
    assert answer["total_bytes"] == sum(answer[part] for part in parts)
    assert [part["bytes"] for part in answer["parts"]] == [answer[part] for part in parts]


def test_a_model_on_the_hub_is_read_from_its_headers(client: Client) -> None:
    """The stand-in serves Llama 3.1 8B in four shards: 8 030 261 248 parameters of two bytes."""
    answer = client.predict("org/llama-8b", api_name="/resolve_model")
    assert answer["parameters_total"] == 8_030_261_248
    assert answer["weights_bytes"] == 16_060_522_496
    assert answer["source"] == "safetensors"


def test_a_refusal_is_an_app_error_with_a_sentence(client: Client) -> None:
    """What was seen, and what is accepted."""
    accepted = r"transformers, vllm, sglang, tensorrt-llm, tgi, tei, llama\.cpp, vllm-tpu; the nearest: transformers"
    with pytest.raises(AppError, match=rf"engine was 'tensorsomething'\. Accepted: {accepted}\."):
        client.predict("7B", engine="tensorsomething", api_name="/estimate_memory")


def test_prices_are_those_of_the_catalog(client: Client) -> None:
    """0.8 dollars per hour are 0.8, not 0.8000000000000000444."""
    rows = {row["id"]: row for row in client.predict(api_name="/list_hardware")["hardware"]}
    assert rows["l4x1"]["usd_per_hour"] == 0.8
    assert repr(rows["l4x1"]["usd_per_hour"]) == "0.8"
    assert rows["l4x1"]["vcpu"] == 8
