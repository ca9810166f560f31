"""The texts that name a model or a Space, read by their form; only words that are not ids are looked up among the bundled models.

A model is a config.json, a parameter count, or an id with perhaps a GGUF file. Words ("qwen3 30b") mean the bundled model that they
describe (`lib.model.plain_names`), and the answer says so. `reading_as` sets the token that may read gated and private
models.

    read_reference("Qwen/Qwen3-8B-GGUF:Q4_K_M")    Reference(kind="id", text="Qwen/Qwen3-8B-GGUF", file="Q4_K_M")
    check_space_id("https://huggingface.co/spaces/owner/name")    "owner/name"
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal
from urllib.parse import urlsplit

from lib.errors import BadArgument, UnknownModel, quote_value
from lib.model.plain_names import find_id, list_near
from lib.request.checks import MAX_NAME, describe_value
from lib.request.fields import Checked
from lib.request.words import note_reading

if TYPE_CHECKING:
    from lib.model.spec import ModelSpec

ACCEPTED = (
    "a Hub id (owner/name), a GGUF file of one (owner/name:Q4_K_M, or its full name), the text of a config.json (a JSON object), "
    "or a parameter count such as 7B or 350M"
)
_COUNT = re.compile(r"[-+]?[0-9][0-9.,_]*(e[-+]?[0-9]+)?\s*(([kmbt]|thousand|million|billion|trillion)\s*)?(param(eter)?s)?", re.IGNORECASE)
_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[\w.-]+)?", re.ASCII)
_FILE = re.compile(r"[\w][\w.+ ()/-]*", re.ASCII)
PAGE_HOSTS = {"huggingface.co", "www.huggingface.co", "hf.co"}
_SHORT = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """The kind of reference, and its text without surrounding blanks; `file` is the GGUF file of the repository that is meant, if any."""

    kind: Literal["config", "count", "id"]
    text: str
    file: str = ""


def is_token(text: str) -> bool:
    """Whether the text looks like a token that was pasted into the wrong field."""
    return text.strip().startswith("hf_") and "/" not in text


def read_reference(model: object) -> Reference:
    """Tell the three kinds apart by their form; of words, find the bundled model that they describe."""
    if not isinstance(model, str):
        raise BadArgument("model", describe_value(model), f"{ACCEPTED}, as text")
    text = model.strip()
    if not text:
        raise UnknownModel(f"The model is empty. Accepted: {ACCEPTED}.")
    if is_token(text):  # neither repeated nor sent to the Hub as an id
        raise UnknownModel(f"The model looks like a token, which was not used. Accepted: {ACCEPTED}.")
    if text[0] in '{["':
        return Reference(kind="config", text=text)
    if len(text) > _SHORT:
        raise UnknownModel(f"The model has {len(text):,} characters and is not a JSON object: {quote_value(text)}. Accepted: {ACCEPTED}.")
    if "/" not in text and _COUNT.fullmatch(text):
        return Reference(kind="count", text=text)
    meant = find_id(text) if "/" not in text else None
    if meant is not None:
        if text.casefold() != meant.casefold():
            note_reading("model", text, meant)
        return Reference(kind="id", text=meant)
    name, file = _id(text)
    return Reference(kind="id", text=name, file=file)


def may_be_sold(model: object, spec: ModelSpec) -> bool:
    """Whether providers may sell this model: a model of the Hub, named by its id and not as a GGUF file."""
    return bool(spec.id) and spec.library != "gguf" and read_reference(model).kind == "id"


def _id(text: str) -> tuple[str, str]:
    """The id in a text and the file after it; the text may be the address of the model's page, or of a GGUF file."""
    name, _, file = text.partition(":")
    if "://" in text:
        try:
            page = urlsplit(text)
        except ValueError:  # half a bracket, or letters that turn into a slash
            raise UnknownModel(f"{quote_value(text)} is not an address. Accepted: {ACCEPTED}.") from None
        if page.hostname not in PAGE_HOSTS:
            raise UnknownModel(f"{quote_value(text)} is an address outside the Hub, which is not asked. Accepted: {ACCEPTED}.")
        parts = page.path.strip("/").split("/")
        name = "/".join(parts[:2])
        file = "/".join(parts[4:]) if parts[2:3] in (["blob"], ["resolve"]) and page.path.lower().endswith(".gguf") else ""
        if file and parts[3] != "main":
            raise UnknownModel(f"{quote_value(text)} is a file of {quote_value(parts[3])}; GGUF files are read from the main branch.")
    if len(name) > MAX_NAME or not _ID.fullmatch(name) or ".." in name:
        nearest = list_near(text) if "/" not in text else ()
        hint = f" The nearest of the bundled models: {', '.join(nearest)}." if nearest else ""
        raise UnknownModel(f"{quote_value(text)} is not a model id, a config.json or a parameter count. Accepted: {ACCEPTED}.{hint}")
    unnamed = ":" in text and "://" not in text and not file
    if unnamed or (file and (len(file) > MAX_NAME or not _FILE.fullmatch(file) or ".." in file)):
        raise UnknownModel(f"{quote_value(text)} names no GGUF file after the colon. Accepted: {ACCEPTED}.")
    return name, file


VISITOR_TOKEN: ContextVar[str | None] = ContextVar("VISITOR_TOKEN", default=None)
"""The visitor's own token while a question of theirs is answered."""


@contextmanager
def reading_as(token: str | None) -> Iterator[None]:
    """While the block runs, models that are not public are read with this token; None leaves the token that is set."""
    if token is None:
        yield
        return
    before = VISITOR_TOKEN.set(token)
    try:
        yield
    finally:
        VISITOR_TOKEN.reset(before)


ACCEPTED_SPACE = "owner/name, or the address of the Space's page on the Hub"
_SPACE_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", re.ASCII)
_LONGEST_PAGE = 1_000


def check_space_id(space_id: object, argument: str = "space_id", accepted: str = ACCEPTED_SPACE) -> str:
    """The id of the Space, or of another thing named owner/name; refusals call it `argument` and list the `accepted` values."""
    if not isinstance(space_id, str) or len(space_id) > _LONGEST_PAGE:
        raise BadArgument(argument, describe_value(space_id), accepted)
    text = space_id.strip()
    if is_token(text):  # not to be repeated
        raise BadArgument(argument, "what looks like a token", f"{accepted}; a token has a place of its own")
    name = _of_page(text) if "://" in text else text
    if len(name) > MAX_NAME or not _SPACE_ID.fullmatch(name) or ".." in name:
        raise BadArgument(argument, text, accepted)
    return name


def _of_page(text: str) -> str:
    try:
        page = urlsplit(text)
    except ValueError:  # half a bracket, or letters that turn into a slash
        return ""
    if page.hostname not in PAGE_HOSTS or not page.path.strip("/").startswith("spaces/"):
        return ""
    return "/".join(page.path.strip("/").split("/")[1:3])


SpaceId = Annotated[str, Checked(lambda _, value: check_space_id(value), str, "The Space, owner/name.")]
