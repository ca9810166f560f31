"""From a parameter count or a configuration to a spec: what it says about well-known models, and how long it takes."""

from __future__ import annotations

import contextlib
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from model_facts import LLAMA, config

from lib.errors import BadConfig, UnknownModel, UnsupportedModel
from lib.model import bundled
from lib.model.diffusion import is_pipeline, resolve_pipeline
from lib.model.resolve import LARGEST, parse_count, resolve_config, resolve_count
from lib.model.spec import Origin


@pytest.mark.parametrize(
    ("text", "parameters"),
    [
        ("7B", 7 * 10**9),
        ("1.5b", 15 * 10**8),
        ("350M", 35 * 10**7),
        (" 70 billion ", 7 * 10**10),
        ("7,000,000,000", 7 * 10**9),
        ("1e9", 10**9),
        ("100T", LARGEST),
        ("22k params", 22_000),
    ],
)
def test_counts_are_read(text: str, parameters: int) -> None:
    """Units in both cases and words, decimals, separators."""
    assert parse_count(text) == parameters


@pytest.mark.parametrize("text", ["", "0", "0B", "-7B", "B", "7 bananas", "7BB", "101T", "1e99", "1" * 99, "nan", "1.2.3B", "7B 7B"])
def test_other_texts_are_refused(text: str) -> None:
    """Zero, negative, absurd and unreadable counts name what is accepted."""
    with pytest.raises(UnknownModel, match="Accepted: a parameter count"):
        parse_count(text)


@given(st.text(max_size=80))
def test_any_text_is_read_or_refused(text: str) -> None:
    """No text raises anything but the refusal."""
    with contextlib.suppress(UnknownModel):
        assert 1_000 <= parse_count(text) <= LARGEST


def test_a_7b_has_the_proportions_of_its_size() -> None:
    """Width (7e9 · 128 / 12)^(1/3) = 4211, rounded to 33 · 128 = 4224; 33 layers; 8 heads of 128, keys and values: 2048 elements."""
    spec = resolve_count("7B")
    assert (spec.dimensions.hidden_size, spec.dimensions.layers) == (4224, 33)
    assert spec.cache_terms is not None
    assert (spec.cache_terms[0].elements, spec.cache_terms[0].layers) == (2048, 33)
    assert [c.code for c in spec.caveats] == ["typical_model"]
    assert (spec.source, spec.parameters_total, spec.tensors) == ("rule_of_thumb", 7 * 10**9, ())


@pytest.mark.parametrize(
    ("name", "task", "layers", "heads", "limit"),
    [
        ("meta-llama/Llama-3.1-8B-Instruct", "text-generation", 32, (32, 8, 128), 131_072),
        ("google/gemma-3-27b-it", "image-text-to-text", 62, (32, 16, 128), 131_072),
        ("tiiuae/falcon-7b-instruct", "text-generation", 32, (71, 1, 64), 2048),
        ("openai/whisper-large-v3", "automatic-speech-recognition", 32, (20, 20, 64), 448),
        ("openai-community/gpt2", "text-generation", 12, (12, 12, 64), 1024),
        ("google/flan-t5-base", "text2text-generation", 12, (12, 12, 64), 512),
        ("facebook/wav2vec2-base-960h", "automatic-speech-recognition", 12, (12, 12, 64), None),
        ("google/vit-base-patch16-224", "image-classification", 12, (12, 12, 64), None),
        ("google-bert/bert-base-uncased", "fill-mask", 12, (12, 12, 64), 512),
        ("sentence-transformers/all-MiniLM-L6-v2", "feature-extraction", 6, (12, 12, 32), 512),
        ("state-spaces/mamba-2.8b-hf", "text-generation", 64, (0, 0, 0), None),
    ],
)
def test_sizes_of_known_models(name: str, task: str, layers: int, heads: tuple[int, int, int], limit: int | None) -> None:
    """Task, layers, heads, key/value heads, width of a head and context limit, as published."""
    spec = bundled.find_spec(name)
    assert spec is not None
    sizes = spec.dimensions
    assert (spec.task, sizes.layers, (sizes.attention_heads, sizes.kv_heads, sizes.head_dim), spec.context_limit) == (
        task,
        layers,
        heads,
        limit,
    )


