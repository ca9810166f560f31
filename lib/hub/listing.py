"""What the Hub says about a model (/api/models/{id}?blobs=true), checked field by field.

Only the fields used here are looked at; each has the type that the Hub documents, or the answer is refused or the field is
left empty where nothing depends on it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lib.bounded_json import UnreadableJson, read_json
from lib.errors import InvalidInput
from lib.hub import refusals
from lib.hub.client import checked_id

MAX_LISTING_BYTES = 16 * 2**20
MAX_NODES = 1_000_000  # the description of a model with 50,000 files has 700,000; 16 MiB of "[],[],…" would have 11 million
_MAX_FILES = 50_000
_MAX_NAME = 1024
_MAX_TEXT = 200
_MAX_TAGS = 500
_SHA = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """A model at one commit: its files with their sizes (None = not told) and the fields of its card."""

    id: str
    sha: str
    files: Mapping[str, int | None]
    pipeline_tag: str | None
    library_name: str | None
    tags: tuple[str, ...]
    license: str | None
    gated: str
    private: bool
    base_model: str | None
    published_parameters: Mapping[str, int]


def as_json(text: bytes, what: str, of: str, most: int = MAX_NODES) -> Any:
    """JSON from outside of at most `most` nodes (`lib.bounded_json`); `of` names it in the sentence.

    Raises:
        HubGarbage: it is not JSON, nested too deep to be read, or holds more values.
    """
    try:
        return read_json(text, most)
    except UnreadableJson as error:
        raise refusals.garbage(what, f"{of} cannot be read: {error}") from error


def as_object(text: bytes, what: str, of: str, most: int = MAX_NODES) -> dict[str, Any]:
    """JSON that has to be an object.

    Raises:
        HubGarbage: it is not.
    """
    value = as_json(text, what, of, most)
    if not isinstance(value, dict):
        raise refusals.garbage(what, f"{of} is not a JSON object")
    return value


def read_listing(text: bytes, asked: str) -> Listing:
    """Read the Hub's description of a model; `asked` is the id that was asked for.

    Raises:
        HubGarbage: not JSON, or an id, a commit or a file list that cannot be one.
    """
    data = as_object(text, asked, "the description of the model")
    sha = data.get("sha")
    if not (isinstance(sha, str) and _SHA.fullmatch(sha)):
        raise refusals.garbage(asked, "the description of the model names no commit")
    gated = data.get("gated")
    card = data.get("cardData") if isinstance(data.get("cardData"), dict) else {}
    tags = tuple(tag for tag in _list(data.get("tags"))[:_MAX_TAGS] if _text(tag))
    return Listing(
        id=_id(data.get("id"), asked),
        sha=sha,
        files=_files(data.get("siblings"), asked),
        pipeline_tag=_text(data.get("pipeline_tag")),
        library_name=_text(data.get("library_name")),
        tags=tags,
        license=_text((card or {}).get("license"))
        or next((tag.removeprefix("license:") for tag in tags if tag.startswith("license:")), None),
        gated=gated if gated in ("auto", "manual") else ("auto" if gated is True else ""),
        private=data.get("private") is True,
        base_model=next((tag.rpartition(":")[2] for tag in tags if tag.startswith("base_model:adapter:")), None),
        published_parameters=_parameters(data.get("safetensors")),
    )


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and 0 < len(value) <= _MAX_TEXT and value.isprintable() else None


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _id(value: Any, asked: str) -> str:
    """The model's present id: a renamed model is answered under its new one."""
    text = _text(value)
    if text is None or text.lower() == asked.lower():
        return text or asked
    try:
        return checked_id(text, None)
    except InvalidInput as error:
        raise refusals.garbage(asked, "the description of the model names no id") from error


def _files(value: Any, asked: str) -> dict[str, int | None]:
    if not isinstance(value, list) or len(value) > _MAX_FILES:
        raise refusals.garbage(asked, f"the description of the model has no list of at most {_MAX_FILES:,} files")
    files: dict[str, int | None] = {}
    for entry in value:
        name = entry.get("rfilename") if isinstance(entry, dict) else None
        if not isinstance(name, str) or not 0 < len(name) <= _MAX_NAME or name.startswith("/") or {"..", "."} & set(name.split("/")):
            raise refusals.garbage(asked, "the description of the model lists a file without a usable name")
        size = entry.get("size")
        files[name] = size if type(size) is int and size >= 0 else None
    return files


def _parameters(value: Any) -> dict[str, int]:
    table = value.get("parameters") if isinstance(value, dict) else None
    if not isinstance(table, dict):
        return {}
    return {name: count for name, count in table.items() if _text(name) and type(count) is int and count >= 0}
