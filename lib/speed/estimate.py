"""One question about speed, answered with its parts, its range and what it leaves open."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lib.provenance import Caveat, Source
from lib.speed.ceilings import card_class
from lib.speed.constants import Fitted, fitted
from lib.speed.many import STATIC, Bands, speeds
from lib.speed.parts import decode_parts, prompt_parts
from lib.speed.pictures import picture_speed
from lib.speed.result import Band, Bound, SpeedEstimate, SpeedRequest
from lib.units import GIB

if TYPE_CHECKING:
    from lib.model.spec import ModelSpec
    from lib.offer import Offer
    from lib.silicon import Cards
    from lib.speed.case import Setup

WINDOW_S = 30.0
HEARING = "automatic-speech-recognition"
_LARGEST_SHARE = 0.98


def speed(spec: ModelSpec, hardware: Offer | Cards, request: SpeedRequest) -> SpeedEstimate:
    """How fast `request.concurrency` requests of this shape run, in flight all the time.

    Raises:
        BadArgument: the precision is unknown, or the engine needs other hardware.
        UnknownHardware: a CPU of which nothing is known.
        UnsupportedModel: a pipeline of which no work per picture is known.
    """
    if spec.library == "diffusers":
        return picture_speed(spec, hardware, request)
    found = speeds([(spec, hardware, request)])
    held = fitted()
    of = found.setups[0]
    first, between, through = (_band(b) for b in (found.first_s, found.between_s, found.throughput))
    decodes = of.numbers.decoder is not None
    hears = spec.task == HEARING and decodes
    items = None
    if hears:
        items = through.times(1.0 / request.output_tokens)
    elif not decodes:
        items = through.times(1.0 / request.prompt_tokens)
    bound: Bound = found.bound[0]  # type: ignore[assignment]
    return SpeedEstimate(
        precision=of.precision,
        engine=of.laid.engine,
        ttft_s=first,
        inter_token_s=between if decodes else None,
        decode_tokens_per_s=between.inverse if decodes else None,
        throughput_tokens_per_s=through,
        items_per_s=items,
        unit="windows" if hears else "tokens" if decodes else "sequences",
        real_time_factor=items.times(WINDOW_S) if hears and items else None,
        bound=bound,
        running=of.running,
        decode=decode_parts(found) if decodes else (),
        prompt=prompt_parts(found),
        caveats=_caveats(of, held),
        sources=_sources(of, held),
    )


def _band(of: Bands) -> Band:
    return Band(value=float(of.value[0]), low=float(of.low[0]), high=float(of.high[0]))


def _caveats(of: Setup, held: Fitted) -> tuple[Caveat, ...]:
    """What the answer leaves open."""
    spec, card, engine = of.spec, of.on.silicon, of.laid.engine
    said = {
        "extrapolated": (engine, card_class(card)) not in held.measured
        and f"No measurement of {engine} on a card like {card.name} was published with its conditions; the ranges are wider for that.",
        "one_after_another": of.laid.stages > 1
        and f"{engine} puts layers on each of the {of.on.count} devices, which work one after another: "
        "more memory, no more speed for one request.",
        "cpu_estimate": card.kind == "cpu"
        and not card.reached
        and "Figures of CPUs are estimates of what a shared host gives, not of a datasheet.",
        "cache_unknown": spec.unknown_cache and "How this model's cache grows is not known; reading it is left out of the times.",
        "typical_model": spec.source == "rule_of_thumb" and "Only a parameter count is known: sizes of a typical decoder are taken.",
        "static_batch": engine in STATIC
        and of.request.concurrency > 1
        and "The requests start together as one batch; this engine does not take new ones in between.",
    }
    found = [Caveat(code=code, message=message) for code, message in said.items() if message]
    return (*of.on.caveats, *of.laid.caveats, *_room(of), *found)


def _room(of: Setup) -> tuple[Caveat, ...]:
    """Whether the weights and all requests fit."""
    memory = of.on.memory * of.laid.split * of.laid.stages
    if memory and of.numbers.total_bytes > memory * _LARGEST_SHARE:
        need, there = of.numbers.total_bytes / GIB, memory / GIB
        message = f"The weights take {need:.1f} GiB and there are {there:.1f} GiB: this is how fast it would be if they fitted."
        return (Caveat(code="does_not_fit", message=message),)
    if of.running < of.request.concurrency:
        message = (
            f"Of {of.request.concurrency:,} requests about {of.running:,.0f} run at once; the others wait for a place, "
            "which is in the time to the first token."
        )
        return (Caveat(code="requests_wait", message=message),)
    return ()


def _sources(of: Setup, held: Fitted) -> tuple[Source, ...]:
    """Where the numbers come from."""
    fit = Source(what="constants of the laws of speed, fitted by scripts/calibrate.py", source=held.source, checked=held.checked)
    return (fit, *of.on.silicon.sources, *of.spec.sources)
