"""Up to three configurations in columns: the finding as their title, a row for each figure, and the same as plain text.

The finding compares the fastest column with the one of the lowest monthly price. Columns whose speeds have different units, such as text
and pictures, are compared by price alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal

from markupsafe import Markup

from lib.advisor.result import ConfiguredHardware, Entry, Speed
from lib.present.cards import PLATFORM_NAMES, memory_words, per_device_words, precision_words, request_words, speed_figure
from lib.present.html import STRONG, render_html, trusted, with_small
from lib.present.numbers import LATER, count, count_words, gib, rate, seconds, tokens_per_s, usd_per_hour, usd_per_month
from lib.present.sentences import say
from lib.present.tables import render_table

SAME = Decimal(str(LATER))
"""Ratio up to which two figures count as equal."""
_WHOLE_FACTOR = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One model on one piece of hardware; `obstacle` says why `runs` is None."""

    model: str
    parameters: int | None = None
    task: str = ""
    hardware: str
    platform: str
    runs: ConfiguredHardware | None
    obstacle: str = ""

    @property
    def usd(self) -> Decimal:
        """Price of a month at the stated traffic; 0 for the visitor's own cards."""
        return self.runs.cost.total_usd_per_month if isinstance(self.runs, Entry) else Decimal(0)


def name_columns(columns: Sequence[Column]) -> list[str]:
    """Short and distinct names: the model if it varies, the hardware if it varies, the platform if two would be the same."""
    several_models = len({column.model for column in columns}) > 1
    several_places = len({(column.hardware, column.platform) for column in columns}) > 1
    names = []
    for column in columns:
        model, place = column.model.rpartition("/")[2], column.hardware
        names.append(f"{model} on {place}" if several_models and several_places else model if several_models else place)
    twice = {name for name in names if names.count(name) > 1}
    return [f"{name} ({PLATFORM_NAMES[column.platform]})" if name in twice else name for name, column in zip(names, columns, strict=True)]


_Running = tuple[Column, str, tuple[Decimal, str]]
"""A column that runs, its name, and its speed with the unit."""


def _find_pair(columns: Sequence[Column]) -> tuple[_Running, _Running] | None:
    """The fastest column and the cheapest; where that is the same one, it and the next fastest. None if fewer than two run."""
    named = zip(columns, name_columns(columns), strict=True)
    running = [(column, name, _pace(column.runs.speed)) for column, name in named if column.runs is not None]
    if len(running) < 2:  # noqa: PLR2004  one column compares nothing
        return None
    cheapest = min(running, key=lambda one: (one[0].usd, -one[2][0]))
    fastest = max(running, key=lambda one: (one[2][0], -one[0].usd))
    if fastest[2][0] > SAME * cheapest[2][0]:
        return fastest, cheapest
    return cheapest, max((one for one in running if one is not cheapest), key=lambda one: (one[0].usd, one[2][0]))


def find_difference(columns: Sequence[Column]) -> str:
    """The finding: how much faster one column is than another, and for what price."""
    pair = _find_pair(columns)
    if pair is None:
        name = next((name for column, name in zip(columns, name_columns(columns), strict=True) if column.runs is not None), None)
        return say("findings", "compare", "none") if name is None else say("findings", "compare", "only", name=name)
    (column, name, (speed, unit)), (base, base_name, (base_speed, base_unit)) = pair
    comparable = bool(unit) and unit == base_unit
    faster = comparable and speed > SAME * base_speed
    values = {
        "name": f"{name[:1].upper()}{name[1:]}",
        "other": base_name,
        "factor": _factor(speed / base_speed) if faster else "",
        "price_factor": _factor(column.usd / base.usd) if base.usd else "",
        "saving": _saving(column, base) if base.usd > column.usd else "",
        "cost": _monthly(column),
        "other_cost": _monthly(base),
    }
    return say("findings", "compare", _price_code(column.usd, base.usd, faster=faster) if comparable else "prices", **values)


def _price_code(usd: Decimal, base_usd: Decimal, *, faster: bool) -> str:
    """The sentence for these two prices, by whether the first one is faster."""
    if base_usd > SAME * usd:
        return "better" if faster else "cheaper"
    if not faster:
        return "same"
    if usd > SAME * base_usd:
        return "dearer" if base_usd else "not_free"
    return "same_price" if base_usd else "faster"


