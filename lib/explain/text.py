r"""Makes a pasted text searchable: undoes escapes that could hide a secret, masks secrets, and removes frames and blanks.

Logs are pasted from terminals, which wrap lines, from browsers, which escape `<`, and from JSON, which writes line ends as `\\n`. So a
message is searched in lines without blanks; if no line contains it, in the whole text without blanks. Every step takes time
proportional to the length of the text.
"""

from __future__ import annotations

import html
import re

import numpy as np

from lib.errors import TOKENS

MAX_BYTES = 200_000
"""Longest text that is read."""
MASK = "[secret]"

_SECRETS = (
    *TOKENS,
    re.compile(
        r"(?:[Kk]ey|KEY|[Tt]oken|TOKEN|[Ss]ecret|SECRET|[Pp]asswo?r?d|PASSWO?R?D)[\"']?[ \t]{0,4}[=:][ \t]{0,4}[\"']?"
        r"(?!None\b|null\b)[A-Za-z0-9+/_.=~-]{12,200}"
    ),
    re.compile(r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----[A-Za-z0-9+/=\s\\]{0,8000}(?:-----END [A-Z ]{0,40}PRIVATE KEY-----)?"),
    re.compile(r"(?<=://)[^\s/:@]{1,100}:[^\s/@]{1,200}(?=@)"),
    re.compile(r"(?<=Basic )[A-Za-z0-9+/]{8,400}={0,2}"),
    re.compile(r"(?<![A-Za-z0-9])(?=[a-z0-9]{0,40}[A-Z])(?=[A-Z0-9]{0,40}[a-z])(?=(?:[A-Za-z]{0,20}[0-9]){3})[A-Za-z0-9]{20,}"),
    re.compile(
        r"(?=[0-9A-Fa-f]{8})(?<![A-Za-z0-9])(?<!commit[ :=/])(?<!sha256[ :=/])(?<!digest[ :=])(?<!revision[ :=])"
        r"(?<!/blobs/)(?<!/resolve/)(?<!/tree/)(?<!snapshots/)"
        r"(?=[0-9]{0,40}[A-Fa-f])(?=[A-Fa-f]{0,40}[0-9])(?:[0-9a-f]{32}|[0-9A-F]{32})(?:[0-9A-Fa-f]{8}(?:[0-9A-Fa-f]{24})?)?(?![A-Za-z0-9])"
    ),
)
"""The last two are parts of secrets: twenty letters in both cases with three digits, and hexadecimal keys of 128, 160 or 256 bits that are
not called a commit, digest or revision. Names of classes and models are not like that. Long symbols of C++ are, and are masked too."""
_ESCAPES = re.compile(r"\x1b\[[0-9;?]{0,20}[A-Za-z]")
_INVISIBLE = (
    *range(0x20), *range(0x7F, 0xA0), 0xAD, 0x34F, 0x61C, 0x115F, 0x1160, 0x180E, *range(0x200B, 0x2010), *range(0x202A, 0x202F),
    *range(0x2060, 0x2070), 0x3164, *range(0xD800, 0xE000), *range(0xFE00, 0xFE10), 0xFEFF, 0xFFA0, *range(0xFFF9, 0xFFFC),
    *range(0xE0000, 0xE0200),
)  # fmt: skip
"""Characters without a width, which would split a secret unseen: controls, directions, joiners, variants and tags; lone surrogates."""
_FRAME = str.maketrans(
    dict.fromkeys((ord("`"), *_INVISIBLE), None)
    | dict.fromkeys(map(ord, "│┃❱╭╮╰╯─━┏┓┗┛\u00a0\u2009\u202f\t\v\f"), " ")
    | {ord("\n"): "\n"}
    | dict(zip(map(ord, "’‘“”"), "''\"\"", strict=True))
)
_BLANKS = re.compile(" {2,}")
_EMPTY_LINES = re.compile(r"\n(?: ?\n){2,}")
_NOT_A_CHARACTER = re.compile(r"&#[0-9]{8,}")
_ESCAPED_TWICE = re.compile(r"&(?:amp|lt|gt|quot|#39|#x27|#[0-9]{2,7}|#x[0-9a-fA-F]{2,6});")


_RUN = 4
"""Letters of a run. No searched message is shorter."""
_SLOTS = 1 << 18


def hash_grams(text: str) -> np.ndarray:
    """The hashes of all runs of four letters. A text can contain a message only if it has all hashes of the message."""
    codes = np.frombuffer(text.encode("utf-32-le", "replace"), np.uint32)
    mixed = np.zeros(max(0, len(codes) - _RUN + 1), np.uint32)
    for place in range(_RUN):
        mixed *= np.uint32(0x01000193)
        mixed += codes[place : place + len(mixed)]
    return (mixed ^ (mixed >> np.uint32(15))) & np.uint32(_SLOTS - 1)


def mask_secrets(text: str) -> str:
    """The text without tokens, keys and passwords, those that a line end splits included."""
    for secret in _SECRETS:
        text = secret.sub(MASK, text)
    return text


_KEY_LIKE = (
    re.compile(r"(?i)(?:pass\w{0,6}|pwd|secret|key|token)[\"']?[ \t]{0,4}[=:][ \t]{0,4}[\"']?(?=[^\s\"']{0,60}[0-9])[^\s\"']{4,200}"),
    re.compile(
        r"(?<![A-Za-z0-9+/_=])(?=[A-Za-z+/_=]{0,199}[0-9])(?=[0-9+/_=]{0,199}[A-Za-z])(?:[A-Za-z+/_=]{0,40}[0-9]){4}[A-Za-z0-9+/_=]{8,}"
    ),
    re.compile(r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}"),
)
"""In a quotation also words with four digits, UUIDs, and short passwords: keys of services that are not listed look like them."""


def mask_quotation(text: str) -> str:
    """A message that is quoted, without secrets and without words that may be keys; a path with many digits is lost with them."""
    text = mask_secrets(text)
    for key in _KEY_LIKE:
        text = key.sub(MASK, text)
    return text


class View:
    """A text as lines, and as one string for messages that a line end splits."""

    def __init__(self, text: str, glue: str) -> None:
        """`glue` joins two lines of a wrapped message."""
        self.text, self.glue = text, glue
        self.joined = text.replace("\n", glue)
        self.grams = np.zeros(_SLOTS, bool)
        """Hashes of the runs of letters in the text (`hash_grams`): a message with another one is not in it."""
        self.grams[hash_grams(self.joined)] = True
        ends = np.flatnonzero(np.frombuffer(text.encode("utf-32-le", "replace"), np.uint32) == ord("\n"))
        starts = np.concatenate(([0], ends + 1))
        self._starts = {False: starts, True: starts - np.arange(len(starts)) * (1 - len(glue))}

    def line_of(self, place: int, *, joined: bool) -> int:
        """The number of the line that holds this place."""
        return int(np.searchsorted(self._starts[joined], place, side="right")) - 1

    def start_of(self, line: int, *, joined: bool) -> int:
        """The position of a line's first character; the end of the text for a line number beyond the last."""
        starts = self._starts[joined]
        return int(starts[line]) if line < len(starts) else len(self.joined if joined else self.text) + 1


class PastedText:
    """A text whose secrets are masked, in the two forms that messages are searched in; lines have the same numbers in both."""

    def __init__(self, text: str) -> None:
        """Undo the escapes of browsers, terminals and JSON, which could hide a secret, and mask it; no other code sees the raw text."""
        text = html.unescape(_NOT_A_CHARACTER.sub("", text[:MAX_BYTES]))  # Python rejects numbers that long
        if _ESCAPED_TWICE.search(text):
            text = html.unescape(_NOT_A_CHARACTER.sub("", text))
        text = _ESCAPES.sub("", text).replace("\\n", "\n").replace('\\"', '"').replace("\\/", "/").replace("\r\n", "\n").replace("\r", "\n")
        text = _EMPTY_LINES.sub("\n\n", mask_secrets(text.translate(_FRAME))).replace("\n> ", "\n")
        self.squeezed = View(text.replace(" ", ""), "")
        """Lines without blanks."""
        self.spaced = View(_BLANKS.sub(" ", text), " ")
        """Lines whose blanks are single: names of cards have blanks in them."""
