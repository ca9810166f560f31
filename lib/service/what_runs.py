"""`/what_runs`: the models of the bundled catalog that run on one piece of hardware, judged by the rules of `/recommend`."""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterator
from typing import Annotated

from cachetools import LRUCache, cached

from lib.advisor.result import ConfiguredHardware
from lib.advisor.what_runs import (
    JudgedModel,
    count_refused,
    does_task,
    find_instead,
    find_longest_context,
    judge_catalog,
    order_misses,
    order_models,
)
from lib.answers.what_runs import MissedModel, RunningModel, WhatRunsAnswer
from lib.catalog import Catalog
from lib.catalog.host_memory import HostMemoryText
from lib.catalog.offers import Hardware as AnyHardware
from lib.catalog.offers import Offer, plug_in
from lib.catalog.rows import ById
from lib.errors import BadArgument, Busy
from lib.model.bundled import find_spec, list_ids
from lib.provenance import Caveat, Source
from lib.request.checks import MAX_NAME, describe_value
from lib.request.fields import Arguments, Asked, Checked, whole_number
from lib.request.types import Hardware
from lib.service.endpoint import App, endpoint
from lib.service.fair_turns import CALLER_GONE, FairTurns
from lib.service.recommend import MAX_ENTRIES
from lib.workload import FAMILIES, Workload

MISSES = 10
CHAT = "text-generation"


def _check_query(name: str, value: object) -> str:
    if not isinstance(value, str) or len(value) > MAX_NAME or not value.isprintable():
        accepted = f"part of a model's id such as 'qwen3', at most {MAX_NAME} characters, or an empty text"
        raise BadArgument(name, describe_value(value), accepted)
    return value.strip()


class WhatRunsArguments(Arguments):
    """Arguments of `/what_runs`."""

    behind = ("precision query limit account hours_per_day max_usd_per_month host_memory serving",)

    hardware: Hardware
    """A tier (l4x1, zero-a10g, jobs:a100-large), your cards with their number (RTX-4090, RTX-3090x2), or a Mac (M4-Max-64GB)."""
    workload: Annotated[
        Workload,
        Asked(
            "task context_tokens concurrency min_tokens_per_s max_ttft_s engine precision account hours_per_day max_usd_per_month serving"
        ),
    ] = Workload(task=CHAT)
    host_memory: HostMemoryText = None
    query: Annotated[str, Checked(_check_query, str)] = ""
    """Text that the model's id holds, in any case; empty takes every model."""
    limit: Annotated[int, whole_number(1, MAX_ENTRIES)] = 50
    """The most models in the answer."""


@endpoint(heavy=True)
def what_runs(app: App, arguments: WhatRunsArguments) -> WhatRunsAnswer:
    """Which models of the catalog run on your hardware: precision, engine, memory, speed and longest context of each, best first.

    Returns:
        The models that run, the nearest misses with the hardware that would run them, and the number of refused models by reason.
    """
    catalog, workload = app.catalog(), arguments.workload
    hardware = plug_in(find_hardware(catalog, arguments.hardware), arguments.host_memory)
    if FAMILIES.get(workload.task) == "provider":
        raise BadArgument("task", workload.task, "a task that hardware does, such as text-generation, or auto for every model")
    text = arguments.query.casefold()
    caller = app.caller()
    judged = [one for one in _judge_once(caller, hardware, workload, catalog) if text in one.spec.id.casefold()]
    running = order_models(judged)
    with _TURNS.turn(caller, _WAIT_S, ManyCatalogs):
        return _answer(arguments, judged, running, hardware, catalog)


def _answer(
    arguments: WhatRunsArguments,
    judged: list[JudgedModel],
    running: list[tuple[JudgedModel, ConfiguredHardware]],
    hardware: AnyHardware,
    catalog: Catalog,
) -> WhatRunsAnswer:
    workload = arguments.workload
    return WhatRunsAnswer(
        hardware=hardware.id,
        name=hardware.name,
        platform=hardware.platform,
        task=workload.task,
        models=tuple(_running(*pair) for pair in running[: arguments.limit]),
        models_total=len(running),
        misses=tuple(_missed(one, hardware, catalog) for one in order_misses(judged)[:MISSES]),
        refused=count_refused(judged),
        considered=len(judged),
        offer=hardware,
        caveats=tuple(_caveats(judged, workload)),
        sources=_sources(hardware),
    )


def find_hardware(catalog: Catalog, text: object) -> AnyHardware:
    """A tier or other offer, or cards and Macs that people own.

    Raises:
        UnknownHardware: none of them, with the nearest names.
    """
    found = catalog.resolve_hardware(text)
    return found if isinstance(found, Offer) else catalog.resolve_cards(found.id)


KEPT = 16
"""Verdicts on the whole catalog; a search in the names and another limit use them again."""
GROUP = 64
"""Models that are judged in one turn, in about a quarter of a second."""
_WAIT_S, _WAITING, _OWN_WAITING = 60.0, 32, 8
_TURNS = FairTurns(1, queue_slots=_WAITING, own_queue_slots=_OWN_WAITING)
"""Judging is arithmetic: one thread at a time does it, so other threads get the interpreter. Callers alternate after each group, and a
caller whose connection is closed is not served further."""


