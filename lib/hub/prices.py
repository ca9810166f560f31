"""Prices as the platform lists them today: the list is fetched in the background and brought into our units.

    feed = PriceFeed(load())
    feed.catalog()        # at once: the newest catalog; starts a refresh when it is due
    feed.failures()       # what the last refresh did not get

The lists are asked for as everything of the Hub is (`lib.hub.client`): anonymously, of bounded length, never unpacked, from no other
host. Each call runs in a daemon thread that is waited for and then left alone; a hanging one is not started a second time. A failure is
kept as an error that can be shown.

The rows: parse_flavors(HfApi(token=False).list_spaces_hardware())

    unitCostMicroUSD  millionths of a dollar per `unitLabel`, rounded to a whole number     13333  (minute)
    price per hour    the shortest price whose minute is within that rounding               0.80

A row whose id, cost or accelerator cannot be right is left out with a remark; processors, memory, disk and name that cannot be read are
unknown. Source of the format: huggingface_hub 2.4.0, `JobHardwareInfo`.
"""

from __future__ import annotations

import re
import threading
import time
from datetime import UTC, datetime
from decimal import Decimal
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from lib.catalog.live_prices import LIVE_LISTS, LiveFlavor, LiveList, apply_live_prices
from lib.errors import BadQuantity, HubError, HubGarbage, HubUnreachable, RateLimited, UnreadableJson, quote_value, read_json
from lib.hub.client import check_printable, open_hub, run_bounded
from lib.units import MIB, Bytes, UsdPerHour, parse_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lib.catalog import Catalog
    from lib.platforms import Platform


MAX_ROWS = 500
MAX_USD_PER_HOUR = 1000
MAX_ACCELERATORS = 1024
MICRO = 10**6
HOURLY_UNITS = {"minute": 60, "hour": 1}
_VCPU = re.compile(r"([0-9]{1,4}) vCPUs?")
_SIZE = re.compile(r"[0-9]{1,7}(?:\.[0-9]{1,3})? [GT]i?B")
_MAX_NAME = 80


def hourly_price(micro_usd: int, unit: Literal["minute", "hour"]) -> UsdPerHour:
    """The hourly price behind a unit cost.

    A minute's cost is rounded to a millionth, so the hour is known to ± 30 millionths: the shortest price within that is meant.
    """
    units = HOURLY_UNITS[unit]
    exact = Decimal(micro_usd * units) / MICRO
    for places in (2, 3, 4):
        price = round(exact, places)
        if abs(price - exact) * MICRO <= Decimal(units) / 2 and units > 1:
            return UsdPerHour(price)
    return UsdPerHour(exact)


def _read_disk(text: object) -> Bytes | None:
    """Text such as "16 GB" as bytes; anything else ("N/A") is unknown."""
    if not isinstance(text, str) or not _SIZE.fullmatch(text):
        return None
    try:
        return parse_bytes(text) or None
    except BadQuantity:
        return None


def _read_memory(text: object) -> Bytes | None:
    """As `_read_disk`, but of memory the list prints GB where it means GiB."""
    return _read_disk(text.replace("GB", "GiB").replace("TB", "TiB")) if isinstance(text, str) else None


def _read_vcpu(text: object) -> int | None:
    matched = _VCPU.fullmatch(text) if isinstance(text, str) else None
    return int(matched[1]) or None if matched else None


def _read_name(text: object) -> str | None:
    readable = isinstance(text, str) and text.isprintable() and 0 < len(text.strip()) <= _MAX_NAME
    return str(text).strip() if readable else None


_Memory = Annotated[Bytes | None, BeforeValidator(_read_memory)]
_Cost = Annotated[int, Field(ge=0, le=MAX_USD_PER_HOUR * MICRO)]


class _Row(BaseModel):
    """Strict about values that decide a price; reads the attributes of the client's own types."""

    model_config = ConfigDict(strict=True, frozen=True, extra="ignore", from_attributes=True)


class _Accelerator(_Row):
    """The accelerators of a flavor; `vram` is the total over all of them."""

    model: Annotated[str, Field(min_length=1, max_length=_MAX_NAME), AfterValidator(check_printable)]
    quantity: Annotated[str, Field(pattern=r"^[0-9]{1,4}$")]
    vram: _Memory = None

    @model_validator(mode="after")
    def check_count(self) -> Self:
        """Refuse a count that no machine has."""
        if not 0 < int(self.quantity) <= MAX_ACCELERATORS:
            raise ValueError("count")
        return self


