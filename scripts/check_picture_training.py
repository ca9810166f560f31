"""Ask the law of training pictures about every published run of which model and shape are known, and print the errors.

    python -m scripts.check_picture_training FACTS                  SimpleTuner's rows of the facts, CogVideoX, FLUX.2-klein
    python -m scripts.check_picture_training FACTS --page FILE      SimpleTuner's own page (SEGMENTED_CHECKPOINTING.md), which has more
    python -m scripts.check_picture_training FACTS --all            every run with its error

No constant is fitted by a program. Three choices were made with these runs in view: the bytes that products of int8 (1 an element) and fp8
(2 a weight) keep, the size of LTX's clips, and autocast for SimpleTuner. A peak of tensors is compared with
`allocated_bytes`, a peak that the allocator reserved with the typical reserved bytes.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from lib.errors import AdvisorError
from lib.memory.picture_training import check_picture_training, estimate_picture_training
from lib.units import GIB
from scripts.picture_points import PictureRun, peft_runs, sweep_runs, video_runs

TOO_LOW = -0.1


class Judged(NamedTuple):
    """A run and the bytes that the law says: as it is compared, and at most."""

    run: PictureRun
    bytes_: int
    high: int

    @property
    def error(self) -> float:
        """Relative error."""
        return self.bytes_ / self.run.peak_bytes - 1


def judge(runs: Sequence[PictureRun]) -> tuple[list[Judged], list[tuple[PictureRun, str]]]:
    """Every run that is answered, and those that are refused with the sentence."""
    judged, refused = [], []
    for run in runs:
        try:
            check_picture_training(run.spec, run.request)
        except AdvisorError as error:
            refused.append((run, str(error)))
            continue
        memory = estimate_picture_training(run.spec, run.request)
        judged.append(Judged(run, memory.reserved.typical if run.reserved else memory.allocated_bytes, memory.reserved.high))
    return judged, refused


def _line(name: str, judged: Sequence[Judged]) -> str:
    errors = [one.error for one in judged]
    low = sum(error < TOO_LOW for error in errors) / len(errors)
    covered = sum(one.high >= one.run.peak_bytes for one in judged) / len(judged)
    return (
        f"{name:28} {len(errors):5} {statistics.median(map(abs, errors)):8.1%} {statistics.median(errors):+8.1%} {low:8.0%} {covered:8.0%}"
    )


def main() -> int:
    """Print the table; 1 where a run is refused."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("facts", type=Path)
    parser.add_argument("--page", type=Path)
    parser.add_argument("--all", action="store_true")
    arguments = parser.parse_args()
    judged, refused = judge([*sweep_runs(arguments.facts, arguments.page), *video_runs(arguments.facts), *peft_runs(arguments.facts)])
    for one in judged if arguments.all else ():
        print(f"{one.error:+7.1%} {one.bytes_ / GIB:7.2f} of {one.run.peak_bytes / GIB:7.2f} GiB  {one.run.family}, {one.run.variant}")
    print(f"{'family':28} {'runs':>5} {'median':>8} {'bias':>8} {'too low':>8} {'covered':>8}")
    for family in dict.fromkeys(one.run.family for one in judged):
        print(_line(family, [one for one in judged if one.run.family == family]))
    for base in dict.fromkeys(one.run.request.pictures.base_precision for one in judged):
        print(_line(f"base in {base}", [one for one in judged if one.run.request.pictures.base_precision == base]))
    print(_line("all", judged))
    for run, sentence in refused:
        print(f"refused: {run.family}, {run.variant}: {sentence}")
    return 1 if refused else 0


if __name__ == "__main__":
    raise SystemExit(main())
