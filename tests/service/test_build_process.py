"""Unseen models are built in a child process: what it may see and take, how it ends, and what is said when it ends badly."""

from __future__ import annotations

import builtins
import json
import os
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from contract import TINY_CONFIG, TINY_PARAMETERS
from pydantic import ValidationError

from lib.errors import AdvisorError, BadConfig, UnsupportedModel
from lib.live.process import resident_bytes
from lib.model import bundled
from lib.model.build import SMALLEST
from lib.model.resolve import _describe, resolve_config
from lib.service import build_process as module
from lib.service.build_process import BuildProcess, TooSlow
from lib.service.models import Models

MIB = 2**20
MANY_STATES = {"model_type": "qwen4_exp_text", "num_hidden_layers": 2, "number_of_conv_states": 10_000_000}
"""86 bytes for which lists of Python objects take gigabytes."""
SECRET = "secret-of-the-server"  # noqa: S105 nobody's
LIGHT = """\
import contextlib, sys, types
sys.modules['lib.model.build'] = types.ModuleType('lib.model.build')
sys.modules['lib.model.meta_device'] = types.SimpleNamespace(no_network=contextlib.nullcontext)
import lib.service.build_process as worker
worker._warm_up = lambda: None
worker.main()
"""
"""The worker without torch and transformers, whose imports take 3 s of processor time, in questions that build nothing."""


@pytest.fixture(scope="module")
def build_process() -> Iterator[BuildProcess]:
    """One child with torch and transformers for all tests that build, with little memory, of a server that has a token."""
    process = BuildProcess(memory_bytes=1 << 30)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_TOKEN", SECRET)
        yield process
    process.close()


@pytest.fixture
def build(monkeypatch: pytest.MonkeyPatch) -> Iterator[BuildProcess]:
    """A child for questions that build nothing, which starts in a tenth of a second."""
    monkeypatch.setattr(module, "COMMAND", (sys.executable, "-c", LIGHT))
    process = BuildProcess(limit_s=10.0, memory_bytes=1 << 30, max_questions=3)
    yield process
    process.close()


def _run(build: BuildProcess, code: str) -> Any:
    """The value of an expression in the child."""
    return build(builtins.eval, code)  # type: ignore[arg-type]  # a plain value in place of a spec


def _running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _wait_for_end(pid: int) -> bool:
    until = time.monotonic() + 60
    while _running(pid) and time.monotonic() < until:
        time.sleep(0.05)
    return not _running(pid)


def test_a_spec_crosses_unchanged(build_process: BuildProcess) -> None:
    """Field by field what a build in this process gives."""
    assert build_process(resolve_config, SMALLEST) == resolve_config(SMALLEST)


@pytest.mark.parametrize(
    "config",
    [
        {"model_type": "no-such-model"},
        {"model_type": "llama", "hidden_size": 100, "num_attention_heads": 3},
        {"model_type": "detr", "backbone": "someone/something"},
        {"model_type": "llama", "hidden_size": -1},
    ],
)
def test_a_refusal_crosses_with_its_class_and_its_sentence(build_process: BuildProcess, config: dict[str, Any]) -> None:
    """As it is refused in this process."""
    with pytest.raises(AdvisorError) as here:
        resolve_config(config)
    with pytest.raises(AdvisorError) as there:
        build_process(resolve_config, config)
    assert (type(there.value), str(there.value)) == (type(here.value), str(here.value))


def test_the_child_sees_no_secret_and_no_network(build_process: BuildProcess) -> None:
    """Its environment is written word by word; every connection is refused."""
    seen = _run(build_process, "dict(__import__('os').environ)")
    assert SECRET not in str(seen)
    assert seen["HOME"] != os.environ.get("HOME")
    with pytest.raises(UnsupportedModel, match="would have to be fetched"):
        _run(build_process, "__import__('socket').create_connection(('127.0.0.1', 9))")


def test_the_child_s_home_is_taken_away(build: BuildProcess) -> None:
    """It is a temporary folder of its own."""
    home = Path(_run(build, "__import__('os').environ['HOME']"))
    assert home.exists()
    build.close()
    assert not home.exists()


