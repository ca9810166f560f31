"""Schemas of the tools, from signatures and docstrings."""

from __future__ import annotations

import inspect

import jsonschema
import pytest
from contract import ARGUMENTS, ENGINES, REQUIRED

from lib.service.app import services
from lib.ui.http.api import endpoints, public_signature
from lib.ui.http.mcp import description, input_schema, output_schema

ASKED = {name: endpoint.question for name, endpoint in endpoints(services()).items()}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_both_schemas_are_schemas_and_every_argument_is_described(name: str) -> None:
    """The description ends before the list of arguments, whose words stand at the arguments."""
    question = ASKED[name]
    schema = input_schema(question)
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.Draft202012Validator.check_schema(output_schema(question))
    assert all(field["description"] for field in schema["properties"].values())
    assert "Args:" not in description(question)
    assert description(question).endswith(".")


def test_choices_are_listed() -> None:
    """An agent sees which engines there are."""
    schema = input_schema(ASKED["estimate_memory"])
    assert schema["properties"]["engine"]["enum"] == ENGINES
    assert schema["properties"]["context_tokens"] == {
        "type": "integer",
        "description": "tokens that each sequence's cache has seen (decoder tokens of an encoder-decoder)",
        "default": 4096,
        "minimum": 1,
        "maximum": 100_000_000,
    }


def test_the_arguments_of_the_questions_are_those_of_the_contract() -> None:
    """Order and defaults too; the caller's token is none of them."""
    for name, expected in ARGUMENTS.items():
        parameters = public_signature(ASKED[name]).parameters.values()
        defaults = {p.name: REQUIRED if p.default is inspect.Parameter.empty else p.default for p in parameters}
        assert list(defaults.items()) == list(expected.items())
