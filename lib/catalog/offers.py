"""Offers: silicon × count as a platform rents it out, with a price, the day it was checked, a status and rules; and from text to hardware.

Ids are names, not hardware: `zero-a10g` kept its name while the card under it changed twice.
A text is read in this order: silicon in its own spelling (`L4`, `L4x4`, `H100-SXMx8`); an offer by id or name, any case (`l4x1`, `L4X1`,
`l4`); silicon in another case (`h100-sxm`); an offer that was withdrawn (refused, with its dates); else refused, with near matches.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from lib.catalog.rows import ByteCount, Count, Day, DayOrMonth, Price, Row, Share, Size, Sources, Table, Text, reference, require_distinct
from lib.catalog.silicon import OWNED_KINDS, UNKNOWN_CPU, Accelerator, Cards
from lib.errors import UnknownHardware, quote_value
from lib.platforms import PLATFORMS, TRAITS, Platform, PlatformTraits
from lib.units import Bytes, UsdPerHour

Status = Literal["listed", "deprecated", "retired"]
PriceBasis = Literal["bundled", "live"]
Rule = Literal[
    "gradio_only",  # no Docker, no static
    "daily_quota",  # GPU seconds per visitor and day, see ZeroGpuRules
    "hosting_limit",  # how many such Spaces an account may own
    "paid_plan_to_create",  # Gradio and Docker Spaces need PRO, Team or Enterprise
    "sleeps_after_48h",  # fixed, not configurable
    "prepaid_credits",  # a payment method and prepaid credits
    "subscription",  # an active subscription and credits
    "cloud_account",  # an account at Google Cloud, outside Hugging Face
    "allowlist",  # the vendor admits customers one by one
    "implausible_price",  # a live list adds it at a price far from that of its silicon elsewhere: shown, never chosen
]
ZeroGpuSizeName = Literal["large", "xlarge"]
FREE_CPU_TIER = "cpu-basic"
ZEROGPU_TIER = "zero-a10g"
"""The flavor that a Space requests for ZeroGPU; the platform's own list has this one flavor, the catalog an offer for each size."""
ZEROGPU_OFFERS: Mapping[ZeroGpuSizeName, str] = {"large": ZEROGPU_TIER, "xlarge": "zero-a10g-xlarge"}
"""Ids of the offers by the size that a decorated function asks for."""
Card = Annotated[Accelerator, reference("accelerators", "accelerators.json")]


def tier_of(offer_id: str) -> str:
    """The flavor that a Space requests for this offer: the sizes of ZeroGPU are one tier, and the decorated function chooses the size."""
    return ZEROGPU_TIER if offer_id in ZEROGPU_OFFERS.values() else offer_id


class PastPrice(Row):
    """A price that was shown earlier."""

    usd_per_hour: Price
    """List price of that time."""
    since: DayOrMonth
    """The price held from then on, until the next entry or the current price took over."""


class EndpointInstance(Row):
    """The arguments of the create call of Inference Endpoints."""

    vendor: Text
    """Such as `aws`."""
    instance_type: Text
    """Such as `nvidia-l4`."""
    instance_size: Text
    """Such as `x1`."""
    architecture: Text
    """The platform's name of its card or processor."""
    regions: tuple[Text, ...]
    """Where the vendor has it."""


class TpuGeneration(Row):
    """The properties that all slices of a generation of Cloud TPU share."""

    id: Text
    """Such as `v6e`."""
    accelerator: Text
    """Id of the chip."""
    name: Text
    """For people."""
    counts: Literal["chips", "cores"]
    """The unit that the number in the name of a type counts: chips (v5e, v6e) or cores (v5p, TPU7x)."""
    runtime_version: Text | None
    """`None` where none is documented."""
    zones: tuple[Text, ...]
    """Where Google Cloud has it."""
    usd_per_chip_hour: Table[Price]
    """By region."""


class TpuSlice(Row):
    """A slice of Cloud TPU."""

    generation: Annotated[TpuGeneration, reference("generations", "tpu_generations")]
    """What it has in common with the other slices."""
    topology: Text
    """Chips along each axis of the torus, such as `2x4`."""
    hosts: Size
    """Number of machines."""
    machine_type: Text | None
    """Google Cloud's name of one machine; `None` where none is documented."""