def test_encoder_lengths() -> None:
    """Whisper listens to 1500 positions; T5 was trained on 512 tokens; a decoder has no encoder."""
    lengths = {n: bundled.find_spec(n) for n in ("openai/whisper-tiny", "google-t5/t5-small", "Qwen/Qwen3-0.6B")}
    assert [s.dimensions.encoder_tokens for s in lengths.values() if s] == [1500, 512, 0]


def test_what_the_caller_knows_is_kept() -> None:
    """Id, origin, bytes, licence and date come from the caller; counts from the architecture."""
    origin = Origin("a/b", "safetensors", license="mit", gated=True, checked="2026-11-21", bytes_by_dtype={"BF16": 10})
    spec = resolve_config(LLAMA, origin)
    assert (spec.id, spec.source, spec.license, spec.gated) == ("a/b", "safetensors", "mit", True)
    assert (spec.stored.dtype, spec.stored.bytes_by_dtype) == ("bfloat16", {"BF16": 10})
    assert {s.checked for s in spec.sources} == {"2026-11-21"}
    assert spec.layer_kinds == {"full attention": 3}


def test_one_resolve_equals_the_bundled_spec() -> None:
    """The bundled line is what resolving gives today."""
    name = "Qwen/Qwen3-0.6B"
    kept, now = bundled.find_spec(name), resolve_config(config(name))
    assert kept is not None
    assert (now.tensors, now.cache_terms, now.dimensions, now.stored, now.layer_kinds) == (
        kept.tensors, kept.cache_terms, kept.dimensions, kept.stored, kept.layer_kinds,
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", ["Qwen/Qwen3-8B-FP8", "google/gemma-3-27b-it", "deepseek-ai/DeepSeek-V3", "openai/gpt-oss-20b"])
def test_an_unseen_configuration_takes_little_processor_time(name: str) -> None:
    """Warm, a resolve stays below 1.5 s; measured as processor time, which a busy machine does not stretch much."""
    resolve_config(LLAMA)
    found = config(name)
    best = min(_seconds(found) for _ in range(2))
    assert best < 1.5


def _seconds(found: dict[str, Any]) -> float:
    started = time.thread_time()
    resolve_config(found)
    return time.thread_time() - started


def test_pipelines_are_told_from_models() -> None:
    """A mapping of components with class names is a pipeline; a nested model is not."""
    assert is_pipeline(config("stable-diffusion-v1-5/stable-diffusion-v1-5"))
    assert not is_pipeline(config("google/gemma-3-27b-it"))
    assert not is_pipeline({})


@pytest.mark.parametrize(
    ("components", "refusal", "said"),
    [
        ({"unet": {"_class_name": "DiffusionPipeline"}}, UnsupportedModel, "no model class"),
        ({"unet": {"_class_name": "os"}}, UnsupportedModel, "no model class"),
        ({"unet": {"_class_name": "UNet2DConditionModel", "block_out_channels": [1]}}, BadConfig, "cannot be built"),
        ({"unet": {"_class_name": "UNet2DConditionModel", "sample_size": 10**12}}, BadConfig, "Accepted: up to"),
    ],
)
def test_a_pipeline_that_cannot_be_built_says_why(components: dict[str, Any], refusal: type[Exception], said: str) -> None:
    """Only model classes of diffusers are constructed, within the same bounds."""
    with pytest.raises(refusal, match=said):
        resolve_pipeline(components)


def test_masks_over_all_positions_count_beside_the_parameters() -> None:
    """GPT-Neo keeps a mask of bytes for each layer: 2 x 1,100 x 1,100; below a mebibyte (1,024 x 1,024) they are left out."""
    config = {"model_type": "gpt_neo", "num_layers": 2, "hidden_size": 16, "num_heads": 2, "attention_types": [[["global", "local"], 1]]}
    assert resolve_config(config | {"max_position_embeddings": 1_100}).buffer_bytes == 2 * 1_100 * 1_100
    assert resolve_config(config | {"max_position_embeddings": 1_000}).buffer_bytes == 0