class ManyCatalogs(Busy):
    """Too many callers list models, or no turn came in time."""

    def __init__(self) -> None:
        """The sentence for callers."""
        super().__init__(f"Too many lists of models are asked for: no turn came within {_WAIT_S:g} s. Try again in a minute.")


_VERDICTS: LRUCache[Hashable, list[JudgedModel]] = LRUCache(KEPT)
_CHANGED = threading.Condition()
"""Held while `_VERDICTS` is read or written."""


def _question(_: Hashable, hardware: AnyHardware, workload: Workload, catalog: Catalog) -> Hashable:
    """The key of the verdicts, which are the same for every caller."""
    return hardware.platform, hardware.id, hardware.host, workload, ById(catalog)


@cached(_VERDICTS, key=_question, condition=_CHANGED)
def _judge_once(caller: Hashable, hardware: AnyHardware, workload: Workload, catalog: Catalog) -> list[JudgedModel]:
    """The verdicts; callers with the same question share them."""
    return [one for group in _judge_groups(caller, hardware, workload, catalog) for one in group]


def _judge_groups(caller: Hashable, hardware: AnyHardware, workload: Workload, catalog: Catalog) -> Iterator[list[JudgedModel]]:
    """The verdicts on the models of one group after another, each at the caller's turn.

    Raises:
        Busy: the connection of the caller was closed, or no turn came.
    """
    models, gone = list_ids(), CALLER_GONE.get()
    for start in range(0, len(models), GROUP):
        if gone is not None and gone():
            raise Busy("The connection was closed, so this list is not finished. Ask again.")
        with _TURNS.turn(caller, _WAIT_S, ManyCatalogs):
            specs = (find_spec(model) for model in models[start : start + GROUP])
            asked = [spec for spec in specs if spec is not None and does_task(spec, workload.task)]
            group = judge_catalog(asked, hardware, workload, catalog)
        yield group


def stream_judging(app: App, arguments: WhatRunsArguments) -> Iterator[tuple[int, int]]:
    """The number of models that are judged and of all, after each group; nothing if the verdicts are known.

    Afterwards `/what_runs` answers the same arguments at once. Closed early, it judges no further.
    """
    catalog, caller = app.catalog(), app.caller()
    hardware = plug_in(find_hardware(catalog, arguments.hardware), arguments.host_memory)
    question = (caller, hardware, arguments.workload, catalog)
    key, total = _question(*question), len(list_ids())
    with _CHANGED:
        is_known = key in _VERDICTS
    if is_known or FAMILIES.get(arguments.workload.task) == "provider":
        return
    judged: list[JudgedModel] = []
    for number, group in enumerate(_judge_groups(*question), 1):
        judged += group
        yield min(number * GROUP, total), total
    with _CHANGED:
        _VERDICTS[key] = judged


def _running(one: JudgedModel, runs_as: ConfiguredHardware) -> RunningModel:
    engine = runs_as.hosted_with
    if runs_as.memory is None or engine is None:
        raise TypeError(f"{one.spec.id} was judged without running")
    return RunningModel(
        model=one.spec.id,
        task=one.spec.task,
        parameters_total=one.spec.parameters_total,
        parameters_active=one.spec.parameters_active,
        precision=runs_as.precision,
        engine=engine,
        devices=runs_as.devices,
        gpu_layers=runs_as.gpu_layers,
        cpu_moe_layers=runs_as.cpu_moe_layers,
        repository=runs_as.repository,
        memory=runs_as.memory,
        speed=runs_as.speed,
        longest_context=find_longest_context(one),
        verdict=runs_as.verdict,
        reasons=runs_as.reasons,
    )


def _missed(one: JudgedModel, hardware: AnyHardware, catalog: Catalog) -> MissedModel:
    instead = find_instead(one, hardware, catalog)
    return MissedModel(
        model=one.spec.id,
        parameters_total=one.spec.parameters_total,
        misses_bytes=int(one.obstacles[0].values.get("missing_bytes", 0)),
        would=None if instead is None else instead.hardware,
        would_name=None if instead is None else instead.name,
        reasons=one.obstacles,
    )


def _caveats(judged: list[JudgedModel], workload: Workload) -> list[Caveat]:
    caveats = [Caveat("ordered_by_size"), Caveat("catalog_only", {"models": len(list_ids())}), Caveat("checkpoints_not_asked")]
    if judged and all(one.obstacles and one.obstacles[0].code == "context_too_short" for one in judged):
        longest = max(one.context.context_tokens for one in judged)
        caveats.append(Caveat("context_beyond_all", {"asked_tokens": workload.context_tokens, "longest_tokens": longest}))
    return caveats


def _sources(hardware: AnyHardware) -> tuple[Source, ...]:
    of_offer = hardware.sources if isinstance(hardware, Offer) else ()
    return (*of_offer, *hardware.processor.sources)
