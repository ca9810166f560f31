"""Fit the constants of the seconds of training steps, and judge them on models that a fit has not seen.

`scripts/check_training.py` calls it. The constants of dense models are fitted by least squares of logarithms on published steps and on
those of this project; then those of experts on this project's steps of four models with experts, with the others as they are.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from lib import catalog
from lib.speed.rollouts import host_token_s, with_mean_lengths
from lib.speed.training import Rates, StepWork, card_rates, step_work, time_step
from lib.speed.training_constants import RolloutConstants, SpeedConstants
from scripts.accuracy import record, summarize_errors
from scripts.own_points import MEASURED, OwnRun, own_runs, teaches_experts, teaches_speed
from scripts.training_points import TimedRun, timed_runs

OWN = "this project"
COMMAND = "python -m scripts.check_training FACTS --record"
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedWork:
    """A timed run with its work and the ceilings of its card."""

    run: TimedRun
    work: StepWork
    rates: Rates

    def error(self, constants: SpeedConstants) -> float:
        """Relative error of the predicted seconds."""
        return time_step(self.work, constants, self.rates, self.run.request.accumulation) / self.run.step_s - 1


START = (1.7, 1.5, 2.0, 8.0, 1e-3, 5.0, 1.5, 1.0, 1e-4)
LEAST = (1.0, 1.0, 0.05, 0.05, 1e-5, 0.5, 1.0, 0.01, 1e-6)
MOST = (5.0, 5.0, 30.0, 50.0, 5e-3, 100.0, 30.0, 10.0, 2e-3)
"""Bounds of the fit: no rate above its ceiling, and an unpacked weight is written once at least."""
UNSEEN = 0.03
"""Weight of the start values: a constant that no run of a fit shows keeps its own."""


def timed_works(facts: Path) -> list[TimedWork]:
    """Every timed run on a card of the catalog."""
    cards = catalog.load().accelerators
    works = []
    for run in timed_runs(facts):
        rates = card_rates(cards[run.card]) if run.card in cards else None
        if rates is not None:
            works.append(TimedWork(run=run, work=step_work(run.spec, run.request), rates=rates))
    return works + _own_works(teaches_speed)


def _own_works(teaches: Callable[[OwnRun], bool]) -> list[TimedWork]:
    """Timed steps of this project without their rollouts."""
    works = []
    for one in filter(teaches, own_runs(MEASURED)):
        rates = card_rates(one.card)
        if rates is not None:
            request, seconds = (
                with_mean_lengths(one.request),
                one.row["step_s"] - one.row["phases"].get("rollout", {"seconds": 0})["seconds"],
            )
            run = TimedRun(source=OWN, model=one.spec.id, card=one.card.id, spec=one.spec, request=request, step_s=seconds)
            works.append(TimedWork(run=run, work=step_work(one.spec, request), rates=rates))
    return works


def fit_rollouts(runs: Sequence[OwnRun]) -> RolloutConstants:
    """The host's seconds for a layer and an adapter of each token, by least squares of relative errors."""
    ones = [
        [host_token_s(run.spec, run.request, only) / _token_s(run) for only in (RolloutConstants(1, 0), RolloutConstants(0, 1))]
        for run in runs
    ]
    found, *_ = np.linalg.lstsq(np.asarray(ones), np.ones(len(ones)), rcond=None)
    return RolloutConstants(*(float(f"{value:.3g}") for value in found))


def _token_s(run: OwnRun) -> float:
    return float(run.row["phases"]["rollout"]["seconds"]) / run.request.rollout.completion_tokens


def judge_rollouts(runs: Sequence[OwnRun]) -> list[float]:
    """Predicted / measured of every model's rollouts by constants that were fitted without it."""
    ratios = []
    for run in runs:
        constants = fit_rollouts([other for other in runs if other.spec.id != run.spec.id])
        ratios.append(host_token_s(run.spec, run.request, constants) / _token_s(run))
    return ratios


