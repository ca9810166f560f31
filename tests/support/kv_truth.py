"""Measured caches, for tests: what `transformers` itself held after real forward passes."""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from lib.model.build import BuiltModel, build
from lib.model.cache_executed import run_cache
from lib.model.spec import CacheTerm

PATH = Path(__file__).parents[1] / "data" / "kv_truth.json.gz"


class Measured(NamedTuple):
    """One run: a prefill, and the same cache after three more steps."""

    dtype: str
    batch: int
    prefill_tokens: int
    prefill_bytes: int
    tokens: int
    bytes: int
    encoder_tokens: int

    @property
    def element_bytes(self) -> int:
        """Bytes of one element of the model's dtype."""
        return {"float32": 4, "bfloat16": 2}[self.dtype]


@cache
def _document() -> dict[str, Any]:
    document: dict[str, Any] = json.loads(gzip.decompress(PATH.read_bytes()))
    return document


def cases() -> dict[str, dict[str, Any]]:
    """Shrunken models by id: `config` and `measured`."""
    return {case["id"]: case for case in _document()["cases"]}


def read_runs(case: str) -> list[Measured]:
    """The runs of one shrunken model."""
    return [Measured(*row) for row in cases()[case]["measured"]]


def full_size() -> dict[str, list[tuple[int, int, int]]]:
    """Published models by id: tokens, encoder tokens and bytes, bfloat16, one sequence."""
    return {row["id"]: [tuple(held) for held in row["held"]] for row in _document()["full_size"]}


@cache
def build_case(case: str) -> BuiltModel:
    """A shrunken model on the meta device."""
    return build(cases()[case]["config"])


@cache
def execute_cache(case: str) -> tuple[CacheTerm, ...]:
    """Its cache as executed."""
    terms = run_cache(build_case(case))
    assert terms is not None, case
    return terms
