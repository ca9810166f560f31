"""Ask the law about training steps that this project measured, and print its errors by objective and by phase.

    python -m scripts.check_own_training              medians by objective and phase
    python -m scripts.check_own_training --all        every run with its errors
    python -m scripts.check_own_training --record     also write the errors into docs/accuracy.json

The runs are `tests/data/measured_training.json`, written by `scripts/measure_training.py`. Memory is compared with the bytes of tensors at
the peak of each phase, and with what the allocator had reserved. Seconds of a step are compared for all runs, those of phases for GRPO.
The constants of the law are fitted by `scripts/check_training.py`, on these runs among others; it prints the errors with a model left out.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from lib.units import GIB
from scripts.accuracy import record, summarize_errors
from scripts.own_points import MEASURED, OwnRun, measured_seconds, own_runs, predict

TOO_LOW = 0.9


class Judged(NamedTuple):
    """A run, and predicted / measured of its memory and its seconds by phase; the reserved bytes at most / reserved."""

    run: OwnRun
    memory: dict[str, float]
    seconds: dict[str, float]
    high: float


def judge(runs: Sequence[OwnRun]) -> tuple[list[Judged], list[tuple[OwnRun, str]]]:
    """Every run that the law answers, and those that it refuses with the sentence."""
    judged, refused = [], []
    for run in runs:
        answer = predict(run.spec, run.case, run.card)
        if "error" in answer:
            refused.append((run, answer["error"]))
            continue
        row, parts = run.row, answer["phases"]
        memory = {name: parts[name] / row["phases"][name]["allocated"] for name in parts if name in row["phases"]}
        memory |= {"peak of tensors": answer["allocated"] / row["allocated"], "reserved": answer["reserved"] / row["reserved"]}
        measured, seconds = measured_seconds(run), {}
        if answer["step_s"] is not None:
            seconds = {name: answer["seconds"].get(name, 0.0) / measured[name] for name in measured if name in answer["seconds"]}
            seconds["step"] = answer["step_s"] / row["step_s"]
        judged.append(Judged(run, memory, seconds, answer["reserved_high"] / row["reserved"]))
    return judged, refused


def _groups(one: Judged, phase: str) -> Iterator[str]:
    """The groups of a figure: all, by objective, and models with experts apart."""
    yield phase
    if phase in {"step", "peak of tensors", "reserved"}:
        yield f"{phase}, {'experts' if one.run.has_experts else one.run.kind}"


def _print_table(title: str, judged: Sequence[Judged], ratios: dict[int, dict[str, float]]) -> list[dict[str, object]]:
    groups: dict[str, list[float]] = {}
    for one in judged:
        for phase, ratio in ratios[id(one.run)].items():
            for name in _groups(one, phase):
                groups.setdefault(name, []).append(ratio)
    print(f"{title:44} {'n':>3} {'median error':>12} {'bias':>8} {'p90':>7} {'>10 % too low':>14}")
    rows = []
    for name, of in sorted(groups.items()):
        errors, low = summarize_errors(of), sum(ratio < TOO_LOW for ratio in of)
        print(f"{name:44} {errors['n']:3} {errors['median_error']:12.1%} {errors['bias']:+8.1%} {errors['p90_error']:7.1%} {low:14}")
        rows.append({"group": name, **errors, "too_low": low})
    return rows


def main() -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--measured", type=Path, default=MEASURED)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--record", action="store_true")
    arguments = parser.parse_args()
    judged, refused = judge(list(own_runs(arguments.measured)))
    for one in judged if arguments.all else ():
        memory = "  ".join(f"{name} {ratio:.2f}" for name, ratio in one.memory.items())
        seconds = "  ".join(f"{name} {ratio:.2f}" for name, ratio in one.seconds.items())
        peak, step_s = one.run.row["allocated"] / GIB, one.run.row["step_s"]
        print(f"{one.run.name:42} {peak:5.1f} GiB {step_s:6.3f} s | {memory} | {seconds}")
    memory_rows = _print_table("memory, predicted / measured", judged, {id(one.run): one.memory for one in judged})
    second_rows = _print_table("seconds, predicted / measured", judged, {id(one.run): one.seconds for one in judged})
    covered = sum(one.high >= 1 for one in judged)
    print(f"reserved bytes within the upper estimate: {covered} of {len(judged)}")
    for run, sentence in refused:
        print(f"refused: {run.name}: {sentence}")
    if arguments.record:
        command = "python -m scripts.check_own_training --record"
        record("own training memory", command, memory_rows)
        record("own training seconds", command, second_rows)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
