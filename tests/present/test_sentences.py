"""Reasons as sentences."""

from __future__ import annotations

import ast
import re
from decimal import Decimal
from pathlib import Path

import pytest

import lib.advisor
from lib.advisor import Reason
from lib.present.sentences import SENTENCES, sentence, shown

ADVISOR = Path(lib.advisor.__file__).parent


def codes_in_the_advisor() -> set[str]:
    """Every code that the advisor's source gives to a `Reason` as a literal."""
    calls = (
        node
        for path in ADVISOR.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
    )
    named = (call for call in calls if isinstance(call.func, ast.Name) and call.func.id == "Reason" and call.args)
    return {
        part.value
        for call in named
        for part in ast.walk(call.args[0])
        if isinstance(part, ast.Constant) and isinstance(part.value, str) and re.fullmatch(r"[a-z][a-z0-9_]+[a-z0-9]", part.value)
    }


def test_every_code_has_a_sentence() -> None:
    """Codes written in the advisor's source are worded, and at least thirty are found (the search itself works)."""
    worded = {code.split(":")[0] for code in SENTENCES}
    found = codes_in_the_advisor()
    assert len(found) >= 30
    assert found <= worded


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("needed_bytes", 16 * 2**30, "16.0 GiB"),
        ("tokens_per_s", 18.68, "19 tokens/s"),
        ("usd_per_month", Decimal(576), "$576"),
        ("credit_usd", Decimal("0.1"), "$0.10"),
        ("request_quota_s", 7.04, "7.0 s"),
        ("seconds", 0.012, "12 ms"),
        ("quota_s", 2400, "2,400 s"),
        ("requests_per_day", 100_000, "100,000"),
        ("account", "pro", "PRO"),
        ("hours", Decimal("24.0"), "24"),
    ],
)
def test_values_by_the_unit_in_their_name(name: str, value: str | float | Decimal, text: str) -> None:
    """The end of a name says the unit, and with it the form."""
    assert shown(name, value) == text


def test_a_sentence_with_its_numbers() -> None:
    """The price of l4x1 around the clock, in words."""
    values = {"usd_per_hour": Decimal("0.80"), "usd_per_month": Decimal("576.0"), "hours": Decimal(24), "days": 30}
    assert sentence(Reason("price", values)) == "$0.80 an hour, $576 a month (30 days of 24 hours)."


def test_an_unknown_code_is_an_error() -> None:
    """No code passes without a wording."""
    with pytest.raises(KeyError):
        sentence(Reason("no_such_code"))


def test_one_reason_for_what_is_free_and_for_gradio() -> None:
    """Free hardware that takes Gradio Spaces only says both at once."""
    assert sentence(Reason("free", {"gradio_only": True})) == "Free of charge; Gradio Spaces only."
    assert sentence(Reason("free", {"gradio_only": False})) == "Free of charge."
