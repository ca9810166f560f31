"""Fit the constants of training on published runs; judge memory on stacks, and speed on models, that the fit has not seen.

    python -m scripts.check_training FACTS              the errors, stack by stack; and verdicts on runs that ran out of memory
    python -m scripts.check_training FACTS --all        every run with its error
    python -m scripts.check_training FACTS --write      also write lib/data/training_constants.json
    python -m scripts.check_training FACTS --record     also write the errors into docs/accuracy.json

The law has no constant for a model or a method. The fit has three shares of torch's allocator for the typical value: equal lengths; varying
lengths with layers that are recomputed; varying lengths with activations that are kept. A share that fewer than three runs show is 0. The
upper estimate is one factor on the typical value, a quantile of reserved over typical bytes of all runs. All stacks are fitted together,
and this project's runs with them. A stack is judged by constants that have not seen it; a stack that alone has runs of a kind, and this
project's runs, model by model. The curve of the quantile against the median excess is printed. The constants of `lib.speed.training` are
fitted by least squares of logarithms on published steps and on those of this project (`scripts/own_points.py`). A model's runs are weighted
by the root of their number; those of rollouts by the trainer's own model on the rollouts of this project. No run of verl or NeMo RL is in a
fit (`scripts/check_rl.py`).
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lib import catalog
from lib.errors import UnsupportedModel
from lib.laws.runtime import CUDA_CONTEXT
from lib.laws.training import StepPart
from lib.memory.allocator import AllocatorConstants, fragmented_bytes
from lib.memory.training import TrainingMemory, check_training, estimate_training, step_peaks
from lib.model.spec import ModelSpec
from lib.speed.training_constants import SpeedConstants
from lib.speed.training_hardware import judge_fit
from lib.units import GIB, Bytes
from lib.workload import TrainingRequest
from scripts.accuracy import record
from scripts.own_points import MEASURED, own_runs
from scripts.sharded_points import print_sharded
from scripts.training_points import Run, check_counts, failed_runs, notebook_runs, other_runs, single_device_runs
from scripts.training_speed_fit import COMMAND, OWN, fit_rollouts, judge_rollouts, report_speed

OUTPUT = Path(__file__).resolve().parent.parent / "lib" / "data" / "training_constants.json"
CHECKED = "2026-11-26"
TOO_LOW = -0.1
LEAST_RUNS = 3
"""Runs of a kind that a share is fitted on; and that other stacks need, before a stack is left out whole."""
FIXED = Bytes(GIB // 2)
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


TYPICAL, UPPER = 0.75, 0.97
"""Quantiles of what runs reserve. Typical: an error downwards weighs three times an error upwards, because a run that ends for want of
memory costs more than a card that is larger than needed (a judgement). Upper: the lowest of `CURVE` at which 95 % of the runs that were
left out stay below the upper estimate."""
CURVE = (0.90, 0.93, 0.95, 0.96, 0.97, 0.98)
KINDS = ("equal", "varying", "varying_kept")


class RunSizes(NamedTuple):
    """A run as the fit sees it: bytes of its five moments, their bytes that fragment, and the kind of its share (index in `KINDS`)."""

    tensors: Floats
    fragmented: Floats
    kind: int
    reserved: int
    source: str
    informs: bool
    """Whether its share is fitted on it: equal lengths whose activations are kept leave few bytes that fragment."""

    def estimate(self, share: float) -> float:
        """Bytes that are typically reserved with this share."""
        return float(np.max(self.tensors + share * self.fragmented) + FIXED)


def measure_run(run: Run) -> RunSizes:
    """The sizes of a run's five moments."""
    peaks = step_peaks(run.spec, run.request)
    kind = 0 if run.request.packing else 1 if run.request.checkpointing != "none" else 2
    tensors = np.asarray([float(sum(peak.values())) for peak in peaks])
    fragmented = np.asarray([float(fragmented_bytes(peak, run.request)) for peak in peaks])
    return RunSizes(tensors, fragmented, kind, run.reserved_bytes, run.source, kind > 0 or run.request.checkpointing != "none")


SHARES = np.linspace(0, 4, 401)
FACTORS = np.linspace(1, 2, 401)


def _pinball(errors: Floats, quantile: float) -> Floats:
    return np.where(errors > 0, quantile * errors, (quantile - 1) * errors)


