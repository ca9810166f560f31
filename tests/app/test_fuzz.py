"""Seeded nonsense, a few hundred cases of what `tests/benchmarks/bench_fuzz.py` sends by the thousand."""

from __future__ import annotations

from pathlib import Path

import pytest
from fuzz_runs import SERVED, bad_lines, configs, in_process, served


def test_nonsense_in_process_is_answered_or_refused_in_a_sentence() -> None:
    """Arguments of every question, and configurations near the bundled ones."""
    assert in_process(1_000, seed=11).faults == []
    assert configs(20, seed=11).faults == []


@pytest.mark.slow
def test_nonsense_over_http_ends_in_no_bare_500_no_echo_and_no_broken_connection(tmp_path: Path) -> None:
    """By name, by the number of an event, and over MCP; the log stays clean too."""
    log = tmp_path / "log"
    with served(log) as url:
        faults = [fault for run in SERVED.values() for fault in run(url, 200, 11).faults]
    assert faults == []
    assert bad_lines(log) == []
