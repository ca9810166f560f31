"""The connection to the Hub: one origin, an explicit token, bounded time and size, and a bounded cache of public answers.

- The session is huggingface_hub's own; its offline switch is obeyed and `HF_ENDPOINT` is honoured.
- A visitor's token goes to the Hub's origin and nowhere else. Without one no token is sent: the server's own (HF_TOKEN, a
  login on disk) never acts for a visitor. Headers are written here and not by `build_hf_headers`, which looks for the
  server's token when given None and asks the Hub for a telemetry registry.
- Redirects are followed as the Hub sends them; httpx leaves the token out of a request to another origin.
- Bodies are read in pieces, up to a limit; a longer one is refused and the connection closed.
- All requests run on one background event loop, so that a deadline is kept to the second: a thread that waits on a socket cannot be stopped
  from outside. A coroutine can be cancelled and its connection closed, even if the server sends a header byte by byte.
- The cache has anonymous answers only, drops the least recently used answer first, and limits the age of each.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Hashable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http.cookiejar import DefaultCookiePolicy
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from urllib.parse import quote

from cachetools import TTLCache

from lib.errors import HubError, InvalidInput, RateLimited, UnknownModel, quote_value
from lib.hub import refusals
from lib.units import MIB

if TYPE_CHECKING:
    from httpx2 import AsyncClient, Response


AGENT = "spaces-hardware-advisor/0.1"
CONNECT_S, READ_S = 5.0, 8.0
_MAX_REVISION = 200
_MAX_TOKEN = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """The body of an answer; `file_bytes` is the size of the whole file when the server told it."""

    body: bytes
    file_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Hub:
    """The Hub as one caller sees it."""

    endpoint: str
    token: str | None = field(default=None, repr=False)

    def model_url(self, repo_id: str, revision: str | None) -> str:
        """The address of the Hub's data about a model, with the sizes of its files."""
        at = f"/revision/{quote(revision, safe='')}" if revision else ""
        return f"{self.endpoint}/api/models/{repo_id}{at}?blobs=true"

    def file_url(self, repo_id: str, file: str, revision: str) -> str:
        """The address of a file."""
        return f"{self.endpoint}/{repo_id}/resolve/{quote(revision, safe='')}/{quote(file)}"

    def headers_url(self, repo_id: str, index: str) -> str:
        """The address of all shard headers of a copy with an index, at the newest commit of the main branch."""
        return f"{self.endpoint}/api/models/{repo_id}/safetensors-metadata/{quote(index, safe='/')}"

    async def fetch(self, client: AsyncClient, url: str, *, what: str, limit: int, span: tuple[int, int] | None = None) -> Content:
        """GET an address; `span` = (first byte, one past the last) asks for a range, cut short where the file ends."""
        from httpx2 import HTTPError, InvalidURL, StreamError, Timeout  # noqa: PLC0415
        from huggingface_hub import hf_raise_for_status  # noqa: PLC0415

        headers = {"user-agent": AGENT, "accept-encoding": "identity"}
        if self.token is not None:
            headers["authorization"] = f"Bearer {self.token}"
        if span is not None:
            headers["range"] = f"bytes={span[0]}-{span[1] - 1}"
        patience = Timeout(READ_S, connect=CONNECT_S)
        try:
            async with client.stream("GET", url, headers=headers, timeout=patience, follow_redirects=True) as response:
                hf_raise_for_status(response)
                return await _body(response, what=what, limit=limit, span=span)
        except (HTTPError, InvalidURL, StreamError, OSError) as error:
            raise refusals.refusal(error, what=what, page=f"{self.endpoint}/{what}", token_sent=self.token is not None) from error


async def _body(response: Response, *, what: str, limit: int, span: tuple[int, int] | None) -> Content:
    """Read the body up to its limit; a server that ignores the range is cut off where the range ends."""
    most_bytes = limit if span is None else span[1] - span[0]
    pieces, received = [], 0
    async for piece in response.aiter_raw():
        pieces.append(piece)
        received += len(piece)
        if received > most_bytes:
            break
    if received > most_bytes and span is None:
        raise refusals.too_large(what, most_bytes)
    size = response.headers.get("content-range", "").rpartition("/")[2] or response.headers.get("content-length", "")
    return Content(body=b"".join(pieces)[:most_bytes], file_bytes=int(size) if size.isdigit() else None)


def open_hub(token: str | None = None, endpoint: str | None = None) -> Hub:
    """The Hub for one caller: with that caller's token, or anonymous."""
    from huggingface_hub import constants  # noqa: PLC0415

    if constants.is_offline_mode():
        raise refusals.offline()
    if token is not None and not (token.isascii() and token.isprintable() and " " not in token and 0 < len(token) <= _MAX_TOKEN):
        raise InvalidInput("The token that was sent cannot be a Hugging Face token. Copy it again from your account's token page.")
    return Hub(endpoint=(endpoint or constants.ENDPOINT).rstrip("/"), token=token)


def check_id(repo_id: str, revision: str | None) -> str:
    """A repository id in the Hub's own form, and a revision that may be asked for."""
    from huggingface_hub.errors import HFValidationError  # noqa: PLC0415
    from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]  # noqa: PLC0415

    if revision is not None and not (0 < len(revision) <= _MAX_REVISION and revision.isprintable() and ".." not in revision):
        raise UnknownModel(f"The revision {quote_value(revision)} cannot be one. Accepted: a branch, a tag or a commit of the model.")
    try:
        validate_repo_id(repo_id)
    except (HFValidationError, TypeError) as error:
        raise UnknownModel(
            f"{quote_value(repo_id)} is not the id of a model. Accepted: owner/name, as on the model's page of the Hub."
        ) from error
    return repo_id