def fit_share(runs: Sequence[RunSizes], kind: int) -> float:
    """The share of one kind of run, by the pinball loss of the logarithms of reserved over typical bytes; each stack weighs the same."""
    shown = [run for run in runs if run.kind == kind and run.informs]
    if len(shown) < LEAST_RUNS:
        return 0.0
    weights = np.asarray([1 / sum(other.source == run.source for other in runs) for run in shown])

    def loss(share: float) -> float:
        errors = np.asarray([math.log(run.reserved / run.estimate(share)) for run in shown])
        return float(np.sum(weights * _pinball(errors, TYPICAL)))

    return round(float(min(SHARES, key=loss)), 2)


def fit(runs: Sequence[Run], upper: float = UPPER) -> AllocatorConstants:
    """The three shares, and the factor of the upper estimate at a quantile, where every run weighs the same."""
    sizes = [measure_run(run) for run in runs]
    equal, varying, varying_kept = shares = [fit_share(sizes, kind) for kind in range(len(KINDS))]
    ratios = np.asarray([one.reserved / one.estimate(shares[one.kind]) for one in sizes])
    factor = min(FACTORS, key=lambda x: float(np.sum(_pinball(np.log(ratios / x), upper))))
    return AllocatorConstants(equal, varying, varying_kept, FIXED, round(float(factor), 3))


def measured_here() -> list[Run]:
    """The runs of this project, apart from pictures.

    Lengths varied for a few steps only, in which the allocator had not grown, so these runs are left out too.
    """
    return [
        Run(source=OWN, model=one.spec.id, spec=one.spec, request=one.request, reserved_bytes=one.row["reserved"])
        for one in own_runs(MEASURED)
        if one.kind != "diffusion" and one.request.packing
    ]


def judge(runs: Sequence[Run], upper: float = UPPER) -> list[Judged]:
    """Every run by constants that have not seen its stack; nor its model, where it is ours or no other stack has three runs of its kind."""
    kinds = {id(run): measure_run(run).kind for run in runs}
    results, fits = [], dict[tuple[str, str], AllocatorConstants]()
    for run in runs:
        others = [other for other in runs if other.source != run.source and kinds[id(other)] == kinds[id(run)]]
        by_source = run.source != OWN and len(others) >= LEAST_RUNS  # this project measured several stacks
        left_out = ("source", run.source) if by_source else ("model", run.model)
        if left_out not in fits:
            name, value = left_out
            fits[left_out] = fit([other for other in runs if getattr(other, name) != value], upper)
        results.append(Judged(run=run, memory=estimate_training(run.spec, run.request, fits[left_out])))
    return results


def _line(name: str, runs: Sequence[Judged]) -> str:
    errors = [one.error for one in runs]
    low = sum(error < TOO_LOW for error in errors) / len(errors)
    above = [one.high / one.run.reserved_bytes - 1 for one in runs]
    covered = sum(error >= 0 for error in above) / len(runs)
    return (
        f"{name:20} {len(runs):5} {statistics.median(map(abs, errors)):8.1%} {statistics.median(errors):+8.1%} {low:8.0%} "
        f"{covered:8.0%} {statistics.median(above):+8.1%}"
    )


def _print_curve(runs: Sequence[Run]) -> None:
    """Coverage and median excess of the upper estimate by the quantile of its fit, left out: all runs, and those of one source apart."""
    print(f"\n{'quantile of the fit':20} {'runs':>5} {'covered':>8} {'excess':>8}   without {APART}: covered, excess; {APART} alone")
    for quantile in CURVE:
        judged = judge(runs, quantile)
        groups = (judged, [one for one in judged if one.run.source != APART], [one for one in judged if one.run.source == APART])
        covered = [sum(one.high >= one.run.reserved_bytes for one in group) / len(group) for group in groups]
        excess = [statistics.median(one.high / one.run.reserved_bytes - 1 for one in group) for group in groups]
        rest = "   ".join(f"{share:7.1%} {above:+7.1%}" for share, above in zip(covered[1:], excess[1:], strict=True))
        print(f"{quantile:<20} {len(runs):5} {covered[0]:8.1%} {excess[0]:+8.1%}   {rest}")


