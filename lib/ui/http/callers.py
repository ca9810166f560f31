"""Callers, identified by login or else by network address: their turns in the queues, and how long their sessions are kept.

The caller's name is used for the places in each queue (`lib.service.single_flight`, `lib.live.device_queue`, `lib.hub.spaces`) and for
nothing else. It is not in any log or answer.

A login comes from Gradio's session cookie, which this server signed. A token does not identify a caller, because a visitor could send
another made-up one with each call. The token is only used to read models that its owner may read (`visitor_token`).

The address. Outside of Spaces it is the connection's own (uvicorn replaces it by that of X-Forwarded-For if FORWARDED_ALLOW_IPS names the
proxy). A Space is reached through the platform's proxy only, so the connection comes from one of its private addresses. A proxy appends the
address that it saw at the right end of X-Forwarded-For; everything left of that may be the client's invention. So the list is read from
the right, private addresses (further hops of the platform) are skipped, and the first public one counts. If an entry is not an
address, the connection's own address counts. An IPv6 caller is its /64 network, because one customer has all 2⁶⁴ addresses in it.

Turns. Gradio has one length limit for all its queues and serves them first come, first served. Here each device queue has its own limit,
a caller may hold few of its places (`lib.live.device_queue`), and callers take turns.

Other sites must not use a visitor's login. The session cookie travels with requests from any site: Gradio sets SameSite=None, because a
Space is shown inside another site, and its CORS rules let any site send any header along with it. So a form on a foreign page could act for
the user who is signed in here, or sign the user out. And a foreign page could show this page under its own buttons, so that a visitor
confirms a switch without noticing it. `FrameAncestors` adds a header to every page: only the Hub, where a Space's page is in a frame, and
the page itself may frame it. `lib.ui.http.middleware` uses the functions here to remove logins from requests.

Sessions. Gradio treats every call over `POST /gradio_api/call/NAME` as a session of its own. It keeps 10,000 sessions, each with the
settings of every component on the page (0.3 MB) and with inputs and outputs, a pasted config.json too. For 2,000 it keeps answers that no
client fetched. Here:

- no session begins with the settings of every component: collecting them blocks the thread that serves all visitors for 30 ms a call, and
  only Gradio's "deep links" need them, which are closed here (`lib.ui.http.middleware`);
- a session that only asked public questions is dropped when its calls have ended: they touch no component and keep no state;
- a session of the page keeps its state (`gr.State`), up to `CAPACITY` sessions, and loses the settings that Gradio notes as they change;
- an answer is dropped when it was read, or `ANSWER_S` after the last call of its session ended.

Only the capacity is a setting of Gradio. The rest reads and deletes in Gradio's own tables (`state_holder.py` and `queueing.py` of gradio
6.31). Tests check these statements.
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
import re
import time
from collections import Counter, OrderedDict
from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from gradio.context import LocalContext
from gradio.state_holder import SessionState
from starlette.datastructures import Headers, MutableHeaders

from lib.live.device_queue import DEVICE_QUEUE_SLOTS, QUEUES, Occupied, check_queue_slot
from lib.service.fair_turns import RoundRobin, holds_half

if TYPE_CHECKING:
    import gradio as gr
    from gradio.blocks import Block, BlocksConfig
    from gradio.queueing import Event
    from starlette.types import ASGIApp, Message, Receive, Scope, Send


KEY = "advisor.caller"
"""The key of an ASGI scope that has the caller once it is known. Gradio keeps the scope with a call that waits in its queue."""

_caller: ContextVar[str | None] = ContextVar("_caller", default=None)


def name_caller(scope: Scope) -> Scope:
    """The scope with its caller, who is also the current caller of this task and of the threads that it starts from now on."""
    caller = caller_of(scope)
    _caller.set(caller)
    return {**scope, KEY: caller}


def become_caller(caller: str | None) -> None:
    """From now on this task, and the threads that it starts, ask in the name of `caller`."""
    _caller.set(caller)


def current_caller() -> str:
    """The caller on this thread; "" if it is not a request (a script, a test)."""
    request: Any = LocalContext.request.get(None)  # a call out of Gradio's queue runs on a task of the queue, with the request at hand
    scope = getattr(getattr(request, "request", None), "scope", {})
    return scope.get(KEY) or _caller.get() or ""


VISITOR_HEADER = "x-hf-token"
"""The header of a visitor's own token, from the page and over MCP."""


