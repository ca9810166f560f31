"""The answer of `/list_hardware`: rows of the catalog as callers see them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Annotated

from pydantic import PlainSerializer

from lib.catalog.offers import Offer
from lib.provenance import Answer
from lib.result import Result, Usd


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedHardware(Result):
    """One row of the catalog."""

    id: str
    """The platform's name for it."""
    platform: str
    """Platform that rents it out."""
    name: str
    """Name for people."""
    accelerator: str | None
    """Id of the card or chip; null on a CPU."""
    accelerator_count: int
    """Number of cards or chips."""
    accelerator_fraction: float
    """Share of each card (0.5 for ZeroGPU `large`)."""
    vram_bytes_per_accelerator: int | None
    """Usable memory of a card, share applied; null on a CPU."""
    vcpu: int | None
    """Processors of the host."""
    ram_bytes: int | None
    """Memory of the host."""
    disk_bytes: int | None
    """Disk of the host, lost when it restarts."""
    usd_per_hour: Usd | None
    """Today's list price (TPU: us-central1), 0 for free; null for retired hardware."""
    usd_per_hour_by_region: Mapping[str, Usd]
    """Price of each region that has its own (TPU)."""
    regions: tuple[str, ...]
    """Regions in which the vendor has it."""
    last_usd_per_hour: Usd | None
    """Last price of retired hardware."""
    price_verified: bool
    """Whether the price was read on the platform's own page."""
    price_basis: str
    """Whether the price is bundled or of the platform's live list."""
    status: str
    """`listed`, `deprecated` or `retired`."""
    since: str | None
    """Start of this status, if known."""
    successor: str | None
    """Id of the hardware to ask for instead."""
    rules: Annotated[frozenset[str], PlainSerializer(sorted, return_type=list[str])]
    """The platform's rules that apply to a renter."""
    notes: str
    """Notes for people."""
    source: str
    """Source of the price."""
    checked: str
    """Day on which the source was read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HardwareAnswer(Answer):
    """The catalog, or some platforms of it."""

    hardware: tuple[ListedHardware, ...]
    """Rows, in the order of the platforms' own lists."""


def list_offer(offer: Offer) -> ListedHardware:
    """The row of an offer."""
    return ListedHardware(**{field.name: getattr(offer, field.name) for field in fields(ListedHardware)})
