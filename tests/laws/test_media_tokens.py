"""Tokens of pictures: as the image processors of transformers cut them, and as the makers publish them.

Positions of sound: as the feature extractors of transformers pad it and as the convolutions of the models cut it.
"""

from __future__ import annotations

import json
from dataclasses import replace
from types import MethodType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import device
from transformers import AutoModel, LlavaNextProcessor, LlavaOnevisionProcessor, PreTrainedModel, WhisperFeatureExtractor
from transformers.image_processing_utils import select_best_resolution
from transformers.models.auto.configuration_auto import AutoConfig
from transformers.models.gemma4.image_processing_pil_gemma4 import get_aspect_ratio_preserving_size
from transformers.models.glm4v.image_processing_pil_glm4v import Glm4vImageProcessorPil
from transformers.models.got_ocr2.image_processing_pil_got_ocr2 import GotOcr2ImageProcessorPil
from transformers.models.idefics3.image_processing_pil_idefics3 import Idefics3ImageProcessorPil
from transformers.models.mllama.image_processing_pil_mllama import get_optimal_tiled_canvas
from transformers.models.pixtral.image_processing_pil_pixtral import get_resize_output_image_size
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

from lib.laws.media_tokens import (
    SAMPLES_PER_S,
    ImageRules,
    ImageSize,
    SoundRules,
    choose_canvas,
    count_image,
    count_sound,
    fill_budget,
    fit_longest_side,
    resize_to_area,
    samples_for,
    split_grid,
)
from lib.model.bundled import find_spec, from_json, to_json
from lib.model.media import describe_vision
from lib.model.meta_device import describe_sound

SIZES = st.builds(ImageSize, st.integers(28, 4_500), st.integers(28, 4_500))
FEW = settings(max_examples=60)


