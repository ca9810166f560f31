"""The tab *Live demo* as functions of plain values: streams, stops, faults in the middle, and nothing left running."""

from __future__ import annotations

from typing import Any

import gradio as gr
import pytest
from live_fake import FakeServices, beat, make_measurement, make_prediction, metrics, piece, row
from starlette.applications import Starlette
from starlette.testclient import TestClient

from lib.answers.live import HeartbeatProgress, MeasureStage
from lib.catalog import load
from lib.errors import BadArgument, DoesNotFit, LiveError, ModelNotAtHand, OutOfMemory
from lib.hub.search import ProviderOffers
from lib.live.device import Device
from lib.live.device_queue import CHAT, DEVICE, turn
from lib.service.app import Services
from lib.service.endpoint import App
from lib.service.measure import DefaultRun
from lib.service.models import Models
from lib.ui import live_boxes, live_tab
from lib.ui.events import Updates, by_component, scene_updates
from lib.ui.http.api import FAILED
from lib.ui.live_tab import chat_scenes, disarm_markdown, recent_history
from lib.ui.page import build_page

SIZES = (128, 4096, 16384, 100, 5)
ANSWER = (piece("loading", note="Reading the model."), piece("writing", "Hel"), piece("done", "Hello!", taken=metrics()))


def talk(services: Any, message: str = "Hi", history: Any = ()) -> list[Updates]:
    """All scenes of a message."""
    return list(chat_scenes(services, message, list(history), 256, 0.7))


def user(text: str) -> dict[str, str]:
    """A message of the visitor's."""
    return {"role": "user", "content": text}


def model(text: str) -> dict[str, str]:
    """A message of the model's."""
    return {"role": "assistant", "content": text}


def test_an_answer_grows_and_ends_with_its_figures() -> None:
    """The message leaves its field at once, the first load can be seen, the text grows, and the card comes last."""
    services = FakeServices(*ANSWER)
    first, loading, writing, done = talk(services)
    assert (first.get("message"), bool(first.get("busy")), first.get("history")) == ("", True, [user("Hi")])
    assert "Reading the model." in loading["status"]
    assert writing.get("history") == [user("Hi"), model("Hel")]
    assert (done.get("busy"), done["status"]) == (None, "")
    assert done.get("history") == [user("Hi"), model("Hello!")]
    assert "25 % too pessimistic" in done["card"]
    assert "Download JSON" in done["card"]
    assert services.live.questions == [("Hi", [], 256, 0.7)]


def test_the_conversation_goes_along() -> None:
    """Questions with their answers; what was stopped before an answer does not, for templates want both sides in turn."""
    services = FakeServices(*ANSWER)
    talk(services, "And?", [user("One"), user("Two"), model("2"), user("Three")])
    assert services.live.questions[0][1] == [user("Two"), model("2")]
    assert recent_history([user("a\x00b\n"), model("\x07c\td\x1f"), user("x"), model("\x00")]) == [user("ab\n"), model("c\td")]
    long = [one for number in range(200) for one in (user(f"{number}"), model("x" * 1000))]
    newest = recent_history(long)
    assert newest[-1] == long[-1]
    assert newest[0]["role"] == "user"
    assert sum(len(message["content"]) for message in newest) <= 48_000


def test_an_empty_message_asks_nothing() -> None:
    """A hint, and the model is left alone."""
    services = FakeServices(*ANSWER)
    assert "Write a message first" in talk(services, "  ")[-1]["status"]
    assert services.live.questions == []


def test_offline_the_chat_says_why_in_place() -> None:
    """The reason stands under the conversation, and the message is back in its field."""
    last = talk(FakeServices(ModelNotAtHand("The chat's model 'x' is not at hand: this server runs offline. Next: <b>wait</b>.")))[-1]
    assert "this server runs offline" in last["status"]
    assert "<b>" not in last["status"]
    assert (last.get("message"), last.get("history"), bool(last.get("busy")), last.get("card")) == ("Hi", [], False, None)


def test_a_fault_in_the_middle_keeps_what_was_written() -> None:
    """The sentence stands under it, and the next message can be sent."""
    services = FakeServices(piece("writing", "Hel"), OutOfMemory("The device ran out of memory during the run."))
    last = talk(services)[-1]
    assert last.get("history") == [user("Hi"), model("Hel")]
    assert "ran out of memory" in last["status"]
    assert (bool(last.get("busy")), services.live.ended) == (False, 1)


def test_what_nobody_foresaw_becomes_a_sentence_without_details(caplog: pytest.LogCaptureFixture) -> None:
    """The log has the reason, the page does not."""
    last = talk(FakeServices(RuntimeError("secret path")))[-1]
    assert FAILED in last["status"]
    assert "secret" not in last["status"]
    assert "secret path" in caplog.text


