"""Seconds per picture (or clip): the pipeline's own work by size, steps and guidance; else the published work of a pipeline not run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lib import precision as precisions
from lib.catalog.offers import Hardware
from lib.errors import UnsupportedModel, quote_value
from lib.laws.forward_pass import Array, fraction
from lib.laws.pipeline import BUS_REACHED, DENOISING, HOST_COPY, TRANSFER, denoising, transfer_time
from lib.memory.pipeline import PipelineMemory, picture_work, resolve_size
from lib.memory.resolve import choose_engine, resolve_request
from lib.provenance import Caveat, Source
from lib.speed.batch import SpeedRequest, choose_arithmetic
from lib.speed.calibration import load_calibration
from lib.speed.hardware import card_class, find_host_link_rate, find_peak, resolve_devices
from lib.speed.predict import ExplainedSpeed, Interval, SpeedPart
from lib.units import Seconds
from lib.workload import MemoryRequest

if TYPE_CHECKING:
    from lib.catalog.silicon import Accelerator
    from lib.model.spec import ModelSpec

EAGER = frozenset({"eager", "unfused"})
WAYS = {"gpu": "eager", "tpu": "chip", "neuron": "chip", "cpu": "host"}
FEW_ROWS = 8
"""A card with fewer public times than this gets the range of cards that the fit has not seen."""
_HALVED = 2.5
"""GeForce cards multiply 16-bit numbers and add in float32 at twice their float32 rate, half of what the chip can; others at four times."""


def picture_class(card: Accelerator) -> str:
    """The class whose shares hold for pictures: as for text, but cards with GDDR apart by whether their tensor rate is halved."""
    group = card_class(card)
    if group != "gddr":
        return group
    return "gddr-halved" if (card.peak("fp16") or 0.0) <= _HALVED * (card.peak("fp32") or 0.0) else "gddr"


@dataclass(frozen=True, slots=True, kw_only=True)
class PictureLoad:
    """Pictures to make and the cards that make them: n rows, arrays of shape (n,).

    `way` is how a pipeline runs: eager, unfused (eager before PyTorch 2), compiled, chip, or host (CPU); `units` multiply the weights;
    `group` is the card's class, `memory` that of its memory (`card_class`): a halved tensor rate does not slow its memory.
    FLOP are those of one evaluation for one picture, `peak` and `attention_peak` in FLOP/s, `bandwidth` in bytes/s.
    """

    way: tuple[str, ...]
    units: tuple[str, ...]
    group: tuple[str, ...]
    memory: tuple[str, ...]
    flop: Array
    attention_flop: Array
    product_bytes_per_flop: Array
    decoder_flop: Array
    evaluations: Array
    batch: Array
    peak: Array
    attention_peak: Array
    bandwidth: Array

    @classmethod
    def of_rows(cls, rows: list[dict[str, Any]]) -> PictureLoad:
        """Rows with a value for each field."""
        names = {"way", "units", "group", "memory"}
        columns = {f.name: [row[f.name] for row in rows] for f in fields(cls)}
        values: dict[str, Any] = {n: tuple(c) if n in names else np.array(c, dtype=float) for n, c in columns.items()}
        return cls(**values)


def predict_seconds(load: PictureLoad, fit: Mapping[str, Any]) -> Array:
    """The law of `lib.laws.pipeline` with its fitted constants; seconds of shape (n,)."""

    def pick(family: str, names: tuple[str, ...]) -> Array:
        return np.array([fit[family].get(name, 0.0) for name in names])

    share = fraction(fit["base"] + pick("way", load.way) + pick("units", load.units) + pick("class", load.group))
    moved = np.exp(pick("traffic", load.way) + pick("class_traffic", load.memory)) * load.product_bytes_per_flop
    moved = np.where(np.array([way == "host" for way in load.way]), 0.0, moved)
    eager = np.array([way in EAGER for way in load.way])
    return np.asarray(
        denoising(
            batch=load.batch,
            evaluations=load.evaluations,
            flop=load.flop,
            attention_flop=load.attention_flop,
            decoder_flop=load.decoder_flop,
            rate=1.0 / (1.0 / (load.peak * share) + moved / load.bandwidth),
            attention_rate=load.attention_peak * share * np.exp(fit["attention"]),
            host_s=np.exp(np.where(eager, fit["host_s"], fit["compiled_host_s"])),
            eager=eager,
        )
    )


def _work_of(spec: ModelSpec, request: SpeedRequest, table: dict[str, dict[str, Any]]) -> tuple[dict[str, Any], str]:
    """The work of one picture, and its shape in words."""
    published = {name.casefold(): row for name, row in table.items()}.get(spec.id.casefold())
    if spec.pipeline is not None:
        size = resolve_size(spec, request.pictures)
        work = picture_work(spec, size, request.pictures)
        frames = f" x {size.frames} frames" if size.frames else ""
        return work._asdict(), f"{size.width} x {size.height}{frames}, {work.described}"
    if published is None:
        raise UnsupportedModel(
            f"{quote_value(spec.id or 'This pipeline')} was not run here and its work per picture was not published, so its speed is not "
            f"predicted. Known: {', '.join(table)}."
        )
    guided = "guided" if published["evaluations_per_step"] > 1 else "not guided"
    return published, f"{published['resolution']}, {published['steps']} steps, {guided} (as its published measurements)"


def predict_pictures(spec: ModelSpec, hardware: Hardware, request: SpeedRequest, accelerators: Mapping[str, Accelerator]) -> ExplainedSpeed:
    """Time of a batch of `request.concurrency` pictures, without compilation.

    Raises:
        BadArgument: the engine makes no pictures, or the pipeline none of this size.
        UnsupportedModel: no work per picture is known for this pipeline, or no such silicon was timed (Macs).
        UnknownHardware: a CPU of which nothing is known.
    """
    choose_engine(spec, request.engine)
    calibration = load_calibration()
    fit = calibration.pictures
    work, what = _work_of(spec, request, fit["work"])
    devices = resolve_devices(hardware, accelerators)
    card, batch = devices.silicon, float(request.concurrency)
    if card.kind not in WAYS:
        raise UnsupportedModel(f"No time of a picture on a Mac was measured, so speeds of pipelines on {card.name} are not predicted.")
    precision = precisions.resolve(request.precision, spec, "transformers", card)
    compute = precisions.compute_dtype(precision, spec, card)
    units = choose_arithmetic(precision, compute, card, "transformers")
    rate = find_peak(card, units) * devices.share
    evaluations = work["steps"] * work["evaluations_per_step"]
    row = {name: work[name] for name in ("flop", "attention_flop", "product_bytes_per_flop", "decoder_flop")} | {
        "way": WAYS[card.kind], "units": units, "group": picture_class(card), "memory": card_class(card),
        "evaluations": evaluations, "batch": batch,
        "peak": rate, "attention_peak": find_peak(card, compute) * devices.share, "bandwidth": card.bandwidth * devices.share,
    }  # fmt: skip
    took = float(predict_seconds(PictureLoad.of_rows([row]), fit)[0])
    least = request.concurrency * (evaluations * work["flop"] + work["decoder_flop"]) / rate
    transfer = time_transfer(spec, request, card, work["steps"] * (work["evaluations_per_step"] if work["sequential"] else 1))
    rows = fit["rows"].get(card.id, 0)
    spread = float(np.exp(fit["spread"] if rows >= FEW_ROWS else fit["spread_few_rows"]))
    value = max(took, least) + transfer.seconds
    whole = Interval(value=Seconds(value), low=Seconds(max(took / spread, least) + transfer.least_s), high=Seconds(value * spread))
    parts = [
        SpeedPart(
            name="denoising",
            seconds=max(took, least),
            law=DENOISING.equation,
            inputs={"shape": what, "evaluations per step": str(work["evaluations_per_step"]), "TFLOP": f"{work['flop'] / 1e12:g}"},
            source=DENOISING.source,
        )
    ]
    few = (Caveat("picture_rows", {"silicon": card.name, "rows": rows}),) if rows < FEW_ROWS else ()
    return ExplainedSpeed(
        request=request,
        precision=precision,
        engine="diffusers",
        ttft_s=whole,
        tpot_s=None,
        throughput_tokens_per_s=None,
        floor=None,
        items_per_s=whole.inverse.times(batch),
        unit="pictures",
        bound="transfer" if transfer.seconds > max(took, least) else "compute",
        running_requests=batch,
        decode_parts=(),
        prompt_parts=(*parts, *transfer.parts),
        caveats=(Caveat("picture_shape", {"shape": what}), *few, *devices.caveats),
        sources=(Source(what="constants and work per picture", source=calibration.source, checked=calibration.checked), *card.sources),
    )


class Transfer(NamedTuple):
    """Seconds of the copies, the least that the bus allows, and the part of the time with its law."""

    seconds: float
    least_s: float
    parts: tuple[SpeedPart, ...]


NO_TRANSFER = Transfer(0.0, 0.0, ())


def time_transfer(spec: ModelSpec, request: SpeedRequest, card: Accelerator, runs: int) -> Transfer:
    """Copies of a call whose denoiser runs so many times; none without offload, or if no pipeline is known."""
    offload = request.pictures.offload
    if offload == "none" or spec.pipeline is None or card.kind != "gpu":
        return NO_TRANSFER
    asked = MemoryRequest(precision=request.precision, pictures=request.pictures)
    components = PipelineMemory(spec, spec.pipeline, resolve_request(spec, asked, card)).components
    moved = float(2 * sum(components.values()))
    if offload != "model":
        denoiser = sum(size for name, size in components.items() if name in {"transformer", "unet"})
        others = sum(size for name, size in components.items() if name not in {"transformer", "unet", "transformer_2"})
        moved = float(denoiser * runs + others)
    bus = find_host_link_rate(card)
    seconds = transfer_time(moved_bytes=moved, bus=bus, offload=offload)
    inputs = {
        "offload": offload,
        "GB moved": f"{moved / 1e9:,.1f}",
        "bus": f"{BUS_REACHED:.0%} of {bus / 1e9:g} GB/s",
        "host": f"{HOST_COPY[offload] / 1e9:g} GB/s",
    }
    part = SpeedPart(name="weights over the bus", seconds=Seconds(seconds), law=TRANSFER.equation, inputs=inputs, source=TRANSFER.source)
    return Transfer(seconds, moved / bus, (part,))
