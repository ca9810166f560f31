"""Which hardware runs a training step, how long the training takes there and what it costs, and what to change where it does not fit.

rank_hardware(spec, request, catalog, ("jobs",), total_tokens=10**7)[0].usd
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from lib.catalog.silicon import OWN
from lib.errors import AdvisorError
from lib.memory import usable_memory
from lib.memory.training import (
    TrainingMemory,
    check_training,
    estimate_training,
    fuses_loss,
    largest_micro_batch,
    longest_sequence,
)
from lib.speed.training import predict_step

if TYPE_CHECKING:
    from lib.catalog import Catalog
    from lib.catalog.offers import Offer
    from lib.catalog.silicon import Accelerator
    from lib.model.spec import ModelSpec
    from lib.workload import TrainingRequest

Verdict = Literal["fits", "risky", "no"]
_ORDER: Mapping[Verdict, int] = MappingProxyType({"fits": 0, "risky": 1, "no": 2})
_HOUR_S = 3600
_STATES = ("adamw_8bit", "paged_adamw_8bit")


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingOption:
    """A training on one piece of hardware; figures of speed and money are None where nothing is published to derive them from."""

    hardware: str
    platform: str
    name: str
    accelerator: str
    devices: int
    verdict: Verdict
    capacity_bytes: int
    needed_bytes: int
    longest_sequence_tokens: int
    largest_micro_batch: int
    tokens_per_s: tuple[float, float, float] | None
    mfu: float | None
    hours: float | None
    usd_per_hour: Decimal | None
    usd: Decimal | None


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


def rank_hardware(
    spec: ModelSpec, request: TrainingRequest, catalog: Catalog, platforms: Sequence[str], *, total_tokens: int
) -> list[TrainingOption]:
    """Hardware with NVIDIA or AMD cards: what fits first, then by price of the whole training, then by its speed.

    Without sharding one card of an offer trains; with sharding all of them, and single cards are left out.
    """
    options = list(_options(spec, request, catalog, platforms, total_tokens))
    return sorted(options, key=lambda o: (_ORDER[o.verdict], o.usd is None, o.usd or 0, o.hours or 0, o.needed_bytes - o.capacity_bytes))


def _options(
    spec: ModelSpec, request: TrainingRequest, catalog: Catalog, platforms: Sequence[str], total_tokens: int
) -> Iterator[TrainingOption]:
    sizes: dict[tuple[int, int], tuple[TrainingMemory, int, int]] = {}
    for hardware in _hardware(catalog, platforms):
        silicon, count, capacity, offer = hardware
        if request.sharding != "none" and offer is not None and count == 1:
            continue
        devices = 1 if request.sharding == "none" else count if offer is not None else request.devices
        device_request = replace(request, devices=devices)
        key = (devices, capacity)
        if key not in sizes:
            memory = estimate_training(spec, device_request)
            sizes[key] = (memory, longest_sequence(spec, device_request, capacity), largest_micro_batch(spec, device_request, capacity))
        memory, longest, largest = sizes[key]
        speed = predict_step(spec, device_request, silicon)
        hours = total_tokens / speed.tokens_per_s / _HOUR_S if speed is not None else None
        price = offer.usd_per_hour if offer is not None else None
        yield TrainingOption(
            hardware=offer.id if offer is not None else silicon.id,
            platform=offer.platform if offer is not None else OWN,
            name=offer.name if offer is not None else silicon.name,
            accelerator=silicon.id,
            devices=devices,
            verdict=judge_fit(memory, capacity),
            capacity_bytes=capacity,
            needed_bytes=memory.device.typical,
            longest_sequence_tokens=longest,
            largest_micro_batch=largest,
            tokens_per_s=(speed.tokens_per_s_low, speed.tokens_per_s, speed.tokens_per_s_high) if speed is not None else None,
            mfu=speed.mfu if speed is not None else None,
            hours=hours,
            usd_per_hour=price,
            usd=None if price is None or hours is None else price * Decimal(hours),
        )


def _hardware(catalog: Catalog, platforms: Sequence[str]) -> Iterator[tuple[Accelerator, int, int, Offer | None]]:
    """Silicon, cards, usable bytes of one, and the offer (None for a card of one's own); no ZeroGPU, which ends calls after minutes."""
    for offer in catalog.on([name for name in platforms if name not in {OWN, "zerogpu"}]):
        capacity = usable_memory(offer)
        if offer.silicon is not None and offer.silicon.kind == "gpu" and capacity is not None:
            yield offer.silicon, offer.accelerator_count, capacity, offer
    for card in catalog.accelerators.values() if OWN in platforms else ():
        if card.kind == "gpu" and card.memory_usable is not None:
            yield card, 1, card.memory_usable, None


def find_changes(spec: ModelSpec, request: TrainingRequest, reference: Accelerator) -> list[TrainingChange]:
    """What would take less memory, each on its own: most bytes first; speeds are compared on one card.

    Args:
        spec: the model.
        request: what is asked.
        reference: the card on which speeds are compared.
    """
    now = estimate_training(spec, request).device.typical
    speed = predict_step(spec, request, reference)
    changes = []
    for code, fields in _variants(spec, request):
        other = replace(request, **fields)
        try:
            check_training(spec, other)
        except AdvisorError:  # a combination that the stack lacks is no advice
            continue
        then = estimate_training(spec, other).device.typical
        after = predict_step(spec, other, reference)
        if then < now:
            ratio = after.tokens_per_s / other.devices / (speed.tokens_per_s / request.devices) if after and speed else None
            changes.append(TrainingChange(code=code, fields=fields, saved_bytes=now - then, device_bytes=then, speed_ratio=ratio))
    return sorted(changes, key=lambda change: -change.saved_bytes)


def _variants(spec: ModelSpec, r: TrainingRequest) -> list[tuple[str, dict[str, Any]]]:
    """What could be asked instead, by code."""
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
        *((r.sharding == "none" and bool(spec.tensors), f"shard_{n}", {"sharding": "fsdp", "devices": n}) for n in (2, 8)),
    ]
    return [(code, fields) for holds, code, fields in possible if holds]
