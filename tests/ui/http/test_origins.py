"""Whose page a request comes from, and requests without their login."""

from __future__ import annotations

from typing import Any

import pytest

from lib.ui.http.origins import has_cookies, is_foreign, is_foreign_logout, strip_login


def scope(**headers: str) -> dict[str, Any]:
    """A request with these headers; `_` stands for `-`."""
    return {"type": "http", "headers": [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]}


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"host": "here.example"}, False),
        ({"host": "here.example", "origin": "https://here.example"}, False),
        ({"host": "here.example:7860", "origin": "http://here.example:7860"}, False),
        ({"host": "here.example", "origin": "https://HERE.example"}, False),
        ({"host": "inner:7860", "origin": "https://me-app.hf.space"}, False),
        ({"host": "inner:7860", "origin": "https://my.domain"}, False),
        ({"host": "inner:7860", "origin": "https://elsewhere.example", "sec_fetch_site": "same-origin"}, False),
        ({"host": "here.example", "origin": "null"}, True),
        ({"host": "here.example", "origin": "https://there.example"}, True),
        ({"host": "here.example", "origin": "https://here.example.there.example"}, True),
        ({"host": "here.example", "origin": "http://here.example:81"}, True),
        ({"host": "here.example", "origin": "https://[broken"}, True),
        ({"host": "", "origin": ""}, True),
        ({"host": "here.example", "origin": "https://there.example", "x_forwarded_host": "there.example"}, True),
        ({"host": "here.example", "origin": "https://here.example", "sec_fetch_site": "cross-site"}, True),
        ({"host": "here.example", "sec_fetch_site": "cross-site"}, True),
        ({"host": "here.example", "sec_fetch_site": "same-site"}, True),
        ({"host": "here.example", "sec_fetch_site": "same-origin"}, False),
        ({"host": "here.example", "sec_fetch_site": "none"}, False),
    ],
)
def test_a_foreign_page_is_told_from_ours(monkeypatch: pytest.MonkeyPatch, headers: dict[str, str], expected: bool) -> None:
    """Ours are the Host that was asked and the names in SPACE_HOST; what a page can set itself proves nothing."""
    monkeypatch.setenv("SPACE_HOST", "me-app.hf.space,my.domain")
    assert is_foreign(scope(**headers)) is expected


@pytest.mark.parametrize(
    ("headers", "path", "expected"),
    [
        ({"sec_fetch_site": "same-origin"}, "/logout", False),
        ({"sec_fetch_site": "none"}, "/logout", False),
        ({"sec_fetch_site": "cross-site"}, "/logout", True),
        ({"sec_fetch_site": "cross-site", "referer": "https://here.example/"}, "/logout/", True),
        ({"referer": "https://here.example/?tab=space"}, "/logout", False),
        ({"referer": "https://there.example/?https://here.example/"}, "/logout", True),
        ({}, "/logout", True),
        ({"sec_fetch_site": "cross-site"}, "/", False),
    ],
)
def test_only_our_own_page_signs_a_visitor_out(headers: dict[str, str], path: str, expected: bool) -> None:
    """A picture or a link on a foreign page would otherwise do it; who is not signed in cannot be signed out."""
    assert is_foreign_logout(scope(host="here.example", cookie="session=x", **headers) | {"path": path}) is expected
    assert is_foreign_logout(scope(host="here.example", **headers) | {"path": path}) is False


def test_an_anonymous_request_has_neither_cookies_nor_what_was_read_from_them() -> None:
    """The original keeps both: the session middleware writes its answer from it."""
    signed = scope(host="here", cookie="session=x") | {"session": {"oauth_info": {"access_token": "t"}}}
    unsigned = strip_login(signed)
    assert (has_cookies(signed), has_cookies(unsigned)) == (True, False)
    assert unsigned["session"] == {}
    assert signed["session"]
    assert "session" not in strip_login(scope(cookie="a=b"))
