"""From a model and a workload to hardware: every listed offer judged, the rest ranked; and the answer compared with a Space's own tier.

    recommend(spec, Workload(context_tokens=8192), catalog.load()).pick.offer.id

Nothing here reads the network, the clock or the environment: prices come with the catalog, and whether a provider serves the model
is an argument, because only the Hub knows it. The answer also has the cost of paying a provider per token.
Work that providers sell per token: chat with and without images, vectors, pictures, clips, transcription
(huggingface.co/docs/inference-providers, table of partners, 2026-08-21).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Literal

from lib.advisor.candidates import SERVERS, task_of
from lib.advisor.context import make_context
from lib.advisor.explain import price_offer
from lib.advisor.fit import JudgeContext
from lib.advisor.judge import judge_offers, judge_own
from lib.advisor.lengths import describe_lengths, describe_pick_lengths
from lib.advisor.near_misses import find_near_misses
from lib.advisor.rank import NEARLY_AS_FAST, rank_entries
from lib.advisor.result import DAYS_PER_MONTH, Entry, OwnHardware, ProviderOption, Recommendation, Rejection, Speed
from lib.catalog import Catalog
from lib.catalog.offers import Hardware, Offer, tier_of
from lib.catalog.rules import PlatformRules, ProviderCredits
from lib.model.spec import ModelSpec
from lib.platforms import PLATFORMS
from lib.provenance import Caveat, Reason, Value
from lib.workload import Workload, visitors_plan

SERVED_TASKS = frozenset(
    {
        "text-generation", "image-text-to-text", "feature-extraction", "sentence-similarity", "text-to-image", "text-to-video",
        "automatic-speech-recognition", "inference-api", "inference-provider",
    }
)  # fmt: skip


def recommend(
    spec: ModelSpec | None,
    workload: Workload,
    catalog: Catalog,
    *,
    live_providers: tuple[str, ...] | None = None,
    published: Mapping[str, str] | None = None,
    own: Hardware | None = None,
) -> Recommendation:
    """Judge every listed offer of the workload's platforms.

    Args:
        spec: the model; `None` only for a Space that calls an API (task `inference-api`).
        workload: its work; `platforms` names exactly the platforms to judge ("spaces" does not imply "zerogpu" here).
        catalog: offers with their prices, and the platforms' rules.
        live_providers: who serves the model per token today, as the Hub says; `None` when it was not asked.
        published: quantized checkpoints of the model that the Hub lists, repository by format; `None` when it was not asked.
        own: cards that the visitor owns, judged by the same rules; they have no price and no order.

    Raises:
        BadArgument: an unknown task or platform, or neither a model nor a task that needs none.
    """
    task = task_of(workload.task, spec)
    context = make_context(spec, workload, catalog, published)
    family, context_tokens, rules = context.family, context.context_tokens, catalog.rules
    hosted = None if context.model is None else context.model.spec
    # Judge every offer, and order those that qualify.
    offers = catalog.on(workload.platforms)
    verdicts = judge_offers(offers, context)
    order = rank_entries([verdict for verdict in verdicts if isinstance(verdict, Entry)], workload.priority, family)
    cut = _explain_cut(workload, context_tokens)
    if cut and workload.context_tokens != Workload().context_tokens:  # nobody asked for the default
        order = tuple(replace(entry, reasons=(*cut, *entry.reasons)) for entry in order)
    order = describe_pick_lengths(order, context)
    pick = order[0] if order else None
    # The others, by platform and price.
    rejected = [verdict for verdict in verdicts if isinstance(verdict, Rejection)]
    rejected.sort(key=lambda each: (PLATFORMS.index(each.offer.platform), each.offer.usd_per_hour or Decimal(0), each.offer.id))
    # Sources and caveats of all that the answer uses.
    held = None if pick is None or pick.memory is None else pick.memory.estimate
    offer = None if pick is None else pick.offer
    parts = (hosted, offer, held, rules.zerogpu, rules.accounts, rules.providers, None if own is None else own.silicon)
    sources = tuple(source for part in parts if part is not None for source in part.sources)
    caveats = tuple(caveat for part in (hosted, held) if part is not None for caveat in part.caveats)
    return Recommendation(
        model="" if spec is None else spec.id,
        pick=pick,
        ranked=order,
        ranked_total=len(order),
        rejected=tuple(rejected),
        rejected_total=len(rejected),
        prices=catalog.prices["spaces"],
        provider=consider_providers(task, spec.id if spec else "", workload, rules.providers, live_providers),
        workload=workload,
        task=task,
        family=family,
        usual=context.speed_request,
        spec=hosted,
        notes=(*_notes(workload, context_tokens, order), *find_near_misses(pick, rejected, offers, context)),
        caveats=(*caveats, *_describe_counting(order, context)),
        sources=sources,
        own=None if own is None else _judge_own(own, context),
    )


def _judge_own(own: Hardware, context: JudgeContext) -> OwnHardware | None:
    """The verdict on the visitor's own cards, with their memory at full length."""
    judged = judge_own(own, context)
    if judged is None or judged.runs_as is None:
        return judged
    return replace(judged, runs_as=describe_lengths(judged.runs_as, context))


