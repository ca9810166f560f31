"""Training scripts for pictures and sound take two steps as they are written, offline, on tiny models, and go on from a checkpoint."""

from __future__ import annotations

import ast
import json
import re
import sys
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io.wavfile
import tiny_models
from commands import NASTY
from packaging.requirements import Requirement
from PIL import Image
from run_scripts import ROWS, run_script
from safetensors.torch import load_file

from lib.memory.tower import read_examples
from lib.memory.trained import frozen_pattern, is_frozen
from lib.model import bundled
from lib.model.resolve import resolve_config
from lib.present.training_files import load_media_recipes, training_script
from lib.request.media import MediaRequest, TrainTower
from lib.workload import TrainingRequest

MODEL = "ada/tiny"
CPU = TrainingRequest(precision="fp32", packing=False, sequence_tokens=64, rank=4, micro_batch=2)
PICTURE = MediaRequest(images=1, image_width=336, image_height=336)


def write_rows(folder: Path, reads: str) -> None:
    """A model and a dataset of eight rows."""
    row: dict[str, Any] = {"audio": str(folder / "a.wav"), "transcription": "hello Ada"}
    if reads == "pictures":
        tiny_models.save_llava(folder / MODEL)
        Image.new("RGB", (16, 16), "red").save(folder / "a.png")
        said = [{"role": "user", "content": "What?"}, {"role": "assistant", "content": "Red"}]
        row = {"images": [str(folder / "a.png")], "messages": said}
    else:
        tiny_models.save_whisper(folder / MODEL)
        scipy.io.wavfile.write(folder / "a.wav", 8000, np.zeros(8000, np.int16))
    (folder / ROWS).write_text("".join(json.dumps(row) + "\n" for _ in range(8)), encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("reads", "method", "train_tower"),
    [("pictures", "lora", "no"), ("pictures", "full", "no"), ("sound", "lora", "no"), ("sound", "full", "no"), ("sound", "lora", "auto")],
)
def test_a_script_trains_two_steps(tmp_path: Path, reads: str, method: str, train_tower: TrainTower) -> None:
    """The result is on disk after two steps, a third one goes on from there, and what is frozen has not changed."""
    write_rows(tmp_path, reads)
    config = json.loads((tmp_path / MODEL / "config.json").read_text(encoding="utf-8"))
    spec = replace(resolve_config(config), id=MODEL, task="automatic-speech-recognition" if reads == "sound" else "image-text-to-text")
    asked = replace(CPU, method=method, train_tower=train_tower, media=PICTURE if reads == "pictures" else MediaRequest())  # type: ignore[arg-type]
    request = read_examples(spec, asked)
    script = training_script(MODEL, request, fused=reads == "pictures", epochs=1, frozen=frozen_pattern(spec, request))
    (tmp_path / "train.py").write_text(script, encoding="utf-8")
    run_script(tmp_path, "--steps", "2")
    out = tmp_path / "out"
    saved = load_file(out / "model.safetensors") if method == "full" else {}
    assert "going on from out/checkpoint-2" in run_script(tmp_path, "--steps", "3", "--resume")
    if method == "lora":
        names = load_file(out / "adapter_model.safetensors").keys()
        assert names
        assert any(".encoder." in name or "vision_tower" in name for name in names) == (train_tower == "auto")
        return
    before, after = (load_file(folder / "model.safetensors") for folder in (tmp_path / MODEL, out))
    changed = {name for name in after if not before[name].equal(after[name])}
    assert changed
    assert all(after[name].allclose(saved[name], atol=2e-5) for name in changed)  # it did not begin again
    assert not any(name.removeprefix("model.").startswith(("encoder.", "vision_tower.", "multi_modal_projector.")) for name in changed)


def test_the_rows_say_what_is_executed() -> None:
    """Both are trained above."""
    written = {name: recipe.tested_with for name, recipe in load_media_recipes().items()}
    kinds = {"pictures": "a LLaVA", "sound": "a Whisper"}
    assert written == {name: f"executed: {kind} of 2 layers with random weights, two steps" for name, kind in kinds.items()}


@pytest.mark.parametrize("method", ["full", "qlora", "lora-8bit"])
@pytest.mark.parametrize("reads", ["pictures", "sound"])
@pytest.mark.parametrize("model", [MODEL, *NASTY])
def test_a_script_is_python_whose_head_lists_what_it_imports(method: str, reads: str, model: str) -> None:
    """Uv reads the head; a hostile name is one literal and changes no statement."""
    media = {"media": PICTURE} if reads == "pictures" else {"reads_sound": True}
    asked = replace(CPU, method=method, precision="mixed", devices=2, sharding="ddp", **media)  # type: ignore[arg-type]
    text, plain = (training_script(name, asked, fused=False, epochs=1.5, half="fp16", frozen=r"(?:.+\.)?visual") for name in (model, MODEL))
    head = tomllib.loads("".join(line[2:] + "\n" for line in text.partition("# ///\n")[0].splitlines()[1:]))
    listed = {Requirement(line).name.replace("-", "_") for line in head["dependencies"]}
    nodes = [*ast.walk(ast.parse(text))]
    imports = {alias.name.partition(".")[0] for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    imports |= {str(node.module).partition(".")[0] for node in nodes if isinstance(node, ast.ImportFrom)}
    assert {name for name in imports if name not in sys.stdlib_module_names} <= listed | {"huggingface_hub"}
    assert [type(node) for node in nodes] == [type(node) for node in ast.walk(ast.parse(plain))]
    assert any(isinstance(node, ast.Constant) and node.value == model for node in nodes)
    assert "FROZEN" in text


@pytest.mark.parametrize(
    ("model", "part"),
    [
        *((name, part) for name in ("Qwen/Qwen2-VL-2B-Instruct", "HuggingFaceTB/SmolVLM-Instruct") for part in ("no", "projector", "yes")),
        ("meta-llama/Llama-3.2-11B-Vision-Instruct", "no"),
        ("openai/whisper-small", "no"),
    ],
)
def test_the_expression_names_what_is_frozen(model: str, part: TrainTower) -> None:
    """It matches every frozen parameter and no other."""
    spec = bundled.find_spec(model)
    assert spec is not None
    request = TrainingRequest(train_tower=part)
    pattern = frozen_pattern(spec, request)
    matched = {group.name for group in spec.tensors if pattern and re.fullmatch(pattern, group.name.replace("*", "7"))}
    assert matched == {group.name for group in spec.tensors if is_frozen(group, spec, request)}
    assert bool(matched) == (part != "yes")
