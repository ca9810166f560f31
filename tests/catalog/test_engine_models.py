"""The lists of model classes that engines publish."""

from __future__ import annotations

import pytest

from lib.catalog.engine_models import lists_model, normalize, read_engine_models
from lib.engines import TRAITS, Engine


def test_every_list_names_its_release_and_source() -> None:
    """Servers of text have a list; each row is read on a day and has at least ten models."""
    rows = read_engine_models()
    assert {"vllm", "vllm-tpu", "sglang", "tensorrt-llm", "tgi", "tei", "llama.cpp"} == rows.keys()
    assert all(row.source and row.checked >= "2026-11-25" and len(row.listed) >= 10 for row in rows.values())
    assert all(row.cuda_only <= row.listed and not row.dropped.keys() & row.listed for row in rows.values())


def test_an_engine_that_runs_its_own_list_alone_has_one() -> None:
    """`listed_only` would refuse every model where the list is missing."""
    assert {engine for engine, row in TRAITS.items() if row.listed_only} <= read_engine_models().keys()


@pytest.mark.parametrize(
    ("engine", "architecture", "model_type", "listed"),
    [
        ("vllm", "Qwen3ForCausalLM", "qwen3", True),
        ("vllm", "PhimoeForCausalLM", "phimoe", True),  # transformers' spelling; vLLM lists PhiMoEForCausalLM
        ("vllm", "MllamaForConditionalGeneration", "mllama", False),  # removed after 0.10.2
        ("sglang", "MllamaForConditionalGeneration", "mllama", True),
        ("tgi", "Qwen3ForCausalLM", "qwen3", False),
        ("tgi", "LlamaForCausalLM", "llama", True),
        ("tei", "XLMRobertaModel", "xlm-roberta", True),
        ("tei", "GPT2Model", "gpt2", False),
        ("llama.cpp", "PhimoeForCausalLM", "phimoe", True),
        ("transformers", "AnythingForCausalLM", "anything", True),  # no list: the installed library builds the class
        ("vllm", "", "", True),  # a bare parameter count
    ],
)
def test_lists_model(engine: Engine, architecture: str, model_type: str, *, listed: bool) -> None:
    """A class is found by the name that the engine's list is kept by, without regard to case and separators."""
    assert lists_model(engine, architecture=architecture, model_type=model_type) is listed


def test_tei_starts_some_models_on_cuda_alone() -> None:
    """TEI 1.9.3 refuses Qwen2 on a processor and runs Qwen3 there."""
    assert not lists_model("tei", architecture="Qwen2Model", model_type="qwen2", on_gpu=False)
    assert lists_model("tei", architecture="Qwen2Model", model_type="qwen2")
    assert lists_model("tei", architecture="Qwen3Model", model_type="qwen3", on_gpu=False)


def test_normalize() -> None:
    """Names differ in case and separators between a checkpoint and transformers."""
    assert normalize("KimiK25ForConditionalGeneration") == normalize("Kimi_K25ForConditionalGeneration")
