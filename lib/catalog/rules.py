"""The platforms' rules as values: who may host what, quotas, sleep, storage, credits.

Accounts are `anonymous`, `free`, `pro`, `team` and `enterprise` (the last two: a member of such an organization).
Every group carries its sources; what a source leaves open is `None`, never a guess.

From `platform.json` to the platforms' rules.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from lib.catalog.rows import Row
from lib.units import Bytes, UsdPerHour

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from decimal import Decimal

    from lib.catalog.offers import Offer
    from lib.catalog.silicon import Accelerator
    from lib.provenance import Source
    from lib.units import Bytes


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


T = TypeVar("T")
ACCOUNTS = ("anonymous", "free", "pro", "team", "enterprise")


def _whole(row: Row, field: str) -> Bytes:
    size = row.bytes(field)
    if size is None:
        raise row.bad(field, None, "text such as '50 GB'")
    return size


def _accounts(row: Row, field: str) -> tuple[str, ...]:
    names = row.labels(field)
    if not set(names) <= set(ACCOUNTS):
        raise row.bad(field, ", ".join(names), ", ".join(ACCOUNTS))
    return names


def _rates(row: Row, field: str) -> tuple[tuple[int, Decimal], ...]:
    """Pairs of (from this many terabytes on, USD per terabyte and month)."""
    pairs = []
    for pair in row.of(field, list):
        if not isinstance(pair, list) or len(pair) != len(("from", "rate")):
            raise row.bad(field, pair, "pairs of terabytes and dollars")
        inner = Row(row.where, dict(zip(("from", "rate"), pair, strict=True)))
        pairs.append((inner.count("from"), inner.number("rate")))
    return tuple(pairs)


def _size(row: Row, offers: Mapping[tuple[str, str], Offer]) -> ZeroGpuSize:
    read = ZeroGpuSize(
        size=row.label("size"),
        offer=row.label("offer"),
        card_fraction=float(row.number("card_fraction")),
        quota_multiplier=row.count("quota_multiplier"),
        duration_factor=row.number("duration_factor"),
        default=row.of("default", bool),
    )
    row.finish()
    offer = offers.get(("zerogpu", read.offer))
    if offer is None or offer.accelerator_fraction != read.card_fraction:
        raise row.bad("offer", read.offer, "an id on platform zerogpu with the same share of the card")
    return read


def _card_before(row: Row, cards: Mapping[str, Accelerator], as_of: str) -> ZeroGpuSilicon:
    read = ZeroGpuSilicon(
        accelerator=row.choice("accelerator", tuple(cards)),
        since=row.day_or_month("since", latest=as_of),
        until=row.day_or_month("until", latest=as_of),
    )
    row.finish()
    return read


def _tier(row: Row, as_of: str) -> RetiredStorageTier:
    read = RetiredStorageTier(
        id=row.label("id"),
        size=_whole(row, "size"),
        last_usd_per_month=row.number("last_usd_per_month"),
        until=row.day("until", latest=as_of),
    )
    row.finish()
    return read


class _Reader:
    """Reads the groups; holds what all of them need."""

    def __init__(
        self, offers: Mapping[tuple[str, str], Offer], cards: Mapping[str, Accelerator], known: Mapping[str, Source], as_of: str
    ) -> None:
        self.offers, self.cards, self.known, self.as_of = offers, cards, known, as_of

    def zerogpu(self, row: Row) -> ZeroGpuRules:
        return ZeroGpuRules(
            sizes=tuple(_size(size, self.offers) for size in row.rows("sizes")),
            silicon=tuple(_card_before(card, self.cards, self.as_of) for card in row.rows("silicon")),
            auto_xlarge_bytes=_whole(row, "auto_xlarge"),
            default_duration_s=row.count("default_duration_s"),
            max_duration_s=row.size("max_duration_s"),
            queue_wait_limit_s=row.count("queue_wait_limit_s"),
            generator_idle_timeout_s=row.count("generator_idle_timeout_s"),
            daily_quota_s=row.table("daily_quota_s", lambda table, account: table.count(account)),
            queue_priority=row.table("queue_priority", lambda table, account: table.label(account)),
            max_spaces=row.table("max_spaces", lambda table, account: table.count(account)),
            free_hosting_conditions=row.labels("free_hosting_conditions"),
            overquota_accounts=_accounts(row, "overquota_accounts"),
            overquota_usd_per_gpu_hour=UsdPerHour(row.number("overquota_usd_per_gpu_hour")),
            runs_per_day_reported=row.table("runs_per_day_reported", lambda table, account: table.count(account)),
            gradio_only=row.of("gradio_only", bool),
            torch_versions=row.labels("torch_versions"),
            python_versions=row.labels("python_versions"),
            generators=row.of("generators", bool),
            coroutines=row.of("coroutines", bool),
            torch_compile=row.of("torch_compile", bool),
            sources=row.sources(self.known),
            checked=row.day("checked", latest=self.as_of),
        )

    def sleep(self, row: Row) -> SleepRules:
        return SleepRules(
            cpu_basic_after_s=row.count("cpu_basic_after_s"),
            cpu_basic_configurable=row.of("cpu_basic_configurable", bool),
            paid_default_s=row.size("paid_default_s"),
            never_value=row.of("never_value", int),
            billing_step_s=row.count("billing_step_s"),
            billed_stages=row.labels("billed_stages"),
            unbilled=row.labels("unbilled"),
            wakes_on_visit=row.of("wakes_on_visit", bool),
            idle_paid_billed=row.of("idle_paid_billed", bool),
            replicas_paid_only=row.of("replicas_paid_only", bool),
            startup_timeout_s=row.count("startup_timeout_s"),
            sources=row.sources(self.known),
            checked=row.day("checked", latest=self.as_of),
        )

    def accounts(self, row: Row) -> AccountRules:
        return AccountRules(
            cpu_basic_accounts=_accounts(row, "cpu_basic_accounts"),
            static_accounts=_accounts(row, "static_accounts"),
            paid_hardware_needs=row.label("paid_hardware_needs"),
            plan_usd_per_month=row.table("plan_usd_per_month", lambda table, account: table.number(account)),
            sources=row.sources(self.known),
            checked=row.day("checked", latest=self.as_of),
        )

    def storage(self, row: Row) -> StoragePrices:
        return StoragePrices(
            private_usd_per_tb_month=row.number("private_usd_per_tb_month"),
            private_volume_rates=_rates(row, "private_volume_rates"),
            public_usd_per_tb_month=row.number("public_usd_per_tb_month"),
            public_volume_rates=_rates(row, "public_volume_rates"),
            included_private=row.table("included_private", _whole),
            ephemeral_disk=_whole(row, "ephemeral_disk"),
            retired_tiers=tuple(_tier(tier, self.as_of) for tier in row.rows("retired_tiers")),
            sources=row.sources(self.known),
            checked=row.day("checked", latest=self.as_of),
        )

    def providers(self, row: Row) -> ProviderCredits:
        return ProviderCredits(
            monthly_usd=row.table("monthly_usd", lambda table, account: table.number(account)),
            markup_percent=row.number("markup_percent"),
            providers=row.labels("providers"),
            sources=row.sources(self.known),
            checked=row.day("checked", latest=self.as_of),
        )

    def endpoints(self, row: Row) -> EndpointRules:
        return EndpointRules(
            billing_step_s=row.count("billing_step_s"),
            billed_states=row.labels("billed_states"),
            scale_to_zero_after_s=row.count("scale_to_zero_after_s"),
            status_while_starting=row.count("status_while_starting"),
            hold_header=row.label("hold_header"),
            sources=row.sources(self.known),
            checked=row.day("checked", latest=self.as_of),
        )

    def jobs(self, row: Row) -> JobRules:
        return JobRules(
            default_timeout_s=row.count("default_timeout_s"),
            ports_usd_per_hour=UsdPerHour(row.number("ports_usd_per_hour")),
            sources=row.sources(self.known),
            checked=row.day("checked", latest=self.as_of),
        )


def _group(top: Row, field: str, read: Callable[[Row], T]) -> T:
    row = top.group(field)
    group = read(row)
    row.finish()
    return group


def read_rules(
    data: object, offers: Mapping[tuple[str, str], Offer], cards: Mapping[str, Accelerator], known: Mapping[str, Source], as_of: str
) -> PlatformRules:
    """All groups of rules."""
    top = Row("platform.json", data)
    reader = _Reader(offers, cards, known, as_of)
    rules = PlatformRules(
        zerogpu=_group(top, "zerogpu", reader.zerogpu),
        sleep=_group(top, "sleep", reader.sleep),
        accounts=_group(top, "accounts", reader.accounts),
        storage=_group(top, "storage", reader.storage),
        providers=_group(top, "providers", reader.providers),
        endpoints=_group(top, "endpoints", reader.endpoints),
        jobs=_group(top, "jobs", reader.jobs),
    )
    top.finish()
    return rules
