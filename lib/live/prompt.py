"""From a conversation to the tokens that the model reads: the model's own chat template, with the words of people kept words.

A template writes control tokens around each message ("<|im_start|>user"). A message that contains such a token as text must not become
one, or a visitor could end their own turn and speak as the system. So the template is rendered with stand-ins for the messages; what the
template wrote is tokenized with its control tokens, and each message by itself, cut inside every text that would be one.

    rendered = a‹0›b‹1›c          tokens = T(a) + W(message 0) + T(b) + W(message 1) + T(c)

T tokenizes as the tokenizer does, W tokenizes pieces in which no added token is whole. The cost: a token that would have spanned the
border between template and message is two tokens.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from lib.errors import BadArgument, ModelNotAtHand

Role = Literal["user", "assistant"]

_SHORTEST_TOKEN = 2  # a single letter or a run of blanks controls nothing


class Message(NamedTuple):
    """One turn: who, and what as plain text."""

    role: Role
    text: str


class Prompt(NamedTuple):
    """Tokens to read, and how many of the oldest messages were left out for want of room."""

    ids: list[int]
    dropped: int


def control_tokens(tokenizer: Any) -> re.Pattern[str] | None:
    """Texts that the tokenizer takes for one added token; None when it has none."""
    names = sorted((name for name in tokenizer.get_added_vocab() if len(name.strip()) >= _SHORTEST_TOKEN), key=len, reverse=True)
    return re.compile("|".join(re.escape(name) for name in names)) if names else None


def _split_controls(text: str, control: re.Pattern[str] | None) -> list[str]:
    """The text in pieces, cut after the first letter of everything that looks like a control token."""
    if control is None:
        return [text]
    pieces, start, at = [], 0, 0
    while match := control.search(text, at):
        pieces.append(text[start : match.start() + 1])
        start = at = match.start() + 1
    return [piece for piece in [*pieces, text[start:]] if piece]


def _encode(tokenizer: Any, text: str) -> list[int]:
    return list(tokenizer.encode(text, add_special_tokens=False)) if text else []


def encode_text(tokenizer: Any, text: str, control: re.Pattern[str] | None) -> list[int]:
    """The tokens of a person's words, none of them a control token."""
    return [token for piece in _split_controls(text, control) for token in _encode(tokenizer, piece)]


def _render_template(tokenizer: Any, messages: Sequence[Mapping[str, str]]) -> str:
    """The template's text, ready for the answer; models that think aloud are asked not to.

    Raises:
        BadArgument: the template refuses this order of turns.
        ModelNotAtHand: the template cannot be used at all.
    """
    from jinja2 import TemplateError  # noqa: PLC0415

    try:
        return str(tokenizer.apply_chat_template(list(messages), tokenize=False, add_generation_prompt=True, enable_thinking=False))
    except TemplateError as error:
        if len(messages) == 1:
            raise ModelNotAtHand(
                "The model's chat template cannot be used. Next: the owner of the Space sets DEMO_MODEL to another instruct model."
            ) from error
        raise BadArgument(
            "history", f"{len(messages) - 1} earlier messages", "turns that this model's template takes: user first, then in alternation"
        ) from error


def encode_messages(tokenizer: Any, messages: Sequence[Message]) -> list[int]:
    """The tokens of a conversation that ends with the user's turn.

    Raises:
        BadArgument: the template refuses this order of turns.
        ModelNotAtHand: the template cannot be used at all.
    """
    mark = secrets.token_hex(8)  # random, so that no message can contain it
    stand_ins = [{"role": message.role, "content": f"{mark}x{number}x"} for number, message in enumerate(messages)]
    control = control_tokens(tokenizer)
    ids: list[int] = []
    parts = re.split(rf"{mark}x(\d+)x", _render_template(tokenizer, stand_ins))
    for at, part in enumerate(parts):
        ids += encode_text(tokenizer, messages[int(part)].text, control) if at % 2 else _encode(tokenizer, part)
    return ids


def build_prompt(tokenizer: Any, history: Sequence[Message], message: str, room: int) -> Prompt:
    """The conversation in at most `room` tokens: the oldest turns are left out until it fits.

    Raises:
        BadArgument: the message alone is too long, or the template refuses the turns.
        ModelNotAtHand: the template cannot be used at all.
    """
    messages = [*history, Message("user", message)]
    while True:
        ids = encode_messages(tokenizer, messages)
        if len(ids) <= room:
            return Prompt(ids, len(history) + 1 - len(messages))
        if len(messages) == 1:
            raise BadArgument(
                "message", f"{len(ids):,} tokens", f"a message of at most {room:,} tokens, those of the chat template included"
            )
        del messages[0]
        while len(messages) > 1 and messages[0].role != "user":  # a conversation begins with the user
            del messages[0]
