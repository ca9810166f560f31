"""Where a model sits under a card's roofline: the passes of a prediction, their FLOP and the bytes they move."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from typing_extensions import TypedDict

from lib.catalog import Catalog
from lib.catalog.offers import Offer
from lib.laws.forward_pass import attention_flop, cache_read, linear_flop, share_reached, weights_read
from lib.model.spec import ModelSpec
from lib.service.estimate_cost import offer_of
from lib.service.estimate_speed import speed_request
from lib.speed import Speeds, speeds
from lib.speed.hardware import peak


class PassEntry(TypedDict):
    """A pass under the roofline: FLOP per byte moved, FLOP per second as predicted."""

    name: str
    seconds: float
    flop: float
    bytes: float
    flop_per_byte: float
    flop_per_s: float


class RooflineAnswer(TypedDict):
    """The two ceilings of the hardware, all devices that work at once together, and the passes under them."""

    hardware: str
    name: str
    precision: str
    arithmetic: str
    peak_flop_per_s: float
    bandwidth_bytes_per_s: float
    passes: list[PassEntry]


class RooflineQuestion:
    """Answers where a model sits under the two ceilings of hardware."""

    def __init__(self, *, catalog: Callable[[], Catalog], models: Callable[[object], ModelSpec]) -> None:
        """Answer from `catalog()` and `models`."""
        self._catalog, self._models = catalog, models

    def roofline(
        self, model: str, hardware: str, precision: str, engine: str, prompt_tokens: int, output_tokens: int, concurrency: int
    ) -> RooflineAnswer:
        """Where a decode step and the reading of the prompts sit under the two ceilings of the hardware.

        Raises:
            InvalidInput: an argument is wrong, or the engine does not run there.
            UnsupportedModel: no work per token is known.
        """
        offer = offer_of(self._catalog(), hardware)
        request = speed_request(precision, engine, prompt_tokens, output_tokens, concurrency)
        return roofline_answer(offer, speeds([(self._models(model), offer, request)]))


def roofline_answer(offer: Offer, found: Speeds) -> RooflineAnswer:
    """The passes of one prediction: FLOP and bytes by the laws of speed, seconds as predicted."""
    of, c, f = found.setups[0], found.cases, found.forecast
    devices = of.laid.split
    row = {
        name: float(getattr(c, name)[0]) for name in ("dense_bytes", "expert_bytes", "experts", "per_token", "active", "prompt", "answer")
    }
    sequences = of.running
    passes = []
    if of.numbers.decoder is not None:
        moved = _weights(row, sequences) + sequences * _cache(found, row["prompt"] + row["answer"] / 2)
        passes.append(
            _pass("One step of decoding", float(f.step.total[0]), float(linear_flop(parameters=row["active"], tokens=sequences)), moved)
        )
    tokens = sequences * row["prompt"]
    attended = attention_flop(
        width=c.width[0], full_layers=c.full_layers[0], windowed_layers=c.windowed_layers[0], window=c.window[0], tokens=c.prompt[0]
    )
    flop = float(linear_flop(parameters=row["active"], tokens=tokens)) + sequences * float(attended)
    passes.append(_pass("Reading the prompts", float(f.prompt[0]), flop, _weights(row, tokens)))
    silicon, share = of.on.silicon, of.on.share
    return {
        "hardware": offer.id,
        "name": offer.name,
        "precision": of.precision,
        "arithmetic": of.arithmetic,
        "peak_flop_per_s": peak(silicon, of.arithmetic) * share * devices,
        "bandwidth_bytes_per_s": silicon.bandwidth * share * devices,
        "passes": passes,
    }


def _weights(row: dict[str, float], tokens: float) -> float:
    reached = share_reached(experts=row["experts"], per_token=row["per_token"], tokens=tokens)
    return float(np.asarray(weights_read(dense_bytes=row["dense_bytes"], expert_bytes=row["expert_bytes"], reached=reached)))


def _cache(found: Speeds, length: float) -> float:
    c = found.cases
    held = cache_read(
        constant=c.cache_constant[0],
        per_token=c.cache_per_token[0],
        windowed_per_token=c.cache_windowed[0],
        window=c.window[0],
        tokens=length,
    )
    return float(held)


def _pass(name: str, seconds: float, flop: float, moved: float) -> PassEntry:
    return {
        "name": name,
        "seconds": seconds,
        "flop": flop,
        "bytes": moved,
        "flop_per_byte": flop / moved,
        "flop_per_s": flop / seconds,
    }
