"""The boxes of *Live demo* below the chat: a measurement, the heartbeat, and the rows measured so far.

Measure runs the model of the page with random weights on the device at hand, with the prediction for exactly that run. The heartbeat
times one product there and says why a published time cannot be one, with the script for a TPU. The ledger holds every prediction against
its measurement, the newest rows, and the whole as a file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gradio as gr
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response
from starlette.routing import Route

from lib.answers.live import HeartbeatProgress, MeasureStage
from lib.errors import AdvisorError, DoesNotFit, TooLong
from lib.live.device_queue import DEVICE
from lib.live.heartbeat import DTYPES, MAX_BATCH, MAX_ITERATIONS, MAX_SIDE, MAX_WARMUP, SHORT
from lib.present import live_cards, live_measurements
from lib.present.markup import answer_actions, escape, fold, hint_note, no_model_note, refusal_note
from lib.present.tables import answer_json
from lib.present.wording import page_note
from lib.service import measure
from lib.service.recommend import recommend
from lib.ui import events
from lib.ui.fields import FIELDS_BY_NAME, QUESTION, Field, arguments, format_error
from lib.ui.workload import fold_button, number
from lib.workload import prompt_and_output_tokens

if TYPE_CHECKING:
    from gradio.events import Dependency
    from starlette.requests import Request

    from lib.answers.live import ExpectedAnswer, HeartbeatAnswer, MeasureAnswer
    from lib.service.app import Services
    from lib.service.measure import DefaultRun
    from lib.service.runs import Format


_AS_ASKED = "0: as in the workload"
MEASURE = (
    Field(argument="prompt_tokens", name="measure-prompt", default=0, high=measure.MAX_PROMPT, label="Prompt tokens", info=_AS_ASKED),
    Field(argument="output_tokens", name="measure-answer", default=0, high=measure.MAX_OUTPUT, label="Output tokens", info=_AS_ASKED),
)
"""The numbers of Measure."""
SHARED_LENGTHS = ("context", "prompt", "answer")
"""Fields of the workload that give Measure its lengths where its own are 0."""
DEFAULT_PRECISION = "bf16"
PRECISIONS = [("16-bit (bf16)", "bf16"), ("16-bit (fp16)", "fp16"), ("32-bit (fp32)", "fp32")]


_OF_DEVICE = events.queue_options(DEVICE)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunView:
    """A box that runs something on the device: its questions and outputs, the buttons `run` and `stop` among them."""

    inputs: list[Any]
    outputs: events.Outputs


def build_measure() -> RunView:
    """The layout of Measure; its questions are the arguments of the service, then whether a smaller run may replace this one."""
    with gr.Row(elem_classes="two"):
        with gr.Column(scale=1, min_width=280, elem_classes="controls"):
            with gr.Row(elem_classes="act-row"):
                run = gr.Button("Run", variant="primary", elem_id="measure-run")
                stop = gr.Button("Stop", variant="stop", visible=False, elem_id="measure-stop")
            prompt, answer = (number(field) for field in MEASURE)
            precision = gr.Dropdown(PRECISIONS, value=DEFAULT_PRECISION, label="Number format of the weights")
            smaller = gr.Checkbox(value=True, label="Run a smaller model if this one does not fit here", elem_id="measure-smaller")
        with gr.Column(scale=3, min_width=320, elem_classes="answers"):
            expected = gr.HTML(no_model_note("measure"), elem_id="expected")
            status = gr.HTML(elem_id="measure-status")
            card = gr.HTML(elem_id="measure-card")
    outputs = {"status": status, "card": card, "run": run, "stop": stop, "expected": expected}
    return RunView(inputs=[prompt, answer, precision, smaller], outputs=outputs)


def _words_of(run: DefaultRun) -> str:
    return live_cards.run_words(run.model, run.prompt_tokens, run.output_tokens, run.seconds)


def _smaller_run(services: Services, model: str, prompt: Any, answer: Any, precision: Any) -> DefaultRun | None:
    """The run that takes the place of this one where the device does not allow it; None if it does, or if nothing fits.

    An argument that is wrong is left to the run itself, which refuses it.
    """
    try:
        run = services[measure.default_measurement](model, prompt, answer, precision)
    except AdvisorError:
        return None
    return run if run is not None and run.changed else None


def expected_html(services: Services, model: str, prompt: Any, answer: Any, precision: Any, smaller: bool = False) -> str:
    """The prediction for the run, and whether it fits; a refusal is the same sentence that the run would get.

    Where the device is too small or too slow for the run, a smaller one takes its place (`smaller`), or a model that fits is offered.
    """
    if not model:
        return no_model_note("measure")
    if smaller and (other := _smaller_run(services, model, prompt, answer, precision)):
        note = live_cards.smaller_run_note("The pasted config" if model.lstrip().startswith("{") else model, _words_of(other))
        return note + expected_html(services, other.model, other.prompt_tokens, other.output_tokens, precision)
    try:
        expected = services[measure.predict_measurement](model, prompt, answer, precision)
        markup, seconds = (
            live_measurements.expected_card(expected, model) + live_cards.run_memory_note(),
            live_measurements.expected_s(expected),
        )
        markup += _tiers_of_run(services, model, expected)
        if seconds is None or seconds <= expected.limit_s:
            return markup
    except DoesNotFit as refused:
        markup = refusal_note(str(refused)) + live_cards.run_memory_note()
    except TooLong as refused:
        markup = refusal_note(str(refused))
    except AdvisorError as refused:
        return format_error(refused, box=MEASURE)
    return markup + live_measurements.instead_link(services[measure.suggest_measurement](model, prompt, answer, precision))


def _tiers_of_run(services: Services, model: str, run: ExpectedAnswer) -> str:
    """The same run on ZeroGPU and every tier of Spaces, as `/recommend` predicts it."""
    asked = {"prompt_tokens": run.prompt_tokens, "output_tokens": run.output_tokens, "precision": run.precision}
    try:
        answer = services[recommend](model, context_tokens=run.prompt_tokens + run.output_tokens, engine="transformers", **asked)
    except AdvisorError:  # such as lengths beyond the model's limit, which a run with random weights does not have
        return ""
    return live_cards.run_tiers(answer)


def measure_scenes(
    services: Services, model: str, prompt: Any, answer: Any, precision: Any, smaller: bool = False
) -> Iterator[events.Updates]:
    """Run it, show its stages, and the result; a refusal or failure takes the place of the result."""
    if not model:
        yield {"status": no_model_note("measure")}
        return
    if smaller and (other := _smaller_run(services, model, prompt, answer, precision)):
        model, prompt, answer = other.model, other.prompt_tokens, other.output_tokens

    def run() -> Iterator[events.Updates]:
        yield {"status": live_cards.stage_list(live_measurements.STAGES, "starting"), "card": "", "busy": True}
        with events.close_on_exit(services[measure.stream_measurement](model, prompt, answer, precision)) as items:
            for item in items:
                yield _measure_scene(item, model)

    yield from events.scenes(run, DEVICE, lambda refused: {"status": format_error(refused, box=MEASURE)})


def _measure_scene(item: MeasureStage | MeasureAnswer, model: str) -> events.Updates:
    if isinstance(item, MeasureStage):
        return {"status": live_cards.stage_list(live_measurements.STAGES, item.stage), "busy": True}
    acts = answer_actions(
        text=live_measurements.measure_text(item, model),
        query=None,
        files=(
            ("Download CSV", "measured.csv", "text/csv", live_measurements.measure_csv(item)),
            ("Download JSON", "measured.json", "application/json", answer_json(item)),
        ),
    )
    return {"card": live_measurements.measure_card(item, model) + acts}


def wire_run(
    view: RunView,
    name: str,
    run: Callable[..., Iterator[events.Updates]],
    inputs: Sequence[Any],
    stopped: str,
    turns: Mapping[str, Any] = _OF_DEVICE,
) -> Dependency:
    """Running takes its turn with all other work on the device; Stop ends it and says `stopped`. Returns the run, for what follows it.

    `turns` are the options of the event's queue.
    """

    def act(*values: Any) -> Iterator[dict[Any, Any]]:
        yield from events.scene_updates(view.outputs, run(*values))

    def stop() -> dict[Any, Any]:
        return events.last_scene(view.outputs, {"status": live_cards.stopped_line(stopped)})

    outputs = [view.outputs[part] for part in ("status", "card", "run", "stop")]
    options = {"show_progress_on": view.outputs["status"], **turns}
    running: Dependency = view.outputs["run"].click(act, inputs, outputs, api_name=f"{name}_run", **options)
    # The words come after the run has ended: its last scene would write over them.
    stopping = view.outputs["stop"].click(None, cancels=[running], api_name=f"{name}_cancelled", **events.AT_ONCE)
    stopping.then(stop, None, outputs, api_name=f"{name}_stopped", **events.AT_ONCE)
    return running


def run_arguments(prompt: Any, answer: Any, precision: Any, smaller: Any, *shared: Any) -> list[Any]:
    """The arguments of a run. A length of 0 is the workload's (`shared`, in the order of `SHARED_LENGTHS`), or its context's usual one."""
    context, shared_prompt, shared_answer = shared
    usual = prompt_and_output_tokens(int(context or FIELDS_BY_NAME["context"].default))  # type: ignore[arg-type]
    return [prompt or shared_prompt or usual[0], answer or min(shared_answer or usual[1], measure.MAX_OUTPUT), precision, smaller]


def measure_inputs(view: RunView, page: events.Wiring) -> list[Any]:
    """The inputs of `run_arguments`."""
    question = {field.name: component for field, component in zip(QUESTION, page.question, strict=True)}
    return [*view.inputs, *(question[name] for name in SHARED_LENGTHS)]


def wire_measure(view: RunView, page: events.Wiring) -> Dependency:
    """Run the model of the page."""

    def run(model: str, *values: Any) -> Iterator[events.Updates]:
        yield from measure_scenes(page.services, model, *run_arguments(*values))

    return wire_run(view, "measure", run, [page.model.text, *measure_inputs(view, page)], page_note("stopped:measure"))


TPU_SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "heartbeat_tpu.py"
CHIP = "TPU-v6e"
HEARTBEAT = (
    Field(argument="batch", name="beat-batch", default=128, low=1, high=MAX_BATCH, label="Batch"),
    Field(argument="hidden", name="beat-hidden", default=4096, low=1, high=MAX_SIDE, label="Hidden"),
    Field(argument="intermediate", name="beat-intermediate", default=16384, low=1, high=MAX_SIDE, label="Intermediate"),
    Field(argument="iterations", name="beat-iterations", default=100, low=3, high=MAX_ITERATIONS, label="Timed products"),
    Field(argument="warmup", name="beat-warmup", default=5, low=0, high=MAX_WARMUP, label="Warm-up products"),
)
"""The numbers of the heartbeat, after the type."""


def build_heartbeat(services: Services) -> RunView:
    """The layout of the heartbeat; its first question is the type."""
    gr.HTML("<h2>Heartbeat</h2>", elem_classes="live-head")
    with gr.Row(elem_classes="two"):
        with gr.Column(scale=1, min_width=280, elem_classes="controls"):
            dtype = gr.Radio([(SHORT[name], name) for name in DTYPES], value="float32", label="Number format", elem_classes="segments")
            with gr.Accordion("Sizes and repetitions", open=False, elem_classes="quiet-accordion"):
                sizes = [number(field) for field in HEARTBEAT]
            with gr.Row(elem_classes="act-row"):
                run = gr.Button("Run the heartbeat", variant="primary", elem_id="beat")
                stop = gr.Button("Stop", variant="stop", visible=False, elem_id="beat-stop")
        with gr.Column(scale=3, min_width=320, elem_classes="answers"):
            status = gr.HTML(hint_note(page_note("heartbeat")), elem_id="beat-status")
            card = gr.HTML(elem_id="beat-card")
            story = f'<p class="story">{escape(live_cards.explain_published_time(services.catalog().accelerator(CHIP)))}</p>'
            script = live_cards.script_block(TPU_SCRIPT.name, TPU_SCRIPT.read_text(encoding="utf-8"))
            why, waits = "Why 0.0056 ms on a TPU v6e cannot be right", "The script for a TPU, which waits for its work"
            gr.HTML(fold(why, story, "behind") + fold(waits, script, "behind"), elem_id="tpu-story")
    return RunView(inputs=[dtype, *sizes], outputs={"status": status, "card": card, "run": run, "stop": stop})


def heartbeat_scenes(services: Services, dtype: Any, *sizes: Any) -> Iterator[events.Updates]:
    """Run it and show its progress; a refusal or failure takes the place of the result."""
    run_sizes = arguments(HEARTBEAT, sizes)

    def run() -> Iterator[events.Updates]:
        yield {"status": live_cards.progress_line(page_note("checking_device")), "card": "", "busy": True}
        with events.close_on_exit(services[measure.stream_heartbeat](**run_sizes, dtype=dtype)) as items:
            for item in items:
                yield _heartbeat_scene(item)

    yield from events.scenes(run, DEVICE, lambda refused: {"status": format_error(refused, box=HEARTBEAT)})


def _heartbeat_scene(item: HeartbeatProgress | HeartbeatAnswer) -> events.Updates:
    if isinstance(item, HeartbeatProgress):
        return {"status": live_cards.progress_line(live_cards.phase_words(item), item.done, item.of), "busy": True}
    acts = answer_actions(
        text=live_cards.heartbeat_text(item),
        query=None,
        files=(("Download JSON", "heartbeat.json", "application/json", answer_json(item)),),
    )
    return {"card": live_cards.heartbeat_card(item) + acts}


def wire_heartbeat(view: RunView, services: Services) -> None:
    """Time one product."""
    wire_run(view, "heartbeat", partial(heartbeat_scenes, services), view.inputs, page_note("stopped:heartbeat"))


MEDIA: dict[Format, str] = {"csv": "text/csv; charset=utf-8", "parquet": "application/vnd.apache.parquet"}
_LABELS: dict[Format, str] = {"csv": "Download CSV", "parquet": "Download Parquet"}


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerView:
    """The choice of a figure, and the outputs."""

    figure: gr.Radio
    outputs: events.Outputs


def build_ledger() -> LedgerView:
    """The layout of the ledger."""
    gr.HTML("<h2>Measurements so far</h2>", elem_classes="live-head")
    storage = gr.HTML(elem_id="ledger-kept")
    with gr.Column(elem_classes="answers", elem_id="ledger"):
        fold_button("Predictions against measurements", "#ledger")
        with gr.Column(elem_classes="chart", elem_id="ledger-chart", visible=False) as box:
            figure = gr.Radio(list(live_measurements.FIGURES), value="peak_bytes", label="Show", elem_classes="segments ledger-figure")
            head = gr.HTML()
            chart = gr.Plot(label="Predicted against measured", show_label=False, visible=False)
        rows = gr.HTML(elem_id="ledger-rows")
    return LedgerView(figure=figure, outputs={"storage": storage, "box": box, "head": head, "chart": chart, "rows": rows})


def ledger_updates(services: Services, figure: str) -> events.Updates:
    """The ledger's chart, table and status; without rows only the line that says so."""
    wanted = figure if figure in {value for _, value in live_measurements.FIGURES} else "peak_bytes"
    ledger = services.ledger
    rows, storage = ledger.rows(), live_measurements.storage_line(ledger.status())
    if not rows:
        chart = gr.update(value=None, visible=False)
        return {"storage": storage, "box": gr.update(visible=False), "head": "", "chart": chart, "rows": ""}
    return {
        "storage": storage + downloads(),
        "box": gr.update(visible=True),
        "head": live_measurements.scatter_head(rows, wanted),
        "chart": gr.update(value=live_measurements.draw_scatter(rows, wanted), visible=True),
        "rows": live_measurements.newest_table(rows),
    }


def downloads() -> str:
    """Links to the whole ledger; the files are made when they are asked for."""
    links = "".join(f'<a class="act" href="ledger.{form}" download="measurements.{form}">{escape(_LABELS[form])}</a>' for form in MEDIA)
    return f'<div class="actions" role="group" aria-label="Download">{links}</div>'


def wire_ledger(view: LedgerView, services: Services) -> None:
    """Choosing another figure draws the chart again."""

    def redraw(figure: str) -> dict[Any, Any]:
        return events.by_component(view.outputs, ledger_updates(services, figure))

    view.figure.input(redraw, view.figure, list(view.outputs.values()), api_name="ledger_figure", **events.AT_ONCE)


def routes(services: Services) -> list[Route]:
    """The routes of the files: read-only, without personal data."""

    def answers(form: Format) -> Any:
        async def answer(_: Request) -> Response:
            try:
                content = await run_in_threadpool(services.ledger.export, form)
            except AdvisorError as refused:
                return Response(str(refused), status_code=503, media_type="text/plain")
            return Response(content, media_type=MEDIA[form], headers={"Content-Disposition": f'attachment; filename="measurements.{form}"'})

        return answer

    return [Route(f"/ledger.{form}", answers(form), methods=["GET"]) for form in MEDIA]
