"""The platforms' rules as values: who may host what, quotas, sleep, storage, credits.

Accounts are `anonymous`, `free`, `pro`, `team` and `enterprise` (the last two: a member of such an organization).
Every group carries its sources; what a source leaves open is `None`, never a guess.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from decimal import Decimal

    from lib.provenance import Source
    from lib.units import Bytes, UsdPerHour


@dataclass(frozen=True, slots=True, kw_only=True)
class ZeroGpuSize:
    """One of the sizes a decorated function may ask for; `offer` is the catalog's id of it."""

    size: str
    offer: str
    card_fraction: float
    quota_multiplier: int
    duration_factor: Decimal
    default: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ZeroGpuSilicon:
    """Which card stood under the flavor's name, and until when; `until` is `None` for today's."""

    accelerator: str
    since: str | None
    until: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ZeroGpuRules:
    """ZeroGPU: sizes, quota, hosting, versions.

    Quota belongs to the visitor and is counted in GPU seconds per day. `runs_per_day_reported` is a community report.
    `max_duration_s` is not documented. Weights above `auto_xlarge_bytes` on the GPU at start turn an undeclared size into `xlarge`.
    """

    sizes: tuple[ZeroGpuSize, ...]
    silicon: tuple[ZeroGpuSilicon, ...]
    auto_xlarge_bytes: Bytes
    default_duration_s: int
    max_duration_s: int | None
    queue_wait_limit_s: int
    generator_idle_timeout_s: int
    daily_quota_s: Mapping[str, int]
    queue_priority: Mapping[str, str]
    max_spaces: Mapping[str, int]
    free_hosting_conditions: tuple[str, ...]
    overquota_accounts: tuple[str, ...]
    overquota_usd_per_gpu_hour: UsdPerHour
    runs_per_day_reported: Mapping[str, int]
    gradio_only: bool
    torch_versions: tuple[str, ...]
    python_versions: tuple[str, ...]
    generators: bool
    coroutines: bool
    torch_compile: bool
    sources: tuple[Source, ...]
    checked: str

    def size(self, name: str) -> ZeroGpuSize:
        """The size called `large` or `xlarge`, or the one whose offer id is given.

        Raises:
            KeyError: there is no such size.
        """
        for size in self.sizes:
            if name in {size.size, size.offer}:
                return size
        raise KeyError(name)

    def quota_seconds(self, declared_s: float, size: str) -> float:
        """Quota that a call asks for: declared seconds × duration factor × quota multiplier of the size.

        60 s declared ask for 90 (`large`: × 1.5 × 1) or 120 (`xlarge`: × 1 × 2). Source: package spaces 0.51.3.
        """
        of = self.size(size)
        return declared_s * float(of.duration_factor) * of.quota_multiplier

    def calls_per_day(self, account: str, declared_s: float, size: str) -> int:
        """How many calls of this declared length one visitor's free daily quota admits, if each uses all it asked for."""
        return int(self.daily_quota_s[account] // self.quota_seconds(declared_s, size))


@dataclass(frozen=True, slots=True, kw_only=True)
class SleepRules:
    """When a Space sleeps and what is billed. `None` as the default of paid hardware means that it never sleeps by itself."""

    cpu_basic_after_s: int
    cpu_basic_configurable: bool
    paid_default_s: int | None
    never_value: int
    billing_step_s: int
    billed_stages: tuple[str, ...]
    unbilled: tuple[str, ...]
    wakes_on_visit: bool
    idle_paid_billed: bool
    replicas_paid_only: bool
    startup_timeout_s: int
    sources: tuple[Source, ...]
    checked: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountRules:
    """Who may create a Space on what, and what the plans cost per month (and per user for organizations)."""

    cpu_basic_accounts: tuple[str, ...]
    static_accounts: tuple[str, ...]
    paid_hardware_needs: str
    plan_usd_per_month: Mapping[str, Decimal]
    sources: tuple[Source, ...]
    checked: str

    def may_create_cpu_basic(self, account: str) -> bool:
        """Whether the account may create a Gradio or Docker Space on the free `cpu-basic`."""
        return account in self.cpu_basic_accounts


@dataclass(frozen=True, slots=True, kw_only=True)
class RetiredStorageTier:
    """A persistent-storage tier of the past, with its last price and the day its table was dropped."""

    id: str
    size: Bytes
    last_usd_per_month: Decimal
    until: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoragePrices:
    """Storage today: buckets and volumes by the terabyte (10¹² bytes) and month; the old tiers are retired.

    The volume rates are pairs of (from this many terabytes on, USD per terabyte and month).
    """

    private_usd_per_tb_month: Decimal
    private_volume_rates: tuple[tuple[int, Decimal], ...]
    public_usd_per_tb_month: Decimal
    public_volume_rates: tuple[tuple[int, Decimal], ...]
    included_private: Mapping[str, Bytes]
    ephemeral_disk: Bytes
    retired_tiers: tuple[RetiredStorageTier, ...]
    sources: tuple[Source, ...]
    checked: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderCredits:
    """Inference Providers: monthly credits by account (per seat for organizations), then the provider's own price plus markup."""

    monthly_usd: Mapping[str, Decimal]
    markup_percent: Decimal
    providers: tuple[str, ...]
    sources: tuple[Source, ...]
    checked: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointRules:
    """Inference Endpoints: billed while initializing or running; scale to zero needs a minimum of 0 replicas."""

    billing_step_s: int
    billed_states: tuple[str, ...]
    scale_to_zero_after_s: int
    status_while_starting: int
    hold_header: str
    sources: tuple[Source, ...]
    checked: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRules:
    """Jobs: default time limit, and the price of exposing ports (per Job and hour)."""

    default_timeout_s: int
    ports_usd_per_hour: UsdPerHour
    sources: tuple[Source, ...]
    checked: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformRules:
    """All groups of rules."""

    zerogpu: ZeroGpuRules
    sleep: SleepRules
    accounts: AccountRules
    storage: StoragePrices
    providers: ProviderCredits
    endpoints: EndpointRules
    jobs: JobRules
