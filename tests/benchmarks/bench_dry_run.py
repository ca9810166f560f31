"""Closed forms beside executed architectures: one row for each of the bundled architectures and shapes, as the README states them.

    python -m tests.benchmarks.bench_dry_run [how many architectures]

One model of each architecture, the smallest; prompts of 1 · 512, 4 · 2048 and 16 · 256 tokens (or as many as the model takes), 64 tokens of
answer. It takes some minutes.
"""

from __future__ import annotations

import statistics
import sys
from collections import Counter

from lib.errors import AdvisorError
from lib.model import bundled
from lib.model.dry_run import dry_run
from lib.service.dry_run import DryRunArguments, inference_figures

SHAPES = ((1, 512), (4, 2048), (16, 256))
_OUTPUT = 64
_CLOSE = 0.05


def main(most: int) -> None:
    """Print the rows and a summary."""
    smallest: dict[str, str] = {}
    specs = {name: bundled.find_spec(name) for name in bundled.list_ids()}
    for name, spec in specs.items():
        if spec is None or spec.library != "transformers":
            continue
        other = specs.get(smallest.get(spec.architecture, ""))
        if other is None or spec.parameters_total < other.parameters_total:
            smallest[spec.architecture] = name
    rows: dict[str, list[float]] = {}
    for name in list(smallest.values())[:most]:
        spec, config = specs[name], bundled.find_config(name)
        if spec is None or config is None:
            continue
        for batch, tokens in SHAPES:
            prompt = max(1, min(tokens, (spec.context_limit or tokens + _OUTPUT) - _OUTPUT))
            try:
                run = dry_run(config, batch=batch, prompt_tokens=prompt, output_tokens=_OUTPUT)
            except AdvisorError as refused:
                print(f"| {spec.architecture} | {name} | {batch} · {prompt} | {refused} |", flush=True)  # noqa: T201 - a benchmark prints
                continue
            if run.inference is None:
                continue
            asked = DryRunArguments(model=name, prompt_tokens=prompt, output_tokens=_OUTPUT, batch_size=batch)
            figures = {f["name"]: f["ratio"] for f in inference_figures(run, run.inference, spec, asked)}
            if figures["peak"] is not None:
                rows.setdefault(spec.architecture, []).append(figures["peak"])
            cells = (figures.get(key) for key in ("cache at the end", "activations of the prompt", "peak", "prefill", "decode step"))
            words = " | ".join("–" if ratio is None else f"{ratio:.3f}" for ratio in cells)
            print(f"| {spec.architecture} | {name} | {batch} · {prompt} | {words} |", flush=True)  # noqa: T201
    close = Counter(all(abs(ratio - 1) <= _CLOSE for ratio in ratios) for ratios in rows.values())
    ratios = [ratio for one in rows.values() for ratio in one]
    peaks = f"median {statistics.median(ratios):.4f}, lowest {min(ratios):.3f}, highest {max(ratios):.3f}"
    print(f"{len(rows)} architectures, {len(ratios)} shapes: peak within 5 % in every shape of {close[True]}; {peaks}")  # noqa: T201


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
