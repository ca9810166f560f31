"""Names and lists of arguments against a question's signature."""

from __future__ import annotations

import pytest

from lib.errors import InvalidInput
from lib.ui.http.api import check_names, fill_defaults


def ask(model: str, precision: str = "auto", devices: int = 1) -> dict[str, int]:
    """A question with one argument that has no default."""
    raise AssertionError((model, precision, devices))


def test_values_left_out_at_the_end_get_their_defaults() -> None:
    """One of three values came."""
    assert fill_defaults(ask, ["7B"]) == ["7B", "auto", 1]


def test_too_many_values_are_refused() -> None:
    """Four came, three are taken."""
    with pytest.raises(InvalidInput, match=r"4 values came\. ask takes at most 3: model, precision, devices"):
        fill_defaults(ask, [1, 2, 3, 4])


def test_a_missing_value_without_default_is_named() -> None:
    """The model has no default."""
    with pytest.raises(InvalidInput, match="model is missing"):
        fill_defaults(ask, [])
    with pytest.raises(InvalidInput, match="model is missing"):
        check_names(ask, {"devices": 2})


def test_an_unknown_name_is_refused_with_the_nearest() -> None:
    """A slip of the pen is recognised."""
    with pytest.raises(InvalidInput, match=r"no argument 'precison'\. Did you mean precision"):
        check_names(ask, {"model": "7B", "precison": "int8"})