def test_a_question_that_is_given_up_ends_its_child_and_the_next_one_is_answered(build: BuildProcess) -> None:
    """Stop on the page: the child would be busy for ten seconds more, and refuses in other words then."""
    given_up, pid = threading.Event(), _run(build, "__import__('os').getpid()")
    threading.Timer(0.3, given_up.set).start()
    with pytest.raises(BadConfig, match="gave this question up"):
        build(builtins.eval, "__import__('time').sleep(60)", given_up=given_up)  # type: ignore[arg-type]  # as above
    assert not _running(pid)
    assert _run(build, "__import__('os').getpid()") != pid


def test_more_memory_than_a_build_may_take_is_refused_and_the_app_holds_none_of_it(build: BuildProcess) -> None:
    """2 GiB where 1 GiB is allowed: a sentence; the same child answers the next question."""
    pid, before = _run(build, "__import__('os').getpid()"), resident_bytes()
    with pytest.raises(BadConfig, match=r"takes more than 1 GiB of memory and was stopped\. Check its sizes"):
        _run(build, "bytearray(2 << 30)")
    assert resident_bytes() - before < 100 * MIB
    assert _run(build, "__import__('os').getpid()") == pid


def test_the_bound_on_memory_cannot_be_raised_from_inside(build: BuildProcess) -> None:
    """The hard limit is the soft one."""
    assert _run(build, "list(__import__('resource').getrlimit(__import__('resource').RLIMIT_DATA))") == [1 << 30, 1 << 30]