def _explain_cut(workload: Workload, context_tokens: int) -> tuple[Reason, ...]:
    """That less is counted than was asked: the first reason of every entry, and a note."""
    values: dict[str, Value] = {"asked_tokens": workload.context_tokens, "limit_tokens": context_tokens}
    return (Reason("context_clamped", values),) if context_tokens < workload.context_tokens else ()


def _notes(workload: Workload, context_tokens: int, order: Sequence[Entry]) -> tuple[Reason, ...]:
    pick = order[0] if order else None
    notes = []
    if context_tokens > workload.context_tokens:
        notes.append(Reason("context_raised", {"asked_tokens": workload.context_tokens, "held_tokens": context_tokens}))
    notes += _explain_cut(workload, context_tokens)
    if pick is None:
        notes.append(Reason("nothing_fits"))
        return tuple(notes)
    notes.append(_explain_pick(workload, order))
    notes += _describe_speed(pick.speed)
    if workload.min_tokens_per_s and pick.speed.tokens_per_s is None:
        notes.append(Reason("rate_not_judged"))
    if workload.max_ttft_s and pick.speed.ttft_s is None:
        notes.append(Reason("first_token_not_judged"))
    if workload.account == "anonymous":
        notes.append(Reason("account_needed"))
    return tuple(notes)


def _explain_pick(workload: Workload, order: Sequence[Entry]) -> Reason:
    """Why the first one is first, in the words of the order that `lib.advisor.rank` made."""
    pick = order[0]
    code = f"picked_{workload.priority}"
    if workload.priority == "fastest":
        return Reason(code, {"within_percent": round(100 * NEARLY_AS_FAST)})
    if workload.priority == "cheapest":
        return Reason(code)
    free = any(entry.offer.traits.per_call and entry.verdict in {"comfortable", "usable"} for entry in order)
    rented_cpu = pick.offer.silicon is None and pick.cost.total_usd_per_month > 0
    variant = {"comfortable": "cpu" if rented_cpu and free else "", "usable": "usable"}.get(pick.verdict, "short")
    return Reason(code, variant=variant)


def _describe_speed(speed: Speed) -> list[Reason]:
    """Note on the speeds: predictions for one shape of request, or bounds."""
    if speed.predicted is None:
        bounded = speed.decode_tokens_per_s_upper_bound is not None or speed.request_s_lower_bound is not None
        return [Reason("speed_is_a_bound")] if bounded else []
    if speed.predicted.tpot_s is None:
        return []
    request = speed.predicted.request
    values: dict[str, Value] = {
        "prompt_tokens": request.prompt_tokens,
        "output_tokens": request.output_tokens,
        "concurrency": request.concurrency,
    }
    return [Reason("speed_is_predicted", values)]


def _describe_counting(ranked: tuple[Entry, ...], context: JudgeContext) -> Iterator[Caveat]:
    """How requests that come together are counted, where that is less than all of them at full length (`lib.advisor.fit`)."""
    at_once, context_tokens, usual_tokens = context.workload.concurrency, context.context_tokens, context.held_tokens
    if at_once == 1:
        return
    if usual_tokens < context_tokens and any(entry.engine in SERVERS for entry in ranked if entry.memory is not None):
        yield Caveat("usual_lengths", {"concurrency": at_once, "usual_tokens": usual_tokens, "context_tokens": context_tokens})
    if any(entry.offer.traits.per_call and entry.memory is not None for entry in ranked):
        yield Caveat("calls_not_shared", {"concurrency": at_once})


def consider_providers(
    task: str, model_id: str, workload: Workload, rules: ProviderCredits, live: tuple[str, ...] | None
) -> ProviderOption:
    """Paying per token instead of renting. `live` names the providers that serve this model now; `None`: the Hub was not asked."""
    if task not in SERVED_TASKS:
        return ProviderOption(suits=False, available=None, providers=(), reasons=(Reason("provider_task_not_served", {"task": task}),))
    values: dict[str, Value] = {
        "model": model_id,
        "credit_usd": rules.monthly_usd[workload.account],
        "account": workload.account,
        "markup_percent": rules.markup_percent,
        "requests_per_month": workload.requests_per_day * DAYS_PER_MONTH,
    }
    if live is None:
        return ProviderOption(suits=True, available=None, providers=(), reasons=(Reason("provider_unknown", values),))
    code = "provider_live" if live else "provider_none"
    values["providers"] = ", ".join(live)
    return ProviderOption(suits=True, available=bool(live), providers=live, reasons=(Reason(code, values),))