def visitor_token(request: Any) -> str | None:
    """The visitor's own token in a request of the page: the pasted one, else that of the sign-in while it lasts."""
    scope = getattr(getattr(request, "request", None), "scope", None)
    if scope is None:
        return None
    login = scope.get("session", {}).get("oauth_info") or {}
    signed = login.get("access_token") if login.get("expires_at", 0) > time.time() else None
    return Headers(scope=scope).get(VISITOR_HEADER) or signed


def caller_of(scope: Scope) -> str:
    """The login or the address that a request comes from."""
    userinfo = scope.get("session", {}).get("oauth_info", {}).get("userinfo", {})
    login = userinfo.get("sub") or userinfo.get("preferred_username")
    return f"login {login}" if login else f"address {_address(scope)}"


def _address(scope: Scope) -> str:
    connection = (scope.get("client") or ("",))[0]
    if not os.environ.get("SPACE_ID"):
        address = _parse_address(connection)
        return connection if address is None else _network(address)
    for text in reversed(",".join(Headers(scope=scope).getlist("x-forwarded-for"))[-_READ:].split(",")):
        address = _parse_address(text)
        if address is None:  # no proxy wrote this, so the client may have written everything left of it
            break
        if address.is_global:
            return _network(address)
    return connection


_READ = 2_000
"""Characters at the end of the header: addresses of some forty proxies."""
_WITH_PORT = re.compile(r"\[([0-9a-fA-F:.]+)\](?::[0-9]+)?|([0-9.]+):[0-9]+")


def _parse_address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The address in a text, which some proxies write with a port; one of IPv4 that is written as one of IPv6 is itself."""
    text = text.strip()
    match = _WITH_PORT.fullmatch(text)
    try:
        address = ipaddress.ip_address((match[1] or match[2]) if match else text)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def _network(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> str:
    """The network that counts as one caller."""
    return str(ipaddress.ip_network((address.packed, 64), strict=False)) if address.version == 6 else str(address)  # noqa: PLR2004 IPv6


MOST_EVENTS = 200
"""Events of the page that wait in Gradio's queue or run; `QueueSlots` gives one caller half of the free places at most."""


class QueueSlots:
    """The waiting places before each device queue of a page, and those of its other events. For the event loop that serves it alone."""

    def __init__(self, page: gr.Blocks, places: int = DEVICE_QUEUE_SLOTS) -> None:
        """`page` says which of its functions wait for the device, and which events wait in Gradio's queue."""
        self._page, self._places = page, places
        self._arriving: list[tuple[str, Hashable]] = []

    def queue_of(self, number: object) -> str | None:
        """The queue of Gradio's that the page's function of this number waits in; None if it waits in none."""
        fn = self._page.fns.get(number) if type(number) is int else None
        return fn.concurrency_id if fn is not None and fn.queue else None

    @contextmanager
    def place(self, queue: str | None, caller: Hashable = None) -> Iterator[None]:
        """A place for the call that is passed on within the block; calls on their way into Gradio's queue count as well.

        Raises:
            Occupied: every place is taken, or every place of this caller's.
        """
        if queue is None:
            yield
            return
        if queue in QUEUES:
            coming = [of for name, of in self._arriving if name == queue]
            check_queue_slot([*coming, *map(_caller_of_event, self._waiting(queue))], caller, self._places)
        unfinished = self._page._queue.event_ids_to_events.values()  # noqa: SLF001  Gradio has no public name for it
        callers = Counter([*(of for _, of in self._arriving), *map(_caller_of_event, unfinished)])
        if holds_half(callers[caller], callers.total(), MOST_EVENTS):
            raise Occupied(
                f"{callers[caller]} of your events are not answered yet, of {callers.total()} in all. Wait for them, then try again."
            )
        self._arriving.append((queue, caller))
        try:
            yield
        finally:
            self._arriving.remove((queue, caller))
            # The first waiting call of each caller goes before the second one of any caller.
            events: list[Event] = self._waiting(queue)
            order: RoundRobin[Event] = RoundRobin()
            for event in events:
                order.join(_caller_of_event(event), event)
            events[:] = [event for _, event in iter(order.take, None)]

    def _waiting(self, queue: str) -> list[Event]:
        events = self._page._queue.event_queue_per_concurrency_id.get(queue)  # noqa: SLF001  Gradio has no public name for it
        return events.queue if events is not None else []


