"""A Space as it stands: `/space_status`, a Space watched on its way, and `/right_size`.

What the Hub told is stated beside the catalog's prices and the platform's rules. `/right_size` chooses which model decides, recommends
for it, and holds the current tier beside that.

A Space is polled until it runs on the hardware that was asked for, or until an error stage; never for ever. A stage that rests counts at
once when the Space reached it under our eyes; one that was there from the start may still be the stage before the action, and gets some
seconds. The Hub may fail to answer a few times in a row; each failure is reported, and the question is asked again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated

from lib.advisor import recommend
from lib.advisor.recommend import RightSizing
from lib.advisor.recommend import right_size as judge_tier
from lib.advisor.result import Entry, Recommendation
from lib.advisor.space_rules import HOURS_PER_MONTH, check_sdk, describe_sleep, find_offer, find_stage, resolve_sleep_time, resolve_tier
from lib.answers.spaces import (
    ActionAnswer,
    ConsideredModel,
    CurrentTier,
    RightSizeAnswer,
    SpaceProgress,
    SpaceStatus,
    TierEntry,
)
from lib.catalog import Catalog
from lib.catalog.offers import FREE_CPU_TIER, Offer
from lib.cost.usage import reservation_values
from lib.errors import AdvisorError, BadArgument, HubError, HubGarbage, HubUnreachable, NoLinkedModel, RateLimited
from lib.hub.space_answers import Runtime, Space
from lib.memory import estimate_memory
from lib.memory.pipeline import check_media
from lib.memory.resolve import limit_context
from lib.model.spec import ModelSpec
from lib.present.reason_words import stage_sentence
from lib.present.sentences import sentence
from lib.provenance import Caveat, Reason, Source, Value
from lib.request.checks import check_number, check_text, describe_value
from lib.request.fields import Arguments, Checked
from lib.request.types import look_up_later
from lib.result import fields_of
from lib.service.endpoint import App, endpoint
from lib.service.recommend import explain_paid_pick
from lib.service.reference import ACCEPTED, SpaceId
from lib.workload import FAMILIES, MemoryRequest, Sdk, Workload


class SpaceArguments(Arguments):
    """Arguments of `/space_status`, and the first of whatever else is about a Space."""

    space_id: SpaceId


@endpoint()
def space_status(app: App, arguments: SpaceArguments, *, token: str | None = None) -> SpaceStatus:
    """What a Space is doing, on which hardware, and what that costs; public Spaces need no token.

    Returns:
        The Space's stage, hardware, prices, sleep time, replicas, volumes and linked models.
    """
    return status_answer(app.spaces(token or None).look(arguments.space_id), app.catalog())


def per_month(usd_per_hour: Decimal | None) -> Decimal | None:
    """What a month of 30 days around the clock costs."""
    return None if usd_per_hour is None else usd_per_hour * HOURS_PER_MONTH


def price(offer: Offer | None) -> Decimal | None:
    """Today's price per replica and hour, where the tier is known and offered."""
    return None if offer is None else offer.usd_per_hour


def tier_entry(catalog: Catalog, flavor: str | None, told_sleep_s: int | None) -> TierEntry:
    """A flavor that the Hub told, with what it costs; `told_sleep_s` is the Hub's word on its sleep (`None`: the default)."""
    offer = find_offer(catalog, flavor)
    return TierEntry(
        hardware=flavor,
        name=None if offer is None else tier_name(offer),
        usd_per_hour=price(offer),
        usd_per_month=per_month(price(offer)),
        sleep_time_s=resolve_sleep_time(offer, told_sleep_s, catalog.rules),
    )


def tier_name(offer: Offer) -> str:
    """The tier's name; ZeroGPU is one tier with two sizes."""
    return offer.traits.label if offer.traits.per_call else offer.name


