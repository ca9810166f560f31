"""`/measure` through `gradio_client`, against a really started app: a real model of the catalog on this machine."""

from __future__ import annotations

import pytest
from contract import TINY_CONFIG, check_fields
from gradio_client import Client
from gradio_client.exceptions import AppError


@pytest.fixture(scope="module")
def client(app_url: str) -> Client:
    """One client for all tests of this file."""
    return Client(app_url, verbose=False, analytics_enabled=False)


@pytest.mark.slow
def test_a_model_of_the_catalog_takes_what_was_predicted(client: Client) -> None:
    """SmolLM2 135M in float32, 134 515 008 parameters of 4 bytes: within 10 % of the prediction, on whatever runs the tests."""
    answer = client.predict("HuggingFaceTB/SmolLM2-135M-Instruct", 128, 16, "fp32", api_name="/measure")
    check_fields("measure", answer)
    assert answer["weights"] == "random"
    assert answer["device_details"]["kind"] in {"cpu", "cuda"}
    assert answer["peak_bytes"] > 4 * 134_515_008
    assert answer["weights_bytes"] <= answer["peak_bytes"]
    assert abs(answer["error_ratio"]["peak_bytes"]) <= 0.10
    assert answer["ttft_s"] > 0
    assert answer["decode_tokens_per_s"] > 0


def test_refusals_are_sentences(client: Client) -> None:
    """A count has no architecture; more than the model's positions is no prompt."""
    with pytest.raises(AppError, match="names no architecture"):
        client.predict("7B", api_name="/measure")
    with pytest.raises(AppError, match="at most 2,048 tokens in all"):
        client.predict(TINY_CONFIG, 2048, 64, api_name="/measure")