def _saving(column: Column, base: Column) -> str:
    if not isinstance(column.runs, Entry):
        return "costs no rent"
    return f"costs {100 * (1 - column.usd / base.usd):.0f} % less" if column.usd else "is free"


def _factor(ratio: Decimal) -> str:
    words = f"{ratio:.0f}" if ratio >= _WHOLE_FACTOR else f"{ratio:.1f}".removesuffix(".0")
    return "twice" if words == "2" else f"{words} ×"


def _monthly(column: Column) -> str:
    return f"{usd_per_month(column.usd)}{' a month' if column.usd else ''}"


def _pace(speed: Speed) -> tuple[Decimal, str]:
    """The predicted speed of one request with its unit, more is faster; 0 without a prediction."""
    if (factor := speed.real_time_factor) is not None:
        return Decimal(str(factor)), "sound"
    if (tokens := speed.decode_tokens_per_s) is not None:
        return Decimal(str(tokens)), "tokens"
    return (Decimal(1) / Decimal(str(speed.request_s)), "requests") if speed.request_s else (Decimal(0), "")


def ranges_overlap(columns: Sequence[Column]) -> bool:
    """Whether the finding calls a column faster although the predicted ranges of the two overlap."""
    pair = _find_pair(columns)
    if pair is None or pair[0][2][0] <= SAME * pair[1][2][0]:
        return False
    (low, _), (_, high) = (_range(column.runs.speed) for column, _, _ in pair if column.runs is not None)
    return low < high


def _range(speed: Speed) -> tuple[float, float]:
    low, high = speed.low, speed.high
    if low is None or high is None:
        return 0.0, 0.0
    if low.decode_tokens_per_s and high.decode_tokens_per_s:
        return tuple(sorted((low.decode_tokens_per_s, high.decode_tokens_per_s)))  # type: ignore[return-value]
    return tuple(sorted((1 / low.ttft_s, 1 / high.ttft_s)))  # type: ignore[return-value]


def comparison_card(columns: Sequence[Column], actions: str) -> str:
    """The finding, the columns as a table, and the caveats of the comparison; `actions` is markup."""
    rows = [(name, *cells) for name, cells in _filled_rows(columns)]
    runs = [(column.runs, column.task) for column in columns if column.runs is not None]
    places = {column.hardware for column in columns}
    return render_html(
        "side_by_side.html.j2",
        finding=find_difference(columns),
        requests=next((request_words(one.speed, task) for one, task in runs if one.speed.predicted is not None), ""),
        place=places.pop() if len(places) == 1 else "",
        table=render_table("Side by side", ("Figure", *name_columns(columns)), rows, "side-by-side"),
        several_models=len({column.model for column in columns}) > 1,
        several_precisions=len({one.precision for one, _ in runs}) > 1,
        overlap=ranges_overlap(columns),
        actions=trusted(actions),
    )


def comparison_text(columns: Sequence[Column]) -> str:
    """The finding and the figures of each column in plain lines."""
    rows, lines = _filled_rows(columns), [f"{find_difference(columns)}."]
    for number, name in enumerate(name_columns(columns)):
        figures = [f"{title} {_plain(cells[number])}" for title, cells in rows if _plain(cells[number]) not in {"–", ""}]
        lines.append(f"{name}: {'; '.join(figures)}.")
    return "\n".join(lines)


def _plain(cell: str) -> str:
    """A cell as text: its smaller line in brackets."""
    if not isinstance(cell, Markup):
        return cell
    return trusted(str(cell).replace("<small>", " (").replace("</small>", ")")).striptags()


def _filled_rows(columns: Sequence[Column]) -> list[tuple[str, list[str]]]:
    """The rows in which a column has a figure, with the best figure in bold; names and answers only where the columns differ in them."""
    rows = []
    for title, cell, key in _ROWS:
        cells: list[str] = [cell(column) for column in columns]
        if all(text in {"–", ""} for text in cells) or (title in _ONLY_DIFFERENT and len(set(cells)) == 1):
            continue
        keys = [key(column) if key is not None and column.runs is not None else None for column in columns]
        told = sorted((value for value in keys if value is not None), reverse=True)
        stands_out = len(told) > 1 and told[0] - told[1] > (SAME - 1) * abs(told[1])
        bold = [stands_out and value == told[0] for value in keys]
        rows.append((title, [STRONG.format(text) if is_best else text for text, is_best in zip(cells, bold, strict=True)]))
    return rows


