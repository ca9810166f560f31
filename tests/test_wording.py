"""Patterns that make sentences hard to read: their number in docstrings, visitor texts and docs may only fall."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PATTERNS = {
    "what is, what has, what was, what are as nouns": r"\b[Ww]hat (?:is|has|was|are|were)\b",
    "whoever, whatever, nobody, everybody, stranger": r"\b(?:[Ww]hoever|[Ww]hatever|[Nn]obody|[Ee]verybody|[Ss]trangers?)\b",
    "X is no Y": r"(?<![Tt]here )\b(?:is|are) no\b(?! longer)",
    "things that stand or lie": r"\b(?:[Ss]tands?|lies|stood)\b",
    "beside": r"\bbeside\b",
    "a text that begins with What, Where, Whose or Who": r"\A(?:What|Where|Whose|Who)\b(?![^.\n]*\?)",
}
MOST = {
    "what is, what has, what was, what are as nouns": 65,
    "whoever, whatever, nobody, everybody, stranger": 20,
    "X is no Y": 0,
    "things that stand or lie": 37,
    "beside": 36,
    "a text that begins with What, Where, Whose or Who": 33,
}
"""Lower a number when a text was rewritten; never raise one."""
VISITOR_TEXTS = ("lib/present/",)
DOCS = ("README.md", "SECURITY.md", "docs/methodology.md", "docs/operating.md", "docs/development.md", "docs/architecture.md")


def read_texts() -> Iterator[str]:
    """Docstrings of lib and scripts, strings of several words in `lib/present`, wording files, templates, README and docs."""
    for file in (
        *(ROOT / name for name in DOCS),
        *sorted(ROOT.glob("lib/data/wording/*.yaml")),
        *sorted(ROOT.glob("lib/templates/**/*.j2")),
    ):
        yield file.read_text(encoding="utf-8")
    for file in (file for folder in ("lib", "scripts") for file in sorted((ROOT / folder).rglob("*.py"))):
        shown = str(file.relative_to(ROOT)).startswith(VISITOR_TEXTS)
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            match node:
                case ast.Expr(value=ast.Constant(value=str(text))) if not shown:
                    yield text
                case ast.Constant(value=str(text)) if shown and " " in text:
                    yield text


def test_patterns_that_are_hard_to_read_only_become_fewer() -> None:
    """Rules 2 and 4 of how this project writes; see docs/development.md."""
    counts = dict.fromkeys(PATTERNS, 0)
    for text in read_texts():
        for name, pattern in PATTERNS.items():
            counts[name] += len(re.findall(pattern, text))
    assert {name: count for name, count in counts.items() if count > MOST[name]} == {}