def test_a_question_past_its_deadline_says_so_by_its_class(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asked may ask again in a process with more time."""
    monkeypatch.setattr(module, "COMMAND", (sys.executable, "-c", LIGHT))
    process = BuildProcess(limit_s=0.2, memory_bytes=1 << 30, spare=False)
    with pytest.raises(TooSlow, match=r"takes more than 0\.2 s and was stopped"):
        _run(process, "__import__('time').sleep(60)")
    process.close()


def test_every_bundled_model_can_be_an_answer() -> None:
    """Each field of each value class in it comes back equal and of the same type."""
    write = module._answer_type(resolve_config)
    for name in bundled.list_ids():
        spec = bundled.find_spec(name)
        read = _read(write(result=spec, resident_bytes=1).model_dump_json())
        assert isinstance(read, module._Answer)
        assert repr(read.result) == repr(spec)


def _read(answer: str) -> object:
    """As the parent reads what its child sent about a configuration."""
    return module._answers_of(resolve_config).validate_json(answer, strict=True)


def _write_answer(**changed: object) -> str:
    """An answer of the child about a bundled model, with these fields of the model in place of its own."""
    sent = json.loads(module._answer_type(resolve_config)(result=bundled.find_spec("Qwen/Qwen3-0.6B"), resident_bytes=1).model_dump_json())
    sent["result"] |= changed
    return json.dumps(sent)


def _with_activation(constant: str) -> str:
    """An answer whose activations have this number for their first constant, as it is written in JSON."""
    sent = json.loads(_write_answer())
    sent["result"]["activations"][0]["constant"] = "@"
    return json.dumps(sent).replace('"@"', constant)


@pytest.mark.parametrize(
    "answer",
    [
        _write_answer(parameters_total="600000000"),  # a text where a number belongs
        _write_answer(parameters_total=True),
        _write_answer(parameters_total=None),
        _write_answer(id={"$ref": "lib.errors.Fault"}),
        _write_answer(dimensions=[1, 2, 3]),
        _write_answer(id="@").replace('"@"', '"\\ud800"'),  # half a character
        _write_answer(stored="@").replace('"@"', '{"dtype": "x", "bytes_by_dtype": {"x": NaN}}'),
        *(_with_activation(constant) for constant in ("NaN", "-Infinity", "1e999")),
        _write_answer(poison=1),  # a field that the class does not have
        _write_answer(__class__="x", __dict__={"id": "x"}),
        _write_answer(tensors=[{"name": "x", "__class__": "lib.model.spec.TensorGroup"}]),
        _write_answer(caveats=[{"code": "x", "values": {"failure": {"nested": 1}}}]),
        _write_answer(caveats=[{"code": "x", "values": {"failure": ["a list"]}}]),
        '{"result": null, "resident_bytes": 1, "__class__": "x"}',  # a field that no answer has
        '{"result": null, "resident_bytes": 1}',
        '{"resident_bytes": 1}',  # neither a result nor a refusal
        _write_answer()[:-1] + ', "refusal": {"code": "x", "sentence": "x"}}',  # both
        _write_answer()[:-1] + ', "resident_bytes": "1"}',
        '{"refusal": {"code": 1, "sentence": "x"}, "resident_bytes": 1}',
        '{"result": ' + "[" * 200_000 + "]" * 200_000 + ', "resident_bytes": 1}',
        '{"result": null, "resident_bytes": ' + "9" * 400_000 + "}",
        "\x80\x04N.",
    ],
)
def test_an_answer_made_by_hand_is_refused(answer: str) -> None:
    """A child that a stranger's file took over can send any bytes: what is not of the type of the answer is none."""
    with pytest.raises(ValidationError):
        _read(answer)


def test_a_refusal_of_an_unknown_code_is_of_the_root_s_kind() -> None:
    """The code chooses among our own errors only."""
    sent = '{"refusal": {"code": "__init__", "sentence": "Anything."}, "resident_bytes": 1}'
    refused = _read(sent)
    assert isinstance(refused, module._Refused)
    assert type(refused.refusal.error()) is AdvisorError


def test_an_answer_that_fits_no_value_class_is_refused_and_its_child_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """The child has read a stranger's file: what it sends is not believed to be well-formed. Here: a pickle in place of JSON."""
    taken = LIGHT.replace("worker.main()", "worker._answer = lambda *_: b'\\x80\\x04N.'\nworker.main()")
    monkeypatch.setattr(module, "COMMAND", (sys.executable, "-c", taken))
    build = BuildProcess(spare=False)
    try:
        build.warm_up()
        assert build._child is not None
        pid = build._child.pid
        with pytest.raises(BadConfig, match=r"gave no answer that could be read\. Check its sizes"):
            _run(build, "6 * 7")
        assert not _running(pid)
    finally:
        build.close()


def test_an_answer_that_nobody_asked_for_is_read_by_nobody(build: BuildProcess) -> None:
    """What lies in the pipe before a question is sent would be taken for its answer: that child is replaced."""
    before = _run(build, "__import__('os').getpid()")
    sent = [json.dumps({"result": result, "resident_bytes": 1}).encode() for result in ("first", "wrong")]
    pieces = b"".join(struct.pack("!i", len(piece)) + piece for piece in (sent[0], module.BEGUN, sent[1]))  # as a Connection writes them
    connections = "(c for c in __import__('gc').get_objects() if type(c).__name__ == 'Connection' and c.writable)"
    assert _run(build, f"[__import__('os').write(c.fileno(), {pieces!r}) for c in {connections}]") == "first"
    assert _run(build, "6 * 7") == 42
    assert _run(build, "__import__('os').getpid()") != before


def test_a_small_file_that_asks_for_gigabytes_takes_none_of_them_here(build_process: BuildProcess) -> None:
    """Without the limits on sizes, which come first: its cache is not run or it is refused, and this process does not grow."""
    models, before = Models(build_process), resident_bytes()
    try:
        spec = build_process(_describe, MANY_STATES, None)
    except BadConfig as refusal:
        assert "Check its sizes" in str(refusal)  # noqa: PT017 either is right: the child's bound is reached here or there
    else:
        assert "cache_not_executed" in {caveat.code for caveat in spec.caveats}
    assert resident_bytes() - before < 100 * MIB
    assert models(TINY_CONFIG).parameters_total == TINY_PARAMETERS


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("__import__('os').kill(__import__('os').getpid(), 9)", r"takes more than 1 GiB of memory and was stopped\."),
        ("__import__('os').kill(__import__('os').getpid(), 11)", r"was ended by SIGSEGV; the app was not touched\. Check its sizes"),
        ("__import__('os')._exit(3)", r"ended with status 3; the app was not touched\."),
        ("object()", r"cannot be worked out \(ValidationError\)\. Check its sizes"),
        ("__import__('os').kill(__import__('os').getpid(), 40)", r"was ended by signal 40; the app was not touched\."),
        ("float('nan')", r"cannot be worked out \(ValidationError\)\. Check its sizes"),
        ("10 ** 4400", r"cannot be worked out \((ValidationError|ValueError|PydanticSerializationError)\)\. Check its sizes"),
        ("'x' * (600 << 10)", r"takes 600 KiB; a model's takes some 40 KiB"),
    ],
)
def test_an_end_without_an_answer_is_a_sentence_and_the_next_question_is_answered(build: BuildProcess, code: str, says: str) -> None:
    """Killed by the kernel, crashed, gone, or an answer that is none."""
    with pytest.raises(BadConfig, match=says):
        _run(build, code)
    assert _run(build, "6 * 7") == 42


