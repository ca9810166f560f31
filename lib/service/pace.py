"""What a bill needs of a speed estimate: three figures, and what the estimate leaves open."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lib.catalog.offers import Offer
from lib.cost import Pace, Usage
from lib.errors import InvalidInput, UnsupportedModel
from lib.model.spec import ModelSpec
from lib.provenance import Caveat, Source
from lib.workload import MemoryRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownPace:
    """Seconds to the first token and between tokens, answer tokens per second; `None` where nothing is decoded."""

    ttft_s: float | None
    inter_token_s: float | None
    throughput_tokens_per_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Paced:
    """The pace of an offer, `None` where it could not be estimated; then a caveat says why."""

    pace: Pace | None = None
    caveats: tuple[Caveat, ...] = ()
    sources: tuple[Source, ...] = ()


Speed = Callable[[ModelSpec, Offer, MemoryRequest, Usage], Paced]
"""How fast an offer runs a model at this use; what it raises as bad input is a reason, not a failure."""

ONE_AT_A_TIME = Caveat(
    code="one_at_a_time",
    message="Prices per million tokens are those of one request at a time at full use; an engine that serves several at once costs less.",
)
UNKNOWN = Caveat(code="speed_unknown", message="The speed on this hardware was not estimated, so prices per token are left open.")


def paced(speed: Speed | None, spec: ModelSpec, offer: Offer, request: MemoryRequest, usage: Usage) -> Paced:
    """The pace, or why there is none: hardware and models that cannot be estimated do not stop a bill."""
    if speed is None:
        return Paced(caveats=(UNKNOWN,))
    try:
        return speed(spec, offer, request, usage)
    except (InvalidInput, UnsupportedModel) as error:
        return Paced(caveats=(Caveat(code="speed_unknown", message=f"Prices per token are left open. {error}"),))
