"""The callable that is derived from an endpoint's function and the model of its arguments."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Annotated, Any

import pydantic
import pytest

from lib.catalog import load
from lib.errors import BadArgument, NotSignedIn
from lib.service.arguments import Arguments, argument, own_token, whole_number
from lib.service.endpoint import App, bind_arguments
from lib.service.models import Models

APP = App(catalog=load, models=Models())
OWN = "hf_a"
Count = Annotated[int, whole_number(1, 9)]


class Shared(Arguments):
    """What two endpoints share."""

    times: Count = argument(2, "how often")


class Own(Shared):
    """What one of them adds."""

    word: Annotated[int, whole_number(0, 9)] = argument(0, "a digit")
    count: Count = argument(..., "how many")


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
    """Those without a default first, then the endpoint's own, then the shared ones; types and defaults as callers are shown them."""
    assert str(inspect.signature(bind_arguments(add, APP))) == "(count: int, word: int = 0, times: int = 2) -> int"
    assert bind_arguments(add, APP)(1) == 3
    assert bind_arguments(add, APP)(1, 5, times=9) == 15


def test_the_docstring_lists_the_arguments() -> None:
    """Gradio and MCP read the words there."""
    listed = "Args:\n    count: how many\n    word: a digit\n    times: how often\n\nReturns:\n    The sum."
    assert bind_arguments(add, APP).__doc__ == f"Add.\n\n{listed}"


def test_the_first_argument_that_is_wrong_is_named() -> None:
    """The sentence is our own, whatever pydantic would say."""
    with pytest.raises(BadArgument, match=r"^times was '0'\. Accepted: a whole number from 1 to 9\.$"):
        bind_arguments(add, APP)(1, times=0)


def test_defaults_are_checked_like_anything_sent() -> None:
    """A default out of range would be found by the first call."""

    class Wrong(Arguments):
        count: Count = argument(0, "none")

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
    properties = Own.model_json_schema()["properties"]
    assert {name: (field["type"], field["description"], field.get("default")) for name, field in properties.items()} == {
        "times": ("integer", "how often", 2),
        "word": ("integer", "a digit", 0),
        "count": ("integer", "how many", None),
    }
