"""Arguments of a call that came as names or as a list, matched to the question's signature before anything else sees them."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lib.errors import InvalidInput, shown

Question = Callable[..., Any]


def public(question: Question, *, types: bool = False) -> inspect.Signature:
    """The signature that callers see: without what is keyword-only, which the interface fills in (the caller's token).

    With `types`, annotations are types instead of text; that takes 0.1 ms.
    """
    whole = inspect.signature(question, eval_str=types)
    return whole.replace(parameters=[p for p in whole.parameters.values() if p.kind is not inspect.Parameter.KEYWORD_ONLY])


def _missing(name: str, question: Question) -> InvalidInput:
    return InvalidInput(f"{name} is missing. {question.__name__} takes {', '.join(public(question).parameters)}.")


def check_names(question: Question, arguments: Mapping[str, object]) -> None:
    """Refuse unknown names and missing required ones.

    Raises:
        InvalidInput: names the argument, and the ones that exist.
    """
    known = public(question).parameters
    for name in arguments:
        if name not in known:
            near = difflib.get_close_matches(str(name)[:100], known, n=1)
            hint = f" Did you mean {near[0]}?" if near else ""
            raise InvalidInput(f"{question.__name__} has no argument {shown(name)}.{hint} It takes {', '.join(known)}.")
    for name, parameter in known.items():
        if parameter.default is inspect.Parameter.empty and name not in arguments:
            raise _missing(name, question)


def filled(question: Question, values: Sequence[object]) -> list[object]:
    """The values in order, with the defaults of those that were left out at the end.

    Raises:
        InvalidInput: too many values, or one without a default is left out.
    """
    known = public(question).parameters
    if len(values) > len(known):
        raise InvalidInput(f"{len(values)} values came. {question.__name__} takes at most {len(known)}: {', '.join(known)}.")
    rest = list(known.values())[len(values) :]
    for parameter in rest:
        if parameter.default is inspect.Parameter.empty:
            raise _missing(parameter.name, question)
    return [*values, *(parameter.default for parameter in rest)]
