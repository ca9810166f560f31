"""Measure pipelines of diffusers: seconds of a picture and the peak of memory. This is the program of a job (`main`).

A pipeline is loaded with its checkpoint from the Hub, in safetensors and without remote code, and draws one picture to warm up. Then the
same picture is drawn `TIMES` times. The peak is that of torch's allocator on a card, of this process on a CPU. Size, steps and guidance
that are not stated are the pipeline's own, and the result says what they were.
"""

from __future__ import annotations

import inspect
import sys
import time
import traceback
from collections.abc import Mapping
from importlib import metadata
from typing import Any

from lib.catalog import load
from lib.hub.jobs import mark_result
from lib.live import process
from lib.live.device import current_device
from lib.precision import TORCH_DTYPES

TIMES = 3
PROMPT = "A lighthouse on a cliff at dawn, oil on canvas"
_ASKED = {"width": "width", "height": "height", "steps": "num_inference_steps", "guidance": "guidance_scale"}
"""Names of the settings here, and of the arguments of pipelines."""


def measure_pictures(model: str, request: Mapping[str, Any]) -> dict[str, Any]:
    """Seconds of each picture, the peak, and the picture's data; `model` is a Hub id or a folder.

    Raises:
        ValueError: the pipeline makes no pictures from a prompt, or lacks a setting that is stated.
    """
    import torch  # noqa: PLC0415 loaded when first needed
    from diffusers import DiffusionPipeline  # noqa: PLC0415

    device = current_device(load())
    cuda = device.kind == "cuda"
    gauge = process.CudaGauge() if cuda else process.HostGauge()
    try:
        # Load the pipeline, and check the settings against its call.
        pipeline = DiffusionPipeline.from_pretrained(  # type: ignore[no-untyped-call]
            model, dtype=getattr(torch, TORCH_DTYPES[request["precision"]]), use_safetensors=True, trust_remote_code=False
        ).to(device.torch_name)
        pipeline.set_progress_bar_config(disable=True)
        known = inspect.signature(type(pipeline).__call__).parameters
        stated = {_ASKED[name]: request[name] for name in _ASKED if request[name] is not None}
        missing = [name for name in ("prompt", *stated) if name not in known]
        if missing:
            raise ValueError(f"{type(pipeline).__name__} takes no {', '.join(missing)}.")

        def draw() -> tuple[float, Any]:
            torch.manual_seed(0)
            began = time.perf_counter()
            drawn = pipeline(prompt=PROMPT, **stated)
            if cuda:
                torch.cuda.synchronize()
            return time.perf_counter() - began, drawn

        # One picture to warm up, then the measured ones.
        _, drawn = draw()
        if not hasattr(drawn, "images"):
            raise ValueError(f"{type(pipeline).__name__} makes no pictures.")
        gauge.restart()
        seconds = [draw()[0] for _ in range(TIMES)]
        peak = gauge.peak()
    finally:
        gauge.close()
    width, height = drawn.images[0].size
    asked = {name: stated.get(word, known[word].default if word in known else None) for name, word in _ASKED.items()}
    return {
        "model": model,
        "seconds": seconds,
        "peak_bytes": peak,
        "width": width,
        "height": height,
        "steps": asked["steps"],
        "guidance": asked["guidance"],
        "pipeline": type(pipeline).__name__,
        "device": device.name,
        "accelerator": device.accelerator,
        "driver": device.driver,
        "torch": device.torch,
        "diffusers": metadata.version("diffusers"),
    }


def main(request: Mapping[str, Any]) -> None:
    """In the job: measure each model and print its line; a model that fails does not stop the others."""
    for model in request["models"]:
        try:
            result = measure_pictures(model, request)
        except ValueError as refusal:
            traceback.print_exc()
            result = {"model": model, "error": str(refusal)[:300]}
        except Exception as error:  # noqa: BLE001 the log shows the trace, and the next model gets its turn
            traceback.print_exc()
            result = {"model": model, "error": f"It failed ({type(error).__name__}); the log says more."}
        sys.stdout.write(mark_result(result) + "\n")
        sys.stdout.flush()
