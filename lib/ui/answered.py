"""Methods of the services as functions for an outside interface: same signature, refusals passed on, failures kept inside."""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import Callable, Mapping
from typing import Any

from lib.errors import AdvisorError

log = logging.getLogger(__name__)

FAILED = "Something failed on our side while answering; it has been logged. The question was understood, so asking it again may help."

Refuse = Callable[[str, str], Exception]


class Refused(Exception):
    """A refusal on its way out of an interface of our own: the sentence, and its code."""

    def __init__(self, sentence: str, code: str) -> None:
        super().__init__(sentence)
        self.code = code


def answered(question: Callable[..., Mapping[str, Any]], refuse: Refuse) -> Callable[..., Mapping[str, Any]]:
    """The question, with every exception turned into `refuse(sentence, code)`.

    What was refused says so in its own words. Anything else is a mistake of ours: it is logged here, and the caller gets a sentence
    without details, for they could hold a path, a token or someone else's input.
    """

    @functools.wraps(question)
    def answer(*args: object, **named: object) -> Mapping[str, Any]:
        try:
            return question(*args, **named)
        except AdvisorError as refusal:
            raise refuse(str(refusal), refusal.code) from None
        except Exception:
            log.exception("%s failed", question.__name__)
            raise refuse(FAILED, "internal") from None

    signature = inspect.signature(question, eval_str=True)
    answer.__signature__ = signature  # type: ignore[attr-defined]  # real types, not text: Gradio reads the return type from here
    answer.__annotations__ = {p.name: p.annotation for p in signature.parameters.values()} | {"return": signature.return_annotation}
    return answer
