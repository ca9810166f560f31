"""How events are wired: which changes are a visitor's, which part of the page answers them, and the options that events share.

`Page` is the Blocks that they belong to: every failure of one of its events becomes a sentence.

A change asks the server nothing by itself. `assets/page.js` waits until the fields have not changed for a moment, checks the numbers and
writes the question into the address. Then it raises the hidden number (`trigger`) of each part that has to answer again: a part of the
shown tab, its box open or in view, whose question differs from the one that it answered last.

Every event of the page is private, and most bypass Gradio's queue: an answer takes milliseconds. While one answer of an event is under
way only its last change waits (`trigger_mode="always_last"`). Runs on the device take their turn in its queue, scene by scene.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import gradio as gr
from gradio.blocks import Block

from lib.errors import AdvisorError
from lib.live.device_queue import turn, width
from lib.present.glossary import explain_terms
from lib.present.numbers import SizeUnit, sizes_in
from lib.present.wording import page_note
from lib.service.reference import reading_as
from lib.ui.http.api import FAILED, refusing
from lib.ui.http.callers import MOST_EVENTS, visitor_token
from lib.ui.http.gradio_internals import CallerQueue, gradio_error

if TYPE_CHECKING:
    from lib.service.app import Services
    from lib.ui.fields import Field
    from lib.ui.model_field import ModelReference


# Gradio's own limits collapse under load: one call at a time per function, and on ZeroGPU one waiting call for the whole app. Threads are
# shared out by `lib.ui.http.fair_queue` instead, and places by `lib.ui.http.callers`.
QUEUE: dict[str, Any] = {"max_size": MOST_EVENTS, "default_concurrency_limit": None, "status_update_rate": 5, "api_open": False}


class Page(gr.Blocks):
    """Blocks whose events refuse in sentences: Gradio's own refusals quote the values, or say nothing."""

    def queue(self, **options: Any) -> gr.Blocks:
        """Set the queue up as `QUEUE` says. Gradio's own also builds a web app (90 ms), which is built again later."""
        options = QUEUE | options
        self.api_open = options["api_open"]
        self._queue = CallerQueue(
            live_updates=False,
            concurrency_count=self.max_threads,
            update_intervals=options["status_update_rate"],
            max_size=options["max_size"],
            blocks=self,
            default_concurrency_limit=options["default_concurrency_limit"],
        )
        return self

    _config: Any = None

    def __init__(self, **options: Any) -> None:
        """Make the Blocks. Gradio reads the signature of a component's class each time that it makes or describes one: 60 ms in all."""
        for component in _subclasses(Block):
            if "__init__" in vars(component):
                function = inspect.unwrap(vars(component)["__init__"])
                vars(function)["__signature__"] = inspect.signature(function)  # where `inspect` looks first
        super().__init__(**options)
        self.first_answer: Callable[[], Mapping[int, Mapping[str, Any]]] = dict
        """Properties of the components that hold the answer to the page's defaults, by their ids."""

    def get_config_file(self) -> Any:
        """An empty dict: Gradio calls this four times before the first page, and 800 components take 40 ms each time. See `config`."""
        return {}

    @property
    def config(self) -> Any:
        """The settings of all components, put together when they are first read after Gradio has assigned them."""
        if self._config is None:
            self._config = super().get_config_file()
        return self._config

    @config.setter
    def config(self, _: object) -> None:
        self._config = None

    async def preprocess_data(self, *args: Any, **keywords: Any) -> Any:
        """The arguments of an event's function, from the values that were sent.

        Raises:
            gr.Error: they are not those of its fields.
        """
        try:
            return await super().preprocess_data(*args, **keywords)
        except Exception:  # noqa: BLE001  components raise all kinds
            raise gradio_error(page_note("outdated"), "invalid_input") from None

    async def process_api(self, block_fn: Any, inputs: list[Any], *args: Any, **keywords: Any) -> Any:
        """The answer of an event.

        Raises:
            gr.Error: a refusal, or a sentence without details where the mistake is ours.
        """
        if block_fn.api_visibility == "public":  # its own function does all this (`lib.ui.http.api.wrap_question`)
            return await super().process_api(block_fn, inputs, *args, **keywords)
        request = keywords.get("request")
        token = visitor_token(request)
        with (
            refusing("event", block_fn.api_name, gradio_error, [*inputs, token]) as progress,
            sizes_in(_unit_of(request)),
            reading_as(token),
        ):
            answer = await super().process_api(block_fn, inputs, *args, **keywords)
            progress.unfinished = bool(answer.get("is_generating"))  # Gradio asks once for each piece of a stream
            return answer


