"""The session through which `HfApi` asks about Spaces: one origin, one token, bounded time and size.

huggingface_hub's own session waits for ever, reads bodies of any length, follows redirects, keeps cookies for everyone, repeats a
refused page of a list after a pause that the server chooses, and sends the token to any address of a next page. So it gets
one that hands the requests of `bound_requests` calls to our background loop (`lib.hub.client`) and treats all others as before:

- only the Hub's origin and only the paths that Spaces, Jobs and accounts need are asked (the client's agent registry is not);
  Inference Endpoints have an API of their own, which only questions about them reach; of a mirror (`HF_ENDPOINT`) it is the path `/v2`,
  so that a mirror's token goes to the mirror alone;
- headers are written here: the visitor's token or none; the client's own are replaced;
- a question may redirect within the origin, an action may not;
- of the answer, the client sees the body and the few headers that it needs. A refusal ends the call at once.

`set_client_factory` is the client's documented way to bring one's own session. Source: huggingface_hub 2.4.0, utils/_http.py,
utils/_pagination.py, utils/_detect_agent.py; checked 2026-11-21.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin, urlsplit

from httpx2 import Client, ConnectError, ConnectTimeout, HTTPError, InvalidURL, Request, Response, StreamError, Timeout
from huggingface_hub import constants, errors, get_session, hf_raise_for_status, set_client_factory

from lib.errors import node_count
from lib.hub import refusals
from lib.hub.client import AGENT, CONNECT_S, Hub, origin, run_bounded
from lib.units import MIB

if TYPE_CHECKING:
    from collections.abc import Iterator

    from httpx2 import AsyncClient

    from lib.hub.refusals import Act

MAX_BYTES = 2 * MIB
_MAX_NODES = 400_000  # 2 MiB of "[],[],…" would have 1.4 million
_MAX_REQUESTS = 12  # of one call: a list has pages, a renamed Space redirects
_MAX_REFUSAL = 16_384
_REFUSAL_S = 1.0
_PATHS = ("/api/spaces", "/api/models", "/api/whoami-v2")
_UNDER = ("/api/spaces/", "/api/jobs/")
_OFFICIAL = ("https", "huggingface.co", 443)
_ABOUT_ENDPOINTS: frozenset[Act] = frozenset({"list_endpoints", "pause_endpoint"})
_LISTS: frozenset[Act] = frozenset({"list", "list_jobs"})
_PASSED = frozenset({"content-type", "link", "location", "retry-after", "ratelimit", "ratelimit-policy", "x-error-code", "x-error-message"})
_REDIRECTS, _REFUSED = 300, 400


@dataclass(frozen=True, slots=True, kw_only=True)
class _HubResponse:
    """An answer as it came: of a refusal the first bytes, of anything else the whole body."""

    status: int
    headers: dict[str, str]
    body: bytes


@dataclass(slots=True, kw_only=True)
class BoundedCall:
    """One question or action for one visitor, which is over after `seconds`."""

    hub: Hub
    act: Act
    what: str
    seconds: float
    until: float = field(init=False)
    requests: int = 0

    def __post_init__(self) -> None:
        self.until = time.monotonic() + self.seconds

    def answer(self, request: Request) -> Response:
        """Send one of the client's requests, within this call's bounds.

        Raises:
            HubError: it may not be sent, or no whole answer came.
            HfHubHTTPError: the Hub refuses.
        """
        body, kind, url = request.read(), request.headers.get("content-type"), self._at_this_hub(str(request.url))
        while True:
            answer = self._send(request.method, url, body, kind)
            target = answer.headers.get("location")
            if target is None or not _REDIRECTS <= answer.status < _REFUSED:
                return self._response(answer, request)
            if self.act in refusals.ACTIONS:
                raise refusals.unfollowed_redirect(self.act, self.what)
            url = urljoin(url, target)

    def _send(self, method: str, url: str, body: bytes, kind: str | None) -> _HubResponse:
        self.requests += 1
        if self.requests > _MAX_REQUESTS:
            raise refusals.unreadable(self.act, self.what, f"it takes more than {_MAX_REQUESTS} requests")
        self._allow(url)
        headers = {"user-agent": AGENT, "accept-encoding": "identity"} | ({"content-type": kind} if kind else {})
        if self.hub.token is not None:
            headers["authorization"] = f"Bearer {self.hub.token}"
        try:
            return run_bounded(lambda client: self._exchange(client, method, url, body, headers), max(0.0, self.until - time.monotonic()))
        except TimeoutError as error:
            raise refusals.space_too_slow(self.act, self.what, self.seconds) from error
        except errors.OfflineModeIsEnabled as error:
            raise refusals.space_offline() from error
        except (HTTPError, InvalidURL, StreamError, OSError) as error:
            sent = not isinstance(error, (ConnectError, ConnectTimeout, InvalidURL))
            raise refusals.unreachable(self.act, self.what, type(error).__name__, sent=sent) from error

    def _at_this_hub(self, url: str) -> str:
        """The address; that of the Endpoints API as this Hub has it."""
        api = constants.INFERENCE_ENDPOINTS_ENDPOINT
        return self._endpoints_api() + url.removeprefix(api) if url.startswith(api + "/") else url

    def _endpoints_api(self) -> str:
        return constants.INFERENCE_ENDPOINTS_ENDPOINT if origin(self.hub.endpoint) == _OFFICIAL else f"{self.hub.endpoint}/v2"

    def _allow(self, url: str) -> None:
        """Only this Hub, and of it only what Spaces, Jobs and accounts need; for questions about Endpoints, their API."""
        path = urlsplit(url).path.removeprefix(urlsplit(self.hub.endpoint).path)
        here = origin(url) == origin(self.hub.endpoint) and (path in _PATHS or path.startswith(_UNDER))
        if not here and not (self.act in _ABOUT_ENDPOINTS and url.startswith(f"{self._endpoints_api()}/endpoint/")):
            raise refusals.unfollowed_redirect(self.act, self.what)

    async def _exchange(self, client: AsyncClient, method: str, url: str, body: bytes, headers: dict[str, str]) -> _HubResponse:
        patience = Timeout(self.seconds, connect=CONNECT_S)
        async with client.stream(method, url, content=body, headers=headers, timeout=patience, follow_redirects=False) as response:
            some = {name: value for name, value in response.headers.items() if name in _PASSED}
            if response.status_code >= _REFUSED:
                return _HubResponse(status=response.status_code, headers=some, body=await _beginning(response))
            if response.headers.get("content-encoding", "identity") != "identity":
                raise refusals.unreadable(self.act, self.what, "it is compressed although that was not asked for")
            received = bytearray()
            async for piece in response.aiter_raw():
                received += piece
                if len(received) > MAX_BYTES:
                    raise refusals.unreadable(self.act, self.what, f"it is longer than {MAX_BYTES:,} bytes")
            return _HubResponse(status=response.status_code, headers=some, body=bytes(received))

    def _response(self, answer: _HubResponse, request: Request) -> Response:
        """The response that the client sees: a refusal carries none of the server's words, only a remark that is fit to be quoted."""
        headers = {name: value for name, value in answer.headers.items() if name not in ("location", "x-error-message")}
        if answer.status < _REFUSED:
            if node_count(answer.body, _MAX_NODES) > _MAX_NODES:
                raise refusals.unreadable(self.act, self.what, f"it holds more than {_MAX_NODES:,} values")
            if self.act in _LISTS and not answer.body.lstrip().startswith(b"["):
                raise refusals.unreadable(self.act, self.what, "it is not a list")  # the client takes an empty object for none
            return Response(answer.status, headers=headers, content=answer.body, request=request)
        message = answer.headers.get("x-error-message", "")
        if message == refusals.INVALID_TOKEN:
            headers["x-error-message"] = message
        remark = refusals.sanitize_remote_message(message or _message(answer.body), self.hub.token)
        response = Response(answer.status, headers=headers, request=request, extensions={"remark": remark})
        hf_raise_for_status(response)
        return response


