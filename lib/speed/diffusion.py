"""Seconds per picture (or clip): the pipeline's own work by size, steps and guidance; else the published work of a pipeline not run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from lib import precision as precisions
from lib.catalog.offers import Hardware
from lib.errors import UnsupportedModel, quote_value
from lib.laws.forward_pass import Quantity, fraction
from lib.laws.pipeline import DENOISING, denoising
from lib.memory.pipeline import picture_work, resolve_size
from lib.memory.resolve import choose_engine
from lib.provenance import Caveat, Source
from lib.speed.batch import SpeedRequest, choose_arithmetic
from lib.speed.calibration import CLASSES, load_calibration
from lib.speed.hardware import card_class, find_peak, resolve_devices
from lib.speed.predict import ExplainedSpeed, Interval, SpeedPart
from lib.units import Seconds

if TYPE_CHECKING:
    from lib.catalog.silicon import Accelerator
    from lib.model.spec import ModelSpec

EAGER = frozenset({"eager", "unfused"})
WAYS = {"gpu": "eager", "tpu": "chip", "neuron": "chip", "cpu": "host"}


def predict_seconds(
    work: dict[str, Any], fit: dict[str, Any], *, way: str, units: str, group: str, peak_rate: float, bandwidth: float, batch: Quantity
) -> Quantity:
    """The law with its fitted constants; `way` is how it runs: eager, unfused (eager before PyTorch 2), compiled, chip, or host (CPU).

    A class of cards reaches what it reaches in the matrices of language models, of which there are many more points, and an offset.
    """
    own = float(load_calibration().constants.compute_class[CLASSES.index(group)])
    logit = fit["base"] + fit["way"].get(way, 0.0) + fit["units"].get(units, 0.0) + own + fit["class"].get(group, 0.0)
    evaluations = work["steps"] * work["evaluations_per_step"]
    eager = way in EAGER
    host = float(np.exp(fit["host_s"] if eager else fit["compiled_host_s"]))
    moved = float(np.exp(fit["bytes_per_flop"].get(way, -np.inf)))
    rate = 1.0 / (1.0 / (peak_rate * float(fraction(logit))) + moved / bandwidth)
    return denoising(
        batch=batch, evaluations=evaluations, flop=work["flop"], decoder_flop=work["decoder_flop"], rate=rate, host_s=host, eager=eager
    )


def _work_of(spec: ModelSpec, request: SpeedRequest, table: dict[str, dict[str, Any]]) -> tuple[dict[str, Any], str]:
    """The work of one picture, and its shape in words."""
    published = {name.casefold(): row for name, row in table.items()}.get(spec.id.casefold())
    if spec.pipeline is not None:
        size = resolve_size(spec, request.pictures)
        work = picture_work(spec.pipeline, size, request.pictures)._asdict()
        if published is not None and not request.pictures.steps:
            work["steps"] = published["steps"]  # as its work was published: a distilled model takes fewer than its pipeline does
        frames = f" x {size.frames} frames" if size.frames else ""
        return work, f"{size.width} x {size.height}{frames}, {work['steps']} steps"
    if published is None:
        raise UnsupportedModel(
            f"{quote_value(spec.id or 'This pipeline')} was not run here and its work per picture was not published, so its speed is not "
            f"predicted. Known: {', '.join(table)}."
        )
    return published, f"{published['resolution']}, {published['steps']} steps"


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
    units = choose_arithmetic(precision, precisions.compute_dtype(precision, spec, card), card, "transformers")
    rate = find_peak(card, units) * devices.share
    took = float(
        predict_seconds(
            work,
            fit,
            way=WAYS[card.kind],
            units=units,
            group=card_class(card),
            peak_rate=rate,
            bandwidth=card.bandwidth * devices.share,
            batch=batch,
        )
    )
    least = request.concurrency * (work["steps"] * work["evaluations_per_step"] * work["flop"] + work["decoder_flop"]) / rate
    spread = float(np.exp(fit["spread"]))
    value = max(took, least)
    whole = Interval(value=Seconds(value), low=Seconds(max(took / spread, least)), high=Seconds(value * spread))
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
        bound="compute",
        running_requests=batch,
        decode_parts=(),
        prompt_parts=(
            SpeedPart(
                name="denoising",
                seconds=whole.value,
                law=DENOISING.equation,
                inputs={"shape": what, "evaluations per step": str(work["evaluations_per_step"]), "TFLOP": f"{work['flop'] / 1e12:g}"},
                source=DENOISING.source,
            ),
        ),
        caveats=(Caveat("picture_shape", {"shape": what}), *devices.caveats),
        sources=(Source(what="constants and work per picture", source=calibration.source, checked=calibration.checked), *card.sources),
    )