def _with_runs(cell: Callable[[ConfiguredHardware], str]) -> Callable[[Column], str]:
    """A cell of a column that runs; "–" of one that does not."""
    return lambda column: "–" if column.runs is None else cell(column.runs)


def _verdict(column: Column) -> str:
    return f"no: {column.obstacle}" if column.runs is None else "yes"


def _hourly(runs: ConfiguredHardware) -> str:
    return usd_per_hour(runs.cost.usd_per_hour) if isinstance(runs, Entry) else "your own"


def _month(runs: ConfiguredHardware) -> str:
    if not isinstance(runs, Entry):
        return "nothing to rent"
    return with_small(usd_per_month(runs.cost.total_usd_per_month), count_words(runs.replicas, "replica") if runs.replicas > 1 else "")


def _speed(runs: ConfiguredHardware) -> str:
    figure = speed_figure(runs.speed)
    if figure is None:
        return "–"
    low, high = runs.speed.low, runs.speed.high
    told = low is not None and high is not None and low.decode_tokens_per_s is not None and high.decode_tokens_per_s is not None
    if not told:
        return with_small(figure[1], "at best" if figure[0].endswith("at best") else "")
    slow, fast = sorted((low.decode_tokens_per_s or 0.0, high.decode_tokens_per_s or 0.0))  # type: ignore[union-attr]
    return with_small(figure[1], f"between {rate(slow)} and {rate(fast)}")


def _first_token(runs: ConfiguredHardware) -> str:
    return "–" if runs.speed.inter_token_s is None or runs.speed.ttft_s is None else seconds(runs.speed.ttft_s)


def _together(runs: ConfiguredHardware) -> str:
    tokens = runs.speed.throughput_tokens_per_s
    return "–" if tokens is None or runs.speed.concurrency == 1 else tokens_per_s(tokens)


def _memory(runs: ConfiguredHardware) -> str:
    memory = runs.memory
    if memory is None:
        return "–"
    return with_small(f"{memory_words(memory)}{per_device_words(runs)}", f"{gib(memory.free_bytes)} free")


def _million(runs: ConfiguredHardware) -> str:
    usd = runs.cost.usd_per_million_output_tokens if isinstance(runs, Entry) else None
    return "–" if usd is None else usd_per_month(usd)


def _start(runs: ConfiguredHardware) -> str:
    return seconds(runs.cost.cold_start_s) if isinstance(runs, Entry) else "–"


_Key = Callable[[Column], Decimal | None]


def _less(value: Callable[[Entry], Decimal | None]) -> _Key:
    """A key under which the smallest figure is best."""

    def key(column: Column) -> Decimal | None:
        found = value(column.runs) if isinstance(column.runs, Entry) else None
        return None if found is None else -found

    return key


def _parameters(column: Column) -> str:
    return "–" if column.parameters is None else count(column.parameters)


_ROWS: tuple[tuple[str, Callable[[Column], str], _Key | None], ...] = (
    ("Runs as asked", _verdict, None),
    ("Model size", _parameters, None),
    ("Platform", lambda column: PLATFORM_NAMES.get(column.platform, "–"), None),
    ("Price per hour", _with_runs(_hourly), None),
    ("Price per month", _with_runs(_month), _less(lambda entry: entry.cost.total_usd_per_month)),
    ("Per million output tokens, at full use", _with_runs(_million), _less(lambda entry: entry.cost.usd_per_million_output_tokens)),
    ("Speed per request", _with_runs(_speed), lambda column: _pace(column.runs.speed)[0] if column.runs is not None else None),
    ("First token after", _with_runs(_first_token), None),
    ("All requests together", _with_runs(_together), None),
    ("Memory used", _with_runs(_memory), None),
    ("Runs in", _with_runs(lambda runs: trusted(precision_words(runs))), None),
    ("Start after sleep", _with_runs(_start), None),
)
"""Each row: its title, its cell, and the key whose highest value is the best figure."""
_ONLY_DIFFERENT = {"Runs as asked", "Model size", "Platform"}
"""Rows that are left out where all columns have the same."""
