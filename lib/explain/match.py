"""Which known messages a text holds, in its order, and their numbers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np

from lib.explain.rows import Message, load_messages
from lib.explain.text import PastedText, View, hash_grams, mask_quotation, mask_secrets
from lib.units import GB, GIB, KIB, MB, MIB

LONGEST = 1_000
"""Characters of a message that are read."""
MOST_ROWS = 100
"""Rows whose plain text is in a text that are read, contexts apart. No log has half as many; a text of all messages would take long."""
MOST_DEVICES = 64
"""Places at which one message is read that a log prints for every device."""
_UNITS = {"K": KIB, "M": MIB, "G": GIB, "T": 2**40}
_SCALES = {"_gib": GIB, "_mib": MIB, "_kib": KIB, "_gb": GB, "_mb": MB}
_SIZE = re.compile(r"(-?[\d.]+)(?: )?([KMGT]?)")
_CLOCK = re.compile(r"(?:(-?\d+)days?,)?(?:(\d+):)?(\d+):(\d+)")
Value = int | float | str | list[int | float | str]


@dataclass(frozen=True, slots=True)
class Finding:
    """A message in the text."""

    message: Message
    line: int
    """The number of its line."""
    numbers: Mapping[str, Value]


def find_messages(text: PastedText) -> list[Finding]:
    """The messages of the text in the order of its lines. If one code matches a line several times, the first row counts."""
    found: dict[tuple[int, str], Finding] = {}
    views = {False: text.squeezed, True: text.spaced}
    present = {spaced: _present(spaced, view) for spaced, view in views.items()}
    rows = [message for message in load_messages().messages if not present[message.spaced].isdisjoint(message.needles)]
    contexts = [message for message in rows if message.kind == "context"]
    for message in (*[message for message in rows if message.kind != "context"][:MOST_ROWS], *contexts):
        for finding in _find(message, views[message.spaced], present[message.spaced]):
            if message.kind == "context":
                found.setdefault((-1, message.code + message.program), finding)
            else:
                found.setdefault((finding.line, message.code), finding)
    return sorted(found.values(), key=lambda finding: finding.line)


@cache
def _needles(spaced: bool) -> tuple[tuple[str, ...], np.ndarray, np.ndarray]:
    """The plain texts that are searched in one view, the hashes of all their runs of letters, and where each text's hashes begin."""
    needles = tuple(dict.fromkeys(needle for row in load_messages().messages if row.spaced == spaced for needle in row.needles))
    hashes = [hash_grams(needle) for needle in needles]
    starts = np.cumsum([0, *(len(of) for of in hashes[:-1])])
    return needles, np.concatenate(hashes), starts


def _present(spaced: bool, view: View) -> frozenset[str]:
    """The plain texts that the view holds. Most are ruled out by a run of letters that it lacks, before the text is searched for them."""
    needles, hashes, starts = _needles(spaced)
    possible = np.logical_and.reduceat(view.grams[hashes], starts)
    return frozenset(needle for needle, may in zip(needles, possible.tolist(), strict=True) if may and needle in view.joined)


def _find(message: Message, view: View, present: frozenset[str]) -> Iterator[Finding]:
    """The places of a message that have the numbers it needs: in the lines, or if these hold none, in the text joined over line breaks."""
    needles = [needle for needle in message.needles if needle in present]
    if needles and message.kind == "context":
        yield Finding(message, 0, {})
        return
    for joined, text in ((False, view.text), (True, view.joined)) if needles else ():
        places = _places(text, needles, message)
        found = []
        for number, place in enumerate(places):
            end = places[number + 1] if number + 1 < len(places) else len(text)
            line = view.line_of(place, joined=joined)
            numbers = _read(message, view, line, place, end, joined=joined, wrapped=number == 0)
            if all(name in numbers for name in message.needs) and (not message.either or any(name in numbers for name in message.either)):
                found.append(Finding(message, line, numbers))
        yield from _gather(message, found)
        if places:
            return


def _places(text: str, needles: list[str], message: Message) -> list[int]:
    """The first places of a message, or its last one."""
    if message.last:
        return [place] if (place := max(map(text.rfind, needles))) >= 0 else []
    most = MOST_DEVICES if message.per_device else message.places
    return sorted({place for needle in needles for place in _first_places(text, needle, most)})[:most]


def _first_places(text: str, needle: str, most: int) -> Iterator[int]:
    place = text.find(needle)
    for _ in range(most):
        if place < 0:
            return
        yield place
        place = text.find(needle, place + len(needle))


