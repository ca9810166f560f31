"""Who asks: a login before an address, and of forwarded addresses only what a proxy of the platform's appended."""

from __future__ import annotations

from typing import Any

import pytest

from lib.ui.http.callers import caller_of, current_caller, name_caller

PROXY = "10.16.3.80"


def scope(forwarded: str | None = None, client: str = PROXY, **further: Any) -> dict[str, Any]:
    """A request over this connection."""
    headers = [] if forwarded is None else [(b"x-forwarded-for", forwarded.encode())]
    return {"type": "http", "headers": headers, "client": (client, 4711), **further}


@pytest.mark.parametrize(
    ("forwarded", "caller"),
    [
        ("203.0.113.9", PROXY),  # kept for documents, so no public address
        ("8.8.8.8", "8.8.8.8"),
        ("1.1.1.1, 8.8.8.8", "8.8.8.8"),  # what stands left, the client may have written itself
        ("1.1.1.1, 8.8.8.8, 10.0.0.7", "8.8.8.8"),
        ("nonsense, ", PROXY),
        (None, PROXY),
        ("2606:4700:1:2:aaaa::1", "2606:4700:1:2::/64"),
        ("2606:4700:1:2:bbbb::2", "2606:4700:1:2::/64"),
        ("1.1.1.1, 8.8.8.8:51234", "8.8.8.8"),  # some proxies write the port
        ("1.1.1.1, [2606:4700:1:2::9]:443", "2606:4700:1:2::/64"),
        ("1.1.1.1, ::ffff:8.8.8.8", "8.8.8.8"),  # else all of IPv4 would be one network of 64 bits
        ("8.8.8.8, unknown", PROXY),  # no proxy wrote that, so what stands left is the client's too
        ("8.8.8.8, 0x08.0x08.0x08.0x08", PROXY),
        ("8.8.8.8, 8.8.8.8%eth0", PROXY),
        ("9.9.9.9, " * 5_000 + "8.8.8.8", "8.8.8.8"),
        (", ".join(["10.0.0.1"] * 5_000), PROXY),
    ],
)
def test_on_a_space_the_rightmost_public_address_counts(monkeypatch: pytest.MonkeyPatch, forwarded: str | None, caller: str) -> None:
    """The platform's proxy appends the address that it saw."""
    monkeypatch.setenv("SPACE_ID", "ada/advisor")
    assert caller_of(scope(forwarded)) == f"address {caller}"


def test_elsewhere_the_header_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody says that a proxy stands in front, so anybody could write it."""
    monkeypatch.delenv("SPACE_ID", raising=False)
    assert caller_of(scope("8.8.8.8", client="192.0.2.1")) == "address 192.0.2.1"


def test_a_login_goes_before_the_address() -> None:
    """The session is signed by the server; two visitors behind one address are two."""
    signed = scope(session={"oauth_info": {"userinfo": {"sub": "63fe", "preferred_username": "ada"}}})
    assert caller_of(signed) == "login 63fe"


def test_the_caller_is_known_on_the_thread_that_answers_and_nowhere_else() -> None:
    """Outside a request there is none."""
    before = current_caller()
    named = name_caller(scope(client="192.0.2.1"))
    assert (before, current_caller(), caller_of(named)) == ("", "address 192.0.2.1", "address 192.0.2.1")
