"""Everything that an account pays for: its Spaces, Inference Endpoints and Jobs with their price, and a way to stop one of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Literal

from lib.advisor import space_rules
from lib.answers.spaces import AccountOverview, NotListed, ResourceEntry, StopAnswer
from lib.catalog import Catalog
from lib.catalog.offers import FREE_CPU_TIER, Offer
from lib.errors import BadArgument, HubError
from lib.hub.space_answers import InferenceEndpoint, Job, Space
from lib.hub.spaces import MOST_ROWS
from lib.present.sentences import sentence, stage_sentence
from lib.provenance import Caveat, Reason
from lib.request.checks import MAX_NAME, check_text
from lib.request.fields import Arguments, Checked, one_of
from lib.request.types import own_token
from lib.service.endpoint import App, endpoint
from lib.service.reference import check_space_id
from lib.service.space_status import free_cpu_caveats, per_month, price

Kind = Literal["space", "endpoint", "job"]
KINDS: tuple[Kind, ...] = ("space", "endpoint", "job")
STATIC = "static"


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """One thing of the account: its hardware and stage, USD per hour of each replica (`None`: unknown), and its behaviour when idle."""

    kind: Kind
    name: str
    stage: space_rules.Stage
    offer: Offer | None
    hardware: str | None
    each: Decimal | None
    when_idle: Reason
    replicas: int | None = None
    since: str | None = None

    @property
    def running(self) -> Decimal | None:
        """USD per hour of all replicas while they run."""
        return None if self.each is None else self.each * max(1, self.replicas or 1)

    @property
    def billed_usd_per_hour(self) -> Decimal | None:
        """USD per hour now; `None` if the stage does not say whether it is billed."""
        running = self.running
        return running if self.stage.billed else Decimal(0) if self.stage.billed is False or running == 0 else None

    @property
    def by_month(self) -> bool:
        """Whether a price per month means something: a Job ends by itself."""
        return self.kind != "job"

    @property
    def idling(self) -> space_rules.Idling:
        """Behaviour without requests."""
        return space_rules.judge_idling(self.stage, self.running, self.when_idle)


def _owner(name: str, value: object) -> str:
    return "" if value in (None, "") else check_text(name, value, "ada")[:MAX_NAME].strip()


class OverviewArguments(Arguments):
    """Arguments of `/account_overview`."""

    owner: Annotated[str, Checked(_owner, str)] = ""
    """One of your organizations; empty is your own account."""


@endpoint()
def account_overview(
    app: App, arguments: OverviewArguments, *, token: Annotated[str, own_token("list what runs in your account")]
) -> AccountOverview:
    """List the Spaces, Inference Endpoints and Jobs of your account: hardware, state, which ones are idle, and the price of each per month.

    Returns:
        One row for each, most expensive first, with the sums that are billed now.
    """
    spaces, catalog = app.spaces(token), app.catalog()
    account = spaces.account()
    organizations = tuple(name for name, _ in account.organizations)
    owner = arguments.owner or account.name
    if owner not in (account.name, *organizations):
        raise BadArgument("owner", owner, ", ".join((account.name, *organizations)))
    # Ask the Hub for each kind; a list that it refuses is named in the answer.
    resources: list[Resource] = []
    refusals: list[NotListed] = []
    caveats: list[Caveat] = []
    questions: tuple[tuple[Kind, Callable[[], Iterable[Resource]]], ...] = (
        ("space", lambda: [_space(catalog, one) for one in spaces.list_spaces(owner)]),
        ("endpoint", lambda: [_endpoint(catalog, one) for one in spaces.list_endpoints(owner)]),
        ("job", lambda: [_job(catalog, one) for one in spaces.list_jobs(owner)]),
    )
    for kind, ask in questions:
        try:
            batch = list(ask())
        except HubError as refused:
            refusals.append(NotListed(kind=kind, code=refused.code, message=str(refused)))
            continue
        if len(batch) > MOST_ROWS:
            caveats.append(Caveat("rows_left_out", {"most": MOST_ROWS}, variant=kind))
        resources += batch[:MOST_ROWS]
    # The dearest first, and what is not known of their bills.
    resources.sort(key=lambda of: (-(of.billed_usd_per_hour or 0), -((of.running or 0) if of.by_month else 0), of.name))
    unknown = sum(of.billed_usd_per_hour is None for of in resources)
    if unknown:
        caveats.append(Caveat("bill_unknown", {"count": unknown}))
    if account.plan == "free" and owner == account.name and any(of.hardware == FREE_CPU_TIER for of in resources):
        caveats += free_cpu_caveats(FREE_CPU_TIER, catalog)
    return AccountOverview(
        account=account.name,
        owner=owner,
        organizations=organizations,
        resources=tuple(map(_entry, resources)),
        usd_per_hour=sum((of.billed_usd_per_hour or Decimal(0) for of in resources), Decimal(0)),
        usd_per_month=sum((per_month(of.billed_usd_per_hour) or Decimal(0) for of in resources if of.by_month), Decimal(0)),
        always_on=sum(of.idling == "always_on" for of in resources),
        not_listed=tuple(refusals),
        prices=catalog.prices["spaces"],
        caveats=tuple(caveats),
        sources=(*(source for of in resources if of.offer is not None for source in of.offer.sources), *catalog.rules.sleep.sources),
    )


def _space(catalog: Catalog, space: Space) -> Resource:
    """A static Space is files without hardware: free at every stage."""
    hardware = space.hardware or space.requested_hardware
    offer = space_rules.find_offer(catalog, hardware)
    static = space.sdk == STATIC
    return Resource(
        kind="space",
        name=space.id,
        stage=space_rules.find_stage(space.stage),
        offer=offer,
        hardware=hardware,
        replicas=space.replicas,
        each=Decimal(0) if static else price(offer),
        when_idle=Reason("static_files") if static else space_rules.describe_sleep(offer, space.sleep_time_s, catalog.rules),
    )


def _endpoint(catalog: Catalog, endpoint: InferenceEndpoint) -> Resource:
    instance = (endpoint.vendor, endpoint.instance_type, endpoint.instance_size)
    offer = next(
        (
            one
            for one in catalog.offers
            if one.endpoint and (one.endpoint.vendor, one.endpoint.instance_type, one.endpoint.instance_size) == instance
        ),
        None,
    )
    seconds = endpoint.idle_timeout_s
    return Resource(
        kind="endpoint",
        name=endpoint.id,
        stage=space_rules.ENDPOINT_STAGES.get(endpoint.state) or space_rules.Stage(name=endpoint.state, billed=None),
        offer=offer,
        hardware="-".join(instance) if offer is None else offer.id,
        replicas=endpoint.replicas,
        each=price(offer),
        when_idle=Reason("never_scales_to_zero") if seconds is None else Reason("scales_to_zero", {"sleep_after_s": seconds}),
    )


def _job(catalog: Catalog, job: Job) -> Resource:
    offer = catalog.names.by_id.get(("jobs", job.flavor or ""))
    stage = space_rules.JOB_STAGES.get(job.stage) or space_rules.Stage(name=job.stage, billed=None)
    when_idle = Reason("job_ends")
    return Resource(
        kind="job", name=job.id, stage=stage, offer=offer, hardware=job.flavor, each=price(offer), when_idle=when_idle, since=job.since
    )


def _entry(of: Resource) -> ResourceEntry:
    return ResourceEntry(
        kind=of.kind,
        name=of.name,
        hardware=of.hardware,
        hardware_name=None if of.offer is None else of.offer.tier_name,
        replicas=of.replicas,
        stage=of.stage.name,
        stage_message=stage_sentence(of.stage.name),
        idling=of.idling,
        idling_message=sentence(of.when_idle) if of.stage.billed else stage_sentence(of.stage.name),
        usd_per_hour=of.billed_usd_per_hour,
        usd_per_month=per_month(of.billed_usd_per_hour) if of.by_month else None,
        usd_per_month_running=per_month(of.running) if of.by_month else None,
        since=of.since,
        can_stop=of.stage.billed is not False and of.running != 0,
    )


_NAMED = "owner/name, as /account_overview names it"


def check_resource_name(name: object) -> str:
    """The name of the Space, endpoint or Job to stop, owner/name."""
    return check_space_id(name, "name", _NAMED)


class StopArguments(Arguments):
    """Arguments of `/stop_resource`."""

    kind: Annotated[Kind, one_of(KINDS)]
    """space, endpoint or job."""
    name: Annotated[str, Checked(lambda _, value: check_resource_name(value), str, f"{_NAMED}.")]


@endpoint(writes=True, destroys=True)
def stop_resource(app: App, arguments: StopArguments, *, token: Annotated[str, own_token("stop what runs in your account")]) -> StopAnswer:
    """Stop one thing that is billed: pause a Space or an Inference Endpoint, or cancel a Job, with your own token.

    Returns:
        The stage right after.
    """
    spaces = app.spaces(token)
    owner, _, name = arguments.name.partition("/")
    if arguments.kind == "space":
        stage = spaces.pause(arguments.name).stage
    elif arguments.kind == "endpoint":
        stage = spaces.pause_endpoint(owner, name)
    else:
        spaces.cancel_job(owner, name)
        stage = "CANCELED"
    return StopAnswer(kind=arguments.kind, name=arguments.name, stage=stage, stage_message=stage_sentence(stage))