class Offer(Row):
    """Silicon × count on one platform."""

    id: Text
    """The platform's name for it."""
    platform: Platform
    """The platform that rents it out."""
    name: Text
    """For people."""
    silicon: Card | None = Field(validation_alias="accelerator")
    """`None` on CPU."""
    accelerator_count: Count = Field(validation_alias="count")
    """0 on CPU."""
    accelerator_fraction: Share = Field(validation_alias="fraction")
    """Share of each card (0.5 for ZeroGPU `large`): it scales memory, compute and bandwidth."""
    host_cpu: Card | None
    """The CPU class that a host without accelerator resembles."""
    vcpu: Size | None
    """Processors of the host."""
    ram_bytes: ByteCount | None = Field(validation_alias="ram")
    """Memory of the host."""
    disk_bytes: ByteCount | None = Field(validation_alias="disk")
    """Disk of the host, lost when it restarts."""
    usd_per_hour: Price | None
    """Today's list price (TPU: us-central1), 0 for free; `None` for what is retired."""
    last_usd_per_hour: Price | None
    """The last price of a retired offer."""
    price_verified: bool
    """Whether the price was read on the platform's own page."""
    price_basis: PriceBasis = "bundled"
    """Whether the price is the bundled one or of the platform's live list."""
    price_history: tuple[PastPrice, ...]
    """Earlier prices, oldest first."""
    status: Status
    """Whether anyone can ask for it."""
    since: DayOrMonth | None
    """From when the status holds, where known."""
    successor: Text | None
    """Id of the offer to ask for instead."""
    rules: frozenset[Rule]
    """The platform's rules that apply to a renter of this offer."""
    endpoint: EndpointInstance | None
    """Only of Inference Endpoints."""
    tpu: TpuSlice | None
    """Only of Cloud TPU."""
    notes: str
    """For people."""
    sources: Sources
    """The first is where the price comes from."""
    checked: Day
    """The day of the state of the price source that was read."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        """Check the rules between fields."""
        if (self.silicon is None) != (self.accelerator_count == 0):
            raise ValueError(f"count is {self.accelerator_count}. Accepted: 0 without an accelerator, at least 1 with one.")
        if (self.status == "retired") != (self.usd_per_hour is None):
            raise ValueError(f"usd_per_hour is {self.usd_per_hour}. Accepted: null for a retired offer, an amount for any other.")
        if self.status != "listed" and self.since is None:
            raise ValueError("since is null. Accepted: the day or month from which the status holds.")
        if self.traits.rents_tpus != (self.tpu is not None):
            raise ValueError("tpu is wrong. Accepted: the slice of an offer of Cloud TPU, else null.")
        if (self.traits.runs == "Endpoint") != (self.endpoint is not None):
            raise ValueError("endpoint is wrong. Accepted: the instance of an offer of Inference Endpoints, else null.")
        if self.tpu and self.usd_per_hour != self.usd_per_hour_by_region.get("us-central1"):
            raise ValueError(f"usd_per_hour is {self.usd_per_hour}. Accepted: chips times the chip-hour of us-central1.")
        return self

    @property
    def traits(self) -> PlatformTraits:
        """The properties of its platform."""
        return TRAITS[self.platform]

    @property
    def accelerator(self) -> str | None:
        """Id of the silicon; `None` on CPU."""
        return None if self.silicon is None else self.silicon.id

    @property
    def processor(self) -> Accelerator:
        """What computes: the card or chip, else the class of processor that the host resembles, else one of which nothing is known."""
        return self.silicon or self.host_cpu or UNKNOWN_CPU

    @property
    def source(self) -> str:
        """Where the price comes from."""
        return self.sources[0].source

    @property
    def listed(self) -> bool:
        """Whether anyone can ask for it today; what is deprecated or retired is never recommended."""
        return self.status == "listed"

    @property
    def vram_bytes_per_accelerator(self) -> Bytes | None:
        """Usable memory of a card, share applied; `None` on CPU."""
        usable = None if self.silicon is None else self.silicon.memory_usable
        return None if usable is None else Bytes(int(usable * self.accelerator_fraction))

    @property
    def price_secondhand(self) -> bool:
        """Whether its price was not read from the platform's own page, nor from its live list."""
        return not self.price_verified and self.price_basis == "bundled"

    @property
    def vram_bytes(self) -> Bytes | None:
        """Usable memory of all accelerators together; `None` on CPU."""
        per = self.vram_bytes_per_accelerator
        return None if per is None else Bytes(per * self.accelerator_count)

    @property
    def usd_per_hour_by_region(self) -> Mapping[str, UsdPerHour]:
        """Of a TPU slice: chips × the chip-hour of each region; empty for any other offer."""
        by_region = {} if self.tpu is None else self.tpu.generation.usd_per_chip_hour
        return {region: UsdPerHour(price * self.accelerator_count) for region, price in by_region.items()}


Hardware = Offer | Cards
"""What is rented, or owned."""


class TpuGenerationsFile(Row):
    """tpu_generations.json."""

    tpu_generations: Annotated[tuple[TpuGeneration, ...], require_distinct("id")]
    """Each id once."""