def status_answer(space: Space, catalog: Catalog) -> SpaceStatus:
    """What a Space is doing, on what, and what that costs."""
    now, requested = find_offer(catalog, space.hardware), find_offer(catalog, space.requested_hardware)
    changing = is_changing(space)
    each = price(now)
    total = None if each is None else each * max(1, space.replicas or 1)
    at, bound_for = find_stage(space.stage), requested if changing else now
    return SpaceStatus(
        space=space.id,
        sdk=space.sdk,
        private=space.private,
        stage=at.name,
        stage_message=stage_sentence(at.name),
        settled=at.settled and not changing,
        failed=at.failed,
        error=space.error,
        billed_now=at.billed and space.sdk != "static" and (each is None or each > 0),  # free hardware is never billed
        hardware=space.hardware,
        hardware_name=None if now is None else tier_name(now),
        usd_per_hour=each,
        usd_per_month=per_month(each),
        requested_hardware=space.requested_hardware,
        requested_usd_per_hour=price(requested),
        requested_usd_per_month=per_month(price(requested)),
        changing=changing,
        sleep_time_s=resolve_sleep_time(bound_for, space.sleep_time_s, catalog.rules),
        sleep_message=sentence(describe_sleep(bound_for, space.sleep_time_s, catalog.rules)),
        replicas=space.replicas,
        requested_replicas=space.requested_replicas,
        total_usd_per_hour=total,
        total_usd_per_month=per_month(total),
        storage=space.storage,
        volumes=space.volumes,
        models=space.models,
        prices=catalog.prices["spaces"],
        caveats=_status_caveats(space, now, requested, catalog),
        sources=_sources(now, requested if changing else None, catalog),
    )


def is_changing(space: Runtime) -> bool:
    """Whether other hardware than the current was asked for; a Space at rest (paused, asleep) has none, which is not a change."""
    if space.requested_hardware is None or space.requested_hardware == space.hardware:
        return False
    return space.hardware is not None or not find_stage(space.stage).settled


def action_answer(space_id: str, after: Runtime, catalog: Catalog, caveats: tuple[Caveat, ...] = ()) -> ActionAnswer:
    """The state right after an action."""
    flavor = after.requested_hardware or after.hardware
    offer = find_offer(catalog, flavor)
    at = find_stage(after.stage)
    return ActionAnswer(
        space=space_id,
        stage=at.name,
        stage_message=stage_sentence(at.name),
        hardware=after.hardware,
        requested_hardware=after.requested_hardware,
        usd_per_hour=price(offer),
        usd_per_month=per_month(price(offer)),
        sleep_time_s=resolve_sleep_time(offer, after.sleep_time_s, catalog.rules),
        prices=catalog.prices["spaces"],
        caveats=(*caveats, *price_caveats(offer)),
        sources=_sources(offer, None, catalog),
    )


def running_costs(space_id: str, after: Runtime, catalog: Catalog) -> tuple[Caveat, ...]:
    """What a Space that was started costs from now on, where that is something."""
    offer = find_offer(catalog, after.requested_hardware or after.hardware)
    if offer is None or not offer.usd_per_hour:
        return ()
    return (Caveat("billed", {"space": space_id, "usd_per_hour": offer.usd_per_hour, "hardware": offer.id}),)


def price_caveats(offer: Offer | None) -> tuple[Caveat, ...]:
    """What to tell about a price that was not read from the platform's own list today."""
    if offer is None or not offer.usd_per_hour or offer.price_basis == "live":
        return ()
    bundled: dict[str, Value] = {"hardware": offer.id, "checked": offer.checked}
    return (Caveat("price_bundled", bundled, variant="" if offer.price_verified else "unverified"),)


def free_cpu_caveats(hardware: str | None, catalog: Catalog) -> tuple[Caveat, ...]:
    """How much of the free CPU a free account may run at once, where that is the hardware."""
    return (Caveat("cpu_units", {"units": catalog.rules.accounts.free_cpu_units}),) if hardware == FREE_CPU_TIER else ()


