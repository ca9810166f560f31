"""Methods of the services as functions for an outside interface: same signature, refusals passed on, failures kept inside."""

from __future__ import annotations

import functools
import inspect
import logging
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar, get_args, get_origin

from lib.errors import AdvisorError
from lib.ui.turns import turn

log = logging.getLogger(__name__)

FAILED = "Something failed on our side while answering; it has been logged. The question was understood, so asking it again may help."

Refuse = Callable[[str, str], Exception]
_Answer = TypeVar("_Answer", bound=Callable[..., Any])


class Refused(Exception):
    """A refusal on its way out of an interface of our own: the sentence, and its code."""

    def __init__(self, sentence: str, code: str) -> None:
        super().__init__(sentence)
        self.code = code


def answered(question: Callable[..., Mapping[str, Any]], refuse: Refuse, slot: str | None = None) -> Callable[..., Mapping[str, Any]]:
    """The question, asked when its slot is free (`lib.ui.turns`), with every exception turned into `refuse(sentence, code)`.

    What was refused says so in its own words. Anything else is a mistake of ours: it is logged here, and the caller gets a sentence
    without details, for they could hold a path, a token or someone else's input.
    """

    @functools.wraps(question)
    def answer(*args: object, **named: object) -> Mapping[str, Any]:
        with _refusing(question, refuse, named.get("token")), turn(slot):
            return question(*args, **named)

    return _typed(answer, question)


def streamed(
    question: Callable[..., Iterator[Mapping[str, Any]]], refuse: Refuse, slot: str | None = None
) -> Callable[..., Iterator[Mapping[str, Any]]]:
    """The same for a question that answers in pieces: who stops listening stops the question too.

    Its return annotation is the type of one piece, which is what Gradio reads of a generator.
    """

    @functools.wraps(question)
    def answer(*args: object, **named: object) -> Iterator[Mapping[str, Any]]:
        with _refusing(question, refuse, named.get("token")), turn(slot):
            yield from question(*args, **named)

    return _typed(answer, question)


def last(pieces: Callable[..., Iterator[Mapping[str, Any]]]) -> Callable[..., Mapping[str, Any]]:
    """The fullest answer of a stream, for an interface that takes one answer."""

    @functools.wraps(pieces)
    def answer(*args: object, **named: object) -> Mapping[str, Any]:
        newest = deque(pieces(*args, **named), maxlen=1)
        if not newest:
            raise ValueError(f"{pieces.__name__} answered nothing")
        return newest[0]

    return answer


def piece(returned: Any) -> Any:
    """The type of one piece of an answer that comes in pieces; any other type as it is."""
    origin = get_origin(returned)
    return get_args(returned)[0] if isinstance(origin, type) and issubclass(origin, Iterator) else returned


@contextmanager
def _refusing(question: Callable[..., object], refuse: Refuse, token: object) -> Iterator[None]:
    try:
        yield
    except AdvisorError as refusal:
        raise refuse(str(refusal), refusal.code) from None
    except Exception:  # noqa: BLE001  anything at all
        log.error("%s failed\n%s", question.__name__, _without(token, traceback.format_exc()))  # noqa: TRY400  the text is looked through
        raise refuse(FAILED, "internal") from None


def _without(token: object, text: str) -> str:
    """A library may name the header that it could not send; the caller's token stays out of the log all the same."""
    return text.replace(token, "(the caller's token)") if isinstance(token, str) and token else text


def _typed(answer: _Answer, question: Callable[..., Any]) -> _Answer:
    """Real types instead of text: Gradio reads the return type from the signature."""
    signature = inspect.signature(question, eval_str=True)
    signature = signature.replace(return_annotation=piece(signature.return_annotation))
    answer.__signature__ = signature  # type: ignore[attr-defined]
    answer.__annotations__ = {p.name: p.annotation for p in signature.parameters.values()} | {"return": signature.return_annotation}
    return answer
