"""Offers: silicon × count as a platform rents it out, with a price, the day it was checked, a status and rules.

Ids are names, not hardware: `zero-a10g` kept its name while the card under it changed twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from lib.units import Bytes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lib.provenance import Source
    from lib.silicon import Accelerator
    from lib.units import UsdPerHour

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
