"""The table of endpoints, what its questions show of themselves and take, and questions as functions for an outside interface."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Generator, Iterator
from typing import cast

import pytest
from typing_extensions import TypedDict

from lib.errors import InvalidInput, UnknownModel
from lib.live.device_queue import Occupied, turn
from lib.service.app import services
from lib.service.endpoint import Endpoint
from lib.ui.http.api import (
    FAILED,
    check_names,
    fill_defaults,
    last_piece,
    output_schema,
    piece_type,
    public_signature,
    wrap_question,
    wrap_stream,
)
from lib.ui.http.mcp import input_schema


class Piece(TypedDict):
    """One answer."""

    text: str


def act(space_id: str, hours: int = 1, *, token: str | None = None) -> Piece:
    """Act.

    Args:
        space_id: which
        hours: how many
        token: the caller's own
    """
    raise AssertionError((space_id, hours, token))


def stream(to: int) -> Iterator[Piece]:
    """Stream.

    Args:
        to: how far
    """
    yield {"text": str(to)}


def test_the_token_is_in_no_list() -> None:
    """Neither among the arguments, nor in the schema, nor in what a refusal names."""
    assert list(public_signature(act).parameters) == ["space_id", "hours"]
    assert fill_defaults(act, ["a/b"]) == ["a/b", 1]
    with pytest.raises(InvalidInput, match=r"no argument 'token'\. It takes space_id, hours\."):
        check_names(act, {"space_id": "a/b", "token": "hf_x"})


def test_the_answer_of_a_stream_is_one_of_its_pieces() -> None:
    """A tool's output schema describes what the caller gets at the end."""
    assert output_schema(stream)["properties"] == {"text": {"type": "string"}}


def test_an_endpoint_takes_a_token_to_read_a_model_or_to_act() -> None:
    """A keyword-only `token` of the function, or the one that every question about a model takes."""
    for name, endpoint in services().endpoints().items():
        assert endpoint.takes_token == (endpoint.account or "model" in public_signature(endpoint.question).parameters), name


def test_only_the_queue_streams() -> None:
    """Without it, Gradio gives the first piece and drops the rest."""
    with pytest.raises(TypeError, match="only the queue can stream"):
        Endpoint(question=stream)


def test_every_endpoint_can_be_shown_as_a_tool() -> None:
    """Every public argument has its words, and none of them is the token."""
    for endpoint in services().endpoints().values():
        schema = input_schema(endpoint.question)
        assert "token" not in schema["properties"]
        assert output_schema(endpoint.question)["type"] == "object"


def test_a_slot_is_held_by_one_and_given_back() -> None:
    """Who waits too long is told so; after the block the slot is free, also when the block failed."""
    with turn("one"):
        with pytest.raises(Occupied, match="did not get its turn"), turn("one", wait_s=0.01):
            raise AssertionError
        with turn("another", wait_s=0.01), turn(None):
            pass
    with pytest.raises(KeyError), turn("one", wait_s=0.01):
        raise KeyError
    with turn("one", wait_s=0.01):
        pass


class Refusal(Exception):
    """What the interface raises."""


def ask(model: str, devices: int = 1) -> dict[str, int]:
    """A question that refuses, fails or answers."""
    if model == "unknown":
        raise UnknownModel("Nobody knows it. Accepted: 7B.")
    if model == "bug":
        raise KeyError("/secret/path")
    return {"devices": devices}


def test_an_answer_passes_through() -> None:
    """Positional and named arguments as in the question."""
    assert wrap_question(ask, Refusal)("7B", devices=2) == {"devices": 2}


def test_a_refusal_keeps_its_sentence_and_code() -> None:
    """The interface's own exception carries both."""
    with pytest.raises(Refusal) as refusal:
        wrap_question(ask, Refusal)("unknown")
    assert refusal.value.args == ("Nobody knows it. Accepted: 7B.", "unknown_model")


def test_a_failure_is_logged_and_its_details_stay_inside(caplog: pytest.LogCaptureFixture) -> None:
    """The log has the traceback, the caller a sentence."""
    with caplog.at_level(logging.ERROR), pytest.raises(Refusal) as refusal:
        wrap_question(ask, Refusal)("bug")
    assert refusal.value.args == (FAILED, "internal")
    assert "/secret/path" in caplog.text


def test_types_are_real_types_although_annotations_are_text() -> None:
    """Gradio derives the schema of the answer from the return annotation."""
    signature = inspect.signature(wrap_question(ask, Refusal))
    assert signature.parameters["devices"].annotation is int
    assert signature.return_annotation == dict[str, int]


def test_a_stream_hands_on_its_closing_and_its_refusals() -> None:
    """Who closes the outer generator closes the question's; a refusal in the middle is the interface's own."""
    ended: list[str] = []

    def pieces(to: int) -> Iterator[dict[str, int]]:
        try:
            for n in range(to):
                yield {"n": n}
            raise UnknownModel("Nobody knows it. Accepted: 7B.")
        finally:
            ended.append("closed")

    stream = wrap_stream(pieces, Refusal)(3)
    assert next(stream) == {"n": 0}
    cast("Generator[object]", stream).close()
    assert ended == ["closed"]
    with pytest.raises(Refusal, match="Nobody knows it"):
        last_piece(wrap_stream(pieces, Refusal))(3)


def test_one_piece_is_what_a_stream_is_annotated_with() -> None:
    """Gradio reads the type of a piece from the return annotation of a generator."""
    assert piece_type(Iterator[dict[str, int]]) == dict[str, int]
    assert piece_type(Generator[int, None, None]) is int
    assert piece_type(dict[str, int]) == dict[str, int]


def choose(model: str, precision: str = "auto", devices: int = 1) -> dict[str, int]:
    """A question with one argument that has no default."""
    raise AssertionError((model, precision, devices))


def test_values_left_out_at_the_end_get_their_defaults() -> None:
    """One of three values came."""
    assert fill_defaults(choose, ["7B"]) == ["7B", "auto", 1]


def test_too_many_values_are_refused() -> None:
    """Four came, three are taken."""
    with pytest.raises(InvalidInput, match=r"4 values came\. choose takes at most 3: model, precision, devices"):
        fill_defaults(choose, [1, 2, 3, 4])


def test_a_missing_value_without_default_is_named() -> None:
    """The model has no default."""
    with pytest.raises(InvalidInput, match="model is missing"):
        fill_defaults(choose, [])
    with pytest.raises(InvalidInput, match="model is missing"):
        check_names(choose, {"devices": 2})


def test_an_unknown_name_is_refused_with_the_nearest() -> None:
    """A slip of the pen is recognised."""
    with pytest.raises(InvalidInput, match=r"no argument 'precison'\. Did you mean precision"):
        check_names(choose, {"model": "7B", "precison": "int8"})
