"""Prices as the platform lists them today: the list is fetched in the background and brought into our units.

    feed = PriceFeed(load())
    feed.catalog()        # at once: the newest catalog; starts a refresh when it is due
    feed.status()         # the result of the last refresh

The client's calls have no time limit, so each runs in a daemon thread that is waited for and then left alone; a hanging call is not
started a second time. Calls are anonymous. A failure is kept as an error that can be shown. Nothing in the list is trusted:

    unitCostMicroUSD  millionths of a dollar per `unitLabel`, rounded to a whole number     13333  (minute)
    price per hour    the shortest price whose minute is within that rounding               0.80

Source of the format: huggingface_hub 2.4.0, `JobHardwareInfo`.
"""

from __future__ import annotations

import re
import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from lib.catalog.live_prices import CALLS, LiveFlavor, LiveList, apply_live_prices
from lib.errors import BadQuantity, HubError, HubGarbage, HubUnreachable, RateLimited, quote_value
from lib.units import Bytes, UsdPerHour, parse_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lib.catalog import Catalog
    from lib.catalog.live_prices import LiveListName

MOST_ROWS = 500
MOST_USD_PER_HOUR = 1000
MOST_ACCELERATORS = 1024
MICRO = Decimal(10) ** 6
MINUTES_PER_HOUR = 60
_ID = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
_VCPU = re.compile(r"([0-9]{1,4}) vCPUs?")
_COUNT = re.compile(r"[0-9]{1,4}")
_SIZE = re.compile(r"[0-9]{1,7}(?:\.[0-9]{1,3})? [GT]B")
_NAME = 80


def price_per_hour(micro_usd: int, unit: str) -> UsdPerHour:
    """The hourly price behind a unit cost.

    A minute's cost is rounded to a millionth, so the hour is known to ± 30 millionths: the shortest price within that is meant.

    Raises:
        HubGarbage: the unit is not known, or the price is negative or absurd.
    """
    units = {"minute": MINUTES_PER_HOUR, "hour": 1}.get(unit)
    if units is None:
        raise HubGarbage(f"a cost per {quote_value(unit)}, not per minute or hour")
    if not 0 <= micro_usd * units <= MOST_USD_PER_HOUR * MICRO:
        raise HubGarbage(f"a cost of {quote_value(str(micro_usd)[:20])} millionths of a dollar per {unit}")
    exact = micro_usd * units / MICRO
    for places in (2, 3, 4):
        price = round(exact, places)
        if abs(price - exact) * MICRO <= Decimal(units) / 2 and units > 1:
            return UsdPerHour(price)
    return UsdPerHour(exact)


def _cost(row: Any) -> int:
    """Millionths of a dollar per unit; nothing stated means free."""
    micro, usd = row.unit_cost_micro_usd, row.unit_cost_usd
    if micro is None:
        micro = 0
    if type(micro) is not int or not 0 <= micro <= MOST_USD_PER_HOUR * MICRO:
        raise HubGarbage(f"a cost of {quote_value(micro)} millionths of a dollar")
    if type(usd) in (int, float) and not (0 <= usd <= MOST_USD_PER_HOUR and abs(usd * 1e6 - micro) <= 1):
        raise HubGarbage(f"two costs that disagree, {quote_value(micro)} millionths of a dollar and {quote_value(usd)} dollars")
    return micro


def _size(text: object, *, binary: bool) -> Bytes | None:
    """Text such as "16 GB" as bytes; the list prints GB, and for memory means GiB. Anything else ("N/A") is not known."""
    if not isinstance(text, str) or not _SIZE.fullmatch(text):
        return None
    try:
        return parse_bytes(text.replace("GB", "GiB").replace("TB", "TiB") if binary else text) or None
    except BadQuantity:
        return None


def _accelerator(row: Any) -> tuple[str | None, int, Bytes | None]:
    """Model, count and total memory."""
    card = row.accelerator
    if card is None:
        return None, 0, None
    if not isinstance(card.model, str) or not card.model.isprintable() or not 0 < len(card.model) <= _NAME:
        raise HubGarbage(f"an accelerator called {quote_value(card.model)}")
    count = int(card.quantity) if isinstance(card.quantity, str) and _COUNT.fullmatch(card.quantity) else 0
    if not 0 < count <= MOST_ACCELERATORS:
        raise HubGarbage(f"{quote_value(card.quantity)} accelerators")
    return card.model, count, _size(card.vram, binary=True)


