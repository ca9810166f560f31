"""Hardware for a training: which holds it, how long it takes there and for how much, and what to change if it does not fit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from lib.catalog import largest_stated_ram
from lib.catalog.offers import own_hardware
from lib.errors import AdvisorError
from lib.laws.price import HOUR_S
from lib.laws.start_up import cold_start
from lib.memory import host_memory, usable_memory
from lib.memory.objectives import divides_answers
from lib.memory.result import stored_bytes
from lib.memory.rollouts import estimate_step, largest_micro_batch, longest_sequence, rollout_share, server_bytes
from lib.memory.stacks import STACK_TRAITS, fuses_loss
from lib.memory.training import TrainingMemory, check_training
from lib.platforms import RENTED, TRAITS
from lib.provenance import Reason, Reasons, Value
from lib.request.sharding import SHARDING_TRAITS, Sharding
from lib.result import Result, Usd
from lib.speed.offload import find_host_rate
from lib.speed.training import predict_step, train_on
from lib.workload import WHOLE_WEIGHTS

if TYPE_CHECKING:
    from lib.catalog import Catalog
    from lib.catalog.offers import Hardware
    from lib.catalog.silicon import Accelerator
    from lib.model.spec import ModelSpec
    from lib.workload import TrainingRequest

Verdict = Literal["fits", "risky", "no"]
_ORDER: Mapping[Verdict, int] = MappingProxyType({"fits": 0, "risky": 1, "no": 2})
_STATES = ("adamw_8bit", "paged_adamw_8bit")


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingOption(Result):
    """A training on one piece of hardware; figures of speed and money are null if nothing is published to derive them from."""

    hardware: str
    """Id of the hardware."""
    platform: str
    """Platform that rents it out; "own" for a card of one's own."""
    name: str
    """Name for people."""
    accelerator: str
    """Id of the card."""
    devices: int
    """Cards that train, those of all machines."""
    machines: int = 1
    """Machines with such hardware."""
    sharding: Sharding
    """How they share the states: fsdp where one card is not enough and all cards of the offer share the model."""
    compute_dtype: Literal["bf16", "fp16", "fp32"]
    """Number format of the matrix products: fp16 on cards without bf16, where trained parameters are kept in float32."""
    verdict: Verdict
    """fits: even the upper estimate does; risky: the typical one does, or RAM for offloaded bytes is not stated; no: it does not."""
    capacity_bytes: int
    """Usable memory of a card."""
    needed_bytes: int
    """Bytes that the fullest card needs."""
    host_bytes: int
    """Bytes that the training keeps in the host's memory, of all machines together."""
    host_memory_bytes: int | None
    """RAM of one machine without the system's share; null if it is not stated, and then it counts as enough."""
    longest_sequence_tokens: int
    """Longest sequence that fits with all else unchanged, tokens of its pictures among them; of a picture model the positions of the
    picture, if it fits."""
    largest_micro_batch: int
    """Largest micro-batch that fits with all else unchanged."""
    tokens_per_s_low: float | None
    """Lower end of the range of tokens per second of all devices."""
    tokens_per_s: float | None
    """Tokens per second of all devices."""
    tokens_per_s_high: float | None
    """Upper end of the range."""
    mfu: float | None
    """Share of the dense peak that the model's own FLOPs reach."""
    hours: float | None
    """Hours for all tokens."""
    usd_per_hour: Usd | None
    """Price per hour."""
    usd: Usd | None
    """Price of all hours and of the start."""
    start_s: int | None = None
    """Rough seconds before the first step: a machine starts, packages are installed, the model is fetched and loaded. Null on own cards."""
    step_s: float | None = None
    """Seconds of a step."""
    rollout_s: float | None = None
    """GRPO: seconds of a step in which answers are written; null for other objectives, as for the four fields below."""
    scoring_s: float | None = None
    """GRPO: seconds of a step in which answers are scored without gradient."""
    update_s: float | None = None
    """GRPO: seconds of a step's forward and backward passes and of its optimizer."""
    rollout_devices: int | None = None
    """GRPO with vllm-server: cards of vLLM, in addition to `devices`."""
    rollout_share: float | None = None
    """GRPO with vllm-colocate: share of each card that vLLM takes."""
    host_s: float | None = None
    """Seconds of a step for states in host memory, at the full rates of the link and of that memory (89.6 GB/s where the machine is
    not known); null without such states."""
    reasons: Reasons = ()
    """Why it does not fit: the memory of a card, of a card of vLLM, or of the machine. For risky: RAM that is not stated."""

    @property
    def setup(self) -> tuple[str, str, int, Sharding]:
        """Equal for the same hardware on two platforms."""
        return self.hardware, self.accelerator, self.devices, self.sharding


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingChange:
    """Something to change, by code: the fields of the request that differ, what a device then needs, and the speed that is left."""

    code: str
    fields: Mapping[str, Any]
    saved_bytes: int
    device_bytes: int
    speed_ratio: float | None
    cheaper: TrainingOption | None = None
    """The run on hardware that the change makes large enough, where it costs less than before."""


