"""Rows of the platform's own hardware lists, checked and brought into our units.

    parse_flavors(HfApi(token=False).list_spaces_hardware())

    unitCostMicroUSD  millionths of a dollar per `unitLabel`, rounded to a whole number     13333  (minute)
    price per hour    the shortest price whose minute is within that rounding               0.80

A row whose id, cost or accelerator cannot be right is left out with a remark; processors, memory, disk and name that cannot be read are
unknown. Source of the format: huggingface_hub 2.4.0, `JobHardwareInfo`.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from lib.catalog.live_prices import LiveFlavor
from lib.errors import BadQuantity, HubGarbage, quote_value
from lib.hub.client import check_printable
from lib.units import Bytes, UsdPerHour, parse_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

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
    """Strict in what decides a price, read from the attributes of the client's own types."""

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
    """One row of the list.

    Raises:
        HubGarbage: an id, cost or accelerator that cannot be one; the message is half a sentence that says what was seen.
    """
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
    """What is wrong with a row, with the value that was seen."""
    first = error.errors(include_url=False, include_context=False)[0]
    if first["loc"]:
        return f"{'.'.join(str(part) for part in first['loc'])} {quote_value(str(first['input'])[:40])}"
    micro, usd, unit = (getattr(row, name, None) for name in ("unit_cost_micro_usd", "unit_cost_usd", "unit_label"))
    return f"a cost of {quote_value(micro)} millionths of a dollar ({quote_value(str(usd)[:20])} dollars) per {unit}"


def parse_flavors(rows: Sequence[object]) -> tuple[tuple[LiveFlavor, ...], tuple[str, ...]]:
    """The rows that can be read, and a sentence for each that cannot; an id that comes twice counts once.

    Raises:
        HubGarbage: more rows than a list of hardware can have.
    """
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
