"""Who serves a model per token today, and for how much: asked of the router of Inference Providers, as a stranger.

A price is a convenience: `find_providers` never raises. When the router cannot be asked, `status` is "unknown" and `reason` says why,
so that the page can ask the visitor for a number of their own; nothing is invented. Answers are remembered for an hour, failures for five
minutes, so that a router that is down costs one visitor a second and a half and not every one of them.
Source of the form: hub-docs inference-providers/hub-api.md (2026-07-09): prices in USD per million tokens, status live or error.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from lib.bounded_json import UnreadableJson, read_json
from lib.cost.tokens import TokenPrice
from lib.errors import HubError, HubGarbage, HubUnreachable, InvalidInput, RateLimited, RepoNotFound, quote_value
from lib.hub import loop
from lib.hub.client import Cache, check_id, check_printable, open_hub
from lib.provenance import Source

if TYPE_CHECKING:
    from httpx2 import AsyncClient

    from lib.hub.client import Hub

ROUTER = "https://router.huggingface.co"
HUB = "https://huggingface.co"
SECONDS = 1.5
_MAX_ANSWER_BYTES = 2**20
_MAX_NODES = 50_000
_MAX_PROVIDERS = 100
_MAX_NAME = 60
_MAX_USD = Decimal(100_000)  # per million tokens; far above any price that exists
_INSTEAD = "Enter your provider's price per million tokens instead."


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderOffers:
    """What the router said about a model.

    `live` names the providers that serve it now, `prices` those of them that state a price, cheapest answer first. `status` is "none"
    when no provider serves it and "unknown" when that could not be found out; then `reason` is the sentence for it.
    """

    status: Literal["live", "none", "unknown"]
    live: tuple[str, ...] = ()
    prices: tuple[TokenPrice, ...] = ()
    reason: str = ""


_answers: Cache[tuple[str, str], ProviderOffers] = Cache(most=2048, seconds=3600, weight=lambda _: 1)
_failures: Cache[str, ProviderOffers] = Cache(most=16, seconds=300, weight=lambda _: 1)


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
    remembered = _answers.find((router.endpoint, model)) or _failures.find(router.endpoint)
    if remembered is not None:
        if remembered.status == "unknown":
            raise HubUnreachable(remembered.reason)
        return remembered
    try:
        offers = loop.run_briefly(lambda client: _fetch(client, router, model), SECONDS)
    except RepoNotFound:
        offers = ProviderOffers(status="none")
    except (TimeoutError, HubError) as error:
        refused = _refusal(error, model)
        if isinstance(refused, HubUnreachable):
            _failures.keep(router.endpoint, ProviderOffers(status="unknown", reason=str(refused)))
        raise refused from error
    _answers.keep((router.endpoint, model), offers)
    return offers


def clear_cache() -> None:
    """Empty the memory."""
    _answers.clear()
    _failures.clear()


def _router(endpoint: str | None) -> Hub:
    """The router as an anonymous caller sees it. Only huggingface.co has one: a server set to another Hub does not ask it.

    Raises:
        HubUnreachable: this server runs offline, or asks another Hub.
    """
    from huggingface_hub import constants  # noqa: PLC0415  0.1 s, and only when the router is asked

    if constants.is_offline_mode():
        raise HubUnreachable(f"Prices per token are not asked for: this server runs offline (HF_HUB_OFFLINE=1). {_INSTEAD}")
    if endpoint is None and constants.ENDPOINT.rstrip("/") != HUB:
        raise HubUnreachable(f"Prices per token are not asked for: this server asks another Hub than {HUB}. {_INSTEAD}")
    return open_hub(None, endpoint or ROUTER)


def _refusal(error: Exception, model: str) -> HubError:
    """The sentence about the router for what went wrong; nothing that the server wrote is repeated."""
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
    answer = await router.fetch(client, address, what=model, limit=_MAX_ANSWER_BYTES)
    return parse_providers(answer.body, model, address)


def parse_providers(body: bytes, model: str, address: str) -> ProviderOffers:
    """The router's answer: live providers, and prices where both are stated.

    Raises:
        HubGarbage: it is not an object with a list of providers.
    """
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
    """A provider that serves the model now; `pricing` is `None` where one of the two figures is missing or cannot be a price."""

    provider: Annotated[str, Field(min_length=1, max_length=_MAX_NAME), AfterValidator(check_printable)]
    status: Literal["live"]
    pricing: Annotated[_Pricing | None, BeforeValidator(lambda value: _read_or_none(_Pricing, value))] = None
