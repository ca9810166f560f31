"""The chat's model: which one, how it comes, and the reason when it does not. Against the Hub's stand-in, through the real client."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pytest
import tiny_chat
from hub_stand_in import Fault, Repo, Seen, StandIn
from huggingface_hub import constants

from lib.catalog import load
from lib.errors import ModelNotAtHand
from lib.live import demo_model
from lib.live.demo_model import ON_CPU, ON_GPU, DemoModel, precision_for
from lib.live.device import Device, current_device
from lib.model import bundled

ID = "org/tiny"


class Shelf(StandIn):
    """The stand-in, which also lists the files of a repository as `snapshot_download` asks for them."""

    def answer(self, seen: Seen) -> Any:
        path = urlsplit(seen.path).path
        name, _, rest = path.removeprefix("/api/models/").partition("/tree/")
        if not rest:
            return super().answer(seen)
        found = super().answer(Seen(path=f"/api/models/{name}", headers=seen.headers))
        if found.status == 200:
            files = self.repos[name].files
            found.body = json.dumps(
                [{"type": "file", "path": file, "size": len(body), "oid": "a" * 40} for file, body in files.items()]
            ).encode()
        return found


class At(NamedTuple):
    """Where the model lies as a folder, the Hub that serves it, and where copies are kept."""

    folder: Path
    hub: Shelf
    cache: Path


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny model as files."""
    return tiny_chat.save(tmp_path_factory.mktemp("models") / "tiny-instruct")


