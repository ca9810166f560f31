"""From hardware to models: every model of a list judged on one piece of hardware by the rules of `/recommend`, and the order of the answer.

The catalog has no scores of quality, no dates and no downloads, so the order uses size as a proxy:

    comfortable and usable first, then tight and what needs a host that is only assumed, then slow (`lib.advisor.rank`);
    within each √(parameters in total · parameters of a token), the larger first

For a dense model the root is its size. For a mixture of experts it is a rule of thumb for the dense model of equal quality
(news.ycombinator.com/item?id=44857849, read 2026-11-25); that is a judgement, not a measurement. Size does not compare generations: a large
old model can be worse than a small new one.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from lib.advisor.candidates import SERVERS, family_of
from lib.advisor.context import make_context
from lib.advisor.fit import JudgeContext
from lib.advisor.judge import find_larger, judge_models, judge_offers
from lib.advisor.rank import LEVELS
from lib.advisor.result import ConfiguredHardware, Entry
from lib.catalog import Catalog
from lib.catalog.offers import Hardware, Offer
from lib.memory import fit_memory, host_memory, usable_memory
from lib.model.spec import ModelSpec
from lib.provenance import Reason
from lib.request.serving import keep_experts_in_host
from lib.request.types import AUTO
from lib.workload import FAMILIES, Family, MemoryRequest, Workload

_LENGTH_MATTERS: tuple[Family, ...] = ("generate", "vision_language")
"""Families whose prompts have the length that was asked for; the others cut their input to the model's own limit."""
_SAME_TASK = ({"feature-extraction", "sentence-similarity", "embedding"},)
"""Tasks that one kind of model does, in families whose members differ."""
_MIXED: tuple[Family, ...] = ("encode", "speech")
"""Families of unlike tasks: a model for one does not do the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedModel:
    """A model on the hardware: its configuration, or the obstacles."""

    spec: ModelSpec
    context: JudgeContext
    runs_as: ConfiguredHardware | None
    obstacles: tuple[Reason, ...] = ()

    @property
    def shortage(self) -> tuple[bool, float]:
        """How far it is from running, the nearest first: by the share of memory that is missing, then by the share of speed."""
        reason = self.obstacles[0]
        values = reason.values
        missing, needed = values.get("missing_bytes"), values.get("needed_bytes")
        if missing is not None and needed is not None:
            return False, float(missing) / float(needed)
        rate, wanted = values.get("tokens_per_s"), values.get("wanted_tokens_per_s")
        if rate is not None and wanted is not None:
            return False, 1 - float(rate) / float(wanted)
        return True, 0.0


def does_task(spec: ModelSpec, task: str) -> bool:
    """Whether a model is for this task. Models that take pictures also write text; "auto" is every model for its own task.

    >>> from lib.model.bundled import find_spec
    >>> does_task(find_spec("google/gemma-3-12b-it"), "text-generation"), does_task(find_spec("BAAI/bge-m3"), "text-generation")
    (True, False)
    """
    if task in {AUTO, spec.task}:
        return True
    asked, own = family_of(task), FAMILIES.get(spec.task)
    if asked in _MIXED:
        return any({task, spec.task} <= same for same in _SAME_TASK)
    return own == asked or (asked, own) == ("generate", "vision_language")


def judge_catalog(specs: Sequence[ModelSpec], hardware: Hardware, workload: Workload, catalog: Catalog) -> list[JudgedModel]:
    """The verdict on each model, in the order of the list. A model of text with a shorter context than asked is refused by its length.

    Raises:
        BadArgument: an unknown task.
    """
    contexts = [make_context(spec, workload, catalog) for spec in specs]
    long_enough = [
        not (context.family in _LENGTH_MATTERS and context.context_tokens < context.workload.context_tokens) for context in contexts
    ]
    verdicts = iter(judge_models(hardware, [context for context, fits in zip(contexts, long_enough, strict=True) if fits]))
    judged = []
    for spec, context, fits in zip(specs, contexts, long_enough, strict=True):
        verdict = next(verdicts) if fits else (_explain_limit(context),)
        runs_as, obstacles = (verdict, ()) if isinstance(verdict, ConfiguredHardware) else (None, verdict)
        judged.append(JudgedModel(spec=spec, context=context, runs_as=runs_as, obstacles=obstacles))
    return judged


def _explain_limit(context: JudgeContext) -> Reason:
    values = {"asked_tokens": context.workload.context_tokens, "limit_tokens": context.context_tokens}
    return Reason("context_too_short", values)


def effective_parameters(spec: ModelSpec) -> float:
    """The proxy of quality: √(total · active)."""
    return math.sqrt(spec.parameters_total * (spec.parameters_active or spec.parameters_total))


def _assumes_host(runs_as: ConfiguredHardware) -> int:
    """The least level of a configuration with experts in a host whose size is assumed; 0 of any other."""
    host = runs_as.offer.host
    return LEVELS["tight"] if runs_as.cpu_moe_layers and (host is None or host.size_assumed) else 0


def order_models(judged: Sequence[JudgedModel]) -> list[tuple[JudgedModel, ConfiguredHardware]]:
    """The models that run, each with its configuration, best first by the rule above; of one size the faster first."""

    def order(pair: tuple[JudgedModel, ConfiguredHardware]) -> tuple[int, float, float, str]:
        one, runs_as = pair
        return (
            max(LEVELS[runs_as.verdict], _assumes_host(runs_as)),
            -effective_parameters(one.spec),
            -(runs_as.speed.tokens_per_s or 0.0),
            one.spec.id,
        )

    return sorted(((one, one.runs_as) for one in judged if one.runs_as is not None), key=order)


def order_misses(judged: Sequence[JudgedModel]) -> list[JudgedModel]:
    """The models that miss memory or the asked speed, the nearest first; other obstacles have no distance."""
    misses = [one for one in judged if one.runs_as is None and not one.shortage[0]]
    return sorted(misses, key=lambda one: (*one.shortage, -effective_parameters(one.spec), one.spec.id))


def find_instead(one: JudgedModel, hardware: Hardware, catalog: Catalog) -> ConfiguredHardware | None:
    """Hardware that would run it: more of the same cards or a larger Mac; of rented hardware the cheapest on the same platform."""
    if not isinstance(hardware, Offer):
        return find_larger(hardware, one.context)
    entries = [entry for entry in judge_offers(catalog.on([hardware.platform]), one.context) if isinstance(entry, Entry)]
    return min(entries, key=lambda entry: (entry.cost.total_usd_per_month, entry.offer.id), default=None)


def find_longest_context(one: JudgedModel) -> int | None:
    """The longest request that the configuration holds, up to the model's own limit; None if nothing limits it.

    As in the verdict, a server holds one such request, other engines as many as come at the same time.
    """
    runs = one.runs_as
    engine = None if runs is None else runs.hosted_with
    if runs is None or runs.memory is None or engine is None:
        return None
    context = one.context
    request = MemoryRequest(
        precision=runs.precision,
        engine=engine,
        context_tokens=context.context_tokens,
        batch_size=1 if engine in SERVERS else context.concurrency(runs.offer),
        devices=max(1, runs.devices),
        gpu_layers=None if runs.gpu_layers < 0 else runs.gpu_layers,
        serving=keep_experts_in_host(context.workload.serving, runs.cpu_moe_layers),
        pictures=context.workload.pictures,
        media=context.workload.media,
    )
    host_bytes = host_memory(runs.offer, experts=runs.cpu_moe_layers > 0)
    fit = fit_memory(one.spec, request, usable_memory(runs.offer) or 0, runs.offer.processor, host_bytes=host_bytes)
    return fit.max_context_tokens


def count_refused(judged: Sequence[JudgedModel]) -> dict[str, int]:
    """How many models are refused, by the code of the first obstacle, the most frequent first."""
    return dict(Counter(one.obstacles[0].code for one in judged if one.obstacles).most_common())
