"""Sources as links: the addresses that a source's text names, in the forms in which sources are written down here.

    link_source("github:huggingface/hub-docs docs/hub/spaces-gpus.md @34ee0f00")

leads to that file at that commit. What names no address (a measurement of our own) stays text.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from urllib.parse import quote

from lib.present.markup import escape

_REPO = r"[A-Za-z0-9][\w-]*/[A-Za-z0-9][\w.-]*"
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
"""What an address looks like, and where it leads; earlier forms go first."""
_ANY = re.compile("|".join(f"(?P<form{number}>{pattern})" for number, (pattern, _) in enumerate(_FORMS)))


def _github(repository: str, ref: str | None, path: str | None) -> str:
    """A file at a commit, or as much of that as is named."""
    home = f"https://github.com/{repository}"
    if path is None:
        return home if ref is None else f"{home}/tree/{ref}"
    return f"{home}/blob/{ref or 'HEAD'}/{quote(path)}"


def link_source(source: str) -> str:
    """A source as markup: text in which every address that it names is a link."""
    pieces: list[str] = []
    end = 0
    for found in _ANY.finditer(source):
        to = next(lead for number, (_, lead) in enumerate(_FORMS) if found[f"form{number}"] is not None)
        address = f'<a href="{escape(to(found))}" target="_blank" rel="noopener noreferrer">{escape(found[0])}</a>'
        pieces += [escape(source[end : found.start()]), address]
        end = found.end()
    return "".join([*pieces, escape(source[end:])])
