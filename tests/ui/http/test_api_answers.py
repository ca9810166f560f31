"""Questions as functions for an outside interface: refusals pass on, failures stay inside."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Generator, Iterator
from typing import cast

import pytest

from lib.errors import UnknownModel
from lib.ui.http.api import FAILED, last_piece, piece_type, wrap_question, wrap_stream


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
