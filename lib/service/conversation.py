"""A message and its history from outside, checked: who said what, as plain text of a bounded length.

A history is a list of messages in Gradio's form, {"role": "user", "content": "…"} (the content also as a list of parts of text), or of
pairs [what the user said, what the model said]. Roles are `user` and `assistant`: nobody speaks as the system here.
"""

from __future__ import annotations

from collections.abc import Sequence

from lib.errors import BadArgument
from lib.live.prompt import Message
from lib.service.arguments import seen

MOST_MESSAGES = 100
MOST_CHARACTERS = 16_000  # of one message
MOST_IN_ALL = 64_000
_FORM = 'a list of {"role": "user" or "assistant", "content": text}, or of [user, assistant] pairs of texts'


def _text(name: str, value: object) -> str:
    """Text with something in it. Control characters other than line breaks and tabs are no words and are refused.

    Raises:
        BadArgument: not text, empty, or too long.
    """
    accepted = f"text of 1 to {MOST_CHARACTERS:,} characters"
    if not isinstance(value, str):
        raise BadArgument(name, seen(value), accepted)
    if len(value) > MOST_CHARACTERS:
        raise BadArgument(name, f"{len(value):,} characters", accepted)
    if not value.strip() or any((ord(c) < ord(" ") and c not in "\n\r\t") or "\ud800" <= c <= "\udfff" for c in value):
        raise BadArgument(name, value, f"{accepted}, without control characters")
    return value


def _content(name: str, value: object) -> str:
    """The text of a message's content, which Gradio also sends as a list of parts."""
    if not isinstance(value, list):
        return _text(name, value)
    parts = value[: MOST_MESSAGES + 1]
    texts = [part.get("text") if isinstance(part, dict) and part.get("type", "text") == "text" else None for part in parts]
    if len(parts) > MOST_MESSAGES or not all(isinstance(text, str) for text in texts):
        raise BadArgument(name, seen(value), "text, or a list of parts of text; files are not read")
    return _text(name, "".join(text for text in texts if isinstance(text, str)))


def _turns(at: int, value: object) -> list[Message]:
    name = f"history[{at}]"
    if isinstance(value, dict):
        role = value.get("role")
        if role == "user" or role == "assistant":  # noqa: PLR1714 so the checker sees which two it is
            return [Message(role, _content(f"{name}.content", value.get("content")))]
        raise BadArgument(f"{name}.role", seen(role), "user or assistant")
    if isinstance(value, list | tuple) and len(value) == 2:  # noqa: PLR2004 a pair
        return [Message("user", _content(f"{name}[0]", value[0])), Message("assistant", _content(f"{name}[1]", value[1]))]
    raise BadArgument(name, seen(value), _FORM)


def check_message(value: object) -> str:
    """What the user says now.

    Raises:
        BadArgument: not text, empty, or too long.
    """
    return _text("message", value)


def check_history(value: object) -> list[Message]:
    """What was said before, oldest first.

    Raises:
        BadArgument: not a history, or too much of it.
    """
    if value is None:
        return []
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        raise BadArgument("history", seen(value), _FORM)
    if len(value) > MOST_MESSAGES:
        raise BadArgument("history", seen(value), f"at most {MOST_MESSAGES} messages: leave out the oldest")
    found = [message for at, turn in enumerate(value) for message in _turns(at, turn)]
    total = sum(len(message.text) for message in found)
    if total > MOST_IN_ALL:
        raise BadArgument("history", f"{total:,} characters", f"at most {MOST_IN_ALL:,} characters in all: leave out the oldest messages")
    return found
