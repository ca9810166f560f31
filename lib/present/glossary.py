"""The terms of the field: the first mention of each in an answer is explained, and all of them are listed at the foot of the page.

`assets/page.js` shows a term's sentence on hover and focus.
"""

from __future__ import annotations

import re

from lib.present.markup import bullet_list, definition_list, escape
from lib.present.wording import load_wording

TERMS: dict[str, str] = load_wording("page")["glossary"]

_SILENT = frozenset({"a", "button", "summary", "code", "pre", "abbr", "label", "option", "script", "style", "svg", "h1", "h2", "h3"})
"""Elements whose text stays as it is: controls, code, and headings."""
_SILENT_CLASSES = ('class="sr"', 'class="key"')
"""Words for screen readers only, and a chart's legend, which repeats the words of the card above it."""
_TAG = re.compile(r"(<[^<>]*>)")
_WORD = re.compile(rf"\b(?:{'|'.join(sorted(map(re.escape, TERMS), key=len, reverse=True))})\b", re.IGNORECASE)
_BY_FOLDED = {term.lower(): term for term in TERMS}
_EXACT = frozenset({"MoE"})
"""Written in other letters these are other words."""


_BEFORE_UNIT = re.compile(
    r"(?<=\d) (?=(?:[KMGT]i?B|[GTP]FLOP|tokens|ms|s|min|h|%|×|million|billion|days|GPUs|requests|visitors)(?!\w))"
    r"|(?<=×) (?=\d)|(?<=\ban) (?=hour\b)|(?<=\ba) (?=(?:day|month)\b)|(?<=\bper) (?=hour\b)"
)
_DATE = re.compile(r"\b\d{4}-\d\d-\d\d\b")
_COPIED = frozenset({"code", "pre", "script", "style"})
"""Elements whose text is copied character by character."""


def bind_units(text: str) -> str:
    """The text with numbers that no line break parts from their units, nor a price from its hour."""
    return _BEFORE_UNIT.sub("\u00a0", text)


def explain_terms(markup: str, mentions: set[str] | None = None) -> str:
    """The markup with the first mention of each term explained, and numbers and dates that no line break parts.

    Outputs that one event fills share their `mentions`: a term is explained in the first of them.

    Inside links, buttons, code and headings no term is explained. Markup of this package writes no bare "<" or ">" in an attribute
    (`lib.present.markup.escape`), so that every tag ends at its first ">".
    """
    mentions = set() if mentions is None else mentions
    silent: list[str] = []
    pieces: list[str] = []
    for piece in _TAG.split(markup):
        if piece.startswith("<"):
            _follow_tag(piece, silent)
            pieces.append(piece)
        else:
            bound = piece if silent and silent[-1] in _COPIED else bind_units(piece)
            explained = bound if silent else _WORD.sub(lambda match: _explain(match[0], mentions), bound)
            pieces.append(explained if silent else _DATE.sub(r'<span class="date">\g<0></span>', explained))
    return "".join(pieces)


def _follow_tag(tag: str, silent: list[str]) -> None:
    """Keep the stack of open elements whose text stays."""
    name = tag.strip("</>").partition(" ")[0].lower()
    silences = name in _SILENT or any(mark in tag for mark in _SILENT_CLASSES)
    if not silences and not silent:
        return
    if tag.startswith("</"):
        if silent and silent[-1] == name:
            silent.pop()
    elif not tag.endswith("/>") and silences:
        silent.append(name)


def _explain(word: str, mentions: set[str]) -> str:
    term = _BY_FOLDED[word.lower()]
    if term in mentions or (term in _EXACT and word != term):
        return word
    mentions.add(term)
    return f'<abbr class="term" tabindex="0" data-term="{escape(TERMS[term])}">{word}</abbr>'


def glossary_list() -> str:
    """All terms with their explanations."""
    entries = definition_list(((escape(term), escape(words)) for term, words in TERMS.items()), "facts")
    return f'<details class="colophon" id="glossary"><summary>Glossary</summary>{entries}</details>'


def privacy_note(*, account_actions: bool) -> str:
    """Data that this Space sends and stores: a box to open at the foot of the page."""
    words = load_wording("page")["privacy"]
    sentences = [escape(words[name]) for name in ("sends", "keeps", "acts" if account_actions else "acts_off")]
    return f'<details class="colophon" id="privacy"><summary>{escape(words["title"])}</summary>{bullet_list(sentences, "notes")}</details>'
