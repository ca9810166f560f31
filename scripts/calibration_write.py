"""Writing what the calibration found: constants with their provenance, and points for the tests."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lib.laws.forward_pass import Array
from lib.speed.calibration import CLASSES, DATA, ENGINES, KERNELS, KEYS, QUANTITIES
from lib.speed.hardware import card_class
from scripts.calibration_fit import AT, Data
from scripts.calibration_points import CARDS, Point

TESTS = Path("tests/data/speed_points.json")
SOURCE = (
    "fit by scripts/calibrate.py to published measurements and raw result files of benchmarks (optimum-benchmark, LLM-Inference-Bench, "
    "bitsandbytes, GLM-4, MInference and others; as listed in measured_throughput.json and bench_throughput.json) and to the served "
    "means of InferenceX, as published in aiconfigurator-core 0.12 systems/silicon_sample.csv; vLLM on one H100 from ML.ENERGY "
    "(benchmark v3), pictures also from OneDiff, stable-fast, ModelOpt and ParaAttention"
)
COVERED = 85
POOL = 40
"""An engine's own range counts as much as that of all engines once it has this many points."""
EVERY = {"public": 4, "bench": 5, "served": 11, "field": 1}
OF_METRIC = {
    "ttft": {"served_first", "ttft_ms", "prefill_tok_s", "request_ms", "samples_per_s"},
    "tpot": {"served_between", "tpot_ms", "itl_ms", "decode_tok_s"},
    "throughput": {"e2e_output_tok_s", "e2e_total_tok_s", "full_load"},
}


ENCODERS = "ob-bge"
PROMPTS = {"prefill_tok_s", "ttft_ms"}
STEPS = {"decode_tok_s", "tpot_ms"}


def _of_engine(engine: str, test: Callable[[Point], bool]) -> Callable[[Point], bool]:
    return lambda p: p.engine == engine and test(p)


def kinds(points: list[Point]) -> dict[str, NDArray[np.bool_]]:
    """Which points belong to which row of the tables of errors; rows without points are left out."""
    tests: dict[str, Callable[[Point], bool]] = {
        "published points": lambda p: p.source == "public",
        "raw benchmark results": lambda p: p.source == "bench",
        "vllm on one H100, batch up to 16": lambda p: p.source == "field",
        "transformers, prefill": lambda p: (
            p.source == "bench" and p.engine == "transformers" and p.metric in PROMPTS and p.regime != ENCODERS
        ),
        "transformers, decode": lambda p: p.source == "bench" and p.engine == "transformers" and p.metric in STEPS,
        "served time per output token": lambda p: p.metric == "served_between",
        "served time per output token, dense models": lambda p: p.metric == "served_between" and not p.case["experts"],
        "served time to first token": lambda p: p.metric == "served_first",
    }
    for engine in ENGINES:
        tests[f"{engine}, published"] = _of_engine(engine, lambda p: p.source == "public")
        tests[f"{engine}, raw"] = _of_engine(engine, lambda p: p.source == "bench")
        tests[f"{engine}, served TPOT"] = _of_engine(engine, lambda p: p.metric == "served_between")
        tests[f"{engine}, served TTFT"] = _of_engine(engine, lambda p: p.metric == "served_first")
    classes = {name: np.array([test(p) for p in points]) for name, test in tests.items()}
    return {name: inside for name, inside in classes.items() if inside.any()}


def spread(points: list[Point], error: Array) -> dict[str, dict[str, float]]:
    """Half-widths in ln that 85 % of left-out points stay within, by quantity and engine, drawn toward the width of all engines."""
    widths: dict[str, dict[str, float]] = {}
    abs_errors = np.abs(error)
    engines = np.array([p.engine for p in points])
    for quantity in QUANTITIES:
        mine = np.array([p.metric in OF_METRIC[quantity] and p.weight > 0 for p in points])
        every = np.array([np.percentile(abs_errors[mine & (engines == e)], COVERED) for e in ENGINES if (mine & (engines == e)).any()])
        common = float(np.median(every))
        widths[quantity] = {}
        for engine in ENGINES:
            own = abs_errors[mine & (engines == engine)]
            width = float(np.percentile(own, COVERED)) if len(own) else common
            width = (len(own) * width + POOL * max(common, width)) / (len(own) + POOL)
            widths[quantity][engine] = round(width, 4)
    return widths


def measure_coverage(points: list[Point], error: Array, widths: dict[str, dict[str, float]]) -> float:
    """Share of the points that stay within their range."""
    inside = []
    for p, off in zip(points, np.abs(error), strict=True):
        quantity = next(q for q, metrics in OF_METRIC.items() if p.metric in metrics)
        inside.append(off <= widths[quantity][p.engine])
    return float(np.mean(inside))


