"""Jobs before and after they run: what they will cost at most, the files that are sent with them, and rows from what they printed.

What runs inside a job: each model measured as the page's Measure does it, and its row printed to the log.
"""

from __future__ import annotations

import statistics
import sys
import traceback
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Literal, NamedTuple

from lib.catalog import Catalog, load
from lib.catalog.offers import Offer
from lib.catalog.silicon import Accelerator
from lib.errors import AdvisorError, AgainstRules, BadArgument, DoesNotFit, InvalidInput, UnsupportedModel
from lib.hub.jobs import mark_result, own_script, parse_results, vllm_script
from lib.live.ledger import Ledger, LedgerPlace
from lib.live.measurements import DatasetPush, Measurement, model_label, read_row
from lib.memory import estimate_memory, fit_memory, usable_memory
from lib.model import bundled
from lib.model.spec import ModelSpec
from lib.present.numbers import gib
from lib.service.endpoint import App
from lib.service.measure import MeasureArguments, measure
from lib.service.models import Models
from lib.service.runs import MeasurementLedger, run_end
from lib.speed import SpeedRequest, predict_each
from lib.workload import MemoryRequest

_MOST_CHARACTERS = 500  # characters of a job's own words that are shown
PRECISIONS = ("fp32", "fp16", "bf16")


class _Program(NamedTuple):
    """A program that is measured, and the number of GPUs that a flavor needs for it."""

    engine: Literal["transformers", "vllm"]
    least_gpus: int
    most_gpus: int


_PROGRAMS = (_Program("transformers", 0, 1), _Program("vllm", 1, 64))
"""In the order in which `auto` takes them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRequest:
    """The measurement on each flavor."""

    models: tuple[str, ...]
    prompt_tokens: int
    output_tokens: int
    precision: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPlan:
    """One job: where, by which program, for how long at most, and what that costs. Money is exact."""

    offer: Offer
    engine: Literal["transformers", "vllm"]
    timeout_s: int
    usd_per_hour: Decimal

    @property
    def most_usd(self) -> Decimal:
        """The whole time-out at the flavor's price: what the job costs if it never ends by itself."""
        return self.usd_per_hour * self.timeout_s / 3600


def plan_job(flavor: str, timeout_s: int, catalog: Catalog, engine: str = "auto") -> JobPlan:
    """A job on a flavor; `auto` takes vllm on several GPUs, else transformers.

    Raises:
        UnknownHardware: no flavor of Jobs.
        AgainstRules: it is no longer offered, its price is not known, or the engine needs a GPU or one GPU at most.
    """
    offer = catalog.offer(flavor, platform="jobs")
    if offer.status != "listed":
        raise AgainstRules(
            f"The flavor {offer.id} is no longer offered on Jobs. Choose one that is listed (see `list_hardware`, platform jobs)."
        )
    if offer.usd_per_hour is None:
        raise AgainstRules(f"The price of the flavor {offer.id} is not known, so no job is started on it. Choose another.")
    able = [one.engine for one in _PROGRAMS if one.least_gpus <= offer.accelerator_count <= one.most_gpus]
    program = next((name for name in able if engine in {"auto", name}), None)
    if program is None:
        raise AgainstRules(f"{engine} is not measured on {offer.id}: vllm takes flavors with GPUs, transformers one GPU or none.")
    return JobPlan(offer=offer, engine=program, timeout_s=timeout_s, usd_per_hour=offer.usd_per_hour)


def check_fit(plan: JobPlan, request: JobRequest, model: str, spec: ModelSpec) -> None:
    """Refuse a job whose run does not fit its hardware; hardware of unknown memory is let through.

    Raises:
        DoesNotFit: with the arithmetic.
    """
    capacity = usable_memory(plan.offer)
    if capacity is None:
        return
    needed = MemoryRequest(
        precision=request.precision,
        engine=plan.engine,
        context_tokens=request.prompt_tokens + request.output_tokens,
        devices=max(1, plan.offer.accelerator_count),
    )
    silicon = plan.offer.processor
    fit = fit_memory(spec, needed, capacity, silicon)
    if fit.fits:
        return
    of = estimate_memory(spec, needed, silicon)
    parts = (("weights", of.weights), ("cache", of.kv_cache), ("activations", of.activation), ("runtime", of.runtime))
    together = " + ".join(f"{name} {gib(part.bytes)}" for name, part in parts)
    each = f" over {needed.devices} devices, {gib(fit.capacity_bytes - fit.free_bytes)} on the fullest" if needed.devices > 1 else ""
    raise DoesNotFit(
        f"{model} does not fit {plan.offer.id}: {together} = {gib(of.total_bytes)}{each}; {plan.engine} may fill {gib(fit.capacity_bytes)} "
        f"there. Choose a larger flavor, a smaller model or fewer tokens."
    )


def job_script(plan: JobPlan, request: JobRequest) -> str:
    """Files that are shipped to the job."""
    run: dict[str, Any] = {"prompt_tokens": request.prompt_tokens, "output_tokens": request.output_tokens, "precision": request.precision}
    if plan.engine == "vllm":
        models = [[model, bundled.find_config(model)] for model in request.models]
        return vllm_script(run | {"models": models, "devices": plan.offer.accelerator_count})
    return own_script(run | {"models": list(request.models), "provenance": _provenance(plan)})


