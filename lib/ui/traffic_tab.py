"""The tab *Traffic*: requests that arrive together, simulated; three policies along the load; what a target needs; where latency goes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import gradio as gr

from lib.engines import ENGINES, TRAITS, usual_engine
from lib.errors import AdvisorError, UnknownHardware
from lib.laws.price import HOUR_S
from lib.platforms import traits_of
from lib.present.cards import answer_details, model_name, old_prices_note
from lib.present.live_cards import progress_line, stopped_line
from lib.present.markup import answer_actions, hint_note, no_model_note
from lib.present.tables import answer_json
from lib.present.traffic_rows import (
    DrawnLoads,
    batching_card,
    batching_text,
    draw_loads,
    latency_card,
    latency_table,
    loads_csv,
    loads_head,
    loads_table,
    needs_table,
    requests_at,
)
from lib.present.wording import page_note
from lib.provenance import Caveat
from lib.request.serving import check_serving, has_settings
from lib.request.types import MAX_CONCURRENCY
from lib.service.recommend import recommend
from lib.service.simulate_batching import LEAST_RATE, LONGEST_S, MOST_RATE, simulate_batching, stream_loads, stream_needs
from lib.service.speed import diagnose_latency
from lib.traffic.metrics import LONGEST_MS
from lib.ui import fields as ask
from lib.ui import workload
from lib.ui.events import AT_ONCE, Outputs, Panel, Tab, Updates, Wiring, close_on_exit, last_scene, scene_updates
from lib.ui.fields import Value
from lib.ui.memory_tab import makes_pictures
from lib.ui.workload import link_query
from lib.workload import prompt_and_output_tokens

if TYPE_CHECKING:
    from lib.advisor.result import ConfiguredHardware
    from lib.answers.traffic import BatchingAnswer, LoadsAnswer
    from lib.service.app import Services

OF_LOADS = (
    "prompt_tokens", "output_tokens", "max_batch_size", "timeout_s", "precision", "engine", "lengths", "spread", "replicas", "cold_start_s",
    "scale_to_zero_after_s", "concurrency_limit", "shared_prefix_tokens", "max_ttft_s", "max_tpot_s",
)  # fmt: skip
"""Arguments of the loads: all but which requests arrive."""
_TIMES = {
    "preprocess_ms": "Preprocessing, ms", "queue_ms": "Queue, ms", "transfer_ms": "Transfer, ms", "ttft_ms": "TTFT, ms (queue included)",
    "tpot_ms": "TPOT, ms", "postprocess_ms": "Postprocessing, ms",
}  # fmt: skip
_WHILE = "Concurrent requests while measured"
LATENCY = (
    *(ask.Field(argument=name, name=f"latency-{name}", default=0.0, high=LONGEST_MS, label=label) for name, label in _TIMES.items()),
    ask.Field(argument="concurrency", name="latency-batch", default=1, low=1, high=MAX_CONCURRENCY, label=_WHILE),
)
"""Measurements of a visitor."""
_REQUESTS, _SHORTEST_S = 300, 300.0
"""Requests of a run without a stated duration, and the fewest seconds in which they arrive."""
_AT_ONCE = 2
_STEPS = 14  # the simulation, the loads, the tiers: of the progress bar


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyView:
    """The box about latency: its questions, the metrics last, and the output."""

    inputs: list[Any]
    outputs: Outputs


@dataclass(frozen=True, slots=True, kw_only=True)
class TrafficView:
    """Inputs and outputs of the tab, the measure to draw, and the box. The output `loads` holds the drawn loads (`DrawnLoads`)."""

    inputs: workload.Inputs
    measure: gr.Radio
    outputs: Outputs
    latency: LatencyView


_CLEARED: Updates = {"card": "", "head": "", "chart": None, "table": "", "needs": "", "notes": "", "loads": None}


def build(_: Services) -> TrafficView:
    """The layout of the tab."""
    with gr.Row(elem_classes="two"):
        with gr.Column(scale=1, min_width=280, elem_classes="controls"):
            workload.fold_button("Rate, targets, engine, replicas", ".controls")
            inputs = _inputs()
            with gr.Row(elem_classes="act-row"):
                run = gr.Button("Simulate", variant="primary", elem_id="simulate")
                stop = gr.Button("Stop", variant="stop", visible=False, elem_id="simulate-stop")
        with gr.Column(scale=3, min_width=320, elem_classes="answers"):
            status = gr.HTML(progress_line(page_note("answering")), elem_id="traffic-status")
            card = gr.HTML(elem_id="traffic")
            with gr.Column(elem_classes="chart", elem_id="loads-chart"):  # hidden by its style while it has no heading
                head = gr.HTML()
                measure = gr.Radio(list(ask.MEASURE_WORDS), value="ttft", label="Draw", elem_classes="segments wraps")
                chart = gr.Plot(label="Policies along the load", show_label=False)
            table = gr.HTML(elem_id="loads")
            needs = gr.HTML(elem_id="needs")
            notes = gr.HTML()
            latency = _latency_box()
    outputs = {
        "status": status, "card": card, "head": head, "chart": chart, "table": table, "needs": needs, "notes": notes,
        "loads": gr.State(), "run": run, "stop": stop,
    }  # fmt: skip
    return TrafficView(inputs=inputs, measure=measure, outputs=outputs, latency=latency)


def _inputs() -> workload.Inputs:
    q: workload.Inputs = {"policy": gr.Radio(list(ask.POLICY_WORDS), value="continuous", label="Batching", elem_classes="segments")}
    q["rate"], q["peak"] = workload.number("rate", step=0.1), workload.number("peak", step=0.5)
    q["ttft_target"], q["tpot_target"] = workload.number("ttft_target", step=0.1), workload.number("tpot_target", step=0.01)
    with gr.Accordion("Arrivals and lengths", open=False, elem_classes="quiet-accordion"):
        q["arrivals"] = gr.Dropdown(list(ask.ARRIVAL_WORDS), value="poisson", label="Arrivals")
        q["duration"], q["clients"] = workload.number("duration"), workload.number("clients")
        q["bursts"] = workload.number("bursts", "Of the gaps; 1 is random, less is burstier.", step=0.05)
        info = "A time in each line; prompt_tokens, output_tokens."
        q["trace"] = gr.Textbox("", label="Recorded arrivals, CSV", info=info, lines=3, max_lines=6)
        q["lengths"] = gr.Dropdown(list(ask.LENGTH_WORDS), value="uniform", label="Lengths", min_width=130, elem_classes="half")
        q["spread"] = workload.number("spread", step=0.1)
        q["seed"] = workload.number("seed")
    with gr.Accordion("Batches", open=False, elem_classes="quiet-accordion"):
        q["slots"], q["timeout"] = workload.number("slots"), workload.number("timeout", step=0.01)
        q["prefix"] = workload.number("prefix")
    with gr.Accordion("Replicas, cold starts, a Space's own queue", open=False, elem_classes="quiet-accordion"):
        q["machines"] = workload.number("machines")
        q["idle"] = workload.number("idle", "Without requests; 0: never")
        q["cold"] = workload.number("cold")
        q["limit"] = workload.number("limit", "default_concurrency_limit of a Space; 0: no limit")
    return workload.in_order(ask.TRAFFIC, q)


def _latency_box() -> LatencyView:
    with gr.Accordion("Where does the latency go?", open=False, elem_classes="quiet-accordion", elem_id="latency"):
        gr.HTML(hint_note(page_note("measured_means")))
        times = [workload.number(field) for field in LATENCY]
        metrics = gr.Textbox(
            "", label="Or paste /metrics of vLLM or TGI, or the JSON of vllm bench serve", lines=3, max_lines=8, elem_id="latency-metrics"
        )
        answer = gr.HTML(elem_id="latency-answer")
    return LatencyView(inputs=[*times, metrics], outputs={"answer": answer})


def traffic_arguments(services: Services, model: str, values: Sequence[Value]) -> dict[str, Any]:
    """The workload and the form as arguments of the API, on the hardware that is looked at or the best one that serves.

    The engine is a server whose speed was fitted, on a Mac llama.cpp in the recommended precision, unless others are asked for.

    Raises:
        AdvisorError: nothing runs the model.
    """
    own, arguments = workload.tab_arguments(values, ask.TRAFFIC), workload.recommend_arguments(values)
    own |= arrival_rate(own, arguments)
    del own["peak_factor"]
    if own["arrivals"] != "closed":
        own["clients"] = 0
    if own["arrivals"] != "recorded":
        own["trace"] = ""
    usual = prompt_and_output_tokens(int(arguments["context_tokens"]))
    engine = arguments["engine"] if arguments["engine"] in ENGINES and not TRAITS[arguments["engine"]].timed_as else "vllm"
    hardware, entry = choose_server(services, model, values)
    card = services.catalog().accelerators.get(hardware)
    if arguments["engine"] == "auto" and card is not None and card.kind == "apple":
        engine = "llama.cpp"
    if arguments["engine"] == "auto" and makes_pictures(services, model):
        engine = "transformers"  # no server takes it: the refusal is to name the model, not an engine that nobody chose
    serving = check_serving("serving", arguments["serving"])
    if arguments["engine"] == "auto" and entry is not None and not has_settings(engine, serving):
        engine = entry.engine
    serves = entry is not None and entry.engine in {engine, usual_engine("tpu")}
    return {
        **own,
        "hardware": hardware,
        "prompt_tokens": arguments["prompt_tokens"] or usual[0],
        "output_tokens": arguments["output_tokens"] or usual[1],
        "engine": engine,
        "serving": arguments["serving"],
        "precision": entry.precision if entry is not None and serves else arguments["precision"],
    }


def arrival_rate(own: Mapping[str, Any], asked: Mapping[str, Any]) -> dict[str, float]:
    """Requests per second, and the seconds in which they arrive: those of the form, else those of the workload's busiest hour.

    Without a stated duration enough requests arrive to tell a 99th percentile.
    """
    in_use_s = float(asked["hours_per_day"]) * HOUR_S
    rate = float(own["requests_per_s"]) or max(LEAST_RATE, float(asked["requests_per_day"]) * float(own["peak_factor"]) / in_use_s)
    duration = float(own["duration_s"]) or min(LONGEST_S, max(_SHORTEST_S, _REQUESTS / rate))
    return {"requests_per_s": min(MOST_RATE, rate), "duration_s": duration}


def choose_server(services: Services, model: str, values: Sequence[Value]) -> tuple[str, ConfiguredHardware | None]:
    """The hardware that is looked at, else the best Space with a GPU of its own, and its entry where it qualifies.

    On ZeroGPU and on a CPU no server batches requests.

    Raises:
        AdvisorError: nothing runs the model.
    """
    choice = workload.choose_hardware(services, model, values)
    entry = choice.entry
    if choice.by_visitor or (entry is not None and not traits_of(entry.platform).per_call and entry.accelerator):
        return choice.hardware, entry
    judged = services[recommend](model, **workload.recommend_arguments(values))
    best = next((entry for entry in judged.ranked if traits_of(entry.platform).rents_spaces and entry.accelerator), None)
    if best is None:
        raise UnknownHardware("No GPU Space runs this model; the tab Recommend says why. Choose hardware to look at above.")
    return workload.entry_name(best), best


def traffic_scenes(services: Services, model: str, values: Sequence[Value], measure: str) -> Iterator[Updates]:
    """The stated traffic first, then the policies load by load, then what the targets need; a refusal becomes a sentence."""
    if not model:
        yield _CLEARED | {"status": no_model_note("traffic")}
        return
    try:
        yield _CLEARED | {"status": progress_line("Simulating the requests.", 0, _STEPS), "busy": True}
        arguments = traffic_arguments(services, model, values)
        answer = services[simulate_batching](model, **arguments)
        name = model_name(answer.model, model)
        of_loads = {argument: arguments[argument] for argument in OF_LOADS}
        asked = _asked_words(arguments, values)
        if workload.choose_hardware(services, model, values).hardware != arguments["hardware"]:
            asked += f" · {page_note('batching_hardware')}"
        old = old_prices_note(services.prices())
        step = 1
        card = ""
        with close_on_exit(services[stream_loads](model, arguments["hardware"], **of_loads)) as loads:
            for points in loads:
                if not card:
                    card = batching_card(answer, name, points, asked) + _acts(answer, points, name, model, values) + old
                    yield {"status": _progress(step), "card": card, "notes": answer_details(_assume_peak(answer, values)), "busy": True}
                step += 1
                drawn = DrawnLoads(
                    answer=points,
                    policy=str(arguments["policy"]),
                    requests_per_s=float(arguments["requests_per_s"]),
                    max_ttft_s=float(arguments["max_ttft_s"]),
                    max_tpot_s=float(arguments["max_tpot_s"]),
                )
                figure = draw_loads(drawn, measure)
                yield {"status": _progress(step), "head": loads_head(drawn, measure), "chart": figure, "loads": drawn, "busy": True}
        card = batching_card(answer, name, points, asked, drawn) + _acts(answer, points, name, model, values) + old
        yield {"status": _progress(step), "card": card, "table": loads_table(points), "busy": True}
        needs = ""
        if arguments["arrivals"] in {"poisson", "bursty"} and (arguments["max_ttft_s"] or arguments["max_tpot_s"]):
            with close_on_exit(services[stream_needs](model, **arguments)) as tiers:
                for need in tiers:
                    needs = needs_table(need, float(arguments["requests_per_s"]))
                    yield {"status": _progress(step), "needs": needs, "busy": True}
        yield {"chart": figure, "needs": needs}  # once more, for a page that was still loading when it came
    except AdvisorError as refused:
        yield {"status": ask.format_error(refused, "No simulation.")}


def _assume_peak(answer: BatchingAnswer, values: Sequence[Value]) -> BatchingAnswer:
    """The answer with the factor of the busiest hour among its assumptions, where the rate follows from requests a day."""
    own = workload.tab_arguments(values, ask.TRAFFIC)
    if own["requests_per_s"] or own["arrivals"] not in {"poisson", "bursty"}:
        return answer
    return replace(answer, caveats=(*answer.caveats, Caveat("peak_assumed", {"factor": float(own["peak_factor"])})))


def _asked_words(arguments: Mapping[str, Any], values: Sequence[Value]) -> str:
    """Which requests were simulated, in a phrase: where the rate comes from, and their lengths."""
    own, asked = workload.tab_arguments(values, ask.TRAFFIC), workload.recommend_arguments(values)
    lengths = f"{arguments['prompt_tokens']:,} prompt and {arguments['output_tokens']:,} output tokens"
    if own["requests_per_s"] or arguments["arrivals"] in {"closed", "recorded"}:
        return lengths
    a_day, hours = f"{asked['requests_per_day']:,} requests a day", f"{float(asked['hours_per_day']):g} h"
    peak = f"{own['peak_factor']:g} × the mean at the peak: {requests_at(float(arguments['requests_per_s']))}"
    return f"{a_day} in {hours}, {peak} · {lengths}"


def _progress(step: int) -> str:
    return progress_line(page_note("simulating" if step < _STEPS - 1 else "searching_tiers"), step, _STEPS)


def _acts(answer: Any, loads: LoadsAnswer, name: str, model: str, values: Sequence[Value]) -> str:
    every = zip((*ask.QUESTION, *ask.TRAFFIC), values, strict=True)
    linked = [(field, value) for field, value in every if field.argument != "trace"]
    return answer_actions(
        text=batching_text(answer, name),
        query=link_query("traffic", model, [field for field, _ in linked], [value for _, value in linked]),
        files=(
            ("Download CSV", "traffic.csv", "text/csv", loads_csv(loads.points)),
            ("Download JSON", "traffic.json", "application/json", answer_json(answer)),
        ),
    )


def latency_updates(services: Services, model: str, values: Sequence[Value]) -> Updates:
    """The parts of the latency, under the lengths and the hardware of the tab, whose values come first, then those of the box."""
    of_tab = len(ask.QUESTION) + len(ask.TRAFFIC)
    values, own = values[:of_tab], values[of_tab:]
    if not model:
        return {"answer": no_model_note("traffic")}
    try:
        times = ask.arguments(LATENCY, own[:-1])
        settings = traffic_arguments(services, model, values)
        shape = {name: settings[name] for name in ("prompt_tokens", "output_tokens", "precision", "engine")}
        answer = services[diagnose_latency](model, settings["hardware"], metrics_text=own[-1] or "", **times, **shape)
    except AdvisorError as refused:
        return {"answer": ask.format_error(refused, "No diagnosis.", LATENCY)}
    return {"answer": latency_card(answer) + latency_table(answer) + answer_details(answer)}


def wire(view: TrafficView, page: Wiring) -> None:
    """It answers when it is first shown, and then when Simulate is pressed; Stop ends a run."""
    asked, parts = [*page.question, *view.inputs.values()], view.outputs
    outputs = list(parts.values())

    def run(measure: str, ref: str, *values: Value) -> Iterator[dict[Any, Any]]:
        yield from scene_updates(parts, traffic_scenes(page.services, ref, values, measure))

    def stop() -> dict[Any, Any]:
        return last_scene(parts, {"status": stopped_line(page_note("stopped:traffic"))})

    def redraw(measure: str, drawn: DrawnLoads | None) -> Any:
        return {parts["head"]: loads_head(drawn, measure), parts["chart"]: draw_loads(drawn, measure)} if drawn else gr.skip()

    options: dict[str, Any] = {
        "concurrency_limit": _AT_ONCE, "concurrency_id": "traffic", "api_visibility": "private", "show_progress": "hidden",
    }  # fmt: skip
    starts, inputs = [parts["run"].click, page.triggers["traffic"].change], [view.measure, page.model.text, *asked]
    running = gr.on(starts, run, inputs, outputs, api_name="traffic_run", **options)
    # The words come after the run has ended: its last scene would write over them.
    stopping = parts["stop"].click(None, cancels=[running], api_name="traffic_cancelled", **AT_ONCE)
    stopping.then(stop, None, outputs, api_name="traffic_stopped", **AT_ONCE)
    redrawn = [view.measure, parts["loads"]]
    drawn = [parts["head"], parts["chart"]]
    view.measure.input(redraw, redrawn, drawn, trigger_mode="always_last", api_name="traffic_drawn", **AT_ONCE)
    page.follow("latency", latency_updates, [*asked, *view.latency.inputs], view.latency.outputs, "latency_changed")


TAB = Tab(
    name="traffic",
    word="Traffic",
    panels=(Panel("traffic", once=True), Panel("latency", "#latency")),
    build=build,
    wire=wire,
    boxes={"latency": LATENCY},
    box_inputs=lambda view: view.latency.inputs,
)
