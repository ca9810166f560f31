"""Seconds per picture (or clip) of the diffusion pipelines whose work per step was published."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from lib import precision as precisions
from lib.errors import UnsupportedModel, shown
from lib.laws.diffusion import LAW, denoising
from lib.laws.forward_pass import Quantity, fraction
from lib.provenance import Caveat, Source
from lib.speed.batch import arithmetic_of
from lib.speed.constants import fitted
from lib.speed.hardware import card_class, machine, peak
from lib.speed.result import Band, ExplainedSpeed, SpeedPart, SpeedRequest
from lib.units import Seconds

if TYPE_CHECKING:
    from lib.catalog.offers import Offer
    from lib.catalog.silicon import Accelerator, Cards
    from lib.model.spec import ModelSpec

WAYS = {"gpu": "eager", "tpu": "chip", "neuron": "chip", "cpu": "host"}


def seconds(work: dict[str, Any], fit: dict[str, Any], *, way: str, units: str, group: str, peak_rate: float, batch: Quantity) -> Quantity:
    """The law with its fitted constants; `way` is how the pipeline runs: eager, compiled, chip (TPU, Neuron) or host (CPU)."""
    logit = fit["base"] + fit["way"].get(way, 0.0) + fit["units"].get(units, 0.0) + fit["class"].get(group, 0.0)
    evaluations = work["steps"] * work["evaluations_per_step"]
    host = float(np.exp(fit["host_s"])) if way == "eager" else 0.0
    rate = peak_rate * float(fraction(logit))
    return denoising(batch=batch, evaluations=evaluations, flop=work["flop"], decoder_flop=work["decoder_flop"], rate=rate, host_s=host)


def predict_pictures(
    spec: ModelSpec, hardware: Offer | Cards, request: SpeedRequest, accelerators: Mapping[str, Accelerator]
) -> ExplainedSpeed:
    """Time of a batch of `concurrency` pictures, without compilation.

    Raises:
        UnsupportedModel: no work per picture is known for this pipeline.
        UnknownHardware: a CPU of which nothing is known.
    """
    held = fitted()
    known = {name.casefold(): row for name, row in held.pictures["work"].items()}
    work = known.get(spec.id.casefold())
    if work is None:
        raise UnsupportedModel(
            f"No work per picture was published for {shown(spec.id or 'this pipeline')}, so its speed is not predicted. "
            f"Known: {', '.join(held.pictures['work'])}."
        )
    on = machine(hardware, accelerators)
    precision = precisions.resolve(request.precision, spec, "transformers", on.silicon)
    units = arithmetic_of(precision, precisions.compute_dtype(precision, spec, on.silicon), on.silicon, "transformers")
    way, group = WAYS[on.silicon.kind], card_class(on.silicon)
    rate = peak(on.silicon, units) * on.share
    took = float(seconds(work, held.pictures, way=way, units=units, group=group, peak_rate=rate, batch=float(request.concurrency)))
    least = request.concurrency * (work["steps"] * work["evaluations_per_step"] * work["flop"] + work["decoder_flop"]) / rate
    spread = float(np.exp(held.pictures["spread"]))
    value = max(took, least)
    whole = Band(value=Seconds(value), low=Seconds(max(took / spread, least)), high=Seconds(value * spread))
    what = f"{work['resolution']}, {work['steps']} steps"
    return ExplainedSpeed(
        request=request,
        precision=precision,
        engine="diffusers",
        ttft_s=whole,
        tpot_s=None,
        throughput_tokens_per_s=None,
        floor=None,
        items_per_s=whole.inverse.times(float(request.concurrency)),
        unit="pictures",
        real_time_factor=None,
        bound="compute",
        running_requests=float(request.concurrency),
        decode_parts=(),
        prompt_parts=(
            SpeedPart(
                name="denoising",
                seconds=whole.value,
                law=LAW.equation,
                inputs={"shape": what, "evaluations per step": str(work["evaluations_per_step"]), "TFLOP": f"{work['flop'] / 1e12:g}"},
                source=LAW.source,
            ),
        ),
        caveats=(
            Caveat("picture_shape", {"shape": what}),
            *on.caveats,
        ),
        sources=(Source(what="constants and work per picture", source=held.source, checked=held.checked), *on.silicon.sources),
    )
