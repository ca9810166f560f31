"""Servers started on Jobs for their start lines alone: the plan of models × flavors, and a row of the ledger from the lines.

A server prints its memory when it starts: weights, cache, buffers. That takes some minutes and no request. The image and the command are
those of the engine's row, the lines are read by `/explain`. A row has the weights as the engine prints them and as this app predicts
them; all other figures are printed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lib.answers.explain import ExplainAnswer, Printed
from lib.catalog import Catalog
from lib.engines import TRAITS, Engine, find_engine, traits_of
from lib.errors import BadArgument
from lib.live.measurements import Measurement
from lib.present.releases import load_versions
from lib.present.snippets import Start, command_words
from lib.service.endpoint import App
from lib.service.explain import ExplainArguments, explain
from lib.service.job_plans import JobPlan, job_row
from lib.service.jobs import plan_job

ENGINES: tuple[Engine, ...] = tuple(name for name, traits in TRAITS.items() if traits.command is not None and traits.command.ready)
"""Engines whose servers say when they are ready."""
_WEIGHTS = "weights_bytes"
_COMPUTE, _HOST, _BYTES = "compute_", "cpu", "_bytes"
"""Names that the reader gives to buffers: a part's name, the device's, the unit; model buffers have no part (`lib.explain.rows`)."""
_MOST_TEXT = 150_000


@dataclass(frozen=True, slots=True, kw_only=True)
class StartPlan:
    """One server on one flavor: its image, its command, and the price of its whole timeout."""

    model: str
    engine: Engine
    precision: str
    context_tokens: int
    image: str
    words: tuple[str, ...]
    job: JobPlan

    @property
    def name(self) -> str:
        """The model and the flavor."""
        return f"{self.model[:60]} on {self.job.offer.id}"

    def is_ready(self, line: str) -> bool:
        """Whether a line says that the server takes requests, so all start lines are there."""
        command = traits_of(self.engine).command
        return command is not None and command.ready in line


def plan_starts(
    models: Sequence[str], flavors: Sequence[str], engine: str, *, precision: str, context_tokens: int, timeout_s: int, catalog: Catalog
) -> tuple[StartPlan, ...]:
    """Each model on each flavor; an empty precision is the engine's own.

    Raises:
        BadArgument: the engine has no server that says when it is ready, or no image for the flavor.
        UnknownHardware: no flavor of Jobs.
        AgainstRules: it is no longer offered, or its price is not known.
    """
    chosen = find_engine(engine)
    if chosen not in ENGINES:
        raise BadArgument("engine", engine, ", ".join(ENGINES))
    traits = traits_of(chosen)
    precision = precision or (traits.int4 if traits.own_files else "bf16")
    plans = []
    for flavor in flavors:
        job = plan_job(flavor, timeout_s, catalog)
        count = job.offer.accelerator_count
        image = load_versions().image(chosen, "gpu" if count else "cpu").image
        start = Start(precision=precision, devices=max(1, count), context_tokens=context_tokens, on_gpu=count > 0)
        for model in models:
            words = tuple(command_words(chosen, model, start))
            plans.append(
                StartPlan(model=model, engine=chosen, precision=precision, context_tokens=context_tokens, image=image, words=words, job=job)
            )
    return tuple(plans)


def read_start(lines: Sequence[str], plan: StartPlan, app: App) -> tuple[Measurement | None, ExplainAnswer]:
    """The row of a start, and all that its lines say; no row if no figure was printed that is predicted too.

    Raises:
        AdvisorError: the lines are empty.
    """
    text = "\n".join([" ".join(plan.words), *lines])[-_MOST_TEXT:]  # the command states the settings
    offer = plan.job.offer
    model, _, _ = plan.model.partition(":") if not traits_of(plan.engine).own_files else (plan.model, "", "")
    said = explain(
        app, ExplainArguments.model_validate({"text": text, "model": model, "hardware": f"jobs:{offer.id}", "engine": plan.engine})
    )
    measured, predicted = measured_weights(said), _bytes(said.predicted, _WEIGHTS)
    if measured is None:
        return None, said
    spec = app.models(model)
    cards = ", ".join(said.read.cards)
    row = job_row(
        plan.job,
        spec,
        kind="start",
        device=(cards or offer.accelerator or offer.name)[:200],
        devices=offer.accelerator_count,
        torch="not printed",
        engine=f"{plan.engine}, {plan.image}"[:200],
        precision=plan.precision,
        prompt_tokens=plan.context_tokens,
        output_tokens=0,
        predicted_peak_bytes=predicted,
        peak_bytes=measured,
        provenance=f"{plan.job.provenance}, start lines: weights_bytes",
    )
    return row, said


def measured_weights(said: ExplainAnswer) -> int | None:
    """Bytes of the weights as the lines have them: stated, or the sum of the model's buffers; None if there are none."""
    stated = _bytes(said.logged, _WEIGHTS)
    if stated is not None:
        return stated
    devices = {name.removeprefix(_COMPUTE) for name in said.numbers if name.startswith(_COMPUTE)}
    buffers = {name for name in said.numbers if name in devices or (name.startswith(_HOST) and name.endswith(_BYTES))}
    return sum(_bytes(said.numbers, name) or 0 for name in buffers) or None


def _bytes(figures: Mapping[str, Printed], name: str) -> int | None:
    value = figures.get(name)
    return int(value) if isinstance(value, int | float) and value > 0 else None


def describe_start(said: ExplainAnswer) -> str:
    """The figures of the lines and the predicted ones, in one line."""
    pairs = [f"{name} {value} (predicted {said.predicted.get(name, 'not')})" for name, value in said.logged.items()]
    return "; ".join(pairs) or f"no figure was printed; {said.cause or 'no known message'}"
