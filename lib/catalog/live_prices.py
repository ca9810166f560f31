"""A platform's own hardware list of today, and the catalog that follows from it. Pure: fetching is `lib.hub.prices`.

The live list decides price, processors, memory and disk. It is checked first: the bundled row stays, with a remark, if a paid flavor turns
free, if a price is ten times higher or lower, or if the silicon is not in the catalog. So do all rows if the list has less than half of the
known flavors. A flavor that the list no longer holds becomes retired on the day of the fetch.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from lib.catalog import PriceState
from lib.catalog.offers import Offer, PastPrice, tier_of
from lib.platforms import LISTED, PLATFORMS, TRAITS, Platform
from lib.provenance import Source

if TYPE_CHECKING:
    from collections.abc import Mapping
    from decimal import Decimal

    from lib.catalog import Catalog
    from lib.catalog.offers import Rule
    from lib.catalog.silicon import Accelerator
    from lib.units import Bytes, UsdPerHour

LIVE_LISTS: tuple[Platform, ...] = tuple(name for name in PLATFORMS if TRAITS[name].live_list)
"""The platforms whose prices can be asked."""
CREDIBLE_FACTOR = 10  # a larger step than this is taken for a mistake of the list
CREDIBLE_SHARE = 0.5  # a list that names fewer of the known flavors is taken for incomplete
PRICE_BAND = 2
"""A new tier costs between half and twice what its silicon costs per card in the catalog. Prices of one card differ by up to 1.9 times over
platforms and counts (T4: 0.40 to 0.75 USD, bundled list of 2026-07-21)."""
MEMORY_TOLERANCE = 0.1  # between the list's GB and the card's figure on the box
_MODELS = {  # the list's names of cards; memory tells the forms of one name apart
    "t4": ("T4",),
    "l4": ("L4",),
    "a10g": ("A10G",),
    "l40s": ("L40S",),
    "a100": ("A100-SXM4-80GB", "A100-SXM4-40GB"),
    "h100": ("H100-SXM",),
    "h200": ("H200-SXM",),
    "b200": ("B200",),
    "rtx pro 6000": ("RTX-PRO-6000-Blackwell-Server",),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveFlavor:
    """One row of the list, in our units. `vram_bytes` is the total over all accelerators, as on the box."""

    id: str
    name: str
    vcpu: int | None
    ram_bytes: Bytes | None
    disk_bytes: Bytes | None
    accelerator_model: str | None
    accelerator_count: int
    vram_bytes: Bytes | None
    usd_per_hour: UsdPerHour


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveList:
    """A platform's list at the moment `fetched_at` (ISO 8601, UTC); `remarks` are sentences about rows that could not be read."""

    platform: Platform
    fetched_at: str
    flavors: tuple[LiveFlavor, ...]
    remarks: tuple[str, ...]

    @property
    def day(self) -> str:
        """The day of the fetch."""
        return self.fetched_at[:10]

    @property
    def source(self) -> Source:
        """The list as a source."""
        traits = TRAITS[self.platform]
        return Source(
            what=f"Live list: hardware and prices of {traits.label}",
            source=f"GET /api/{self.platform}/hardware ({traits.live_list})",
            checked=self.day,
        )


def find_accelerator(flavor: LiveFlavor, cards: Mapping[str, Accelerator]) -> Accelerator | None:
    """The card that a row of the list means; `None` when its name is not known or its memory is not that card's."""
    if flavor.accelerator_model is None or flavor.vram_bytes is None or not flavor.accelerator_count:
        return None
    each = flavor.vram_bytes / flavor.accelerator_count
    for key in _MODELS.get(flavor.accelerator_model.casefold().removeprefix("nvidia ").strip(), ()):
        card = cards.get(key)
        if card and card.memory_advertised and abs(each / card.memory_advertised - 1) <= MEMORY_TOLERANCE:
            return card
    return None


def _implausible(offer: Offer, price: UsdPerHour) -> str | None:
    """A sentence why a new price cannot be right; `None` when it can."""
    before = offer.usd_per_hour if offer.usd_per_hour is not None else offer.last_usd_per_hour
    if not before:
        return None
    if not price:
        return f"The live list of {offer.platform} calls '{offer.id}' free; it cost {before} USD per hour. The bundled price is kept."
    if not before / CREDIBLE_FACTOR <= price <= before * CREDIBLE_FACTOR:
        return (
            f"The live list of {offer.platform} asks {price} USD per hour for '{offer.id}' instead of {before}. The bundled price is kept."
        )
    return None