def _status_caveats(space: Space, now: Offer | None, requested: Offer | None, catalog: Catalog) -> tuple[Caveat, ...]:
    caveats = [*price_caveats(now), *free_cpu_caveats(space.hardware, catalog)]
    if space.hardware is not None and now is None:
        caveats.append(Caveat("tier_unknown", {"hardware": space.hardware}, variant="price"))
    if now is not None and now.status == "retired":
        caveats.append(Caveat("retired", {"hardware": now.id, "since": str(now.since)}))
    if is_changing(space) and requested is not None:
        caveats.append(Caveat("changing", {"hardware": requested.id, "current": space.hardware or "no hardware"}))
    if (space.replicas or 1) > 1:
        caveats.append(Caveat("replicas"))
    if now is not None and now.traits.per_call:
        sleep = sentence(describe_sleep(now, space.sleep_time_s, catalog.rules))
        reservation = sentence(Reason("zerogpu_reservation", reservation_values(catalog.rules.zerogpu)))
        caveats.append(Caveat("zerogpu", {"sleep": sleep, "reservation": reservation}))
    if space.storage:
        caveats.append(Caveat("storage_retired"))
    return tuple(caveats)


def _sources(now: Offer | None, requested: Offer | None, catalog: Catalog) -> tuple[Source, ...]:
    offers = [offer for offer in (now, requested) if offer is not None]
    return (*(source for offer in offers for source in offer.sources), *catalog.rules.sleep.sources)


MAX_WATCH_S = 3_600
FIRST_S, LONGEST_S, GROWTH = 2.0, 10.0, 1.15  # between two looks: 2 s at first, 10 s after about a minute
CROWDED_S = 30.0
BEAT_S = 15.0
GRACE_S = 30.0
FAILURES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class _View:
    """What is known of the Space; `failures` looks in a row went wrong, the last one by `trouble`."""

    space: Space
    failures: int = 0
    trouble: HubError | None = None

    def next(self, look: Callable[[], Runtime]) -> _View:
        """After one more look."""
        try:
            runtime = look()
        except (HubUnreachable, HubGarbage, RateLimited) as trouble:
            if self.failures >= FAILURES:
                raise
            return replace(self, failures=self.failures + 1, trouble=trouble)
        now = {field.name: getattr(runtime, field.name) for field in fields(Runtime) if field.name != "id"}
        return _View(space=replace(self.space, **now))

    def has_arrived(self, hardware: str | None) -> bool:
        """Whether it runs on what was asked for; without a name, on what the Hub says was asked for."""
        at = self.space
        return self.trouble is None and find_stage(at.stage).running and not is_changing(at) and hardware in {None, at.hardware}

    @property
    def rests(self) -> bool:
        """Whether nothing more will happen by itself, as far as this look tells."""
        at = find_stage(self.space.stage)
        return self.trouble is None and at.settled and not (at.running and is_changing(self.space))


class WatchArguments(SpaceArguments):
    """Arguments of watching a Space."""

    hardware: Annotated[object, look_up_later(str)] = ""
    seconds: Annotated[
        float | None, Checked(lambda name, value: None if value is None else check_number(name, value, 0, MAX_WATCH_S), float | None)
    ] = None


def watch(app: App, arguments: WatchArguments, *, token: str | None = None) -> Iterator[SpaceProgress]:
    """The Space as it changes, until it runs on `hardware` (or what was asked for), rests in another stage, or `seconds` are over.

    It is given at each change and at least every 15 s. By default it is watched for as long as the platform gives an app to start. Closing
    the iterator ends it.

    Raises:
        HubError: the Hub refuses, or failed to answer too often in a row.
    """
    catalog = app.catalog()
    limit = catalog.rules.sleep.startup_timeout_s if arguments.seconds is None else arguments.seconds
    wanted = resolve_tier(catalog, check_text("hardware", arguments.hardware, "l4x1")).offer.id if arguments.hardware else None
    spaces, clock = app.spaces(token or None), app.time.clock
    began = clock()
    view = first = _View(space=spaces.look(arguments.space_id))
    last_view: _View | None = None
    reported_s = looked = began
    pause = FIRST_S
    while True:
        now = clock()
        arrived = view.has_arrived(wanted)
        left = view.space.stage != first.space.stage or now - began >= GRACE_S
        done = arrived or (view.rests and left and not find_stage(view.space.stage).running) or now - began >= limit
        done = done or (view.rests and now - began >= GRACE_S)  # it runs, and not on what was asked for
        if done or view != last_view or now - reported_s >= BEAT_S:
            yield _progress(view, app.catalog(), now - began, done=done, arrived=arrived)
            last_view, reported_s = view, clock()
        if done:
            return
        due = looked + (CROWDED_S if isinstance(view.trouble, RateLimited) else pause)
        app.time.sleep(max(0.05, min(due, reported_s + BEAT_S, began + limit) - clock()))
        if clock() >= due:
            view, looked, pause = view.next(lambda: spaces.runtime(arguments.space_id)), clock(), min(LONGEST_S, pause * GROWTH)


