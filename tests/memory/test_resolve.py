"""Pictures in a prompt and sound: tokens in the cache, temporary tensors of towers and encoders, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from torch import Tensor, bfloat16, device, int64, no_grad, zeros

from lib.errors import BadArgument
from lib.memory import MemoryEstimate, estimate_memory, fit_memory
from lib.memory.media import resolve_media, tower_bytes
from lib.model.allocations import GpuKernels, StorageRecorder
from lib.model.build import build
from lib.model.bundled import find_config, find_spec
from lib.model.meta_device import Lengths, MetaRun
from lib.model.spec import ModelSpec
from lib.request.media import MediaRequest
from lib.units import GIB
from lib.workload import MemoryRequest

QWEN, LLAMA = "Qwen/Qwen2.5-VL-7B-Instruct", "meta-llama/Llama-3.2-11B-Vision-Instruct"


def read_spec(name: str) -> ModelSpec:
    """A spec that the app comes with."""
    spec = find_spec(name)
    assert spec is not None
    return spec


def with_images(images: int, **values: object) -> MemoryRequest:
    """A short question with so many pictures of 1,024 x 1,024."""
    return replace(MemoryRequest(context_tokens=1024, media=MediaRequest(images=images)), **values)  # type: ignore[arg-type]


def test_image_tokens_stand_in_the_cache_like_text() -> None:
    """Two pictures of 1,369 tokens: the same cache as with 2,738 more tokens of text."""
    text = estimate_memory(read_spec(QWEN), MemoryRequest(context_tokens=1024 + 2 * 1369))
    assert estimate_memory(read_spec(QWEN), with_images(2)).kv_cache_bytes == text.kv_cache_bytes
    assert estimate_memory(read_spec(QWEN), with_images(2)).kv_cache.details == text.kv_cache.details


def test_the_length_of_the_law_holds_the_pictures() -> None:
    """T · 28 layers · 2 · 4 heads · 128 · 2 bytes is the cache that is shown, with T as it stands among the inputs."""
    part = estimate_memory(read_spec(QWEN), with_images(2)).kv_cache
    assert part.inputs["T"] == "3,762 tokens, 2,738 of them of pictures"
    assert part.bytes == 3762 * 28 * 2 * 4 * 128 * 2
    assert estimate_memory(read_spec("google/vit-base-patch16-224"), MemoryRequest()).activation.inputs["T"] == "197 positions"


def test_cross_attention_caches_positions_of_the_picture() -> None:
    """8 layers · 2 · 8 heads · 128 · 2 bytes · 6,404 positions for each picture, and the text's cache as before."""
    without, one = (estimate_memory(read_spec(LLAMA), with_images(n)).kv_cache_bytes for n in (0, 1))
    assert one - without == 8 * 2 * 8 * 128 * 2 * 6404


def test_a_tower_over_many_pictures_outgrows_the_prompt() -> None:
    """Gemma 3 makes 256 tokens of 4,096 patches: with many pictures the tower is the fullest moment, and by a law."""
    few, many = (estimate_memory(read_spec("google/gemma-3-4b-it"), with_images(n)) for n in (0, 16))
    assert many.activation_bytes > 8 * few.activation_bytes
    assert many.high_bytes - many.total_bytes >= int(0.15 * many.activation_bytes)


def test_the_longest_context_leaves_room_for_the_pictures() -> None:
    """Nothing else changes: with unlimited memory, the limit of positions less those of four pictures."""
    fits = [fit_memory(read_spec(QWEN), with_images(n), 1000 * GIB).max_context_tokens for n in (0, 4)]
    assert fits == [128_000, 128_000 - 4 * 1369]


@pytest.mark.parametrize(
    ("model", "media", "why"),
    [
        ("meta-llama/Llama-3.1-8B-Instruct", MediaRequest(images=1), "no prompt of it takes pictures"),
        ("moonshotai/Kimi-K2.5", MediaRequest(images=1), "not known here"),
        ("meta-llama/Llama-3.1-8B-Instruct", MediaRequest(audio_seconds=10), "takes no sound"),
        (QWEN, MediaRequest(images=1, image_width=10_000, image_height=28), "200 to 1"),
    ],
)
def test_what_no_model_takes_is_refused(model: str, media: MediaRequest, why: str) -> None:
    """The sentence says what was seen and why."""
    with pytest.raises(BadArgument, match=why):
        resolve_media(read_spec(model), media)