def check_printable(text: str) -> str:
    """A text of the Hub that may be shown: a check for pydantic.

    Raises:
        ValueError: it holds characters that cannot be printed.
    """
    if not text.isprintable():
        raise ValueError("unprintable")
    return text


K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Cache(Generic[K, V]):
    """A thread-safe cache: `most` is the largest total `weight`, `seconds` the age limit; the least recently used is dropped first."""

    def __init__(self, *, most: int, seconds: float, weight: Callable[[V], int], clock: Callable[[], float] = time.monotonic) -> None:
        self._entries: TTLCache[K, V] = TTLCache(most, seconds, timer=clock, getsizeof=weight)
        self._lock = threading.Lock()

    def find(self, key: K) -> V | None:
        """The value, None when it is not held or too old."""
        with self._lock:
            return self._entries.get(key)

    def keep(self, key: K, value: V) -> None:
        """Hold a value; others give way. One that is heavier than the whole cache is not held."""
        with self._lock:
            self._entries.pop(key, None)
            if self._entries.getsizeof(value) <= self._entries.maxsize:
                self._entries[key] = value

    def drop(self, value: V) -> K | None:
        """Hold this value no longer; its key, None when it is not held."""
        with self._lock:
            key = next((key for key, held in self._entries.items() if held is value), None)
            if key is not None:
                self._entries.pop(key, None)
            return key

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._entries.clear()


T = TypeVar("T")

_GRACE_S = 2.0
_LONG_BYTES = MIB
MOST_BRIEF = 16
"""Optional look-ups that may wait together. Each blocks a thread of a visitor's question, for 1.5 s if the Hub does not answer."""


class _Loop:
    """The background thread with its event loop and HTTP client."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._client: AsyncClient | None = None
        threading.Thread(target=self.loop.run_forever, name="hub", daemon=True).start()

    def client(self) -> AsyncClient:
        """The shared client; called inside the loop only."""
        if self._client is None or self._client.is_closed:
            from huggingface_hub import get_async_session  # noqa: PLC0415 - 0.1 s, and only when the Hub is asked

            self._client = get_async_session()
            # Its response hook reads (and unpacks) the body of every refusal; a refusal is judged by its status and headers.
            self._client.event_hooks = {"request": self._client.event_hooks["request"]}
            # Visitors share this client: no cookie that one of them is given may travel with another's request.
            self._client.cookies.jar.set_policy(DefaultCookiePolicy(allowed_domains=[]))
        return self._client


_lock = threading.Lock()
_running: list[_Loop] = []


def _current() -> _Loop:
    with _lock:
        if not _running:
            _running.append(_Loop())
        return _running[0]


# A forked child (a ZeroGPU worker) inherits the list but not the thread, and perhaps a lock that no thread will release.
def _forget() -> None:
    global _lock, _brief
    _lock, _brief = threading.Lock(), threading.BoundedSemaphore(MOST_BRIEF)
    _running.clear()


os.register_at_fork(after_in_child=_forget)


def run_bounded(work: Callable[[AsyncClient], Awaitable[T]], seconds: float) -> T:
    """Run `work(client)` on the loop and wait for it, at most `seconds`.

    Raises:
        TimeoutError: the time is up; the work has been cancelled.
    """
    current = _current()

    async def work_in_time() -> T:
        async with asyncio.timeout(seconds):
            return await work(current.client())

    future = asyncio.run_coroutine_threadsafe(work_in_time(), current.loop)
    try:
        return future.result(seconds + _GRACE_S)
    finally:
        future.cancel()


_brief = threading.BoundedSemaphore(MOST_BRIEF)


def run_briefly(work: Callable[[AsyncClient], Awaitable[T]], seconds: float) -> T:
    """`run_bounded` for optional look-ups: suggestions, providers, checkpoints. At most `MOST_BRIEF` of them wait at a time.

    Raises:
        TimeoutError: as `run_bounded`.
        RateLimited: as many wait already; the Hub was not asked.
    """
    if not _brief.acquire(blocking=False):
        raise RateLimited(f"{MOST_BRIEF} look-ups wait for the Hub already, so this one was not sent. Try again in some seconds.")
    try:
        return run_bounded(work, seconds)
    finally:
        _brief.release()


@asynccontextmanager
async def task_group() -> AsyncIterator[asyncio.TaskGroup]:
    """A task group whose first refusal stops the others and is raised as itself, not as a group."""
    try:
        async with asyncio.TaskGroup() as group:
            yield group
    except BaseExceptionGroup as failed:
        refused = failed.subgroup(HubError)
        if refused is None:
            raise
        raise _first(refused) from None


async def gather_results(*work: Coroutine[Any, Any, T]) -> list[T]:
    """The results of coroutines that run together."""
    async with task_group() as group:
        tasks = [group.create_task(one) for one in work]
    return [task.result() for task in tasks]


async def parse_aside(size: int, parse: Callable[..., T], *arguments: object) -> T:
    """Parse here when it is quick; a long text is parsed in a thread, so that other visitors' requests are not blocked."""
    return parse(*arguments) if size < _LONG_BYTES else await asyncio.to_thread(parse, *arguments)


def _first(failed: BaseException) -> BaseException:
    """The first refusal of a group, however deep."""
    return _first(failed.exceptions[0]) if isinstance(failed, BaseExceptionGroup) else failed
