"""Fitting the constants of speed: least squares on logarithms, robust, with every constant held near its start.

    minimise  Σ_i ρ( w_i · ln(predicted_i / measured_i) ) + Σ_j ( (x_j - x⁰_j) · λ / s_j )²        ρ(r) = 2f²·(√(1 + (r/f)²) - 1)

f = 0.25, λ = 0.17 (the errors of left-out models change little from 0.17 to 0.35); x⁰ and s are the starts and widths of `PRIORS`.
Solved by `scipy.optimize.least_squares`. The derivatives of all engines (or kernels) with respect to one family of constants come from
one evaluation, because no point has two engines.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from lib.laws.forward_pass import Array
from lib.speed.batch import CostModelInputs
from lib.speed.calibration import CLASSES, ENGINES, KERNELS, SIZES, Constants
from lib.speed.timing import full_load_throughput, time_serving
from scripts.calibration_points import Point, law_inputs

F_SCALE = 0.25
RIDGE = 0.17
STEP = 1e-4
MOST_EVALUATIONS = 60
PRIORS: dict[str, tuple[float, float]] = {
    "bandwidth": (0.8, 1.0), "bandwidth_engine": (0, 0.7), "bandwidth_class": (0, 0.5), "bandwidth_kernel": (0, 0.7),
    "bandwidth_cache": (0, 0.7), "bandwidth_copy": (0, 0.7),
    "compute": (0.3, 1.0), "compute_engine": (0, 0.7), "compute_class": (0, 0.5), "compute_kernel": (0, 0.7),
    "width_half": (float(np.log(2000)), 0.8), "rows_half": (float(np.log(80)), 0.7), "rows_half_class": (0, 0.5),
    "launch_layer_s": (float(np.log(4e-5)), 0.8), "launch_step_s": (float(np.log(7e-4)), 0.8), "scheduling_s": (float(np.log(3e-3)), 0.8),
    "launch_sequence_s": (float(np.log(2e-6)), 1.0), "prompt_layer_s": (float(np.log(4e-4)), 0.8),
    "eager_kernel": (0.3, 0.7), "launch_experts": (0, 0.5),
    "all_reduce_s": (float(np.log(1e-5)), 0.8), "all_reduce_pcie": (0.5, 0.7), "all_reduce_rows": (float(np.log(6)), 0.7),
    "link_share": (float(np.log(0.5)), 0.7), "link_share_pcie": (0, 0.7),
    "attention": (0.2, 0.3), "attention_engine": (0, 0.4), "attention_class": (0, 0.1),
    "chunked_prefill": (0, 0.7),
    "prefill_queue": (float(np.log(0.05)), 0.7), "steps_waited": (0, 0.1), "bunched": (0, 0.7),
    "ttft_fixed_s": (float(np.log(2e-2)), 0.15),
    "request_s": (float(np.log(5e-3)), 1.0), "full_load": (0, 0.5),
}  # fmt: skip
"""Start and width of each family, orders of magnitude from published measurements; the engines below start elsewhere.

