"""How fast is fast enough: three bands for each kind of work.

    comfortable    even the low end of the predicted range reaches the first limit
    usable         the expected speed reaches the second limit
    slow           it does not

The limits are rows of `lib/data/speed_bands.json`, each with its reason and source. A limit that the visitor states replaces both. The
first token of a long prompt may come later and is still usable, in proportion to the prompt: people who send a book expect to wait.
Usable hardware is never rejected. On a CPU the judge is stricter (`lib.advisor.judge`), because machines of one class differ.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Literal

from lib.advisor.result import Speed
from lib.catalog.rows import DATA, Day, Row, Text
from lib.laws.media_tokens import DEFAULT_S
from lib.model.spec import ModelSpec
from lib.provenance import Reason
from lib.speed import SpeedEstimate
from lib.workload import Family, Workload

Measure = Literal["tokens_per_s", "ttft_s", "request_s", "share_of_sound"]


class SpeedBand(Row):
    """The limits of one measure for one kind of work."""

    family: Family
    """The kind of work."""
    reasoning: bool
    """For models that write their reasoning before the answer."""
    measure: Measure
    """Tokens per second of one request (more is better); seconds to the first token, of a request, or per second of sound (fewer are)."""
    comfortable: float
    """The limit of the first band."""
    usable: float
    """The limit of the second band."""
    why: Text
    """The reason for the limits."""
    source: Text
    """Address of the publication; "judgement" for our own judgement."""
    checked: Day
    """The day on which the row was written."""

    def reaches(self, value: float, limit: float) -> bool:
        """Whether a value is at least as good as a limit."""
        return value >= limit if self.measure == "tokens_per_s" else value <= limit


class ReasoningModels(Row):
    """How models that reason before they answer are recognised."""

    model_types: frozenset[str]
    """Model types that always do."""
    id_words: tuple[str, ...]
    """Parts of ids, in lower case."""
    source: Text
    """Source of the names."""
    checked: Day
    """The day on which they were read."""

    def include(self, spec: ModelSpec) -> bool:
        """Whether the model reasons before it answers."""
        return spec.model_type in self.model_types or any(word in spec.id.lower() for word in self.id_words)


class LongPrompts(Row):
    """How long prompts change the limit of a usable first token."""

    from_tokens: int
    """The limit holds for prompts up to this length; that of longer ones grows in proportion."""
    why: Text
    """The reason for the length."""
    source: Text
    """As of `SpeedBand`."""
    checked: Day
    """The day on which the row was written."""

    def stretch(self, prompt_tokens: int) -> float:
        """The factor of the limit for such a prompt."""
        return max(1.0, prompt_tokens / self.from_tokens)


class BandsFile(Row):
    """`lib/data/speed_bands.json`."""

    bands: tuple[SpeedBand, ...]
    """The table."""
    reasoning: ReasoningModels
    """Which models need the rows for reasoning."""
    long_prompts: LongPrompts
    """From which length on a prompt has more time until the first token."""


@cache
def read_bands() -> BandsFile:
    """The table, read once."""
    return BandsFile.model_validate_json((DATA / "speed_bands.json").read_bytes())


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredBand:
    """One limit, the expected value and the low end of its range."""

    band: SpeedBand
    expected: float
    low_end: float
    comfortable: float
    usable: float

    @property
    def is_comfortable(self) -> bool:
        """Whether even the low end is comfortable."""
        return self.band.reaches(self.low_end, self.comfortable)

    @property
    def is_slow(self) -> bool:
        """Whether the expected value is not usable."""
        return not self.band.reaches(self.expected, self.usable)

    def explain(self) -> Reason:
        """The value and the limit that it misses."""
        unit = "tokens_per_s" if self.band.measure == "tokens_per_s" else "s"
        limit = self.usable if self.is_slow else self.comfortable
        values = {f"expected_{unit}": self.expected, f"low_end_{unit}": self.low_end, f"limit_{unit}": limit}
        return Reason("below_usable" if self.is_slow else "below_comfortable", values, variant=self.band.measure)


def measure_bands(spec: ModelSpec, family: Family, speed: Speed, workload: Workload) -> tuple[MeasuredBand, ...]:
    """The predicted speed against each limit of its kind of work; nothing if it is not predicted."""
    predicted, file = speed.predicted, read_bands()
    if predicted is None:
        return ()
    reasoning = family == "generate" and file.reasoning.include(spec)
    rows = (band for band in file.bands if band.family == family and band.reasoning is reasoning)
    stated = {"tokens_per_s": workload.min_tokens_per_s, "ttft_s": workload.max_ttft_s}
    measured = []
    for band in rows:
        values = _read_measure(band.measure, predicted)
        if values is not None:
            limit = stated.get(band.measure) or None
            longer = file.long_prompts.stretch(predicted.request.prompt_tokens) if band.measure == "ttft_s" else 1.0
            comfortable, usable = (band.comfortable, longer * band.usable) if limit is None else (limit, limit)
            # A limit that the visitor stated is judged by the expected value, as it was asked for.
            expected, low_end = values if limit is None else (values[0], values[0])
            measured.append(MeasuredBand(band=band, expected=expected, low_end=low_end, comfortable=comfortable, usable=usable))
    return tuple(measured)


@cache
def usable_limits(family: Family) -> dict[Measure, float]:
    """The limits of usable speed by measure, for models that do not reason."""
    return {band.measure: band.usable for band in read_bands().bands if band.family == family and not band.reasoning}


def limit_request_s(family: Family, predicted: SpeedEstimate) -> float | None:
    """Seconds that one request may take and stay usable; `None` for work that is judged token by token."""
    limits = usable_limits(family)
    if "share_of_sound" in limits:
        return limits["share_of_sound"] * (predicted.sound_s or DEFAULT_S)
    return limits.get("request_s")


def _read_measure(measure: Measure, predicted: SpeedEstimate) -> tuple[float, float] | None:
    """The expected value and the low end of its range; `None` if the work has no such measure."""
    first = predicted.ttft_s
    if measure == "ttft_s":
        return first.value, first.high
    if measure == "tokens_per_s":
        step = predicted.tpot_s
        return None if step is None else (1 / step.value, 1 / step.high)
    length = (predicted.sound_s or DEFAULT_S) if measure == "share_of_sound" else 1.0
    seconds = predicted.request_s / length
    return seconds, seconds * first.high / first.value
