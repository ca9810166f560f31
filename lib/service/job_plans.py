"""Plans of measurements on Jobs: which program measures which models on which flavor, and the most that costs."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Literal

from lib.catalog.offers import Offer
from lib.engines import Engine
from lib.errors import BadArgument, DoesNotFit
from lib.live.measurements import FIGURES, Measurement, model_label, read_row
from lib.memory import estimate_memory, fit_memory, usable_memory
from lib.model.spec import ModelSpec
from lib.precision import NAMES
from lib.present.numbers import gib
from lib.request.types import AUTO
from lib.workload import MemoryRequest, PipelineRequest

_MOST_CHARACTERS = 500  # characters of a job's own words that are shown
_LONGEST_S = 1e6

ProgramName = Literal["transformers", "vllm", "diffusers", "llama.cpp"]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRequest:
    """The measurement on each flavor. Size, steps and guidance are those of pictures; 0 and None leave them to the pipeline."""

    models: tuple[str, ...]
    prompt_tokens: int
    output_tokens: int
    precision: str
    pictures: PipelineRequest = PipelineRequest()  # noqa: RUF009 frozen
    guidance: float | None = None

    @property
    def counted_as(self) -> str:
        """The precision of predictions; a file whose mix has no law is counted as it is stored."""
        return self.precision if self.precision in NAMES else AUTO


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPlan:
    """One job: where, by which program, for how long at most, and what that costs. Money is exact."""

    offer: Offer
    engine: ProgramName
    timeout_s: int
    usd_per_hour: Decimal

    @property
    def most_usd(self) -> Decimal:
        """The whole timeout at the flavor's price: the cost of a job that never ends by itself."""
        return self.usd_per_hour * self.timeout_s / 3600

    def describe(self, request: JobRequest) -> str:
        """The models and the flavor."""
        return f"{', '.join(request.models)[:60]} on {self.offer.id}"

    @property
    def provenance(self) -> str:
        """Origin of its rows."""
        return f"Hugging Face Jobs, {self.offer.id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageCommand:
    """The command of a job that runs in a container image."""

    image: str
    words: tuple[str, ...]


def most_usd(plans: Iterable[JobPlan]) -> Decimal:
    """Upper bound of the cost of all jobs."""
    return sum((plan.most_usd for plan in plans), Decimal(0))


def memory_request(plan: JobPlan, request: JobRequest, engine: Engine) -> MemoryRequest:
    """The memory of a run, for the engine's row that predicts it."""
    return MemoryRequest(
        precision=request.counted_as,
        engine=engine,
        context_tokens=request.prompt_tokens + request.output_tokens,
        devices=max(1, plan.offer.accelerator_count),
        pictures=request.pictures,
    )


def check_fit(plan: JobPlan, request: JobRequest, model: str, spec: ModelSpec, engine: Engine) -> None:
    """Refuse a job whose run does not fit its hardware; hardware of unknown memory is let through.

    Raises:
        DoesNotFit: with the arithmetic.
    """
    capacity = usable_memory(plan.offer)
    if capacity is None:
        return
    needed, silicon = memory_request(plan, request, engine), plan.offer.processor
    fit = fit_memory(spec, needed, capacity, silicon)
    if fit.fits:
        return
    of = estimate_memory(spec, needed, silicon)
    parts = (("weights", of.weights), ("cache", of.kv_cache), ("activations", of.activation), ("runtime", of.runtime))
    together = " + ".join(f"{name} {gib(part.bytes)}" for name, part in parts)
    each = f" over {needed.devices} devices, {gib(fit.capacity_bytes - fit.free_bytes)} on the fullest" if needed.devices > 1 else ""
    raise DoesNotFit(
        f"{model} does not fit {plan.offer.id}: {together} = {gib(of.total_bytes)}{each}; {plan.engine} may fill {gib(fit.capacity_bytes)} "
        f"there. Choose a larger flavor, a smaller model, or fewer tokens or pixels."
    )


def job_row(plan: JobPlan, spec: ModelSpec, **cells: Any) -> Measurement:
    """A row of the ledger from a job; what it states no cell for was not measured. Pydantic checks every cell.

    Raises:
        BadArgument: a cell is not what it should be.
    """
    known: dict[str, Any] = dict.fromkeys(("driver", *FIGURES)) | {
        "when": datetime.now(UTC).strftime("%Y-%m-%dT%H:%MZ"),
        "kind": "job",
        "accelerator": plan.offer.accelerator,
        "model": model_label(spec),
        "architecture": spec.architecture,
        "weights": "checkpoint",
        "provenance": plan.provenance,
    }
    return read_row(known | cells)


def describe_text(request: JobRequest) -> str:
    """The request of a model that makes text, in words."""
    return f"{request.prompt_tokens:,} prompt tokens, {request.output_tokens:,} output tokens"


def describe_row(row: Measurement) -> str:
    """The measured rate of a row, or its seconds a picture, in words."""
    if row.picture_s is not None:
        return f"{row.picture_s:.2f} s a picture of {row.width} × {row.height} pixels in {row.steps} steps"
    return f"{row.decode_tokens_per_s:.1f} tokens/s" if row.decode_tokens_per_s is not None else f"{row.ttft_s} s to the first token"


def job_words(text: object) -> str:
    """A job's own words, printable and short."""
    return "".join(c if c.isprintable() else " " for c in str(text))[:_MOST_CHARACTERS]


def median_of(name: str, times: object, per_second: float = 1.0) -> float:
    """The median of times in a job's log, in seconds.

    Raises:
        BadArgument: they are not a list of times.
    """
    if not isinstance(times, list) or not times or not all(type(t) in (int, float) and 0 < t / per_second < _LONGEST_S for t in times):
        raise BadArgument(f"{name} of a result", str(times)[:80], "a list of times above 0")
    return float(statistics.median(times)) / per_second


def check_model(result_model: object, request: JobRequest) -> str:
    """The model of a result, which has to be one that was asked for."""
    if result_model not in request.models:
        raise BadArgument("model of a result", str(result_model)[:80], "one that was asked for")
    return str(result_model)
