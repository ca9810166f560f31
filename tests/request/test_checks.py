"""Arguments from outside: what is let through, and the sentence for what is not."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lib.errors import BadArgument
from lib.request import checks

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def run_check(check: Callable[..., Any], *arguments_of_check: Any) -> Any:
    """What the check lets through, or the sentence of its refusal."""
    try:
        return check(*arguments_of_check)
    except BadArgument as refusal:
        return str(refusal)


@given(json_values)
def test_whole_numbers_are_in_range_or_refused_by_name(value: Any) -> None:
    """Whatever arrives, a whole number in range comes out or a BadArgument that names the argument and the range."""
    outcome = run_check(checks.check_whole, "context_tokens", value, 1, 1000)
    if isinstance(outcome, str):
        assert "context_tokens" in outcome
        assert "1 to 1,000" in outcome
    else:
        assert type(outcome) is int
        assert 1 <= outcome <= 1000
        assert outcome == value


@given(json_values)
def test_numbers_are_finite_or_refused(value: Any) -> None:
    """Whatever arrives, a finite float in range comes out or a BadArgument."""
    outcome = run_check(checks.check_number, "x", value, 0, 24)
    if isinstance(outcome, str):
        assert "0 to 24" in outcome
    else:
        assert math.isfinite(outcome)
        assert 0 <= outcome <= 24


@given(json_values)
def test_choices_are_known_or_refused(value: Any) -> None:
    """Whatever arrives, a known choice comes out or a BadArgument that lists the choices."""
    outcome = run_check(checks.check_choice, "mode", value, ("inference", "lora"))
    assert outcome in {"inference", "lora"} or "inference, lora" in outcome


@pytest.mark.parametrize("value", [True, False, "4096", "", None, [], {}, [[[]]], math.nan, math.inf, -math.inf, 0.5, 0, -1, 10**400])
def test_what_is_not_a_whole_number(value: object) -> None:
    """True is not 1, text is not a number, NaN and infinity are none, and an integer of 400 digits is refused without being written out."""
    with pytest.raises(BadArgument) as refusal:
        checks.check_whole("context_tokens", value, 1, 100_000_000)
    assert len(str(refusal.value)) < 200


def test_a_float_that_is_whole_is_a_whole_number() -> None:
    """JSON does not tell 4096.0 from 4096."""
    assert checks.check_whole("context_tokens", 4096.0, 1, 10_000) == 4096


def test_a_decimal_is_read_as_written() -> None:
    """0.1 dollars are a tenth, not the nearest binary fraction."""
    assert checks.check_decimal("max_usd_per_month", 0.1, 0, 10) == Decimal("0.1")


def test_a_choice_forgives_case_and_blanks() -> None:
    """People write vLLM."""
    assert checks.check_choice("engine", " vLLM ", ("transformers", "vllm")) == "vllm"


def test_a_long_list_of_choices_names_the_nearest() -> None:
    """Of thirty formats the message names those that resemble what was written."""
    names = [f"gguf:Q{bits}_{kind}" for bits in range(2, 8) for kind in ("K_S", "K_M", "0", "1", "K")]
    with pytest.raises(BadArgument, match=r"one of 30 names, the nearest: gguf:Q4_K"):
        checks.check_choice("precision", "gguf:Q4KX", names)


def test_a_list_of_choices_keeps_the_order_and_drops_repeats() -> None:
    """Jobs, spaces, jobs: that means jobs, then spaces."""
    assert checks.check_choices("platforms", "jobs, spaces, jobs", ("spaces", "jobs", "tpu")) == ("jobs", "spaces")


@pytest.mark.parametrize("value", ["", " ", ",", "spaces,moon", 3, None, ["spaces"], "spaces," * 100])
def test_what_is_not_a_list_of_choices(value: object) -> None:
    """An empty list, an unknown member, another type, or a text without end."""
    with pytest.raises(BadArgument, match="spaces, jobs"):
        checks.check_choices("platforms", value, ("spaces", "jobs"))


@pytest.mark.parametrize("value", [0, 1, "true", None, []])
def test_only_true_and_false_are_flags(value: object) -> None:
    """JSON has true and false for this."""
    with pytest.raises(BadArgument, match="true or false"):
        checks.check_flag("include_retired", value)
