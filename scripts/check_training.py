"""Fit the constants of training on published runs; judge memory on stacks, and speed on models, that the fit has not seen.

    python -m scripts.check_training FACTS              the errors, stack by stack; what is said to runs that ended for want of memory
    python -m scripts.check_training FACTS --all        every run with its error
    python -m scripts.check_training FACTS --write      also write lib/data/training_constants.json

The law has no constant for a model or a method. Fitted are three numbers of torch's allocator: how much more than the tensors that come and
go it reserves, as a share of them (typical, and the shares that a tenth of the runs stay below or exceed), and a fixed part; on runs whose
micro-batches are all as long. What varying lengths add is not fitted: `scripts/simulate_allocator.py` finds it without a published run.
Every stack weighs the same, and an error downwards three times as much as one upwards. The seven constants of `lib.speed.training` are
fitted by least squares of logarithms, a model's runs weighed by the root of their number.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares, minimize

from lib import catalog
from lib.errors import UnsupportedModel
from lib.laws.runtime import CUDA_CONTEXT, ByteRange
from lib.laws.training import moving_bytes
from lib.memory.training import (
    AllocatorConstants,
    ShareRange,
    TrainingMemory,
    check_training,
    estimate_training,
    load_constants,
    reserve_bytes,
    step_peaks,
)
from lib.model.spec import ModelSpec
from lib.speed.training import Rates, SpeedConstants, StepWork, card_rates, judge_fit, step_work, time_step
from lib.units import GIB, Bytes
from lib.workload import TrainingRequest
from scripts.training_points import Run, TimedRun, check_counts, failed_runs, other_runs, single_device_runs, timed_runs

OUTPUT = Path(__file__).resolve().parent.parent / "lib" / "data" / "training_constants.json"
CHECKED = "2026-11-22"
TOO_LOW = -0.1
TOO_LOW_WEIGHS = 3
"""As much as an error upwards: a run that ends for want of memory costs more than a card that is larger than needed. A judgement."""
MOVES = 0.05
"""Of the tensors, below which a run says nothing about the share."""
FIXED = ByteRange(Bytes(0), Bytes(GIB // 2), Bytes(2 * GIB))
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A run and the estimate of it, by constants that have not seen its stack."""

    run: Run
    memory: TrainingMemory

    @property
    def typical(self) -> int:
        """Bytes that torch reserves, typically."""
        return self.memory.reserved.typical

    @property
    def high(self) -> int:
        """The same, at most."""
        return self.memory.reserved.high

    @property
    def error(self) -> float:
        """Relative error of the typical value."""
        return self.typical / self.run.reserved_bytes - 1


def _shares(runs: Sequence[Run]) -> tuple[Floats, Floats]:
    """The share that each run shows, and its weight: every stack weighs the same."""
    counts = {run.source: sum(other.source == run.source for other in runs) for run in runs}
    shares, weights = [], []
    for run in runs:
        moment = max(step_peaks(run.spec, run.request), key=lambda parts: sum(parts.values()))
        total, moving = sum(moment.values()), moving_bytes(moment)
        if moving >= MOVES * total:
            shares.append((run.reserved_bytes - FIXED.typical - total) / moving)
            weights.append(1 / counts[run.source])
    return np.asarray(shares), np.asarray(weights)


def fit(every: Sequence[Run]) -> AllocatorConstants:
    """Typical share by the least weighted sum of relative errors; low and high are weighted quantiles of what single runs show."""
    runs = [run for run in every if run.request.packing]
    shipped_shares = load_constants().varying
    shares, share_weights = _shares(runs)
    weights = np.asarray([1 / sum(other.source == run.source for other in runs) for run in runs])
    peaks = [step_peaks(run.spec, run.request) for run in runs]

    def loss(x: Floats) -> float:
        estimates = [
            max(reserve_bytes(peak, run.request, abs(x[0]), shipped_shares.typical) for peak in of) + FIXED.typical
            for run, of in zip(runs, peaks, strict=True)
        ]
        errors = np.log(np.asarray(estimates) / np.asarray([run.reserved_bytes for run in runs]))
        return float(np.sum(weights * np.where(errors < 0, -TOO_LOW_WEIGHS * errors, errors)))

    typical = min((minimize(loss, [start], method="Nelder-Mead") for start in (0.05, 0.3, 1.0)), key=lambda best: best.fun)
    share = round(abs(float(typical.x[0])), 3)
    order = np.argsort(shares)
    reached = np.cumsum(share_weights[order]) / share_weights.sum()
    high = float(shares[order][np.searchsorted(reached, 0.9)])
    return AllocatorConstants(dynamic=ShareRange(0.0, share, max(share, round(high, 2))), varying=shipped_shares, fixed=FIXED)


