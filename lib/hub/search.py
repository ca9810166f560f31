"""Searches of the Hub: suggestions for a model field, quantized checkpoints of a model, and who serves it per token.

All three are optional, anonymous, and limited to 1.5 s; `suggest_models`, `find_quantized` and `find_providers` never raise. If the Hub or
the router of Inference Providers does not answer, `reason` says why. The page then uses the bundled catalog, or asks the visitor for a
price; nothing is invented. Failures are remembered for five minutes, so that a server that is down costs one visitor a second and a half
and not every one of them.
Source of the router's form: hub-docs inference-providers/hub-api.md (2026-07-09): USD per million tokens, status live or error.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar
from urllib.parse import urlencode

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from lib.cost.break_even import TokenPrice
from lib.errors import HubError, HubGarbage, HubUnreachable, InvalidInput, RateLimited, RepoNotFound, UnreadableJson, quote_value, read_json
from lib.hub import refusals
from lib.hub.client import Cache, check_id, check_printable, open_hub, run_briefly
from lib.hub.repository import parse_json
from lib.provenance import Source
from lib.units import MIB

if TYPE_CHECKING:
    from httpx2 import AsyncClient

    from lib.hub.client import Hub

SECONDS = 1.5
_MAX_ANSWER_BYTES = 2 * MIB
_MIN_WORDS, _MAX_WORDS, _MAX_FOUND = 2, 96, 20
_WHAT = "a search"


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestions:
    """Ids of models, most downloaded first; `reason` is empty, or says why the Hub was not asked or did not answer."""

    ids: tuple[str, ...] = ()
    reason: str = ""


_cache: Cache[tuple[str, str, int], Suggestions] = Cache(most=512, seconds=300, weight=lambda _: 1)


def suggest_models(words: str, *, limit: int = 8, endpoint: str | None = None) -> Suggestions:
    """Public models whose id resembles the words; anonymous, within 1.5 s."""
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
        suggestions = run_briefly(lambda client: _search(client, hub, words, limit), SECONDS)
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
    """The most downloaded quantized checkpoint of a model by format, within 1.5 s; `None` if the Hub could not be asked.

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
        checkpoints = run_briefly(lambda client: _list_quantized(client, hub, key[1]), SECONDS)
    except (InvalidInput, RateLimited):
        return None
    except (TimeoutError, HubError):
        _unasked.keep(endpoint or "", True)
        return None
    _quantized.keep(key, checkpoints)
    return checkpoints


async def _list_quantized(client: AsyncClient, hub: Hub, model: str) -> Mapping[str, str]:
    checkpoints: dict[str, str] = {}
    for name, entry in await _list_models(client, hub, _MOST_QUANTIZED, filter=f"base_model:quantized:{model}"):
        tags = entry.get("tags")
        tag_names = {tag for tag in tags if isinstance(tag, str)} if isinstance(tags, list) else set()
        for tag in tag_names & QUANTIZED_TAGS.keys():
            if tag == "gguf" or not tag_names & _OTHER_WIDTHS:
                checkpoints.setdefault(QUANTIZED_TAGS[tag], name)
    return MappingProxyType(checkpoints)


async def _search(client: AsyncClient, hub: Hub, words: str, limit: int) -> Suggestions:
    return Suggestions(ids=tuple([name for name, _ in await _list_models(client, hub, limit, search=words)]))


async def _list_models(client: AsyncClient, hub: Hub, limit: int, **chosen: str) -> list[tuple[str, dict[str, Any]]]:
    """The most downloaded models that the Hub lists, with what it says of each; entries without a usable id are left out."""
    query = urlencode({**chosen, "limit": limit, "sort": "downloads"})
    answer = await hub.fetch(client, f"{hub.endpoint}/api/models?{query}", what=_WHAT, limit=_MAX_ANSWER_BYTES)
    entries = parse_json(answer.body, _WHAT, "it")
    if not isinstance(entries, list):
        raise refusals.garbage(_WHAT, "it is not a list")
    return [(entry["id"], entry) for entry in entries[:limit] if isinstance(entry, dict) and _is_id(entry.get("id"))]


def _is_id(name: object) -> bool:
    try:
        return isinstance(name, str) and bool(check_id(name, None))
    except InvalidInput:
        return False


ROUTER = "https://router.huggingface.co"
HUB = "https://huggingface.co"
_MAX_PROVIDERS_BYTES = MIB
_MAX_NODES = 50_000
_MAX_PROVIDERS = 100
_MAX_NAME = 60
_MAX_USD = Decimal(100_000)  # per million tokens; far above any price that exists
_INSTEAD = "Enter your provider's price per million tokens instead."


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderOffers:
    """The router's answer about a model.

    `live` names the providers that serve it now, `prices` those of them that state a price, cheapest answer first. `status` is "none"
    when no provider serves it and "unknown" when that could not be found out; then `reason` is the sentence for it.
    """

    status: Literal["live", "none", "unknown"]
    live: tuple[str, ...] = ()
    prices: tuple[TokenPrice, ...] = ()
    reason: str = ""


_providers: Cache[tuple[str, str], ProviderOffers] = Cache(most=2048, seconds=3600, weight=lambda _: 1)
_failures: Cache[str, str] = Cache(most=16, seconds=300, weight=lambda _: 1)


