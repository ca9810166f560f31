"""One background event loop for all requests to the Hub, so that a deadline is kept to the second.

A thread that waits on a socket cannot be stopped from outside, a coroutine can: when its time is up it is cancelled, its
connection is closed and the visitor gets a sentence, whatever the other side is doing (even one byte of a header at a time).
The client is huggingface_hub's own (`get_async_session`: its proxy settings, its offline switch, its request ids); it lives
as long as the loop, so connections are reused.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from http.cookiejar import DefaultCookiePolicy
from typing import TYPE_CHECKING, Any, TypeVar

from lib.errors import HubError, RateLimited

if TYPE_CHECKING:
    from httpx2 import AsyncClient

T = TypeVar("T")

_GRACE_S = 2.0
_LONG_BYTES = 2**20
MOST_BRIEF = 16
"""Each holds a thread of a visitor's question, 1.5 s where the Hub hangs."""


class _Loop:
    """The thread, its loop and its client."""

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


def run(work: Callable[[AsyncClient], Awaitable[T]], seconds: float) -> T:
    """Run `work(client)` on the loop and wait for it, at most `seconds`.

    Raises:
        TimeoutError: the time is up; the work has been cancelled.
    """
    current = _current()

    async def bounded() -> T:
        async with asyncio.timeout(seconds):
            return await work(current.client())

    future = asyncio.run_coroutine_threadsafe(bounded(), current.loop)
    try:
        return future.result(seconds + _GRACE_S)
    finally:
        future.cancel()


_brief = threading.BoundedSemaphore(MOST_BRIEF)


def run_briefly(work: Callable[[AsyncClient], Awaitable[T]], seconds: float) -> T:
    """`run` for what an answer can do without: suggestions, providers, checkpoints. Of these at most `MOST_BRIEF` wait at a time.

    Raises:
        TimeoutError: as `run`.
        RateLimited: as many wait already; the Hub was not asked.
    """
    if not _brief.acquire(blocking=False):
        raise RateLimited(f"{MOST_BRIEF} look-ups wait for the Hub already, so this one was not sent. Try again in some seconds.")
    try:
        return run(work, seconds)
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


async def gather(*work: Coroutine[Any, Any, T]) -> list[T]:
    """The results of coroutines that run together."""
    async with task_group() as group:
        tasks = [group.create_task(one) for one in work]
    return [task.result() for task in tasks]


async def parse_aside(size: int, parse: Callable[..., T], *arguments: object) -> T:
    """Parse here when it is quick; a long text is parsed in a thread, so that other visitors' requests go on."""
    return parse(*arguments) if size < _LONG_BYTES else await asyncio.to_thread(parse, *arguments)


def _first(failed: BaseException) -> BaseException:
    """The first refusal of a group, however deep."""
    return _first(failed.exceptions[0]) if isinstance(failed, BaseExceptionGroup) else failed
