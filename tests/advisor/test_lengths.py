"""The pick states the cache that is counted and the cache at full length, with the figures of the memory estimate."""

from __future__ import annotations

import pytest

from lib.advisor import recommend
from lib.catalog import load
from lib.memory import estimate_memory, usable_memory
from lib.model.bundled import find_spec
from lib.present.sentences import sentence
from lib.request.media import MediaRequest
from lib.workload import MemoryRequest, Workload

CATALOG = load()
L70, QWEN7 = "meta-llama/Llama-3.3-70B-Instruct", "Qwen/Qwen2.5-7B-Instruct"
LLAMA_TOKEN_BYTES = 2 * 80 * 8 * 128 * 2  # keys and values of 80 layers, 8 heads of 128, bf16
QWEN_TOKEN_BYTES = 2 * 28 * 4 * 128 * 2


@pytest.mark.parametrize(
    ("model", "workload", "counted", "full", "cache_bytes"),
    [
        (L70, Workload(concurrency=20, engine="vllm"), (20, 768), (20, 4096), 20 * 4096 * LLAMA_TOKEN_BYTES),
        (
            QWEN7,
            Workload(concurrency=8, context_tokens=32_768, requests_per_day=20_000, engine="vllm"),
            (8, 16_384),
            (8, 32_768),
            8 * 32_768 * QWEN_TOKEN_BYTES,
        ),
    ],
)
def test_the_pick_states_both_caches(
    model: str, workload: Workload, counted: tuple[int, int], full: tuple[int, int], cache_bytes: int
) -> None:
    """20 users of Llama 70B are counted with 768 tokens each; of a context that was asked for, half is held for each of 8."""
    spec = find_spec(model)
    assert spec is not None
    pick = recommend(spec, workload, CATALOG).pick
    assert pick is not None
    assert pick.memory is not None
    assert pick.full_length is not None
    assert (pick.memory.batch_size, pick.memory.context_tokens) == counted
    assert (pick.full_length.batch_size, pick.full_length.context_tokens) == full
    assert pick.full_length.kv_cache_bytes == cache_bytes
    request = MemoryRequest(
        precision=pick.precision, engine="vllm", context_tokens=full[1], batch_size=full[0], devices=pick.devices, media=workload.media
    )
    assert pick.full_length.per_device_bytes == estimate_memory(spec, request, pick.offer.processor).per_device_bytes
    assert pick.full_length.fits is (pick.full_length.per_device_bytes <= pick.memory.capacity_bytes)
    assert pick.full_length.requests_held == full[0] or not pick.full_length.fits
    said = next(sentence(reason) for reason in pick.reasons if reason.code == "cache_counted")
    assert f"{counted[0]} × {counted[1]:,} tokens" in said
    assert f"{full[0]} × {full[1]:,} tokens" in said
    assert (usable_memory(pick.offer) or 0) >= pick.memory.capacity_bytes


def test_tokens_of_pictures_are_among_those_that_the_cache_holds() -> None:
    """Four pictures of 1024 × 1024 are 4 × 1,369 tokens of Qwen2.5-VL, on top of 768 of text and of 4,096."""
    spec = find_spec("Qwen/Qwen2.5-VL-7B-Instruct")
    assert spec is not None
    media = MediaRequest(images=4, image_width=1024, image_height=1024)
    pick = recommend(spec, Workload(concurrency=10, engine="vllm", requests_per_day=10_000, media=media), CATALOG).pick
    assert pick is not None
    assert pick.memory is not None
    assert pick.memory.kv_cache_bytes == 10 * 6256 * QWEN_TOKEN_BYTES  # 768 + 4 × 1,369 in blocks of 16
    said = next(sentence(reason) for reason in pick.reasons if reason.code == "cache_counted")
    assert "10 × 6,244 tokens" in said
    assert "10 × 9,572 tokens" in said


def test_work_without_a_cache_states_none() -> None:
    """An encoder keeps nothing of its tokens."""
    spec = find_spec("BAAI/bge-small-en-v1.5")
    pick = recommend(spec, Workload(), CATALOG).pick
    assert pick is not None
    assert pick.full_length is None
    assert "cache_counted" not in {reason.code for reason in pick.reasons}


def test_hardware_that_holds_everything_at_full_length_is_named() -> None:
    """70B for 24 requests of 8,192 tokens: 60 GiB of cache beside 68 in FP8 do not fit one H200, half of them do."""
    spec = find_spec("meta-llama/Llama-3.1-70B-Instruct")
    asked = Workload(concurrency=24, requests_per_day=20_000, context_tokens=8192, platforms=("spaces", "endpoints"), engine="vllm")
    found = recommend(spec, asked, CATALOG)
    assert found.pick is not None
    assert found.pick.full_length is not None
    assert not found.pick.full_length.fits
    said = next(reason for reason in found.pick.reasons if reason.code == "full_length_on")
    named = next(entry for entry in found.ranked if entry.name == said.values["name"])
    assert named.precision == said.values["precision"]
    assert named.cost.total_usd_per_month == said.values["usd_per_month"] > found.pick.cost.total_usd_per_month
    assert spec is not None
    request = MemoryRequest(precision=named.precision, engine="vllm", context_tokens=8192, batch_size=24, devices=named.devices)
    assert estimate_memory(spec, request, named.offer.processor).per_device_bytes <= named.memory.capacity_bytes  # type: ignore[union-attr]


def test_a_share_that_is_nearly_full_is_said() -> None:
    """Kimi-K2 in FP8 on eight H200: 12 % of each is free, and 2 % of what vLLM fills, so it is tight."""
    spec = find_spec("moonshotai/Kimi-K2-Instruct")
    found = recommend(spec, Workload(concurrency=8, platforms=("endpoints",), engine="vllm", precision="fp8-block"), CATALOG)
    entry = next(one for one in found.ranked if one.offer.id == "aws-nvidia-h200-x8")
    assert entry.verdict == "tight"
    assert "only 2.88 GiB of the 126 GiB that the engine uses" in next(sentence(one) for one in entry.reasons if one.code == "fits_tightly")
