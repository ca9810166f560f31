"""Everything that an account pays for: its Spaces, Inference Endpoints and Jobs with what they cost, and a way to stop one of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Annotated, Literal

from pydantic import Field

from lib.advisor.space_rules import (
    ENDPOINT_STAGES,
    JOB_STAGES,
    Stage,
    describe_sleep,
    find_offer,
    find_stage,
    judge_idling,
)
from lib.answers.common import SCHEMA, price_entry, source_entries, usd
from lib.answers.spaces import AccountOverview, NotListed, ResourceEntry, StopAnswer
from lib.catalog import Catalog
from lib.catalog.offers import Offer
from lib.errors import BadArgument, HubError
from lib.hub.space_answers import InferenceEndpoint, Job, Space
from lib.hub.spaces import MOST_ROWS
from lib.present.reason_words import stage_sentence
from lib.present.sentences import caveat_entries, sentence
from lib.provenance import Caveat, Reason, Source
from lib.service.arguments import MAX_NAME, Arguments, Checked, argument, check_text, one_of, own_token
from lib.service.endpoint import App
from lib.service.references import check_space_id
from lib.service.space_status import per_month, price, tier_name

Kind = Literal["space", "endpoint", "job"]
KINDS: tuple[Kind, ...] = ("space", "endpoint", "job")
STATIC = "static"


def _owner(name: str, value: object) -> str:
    return "" if value in (None, "") else check_text(name, value, "ada")[:MAX_NAME].strip()


class OverviewArguments(Arguments):
    """Arguments of `/account_overview`."""

    owner: Annotated[str, Checked(_owner, str)] = argument("", "one of your organizations; empty is your own account")


def account_overview(
    app: App, arguments: OverviewArguments, *, token: Annotated[str, own_token("list what runs in your account")]
) -> AccountOverview:
    """List the Spaces, Inference Endpoints and Jobs of your account: hardware, state, what idles, and what each costs a month.

    Returns:
        One row for each, dearest first, with the sums of what is billed now.
    """
    spaces, catalog = app.spaces(token), app.catalog()
    account = spaces.account()
    organizations = [name for name, _ in account.organizations]
    owner = arguments.owner or account.name
    if owner not in (account.name, *organizations):
        raise BadArgument("owner", owner, ", ".join((account.name, *organizations)))
    rows: list[tuple[ResourceEntry, Offer | None]] = []
    refusals: list[NotListed] = []
    caveats: list[Caveat] = []
    questions: tuple[tuple[Kind, Callable[[], Iterable[tuple[ResourceEntry, Offer | None]]]], ...] = (
        ("space", lambda: [_space_row(catalog, one) for one in spaces.list_spaces(owner)]),
        ("endpoint", lambda: [_endpoint_row(catalog, one) for one in spaces.list_endpoints(owner)]),
        ("job", lambda: [_job_row(catalog, one) for one in spaces.list_jobs(owner)]),
    )
    for kind, ask in questions:
        try:
            batch = list(ask())
        except HubError as refused:
            refusals.append({"kind": kind, "code": refused.code, "message": str(refused)})
            continue
        if len(batch) > MOST_ROWS:
            caveats.append(Caveat("rows_left_out", {"most": MOST_ROWS}, variant=kind))
        rows += batch[:MOST_ROWS]
    rows.sort(key=lambda row: (-(row[0]["usd_per_hour"] or 0), -(row[0]["usd_per_month_running"] or 0), row[0]["name"]))
    entries = [entry for entry, _ in rows]
    hourly = sum((Decimal(str(entry["usd_per_hour"] or 0)) for entry in entries), Decimal(0))
    monthly = sum((Decimal(str(entry["usd_per_month"] or 0)) for entry in entries), Decimal(0))
    unknown = sum(entry["usd_per_hour"] is None for entry in entries)
    if unknown:
        caveats.append(Caveat("bill_unknown", {"count": unknown}))
    if account.plan == "free" and owner == account.name and any(entry["hardware"] == "cpu-basic" for entry in entries):
        caveats.append(Caveat("cpu_units", {"units": catalog.rules.accounts.free_cpu_units}))
    return {
        "schema": SCHEMA,
        "account": account.name,
        "owner": owner,
        "organizations": organizations,
        "resources": entries,
        "usd_per_hour": float(hourly),
        "usd_per_month": float(monthly),
        "always_on": sum(entry["idling"] == "always_on" for entry in entries),
        "not_listed": refusals,
        "prices": price_entry(catalog.prices["spaces"]),
        "caveats": caveat_entries(caveats),
        "sources": source_entries(_sources(rows, catalog)),
    }


def _sources(rows: Iterable[tuple[ResourceEntry, Offer | None]], catalog: Catalog) -> tuple[Source, ...]:
    return (*(source for _, offer in rows if offer is not None for source in offer.sources), *catalog.rules.sleep.sources)


def _space_row(catalog: Catalog, space: Space) -> tuple[ResourceEntry, Offer | None]:
    """A static Space is files without hardware: free, whatever its stage."""
    offer = find_offer(catalog, space.hardware or space.requested_hardware)
    each = Decimal(0) if space.sdk == STATIC else price(offer)
    when_idle = Reason("static_files") if space.sdk == STATIC else describe_sleep(offer, space.sleep_time_s, catalog.rules)
    entry = _entry("space", space.id, find_stage(space.stage), each, space.replicas, when_idle)
    return {**entry, "hardware": space.hardware or space.requested_hardware, "hardware_name": _name(offer)}, offer


def _endpoint_row(catalog: Catalog, endpoint: InferenceEndpoint) -> tuple[ResourceEntry, Offer | None]:
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
    when_idle = Reason("never_scales_to_zero") if seconds is None else Reason("scales_to_zero", {"sleep_after_s": seconds})
    stage = ENDPOINT_STAGES.get(endpoint.state) or Stage(name=endpoint.state, billed=None)
    entry = _entry("endpoint", endpoint.id, stage, price(offer), endpoint.replicas, when_idle)
    return {**entry, "hardware": "-".join(instance) if offer is None else offer.id, "hardware_name": _name(offer)}, offer


def _job_row(catalog: Catalog, job: Job) -> tuple[ResourceEntry, Offer | None]:
    offer = catalog.names.by_id.get(("jobs", job.flavor or ""))
    stage = JOB_STAGES.get(job.stage) or Stage(name=job.stage, billed=None)
    entry = _entry("job", job.id, stage, price(offer), None, Reason("job_ends"))
    entry |= {"usd_per_month": None, "usd_per_month_running": None, "since": job.since}
    return {**entry, "hardware": job.flavor, "hardware_name": _name(offer)}, offer


def _name(offer: Offer | None) -> str | None:
    return None if offer is None else tier_name(offer)


def _entry(kind: Kind, name: str, stage: Stage, each: Decimal | None, replicas: int | None, when_idle: Reason) -> ResourceEntry:
    """A row without its hardware; prices are of all replicas that it has now."""
    running = None if each is None else each * max(1, replicas or 1)
    billed = running if stage.billed else Decimal(0) if stage.billed is False or running == 0 else None
    return {
        "kind": kind,
        "name": name,
        "hardware": None,
        "hardware_name": None,
        "replicas": replicas,
        "stage": stage.name,
        "stage_message": stage_sentence(stage.name),
        "idling": judge_idling(stage, running, when_idle),
        "idling_message": sentence(when_idle) if stage.billed else stage_sentence(stage.name),
        "usd_per_hour": usd(billed),
        "usd_per_month": usd(per_month(billed)),
        "usd_per_month_running": usd(per_month(running)),
        "since": None,
        "can_stop": stage.billed is not False and running != 0,
    }


class StopArguments(Arguments):
    """Arguments of `/stop_resource`."""

    kind: Annotated[Kind, one_of(KINDS)] = argument(..., "space, endpoint or job")
    name: Annotated[
        str, Checked(lambda _, value: check_space_id(value), str), Field(description="owner/name, as /account_overview names it")
    ]


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
    return {
        "schema": SCHEMA,
        "kind": arguments.kind,
        "name": arguments.name,
        "stage": stage,
        "stage_message": stage_sentence(stage),
        "caveats": [],
        "sources": [],
    }