def test_stop_ends_the_run() -> None:
    """Gradio closes the stream; the model's run is closed with it, the device is free, and what was written stands."""
    services = FakeServices(*ANSWER)
    scenes = chat_scenes(services, "Hi", [], 256, 0.7)  # type: ignore[arg-type]
    shown = [next(scenes) for _ in range(3)][-1]
    scenes.close()  # type: ignore[attr-defined]
    assert services.live.ended == 1
    with turn(CHAT, 0.01):
        pass
    after = live_tab.stopped_scene(shown["history"])
    assert "Stopped" in after["status"]
    assert (bool(after.get("busy")), after.get("history")) == (False, [user("Hi"), model("Hel")])


def test_every_scene_has_its_place_on_the_page() -> None:
    """A scene names outputs that the page has, and a status of its own or none."""
    with gr.Blocks():
        view = live_tab.build(make_services())
    for talked in scene_updates(view.chat.outputs, talk(FakeServices(*ANSWER))):
        assert view.chat.outputs["status"] in talked
    *_, measured = scene_updates(view.measure.outputs, measure(FakeServices(MeasureStage(stage="building"), make_measurement())))
    assert measured[view.measure.outputs["status"]] == ""
    ledger = by_component(view.ledger.outputs, live_boxes.ledger_updates(FakeServices(), "peak_bytes"))  # type: ignore[arg-type]
    assert ledger[view.ledger.outputs["box"]] == gr.update(visible=False)


@pytest.mark.parametrize(
    "text",
    ['<img src="//x">', "![a](//x)", "![a][b]", "<svg><image href='//x'/></svg>", "</div>", "<!-- x -->", "```mermaid\nx\n```", "<?xml?>"],
)
def test_nothing_that_is_written_becomes_a_tag_or_a_picture(text: str) -> None:
    """What the page gets holds no tag, picture or diagram; without the character that breaks them it is the same text."""
    shown = disarm_markdown(text)
    assert not any(start in shown for start in ("<i", "<s", "</", "<!", "<?", "![", "mermaid"))
    assert shown.replace("\u2060", "") == text
    assert disarm_markdown("a < b, 1<2, **bold**, `x`") == "a < b, 1<2, **bold**, `x`"


def test_the_buttons_are_touched_only_when_they_change() -> None:
    """Pieces come sixteen times a second: at the first Stop appears, at the last it goes, and between them it is left alone."""
    outputs = dict(zip(names := ("talk", "history", "message", "status", "card", "run", "stop"), names, strict=True))
    values = list(scene_updates(outputs, talk(FakeServices(*ANSWER))))
    assert [update.get("stop", {}).get("visible") for update in values] == [True, None, None, False]


def measure(services: Any, ref: str = "Qwen/Qwen3-0.6B") -> list[Updates]:
    """All scenes of a measurement."""
    return list(live_boxes.measure_scenes(services, ref, 512, 64, "bf16"))


def test_a_measurement_tells_its_stages_and_ends_with_a_card() -> None:
    """The model of the page is asked for, and the last card goes while a new one is made."""
    services = FakeServices(MeasureStage(stage="building"), MeasureStage(stage="running"), make_measurement())
    first, building, running, done = measure(services)
    assert services.live.questions == [("Qwen/Qwen3-0.6B", 512, 64, "bf16")]
    assert (first.get("card"), bool(first.get("busy")), bool(building.get("busy"))) == ("", True, True)
    assert running["status"].count('class="done"') == 4
    assert ("status" in done, "busy" in done) == (False, False)
    for word in ("prediction confirmed", "Copy as text", "Download CSV", "Download JSON"):
        assert word in done["card"]


def test_a_measurement_that_is_refused_shows_the_arithmetic() -> None:
    """In place of the result; the app goes on."""
    last = measure(FakeServices(DoesNotFit("This run needs 15.5 GiB: weights 15.0 GiB + …")))[-1]
    assert "This run needs 15.5 GiB" in last["status"]
    assert not bool(last.get("busy"))


def test_without_a_model_nothing_is_measured() -> None:
    """Neither run nor foreseen."""
    services = FakeServices()
    assert [scene.get("status") for scene in measure(services, "")] == [live_boxes.expected_html(services, "", 512, 64, "bf16")]  # type: ignore[arg-type]
    assert services.live.questions == []


