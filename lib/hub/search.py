"""Suggestions for a model field, from the Hub's own search.

A suggestion is a convenience: it never raises. When the Hub cannot be asked the list is empty and `reason` says why, so that
the page can go on with the names of the bundled catalog.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from lib.errors import HubError, InvalidInput
from lib.hub import loop, refusals
from lib.hub.client import Cache, check_id, open_hub
from lib.hub.repository import parse_json

if TYPE_CHECKING:
    from httpx2 import AsyncClient

    from lib.hub.client import Hub

SECONDS = 1.5
_MAX_ANSWER_BYTES = 2 * 2**20
_MIN_WORDS, _MAX_WORDS, _MAX_FOUND = 2, 96, 20
_WHAT = "a search"


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestions:
    """Ids of models, most downloaded first; `reason` is empty, or says why the Hub was not asked or did not answer."""

    ids: tuple[str, ...] = ()
    reason: str = ""


_cache: Cache[tuple[str, str, int], Suggestions] = Cache(most=512, seconds=300, weight=lambda _: 1)


def suggest_models(words: str, *, limit: int = 8, endpoint: str | None = None) -> Suggestions:
    """Public models whose id resembles the words; asked as a stranger, within 1.5 s."""
    words = " ".join(words.split())
    if len(words) < _MIN_WORDS or len(words) > _MAX_WORDS or not words.isprintable():
        return Suggestions(reason=f"Type {_MIN_WORDS} to {_MAX_WORDS} characters of a model's name.")
    limit = max(1, min(limit, _MAX_FOUND))
    try:
        hub = open_hub(None, endpoint)
        key = (hub.endpoint, words.lower(), limit)
        known = _cache.find(key)
        if known is not None:
            return known
        found = loop.run(lambda client: _search(client, hub, words, limit), SECONDS)
    except TimeoutError:
        return Suggestions(reason=str(refusals.too_slow(_WHAT, SECONDS)))
    except HubError as error:
        return Suggestions(reason=str(error))
    _cache.keep(key, found)
    return found


def clear_cache() -> None:
    """Empty the cache."""
    _cache.clear()


async def _search(client: AsyncClient, hub: Hub, words: str, limit: int) -> Suggestions:
    query = urlencode({"search": words, "limit": limit, "sort": "downloads"})
    answer = await hub.fetch(client, f"{hub.endpoint}/api/models?{query}", what=_WHAT, limit=_MAX_ANSWER_BYTES)
    entries = parse_json(answer.body, _WHAT, "it")
    if not isinstance(entries, list):
        raise refusals.garbage(_WHAT, "it is not a list")
    names = [entry.get("id") for entry in entries if isinstance(entry, dict)]
    return Suggestions(ids=tuple(name for name in names[:limit] if isinstance(name, str) and _usable(name)))


def _usable(name: str) -> bool:
    try:
        check_id(name, None)
    except InvalidInput:
        return False
    return True
