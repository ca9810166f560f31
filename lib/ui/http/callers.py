"""Who asks: the login of a visitor, else a network address.

Places in every line are shared out by it (`lib.service.single_flight`, `lib.live.device_queue`, `lib.hub.spaces`), and nothing else is
done with it: it is in no log and no answer.

A login is told by Gradio's session cookie, which this server signed. A token is not asked for a name here: a stranger could send another
made-up one with each call.

The address. Off a Space it is the connection's own (uvicorn puts there what a proxy tells that FORWARDED_ALLOW_IPS names). A Space is
reached through the platform's proxy only, so the connection comes from one of its private addresses. A proxy appends to X-Forwarded-For the
address that it saw, at the right; whatever stands left of that, the client may have written itself. So the list is read from the right,
private addresses (further hops of the platform) are passed over, and the first public one counts. At a text that is no address the
reading ends, and the connection's own counts. Of IPv6 it is the network of 64 bits, for
everybody has 2⁶⁴ addresses in one.
"""

from __future__ import annotations

import ipaddress
import os
import re
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from gradio.context import LocalContext
from starlette.datastructures import Headers

if TYPE_CHECKING:
    from starlette.types import Scope

KEY = "advisor.caller"
"""Of an ASGI scope: where the caller stands once it is known. Gradio keeps the scope with a call that waits in its queue."""

_caller: ContextVar[str | None] = ContextVar("_caller", default=None)


def name_caller(scope: Scope) -> Scope:
    """The scope with its caller in it, who from now on is the one that asks on this task and the threads that it starts."""
    caller = caller_of(scope)
    _caller.set(caller)
    return {**scope, KEY: caller}


def current_caller() -> str:
    """Who asks on this thread; "" where it is not a request (a script, a test)."""
    request: Any = LocalContext.request.get(None)  # a call out of Gradio's queue runs on a task of the queue, with the request at hand
    scope = getattr(getattr(request, "request", None), "scope", {})
    return scope.get(KEY) or _caller.get() or ""


def caller_of(scope: Scope) -> str:
    """The login or the address that a request comes from."""
    userinfo = scope.get("session", {}).get("oauth_info", {}).get("userinfo", {})
    login = userinfo.get("sub") or userinfo.get("preferred_username")
    return f"login {login}" if login else f"address {_address(scope)}"


def _address(scope: Scope) -> str:
    connection = (scope.get("client") or ("",))[0]
    if not os.environ.get("SPACE_ID"):
        address = _parsed(connection)
        return connection if address is None else _network(address)
    for text in reversed(",".join(Headers(scope=scope).getlist("x-forwarded-for"))[-_READ:].split(",")):
        address = _parsed(text)
        if address is None:  # no proxy wrote this, so whatever stands left of it is the client's as well
            break
        if address.is_global:
            return _network(address)
    return connection


_READ = 2_000
"""Characters at the end of the header: addresses of some forty proxies."""
_WITH_PORT = re.compile(r"\[([0-9a-fA-F:.]+)\](?::[0-9]+)?|([0-9.]+):[0-9]+")


def _parsed(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The address in a text, which some proxies write with a port; one of IPv4 that is written as one of IPv6 is itself."""
    text = text.strip()
    found = _WITH_PORT.fullmatch(text)
    try:
        address = ipaddress.ip_address((found[1] or found[2]) if found else text)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def _network(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> str:
    """The network that counts as one caller."""
    return str(ipaddress.ip_network((address.packed, 64), strict=False)) if address.version == 6 else str(address)  # noqa: PLR2004 IPv6
