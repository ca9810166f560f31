"""Renders the cards and tables of the page from the templates in `lib/templates/cards/`, with autoescape.

    render_html("space_status.html.j2", status=status)

Every value is escaped unless it is `Markup`, so a hostile name stays text. Python code builds a piece of a line with
`Markup("<code>{}</code>").format(name)`, which escapes its arguments too. Line breaks of a template are removed next to a tag or an
expression, and become a space inside a sentence.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape

from lib.present import numbers
from lib.present.markup import link_source
from lib.present.sentences import sentence
from lib.present.templates import FOLDER

if TYPE_CHECKING:
    from jinja2 import Environment

STRONG = Markup("<strong>{}</strong>")
_BREAK_AT_TAG, _BREAK = re.compile(r"(?<=[>}])\s*\n\s*|\s*\n\s*(?=[<{])|\s*\n\s*\Z"), re.compile(r"\s*\n\s*")


@cache
def _environment() -> Environment:
    from jinja2 import Environment, FunctionLoader, StrictUndefined  # noqa: PLC0415  not needed to start

    def load(name: str) -> str:
        """The text of a template without its line breaks."""
        return _BREAK.sub(" ", _BREAK_AT_TAG.sub("", (FOLDER / "cards" / name).read_text(encoding="utf-8")))

    made = Environment(loader=FunctionLoader(load), undefined=StrictUndefined, autoescape=True, auto_reload=False)
    made.filters |= {
        "bytes": numbers.gib, "count": numbers.count, "count_words": numbers.count_words, "per_hour": numbers.usd_per_hour,
        "per_month": numbers.usd_per_month, "seconds": numbers.format_seconds, "usd": numbers.usd, "whole": numbers.whole,
        "link_source": lambda source: trusted(link_source(source)), "sentence": sentence,
        "unique_sentences": lambda statements: [sentence(one) for one in dict.fromkeys(statements)],
    }  # fmt: skip
    return made


def render_html(template: str, /, **values: Any) -> str:
    """A card or another block of the page. A value that the template names and the caller omits raises `UndefinedError`."""
    return _environment().get_template(template).render(values)


def call_macro(template: str, macro: str, /, *arguments: Any) -> Markup:
    """A piece of a card: the markup of one macro of a template."""
    made: Markup = getattr(_environment().get_template(template).module, macro)(*arguments)
    return made


def with_small(text: str, small: object) -> Markup:
    """A table cell: a line and, if `small` is not empty, a smaller line below it."""
    return Markup("{}<small>{}</small>").format(text, small) if small else escape(text)


def trusted(markup: str) -> Markup:
    """Mark HTML that this package made as safe for a template. Never pass a text from outside."""
    return Markup(markup)  # noqa: S704  see above
