"""What an engine takes of a device: its runtime as a range, and its claim, one law for what fits, the limits and the sequences at once."""

from __future__ import annotations

import pytest

from lib import catalog
from lib.catalog.offers import own_hardware
from lib.engines import ENGINES
from lib.laws.runtime import MemoryReservation, cublas_workspace, runtime_parts, sglang_reserve_bytes
from lib.memory import count_sequences, fit_memory
from lib.model import bundled
from lib.model.spec import ModelSpec
from lib.speed import SpeedRequest, predict_speed
from lib.units import GIB, MIB
from lib.workload import MemoryRequest

ACCELERATORS = catalog.load().accelerators
L4 = ACCELERATORS["L4"]
BLOCK, PER_TOKEN = 16, 32 * 2 * 8 * 128 * 2  # vLLM's block; 32 layers, keys and values of 8 heads of 128 in two bytes


@pytest.fixture(name="llama")
def bundled_llama() -> ModelSpec:
    """Llama-3.1-8B-Instruct."""
    spec = bundled.find_spec("meta-llama/Llama-3.1-8B-Instruct")
    assert spec is not None
    return spec


def test_vllms_longest_context_on_an_l4_by_hand(llama: ModelSpec) -> None:
    """The default share of 0.9 of vLLM (docs.vllm.ai, engine_args.html): beyond this maximum length it refuses to start.

    0.9 · 22.03 GiB = 21,289,079,143 bytes, less the weights (8,030,261,248 parameters of 2 bytes), the profile run of 2048 tokens and 256
    sequences (2·2048·(3·4096 + 3·14,336) + 12·256·128,256 = 620,494,848) and context 0.45, libraries 0.5 and graphs 0.6 GiB:
    2,943,762,043 bytes for the cache, at 131,072 bytes a token 22,459 tokens: 1,403 whole blocks of 16.
    """
    room = int(0.9 * 22.03 * GIB) - 2 * 8_030_261_248 - 620_494_848 - int(1.55 * GIB)
    assert room // PER_TOKEN == 22_459
    fit = fit_memory(llama, MemoryRequest(engine="vllm"), int(22.03 * GIB), L4)
    assert fit.max_context_tokens == room // PER_TOKEN // BLOCK * BLOCK == 22_448


def test_a_published_start_up_log_of_vllm() -> None:
    """15.77 GiB x 0.90; weights 7.51, other memory 0.39, activations 2.53 GiB: 3.76 GiB are reserved for the cache.

    github.com/vllm-project/vllm/issues/11251, comment of 2024-12-21 (graphs came on top then). The printed figures are rounded.
    """
    claim = MemoryReservation("vllm", "gpu", weights=int(7.51 * GIB), activation=int(2.53 * GIB), runtime=int(0.39 * GIB))
    assert claim.cache_room_bytes(int(15.77 * GIB)) / GIB == pytest.approx(3.76, abs=0.02)


def test_as_many_run_at_once_as_fit(llama: ModelSpec) -> None:
    """128 users of 512 tokens in and 256 out hold 640 tokens each on average: 22,459 / 640 = 35 run at once, the others wait."""
    answer = predict_speed(llama, own_hardware(L4, 1), SpeedRequest(engine="vllm", concurrency=128), ACCELERATORS)
    assert answer.running_requests == 22_459 // 640 == 35
    mean = MemoryRequest(engine="vllm", context_tokens=640)
    assert fit_memory(llama, mean, int(22.03 * GIB), L4).max_batch_size == count_sequences(llama, mean, int(22.03 * GIB), L4) == 35


@pytest.mark.parametrize(("engine", "silicon", "room"), [("vllm", "gpu", 60), ("vllm-tpu", "tpu", 60), ("vllm", "cpu", 70)])
def test_a_share_is_claimed_of_devices_only(engine: str, silicon: str, room: int) -> None:
    """0.9 · 100 - 30 on a card or chip; on a CPU all that is left."""
    assert MemoryReservation(engine, silicon, weights=20, activation=7, runtime=3).cache_room_bytes(100) == room


def test_what_the_other_engines_claim_by_hand() -> None:
    """100 GiB, 30 GiB of weights, 7 of activations, 3 of runtime of which 1 is graphs.

    TGI: 0.9 · 100 - 30 - 7 - 2. TensorRT-LLM: 0.9 · (100 - 30 - 7 - 2). SGLang keeps 512 + 1.5 · 8192 + 2 · 256 + 128 MiB = 13.125 GiB:
    (1 - 0.13125) · (100 - 2) - 30.
    """
    room = {
        engine: MemoryReservation(engine, "gpu", 30 * GIB, 7 * GIB, 3 * GIB, graphs=GIB).cache_room_bytes(100 * GIB) / GIB
        for engine in ("tgi", "tensorrt-llm", "sglang")
    }
    assert room == pytest.approx({"tgi": 51, "tensorrt-llm": 54.9, "sglang": 55.1375})


def test_the_reserve_of_sglang_by_its_table() -> None:
    """16 GiB: 512 + 3072 + 2 · 8 + 128; four L40S of 44.4 GiB: 512 + 6144 + 2 · 160 + 512; 80 GiB: at least 10 GiB."""
    assert sglang_reserve_bytes(memory=15 * GIB, devices=1) == 3728 * MIB
    assert sglang_reserve_bytes(memory=int(44.4 * GIB), devices=4) == 7488 * MIB
    assert sglang_reserve_bytes(memory=79 * GIB, devices=1) == 13_440 * MIB


@pytest.mark.parametrize("engine", ENGINES)
def test_no_engine_claims_more_than_there_is(engine: str) -> None:
    """On any silicon, the cache and what lies beside it are at most the memory."""
    for memory in (15 * GIB, 22 * GIB, 44 * GIB, 79 * GIB, 178 * GIB):
        for silicon in ("gpu", "tpu", "cpu", "apple", "neuron"):
            claim = MemoryReservation(engine, silicon, weights=GIB, activation=GIB // 2, runtime=GIB, graphs=GIB // 2)
            assert claim.beside < claim.capacity_bytes(memory) <= memory


def test_the_rest_claims_nothing_ahead() -> None:
    """What llama.cpp and transformers hold is what a request needs."""
    for engine in ("transformers", "llama.cpp"):
        claim = MemoryReservation(engine, "gpu", weights=20, activation=7, runtime=3)
        assert (claim.cache_room_bytes(100), claim.capacity_bytes(100)) == (70, 100)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("silicon", ["gpu", "cpu", "tpu", "neuron"])
def test_runtime_is_a_range(engine: str, silicon: str) -> None:
    """Low ≤ typical ≤ high, and a GPU process takes at least its context of 0.3 GiB."""
    parts = runtime_parts(engine=engine, silicon=silicon)
    assert all(part.low <= part.typical <= part.high for part in parts.values())
    assert silicon != "gpu" or sum(part.low for part in parts.values()) >= int(0.3 * GIB)


def test_workspace_by_card() -> None:
    """8.125 MiB up to Ada, 32 MiB from Hopper on; either when the card is not known."""
    assert cublas_workspace((8, 9)).high == 8_519_680 == int(8.125 * MIB)
    assert cublas_workspace((9, 0)).typical == 32 * MIB
    assert cublas_workspace(None) == (8_519_680, 8_519_680, 32 * MIB)
