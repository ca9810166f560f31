"""Code to copy: every call exists in the installed client, every command in its own parser, and a chat starts as it is written."""

from __future__ import annotations

import ast
import inspect
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
import tiny_chat
from commands import NASTY, parse_words, texts
from gradio_client import Client
from huggingface_hub import HfApi
from huggingface_hub.cli.hf import app as hf
from hypothesis import given, settings
from running_app import free_port

from lib.cli.app import main as ours
from lib.present import snippets
from lib.present.app_files import AppPlace, write_app
from lib.present.snippets import Snippet, shell_command
from lib.present.templates import python_literal

ALL: tuple[Snippet, ...] = (
    snippets.switch_snippet("ada/chat", "l4x1", 3600),
    snippets.pause_snippet("ada/chat"),
    snippets.restart_snippet("ada/chat"),
    snippets.restart_snippet("ada/chat", factory=True),
    snippets.sleep_time_snippet("ada/chat", 3600),
    snippets.switch_snippet("ada/chat", "cpu-basic"),
    snippets.switch_snippet("ada/chat", "zero-a10g-xlarge"),
    snippets.switch_snippet("ada/chat", "l4x1", -1),
    snippets.sleep_time_snippet("ada/chat", -1),
)


def snippet_name(snippet: Snippet) -> str:
    """A name for a parametrized test."""
    return snippet.title


def hf_lines(snippet: Snippet) -> Iterator[list[str]]:
    """The words of each `hf` command of a snippet; no word of ours holds a line break."""
    for line in snippet.hf.split("\n"):
        words = shlex.split(line)
        assert words[0] == "hf"
        yield words[1:]


@pytest.mark.parametrize("snippet", ALL, ids=snippet_name)
def test_python_calls_exist(snippet: Snippet) -> None:
    """Every call of the Python form binds to the signature of the installed huggingface_hub."""
    calls = [node for node in ast.walk(ast.parse(snippet.python)) if isinstance(node, ast.Call)]
    checked = 0
    for call in calls:
        keywords = {str(keyword.arg): None for keyword in call.keywords}
        if isinstance(call.func, ast.Attribute):
            inspect.signature(getattr(HfApi, call.func.attr)).bind(None, *call.args, **keywords)
            checked += 1
    assert checked >= 1


@pytest.mark.parametrize("snippet", ALL, ids=snippet_name)
def test_python_reads_what_the_answer_has(snippet: Snippet) -> None:
    """What the Python form prints are fields of the runtime that the client answers with."""
    from huggingface_hub import SpaceRuntime  # noqa: PLC0415 - only here

    fields = set(inspect.signature(SpaceRuntime).parameters) | set(vars(SpaceRuntime({"stage": "RUNNING"})))
    read = {
        node.attr
        for node in ast.walk(ast.parse(snippet.python))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "answer"
    }
    assert read <= fields


@pytest.mark.parametrize("snippet", ALL, ids=snippet_name)
def test_hf_commands_exist(snippet: Snippet) -> None:
    """The installed client's own parser takes every `hf` command: no unknown command, option or value."""
    for words in hf_lines(snippet):
        _, read = parse_words(hf, words)
        assert "ada/chat" in read.values()


@pytest.mark.parametrize("snippet", [one for one in ALL if one.cli], ids=snippet_name)
def test_own_commands_exist(snippet: Snippet) -> None:
    """Our own command line takes every line that is offered for it."""
    assert snippet.cli is not None
    words = shlex.split(snippet.cli)
    assert words[:2] == ["python", "scripts/manage_space.py"]
    _, read = parse_words(ours, words[2:])
    assert read.get("space", "ada/chat") == "ada/chat"


def test_switch_says_the_same_three_times() -> None:
    """The three forms of a switch name the same Space, tier and sleep time."""
    made = snippets.switch_snippet("ada/chat", "l4x1", 3600)
    call = next(node for node in ast.walk(ast.parse(made.python)) if isinstance(node, ast.Call) and node.keywords)
    assert {one.arg: ast.literal_eval(one.value) for one in call.keywords} == {"hardware": "l4x1", "sleep_time": 3600}
    _, theirs = parse_words(hf, next(hf_lines(made)))
    assert (theirs["space_id"], theirs["hardware"], theirs["sleep_time"]) == ("ada/chat", "l4x1", 3600)
    _, own = parse_words(ours, shlex.split(str(made.cli))[2:])
    assert (own["space"], own["tier"], own["sleep_time"]) == ("ada/chat", "l4x1", 3600)


