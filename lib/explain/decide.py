"""Decides the cause: the message of a text that counts, with its numbers.

The first failure wins, because later ones follow from it; a message that repeats another one in its own words wins over that one. Without a
failure its family counts, then less exact kinds of messages (`Message.kind`), and the lines of a normal start last.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from lib.explain.figures import complete_figures, read_figures
from lib.explain.match import Finding, Value, find_messages
from lib.explain.names import Named, find_names
from lib.explain.rows import Message, Outcome, holds, load_messages
from lib.explain.text import PastedText

_ORDER = ("failure", "family", "followup", "guess", "warning", "report", "notice", "detail")
_OUTCOMES: Mapping[str, Outcome] = {
    **dict.fromkeys(("failure", "family", "followup", "guess", "report"), "failed"),
    "warning": "warning",
    "notice": "started",
    "detail": "information",
}
_NEAR = 8_000
"""Characters before and behind the first known message in which other figures are read."""
_GENERIC = frozenset({"torch", "python"})
"""Programs inside others: the name of the outer one says more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherCause:
    """Another failure of the text."""

    code: str
    numbers: Mapping[str, Value]


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The explanation of a text. Its strings come from the rows, or are numbers, names or short quotations without markup."""

    code: str = ""
    """The cause; "" where no message of the text is known."""
    program: str = ""
    """The program that printed it."""
    phase: str = ""
    """Phase: load, start, compile, run, train, call or build."""
    outcome: Outcome = "information"
    """Outcome of the program's run."""
    certain: bool = False
    """Whether cause and first step follow from the text alone."""
    numbers: Mapping[str, Value]
    """The numbers of the message, of the lines of a start around it, and those that follow from them."""
    figures: Mapping[str, int | float] = field(default_factory=dict)
    """Other figures of the text that have a name; no cause or step follows from them."""
    steps: tuple[str, ...] = ()
    """Codes of next steps, the best first."""
    programs: tuple[str, ...] = ()
    """Programs that the text's context lines name."""
    stated: Mapping[str, str] = field(default_factory=dict)
    """Settings that follow from the messages of the text (`Message.sets`)."""
    also: tuple[OtherCause, ...] = ()
    """Other failures, in the order of the text."""
    named: Named
    """Models, hardware and flags that the text names."""

    @property
    def recognised(self) -> bool:
        """Whether any message of the text is known."""
        return bool(self.code)


@dataclass(frozen=True, slots=True)
class _Meaning:
    code: str
    certain: bool
    steps: tuple[str, ...]
    outcome: Outcome
    phase: str = ""


def _meaning(message: Message, numbers: Mapping[str, Value], found: frozenset[str]) -> _Meaning:
    usual = message.outcome or _OUTCOMES[message.kind]
    for case in message.cases:
        if all(holds(condition, numbers, found) for condition in case.when):
            return _Meaning(case.code, case.certain, case.steps, case.outcome or usual, case.phase)
    return _Meaning(message.code, message.certain, message.steps, usual)


def _near_messages(pasted: PastedText, findings: Iterable[Finding]) -> str:
    """The text around the first known message; "" without one."""
    lines = (finding.line for finding in findings if finding.message.kind not in {"context", "detail"})
    if (line := next(lines, None)) is None:
        return ""
    place = pasted.spaced.start_of(line, joined=False)
    return pasted.spaced.text[max(0, place - _NEAR) : place + _NEAR]


@dataclass(frozen=True, slots=True)
class Reading:
    """The known messages and the names of a text."""

    findings: tuple[Finding, ...]
    named: Named
    figures: Mapping[str, int | float] = field(default_factory=dict)
    """Figures with names (`lib.explain.figures`); empty without a known message."""


def read_text(text: str) -> Reading:
    """The messages and names of a text. This takes nearly all the time of an explanation."""
    pasted = PastedText(text)
    findings = tuple(find_messages(pasted))
    return Reading(findings, find_names(pasted.spaced.joined), read_figures(_near_messages(pasted, findings)))


def explain_text(text: str) -> Explanation:
    """Read a text and decide its cause. Without a known message, `recognised` of the result is false."""
    return decide_cause(read_text(text))


