"""Prices as the platform lists them today: the list is fetched in the background and brought into our units.

    feed = PriceFeed(load())
    feed.catalog()        # at once: the newest catalog; starts a refresh when it is due
    feed.status()         # the result of the last refresh

The lists are asked for as everything of the Hub is (`lib.hub.client`): anonymously, of bounded length, unpacked by nobody, from no other
host. Each call runs in a daemon thread that is waited for and then left alone; a hanging one is not started a second time. A failure is
kept as an error that can be shown. `lib.hub.price_rows` checks the rows.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING

from lib.bounded_json import UnreadableJson, read_json
from lib.catalog.live_prices import CALLS, LiveList, apply_live_prices
from lib.errors import HubError, HubGarbage, HubUnreachable, RateLimited
from lib.hub import loop
from lib.hub.client import open_hub
from lib.hub.price_rows import parse_flavors

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lib.catalog import Catalog
    from lib.catalog.live_prices import LiveListName

MOST_BYTES = 2**20  # the lists of 2026 have 10 kB
_MOST_NODES = 50_000
LIMIT_S, LONGEST_S = 5.0, 60.0
"""Who asks for prices waits so long; the call itself goes on for longer, so that a slow answer is there for the next one."""
TTL_S = 3600.0
RETRY_S = 300.0
TOO_MANY_REQUESTS = 429


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedStatus:
    """What the last refresh did. `tried_at` is ISO 8601, UTC; `None` before the first. `failures` holds an error per list that failed."""

    tried_at: str | None
    running: bool
    failures: Mapping[LiveListName, HubError]


def _refusal(error: Exception, name: LiveListName) -> HubError:
    """The sentence about the list for what went wrong; nothing that the server wrote is repeated."""
    status = getattr(getattr(error.__cause__, "response", None), "status_code", None)
    what, then = f"The live hardware list of {name}", "The prices known before stay; it is asked again later."
    if status == TOO_MANY_REQUESTS:
        return RateLimited(f"{what} was refused: too many requests. {then}")
    if isinstance(status, int):
        return HubUnreachable(f"{what} was answered with HTTP {status}. {then}")
    if isinstance(error, HubGarbage):
        return HubGarbage(f"{what} was not taken: it is too long, packed, or points elsewhere. {then}")
    if isinstance(error, (HubError, TimeoutError)):
        return HubUnreachable(f"{what} could not be reached. {then}")
    return HubGarbage(f"{what} has a format that is not understood. {then}")


def fetch_flavors(name: LiveListName, endpoint: str | None = None) -> LiveList:
    """Ask for a platform's list, anonymously, within `LONGEST_S`.

    Raises:
        HubError: the list could not be had or read.
    """
    from huggingface_hub import JobHardwareInfo  # noqa: PLC0415  (slow to import, and not needed to start the app)

    try:
        hub = open_hub(None, endpoint)
        url = f"{hub.endpoint}/api/{name}/hardware"
        answer = loop.run(lambda client: hub.fetch(client, url, what=f"{name} hardware", limit=MOST_BYTES), LONGEST_S)
    except (HubError, TimeoutError) as error:
        raise _refusal(error, name) from error
    try:
        flavors, remarks = parse_flavors([JobHardwareInfo(**row) for row in read_json(answer.body, _MOST_NODES)])
    except (UnreadableJson, ValueError, LookupError, TypeError, AttributeError) as error:
        raise _refusal(error, name) from error
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return LiveList(platform=name, fetched_at=now, flavors=flavors, remarks=remarks)


class _Call(threading.Thread):
    """One list being fetched. `done` holds the list or the error once the thread has ended."""

    def __init__(self, name: LiveListName, endpoint: str | None) -> None:
        super().__init__(name=f"prices-{name}", daemon=True)
        self.list_name = name
        self.endpoint = endpoint
        self.done: LiveList | HubError | None = None

    def run(self) -> None:
        try:
            self.done = fetch_flavors(self.list_name, self.endpoint)
        except HubError as error:
            self.done = error


class PriceFeed:
    """The catalog with the newest prices that could be had. Safe to use from several threads."""

    def __init__(
        self,
        base: Catalog,
        *,
        endpoint: str | None = None,
        limit_s: float = LIMIT_S,
        ttl_s: float = TTL_S,
        retry_s: float = RETRY_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`endpoint` is the Hub's address, by default the client's own (`HF_ENDPOINT`). `retry_s` is the pause after a failure."""
        self._base = self._current = base
        self._endpoint, self._limit_s, self._ttl_s, self._retry_s, self._clock = endpoint, limit_s, ttl_s, retry_s, clock
        self._lock = threading.Lock()
        self._lists: dict[LiveListName, LiveList] = {}
        self._calls: dict[LiveListName, _Call] = {}
        self._failures: dict[LiveListName, HubError] = {}
        self._tried_at: str | None = None
        self._due = clock()
        self._running = False

    def catalog(self) -> Catalog:
        """The newest catalog there is, at once. Starts a refresh in the background when one is due."""
        with self._lock:
            start = not self._running and self._clock() >= self._due
            self._running = self._running or start
            current = self._current
        if start:
            threading.Thread(target=self._refresh, name="prices", daemon=True).start()
        return current

    def status(self) -> FeedStatus:
        """What the last refresh did."""
        with self._lock:
            return FeedStatus(tried_at=self._tried_at, running=self._running, failures=MappingProxyType(dict(self._failures)))

    def refresh(self) -> Catalog:
        """Refresh now and wait for it, at most the time limit; a refresh that is already running is not joined by a second."""
        with self._lock:
            start = not self._running
            self._running = True
        if start:
            self._refresh()
        return self._current

    def _refresh(self) -> None:
        """Ask for all lists at once, take what came in time, and work it in; a list that came earlier stays until a newer one comes."""
        failures: dict[LiveListName, HubError] = {}
        due = self._retry_s
        try:
            for name, outcome in self._ask().items():
                if isinstance(outcome, LiveList):
                    self._lists[name] = outcome
                else:
                    failures[name] = outcome
            current = apply_live_prices(self._base, *self._lists.values())
            due = self._retry_s if failures else self._ttl_s
            with self._lock:
                self._current, self._failures = current, failures
                self._tried_at = datetime.now(UTC).isoformat(timespec="seconds")
        finally:
            with self._lock:
                self._running = False
                self._due = self._clock() + due

    def _ask(self) -> dict[LiveListName, LiveList | HubError]:
        deadline = time.monotonic() + self._limit_s
        for name in CALLS:
            call = self._calls.get(name)
            if call is None or not call.is_alive():
                self._calls[name] = _Call(name, self._endpoint)
                self._calls[name].start()
        outcomes: dict[LiveListName, LiveList | HubError] = {}
        for name, call in self._calls.items():
            call.join(max(0.0, deadline - time.monotonic()))
            late = HubUnreachable(
                f"The live hardware list of {name} did not come within {self._limit_s:g} s. The prices known before stay."
            )
            outcomes[name] = late if call.is_alive() or call.done is None else call.done
        return outcomes