_OF_ALL: dict[str, Callable[[list[Value]], Value]] = {"list": list, "min": min, "max": max, "count": len, "first": lambda of: of[0]}  # type: ignore[dict-item]


def _gather(message: Message, found: list[Finding]) -> list[Finding]:
    """The findings. The first one also gets the numbers over all places: their list, minimum, maximum or count."""
    if not message.gather or len(found) < 2:  # noqa: PLR2004  of one place its own numbers say all
        return found
    whole = [message.derived(dict(finding.numbers)) for finding in found]
    together: dict[str, Value] = {}
    for line in message.gather:
        name, _, how, of = line.split()
        values: list[Value] = [numbers[of] for numbers in whole if of in numbers]  # type: ignore[misc]  # rows derive numbers
        if values:
            together[name] = _OF_ALL[how](values)
    return [Finding(message, found[0].line, {**found[0].numbers, **together}), *found[1:]]


def _read(message: Message, view: View, line: int, place: int, end: int, *, joined: bool, wrapped: bool) -> dict[str, Value]:
    """The numbers of a message from its lines. If `wrapped`, missing numbers come from the joined text around its beginning."""
    numbers: dict[str, Value] = {}
    if not message.patterns:
        return numbers
    start = max(view.start_of(line, joined=joined), place - LONGEST)
    length = min(LONGEST, max(end - place, 1))
    if joined:
        windows = [view.joined[max(0, start - message.lookback) : place + length]]
    else:
        last = min(view.start_of(line + message.lines, joined=False) - 1, place + LONGEST)
        first = view.start_of(line, joined=True)
        windows = [view.text[start:last].replace("\n", view.glue)]
        if wrapped:
            behind = first + place - view.start_of(line, joined=False)
            windows.append(view.joined[max(0, first - message.lookback) : behind + length])
    for pattern in message.patterns:
        for window in windows:
            read = _groups(pattern, window)
            if read:
                numbers = {**read, **numbers}
                break
    return numbers


def _groups(pattern: re.Pattern[str], window: str) -> dict[str, Value]:
    """The numbers of a pattern's groups: of its first match; of all matches if a group ends in `_list` or `_each`.

    `_list` collects its values in a list. `_each` takes its name from the groups `device_key` and `part_key`.
    """
    read: dict[str, Value] = {}
    for match in pattern.finditer(window):
        groups = {name: value for name, value in match.groupdict().items() if value}
        keys = [groups.pop(name).lower() for name in ("part_key", "device_key") if name in groups]
        for group, printed in groups.items():
            name, value = _convert(group.removesuffix("_list").removesuffix("_each"), printed)
            if group.endswith("_each"):
                prefix = "_".join(key for key in keys if key != "model")
                read.setdefault(f"{prefix}_bytes", value)
            elif group.endswith("_list"):
                values = read.setdefault(name, [])
                if isinstance(values, list) and not isinstance(value, list):
                    values.append(value)
            else:
                read[name] = value
        if not any(group.endswith(("_list", "_each")) for group in groups):
            break
    return read


def _convert(group: str, printed: str) -> tuple[str, Value]:
    """The name and the value that a group found."""
    if group.endswith("_text"):
        mask = mask_quotation if group == "said_text" else mask_secrets
        return group.removesuffix("_text"), mask(printed.strip())  # lines may have split a secret
    if group.endswith("_bytes_sum"):
        return group.removesuffix("_sum"), sum(_bytes(match[0]) for match in _SIZE.finditer(printed))
    if group.endswith("_clock"):
        return group.removesuffix("_clock") + "_s", _seconds(printed)
    digits = printed.replace(",", "")
    if group.endswith("_bytes"):
        return group, _bytes(digits)
    for suffix, scale in _SCALES.items():
        if group.endswith(suffix):
            return group.removesuffix(suffix) + "_bytes", round(float(digits) * scale)
    number = float(digits)
    return group, int(number) if number.is_integer() and "." not in digits else number


def _bytes(printed: str) -> int:
    match = _SIZE.match(printed)
    return round(float(match[1]) * _UNITS.get(match[2], 1)) if match else 0


def _seconds(printed: str) -> int:
    match = _CLOCK.search(printed.replace(" ", ""))
    if match is None:
        return 0
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return 86_400 * days + 3_600 * hours + 60 * minutes + seconds
