"""From a question's signature and docstring to JSON schemas: what goes in, what comes out, and the words for both."""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter

from lib.ui.answered import piece
from lib.ui.calls import public

if TYPE_CHECKING:
    from lib.ui.calls import Question

_ARGUMENT = re.compile(r"^ {4}(?P<name>\w+): (?P<text>.+)$", re.MULTILINE)


def _docstring(question: Question) -> str:
    return inspect.getdoc(question) or ""


def description(question: Question) -> str:
    """The docstring down to its list of arguments."""
    return _docstring(question).split("\nArgs:", 1)[0].strip()


def input_schema(question: Question) -> dict[str, Any]:
    """The arguments as a JSON schema, with their words from the docstring's `Args:`."""
    words = {match["name"]: match["text"] for match in _ARGUMENT.finditer(_docstring(question).partition("\nArgs:\n")[2])}
    signature = public(question, types=True)
    properties: dict[str, Any] = {}
    for name, parameter in signature.parameters.items():
        properties[name] = TypeAdapter(parameter.annotation).json_schema() | {"description": words[name]}
        if parameter.default is not inspect.Parameter.empty:
            properties[name]["default"] = parameter.default
    required = [name for name, parameter in signature.parameters.items() if parameter.default is inspect.Parameter.empty]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def output_schema(question: Question) -> dict[str, Any]:
    """The answer as a JSON schema; of a stream, any one of its items."""
    return TypeAdapter(piece(public(question, types=True).return_annotation)).json_schema()
