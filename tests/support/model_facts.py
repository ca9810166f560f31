"""Facts about real models, for tests: exact counts, published totals, and the configurations that come with the app."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from llama import llama_config

from lib.model import bundled

PATH = Path(__file__).parents[1] / "data" / "model_facts.json"


@cache
def facts() -> dict[str, dict[str, Any]]:
    """One row a model, by id."""
    return {row["id"]: row for row in json.loads(PATH.read_text(encoding="utf-8"))["models"]}


def list_counted_ids() -> list[str]:
    """Ids with an exact parameter count."""
    return [name for name, row in facts().items() if row["parameters"] is not None]


@cache
def published_totals() -> dict[str, dict[str, Any]]:
    """Of every other bundled model: its count, the total that the Hub reports of its files (None: none was read), and what differs."""
    path = PATH.with_name("published_totals.json")
    return json.loads(path.read_text(encoding="utf-8"))["models"]  # type: ignore[no-any-return]


def config(name: str) -> dict[str, Any]:
    """The configuration of a bundled model."""
    found = bundled.find_config(name)
    assert found is not None, name
    return found


LLAMA: dict[str, Any] = llama_config(intermediate_size=160, num_hidden_layers=3, vocab_size=512)
"""A small model of the plainest kind."""