def _provenance(plan: JobPlan) -> str:
    return f"Hugging Face Jobs, {plan.offer.id}"


def read_log(
    lines: Iterable[str], plan: JobPlan, request: JobRequest, models: Models, accelerators: Mapping[str, Accelerator]
) -> tuple[tuple[Measurement, ...], tuple[str, ...]]:
    """Rows and complaints from a job's log. A line that is not a valid row is a complaint: the job's owner controls its log."""
    rows, complaints = [], []
    for result in parse_results(lines):
        try:
            if "error" in result:
                complaints.append(f"{_words(result.get('model'))}: {_words(result['error'])}")
            elif plan.engine == "vllm":
                rows.append(_vllm_row(result, plan, request, models, accelerators))
            else:
                row = result.get("row")
                rows.append(read_row(row if isinstance(row, dict) else {}))
        except (InvalidInput, UnsupportedModel) as error:
            complaints.append(f"A result that the job printed cannot be used: {error}")
    return tuple(rows), tuple(complaints)


def _words(text: object) -> str:
    return "".join(c if c.isprintable() else " " for c in str(text))[:_MOST_CHARACTERS]


def _median(result: Mapping[str, Any], name: str) -> float:
    """The median of some seconds."""
    times = result.get(name)
    if not isinstance(times, list) or not times or not all(type(t) in (int, float) and 0 < t < 1e6 for t in times):  # noqa: PLR2004 days
        raise BadArgument(f"{name} of a result", str(times)[:80], "a list of seconds")
    return float(statistics.median(times))


def _vllm_row(
    result: Mapping[str, Any], plan: JobPlan, request: JobRequest, models: Models, accelerators: Mapping[str, Accelerator]
) -> Measurement:
    """A row from two latencies: rate = (tokens − 1) / (whole − first)."""
    if result.get("model") not in request.models:
        raise BadArgument("model of a result", str(result.get("model"))[:80], "one that was asked for")
    spec = models(result["model"])
    first, whole = _median(result, "first_s"), _median(result, "whole_s")
    further = request.output_tokens - 1
    shape = SpeedRequest(
        precision=request.precision, engine="vllm", prompt_tokens=request.prompt_tokens, output_tokens=request.output_tokens
    )
    expected = run_end(predict_each([(spec, plan.offer, shape)], accelerators)[0], "value")
    return Measurement(
        when=datetime.now(UTC).strftime("%Y-%m-%dT%H:%MZ"),
        kind="job",
        device=f"{plan.offer.accelerator_count} × {result.get('device')}"[:200],
        accelerator=plan.offer.accelerator,
        devices=plan.offer.accelerator_count,
        driver=result.get("driver"),
        torch=str(result.get("torch")),
        engine=f"vllm {result.get('vllm')}",
        model=model_label(spec),
        architecture=spec.architecture,
        weights="random",
        precision=request.precision,
        prompt_tokens=request.prompt_tokens,
        output_tokens=request.output_tokens,
        predicted_peak_bytes=None,
        peak_bytes=None,
        predicted_ttft_s=expected.ttft_s,
        ttft_s=first,
        predicted_decode_tokens_per_s=expected.decode_tokens_per_s,
        decode_tokens_per_s=further / (whole - first) if further and whole > first else None,
        provenance=_provenance(plan),
    )


def most_usd(plans: Iterable[JobPlan]) -> Decimal:
    """Upper bound of the cost of all jobs."""
    return sum((plan.most_usd for plan in plans), Decimal(0))


def main(request: Mapping[str, Any]) -> None:
    """Measure `models`, with `prompt_tokens`, `output_tokens` and `precision`; a model that fails does not stop the others."""
    ledger = Ledger(LedgerPlace(path=None, lasting=False, words="memory of the job"))
    app = App(catalog=load, models=Models(), ledger=MeasurementLedger(ledger, DatasetPush(None)))
    for model in request["models"]:
        sys.stdout.write(mark_result(_one(model, request, app, ledger)) + "\n")
        sys.stdout.flush()


def _one(model: str, request: Mapping[str, Any], app: App, ledger: Ledger) -> dict[str, Any]:
    before = len(ledger.own_rows())
    try:
        measure(app, MeasureArguments(model=model, **{name: request[name] for name in ("prompt_tokens", "output_tokens", "precision")}))
    except AdvisorError as refusal:
        return {"model": model[:200], "error": str(refusal)}
    except Exception as error:  # noqa: BLE001 the log shows the trace, and the next model gets its turn
        traceback.print_exc()
        return {"model": model[:200], "error": f"It failed ({type(error).__name__}); the log says more."}
    rows = ledger.own_rows()
    if len(rows) == before:
        return {"model": model[:200], "error": "It was measured, but gave no row for the ledger; the log says why."}
    return {"row": asdict(replace(rows[-1], kind="job", provenance=request["provenance"]))}
