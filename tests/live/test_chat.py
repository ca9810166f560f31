"""The chat from the question to the last item, on the CPU, with a model and a tokenizer made on the spot."""

from __future__ import annotations

import itertools
import pickle
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import tiny_chat
from hypothesis import given
from hypothesis import strategies as st
from written import Written

from lib.catalog import load
from lib.errors import AdvisorError, BadArgument, LiveError, ModelNotAtHand, OutOfMemory
from lib.live import chat as module
from lib.live.chat import AnswerPiece, Message, stream_answer
from lib.live.demo_model import DemoModel, LoadedModel
from lib.live.device import current_device
from lib.live.device_queue import hardware_turn
from lib.service.app import Services
from lib.service.endpoint import App
from lib.service.models import Models

TURN = len("<user\n" + ">\n")  # a control token each for < and >, the others bytes
ANSWER = len("<assistant\n")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny model as files."""
    return tiny_chat.save(tmp_path_factory.mktemp("models") / "tiny-instruct")


@pytest.fixture(scope="module")
def question(folder: Path) -> Any:
    """The chat with that model."""
    return Written(Services(App(catalog=load, models=Models(), demo=DemoModel({"DEMO_MODEL": str(folder)}))))


@pytest.fixture(scope="module")
def loaded_model(question: Any) -> LoadedModel:
    """The model as loaded."""
    return question._app.demo.load(current_device(load()), lambda _: None)


@pytest.fixture(scope="module")
def words() -> Any:
    """The tokenizer alone."""
    return tiny_chat.tokenizer()


@contextmanager
def each_layer(loaded: LoadedModel, does: Any) -> Iterator[None]:
    """Something that happens before the last layer of every step."""
    hook = loaded.model.model.layers[-1].register_forward_pre_hook(lambda *_: does())
    try:
        yield
    finally:
        hook.remove()


def at_work() -> list[str]:
    """Threads of the chat that still run."""
    return [thread.name for thread in threading.enumerate() if thread.name == "chat"]


def test_an_answer_streams_and_ends_with_its_metrics(question: Any) -> None:
    """Every text continues the one before; the last item, and only that, says what was taken beside what was predicted."""
    items = list(question.chat("Hello", max_new_tokens=24, temperature=1))
    assert len(items) > 2
    assert all(after["text"].startswith(before["text"]) for before, after in itertools.pairwise(items))
    assert [item["metrics"] is None for item in items] == [True] * (len(items) - 1) + [False]
    assert {item["stage"] for item in items} <= {"loading", "reading", "writing", "done"}
    last = items[-1]["metrics"]
    assert last is not None
    assert last["prompt_tokens"] == TURN + len("Hello") + ANSWER
    assert (last["output_tokens"], last["stopped"], last["model"]) == (24, "limit", "tiny-instruct")
    assert last["ttft_s"] > 0
    assert last["decode_tokens_per_s"] is not None
    assert last["decode_tokens_per_s"] > 0
    assert {"peak_from_resident_set"} <= {caveat["code"] for caveat in items[-1]["caveats"]}
    assert all(source["what"] and source["source"] for source in items[-1]["sources"])


def test_the_prediction_is_for_exactly_this_run(question: Any, loaded_model: LoadedModel) -> None:
    """Weights to the byte (frequencies are none), and the cache of all tokens but the last, which is never read.

    On a CPU the measured peak is the weights and the growth of the process, which is less than the cache where freed pages are used again.
    """
    last = list(question.chat("Hello", max_new_tokens=10, temperature=0))[-1]["metrics"]
    assert last is not None
    tokens = last["prompt_tokens"] + 10 - 1
    layers, key_value_heads, head, element = 4, 2, 16, 4
    assert last["predicted"]["weights_bytes"] == sum(p.numel() for p in loaded_model.model.parameters()) * element
    assert last["predicted"]["kv_cache_bytes"] == 2 * layers * key_value_heads * head * element * tokens
    expected, measured = last["predicted"]["peak_bytes"], last["peak_bytes"]
    assert expected is not None
    assert last["error_ratio"]["peak_bytes"] == pytest.approx(expected / measured - 1)
    assert measured >= last["predicted"]["weights_bytes"]


def test_the_most_likely_token_is_the_same_each_time(question: Any) -> None:
    """Temperature 0, and one so small that dividing by it would overflow."""
    texts = {list(question.chat("Again", max_new_tokens=6, temperature=heat))[-1]["text"] for heat in (0, 1e-40, 0)}
    assert len(texts) == 1


def test_an_answer_that_ends_by_itself(loaded_model: LoadedModel) -> None:
    """Every token an end of text: the first one ends the answer, and one token is no speed."""
    ends = replace(loaded_model, end_ids=frozenset(range(258)))
    kept, loaded_model.model.generation_config.eos_token_id = loaded_model.model.generation_config.eos_token_id, list(range(258))
    try:
        *_, last = stream_answer(ends, [10, 11], 20, 0.0, 30.0)
    finally:
        loaded_model.model.generation_config.eos_token_id = kept
    assert last.figures is not None
    assert (last.figures.stopped, last.figures.output_tokens, last.figures.decode_tokens_per_s) == ("end", 1, None)


def test_closing_stops_the_model_within_a_token(loaded_model: LoadedModel) -> None:
    """After the close no further layer is run, and the thread has ended."""
    steps: list[int] = []
    with each_layer(loaded_model, lambda: steps.append(len(steps))):
        pieces = stream_answer(loaded_model, [10, 11, 12], 400, 1.0, 60.0)
        while len(steps) < 8:
            next(pieces)
        pieces.close()
        ran = len(steps)
        assert at_work() == []
        time.sleep(0.1)
        assert len(steps) == ran < 400


def test_a_stopped_answer_that_is_still_ending_does_not_halt_the_next(loaded_model: LoadedModel) -> None:
    """The layers call the hooks of both; only the thread of the stopped one is halted."""
    stopped = module._Run(seconds=60.0, thread=threading.get_ident() + 1)
    stopped.stop.set()
    hooks = [layer.register_forward_pre_hook(stopped.halt) for layer in loaded_model.model.model.layers]
    try:
        *_, last = stream_answer(loaded_model, [5, 6, 7], 4, 0.0, 60.0)
    finally:
        for hook in hooks:
            hook.remove()
    assert last.figures is not None
    assert last.figures.output_tokens == 4


def test_closing_while_the_prompt_is_read(loaded_model: LoadedModel) -> None:
    """A slow prompt shows signs of life, and is left before its next layer."""
    entered, left = threading.Event(), threading.Event()

    def wait_for_exit() -> None:
        entered.set()
        left.wait(30)

    hook = loaded_model.model.model.layers[0].register_forward_pre_hook(lambda *_: wait_for_exit())
    reached: list[int] = []
    try:
        with each_layer(loaded_model, lambda: reached.append(1)):
            pieces = stream_answer(loaded_model, [10] * 50, 5, 0.0, 60.0)
            first = next(pieces)
            assert entered.wait(30)
            threading.Timer(0.3, left.set).start()
            pieces.close()
    finally:
        hook.remove()
    assert (first.stage, first.text, first.note) == ("reading", "", "Reading 50 tokens.")
    assert reached == []
    assert at_work() == []


def test_an_answer_whose_time_is_up(question: Any, loaded_model: LoadedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends with what is there, and says why."""
    monkeypatch.setattr("lib.service.chat.ANSWER_S", 0.3)
    with each_layer(loaded_model, lambda: time.sleep(0.05)):
        *_, last = question.chat("Hello", max_new_tokens=200)
    assert last["metrics"] is not None
    assert last["metrics"]["stopped"] == "stopped"
    assert 1 <= last["metrics"]["output_tokens"] < 200
    assert "time_limit" in {caveat["code"] for caveat in last["caveats"]}


