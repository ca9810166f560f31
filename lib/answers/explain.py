"""The answer of `/explain`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lib.explain.rows import Outcome
from lib.provenance import Answer
from lib.result import Hidden, Result, Usd

Printed = int | float | str | bool | list[int | float | str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainStep(Result):
    """One thing to do next."""

    code: str
    """A stable code."""
    message: str
    """The step."""
    change: str
    """The flag, setting or line to change; empty if none is."""
    hardware: str
    """Id of the hardware to take; empty if no other is needed."""
    usd_per_hour: Usd | None
    """Its price per hour; null without hardware."""
    hardware_name: Hidden[str] = ""
    """Its name for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlsoEntry(Result):
    """Another failure in the text."""

    code: str
    """A stable code."""
    cause: str
    """The operation that failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadEntry(Result):
    """Names in the text, and the configuration of the app's own figures."""

    model: str
    """Id of the model; empty if none, or several, are named."""
    hardware: str
    """Id of the hardware; empty if none, or several, are named."""
    engine: str
    """The engine whose memory is predicted; empty without a model."""
    models: tuple[str, ...]
    """Every model that the text names."""
    cards: tuple[str, ...]
    """Every card that the text names, as it is printed."""
    flags: Mapping[str, str]
    """Settings of a server in the text, with underscores in their names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainAnswer(Answer):
    """Meaning of a pasted text, and next steps."""

    recognised: bool
    """Whether any message of the text is known; if not, a next step lists the accepted texts."""
    program: str
    """The program that printed the message; empty if none is known."""
    phase: str
    """When: build, start, load, compile, run, train or call."""
    code: str
    """A stable code of the cause; empty if none is known."""
    cause: str
    """The cause in a sentence."""
    outcome: Outcome
    """Outcome: failed, recovered, slow, warning, started or information."""
    certain: bool
    """Whether cause and first step follow from the text alone; otherwise they are likely."""
    numbers: Mapping[str, Printed]
    """The numbers of the text and those that follow from them. The end of a name is its unit; GB, G and GiB of a log are 2^30 bytes."""
    arithmetic: tuple[str, ...]
    """The arithmetic, step by step."""
    logged: Mapping[str, Printed]
    """Figures of the text that the app predicts too."""
    predicted: Mapping[str, Printed]
    """The app's own figures for the same model, hardware and settings, per device: of one request, or of a step where the text is of a
    training run. Empty unless model and hardware are known."""
    next_steps: tuple[ExplainStep, ...]
    """Next steps, the best first."""
    also: tuple[AlsoEntry, ...]
    """Other failures in the text, in its order; the first cause wins."""
    read: ReadEntry
    """Model, hardware and engine that the text names."""
