"""app.py as it is written: what a CPU can run is run and asked, the rest is read by Python."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
import tiny_chat
from gradio_client import Client
from running_app import free_port

from lib.precision import list_formats
from lib.present.snippets import AppPlace, write_app

TASKS = ("text-generation", "text-classification", "feature-extraction")


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
                    pass
            assert app.poll() is None, (folder / "log").read_text()
            yield f"http://127.0.0.1:{port}"
        finally:
            app.terminate()
            app.wait()


def test_the_chat_answers_and_goes_on(tmp_path: Path) -> None:
    """Two turns with a tiny model: the second has the first before it."""
    tiny_chat.save(tmp_path / "ada" / "tiny", max_position_embeddings=4096)
    text = write_app("text-generation", "ada/tiny", AppPlace(precision="fp32", where="cpu"))
    assert text is not None
    with _running(tmp_path, text.replace('"max_new_tokens": 512', '"max_new_tokens": 8')) as url:
        client = Client(url, verbose=False, analytics_enabled=False)
        assert isinstance(client.predict("Hello", api_name="/chat"), str)
        assert isinstance(client.predict("And again", api_name="/chat"), str)
    assert "Traceback" not in (tmp_path / "log").read_text()


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize(
    "place",
    [
        AppPlace(precision="bf16", where="zerogpu", size="xlarge"),
        *(AppPlace(precision=name, where="gpu", devices=2) for name in list_formats("vllm")),
    ],
    ids=lambda place: f"{place.where}-{place.precision}",
)
def test_every_app_is_python_with_all_its_names(task: str, place: AppPlace) -> None:
    """It compiles, imports what it uses, and on ZeroGPU decorates and moves to the card."""
    text = write_app(task, "ada/tiny", place)
    assert text is not None
    compile(text, "app.py", "exec")
    for name in re.findall(r"\b(spaces|threading|torch|gr)\.", text):
        assert re.search(rf"^import (?:\w+ as )?{name}$", text, re.MULTILINE)
    import transformers  # noqa: PLC0415  slow

    (line,) = re.findall(r"^from transformers import (.+)$", text, re.MULTILINE)
    assert all(hasattr(transformers, name) for name in line.split(", "))
    assert ("@spaces.GPU" in text) == (place.where == "zerogpu") == ('.to("cuda")' in text)


def test_what_has_no_app() -> None:
    """Other tasks, GGUF files, and what has to be quantized on a card while the app starts on ZeroGPU."""
    assert write_app("text-to-image", "a/b", AppPlace(precision="bf16", where="gpu")) is None
    assert write_app("text-generation", "a/b", AppPlace(precision="gguf:Q8_0", where="cpu")) is None
    assert write_app("text-generation", "a/b", AppPlace(precision="bnb-nf4", where="zerogpu")) is None
