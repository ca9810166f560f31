"""The catalog: offers, silicon, rules and sources, found by id, platform or name.

    catalog = load()
    catalog.offer("l4x1", platform="jobs")
    catalog.resolve_hardware("H100-SXMx8")

Rows lie in `lib/data/`, written by `scripts/build_catalog.py`, and are checked while they are read (`lib.catalog.rows`). Only the start of
an app or a command calls `load()`; everything else is given the catalog that is in use, whose prices may be live
(`lib.catalog.live_prices.apply_live_prices` makes a new catalog, the bundled one never changes).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from lib.catalog.names import Names, find_cards, find_hardware, find_offer, index_names
from lib.catalog.offers import Hardware, Offer, OffersFile, PriceBasis, TpuGenerationsFile, UnpricedFile, UnpricedHardware, plug_in
from lib.catalog.rows import DATA, References, read_rows
from lib.catalog.rules import PlatformRules
from lib.catalog.silicon import AcceleratorsFile, SourcesFile
from lib.errors import BadArgument, BadCatalog, UnknownHardware, quote_value
from lib.platforms import PLATFORMS
from lib.result import Hidden, Result

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lib.catalog.host_memory import HostMemory
    from lib.catalog.silicon import Accelerator
    from lib.platforms import Platform
    from lib.provenance import Source


PRICE_DAYS = 30
"""Days after which a price is called old. A judgement: lists change a few times a year."""


def days_if_old(checked: str, today: date) -> int | None:
    """Days since a price was read (ISO 8601); None as long as it is not old."""
    days = (today - date.fromisoformat(checked[:10])).days
    return days if days > PRICE_DAYS else None


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceState(Result):
    """The prices of a platform that are in use, and their age."""

    basis: PriceBasis
    """Whether they are bundled with this app or live from the platform."""
    checked: str
    """Day of the oldest price; of live prices the moment of the fetch (ISO 8601, UTC)."""
    newest: Hidden[str]
    """Day of the newest price."""
    remarks: Hidden[tuple[str, ...]] = ()
    """Sentences about rows of the live list that were left out or corrected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalog:
    """Hardware, prices and rules at one moment. Offers keep the order of the platform's own list."""

    as_of: str
    offers: tuple[Offer, ...]
    accelerators: Mapping[str, Accelerator]
    aliases: Mapping[str, Mapping[str, str]]
    rules: PlatformRules
    sources: Mapping[str, Source]
    prices: Mapping[Platform, PriceState]
    unpriced: tuple[UnpricedHardware, ...] = ()
    """Hardware that was announced without a price."""
    names: Names = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", index_names(self.offers, self.aliases, self.accelerators, self.unpriced))

    def accelerator(self, key: str) -> Accelerator:
        """The silicon of this id."""
        if key not in self.accelerators:
            raise UnknownHardware(f"There is no card or chip {quote_value(key)}.{self.names.advice(key)}")
        return self.accelerators[key]

    def offer(self, key: str, platform: str | None = None) -> Offer:
        """The offer of exactly this id, retired ones too; without a platform the first that has it, in the order of `PLATFORMS`."""
        for name in PLATFORMS if platform is None else (platform,):
            offer = self.names.by_id.get((name, key))
            if offer is not None:
                return offer
        raise UnknownHardware(self.names.unknown(key, platform))

    def on(self, platforms: Iterable[str], *, include_retired: bool = False) -> tuple[Offer, ...]:
        """The listed offers of these platforms, in the order of the platforms; `all` means every platform.

        `include_retired` adds deprecated and retired offers.
        """
        names = list(dict.fromkeys(platforms))
        for name in names:
            if name not in (*PLATFORMS, "all"):
                raise BadArgument("platform", name, ", ".join((*PLATFORMS, "all")))
        if "all" in names:
            names = list(PLATFORMS)
        return tuple(offer for name in names for offer in self.names.by_platform[name] if include_retired or offer.listed)

    def resolve_offer(self, text: object, platform: Platform | None = None) -> Offer:
        """The offer that a person's text means: an id, or an older or shorter name of one, in any case.

        `jobs:l4x1` picks the platform of an id that several have; without a platform it is the first that has it, Spaces before others.
        """
        return find_offer(self.names, text, platform)

    def resolve_hardware(self, text: object, platform: Platform | None = None) -> Hardware:
        """As `resolve_offer`, or plain silicon with a count (`L4`, `H100-SXMx8`, `TPU-v6ex4`).

        An id of silicon in its own spelling is the plain card: `L4` is a card, `l4` is the Spaces flavor `l4x1`.
        """
        return find_hardware(self.names, text, platform)

    def resolve_cards(self, text: object) -> Hardware:
        """The visitor's own graphics cards or Mac that a text means (`RTX-4090x2`, `M4-Max-64GB`)."""
        return find_cards(self.names, text)

    def plug_cards(self, own_hardware: object, host_memory: HostMemory | None) -> Hardware | None:
        """The visitor's own cards in a machine with this memory; None if the text names none.

        Raises:
            UnknownHardware: the text means nothing that people own.
            BadArgument: a memory without cards, or of a Mac.
        """
        if own_hardware != "":
            return plug_in(self.resolve_cards(own_hardware), host_memory)
        if host_memory is not None:
            raise BadArgument("host_memory", host_memory.name, "an empty text where own_hardware names no cards")
        return None


def price_states(offers: Iterable[Offer]) -> Mapping[Platform, PriceState]:
    """The state of bundled prices, by platform."""
    days: dict[Platform, list[str]] = {platform: [] for platform in PLATFORMS}
    for offer in offers:
        if offer.listed:
            days[offer.platform].append(offer.checked)
    empty = next((platform for platform, checked in days.items() if not checked), None)
    if empty is not None:
        raise BadCatalog(f"offers.json: platform {empty} has no offer that is listed.")
    states = {platform: PriceState(basis="bundled", checked=min(checked), newest=max(checked)) for platform, checked in days.items()}
    return MappingProxyType(states)


def load_from(folder: Path) -> Catalog:
    """Read and check the catalog of a folder."""
    references = References()
    sources = read_rows(SourcesFile, folder / "sources.json", references)
    references.as_of, references.sources = sources.as_of, sources.sources
    cards = read_rows(AcceleratorsFile, folder / "accelerators.json", references).accelerators
    references.accelerators = MappingProxyType({card.id: card for card in cards})
    generations = read_rows(TpuGenerationsFile, folder / "tpu_generations.json", references).tpu_generations
    references.generations = {generation.id: generation for generation in generations}
    offers = read_rows(OffersFile, folder / "offers.json", references)
    references.offers = {(offer.platform, offer.id): offer for offer in offers.offers}
    return Catalog(
        as_of=sources.as_of,
        offers=offers.offers,
        accelerators=references.accelerators,
        aliases=offers.aliases,
        rules=read_rows(PlatformRules, folder / "platform.json", references),
        sources=sources.sources,
        prices=price_states(offers.offers),
        unpriced=read_rows(UnpricedFile, folder / "unpriced_hardware.json", references).rows,
    )


@lru_cache(maxsize=1)
def load() -> Catalog:
    """The bundled catalog, read at the first call."""
    return load_from(DATA)


@lru_cache(maxsize=1)
def largest_stated_ram() -> int:
    """Most RAM that an offer with GPUs of the bundled catalog states. A TPU slice states that of several hosts together."""
    return max(offer.ram_bytes or 0 for offer in load().offers if offer.accelerator is not None and offer.processor.kind == "gpu")
