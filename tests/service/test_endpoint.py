"""The callable that is derived from an endpoint's function and the model of its arguments; what a caller meant by `model`."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Any

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lib.catalog import load
from lib.errors import BadArgument, NotSignedIn, UnknownModel
from lib.model.bundled import find_spec
from lib.request.fields import Arguments, whole_number
from lib.request.types import own_token
from lib.service.endpoint import App, bind_arguments
from lib.service.models import Models
from lib.service.reference import may_be_sold, read_reference

APP = App(catalog=load, models=Models())
OWN = "hf_a"
Count = Annotated[int, whole_number(1, 9)]


class Shared(Arguments):
    """What two endpoints share."""

    times: Count = 2
    """How often."""


class Own(Shared):
    """What one of them adds."""

    word: Annotated[int, whole_number(0, 9)] = 0
    """A digit."""
    count: Count
    """How many."""


def add(app: App, arguments: Own) -> int:
    """Add.

    Returns:
        The sum.
    """
    assert app is APP
    return arguments.count + arguments.word + arguments.times


def act(app: App, arguments: Shared, *, token: Annotated[str, own_token("add")]) -> str:
    """Act."""
    assert app is APP
    return token * arguments.times


def stream(app: App, arguments: Shared) -> Iterator[int]:
    """Stream."""
    assert app is APP
    yield from range(arguments.times)


def test_arguments_are_parameters_in_the_order_of_the_contract() -> None:
    """Those without a default first, then as they are written; types and defaults as callers are shown them."""
    assert str(inspect.signature(bind_arguments(add, APP))) == "(count: int, times: int = 2, word: int = 0) -> int"
    assert bind_arguments(add, APP)(1) == 3
    assert bind_arguments(add, APP)(1, 5, word=9) == 15


def test_the_docstring_lists_the_arguments() -> None:
    """Gradio and MCP read the words there."""
    listed = "Args:\n    count: How many.\n    times: How often.\n    word: A digit.\n\nReturns:\n    The sum."
    assert bind_arguments(add, APP).__doc__ == f"Add.\n\n{listed}"


def test_the_first_argument_that_is_wrong_is_named() -> None:
    """The sentence is our own, whatever pydantic would say."""
    with pytest.raises(BadArgument, match=r"^times was '0'\. Accepted: a whole number from 1 to 9\.$"):
        bind_arguments(add, APP)(1, times=0)


def test_defaults_are_checked_like_anything_sent() -> None:
    """A default out of range would be found by the first call."""

    class Wrong(Arguments):
        count: Count = 0
        """None."""

    with pytest.raises(BadArgument, match=r"^count was '0'"):
        Wrong()


@pytest.mark.parametrize(("sent", "named"), [(((), {}), "count"), (((1,), {"more": 1}), "more")])
def test_what_is_missing_or_unknown_is_a_mistake_of_the_program(sent: Any, named: str) -> None:
    """As for any function; interfaces check names before (`lib.ui.http.api`)."""
    with pytest.raises(TypeError, match=named):
        bind_arguments(add, APP)(*sent[0], **sent[1])


def test_the_token_is_asked_for_before_anything_is_checked() -> None:
    """It is keyword-only, and whoever sends none learns that first."""
    acting = bind_arguments(act, APP)
    parameter = inspect.signature(acting).parameters["token"]
    assert (parameter.kind, parameter.default) == (inspect.Parameter.KEYWORD_ONLY, None)
    with pytest.raises(NotSignedIn, match=r"^To add, your own"):
        acting(times=0)
    with pytest.raises(BadArgument):
        acting(times=0, token=OWN)
    assert acting(token=OWN) == OWN * 2


def test_a_stream_stays_a_generator() -> None:
    """Nothing is checked or done before its first item is asked for."""
    streaming = bind_arguments(stream, APP)
    assert inspect.isgeneratorfunction(streaming)
    assert list(streaming(3)) == [0, 1, 2]
    with pytest.raises(BadArgument):
        next(streaming(0))


def test_arguments_do_not_change() -> None:
    """Frozen: what was checked is what is answered."""
    with pytest.raises(pydantic.ValidationError, match="frozen"):
        Shared().times = 3  # type: ignore[misc]


def test_the_model_gives_the_same_json_schema_as_the_signature() -> None:
    """Types, words and defaults have one home."""
    properties = Own.json_schema()["properties"]
    assert {name: (field["type"], field["description"], field.get("default")) for name, field in properties.items()} == {
        "times": ("integer", "How often.", 2),
        "word": ("integer", "A digit.", 0),
        "count": ("integer", "How many.", None),
    }


@pytest.mark.parametrize(
    ("text", "kind", "meant"),
    [
        ("meta-llama/Llama-3.1-8B-Instruct", "id", "meta-llama/Llama-3.1-8B-Instruct"),
        (" gpt2 ", "id", "openai-community/gpt2"),
        ("qwen3:30b", "id", "Qwen/Qwen3-30B-A3B"),
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


def test_providers_are_asked_about_models_of_the_hub_alone() -> None:
    """Not about a pasted config.json or a count of parameters, nor about a GGUF file: what a provider sells is the model of the id."""
    name = "meta-llama/Llama-3.1-8B-Instruct"
    spec = find_spec(name)
    assert spec is not None
    assert may_be_sold(f" {name} ", spec)
    assert not may_be_sold('{"model_type": "llama"}', spec)
    assert not may_be_sold("8B", spec)
    assert not may_be_sold(name, replace(spec, library="gguf"))
