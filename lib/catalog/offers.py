"""Hardware: silicon × count, as a platform rents it out at a price (`Offer`), or as people own it (`own_hardware`).

Ids are names, not hardware: `zero-a10g` kept its name while the card under it changed twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from lib.catalog.host_memory import HostMemory
from lib.catalog.rows import ByteCount, Count, Day, DayOrMonth, Price, Row, Share, Size, Sources, Table, Text, reference, require_distinct
from lib.catalog.silicon import UNKNOWN_CPU, Accelerator
from lib.errors import BadArgument
from lib.platforms import OWN, TRAITS, Platform, PlatformTraits
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
    """Regions of the vendor."""


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
    """`None` if none is documented."""
    zones: tuple[Text, ...]
    """Zones of Google Cloud."""
    usd_per_chip_hour: Table[Price]
    """By region."""


class TpuSlice(Row):
    """A slice of Cloud TPU."""

    generation: Annotated[TpuGeneration, reference("generations", "tpu_generations")]
    """Properties that all slices share."""
    topology: Text
    """Chips along each axis of the torus, such as `2x4`."""
    hosts: Size
    """Number of machines."""
    machine_type: Text | None
    """Google Cloud's name of one machine; `None` if none is documented."""


class Hardware(Row):
    """Silicon × count: an offer of a platform, or cards, a Mac or a processor of one's own, which have no price (`own_hardware`)."""

    id: Text
    """The platform's name for it; of own hardware the id of the silicon, with the count if there is more than one: `H100-SXMx8`."""
    platform: Platform | Literal["own"]
    """The platform that rents it out."""
    name: Text
    """For people."""
    silicon: Card | None = Field(validation_alias="accelerator")
    """The card or chip. `None` for an offer of a CPU; a processor of one's own is its silicon."""
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
    """Today's list price (TPU: us-central1), 0 for free; `None` for retired offers and own hardware."""
    status: Status
    """Whether anyone can ask for it."""
    since: DayOrMonth | None
    """From when the status holds, if known."""
    rules: frozenset[Rule]
    """The platform's rules that apply to a renter of this offer."""
    tpu: TpuSlice | None
    """Only of Cloud TPU."""
    host: HostMemory | None = None
    """The memory of the machine that own cards are plugged into, if it is stated."""

    @property
    def traits(self) -> PlatformTraits:
        """The properties of its platform."""
        return TRAITS[self.platform]

    @property
    def tier_name(self) -> str:
        """Its name as the hardware of a Space: ZeroGPU is one tier with two sizes."""
        return self.traits.label if self.traits.per_call else self.name

    @property
    def rented_from(self) -> str:
        """The platform that rents it out; "" for own hardware."""
        return "" if self.traits.owned else self.platform

    @property
    def accelerator(self) -> str | None:
        """Id of the silicon; `None` on CPU."""
        return None if self.silicon is None or self.silicon.kind == "cpu" else self.silicon.id

    @property
    def processor(self) -> Accelerator:
        """The processor: the card or chip, else the class of processor that the host resembles, else one of which nothing is known."""
        return self.silicon or self.host_cpu or UNKNOWN_CPU

    @property
    def listed(self) -> bool:
        """Whether anyone can ask for it today; deprecated and retired offers are never recommended."""
        return self.status == "listed"

    @property
    def vram_bytes_per_accelerator(self) -> Bytes | None:
        """Usable memory of a card, share applied; `None` on CPU."""
        usable = None if self.silicon is None else self.silicon.memory_usable
        return None if usable is None else Bytes(int(usable * self.accelerator_fraction))

    @property
    def vram_bytes(self) -> Bytes | None:
        """Usable memory of all accelerators together; `None` on CPU."""
        per = self.vram_bytes_per_accelerator
        return None if per is None else Bytes(per * self.accelerator_count)

    def with_count(self, count: int) -> Hardware:
        """The same with another number of cards."""
        if self.traits.owned and self.silicon is not None:
            return own_hardware(self.silicon, count, self.host)
        return self.model_copy(update={"accelerator_count": count})


