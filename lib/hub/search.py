"""The Hub's own search: suggestions for a model field, and the quantized checkpoints that were made of a model.

Both are conveniences and never raise. When the Hub cannot be asked the suggestions are empty and `reason` says why, so that the page can
go on with the names of the bundled catalog; of checkpoints it is then not known whether there are any.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from lib.errors import HubError, InvalidInput, RateLimited
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
        remembered = _cache.find(key)
        if remembered is not None:
            return remembered
        suggestions = loop.run_briefly(lambda client: _search(client, hub, words, limit), SECONDS)
    except TimeoutError:
        return Suggestions(reason=str(refusals.too_slow(_WHAT, SECONDS)))
    except HubError as error:
        return Suggestions(reason=str(error))
    _cache.keep(key, suggestions)
    return suggestions


QUANTIZED_TAGS = {"awq": "awq-4", "gptq": "gptq-4", "gguf": "gguf"}
"""Tags of the Hub, and the formats of four bits that they mean here; a GGUF repository holds files of several widths."""
_OTHER_WIDTHS = frozenset({"8-bit", "3-bit", "2-bit"})
_MOST_QUANTIZED = 50
_quantized: Cache[tuple[str, str], Mapping[str, str]] = Cache(most=512, seconds=3600, weight=lambda _: 1)
_unasked: Cache[str, bool] = Cache(most=16, seconds=300, weight=lambda _: 1)


def find_quantized(model_id: str, *, endpoint: str | None = None) -> Mapping[str, str] | None:
    """The most downloaded quantized checkpoint of a model by format, within 1.5 s; `None` where the Hub could not be asked.

    The Hub relates a checkpoint to its model by the tag `base_model:quantized:ID`. A Hub that fails is asked again after five minutes.
    """
    try:
        hub = open_hub(None, endpoint)
        key = (hub.endpoint, check_id(model_id, None))
        remembered = _quantized.find(key)
        if remembered is not None:
            return remembered
        if _unasked.find(endpoint or ""):
            return None
        checkpoints = loop.run_briefly(lambda client: _list_quantized(client, hub, key[1]), SECONDS)
    except (InvalidInput, RateLimited):
        return None
    except (TimeoutError, HubError):
        _unasked.keep(endpoint or "", True)
        return None
    _quantized.keep(key, checkpoints)
    return checkpoints


async def _list_quantized(client: AsyncClient, hub: Hub, model: str) -> Mapping[str, str]:
    query = urlencode({"filter": f"base_model:quantized:{model}", "limit": _MOST_QUANTIZED, "sort": "downloads"})
    answer = await hub.fetch(client, f"{hub.endpoint}/api/models?{query}", what=_WHAT, limit=_MAX_ANSWER_BYTES)
    entries = parse_json(answer.body, _WHAT, "it")
    if not isinstance(entries, list):
        raise refusals.garbage(_WHAT, "it is not a list")
    checkpoints: dict[str, str] = {}
    for entry in entries[:_MOST_QUANTIZED]:
        name, tags = (entry.get("id"), entry.get("tags")) if isinstance(entry, dict) else (None, None)
        if not isinstance(name, str) or not _usable(name) or not isinstance(tags, list):
            continue
        tag_names = {tag for tag in tags if isinstance(tag, str)}
        for tag in tag_names & QUANTIZED_TAGS.keys():
            if tag == "gguf" or not tag_names & _OTHER_WIDTHS:
                checkpoints.setdefault(QUANTIZED_TAGS[tag], name)
    return MappingProxyType(checkpoints)


def clear_cache() -> None:
    """Empty the caches."""
    for cache in (_cache, _quantized, _unasked):
        cache.clear()


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