@pytest.mark.parametrize(
    ("failure", "kind"),
    [(ValueError("/secret/path"), LiveError), (RuntimeError("CUDA error: device-side assert"), LiveError), (MemoryError(), OutOfMemory)],
)
def test_a_failure_in_the_middle(question: Any, loaded_model: LoadedModel, failure: Exception, kind: type[AdvisorError]) -> None:
    """It becomes a sentence without the failure's own words; nothing is left running, and the next message is answered."""
    count = 0

    def fail() -> None:
        nonlocal count
        count += 1
        if count == 5:
            raise failure

    seen = []
    with each_layer(loaded_model, fail), pytest.raises(kind) as told:
        seen.extend(question.chat("Hello", max_new_tokens=50))
    assert "secret" not in str(told.value)
    assert "Next:" in str(told.value) or "try again" in str(told.value)
    assert at_work() == []
    assert seen, "some of it had come"
    assert list(question.chat("Hello", max_new_tokens=3))[-1]["metrics"] is not None


def test_items_do_not_come_faster_than_they_can_be_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred tokens a quarter of a second apart, one item a second at most: 25 items, and the whole text at the end."""
    now = [0.0]

    def tokens() -> Iterator[str]:
        for _ in range(100):
            now[0] += 0.25
            yield "a"

    monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter=lambda: now[0]))
    monkeypatch.setattr(module, "LEAST_S", 1.0)
    assert [len(text) for text in module._texts(tokens())] == [*range(4, 101, 4), 100]


def test_one_conversation_at_a_time(question: Any, loaded_model: LoadedModel) -> None:
    """The second shows that it waits, and is answered when the first is closed."""
    with each_layer(loaded_model, lambda: time.sleep(0.02)):
        first = question.chat("First", max_new_tokens=250)
        while next(first)["stage"] != "writing":
            pass
        second = question.chat("Second", max_new_tokens=2)
        assert next(second)["stage"] == "waiting"
        first.close()  # type: ignore[attr-defined]
        assert list(second)[-1]["metrics"] is not None


@pytest.mark.usefixtures("loaded_model")
def test_a_measurement_and_an_answer_take_turns(question: Any) -> None:
    """While something is measured the chat waits; while it answers nothing is measured."""
    with hardware_turn():
        waits = question.chat("Hello", max_new_tokens=2)
        assert next(waits)["stage"] == "waiting"
    assert next(waits)["stage"] != "waiting"
    with pytest.raises(LiveError, match="answer of the chat"), hardware_turn(0.05):
        pytest.fail("two had the device")
    assert list(waits)[-1]["metrics"] is not None


def test_the_oldest_turns_are_left_out_until_it_fits(question: Any) -> None:
    """Of 512 tokens 100 are kept for the answer: three turns of 150 do not fit, one does; a user's turn goes together with its answer."""
    history = [{"role": role, "content": role[0] * 150} for role in ("user", "assistant", "user")]
    *_, last = question.chat("Now", history, max_new_tokens=100, temperature=0)
    assert last["metrics"] is not None
    assert last["metrics"]["prompt_tokens"] == (TURN + 150) + (TURN + 3) + ANSWER
    (cut,) = [caveat["message"] for caveat in last["caveats"] if caveat["code"] == "history_cut"]
    assert cut.startswith("The 2 oldest")


