"""The table of endpoints: what may stand in it, and what its questions show of themselves."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from typing_extensions import TypedDict

from lib.errors import InvalidInput
from lib.live.device_queue import Occupied, turn
from lib.service.app import services
from lib.ui.http.api import Endpoint, check_names, endpoints, fill_defaults, public_signature
from lib.ui.http.mcp import input_schema, output_schema


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
    raise AssertionError(to)


def test_the_token_is_in_no_list() -> None:
    """Neither among the arguments, nor in the schema, nor in what a refusal names."""
    assert list(public_signature(act).parameters) == ["space_id", "hours"]
    assert fill_defaults(act, ["a/b"]) == ["a/b", 1]
    with pytest.raises(InvalidInput, match=r"no argument 'token'\. It takes space_id, hours\."):
        check_names(act, {"space_id": "a/b", "token": "hf_x"})


def test_the_answer_of_a_stream_is_one_of_its_pieces() -> None:
    """A tool's output schema describes what the caller gets at the end."""
    assert output_schema(stream)["properties"] == {"text": {"type": "string"}}


def test_an_endpoint_says_whether_it_takes_a_token() -> None:
    """A forgotten flag would leave the caller's token unread, or ask a question for a token that it does not take."""
    with pytest.raises(TypeError, match="go together"):
        Endpoint(question=act)
    for name, endpoint in endpoints(services()).items():
        assert endpoint.takes_token == (endpoint.account or "model" in public_signature(endpoint.question).parameters), name
    with pytest.raises(TypeError, match="go together"):
        Endpoint(question=stream, account=True, queue="device", streams=True)


def test_only_the_queue_streams() -> None:
    """Without it, Gradio gives the first piece and drops the rest."""
    with pytest.raises(TypeError, match="only the queue can stream"):
        Endpoint(question=stream, streams=True)


def test_every_endpoint_can_be_shown_as_a_tool() -> None:
    """Every public argument has its words, and none of them is the token."""
    for endpoint in endpoints(services()).values():
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
