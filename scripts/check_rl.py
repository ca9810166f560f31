"""Ask the law about published steps of preference and reinforcement learning, and print its errors by phase.

    python -m scripts.check_rl FACTS            errors by phase; verdicts on runs that ended out of memory
    python -m scripts.check_rl FACTS --all      every run with its errors
    python -m scripts.check_rl FACTS --record   also write the errors into docs/accuracy.json

Nothing is fitted here: the constants are those of serving (`scripts/calibrate.py`) and of training (`scripts/check_training.py`), whose
fits have seen no run of this kind. Frameworks other than TRL are asked as TRL would train them.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from lib import catalog
from lib.laws.training import StepPart
from lib.memory.rollouts import add_rollouts, estimate_step
from lib.memory.training import step_peaks
from lib.speed.rollouts import time_rollouts
from lib.speed.training import predict_step, train_on
from lib.speed.training_hardware import judge_fit
from lib.units import GIB
from scripts.accuracy import record, summarize_errors
from scripts.rl_points import FailedRl, Phase, RlRun, failed_rl, rl_runs


class Judged(NamedTuple):
    """A run and the seconds that the law predicts by phase."""

    run: RlRun
    predicted: dict[Phase, float]

    def ratio(self, phase: Phase) -> float:
        """Predicted / measured."""
        return self.predicted[phase] / self.run.seconds[phase]


def judge(runs: Sequence[RlRun]) -> Iterator[Judged]:
    """The runs whose seconds are known and predicted."""
    cards = catalog.load().accelerators
    for run in runs:
        if not run.seconds:
            continue
        asked = train_on(run.card, run.request, run.card.memory_usable or 0)
        speed = predict_step(run.spec, asked, run.card, cards)
        if speed is None or speed.phases is None:
            continue
        rollout = speed.phases.rollout
        if run.rollout_accumulation > asked.accumulation:
            rollout = time_rollouts(run.spec, replace(asked, accumulation=run.rollout_accumulation), run.card, cards) or rollout
        step = run.repeats * speed.step_s
        yield Judged(run, {"rollout": rollout, "scoring": speed.phases.scoring, "update": speed.phases.update, "step": step})


def group_ratios(judged: Sequence[Judged]) -> dict[str, list[float]]:
    """Predicted / measured by phase and kind of run."""
    groups: dict[str, list[float]] = {}
    for one in judged:
        for phase in one.run.seconds:
            for name in _names(one.run, phase):
                groups.setdefault(name, []).append(one.ratio(phase))
    return dict(sorted(groups.items(), key=lambda item: _ORDER.index(item[0].split(",")[0])))


_ORDER = ("rollout", "scoring", "update", "step")


def _names(run: RlRun, phase: Phase) -> Iterator[str]:
    """The groups of a phase: all dense models or those with experts, and parts of them that differ."""
    if run.has_experts:
        yield f"{phase}, models with experts"
        return
    yield f"{phase}, dense models"
    if phase == "rollout":
        split = run.request.rollout.rollout_tensor_parallel > 1
        yield f"{phase}, dense, a vLLM {'over several cards' if split else 'on each card'}"
    if phase == "update":
        yield f"{phase}, dense, {run.card.id.removesuffix('-SXM')}"
    if phase == "step":
        yield f"{phase}, dense, {'verl' if run.source == 'verl' else 'NeMo RL' if run.source == 'NeMo RL' else 'TRL'}"


def count_by_method(runs: Sequence[RlRun], failed: Sequence[FailedRl]) -> dict[str, tuple[int, int]]:
    """Runs with seconds or bytes, and runs that ended out of memory, by method."""
    methods = {"GRPO and DAPO": "grpo", "DPO": "dpo", "ORPO": "orpo", "KTO": "kto", "reward models": "reward"}
    return {
        name: (sum(run.request.objective == objective for run in runs), sum(one.request.objective == objective for one in failed))
        for name, objective in methods.items()
    }


def _print_memory(runs: Sequence[RlRun]) -> list[float]:
    """Bytes of a card by phase, for runs that state the bytes of the card."""
    ratios = []
    print(f"\n{'memory of a card, GiB':32} {'stated':>7} {'typical':>8} {'high':>7}   by phase")
    for run in runs:
        if measured := run.device_bytes or run.reserved_bytes:
            asked = train_on(run.card, run.request, run.card.memory_usable or 0)
            memory = estimate_step(run.spec, asked)
            said = memory.device if run.device_bytes else memory.reserved
            ratios.append(said.typical / measured)
            peaks = add_rollouts(run.spec, asked, step_peaks(run.spec, asked))
            phases = ", ".join(f"{name} {sum(parts.values()) / GIB:.1f}" for name, parts in peaks._asdict().items() if parts)
            stated, typical, high = (size / GIB for size in (measured, said.typical, said.high))
            print(f"{run.source + ' ' + run.spec.id.rpartition('/')[2]:32} {stated:7.1f} {typical:8.1f} {high:7.1f}   {phases}")
    return ratios


def _print_failed(failed: Sequence[FailedRl]) -> Sequence[str]:
    """Print the verdicts on runs that ended out of memory."""
    verdicts = []
    for one in failed:
        capacity = one.card.memory_usable or 0
        asked = train_on(one.card, one.request, capacity)
        memory = estimate_step(one.spec, asked)
        verdicts.append(judge_fit(memory, capacity))
        print(f"  {verdicts[-1]:5} {memory.device.typical / GIB:6.1f} of {capacity / GIB:5.1f} GiB  {one.spec.id:40} {one.source}")
        if one.first_step_bytes:
            first = _before_states(one)
            print(f"        before the optimizer has states: {first / GIB:.1f} GiB, stated {one.first_step_bytes / GIB:.1f} GiB")
    return verdicts


def _before_states(one: FailedRl) -> int:
    """The most that rollout and scoring hold in the first step, when the optimizer has no states; with the CUDA context."""
    peaks = add_rollouts(one.spec, one.request, step_peaks(one.spec, one.request))
    return max(sum(parts.values()) - parts.get(StepPart.OPTIMIZER, 0) for parts in (peaks.rollout, peaks.scoring))


def main() -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("facts", type=Path)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--record", action="store_true")
    arguments = parser.parse_args()
    runs, failed = list(rl_runs(arguments.facts)), list(failed_rl(arguments.facts))
    judged = list(judge(runs))
    if arguments.all:
        for one in judged:
            r = one.run.request
            phases = "  ".join(f"{p} {one.predicted[p]:.0f} of {s:.0f} s ({one.ratio(p):.2f})" for p, s in one.run.seconds.items())
            print(f"{one.run.source:13} {one.run.spec.id:40} {r.devices:3} × {one.run.card.id:14} {r.sharding:6} {phases}")
    print(f"{'seconds, predicted / measured':44} {'n':>3} {'median error':>12} {'bias':>8} {'p90':>7}")
    groups = group_ratios(judged)
    for name, ratios in groups.items():
        row = summarize_errors(ratios)
        print(f"{name:44} {row['n']:3} {row['median_error']:12.1%} {row['bias']:+8.1%} {row['p90_error']:7.1%}")
    held = _print_memory(runs)
    print(f"median error {statistics.median(abs(ratio - 1) for ratio in held):.0%}, n = {len(held)}")
    print("\nended out of memory:")
    verdicts = _print_failed(failed)
    caught = sum(verdict != "fits" for verdict in verdicts)
    print(f"{len(verdicts)} runs; called risky or too large: {caught}")
    print("\nby method: runs with seconds or bytes, runs that ended out of memory")
    for name, (measured, ended) in count_by_method(runs, failed).items():
        print(f"  {name}: {measured or 'none'}, {ended or 'none'}")
    if arguments.record:
        rows = [{"phase": name, **summarize_errors(ratios)} for name, ratios in groups.items()]
        record("rl", "python -m scripts.check_rl FACTS --record", rows)
        methods = [{"name": name, "measured": m, "ended": e} for name, (m, e) in count_by_method(runs, failed).items()]
        of = {"ended": len(verdicts), "caught": caught, "memory": summarize_errors(held), "methods": methods}
        record("rl memory", "python -m scripts.check_rl FACTS --record", [of])
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
