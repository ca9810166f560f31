"""*What runs here*: the finding in a sentence, the models that run, the nearest misses, and the counts of the refused."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from markupsafe import Markup

from lib.catalog.host_memory import assume_host
from lib.present.cards import memory_words, speed_figure
from lib.present.html import STRONG, render_html, with_small
from lib.present.markup import hint_note
from lib.present.numbers import count, gib, whole
from lib.present.sentences import say, sentence
from lib.present.tables import Key, TableTools, csv_text, show_table
from lib.present.wording import load_wording

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lib.answers.what_runs import MissedModel, RunningModel, WhatRunsAnswer
    from lib.provenance import Value

SHOWN = 12
"""Rows that are shown until more are asked for."""


def finding(answer: WhatRunsAnswer) -> str:
    """How many models run, and the first of them."""
    counts: dict[str, Value] = {"hardware": answer.name, "running": answer.models_total, "models": answer.considered}
    if not answer.models:
        return say("findings", "what_runs", "none", **counts)
    first = answer.models[0]
    pace = speed_figure(first.speed)
    figures = ", ".join([count(first.parameters_total) + " parameters", *([pace[1]] if pace else [])])
    code = "well" if first.verdict in {"comfortable", "usable"} else "other"
    return say("findings", "what_runs", code, **counts, verdict=first.verdict, model=first.model, figures=figures)


_HOST = "host_too_small"


def _host_words(answer: WhatRunsAnswer) -> str:
    """The memory of the machine that is counted with, for hardware of the visitor's own."""
    if not answer.offer.traits.owned:
        return ""
    host = answer.offer.host or assume_host()
    return say("findings", "what_runs", "host_assumed" if host.size_assumed else "host_stated", ram_bytes=host.size)


def finding_card(answer: WhatRunsAnswer, *, example: bool = False) -> str:
    """The finding, and the number of refused models by reason; `example`: the hardware is the form's default, not the visitor's choice."""
    obstacles: Mapping[str, str] = load_wording("findings")["obstacles"]
    numbers: Counter[str] = Counter()
    for code, number in answer.refused.items():
        words = obstacles.get(code, obstacles["other"])
        numbers[f"{words}{_host_words(answer)}" if code == _HOST else words] += number
    refused = "; ".join(f"{number:,} {words}" for words, number in numbers.items())
    return render_html("what_runs.html.j2", finding=finding(answer), refused=refused, example=example)


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
        return hint_note(say("findings", "what_runs", "nothing"))
    heads = ("Model", "Parameters", "Runs as", "Memory", "Longest context", "Speed", "Verdict")
    rows = [_row(one, answer) for one in answer.models]
    caption = say("findings", "what_runs", "table")
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
        with_small(one.precision, one.engine + _other_file(one)),
        with_small(memory_words(one.memory), each),
        whole(one.longest_context, "not limited"),
        pace[1] if pace else "–",
        with_small(STRONG.format(one.verdict), verdict_why(one)),
    )


def _other_file(one: RunningModel) -> str:
    """That the engine does not load the quantized checkpoint itself."""
    other = any(reason.code == "quantized_sibling" for reason in one.reasons)
    return ", from a file of the unquantized model" if other else ""


_WHYS = {"slow": ("below_usable",), "tight": ("fits_tightly",), "usable": ("below_usable", "below_comfortable"), "comfortable": ("fits",)}
"""Reasons that decide a verdict, the weightiest first."""


def verdict_why(one: RunningModel) -> str:
    """The figure that decides the verdict, in a few words; "" if no reason has one."""
    for code in _WHYS[one.verdict]:
        for reason in one.reasons:
            if reason.code == code:
                measured = f"{code}:{reason.variant}" if code.startswith("below_") else code
                return say("cards", "verdict_why", measured, **reason.values)
    return ""


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
    """The models that come closest, with the memory that they lack and the hardware that would run them."""
    if not answer.misses:
        return ""
    rows = [_missed(one, answer) for one in answer.misses]
    return show_table(
        "Models that do not run here, nearest first", ("Model", "Parameters", "Lacks", "Would run on"), rows, "what-runs-misses"
    )


def _missed(one: MissedModel, answer: WhatRunsAnswer) -> tuple[str, ...]:
    where = "RAM of the machine" if one.reasons[0].code == _HOST else "memory on a device"
    misses = with_small(gib(one.misses_bytes), where) if one.misses_bytes else sentence(one.reasons[0])
    return _link(one.model, answer), count(one.parameters_total), misses, one.would_name or "–"
