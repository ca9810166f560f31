"""Prices per token from a local stand-in of the router: read, bounded, remembered, refused with a sentence."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from hub_stand_in import Fault, StandIn
from huggingface_hub import constants

from lib.errors import HubGarbage, HubUnreachable, RateLimited, UnknownModel
from lib.hub.search import clear_cache, find_providers, request_providers

MODEL = "org/model"
PATH = f"/v1/models/{MODEL}"


@pytest.fixture
def router() -> Iterator[StandIn]:
    """A router that knows no model yet."""
    with StandIn() as stand_in:
        clear_cache()
        yield stand_in
    clear_cache()


def set_answer(router: StandIn, answer: Any, **fault: Any) -> None:
    """Let the router answer this about the model."""
    router.faults[PATH] = Fault(body=answer if isinstance(answer, bytes) else json.dumps(answer).encode(), **fault)


def entry(name: Any, status: str = "live", **pricing: Any) -> dict[str, Any]:
    """One provider, with its prices if any."""
    return {"provider": name, "status": status} | ({"pricing": pricing} if pricing else {})


def test_prices_are_exact_and_sorted(router: StandIn) -> None:
    """Decimals as they are written, the cheapest answer first; who states no price is live all the same; who fails is not."""
    listed = [entry("b", input=1.69, output=3.38), entry("a", input=0.1, output=0.3), entry("c"), entry("d", "error", input=0, output=0)]
    set_answer(router, {"id": MODEL, "providers": listed})
    found = request_providers(MODEL, endpoint=router.url)
    assert (found.status, found.live) == ("live", ("b", "a", "c"))
    assert [(price.provider, price.usd_per_million_input, price.usd_per_million_output) for price in found.prices] == [
        ("a", Decimal("0.1"), Decimal("0.3")),
        ("b", Decimal("1.69"), Decimal("3.38")),
    ]
    assert found.prices[0].source.source.endswith(PATH)


def test_asked_once_and_without_a_token(router: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second question is answered from memory; the server's own token never travels."""
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    set_answer(router, {"providers": [entry("a", input=1, output=2)]})
    assert request_providers(MODEL, endpoint=router.url) == request_providers(MODEL, endpoint=router.url)
    assert router.paths() == [PATH]
    assert "authorization" not in router.requests[0].headers


def test_nobody_serves_it(router: StandIn) -> None:
    """A model that the router does not know, or whose providers all fail, has no provider: that is an answer, not an error."""
    router.faults["/v1/models/"] = Fault(status=404)
    assert request_providers(MODEL, endpoint=router.url).status == "none"
    clear_cache()
    router.faults.clear()
    set_answer(router, {"data": {"providers": [entry("a", "error")]}})
    assert request_providers(MODEL, endpoint=router.url).status == "none"


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"{}", b'{"providers": 3}', b"<html>", b'{"providers": ' + b"[" * 100_000, b'{"data": null}'],
)
def test_an_answer_that_cannot_be_read(router: StandIn, body: bytes) -> None:
    """Refused with a sentence that says what to do instead."""
    set_answer(router, body or b" ")
    with pytest.raises(HubGarbage, match="Enter your provider's price"):
        request_providers(MODEL, endpoint=router.url)


@pytest.mark.parametrize("price", [True, "1", None, -1, 1e300, [1], {}])
def test_a_price_that_cannot_be_one_is_left_out(router: StandIn, price: Any) -> None:
    """The provider stays, its price does not count."""
    set_answer(router, {"providers": [entry("a", input=price, output=1), entry(7, input=1, output=1), entry("x" * 99), 5]})
    found = request_providers(MODEL, endpoint=router.url)
    assert (found.live, found.prices) == (("a",), ())


def test_infinite_prices_are_left_out(router: StandIn) -> None:
    """JSON's own extension of NaN and Infinity reads as a float, which is no price here."""
    set_answer(router, b'{"providers": [{"provider": "a", "status": "live", "pricing": {"input": NaN, "output": Infinity}}]}')
    assert request_providers(MODEL, endpoint=router.url).prices == ()


@pytest.mark.parametrize(
    ("fault", "error"), [(Fault(status=429), RateLimited), (Fault(status=503), HubUnreachable), (Fault(status=500), HubUnreachable)]
)
def test_refusals_are_sentences(router: StandIn, fault: Fault, error: type[Exception]) -> None:
    """What the router refuses is said in our own words, by `offered` as a reason."""
    router.faults["/v1/models/"] = fault
    with pytest.raises(error, match="price per million tokens instead"):
        request_providers(MODEL, endpoint=router.url)
    found = find_providers(MODEL, endpoint=router.url)
    assert (found.status, found.prices) == ("unknown", ())
    assert "price per million tokens" in found.reason


def test_a_router_that_hangs_costs_one_wait(router: StandIn) -> None:
    """The first question gives up at its deadline; the next ones are answered from memory for five minutes."""
    router.faults["/v1/models/"] = Fault(hang=True)
    assert find_providers(MODEL, endpoint=router.url).status == "unknown"
    assert "did not come within 1.5 s" in find_providers("org/other", endpoint=router.url).reason
    assert len(router.requests) == 1


def test_too_long_an_answer_is_not_read(router: StandIn) -> None:
    """More than a mebibyte is refused."""
    set_answer(router, b'{"providers": []' + b" " * 2**20 + b"}")
    with pytest.raises(HubGarbage):
        request_providers(MODEL, endpoint=router.url)


def test_offline_and_other_hubs_are_not_asked(router: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing leaves a server that runs offline, or that was set to another Hub."""
    monkeypatch.setattr(constants, "ENDPOINT", router.url)
    assert "another Hub" in find_providers(MODEL).reason
    monkeypatch.setattr(constants, "is_offline_mode", lambda: True)
    assert "offline" in find_providers(MODEL).reason
    assert router.paths() == []


def test_what_is_not_an_id_is_not_sent(router: StandIn) -> None:
    """An id with a way out of the path is refused before anything is asked."""
    with pytest.raises(UnknownModel):
        request_providers("../../etc", endpoint=router.url)
    assert router.paths() == []
