"""A Hub that refuses, fails, lies or hangs when Spaces are asked for: a sentence with what to do next, in bounded time."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hub_stand_in import Fault
from huggingface_hub import constants
from hypothesis import given
from hypothesis import strategies as st
from space_stand_in import FakeSpace, Person, SpaceStandIn

from lib.errors import (
    AdvisorError,
    AgainstRules,
    Conflict,
    HubGarbage,
    HubUnreachable,
    InvalidInput,
    NotPermitted,
    PaymentNeeded,
    RateLimited,
    RepoNotFound,
)
from lib.hub import spaces
from lib.hub.refusals import sanitize_remote_message
from lib.hub.space_answers import Runtime, read_account, read_runtime
from lib.hub.spaces import Spaces

ADA = "hf_adaADAadaADAada0123456789"
CALLS: dict[str, Callable[[Spaces], Any]] = {
    "look": lambda asked: asked.look("ada/chat"),
    "runtime": lambda asked: asked.runtime("ada/chat"),
    "list": lambda asked: asked.zero_gpu_spaces("ada"),
    "account": lambda asked: asked.account(),
    "hardware": lambda asked: asked.switch("ada/chat", "l4x1", 3600),
    "sleeptime": lambda asked: asked.sleep("ada/chat", 600),
    "pause": lambda asked: asked.pause("ada/chat"),
    "restart": lambda asked: asked.restart("ada/chat"),
}
ACTIONS = ("hardware", "sleeptime", "pause", "restart")
UNSURE = "Whether it was done is not known"


@pytest.fixture
def hub() -> Iterator[SpaceStandIn]:
    """A Hub with Spaces of ada and bob, and tokens of every kind."""
    with SpaceStandIn() as stand_in:
        stand_in.people |= {
            ADA: Person(name="ada"),
            "hf_oauth": Person(name="ada", kind="oauth"),
            "hf_read": Person(name="ada", kind="read"),
            "hf_poor": Person(name="ada", can_pay=False),
            "hf_bob": Person(name="bob"),
        }
        stand_in.add_space(FakeSpace(id="ada/chat"))
        stand_in.add_space(FakeSpace(id="ada/secret", private=True))
        yield stand_in


def catch_refusal(hub: SpaceStandIn, call: str | Callable[[Spaces], Any], token: str | None = ADA) -> AdvisorError:
    """The error that a call ends with; it is a sentence without a trace of the server's markup."""
    with pytest.raises(AdvisorError) as caught:
        (CALLS[call] if isinstance(call, str) else call)(Spaces(token, hub.url))
    text = str(caught.value)
    assert 20 < len(text) < 700
    assert text.isprintable()
    assert "<" not in text
    return caught.value


def make_refusal(status: int, text: str, **headers: str) -> Fault:
    """A refusal of the Hub with a message."""
    named = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    return Fault(status=status, body=json.dumps({"error": text}).encode(), headers=named)


@pytest.mark.parametrize("call", ["hardware", "sleeptime", "restart"])
def test_some_sign_ins_may_not_change_hardware_and_that_is_said(hub: SpaceStandIn, call: str) -> None:
    """401 "RepoNotFound" with a token: a matter of permission, never "not found", and a pasted token is offered; pause works."""
    error = catch_refusal(hub, call, "hf_oauth")
    assert type(error) is NotPermitted
    assert "a matter of permission and does not mean that the Space is missing" in str(error)
    assert f"Paste a fine-grained token with write access to this Space instead (made on {hub.url}/settings/tokens" in str(error)
    assert Spaces("hf_oauth", hub.url).look("ada/chat").stage == "RUNNING"
    assert Spaces("hf_oauth", hub.url).pause("ada/chat").stage == "PAUSED"


@pytest.mark.parametrize("call", list(CALLS))
def test_a_wrong_token_is_called_wrong(hub: SpaceStandIn, call: str) -> None:
    """An expired or misspelt token, for every question and action."""
    error = catch_refusal(hub, call, "hf_expired")
    assert type(error) is NotPermitted
    assert "it is wrong or has expired" in str(error)
    assert "hf_expired" not in str(error)


