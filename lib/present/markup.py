"""HTML as text: everything from outside goes through `escape`, sources become links.

Sources become links to the addresses that their text names: "github:huggingface/hub-docs docs/hub/spaces-gpus.md @34ee0f00" leads to
that file at that commit. A source without an address (our own measurement) stays text.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterable, Sequence
from urllib.parse import quote

from lib.present.wording import page_note

_PLAIN_IN_DATA = " {}[]():,;/"  # browsers take these as they are in a data address; encoded, a JSON would be a third longer


def escape(value: object) -> str:
    """Text that is safe both between tags and inside a quoted attribute."""
    return html.escape(str(value), quote=True)


def download_link(label: str, name: str, media: str, content: str) -> str:
    """A link that saves text as a file; the content travels in the link, so that no file is on the server."""
    href = f"data:{media};charset=utf-8,{quote(content, safe=_PLAIN_IN_DATA)}"
    return f'<a class="act" download="{escape(name)}" href="{escape(href)}">{escape(label)}</a>'


PASTED = "pasted"
"""The value of `config` in a link to an answer about a pasted config.json, which no link carries."""


def answer_actions(*, text: str, query: str | None, files: tuple[tuple[str, str, str, str], ...], more: str = "") -> str:
    """Actions on an answer: copy it as text, link to it, save it. `assets/page.js` does the copying.

    Args:
        text: the answer in plain words.
        query: the link's query, None for no link. No link carries a pasted config.json, and the button says so.
        files: (label, file name, media type, content) of each download.
        more: markup of further buttons.
    """
    copy = f'<button type="button" class="act" data-copy="{escape(text)}">Copy as text</button>'
    words = "Copy link, without the config.json" if f"config={PASTED}" in (query or "") else "Copy link"
    link = "" if query is None else f'<a class="act" data-copy-link href="{escape(query)}">{words}</a>'
    downloads = "".join(download_link(*file) for file in files)
    status = '<span class="sr" role="status"></span>'
    return f'<div class="actions" role="toolbar" aria-label="Copy, link, download">{copy}{link}{downloads}{more}{status}</div>'


def bullet_list(items: list[str], name: str) -> str:
    """A list of sentences that are already markup; nothing when there are none."""
    return f'<ul class="{name}">{"".join(f"<li>{item}</li>" for item in items)}</ul>' if items else ""


def definition_list(pairs: Iterable[tuple[str, str]], name: str = "figures") -> str:
    """Figures or facts by their names; both are markup already."""
    return f'<dl class="{name}">{"".join(f"<div><dt>{term}</dt><dd>{text}</dd></div>" for term, text in pairs)}</dl>'


def fold(summary: str, inner: str, name: str = "rest") -> str:
    """A box that opens at a press; both are markup already."""
    of_class = f' class="{name}"' if name else ""
    return f"<details{of_class}><summary>{summary}</summary>{inner}</details>"


def refusal_note(sentence: str, outcome: str = "Not answered.") -> str:
    """The markup in place of an answer when the question was refused; `outcome` says in two or three words which action failed."""
    return f'<div class="refusal" role="alert"><strong>{escape(outcome)}</strong> {escape(sentence)}</div>'


def hint_note(sentence: str) -> str:
    """A quiet sentence if nothing is to be shown yet."""
    return f'<p class="hint" role="status">{escape(sentence)}</p>'


def no_model_note(place: str) -> str:
    """The next step if no model is named. `assets/page.js` puts the reason here when the named model cannot be used."""
    return f'<div class="hint" role="status" data-no-model><p>{escape(page_note(f"name_model:{place}"))}</p></div>'


def code_blocks(blocks: Sequence[tuple[str, str]]) -> str:
    """Named blocks of code, each with its button."""
    return "".join(
        f'<figure class="code"><figcaption>{escape(name)}'
        f'<button type="button" class="act" data-copy="{escape(code)}" aria-label="Copy: {escape(name)}">Copy</button>'
        f'<span class="sr" role="status"></span></figcaption><pre tabindex="0"><code>{escape(code.rstrip())}</code></pre></figure>'
        for name, code in blocks
    )


def suggestion_list(ids: Iterable[str]) -> str:
    """Names that a text field suggests while one types."""
    options = "".join(f'<option value="{escape(name)}"></option>' for name in ids)
    return f'<datalist id="model-names">{options}</datalist>'


_REPO = r"[A-Za-z0-9][\w-]{0,95}/[A-Za-z0-9][\w.-]{0,95}"  # the Hub's longest; without an end, a long word takes minutes
_PATH = r"[\w.+-]+(?:/[\w.+-]{1,100}){1,12}|[\w+-]+\.(?:md|mdx|csv|py|yml|json|ts)"
_FORMS: tuple[tuple[str, Callable[[re.Match[str]], str]], ...] = (
    (r"https://[^\s<>\"')]+(?<![.,;:])", lambda m: m[0]),
    (
        rf"(?P<id>{_REPO}) at (?P<revision>[0-9a-f]{{40}}|main) on the Hub",
        lambda m: f"https://huggingface.co/{m['id']}/tree/{m['revision']}",
    ),
    (rf"github:(?P<r1>{_REPO}) issue (?P<number>\d+)", lambda m: f"https://github.com/{m['r1']}/issues/{m['number']}"),
    (rf"github:(?P<r2>{_REPO}) (?P<commit>[0-9a-f]{{7,40}})\b", lambda m: f"https://github.com/{m['r2']}/commit/{m['commit']}"),
    (rf"github:(?P<r3>{_REPO})(?: (?P<path>{_PATH}))?(?: @(?P<ref>[0-9a-f]{{7,40}}))?", lambda m: _github(m["r3"], m["ref"], m["path"])),
    (rf"(?P<r4>{_REPO})@(?P<at>[0-9a-f]{{7,40}})(?: (?P<file>{_PATH}))?", lambda m: _github(m["r4"], m["at"], m["file"])),
    (rf"(?P<r5>{_REPO})#(?P<issue>\d+)", lambda m: f"https://github.com/{m['r5']}/issues/{m['issue']}"),
    (r"arXiv:(?P<paper>\d{4}\.\d{4,5})", lambda m: f"https://arxiv.org/abs/{m['paper']}"),
    (
        r"(?:PyPI )?\b(?P<package>huggingface_hub|spaces|transformers|torch|diffusers) (?P<release>\d+\.\d+\.\d+)",
        lambda m: f"https://pypi.org/project/{m['package']}/{m['release']}/",
    ),
    (r"\b(?:[a-z0-9-]{1,63}\.){1,6}(?:com|org|net|co)(?:/[\w./-]*[\w/])?", lambda m: f"https://{m[0]}"),
)
"""Forms of an address, and the link of each; earlier forms go first."""
_ANY = re.compile("|".join(f"(?P<form{number}>{pattern})" for number, (pattern, _) in enumerate(_FORMS)))


def _github(repository: str, ref: str | None, path: str | None) -> str:
    """A file at a commit, or as much of that as is named."""
    home = f"https://github.com/{repository}"
    if path is None:
        return home if ref is None else f"{home}/tree/{ref}"
    return f"{home}/blob/{ref or 'HEAD'}/{quote(path)}"


def _address_words(text: str) -> str:
    """An address as it is shown: of a file in a repository the repository's name alone; the link and its title have file and commit."""
    if not text.startswith("github:"):
        return text
    repository, *words = text.removeprefix("github:").split(" ")
    return " ".join([repository, *(word for word in words if not word.startswith("@") and "/" not in word and "." not in word)])


def link_source(source: str) -> str:
    """A source as markup: text in which every address that it names is a link."""
    pieces: list[str] = []
    end = 0
    for match in _ANY.finditer(source):
        to = next(lead for number, (_, lead) in enumerate(_FORMS) if match[f"form{number}"] is not None)
        whole, words = escape(match[0]), escape(_address_words(match[0]))
        address = f'<a href="{escape(to(match))}" title="{whole}" target="_blank" rel="noopener noreferrer">{words}</a>'
        pieces += [escape(source[end : match.start()]), address]
        end = match.end()
    return "".join([*pieces, escape(source[end:])])