def _measured_elsewhere(points: list[Point]) -> NDArray[np.bool_]:
    """Points whose engine was measured as often on other cards: else leaving out the card comes to leaving out the engine."""
    pairs = Counter((p.engine, p.accelerator) for p in points)
    engines = Counter(p.engine for p in points)
    return np.array([engines[p.engine] >= 2 * pairs[p.engine, p.accelerator] for p in points])


def summary(error: Array) -> dict[str, float]:
    """Median, 90th percentile and share within a factor of 2, rounded."""
    off = np.abs(np.exp(error) - 1)
    rows = {"points": len(error), "median": np.median(off), "p90": np.percentile(off, 90), "mean": off.mean()}
    return {name: round(float(value), 4) for name, value in rows.items()} | {
        "within_2x": round(float(np.mean(np.abs(error) < np.log(2))), 4)
    }


def write(x: Array, data: Data, errors: dict[str, Array], pictures: dict[str, Any], checked: str) -> dict[str, Any]:
    """Write `lib/data/speed_constants.json` and the points for the tests; returns what the summary says."""
    points = data.points
    off = np.abs(errors["each model left out"])
    elsewhere = _measured_elsewhere(points)
    off[elsewhere] = np.maximum(off, np.abs(errors["each card left out"]))[elsewhere]
    widths = spread(points, off)
    pairs = sorted({(p.engine, card_class(CARDS[p.card[0]])) for p in points})
    tables = {f"{title}: {name}": summary(error[inside]) for title, error in errors.items() for name, inside in kinds(points).items()}
    content = {
        "what": "Constants of the laws of speed (lib/speed/calibration.py); shares as logits, times and factors as natural logarithms.",
        "source": SOURCE,
        "checked": checked,
        "points": len(points),
        "engines": ENGINES,
        "classes": CLASSES,
        "forms": KERNELS,
        "constants": {KEYS.get(name, name): [round(float(v), 5) for v in x[ix]] for name, ix in AT.items()},
        "spread": {KEYS.get(quantity, quantity): of_engines for quantity, of_engines in widths.items()},
        "covered": {title: round(measure_coverage(points, error, widths), 4) for title, error in errors.items()},
        "measured": pairs,
        "errors": tables,
        "pictures": pictures,
    }
    DATA.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    _write_points(points, errors["each model left out"])
    return {"covered": content["covered"], "spread": widths}


def _write_points(points: list[Point], error: Array) -> None:
    """Every fourth public and every eleventh served point, as rows under one list of names."""
    places = []
    for source, every in EVERY.items():
        places += [i for n, i in enumerate(i for i, p in enumerate(points) if p.source == source and p.weight) if n % every == 0]
    names = list(points[0].case)
    rows = [
        {
            "case": [round(float(points[i].case[name]), 4) for name in names],
            "card": points[i].card,
            **{key: getattr(points[i], key) for key in ("metric", "value", "weight", "model", "accelerator", "regime", "source")},
            "left_out": round(float(error[i]), 4),
        }
        for i in places
    ]
    TESTS.parent.mkdir(exist_ok=True)
    body = ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows)
    TESTS.write_text('{"names":' + json.dumps(names) + ',\n"points":[\n' + body + "\n]}\n", encoding="utf-8")


def replace_pictures(pictures: dict[str, Any]) -> None:
    """Write the constants of pictures and leave the others as they are."""
    content = json.loads(DATA.read_text(encoding="utf-8")) | {"pictures": pictures}
    DATA.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


PICTURE_TESTS = Path("tests/data/picture_points.json")
_CASE = (
    "way", "units", "group", "memory", "flop", "attention_flop", "product_bytes_per_flop", "decoder_flop", "evaluations", "batch", "peak",
    "attention_peak", "bandwidth", "seconds", "model", "card", "source",
)  # fmt: skip


def write_picture_points(points: list[dict[str, Any]], fitted: Array, alone: Array) -> None:
    """Every eager row with its errors: fitted, and with its model left out."""
    rows = [
        [*(float(f"{p[name]:.5g}") if isinstance(p[name], float) else p[name] for name in _CASE), round(float(a), 4), round(float(b), 4)]
        for p, a, b in zip(points, fitted, alone, strict=True)
        if p["way"] == "eager"
    ]
    names = json.dumps([*_CASE, "fitted", "left_out"])
    PICTURE_TESTS.write_text(
        '{"names":' + names + ',"rows":[\n' + ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows) + "\n]}\n"
    )
