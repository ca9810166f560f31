"""Commands as their own parsers read them, and texts that no command may be broken by."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click
from hypothesis import strategies as st

NASTY = ("-rf/x", "a/b; touch owned", "$(id)/`id`", "a'b\"c\\", "a\nb", "\u202eevil", "--json", "-1", " ", "é/ü", "{x}/%s")
texts = st.one_of(st.sampled_from(NASTY), st.text(min_size=1, max_size=30).filter(lambda text: "\0" not in text))


def parse_words(group: click.Command, words: Sequence[str]) -> tuple[str, dict[str, Any]]:
    """The command that a parser finds in the words, and what it reads from them; unknown commands and options are refused."""
    remaining = list(words)
    name, command = "", group
    while isinstance(command, click.Group):
        name = remaining.pop(0)
        found = command.get_command(click.Context(command), name)
        assert found is not None, f"there is no command {name}"
        command = found
    materialize = getattr(command, "materialize", None)  # a command of `hf` that is imported when it is used
    command = materialize() if materialize else command
    return name, command.make_context(name, remaining).params
