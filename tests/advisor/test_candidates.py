"""Which engines an offer runs follows from the rows of engines and platforms."""

from __future__ import annotations

import pytest

from lib.advisor.candidates import engines_on
from lib.catalog import load
from lib.catalog.offers import ZEROGPU_TIER
from lib.model import bundled


@pytest.mark.parametrize(
    ("model", "hardware", "sdk", "expected"),
    [
        ("Qwen/Qwen3-Embedding-8B", "tpu:v6e-8", "auto", [("vllm-tpu", "")]),  # a TPU has one server, for every kind of work
        ("Qwen/Qwen3-Embedding-8B", "spaces:l4x1", "gradio", [("transformers", "gradio")]),
        ("Qwen/Qwen3-Embedding-8B", "jobs:l4x1", "auto", [("transformers", ""), ("tei", "")]),
        ("google-bert/bert-base-uncased", f"zerogpu:{ZEROGPU_TIER}", "docker", [("transformers", "gradio")]),
        ("deepseek-ai/DeepSeek-V3.2", f"zerogpu:{ZEROGPU_TIER}", "auto", []),  # sparse attention is not known on that card
    ],
)
def test_engines_of_embedders_and_sparse_models(model: str, hardware: str, sdk: str, expected: list[tuple[str, str]]) -> None:
    """Servers of text are not tried for vectors on a GPU; ZeroGPU runs what PyTorch runs in a Gradio Space."""
    spec = bundled.find_spec(model)
    assert spec is not None
    assert list(engines_on(load().resolve_offer(hardware), "encode", spec, sdk)) == expected