def test_what_is_expected_stands_there_before_the_run() -> None:
    """The prediction and the arithmetic; what would be refused is refused in the same words."""
    services = FakeServices()
    assert "memory fits" in live_boxes.expected_html(services, "Qwen/Qwen3-0.6B", 512, 64, "bf16")  # type: ignore[arg-type]

    def refuse(*_: Any) -> Any:
        raise DoesNotFit("Too much.")

    services.live.predict_measurement = refuse
    markup = live_boxes.expected_html(services, "Qwen/Qwen3-0.6B", 512, 64, "bf16")  # type: ignore[arg-type]
    assert "Too much." in markup
    assert 'data-model="small/one">Try small/one instead' in markup
    services.live.predict_measurement = lambda *_: make_prediction(limit_s=0.1)
    assert "Try small/one instead" in live_boxes.expected_html(services, "Qwen/Qwen3-0.6B", 512, 64, "bf16")  # type: ignore[arg-type]


def test_a_run_beyond_the_limit_of_the_model_has_no_table_of_tiers() -> None:
    """/recommend refuses such lengths; the prediction for this device is there all the same."""

    def refuse(*_: Any, **__: Any) -> Any:
        raise BadArgument("prompt_tokens", 576, "at most 512")

    services = FakeServices()
    services.live.recommend = refuse
    assert "memory fits" in live_boxes.expected_html(services, "Qwen/Qwen3-0.6B", 512, 64, "bf16")  # type: ignore[arg-type]


def test_a_run_that_the_device_does_not_allow_is_made_smaller() -> None:
    """The card names the model asked for (never a pasted text), the smaller run and its seconds; the button runs that one."""
    services = FakeServices(make_measurement())
    services.live.default_measurement = lambda *_: DefaultRun(
        model="small/one", prompt_tokens=128, output_tokens=32, seconds=4.2, changed=True
    )
    big = "meta-llama/Meta-Llama-3.1-405B"
    markup = live_boxes.expected_html(services, big, 512, 64, "bf16", True)  # type: ignore[arg-type]
    assert f"{big} with these lengths is too large or too slow for this device" in markup
    assert "a run of 128 prompt and 32 output tokens with small/one takes about 4" in markup
    assert "model_type" not in live_boxes.expected_html(services, '{"model_type": "llama"}', 512, 64, "bf16", True)  # type: ignore[arg-type]
    list(live_boxes.measure_scenes(services, big, 512, 64, "bf16", True))  # type: ignore[arg-type]
    list(live_boxes.measure_scenes(services, big, 512, 64, "bf16", False))  # type: ignore[arg-type]
    assert services.live.questions == [("small/one", 128, 32, "bf16"), (big, 512, 64, "bf16")]


@pytest.mark.parametrize(("kind", "where"), [("cpu", "2 CPU cores"), ("cuda", "Some Processor"), ("zerogpu", "ZeroGPU")])
def test_the_first_line_says_which_button_to_press(kind: str, where: str) -> None:
    """With the hardware, before anything else."""
    device = Device(
        kind=kind, name="Some Processor", accelerator=None, memory_bytes=16 * 2**30, free_bytes=12 * 2**30, capability=None, cores=2,
        driver=None, torch="2.13.0", transformers="5.23.0",
    )  # type: ignore[arg-type]  # fmt: skip
    services = FakeServices()
    services.catalog = load  # type: ignore[attr-defined]
    markup = live_tab.opening_markup(services, lambda _: device).replace("\u00a0", " ")  # type: ignore[arg-type]
    assert f"Measure the model, or a smaller one, on {where}: press Run</h2>" in markup
    assert markup.index("predicted next to measured") < markup.index('class="device"')


@pytest.mark.parametrize(
    ("own", "shared", "lengths"),
    [
        ((0, 0), (4096, 0, 0), (512, 256)),
        ((None, 0), (4096, 2000, 9000), (2000, 4096)),
        ((16, 4), (4096, 2000, 300), (16, 4)),
        ((0, 0), (None, 0, 0), (512, 256)),
    ],
)
def test_measure_takes_the_lengths_of_the_workload(own: tuple[Any, Any], shared: tuple[Any, ...], lengths: tuple[int, int]) -> None:
    """Where its own are 0: those that are stated, else the usual ones of the context; an output up to what a run may have."""
    assert live_boxes.run_arguments(*own, "bf16", True, *shared) == [*lengths, "bf16", True]


def test_stopping_a_measurement_ends_it() -> None:
    """Closed in the middle: the run is over, and the device free for the next."""
    services = FakeServices(MeasureStage(stage="building"), MeasureStage(stage="running"), make_measurement())
    scenes = live_boxes.measure_scenes(services, "Qwen/Qwen3-0.6B", 512, 64, "bf16")  # type: ignore[arg-type]
    assert [next(scenes)["busy"], next(scenes)["busy"]] == [True, True]
    scenes.close()  # type: ignore[attr-defined]
    assert services.live.ended == 1
    with turn(DEVICE, 0.01):
        pass