`steps_waited` is held near its start, one step: half of the step that runs, and behind an asynchronous scheduler a whole one more. Left
free it becomes 2.9 and replaces launches and fixed times, which do not grow with a model's time per token.
"""
STARTS = {
    ("launch_layer_s", "transformers"): 7e-4, ("launch_layer_s", "autoawq"): 2e-4, ("launch_layer_s", "tgi"): 2e-4,
    ("launch_layer_s", "host"): 1e-4,
    ("launch_step_s", "transformers"): 1e-3, ("launch_step_s", "tgi"): 5e-3,
}  # fmt: skip
UNRECORDED_WIDTH = 1.5
METRICS = (
    "decode_tok_s", "tpot_ms", "itl_ms", "ttft_ms", "prefill_tok_s", "e2e_output_tok_s", "e2e_total_tok_s", "request_ms", "samples_per_s",
    "served_between", "served_first",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Data:
    """Points as columns: `full_load` are the places of those at full load, `per_request` of all others."""

    points: list[Point]
    log_value: Array
    weight: Array
    full_load: NDArray[np.int64]
    per_request: NDArray[np.int64]
    loaded_inputs: CostModelInputs | None
    timed_inputs: CostModelInputs | None
    metric: NDArray[np.int64]
    engine: NDArray[np.int64]
    kernel: NDArray[np.int64]
    classes: NDArray[np.bool_]


def columns(points: list[Point]) -> Data:
    """Points as columns."""
    at_load = np.array([p.metric == "full_load" for p in points])
    full_load, per_request = np.flatnonzero(at_load), np.flatnonzero(~at_load)
    every = law_inputs(points)
    return Data(
        points=points,
        log_value=np.log([p.value for p in points]),
        weight=np.array([p.weight for p in points]),
        full_load=full_load,
        per_request=per_request,
        loaded_inputs=every.take(full_load) if len(full_load) else None,
        timed_inputs=every.take(per_request) if len(per_request) else None,
        metric=np.array([METRICS.index(points[i].metric) for i in per_request], dtype=np.int64),
        engine=every.engine,
        kernel=every.kernel,
        classes=every.bandwidth.max(axis=0) > 0,
    )


def places() -> dict[str, NDArray[np.int64]]:
    """Positions of each family of constants in the vector."""
    indices, at = {}, 0
    for f in fields(Constants):
        indices[f.name] = np.arange(at, at + SIZES[f.name])
        at += SIZES[f.name]
    return indices


AT = places()


def start() -> tuple[Array, Array]:
    """Starts and widths; a width of 0 fixes the constant."""
    at, width = np.zeros(sum(SIZES.values())), np.zeros(sum(SIZES.values()))
    for name, ix in AT.items():
        at[ix], width[ix] = PRIORS[name]
    for (name, engine), value in STARTS.items():
        at[AT[name][ENGINES.index(engine)]] = np.log(value)
    for kernel in ("half", "fp32"):
        at[AT["eager_kernel"][KERNELS.index(kernel)]] = width[AT["eager_kernel"][KERNELS.index(kernel)]] = 0.0
    for kernel in ("int4-experts", "int8-experts"):
        width[AT["eager_kernel"][KERNELS.index(kernel)]] = UNRECORDED_WIDTH
    return at, width


def constants(x: Array) -> Constants:
    """The vector as named constants."""
    return Constants(**{name: x[ix] for name, ix in AT.items()})


def predict(x: Array, data: Data) -> Array:
    """Ln of what would be measured."""
    k = constants(x)
    out = np.zeros(len(data.points))
    if data.loaded_inputs is not None:
        out[data.full_load] = np.log(full_load_throughput(data.loaded_inputs, k))
    if data.timed_inputs is not None:
        c = data.timed_inputs
        t = time_serving(c, k)
        prefill_s, prompt_s = t.prefill.total, t.prefill.total + t.request_s
        whole_s = prefill_s + c.output_tokens * t.step.total + t.request_s
        rate = c.running_requests * c.output_tokens / whole_s
        by_metric = {
            "decode_tok_s": c.running_requests / t.step.total,
            "tpot_ms": t.step.total * 1e3,
            "itl_ms": t.step.total * 1e3,
            "ttft_ms": prompt_s * 1e3,
            "prefill_tok_s": c.running_requests * c.prompt_tokens / prefill_s,
            "e2e_output_tok_s": rate,
            "e2e_total_tok_s": rate * (c.prompt_tokens + c.output_tokens) / c.output_tokens,
            "request_ms": np.where(c.output_tokens > 1, whole_s, prompt_s) * 1e3,
            "samples_per_s": c.running_requests / prompt_s,
            "served_between": t.tpot_s * 1e3,
            "served_first": t.first_token.total * 1e3,
        }
        table = [by_metric[metric] for metric in METRICS]
        out[data.per_request] = np.log(np.stack(table)[data.metric, np.arange(len(c))])
    return out


def jacobian(x: Array, data: Data, base: Array, free: NDArray[np.bool_]) -> Array:
    """Derivatives of `predict`, one column per constant."""
    jacobian = np.zeros((len(base), len(x)))
    rows = np.arange(len(base))
    keys = {len(ENGINES): data.engine, len(KERNELS): data.kernel}
    for ix in AT.values():
        key = keys.get(len(ix))
        if key is not None and free[ix].any():
            shifted_x = x.copy()
            shifted_x[ix] += STEP
            jacobian[rows, ix[key]] = (predict(shifted_x, data) - base) / STEP
        elif key is None:
            for i in ix:
                if free[i] and (len(ix) != len(CLASSES) or data.classes[i - ix[0]]):
                    shifted_x = x.copy()
                    shifted_x[i] += STEP
                    jacobian[:, i] = (predict(shifted_x, data) - base) / STEP
    return jacobian


def minimise(
    errors: Callable[[Array], Array],
    start: Array,
    pull: Array,
    *,
    first: Array | None = None,
    jacobian: Callable[[Array], Array] | None = None,
    tolerance: float = 1e-4,
) -> tuple[Array, float, int]:
    """The x that minimises Σ ρ(errors(x)) + Σ ((x - start) · pull)², the sum there, and how many evaluations it took.

    Args:
        errors: weighted logarithmic errors at x, shape (points,).
        start: where the constants are held, shape (constants,).
        pull: how firmly, the same shape.
        first: where to begin, `start` by default.
        jacobian: derivatives of `errors`, shape (points, constants); by finite differences if it is not given.
        tolerance: it stops when a step gains less than this share of the sum.

    Raises:
        RuntimeError: the sum still falls after 60 evaluations.
    """
    priors = np.diag(pull)

    def residuals(x: Array) -> Array:
        return np.concatenate([errors(x), (x - start) * pull])

    def slopes(x: Array) -> Array:
        return np.concatenate([jacobian(x), priors]) if jacobian is not None else np.empty(0)

    def loss(squares: Array) -> Array:
        """ρ, ρ' and ρ'' as scipy takes them: `soft_l1` for the points, plain squares for the priors; shape (3, points + constants)."""
        root = np.sqrt(1 + squares)
        rho = np.stack([2 * (root - 1), 1 / root, -0.5 / root**3])
        of_priors = slice(len(squares) - len(start), None)
        rho[:, of_priors] = np.stack([squares, np.ones_like(squares), np.zeros_like(squares)])[:, of_priors]
        return rho

    solution = least_squares(
        residuals,
        start if first is None else first,
        jac="2-point" if jacobian is None else slopes,
        loss=loss,
        f_scale=F_SCALE,
        x_scale=1 / pull,
        ftol=tolerance,
        xtol=None,
        gtol=None,
        max_nfev=MOST_EVALUATIONS,
    )
    if not solution.success:
        raise RuntimeError(f"the fit still gains after {solution.nfev} evaluations")
    return solution.x, 2 * float(solution.cost), int(solution.nfev)