def _host(offer: Offer, flavor: LiveFlavor) -> Offer:
    """Processors, memory and disk as listed today; values that the list lacks stay."""
    vcpu, ram, disk = flavor.vcpu or offer.vcpu, flavor.ram_bytes or offer.ram_bytes, flavor.disk_bytes or offer.disk_bytes
    return offer.model_copy(update={"vcpu": vcpu, "ram_bytes": ram, "disk_bytes": disk})


def _take_price(offer: Offer, flavor: LiveFlavor, live: LiveList) -> Offer:
    """The offer with today's price; the one before goes into its history."""
    before = offer.usd_per_hour if offer.usd_per_hour is not None else offer.last_usd_per_hour
    changed = before is not None and before != flavor.usd_per_hour
    past = (PastPrice(usd_per_hour=before, since=offer.checked),) if changed and before is not None else ()
    return offer.model_copy(
        update={
            "usd_per_hour": flavor.usd_per_hour,
            "last_usd_per_hour": None,
            "price_verified": True,
            "price_basis": "live",
            "price_history": offer.price_history + past,
            "status": "listed",
            "since": offer.since if offer.listed else live.day,
            "successor": None,
            "sources": (live.source, *offer.sources),
            "checked": live.day,
        }
    )


def _card_changed(offer: Offer, flavor: LiveFlavor, cards: Mapping[str, Accelerator]) -> tuple[Offer, str | None]:
    """The offer with the card that the list names today, and the remark when that is another one."""
    if flavor.accelerator_count == offer.accelerator_count and not flavor.accelerator_count:
        return offer, None
    card = find_accelerator(flavor, cards)
    if card is offer.silicon and flavor.accelerator_count == offer.accelerator_count:
        return offer, None
    seen = f"{flavor.accelerator_count} × {flavor.accelerator_model or 'no accelerator'}"
    if card is None:
        return offer, f"The live list of {offer.platform} gives '{offer.id}' {seen}, which is not understood. The bundled card is kept."
    changed = offer.model_copy(update={"silicon": card, "accelerator_count": flavor.accelerator_count})
    return changed, f"The live list of {offer.platform} gives '{offer.id}' {seen}, another card than the bundled catalog. It is taken over."


def _update_offer(offer: Offer, flavor: LiveFlavor, live: LiveList, cards: Mapping[str, Accelerator]) -> tuple[Offer, list[str]]:
    """A row of the catalog that the list holds too, with the list's figures."""
    if refused := _implausible(offer, flavor.usd_per_hour):
        return offer, [refused]
    priced = _take_price(offer, flavor, live)
    if offer.traits.listed_with:  # the list describes the flavor, the catalog its sizes
        return priced, []
    changed, remark = _card_changed(_host(priced, flavor), flavor, cards)
    return changed, [remark] if remark else []


def _retire_offer(offer: Offer, live: LiveList) -> tuple[Offer, str]:
    """A row of the catalog that the list no longer holds."""
    if offer.traits.listed_with:
        return offer, f"The live list of {live.platform} does not name '{offer.id}'. {offer.traits.label} is kept as bundled."
    retired = offer.model_copy(
        update={
            "status": "retired",
            "since": live.day,
            "usd_per_hour": None,
            "last_usd_per_hour": offer.usd_per_hour,
            "sources": (live.source, *offer.sources),
            "checked": live.day,
        }
    )
    return retired, f"The live list of {live.platform} no longer names '{offer.id}'. It counts as withdrawn."


def _unit_price(usd_per_hour: UsdPerHour, cards: int, vcpu: int | None) -> Decimal | None:
    """USD per hour of one card, or of one virtual processor if there is no card."""
    units = cards or vcpu
    return usd_per_hour / units if units else None


def _is_plausible(flavor: LiveFlavor, card: Accelerator | None, catalog: Catalog) -> bool:
    """Whether a new flavor's price is near those of the same card (or of processors) in the catalog; False if there are none."""
    price = _unit_price(flavor.usd_per_hour, flavor.accelerator_count, flavor.vcpu)
    known = [
        each
        for offer in catalog.offers
        if offer.silicon is card and offer.usd_per_hour
        if (each := _unit_price(offer.usd_per_hour, offer.accelerator_count, offer.vcpu)) is not None
    ]
    return price is not None and bool(known) and min(known) / PRICE_BAND <= price <= max(known) * PRICE_BAND