class _Flavor(_Row):
    """One row. A cost that is not stated means free."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,63}$")]
    pretty_name: Annotated[str | None, BeforeValidator(_read_name)] = None
    cpu: Annotated[int | None, BeforeValidator(_read_vcpu)] = None
    ram: _Memory = None
    ephemeral_storage: Annotated[Bytes | None, BeforeValidator(_read_disk)] = None
    accelerator: _Accelerator | None = None
    unit_label: Literal["minute", "hour"]
    unit_cost_micro_usd: _Cost | None
    unit_cost_usd: Any = None

    @model_validator(mode="after")
    def check_cost(self) -> Self:
        """Refuse an hour that costs too much, and two costs that disagree."""
        micro, usd = self.unit_cost_micro_usd or 0, self.unit_cost_usd
        if micro * HOURLY_UNITS[self.unit_label] > MAX_USD_PER_HOUR * MICRO:
            raise ValueError("price")
        if type(usd) in (int, float) and not (0 <= usd <= MAX_USD_PER_HOUR and abs(usd * MICRO - micro) <= 1):
            raise ValueError("disagreement")
        return self


def parse_flavor(row: object) -> LiveFlavor:
    """One row of the list."""
    try:
        flavor = _Flavor.model_validate(row)
    except ValidationError as error:
        raise HubGarbage(_describe_fault(row, error)) from error
    card = flavor.accelerator
    return LiveFlavor(
        id=flavor.name,
        name=flavor.pretty_name or flavor.name,
        vcpu=flavor.cpu,
        ram_bytes=flavor.ram,
        disk_bytes=flavor.ephemeral_storage,
        accelerator_model=card.model if card else None,
        accelerator_count=int(card.quantity) if card else 0,
        vram_bytes=card.vram if card else None,
        usd_per_hour=hourly_price(flavor.unit_cost_micro_usd or 0, flavor.unit_label),
    )


def _describe_fault(row: object, error: ValidationError) -> str:
    """The error in a row, with its value."""
    first = error.errors(include_url=False, include_context=False)[0]
    if first["loc"]:
        return f"{'.'.join(str(part) for part in first['loc'])} {quote_value(str(first['input'])[:40])}"
    micro, usd, unit = (getattr(row, name, None) for name in ("unit_cost_micro_usd", "unit_cost_usd", "unit_label"))
    return f"a cost of {quote_value(micro)} millionths of a dollar ({quote_value(str(usd)[:20])} dollars) per {unit}"


def parse_flavors(rows: Sequence[object]) -> tuple[tuple[LiveFlavor, ...], tuple[str, ...]]:
    """The rows that can be read, and a sentence for each that cannot; an id that comes twice counts once."""
    if len(rows) > MAX_ROWS:
        raise HubGarbage(f"The hardware list has {len(rows)} rows; at most {MAX_ROWS} are read.")
    flavors: dict[str, LiveFlavor] = {}
    remarks = []
    for number, row in enumerate(rows, 1):
        try:
            flavor = parse_flavor(row)
        except HubGarbage as error:
            remarks.append(f"Row {number} of the live list is left out: it has {error}.")
            continue
        if flavor.id in flavors:
            remarks.append(f"Row {number} of the live list is left out: '{flavor.id}' is there already.")
            continue
        flavors[flavor.id] = flavor
    return tuple(flavors.values()), tuple(remarks)


MOST_BYTES = MIB  # the lists of 2026 have 10 kB
_MOST_NODES = 50_000
LIMIT_S, LONGEST_S = 5.0, 60.0
"""Callers wait this long for prices; the fetch runs longer, so that a slow answer serves the next caller."""
TTL_S = 3600.0
RETRY_S = 300.0
TOO_MANY_REQUESTS = 429


def _refusal(error: Exception, name: Platform) -> HubError:
    """The sentence about the failure of the list; it repeats nothing that the server wrote."""
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


def fetch_flavors(name: Platform, endpoint: str | None = None) -> LiveList:
    """Ask for a platform's list, anonymously, within `LONGEST_S`."""
    from huggingface_hub import JobHardwareInfo  # noqa: PLC0415  (slow to import, and not needed to start the app)

    try:
        hub = open_hub(None, endpoint)
        url = f"{hub.endpoint}/api/{name}/hardware"
        answer = run_bounded(lambda client: hub.fetch(client, url, what=f"{name} hardware", limit=MOST_BYTES), LONGEST_S)
    except (HubError, TimeoutError) as error:
        raise _refusal(error, name) from error
    try:
        flavors, remarks = parse_flavors([JobHardwareInfo(**row) for row in read_json(answer.body, _MOST_NODES)])
    except (UnreadableJson, ValueError, LookupError, TypeError, AttributeError) as error:
        raise _refusal(error, name) from error
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return LiveList(platform=name, fetched_at=now, flavors=flavors, remarks=remarks)


class _Call(threading.Thread):
    """One list being fetched. `outcome` holds the list or the error once the thread has ended."""

    def __init__(self, name: Platform, endpoint: str | None) -> None:
        super().__init__(name=f"prices-{name}", daemon=True)
        self.list_name = name
        self.endpoint = endpoint
        self.outcome: LiveList | HubError | None = None

    def run(self) -> None:
        try:
            self.outcome = fetch_flavors(self.list_name, self.endpoint)
        except HubError as error:
            self.outcome = error


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
        self._lists: dict[Platform, LiveList] = {}
        self._calls: dict[Platform, _Call] = {}
        self._failures: dict[Platform, HubError] = {}
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

    def failures(self) -> Mapping[Platform, HubError]:
        """An error for each list that the last refresh did not get."""
        with self._lock:
            return MappingProxyType(dict(self._failures))

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
        failures: dict[Platform, HubError] = {}
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
        finally:
            with self._lock:
                self._running = False
                self._due = self._clock() + due

    def _ask(self) -> dict[Platform, LiveList | HubError]:
        deadline = time.monotonic() + self._limit_s
        for name in LIVE_LISTS:
            call = self._calls.get(name)
            if call is None or not call.is_alive():
                self._calls[name] = _Call(name, self._endpoint)
                self._calls[name].start()
        outcomes: dict[Platform, LiveList | HubError] = {}
        for name, call in self._calls.items():
            call.join(max(0.0, deadline - time.monotonic()))
            late = HubUnreachable(
                f"The live hardware list of {name} did not come within {self._limit_s:g} s. The prices known before stay."
            )
            outcomes[name] = late if call.is_alive() or call.outcome is None else call.outcome
        return outcomes