def test_a_message_that_is_too_long_alone(question: Any) -> None:
    """It is refused with its length and what there is room for."""
    with pytest.raises(BadArgument, match=r"message was '[\d,]+ tokens'. Accepted: a message of at most 412 tokens"):
        list(question.chat("x" * 500, max_new_tokens=100))


def test_half_of_the_context_is_for_the_question(question: Any) -> None:
    """A longer answer is held to the other half, and says so."""
    pieces = question.chat("Hello", max_new_tokens=1024)
    first = next(item for item in pieces if item["stage"] == "writing")
    pieces.close()  # type: ignore[attr-defined]
    assert [caveat["message"] for caveat in first["caveats"] if caveat["code"] == "answer_limit"] == [
        "The answer is limited to 256 tokens, half of the 512 that a conversation may take on this device."
    ]


@given(st.lists(st.sampled_from(["<|im_start|>", "<|im_end|>", "<|im_end", "|>", "<", "system\n", "you are", " ", "é", "\n"]), max_size=12))
def test_words_never_become_control_tokens(parts: list[str]) -> None:
    """Whatever is written, only the template's own control tokens stand in the prompt, and the words come back as they were."""
    text = "".join(parts)
    own = tiny_chat.tokenizer() if not _KEPT else _KEPT[0]
    _KEPT[:] = [own]
    control = set(own.get_added_vocab().values())
    ids = module.encode_messages(own, [Message("user", text), Message("assistant", text), Message("user", "x")])
    assert sum(token in control for token in ids) == 3 * 2 + 1
    assert own.decode(module.encode_text(own, text, module.control_tokens(own))) == text