def fit_speed(runs: Sequence[TimedWork]) -> SpeedConstants:
    """The constants of these runs."""
    weights = {model: sum(one.run.model == model for one in runs) ** -0.5 for model in {one.run.model for one in runs}}

    def residuals(x: Floats) -> Floats:
        constants = SpeedConstants(*np.exp(x))
        errors = [weights[one.run.model] * np.log1p(one.error(constants)) for one in runs]
        return np.asarray([*errors, *(UNSEEN * (x - np.log(START)))])

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


EXPERT_START = (10.0, 10.0, 1e-3)


def fit_experts(runs: Sequence[TimedWork], dense: SpeedConstants) -> SpeedConstants:
    """The three constants of experts of these runs, with those of dense models as they are."""
    weights = {model: sum(one.run.model == model for one in runs) ** -0.5 for model in {one.run.model for one in runs}}

    def constants(x: Floats) -> SpeedConstants:
        return dense._replace(**dict(zip(("routed", "merged", "expert_s"), np.exp(x).tolist(), strict=True)))

    def residuals(x: Floats) -> Floats:
        errors = [weights[one.run.model] * np.log1p(one.error(constants(x))) for one in runs]
        return np.asarray([*errors, *(UNSEEN * (x - np.log(EXPERT_START)))])

    found = constants(least_squares(residuals, np.log(EXPERT_START), loss="soft_l1", f_scale=0.1).x)
    return found._replace(**{name: float(f"{getattr(found, name):.3g}") for name in ("routed", "merged", "expert_s")})


def judge_experts(runs: Sequence[TimedWork], dense: SpeedConstants) -> dict[str, list[float]]:
    """Errors of every model's runs by constants of experts that were fitted without it."""
    errors: dict[str, list[float]] = {}
    for model in dict.fromkeys(one.run.model for one in runs):
        constants = fit_experts([one for one in runs if one.run.model != model], dense)
        errors[model] = [one.error(constants) for one in runs if one.run.model == model]
    return errors


def _print_experts(runs: Sequence[TimedWork], dense: SpeedConstants) -> list[float]:
    """Errors of steps of models with experts, by dense constants and by those of experts; returns the latter."""
    by_model = judge_experts(runs, dense)
    plain = [one.error(dense) for one in runs]
    print(f"\n{'experts, model left out':34} {'runs':>5} {'median':>8} {'bias':>8}")
    every = [error for of in by_model.values() for error in of]
    for name, of in [*by_model.items(), ("all", every), ("all, without the terms of experts", plain)]:
        print(f"{name:34} {len(of):5} {statistics.median(map(abs, of)):8.1%} {statistics.median(of):+8.1%}")
    return every


class FittedSpeed(NamedTuple):
    """The constants of speed, the errors of models that were left out, and the sources of the steps."""

    constants: SpeedConstants
    errors: list[float]
    sources: set[str]


def report_speed(facts: Path, *, records: bool) -> FittedSpeed:
    """Fit the constants of speed, and print the errors of models that were left out."""
    timed = timed_works(facts)
    by_model = judge_speed(timed)
    errors = [error for of in by_model.values() for error in of]
    print(f"\n{'speed, model left out':34} {'runs':>5} {'median':>8} {'bias':>8}")
    own = {one.run.model for one in timed if one.run.source == OWN}
    published = [error for model, of in by_model.items() if model not in own for error in of]
    ours = [error for model, of in by_model.items() if model in own for error in of]
    for model, of in [
        *by_model.items(),
        ("models that others measured", published),
        ("models that this project measured", ours),
        ("all", errors),
    ]:
        print(f"{model:34} {len(of):5} {statistics.median(map(abs, of)):8.1%} {statistics.median(of):+8.1%}")
    dense, with_experts = fit_speed(timed), _own_works(teaches_experts)
    expert_errors = _print_experts(with_experts, dense)
    constants = fit_experts(with_experts, dense)
    print(f"constants of all models: {constants}")
    if records:
        groups = (("published steps", published), ("steps of this project", ours), ("steps of models with experts", expert_errors))
        rows = [{"steps": name, **summarize_errors([1 + error for error in of])} for name, of in groups]
        record("training speed", COMMAND, rows)
    return FittedSpeed(constants, [*errors, *expert_errors], {one.run.source for one in timed})
