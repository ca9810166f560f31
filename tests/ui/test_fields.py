"""The fields of the tabs."""

from __future__ import annotations

from lib.ui import fields as ask


def test_every_field_has_a_name_of_its_own() -> None:
    """One address holds the fields of all tabs."""
    assert len(ask.FIELDS_BY_NAME) == len(ask.ALL_FIELDS)


def test_a_refused_argument_is_called_as_on_the_page() -> None:
    """No name of an argument reaches a visitor; what is no argument stays."""
    assert "Requests a day was" in ask.format_error(ValueError("requests_per_day was '-5'. Accepted: 0."), "No bill.")
    assert "The Hub was" in ask.format_error(ValueError("The Hub was not reached."), "No bill.")