async def _beginning(response: Response) -> bytes:
    """The first bytes of a refusal, as far as they come soon: its status says enough without them."""
    beginning = bytearray()
    with suppress(TimeoutError, HTTPError, StreamError):
        async with asyncio.timeout(_REFUSAL_S):
            async for piece in response.aiter_raw():
                beginning += piece
                if len(beginning) > _MAX_REFUSAL:
                    break
    return bytes(beginning[:_MAX_REFUSAL])


def _message(body: bytes) -> str:
    """The `error` of a refusal's JSON body, empty where there is none."""
    try:
        data = json.loads(body)
    except (ValueError, RecursionError):
        return ""
    error = data.get("error") if isinstance(data, dict) else None
    return error if isinstance(error, str) else ""


_call: ContextVar[BoundedCall | None] = ContextVar("_call", default=None)
_lock = threading.Lock()
_installed: list[bool] = []


class _Session(Client):
    """huggingface_hub's session, except for requests of a bounded call."""

    def send(self, request: Request, **options: Any) -> Response:
        """Send a request."""
        call = _call.get()
        return super().send(request, **options) if call is None else call.answer(request)


def install_session() -> None:
    """Give huggingface_hub this session, once; its other users keep the hooks, the time limit and the redirects that they had."""
    with _lock:
        if _installed:
            return
        before = get_session()
        hooks, patience, follow = before.event_hooks, before.timeout, before.follow_redirects
        set_client_factory(lambda: _Session(event_hooks=hooks, timeout=patience, follow_redirects=follow))
        _installed.append(True)


@contextmanager
def bound_requests(call: BoundedCall) -> Iterator[None]:
    """Within this block, and in this thread only, the client's requests belong to `call`."""
    install_session()
    mark = _call.set(call)
    try:
        yield
    finally:
        _call.reset(mark)
