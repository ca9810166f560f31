"""The session through which `HfApi` asks about Spaces: one token, bounded time.

huggingface_hub's own session waits for ever, keeps cookies for everyone and repeats a refused page of a list after a pause that the server
chooses. So it gets one that passes the requests of `bound_requests` calls to our background loop (`lib.hub.client`), with one deadline and
with the visitor's token or none. Other requests are unchanged. A question may be redirected, an action may not. A refusal ends the call at
once; the client sees none of the server's words but a remark that is fit to be quoted.

Inference Endpoints have an API of their own; of a mirror (`HF_ENDPOINT`) it is the path `/v2`, so that a mirror's token goes to the mirror
alone. `set_client_factory` is the client's documented way to bring one's own session. Source: huggingface_hub 2.4.0, utils/_http.py,
utils/_pagination.py; checked 2026-11-21.
"""

from __future__ import annotations

import json
import threading
import time
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from httpx2 import Client, ConnectError, ConnectTimeout, HTTPError, InvalidURL, Request, Response, StreamError, Timeout
from huggingface_hub import constants, errors, get_session, hf_raise_for_status, set_client_factory

from lib.errors import node_count
from lib.hub import refusals
from lib.hub.client import AGENT, CONNECT_S, Hub, run_bounded
from lib.units import MIB

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lib.hub.refusals import Act

MAX_BYTES = 2 * MIB
_MAX_NODES = 400_000  # 2 MiB of "[],[],…" would have 1.4 million
_OFFICIAL = "https://huggingface.co"
_LISTS: frozenset[Act] = frozenset({"list", "list_jobs"})
_REFUSED = 400


@dataclass(slots=True, kw_only=True)
class BoundedCall:
    """One question or action for one visitor, which is over after `seconds`."""

    hub: Hub
    act: Act
    what: str
    seconds: float
    until: float = field(init=False)

    def __post_init__(self) -> None:
        self.until = time.monotonic() + self.seconds

    def answer(self, request: Request) -> Response:
        """Send one of the client's requests, within this call's bounds.

        Raises:
            HubError: no whole answer came.
            HfHubHTTPError: the Hub refuses.
        """
        answer = self._send(request)
        if answer.status_code >= _REFUSED:
            return self._refuse(answer, request)
        if answer.has_redirect_location:
            raise refusals.unfollowed_redirect(self.what)
        if len(answer.content) > MAX_BYTES or node_count(answer.content, _MAX_NODES) > _MAX_NODES:
            raise refusals.unreadable(self.act, self.what, f"it is longer than {MAX_BYTES:,} bytes or {_MAX_NODES:,} values")
        if self.act in _LISTS and not answer.content.lstrip().startswith(b"["):
            raise refusals.unreadable(self.act, self.what, "it is not a list")  # the client takes an empty object for none
        return answer

    def _send(self, request: Request) -> Response:
        official = constants.INFERENCE_ENDPOINTS_ENDPOINT
        endpoints_api = official if self.hub.endpoint == _OFFICIAL else f"{self.hub.endpoint}/v2"
        url, body = str(request.url).replace(f"{official}/", f"{endpoints_api}/", 1), request.read()
        headers = {"user-agent": AGENT} | {name: value for name, value in request.headers.items() if name == "content-type"}
        if self.hub.token is not None and url.startswith((f"{self.hub.endpoint}/", f"{endpoints_api}/")):
            headers["authorization"] = f"Bearer {self.hub.token}"
        patience, follow = Timeout(self.seconds, connect=CONNECT_S), self.act not in refusals.ACTIONS
        try:
            return run_bounded(
                lambda client: client.request(
                    request.method, url, content=body, headers=headers, timeout=patience, follow_redirects=follow
                ),
                max(0.0, self.until - time.monotonic()),
            )
        except TimeoutError as error:
            raise refusals.space_too_slow(self.act, self.what, self.seconds) from error
        except errors.OfflineModeIsEnabled as error:
            raise refusals.space_offline() from error
        except (HTTPError, InvalidURL, StreamError, OSError) as error:
            sent = not isinstance(error, (ConnectError, ConnectTimeout, InvalidURL))
            raise refusals.unreachable(self.act, self.what, refusals.describe_fault(error), sent=sent) from error

    def _refuse(self, answer: Response, request: Request) -> Response:
        """The client's own error, which carries a remark in place of the server's words."""
        message = answer.headers.pop("x-error-message", "")
        headers = answer.headers | ({"x-error-message": message} if message == refusals.INVALID_TOKEN else {})
        remark = refusals.sanitize_remote_message(message or _message(answer.content), self.hub.token)
        response = Response(answer.status_code, headers=headers, request=request, extensions={"remark": remark})
        hf_raise_for_status(response)
        return response


def _message(body: bytes) -> str:
    """The `error` of a refusal's JSON body, empty if there is none."""
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
        constants.HF_HUB_DISABLE_TELEMETRY = True  # else the client asks for a registry of agents before its first request
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