def decide_cause(reading: Reading, given: frozenset[str] = frozenset()) -> Explanation:
    """The explanation of a text. `given` are codes of `context` rows that hold even if the text does not show them."""
    findings, named = reading.findings, reading.named
    found = given.union(finding.message.code for finding in findings)
    own = [
        finding for finding in findings
        if finding.message.kind != "context" and (not finding.message.among or not found.isdisjoint(finding.message.among))
    ]  # fmt: skip
    if not any(finding.message.kind != "detail" for finding in own):
        return Explanation(numbers={}, named=named)
    wrapped = {code for finding in own for code in finding.message.wraps}
    everything = _merge(finding for finding in own if finding.message.kind not in {"family", "guess"})
    meant = [(finding, _meaning(finding.message, _complete(finding, everything), found)) for finding in own]
    lines_of = Counter(said.code for _, said in meant)
    first, meaning = min(enumerate(meant), key=lambda item: (_rank(item[1], wrapped), _fewer(item[1], lines_of), item[0]))[1]
    contexts = [finding.message for finding in findings if finding.message.kind == "context" and finding.message.program]
    other = (
        (finding, said) for finding, said in meant
        if finding.message.kind == "failure" and said.outcome == "failed" and finding.message.code not in wrapped | {first.message.code}
    )  # fmt: skip
    return Explanation(
        code=meaning.code,
        program=_program(first.message, contexts),
        phase=meaning.phase or _phase(first.message, found),
        outcome=meaning.outcome,
        certain=meaning.certain,
        numbers=(numbers := _complete(first, everything)),
        figures=complete_figures(reading.figures, numbers),
        steps=meaning.steps,
        programs=tuple(dict.fromkeys(context.program for context in contexts)),
        stated={name: value for finding in reversed(findings) for name, value in finding.message.sets.items()},
        also=_distinct(other, meaning.code),
        named=named,
    )


def _rank(item: tuple[Finding, _Meaning], wrapped: set[str]) -> float:
    """Rank of a finding as the cause, 0 first. A failure from which the program recovered ranks after all other failures."""
    finding, meaning = item
    kind = "followup" if finding.message.kind == "report" and meaning.code != finding.message.code else finding.message.kind
    later = finding.message.code in wrapped
    if meaning.outcome == "failed" and kind in {"failure", "family", "warning", "notice"}:
        return 2 if kind == "family" else later
    return {"recovered": 3, "slow": 4 + later}.get(meaning.outcome, 6 + _ORDER.index(kind) + later / 2)


def _fewer(item: tuple[Finding, _Meaning], lines_of: Counter[str]) -> int:
    """Among start lines, the code with most lines ranks first."""
    return -lines_of[item[1].code] if item[0].message.kind == "notice" else 0


def _own(finding: Finding) -> dict[str, object]:
    """The numbers of a message and those that follow from them."""
    numbers = finding.message.derived(dict(finding.numbers))
    return {name: value for name, value in numbers.items() if not name.startswith("_")}


def _merge(findings: Iterable[Finding]) -> dict[str, object]:
    """The numbers of all messages; of several with one name, the first."""
    merged: dict[str, object] = {}
    for finding in findings:
        for name, value in _own(finding).items():
            merged.setdefault(name, value)
    return merged


def _complete(finding: Finding, others: Mapping[str, object]) -> dict[str, Value]:
    """The numbers of a message, completed by those of other messages."""
    return {**others, **_own(finding)}  # type: ignore[dict-item]  # rows derive numbers from numbers


def _distinct(others: Iterable[tuple[Finding, _Meaning]], chosen: str) -> tuple[OtherCause, ...]:
    causes: dict[str, OtherCause] = {}
    for finding, meaning in others:
        if meaning.code != chosen:
            causes.setdefault(meaning.code, OtherCause(code=meaning.code, numbers=_complete(finding, {})))
    return tuple(causes.values())


def _program(message: Message, contexts: list[Message]) -> str:
    """The program that printed the message; if that is a library (torch) inside a program that the text names, the outer program."""
    outer = [context.program for context in contexts if context.program != message.program]
    return outer[0] if message.program in _GENERIC and outer else message.program


def _phase(message: Message, found: frozenset[str]) -> str:
    if message.program not in _GENERIC:
        return message.phase
    for code in ("in_training", "while_loading"):
        if code in found:
            return next(row.phase for row in load_messages().messages if row.code == code)
    return message.phase