def test_a_child_killed_between_two_questions_is_replaced(build: BuildProcess) -> None:
    """The next question is nobody's fault."""
    pid = _run(build, "__import__('os').getpid()")
    os.kill(pid, signal.SIGKILL)
    assert _wait_for_end(pid)
    assert _run(build, "6 * 7") == 42


def test_the_deadline_ends_what_takes_too_long(build: BuildProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop that never ends; the successor was started before the deadline."""
    monkeypatch.setattr(module, "SLOW_S", 0.0)
    pid = _run(build, "__import__('os').getpid()")
    build._limit_s = 0.5
    with pytest.raises(BadConfig, match=r"takes more than 0\.5 s and was stopped\. Check its sizes and counts, or give"):
        _run(build, "[0 for _ in iter(int, 1)]")
    assert not _running(pid)
    build._limit_s = 10.0
    assert _run(build, "6 * 7") == 42


def test_a_listed_expression_that_never_ends_is_ended_at_the_deadline(build: BuildProcess) -> None:
    """A matcher that goes back over a path for years cannot be interrupted; its process is ended."""
    build._limit_s = 0.5
    match = "__import__('lib.model.checkpoint', fromlist=['*'])._compile_patterns(['re:((.+)+)+X'])[0].match('model.layers.0.' * 5)"
    with pytest.raises(BadConfig, match=r"takes more than 0\.5 s and was stopped"):
        _run(build, match)
    build._limit_s = 10.0
    assert _run(build, "6 * 7") == 42


def test_imports_take_none_of_a_question_s_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A child that imports for 2 s answers a question that may take 1 s."""
    monkeypatch.setattr(module, "COMMAND", (sys.executable, "-c", LIGHT.replace("lambda: None", "lambda: __import__('time').sleep(2)")))
    build = BuildProcess(limit_s=1.0)
    try:
        assert _run(build, "6 * 7") == 42
    finally:
        build.close()


def test_after_its_number_of_questions_a_successor_takes_over(build: BuildProcess) -> None:
    """The old one answers until the new one is ready; then it is gone."""
    first = _run(build, "__import__('os').getpid()")
    answered = 1
    while _run(build, "__import__('os').getpid()") == first:
        answered += 1
        time.sleep(0.05)
    assert answered >= 3
    assert not _running(first)


def test_questions_asked_at_the_same_time_take_turns(build: BuildProcess) -> None:
    """Each gets its own answer."""
    answers: dict[int, int] = {}

    def ask(number: int) -> None:
        answers[number] = _run(build, f"{number} * 2")

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == {number: number * 2 for number in range(8)}


def test_no_child_outlives_its_parent() -> None:
    """The parent is killed in the middle of a question that never ends."""
    code = (
        "import builtins, sys\n"
        "from lib.service import build_process as module\n"
        f"module.COMMAND = (sys.executable, '-c', {LIGHT!r})\n"
        "build = module.BuildProcess()\n"
        "print(build(builtins.eval, \"__import__('os').getpid()\"), flush=True)\n"
        "build(builtins.eval, '[0 for _ in iter(int, 1)]')\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert _running(child)
        parent.kill()
    assert _wait_for_end(child)
