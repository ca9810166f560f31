"""From plain words to a bundled model."""

from __future__ import annotations

import pytest

from lib.model import plain_names
from lib.model.plain_names import find_id


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("qwen3 30b", "Qwen/Qwen3-30B-A3B"),
        ("qwen3:30b", "Qwen/Qwen3-30B-A3B"),
        ("llama3.1:8b", "meta-llama/Llama-3.1-8B-Instruct"),
        ("Llama-3.1-8B", "meta-llama/Llama-3.1-8B"),
        ("gpt oss 20b", "openai/gpt-oss-20b"),
        ("mistral 7b", "mistralai/Mistral-7B-Instruct-v0.3"),
        ("deepseek r1", "deepseek-ai/DeepSeek-R1"),
        ("sdxl", "stabilityai/stable-diffusion-xl-base-1.0"),
        ("llama", None),
        ("roberta-large", None),
        ("7b", None),
        ("x" * 10_000, None),
    ],
)
def test_words(written: str, meant: str | None) -> None:
    """A family with a version or a size means a model; a family alone, a size alone and names of other repositories mean none."""
    assert find_id(written) == meant


def test_a_name_with_many_formats_is_looked_up_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each ending may say a format in three ways; a look-up for every way of cutting all of them took seconds."""
    asked: list[str] = []
    monkeypatch.setattr(plain_names, "find_id", asked.append)
    assert plain_names.find_quantized("zq" + "-bnb-fp4" * 12) is None
    assert 0 < len(asked) <= 12
