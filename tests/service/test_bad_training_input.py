"""Requests that cannot be met: each sentence says what was seen and what is accepted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from written import ask

from lib.catalog import load
from lib.errors import AdvisorError
from lib.service.endpoint import App
from lib.service.estimate_training import estimate_training
from lib.service.memory import estimate_memory, solve
from lib.service.models import Models
from lib.service.recommend import recommend
from lib.service.write_files import write_files

BGE, TO_TRAIN = "BAAI/bge-base-en-v1.5", {"hardware": "RTX-4090", "purpose": "train"}
APP = App(catalog=load, models=Models())
TRAIN, MEMORY, SOLVE, RECOMMEND, FILES = (
    ask(endpoint, APP) for endpoint in (estimate_training, estimate_memory, solve, recommend, write_files)
)
QWEN, WAN, SDXL = "Qwen/Qwen2.5-7B-Instruct", "Wan-AI/Wan2.1-T2V-14B-Diffusers", "stabilityai/stable-diffusion-xl-base-1.0"
MIXED = (
    r"cards of mixed kinds \(NVIDIA GeForce RTX 4090 and NVIDIA GeForce RTX 3090\). Accepted: one kind with a count, such as 'RTX-4090x2'"
)


@pytest.mark.parametrize(
    ("endpoint", "asked", "sentence"),
    [
        pytest.param(TRAIN, {"model": SDXL, "objective": "dpo"}, "objective was 'dpo'. Accepted: sft for a picture", id="picture DPO"),
        pytest.param(
            TRAIN, {"model": QWEN, "objective": "grpo", "generations": 0},
            "generations was '0'. Accepted: 2 or more with objective grpo", id="GRPO without generations",
        ),
        pytest.param(
            TRAIN, {"model": WAN, "frames": 50}, "frames was '50'. Accepted: 1 more than a multiple of 4, up to 2,049, such as 49",
            id="frames of a training",
        ),
        pytest.param(
            MEMORY, {"model": WAN, "frames": 50}, "frames was '50'. Accepted: 1 more than a multiple of 4", id="frames of a clip",
        ),
        pytest.param(
            SOLVE, {"model": QWEN, "hardware": "H100-SXMx64", "engine": "vllm", "serving": {"pipeline_parallel": 64}},
            "serving.pipeline_parallel was '64'. Accepted: at most 28, the layers of Qwen", id="pipeline beyond the layers",
        ),
        pytest.param(
            MEMORY, {"model": QWEN, "engine": "vllm", "serving": {"pipeline_parallel": 29}},
            "serving.pipeline_parallel was '29'. Accepted: at most 28", id="pipeline without hardware",
        ),
        pytest.param(FILES, {"model": SDXL, "objective": "dpo", **TO_TRAIN}, "objective was 'dpo'. Accepted: sft", id="script of DPO"),
        pytest.param(FILES, {"model": QWEN, "objective": "grpo", "generations": 0, **TO_TRAIN}, "generations was '0'", id="GRPO's script"),
        pytest.param(FILES, {"model": BGE, **TO_TRAIN}, "objective was 'sft'. Accepted: contrastive, ", id="text loss of an encoder"),
        pytest.param(SOLVE, {"model": QWEN, "hardware": "RTX-4090 + RTX-3090"}, f"hardware was .*, {MIXED}", id="mixed cards"),
        pytest.param(SOLVE, {"model": QWEN, "hardware": "1x RTX 4090 and 2x RTX 3090"}, MIXED, id="mixed cards in words"),
        pytest.param(RECOMMEND, {"model": QWEN, "own_hardware": "RTX-4090x2, RTX-3090"}, f"own_hardware was .*, {MIXED}", id="own cards"),
    ],
)  # fmt: skip
def test_what_cannot_be_met_is_said(endpoint: Callable[..., Any], asked: dict[str, Any], sentence: str) -> None:
    """The argument, its value, and what is accepted."""
    with pytest.raises(AdvisorError, match=sentence):
        endpoint(**asked)


def test_offload_without_ram() -> None:
    """Hosts with less memory than what is offloaded are rejected with both figures; a training there is called too large."""
    answer = RECOMMEND("black-forest-labs/FLUX.1-dev", offload="model", precision="bf16")
    reasons = [row["reason"] for row in answer["rejected"] if row["reason_code"] == "host_too_small"]
    assert any("are kept in host memory, but the host has only" in reason for reason in reasons)
    offloaded = TRAIN("meta-llama/Llama-3.3-70B-Instruct", method="full", sharding="zero3_offload", devices=4, platforms="jobs")
    for option in offloaded["options"]:
        assert option["verdict"] == "no" or option["host_bytes"] <= option["host_memory_bytes"]
    short = [o for o in offloaded["options"] if o["needed_bytes"] <= o["capacity_bytes"] and o["host_bytes"] > o["host_memory_bytes"]]
    assert all(option["verdict"] == "no" for option in short)
