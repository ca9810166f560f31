"""Parameter counts as the only thing known."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lib.errors import UnknownModel
from lib.model.parameter_count import LARGEST, parse_count, resolve_count


@pytest.mark.parametrize(
    ("text", "parameters"),
    [
        ("7B", 7 * 10**9),
        ("1.5b", 15 * 10**8),
        ("350M", 35 * 10**7),
        (" 70 billion ", 7 * 10**10),
        ("7,000,000,000", 7 * 10**9),
        ("1e9", 10**9),
        ("100T", LARGEST),
        ("22k params", 22_000),
    ],
)
def test_counts_are_read(text: str, parameters: int) -> None:
    """Units in both cases and words, decimals, separators."""
    assert parse_count(text) == parameters


@pytest.mark.parametrize("text", ["", "0", "0B", "-7B", "B", "7 bananas", "7BB", "101T", "1e99", "1" * 99, "nan", "1.2.3B", "7B 7B"])
def test_other_texts_are_refused(text: str) -> None:
    """Zero, negative, absurd and unreadable counts name what is accepted."""
    with pytest.raises(UnknownModel, match="Accepted: a parameter count"):
        parse_count(text)


@given(st.text(max_size=80))
def test_any_text_is_read_or_refused(text: str) -> None:
    """No text raises anything but the refusal."""
    with contextlib.suppress(UnknownModel):
        assert 1_000 <= parse_count(text) <= LARGEST


def test_a_7b_has_the_proportions_of_its_size() -> None:
    """Width (7e9 · 128 / 12)^(1/3) = 4211, rounded to 33 · 128 = 4224; 33 layers; 8 heads of 128, keys and values: 2048 elements."""
    spec = resolve_count("7B")
    assert (spec.dimensions.hidden_size, spec.dimensions.layers) == (4224, 33)
    assert spec.cache_terms is not None
    assert (spec.cache_terms[0].elements, spec.cache_terms[0].layers) == (2048, 33)
    assert [c.code for c in spec.caveats] == ["typical_model"]
    assert (spec.source, spec.parameters_total, spec.tensors) == ("rule_of_thumb", 7 * 10**9, ())