def _subclasses(parent: type) -> set[type]:
    return {parent}.union(*map(_subclasses, parent.__subclasses__()))


def _unit_of(request: gr.Request | list[gr.Request] | None) -> SizeUnit:
    """The unit of sizes that the page's address asks for (`?units=GB`); Gradio hands the address on with each event."""
    unit = request.query_params.get("units") if isinstance(request, gr.Request) and request.request is not None else None
    return "GB" if unit == "GB" else "GiB"


AT_ONCE: dict[str, Any] = {"queue": False, "show_progress": "hidden", "api_visibility": "private"}
"""Options of an event that is answered past the queue, without a sign of progress."""


@dataclass(frozen=True, slots=True)
class Panel:
    """A part of a tab that answers by itself. With a `box`, it answers only while that box is open or in view.

    With `once`, it answers only when its tab is first shown; with `named`, only if the address has this parameter.
    """

    name: str
    box: str = ""
    once: bool = False
    named: str = ""


RefreshTriggers = dict[str, gr.Number]
Outputs = Mapping[str, Any]
"""The components that a handler fills, by the names that its updates have."""
Updates = dict[str, Any]
"""A handler's answer: values by the names of `Outputs`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FormView:
    """Inputs by their arguments, and outputs, of a tab."""

    inputs: Mapping[str, Any]
    outputs: Outputs


PanelAnswer = Callable[[Any, str, Sequence[Any]], Updates]
"""A handler of a panel: services, the model, then the values of its inputs."""


def build_refresh_triggers(panels: Iterable[Panel]) -> RefreshTriggers:
    """The numbers, by the name of their panel. Invisible ones are not in the browser's document, and their events work all the same."""
    return {panel.name: gr.Number(0, visible=False, label=panel.name, container=False) for panel in panels}


@dataclass(frozen=True, slots=True, kw_only=True)
class Wiring:
    """The rest of the page, as a tab needs it: `limit` holds the model's longest context, `question` the inputs of `QUESTION`."""

    services: Services
    model: ModelReference
    limit: gr.State
    question: Sequence[Any]
    triggers: RefreshTriggers
    tab: gr.Tab

    def follow(self, panel: str, answer: PanelAnswer, inputs: Iterable[Any], outputs: Outputs, event: str) -> None:
        """Answer whenever the number of the panel is raised; the last time wins. `answer` gets the model, then the values of the inputs."""

        def update(model: str, *values: Any) -> dict[Any, Any]:
            return fill_outputs(outputs, answer(self.services, model, values))

        filled = list(outputs.values())
        self.triggers[panel].change(update, [self.model.text, *inputs], filled, trigger_mode="always_last", api_name=event, **AT_ONCE)


def _no_inputs(_: object) -> list[Any]:
    return []


@dataclass(frozen=True, slots=True, kw_only=True)
class Tab:
    """A tab: its name in addresses, its word, its panels, its layout, and its events."""

    name: str
    word: str
    panels: tuple[Panel, ...]
    build: Callable[[Services], Any]
    wire: Callable[[Any, Wiring], None]
    asks_workload: bool = True
    """Whether the workload is shown above the tab."""
    boxes: Mapping[str, tuple[Field, ...]] = field(default_factory=dict)
    """Numbers of boxes, which no link carries, by the panel that asks them, or by a box that answers when a button is pressed."""
    box_inputs: Callable[[Any], list[Any]] = _no_inputs
    """The inputs of boxes that answer by themselves."""


