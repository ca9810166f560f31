"""Fit the time of a training step of pictures on published runs, print the errors, and write the constants.

    python -m scripts.check_picture_seconds FACTS --page FILE            SimpleTuner's page (SEGMENTED_CHECKPOINTING.md)
    python -m scripts.check_picture_seconds FACTS --page FILE --write    also write lib/data/picture_training_constants.json

Errors are those of a family that the fit has not seen (leave one family out). Left out of the fit are runs whose weights wait in the host's
memory, and checkpointed runs of AuraFlow and Chroma: their steps take up to ten times as long as without checkpoints on the faster card, so
something else than these passes decides.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.optimize import least_squares

from lib.catalog import Catalog, load
from lib.errors import AdvisorError
from lib.laws.picture_training import PLAIN, FormatTimes, PictureTimes, micro_step
from lib.memory.picture_training import check_picture_training
from lib.speed.picture_training import computing_seconds, recomputed_share
from scripts.picture_points import PictureRun, sweep_runs

OUTPUT = Path(__file__).resolve().parent.parent / "lib" / "data" / "picture_training_constants.json"
CARDS = {"H100-SXM-80GB": "H100-SXM", "L40S": "L40S"}
UNEXPLAINED = frozenset({"AuraFlow", "Chroma"})


class Timed(NamedTuple):
    """A run: its seconds, those that the card computes, blocks, and the share of them that is recomputed."""

    family: str
    variant: str
    card: str
    base: str
    step_s: float
    computes_s: float
    blocks: int
    share: float

    def predict(self, times: PictureTimes, form: FormatTimes = PLAIN) -> float:
        """The law's seconds."""
        return micro_step(self.computes_s, blocks=self.blocks, share=self.share, times=times, form=form)


def time_runs(runs: Sequence[PictureRun], catalog: Catalog) -> list[Timed]:
    """Every run that states its seconds and can be asked."""
    timed = []
    for run in runs:
        try:
            check_picture_training(run.spec, run.request)
        except AdvisorError:
            continue
        share = recomputed_share(run.spec, run.request)
        if not run.step_s or run.request.pictures.base_offload or (run.family in UNEXPLAINED and share) or run.spec.pipeline is None:
            continue
        computes, _, _ = computing_seconds(run.spec, run.request, catalog.accelerator(CARDS[run.card]))
        base = run.request.pictures.base_precision
        timed.append(Timed(run.family, run.variant, run.card, base, run.step_s, computes, run.spec.pipeline.blocks[0], share))
    return timed


def _fit(start: Sequence[float], predict: Callable[[Sequence[float], Timed], float], runs: Sequence[Timed]) -> list[float]:
    def misses(logs: Sequence[float]) -> list[float]:
        return [float(np.log(predict([float(np.exp(log)) for log in logs], run) / run.step_s)) for run in runs]

    return [float(f"{value:.4g}") for value in np.exp(least_squares(misses, np.log(start), loss="soft_l1", f_scale=0.2).x)]


def _left_out(
    start: Sequence[float], predict: Callable[[Sequence[float], Timed], float], runs: Sequence[Timed]
) -> list[tuple[Timed, float]]:
    """Each run with the ratio of predicted and measured seconds, by a fit without its family."""
    ratios = []
    for family in dict.fromkeys(run.family for run in runs):
        found = _fit(start, predict, [run for run in runs if run.family != family])
        ratios += [(run, predict(found, run) / run.step_s) for run in runs if run.family == family]
    return ratios


def _line(name: str, ratios: Sequence[float]) -> str:
    errors = [ratio - 1 for ratio in ratios]
    return f"{name:24} {len(errors):5} {statistics.median(map(abs, errors)):8.1%} {statistics.median(errors):+8.1%}"


def main() -> int:
    """Fit, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("facts", type=Path)
    parser.add_argument("--page", type=Path)
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    runs = time_runs(list(sweep_runs(arguments.facts, arguments.page)), load())

    def plain(values: Sequence[float], run: Timed) -> float:
        return run.predict(PictureTimes(*values))

    sixteen = [run for run in runs if run.base == "bf16"]
    times = PictureTimes(*_fit((1.0, 0.004, 1.5), plain, sixteen))
    ratios = _left_out((1.0, 0.004, 1.5), plain, sixteen)
    print(f"{'family left out':24} {'runs':>5} {'median':>8} {'bias':>8}")
    for family in dict.fromkeys(run.family for run in sixteen):
        print(_line(family, [ratio for run, ratio in ratios if run.family == family]))
    print(_line("base in bf16", [ratio for _, ratio in ratios]))
    formats, every = {}, [ratio for _, ratio in ratios]
    for base in ("fp8", "fp8-dynamic", "int8"):
        few = [run for run in runs if run.base == base]

        def formatted(values: Sequence[float], run: Timed) -> float:
            return run.predict(times, FormatTimes(*values))

        formats[base] = FormatTimes(*_fit((1.3, 1.6), formatted, few))
        out = [ratio for _, ratio in _left_out((1.3, 1.6), formatted, few)]
        print(_line(f"base in {base}", out))
        every += out
    print(_line("all", every))
    low, high = (float(f"{1 / np.quantile(every, share):.3g}") for share in (0.9, 0.1))
    if arguments.write:
        plain_json = {
            "what": "Seconds of a training step of pictures: lib/laws/picture_training.py",
            "source": "scripts/check_picture_seconds.py on SimpleTuner's sweep, SEGMENTED_CHECKPOINTING.md at bc8e6ab77 "
            "(2026-08-22), H100 and L40S",
            "checked": "2026-11-26",
            "runs": len(every),
            "median_error": round(statistics.median(abs(ratio - 1) for ratio in every), 3),
            "constants": times._asdict(),
            "formats": {name: factors._asdict() for name, factors in formats.items()},
            "range": [low, high],
        }
        OUTPUT.write_text(json.dumps(plain_json, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
