"""Fit the constants of the laws of speed on published measurements, print how well they do, and write them into the catalog.

    python -m scripts.calibrate FACTS [--left-out [--shapes] [--write]]

FACTS is a folder with `measured_throughput.json`, `bench_throughput.json` and `served_throughput.csv`. `--left-out` also fits without each
model and each card in turn, small groups some at a time (some minutes), and prints the errors on what was left out; `--shapes` does so with
all models of one shape (as many layers of the same width) left out together. `--write` writes `lib/data/speed_constants.json` with the
ranges that cover 85 % of the left-out points, and the points for the tests.

The fit needs scipy, which stands in `tests/requirements.txt`: the app reads the constants and never fits them.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from lib.catalog import load
from lib.laws.forward_pass import Array
from lib.speed.hardware import card_class
from scripts import calibration_pictures
from scripts.calibration_bench import bench
from scripts.calibration_fit import Data, columns, fit, left_out, predict
from scripts.calibration_points import Point, public
from scripts.calibration_served import served_points
from scripts.calibration_write import COVERED, kinds, write


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
    """Print the tables of errors: what was measured how, then by engine, card, regime and metric."""
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
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    points = [*public(arguments.facts), *served_points(arguments.facts), *bench(arguments.facts)]
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
    pictures, work = calibration_pictures.read(arguments.facts)
    picture_constants = calibration_pictures.fit(pictures)
    alone = calibration_pictures.left_out(pictures)
    print("\n== pictures and clips")
    print(f"  fitted               {line(calibration_pictures.errors(picture_constants, pictures))}")
    print(f"  each model left out  {line(alone)}")
    if arguments.write:
        spread = round(float(np.percentile(np.abs(alone), COVERED)), 4)
        checked = json.loads((arguments.facts / "measured_throughput.json").read_text(encoding="utf-8"))["as_of"]
        print(json.dumps(write(x, data, errors, picture_constants | {"spread": spread, "work": work}, checked), indent=1))


if __name__ == "__main__":
    main()
