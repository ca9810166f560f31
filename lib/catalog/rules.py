"""The platforms' own rules as values: who may host what, quotas, sleep, storage, credits.

Accounts are `anonymous`, `free`, `pro`, `team` and `enterprise` (the last two: a member of such an organization).
Every group carries its sources; what a source leaves open is `None`, never a guess.
"""

from __future__ import annotations

from typing import Self

from pydantic import Field, ValidationInfo, model_validator

from lib.catalog.rows import ByteCount, Count, Day, DayOrMonth, Exact, Price, References, Row, Share, Size, Sources, Table, Text
from lib.platforms import RulesGroup
from lib.request.types import AccountName

Accounts = tuple[AccountName, ...]


class Rules(Row):
    """A group of rules."""

    sources: Sources
    """The pages that state them."""
    checked: Day
    """The day on which the sources were read."""


class ZeroGpuSize(Row):
    """One of the sizes that a decorated function may ask for."""

    size: Text
    """`large` or `xlarge`."""
    offer: Text
    """Id of it in the catalog."""
    card_fraction: Share
    """Share of the card."""
    quota_multiplier: Count
    """Seconds of quota per declared second, before the duration factor."""
    duration_factor: Exact
    """Factor on declared seconds on today's card."""
    default: bool
    """The size of a function that names none."""

    @model_validator(mode="after")
    def _is_an_offer(self, info: ValidationInfo[References]) -> Self:
        offer = info.context.offers.get(("zerogpu", self.offer))
        if offer is None or offer.accelerator_fraction != self.card_fraction:
            raise ValueError(f"offer is '{self.offer}'. Accepted: an id on platform zerogpu with the same share of the card.")
        return self


class ZeroGpuSilicon(Row):
    """The card that the flavor's name meant, and until when."""

    accelerator: Text
    """Id of the card."""
    since: DayOrMonth | None
    """The first day; `None` if it is not known."""
    until: DayOrMonth | None
    """`None` for today's."""

    @model_validator(mode="after")
    def _is_a_card(self, info: ValidationInfo[References]) -> Self:
        if self.accelerator not in info.context.accelerators:
            raise ValueError(f"accelerator is '{self.accelerator}'. Accepted: an id of accelerators.json.")
        return self


class ZeroGpuRules(Rules):
    """ZeroGPU: sizes, quota, hosting, versions. Quota belongs to the visitor and is counted in seconds of a GPU per day."""

    sizes: tuple[ZeroGpuSize, ...]
    """The sizes of today's card."""
    silicon: tuple[ZeroGpuSilicon, ...]
    """Oldest first."""
    auto_xlarge_bytes: ByteCount = Field(validation_alias="auto_xlarge")
    """More weights than this on the GPU at start turn an undeclared size into `xlarge`."""
    default_duration_s: Count
    """Seconds that a call declares when it says nothing."""
    max_duration_s: Size | None
    """Not documented."""
    queue_wait_limit_s: Count
    """Seconds that a call waits for a GPU before it is refused."""
    daily_quota_s: Table[Count]
    """By account."""
    max_spaces: Table[Count]
    """How many ZeroGPU Spaces an account may host."""
    free_hosting_conditions: tuple[Text, ...]
    """The conditions for a free account, in words."""
    overquota_accounts: Accounts
    """Plans that may pay for more than the quota."""
    overquota_usd_per_gpu_hour: Price
    """USD per GPU hour beyond the quota."""
    runs_per_day_reported: Table[Count]
    """By account; a report of the community."""
    gradio_only: bool
    """No Docker, no static Space."""
    torch_versions: tuple[Text, ...]
    """Releases of torch that run there."""

    def size(self, name: str) -> ZeroGpuSize:
        """The size called `large` or `xlarge`, or the one whose offer id is given.

        Raises:
            KeyError: there is no such size.
        """
        for size in self.sizes:
            if name in {size.size, size.offer}:
                return size
        raise KeyError(name)


class SleepRules(Rules):
    """The sleep and the bill of a Space."""

    cpu_basic_after_s: Count
    """Idle seconds before `cpu-basic` sleeps."""
    paid_default_s: Size | None
    """Of paid hardware; `None`: it never sleeps by itself."""
    never_value: int
    """The sleep time that means never."""
    billing_step_s: Count
    """Seconds by which time is billed."""
    replicas_paid_only: bool
    """Whether more than one replica needs paid hardware."""
    startup_timeout_s: Count
    """How long a Space may take to start."""


class AccountRules(Rules):
    """Plans that may create a Space on each hardware, and prices of the plans."""

    cpu_basic_accounts: Accounts
    """Plans that may create a Gradio or Docker Space on the free `cpu-basic`."""
    plan_usd_per_month: Table[Exact]
    """By account; of an organization, per user."""
    free_cpu_units: Count
    """CPU units that a free account may run at once."""

    def may_create_cpu_basic(self, account: str) -> bool:
        """Whether the account may create a Gradio or Docker Space on the free `cpu-basic`."""
        return account in self.cpu_basic_accounts


class RetiredStorageTier(Row):
    """A tier of persistent storage of the past."""

    id: Text
    """The platform's name for it."""
    size: ByteCount
    """Bytes."""
    last_usd_per_month: Exact
    """Its last price."""
    until: Day
    """The day on which its table was dropped."""


class StoragePrices(Rules):
    """Storage today: buckets and volumes by the terabyte (10¹² bytes) and month."""

    private_usd_per_tb_month: Exact
    """Of private buckets and volumes."""
    private_volume_rates: tuple[tuple[Count, Exact], ...]
    """Pairs of (from this many terabytes on, USD per terabyte and month)."""
    public_usd_per_tb_month: Exact
    """Of public ones."""
    public_volume_rates: tuple[tuple[Count, Exact], ...]
    """As the private ones."""
    included_private: Table[ByteCount]
    """By account."""
    retired_tiers: tuple[RetiredStorageTier, ...]
    """Smallest first."""


class ProviderCredits(Rules):
    """Inference Providers: monthly credits, then the provider's own price plus a markup."""

    monthly_usd: Table[Exact]
    """Credits by account; of an organization, per seat."""
    markup_percent: Exact
    """Markup of Hugging Face on the provider's price."""
    providers: tuple[Text, ...]
    """Providers that can be asked."""


class EndpointRules(Rules):
    """Inference Endpoints: when they are billed, when they scale to zero (which needs a minimum of 0 replicas)."""

    billing_step_s: Count
    """Seconds by which time is billed."""
    scale_to_zero_after_s: Count
    """Idle seconds before it stops."""
    status_while_starting: Count
    """HTTP status of a request that arrives while it starts."""
    hold_header: Text
    """Header with which such a request waits instead."""


class JobRules(Rules):
    """Jobs: their time limit, and the price of open ports."""

    billing_step_s: Count
    """Seconds by which time is billed."""
    default_timeout_s: Count
    """Seconds after which a Job ends that names no limit."""
    ports_usd_per_hour: Price
    """Per Job."""


class PlatformRules(Row):
    """platform.json: all groups of rules."""

    zerogpu: ZeroGpuRules
    """ZeroGPU."""
    sleep: SleepRules
    """Sleep and billing of Spaces."""
    accounts: AccountRules
    """Accounts and plans."""
    storage: StoragePrices
    """Storage."""
    providers: ProviderCredits
    """Inference Providers."""
    endpoints: EndpointRules
    """Inference Endpoints."""
    jobs: JobRules
    """Jobs."""

    def group(self, name: RulesGroup | None) -> Rules | None:
        """The rules that a platform's bills follow (`lib.platforms`)."""
        return None if name is None else getattr(self, name)