def judge(judged: Sequence[Run], others: Sequence[Run]) -> list[Judged]:
    """Every run by constants that were fitted without its stack."""
    results = []
    for source in dict.fromkeys(run.source for run in judged):
        constants = fit([run for run in (*judged, *others) if run.source != source])
        runs = [run for run in judged if run.source == source]
        results += [Judged(run=run, memory=estimate_training(run.spec, run.request, constants)) for run in runs]
    return results


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedWork:
    """A timed run with its work and the ceilings of its card."""

    run: TimedRun
    work: StepWork
    rates: Rates

    def error(self, constants: SpeedConstants) -> float:
        """Relative error of the predicted seconds."""
        return time_step(self.work, constants, self.rates, self.run.request.accumulation) / self.run.step_s - 1


START = (1.7, 1.5, 2.0, 8.0, 3e-4, 10.0, 1.0)
LEAST = (1.0, 1.0, 0.05, 0.05, 1e-5, 0.5, 0.05)
MOST = (5.0, 5.0, 30.0, 50.0, 5e-3, 100.0, 30.0)


def timed_works(facts: Path) -> list[TimedWork]:
    """Every timed run on a card of the catalog."""
    cards = catalog.load().accelerators
    works = []
    for run in timed_runs(facts):
        rates = card_rates(cards[run.card]) if run.card in cards else None
        if rates is not None:
            works.append(TimedWork(run=run, work=step_work(run.spec, run.request), rates=rates))
    return works


def fit_speed(runs: Sequence[TimedWork]) -> SpeedConstants:
    """The constants of these runs."""
    weights = {model: sum(one.run.model == model for one in runs) ** -0.5 for model in {one.run.model for one in runs}}

    def residuals(x: Floats) -> Floats:
        constants = SpeedConstants(*np.exp(x))
        return np.asarray([weights[one.run.model] * np.log1p(one.error(constants)) for one in runs])

    bounds = (np.log(LEAST), np.log(MOST))
    solution = least_squares(residuals, np.log(START), loss="soft_l1", f_scale=0.1, bounds=bounds)
    return SpeedConstants(*(float(f"{value:.3g}") for value in np.exp(solution.x)))


def judge_speed(runs: Sequence[TimedWork]) -> dict[str, list[float]]:
    """Errors of every model's runs by constants that were fitted without it."""
    errors: dict[str, list[float]] = {}
    for model in dict.fromkeys(one.run.model for one in runs):
        constants = fit_speed([one for one in runs if one.run.model != model])
        errors[model] = [one.error(constants) for one in runs if one.run.model == model]
    return errors


def _line(name: str, runs: Sequence[Judged]) -> str:
    errors = [one.error for one in runs]
    low = sum(error < TOO_LOW for error in errors) / len(errors)
    unsaid = sum(one.high < one.run.reserved_bytes * (1 + TOO_LOW) for one in runs) / len(runs)
    return f"{name:20} {len(runs):5} {statistics.median(map(abs, errors)):8.1%} {statistics.median(errors):+8.1%} {low:8.0%} {unsaid:8.0%}"


def rule_of_thumb(run: Run) -> float:
    """Bytes by LLaMA-Factory's table: GB for each billion of parameters (README.md, Hardware Requirement, at 00409ff28)."""
    by_method = {"full": 8.0 if run.request.precision == "bf16" else 18.0, "qlora": 0.5}
    return by_method.get(run.request.method, 2.0) * run.spec.parameters_total


def zero_bytes(run: Run) -> float | None:
    """Bytes by DeepSpeed's rule for full fine-tuning, 18 a parameter; it says nothing about adapters."""
    return 18.0 * run.spec.parameters_total if run.request.method == "full" else None


def _side_by_side(judged: Sequence[Judged]) -> None:
    """The same runs through published rules and through ours."""
    print(f"\n{'the same runs through':34} {'runs':>5} {'mean':>8} {'median':>8} {'too low':>8}")
    rows = {
        "this app, stacks left out": [(float(one.typical), one.run) for one in judged],
        "its high value": [(float(one.high), one.run) for one in judged],
        "LLaMA-Factory's table": [(rule_of_thumb(one.run), one.run) for one in judged],
        "DeepSpeed, 18 bytes a parameter": [(size, one.run) for one in judged if (size := zero_bytes(one.run)) is not None],
    }
    for name, sizes in rows.items():
        errors = [size / run.reserved_bytes - 1 for size, run in sizes]
        low = sum(error < TOO_LOW for error in errors) / len(errors)
        mean, median = statistics.fmean(map(abs, errors)), statistics.median(map(abs, errors))
        print(f"{name:34} {len(errors):5} {mean:8.1%} {median:8.1%} {low:8.0%}")


def _verdict(spec: ModelSpec, request: TrainingRequest, card_bytes: int) -> str:
    """What the app says to this step on this card; "refused" where it estimates no training of the model."""
    try:
        check_training(spec, request)
    except UnsupportedModel:
        return "refused"
    return judge_fit(estimate_training(spec, request), card_bytes)