_KEPT: list[Any] = []


def test_markup_is_text(words: Any) -> None:
    """A template's own braces inside a message are not run, and neither are stand-ins guessed."""
    ids = module.encode_messages(words, [Message("user", "{{ 7 * 7 }} {% raw %} 0x0x")])
    assert "{{ 7 * 7 }} {% raw %} 0x0x" in words.decode(ids)


def test_a_template_that_refuses_the_turns() -> None:
    """Its own complaint is not shown; what is accepted is."""
    strict = tiny_chat.tokenizer(tiny_chat.ALTERNATING + tiny_chat.TEMPLATE)
    with pytest.raises(BadArgument, match="user first, then in alternation"):
        module.build_prompt(strict, [Message("user", "a")], "b", 400)
    with pytest.raises(ModelNotAtHand, match="template"):
        module.build_prompt(tiny_chat.tokenizer("{{ undefined.x.y }}"), [], "b", 400)


@pytest.mark.parametrize(
    ("history", "named"),
    [
        ("hello", "history"),
        ({"role": "user"}, "history"),
        ([{"role": "system", "content": "obey"}], r"history\[0\].role"),
        ([{"role": "user"}], r"history\[0\].content"),
        ([{"role": "user", "content": ""}], r"history\[0\].content"),
        ([{"role": "user", "content": "a\x00b"}], r"history\[0\].content"),
        ([{"role": "user", "content": "\ud800"}], r"history\[0\].content"),
        ([{"role": "user", "content": "x" * 16_001}], r"history\[0\].content"),
        ([{"role": "user", "content": [{"type": "file", "text": "x"}]}], r"history\[0\].content"),
        ([["a", "b", "c"]], r"history\[0\]"),
        ([["a", None]], r"history\[0\]\[1\]"),
        ([7], r"history\[0\]"),
        ([["a", "b"]] * 101, "history"),
        ([["x" * 16_000, "y" * 16_000]] * 3, "history"),
    ],
)
def test_a_history_that_is_none(question: Any, history: Any, named: str) -> None:
    """Refused with the place in it, before anything is loaded or run."""
    with pytest.raises(BadArgument, match=f"^{named} was "):
        next(question.chat("Hello", history))


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"message": ""}, "message"),
        ({"message": 5}, "message"),
        ({"message": "a", "max_new_tokens": 0}, "max_new_tokens"),
        ({"message": "a", "max_new_tokens": 1025}, "max_new_tokens"),
        ({"message": "a", "temperature": -0.1}, "temperature"),
        ({"message": "a", "temperature": 2.1}, "temperature"),
        ({"message": "a", "temperature": float("nan")}, "temperature"),
    ],
)
def test_arguments_out_of_range(question: Any, given: dict[str, Any], named: str) -> None:
    """Each is named with what is accepted."""
    with pytest.raises(BadArgument, match=f"^{named} was "):
        next(question.chat(**given))


def test_both_forms_of_a_history_mean_the_same(question: Any) -> None:
    """Messages, messages whose content is in parts, and pairs."""
    said = [("user", "one"), ("assistant", "two")]
    forms: list[Any] = [
        [{"role": role, "content": text, "metadata": None} for role, text in said],
        [{"role": role, "content": [{"type": "text", "text": text}]} for role, text in said],
        [["one", "two"]],
    ]
    found = {list(question.chat("three", form, max_new_tokens=1, temperature=0))[-1]["metrics"]["prompt_tokens"] for form in forms}  # type: ignore[index]
    assert found == {(TURN + 3) + (len("<assistant\n>\n") + 3) + (TURN + 5) + ANSWER}


def test_pieces_can_be_pickled() -> None:
    """ZeroGPU sends them from process to process."""
    piece = AnswerPiece(stage="writing", text="a")
    assert pickle.loads(pickle.dumps(piece)) == piece  # noqa: S301 our own
