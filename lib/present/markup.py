"""HTML as text, with one rule: whatever comes from outside goes through `escape`."""

from __future__ import annotations

import html
from collections.abc import Iterable
from urllib.parse import quote

_PLAIN_IN_DATA = " {}[]():,;/"  # browsers take these as they are in a data address; encoded, a JSON would be a third longer


def escape(value: object) -> str:
    """Text that is safe both between tags and inside a quoted attribute."""
    return html.escape(str(value), quote=True)


def download_link(label: str, name: str, media: str, content: str) -> str:
    """A link that saves text as a file; the content travels in the link, so that no file lies on the server."""
    href = f"data:{media};charset=utf-8,{quote(content, safe=_PLAIN_IN_DATA)}"
    return f'<a class="act" download="{escape(name)}" href="{escape(href)}">{escape(label)}</a>'


def answer_actions(*, text: str, query: str | None, files: tuple[tuple[str, str, str, str], ...]) -> str:
    """What can be done with an answer: copy it as text, link to it, save it. `assets/page.js` does the copying.

    Args:
        text: the answer in plain words.
        query: the link's query, or `None` when the question is too long for one.
        files: (label, file name, media type, content) of each download.
    """
    copied = f'<button type="button" class="act" data-copy="{escape(text)}">Copy as text</button>'
    linked = "" if query is None else f'<a class="act" data-copy-link href="{escape(query)}">Copy link</a>'
    saved = "".join(download_link(*file) for file in files)
    status = '<span class="sr" role="status"></span>'
    return f'<div class="actions" role="group" aria-label="Copy, link, download">{copied}{linked}{saved}{status}</div>'


def bullet_list(items: list[str], name: str) -> str:
    """A list of sentences that are already markup; nothing when there are none."""
    return f'<ul class="{name}">{"".join(f"<li>{item}</li>" for item in items)}</ul>' if items else ""


def refusal_note(sentence: str, failed: str = "Not answered.") -> str:
    """The markup in place of an answer when the question was refused; `failed` says in two or three words what there is none of."""
    return f'<div class="refusal" role="alert"><strong>{escape(failed)}</strong> {escape(sentence)}</div>'


def hint_note(sentence: str) -> str:
    """A quiet sentence where nothing is to be shown yet."""
    return f'<p class="hint" role="status">{escape(sentence)}</p>'


def suggestion_list(ids: Iterable[str]) -> str:
    """Names that a text field suggests while one types."""
    options = "".join(f'<option value="{escape(name)}"></option>' for name in ids)
    return f'<datalist id="model-names">{options}</datalist>'
