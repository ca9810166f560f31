"""JSON from outside, read within bounds: its values are counted before anything is built of them.

A few bytes of text become a list or a dict of sixty and more, and a parser holds the interpreter until it is done: 64 MiB of "[],[],…" take
2 GB and stop every other thread for ten seconds and more. So the text is scanned first, piece by piece and without recursion. What is
counted are the bytes `[`, `{`, `,` and `:` outside strings: a list of n values has n of them, an object with n keys has 2·n.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

_PIECE_BYTES = 2**16
_NODES = b"[{,:"
_PAIR = re.compile(rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}")
_HALF = re.compile(rb"\\u[dD][89a-fA-F]")


class UnreadableJson(ValueError):
    """The text is not JSON, is nested too deep, or holds too many values; the message is the end of a sentence about it."""


def node_count(text: bytes, most: int) -> int:
    """Nodes of a JSON text; the scan ends soon after `most`, so a larger number only says that there are more than that."""
    nodes, inside = 0, False
    plain = text.replace(rb"\\", b"").replace(rb"\"", b"") if b"\\" in text else text  # every quote left begins or ends a string
    for start in range(0, len(plain), _PIECE_BYTES):
        parts = plain[start : start + _PIECE_BYTES].split(b'"')
        outside = b"".join(parts[inside::2])
        nodes += len(outside) - len(outside.translate(None, _NODES))
        if nodes > most:
            break
        inside ^= len(parts) % 2 == 0
    return nodes


def read_json(
    text: bytes, most: int, *, parse_float: Callable[[str], Any] | None = None, parse_constant: Callable[[str], Any] | None = None
) -> Any:
    """Parse a text in UTF-8 of at most `most` nodes; `parse_float` and `parse_constant` are those of `json.loads`.

    Half a surrogate pair is refused: it stands for no character, so no answer that repeats it could be sent.

    Raises:
        UnreadableJson: it is not JSON, is nested too deep, or holds more than that.
    """
    if node_count(text, most) > most:
        raise UnreadableJson(f"it holds more than {most:,} values")
    if _HALF.search(text) and _HALF.search(_PAIR.sub(b"", text.replace(rb"\\", b""))):
        raise UnreadableJson("it holds half a character (a surrogate without its other half)")
    try:
        return json.loads(text.decode("utf-8-sig"), parse_float=parse_float, parse_constant=parse_constant)
    except (ValueError, RecursionError) as error:  # ValueError: bad JSON, bad UTF-8, an integer of thousands of digits
        raise UnreadableJson("it is not readable JSON") from error
