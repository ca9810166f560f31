"""From the Hub's list of hardware, as the client hands it over, to flavors in our units. Nothing in it is trusted.

    unitCostMicroUSD  millionths of a dollar per `unitLabel`, rounded to a whole number     13333  (minute)
    price per hour    the shortest price whose minute is within that rounding               0.80

Source of the format: huggingface_hub 2.4.0, `JobHardwareInfo`.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from lib.catalog.live_prices import LiveFlavor
from lib.errors import BadQuantity, HubGarbage, shown
from lib.units import Bytes, UsdPerHour, parse_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

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
        raise HubGarbage(f"a cost per {shown(unit)}, not per minute or hour")
    if not 0 <= micro_usd * units <= MOST_USD_PER_HOUR * MICRO:
        raise HubGarbage(f"a cost of {shown(str(micro_usd)[:20])} millionths of a dollar per {unit}")
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
        raise HubGarbage(f"a cost of {shown(micro)} millionths of a dollar")
    if type(usd) in (int, float) and not (0 <= usd <= MOST_USD_PER_HOUR and abs(usd * 1e6 - micro) <= 1):
        raise HubGarbage(f"two costs that disagree, {shown(micro)} millionths of a dollar and {shown(usd)} dollars")
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
        raise HubGarbage(f"an accelerator called {shown(card.model)}")
    count = int(card.quantity) if isinstance(card.quantity, str) and _COUNT.fullmatch(card.quantity) else 0
    if not 0 < count <= MOST_ACCELERATORS:
        raise HubGarbage(f"{shown(card.quantity)} accelerators")
    return card.model, count, _size(card.vram, binary=True)


def flavor(row: Any) -> LiveFlavor:
    """One row of the list.

    Raises:
        HubGarbage: an id, cost or count that cannot be one; the message is half a sentence that says what was seen.
    """
    if not isinstance(row.name, str) or not _ID.fullmatch(row.name):
        raise HubGarbage(f"an id {shown(row.name)}")
    if not isinstance(row.unit_label, str):
        raise HubGarbage(f"a unit {shown(row.unit_label)}")
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


def flavors(rows: Sequence[Any]) -> tuple[tuple[LiveFlavor, ...], tuple[str, ...]]:
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
            found = flavor(row)
        except HubGarbage as error:
            remarks.append(f"Row {number} of the live list is left out: it has {error}.")
            continue
        if found.id in read:
            remarks.append(f"Row {number} of the live list is left out: '{found.id}' is there already.")
            continue
        read[found.id] = found
    return tuple(read.values()), tuple(remarks)
