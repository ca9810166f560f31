"""BodyLimits of requests, received and read within bounds: their size, their time, all of them together, and the values in them.

Gradio reads a body of any size, for any time. It parses the body in the thread that serves all requests, and keeps the parsed values for
the session. 4 MB of "[],[],…" became 120 MB that way, and stayed.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, TypeVar

import anyio

from lib.errors import Busy, InvalidInput, UnreadableJson, read_json
from lib.units import KIB, MIB

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from starlette.types import Message, Receive, Scope

LARGE_BYTES = 2 * MIB
"""Of a body with a model or a conversation in it: a config.json of a million characters, escaped inside a JSON text."""
SMALL_BYTES = 64 * KIB
"""Of every other body."""
MOST_NODES = 10_000
"""Of a body's JSON (`lib.errors`). A pasted config.json is one text in it."""
RECEIVE_S = 20.0
AT_ONCE_BYTES = 32 * MIB
OWN_AT_ONCE_BYTES = 8 * MIB
"""Of one caller: four at a time of the longest."""
_PARSERS = 2

Result = TypeVar("Result")


class RefusedBody(InvalidInput):
    """A body that is not taken, with the HTTP status that says so."""

    def __init__(self, status: int, sentence: str) -> None:
        self.status = status
        super().__init__(sentence)


class Crowded(Busy):
    """Others are sending too many bytes."""

    def __init__(self) -> None:
        super().__init__("Too many long requests are being received at the same time. Send this one again in some seconds.")


class BodyLimits:
    """The bodies of one server. For the event loop that serves it, and no other thread."""

    def __init__(self, seconds: float = RECEIVE_S, at_once: int = AT_ONCE_BYTES) -> None:
        """Each body may take `seconds`; beyond the first 64 KiB of each, all bodies in transit together may hold `at_once` bytes.

        Of these, one caller may have `OWN_AT_ONCE_BYTES`.
        """
        self._seconds, self._at_once = seconds, at_once
        self._arriving: Counter[Hashable] = Counter()
        self._limit: anyio.CapacityLimiter | None = None

    async def receive(self, scope: Scope, receive: Receive, limit: int, caller: Hashable = None) -> bytes:
        """The whole body. A short one always finds room.

        Raises:
            RefusedBody: it has more bytes than `limit` (413), or did not come in time (408).
            Crowded: too many bytes are on their way.
        """
        length = dict(scope["headers"]).get(b"content-length", b"")
        if length.isdigit() and (len(length) > 12 or int(length) > limit):  # noqa: PLR2004  a terabyte has 13 digits
            raise _too_large(limit)
        body, bytes_counted = bytearray(), 0
        try:
            with anyio.fail_after(self._seconds):
                more = True
                while more:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        break
                    body += message.get("body", b"")
                    more = message.get("more_body", False)
                    if len(body) > limit:
                        raise _too_large(limit)
                    beyond = max(0, len(body) - SMALL_BYTES)
                    self._arriving[caller] += beyond - bytes_counted
                    bytes_counted = beyond
                    if beyond and (self._arriving[caller] > OWN_AT_ONCE_BYTES or self._arriving.total() > self._at_once):
                        raise Crowded
        except TimeoutError:
            raise RefusedBody(408, f"The request did not arrive whole within {self._seconds:g} s. Send it again.") from None
        finally:
            self._arriving[caller] -= bytes_counted
            if not self._arriving[caller]:
                del self._arriving[caller]
        return bytes(body)

    async def parse(self, body: bytes) -> Any:
        """The JSON of a body; a long one is read on a thread, a few at a time.

        Raises:
            UnreadableJson: it is not JSON, is nested too deep, or holds too many values.
        """
        return read_json(body, MOST_NODES) if len(body) <= SMALL_BYTES else await self.aside(read_json, body, MOST_NODES)

    async def aside(self, function: Callable[..., Result], *arguments: object) -> Result:
        """`function(*arguments)`, on one of few threads: a read of more than a millisecond would hold up every other request."""
        if self._limit is None:
            self._limit = anyio.CapacityLimiter(_PARSERS)
        return await anyio.to_thread.run_sync(function, *arguments, limiter=self._limit)

    async def json_object(self, body: bytes) -> dict[str, Any]:
        """The JSON object that a body has to be."""
        try:
            value = await self.parse(body)
        except UnreadableJson:
            value = None
        if not isinstance(value, dict):
            raise InvalidInput(
                f"The body is not a JSON object of at most {MOST_NODES:,} values, or it is nested too deeply to be read as one."
            )
        return value


def replay(body: bytes, receive: Receive | None = None) -> Receive:
    """The body once, then what the client sends later; without `receive` nothing comes."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def next_message() -> Message:
        if not messages and receive is None:
            await anyio.sleep_forever()
        return messages.pop() if messages or receive is None else await receive()

    return next_message


def _too_large(limit: int) -> RefusedBody:
    if limit >= LARGE_BYTES:
        return RefusedBody(
            413, f"The request is larger than {limit // MIB} MiB, the most that is accepted. Send a shorter text or fewer rows."
        )
    return RefusedBody(413, f"The request is larger than {limit // KIB} KiB, the most that is accepted here. Send only what is asked for.")