class OffersFile(Row):
    """offers.json."""

    offers: Annotated[tuple[Offer, ...], require_distinct("platform", "id")]
    """In the order of the platforms' own lists."""
    aliases: Table[Table[Text]]
    """Other names of offers, by platform."""

    @model_validator(mode="after")
    def _names_exist(self) -> Self:
        keys = {(offer.platform, offer.id) for offer in self.offers}
        ids = {key for _, key in keys}
        for offer in self.offers:
            if offer.successor is not None and offer.successor not in ids:
                raise ValueError(f"'{offer.id}': successor is '{offer.successor}'. Accepted: the id of an offer, or null.")
        for platform, names in self.aliases.items():
            for name, target in names.items():
                if (platform, target) not in keys:
                    raise ValueError(f"aliases, {platform}: {name} is '{target}'. Accepted: an id on platform {platform}.")
                if (platform, name) in keys:
                    raise ValueError(f"aliases, {platform}: {name} is itself an id on platform {platform}.")
        return self


LONGEST = 80
MOST_CARDS = 16384  # the largest TPU pod has 9216 chips
_COUNTED = re.compile(r"(?P<id>.+)[xX×*](?P<count>[0-9]{1,5})", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """The names that can be looked up."""

    by_id: Mapping[tuple[str, str], Offer]
    """Offers by platform and id."""
    by_name: Mapping[str, tuple[Offer, ...]]
    """Offers by id or alias in lower case."""
    silicon: Mapping[str, Accelerator]
    """By id."""
    silicon_folded: Mapping[str, Accelerator]
    """By id in lower case, without hyphens and blanks."""

    def advice(self, text: str, platform: str | None = None) -> str:
        """A sentence that names what was probably meant, or where the list is; begins with a space."""
        names = [name for name, rows in self.by_name.items() if any(row.listed and platform in {None, row.platform} for row in rows)]
        names += [] if platform else list(self.silicon_folded)
        near = get_close_matches(text.casefold()[:LONGEST], names, n=3, cutoff=0.6)
        ids = [self.by_name[name][0].id if name in self.by_name else self.silicon_folded[name].id for name in near]
        near_text = ", ".join(f"'{key}'" for key in dict.fromkeys(ids))
        listing = " /list_hardware lists every id."
        return f" Near matches: {near_text}.{listing}" if near_text else listing

    def unknown(self, text: object, platform: str | None = None) -> str:
        """The sentence for a name that no hardware has."""
        where = f" on {platform}" if platform else ""
        advice = self.advice(text, platform) if isinstance(text, str) else " It has to be text, such as 'l4x1'."
        return f"There is no hardware called {quote_value(text)}{where}.{advice}"


def index_names(offers: Iterable[Offer], aliases: Mapping[str, Mapping[str, str]], accelerators: Mapping[str, Accelerator]) -> Names:
    """Everything that can be looked up. Ids win over aliases; platforms rank in the order of `PLATFORMS`."""
    by_id: dict[tuple[str, str], Offer] = {(row.platform, row.id): row for row in offers}
    by_name: dict[str, list[Offer]] = {}
    ranked = sorted(by_id.values(), key=lambda row: (row.status == "retired", PLATFORMS.index(row.platform)))
    for row in ranked:
        by_name.setdefault(row.id.casefold(), []).append(row)
    for row in ranked:
        if row.endpoint:
            for region in row.endpoint.regions:
                kind = f"{row.endpoint.vendor}-{region}-{row.endpoint.instance_type}-{row.endpoint.instance_size}"
                by_name.setdefault(kind.casefold(), []).append(row)
    for platform in PLATFORMS:
        for alias, target in aliases.get(platform, {}).items():
            by_name.setdefault(alias.casefold(), []).append(by_id[platform, target])
    return Names(
        by_id=by_id,
        by_name={name: tuple(rows) for name, rows in by_name.items()},
        silicon=accelerators,
        silicon_folded={_fold_name(key): card for key, card in accelerators.items()},
    )


def _fold_name(name: str) -> str:
    """A name of silicon as people write it: "RTX 4070 Ti", "Apple M4 Max 64GB" and "nvidia h100-sxm" are cards of the catalog."""
    text = name.casefold()
    for maker in ("nvidia ", "geforce ", "amd ", "instinct ", "apple "):
        text = text.removeprefix(maker)
    return text.replace("-", "").replace(" ", "")


def _withdrawn_sentence(row: Offer) -> str:
    """The sentence for an offer of the past."""
    since = f" on {row.since}" if row.since and row.since.count("-") > 1 else f" in {row.since}" if row.since else ""
    cost = f" Its last price was {row.last_usd_per_hour} USD per hour." if row.last_usd_per_hour is not None else ""
    instead = f" Closest today: '{row.successor}'." if row.successor else ""
    return f"'{row.id}' ({row.name}) is no longer offered: it left {row.platform}{since}.{cost}{instead} /list_hardware lists every id."


def _first_offer(names: Names, text: str, platform: Platform | None) -> Offer | None:
    """The offer of this name; today's before a retired one."""
    rows = [row for row in names.by_name.get(text.casefold(), ()) if platform in {None, row.platform}]
    return rows[0] if rows else None


def _silicon(names: Names, text: str) -> Cards | None:
    """Plain silicon, with or without a count."""
    card = names.silicon.get(text) or names.silicon_folded.get(_fold_name(text))
    if card is not None:
        return Cards(silicon=card)
    match = _COUNTED.fullmatch(text)
    card = match and (names.silicon.get(match["id"]) or names.silicon_folded.get(_fold_name(match["id"])))
    if match is None or card is None:
        return None
    count = int(match["count"])
    if card.kind in {"cpu", "apple"} and count != 1:
        what = "A CPU is one host" if card.kind == "cpu" else "A Mac is one machine"
        raise UnknownHardware(f"{quote_value(text)} asks for {count} hosts of {card.name}. {what}: write '{card.id}'.")
    if not 1 <= count <= MOST_CARDS:
        raise UnknownHardware(f"{quote_value(text)} asks for {count} cards. Accepted: 1 to {MOST_CARDS}, such as '{card.id}x8'.")
    return Cards(silicon=card, count=count)


def _read_name(names: Names, text: object, platform: Platform | None) -> tuple[str, Platform | None]:
    """The name without blanks at its ends, and the platform: as asked, else the one before a colon. Refuses what cannot be a name."""
    if not isinstance(text, str):
        raise UnknownHardware(names.unknown(text, platform))
    name = text.strip()
    before, colon, behind = name.partition(":")
    if colon and (of := before.strip().casefold()) in PLATFORMS and platform in {None, of}:
        name, platform = behind.strip(), of
    if not name:
        raise UnknownHardware("The hardware is empty. Accepted: an id such as 'l4x1', or silicon such as 'H100-SXMx8'.")
    if len(name) > LONGEST:
        raise UnknownHardware(f"The hardware {quote_value(name)} has {len(name)} characters; no id has more than {LONGEST}.")
    return name, platform


def find_offer(names: Names, text: object, platform: Platform | None) -> Offer:
    """The offer of today that this text means; `jobs:l4x1` picks the platform of an id that several have."""
    name, platform = _read_name(names, text, platform)
    row = _first_offer(names, name, platform)
    if row is None and _silicon(names, name) is not None:
        raise UnknownHardware(f"{quote_value(name)} is plain silicon, without a price.{names.advice(name, platform)}")
    if row is None:
        raise UnknownHardware(names.unknown(name, platform))
    if row.status == "retired":
        raise UnknownHardware(_withdrawn_sentence(row))
    return row


def find_cards(names: Names, text: object) -> Cards:
    """The cards or the Mac of the visitor's own that this text means: `RTX-4090x2`, `M4-Max-64GB`."""
    accepted = "Accepted: graphics cards or a Mac of your own, such as 'RTX-4090x2' or 'M4-Max-64GB'."
    if not isinstance(text, str) or not 0 < len(text.strip()) <= LONGEST:
        raise UnknownHardware(f"own_hardware was {quote_value(text)}. {accepted}")
    own = _silicon(names, text.strip())
    if own is None:
        owned = {name: card.id for name, card in names.silicon_folded.items() if card.kind in OWNED_KINDS}
        near = ", ".join(f"'{owned[name]}'" for name in get_close_matches(_fold_name(text), owned, n=3, cutoff=0.6))
        meant = f" Near matches: {near}." if near else ""
        raise UnknownHardware(f"own_hardware was {quote_value(text)}, which is none that is known here.{meant} {accepted}")
    if own.silicon.kind not in OWNED_KINDS:
        raise UnknownHardware(f"own_hardware was {quote_value(text)}, which is not a graphics card or a Mac. {accepted}")
    return own


def find_hardware(names: Names, text: object, platform: Platform | None) -> Offer | Cards:
    """The offer or the plain silicon that this text means; silicon belongs to no platform."""
    name, platform = _read_name(names, text, platform)
    if platform is not None:
        return find_offer(names, name, platform)
    base, _, count = name.rpartition("x")
    if name in names.silicon or (base in names.silicon and count.isdigit()):
        cards = _silicon(names, name)
        if cards is not None:
            return cards
    row = _first_offer(names, name, None)
    if row is not None and row.status != "retired":
        return row
    cards = _silicon(names, name)
    if cards is not None:
        return cards
    raise UnknownHardware(_withdrawn_sentence(row) if row is not None else names.unknown(name, None))
