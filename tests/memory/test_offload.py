"""Layers that llama.cpp leaves to the processor: what lies where, and how fast both parts are together."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
from gguf_files import qwen3_06b, qwen3_8b

from lib.catalog import load
from lib.errors import BadArgument
from lib.hub.weight_files import parse_gguf
from lib.memory import estimate_memory, fit_memory
from lib.model.file_header import resolve_gguf
from lib.model.resolve import resolve_count
from lib.model.spec import ModelSpec
from lib.speed import SpeedRequest, predict_speed
from lib.units import GIB, MIB
from lib.workload import MemoryRequest

ASKED = MemoryRequest(context_tokens=32_768)


@cache
def read_qwen3_8b() -> ModelSpec:
    """Qwen3-8B in Q8_0: 36 layers, an output matrix and a table of 661,225,472 bytes each."""
    header = parse_gguf(qwen3_8b().head, "x")
    return resolve_gguf(header.keys, header.tensors)


@cache
def read_qwen3_06b() -> ModelSpec:
    """Qwen3-0.6B, whose output is its table of 165,306,368 bytes."""
    header = parse_gguf(qwen3_06b().head, "x")
    return resolve_gguf(header.keys, header.tensors)


TABLE, LAYERS = 661_225_472, 8_703_524_864 - 2 * 661_225_472
CACHE, BUFFER, HOST_BUFFER = 4608 * MIB, 4 * 512 * (151_936 + 4096), 4 * 512 * (4096 + 32_768)


@pytest.mark.parametrize(("gpu_layers", "layers", "output"), [(0, 0, 0), (1, 0, 1), (19, 18, 1), (37, 36, 1), (99, 36, 1)])
def test_the_output_goes_to_the_gpu_first_and_the_first_layer_last(gpu_layers: int, layers: int, output: int) -> None:
    """Of 37 slots the last N: half the layers with -ngl 19, all with 37; the table of words stays with the host."""
    estimate = estimate_memory(read_qwen3_8b(), replace(ASKED, gpu_layers=gpu_layers))
    context = 0.45 * GIB + 8_519_680  # a GPU of which nothing else is known
    assert estimate.per_device_bytes == pytest.approx((LAYERS + CACHE) * layers / 36 + TABLE * output + BUFFER + context, abs=2)
    rest = (LAYERS + CACHE) * (36 - layers) / 36 + TABLE + TABLE * (1 - output)
    assert estimate.host_bytes == pytest.approx(rest + HOST_BUFFER + 32 * MIB, abs=2)
    assert estimate.total_bytes == estimate.per_device_bytes + estimate.host_bytes


def test_a_table_that_is_the_output_too_lies_on_both() -> None:
    """Beside everything on the GPU, the host holds the table, its buffer and the process."""
    whole, split = estimate_memory(read_qwen3_06b(), ASKED), estimate_memory(read_qwen3_06b(), replace(ASKED, gpu_layers=99))
    assert split.per_device_bytes == whole.per_device_bytes
    assert split.host_bytes == 165_306_368 + 4 * 512 * (1024 + 32_768) + 32 * MIB
    assert split.total_bytes == split.per_device_bytes + split.host_bytes


def test_several_gpus_share_the_layers_that_are_on_gpus() -> None:
    """18 layers on three cards: six each, and the output on the last."""
    one, three = (estimate_memory(read_qwen3_8b(), replace(ASKED, gpu_layers=19, devices=n)) for n in (1, 3))
    assert three.per_device_bytes == pytest.approx(one.per_device_bytes - (LAYERS + CACHE) * 12 / 36, abs=3)
    assert three.host_bytes == one.host_bytes


def test_a_tier_needs_room_on_both() -> None:
    """What fits the card and not its host does not fit."""
    asked = replace(ASKED, gpu_layers=19)
    fits = [fit_memory(read_qwen3_8b(), asked, 8 * GIB, host_bytes=host).fits for host in (4 * GIB, 8 * GIB)]
    assert fits == [False, True]
    less = fit_memory(read_qwen3_8b(), replace(asked, context_tokens=1024), 8 * GIB, host_bytes=5 * GIB)
    assert less.fits
    assert less.max_context_tokens is not None
    assert 1024 < less.max_context_tokens < 32_768


def test_only_llama_cpp_splits_so() -> None:
    """Another engine is refused; a processor has no layers to give away."""
    with pytest.raises(BadArgument, match=r"only llama.cpp computes some layers on the processor"):
        estimate_memory(resolve_count("7B"), MemoryRequest(gpu_layers=5))
    cpu = load().accelerators["CPU-8vCPU"]
    assert estimate_memory(read_qwen3_8b(), replace(ASKED, gpu_layers=5), cpu).host_bytes == 0


def test_without_flash_attention_the_buffer_holds_scores() -> None:
    """32 heads against 32,768 tokens, for micro-batches of 128 tokens in float32."""
    with_it, without = (estimate_memory(read_qwen3_8b(), replace(ASKED, micro_batch=128, flash_attention=on)) for on in (True, False))
    assert with_it.activation.bytes == 4 * 128 * (151_936 + 4096)
    assert without.activation.bytes - with_it.activation.bytes == 4 * 128 * 32 * 32_768


def test_times_of_both_parts_add_up() -> None:
    """A decode step is the GPU's time for its share of the bytes and the processor's for the rest."""
    catalog = load()
    hardware = catalog.resolve_hardware("t4-small")

    def tpot(gpu_layers: int | None) -> float:
        speed = predict_speed(read_qwen3_8b(), hardware, SpeedRequest(gpu_layers=gpu_layers), catalog.accelerators)
        assert speed.tpot_s is not None
        return speed.tpot_s.value

    none, half, whole, all_of_it = tpot(0), tpot(19), tpot(37), tpot(None)
    share = (LAYERS / 2 + TABLE) / (LAYERS + TABLE)
    assert half == pytest.approx(share * whole + (1 - share) * none)
    assert whole == pytest.approx(all_of_it)
    assert none > 5 * whole


def test_a_split_says_so_and_what_does_not_fit() -> None:
    """The caveats name the layers; a card that people own stands in a typical machine."""
    catalog = load()
    speed = predict_speed(read_qwen3_8b(), catalog.resolve_hardware("RTX-3060"), SpeedRequest(gpu_layers=37), catalog.accelerators)
    assert {"layers_split", "offload_typical_host"} <= {caveat.code for caveat in speed.caveats}
    small = predict_speed(
        read_qwen3_8b(), catalog.resolve_hardware("RTX-3060"), SpeedRequest(gpu_layers=37, prompt_tokens=40_000), catalog.accelerators
    )
    assert "does_not_fit" in {caveat.code for caveat in small.caveats}
    assert all(part.name.startswith(("GPU: ", "processor: ")) for part in speed.decode_parts)