@pytest.fixture
def model_places(files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[At]:
    """The model on a Hub of this machine, an empty cache, and a token of the server's own that must not be sent."""
    with Shelf() as hub:
        held = {path.name: path.read_bytes() for path in files.iterdir()}
        hub.add(Repo(id=ID, files=held | {"pytorch_model.bin": b"pickle", "onnx/model.onnx": b"onnx", "README.md": b"# hi"}))
        monkeypatch.setattr(constants, "ENDPOINT", hub.url)
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", f"{hub.url}/{{repo_id}}/resolve/{{revision}}/{{filename}}")
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setenv("HF_TOKEN", "hf_of_the_server")
        yield At(files, hub, tmp_path / "cache")


def ignore_note(_: demo_model.Note) -> None:
    """Nobody listens."""


@pytest.fixture(scope="module")
def cpu() -> Device:
    """The processors here, with room enough."""
    return replace(current_device(load()), kind="cpu", free_bytes=8 << 30)


def test_the_defaults_are_bundled() -> None:
    """What is predicted of them is then exact and needs no Hub."""
    assert bundled.find_spec(ON_CPU) is not None
    assert bundled.find_spec(ON_GPU) is not None


def test_the_model_by_device(cpu: Device) -> None:
    """A small one for processors, a larger one for any GPU; DEMO_MODEL before both."""
    card = replace(cpu, kind="cuda")
    assert (DemoModel({}).choose_model(cpu), DemoModel({}).choose_model(card)) == (ON_CPU, ON_GPU)
    assert {DemoModel({"DEMO_MODEL": " a/b "}).choose_model(device) for device in (cpu, card)} == {"a/b"}


def test_the_format_by_device(cpu: Device) -> None:
    """bfloat16 from Ampere on, float16 on older cards (a T4 is 7.5), float32 on processors."""
    card = replace(cpu, kind="cuda", capability=(8, 0))
    assert [precision_for(d) for d in (cpu, card, replace(card, capability=(7, 5)), replace(card, kind="zerogpu", capability=(12, 0)))] == [
        "fp32",
        "bf16",
        "fp16",
        "bf16",
    ]


def test_it_is_fetched_once_and_without_a_token(model_places: At, cpu: Device) -> None:
    """Settings, tokenizer and one copy of the weights come; afterwards the copy serves, without a question to the Hub, even offline."""
    told: list[str] = []
    model = DemoModel({"DEMO_MODEL": ID})
    found = model.load(cpu, lambda note: told.append(note if isinstance(note, str) else note()))
    assert found.name == ID
    assert found.precision == "fp32"
    assert model.loaded_model is found
    assert not any("authorization" in seen.headers for seen in model_places.hub.requests)
    assert not any(file in path for path in model_places.hub.paths() for file in ("pytorch_model.bin", "onnx", "README"))
    assert told[0] == f"Asking the Hub for {ID}."
    assert told[1].startswith(f"Fetching {ID}: 0 of 1 MB")
    asked = len(model_places.hub.requests)
    constants.HF_HUB_OFFLINE = True  # set back by the fixture
    assert DemoModel({"DEMO_MODEL": ID}).load(cpu, ignore_note).weights_bytes == found.weights_bytes
    assert len(model_places.hub.requests) == asked


def test_a_folder_shows_its_name_only(model_places: At, cpu: Device) -> None:
    """The rest of its path is the server's own."""
    assert DemoModel({"DEMO_MODEL": str(model_places.folder)}).load(cpu, ignore_note).name == "tiny-instruct"


def read_refusal(wanted: str, device: Device) -> str:
    """The sentence."""
    with pytest.raises(ModelNotAtHand) as told:
        DemoModel({"DEMO_MODEL": wanted}).load(device, ignore_note)
    return str(told.value)


def test_why_it_is_not_at_hand(model_places: At, cpu: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each reason has its own sentence, a next step, and says what works without the model."""
    weights = model_places.hub.repos[ID].files
    model_places.hub.add(Repo(id="org/gated", files=weights, gated="manual"))
    model_places.hub.add(Repo(id="org/pickled", files={"config.json": b"{}", "pytorch_model.bin": b"x"}))
    sentences = {
        "the Hub has no such public model": read_refusal("org/none", cpu),
        "it is gated, and no token is sent": read_refusal("org/gated", cpu),
        "holds no safetensors weights": read_refusal("org/pickled", cpu),
        "neither a folder nor the id of a model": read_refusal("../etc/../../x", cpu),
    }
    model_places.hub.faults["/api/models/"] = Fault(status=503)
    sentences["answered with status 503"] = read_refusal(ID, cpu)
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    sentences["could not be reached"] = read_refusal(ID, cpu)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    sentences["runs offline (HF_HUB_OFFLINE=1)"] = read_refusal(ID, cpu)
    for reason, sentence in sentences.items():
        assert reason in sentence
        assert "Next: " in sentence
        assert sentence.endswith(demo_model.MEANWHILE_SENTENCE)
        assert str(model_places.cache) not in sentence


def test_a_disk_without_room(model_places: At, cpu: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is fetched that would fill it."""
    monkeypatch.setattr(demo_model.shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10, 9, 1))  # type: ignore[attr-defined]
    assert "the disk has 0.0 GB free" in read_refusal(ID, cpu)
    assert not any("/resolve/" in path for path in model_places.hub.paths())


def test_memory_without_room(model_places: At, cpu: Device) -> None:
    """It is refused before the memory is full, with what it needs and what is free."""
    assert "0.0 GiB free" in read_refusal(str(model_places.folder), replace(cpu, free_bytes=100_000))


def test_folders_that_cannot_be_used(files: Path, cpu: Device, tmp_path: Path) -> None:
    """No weights, weights of which a part is missing, no chat template, code of its own, rubbish: a sentence each, without a path."""
    empty = tmp_path / "empty"
    empty.mkdir()
    partial, mute, coded, rubbish = (shutil.copytree(files, tmp_path / name) for name in ("partial", "mute", "coded", "rubbish"))
    (partial / "model.safetensors").rename(partial / "model-00001-of-00002.safetensors")
    index = {"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}}
    (partial / "model.safetensors.index.json").write_text(json.dumps(index))
    (mute / "chat_template.jinja").unlink()
    config = json.loads((coded / "config.json").read_text())
    config |= {"model_type": "own", "auto_map": {"AutoConfig": "own.Config", "AutoModelForCausalLM": "own.Model"}}
    (coded / "config.json").write_text(json.dumps(config))
    (coded / "own.py").write_text("raise SystemExit('remote code was run')")
    (rubbish / "model.safetensors").write_bytes(b"\xff" * 100)
    for folder, reason in {
        empty: "no config.json with safetensors",
        partial: "no config.json with safetensors",
        mute: "no chat template",
        coded: "cannot be used for a chat",
        rubbish: "cannot be used for a chat",
    }.items():
        sentence = read_refusal(str(folder), cpu)
        assert reason in sentence
        assert str(tmp_path) not in sentence


def test_what_is_fetched() -> None:
    """One copy of the weights: the single file before shards, shards only with their index, no other format."""
    small = {"config.json": 1, "tokenizer.model": 1, "chat_template.jinja": 1}
    shards = {"model-00001-of-00002.safetensors": 5, "model-00002-of-00002.safetensors": 5, "model.safetensors.index.json": 1}
    extra = {"original/x.json": 9, "pytorch_model.bin": 9, "modeling_own.py": 9, "model.fp16.safetensors": 9}
    assert demo_model.choose_files(small | {"model.safetensors": 8} | shards | extra).keys() == {
        *small,
        "model.safetensors",
        "model.safetensors.index.json",
    }
    assert demo_model.choose_files(small | shards | extra).keys() == {*small, *shards}
    assert demo_model.choose_files(small | extra) == {}


def test_a_checkpoint_does_not_say_how_it_is_run(files: Path, cpu: Device, tmp_path: Path) -> None:
    """Beams, penalties or time limits of its own settings would change what is measured; its ends of text are kept."""
    own = shutil.copytree(files, tmp_path / "own")
    (own / "generation_config.json").write_text(json.dumps({"num_beams": 50, "max_time": 1.0, "eos_token_id": [5, 7]}))
    found = demo_model.load_from_folder("own", own, cpu, "fp32")
    assert found.end_ids == {5, 7}
    stated = found.model.generation_config
    assert (stated.num_beams, stated.max_time, stated.eos_token_id) == (None, None, [5, 7])


def test_placing_is_for_zero_gpu_only(model_places: At) -> None:
    """Elsewhere the start of the app neither loads nor asks."""
    model = DemoModel({"DEMO_MODEL": ID})
    model.place(load())
    assert model.loaded_model is None
    assert model_places.hub.requests == []


@pytest.mark.usefixtures("model_places")
def test_a_model_that_was_not_placed(cpu: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """On ZeroGPU a start without the model is a start all the same; the chat then tells the reason and that a restart is needed."""
    monkeypatch.setenv("SPACES_ZERO_GPU", "true")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    model = DemoModel({"DEMO_MODEL": ID})
    model.place(load())
    with pytest.raises(ModelNotAtHand, match=r"offline.*restarts the Space"):
        model.load(cpu, ignore_note)
