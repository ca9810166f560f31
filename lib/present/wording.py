"""Reads the sentences and terms of `lib/data/wording/*.yaml`.

`lib.present.sentences` says how a sentence is written, and fills it. `{=name}` in a text is replaced by the text `name` of shared.yaml.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

FOLDER = Path(__file__).parent.parent / "data" / "wording"
_SHARED = re.compile(r"\{=(\w+)\}")


@cache
def load_wording(file: str) -> Mapping[str, Any]:
    """All texts of a file by their group.

    Raises:
        KeyError: a text names one that shared.yaml does not have.
    """
    wording: Mapping[str, Any] = MappingProxyType(_insert_shared(_read(file)))
    return wording


@cache
def load_sentences(file: str) -> Mapping[str, str]:
    """The sentences of all groups of a file, by "code" or "code:variant"."""
    return MappingProxyType({key: text for group in load_wording(file).values() for key, text in group.items()})


def term(group: str, name: str) -> str:
    """A short word of terms.yaml; the name itself if the group does not have it."""
    text: str = load_wording("terms")[group].get(name, name)
    return text


def page_note(occasion: str) -> str:
    """A sentence of the page itself: in place of an answer, or next to a form."""
    text: str = load_wording("page")["notes"][occasion]
    return text


def write_text(file: str, group: str, code: str, /, **values: object) -> str:
    """A text of a wording file, its values formatted as Python does (`lib.present.sentences.say` formats them by their units)."""
    text: str = load_wording(file)[group][code]
    return text.format(**values)


@cache
def _read(file: str) -> dict[str, Any]:
    import yaml  # type: ignore[import-untyped]  # noqa: PLC0415  not needed to start

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    texts: dict[str, Any] = yaml.load((FOLDER / f"{file}.yaml").read_bytes(), Loader=loader)  # noqa: S506  both are safe loaders
    return texts


def _insert_shared(texts: Any) -> Any:
    """The same tree, with shared texts in place of their names."""
    match texts:
        case str():
            return _SHARED.sub(lambda found: _read("shared")[found[1]], texts)
        case list():
            return [_insert_shared(text) for text in texts]
        case dict():
            return {key: _insert_shared(text) for key, text in texts.items()}
        case _:
            return texts