def test_a_heartbeat_tells_how_far_it_is() -> None:
    """Progress with a bar, then the card; the fields go to the arguments of their names."""
    services = FakeServices(HeartbeatProgress(phase="warm", done=37, of=100, last_s=0.0231), beat())
    _, progress, done = live_boxes.heartbeat_scenes(services, "float32", *SIZES)  # type: ignore[arg-type]
    assert '<progress max="100" value="37"' in progress["status"]
    assert "23.1 ms" in progress["status"]
    assert "25.0 %" in done["card"]
    named = dict(services.live.questions[0])
    assert named == {"batch": 128, "hidden": 4096, "intermediate": 16384, "iterations": 100, "warmup": 5, "dtype": "float32"}


def test_a_heartbeat_that_fails_says_why() -> None:
    """As any other run."""
    few = list(live_boxes.heartbeat_scenes(FakeServices(BadArgument("iterations", 1, "3 or more")), "float32", *SIZES))[-1]  # type: ignore[arg-type]
    assert "Timed products was &#x27;1&#x27;. Accepted: 3 or more." in few["status"]
    last = list(live_boxes.heartbeat_scenes(FakeServices(LiveError("The GPU reported an error.")), "float32", *SIZES))[-1]  # type: ignore[arg-type]
    assert "The GPU reported an error." in last["status"]


def test_the_ledger_with_and_without_rows() -> None:
    """Empty: one line, no plot, no links. With rows: picture, table, links; a figure that there is not is the first one."""
    empty = live_boxes.ledger_updates(FakeServices(), "peak_bytes")  # type: ignore[arg-type]
    assert "Nothing has been measured yet" in empty["storage"]
    assert (empty["head"], empty["chart"]["value"], empty["rows"]) == ("", None, "")
    assert "ledger.csv" not in empty["storage"]
    full = live_boxes.ledger_updates(FakeServices(rows=[row()]), "nonsense")  # type: ignore[arg-type]
    assert full["chart"]["value"] is not None
    assert "Peak memory: predicted against measured" in full["head"]
    assert 'href="ledger.csv"' in full["storage"]
    assert 'href="ledger.parquet"' in full["storage"]


def test_the_ledger_as_files() -> None:
    """Each under its name and type; a file that cannot be made is refused with the reason."""
    services = FakeServices(rows=[row()])
    client = TestClient(Starlette(routes=live_boxes.routes(services)))  # type: ignore[arg-type]
    for form, kind in (("csv", "text/csv; charset=utf-8"), ("parquet", "application/vnd.apache.parquet")):
        answer = client.get(f"/ledger.{form}")
        assert answer.content == f"the rows as {form}".encode()
        assert answer.headers["content-type"] == kind
        assert answer.headers["content-disposition"] == f'attachment; filename="measurements.{form}"'
    services.live.ledger.refusal = LiveError("Parquet files need the package pyarrow.")
    refused = client.get("/ledger.parquet")
    assert (refused.status_code, refused.text) == (503, "Parquet files need the package pyarrow.")
    assert client.post("/ledger.csv").status_code == 405


def test_where_it_runs_is_looked_at_when_it_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """On ZeroGPU with the price of a second: `large` asks 1.5 s of the quota for each."""
    device = Device(
        kind="zerogpu", name="ZeroGPU large", accelerator=None, memory_bytes=48 * 2**30, free_bytes=48 * 2**30, capability=None, cores=2,
        driver=None, torch="2.13.0", transformers="5.23.0",
    )  # fmt: skip
    monkeypatch.setenv("SPACE_ID", "ada/advisor")
    assert "This Space runs on" in live_tab.device_markup(load(), lambda _: device)
    assert "takes 1.5\u00a0s of your own daily quota" in live_tab.device_markup(load(), lambda _: device)


def make_services() -> Services:
    """The services as the app has them; a router that says nothing."""
    unasked = ProviderOffers(status="unknown", reason="Not asked.")
    return Services(App(catalog=load, models=Models(), search=lambda _: (), providers=lambda _: unasked))


def test_runs_wait_with_the_public_endpoints() -> None:
    """One at a time: an event of the page and the endpoint of the same work share a slot, and no event is public."""
    services = make_services()
    events = {str(fn.api_name): fn for fn in build_page(services).fns.values()}
    asked = services.endpoints()
    for name, endpoint in (("chat_said", "chat"), ("measure_run", "measure"), ("heartbeat_run", "heartbeat")):
        assert events[name].concurrency_id == events[endpoint].concurrency_id == asked[endpoint].queue
        assert events[name].concurrency_limit == 1
        assert events[name].queue
    own = [fn for name, fn in events.items() if name.startswith(("live_", "chat_", "measure_", "heartbeat_", "ledger_"))]
    assert len(own) >= 12
    assert {fn.api_visibility for fn in own} == {"private"}
