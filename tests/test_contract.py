"""The public contract is kept: the record of `tests/support/contract.json` against the code."""

from __future__ import annotations

import copy

import pytest
from contract import CONTRACT, broken_promises, describe_contract


def test_the_contract_is_kept() -> None:
    """Names, order and defaults of arguments, and fields of answers; `python -m tests.support.contract --write` records additions."""
    assert broken_promises(CONTRACT, describe_contract()) == []


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (lambda one: one["arguments"].popitem(), f"recommend: argument {[*CONTRACT['recommend']['arguments'].items()][-1]} became None"),
        (lambda one: one["arguments"].update(task="chat"), "recommend: argument ('task', 'auto') became ('task', 'chat')"),
        (lambda one: one.update(required=2), "recommend: 1 arguments without a default became 2"),
        (lambda one: one["answer"].remove("ranked.memory"), "recommend: field ranked.memory is gone"),
    ],
)
def test_a_broken_promise_is_printed(change: object, line: str) -> None:
    """Whatever is dropped, moved or demanded."""
    now = copy.deepcopy(CONTRACT)
    change(now["recommend"])  # type: ignore[operator]
    assert line in broken_promises(CONTRACT, now)


def test_additions_behind_break_nothing() -> None:
    """An argument with a default at the end, and a field."""
    now = copy.deepcopy(CONTRACT)
    now["recommend"]["arguments"]["new"] = 0
    now["recommend"]["answer"].append("new")
    assert broken_promises(CONTRACT, now) == []
