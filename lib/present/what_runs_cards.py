"""*What runs here*: the finding in a sentence, the models that run, the nearest misses, and the counts of the refused."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from markupsafe import Markup

from lib.present.cards import memory_words, speed_figure
from lib.present.html import render_html, with_small
from lib.present.markup import hint_note
from lib.present.numbers import count, count_words, gib, whole
from lib.present.sentences import sentence
from lib.present.tables import Key, TableTools, csv_text, show_table

if TYPE_CHECKING:
    from lib.answers.what_runs import MissedModel, RunningModel, WhatRunsAnswer

SHOWN = 12
"""Rows that are shown until more are asked for."""
_REFUSED = {
    "too_small": "need more memory",
    "host_too_small": "need more memory of the machine, for what the card does not hold",
    "context_too_short": "read fewer tokens than asked",
    "cpu_too_slow": "are too slow on a CPU",
    "too_slow": "miss the speed that you asked for",
    "first_token_late": "miss the time to first token that you asked for",
    "quota_too_small": "exceed the ZeroGPU quota",
    "traffic_exceeds": "cannot serve the traffic",
    "no_engine": "have no engine for this hardware",
    "engine_not_here": "do not run with the chosen engine",
    "engine_form": "have no form that the engine loads here",
    "dtype_missing": "need a number format that the hardware lacks",
    "sparse_attention": "use sparse attention that the engine lacks here",
    "disk_too_small": "exceed the disk",
}
"""Codes of the first obstacle, after a number of models."""
_OTHER = "do not run for other reasons"


def finding(answer: WhatRunsAnswer) -> str:
    """How many models run, and the first of them."""
    head = f"On {answer.name} {answer.models_total:,} of {count_words(answer.considered, 'model')} run"
    if not answer.models:
        return f"{head}."
    first = answer.models[0]
    pace = speed_figure(first.speed)
    figures = ", ".join([count(first.parameters_total) + " parameters", *([pace[1]] if pace else [])])
    runs_well = first.verdict in {"comfortable", "usable"}
    kind = "the largest comfortable or usable one" if runs_well else f"the largest of verdict {first.verdict}"
    return f"{head}; {kind} is {first.model} ({figures})."


def finding_card(answer: WhatRunsAnswer) -> str:
    """The finding, and the number of refused models by reason."""
    numbers: Counter[str] = Counter()
    for code, number in answer.refused.items():
        numbers[_REFUSED.get(code, _OTHER)] += number
    refused = "; ".join(f"{number:,} {words}" for words, number in numbers.items())
    return render_html("what_runs.html.j2", finding=finding(answer), refused=refused)


def _link(model: str, answer: WhatRunsAnswer) -> Markup:
    """The page with this model, looking at this hardware."""
    own = answer.offer.traits.owned
    cards = answer.offer.accelerator_count
    silicon = answer.offer.silicon
    hardware = silicon.id if own and silicon is not None else f"{answer.platform}:{answer.hardware}"
    query = {"model": model, "hardware": hardware, **({"cards": str(cards)} if own and cards > 1 else {})}
    return Markup('<a href="?{}">{}</a>').format(urlencode(query), model)


def models_table(answer: WhatRunsAnswer) -> str:
    """The models that run, best first; every name leads to the page with that model."""
    if not answer.models:
        return hint_note("No model of the catalog runs here as asked. Shorten the context, lower the speed, or choose more memory.")
    heads = ("Model", "Parameters", "Runs as", "Memory", "Longest context", "Speed", "Verdict")
    rows = [_row(one, answer) for one in answer.models]
    caption = "Models that run: comfortable and usable ones first, the larger first"
    tools = TableTools(keys=[_keys(one) for one in answer.models], first=SHOWN, more="more that run", search="Search")
    return show_table(caption, heads, rows, "what-runs", tools)


def _keys(one: RunningModel) -> tuple[Key, ...]:
    pace = one.speed.tokens_per_s or (1 / one.speed.request_s if one.speed.request_s else None)
    size, context = one.memory.per_device_bytes, one.longest_context
    return one.model.lower(), float(one.parameters_total), one.precision, size, context, pace, one.verdict


def _row(one: RunningModel, answer: WhatRunsAnswer) -> tuple[str, ...]:
    active = f"{count(one.parameters_active)} active" if one.parameters_active < one.parameters_total else ""
    pace = speed_figure(one.speed)
    each = f"on each of {one.devices}" if one.devices > 1 else ""
    return (
        _link(one.model, answer),
        with_small(count(one.parameters_total), active),
        with_small(one.precision, one.engine),
        with_small(memory_words(one.memory), each),
        whole(one.longest_context, "not limited"),
        pace[1] if pace else "–",
        Markup("<strong>{}</strong>").format(one.verdict),
    )


_CSV = (
    "model", "task", "parameters_total", "parameters_active", "precision", "engine", "devices", "verdict", "per_device_bytes",
    "longest_context", "tokens_per_s", "ttft_s",
)  # fmt: skip


def models_csv(answer: WhatRunsAnswer) -> str:
    """The models that run, one a row."""
    return csv_text(_CSV, [_values(one) for one in answer.models])


def _values(one: RunningModel) -> dict[str, object]:
    own = {name: getattr(one, name) for name in _CSV if hasattr(one, name)}
    speed = {"tokens_per_s": one.speed.tokens_per_s, "ttft_s": one.speed.ttft_s}
    return {**own, "per_device_bytes": one.memory.per_device_bytes, **speed}


def misses_table(answer: WhatRunsAnswer) -> str:
    """The models that come closest, with what they miss and what would run them."""
    if not answer.misses:
        return ""
    rows = [_missed(one, answer) for one in answer.misses]
    return show_table("Nearest misses", ("Model", "Parameters", "Misses", "Would run on"), rows, "what-runs-misses")


def _missed(one: MissedModel, answer: WhatRunsAnswer) -> tuple[str, ...]:
    misses = gib(one.misses_bytes) if one.misses_bytes else sentence(one.reasons[0])
    return _link(one.model, answer), count(one.parameters_total), misses, one.would or "–"
