"""The answer of `what-runs` for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lib.cli.act import note_lines, table
from lib.present.cards import speed_figure
from lib.present.numbers import gib, whole
from lib.present.sentences import sentence
from lib.present.what_runs_cards import finding

if TYPE_CHECKING:
    from lib.answers.what_runs import WhatRunsAnswer

_RUNS = ("model", "precision", "engine", "verdict", "per device", "longest context", "speed")


def what_runs_text(answer: WhatRunsAnswer) -> str:
    """The finding, the models that run, and the nearest misses."""
    rows = [
        (
            one.model,
            one.precision,
            one.engine,
            one.verdict,
            gib(one.memory.per_device_bytes),
            whole(one.longest_context),
            pace[1] if (pace := speed_figure(one.speed)) else "-",
        )
        for one in answer.models
    ]
    lines = [finding(answer), *(table(_RUNS, rows, right=3) if rows else [])]
    left = answer.models_total - len(rows)
    lines += [f"{left} more run (--limit)."] if left else []
    for one in answer.misses:
        instead = f"; runs on {one.would_name}" if one.would_name else ""
        lines.append(f"Misses: {one.model}: {sentence(one.reasons[0])}{instead}")
    return "\n".join([*lines, *note_lines(answer.caveats)])