APART = "peft-metamath"
"""The one source whose batches were shorter than the limit that it states: mean 210 tokens, limit 768."""


def rule_of_thumb(run: Run) -> float:
    """Bytes by LLaMA-Factory's table: GB for each billion of parameters (README.md, Hardware Requirement, at 00409ff28)."""
    by_method = {"full": 8.0 if run.request.precision == "bf16" else 18.0, "qlora": 0.5}
    return by_method.get(run.request.method, 2.0) * run.spec.parameters_total


def zero_bytes(run: Run) -> float | None:
    """Bytes by DeepSpeed's rule for full fine-tuning, 18 a parameter; it says nothing about adapters."""
    return 18.0 * run.spec.parameters_total if run.request.method == "full" else None


def _side_by_side(judged: Sequence[Judged]) -> list[dict[str, Any]]:
    """Print the errors of our estimate and of published rules on the same runs, and return them."""
    print(f"\n{'the same runs through':34} {'runs':>5} {'mean':>8} {'median':>8} {'too low':>8}")
    rows = {
        "this app, stacks left out": [(float(one.typical), one.run) for one in judged],
        "this app, upper estimate": [(float(one.high), one.run) for one in judged],
        "LLaMA-Factory's table": [(rule_of_thumb(one.run), one.run) for one in judged],
        "DeepSpeed, 18 bytes a parameter": [(size, one.run) for one in judged if (size := zero_bytes(one.run)) is not None],
    }
    figures = []
    for name, sizes in rows.items():
        errors = [size / run.reserved_bytes - 1 for size, run in sizes]
        low = sum(error < TOO_LOW for error in errors) / len(errors)
        mean, median = statistics.fmean(map(abs, errors)), statistics.median(map(abs, errors))
        print(f"{name:34} {len(errors):5} {mean:8.1%} {median:8.1%} {low:8.0%}")
        figures.append(
            {
                "estimate": name,
                "n": len(errors),
                "mean_error": round(mean, 4),
                "median_error": round(median, 4),
                "too_low": round(low, 4),
            }
        )
    return figures


def _verdict(spec: ModelSpec, request: TrainingRequest, card_bytes: int) -> str:
    """The app's verdict on this step on this card; "refused" where it estimates no training of the model."""
    try:
        check_training(spec, request)
    except UnsupportedModel:
        return "refused"
    return judge_fit(estimate_training(spec, request), card_bytes)


def _print_failed_runs(facts: Path) -> None:
    """Predictions for published runs that ran out of memory."""
    every = [(one.spec.pipeline is not None, _verdict(one.spec, one.request, one.card_bytes)) for one in failed_runs(facts)]
    print(f"\n{len(every)} published runs ended for want of memory; refused, risky or too large: {_share(v != 'fits' for _, v in every)}")
    for pipeline, name in ((True, "of pictures and clips, refused whatever their size"), (False, "of text, judged by their size")):
        verdicts = [verdict for is_pipeline, verdict in every if is_pipeline is pipeline]
        print(f"  {len(verdicts)} {name}: {', '.join(f'{verdicts.count(v)} {v}' for v in dict.fromkeys(verdicts))}")


def _print_notebooks(facts: Path) -> None:
    """Bytes after loading and verdicts on a T4, of Unsloth's notebooks."""
    runs = list(notebook_runs(facts))
    static = (StepPart.WEIGHTS, StepPart.UPCAST, StepPart.MASTERS, StepPart.ADAPTERS)
    errors, with_experts = [], []
    for run in runs:
        if run.loaded_gib is not None:
            parts = estimate_training(run.spec, run.request).parts
            errors.append((sum(parts.get(part, 0) for part in static) + FIXED) / GIB / run.loaded_gib - 1)
            if any(group.kind == "expert" for group in run.spec.tensors):
                with_experts.append(errors[-1])
    print(
        f"\nUnsloth, reserved after loading: {len(errors)} loads, median error {statistics.median(map(abs, errors)):.1%}; "
        f"{len(with_experts)} of them with experts, at most {max(map(abs, with_experts)):.1%}"
    )
    usable = catalog.load().accelerator("T4").memory_usable or 0
    verdicts = [judge_fit(estimate_training(run.spec, run.request), usable) for run in runs if run.ran_on == "T4"]
    print(f"{len(verdicts)} that ran on a T4, at 512 tokens: {', '.join(f'{verdicts.count(v)} {v}' for v in dict.fromkeys(verdicts))}")