def find_providers(model_id: str, *, endpoint: str | None = None) -> ProviderOffers:
    """Providers and prices of a model on the Hub, within 1.5 s; `endpoint` is the router's address."""
    try:
        return request_providers(model_id, endpoint=endpoint)
    except (HubError, InvalidInput) as error:
        return ProviderOffers(status="unknown", reason=str(error))


def request_providers(model_id: str, *, endpoint: str | None = None) -> ProviderOffers:
    """As `find_providers`, with refusals as errors; status "none" is an answer, not an error.

    Raises:
        UnknownModel: the text cannot be the id of a model.
        HubError: the router could not be asked, or its answer could not be read.
    """
    model = check_id(model_id, None)
    router = _router(endpoint)
    remembered = _providers.find((router.endpoint, model))
    if remembered is not None:
        return remembered
    failure = _failures.find(router.endpoint)
    if failure is not None:
        raise HubUnreachable(failure)
    try:
        offers = run_briefly(lambda client: _fetch(client, router, model), SECONDS)
    except RepoNotFound:
        offers = ProviderOffers(status="none")
    except (TimeoutError, HubError) as error:
        refused = _refusal(error, model)
        if isinstance(refused, HubUnreachable):
            _failures.keep(router.endpoint, str(refused))
        raise refused from error
    _providers.keep((router.endpoint, model), offers)
    return offers


def _router(endpoint: str | None) -> Hub:
    """The router as an anonymous caller sees it. Only huggingface.co has one: a server set to another Hub does not ask it."""
    from huggingface_hub import constants  # noqa: PLC0415  0.1 s, and only when the router is asked

    if constants.is_offline_mode():
        raise HubUnreachable(f"Prices per token are not asked for: this server runs offline (HF_HUB_OFFLINE=1). {_INSTEAD}")
    if endpoint is None and constants.ENDPOINT.rstrip("/") != HUB:
        raise HubUnreachable(f"Prices per token are not asked for: this server asks another Hub than {HUB}. {_INSTEAD}")
    return open_hub(None, endpoint or ROUTER)


def _refusal(error: Exception, model: str) -> HubError:
    """The sentence about the failure of the router; it repeats nothing that the server wrote."""
    match error:
        case TimeoutError():
            return HubUnreachable(f"The list of providers of {quote_value(model)} did not come within {SECONDS:g} s. {_INSTEAD}")
        case RateLimited():
            return RateLimited(f"The router of Inference Providers asks for fewer requests. Try again in some minutes. {_INSTEAD}")
        case HubGarbage():
            return HubGarbage(f"The list of providers of {quote_value(model)} has a format that is not understood. {_INSTEAD}")
    return HubUnreachable(f"The router of Inference Providers could not be reached. {_INSTEAD}")


async def _fetch(client: AsyncClient, router: Hub, model: str) -> ProviderOffers:
    address = f"{router.endpoint}/v1/models/{model}"
    answer = await router.fetch(client, address, what=model, limit=_MAX_PROVIDERS_BYTES)
    return parse_providers(answer.body, model, address)


def parse_providers(body: bytes, model: str, address: str) -> ProviderOffers:
    """The router's answer: live providers, and prices where both are stated."""
    try:
        parsed = read_json(body, _MAX_NODES, parse_float=Decimal)
    except UnreadableJson as error:
        raise HubGarbage(f"The providers of {quote_value(model)} cannot be read: {error}.") from error
    fields = parsed.get("data", parsed) if isinstance(parsed, dict) else parsed
    entries = fields.get("providers") if isinstance(fields, dict) else None
    if not isinstance(entries, list):
        raise HubGarbage(f"The answer about {quote_value(model)} lists no providers.")
    live = [provider for entry in entries[:_MAX_PROVIDERS] if (provider := _read_or_none(_LiveProvider, entry)) is not None]
    source = Source(what=f"prices per token of {model}", source=address, checked=datetime.now(UTC).date().isoformat())
    prices = [
        TokenPrice(
            provider=provider.provider,
            usd_per_million_input=Decimal(provider.pricing.input),
            usd_per_million_output=Decimal(provider.pricing.output),
            source=source,
        )
        for provider in live
        if provider.pricing is not None
    ]
    prices.sort(key=lambda price: (price.usd_per_million_output, price.usd_per_million_input, price.provider))
    names = tuple(dict.fromkeys(provider.provider for provider in live))
    return ProviderOffers(status="live" if names else "none", live=names, prices=tuple(prices))


class _Entry(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, extra="ignore")


_Read = TypeVar("_Read", bound=_Entry)


def _read_or_none(kind: type[_Read], entry: object) -> _Read | None:
    """An entry of the answer; `None` when it cannot be one."""
    try:
        return kind.model_validate(entry)
    except ValidationError:
        return None


_Usd = Annotated[int | Decimal, Field(ge=0, le=_MAX_USD)]


class _Pricing(_Entry):
    """USD per million tokens."""

    input: _Usd
    output: _Usd


class _LiveProvider(_Entry):
    """A provider that serves the model now; `pricing` is `None` if one of the two figures is missing or cannot be a price."""

    provider: Annotated[str, Field(min_length=1, max_length=_MAX_NAME), AfterValidator(check_printable)]
    status: Literal["live"]
    pricing: Annotated[_Pricing | None, BeforeValidator(lambda value: _read_or_none(_Pricing, value))] = None


def clear_cache() -> None:
    """Forget all answers and failures."""
    for cache in (_cache, _quantized, _unasked, _providers, _failures):
        cache.clear()