def _add_offer(flavor: LiveFlavor, live: LiveList, catalog: Catalog) -> tuple[Offer | None, str]:
    """A flavor that the catalog does not hold; added when its card is understood and its price is one."""
    card = find_accelerator(flavor, catalog.accelerators)
    what = f"The live list of {live.platform} names '{flavor.id}', which is new."
    if flavor.accelerator_count and card is None:
        return None, f"{what} Its accelerator {flavor.accelerator_model} is not understood, so it is left out."
    if not flavor.usd_per_hour:
        return None, f"{what} It has no price, so it is left out."
    rules: frozenset[Rule] = frozenset({"prepaid_credits"}) if TRAITS[live.platform].prepaid else frozenset()
    plausible = _is_plausible(flavor, card, catalog)
    rules = rules if plausible else rules | {"implausible_price"}
    offer = Offer(
        id=flavor.id,
        platform=live.platform,
        name=flavor.name,
        silicon=card,
        accelerator_count=flavor.accelerator_count,
        accelerator_fraction=1.0,
        host_cpu=None,
        vcpu=flavor.vcpu,
        ram_bytes=flavor.ram_bytes,
        disk_bytes=flavor.disk_bytes,
        usd_per_hour=flavor.usd_per_hour,
        last_usd_per_hour=None,
        price_verified=plausible,
        price_basis="live",
        price_history=(),
        status="listed",
        since=None,
        successor=None,
        rules=rules,
        endpoint=None,
        tpu=None,
        notes="Known from the live list only.",
        sources=(live.source,),
        checked=live.day,
    )
    if not plausible:
        return offer, f"{what} {flavor.usd_per_hour} USD per hour is far from what its hardware costs elsewhere, so it is never chosen."
    return offer, f"{what} It is added."


def _flavor_id(offer: Offer, live: LiveList) -> str | None:
    """The flavor id under which the list would name this offer; `None` when the list is not about it."""
    return tier_of(offer.id) if offer.platform in LISTED[live.platform] else None


def _merge_list(catalog: Catalog, live: LiveList) -> Catalog:
    flavors = {flavor.id: flavor for flavor in live.flavors}
    expected = {key for offer in catalog.offers if offer.listed and (key := _flavor_id(offer, live))}
    if len(expected & flavors.keys()) < CREDIBLE_SHARE * len(expected):
        remark = f"The live list names {len(expected & flavors.keys())} of {len(expected)} known flavors, too few to be believed."
        state = replace(catalog.prices[live.platform], remarks=(*live.remarks, remark))
        return replace(catalog, prices=MappingProxyType({**catalog.prices, live.platform: state}))
    offers: list[Offer] = []
    remarks: list[str] = list(live.remarks)
    for offer in catalog.offers:
        key = _flavor_id(offer, live)
        row = offer
        if key in flavors:
            row, more = _update_offer(offer, flavors[key], live, catalog.accelerators)
            remarks += more
        elif key is not None and offer.listed:
            row, remark = _retire_offer(offer, live)
            remarks.append(remark)
        offers.append(row)
    for key in [key for key in flavors if not any(_flavor_id(offer, live) == key for offer in catalog.offers)]:
        added, remark = _add_offer(flavors[key], live, catalog)
        remarks.append(remark)
        offers += [added] if added else []
    state = PriceState(basis="live", checked=live.fetched_at, newest=live.fetched_at, remarks=tuple(remarks))
    fresh: dict[Platform, PriceState] = {live.platform: state}
    for platform in {offer.platform for offer in catalog.offers if offer.traits.listed_with and _flavor_id(offer, live) in flavors}:
        fresh[platform] = replace(state, remarks=())
    sources = {**catalog.sources, f"live-{live.platform}": live.source}
    return replace(catalog, offers=tuple(offers), sources=MappingProxyType(sources), prices=MappingProxyType({**catalog.prices, **fresh}))


def apply_live_prices(catalog: Catalog, *lists: LiveList) -> Catalog:
    """The bundled catalog with these lists worked in; an offer that is not listed keeps its bundled price and date."""
    for live in lists:
        catalog = _merge_list(catalog, live)
    return catalog
