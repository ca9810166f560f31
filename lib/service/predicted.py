"""What the laws say of exactly one run: its peak of memory, its first token, its speed; and how far off they were.

    peak = weights + max( cache(prompt) + activations(prompt) ,  cache(prompt + answer − 1) + activations(1) ) [+ workspace on a GPU]

The prompt is read at once, then token after token, and the last token is never read: so the cache ends one short of the sum. The process,
its libraries and the CUDA context are left out, for torch's allocator does not count them either.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lib.errors import InvalidInput, UnsupportedModel
from lib.live.device import OFFERS, Device, hardware
from lib.live.processor import processor, told
from lib.memory import MemoryEstimate, estimate_memory
from lib.provenance import Caveat, Source
from lib.speed import SpeedRequest, speed
from lib.workload import MemoryRequest

if TYPE_CHECKING:
    from lib.catalog import Catalog
    from lib.catalog.offers import Offer
    from lib.catalog.silicon import Accelerator, Cards
    from lib.live.pace import Pace
    from lib.model.spec import ModelSpec
    from lib.speed import Band

WORKSPACE = "cuBLAS workspace"
_SOME_CPU = "CPU-2vCPU"  # for what it computes natively: the same for all of its kind
_NOT_HERE = "one_prompt"  # said of an estimate that takes the whole context as one prompt, which this one does not


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run: a model in a format on a device, with a prompt of this length and this many tokens of answer.

    `pace` is what the device was seen to reach in this format, where it has no datasheet (a CPU); None leaves it to the catalog.
    """

    spec: ModelSpec
    precision: str
    device: Device
    prompt_tokens: int
    output_tokens: int
    pace: Pace | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Predicted:
    """What to expect of a run: the cache at its end, the activations of its prompt; None where nothing is known of the device.

    `hardware` names what the speed is predicted for: a row of the catalog, or this very machine.
    """

    peak_bytes: int
    weights_bytes: int
    kv_cache_bytes: int
    activation_bytes: int
    ttft_s: Band | None
    decode_tokens_per_s: Band | None
    hardware: str | None
    caveats: tuple[Caveat, ...]
    sources: tuple[Source, ...]


def _on(run: Run, catalog: Catalog) -> Offer | Cards | None:
    """The device as the catalog's, a CPU with its own rates where they are known; on ZeroGPU the size that the device is of."""
    if run.pace is not None and run.device.kind == "cpu":
        return hardware(run.device, catalog, cpu=processor(run.pace, run.precision, run.device, catalog.accelerator(_SOME_CPU)))
    large = catalog.offer(OFFERS["large"]).vram_bytes_per_accelerator or 0
    return hardware(run.device, catalog, "xlarge" if run.device.kind == "zerogpu" and run.device.memory_bytes > large else "large")


def _silicon(run: Run, catalog: Catalog) -> Accelerator | None:
    found = _on(run, catalog)
    if found is None:
        return None
    return found.silicon or getattr(found, "host_cpu", None) or catalog.accelerator(_SOME_CPU)


def _name(run: Run, catalog: Catalog) -> str | None:
    """The catalog's id of the hardware, or that of measured silicon."""
    found, silicon = _on(run, catalog), _silicon(run, catalog)
    if found is None:
        return None
    return silicon.id if silicon is not None and silicon.reached else found.id


def predicted(run: Run, catalog: Catalog) -> Predicted:
    """The prediction.

    Raises:
        InvalidInput: a precision that no format has.
        UnsupportedModel: nothing is known of the model's work per token.
    """
    silicon = _silicon(run, catalog)

    def at(tokens: int) -> MemoryEstimate:
        request = MemoryRequest(precision=run.precision, engine="transformers", context_tokens=max(1, tokens))
        return estimate_memory(run.spec, request, silicon)

    read, first, last = at(run.prompt_tokens), at(1), at(run.prompt_tokens + run.output_tokens - 1)
    held = max(read.kv_cache.bytes + read.activation.bytes, last.kv_cache.bytes + first.activation.bytes)
    workspace = read.runtime.details.get(WORKSPACE, 0)
    first_s, rate, caveats, sources = _speed(run, catalog)
    return Predicted(
        peak_bytes=read.weights.bytes + held + workspace,
        weights_bytes=read.weights.bytes,
        kv_cache_bytes=last.kv_cache.bytes,
        activation_bytes=read.activation.bytes,
        ttft_s=first_s,
        decode_tokens_per_s=rate,
        hardware=_name(run, catalog),
        caveats=(*(caveat for caveat in last.caveats if caveat.code != _NOT_HERE), *caveats),
        sources=(*last.sources, *sources),
    )


def _speed(run: Run, catalog: Catalog) -> tuple[Band | None, Band | None, tuple[Caveat, ...], tuple[Source, ...]]:
    on = _on(run, catalog)
    if on is None:
        unknown = f"Nothing is known of the card {run.device.name}, so its speed is not predicted."
        return None, None, (Caveat(code="speed_unknown", message=unknown),), ()
    asked = SpeedRequest(precision=run.precision, prompt_tokens=run.prompt_tokens, output_tokens=run.output_tokens)
    try:
        found = speed(run.spec, on, asked)
    except (InvalidInput, UnsupportedModel) as error:
        return None, None, (Caveat(code="speed_unknown", message=f"The speed is not predicted. {error}"),), ()
    measured = (told(run.pace, run.precision),) if run.pace is not None else ()
    return found.ttft_s, found.decode_tokens_per_s, (*measured, *found.caveats), found.sources


def ratio(expected: float | None, measured: float | None) -> float | None:
    """How far a prediction was off, as a share of what was measured: +0.1 is 10 % too high. None where either is missing."""
    return None if expected is None or not measured else expected / measured - 1.0