@pytest.mark.parametrize("call", ["look", "runtime", "list", "pause"])
def test_an_unexplained_401_with_a_token_is_a_matter_of_access(hub: SpaceStandIn, call: str) -> None:
    """The client would say "repository not found"; with a token that was sent, access is what is missing."""
    hub.faults["/api/"] = make_refusal(401, "no", X_Error_Code="RepoNotFound")
    error = catch_refusal(hub, call)
    assert type(error) is NotPermitted
    assert f"lacks {'write' if call == 'pause' else 'read'} access" in str(error)


def test_strangers_are_told_that_it_may_be_private(hub: SpaceStandIn) -> None:
    """Missing and private look the same to a stranger; to an account, missing and not shared do."""
    for name in ("ada/missing", "ada/secret"):
        error = catch_refusal(hub, lambda asked, at=name: asked.look(at), None)
        assert type(error) is RepoNotFound
        assert "does not exist, or it is private" in str(error)
        error = catch_refusal(hub, lambda asked, at=name: asked.pause(at), "hf_bob")
        assert type(error) is RepoNotFound
        assert "that your account can see" in str(error)


@pytest.mark.parametrize("call", ACTIONS)
@pytest.mark.parametrize("token", ["hf_read", "hf_bob"])
def test_only_those_with_write_access_may_act(hub: SpaceStandIn, call: str, token: str) -> None:
    """403 for a read token and for strangers; what the Hub says stands beside it; nothing changes."""
    error = catch_refusal(hub, call, token)
    assert type(error) is NotPermitted
    assert "The Hub says: 'You don't have the required permissions to perform this action'." in str(error)
    assert "the token itself needs write access" in str(error)
    assert hub.spaces["ada/chat"].stage == "RUNNING"


def test_paid_hardware_needs_a_payment_method(hub: SpaceStandIn) -> None:
    """402 with the billing page; the free tiers go through."""
    error = catch_refusal(hub, "hardware", "hf_poor")
    assert type(error) is PaymentNeeded
    assert (
        f"The Hub says: 'Payment required: add a payment method to your account'. Add a payment method or prepaid credits on {hub.url}"
        in str(error)
    )
    assert Spaces("hf_poor", hub.url).switch("ada/chat", "zero-a10g").requested_hardware == "zero-a10g"


@pytest.mark.parametrize("call", ACTIONS)
def test_a_busy_space_and_a_static_one_say_so(hub: SpaceStandIn, call: str) -> None:
    """409: wait until it has settled. 400: static Spaces have nothing to change."""
    hub.spaces["ada/chat"].busy = True
    error = catch_refusal(hub, call)
    assert type(error) is Conflict
    assert "Wait until it has settled" in str(error)
    hub.spaces["ada/chat"].busy = False
    hub.spaces["ada/chat"].sdk = "static"
    error = catch_refusal(hub, call)
    assert type(error) is AgainstRules
    assert "Static Spaces have no hardware" in str(error)


