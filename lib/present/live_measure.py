"""A measurement in words: the verdict, each figure beside its prediction, and what else was seen."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from typing import Any

from lib.present.cards import model_name
from lib.present.live_cards import behind, compared, in_words
from lib.present.live_figures import KINDS, beside, fine
from lib.present.markup import escaped
from lib.present.numbers import gib, whole

Found = Mapping[str, Any]

STAGES = {
    "starting": "A fresh process",
    "building": "Building the architecture",
    "weights": "Random weights on the device",
    "warm-up": "Warming up",
    "running": "Measured run",
}
"""The stages of a measurement, in order."""
_VERDICTS = {
    "confirmed": ("fits", "prediction confirmed"),
    "memory_off": ("lacks", "memory was off"),
    "speed_off": ("lacks", "speed was off"),
    "invalid": ("lacks", "not valid"),
}


def expected_card(run: Found, asked: str) -> str:
    """What is predicted of a run before it, and the memory that it needs beside what it may take."""
    guess = run["predicted"] | {"predicted": {**run["predicted"], "low": run["low"], "high": run["high"]}, "error_ratio": {}}
    cells = "".join(
        f"<div><dt>{figure.name}</dt><dd>{figure.measured}{f'<small>{figure.between}</small>' if figure.between else ''}</dd></div>"
        for figure in beside(guess)
    )
    needs = (
        f"weights {gib(run['weights_bytes'])} + cache {gib(run['kv_cache_bytes'])} + activations {gib(run['activation_bytes'])} + "
        f"the process's own {gib(run['runtime_bytes'])} = at most {gib(run['need_bytes'])}"
    )
    return (
        '<section class="card expected" aria-label="Expected of this run">'
        f'<p class="eyebrow">Predicted for {escaped(model_name(run["model"], asked))} in {escaped(run["precision"])}, '
        f"{whole(run['prompt_tokens'])} prompt and {whole(run['output_tokens'])} answer tokens</p>"
        f'<dl class="figures">{cells}</dl>'
        f'<p class="quiet"><em class="badge fits">memory fits</em> {needs}. A run may take {gib(run["allowed_bytes"])} of the '
        f"{gib(run['free_bytes'])} that are free. {_time(run)}</p></section>"
    )


def _time(run: Found) -> str:
    """How long it is predicted to take, beside how long a run may take; the device's own pace, probed at the start, decides."""
    guess = run["predicted"]
    if guess["ttft_s"] is None:
        return f"It may take {run['limit_s']:,.0f} s; the device's pace is tried first."
    seconds = guess["ttft_s"] + (run["output_tokens"] / guess["decode_tokens_per_s"] if guess["decode_tokens_per_s"] else 0.0)
    near = "" if seconds <= run["limit_s"] else " The device's pace is tried first, and decides: most likely the run will be refused."
    return f"Predicted time {fine(seconds)}; a run may take {run['limit_s']:,.0f} s.{near}"


def measure_card(run: Found, asked: str) -> str:
    """The result: what ran, the verdict, and every figure beside the prediction for exactly this run."""
    mark, word = _VERDICTS.get(run["verdict"]["code"], ("", run["verdict"]["code"]))
    name = model_name(run["model"], asked)
    what = f"{escaped(name)} with {run['weights']} weights in {escaped(run['precision'])}, on {escaped(run['device'])}"
    caption = f"{whole(run['prompt_tokens'])} prompt tokens, {whole(run['output_tokens'])} answer tokens: measured against predicted"
    return (
        '<section class="card run measured-card" aria-label="Measurement">'
        f'<p class="eyebrow">{what}</p>'
        f'<p class="headline"><em class="badge {mark}">{escaped(word)}</em> {escaped(run["verdict"]["message"])}</p>'
        f"{compared(run, caption)}{_parts(run)}{behind(run)}</section>"
    )


def _parts(run: Found) -> str:
    """What the prediction is made of, and what was seen beside it."""
    guess, details = run["predicted"], run["device_details"]
    parts = (
        f"Predicted peak: weights {gib(guess['weights_bytes'])}, cache {gib(guess['kv_cache_bytes'])}, "
        f"activations {gib(guess['activation_bytes'])}."
    )
    seen = f"Weights alone, measured: {gib(run['weights_bytes'])}, made in {fine(run['weights_s'])}."
    beside_it = f"The process held {gib(run['before_bytes'])} without the model." if run["before_bytes"] else ""
    kernel = f" attention {escaped(run['attention'])}," if run["attention"] else ""
    ran = f"{escaped(run['architecture'])},{kernel} torch {escaped(details['torch'])}, transformers {escaped(details['transformers'])}."
    return f'<p class="quiet">{parts} {seen} {beside_it}</p><p class="quiet">{ran}</p>'


def as_text_measure(run: Found, asked: str) -> str:
    """The result in plain words."""
    head = (
        f"{model_name(run['model'], asked)} with {run['weights']} weights in {run['precision']} on {run['device']}, "
        f"{run['prompt_tokens']} prompt and {run['output_tokens']} answer tokens"
    )
    return "\n".join([head, run["verdict"]["message"], *map(in_words, beside(run))])


def measure_csv(run: Found) -> str:
    """The figures as rows: name, measured, predicted, predicted / measured − 1."""
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(("figure", "measured", "predicted", "error_ratio"))
    for kind, _ in KINDS:
        writer.writerow((kind, run[kind], run["predicted"][kind], run["error_ratio"][kind]))
    return out.getvalue()
