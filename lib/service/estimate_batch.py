"""`/estimate_batch`: a pile of work by a deadline: hours, price and machines on each kind of hardware, and the command that starts it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Annotated

from lib.advisor.candidates import family_of, task_of
from lib.advisor.fit import HostedModel, JudgeContext
from lib.advisor.rank import weigh
from lib.advisor.speed import shape_request
from lib.answers.batch import BatchAnswer, BatchOption, BatchRejection
from lib.catalog.offers import Offer
from lib.cost.usage import MAX_REPLICAS
from lib.engines import traits_of
from lib.errors import BadArgument
from lib.laws.price import HOUR_S
from lib.laws.shards import shards_needed, split_work
from lib.laws.start_up import COLD_START, cold_start
from lib.memory.media import resolve_media
from lib.memory.pipeline import check_media
from lib.memory.result import download_bytes, stored_bytes
from lib.model.spec import ModelSpec
from lib.platforms import PLATFORMS, TRAITS
from lib.present.app_files import find_kind, load_kinds
from lib.present.batch_files import batch_job
from lib.present.releases import load_versions
from lib.present.snippets import Start, command_words, job_command, repeat_command
from lib.provenance import Caveat, Reason, Source, Value
from lib.request.checks import check_choices
from lib.request.fields import Arguments, Checked, Form, number, whole_number
from lib.request.media import MediaRequest
from lib.request.serving import DEFAULTS, ServingSettings
from lib.request.types import ALL, LONGEST_SOUND_S, MOST_IMAGES, AnyEngine, Model, Precision, Tokens
from lib.service.batch_capacity import MachineCapacity, find_capacity
from lib.service.endpoint import App, endpoint
from lib.workload import AS_THE_PIPELINE, Family, Workload

MOST_ITEMS = 10**12
MINUTE_S = 60
LONGEST_DEADLINE_H = 8_784
CROWD = 256
"""Requests at the same time if nothing bounds them."""
TIMEOUT_FACTOR = 2
"""The timeout in the command, as a multiple of the predicted hours: predictions of speed err by less. A judgement."""
PLACES = tuple(name for name, row in TRAITS.items() if row.on_hub and not row.per_call and not row.owned and not row.rents_tpus)
UNITS: Mapping[Family, str] = {"encode": "rows", "image": "pictures", "video": "clips", "speech": "hours of sound"}
SOME_MODEL = "organization/model"
CHECKED = "2026-11-25"
Order = tuple[object, ...]


def _check_places(name: str, value: object) -> tuple[str, ...]:
    names = check_choices(name, value, (*PLACES, ALL))
    return PLACES if ALL in names else names


class BatchArguments(Arguments):
    """Arguments of `/estimate_batch`."""

    model: Model
    items: Annotated[int, whole_number(1, MOST_ITEMS), Form("Items", group="batch")]
    """Items to work through: documents to answer, rows to embed, pictures or clips to make, hours of sound to transcribe."""
    prompt_tokens: Tokens = 512
    """Tokens of an item, on average."""
    output_tokens: Tokens = 256
    """Tokens of an answer, on average; of sound, of each half minute."""
    images: Annotated[int, whole_number(0, MOST_IMAGES)] = 0
    """Pictures in each prompt, for models that take them."""
    audio_seconds: Annotated[float, number(0, LONGEST_SOUND_S)] = 0
    """Seconds of each recording, for models that hear; 0 is half a minute."""
    deadline_hours: Annotated[float, number(0, LONGEST_DEADLINE_H), Form("Done within, hours", "deadline", group="batch")] = 0
    """Hours until the work has to be done; 0 sets no deadline: one machine."""
    platforms: Annotated[
        tuple[str, ...], Checked(_check_places, str, f"Comma list of {', '.join(PLACES)}, all.", choices=(*PLACES, ALL))
    ] = ("jobs", "endpoints", "spaces")
    precision: Precision = "auto"
    engine: AnyEngine = "auto"
    """The program that runs the model; auto takes one that batches continuously, if there is one."""
    serving: ServingSettings = DEFAULTS

    @property
    def deadline_s(self) -> float:
        """Seconds until the deadline; 0 for none."""
        return self.deadline_hours * HOUR_S


@endpoint(heavy=True)
def estimate_batch(app: App, arguments: BatchArguments) -> BatchAnswer:
    """Hours and price of a batch of work, and the number of machines that keep the deadline, on each kind of hardware.

    Returns:
        The pick, every option with hours, price and machines, the command for Jobs, and rejected options with their reasons.
    """
    spec, catalog = app.models(arguments.model), app.catalog()
    media = MediaRequest(images=arguments.images, audio_seconds=arguments.audio_seconds)
    check_media(spec, AS_THE_PIPELINE, media)
    task = task_of("auto", spec)
    family = family_of(task)
    pile = Pile(arguments=arguments, spec=spec, task=task, unit=UNITS.get(family, "documents"))
    model = HostedModel(spec=spec, stored_bytes=stored_bytes(spec), published=None)
    tokens = _count_tokens(arguments, spec, media, family)
    workload = replace(
        Workload(),
        task=task,
        context_tokens=tokens,
        prompt_tokens=arguments.prompt_tokens,
        output_tokens=arguments.output_tokens,
        concurrency=CROWD,
        precision=arguments.precision,
        engine=arguments.engine,
        media=media,
        serving=arguments.serving,
    )
    # As `/recommend` judges an offer, with as many requests at a time as a batch has.
    context = JudgeContext(
        model=model,
        family=family,
        workload=workload,
        context_tokens=tokens,
        speed_request=shape_request(family, tokens, workload),
        rules=catalog.rules,
        cpus=(),
        accelerators=catalog.accelerators,
    )
    options: list[tuple[Order, BatchOption]] = []
    rejected = []
    for offer in catalog.on(arguments.platforms):
        if not offer.listed:
            continue
        judged = _judge(pile, offer, context)
        if isinstance(judged, Reason):
            rejected.append(BatchRejection(hardware=offer.id, platform=offer.platform, name=offer.name, reason=judged))
        else:
            options.append(judged)
    # The best option first.
    ranked = tuple(option for _, option in sorted(options, key=lambda pair: pair[0]))
    return BatchAnswer(
        model=spec.id,
        task=task,
        items=arguments.items,
        unit=pile.unit,
        deadline_hours=arguments.deadline_hours,
        pick=ranked[0] if ranked else None,
        options=ranked,
        rejected=tuple(rejected),
        notes=(_explain_pick(pile, ranked),),
        caveats=(*spec.caveats, Caveat("batch_predicted"), Caveat("batch_start", {"machine_s": cold_start(0).seconds})),
        sources=(
            *spec.sources,
            *catalog.rules.jobs.sources,
            Source(what="start of a machine", source=COLD_START.source, checked=CHECKED),
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Pile:
    """The work: the request, the model, its task, and the unit of its items."""

    arguments: BatchArguments
    spec: ModelSpec
    task: str
    unit: str


def _count_tokens(arguments: BatchArguments, spec: ModelSpec, media: MediaRequest, family: Family) -> int:
    """Tokens of one item that the cache holds.

    Raises:
        BadArgument: more than the model can use.
    """
    if family in {"image", "video", "speech"}:
        return arguments.output_tokens + 1
    pictures = resolve_media(spec, media).tokens
    tokens = arguments.prompt_tokens + (0 if family == "encode" else arguments.output_tokens)
    if spec.context_limit is not None and tokens + pictures > spec.context_limit:
        seen = f"{arguments.prompt_tokens:,} (with answer and pictures {tokens + pictures:,} tokens)"
        raise BadArgument("prompt_tokens", seen, f"lengths of at most {spec.context_limit:,} tokens together, the limit of {spec.id}")
    return tokens


def _judge(pile: Pile, offer: Offer, context: JudgeContext) -> tuple[Order, BatchOption] | Reason:
    """The option on an offer with its place in the order, or the reason against it."""
    if not offer.usd_per_hour:
        return Reason("batch_free")
    if "implausible_price" in offer.rules:
        return Reason("implausible_price", {"usd_per_hour": offer.usd_per_hour})
    assert context.model is not None  # noqa: S101  the question names one
    capacity = find_capacity(offer, context, context.model)
    if isinstance(capacity, Reason):
        return capacity
    option = _plan(pile, offer, capacity, context)
    return option if isinstance(option, Reason) else (_order(offer, option, capacity, context.family), option)


def _plan(pile: Pile, offer: Offer, capacity: MachineCapacity, context: JudgeContext) -> BatchOption | Reason:
    """The machines, hours and price on an offer, or why the deadline is missed."""
    arguments, memory = pile.arguments, capacity.placement.headroom.memory
    assert context.model is not None  # noqa: S101  the question names one
    assert offer.usd_per_hour is not None  # noqa: S101  `_judge` saw to it
    # Machines that keep the deadline.
    fetched = download_bytes(memory, context.model.stored_bytes)
    start_s = cold_start(fetched).seconds
    shards: int | None = 1
    if arguments.deadline_s:
        shards = shards_needed(items=arguments.items, items_per_s=capacity.items_per_s, start_s=start_s, deadline_s=arguments.deadline_s)
    values: dict[str, Value] = {
        "start_minutes": math.ceil(start_s / MINUTE_S),
        "download_bytes": fetched,
        "deadline_hours": arguments.deadline_hours,
        "unit": pile.unit,
    }
    if shards is None:
        return Reason("batch_start_too_long", values)
    shards = min(shards, arguments.items)
    if shards > MAX_REPLICAS:
        return Reason("batch_too_many", values | {"shards": shards, "most": MAX_REPLICAS})
    # Their hours and price; a server on Jobs pays for its port.
    rules = context.rules.group(offer.traits.rules)
    step_s = int(getattr(rules, "billing_step_s"))  # noqa: B009  every group of rented hardware has one
    serves = offer.traits.runs_jobs and traits_of(capacity.candidate.engine).command is not None
    port = context.rules.jobs.ports_usd_per_hour if serves and not _has_script(pile, capacity.candidate.engine) else Decimal(0)
    work = split_work(
        items=arguments.items, items_per_s=capacity.items_per_s, start_s=start_s,
        shards=shards, usd_per_hour=Decimal(offer.usd_per_hour + port), billing_step_s=step_s,
    )  # fmt: skip
    # The command, with a time limit that leaves room.
    hours = work.seconds / HOUR_S
    timeout_h = math.ceil(TIMEOUT_FACTOR * hours)
    command = _write_command(pile, offer, capacity, timeout_h, shards) if offer.traits.runs_jobs else ""
    return BatchOption(
        hardware=offer.id,
        platform=offer.platform,
        name=offer.name,
        engine=capacity.candidate.engine,
        precision=memory.precision,
        batch_size=capacity.batch_size,
        shards=shards,
        items_per_s=capacity.items_per_s * shards,
        start_s=start_s,
        download_bytes=fetched,
        hours=hours,
        usd_per_hour=offer.usd_per_hour + port,
        usd=work.usd,
        command=command,
        reasons=_explain(offer, capacity, context, values | {"timeout_h": timeout_h, "step_s": step_s}),
    )


def _explain(offer: Offer, capacity: MachineCapacity, context: JudgeContext, values: Mapping[str, Value]) -> tuple[Reason, ...]:
    """How the machine works and ends, and how far its weights are compressed."""
    rate = capacity.items_per_s * HOUR_S
    jobs = context.rules.jobs.default_timeout_s // 60
    ends = (
        Reason("batch_timeout", {"minutes": jobs, "timeout_h": values["timeout_h"]})
        if offer.traits.runs_jobs
        else Reason("batch_stop_it", dict(values))
    )
    weight = weigh(capacity.candidate.step, capacity.placement.headroom.memory.precision, context.family)
    stated: dict[str, Value] = {
        "per_hour": rate,
        "unit": values["unit"],
        "batch_size": capacity.batch_size,
        "engine": capacity.candidate.engine,
    }
    packed: dict[str, Value] = {"precision": capacity.placement.headroom.memory.precision, "weight": weight}
    compressed = (Reason("batch_compressed", packed),) if weight > 1 else ()
    return (Reason("batch_rate", stated), Reason("batch_starts", dict(values)), *compressed, ends)


def _has_script(pile: Pile, engine: str) -> bool:
    """Whether `/write_files` writes a script for this work (purpose job)."""
    row = next(row for row in load_kinds().purposes if row.name == "job")
    return row.kinds is not None and find_kind(pile.task, engine, pile.spec.model_type, row.kinds) is not None


def _write_command(pile: Pile, offer: Offer, capacity: MachineCapacity, timeout_h: int, shards: int) -> str:
    """The line that runs the script on Jobs, once for each part, else the line that starts the engine's server; "" without either."""
    candidate = capacity.candidate
    traits, on_gpu = traits_of(candidate.engine), offer.accelerator is not None
    image = None if traits.own_modules else load_versions().image(candidate.engine, "gpu" if on_gpu else "cpu").image
    if _has_script(pile, candidate.engine):
        return batch_job(offer.id, image, hours=timeout_h, shards=shards)
    if traits.command is None or image is None:
        return ""
    start = Start(
        precision=capacity.placement.headroom.memory.precision, devices=candidate.devices, sequences=capacity.batch_size, on_gpu=on_gpu,
        serving=pile.arguments.serving,
    )  # fmt: skip
    words = command_words(candidate.engine, pile.spec.id or SOME_MODEL, start)
    return repeat_command(job_command(image, words, offer.id, hours=timeout_h, detach=shards > 1), shards)


def _order(offer: Offer, option: BatchOption, capacity: MachineCapacity, family: Family) -> Order:
    """Engines that list the model first, then the price weighed by precision, then options that end by themselves, then the earlier end."""
    weight = weigh(capacity.candidate.step, option.precision, family)
    ends = offer.traits.idle == "ends"
    place = PLATFORMS.index(offer.platform)
    return (bool(capacity.candidate.untested), option.usd * weight, not ends, option.hours, place, option.hardware)


def _explain_pick(pile: Pile, ranked: tuple[BatchOption, ...]) -> Reason:
    arguments = pile.arguments
    values: dict[str, Value] = {"items": arguments.items, "unit": pile.unit, "deadline_hours": arguments.deadline_hours}
    if not ranked:
        return Reason("batch_nothing", values, variant="deadline" if arguments.deadline_s else "")
    pick = ranked[0]
    values |= {
        "name": pick.name, "platform": TRAITS[pick.platform].label, "shards": pick.shards, "usd": pick.usd,
        "hours": pick.hours,
    }  # fmt: skip
    return Reason("batch_pick", values, variant="deadline" if arguments.deadline_s else "")
