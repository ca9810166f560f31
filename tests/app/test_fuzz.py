"""Seeded nonsense, a few hundred cases of what `tests/benchmarks/bench_fuzz.py` sends by the thousand."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest
from contract import ARGUMENTS
from fuzz_runs import SERVED, bad_lines, configs, in_process, questions_of, serve_app, services_behind_stand_in
from fuzzing import choices_of


def test_every_endpoint_of_the_contract_is_asked_nonsense() -> None:
    """With values that it accepts for each argument without a default: else nothing behind its checks is reached."""
    with services_behind_stand_in() as services:
        questions = questions_of(services)
    assert ARGUMENTS.keys() <= questions.keys()
    for name, arguments in ARGUMENTS.items():
        assert inspect.signature(questions[name]).parameters.keys() >= arguments.keys()
    required = {p.name: p for q in questions.values() for p in inspect.signature(q).parameters.values() if p.default is p.empty}
    numbers = {"confirm_usd_per_hour", "seconds", "token"}
    assert {name for name, parameter in required.items() if not choices_of(name, parameter)} <= numbers


@pytest.mark.slow
def test_nonsense_in_process_is_answered_or_refused_in_a_sentence() -> None:
    """Arguments of every question, and configurations near the bundled ones."""
    assert in_process(500, seed=11).faults == []
    assert configs(20, seed=11).faults == []


@pytest.mark.slow
def test_nonsense_over_http_ends_in_no_bare_500_no_echo_and_no_broken_connection(tmp_path: Path) -> None:
    """By name, by the number of an event, and over MCP; the log stays clean too."""
    log = tmp_path / "log"
    with serve_app(log) as url:
        faults = [fault for run in SERVED.values() for fault in run(url, 200, 11).faults]
    assert faults == []
    assert bad_lines(log) == []