def _on_smaller_cards(judged: Sequence[Judged]) -> None:
    """The judgement of published runs on every size of card: those with less than the run reserved, and those with enough."""
    sizes = sorted({card.memory_usable for card in catalog.load().accelerators.values() if card.kind == "gpu" and card.memory_usable})
    pairs = [(judge_fit(one.memory, size), one.run.reserved_bytes + CUDA_CONTEXT.typical > size) for one in judged for size in sizes]
    small, enough = ([verdict for verdict, less in pairs if less is below] for below in (True, False))
    print(f"runs × cards with less than was reserved: {len(small)}, called risky or too large: {_share(v != 'fits' for v in small)}")
    print(
        f"runs × cards with as much: {len(enough)}, called risky or fitting: {_share(v != 'no' for v in enough)}, "
        f"fitting: {_share(v == 'fits' for v in enough)}"
    )


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
    return {
        "checked": CHECKED,
        "memory": {
            "source": "scripts/check_training.py on published runs: "
            + ", ".join(sorted({run.source for run in runs} - {OWN}))
            + ", and on those of this project",
            "runs": len(runs),
            "quantiles": {"typical": TYPICAL, "upper": UPPER},
            **{f"{name}_share": getattr(constants, name) for name in KINDS},
            "fixed_bytes": constants.fixed,
            "upper_factor": constants.upper,
        },
    }


def _print_stacks(runs: Sequence[Run], left_out: Sequence[Judged], allocator: AllocatorConstants) -> None:
    """Errors by stack, left out and in the fit."""
    shipped = [Judged(run=run, memory=estimate_training(run.spec, run.request, allocator)) for run in runs]
    for title, judged in (("stack, left out", left_out), ("stack, in the fit", shipped)):
        print(f"{title:20} {'runs':>5} {'median':>8} {'bias':>8} {'too low':>8} {'covered':>8} {'high':>8}")
        for source in dict.fromkeys(one.run.source for one in judged):
            print(_line(source, [one for one in judged if one.run.source == source]))
        print(_line("all published", [one for one in judged if one.run.source != OWN]))
        print(_line("all", judged))


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("facts", type=Path)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--record", action="store_true")
    arguments = parser.parse_args()
    wrong = check_counts(arguments.facts)
    if wrong:
        parser.error(f"not the printed number of parameters: {', '.join(wrong)}")
    theirs = [*single_device_runs(arguments.facts), *other_runs(arguments.facts)]
    runs = [*theirs, *measured_here()]
    judged_here = judge(runs)
    results = [one for one in judged_here if one.run.source != OWN]
    if arguments.all:
        for one in sorted(results, key=lambda judged: abs(judged.error)):
            r = one.run.request
            print(
                f"{one.error:+7.1%}  {one.run.model:38} {r.method:5} {r.checkpointing:6} B {r.micro_batch} T {r.sequence_tokens:5} "
                f"{one.typical / GIB:7.2f} of {one.run.reserved_bytes / GIB:7.2f} GiB  {one.run.source}"
            )
    allocator = fit(runs)
    _print_stacks(runs, judged_here, allocator)
    _print_curve(runs)
    figures = _side_by_side(results)
    _print_failed_runs(arguments.facts)
    _on_smaller_cards(results)
    _print_notebooks(arguments.facts)
    print_sharded(arguments.facts)
    print(f"constants of all stacks: {allocator}")
    if arguments.record:
        record("training", COMMAND, figures)
    speed = report_speed(arguments.facts, records=arguments.record)
    written = [run for run in own_runs(MEASURED) if run.request.samples and not run.has_experts]
    rollouts, ratios = fit_rollouts(written), judge_rollouts(written)
    off = statistics.median(abs(ratio - 1) for ratio in ratios)
    print(f"rollouts by transformers, model left out: n = {len(ratios)}, median error {off:.1%}; {rollouts}")
    if arguments.write:
        content = _constants(allocator, runs) | {"speed": _speed(*speed)}
        content["rollout"] = {
            "source": "scripts/check_training.py on runs of this project",
            "runs": len(written),
            "constants": rollouts._asdict(),
        }
        OUTPUT.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
