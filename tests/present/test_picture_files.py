"""The script that trains adapters of a pipeline takes two steps as it is written, offline, on tiny pipelines, and goes on from there."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import tiny_models
from commands import NASTY
from PIL import Image
from run_scripts import run_script

from lib.errors import BadArgument
from lib.memory.pipeline import OutputSize
from lib.present.picture_files import TESTED_WITH, find_obstacle, picture_script
from lib.workload import PictureTrainingRequest, TrainingRequest

MODEL = "ada/painter"
SIZE, CLIP = OutputSize(16, 16, 0), OutputSize(16, 16, 5)
CPU = TrainingRequest(precision="fp32", rank=4, micro_batch=2)


@pytest.mark.slow
@pytest.mark.parametrize("save", [tiny_models.save_painter, tiny_models.save_flux])
def test_a_script_trains_two_steps_and_goes_on(tmp_path: Path, save: Callable[[Path], Path]) -> None:
    """A UNet that predicts noise, and a transformer that predicts a flow of packed latents; adapters and a checkpoint are on disk."""
    save(tmp_path / MODEL)
    rows = tmp_path / "rows"
    rows.mkdir()
    for number in range(4):
        Image.new("RGB", (20, 24), (60 * number, 10, 200)).save(rows / f"{number}.png")
    lines = [json.dumps({"file_name": f"{number}.png", "text": "A cat" if number % 2 else "A dog"}) for number in range(4)]
    (rows / "metadata.jsonl").write_text("\n".join(lines), encoding="utf-8")
    (tmp_path / "train.py").write_text(picture_script(MODEL, CPU, SIZE), encoding="utf-8")
    assert "step 2 of 2" in run_script(tmp_path, "--steps", "2", dataset="rows")
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"checkpoint.pt", "pytorch_lora_weights.safetensors"}
    later = run_script(tmp_path, "--steps", "3", dataset="rows")
    assert "going on after step 2" in later
    assert "step 3 of 3" in later
    assert "step 1 of" not in later
    assert TESTED_WITH.startswith("executed: a Stable Diffusion, a FLUX and a Wan")


@pytest.mark.slow
def test_a_whole_denoiser_is_trained(tmp_path: Path) -> None:
    """The denoiser itself is on disk, and training goes on from its checkpoint."""
    tiny_models.save_painter(tmp_path / MODEL)
    rows = tmp_path / "rows"
    rows.mkdir()
    Image.new("RGB", (20, 24), (60, 10, 200)).save(rows / "0.png")
    (rows / "metadata.jsonl").write_text(json.dumps({"file_name": "0.png", "text": "A cat"}), encoding="utf-8")
    (tmp_path / "train.py").write_text(picture_script(MODEL, replace(CPU, method="full"), SIZE), encoding="utf-8")
    assert "step 2 of 2" in run_script(tmp_path, "--steps", "2", dataset="rows")
    assert (tmp_path / "out" / "unet" / "diffusion_pytorch_model.safetensors").is_file()
    assert "going on after step 2" in run_script(tmp_path, "--steps", "3", dataset="rows")


@pytest.mark.slow
@pytest.mark.parametrize("save", [tiny_models.save_wan])
def test_a_script_trains_on_clips(tmp_path: Path, save: Callable[[Path], Path]) -> None:
    """Latents of a clip keep their frames; frames are taken evenly; a clip that is too short is named."""
    save(tmp_path / MODEL)
    rows = tmp_path / "rows"
    rows.mkdir()
    for number in range(2):
        frames = [Image.new("RGB", (20, 24), (40 * at, 90 * number, 200)) for at in range(7)]
        frames[0].save(rows / f"{number}.gif", save_all=True, append_images=frames[1:])
    (rows / "metadata.jsonl").write_text(
        "".join(json.dumps({"file_name": f"{number}.gif", "text": "A cat"}) + "\n" for number in range(2)), encoding="utf-8"
    )
    (tmp_path / "train.py").write_text(picture_script(MODEL, CPU, CLIP), encoding="utf-8")
    assert "step 2 of 2" in run_script(tmp_path, "--steps", "2", dataset="rows")
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"checkpoint.pt", "pytorch_lora_weights.safetensors"}
    assert "going on after step 2" in run_script(tmp_path, "--steps", "3", dataset="rows")


def test_latents_are_packed_as_flux_packs_them() -> None:
    """The script's own function, next to the pipeline's."""
    import torch  # noqa: PLC0415  slow
    from diffusers import FluxPipeline  # noqa: PLC0415

    tree = ast.parse(picture_script(MODEL, CPU, SIZE))
    pack = next(node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "pack")
    scope = {"torch": torch, "MODEL": MODEL}
    exec(compile(ast.Module([pack], []), "train.py", "exec"), scope)  # noqa: S102 the script that the test has made
    latents = torch.randn(1, 4, 6, 8)
    assert torch.equal(scope["pack"](latents, (1, 12, 16)), FluxPipeline._pack_latents(latents, 1, 4, 6, 8))  # type: ignore[operator]


@pytest.mark.parametrize("method", ["lora", "qlora"])
def test_a_script_of_any_name_is_python(method: str) -> None:
    """Names are literals, and a quantized base has its own lines."""
    for name in NASTY:
        assert f"MODEL = {name!r}" in picture_script(name, TrainingRequest(), SIZE)
    script = picture_script(MODEL, TrainingRequest(method=method, optimizer="adamw_8bit"), OutputSize(1024, 512, 0), epochs=2.5)  # type: ignore[arg-type]
    tree = ast.parse(script)
    named = {node.targets[0].id: node.value for node in tree.body if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)}
    assert ast.literal_eval(named["EPOCHS"]) == 2.5
    assert ("load_in_4bit=True" in script) == (method == "qlora")
    assert "AdamW8bit(" in script


@pytest.mark.parametrize(
    ("request_", "name"),
    [
        (TrainingRequest(pictures=PictureTrainingRequest(base_precision="int8")), "base_precision"),
        (TrainingRequest(pictures=PictureTrainingRequest(cached="none")), "cached"),
        (TrainingRequest(checkpointing="offloaded"), "checkpointing"),
    ],
)
def test_what_is_not_written_is_named(request_: TrainingRequest, name: str) -> None:
    """With what is."""
    obstacle = find_obstacle(request_)
    assert isinstance(obstacle, BadArgument)
    assert obstacle.name == name
    assert "Accepted" in str(obstacle)


def test_a_plain_training_has_no_obstacle() -> None:
    """Adapters with inputs that are computed before."""
    assert find_obstacle(TrainingRequest()) is None
