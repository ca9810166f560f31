"""`/list_hardware`: the rows of the catalog."""

from __future__ import annotations

from collections.abc import Iterable

from lib.answers.common import SCHEMA, HardwareAnswer, HardwareEntry, fill, source_entries
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
    return fill(
        HardwareEntry,
        offer,
        regions=list(offer.endpoint.regions if offer.endpoint else offer.usd_per_hour_by_region),
        rules=sorted(offer.rules),
    )
