"""Training of pictures or clips: seconds of a step, and hardware with hours and dollars."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, NamedTuple

from lib.errors import AdvisorError
from lib.laws.picture_training import PLAIN, FormatTimes, PictureTimes, micro_step, pass_flop
from lib.laws.pipeline import BUS_REACHED, latent_frames
from lib.laws.price import HOUR_S
from lib.memory import usable_memory
from lib.memory.picture_training import (
    base_format,
    check_picture_training,
    count_positions,
    count_trained,
    estimate_picture_training,
    resolve_picture,
)
from lib.memory.pipeline import picture_work
from lib.memory.resolve import find_largest
from lib.speed.calibration import load_calibration
from lib.speed.diffusion import PictureLoad, picture_class, predict_seconds
from lib.speed.hardware import card_class, find_host_link_rate, find_peak
from lib.speed.training import train_on
from lib.speed.training_constants import load_speed
from lib.speed.training_hardware import TrainingChange, TrainingOption, describe_place, list_hardware, price_run
from lib.workload import PipelineRequest

if TYPE_CHECKING:
    from lib.catalog import Catalog
    from lib.catalog.offers import Hardware
    from lib.catalog.silicon import Accelerator
    from lib.memory.training import TrainingMemory
    from lib.model.spec import ModelSpec
    from lib.workload import TrainingRequest

MOST_AT_ONCE = 4_096
_SMALLER = 0.75  # of each side
_OPTIMIZERS = ("adamw_8bit", "paged_adamw_8bit")
_ORDER = ("fits", "risky", "no")
_HALF = 2


class PictureFit(NamedTuple):
    """The fitted constants, by format the factors of a base in few bits, and the factors between which four in five runs lie."""

    times: PictureTimes
    formats: Mapping[str, FormatTimes]
    low: float
    high: float


class PictureStep(NamedTuple):
    """Seconds of a step, its range, and the share of the card's peak that the model's own FLOP reach."""

    step_s: float
    low_s: float
    high_s: float
    mfu: float


@cache
def load_times() -> PictureFit:
    """The constants that come with the app (`scripts/check_picture_seconds.py`)."""
    plain = json.loads(files("lib.data").joinpath("picture_training_constants.json").read_text(encoding="utf-8"))
    formats = {name: FormatTimes(**factors) for name, factors in plain["formats"].items()}
    return PictureFit(PictureTimes(**plain["constants"]), formats, *plain["range"])


def recomputed_share(spec: ModelSpec, request: TrainingRequest) -> float:
    """Share of the blocks whose forward pass runs again in the backward pass."""
    if request.checkpointing == "none" or spec.pipeline is None or not spec.pipeline.blocks[0]:
        return 0.0
    pictures = request.pictures
    return min(1.0, pictures.checkpoint_blocks / pictures.checkpoint_every) if pictures.checkpoint_every else 1.0


def computing_seconds(spec: ModelSpec, request: TrainingRequest, card: Accelerator) -> tuple[float, float, float]:
    """Seconds in which the card computes the passes of a micro-batch, those of its encoders, and the FLOP without recomputing."""
    size = resolve_picture(spec, request)
    work = picture_work(spec, size, PipelineRequest())
    full, share, batch = request.method == "full", recomputed_share(spec, request), float(request.micro_batch)
    flop, attention = pass_flop(work.flop, work.attention_flop, full=full, share=share)
    cached = request.pictures.cached
    of = spec.pipeline
    assert of is not None  # noqa: S101 checked before
    encoding = (of.encoder_flop if cached in {"latents", "none"} else 0.0) + (
        work.decoder_flop - of.encoder_flop if cached in {"text", "none"} else 0.0
    )
    units = "fp32" if request.precision == "fp32" else "fp16" if request.fp16 else "bf16"
    rate = find_peak(card, units)
    row = {
        "way": "eager", "units": units, "group": picture_class(card), "memory": card_class(card),
        "product_bytes_per_flop": work.product_bytes_per_flop, "batch": batch,
        "peak": rate, "attention_peak": rate, "bandwidth": float(card.bandwidth), "evaluations": 1.0,
    }  # fmt: skip
    passes = row | {"flop": flop, "attention_flop": attention, "decoder_flop": 0.0}
    alone = row | {"flop": 0.0, "attention_flop": 0.0, "decoder_flop": encoding, "evaluations": 0.0}
    computes, encodes = predict_seconds(PictureLoad.of_rows([passes, alone]), load_calibration().pictures)
    own, _ = pass_flop(work.flop, work.attention_flop, full=full, share=0.0)
    return float(computes), float(encodes), batch * own


def predict_picture_step(spec: ModelSpec, request: TrainingRequest, card: Accelerator) -> PictureStep | None:
    """How long a step takes on a GPU of this kind; None if no rate of its arithmetic is published."""
    units = "fp32" if request.precision == "fp32" else "fp16" if request.fp16 else "bf16"
    if card.kind != "gpu" or not find_peak(card, units):
        return None
    fit, of = load_times(), spec.pipeline
    assert of is not None  # noqa: S101 checked before
    computes, encodes, own = computing_seconds(spec, request, card)
    share, base = recomputed_share(spec, request), base_format(request) if request.method != "full" else "bf16"
    micro = micro_step(computes, blocks=max(1, of.blocks[0]), share=share, times=fit.times, form=fit.formats.get(base, PLAIN))
    constants, _ = load_speed()
    moved = _HALF * of.blocks[1] * (2 + share)  # weights that each pass unpacks, or fetches from the host
    if base == "nf4":
        micro += constants.unpack * moved / card.bandwidth
    if request.pictures.base_offload:
        micro = max(micro, moved / (BUS_REACHED * find_host_link_rate(card)))
    trained = count_trained(spec, request)
    step = request.accumulation * (micro + encodes) + constants.update * trained.parameters * trained.width / card.bandwidth
    return PictureStep(step, step * fit.low, step * fit.high, own * request.accumulation / (step * find_peak(card, units)))


def rank_picture_hardware(
    spec: ModelSpec, request: TrainingRequest, catalog: Catalog, platforms: Sequence[str], *, total_tokens: int = 1
) -> list[TrainingOption]:
    """Hardware whose one card trains: first those that fit, then by the price of the whole training, then by its time."""
    options = judge_pictures(spec, request, list_hardware(catalog, platforms), total_tokens=total_tokens)
    return sorted(options, key=lambda o: (_ORDER.index(o.verdict), o.usd is None, o.usd or 0, o.hours or 0, o.needed_bytes))


def judge_pictures(
    spec: ModelSpec, request: TrainingRequest, places: Iterable[Hardware], *, total_tokens: int = 1
) -> Iterator[TrainingOption]:
    """The training on one card of each piece of hardware that has GPUs."""
    positions = count_positions(spec, resolve_picture(spec, request))
    sizes: dict[tuple[TrainingRequest, int], tuple[TrainingMemory, int]] = {}
    for hardware in places:
        asked, capacity = train_on(hardware.processor, request), usable_memory(hardware) or 0
        key = asked, capacity
        if key not in sizes:
            largest = find_largest(
                lambda batch, asked=asked: estimate_picture_training(spec, replace(asked, micro_batch=batch)).device.typical,  # type: ignore[misc]
                capacity,
                MOST_AT_ONCE,
            )
            sizes[key] = estimate_picture_training(spec, asked), largest
        memory, largest = sizes[key]
        place = describe_place(spec, hardware, asked, memory, capacity)
        speed = predict_picture_step(spec, asked, hardware.processor)
        hours = None if speed is None else total_tokens / memory.tokens_per_step * speed.step_s / HOUR_S
        yield TrainingOption(
            **place,
            longest_sequence_tokens=positions if place["verdict"] != "no" else 0,
            largest_micro_batch=largest,
            tokens_per_s_low=None if speed is None else memory.tokens_per_step / speed.high_s,
            tokens_per_s=None if speed is None else memory.tokens_per_step / speed.step_s,
            tokens_per_s_high=None if speed is None else memory.tokens_per_step / speed.low_s,
            mfu=None if speed is None else speed.mfu,
            hours=hours,
            usd=price_run(place, hours),
            step_s=None if speed is None else speed.step_s,
        )


def find_picture_changes(spec: ModelSpec, request: TrainingRequest, reference: Accelerator) -> list[TrainingChange]:
    """Ways to take less memory, each on its own: most bytes first; speeds are compared on one card."""
    now, speed = estimate_picture_training(spec, request).device.typical, predict_picture_step(spec, request, reference)
    changes = []
    for code, fields in _variants(spec, request):
        other = replace(request, **fields)
        try:
            check_picture_training(spec, other)
        except AdvisorError:  # a combination that is refused is not advice
            continue
        then, after = estimate_picture_training(spec, other).device.typical, predict_picture_step(spec, other, reference)
        if then < now:
            ratio = speed.step_s / after.step_s if speed is not None and after is not None else None
            changes.append(TrainingChange(code=code, fields=fields, saved_bytes=now - then, device_bytes=then, speed_ratio=ratio))
    return sorted(changes, key=lambda change: -change.saved_bytes)


def _variants(spec: ModelSpec, r: TrainingRequest) -> list[tuple[str, dict[str, Any]]]:
    """Alternative questions, by code; a step takes as many pictures as before."""
    size, of, adapters = resolve_picture(spec, r), spec.pipeline, r.method != "full"
    assert of is not None  # noqa: S101 checked before
    smaller = {name: max(1, round(getattr(size, name) * _SMALLER / of.granularity)) * of.granularity for name in ("width", "height")}
    frames = (max(1, int(latent_frames(size.frames, of.frame_step)) // 2) - 1) * of.frame_step + 1 if of.frame_step else 0
    possible: list[tuple[bool, str, dict[str, Any]]] = [
        (not adapters, "method_lora", {"method": "lora"}),
        (r.method == "lora" and r.pictures.base_precision == "bf16", "method_qlora", {"method": "qlora"}),
        (adapters and r.rank > 1, "rank", {"rank": max(1, r.rank // 2)}),
        (r.checkpointing == "none", "checkpointing_layers", {"checkpointing": "layers"}),
        (r.checkpointing == "layers", "checkpointing_offloaded", {"checkpointing": "offloaded"}),
        (r.pictures.cached != "all", "cached_all", {"pictures": replace(r.pictures, cached="all")}),
        *((name != r.optimizer, f"optimizer_{name}", {"optimizer": name}) for name in _OPTIMIZERS),
        (not adapters and r.precision != "bf16", "precision_bf16", {"precision": "bf16"}),
        (r.micro_batch > 1, "micro_batch", {"micro_batch": max(1, r.micro_batch // 2), "accumulation": 2 * r.accumulation}),
        (True, "picture_size", {"pictures": replace(r.pictures, **smaller)}),
        (0 < frames < size.frames, "picture_frames", {"pictures": replace(r.pictures, frames=frames)}),
        (adapters and not r.pictures.base_offload, "base_offload", {"pictures": replace(r.pictures, base_offload=True)}),
    ]
    return [(code, fields) for holds, code, fields in possible if holds]
