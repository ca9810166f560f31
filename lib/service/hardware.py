"""`/list_hardware`: the rows of the catalog."""

from __future__ import annotations

from collections.abc import Iterable

from lib.answers.common import SCHEMA, HardwareAnswer, HardwareEntry, source_entries, usd
from lib.catalog.offers import Offer
from lib.service.arguments import Arguments, Flag, Platforms, argument
from lib.service.endpoint import App


class HardwareArguments(Arguments):
    """Arguments of `/list_hardware`."""

    platform: Platforms = argument("spaces", "comma list of spaces, zerogpu, endpoints, jobs, tpu, all")
    include_retired: Flag = argument(False, "also what the platform no longer offers")


def list_hardware(app: App, arguments: HardwareArguments) -> HardwareAnswer:
    """Hardware that can be rented, with memory, price, source and the day it was checked.

    Returns:
        The rows of the catalog.
    """
    return hardware_answer(app.catalog().on(arguments.platform, include_retired=arguments.include_retired))


def hardware_answer(offers: Iterable[Offer]) -> HardwareAnswer:
    """The rows, with each distinct source once."""
    rows = tuple(offers)
    return {
        "schema": SCHEMA,
        "hardware": [hardware_entry(offer) for offer in rows],
        "caveats": [],
        "sources": source_entries(source for offer in rows for source in offer.sources),
    }


def hardware_entry(offer: Offer) -> HardwareEntry:
    """One offer as a row; None where a figure does not exist or was never published."""
    return {
        "id": offer.id,
        "platform": offer.platform,
        "name": offer.name,
        "accelerator": offer.accelerator,
        "accelerator_count": offer.accelerator_count,
        "accelerator_fraction": offer.accelerator_fraction,
        "vram_bytes_per_accelerator": offer.vram_bytes_per_accelerator,
        "vcpu": offer.vcpu,
        "ram_bytes": offer.ram_bytes,
        "disk_bytes": offer.disk_bytes,
        "usd_per_hour": usd(offer.usd_per_hour),
        "usd_per_hour_by_region": {region: float(price) for region, price in offer.usd_per_hour_by_region.items()},
        "regions": list(offer.endpoint.regions if offer.endpoint else offer.usd_per_hour_by_region),
        "last_usd_per_hour": usd(offer.last_usd_per_hour),
        "price_verified": offer.price_verified,
        "price_basis": offer.price_basis,
        "status": offer.status,
        "since": offer.since,
        "successor": offer.successor,
        "rules": sorted(offer.rules),
        "notes": offer.notes,
        "source": offer.source,
        "checked": offer.checked,
    }