def parse_flavor(row: Any) -> LiveFlavor:
    """One row of the list.

    Raises:
        HubGarbage: an id, cost or count that cannot be one; the message is half a sentence that says what was seen.
    """
    if not isinstance(row.name, str) or not _ID.fullmatch(row.name):
        raise HubGarbage(f"an id {quote_value(row.name)}")
    if not isinstance(row.unit_label, str):
        raise HubGarbage(f"a unit {quote_value(row.unit_label)}")
    model, count, vram = _accelerator(row)
    vcpu = _VCPU.fullmatch(row.cpu) if isinstance(row.cpu, str) else None
    pretty = row.pretty_name
    readable = isinstance(pretty, str) and pretty.isprintable() and 0 < len(pretty.strip()) <= _NAME
    return LiveFlavor(
        id=row.name,
        name=pretty.strip() if readable else row.name,
        vcpu=int(vcpu[1]) or None if vcpu else None,
        ram_bytes=_size(row.ram, binary=True),
        disk_bytes=_size(row.ephemeral_storage, binary=False),
        accelerator_model=model,
        accelerator_count=count,
        vram_bytes=vram,
        usd_per_hour=price_per_hour(_cost(row), row.unit_label),
    )


def parse_flavors(rows: Sequence[Any]) -> tuple[tuple[LiveFlavor, ...], tuple[str, ...]]:
    """The rows that can be read, and a sentence for each that cannot; an id that comes twice counts once.

    Raises:
        HubGarbage: more rows than a list of hardware can have.
    """
    if len(rows) > MOST_ROWS:
        raise HubGarbage(f"The hardware list has {len(rows)} rows; at most {MOST_ROWS} are read.")
    read: dict[str, LiveFlavor] = {}
    remarks = []
    for number, row in enumerate(rows, 1):
        try:
            found = parse_flavor(row)
        except HubGarbage as error:
            remarks.append(f"Row {number} of the live list is left out: it has {error}.")
            continue
        if found.id in read:
            remarks.append(f"Row {number} of the live list is left out: '{found.id}' is there already.")
            continue
        read[found.id] = found
    return tuple(read.values()), tuple(remarks)


LIMIT_S = 5.0
TTL_S = 3600.0
RETRY_S = 300.0
TOO_MANY_REQUESTS = 429


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedStatus:
    """What the last refresh did. `tried_at` is ISO 8601, UTC; `None` before the first. `failures` holds an error per list that failed."""

    tried_at: str | None
    running: bool
    failures: Mapping[LiveListName, HubError]


def as_hub_error(error: Exception, name: LiveListName) -> HubError:
    """The failure of a fetch as one of our own errors, without the server's words."""
    status = getattr(getattr(error, "response", None), "status_code", None)
    what = f"The live hardware list of {name}"
    if isinstance(error, HubError):
        return error
    if status == TOO_MANY_REQUESTS:
        return RateLimited(f"{what} was refused: too many requests. The prices known before stay; it is asked again later.")
    if isinstance(status, int):
        return HubUnreachable(f"{what} was answered with HTTP {status}. The prices known before stay; it is asked again later.")
    if isinstance(error, (ValueError, LookupError, TypeError, AttributeError, RecursionError)):
        return HubGarbage(f"{what} has a format that is not understood. The prices known before stay; it is asked again later.")
    return HubUnreachable(f"{what} could not be reached ({type(error).__name__}). The prices known before stay; it is asked again later.")


def fetch_flavors(name: LiveListName, endpoint: str | None = None) -> LiveList:
    """Ask for a platform's list, anonymously. Takes as long as the server does: bound it from outside.

    Raises:
        HubError: the list could not be had or read.
    """
    from huggingface_hub import HfApi  # noqa: PLC0415  (slow to import, and not needed to start the app)

    try:
        rows = getattr(HfApi(endpoint=endpoint, token=False), CALLS[name])(token=False)
        read, remarks = parse_flavors(rows)
    except Exception as error:
        raise as_hub_error(error, name) from error
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return LiveList(platform=name, fetched_at=now, flavors=read, remarks=remarks)


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
            held = self._calls.get(name)
            if held is None or not held.is_alive():
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
