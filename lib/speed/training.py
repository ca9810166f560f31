"""Training: the time of a step, and which hardware runs it, how long, for how much, and what to change where it does not fit.

Time of one step: FLOPs, traffic of activations, the host, the update, unpacking of weights, and the link between devices.

    FLOPs   passes · (2·P + 2·T·q·L)     a token; P parameters that it passes, head included; q width of the queries, causal
    passes  forward 1, backward 2 in full and 1 with adapters (frozen weights need no gradient), 1 more where activations are recomputed
    step    max(c_f · FLOPs / peak + (c_a · kept + c_s · scores) / bandwidth, c_h · layers · passes)  each micro-batch
            + c_q · bytes of unpacked weights · passes / bandwidth                                 each micro-batch
            + c_u · bytes of what is trained / bandwidth                                           each step

The constants c were fitted on published runs (`scripts/check_training.py`, `lib/data/training_constants.json`); c_f by the kind of a
card's memory, none by model or card. Of several devices each takes its own micro-batches; what passes their link comes on top, half of it
behind the computation. Limits: dense peaks as published; no pipeline or tensor parallelism; devices of one machine. Source of the FLOPs:
Kaplan et al. 2020, arXiv:2001.08361 (6·N in full); Korthikanti et al. 2022, arXiv:2205.05198 (recomputation).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from lib.errors import AdvisorError
from lib.laws.price import HOUR_S
from lib.memory import usable_memory
from lib.memory.objectives import divides_answers
from lib.memory.resolve import layer_sizes
from lib.memory.rollouts import estimate_step, largest_micro_batch, longest_sequence, rollout_share, server_bytes
from lib.memory.training import STACK_TRAITS, TrainingMemory, check_training, fuses_loss, step_traffic
from lib.platforms import OWN, RENTED, TRAITS
from lib.request.objectives import AS_TRL
from lib.result import Result, Usd
from lib.speed.hardware import HALVES, card_class, find_link_rate
from lib.speed.model_work import count_multiplied
from lib.speed.rollouts import GrpoSeconds, time_rollouts, with_mean_lengths
from lib.workload import Sharding

if TYPE_CHECKING:
    from lib.catalog import Catalog
    from lib.catalog.offers import Offer
    from lib.catalog.silicon import Accelerator
    from lib.model.spec import ModelSpec
    from lib.workload import TrainingRequest

_HIDDEN_SHARE = 0.5


class SpeedConstants(NamedTuple):
    """The fitted constants: `flops` on cards with HBM, `host_s` seconds for a layer and pass; the others are shares of a ceiling."""

    flops: float
    flops_gddr: float
    kept: float
    scores: float
    host_s: float
    update: float
    unpack: float


class StepWork(NamedTuple):
    """Work of a micro-batch: FLOPs, kept bytes, scores, layers · passes, bytes of unpacked weights; and trained bytes of a step."""

    flops: float
    kept_bytes: float
    score_bytes: float
    host_layers: float
    trained_bytes: float
    unpacked_bytes: float


class StepSpeed(NamedTuple):
    """Seconds of a step and tokens a second over all devices, as a range; `mfu` is the model's own FLOPs over the peak.

    `phases` are those of GRPO.
    """

    step_s: float
    tokens_per_s_low: float
    tokens_per_s: float
    tokens_per_s_high: float
    mfu: float
    phases: GrpoSeconds | None = None


@cache
def load_speed() -> tuple[SpeedConstants, tuple[float, float]]:
    """The constants that come with the app, and the factors between which four in five published runs lie."""
    plain = json.loads(files("lib.data").joinpath("training_constants.json").read_text(encoding="utf-8"))["speed"]
    low, high = plain["range"]
    return SpeedConstants(**plain["constants"]), (low, high)


def count_passes(request: TrainingRequest) -> int:
    """Forward, backward and recomputed passes over the layers, and those of a preference without gradient."""
    learned = 1 + (2 if request.method == "full" else 1) + (request.checkpointing != "none")
    return learned + request.passes_without_gradient


def step_work(spec: ModelSpec, request: TrainingRequest) -> StepWork:
    """The work of one micro-batch on one device."""
    tokens = request.micro_batch_tokens
    sizes = layer_sizes(spec)
    passes = count_passes(request)
    each = 2 * count_multiplied(spec, with_loss=True) + 2 * request.sequence_tokens * sizes.query_width * sizes.layers
    traffic = step_traffic(spec, request)
    unpacked = 2 * sum(group.parameters for group in spec.tensors if group.convertible) if request.method == "qlora" else 0
    return StepWork(
        flops=float(passes * tokens * each),
        kept_bytes=float(traffic.kept_bytes),
        score_bytes=float(traffic.score_bytes),
        host_layers=float(sizes.layers * passes),
        trained_bytes=float(traffic.trained_bytes),
        unpacked_bytes=float(unpacked * passes),
    )


class Rates(NamedTuple):
    """Ceilings of a card: FLOP/s in 16 bits, bytes per second of its memory, and whether that is GDDR."""

    peak: float
    bandwidth: float
    gddr: bool


def card_rates(card: Accelerator) -> Rates | None:
    """The ceilings of a GPU; None where it has no arithmetic in 16 bits of which a rate is published."""
    peak = card.fastest(*filter(card.supports, HALVES))
    return Rates(peak, float(card.bandwidth), card_class(card) == "gddr") if peak is not None and card.kind == "gpu" else None


def time_step(work: StepWork, constants: SpeedConstants, rates: Rates, accumulation: int = 1) -> float:
    """Seconds of a step on one device."""
    peak, bandwidth, gddr = rates
    moved = (constants.kept * work.kept_bytes + constants.scores * work.score_bytes) / bandwidth
    computes = (constants.flops_gddr if gddr else constants.flops) * work.flops / peak + moved
    micro = max(computes, constants.host_s * work.host_layers) + constants.unpack * work.unpacked_bytes / bandwidth
    return accumulation * micro + constants.update * work.trained_bytes / bandwidth


def _link_seconds(spec: ModelSpec, request: TrainingRequest, card: Accelerator) -> float:
    """Traffic on the link in a step: gradients twice, and with sharded weights these twice more for every micro-batch."""
    if request.devices == 1:
        return 0.0
    rate, _ = find_link_rate(card)
    gradients = 2 * step_traffic(spec, request).trained_bytes
    weights = 2 * 2 * spec.parameters_total * request.accumulation if request.shards_weights else 0
    return _HIDDEN_SHARE * (gradients + weights) * (request.devices - 1) / request.devices / rate


def predict_step(
    spec: ModelSpec, request: TrainingRequest, card: Accelerator, accelerators: Mapping[str, Accelerator] = MappingProxyType({})
) -> StepSpeed | None:
    """How long a step takes on cards of this kind; None where the card has no arithmetic in 16 bits of which a rate is published.

    Rollouts of GRPO are timed with the catalog's `accelerators`; None too where no speed of their engine follows.
    """
    rates = card_rates(card)
    if rates is None:
        return None
    constants, (low, high) = load_speed()
    request = with_mean_lengths(request)
    work = step_work(spec, request)
    alone = time_step(work, constants, rates, request.accumulation)
    step, phases = alone + _link_seconds(spec, request, card), None
    if request.samples:
        rollout = time_rollouts(spec, request, card, accelerators)
        if rollout is None:
            return None
        learned = time_step(step_work(spec, replace(request, rollout=AS_TRL)), constants, rates, request.accumulation)
        phases = GrpoSeconds(rollout, alone - learned, step - (alone - learned))
        step += rollout
    tokens = request.step_tokens
    own = work.flops * request.accumulation * (count_passes(request) - (request.checkpointing != "none")) / count_passes(request)
    return StepSpeed(step, tokens / step / high, tokens / step, tokens / step / low, own / (step * rates.peak), phases)


# Hardware for a training

Verdict = Literal["fits", "risky", "no"]
_ORDER: Mapping[Verdict, int] = MappingProxyType({"fits": 0, "risky": 1, "no": 2})
_STATES = ("adamw_8bit", "paged_adamw_8bit")


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingOption(Result):
    """A training on one piece of hardware; figures of speed and money are null where nothing is published to derive them from."""

    hardware: str
    """Id of the hardware."""

    platform: str
    """Platform that rents it out; "own" for a card of one's own."""

    name: str
    """Name for people."""

    accelerator: str
    """Id of the card."""

    devices: int
    """Cards that train."""

    sharding: Sharding
    """How they share the states: fsdp where one card is not enough and all cards of the offer share the model."""

    compute_dtype: Literal["bf16", "fp16", "fp32"]
    """Number format of the matrix products: fp16 on cards without bf16, where what is trained is kept in float32."""

    verdict: Verdict
    """fits: even the upper estimate does; risky: the typical one does; no: it does not."""

    capacity_bytes: int
    """Usable memory of a card."""

    needed_bytes: int
    """Bytes that the fullest card needs."""

    longest_sequence_tokens: int
    """Longest sequence that fits with all else unchanged; of a picture model the positions of the picture, if it fits."""

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
    """Price of all hours."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingChange:
    """Something to change, by code: the fields of the request that differ, what a device then needs, and the speed that is left."""

    code: str
    fields: Mapping[str, Any]
    saved_bytes: int
    device_bytes: int
    speed_ratio: float | None


def judge_fit(memory: TrainingMemory, capacity_bytes: int) -> Verdict:
    """It fits where even the high value does, is risky where the typical one does, and does not fit otherwise."""
    if memory.device.high <= capacity_bytes:
        return "fits"
    return "risky" if memory.device.typical <= capacity_bytes else "no"


def rented_for_vllm(request: TrainingRequest) -> int:
    """Cards of a vLLM that runs on cards of its own; 0 for any other training."""
    return request.rollout.rollout_devices if request.samples and request.rollout.traits.own_devices else 0


def train_on(card: Accelerator, request: TrainingRequest, capacity_bytes: int = 0) -> TrainingRequest:
    """The request as this card runs it: without bf16 in fp16, where pure 16-bit training becomes mixed precision.

    A gradient scaler needs trained weights in float32: torch refuses to unscale fp16 gradients. A colocated vLLM takes its share of
    `capacity_bytes`.
    """
    if request.samples:
        request = replace(request, rollout=replace(request.rollout, card_bytes=capacity_bytes))
    if request.precision == "fp32" or card.supports("bf16"):
        return request
    return replace(request, fp16=True, precision="mixed")


def rank_hardware(
    spec: ModelSpec, request: TrainingRequest, catalog: Catalog, platforms: Sequence[str], *, total_tokens: int
) -> list[TrainingOption]:
    """Hardware with NVIDIA or AMD cards: what fits first, then by price of the whole training, then by its speed.

    Without sharding one card of an offer trains. Where one card is not enough, the same offer is listed with all its cards and FSDP, if the
    stack shards. With sharding all cards train, and offers of one card are left out.
    """
    options = list(_options(spec, request, catalog, platforms, total_tokens))
    return sorted(options, key=lambda o: (_ORDER[o.verdict], o.usd is None, o.usd or 0, o.hours or 0, o.needed_bytes - o.capacity_bytes))


def _options(
    spec: ModelSpec, request: TrainingRequest, catalog: Catalog, platforms: Sequence[str], total_tokens: int
) -> Iterator[TrainingOption]:
    sizes: dict[tuple[TrainingRequest, int], tuple[TrainingMemory, int, int]] = {}

    def size_on(asked: TrainingRequest, capacity: int) -> tuple[TrainingMemory, int, int]:
        key = (asked, capacity)
        if key not in sizes:
            memory = estimate_step(spec, asked)
            sizes[key] = (memory, longest_sequence(spec, asked, capacity), largest_micro_batch(spec, asked, capacity))
        return sizes[key]

    for silicon, count, capacity, offer in list_hardware(catalog, platforms):
        training = count - rented_for_vllm(request) if offer is not None else count  # cards that train
        if training < 1 or (request.sharding != "none" and offer is not None and training == 1):
            continue
        alone = request.sharding == "none"
        devices = 1 if alone else training if offer is not None else request.devices
        asked = replace(train_on(silicon, request, capacity), devices=devices)
        if not divides_answers(asked):
            continue
        memory, longest, largest = size_on(asked, capacity)
        if alone and training > 1 and spec.tensors and judge_fit(memory, capacity) != "fits" and STACK_TRAITS[request.stack].shards:
            shared = replace(asked, devices=training, sharding="fsdp")
            if divides_answers(shared):
                asked = shared
                memory, longest, largest = size_on(asked, capacity)
        speed = predict_step(spec, asked, silicon, catalog.accelerators)
        serves = server_bytes(spec, asked)
        verdict: Verdict = judge_fit(memory, capacity) if serves <= capacity else "no"
        phases = speed.phases if speed is not None else None
        hours = total_tokens / speed.tokens_per_s / HOUR_S if speed is not None else None
        price = offer.usd_per_hour if offer is not None else None
        yield TrainingOption(
            hardware=offer.id if offer is not None else silicon.id,
            platform=offer.platform if offer is not None else OWN,
            name=offer.name if offer is not None else silicon.name,
            accelerator=silicon.id,
            devices=asked.devices,
            sharding=asked.sharding,
            compute_dtype="fp32" if asked.precision == "fp32" else "fp16" if asked.fp16 else "bf16",
            verdict=verdict,
            capacity_bytes=capacity,
            needed_bytes=max(memory.device.typical, serves),
            longest_sequence_tokens=longest,
            largest_micro_batch=largest,
            tokens_per_s_low=None if speed is None else speed.tokens_per_s_low,
            tokens_per_s=None if speed is None else speed.tokens_per_s,
            tokens_per_s_high=None if speed is None else speed.tokens_per_s_high,
            mfu=speed.mfu if speed is not None else None,
            hours=hours,
            usd_per_hour=price,
            usd=None if price is None or hours is None else price * Decimal(hours),
            step_s=None if speed is None else speed.step_s,
            rollout_s=None if phases is None else phases.rollout,
            scoring_s=None if phases is None else phases.scoring,
            update_s=None if phases is None else phases.update,
            rollout_devices=rented_for_vllm(asked) or None,
            rollout_share=rollout_share(spec, asked),
        )


def list_hardware(catalog: Catalog, platforms: Sequence[str]) -> Iterator[tuple[Accelerator, int, int, Offer | None]]:
    """Silicon, cards, usable bytes of one, and the offer (None for a card of one's own); no ZeroGPU, which ends calls after minutes."""
    for offer in catalog.on([name for name in platforms if name in RENTED]):
        capacity = usable_memory(offer)
        if offer.silicon is not None and offer.silicon.kind == "gpu" and capacity is not None and "implausible_price" not in offer.rules:
            yield offer.silicon, offer.accelerator_count, capacity, offer
    for card in catalog.accelerators.values() if any(TRAITS[name].owned for name in platforms) else ():
        if card.kind == "gpu" and card.memory_usable is not None:
            yield card, 1, card.memory_usable, None


def find_changes(
    spec: ModelSpec, request: TrainingRequest, reference: Accelerator, accelerators: Mapping[str, Accelerator]
) -> list[TrainingChange]:
    """Ways to take less memory, each on its own: most bytes first; speeds are compared on one card.

    Args:
        spec: the model.
        request: what is asked.
        reference: the card on which speeds are compared.
        accelerators: those of the catalog.
    """
    now = estimate_step(spec, request).device.typical
    speed = predict_step(spec, request, reference, accelerators)
    changes = []
    for code, fields in _variants(spec, request):
        other = replace(request, **fields)
        try:
            check_training(spec, other)
        except AdvisorError:  # a combination that the stack lacks is no advice
            continue
        then = estimate_step(spec, other).device.typical
        after = predict_step(spec, other, reference, accelerators)
        if then < now:
            ratio = after.tokens_per_s / other.devices / (speed.tokens_per_s / request.devices) if after and speed else None
            changes.append(TrainingChange(code=code, fields=fields, saved_bytes=now - then, device_bytes=then, speed_ratio=ratio))
    return sorted(changes, key=lambda change: -change.saved_bytes)


def _variants(spec: ModelSpec, r: TrainingRequest) -> list[tuple[str, dict[str, Any]]]:
    """Alternative questions, by code."""
    full, checkpoints = r.method == "full", r.checkpointing
    possible: list[tuple[bool, str, dict[str, Any]]] = [
        (full, "method_lora", {"method": "lora"}),
        (r.method in {"lora", "dora"}, "method_qlora", {"method": "qlora"}),
        (not full and r.rank > 1, "rank", {"rank": max(1, r.rank // 2)}),
        (checkpoints == "none", "checkpointing_layers", {"checkpointing": "layers"}),
        (checkpoints == "layers", "checkpointing_offloaded", {"checkpointing": "offloaded"}),
        (not fuses_loss(r), "fused_loss", {"fused_loss": True}),
        *((optimizer != r.optimizer, f"optimizer_{optimizer}", {"optimizer": optimizer}) for optimizer in _STATES),
        (full and r.precision != "bf16", "precision_bf16", {"precision": "bf16"}),
        (r.micro_batch > 1, "micro_batch", {"micro_batch": max(1, r.micro_batch // 2), "accumulation": 2 * r.accumulation}),
        (r.sequence_tokens > 1, "sequence", {"sequence_tokens": max(1, r.sequence_tokens // 2)}),
        (r.attention == "eager", "attention", {"attention": "sdpa"}),
        (r.samples and not r.rollout.rollout_sleep, "rollout_sleep", {"rollout": replace(r.rollout, rollout_sleep=True)}),
        *((r.sharding == "none" and bool(spec.tensors), f"shard_{n}", {"sharding": "fsdp", "devices": n}) for n in (2, 8)),
    ]
    return [(code, fields) for holds, code, fields in possible if holds]