def test_zerogpu_sizes_are_one_tier() -> None:
    """The larger size of ZeroGPU is asked for in the code: the tier that the platform knows is zero-a10g."""
    made = snippets.switch_snippet("ada/chat", "zero-a10g-xlarge")
    assert '"zero-a10g"' in made.python
    assert any('size="xlarge"' in note for note in made.notes)


@settings(max_examples=150, deadline=None)
@given(texts)
def test_literal_is_one_literal(text: str) -> None:
    """A Python literal means the text again, stands on one line, and shows nothing that cannot be seen."""
    written = python_literal(text)
    assert ast.literal_eval(written) == text
    assert written.isprintable()


@settings(max_examples=150, deadline=None)
@given(texts, texts)
def test_command_keeps_words_apart(space: str, value: str) -> None:
    """A shell finds our words and the given ones, each whole; only `--` is added."""
    words = shlex.split(shell_command("hf spaces settings", [space], ["--hardware", value]))
    assert [word for word in words if word != "--"] == [
        word
        for word in ["hf", "spaces", "settings", *((["--hardware", value, space]) if space[0] == "-" else [space, "--hardware", value])]
        if word != "--"
    ]


@settings(max_examples=60, deadline=None)
@given(texts, texts)
def test_hostile_ids_stay_values(space: str, hardware: str) -> None:
    """Whatever the ids are, all three forms hold the same call with these ids as values, and nothing else."""
    made = snippets.switch_snippet(space, hardware, 60)
    tree = ast.parse(made.python)
    call = next(node for node in ast.walk(tree) if isinstance(node, ast.Call) and node.keywords)
    assert [ast.literal_eval(one) for one in call.args] == [space]
    assert ast.literal_eval(call.keywords[0].value) == hardware
    assert [type(node) for node in tree.body] == [ast.ImportFrom, ast.Assign, ast.Expr]
    _, theirs = parse_words(hf, shlex.split(made.hf)[1:])
    assert (theirs["space_id"], theirs["hardware"], theirs["sleep_time"]) == (space, hardware, 60)
    _, own = parse_words(ours, shlex.split(str(made.cli))[2:])
    assert (own["space"], own["tier"], own["sleep_time"], own["yes"]) == (space, hardware, 60, False)


def test_a_real_shell_agrees() -> None:
    """A shell itself reads every nasty id as one word and runs none of it."""
    lines = "\n".join(shell_command("printf %s\\\\0", [text]) for text in NASTY if not text.startswith("-"))
    told = subprocess.run(["sh", "-c", lines], capture_output=True, check=True)  # noqa: S607 - whichever sh there is
    assert told.stdout.decode() == "".join(f"{text}\0" for text in NASTY if not text.startswith("-"))


@contextmanager
def _running(folder: Path, text: str) -> Iterator[str]:
    """The file as a process of its own, in a folder where the model's id is a folder, as transformers reads it offline."""
    (folder / "app.py").write_text(text)
    port = free_port()
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("GRADIO_", "HF_", "SPACE"))}
    settings = {"GRADIO_SERVER_PORT": str(port), "GRADIO_ANALYTICS_ENABLED": "False", "HF_HUB_OFFLINE": "1"}
    with (folder / "log").open("wb") as log:
        app = subprocess.Popen([sys.executable, "app.py"], cwd=folder, env=kept | settings, stdout=log, stderr=log)
        try:
            while app.poll() is None:
                try:
                    httpx.get(f"http://127.0.0.1:{port}/", timeout=60)
                    break
                except httpx.TransportError:
                    time.sleep(0.1)
            assert app.poll() is None, (folder / "log").read_text()
            yield f"http://127.0.0.1:{port}"
        finally:
            app.terminate()
            app.wait()


def test_the_chat_answers_and_goes_on(tmp_path: Path) -> None:
    """Two turns with a tiny model: the second has the first before it."""
    tiny_chat.save(tmp_path / "ada" / "tiny", max_position_embeddings=4096)
    made = write_app("text-generation", "ada/tiny", AppPlace(precision="fp32", where="cpu", answer_tokens=8))
    assert made is not None
    with _running(tmp_path, made.text) as url:
        client = Client(url, verbose=False, analytics_enabled=False)
        assert isinstance(client.predict("Hello", api_name="/chat"), str)
        assert isinstance(client.predict("And again", api_name="/chat"), str)
    assert "Traceback" not in (tmp_path / "log").read_text()
