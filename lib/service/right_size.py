"""`/right_size`: the model of a Space that decides, the recommendation for it, and the Space's current tier compared with that."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Annotated

from lib.advisor import recommend
from lib.advisor.recommend import RightSizing
from lib.advisor.recommend import right_size as judge_tier
from lib.advisor.result import Recommendation
from lib.advisor.space_rules import check_sdk, find_offer
from lib.answers.spaces import ConsideredModel, CurrentTier, RightSizeAnswer
from lib.catalog import Catalog
from lib.catalog.offers import Offer
from lib.errors import AdvisorError, BadArgument, NoLinkedModel
from lib.hub.space_answers import Space
from lib.memory import estimate_memory
from lib.memory.pipeline import check_media
from lib.memory.resolve import limit_context
from lib.model.spec import ModelSpec
from lib.present.sentences import say, sentence
from lib.provenance import Caveat
from lib.request.checks import describe_value
from lib.request.fields import Checked
from lib.service.endpoint import App, endpoint
from lib.service.recommend import explain_paid_pick
from lib.service.reference import ACCEPTED
from lib.service.space_status import SpaceArguments, price, price_caveats
from lib.workload import FAMILIES, MemoryRequest, Workload

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
    """Compare a Space's current tier with the recommendation: what a move saves, or the reason to move up; public Spaces need no token.

    Returns:
        The decision, the current tier, the pick, the saving, and everything that was judged.
    """
    space, workload = app.spaces(token or None).look(arguments.space_id), arguments.workload
    check_sdk(None, space.id, space.sdk)
    choice = choose_model(arguments.model, space, app.models, workload)
    if choice.spec is not None:
        check_media(choice.spec, workload.pictures, workload.media)
    if workload.sdk == "auto":  # all but Gradio run in an image of their own
        workload = replace(workload, sdk="gradio" if space.sdk in {None, "gradio"} else "docker")
    flavor = space.requested_hardware or space.hardware
    current = find_offer(app.catalog(), flavor)
    catalog = allow_current(app.catalog(), current, workload)
    recommendation = recommend(choice.spec, workload, catalog)
    verdict = compare_current(current, recommendation, choice.spec, catalog)
    answer = explain_paid_pick(recommendation, datetime.now(UTC).date())
    # The reasons to be on the tier: those of the pick, or of the current tier that stays although another was picked.
    stays = verdict.reasons and verdict.reasons[0].code == "stay_does_it"
    tier = verdict.entry if stays and verdict.entry is not None else answer.pick
    return RightSizeAnswer(
        space=space.id,
        model=answer.model,
        models=tuple(ConsideredModel(id=name, total_bytes=size) for name, size in choice.total_bytes.items()),
        decision=verdict.decision,
        current=_current(flavor, current, verdict),
        pick=answer.pick,
        saving_usd_per_month=verdict.saving_usd_per_month,
        reasons=(*verdict.reasons, *(() if tier is None else tier.reasons)),
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
    """The model that decides (`None` if the Space only calls a provider), and the memory of each model as stored, for one request."""

    spec: ModelSpec | None
    total_bytes: dict[str, int]
    caveats: tuple[Caveat, ...] = ()


def choose_model(model: str, space: Space, models: Callable[[object], ModelSpec], workload: Workload) -> ChosenModel:
    """The model that was named, else the linked one that needs the most memory."""

    def needs(spec: ModelSpec) -> int:
        return estimate_memory(spec, MemoryRequest(context_tokens=limit_context(spec, workload.context_tokens)[0])).total_bytes

    if FAMILIES.get(workload.task) == "provider" and not model.strip():
        return ChosenModel(spec=None, total_bytes={})
    if model.strip():
        spec = models(model)
        return ChosenModel(spec=spec, total_bytes={spec.id: needs(spec)})
    if not space.models:
        raise NoLinkedModel("model", model, f"a model, since {space.id} links none (`models:` in its README.md): owner/name, or such as 7B")
    candidates: list[tuple[int, ModelSpec]] = []
    caveats: list[Caveat] = []
    refusal: AdvisorError | None = None
    for name in space.models[:MOST_MODELS]:
        try:
            spec = models(name)
            candidates.append((needs(spec), spec))
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


def allow_current(catalog: Catalog, current: Offer | None, workload: Workload) -> Catalog:
    """The catalog for a Space that exists: who may create one on its tier is settled, so that rule rejects nothing."""
    if current is None or "paid_plan_to_create" not in current.rules:
        return catalog
    accounts = catalog.rules.accounts
    allowed = accounts.model_copy(update={"cpu_basic_accounts": (*accounts.cpu_basic_accounts, workload.account)})
    return replace(catalog, rules=catalog.rules.model_copy(update={"accounts": allowed}))


def compare_current(current: Offer | None, recommendation: Recommendation, spec: ModelSpec | None, catalog: Catalog) -> RightSizing:
    """The current hardware and the pick of a recommendation that was made with the same catalog."""
    return judge_tier(current, _judge_current(current, recommendation, spec, catalog), recommendation, catalog.rules)


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
        why = say("cards", "space", "hardware_unnamed" if flavor is None else "not_offered", flavor=flavor or "")
    return CurrentTier(
        hardware=flavor,
        name=None if current is None else current.tier_name,
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