def _print_failed_runs(facts: Path) -> None:
    """What the laws predict for the published runs that ended out of memory."""
    every = [(one.spec.pipeline is not None, _verdict(one.spec, one.request, one.card_bytes)) for one in failed_runs(facts)]
    print(f"\n{len(every)} published runs ended for want of memory; refused, risky or too large: {_share(v != 'fits' for _, v in every)}")
    for pipeline, name in ((True, "of pictures and clips, refused whatever their size"), (False, "of text, judged by their size")):
        verdicts = [verdict for is_pipeline, verdict in every if is_pipeline is pipeline]
        print(f"  {len(verdicts)} {name}: {', '.join(f'{verdicts.count(v)} {v}' for v in dict.fromkeys(verdicts))}")


def _on_smaller_cards(judged: Sequence[Judged]) -> None:
    """The judgement of published runs on every size of card: those with less than the run reserved, and those with enough."""
    sizes = sorted({card.memory_usable for card in catalog.load().accelerators.values() if card.kind == "gpu" and card.memory_usable})
    pairs = [(judge_fit(one.memory, size), one.run.reserved_bytes + CUDA_CONTEXT.typical > size) for one in judged for size in sizes]
    small, enough = ([verdict for verdict, less in pairs if less is below] for below in (True, False))
    print(f"runs × cards with less than was reserved: {len(small)}, called risky or too large: {_share(v != 'fits' for v in small)}")
    print(f"runs × cards with as much: {len(enough)}, called risky or fitting: {_share(v != 'no' for v in enough)}")


def _share(holds: Iterable[bool]) -> str:
    every = list(holds)
    return f"{sum(every) / len(every):.0%}"


def _speed(constants: SpeedConstants, errors: Sequence[float], sources: set[str]) -> dict[str, Any]:
    low, high = np.quantile(1 + np.asarray(errors), [0.1, 0.9])
    return {
        "source": "scripts/check_training.py on published runs: " + ", ".join(sorted(sources)),
        "runs": len(errors),
        "constants": constants._asdict(),
        "range": [round(1 / float(high), 2), round(1 / float(low), 2)],
    }


def _constants(constants: AllocatorConstants, runs: Sequence[Run]) -> dict[str, Any]:
    equal = [run for run in runs if run.request.packing]
    sources = ", ".join(sorted({run.source for run in equal}))
    return {
        "checked": CHECKED,
        "memory": {
            "source": f"scripts/check_training.py on published runs whose lengths are equal: {sources}",
            "runs": len(equal),
            "dynamic_share": list(constants.dynamic),
            "varying_share": list(constants.varying),
            "varying_source": "scripts/simulate_allocator.py",
            "fixed_bytes": list(constants.fixed),
        },
    }


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("facts", type=Path)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    wrong = check_counts(arguments.facts)
    if wrong:
        parser.error(f"not the printed number of parameters: {', '.join(wrong)}")
    judged_runs, other_shapes = list(single_device_runs(arguments.facts)), list(other_runs(arguments.facts))
    results = judge(judged_runs, other_shapes)
    if arguments.all:
        for one in sorted(results, key=lambda judged: abs(judged.error)):
            r = one.run.request
            print(
                f"{one.error:+7.1%}  {one.run.model:38} {r.method:5} {r.checkpointing:6} B {r.micro_batch} T {r.sequence_tokens:5} "
                f"{one.typical / GIB:7.2f} of {one.run.reserved_bytes / GIB:7.2f} GiB  {one.run.source}"
            )
    print(f"{'stack, left out':20} {'runs':>5} {'median':>8} {'bias':>8} {'too low':>8} {'high low':>8}")
    for source in dict.fromkeys(one.run.source for one in results):
        print(_line(source, [one for one in results if one.run.source == source]))
    print(_line("all", results))
    _side_by_side(results)
    _print_failed_runs(arguments.facts)
    _on_smaller_cards(results)
    allocator = fit([*judged_runs, *other_shapes])
    print(f"constants of all stacks: share {allocator.dynamic}, fixed {allocator.fixed}")
    runs = timed_works(arguments.facts)
    by_model = judge_speed(runs)
    errors = [error for of in by_model.values() for error in of]
    print(f"\n{'speed, model left out':34} {'runs':>5} {'median':>8} {'bias':>8}")
    for model, of in [*by_model.items(), ("all", errors)]:
        print(f"{model:34} {len(of):5} {statistics.median(map(abs, of)):8.1%} {statistics.median(of):+8.1%}")
    constants = fit_speed(runs)
    print(f"constants of all models: {constants}")
    if arguments.write:
        content = _constants(allocator, [*judged_runs, *other_shapes]) | {
            "speed": _speed(constants, errors, {one.run.source for one in runs})
        }
        OUTPUT.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
