"""The shapes of the answers about a Space; every field that is added stays.

Prices are those of the catalog in use, per replica and hour as `/list_hardware` shows them; a month is 30 days of 24 hours.
"""

from __future__ import annotations

from dataclasses import dataclass

from typing_extensions import TypedDict

from lib.advisor.recommend import Decision
from lib.advisor.result import Entry, ProviderOption, Rejection
from lib.answers.common import Answer, PriceEntry
from lib.catalog import PriceState
from lib.provenance import Answer as ResultAnswer
from lib.provenance import Reasons
from lib.result import Result, Usd


class TierEntry(TypedDict):
    """A tier as a Space has it: what it costs, and after how many seconds without a visit it sleeps (-1 never, null not documented)."""

    hardware: str | None
    name: str | None
    usd_per_hour: float | None
    usd_per_month: float | None
    sleep_time_s: int | None


class VolumeEntry(TypedDict):
    """A bucket or repository mounted into the Space."""

    type: str
    source: str
    mount_path: str
    read_only: bool | None


class SpaceStatus(Answer):
    """What a Space is doing, on what, and what that costs.

    `usd_per_hour` is the price of one replica of the current tier, `total_…` that of all of them; null where the tier is not known.
    `billed_now` is null where the stage is not known. `settled` says that the stage does not change by itself, `failed` that it is an
    error. `sleep_time_s`: -1 never sleeps, null not documented.
    """

    space: str
    sdk: str | None
    private: bool
    stage: str
    stage_message: str
    settled: bool
    failed: bool
    error: str | None
    billed_now: bool | None
    hardware: str | None
    hardware_name: str | None
    usd_per_hour: float | None
    usd_per_month: float | None
    requested_hardware: str | None
    requested_usd_per_hour: float | None
    requested_usd_per_month: float | None
    changing: bool
    sleep_time_s: int | None
    sleep_message: str
    replicas: int | None
    requested_replicas: int | None
    total_usd_per_hour: float | None
    total_usd_per_month: float | None
    storage: str | None
    volumes: list[VolumeEntry]
    models: list[str]
    prices: PriceEntry


class SpaceProgress(SpaceStatus):
    """The Space while it is watched: seconds since then, whether it arrived, and what kept the Hub from answering, if anything."""

    elapsed_s: float
    done: bool
    arrived: bool
    trouble: str | None


class ActionAnswer(Answer):
    """What the Hub answered to an action: the Space's state right after it.

    Prices and sleep time are those of the tier that it is on its way to, where that is another than `hardware`.
    """

    space: str
    stage: str
    stage_message: str
    hardware: str | None
    requested_hardware: str | None
    usd_per_hour: float | None
    usd_per_month: float | None
    sleep_time_s: int | None
    prices: PriceEntry


class SwitchAnswer(ActionAnswer):
    """The tier before, and the one that was asked for; the Space is on it once its stage is RUNNING (`/space_status` tells)."""

    before: TierEntry
    after: TierEntry


class ActionPreview(Answer):
    """What an action would do, and the price to confirm; nothing has been changed.

    `usd_per_hour` of `before` and `after` is per replica; `confirm_usd_per_hour` is what `/switch_hardware` takes. `change_…` is for all
    `replicas`; null where a price is not known.
    """

    space: str
    action: str
    stage: str
    stage_message: str
    before: TierEntry
    after: TierEntry
    confirm_usd_per_hour: float | None
    change_usd_per_hour: float | None
    change_usd_per_month: float | None
    replicas: int
    effects: list[str]
    prices: PriceEntry


class ResourceEntry(TypedDict):
    """A Space, an Inference Endpoint or a Job, and its money; `name` is owner/name, as `/stop_resource` takes it.

    `idling`: always_on (billed, used or not), sleeps_after (billed until it has idled long enough), ends (a Job), asleep, paused,
    not_running, free, unknown. `usd_per_hour` is what is billed now, for all replicas: 0 while nothing is, null where it is not known.
    `usd_per_month` is that for 720 hours, at most, and null for a Job, which ends by itself. `usd_per_month_running` is what it would
    cost awake around the clock. `since` is when a Job started.
    """

    kind: str
    name: str
    hardware: str | None
    hardware_name: str | None
    replicas: int | None
    stage: str
    stage_message: str
    idling: str
    idling_message: str
    usd_per_hour: float | None
    usd_per_month: float | None
    usd_per_month_running: float | None
    since: str | None
    can_stop: bool


class NotListed(TypedDict):
    """A kind of resource that the Hub did not list for this token, and why."""

    kind: str
    code: str
    message: str


class AccountOverview(Answer):
    """What runs in an account, dearest first. The sums are over what is billed now; `usd_per_month` leaves Jobs out."""

    account: str
    owner: str
    organizations: list[str]
    resources: list[ResourceEntry]
    usd_per_hour: float
    usd_per_month: float
    always_on: int
    not_listed: list[NotListed]
    prices: PriceEntry


class StopAnswer(Answer):
    """What the Hub answered when something was stopped; of a Job it tells nothing more than that."""

    kind: str
    name: str
    stage: str
    stage_message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsideredModel(Result):
    """A model of the Space."""

    id: str
    """Id of the model."""
    total_bytes: int
    """Memory that it takes as stored; the model with the largest need decides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentTier(Result):
    """The Space's tier under this workload."""

    hardware: str | None
    """Id of the tier."""
    name: str | None
    """Name of the tier."""
    usd_per_hour: Usd | None
    """Price of a replica."""
    total_usd_per_month: Usd | None
    """Price of as many machines as the workload takes."""
    fits: bool | None
    """Whether it runs the workload; null where that cannot be judged."""
    reason: str
    """Why."""
    entry: Entry | None
    """Its place among the ranked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RightSizeAnswer(ResultAnswer):
    """The recommendation next to the current tier."""

    space: str
    """Id of the Space."""
    model: str
    """Id of the model that decides."""
    models: tuple[ConsideredModel, ...]
    """Models that the Space links."""
    decision: Decision
    """`stay` (the current tier is the pick, or does it all with room to spare for less), `move` (to the pick), `none` (nothing runs it)."""
    current: CurrentTier
    """The current tier."""
    pick: Entry | None
    """The best tier; null where nothing qualifies."""
    saving_usd_per_month: Usd | None
    """Saving of the pick at the workload's hours; negative is an extra cost, null not known."""
    reasons: Reasons
    """Reasons for the decision."""
    ranked: tuple[Entry, ...]
    """Offers that run the model as asked, best first."""
    rejected: tuple[Rejection, ...]
    """Offers that do not."""
    provider: ProviderOption
    """Inference Providers as the way without hardware."""
    notes: Reasons
    """Reasons about the whole answer."""
    prices: PriceState
    """Prices in use."""
