"""Templates of the page: whatever enters one is text, and each can be compiled."""

from __future__ import annotations

from pathlib import Path

import pytest
from jinja2 import UndefinedError
from markupsafe import Markup

from lib.present.html import call_macro, render_html
from lib.present.tables import TableTools, render_table
from lib.present.templates import FOLDER

HOSTILE = "<script>alert('1')</script>&\"\u202e"


@pytest.mark.parametrize("macro", ["bullet_list", "definition_list", "fold", "refusal"])
def test_a_value_enters_as_text(macro: str) -> None:
    """Of every shared piece: tags of a value are escaped, those of `Markup` are not."""
    arguments = {"bullet_list": ([HOSTILE],), "definition_list": ([(HOSTILE, HOSTILE)],)}.get(macro, (HOSTILE, HOSTILE))
    shown = call_macro("parts.html.j2", macro, *arguments)
    assert "<script>" not in shown
    assert "&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;&amp;&#34;\u202e" in shown
    assert "<b>x</b>" in call_macro("parts.html.j2", "bullet_list", [Markup("<b>x</b>")])


def test_every_text_of_a_table_is_escaped() -> None:
    """Caption, heads, cells, what a cell is sorted by, and the words of its tools."""
    tools = TableTools(keys=[[HOSTILE], [HOSTILE]], first=1, more=HOSTILE, search=HOSTILE)
    assert "<script>" not in render_table(HOSTILE, (HOSTILE,), [(HOSTILE,), (HOSTILE,)], "rows", tools)


def test_a_missing_value_is_an_error() -> None:
    """A template never shows an empty place for a value that was forgotten."""
    with pytest.raises(UndefinedError):
        render_html("space_status.html.j2")


@pytest.mark.parametrize("file", sorted((FOLDER / "cards").glob("*.j2")), ids=lambda file: file.name)
def test_no_template_trusts_a_value(file: Path) -> None:
    """Markup is marked where it is made, in Python: no template has the filter `safe` or switches escaping off."""
    text = file.read_text(encoding="utf-8")
    assert "safe" not in text
    assert "autoescape" not in text
