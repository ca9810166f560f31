"""Text from outside inside code that somebody will run: a Python literal, a word of a shell command.

What is quoted stays one literal and one word whatever it holds; an id that begins with a dash is kept from being read as an option.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

_PLAIN = re.compile(r"[A-Za-z0-9/][A-Za-z0-9/:._-]*")


def literal(text: str) -> str:
    """A Python literal of the text; what cannot be seen is written as an escape."""
    return f'"{text}"' if _PLAIN.fullmatch(text) else repr(text)


def command(words: str, positional: Sequence[str] = (), options: Sequence[str] = ()) -> str:
    """A line for a POSIX shell: `words` is ours, everything else is quoted; `--` parts the options off where a value looks like one."""
    dashed = any(value.startswith("-") for value in positional)
    order = (*options, "--", *positional) if dashed else (*positional, *options)
    return " ".join((words, *(shlex.quote(value) for value in order)))


def call(method: str, arguments: Sequence[str], *, result: str | None = None) -> str:
    """A call of the Hub's client; `result` is what is printed of the answer, which the code calls `answer`."""
    asked = f"HfApi().{method}({', '.join(arguments)})"
    lines = ["from huggingface_hub import HfApi", ""]
    lines += [asked] if result is None else [f"answer = {asked}", f"print({result})"]
    return "\n".join(lines)
