"""Measure: the model of the page with random weights on the device at hand, beside the prediction for exactly that run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import gradio as gr

from lib.errors import AdvisorError
from lib.live.device_queue import DEVICE
from lib.present.live_cards import STAGES, expected_card, measure_card, measure_csv, measure_text, stage_list, stopped_line
from lib.present.markup import answer_actions, hint_note, refusal_note
from lib.present.tables import answer_json
from lib.ui.events import AT_ONCE
from lib.ui.fields import label_argument
from lib.ui.live_run import RunScene, close_on_exit, queue_options, scene_updates, scenes
from lib.ui.model_field import ModelReference

if TYPE_CHECKING:
    from gradio.events import Dependency

    from lib.service.app import Services

CHOOSE = "Name a model above: its architecture is run here with random weights, so nothing of it is downloaded but its configuration."
LABELS = {"prompt_tokens": "Prompt tokens", "output_tokens": "Output tokens"}
PRECISIONS = [("16-bit (bf16)", "bf16"), ("16-bit (fp16)", "fp16"), ("32-bit (fp32)", "fp32")]


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureView:
    """The parts of Measure."""

    prompt: gr.Number
    answer: gr.Number
    precision: gr.Dropdown
    run: gr.Button
    stop: gr.Button
    expected: gr.HTML
    status: gr.HTML
    card: gr.HTML

    def inputs(self) -> list[Any]:
        """The questions beside the model, in the order of the service's arguments."""
        return [self.prompt, self.answer, self.precision]

    def outputs(self) -> list[Any]:
        """Where a scene goes, in the order of `RunScene.updates`."""
        return [self.status, self.card, self.run, self.stop]


def build() -> MeasureView:
    """The layout of Measure."""
    gr.HTML("<h2>Measure</h2>", elem_classes="live-head")
    with gr.Row(elem_classes="two"):
        with gr.Column(scale=1, min_width=280, elem_classes="controls"):
            with gr.Row(elem_classes="pair"):
                prompt = gr.Number(512, label=LABELS["prompt_tokens"], minimum=1, precision=0, min_width=100)
                answer = gr.Number(64, label=LABELS["output_tokens"], minimum=1, precision=0, min_width=100)
            precision = gr.Dropdown(PRECISIONS, value="bf16", label="Number format of the weights")
            with gr.Row(elem_classes="act-row"):
                run = gr.Button("Measure on this device", variant="primary", elem_id="measure-run")
                stop = gr.Button("Stop", variant="stop", visible=False, elem_id="measure-stop")
        with gr.Column(scale=3, min_width=320, elem_classes="answers"):
            expected = gr.HTML(hint_note(CHOOSE), elem_id="expected")
            status = gr.HTML(elem_id="measure-status")
            card = gr.HTML(elem_id="measure-card")
    return MeasureView(prompt=prompt, answer=answer, precision=precision, run=run, stop=stop, expected=expected, status=status, card=card)


def expected_html(services: Services, model: str, prompt: Any, answer: Any, precision: Any) -> str:
    """What is predicted of the run before it, and whether it fits; a refusal is the same sentence that the run would get."""
    if not model:
        return hint_note(CHOOSE)
    try:
        return expected_card(services.live.predict_measurement(model, prompt, answer, precision), model)
    except AdvisorError as refused:
        return refusal_note(label_argument(str(refused), LABELS))


def measure_scenes(services: Services, model: str, prompt: Any, answer: Any, precision: Any) -> Iterator[RunScene]:
    """Run it, show its stages, and the result; what is refused or fails stands in place of the result."""
    if not model:
        yield RunScene(status=hint_note(CHOOSE))
        return

    def run() -> Iterator[RunScene]:
        yield RunScene(status=stage_list(STAGES, "starting"), card="", busy=True)
        with close_on_exit(services.live.stream_measurement(model, prompt, answer, precision)) as items:
            for item in items:
                yield _item_scene(item, model)

    yield from scenes(run, DEVICE, lambda sentence: RunScene(status=refusal_note(label_argument(sentence, LABELS))))


def _item_scene(item: Any, model: str) -> RunScene:
    if "schema" not in item:
        return RunScene(status=stage_list(STAGES, item["stage"]), busy=True)
    acts = answer_actions(
        text=measure_text(item, model),
        query=None,
        files=(
            ("Download CSV", "measured.csv", "text/csv", measure_csv(item)),
            ("Download JSON", "measured.json", "application/json", answer_json(item)),
        ),
    )
    return RunScene(card=measure_card(item, model) + acts)


def wire(view: MeasureView, services: Services, model: ModelReference) -> Dependency:
    """Running takes its turn with whatever else needs the device; Stop ends the run's process. Returns the run, for what follows it."""

    def run(ref: str, prompt: Any, answer: Any, precision: Any) -> Iterator[list[Any]]:
        yield from scene_updates(measure_scenes(services, ref, prompt, answer, precision))

    def stop() -> list[Any]:
        return RunScene(status=stopped_line("Stopped. The run was ended and its memory given back; nothing was kept.")).updates()

    running: Dependency = view.run.click(
        run, [model.text, *view.inputs()], view.outputs(), api_name="measure_run", show_progress_on=view.status, **queue_options(DEVICE)
    )
    # The words come after the run has ended: its last scene would write over them.
    stopping = view.stop.click(None, cancels=[running], api_name="measure_cancelled", **AT_ONCE)
    stopping.then(stop, None, view.outputs(), api_name="measure_stopped", **AT_ONCE)
    return running