@FEW
@given(SIZES)
def test_areas_are_resized_as_the_processors_of_qwen_and_glm_do(size: ImageSize) -> None:
    """Patches of 14 and 16 pixels between the published least and most; GLM's limits are for two frames."""
    qwen = Qwen2VLImageProcessorPil(patch_size=16, merge_size=2, size={"shortest_edge": 65_536, "longest_edge": 16_777_216})
    made = resize_to_area(size, factor=32, least=65_536, most=16_777_216)
    assert made.width * made.height // 16**2 == qwen.get_number_of_image_patches(size.height, size.width, {})
    rules = ImageRules("area", patch=14, merge=2, least_pixels=112**2 // 2, most_pixels=28**2 * 7_500)
    assert count_image(size, rules).positions == Glm4vImageProcessorPil().get_number_of_image_patches(size.height, size.width, {})


@FEW
@given(SIZES)
def test_the_other_rules_follow_their_processors(size: ImageSize) -> None:
    """Pixtral's longest side, Gemma 4's budget, Idefics 3's tiles, the canvas of Llama 3.2."""
    width, height = size
    pixels = np.broadcast_to(np.zeros((1, 1, 3), dtype=np.uint8), (height, width, 3))
    assert fit_longest_side(size, factor=28, longest=1540)[::-1] == get_resize_output_image_size(
        pixels, (1540, 1540), (28, 28), input_data_format="channels_last"
    )
    assert fill_budget(size, factor=48, most=280 * 48**2)[::-1] == get_aspect_ratio_preserving_size(height, width, 16, 280 * 9, 3)
    idefics = Idefics3ImageProcessorPil(size={"longest_edge": 1536}, max_image_size={"longest_edge": 384})
    assert split_grid(size, longest=1536, tile=384) == idefics.get_number_of_image_patches(height, width, {})[1:]
    rows, columns = choose_canvas(size, tile=560, most_tiles=4)
    assert (rows * 560, columns * 560) == tuple(get_optimal_tiled_canvas(height, width, 4, 560))


@FEW
@given(SIZES)
def test_grids_are_chosen_and_covered_as_by_llava_and_internvl(size: ImageSize) -> None:
    """LLaVA-NeXT and OneVision with the grids and sizes of their classes, InternVL's tiles of 448 pixels."""
    processors: tuple[tuple[str, Any, int], ...] = (
        ("llava_next", LlavaNextProcessor, 576),
        ("llava_onevision", LlavaOnevisionProcessor, 729),
    )
    for kind, processor, positions in processors:
        config: Any = AutoConfig.for_model(kind)
        side, strategy = config.vision_config.image_size, config.vision_feature_select_strategy
        extra = int(kind == "llava_next")  # CLIP's class token, which the strategy "default" leaves out
        own = SimpleNamespace(
            image_processor=SimpleNamespace(image_grid_pinpoints=config.image_grid_pinpoints),
            patch_size=14,
            num_image_tokens=positions,
            num_additional_image_tokens=extra,
            vision_aspect_ratio=getattr(config, "vision_aspect_ratio", None),
        )
        own._get_unpadded_features = MethodType(processor._get_unpadded_features, own)
        tokens = processor._get_number_of_features(own, size.height, size.width, side, side) - int(strategy == "default")
        vision = describe_vision(config)
        assert vision is not None
        one = count_image(size, vision.rules)
        assert (one.tokens, one.positions) == (tokens, positions + extra)
        rows, columns = (extent // side for extent in select_best_resolution((size.height, size.width), config.image_grid_pinpoints))
        assert one.tiles == rows * columns + 1
    vision = describe_vision(AutoConfig.for_model("internvl"))
    assert vision is not None
    crops = GotOcr2ImageProcessorPil(size={"height": 448, "width": 448}, crop_to_patches=True)
    tiles = crops.get_number_of_image_patches(size.height, size.width, {})
    assert count_image(size, vision.rules) == (256 * tiles + 2, tiles, 1025)


@pytest.mark.parametrize(("kind", "tower"), [("llava_next", (24, 1024)), ("llava_onevision", (26, 1152)), ("internvl", (24, 1024))])
def test_the_tower_of_tiles_is_described(kind: str, tower: tuple[int, int]) -> None:
    """Layers and width of the classes' own vision transformers; the rule goes to JSON and back."""
    vision = describe_vision(AutoConfig.for_model(kind))
    assert vision is not None
    assert (vision.tower.layers, vision.tower.hidden_size) == tower
    spec = find_spec("llava-hf/llava-1.5-7b-hf")
    assert spec is not None
    spec = replace(spec, vision=vision)
    assert from_json(json.loads(json.dumps(to_json(spec)))) == spec


PUBLISHED = (
    # 37 x 37 tokens of 28 x 28 pixels; at most 16,384 (max_pixels 12,845,056, as public copies of Qwen2.5-VL's preprocessor state)
    ("Qwen/Qwen2.5-VL-7B-Instruct", (1024, 1024), 1369),
    ("Qwen/Qwen2.5-VL-7B-Instruct", (8000, 8000), 16_384),
    # 32 x 32 tokens of 32 x 32 pixels
    ("Qwen/Qwen3-VL-8B-Instruct", (1024, 1024), 1024),
    # (336 / 14)² patches of CLIP without its class token
    ("llava-hf/llava-1.5-7b-hf", (640, 480), 576),
    # 896 x 896 pixels become 256 tokens (as the classes of transformers do), 224 x 224 of PaliGemma 256
    ("google/gemma-3-4b-it", (3000, 200), 256),
    ("google/paligemma-3b-mix-224", (640, 480), 256),
    # 81 tokens for each tile of 384 x 384 (as its processor cuts them); 4 x 4 tiles and the whole, 2 marks a tile, 1 a row, 3 beside
    ("HuggingFaceTB/SmolVLM-Instruct", (1024, 1024), 17 * 81 + 4 * 9 + 3),
    # 64 latents of the perceiver for each of 4 parts and the whole, with its mark
    ("HuggingFaceM4/idefics2-8b", (980, 980), 5 * 65),
    # 144 tokens for each tile of 336: one tile alone
    ("meta-llama/Llama-4-Scout-17B-16E-Instruct", (336, 336), 144 + 3),
)


@pytest.mark.parametrize(("model", "size", "tokens"), PUBLISHED)
def test_published_counts_are_met(model: str, size: tuple[int, int], tokens: int) -> None:
    """What makers say that a picture takes."""
    spec = find_spec(model)
    assert spec is not None
    assert spec.vision is not None
    assert count_image(ImageSize(*size), spec.vision.rules).tokens == tokens


def test_llama_3_2_keeps_pictures_beside_the_prompt() -> None:
    """Four tiles of 1,601 positions, (560 / 14)² and a class token, for 8 layers of cross-attention; nothing in the prompt."""
    spec = find_spec("meta-llama/Llama-3.2-11B-Vision-Instruct")
    assert spec is not None
    assert spec.vision is not None
    assert spec.vision.cross is not None
    one = count_image(ImageSize(1024, 1024), spec.vision.rules)
    assert (one.tokens, one.tiles * one.positions, spec.vision.cross.layers) == (0, 6_404, 8)


BY_SAMPLES = ("wav2vec2", "hubert", "data2vec-audio", "unispeech", "unispeech-sat")


def build_small(kind: str) -> PreTrainedModel:
    """A small model of this kind, without values; the convolutions are those of the published ones."""
    config = AutoConfig.for_model(kind, num_hidden_layers=1)
    with device("meta"):
        model = AutoModel.from_config(config)
    assert isinstance(model, PreTrainedModel)
    return model


@pytest.mark.parametrize("kind", BY_SAMPLES)
@settings(max_examples=40, deadline=None)
@given(samples=st.integers(400, 100 * SAMPLES_PER_S))
def test_convolutions_make_as_many_positions_as_the_models_say(kind: str, samples: int) -> None:
    """`_get_feat_extract_output_lengths` of each model, for any number of samples; and back."""
    model = MODELS.setdefault(kind, build_small(kind))
    rules = describe_sound(model.config)
    assert rules is not None
    positions = count_sound(samples / SAMPLES_PER_S, rules).positions
    lengths: int = model._get_feat_extract_output_lengths(samples)  # type: ignore[operator]
    assert positions == int(lengths)
    assert count_sound(samples_for(positions, rules) / SAMPLES_PER_S, rules).positions == positions
    assert samples <= samples_for(positions, rules) < samples + 320


MODELS: dict[str, PreTrainedModel] = {}


@pytest.mark.parametrize("seconds", [1, 29.9])
def test_whisper_pads_to_half_a_minute(seconds: float) -> None:
    """3,000 mel frames whatever the length, of which its encoder makes 1,500 positions."""
    frames = WhisperFeatureExtractor()(np.zeros(round(seconds * SAMPLES_PER_S)), sampling_rate=SAMPLES_PER_S).input_features[0].shape
    rules = SoundRules("windows", positions=1500, mel_bins=80)
    assert frames == (80, 3000)
    assert (rules.window_s, rules.features) == (30, 80 * 3000)
    assert count_sound(seconds, rules) == (1, 1500)


@pytest.mark.parametrize(("seconds", "windows"), [(30, 1), (30.01, 2), (3600, 120)])
def test_longer_sound_is_read_window_after_window(seconds: float, windows: int) -> None:
    """Each window is whole."""
    assert count_sound(seconds, SoundRules("windows", positions=1500)).windows == windows
