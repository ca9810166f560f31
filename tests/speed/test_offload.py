"""The split of a model between a GPU and its host, beside a published sweep of `-ngl`."""

from __future__ import annotations

from itertools import pairwise
from statistics import median

import pytest

from lib.catalog import load
from lib.laws.parallelism import mixed_time
from lib.memory import estimate_memory
from lib.model import bundled
from lib.speed import SpeedRequest
from lib.speed.offload import split_model
from lib.workload import MemoryRequest

CATALOG = load()
CARD = CATALOG.resolve_hardware("rtx-5060-ti-16gb")
CODER_14B = bundled.find_spec("Qwen/Qwen2.5-Coder-14B-Instruct")
FILE = "gguf:Q4_K_M"
SWEEP = {0: (2.89, 265), 8: (3.58, 2161), 16: (4.24, 3509), 24: (5.61, 4875), 32: (7.26, 6241), 40: (12.5, 7593), 99: (43.18, 9179)}
"""Layers on the GPU: tokens/s and the GPU's memory in MB. Qwen2.5-Coder-14B in Q4_K_M, RTX 5060 Ti and its host:
inventivehq.com/blog/vram-offload-cliff-gpu-layers-benchmark, read on 2026-11-23."""


def test_times_of_both_parts_add_up_as_published() -> None:
    """From the rates of all layers on either side the law gives those between: 2.5 % off in the median, at most 6.2 %."""
    assert CODER_14B is not None
    errors = []
    for layers in (8, 16, 24, 32, 40):
        request = SpeedRequest(precision=FILE, engine="llama.cpp", prompt_tokens=512, output_tokens=128, gpu_layers=layers)
        split = split_model(CODER_14B, CARD, request, CATALOG.accelerators)
        assert split is not None
        seconds = mixed_time(on_gpu_s=1 / SWEEP[99][0], on_host_s=1 / SWEEP[0][0], share=split.share)
        errors.append(abs(1 / seconds / SWEEP[layers][0] - 1))
    assert max(errors) < 0.07
    assert median(errors) < 0.03


def test_eight_layers_more_take_the_published_memory() -> None:
    """Within 1.5 % for each eight layers, and the last nine slots (eight layers and the output) within 6 %; 1,024 tokens are assumed."""
    assert CODER_14B is not None
    taken = []
    for layers in SWEEP:
        asked = MemoryRequest(precision=FILE, engine="llama.cpp", context_tokens=1024, gpu_layers=layers)
        taken.append(estimate_memory(CODER_14B, asked, CARD.silicon).per_device_bytes / 1e6)
    steps = [second - first for first, second in pairwise(taken)]
    published = [second - first for first, second in pairwise(megabytes for _, megabytes in SWEEP.values())]
    assert steps[1:5] == pytest.approx(published[1:5], rel=0.015)
    assert steps[5] == pytest.approx(published[5], rel=0.06)


def test_weights_are_copied_at_the_rate_of_the_cards_own_slot() -> None:
    """A T4 stands in a PCIe 3.0 slot of 16 GB/s, an L4 in one of 4.0 with 32 GB/s."""
    assert CODER_14B is not None
    request = SpeedRequest(precision=FILE, engine="llama.cpp", gpu_layers=8)
    splits = (split_model(CODER_14B, CATALOG.resolve_hardware(name), request, CATALOG.accelerators) for name in ("t4-medium", "l4x1"))
    assert [split and split.link for split in splits] == [16e9, 32e9]