STATUSES: list[tuple[Fault, str | None, tuple[str, ...], type[AdvisorError], str]] = [
    (make_refusal(403, ""), None, ("look", "runtime", "list"), NotPermitted, "does not allow strangers to"),
    (make_refusal(403, ""), ADA, ("look", "account"), NotPermitted, "does not allow this token to read"),
    (make_refusal(404, ""), None, ("list",), RepoNotFound, "no user or organization 'ada'"),
    (make_refusal(410, ""), ADA, ("look", "pause"), RepoNotFound, "that your account can see"),
    (make_refusal(422, "sleepTimeSeconds must be positive"), ADA, ACTIONS, AgainstRules, "sleepTimeSeconds must be positive"),
    (make_refusal(400, ""), ADA, ("look", "list"), HubGarbage, "status 400"),
    (make_refusal(429, ""), None, ("look", "list"), RateLimited, "in some minutes, or sign in"),
    (make_refusal(429, "", Retry_After="17"), ADA, tuple(CALLS), RateLimited, "again in 17 s."),
    (make_refusal(429, "", Retry_After="99999999"), ADA, ("list", "pause"), RateLimited, "in some minutes."),
    (make_refusal(429, "", RateLimit='"api";r=0;t=55'), ADA, ("list", "hardware"), RateLimited, "again in 55 s."),
    (make_refusal(500, "oops"), ADA, ("look", "runtime", "list", "account"), HubUnreachable, "status 500) with"),
    (make_refusal(503, "oops"), ADA, ACTIONS, HubUnreachable, UNSURE),
    (Fault(status=500, body=b"[[[["), ADA, ACTIONS, HubUnreachable, "status 500"),
    (Fault(status=502, body=b"<html>" * 10_000), ADA, tuple(CALLS), HubUnreachable, "status 502"),
    (Fault(status=418, body=b"\xff\xfe"), ADA, tuple(CALLS), HubGarbage, "status 418"),
    (Fault(status=403, body=b"[1]"), ADA, ("pause",), NotPermitted, "may not pause the Space 'ada/chat'. Only its owner"),
    (Fault(status=403, body=b'{"error": ["a", 1]}'), ADA, ("pause",), NotPermitted, "may not pause"),
]


@pytest.mark.parametrize(("fault", "token", "calls", "kind", "words"), STATUSES)
def test_each_status_has_its_own_sentence(
    hub: SpaceStandIn, fault: Fault, token: str | None, calls: tuple[str, ...], kind: type[AdvisorError], words: str
) -> None:
    """Refusals and failures are told apart; none is repeated by the client, whatever pause the Hub asks for."""
    hub.faults["/api/"] = fault
    for number, call in enumerate(calls, 1):
        error = catch_refusal(hub, call, token)
        assert type(error) is kind
        assert words in str(error)
        assert len(hub.requests) == number


@pytest.mark.parametrize(
    "text", ["<b>pay</b> [here](javascript:x) `now`", "pay\n\x00\x1b[31m now", "see https://evil.example/pay now", "x" * 5000], ids=range(4)
)
def test_what_the_hub_says_is_quoted_without_markup(hub: SpaceStandIn, text: str) -> None:
    """Plain characters, one line, no addresses, at most 160 characters."""
    hub.faults["/hardware"] = make_refusal(402, text)
    quote = str(catch_refusal(hub, "hardware")).partition("The Hub says: '")[2].partition("'. Add")[0]
    assert 0 < len(quote) <= 160
    assert not set(quote) & set("<>[]`\n\x1b#*_\\|")
    assert "://" not in quote


@pytest.mark.parametrize("token", ["hf_secretsecret", "a-token-of-another-form"])
def test_a_token_is_never_quoted(token: str) -> None:
    """A text with a token in it is not quoted at all."""
    assert sanitize_remote_message(f"bad token {token}, sorry", token) == ""


@pytest.mark.parametrize("fault", [Fault(hang=True), Fault(drip_s=0.1), Fault(drip_s=0.1, drip_headers=True)], ids=["hang", "body", "head"])
@pytest.mark.parametrize("call", ["look", "list", "account", "pause"])
def test_a_hub_that_does_not_finish_is_left_in_time(hub: SpaceStandIn, monkeypatch: pytest.MonkeyPatch, call: str, fault: Fault) -> None:
    """The client itself would wait for ever; an action that was sent may have been done, and that is said. The next call works."""
    monkeypatch.setattr(spaces, "SECONDS", 0.3)
    hub.faults["/api/"] = fault
    error = catch_refusal(hub, call)
    assert type(error) is HubUnreachable
    assert "within 0.3 s" in str(error)
    assert (UNSURE in str(error)) is (call == "pause")
    hub.faults.clear()
    monkeypatch.setattr(spaces, "SECONDS", 10)
    assert Spaces(ADA, hub.url).runtime("ada/chat").stage == ("PAUSED" if call == "pause" else "RUNNING")