def fit(data: Data, x: Array | None = None, *, tolerance: float = 1e-4) -> tuple[Array, float, int]:
    """The constants, the cost, and how many evaluations it took; begins at `x`, or at the starts of the priors.

    Raises:
        RuntimeError: see `minimise`.
    """
    at, width = start()
    is_free = width > 0

    def insert_part(part: Array) -> Array:
        x = at.copy()
        x[is_free] = part
        return x

    def errors(part: Array) -> Array:
        return (predict(insert_part(part), data) - data.log_value) * data.weight

    def slopes(part: Array) -> Array:
        x = insert_part(part)
        return jacobian(x, data, predict(x, data), is_free)[:, is_free] * data.weight[:, None]

    first = None if x is None else x[is_free]
    part, cost, evaluations = minimise(errors, at[is_free], RIDGE / width[is_free], first=first, jacobian=slopes, tolerance=tolerance)
    return insert_part(part), cost, evaluations


ROUNDS = 4
LARGE_GROUP = 100
"""A group with more points than this is left out alone."""
FOLDS = 12
THINNED = 2
"""Of the served points, which are many of few models, the fits without a group take every second one, with as much weight as both."""


def folds(groups: list[str], count: int = FOLDS) -> list[str]:
    """Groups dealt out to folds that are left out together: large groups alone, the others in turn, largest first."""
    sizes = Counter(groups).most_common()
    small = [name for name, size in sizes if size <= LARGE_GROUP]
    fold = {name: f"fold {i % count}" for i, name in enumerate(small)}
    return [fold.get(name, name) for name in groups]


def _thin(points: list[Point]) -> list[Point]:
    """Every second point of each metric."""
    counts: Counter[str] = Counter()
    thin = []
    for p in points:
        counts[p.metric] += 1
        if counts[p.metric] % THINNED:
            thin.append(p)
    return thin


def step_without(data: Data, x: Array, slopes: Array, inside: NDArray[np.bool_]) -> Array:
    """The fit without some points, by the derivatives at its solution (Gauss-Newton): a start for the fit without them."""
    at, width = start()
    is_free, keep = width > 0, ~inside & (data.weight > 0)
    kept, pull = slopes[keep][:, is_free] * data.weight[keep, None], RIDGE / width[is_free]
    residual = ((predict(x, data) - data.log_value) * data.weight)[keep]
    moved = np.zeros(int(is_free.sum()))
    for _ in range(ROUNDS):
        weight = 1 / np.sqrt(1 + ((residual + kept @ moved) / F_SCALE) ** 2)
        normal = (kept * weight[:, None]).T @ kept + np.diag(pull**2)
        gradient = (kept * weight[:, None]).T @ residual + pull**2 * (x - at)[is_free]
        moved = np.clip(-np.linalg.solve(normal, gradient), -1, 1)
    beyond = x.copy()
    beyond[is_free] += moved
    return beyond


def left_out(data: Data, groups: list[str], x: Array) -> Array:
    """ln(predicted / measured) of every point under constants fitted without its group (without its fold, `folds`)."""
    error = np.zeros(len(groups))
    names = np.array(folds(groups))
    slopes = jacobian(x, data, predict(x, data), start()[1] > 0)
    for name in dict.fromkeys(names.tolist()):
        inside = names == name
        rest_of_data = [p for p, out in zip(data.points, inside, strict=True) if not out and p.weight]
        of_servers = [replace(p, weight=p.weight * THINNED**0.5) for p in _thin([p for p in rest_of_data if p.source == "served"])]
        first = step_without(data, x, slopes, inside)
        rest, _, _ = fit(columns([*of_servers, *(p for p in rest_of_data if p.source != "served")]), first, tolerance=1e-3)
        group = columns([p for p, take in zip(data.points, inside, strict=True) if take])
        error[inside] = predict(rest, group) - group.log_value
    return error
