"""The heartbeat of the live demo: one product timed on the device at hand, why a published time cannot be one, and the script for a TPU."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gradio as gr

from lib.live.device_queue import DEVICE
from lib.live.heartbeat import DTYPES, SHORT
from lib.present.live_cards import progress_line, stopped_line
from lib.present.live_heartbeat import explain_published_time, heartbeat_card, heartbeat_text, phase_words, script_block
from lib.present.markup import answer_actions, escape, hint_note, refusal_note
from lib.present.tables import answer_json
from lib.ui.events import AT_ONCE
from lib.ui.fields import label_argument
from lib.ui.live_run import RunScene, close_on_exit, queue_options, scene_updates, scenes

if TYPE_CHECKING:
    from gradio.events import Dependency

    from lib.service.app import Services

TPU_SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "heartbeat_tpu.py"
CHIP = "TPU-v6e"
HINT = "One matrix product, timed over and over, beside the time that nothing can beat. With the sizes as they are it takes some seconds."
LABELS = {
    "batch": "Batch",
    "hidden": "Hidden",
    "intermediate": "Intermediate",
    "iterations": "Timed products",
    "warmup": "Warm-up products",
}
SIZES = tuple(LABELS)
"""Arguments of the heartbeat in the order of the fields, after the type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatView:
    """The parts of the heartbeat."""

    dtype: gr.Radio
    sizes: tuple[gr.Number, ...]
    run: gr.Button
    stop: gr.Button
    status: gr.HTML
    card: gr.HTML

    def inputs(self) -> list[Any]:
        """Every question, the type first."""
        return [self.dtype, *self.sizes]

    def outputs(self) -> list[Any]:
        """Where a scene goes, in the order of `RunScene.updates`."""
        return [self.status, self.card, self.run, self.stop]


def build(services: Services) -> HeartbeatView:
    """The layout of the heartbeat."""
    gr.HTML("<h2>Heartbeat</h2>", elem_classes="live-head")
    with gr.Row(elem_classes="two"):
        with gr.Column(scale=1, min_width=280, elem_classes="controls"):
            dtype = gr.Radio([(SHORT[name], name) for name in DTYPES], value="float32", label="Number format", elem_classes="segments")
            with gr.Accordion("Sizes and repetitions", open=False, elem_classes="quiet-accordion"):
                with gr.Row(elem_classes="pair"):
                    batch = gr.Number(128, label=LABELS["batch"], minimum=1, precision=0, min_width=100)
                    hidden = gr.Number(4096, label=LABELS["hidden"], minimum=1, precision=0, min_width=100)
                intermediate = gr.Number(16384, label=LABELS["intermediate"], minimum=1, precision=0)
                with gr.Row(elem_classes="pair"):
                    iterations = gr.Number(100, label=LABELS["iterations"], minimum=3, precision=0, min_width=100)
                    warmup = gr.Number(5, label=LABELS["warmup"], minimum=0, precision=0, min_width=100)
            with gr.Row(elem_classes="act-row"):
                run = gr.Button("Run the heartbeat", variant="primary", elem_id="beat")
                stop = gr.Button("Stop", variant="stop", visible=False, elem_id="beat-stop")
        with gr.Column(scale=3, min_width=320, elem_classes="answers"):
            status = gr.HTML(hint_note(HINT), elem_id="beat-status")
            card = gr.HTML(elem_id="beat-card")
            with gr.Accordion("Why 0.0056 ms on a TPU v6e cannot be right", open=False, elem_classes="quiet-accordion"):
                gr.HTML(f'<p class="story">{escape(explain_published_time(services.catalog().accelerator(CHIP)))}</p>', elem_id="tpu-story")
            with gr.Accordion("The script for a TPU, which waits for its work", open=False, elem_classes="quiet-accordion"):
                gr.HTML(script_block(TPU_SCRIPT.name, TPU_SCRIPT.read_text(encoding="utf-8")), elem_id="tpu-script")
    sizes = (batch, hidden, intermediate, iterations, warmup)
    return HeartbeatView(dtype=dtype, sizes=sizes, run=run, stop=stop, status=status, card=card)


def heartbeat_scenes(services: Services, dtype: Any, sizes: Sequence[Any]) -> Iterator[RunScene]:
    """Run it and show how far it is; what is refused or fails stands in place of the result."""
    asked = dict(zip(SIZES, sizes, strict=True))

    def run() -> Iterator[RunScene]:
        yield RunScene(status=progress_line("Looking at the device."), card="", busy=True)
        with close_on_exit(services.live.stream_heartbeat(**asked, dtype=dtype)) as items:
            for item in items:
                yield _item_scene(item)

    yield from scenes(run, DEVICE, lambda sentence: RunScene(status=refusal_note(label_argument(sentence, LABELS))))


def _item_scene(item: Any) -> RunScene:
    if "schema" not in item:
        return RunScene(status=progress_line(phase_words(item), item["done"], item["of"]), busy=True)
    acts = answer_actions(
        text=heartbeat_text(item),
        query=None,
        files=(("Download JSON", "heartbeat.json", "application/json", answer_json(item)),),
    )
    return RunScene(card=heartbeat_card(item) + acts)


def wire(view: HeartbeatView, services: Services) -> None:
    """Running takes its turn with whatever else needs the device; Stop ends it."""

    def run(dtype: Any, *sizes: Any) -> Iterator[list[Any]]:
        yield from scene_updates(heartbeat_scenes(services, dtype, sizes))

    def stop() -> list[Any]:
        return RunScene(status=stopped_line("Stopped. Nothing was kept.")).updates()

    running: Dependency = view.run.click(
        run, view.inputs(), view.outputs(), api_name="heartbeat_run", show_progress_on=view.status, **queue_options(DEVICE)
    )
    # The words come after the run has ended: its last scene would write over them.
    stopping = view.stop.click(None, cancels=[running], api_name="heartbeat_cancelled", **AT_ONCE)
    stopping.then(stop, None, view.outputs(), api_name="heartbeat_stopped", **AT_ONCE)
