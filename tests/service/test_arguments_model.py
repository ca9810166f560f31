"""What a caller meant by `model`."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lib.errors import BadArgument, UnknownModel
from lib.service.references import read_reference


@pytest.mark.parametrize(
    ("text", "kind", "meant"),
    [
        ("meta-llama/Llama-3.1-8B-Instruct", "id", "meta-llama/Llama-3.1-8B-Instruct"),
        (" gpt2 ", "id", "gpt2"),
        ("https://huggingface.co/Qwen/Qwen3-8B/tree/main", "id", "Qwen/Qwen3-8B"),
        ("7B", "count", "7B"),
        ("1.5 billion", "count", "1.5 billion"),
        ("350m", "count", "350m"),
        ("7e9", "count", "7e9"),
        ("-7B", "count", "-7B"),
        ("01-ai/Yi-6B", "id", "01-ai/Yi-6B"),
        ("7B-chat", "id", "7B-chat"),
        ("\n{}", "config", "{}"),
        ("[1]", "config", "[1]"),
    ],
)
def test_the_three_kinds_are_told_apart_by_form(text: str, kind: str, meant: str) -> None:
    """JSON begins with a bracket, a count is a number with a letter, the rest is an id or the address of a model's page."""
    reference = read_reference(text)
    assert (reference.kind, reference.text) == (kind, meant)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " \n",
        "a b",
        "../x",
        "a/../b",
        "a/b/c",
        "https://evil.example/a/b",
        "x" * 5000,
        "\0",
        "a/b?c",
        "ü/b",
        "http://[::1",
        "http://a\u2100b.com/x",
    ],
)
def test_what_is_none_of_them(text: str) -> None:
    """The sentence says what is accepted."""
    with pytest.raises(UnknownModel, match="Accepted: a Hub id"):
        read_reference(text)


def test_a_token_in_the_wrong_field_is_neither_sent_nor_repeated() -> None:
    """As an id it would stand in an address of the Hub and in the refusal."""
    with pytest.raises(UnknownModel, match="looks like a token") as refused:
        read_reference(" hf_abcdefghij ")
    assert "abcdef" not in str(refused.value)
    assert read_reference("hf_internal/tiny").kind == "id"


@given(st.text())
def test_any_text_is_told_apart_or_refused(text: str) -> None:
    """No text raises anything else."""
    try:
        assert read_reference(text).text == read_reference(text).text.strip()
    except UnknownModel as refusal:
        assert len(str(refusal)) < 400  # noqa: PT017 - both outcomes are right


@pytest.mark.parametrize("value", [None, 7, True, [], {}, 1.5])
def test_a_model_is_text(value: object) -> None:
    """The sentence says so."""
    with pytest.raises(BadArgument, match="as text"):
        read_reference(value)
