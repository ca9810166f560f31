"""HTML as text, with one rule: whatever comes from outside goes through `escaped`."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from urllib.parse import quote

_PLAIN_IN_DATA = " {}[]():,;/"  # browsers take these as they are in a data address; encoded, a JSON would be a third longer


def escaped(value: object) -> str:
    """Text that is safe both between tags and inside a quoted attribute."""
    return escape(str(value), quote=True)


def download(label: str, name: str, media: str, content: str) -> str:
    """A link that saves text as a file; the content travels in the link, so that no file lies on the server."""
    href = f"data:{media};charset=utf-8,{quote(content, safe=_PLAIN_IN_DATA)}"
    return f'<a class="act" download="{escaped(name)}" href="{escaped(href)}">{escaped(label)}</a>'


def actions(*, text: str, query: str | None, files: tuple[tuple[str, str, str, str], ...]) -> str:
    """What can be done with an answer: copy it as text, link to it, save it. `assets/page.js` does the copying.

    Args:
        text: the answer in plain words.
        query: the link's query, or `None` when the question is too long for one.
        files: (label, file name, media type, content) of each download.
    """
    copied = f'<button type="button" class="act" data-copy="{escaped(text)}">Copy as text</button>'
    linked = "" if query is None else f'<a class="act" data-copy-link href="{escaped(query)}">Copy link</a>'
    saved = "".join(download(*file) for file in files)
    status = '<span class="sr" role="status"></span>'
    return f'<div class="actions" role="group" aria-label="Copy, link, download">{copied}{linked}{saved}{status}</div>'


def bullets(items: list[str], name: str) -> str:
    """A list of sentences that are already markup; nothing when there are none."""
    return f'<ul class="{name}">{"".join(f"<li>{item}</li>" for item in items)}</ul>' if items else ""


def refusal(sentence: str) -> str:
    """What stands where an answer would, when the question was refused."""
    return f'<div class="refusal" role="alert"><strong>That did not work.</strong> {escaped(sentence)}</div>'


def hint(sentence: str) -> str:
    """A quiet sentence where nothing is to be shown yet."""
    return f'<p class="hint" role="status">{escaped(sentence)}</p>'


def suggestion_list(ids: Iterable[str]) -> str:
    """Names that a text field suggests while one types."""
    options = "".join(f'<option value="{escaped(name)}"></option>' for name in ids)
    return f'<datalist id="model-names">{options}</datalist>'