OWN_COUNTS = (2, 4, 8)
"""Numbers of cards that are tried where those of the visitor are too few."""


def own_hardware(silicon: Accelerator, count: int = 1, host: HostMemory | None = None) -> Hardware:
    """Plain silicon times a count, for people who own it, in a machine with the memory of `host` (None: not stated).

    Of a processor, `ram_bytes` is the memory that its description states.
    """
    on_cpu = silicon.kind == "cpu"
    return Hardware(
        id=silicon.id if count == 1 else f"{silicon.id}x{count}",
        platform=OWN,
        name=silicon.name if count == 1 else f"{count} × {silicon.name}",
        silicon=silicon,
        accelerator_count=0 if on_cpu else count,
        accelerator_fraction=1.0,
        host_cpu=None,
        vcpu=silicon.vcpu,
        ram_bytes=silicon.memory_advertised if on_cpu else None if host is None or host.size_assumed else host.size,
        disk_bytes=None,
        usd_per_hour=None,
        status="listed",
        since=None,
        rules=frozenset(),
        tpu=None,
        host=host,
    )


def plug_in(hardware: Hardware, host: HostMemory | None) -> Hardware:
    """Own cards in a machine with this memory; unchanged if none is stated.

    Raises:
        BadArgument: rented hardware, whose host is known, or a machine whose processor and GPU share one memory.
    """
    if host is None:
        return hardware
    if not hardware.traits.owned or hardware.silicon is None or hardware.silicon.kind != "gpu":
        accepted = f"an empty text for {hardware.name}: only graphics cards of your own have a host to describe"
        raise BadArgument("host_memory", host.name, accepted)
    return own_hardware(hardware.silicon, hardware.accelerator_count, host)


class Offer(Hardware):
    """Hardware as a platform rents it out, with its price, rules and sources."""

    platform: Platform
    """The platform that rents it out."""
    last_usd_per_hour: Price | None
    """The last price of a retired offer."""
    price_verified: bool
    """Whether the price was read on the platform's own page."""
    price_basis: PriceBasis = "bundled"
    """Whether the price is the bundled one or of the platform's live list."""
    price_history: tuple[PastPrice, ...]
    """Earlier prices, oldest first."""
    successor: Text | None
    """Id of the offer to ask for instead."""
    endpoint: EndpointInstance | None
    """Only of Inference Endpoints."""
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
    def source(self) -> str:
        """Source of the price."""
        return self.sources[0].source

    @property
    def price_secondhand(self) -> bool:
        """Whether its price was not read from the platform's own page, nor from its live list."""
        return not self.price_verified and self.price_basis == "bundled"

    @property
    def regions(self) -> tuple[str, ...]:
        """Regions in which the vendor has it."""
        return self.endpoint.regions if self.endpoint else tuple(self.usd_per_hour_by_region)

    @property
    def usd_per_hour_by_region(self) -> Mapping[str, UsdPerHour]:
        """Of a TPU slice: chips × the chip-hour of each region; empty for any other offer."""
        by_region = {} if self.tpu is None else self.tpu.generation.usd_per_chip_hour
        return {region: UsdPerHour(price * self.accelerator_count) for region, price in by_region.items()}


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


class UnpricedHardware(Row):
    """Hardware that a platform has announced and whose price it has not published: it is named, and never priced or ranked."""

    platform: Platform
    """The platform that announced it."""
    name: Text
    """Name for people."""
    accelerators: tuple[Text, ...]
    """Ids of the cards that the name may mean."""
    announced: Day
    """The day of the announcement."""
    source: Text
    """The page that announced it."""
    checked: Day
    """The day of the price list that does not have it."""

    @property
    def sentence(self) -> str:
        """The announcement as a sentence, for refusals and caveats."""
        return (
            f"{self.name} was announced for {self.platform} on {self.announced} ({self.source}). "
            f"Its price, sizes and regions are not in the price list of {self.checked}, so it cannot be priced here."
        )


class UnpricedFile(Row):
    """unpriced_hardware.json."""

    rows: Annotated[tuple[UnpricedHardware, ...], require_distinct("platform", "name")]