@pytest.mark.parametrize("call", ["look", "list", "account", "pause"])
def test_a_hub_that_is_not_there_or_breaks_off(hub: SpaceStandIn, call: str) -> None:
    """Refused connections: nothing was sent. A broken answer: an action may have been done."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{probe.getsockname()[1]}"
    with pytest.raises(HubUnreachable, match="could not be reached") as caught:
        CALLS[call](Spaces(ADA, url))
    assert UNSURE not in str(caught.value)
    hub.faults["/api/"] = Fault(cut=True)
    error = catch_refusal(hub, call)
    assert type(error) is HubUnreachable
    assert (UNSURE in str(error)) is (call == "pause")


def test_the_offline_switch_is_obeyed(hub: SpaceStandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    """HF_HUB_OFFLINE=1: nothing is sent, also when it is set between opening and asking."""
    opened = Spaces(ADA, hub.url)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    for attempt in (lambda: Spaces(ADA, hub.url), lambda: opened.pause("ada/chat"), lambda: opened.look("ada/chat")):
        with pytest.raises(HubUnreachable, match="HF_HUB_OFFLINE=1"):
            attempt()
    assert hub.requests == []


@pytest.mark.parametrize("token", ["", " ", "a b", "hf_ü", "hf_\n", "x" * 513])
def test_a_token_that_cannot_be_one_is_refused(hub: SpaceStandIn, token: str) -> None:
    """It never reaches a header, and the sentence does not repeat it."""
    with pytest.raises(InvalidInput) as caught:
        Spaces(token, hub.url)
    assert not token.strip() or token not in str(caught.value)
    assert hub.requests == []


BODIES = [b" ", b"[", b"[]", b"[1]", b"null", b"7", b'"RUNNING"', b"{}", b'{"self": 1}', b'{"id": 3, "name": 3}', b"\xff", b"[" * 100_000]


@pytest.mark.parametrize("body", BODIES, ids=range(len(BODIES)))
def test_an_answer_that_is_no_answer_is_garbage(hub: SpaceStandIn, body: bytes) -> None:
    """Of every call; only an empty list of Spaces means something."""
    hub.faults["/api/"] = Fault(body=body)
    for call in CALLS:
        if call == "list" and body == b"[]":
            assert Spaces(ADA, hub.url).zero_gpu_spaces("ada") == 0
            continue
        error = catch_refusal(hub, call)
        assert type(error) is HubGarbage
        assert (UNSURE in str(error) or "Look at it on the Hub" in str(error)) if call in ACTIONS else "cannot be used" in str(error)


FIELDS: list[dict[str, Any]] = [
    {"stage": 7},
    {"stage": ""},
    {"stage": "RUNNING<script>"},
    {"stage": "R" * 100},
    {"hardware": []},
    {"hardware": "l4x1"},
    {"hardware": {"current": 5}},
    {"hardware": {"requested": "<b>"}},
    {"gcTimeout": "3600"},
    {"gcTimeout": -2},
    {"gcTimeout": True},
    {"gcTimeout": 1e300},
    {"replicas": 2},
    {"replicas": {"current": -1}},
    {"replicas": {"requested": 10**9}},
    {"storage": {"size": 3}},
    {"volumes": {}},
    {"volumes": ["x"]},
    {"volumes": [{"type": 3, "source": "a", "mountPath": "/"}]},
    {"volumes": [{"source": "a", "mountPath": "/"}] * 101},
]


@pytest.mark.parametrize("wrong", FIELDS, ids=lambda wrong: json.dumps(wrong)[:40])
def test_a_field_of_a_wrong_type_or_range_is_garbage(hub: SpaceStandIn, wrong: dict[str, Any]) -> None:
    """Nothing is guessed: a runtime with such a field is not shown."""
    hub.faults["/runtime"] = Fault(body=json.dumps({"stage": "RUNNING"} | wrong).encode())
    assert type(catch_refusal(hub, "runtime")) is HubGarbage


def test_a_description_with_wrong_fields_is_garbage(hub: SpaceStandIn) -> None:
    """An id that is none, a privacy flag or an SDK of a wrong type; an organization list that is none."""
    good = {"id": "ada/chat", "private": False, "sdk": "gradio", "runtime": {"stage": "RUNNING"}}
    for wrong in ({"id": "chat"}, {"id": "../x"}, {"private": "no"}, {"sdk": ["gradio"]}, {"cardData": {"self": 1}}):
        hub.faults["?expand"] = Fault(body=json.dumps(good | wrong).encode())
        assert type(catch_refusal(hub, "look")) is HubGarbage
    for wrong in ({"orgs": {}}, {"orgs": ["x"]}, {"orgs": [{"name": "<b>"}]}, {"name": "a b"}):
        hub.faults["whoami"] = Fault(body=json.dumps({"name": "ada"} | wrong).encode())
        assert type(catch_refusal(hub, "account")) is HubGarbage


def test_an_answer_that_is_too_long_is_not_parsed(hub: SpaceStandIn) -> None:
    """More than 2 MiB."""
    hub.faults["/api/"] = Fault(body=b'{"stage": "' + b"R" * (2 * 2**20) + b'"}')
    for call in ("look", "list", "account", "pause"):
        error = catch_refusal(hub, call)
        assert type(error) is HubGarbage
        assert "longer than 2,097,152 bytes" in str(error)


def test_an_action_is_not_redirected(hub: SpaceStandIn) -> None:
    """It costs money, and the Space at the new address was not confirmed."""
    hub.renamed["ada/chat"] = "ada/secret"
    for call in ACTIONS:
        error = catch_refusal(hub, call)
        assert type(error) is HubGarbage
        assert "nothing was changed" in str(error)
    assert hub.spaces["ada/secret"].stage == "RUNNING"


def test_a_redirect_in_circles_ends(hub: SpaceStandIn) -> None:
    """The client gives up after a number of them."""
    hub.renamed["ada/chat"] = "ada/chat"
    assert type(catch_refusal(hub, "look")) is HubUnreachable


def test_no_other_host_sees_the_token(hub: SpaceStandIn) -> None:
    """The client would send it to whatever host the next page of a list has; a redirect loses it as well."""
    with SpaceStandIn() as foreign:
        hub.faults["/api/spaces?"] = Fault(body=b"[]", headers=(("Link", f'<{foreign.url}/api/spaces?cursor=1>; rel="next"'),))
        Spaces(ADA, hub.url).zero_gpu_spaces("ada")
        hub.faults["/ada/chat"] = Fault(status=307, headers=(("Location", f"{foreign.url}/api/spaces/ada/chat"),))
        catch_refusal(hub, "look")
        assert len(foreign.requests) == 2
        assert not any("authorization" in seen.headers for seen in foreign.requests)


def test_cookies_do_not_travel(hub: SpaceStandIn) -> None:
    """What one visitor is given is not sent with another's request; the client's own session would keep it."""
    hub.faults["whoami"] = Fault(body=b'{"name": "ada"}', headers=(("Set-Cookie", "token=1; Path=/"),))
    Spaces(ADA, hub.url).account()
    Spaces("hf_bob", hub.url).look("ada/chat")
    assert not any("cookie" in seen.headers for seen in hub.requests)


leaves = st.none() | st.booleans() | st.integers(-(10**12), 10**12) | st.floats() | st.text(max_size=12)
values = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3), max_leaves=6
)
NAMES = ["stage", "hardware", "gcTimeout", "replicas", "storage", "volumes", "errorMessage", "name", "orgs", "isPro", "canPay"]


@given(st.dictionaries(st.sampled_from(NAMES), values) | values)
def test_any_json_is_read_or_refused(data: Any) -> None:
    """Readers of outside data raise nothing but garbage, and what they return is printable."""
    for read in (lambda: read_runtime(data, "ada/chat"), lambda: read_account(data)):
        try:
            result = read()
        except HubGarbage:
            continue
        if isinstance(result, Runtime):
            assert result.stage.isprintable()
            assert (result.error or "").isprintable()
        else:
            assert result.name.isascii()
