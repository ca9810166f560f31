"""Pictures on Jobs: the program of a job drawn on this processor with a tiny pipeline, its row, and plans of pictures beside text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tiny_models import save_painter

from lib.catalog import load
from lib.errors import AgainstRules
from lib.live import measure_pictures
from lib.live.measurements import Measurement
from lib.model.spec import ModelSpec
from lib.service.job_plans import JobRequest, check_fit, describe_row
from lib.service.jobs import find_program, plan_job, plan_jobs, read_log
from lib.service.models import Models
from lib.workload import PipelineRequest

SDXL, TURBO = "stabilityai/stable-diffusion-xl-base-1.0", "Tongyi-MAI/Z-Image-Turbo"
RESULT: dict[str, Any] = {
    "model": SDXL, "seconds": [6.2, 6.0, 6.1], "peak_bytes": 11_000_000_000, "width": 1024, "height": 1024, "steps": 50, "guidance": 5.0,
    "pipeline": "StableDiffusionXLPipeline", "device": "NVIDIA L4", "accelerator": "L4", "driver": "580.65.06", "torch": "2.15.0",
    "diffusers": "0.42.1",
}  # fmt: skip


def ask(*models: str, **more: Any) -> JobRequest:
    """A request for pictures."""
    return JobRequest(models=models, prompt_tokens=512, output_tokens=64, precision=more.pop("precision", "bf16"), **more)


def read(result: dict[str, Any], request: JobRequest, models: Any = None) -> tuple[tuple[Measurement, ...], tuple[str, ...]]:
    """The rows and complaints of a log with this result."""
    plan = plan_job("l4x1", 600, load(), "diffusers", "picture models")
    return read_log([measure_pictures.mark_result(result)], plan, request, models or Models(), load().accelerators)


@pytest.mark.slow
def test_program_draws_with_a_tiny_pipeline(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two steps of 64 × 64 pixels with diffusers on this processor, then a second model that is not there; the log becomes a row."""
    folder, missing = str(save_painter(tmp_path / "painter")), str(tmp_path / "nothing")
    run = {"models": [folder, missing], "precision": "fp32", "width": 64, "height": 64, "steps": 2, "guidance": None}
    measure_pictures.main(run)
    lines = capsys.readouterr().out.splitlines()
    painter: ModelSpec = Models()(SDXL)
    request = ask(folder, missing, precision="fp32", pictures=PipelineRequest(width=64, height=64, steps=2))
    (row,), (complaint,) = read_log(
        lines,
        plan_job("cpu-upgrade", 600, load(), "diffusers", "picture models"),
        request,
        lambda _: painter,
        load().accelerators,  # type: ignore[arg-type]
    )
    assert (row.width, row.height, row.steps, row.guidance) == (64, 64, 2, 7.5)  # 7.5 is the pipeline's own
    assert row.picture_s is not None
    assert 0 < row.picture_s < 60
    assert row.peak_bytes is not None
    assert row.engine.startswith("diffusers 0.")
    assert "nothing" in complaint


def test_pipeline_without_a_stated_setting_is_refused(tmp_path: Path) -> None:
    """A pipeline that makes no pictures of that size says which argument it lacks, and nothing is drawn."""
    from diffusers import DDPMPipeline, DDPMScheduler, UNet2DModel  # noqa: PLC0415  slow

    unet = UNet2DModel(sample_size=8, block_out_channels=(32,), down_block_types=("DownBlock2D",), up_block_types=("UpBlock2D",))
    DDPMPipeline(unet=unet, scheduler=DDPMScheduler()).save_pretrained(tmp_path)
    run = {"precision": "fp32", "width": 64, "height": None, "steps": 2, "guidance": None}
    with pytest.raises(ValueError, match="DDPMPipeline takes no prompt, width"):
        measure_pictures.measure_pictures(str(tmp_path), run)


def test_result_becomes_a_row_with_its_prediction() -> None:
    """The median of the seconds, beside the predicted ones and the predicted peak without the CUDA context."""
    (row,), complaints = read(RESULT, ask(SDXL))
    assert complaints == ()
    assert (row.picture_s, row.peak_bytes, row.steps, row.guidance) == (6.1, 11_000_000_000, 50, 5.0)
    assert row.predicted_picture_s is not None
    assert row.predicted_peak_bytes is not None
    assert 7e9 < row.predicted_peak_bytes < 15e9
    assert describe_row(row) == "6.10 s a picture of 1024 × 1024 pixels in 50 steps"


@pytest.mark.parametrize(
    "odd", [{"model": "other/model"}, {"seconds": []}, {"seconds": [-1.0]}, {"width": 0}, {"steps": "50"}, {"peak_bytes": True},
            {"guidance": -1.0}, {"guidance": "high"}, {"device": "x\ny"}, {"driver": {}}],
)  # fmt: skip
def test_odd_results_become_complaints(odd: dict[str, Any]) -> None:
    """Each field is checked."""
    rows, complaints = read(RESULT | odd, ask(SDXL))
    assert (rows, len(complaints)) == ((), 1)


def test_settings_of_the_card_travel_with_the_script() -> None:
    """Z-Image-Turbo is drawn in the few steps of its card and without guidance, unless others are stated."""
    plan = plan_job("l4x1", 600, load(), "diffusers", "picture models")
    prepare = find_program("diffusers").prepare
    own, stated = prepare(plan, ask(TURBO)), prepare(plan, ask(TURBO, pictures=PipelineRequest(steps=2, width=512), guidance=3.0))
    assert isinstance(own, str)
    assert isinstance(stated, str)
    assert '"guidance": 0.0' in own
    assert '"steps": null' not in own
    assert '"steps": 2, "guidance": 3.0' in stated
    assert "from lib.live.measure_pictures import main" in own
    compile(own, "script", "exec")


def test_plan_of_text_and_pictures() -> None:
    """Three models on two flavors: text together, pictures one by one; several GPUs are refused for pictures."""
    models = {name: Models()(name) for name in ("Qwen/Qwen3-0.6B", SDXL, TURBO)}
    jobs = plan_jobs(models, ["l4x1", "a100-large"], 600, load(), "auto", ask(precision=""))
    assert [(plan.offer.id, plan.engine, request.models) for plan, request in jobs] == [
        (flavor, engine, names)
        for flavor in ("l4x1", "a100-large")
        for engine, names in (("transformers", ("Qwen/Qwen3-0.6B",)), ("diffusers", (SDXL,)), ("diffusers", (TURBO,)))
    ]
    for plan, request in jobs:
        check_fit(plan, request, request.models[0], models[request.models[0]], find_program(plan.engine).predicted_as)
    with pytest.raises(AgainstRules, match="at most 1 GPU"):
        plan_jobs(models, ["l4x4"], 600, load(), "auto", ask(precision=""))
