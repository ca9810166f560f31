"""What a caller meant by `model`: the text of a config.json, a parameter count, or an id."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit

from lib.errors import BadArgument, UnknownModel, shown
from lib.service.arguments import MAX_NAME, seen

ACCEPTED = "a Hub id (owner/name), the text of a config.json (a JSON object), or a parameter count such as 7B or 350M"
_COUNT = re.compile(r"[-+]?[0-9][0-9.,_]*(e[-+]?[0-9]+)?\s*(([kmbt]|thousand|million|billion|trillion)\s*)?(param(eter)?s)?", re.IGNORECASE)
_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[\w.-]+)?", re.ASCII)
PAGE_HOSTS = {"huggingface.co", "www.huggingface.co", "hf.co"}
_SHORT = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """The kind of reference, and its text without surrounding blanks."""

    kind: Literal["config", "count", "id"]
    text: str


def read(model: object) -> Reference:
    """Tell the three kinds apart by their form alone; nothing is looked up.

    Raises:
        BadArgument: not text.
        UnknownModel: empty, or none of the three.
    """
    if not isinstance(model, str):
        raise BadArgument("model", seen(model), f"{ACCEPTED}, as text")
    text = model.strip()
    if not text:
        raise UnknownModel(f"The model is empty. Accepted: {ACCEPTED}.")
    if text.startswith("hf_") and "/" not in text:  # pasted into the wrong field: neither repeated nor sent to the Hub as an id
        raise UnknownModel(f"The model looks like a token, which was not used. Accepted: {ACCEPTED}.")
    if text[0] in '{["':
        return Reference(kind="config", text=text)
    if len(text) > _SHORT:
        raise UnknownModel(f"The model has {len(text):,} characters and is no JSON object: {shown(text)}. Accepted: {ACCEPTED}.")
    if "/" not in text and _COUNT.fullmatch(text):
        return Reference(kind="count", text=text)
    return Reference(kind="id", text=_id(text))


def _id(text: str) -> str:
    """The id in a text, which may be the address of the model's page.

    Raises:
        UnknownModel: it cannot be one.
    """
    name = text
    if "://" in text:
        try:
            page = urlsplit(text)
        except ValueError:  # half a bracket, or letters that turn into a slash
            raise UnknownModel(f"{shown(text)} is not an address. Accepted: {ACCEPTED}.") from None
        if page.hostname not in PAGE_HOSTS:
            raise UnknownModel(f"{shown(text)} is an address outside the Hub, which is not asked. Accepted: {ACCEPTED}.")
        name = "/".join(page.path.strip("/").split("/")[:2])
    if len(name) > MAX_NAME or not _ID.fullmatch(name) or ".." in name:
        raise UnknownModel(f"{shown(text)} is no model. Accepted: {ACCEPTED}.")
    return name