def _progress(view: _View, catalog: Catalog, elapsed_s: float, *, done: bool, arrived: bool) -> SpaceProgress:
    trouble = None if view.trouble is None else str(view.trouble)
    status = fields_of(status_answer(view.space, catalog))
    return SpaceProgress(**status, elapsed_s=round(elapsed_s, 1), done=done, arrived=arrived, trouble=trouble)


MOST_MODELS = 5


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise BadArgument(name, describe_value(value), f"{ACCEPTED}, as text; empty takes those that the Space links")
    return value


class RightSizeArguments(SpaceArguments):
    """Arguments of `/right_size`."""

    model: Annotated[str, Checked(_text, str)] = ""
    """A Hub id, the text of a config.json, or a parameter count; empty takes the models that the Space links."""
    workload: Workload = Workload()


@endpoint()
def right_size(app: App, arguments: RightSizeArguments, *, token: str | None = None) -> RightSizeAnswer:
    """The recommendation beside a Space's current tier: what moving saves, or the reason to move up; public Spaces need no token.

    Returns:
        The decision, the current tier, the pick, the saving, and everything that was judged.
    """
    space, workload = app.spaces(token or None).look(arguments.space_id), arguments.workload
    check_sdk(None, space.id, space.sdk)
    choice = choose_model(arguments.model, space, app.models, workload)
    if choice.spec is not None:
        check_media(choice.spec, workload.pictures, workload.media)
    workload = replace(workload, sdk=_sdk(space, workload))
    flavor = space.requested_hardware or space.hardware
    current = find_offer(app.catalog(), flavor)
    catalog = _there_already(app.catalog(), current, workload)
    recommendation = recommend(choice.spec, workload, catalog)
    verdict = judge_tier(current, _judge_current(current, recommendation, choice.spec, catalog), recommendation, catalog.rules)
    answer = explain_paid_pick(recommendation, datetime.now(UTC).date())
    return RightSizeAnswer(
        space=space.id,
        model=answer.model,
        models=tuple(ConsideredModel(id=name, total_bytes=size) for name, size in choice.total_bytes.items()),
        decision=verdict.decision,
        current=_current(flavor, current, verdict),
        pick=answer.pick,
        saving_usd_per_month=verdict.saving_usd_per_month,
        reasons=(*verdict.reasons, *_why(verdict, answer.pick)),
        ranked=answer.ranked,
        rejected=answer.rejected,
        provider=answer.provider,
        notes=answer.notes,
        prices=answer.prices,
        caveats=(*choice.caveats, *_current_caveats(space, current, verdict, workload), *answer.caveats),
        sources=answer.sources,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenModel:
    """The model that decides (`None` where the Space only calls a provider), and what each of the Space's models takes."""

    spec: ModelSpec | None
    total_bytes: dict[str, int]
    caveats: tuple[Caveat, ...] = ()


def choose_model(model: str, space: Space, models: Callable[[object], ModelSpec], workload: Workload) -> ChosenModel:
    """The model that was named, else the linked one that needs the most memory.

    Raises:
        NoLinkedModel: none is named, and the Space links none.
        AdvisorError: the named one cannot be resolved, or none of the linked ones.
    """
    if FAMILIES.get(workload.task) == "provider" and not model.strip():
        return ChosenModel(spec=None, total_bytes={})
    if model.strip():
        spec = models(model)
        return ChosenModel(spec=spec, total_bytes={spec.id: _needs(spec, workload)})
    if not space.models:
        raise NoLinkedModel("model", model, f"a model, since {space.id} links none (`models:` in its README.md): owner/name, or such as 7B")
    candidates: list[tuple[int, ModelSpec]] = []
    caveats: list[Caveat] = []
    refusal: AdvisorError | None = None
    for name in space.models[:MOST_MODELS]:
        try:
            spec = models(name)
            candidates.append((_needs(spec, workload), spec))
        except AdvisorError as error:
            refusal = error
            caveats.append(Caveat("model_left_out", {"model": name, "failure": str(error)}))
    if not candidates:
        raise refusal if refusal is not None else BadArgument("model", model, "a model: owner/name, or such as 7B")
    if len(space.models) > MOST_MODELS:
        caveats.append(Caveat("models_left_out", {"space": space.id, "linked": len(space.models), "read": MOST_MODELS}))
    spec = max(candidates, key=lambda one: one[0])[1]
    if len(candidates) > 1:
        caveats.append(Caveat("largest_decides", {"model": spec.id, "linked": len(candidates)}))
    return ChosenModel(spec=spec, total_bytes={one.id: size for size, one in candidates}, caveats=tuple(caveats))


def _needs(spec: ModelSpec, workload: Workload) -> int:
    """Memory as stored, for one request of the asked context."""
    return estimate_memory(spec, MemoryRequest(context_tokens=limit_context(spec, workload.context_tokens)[0])).total_bytes


def _why(verdict: RightSizing, pick: Entry | None) -> tuple[Reason, ...]:
    """Reasons for the tier to be on: the pick's, or those of the tier that stays although another was picked."""
    if verdict.reasons and verdict.reasons[0].code == "stay_does_it" and verdict.entry is not None:
        return verdict.entry.reasons
    return () if pick is None else pick.reasons


def _there_already(catalog: Catalog, current: Offer | None, workload: Workload) -> Catalog:
    """The catalog for a Space that exists: who may create one on its tier is settled, so that rule rejects nothing."""
    if current is None or "paid_plan_to_create" not in current.rules:
        return catalog
    accounts = catalog.rules.accounts
    allowed = accounts.model_copy(update={"cpu_basic_accounts": (*accounts.cpu_basic_accounts, workload.account)})
    return replace(catalog, rules=catalog.rules.model_copy(update={"accounts": allowed}))


def _sdk(space: Space, workload: Workload) -> Sdk:
    """What the Space is to be built with: as asked, else as it is; all but Gradio run in an image of their own."""
    if workload.sdk == "auto":
        return "gradio" if space.sdk in {None, "gradio"} else "docker"
    return workload.sdk


def _judge_current(
    current: Offer | None, recommendation: Recommendation, spec: ModelSpec | None, catalog: Catalog
) -> Recommendation | None:
    """A recommendation that judged the current tier: the one at hand, or one for its platform alone."""
    if current is None or not current.listed:
        return None
    if current.platform in recommendation.workload.platforms:
        return recommendation
    return recommend(spec, replace(recommendation.workload, platforms=(current.platform,)), catalog)


def _current(flavor: str | None, current: Offer | None, verdict: RightSizing) -> CurrentTier:
    if verdict.entry is not None:
        why = " ".join(sentence(reason) for reason in verdict.entry.reasons[:1])
    elif verdict.rejection is not None:
        why = sentence(verdict.rejection.reason)
    else:
        why = "The platform does not name this Space's hardware." if flavor is None else f"{flavor} is not among the tiers offered today."
    return CurrentTier(
        hardware=flavor,
        name=None if current is None else tier_name(current),
        usd_per_hour=price(current),
        total_usd_per_month=verdict.usd_per_month,
        fits=verdict.fits,
        reason=why,
        entry=verdict.entry,
    )


def _current_caveats(space: Space, current: Offer | None, verdict: RightSizing, workload: Workload) -> list[Caveat]:
    caveats = list(price_caveats(current))
    if space.sdk is None:
        caveats.append(Caveat("sdk_unknown", {"space": space.id}))
    if space.requested_hardware is not None and space.requested_hardware != space.hardware:
        caveats.append(Caveat("changing", {"space": space.id, "hardware": space.requested_hardware}, variant="taken"))
    if space.replicas is not None and space.replicas > 1:
        caveats.append(Caveat("replicas", {"space": space.id, "replicas": space.replicas}, variant="workload"))
    if space.sleep_time_s is not None and space.sleep_time_s > 0 and verdict.usd_per_month:
        caveats.append(Caveat("sleeps", {"hours": workload.hours_per_day, "sleep_after_s": space.sleep_time_s}))
    return caveats