def _caller_of_event(event: Event) -> Hashable:
    return event.request.scope.get(KEY)


_LOGOUT = "/logout"
_FRAME_ANCESTORS = "frame-ancestors 'self' https://huggingface.co https://*.huggingface.co"


class FrameAncestors:
    """Middleware that adds a header to every page: the sites that may show it in a frame."""

    def __init__(self, app: ASGIApp) -> None:
        """Wrap `app`."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, and add the header to a response that is a page."""

        async def send_with_header(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                if headers.get("content-type", "").startswith("text/html"):
                    headers.append("content-security-policy", _FRAME_ANCESTORS)
            await send(message)

        await self._app(scope, receive, send_with_header if scope["type"] == "http" else send)


def is_foreign(scope: Scope) -> bool:
    """Whether a page of another site sent this request. One with neither Origin nor Sec-Fetch-Site was not sent by a page.

    A page cannot set Host, Origin and Sec-Fetch-Site; it can set X-Forwarded-Host, so that header is not read.
    """
    headers = Headers(scope=scope)
    origin, site = headers.get("origin"), headers.get("sec-fetch-site")
    if site is not None:  # the browser says so itself, whatever proxy stands between; "none" is an address that was typed
        return site not in ("same-origin", "none")
    return origin is not None and _host(origin) not in _own_hosts(headers.get("host", ""))


def is_foreign_logout(scope: Scope) -> bool:
    """Whether this is a sign-out that neither our own page nor a typed address requested; an image on another site could send it.

    The sign-out is a GET, which has no Origin; a browser that does not tell where it comes from tells the page that it left.
    """
    if str(scope.get("path", "")).rstrip("/") != _LOGOUT or not has_cookies(scope):
        return False
    headers = Headers(scope=scope)
    if "sec-fetch-site" in headers:
        return is_foreign(scope)
    return _host(headers.get("referer", "")) not in _own_hosts(headers.get("host", ""))


def has_cookies(scope: Scope) -> bool:
    """Whether the browser sent cookies along; a login is one of them."""
    return "cookie" in Headers(scope=scope)


def strip_login(scope: Scope) -> Scope:
    """The same request without a sign-in: no cookies, and no data read from them."""
    unsigned = {**scope, "headers": [(name, value) for name, value in scope["headers"] if name.lower() != b"cookie"]}
    if "session" in scope:  # Gradio's session middleware runs before ours and has read the cookie already
        unsigned["session"] = type(scope["session"])()
    return unsigned


def _host(origin: str) -> str | None:
    """Host and port of an origin; None for the opaque one (`null`)."""
    try:
        return urlsplit(origin).netloc.lower() or None
    except ValueError:
        return None


def _own_hosts(host: str) -> set[str]:
    """The names of this server. On a Space, SPACE_HOST lists them, a custom domain too."""
    names = [host, *os.environ.get("SPACE_HOST", "").split(",")]
    return {name.strip().lower() for name in names if name.strip()}


# Sessions: Gradio's data about them is released as soon as no page can need it.

CAPACITY = 500
ANSWER_S = 60.0
MOST_STREAMS = 2
"""Of one session at a time: a page reads one, and may open the next before the last has ended. Gradio gives each message to one of them,
and fails in each but the first that is closed."""
_EVERY_S = 0.5


def no_answer() -> str:
    """The sentence for an event_id under which nothing is kept."""
    return f"There is no answer under this event_id: it was read, or nobody read it for {ANSWER_S:g} s, or it never was. Call again."


def crowded_stream() -> str:
    """The sentence for one stream too many."""
    return f"{MOST_STREAMS} streams of this session (session_hash) are open already. Read the answers from one of them, or close it."


@dataclass(frozen=True, slots=True)
class _NoSettings:
    """A page as a new session reads it: with its functions, and without components whose settings to collect."""

    default_config: BlocksConfig
    blocks: Mapping[int, Block] = field(default_factory=dict)


def begin_without_settings() -> None:
    """Patch Gradio so that new sessions of any page in this process begin without settings."""
    begin = SessionState.__init__
    if begin.__module__ != __name__:

        def __init__(self: SessionState, blocks: gr.Blocks) -> None:  # noqa: N807  in place of Gradio's
            begin(self, _NoSettings(blocks.default_config))  # type: ignore[arg-type]

        SessionState.__init__ = __init__  # type: ignore[method-assign]


class Sessions:
    """The sessions of a page. For the event loop that serves it, and no other thread."""

    def __init__(self, page: gr.Blocks) -> None:
        """Nothing is watched before the first call."""
        self._page = page
        self._of_the_page: OrderedDict[str, None] = OrderedDict()
        self._ended: dict[str, float] = {}
        self._watch: asyncio.Task[None] | None = None
        self.streams: Counter[str] = Counter()

    def watch(self, session: object, *, of_the_page: bool) -> None:
        """Note a call of this session, and sweep until no session is left. `of_the_page`: the call is an event of the page, not public."""
        if of_the_page and isinstance(session, str):
            self._of_the_page[session] = None
            self._of_the_page.move_to_end(session)
            while len(self._of_the_page) > CAPACITY:
                self._of_the_page.popitem(last=False)
        if self._watch is None or self._watch.done():
            self._watch = asyncio.create_task(self._sweep_until_empty())

    def has_answer(self, event: str) -> bool:
        """Whether a call of this event id runs, or its answer waits to be read."""
        queue = self._page._queue  # noqa: SLF001  as below
        return event in queue.event_ids_to_events or any(event in unread for unread in queue.pending_event_ids_session.values())

    def has_stream(self, session: str | None) -> bool:
        """Whether messages of this session's calls wait to be read, or will."""
        return session in self._page._queue.pending_messages_per_session  # noqa: SLF001  as below

    @contextmanager
    def stream(self, session: str) -> Iterator[None]:
        """Count a stream of this session as open while the block runs."""
        self.streams[session] += 1
        try:
            yield
        finally:
            self.streams[session] -= 1
            self.streams += Counter()  # without sessions that have none

    async def _sweep_until_empty(self) -> None:
        waiting = True
        while waiting:
            await asyncio.sleep(_EVERY_S)
            waiting = self.sweep(time.monotonic())

    def sweep(self, now_s: float) -> bool:
        """Forget sessions that have ended by `now_s`; returns whether a call still runs or an answer still waits to be read."""
        queue, holder = self._page._queue, self._page.state_holder  # noqa: SLF001  Gradio has no public name for it
        running = {event.session_hash for event in queue.event_ids_to_events.values()}
        for session, state in list(holder.session_data.items()):
            if session in running:
                continue
            if session in self._of_the_page:
                state.config_values.clear()
            else:
                del holder.session_data[session]
                holder.time_last_used.pop(session, None)
        answers, unread = queue.pending_messages_per_session, queue.pending_event_ids_session
        for session in {*answers, *unread} - running:
            if unread.get(session) and now_s - self._ended.setdefault(session, now_s) < ANSWER_S:
                continue
            answers.pop(session, None)
            unread.pop(session, None)
        self._ended = {session: ended_s for session, ended_s in self._ended.items() if session in unread and session not in running}
        return bool(running or unread)
