"""Offers: silicon × count as a platform rents it out, with a price, the day it was checked, a status and rules.

Ids are names, not hardware: `zero-a10g` kept its name while the card under it changed twice.

From the rows of `offers.json` to offers and aliases; what does not add up is refused with the row named.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

from lib.catalog.rows import Row
from lib.errors import BadCatalog
from lib.units import Bytes, UsdPerHour

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lib.catalog.silicon import Accelerator
    from lib.provenance import Source

Platform = Literal["spaces", "zerogpu", "endpoints", "jobs", "tpu"]
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
]
PLATFORMS: tuple[Platform, ...] = ("spaces", "zerogpu", "endpoints", "jobs", "tpu")
STATUSES: tuple[Status, ...] = ("listed", "deprecated", "retired")


@dataclass(frozen=True, slots=True, kw_only=True)
class PastPrice:
    """A price that was shown earlier: from `since`, until the next entry or the current price took over."""

    usd_per_hour: UsdPerHour
    since: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointInstance:
    """What the Inference Endpoints create call takes: vendor, region, instance type and size."""

    vendor: str
    instance_type: str
    instance_size: str
    architecture: str
    regions: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TpuSlice:
    """A Cloud TPU slice. `counts` says what the number in the type name counts: `chips` (v5e, v6e) or `cores` (v5p, TPU7x).

    `hosts` is the number of machines, below 1 for a part of one. `runtime_version` is `None` where none is documented.
    """

    generation: str
    counts: str
    topology: str
    hosts: float
    machine_type: str | None
    runtime_version: str | None
    zones: tuple[str, ...]
    usd_per_hour_by_region: Mapping[str, UsdPerHour]


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """One row of the catalog.

    `accelerator_fraction` is the share of each card (0.5 for ZeroGPU `large`): it scales compute and bandwidth too.
    `vram_bytes_per_accelerator` is usable memory, share applied. `host_cpu` is the CPU class that a host without accelerator
    resembles. `usd_per_hour` is today's list price (TPU: us-central1), 0 for free, `None` where there is none; what a retired row
    last cost is `last_usd_per_hour`. `since` is the day (or month) from which `status` holds, where known; `successor` the id to
    ask for instead. `checked` is the day of the state of the price source that was read; `sources` starts with that source.
    """

    id: str
    platform: Platform
    name: str
    silicon: Accelerator | None
    accelerator_count: int
    accelerator_fraction: float
    vram_bytes_per_accelerator: Bytes | None
    host_cpu: Accelerator | None
    vcpu: int | None
    ram_bytes: Bytes | None
    disk_bytes: Bytes | None
    usd_per_hour: UsdPerHour | None
    last_usd_per_hour: UsdPerHour | None
    price_verified: bool
    price_basis: PriceBasis
    price_history: tuple[PastPrice, ...]
    status: Status
    since: str | None
    successor: str | None
    rules: frozenset[Rule]
    endpoint: EndpointInstance | None
    tpu: TpuSlice | None
    notes: str
    sources: tuple[Source, ...]
    checked: str

    @property
    def accelerator(self) -> str | None:
        """Id of the silicon; `None` on CPU."""
        return None if self.silicon is None else self.silicon.id

    @property
    def source(self) -> str:
        """Where the price comes from."""
        return self.sources[0].source

    @property
    def listed(self) -> bool:
        """Whether anyone can ask for it today; what is deprecated or retired is never recommended."""
        return self.status == "listed"

    @property
    def vram_bytes(self) -> Bytes | None:
        """Usable memory of all accelerators together; `None` on CPU."""
        per = self.vram_bytes_per_accelerator
        return None if per is None else Bytes(per * self.accelerator_count)


RULES: tuple[str, ...] = get_args(Rule)


def _generation(row: Row) -> dict[str, Any]:
    """What the slices of a TPU generation share; lives only while the file is read."""
    read = {
        "accelerator": row.label("accelerator"),
        "name": row.label("name"),
        "counts": row.choice("counts", ("chips", "cores")),
        "runtime_version": row.optional("runtime_version", str),
        "zones": row.labels("zones"),
        "usd_per_chip_hour": row.table("usd_per_chip_hour", lambda table, region: table.number(region)),
    }
    row.finish()
    return read


def _tpu(row: Row | None, count: int, generations: Mapping[str, dict[str, Any]]) -> TpuSlice | None:
    if row is None:
        return None
    generation = row.choice("generation", tuple(generations))
    shared = generations[generation]
    by_region = {region: UsdPerHour(price * count) for region, price in shared["usd_per_chip_hour"].items()}
    read = TpuSlice(
        generation=generation,
        counts=shared["counts"],
        topology=row.label("topology"),
        hosts=row.count("hosts"),
        machine_type=row.optional("machine_type", str),
        runtime_version=shared["runtime_version"],
        zones=shared["zones"],
        usd_per_hour_by_region=MappingProxyType(by_region),
    )
    row.finish()
    return read


def _endpoint(row: Row | None) -> EndpointInstance | None:
    if row is None:
        return None
    read = EndpointInstance(
        vendor=row.label("vendor"),
        instance_type=row.label("instance_type"),
        instance_size=row.label("instance_size"),
        architecture=row.label("architecture"),
        regions=row.labels("regions"),
    )
    row.finish()
    return read


def _past_price(row: Row, as_of: str) -> PastPrice:
    since = row.day_or_month("since", latest=as_of)
    if since is None:
        raise row.bad("since", since, "the day the price was first shown")
    read = PastPrice(usd_per_hour=UsdPerHour(row.number("usd_per_hour")), since=since)
    row.finish()
    return read


def _card(row: Row, field: str, cards: Mapping[str, Accelerator]) -> Accelerator | None:
    key = row.optional(field, str)
    if key is not None and key not in cards:
        raise row.bad(field, key, "an id of accelerators.json, or null")
    return None if key is None else cards[key]


def _fraction(row: Row) -> Decimal:
    fraction = row.number("fraction")
    if not 0 < fraction <= 1:
        raise row.bad("fraction", fraction, "more than 0, at most 1")
    return fraction


def _offer(
    row: Row, cards: Mapping[str, Accelerator], known: Mapping[str, Source], generations: Mapping[str, dict[str, Any]], as_of: str
) -> Offer:
    silicon, count, fraction = _card(row, "accelerator", cards), row.count("count"), _fraction(row)
    if (silicon is None) != (count == 0):
        raise row.bad("count", count, "0 without an accelerator, at least 1 with one")
    rules = row.labels("rules")
    if not set(rules) <= set(RULES):
        raise row.bad("rules", ", ".join(rules), ", ".join(RULES))
    usable = silicon.memory_usable if silicon else None
    price, last = row.usd("usd_per_hour"), row.usd("last_usd_per_hour")
    read = Offer(
        id=row.label("id"),
        platform=cast("Platform", row.choice("platform", PLATFORMS)),
        name=row.label("name"),
        silicon=silicon,
        accelerator_count=count,
        accelerator_fraction=float(fraction),
        vram_bytes_per_accelerator=None if usable is None else Bytes(int(usable * fraction)),
        host_cpu=_card(row, "host_cpu", cards),
        vcpu=row.size("vcpu"),
        ram_bytes=row.bytes("ram"),
        disk_bytes=row.bytes("disk"),
        usd_per_hour=None if price is None else UsdPerHour(price),
        last_usd_per_hour=None if last is None else UsdPerHour(last),
        price_verified=row.of("price_verified", bool),
        price_basis="bundled",
        price_history=tuple(_past_price(past, as_of) for past in row.rows("price_history")),
        status=cast("Status", row.choice("status", STATUSES)),
        since=row.day_or_month("since", latest=as_of),
        successor=row.optional("successor", str),
        rules=frozenset(cast("tuple[Rule, ...]", rules)),
        endpoint=_endpoint(row.row("endpoint")),
        tpu=_tpu(row.row("tpu"), count, generations),
        notes=row.of("notes", str),
        sources=row.sources(known),
        checked=row.day("checked", latest=as_of),
    )
    row.finish()
    _consistent(read, row)
    return read


def _consistent(read: Offer, row: Row) -> None:
    """What holds between fields."""
    if (read.status == "retired") != (read.usd_per_hour is None):
        raise row.bad("usd_per_hour", read.usd_per_hour, "null for a retired offer, an amount for any other")
    if read.status != "listed" and read.since is None:
        raise row.bad("since", None, "the day or month from which the status holds")
    if (read.platform == "tpu") != (read.tpu is not None):
        raise row.bad("tpu", read.tpu, "the slice of an offer on platform tpu, else null")
    if (read.platform == "endpoints") != (read.endpoint is not None):
        raise row.bad("endpoint", read.endpoint, "the instance of an offer on platform endpoints, else null")
    if read.tpu and read.usd_per_hour != read.tpu.usd_per_hour_by_region.get("us-central1"):
        raise row.bad("usd_per_hour", read.usd_per_hour, "chips times the chip-hour of us-central1")


def read_offers(
    data: object, cards: Mapping[str, Accelerator], known: Mapping[str, Source], as_of: str
) -> tuple[tuple[Offer, ...], Mapping[str, Mapping[str, str]]]:
    """All offers in the order of the file, and the aliases by platform."""
    top = Row("offers.json", data)
    generations = {row.label("id"): _generation(row) for row in top.rows("tpu_generations")}
    offers: dict[tuple[str, str], Offer] = {}
    for row in top.rows("offers"):
        row.where = f"offers.json, row '{row.name}'"
        read = _offer(row, cards, known, generations, as_of)
        if (read.platform, read.id) in offers:
            raise BadCatalog(f"{row.where}: the id is there twice on {read.platform}.")
        offers[read.platform, read.id] = read
    aliases = top.table("aliases", lambda table, platform: _aliases(table, platform, offers))
    top.finish()
    return tuple(offers.values()), aliases


def _aliases(table: Row, platform: str, offers: Mapping[tuple[str, str], Offer]) -> Mapping[str, str]:
    def alias(row: Row, name: str) -> str:
        target = row.label(name)
        if (platform, target) not in offers:
            raise row.bad(name, target, f"an id on platform {platform}")
        if (platform, name) in offers:
            raise row.bad(name, target, f"no alias: {name} is itself an id on platform {platform}")
        return target

    return table.table(platform, alias)