Decision = Literal["stay", "move", "none"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RightSizing:
    """The current tier under the workload, and the decision.

    `fits` is `None` if the tier is not known or no longer offered; then nothing is said about it. `saving_usd_per_month` is negative
    where the pick costs more, `None` if one of the two has no price.
    """

    decision: Decision
    fits: bool | None
    entry: Entry | None
    rejection: Rejection | None
    usd_per_month: Decimal | None
    saving_usd_per_month: Decimal | None
    reasons: tuple[Reason, ...]


def right_size(
    current: Offer | None, on_current: Recommendation | None, recommendation: Recommendation, rules: PlatformRules
) -> RightSizing:
    """Compare the pick of `recommendation` with the current tier; `on_current` is the recommendation in which that tier was judged.

    Raises:
        BadCatalog: the current tier is listed without a price.
    """
    entry = rejection = None
    if on_current is not None and current is not None:
        entry = next((each for each in on_current.ranked if _tier(each.offer) == _tier(current)), None)
        sizes = [each for each in on_current.rejected if entry is None and _tier(each.offer) == _tier(current)]
        rejection = max(sizes, key=lambda each: each.offer.vram_bytes or 0, default=None)  # the largest size comes closest
    fits = True if entry else False if rejection else None
    month = None  # with as many machines as the workload takes there, one where it is not known to do it
    if entry is not None:
        month = entry.cost.total_usd_per_month
    elif current is not None and current.usd_per_hour is not None:
        month = price_offer(current, recommendation.workload, rules).total_usd_per_month
    pick = recommendation.pick
    saving = None if month is None or pick is None else month - pick.cost.total_usd_per_month
    stays = pick is not None and current is not None and _tier(pick.offer) == _tier(current)
    # Weights in fewer bits are not a reason to move, unless another precision was asked for (then the tier does not do it); more speed is
    # one only for those who put it first.
    does_it_well = entry is not None and entry.verdict in {"comfortable", "usable"} and recommendation.workload.priority != "fastest"
    enough = saving is not None and saving < 0 and does_it_well
    decision: Decision = "none" if pick is None else "stay" if stays or enough else "move"
    return RightSizing(
        decision=decision,
        fits=fits,
        entry=entry,
        rejection=rejection,
        usd_per_month=month,
        saving_usd_per_month=saving,
        reasons=(
            *_reasons(decision, current, entry, rejection, pick, saving),
            *_explain_move(decision, current, pick, recommendation, rules),
        ),
    )


def _tier(offer: Offer) -> tuple[str, str]:
    return (offer.platform, tier_of(offer.id))


def _reasons(
    decision: Decision, current: Offer | None, entry: Entry | None, rejection: Rejection | None, pick: Entry | None, saving: Decimal | None
) -> list[Reason]:
    shared: dict[str, Value] = {"current": "no hardware" if current is None else current.tier_name}
    if pick is None:
        return [Reason("nothing_else_fits" if entry else "nothing_fits_here", shared)]
    values = shared | {"pick": pick.offer.name}
    reasons = []
    if decision == "stay" and current is not None and entry is not None and _tier(pick.offer) != _tier(current):
        more = values | {"usd_per_month": abs(saving or Decimal(0))}
        return [Reason("stay_does_it", values), Reason(_better(entry, pick), values), Reason("costs_more", more)]
    if decision == "stay":
        reasons.append(Reason("stay", values))
        if current is not None and pick.offer.id != current.id:
            reasons.append(Reason("stay_declare_size", values | {"size": pick.offer.id}))
        return reasons
    if rejection is not None:
        reasons.append(Reason("current_does_not_do_it", values))
    elif entry is None:
        reasons.append(Reason("current_not_judged", values))
    elif saving is not None and saving <= 0:
        reasons.append(Reason(_better(entry, pick), values))
    if saving is not None:
        code = "saves" if saving > 0 else "costs_more" if saving < 0 else "costs_the_same"
        reasons.append(Reason(code, values | {"usd_per_month": abs(saving)}))
    if not pick.offer.traits.runs_spaces:
        reasons.append(Reason("pick_elsewhere", values | {"platform": pick.offer.platform}))
    return reasons


def _explain_move(
    decision: Decision, current: Offer | None, pick: Entry | None, recommendation: Recommendation, rules: PlatformRules
) -> Iterator[Reason]:
    """Changes in the code and for visitors when a Space with hardware of its own moves to one that lends a card for each call."""
    if decision != "move" or current is None or pick is None or not pick.offer.traits.per_call or current.traits.per_call:
        return
    zerogpu, workload = rules.zerogpu, recommendation.workload
    seconds = pick.speed.likely_request_s or zerogpu.default_duration_s
    yield Reason("move_changes_code", {"seconds": seconds, "size": zerogpu.size(pick.offer.id).size})
    plan = visitors_plan(workload.account, workload.visitor_account)
    quotas: dict[str, Value] = {"account": plan, "quota_s": zerogpu.daily_quota_s[plan], "anonymous_s": zerogpu.daily_quota_s["anonymous"]}
    yield Reason("move_changes_visits", quotas | {"wait_s": zerogpu.queue_wait_limit_s})


def _better(entry: Entry, pick: Entry) -> str:
    """Advantage of the pick over the current tier, other than a lower price."""
    if pick.step < entry.step:
        return "pick_keeps_precision"
    if entry.verdict == "tight" and pick.verdict in {"comfortable", "usable"}:
        return "pick_has_room"
    if pick.speed.tokens_per_s and entry.speed.tokens_per_s and pick.speed.tokens_per_s > entry.speed.tokens_per_s:
        return "pick_is_faster"
    return "pick_ranks_first"