def by_component(outputs: Outputs, updates: Updates) -> dict[Any, Any]:
    """The updates by component; a field that gets a value and is shown or hidden gets both. Other outputs stay as they are."""
    filled: dict[Any, Any] = {}
    for name, value in updates.items():
        component = outputs[name]
        before = as_properties(filled[component]) if component in filled else {}
        filled[component] = gr.update(**{**before, **as_properties(value)}) if before else value
    return filled


def as_properties(update: Any) -> dict[str, Any]:
    """The properties that a handler's answer sets in its component."""
    changed = update if isinstance(update, dict) and "__type__" in update else gr.update(value=update)
    return {name: value for name, value in changed.items() if name != "__type__"}


def fill_outputs(outputs: Outputs, updates: Updates) -> dict[Any, Any]:
    """The updates by component, with the field's terms explained in markup. An output without one is emptied, a box hidden.

    Raises:
        KeyError: an update names no output.
    """
    if unknown := updates.keys() - outputs.keys():
        raise KeyError(f"{sorted(unknown)} are not among the outputs {list(outputs)}")
    explained = explain_markups(updates)
    return {component: explained[name] if name in updates else _empty(component) for name, component in outputs.items()}


def explain_markups(updates: Updates) -> Updates:
    """The same with the field's terms explained in markup, each at its first mention in all of them."""
    mentions: set[str] = set()
    marked = {name: isinstance(value, str) and value.startswith("<") for name, value in updates.items()}
    return {name: explain_terms(value, mentions) if marked[name] else value for name, value in updates.items()}


def _empty(component: Any) -> Any:
    """The value of an output without an answer."""
    if isinstance(component, gr.Column | gr.Accordion):
        return gr.update(visible=False)
    return "" if isinstance(component, gr.HTML) else None


log = logging.getLogger(__name__)

Item = TypeVar("Item")


def queue_options(queue: str) -> dict[str, Any]:
    """Options of an event that waits its turn with the endpoints of the same device queue; Gradio shows how many are before it.

    So events of the page and calls of the API run one after the other.
    """
    return {"concurrency_limit": width(queue), "concurrency_id": queue, "api_visibility": "private", "show_progress": "minimal"}


@contextmanager
def close_on_exit(items: Iterator[Item]) -> Iterator[Iterator[Item]]:
    """The items, closed when the block is left, so that a generator's work ends when its reader stops."""
    try:
        yield items
    finally:
        close = getattr(items, "close", None)
        if close is not None:
            close()


def scene_updates(outputs: Outputs, scene_stream: Iterable[Updates]) -> Iterator[dict[Any, Any]]:
    """The scenes by component. Outputs that a scene does not name stay as they are; its status is "" unless it names one.

    A scene with a true `busy` shows that something runs. The buttons `run` and `stop` are updated only when that changes, otherwise Gradio
    re-renders the Stop button while it is being clicked.
    """
    before: bool | None = None
    for scene in scene_stream:
        busy = bool(scene.get("busy"))
        shown: Updates = {"status": "", **scene}
        if busy != before:
            shown |= {"run": gr.update(interactive=not busy), "stop": gr.update(visible=busy)}
        yield {outputs[name]: value for name, value in shown.items() if name != "busy"}
        before = busy


def last_scene(outputs: Outputs, scene: Updates) -> dict[Any, Any]:
    """One scene by component, after which nothing runs."""
    return next(scene_updates(outputs, [scene]))


def scenes(work: Callable[[], Iterator[Updates]], queue: str, make_refusal: Callable[[str], Updates]) -> Iterator[Updates]:
    """The scenes of a run, one after the other; a failure in the middle is the last scene.

    Closed early (the visitor pressed Stop or left) it closes the run, which ends what runs on the device.
    """
    try:
        with turn(queue), close_on_exit(work()) as scene_stream:
            yield from scene_stream
    except AdvisorError as refused:
        yield make_refusal(str(refused))
    except Exception:
        log.exception("a run of the live demo failed")
        yield make_refusal(FAILED)
