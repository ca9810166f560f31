"""The answers about Spaces and accounts.

Prices are those of the catalog in use, per replica and hour as `/list_hardware` shows them; a month is 30 days of 24 hours.
"""

from __future__ import annotations

from dataclasses import dataclass

from lib.advisor.recommend import Decision
from lib.advisor.result import Entry, ProviderOption, Rejection
from lib.advisor.space_rules import Idling
from lib.catalog import PriceState
from lib.provenance import Answer, Reasons
from lib.result import Result, Usd


@dataclass(frozen=True, slots=True, kw_only=True)
class TierEntry(Result):
    """A tier as a Space has it."""

    hardware: str | None
    """Id of the tier; null without hardware."""
    name: str | None
    """Name of the tier."""
    usd_per_hour: Usd | None
    """Price of a replica; null if it is not known."""
    usd_per_month: Usd | None
    """Price of a replica that is always awake."""
    sleep_time_s: int | None
    """Seconds without a visit until it sleeps; -1 never, null not documented."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Volume(Result):
    """A bucket or repository that is mounted into a Space."""

    type: str
    """bucket, model, dataset or space."""
    source: str
    """Id of the bucket or repository."""
    mount_path: str
    """Folder in which the app finds it."""
    read_only: bool | None
    """Whether the app may only read it; null if the Hub does not tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpaceStatus(Answer):
    """Stage and hardware of a Space, and their price."""

    space: str
    """Id of the Space."""
    sdk: str | None
    """SDK of the app: gradio, docker or static; null if the Hub does not tell."""
    private: bool
    """Whether only its owner sees it."""
    stage: str
    """Stage as the Hub names it, such as RUNNING."""
    stage_message: str
    """The stage in a sentence."""
    settled: bool
    """Whether the stage does not change by itself."""
    failed: bool
    """Whether the stage is an error."""
    error: str | None
    """Error message of the platform."""
    billed_now: bool | None
    """Whether it is billed now; null if the stage does not tell."""
    hardware: str | None
    """Id of the current tier; null without hardware."""
    hardware_name: str | None
    """Name of the current tier."""
    usd_per_hour: Usd | None
    """Price of a replica of the current tier; null if it is not known."""
    usd_per_month: Usd | None
    """Price of a replica of the current tier that is always awake."""
    requested_hardware: str | None
    """Id of the tier that was asked for."""
    requested_usd_per_hour: Usd | None
    """Price of a replica of that tier."""
    requested_usd_per_month: Usd | None
    """Price of a replica of that tier that is always awake."""
    changing: bool
    """Whether a change of the tier is under way."""
    sleep_time_s: int | None
    """Seconds without a visit until it sleeps; -1 never, null not documented."""
    sleep_message: str
    """The same in a sentence."""
    replicas: int | None
    """Replicas that run; null if the Hub does not tell."""
    requested_replicas: int | None
    """Replicas that were asked for."""
    total_usd_per_hour: Usd | None
    """Price of all replicas."""
    total_usd_per_month: Usd | None
    """Price of all replicas that are always awake."""
    storage: str | None
    """Persistent storage of the retired kind."""
    volumes: tuple[Volume, ...]
    """Mounted buckets and repositories."""
    models: tuple[str, ...]
    """Ids of linked models."""
    prices: PriceState
    """Prices in use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpaceProgress(SpaceStatus):
    """A Space while it is watched."""

    elapsed_s: float
    """Seconds since the watching began."""
    done: bool
    """Whether the watching ends here."""
    arrived: bool
    """Whether it runs on the hardware that was asked for."""
    trouble: str | None
    """Why the Hub did not answer this time, if it did not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionAnswer(Answer):
    """State of the Space right after an action."""

    space: str
    """Id of the Space."""
    stage: str
    """Stage as the Hub names it."""
    stage_message: str
    """The stage in a sentence."""
    hardware: str | None
    """Id of the current tier."""
    requested_hardware: str | None
    """Id of the tier that was asked for."""
    usd_per_hour: Usd | None
    """Price of a replica of the requested tier, else of the current one."""
    usd_per_month: Usd | None
    """Price of such a replica that is always awake."""
    sleep_time_s: int | None
    """Seconds without a visit until that tier sleeps; -1 never, null not documented."""
    prices: PriceState
    """Prices in use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchAnswer(ActionAnswer):
    """State of the Space right after a switch; it is on the new tier once its stage is RUNNING (`/space_status` tells)."""

    before: TierEntry
    """The tier before."""
    after: TierEntry
    """The tier that was asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionPreview(Answer):
    """Effects of an action, and the price to confirm; nothing has been changed."""

    space: str
    """Id of the Space."""
    action: str
    """switch, sleep, pause or restart."""
    stage: str
    """Stage as the Hub names it."""
    stage_message: str
    """The stage in a sentence."""
    before: TierEntry
    """The tier before."""
    after: TierEntry
    """The tier after."""
    confirm_usd_per_hour: Usd | None
    """Price that `/switch_hardware` takes; null if there is none to confirm."""
    change_usd_per_hour: Usd | None
    """Change of the price of all replicas; null if a price is not known."""
    change_usd_per_month: Usd | None
    """The same for replicas that are always awake."""
    replicas: int
    """Number of replicas."""
    effects: tuple[str, ...]
    """Effects in sentences."""
    prices: PriceState
    """Prices in use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceEntry(Result):
    """A Space, an Inference Endpoint or a Job, and its price."""

    kind: str
    """space, endpoint or job."""
    name: str
    """Name as owner/name, as `/stop_resource` takes it."""
    hardware: str | None
    """Id of the hardware."""
    hardware_name: str | None
    """Name of the hardware."""
    replicas: int | None
    """Number of replicas; null if the Hub does not tell."""
    stage: str
    """Stage as the Hub names it."""
    stage_message: str
    """The stage in a sentence."""
    idling: Idling
    """Without requests: always_on (billed, used or not), sleeps_after (billed until it has idled long enough), ends (a Job), asleep,
    paused, not_running, free or unknown."""
    idling_message: str
    """The same in a sentence."""
    usd_per_hour: Usd | None
    """Bill of all replicas now: 0 while nothing is billed, null if it is not known."""
    usd_per_month: Usd | None
    """The same for 720 hours, at most; null for a Job, which ends by itself."""
    usd_per_month_running: Usd | None
    """Price of all replicas that are always awake; null for a Job."""
    since: str | None
    """Start of a Job."""
    can_stop: bool
    """Whether `/stop_resource` can stop it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotListed(Result):
    """A kind of resource that the Hub did not list for this token."""

    kind: str
    """space, endpoint or job."""
    code: str
    """A stable code of the reason."""
    message: str
    """The reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountOverview(Answer):
    """Everything that runs in an account, most expensive first."""

    account: str
    """Name of the account."""
    owner: str
    """The account, or the organization of which the resources are."""
    organizations: tuple[str, ...]
    """Organizations of the account."""
    resources: tuple[ResourceEntry, ...]
    """Spaces, Inference Endpoints and Jobs."""
    usd_per_hour: Usd
    """Sum of the bills now."""
    usd_per_month: Usd
    """Sum of the bills of 720 hours, without Jobs."""
    always_on: int
    """Number of resources that are billed, used or not."""
    not_listed: tuple[NotListed, ...]
    """Kinds of resources that the Hub did not list."""
    prices: PriceState
    """Prices in use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StopAnswer(Answer):
    """Stage of a resource right after it was stopped."""

    kind: str
    """space, endpoint or job."""
    name: str
    """Name as owner/name."""
    stage: str
    """Stage as the Hub names it."""
    stage_message: str
    """The stage in a sentence."""


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
    """Whether it runs the workload; null if that cannot be judged."""
    reason: str
    """Why."""
    entry: Entry | None
    """Its place among the ranked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RightSizeAnswer(Answer):
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
    """The best tier; null if nothing qualifies."""
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