def judge_fit(memory: TrainingMemory, capacity_bytes: int) -> Verdict:
    """It fits where even the high value does, is risky where the typical one does, and does not fit otherwise."""
    if memory.device.high <= capacity_bytes:
        return "fits"
    return "risky" if memory.device.typical <= capacity_bytes else "no"


def rented_for_vllm(request: TrainingRequest) -> int:
    """Cards of a vLLM that runs on cards of its own; 0 for any other training."""
    return request.rollout.rollout_devices if request.samples and request.rollout.traits.own_devices else 0


def find_shortages(memory: TrainingMemory, hardware: Hardware, machines: int = 1, serving_bytes: int = 0) -> Reasons:
    """The memories that so many machines lack. RAM that is not stated is at most that of the largest host that is (`is_host_unstated`).

    `serving_bytes` are those that each card of a vLLM on cards of its own needs.
    """
    capacity, ram = usable_memory(hardware) or 0, host_memory(hardware)
    lacks: list[Reason] = []
    if memory.device.typical > capacity:
        lacks.append(Reason("training_card_memory", {"needed_bytes": memory.device.typical, "capacity_bytes": capacity}))
    if serving_bytes > capacity:
        lacks.append(Reason("training_vllm_memory", {"needed_bytes": serving_bytes, "capacity_bytes": capacity}))
    if ram is not None and memory.host_bytes > ram * machines:
        lacks.append(Reason("training_host_memory", {"needed_bytes": memory.host_bytes, "capacity_bytes": ram * machines}))
    if ram is None and memory.host_bytes > (most := largest_stated_ram() * machines):
        values: dict[str, Value] = {"needed_bytes": memory.host_bytes, "capacity_bytes": most, "machines": machines}
        lacks.append(Reason("training_host_memory", values, variant="unstated"))
    return tuple(lacks)


def is_host_unstated(host_bytes: int, host_memory_bytes: int | None) -> bool:
    """Whether the host has to hold bytes and its RAM is not stated: such hardware is risky at best, and comes after what states enough."""
    return host_bytes > 0 and host_memory_bytes is None


def describe_place(
    spec: ModelSpec, hardware: Hardware, request: TrainingRequest, memory: TrainingMemory, capacity_bytes: int, serving_bytes: int = 0
) -> dict[str, Any]:
    """The fields of `TrainingOption` about hardware, memory and start."""
    lacks, price = find_shortages(memory, hardware, request.machines, serving_bytes), hardware.usd_per_hour
    verdict: Verdict = "no" if lacks else judge_fit(memory, capacity_bytes)
    if verdict != "no" and is_host_unstated(memory.host_bytes, host_memory(hardware)):
        verdict, lacks = "risky", (Reason("training_host_unstated", {"needed_bytes": memory.host_bytes}),)
    return {
        "hardware": hardware.id,
        "platform": hardware.platform,
        "name": hardware.name,
        "accelerator": hardware.processor.id,
        "devices": request.devices,
        "machines": request.machines,
        "sharding": request.sharding,
        "compute_dtype": "fp32" if request.precision == "fp32" else "fp16" if request.fp16 else "bf16",
        "verdict": verdict,
        "reasons": lacks,
        "capacity_bytes": capacity_bytes,
        "needed_bytes": max(memory.device.typical, serving_bytes),
        "host_bytes": memory.host_bytes,
        "host_memory_bytes": host_memory(hardware),
        "usd_per_hour": None if price is None else price * request.machines,
        "start_s": None if hardware.traits.owned else cold_start(stored_bytes(spec)).seconds,
    }


def find_started(options: Sequence[TrainingOption], own: TrainingOption | None = None) -> TrainingOption | None:
    """The own cards that train it, else the first option, on Jobs if Jobs rents the same hardware; None if nothing trains it."""
    if own is not None and own.verdict != "no":
        return own
    first = next((option for option in options if option.verdict != "no"), None)
    if first is None:
        return None
    same = (option for option in options if TRAITS[option.platform].runs_jobs and option.setup == first.setup)
    return next(same, first)


def limit_hours(option: TrainingOption) -> float:
    """Hours that a Job needs with its start; one hour of training where its time is not predicted."""
    return (1.0 if option.hours is None else option.hours) + (option.start_s or 0) / HOUR_S


def price_run(place: Mapping[str, Any], hours: float | None) -> Decimal | None:
    """Dollars for so many hours after the start, at a place of `describe_place`; None without a price or hours."""
    price = place["usd_per_hour"]
    return None if price is None or hours is None else price * Decimal(hours + (place["start_s"] or 0) / HOUR_S)


