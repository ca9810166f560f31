"""Commands as their own parsers read them, and texts that no command may be broken by."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click
from hypothesis import strategies as st

NASTY = ("-rf/x", "a/b; touch owned", "$(id)/`id`", "a'b\"c\\", "a\nb", "\u202eevil", "--json", "-1", " ", "é/ü", "{x}/%s")
texts = st.one_of(st.sampled_from(NASTY), st.text(min_size=1, max_size=30).filter(lambda text: "\0" not in text))


def parsed(group: click.Command, words: Sequence[str]) -> tuple[str, dict[str, Any]]:
    """The command that a parser finds in the words, and what it reads from them; unknown commands and options are refused."""
    left = list(words)
    name, at = "", group
    while isinstance(at, click.Group):
        name = left.pop(0)
        found = at.get_command(click.Context(at), name)
        assert found is not None, f"there is no command {name}"
        at = found
    return name, at.make_context(name, left).params
