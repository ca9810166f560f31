"""Requests that arrive: at random, in bursts, as recorded, or from clients that wait for their answers; with their lengths.

    poisson    gaps are exponential with mean 1/λ
    bursty     gaps are gamma distributed with mean 1/λ and shape k: the smaller, the burstier (`--burstiness` of `vllm bench serve`)
    recorded   a CSV with one request a line: its time, and its lengths where they were recorded
    closed     N clients; each sends its next request as soon as its last one is answered

Lengths are fixed, uniform within ± s of their mean, or lognormal with the coefficient of variation s; at least one token each way.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Literal, NamedTuple, get_args

from numpy.random import Generator

from lib.errors import BadArgument

Arrivals = Literal["poisson", "bursty", "recorded", "closed"]
Lengths = Literal["fixed", "uniform", "lognormal"]
ARRIVALS: tuple[Arrivals, ...] = get_args(Arrivals)
LENGTHS: tuple[Lengths, ...] = get_args(Lengths)
MAX_RECORDED = 50_000
MAX_SPAN_S = 7 * 86_400
"""Requests of a recording."""
MAX_RECORDING = 2_000_000
"""Characters of a recording."""
_DRAWN = 4096
_COLUMNS = {
    "at_s": ("arrival_s", "at_s", "arrival", "timestamp", "time", "arrived_at"),
    "prompt": ("prompt_tokens", "contexttokens", "input_tokens", "input_length", "num_prefill_tokens", "request tokens", "prompt"),
    "output": ("output_tokens", "generatedtokens", "output_length", "num_decode_tokens", "response tokens", "output"),
}
"""Names of the columns, among them those of the public traces of Azure, BurstGPT and Mooncake."""


class Arrival(NamedTuple):
    """A request: when it arrives, in seconds, and its tokens."""

    at_s: float
    prompt_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestShape:
    """Tokens of a request: means, how they are distributed, and how far (see above)."""

    prompt_tokens: int = 512
    output_tokens: int = 256
    lengths: Lengths = "fixed"
    spread: float = 0.5

    @property
    def longest(self) -> int:
        """Tokens of the longest request that is worth planning for: the mean, the end of the range, or the 99.9th percentile."""
        return self._longest(self.prompt_tokens) + self._longest(self.output_tokens)

    @property
    def longest_prompt(self) -> int:
        """The same for the prompt alone."""
        return self._longest(self.prompt_tokens)

    def _longest(self, mean: int) -> int:
        if self.lengths == "fixed":
            return mean
        if self.lengths == "uniform":
            return math.ceil(mean * (1 + self.spread))
        sigma = math.sqrt(math.log1p(self.spread**2))
        return math.ceil(mean * math.exp(3.09 * sigma - sigma**2 / 2))

    def draw(self, random: Generator) -> Iterator[tuple[int, int]]:
        """Lengths of one request after another, without end."""
        while True:
            columns = (self._column(random, self.prompt_tokens), self._column(random, self.output_tokens))
            yield from zip(*columns, strict=True)

    def _column(self, random: Generator, mean: int) -> list[int]:
        if self.lengths == "fixed":
            return [mean] * _DRAWN
        if self.lengths == "uniform":
            drawn = random.uniform(mean * (1 - self.spread), mean * (1 + self.spread), _DRAWN)
        else:
            sigma = math.sqrt(math.log1p(self.spread**2))
            drawn = random.lognormal(math.log(mean) - sigma**2 / 2, sigma, _DRAWN)
        return [max(1, round(float(one))) for one in drawn]


def draw_arrivals(
    rate_per_s: float, duration_s: float, shape: RequestShape, random: Generator, *, burstiness: float = 1.0
) -> list[Arrival]:
    """The requests of the first `duration_s` seconds at a mean rate; `burstiness` is the shape of the gaps, 1 for Poisson arrivals."""
    lengths, at_s = shape.draw(random), 0.0
    arrivals: list[Arrival] = []
    while True:
        for gap in random.gamma(burstiness, 1.0 / (rate_per_s * burstiness), _DRAWN):
            at_s += float(gap)
            if at_s >= duration_s:
                return arrivals
            arrivals.append(Arrival(at_s, *next(lengths)))


def read_recording(text: str, shape: RequestShape, random: Generator) -> list[Arrival]:
    """The requests of a CSV with a time in each line (seconds, or a date and time) and, if there are such columns, their tokens.

    The first line may name the columns; without names they are the time, the prompt and the output. The first request arrives at 0 s.
    """
    text = text.removeprefix("\ufeff")  # as spreadsheets write it
    if len(text) > MAX_RECORDING:
        raise BadArgument("trace", f"{len(text):,} characters", f"a CSV of at most {MAX_RECORDING:,} characters")
    try:
        rows = [row for row in csv.reader(text.splitlines()) if any(cell.strip() for cell in row)]
    except csv.Error:  # a quoted field without an end
        rows = []
    places = _places(rows[0]) if rows else {}
    has_head = bool(places)
    if has_head:
        rows = rows[1:]
    if not rows or (has_head and "at_s" not in places):
        raise BadArgument("trace", text[:40], f"a CSV whose first line names its columns: {_list_columns()}")
    if len(rows) > MAX_RECORDED:
        raise BadArgument("trace", f"{len(rows):,} requests", f"at most {MAX_RECORDED:,} requests")
    places = places or {name: at for at, name in enumerate(_COLUMNS) if at < len(rows[0])}
    lengths = shape.draw(random)
    read = [_read(number, row, places, next(lengths)) for number, row in enumerate(rows, start=1 + has_head)]
    for number, (before, after) in enumerate(pairwise(read), start=2 + has_head):
        if after.at_s < before.at_s:
            raise BadArgument("trace", f"line {number}: {','.join(rows[number - 1 - has_head])}", "lines in the order of their times")
    if read[-1].at_s - read[0].at_s > MAX_SPAN_S:
        span = f"{read[-1].at_s - read[0].at_s:.3g} s from the first to the last line"
        raise BadArgument("trace", span, f"times in seconds (or dates) within {MAX_SPAN_S:,} s, seven days")
    return [arrival._replace(at_s=arrival.at_s - read[0].at_s) for arrival in read]


def _list_columns() -> str:
    """The columns with every name that they may have."""
    what = {"at_s": "the time", "prompt": "tokens of the prompt, if recorded", "output": "tokens of the answer, if recorded"}
    return "; ".join(f"{what[name]} ({', '.join(names[:-1])} or {names[-1]})" for name, names in _COLUMNS.items())


def _places(head: list[str]) -> dict[str, int]:
    """The place of each column, by its name; nothing if the first line names none."""
    names = [cell.strip().casefold() for cell in head]
    columns = {what: next((at for at, name in enumerate(names) if name in aliases), None) for what, aliases in _COLUMNS.items()}
    return {what: at for what, at in columns.items() if at is not None}


def _read(number: int, row: list[str], places: dict[str, int], drawn: tuple[int, int]) -> Arrival:
    try:
        columns = zip(("prompt", "output"), drawn, strict=True)
        tokens = [float(row[places[name]]) if name in places else usual for name, usual in columns]
        at_s = _seconds(row[places["at_s"]].strip())
        if not (0 <= at_s < math.inf and all(1 <= number <= 10**8 and number == int(number) for number in tokens)):
            raise ValueError  # noqa: TRY301  said once, below
    except (ValueError, IndexError, OverflowError):
        accepted = "a time from 0 on, and whole numbers of tokens from 1 on"
        if number == 1:  # perhaps names of columns that are not known here
            accepted += f", or a first line that names the columns: {_list_columns()}"
        raise BadArgument("trace", f"line {number}: {','.join(row)}", accepted) from None
    return Arrival(at_s, *map(int, tokens))


def _seconds(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return datetime.fromisoformat(text[:26]).timestamp()