def rank_hardware(
    spec: ModelSpec, request: TrainingRequest, catalog: Catalog, platforms: Sequence[str], *, total_tokens: int
) -> list[TrainingOption]:
    """Hardware with NVIDIA or AMD cards: what fits first, then by price of the whole training, then by its speed.

    Without sharding one card of an offer trains. Where one card is not enough, the same offer is listed with all its cards and FSDP, if the
    stack shards. With sharding all cards train, of `machines` machines; offers of one card are left out, except with ZeRO's CPU optimizer.
    Hardware with less RAM than the offloaded bytes does not fit.
    """
    each = (request.devices if request.sharding != "none" else 1) + rented_for_vllm(request)
    places = (
        hardware.with_count(max(1, each // request.machines)) if hardware.traits.owned else hardware
        for hardware in list_hardware(catalog, platforms)
    )
    options = judge_hardware(spec, request, places, catalog.accelerators, total_tokens=total_tokens)
    return sorted(
        options,
        key=lambda o: (
            _ORDER[o.verdict],
            is_host_unstated(o.host_bytes, o.host_memory_bytes),
            o.usd is None,
            o.usd or 0,
            o.hours or 0,
            o.needed_bytes - o.capacity_bytes,
        ),
    )


def judge_hardware(
    spec: ModelSpec,
    request: TrainingRequest,
    places: Iterable[Hardware],
    accelerators: Mapping[str, Accelerator],
    *,
    total_tokens: int,
    limits: bool = True,
) -> Iterator[TrainingOption]:
    """The training on each piece of hardware that has GPUs, as `rank_hardware` says; hardware with too few of them is left out.

    The longest sequence and the largest micro-batch are searched with `limits` alone: that takes most of the time.
    """
    sizes: dict[tuple[TrainingRequest, int], tuple[TrainingMemory, int, int]] = {}

    def size_on(asked: TrainingRequest, capacity: int) -> tuple[TrainingMemory, int, int]:
        key = (asked, capacity)
        if key not in sizes:
            memory = estimate_step(spec, asked)
            most = (longest_sequence(spec, asked, capacity), largest_micro_batch(spec, asked, capacity)) if limits else (0, 0)
            sizes[key] = (memory, *most)
        return sizes[key]

    alone = request.sharding == "none"
    shards = STACK_TRAITS[request.stack].shards and request.method not in WHOLE_WEIGHTS
    for hardware in places:
        silicon, capacity, training = hardware.processor, usable_memory(hardware), count_training(hardware, request)
        if capacity is None or training < least_devices(request):
            continue
        asked = replace(train_on(silicon, request, capacity), devices=1 if alone else training)
        if not divides_answers(asked):
            continue
        memory, longest, largest = size_on(asked, capacity)
        if alone and training > 1 and judge_fit(memory, capacity) != "fits" and shards:
            shared = replace(asked, devices=training, sharding="fsdp")
            if divides_answers(shared):
                asked = shared
                memory, longest, largest = size_on(asked, capacity)
        speed = predict_step(spec, asked, silicon, accelerators, _host_rate(hardware, accelerators))
        phases = speed.phases if speed is not None else None
        hours = total_tokens / speed.tokens_per_s / HOUR_S if speed is not None else None
        place = describe_place(spec, hardware, asked, memory, capacity, server_bytes(spec, asked))
        yield TrainingOption(
            **place,
            longest_sequence_tokens=longest,
            largest_micro_batch=largest,
            tokens_per_s_low=None if speed is None else speed.tokens_per_s_low,
            tokens_per_s=None if speed is None else speed.tokens_per_s,
            tokens_per_s_high=None if speed is None else speed.tokens_per_s_high,
            mfu=speed.mfu if speed is not None else None,
            hours=hours,
            usd=price_run(place, hours),
            step_s=None if speed is None else speed.step_s,
            host_s=None if speed is None else speed.host_s or None,
            rollout_s=None if phases is None else phases.rollout,
            scoring_s=None if phases is None else phases.scoring,
            update_s=None if phases is None else phases.update,
            rollout_devices=rented_for_vllm(asked) or None,
            rollout_share=rollout_share(spec, asked),
        )


def _host_rate(hardware: Hardware, accelerators: Mapping[str, Accelerator]) -> float | None:
    """Bandwidth of a machine's memory; None if nothing is published about its processor."""
    known = hardware.traits.owned or hardware.vcpu is not None or hardware.host_cpu is not None
    return find_host_rate(hardware, accelerators)[0] if known else None


def count_training(hardware: Hardware, request: TrainingRequest) -> int:
    """Cards that can train: those of all machines, without those of vLLM."""
    return hardware.accelerator_count * request.machines - rented_for_vllm(request)


def least_devices(request: TrainingRequest) -> int:
    """The fewest cards that train with the request's sharding."""
    return 1 if request.sharding == "none" or SHARDING_TRAITS[request.sharding].trains_alone else 2


def list_hardware(catalog: Catalog, platforms: Sequence[str]) -> Iterator[Hardware]:
    """Hardware with GPUs: offers, and single cards of one's own; no ZeroGPU, which ends calls after minutes."""
    rented = (offer for offer in catalog.on([name for name in platforms if name in RENTED]) if "implausible_price" not in offer.rules)
    owned = map(own_hardware, catalog.accelerators.values()) if any(TRAITS[name].owned for name in platforms) else ()
    for hardware in (*rented, *owned):
        if trains_on(hardware):
            yield hardware


def trains_on(hardware: Hardware) -> bool:
    """Whether a training on it is predicted: on graphics cards whose memory is known, of a platform without a limit on a call."""
    return hardware.traits.trains and hardware.processor.kind == "gpu" and usable_memory(hardware) is not None


def find_changes(
    spec: ModelSpec, request: TrainingRequest, reference: Accelerator, accelerators: Mapping[str, Accelerator]
) -> list[TrainingChange]:
    """Ways to take less memory, each on its own: most bytes first; speeds are compared on one card.

    Args:
        spec: the model.
        request: the training.
        reference: the card on which speeds are compared.
        accelerators: those of the catalog.
    """
    now = estimate_step(spec, request).device.typical
    speed = predict_step(spec, request, reference, accelerators)
    changes = []
    for code, fields in _variants(request):
        other = replace(request, **fields)
        try:
            check_training(spec, other)
        except AdvisorError:  # a combination that the stack lacks is no advice
            continue
        then = estimate_step(spec, other).device.typical
        after = predict_step(spec, other, reference, accelerators)
        if then < now:
            ratio = after.tokens_per_s / other.devices / (speed.tokens_per_s / request.devices) if after and speed else None
            if ratio is not None and request.reads_sound:  # examples are as many as before, however few tokens their texts keep
                ratio *= request.sequence_tokens / other.sequence_tokens
            changes.append(TrainingChange(code=code, fields=fields, saved_bytes=now - then, device_bytes=then, speed_ratio=ratio))
    return sorted(changes, key=lambda change: -change.saved_bytes)


_OFFLOADED: Mapping[str, Sharding] = MappingProxyType({"zero2": "zero2_offload", "zero3": "zero3_offload", "fsdp": "fsdp_offload"})
"""Shardings with the optimizer in host memory."""


def _variants(r: TrainingRequest) -> list[tuple[str, dict[str, Any]]]:
    """Alternative questions, by code."""
    full, checkpoints = r.method == "full", r.checkpointing
    possible: list[tuple[bool, str, dict[str, Any]]] = [
        (full, "method_lora", {"method": "lora"}),
        (r.method in {"lora", "dora"}, "method_qlora", {"method": "qlora"}),
        (r.method == "lora", "method_8bit", {"method": "lora-8bit"}),
        (not full and r.rank > 1, "rank", {"rank": max(1, r.rank // 2)}),
        (checkpoints == "none", "checkpointing_layers", {"checkpointing": "layers"}),
        (checkpoints == "layers", "checkpointing_offloaded", {"checkpointing": "offloaded"}),
        (not fuses_loss(r) and not r.reads_sound, "fused_loss", {"fused_loss": True}),
        *((optimizer != r.optimizer, f"optimizer_{optimizer}", {"optimizer": optimizer}) for optimizer in _STATES),
        (full and r.precision != "bf16", "precision_bf16", {"precision": "bf16"}),
        (r.micro_batch > 1, "micro_batch", {"micro_batch": max(1, r.micro_batch // 2), "accumulation": 2 * r.accumulation}),
        (r.sequence_tokens - r.media_tokens > 1, "sequence", {"sequence_tokens": (r.sequence_tokens + r.media_tokens) // 2}),
        (r.reads_media and r.train_tower in {"yes", "projector"}, "tower_frozen", {"train_tower": "no"}),
        (r.reads_sound and r.train_tower == "auto", "tower_frozen", {"train_tower": "no"}),
        (r.attention == "eager", "attention", {"attention": "sdpa"}),
        (r.samples and not r.rollout.rollout_sleep, "rollout_sleep", {"rollout": replace(r.rollout, rollout_sleep=True)}),
        (r.sharding in _OFFLOADED, "offload", {"sharding": _OFFLOADED.get(r.sharding)}),
        *((r.sharding == "none", f"shard_{n}", {"sharding": "fsdp", "devices": n}) for n in (2, 8)),
    ]
    return [(code, fields) for holds, code, fields in possible if holds]