def sound_memory(name: str, seconds: float) -> MemoryEstimate:
    """The memory of so many seconds of sound in 16 bits."""
    media = MediaRequest(audio_seconds=seconds)
    return estimate_memory(read_spec(name), MemoryRequest(precision="fp16", context_tokens=448, media=media))


def test_whisper_keeps_one_window_of_sound_for_cross_attention() -> None:
    """32 layers · keys and values · 1,280 · 1,500 positions · 2 bytes, for ten seconds as for an hour; features of 119 windows wait."""
    short, hour = (sound_memory("openai/whisper-large-v3", seconds) for seconds in (10, 3600))
    assert short.kv_cache.details["cross attention"] == 32 * 2 * 1280 * 1500 * 2 == 245_760_000
    assert hour.kv_cache.details == short.kv_cache.details
    assert hour.activation_bytes - short.activation_bytes == 119 * 128 * 3000 * 2


@pytest.mark.parametrize("seconds", [0.5, 10, 30, 61.7])
def test_memory_of_samples_equals_the_executed_module(seconds: float) -> None:
    """wav2vec 2.0 run without values on so many samples: at most the samples of one position are counted too many."""
    config = find_config("facebook/wav2vec2-base-960h")
    assert config is not None
    model = build(config).model.to(bfloat16)
    recorder = StorageRecorder([*model.parameters(), *model.buffers()], Lengths(1, 1, 1), 10**7)
    with no_grad(), MetaRun(0), GpuKernels(), device("meta"), recorder:
        output = model(input_values=zeros(1, round(seconds * 16_000), dtype=bfloat16))
        del output
    peak = max(sum(moment.values()) for moment in recorder.moments(without=set()))
    assert 0 <= sound_memory("facebook/wav2vec2-base-960h", seconds).activation_bytes - peak <= 131_712 + 640


def test_training_counts_text_alone() -> None:
    """Pictures in the rows are refused rather than left out."""
    with pytest.raises(BadArgument, match="text alone"):
        estimate_memory(read_spec(QWEN), with_images(1, mode="lora"))


@pytest.mark.parametrize(
    ("model", "values"),
    [
        ("google/gemma-3-4b-it", lambda: {"pixel_values": zeros(1, 3, 896, 896, dtype=bfloat16)}),
        ("llava-hf/llava-1.5-7b-hf", lambda: {"pixel_values": zeros(1, 3, 336, 336, dtype=bfloat16)}),
        (
            LLAMA,
            lambda: {
                "pixel_values": zeros(1, 1, 4, 3, 560, 560, dtype=bfloat16),
                "aspect_ratio_ids": zeros(1, 1, dtype=int64),
                "aspect_ratio_mask": zeros(1, 1, 4, dtype=int64),
            },
        ),
    ],
)
def test_the_law_of_the_tower_comes_near_its_forward_pass(model: str, values: Callable[[], dict[str, Tensor]]) -> None:
    """The tower executed without values: the law is at most 5 % below the peak of its temporary tensors and 30 % above."""
    config, spec = find_config(model), read_spec(model)
    assert config is not None
    inner = build(config).model.model
    tower = getattr(inner, "vision_tower", None) or inner.vision_model
    recorder = StorageRecorder([*tower.parameters(), *tower.buffers()], Lengths(1, 1, 1), 10**7)
    with no_grad(), MetaRun(0), GpuKernels(), device("meta"), recorder:
        output = tower(**values())
        del output
    peak = max(sum(moment.values()) for moment in recorder.moments(without=set()))
    law = tower_bytes(spec.vision, resolve_media(spec, MediaRequest(images=1)), 1, 2)
    assert 0.95 < law / peak < 1.3
