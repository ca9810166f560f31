"""Fitting the constants of speed: damped least squares on logarithms, robust, with every offset held near its start.

    minimise  Σ_i ρ( w_i · ln(predicted_i / measured_i) ) + Σ_j ( (x_j - x⁰_j) · λ / s_j )²        ρ(r) = 2f²·(√(1 + (r/f)²) - 1)

f = 0.25, λ = 0.17 (the errors of left-out models change little from 0.17 to 0.35); x⁰ and s are the starts and widths of `PRIORS`.
Levenberg's method; the derivatives of all engines (or formats) with respect to one family of constants come from one evaluation,
because no case has two engines.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from lib.laws.forward_pass import Array
from lib.speed.batch import Cases
from lib.speed.constants import CLASSES, ENGINES, FORMS, SIZES, Constants
from lib.speed.predict import forecast, full_load
from scripts.calibration_points import Point, cases

F_SCALE = 0.25
RIDGE = 0.17
STEP = 1e-4
PRIORS: dict[str, tuple[float, float]] = {
    "bandwidth": (0.8, 1.0), "bandwidth_engine": (0, 0.7), "bandwidth_class": (0, 0.5), "bandwidth_form": (0, 0.7), "cache": (0, 0.7),
    "compute": (0.3, 1.0), "compute_engine": (0, 0.7), "compute_class": (0, 0.5), "compute_form": (0, 0.7),
    "rows_half": (float(np.log(80)), 0.7), "rows_half_class": (0, 0.5),
    "layer_s": (float(np.log(4e-5)), 0.8), "step_s": (float(np.log(7e-4)), 0.8), "sequence_s": (float(np.log(2e-6)), 1.0),
    "eager_form": (0.3, 0.7), "experts_host": (0, 0.5),
    "exchange_s": (float(np.log(1e-5)), 0.8), "exchange_bus": (0.5, 0.7), "exchange_rows": (float(np.log(6)), 0.7),
    "exchange_share": (float(np.log(0.5)), 0.7), "attention": (float(np.log(0.6)), 0.7), "interruption": (0, 0.7),
    "queued": (float(np.log(0.3)), 0.7), "steps_waited": (0, 0.7), "first_s": (float(np.log(2e-2)), 1.0),
    "request_s": (float(np.log(5e-3)), 1.0), "full_load": (0, 0.5),
}  # fmt: skip
"""Start and width of each family, orders of magnitude from published measurements; the engines below start elsewhere."""
STARTS = {
    ("layer_s", "transformers"): 7e-4, ("layer_s", "autoawq"): 2e-4, ("layer_s", "tgi"): 2e-4, ("layer_s", "host"): 1e-4,
    ("step_s", "transformers"): 1e-3, ("step_s", "tgi"): 5e-3,
}  # fmt: skip
UNRECORDED_WIDTH = 1.5
METRICS = (
    "decode_tok_s", "tpot_ms", "itl_ms", "ttft_ms", "prefill_tok_s", "e2e_output_tok_s", "e2e_total_tok_s", "request_ms", "samples_per_s",
    "served_between", "served_first",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Data:
    """Points as columns: `loaded` are the places of those at full load, `timed` of all others."""

    points: list[Point]
    log_value: Array
    weight: Array
    loaded: NDArray[np.int64]
    timed: NDArray[np.int64]
    loaded_cases: Cases | None
    timed_cases: Cases | None
    metric: NDArray[np.int64]
    engine: NDArray[np.int64]
    form: NDArray[np.int64]
    classes: NDArray[np.bool_]


def columns(points: list[Point]) -> Data:
    """Points as columns."""
    at_load = np.array([p.metric == "full_load" for p in points])
    loaded, timed = np.flatnonzero(at_load), np.flatnonzero(~at_load)
    every = cases(points)
    return Data(
        points=points,
        log_value=np.log([p.value for p in points]),
        weight=np.array([p.weight for p in points]),
        loaded=loaded,
        timed=timed,
        loaded_cases=every.take(loaded) if len(loaded) else None,
        timed_cases=every.take(timed) if len(timed) else None,
        metric=np.array([METRICS.index(points[i].metric) for i in timed], dtype=np.int64),
        engine=every.engine,
        form=every.form,
        classes=every.bandwidth.max(axis=0) > 0,
    )


def places() -> dict[str, NDArray[np.int64]]:
    """Where each family of constants lies in the vector."""
    found, at = {}, 0
    for f in fields(Constants):
        found[f.name] = np.arange(at, at + SIZES[f.name])
        at += SIZES[f.name]
    return found


AT = places()


def start() -> tuple[Array, Array]:
    """Starts and widths; a width of 0 fixes the constant."""
    at, width = np.zeros(sum(SIZES.values())), np.zeros(sum(SIZES.values()))
    for name, ix in AT.items():
        at[ix], width[ix] = PRIORS[name]
    for (name, engine), value in STARTS.items():
        at[AT[name][ENGINES.index(engine)]] = np.log(value)
    for form in ("half", "fp32"):
        at[AT["eager_form"][FORMS.index(form)]] = width[AT["eager_form"][FORMS.index(form)]] = 0.0
    for form in ("int4-experts", "int8-experts"):
        width[AT["eager_form"][FORMS.index(form)]] = UNRECORDED_WIDTH
    return at, width


def constants(x: Array) -> Constants:
    """The vector as named constants."""
    return Constants(**{name: x[ix] for name, ix in AT.items()})


def predict(x: Array, data: Data) -> Array:
    """Ln of what would be measured."""
    k = constants(x)
    out = np.zeros(len(data.points))
    if data.loaded_cases is not None:
        out[data.loaded] = np.log(full_load(data.loaded_cases, k))
    if data.timed_cases is not None:
        c = data.timed_cases
        f = forecast(c, k)
        whole = f.prompt + c.answer * f.step.total + f.request
        rate = c.batch * c.answer / whole
        prompt_only = c.batch / (f.prompt + f.request)
        table = (
            c.batch / f.step.total, f.step.total * 1e3, f.step.total * 1e3, (f.prompt + f.request) * 1e3, c.batch * c.prompt / f.prompt,
            rate, rate * (c.prompt + c.answer) / c.answer, np.where(c.answer > 1, whole, f.prompt + f.request) * 1e3, prompt_only,
            f.served_between * 1e3, f.served_first * 1e3,
        )  # fmt: skip
        out[data.timed] = np.log(np.stack(table)[data.metric, np.arange(len(c))])
    return out


def jacobian(x: Array, data: Data, base: Array, free: NDArray[np.bool_]) -> Array:
    """Derivatives of `predict`, one column per constant."""
    found = np.zeros((len(base), len(x)))
    rows = np.arange(len(base))
    keys = {len(ENGINES): data.engine, len(FORMS): data.form}
    for ix in AT.values():
        key = keys.get(len(ix))
        if key is not None and free[ix].any():
            moved = x.copy()
            moved[ix] += STEP
            found[rows, ix[key]] = (predict(moved, data) - base) / STEP
        elif key is None:
            for i in ix:
                if free[i] and (len(ix) != len(CLASSES) or data.classes[i - ix[0]]):
                    moved = x.copy()
                    moved[i] += STEP
                    found[:, i] = (predict(moved, data) - base) / STEP
    return found


def _cost(residual: Array, prior: Array) -> float:
    return float(2 * F_SCALE**2 * (np.sqrt(1 + (residual / F_SCALE) ** 2) - 1).sum() + (prior**2).sum())


def fit(data: Data, x: Array | None = None, *, most: int = 60, tolerance: float = 1e-4) -> tuple[Array, float, int]:
    """The constants, the cost, and how many steps were taken; stops when a step gains less than `tolerance` of the cost.

    Raises:
        RuntimeError: still gaining after `most` steps.
    """
    at, width = start()
    free = width > 0
    pull = np.where(free, RIDGE / np.where(free, width, 1.0), 0.0)
    x = at.copy() if x is None else x.copy()
    base = predict(x, data)
    cost = _cost((base - data.log_value) * data.weight, (x - at) * pull)
    damping = 1e-2
    for step in range(1, most + 1):
        residual = (base - data.log_value) * data.weight
        robust = 1 / np.sqrt(1 + (residual / F_SCALE) ** 2)  # ρ'(r) / r, the weight of a row in this step
        slope = jacobian(x, data, base, free)[:, free] * data.weight[:, None]
        normal = slope.T @ (slope * robust[:, None]) + np.diag(pull[free] ** 2)
        gradient = slope.T @ (residual * robust) + (x - at)[free] * pull[free] ** 2
        while True:
            trial = x.copy()
            trial[free] -= np.linalg.solve(normal + damping * np.diag(np.diag(normal)), gradient)
            found = predict(trial, data)
            gained = cost - _cost((found - data.log_value) * data.weight, (trial - at) * pull)
            if gained >= 0 or damping > 1e8:  # noqa: PLR2004 nothing left to gain in any direction
                break
            damping *= 6
        damping = max(damping / 5, 1e-7)
        if gained <= tolerance * cost:
            return (trial if gained > 0 else x), cost - max(gained, 0.0), step
        x, base, cost = trial, found, cost - gained
    raise RuntimeError(f"the fit still gains after {most} steps")


def left_out(data: Data, groups: list[str], x: Array) -> Array:
    """ln(predicted / measured) of every point under constants fitted without its group."""
    error = np.zeros(len(groups))
    names = np.array(groups)
    for name in dict.fromkeys(groups):
        inside = names == name
        rest, _, _ = fit(columns([p for p, out in zip(data.points, inside, strict=True) if not out and p.weight]), x, tolerance=1e-3)
        group = columns([p for p, take in zip(data.points, inside, strict=True) if take])
        error[inside] = predict(rest, group) - group.log_value
    return error
