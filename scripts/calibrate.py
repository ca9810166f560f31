"""Fit the constants of the laws of speed on published measurements, print how well they do, and write them into the catalog.

    python -m scripts.calibrate FACTS [--left-out [--shapes] [--write] [--record]]
    python -m scripts.calibrate FACTS --pictures [--write] [--record]       pictures and clips alone

FACTS is a folder with the files that `scripts/calibration_*.py` name. `--left-out` also fits without each model and each card in turn,
small groups some at a time (some minutes), and prints the errors on the left-out points; `--shapes` does so with all models of one shape
(as many layers of the same width) left out together. `--write` writes `lib/data/speed_constants.json` with the ranges that cover 85 % of
the left-out points, and the points for the tests. `--record` writes the errors into `docs/accuracy.json`.

The fit needs scipy (`tests/requirements.txt`): the app reads the constants and never fits them.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from lib.catalog import load
from lib.laws.forward_pass import Array
from lib.speed.hardware import card_class
from scripts import calibration_pictures
from scripts.accuracy import record, summarize_errors
from scripts.calibration_bench import bench
from scripts.calibration_field import field
from scripts.calibration_fit import Data, columns, fit, left_out, predict
from scripts.calibration_points import Point, public
from scripts.calibration_served import served_points
from scripts.calibration_write import COVERED, kinds, replace_pictures, write, write_picture_points


def line(error: Array) -> str:
    """Errors of one group: median and 90th percentile of |predicted/measured - 1|, share within a factor of 2."""
    off = np.abs(np.exp(error) - 1)
    double = np.mean(np.abs(error) < np.log(2))
    return (
        f"n={len(error):5d}  median {np.median(off):6.1%}  p90 {np.percentile(off, 90):7.1%}  within 2x {double:6.1%}"
        f"  mean {off.mean():6.1%}  bias {np.median(error):+.2f}"
    )


def _card_class(point: Point) -> str:
    return card_class(load().accelerators[point.card[0]])


GROUPS: dict[str, Callable[[Point], str]] = {
    "engine": lambda p: p.engine,
    "card": _card_class,
    "regime": lambda p: p.regime,
    "metric": lambda p: p.metric,
}


def report(title: str, error: Array, data: Data, groups: tuple[str, ...] = tuple(GROUPS)) -> None:
    """Print the tables of errors: by quantity and kind of measurement, then by engine, card, regime and metric."""
    print(f"\n== {title}")
    for name, inside in kinds(data.points).items():
        print(f"  {name:42s}{line(error[inside])}")
    for group in groups:
        names = np.array([GROUPS[group](p) for p in data.points])
        for name in np.unique(names):
            print(f"    {group:8s}{name:26s}{line(error[names == name])}")


def main() -> None:
    """Fit, print, and write if asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("facts", type=Path)
    parser.add_argument("--left-out", action="store_true")
    parser.add_argument("--shapes", action="store_true")
    parser.add_argument("--pictures", action="store_true")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--record", action="store_true")
    arguments = parser.parse_args()
    if arguments.pictures:
        picture_constants = fit_pictures(arguments.facts, recorded=arguments.record)
        if arguments.write:
            replace_pictures(picture_constants)
        return
    points = [*public(arguments.facts), *served_points(arguments.facts), *bench(arguments.facts), *field(arguments.facts)]
    data = columns(points)
    began = time.perf_counter()
    x, cost, evaluations = fit(data)
    print(f"{len(points)} points, {len(x)} constants; cost {cost:.2f} after {evaluations} evaluations, {time.perf_counter() - began:.0f} s")
    report("fitted to all points", predict(x, data) - data.log_value, data)
    if not arguments.left_out:
        return
    errors = {"fitted to all points": predict(x, data) - data.log_value}
    errors["each model left out"] = left_out(data, [p.model for p in points], x)
    report("each model left out", errors["each model left out"], data)
    if arguments.shapes:
        shapes = left_out(data, [f"{p.case['layers']:g} × {p.case['hidden']:g}" for p in points], x)
        report("each shape left out", shapes, data, ())
    errors["each card left out"] = left_out(data, [p.accelerator for p in points], x)
    report("each card left out", errors["each card left out"], data, ("card",))
    print(f"{time.perf_counter() - began:.0f} s")
    picture_constants = fit_pictures(arguments.facts, recorded=arguments.record)
    if arguments.record:
        record_speed(data, errors["fitted to all points"], errors["each model left out"])
    if arguments.write:
        checked = json.loads((arguments.facts / "measured_throughput.json").read_text(encoding="utf-8"))["as_of"]
        print(json.dumps(write(x, data, errors, picture_constants, checked), indent=1))


def record_speed(data: Data, fitted: Array, left_out: Array) -> None:
    """Record the errors by kind of measurement and by engine, fitted and with each model left out."""
    rows = [
        {
            "kind": kind,
            "fitted_median_error": summarize_errors(np.exp(fitted[inside]))["median_error"],
            **summarize_errors(np.exp(left_out[inside])),
        }
        for kind, inside in kinds(data.points).items()
    ]
    record("speed", "python -m scripts.calibrate FACTS --left-out --record", rows)


def fit_pictures(facts: Path, *, recorded: bool = False) -> dict[str, Any]:
    """Fit the constants of pictures and clips, print how well they do, and write the points for the tests.

    The app runs pipelines eagerly, so its ranges are those of eager rows: of left-out models, and for cards with few rows those of
    left-out cards of classes that other cards represent.
    """
    points, work = calibration_pictures.read(facts)
    constants = calibration_pictures.fit(points)
    own, alone, new_card = (
        calibration_pictures.errors(constants, points),
        calibration_pictures.left_out(points),
        calibration_pictures.left_out(points, "card"),
    )
    eager = np.array([p["way"] == "eager" for p in points])
    print("\n== pictures and clips: fitted / each model left out / each card left out")
    groups = {"all": np.ones(len(points), bool), "eager": eager, "compiled": np.array([p["way"] == "compiled" for p in points])}
    groups |= {f"eager, {name}": eager & np.array([p["group"] == name for p in points]) for name in sorted({p["group"] for p in points})}
    groups |= {f"source {name}": np.array([p["source"] == name for p in points]) for name in sorted({p["source"] for p in points})}
    groups |= {f"eager, {name}": eager & np.array([p["model"] == name for p in points]) for name in sorted({p["model"] for p in points})}
    for name, inside in groups.items():
        if inside.any():
            for title, error in (("fitted", own), ("model left out", alone), ("card left out", new_card)):
                print(f"  {name:60s}{title:16s}{line(error[inside])}")
    peers = {group: {p["card"] for p in points if p["group"] == group} for group in {p["group"] for p in points}}
    others = np.array([len(peers[p["group"]]) > 1 and p["way"] in {"eager", "compiled"} for p in points])
    covered = [float(np.percentile(np.abs(error), COVERED)) for error in (alone[eager], new_card[others])]
    rows = Counter(p["card"] for p, take in zip(points, eager, strict=True) if take)
    write_picture_points(points, own, alone)
    if recorded:
        rows_of = {name: inside for name, inside in groups.items() if inside.any() and name.startswith("eager") and name.count(",") <= 1}
        shown = [{"group": name, **summarize_errors(np.exp(alone[inside]))} for name, inside in rows_of.items()]
        record("pictures", "python -m scripts.calibrate FACTS --pictures --record", shown)
    return constants | {
        "spread": round(covered[0], 4),
        "spread_few_rows": round(covered[1], 4),
        "rows": dict(sorted(rows.items())),
        "work": work,
    }


if __name__ == "__main__":
    main()
