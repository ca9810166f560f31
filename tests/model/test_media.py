"""Encoders of pictures and spectrograms: positions, FLOP, memory and speed's stack against the executed module."""

from __future__ import annotations

import copy
from functools import cache
from typing import Any

import pytest
import transformers
from torch import Tensor, bfloat16, device, long, no_grad, zeros
from torch.utils.flop_counter import FlopCounterMode

from lib.errors import InvalidInput
from lib.laws.media_tokens import ImageSize, count_image
from lib.memory import estimate_memory
from lib.memory.media import resolve_media
from lib.model import bundled
from lib.model.allocations import GpuKernels, StorageRecorder
from lib.model.build import build
from lib.model.media import describe_vision
from lib.model.meta_device import Lengths, MetaRun
from lib.model.resolve import resolve_config
from lib.model.spec import ModelSpec, PicturePass
from lib.request.media import MediaRequest
from lib.speed.model_work import derive_model_work
from lib.workload import MemoryRequest

PICTURES = {
    "ViTForImageClassification": (transformers.ViTConfig, 224, 197),  # 14² patches and a class token
    "DeiTForImageClassification": (transformers.DeiTConfig, 224, 198),  # and a token of distillation
    "BeitForImageClassification": (transformers.BeitConfig, 224, 197),
    "Dinov2ForImageClassification": (transformers.Dinov2Config, 518, 1370),  # 37² of 14 pixels
    "SwinForImageClassification": (transformers.SwinConfig, 224, 3136),  # 56², of 4 pixels
    "ConvNextForImageClassification": (transformers.ConvNextConfig, 224, 3136),
    "ResNetForImageClassification": (transformers.ResNetConfig, 224, 3136),  # a stem of strides 2 and 2
    "SiglipVisionModel": (transformers.SiglipVisionConfig, 384, 576),  # 24², without a class token
    "CLIPVisionModel": (transformers.CLIPVisionConfig, 336, 442),  # 21² of 16 pixels
    "ASTForAudioClassification": (transformers.ASTConfig, 0, 1214),  # 101 · 12 of a spectrogram, and two tokens
}
_OWN = {"CLIPVisionModel": {"patch_size": 16}}
_SIZELESS = {"ConvNextForImageClassification", "ResNetForImageClassification"}


@cache
def config_of(name: str) -> dict[str, Any]:
    """The published kind of config.json, at this size."""
    kind, side, _ = PICTURES[name]
    size = {} if name in _SIZELESS or not side else {"image_size": side}
    return {**kind(**size, **_OWN.get(name, {})).to_dict(), "architectures": [name]}


@cache
def spec_of(name: str) -> ModelSpec:
    """Resolved once for all tests."""
    return resolve_config(config_of(name))


def picture_pass(name: str) -> PicturePass:
    """That of the spec."""
    found = spec_of(name).picture_pass
    assert found is not None
    return found


def values_of(name: str, batch: int, dtype: Any = bfloat16) -> dict[str, Tensor]:
    """A picture of the configured size, or a spectrogram of 1,024 frames of 128 bins."""
    side = PICTURES[name][1]
    return {"pixel_values": zeros(batch, 3, side, side, dtype=dtype)} if side else {"input_values": zeros(batch, 1024, 128, dtype=dtype)}


@pytest.mark.parametrize("name", PICTURES)
def test_positions_and_flop_are_those_of_the_executed_module(name: str) -> None:
    """Hidden states after the embeddings (for networks of convolutions: places of their map), and torch's own counter of FLOP."""
    model: Any = build(config_of(name)).model
    with no_grad(), MetaRun(0), device("meta"), FlopCounterMode(display=False) as counter:
        states = model(**values_of(name, 1), output_hidden_states=True).hidden_states
    places = states[0].shape[2:].numel() if name in _SIZELESS else states[0].shape[1]
    assert picture_pass(name).positions == places == PICTURES[name][2]
    assert picture_pass(name).flop + picture_pass(name).attention_flop == counter.get_total_flops()


@pytest.mark.parametrize("name", PICTURES)
def test_memory_at_the_models_own_size_is_that_of_the_executed_module(name: str) -> None:
    """Three pictures at once, whatever context is asked for: pixels decide."""
    batch = 3
    model = build(config_of(name)).model
    recorder = StorageRecorder([*model.parameters(), *model.buffers()], Lengths(1, 1, 1), 10**7)
    with no_grad(), MetaRun(0), GpuKernels(), device("meta"), recorder:
        output = model(**values_of(name, batch))
        del output
    peak = max(sum(moment.values()) for moment in recorder.moments(without=set()))
    answer = estimate_memory(spec_of(name), MemoryRequest(precision="bf16", batch_size=batch))
    assert answer.activation_bytes == pytest.approx(peak, rel=0.005)


@pytest.mark.parametrize("name", PICTURES)
def test_speed_takes_the_flop_of_the_pass(name: str) -> None:
    """2 · P · n of the stack and 4 · width · layers · n² are the FLOP that were executed; the positions stand in the question."""
    of = picture_pass(name)
    stack = derive_model_work(spec_of(name), "bf16", "bf16", "auto", recorded=False).encoder
    assert stack is not None
    assert resolve_media(spec_of(name), MediaRequest()).read_positions == of.positions
    assert 2 * stack.active_parameters * of.positions == pytest.approx(of.flop)
    assert 4 * stack.attention_width * stack.full_layers * of.positions**2 == pytest.approx(of.attention_flop)


def test_a_model_of_pictures_and_texts_is_run_with_both() -> None:
    """CLIP reads a text of its full length beside the picture: both towers' FLOP, positions of the picture."""
    config = {**transformers.CLIPConfig().to_dict(), "architectures": ["CLIPModel"]}
    of, model = resolve_config(config).picture_pass, build(config).model
    with no_grad(), MetaRun(0), device("meta"), FlopCounterMode(display=False) as counter:
        model(input_ids=zeros(1, 77, dtype=long), pixel_values=zeros(1, 3, 224, 224, dtype=bfloat16))
    assert of is not None
    assert of.positions == 7**2 + 1
    assert of.flop + of.attention_flop == counter.get_total_flops()


def _refusal(config: dict[str, Any]) -> str:
    """The sentence with which a configuration is refused; "" for one that is answered."""
    try:
        resolve_config(config)
    except InvalidInput as refused:
        return str(refused)
    return ""


@pytest.mark.parametrize("name", [pytest.param("google/gemma-4-E2B-it", marks=pytest.mark.slow), "llava-hf/llava-1.5-7b-hf"])
def test_a_missing_optional_key_is_a_caveat(name: str) -> None:
    """Keys of the picture's and the sound's part left out, one at a time: an answer, or a refusal that names no internal failure."""
    config = bundled.find_config(name) or {}
    parts = [(part, key) for part in ("vision_config", "audio_config") for key in sorted(config.get(part) or {})]
    places = [*(("", key) for key in config if "vision" in key or "image" in key or "audio" in key), *parts]
    for part, key in places[:: max(1, len(places) // 6)]:
        cut = copy.deepcopy(config)
        del (cut[part] if part else cut)[key]
        assert "not be described" not in _refusal(cut), (part, key)


@pytest.mark.parametrize("value", [None, "many"])
def test_gemma_4_without_the_tokens_of_a_picture_is_answered(value: object) -> None:
    """The rules of pictures cannot be read, which refused the whole model before."""
    config = dict(bundled.find_config("google/gemma-4-E2B-it") or {})
    spec = resolve_config(config | {"vision_soft_tokens_per_image": value})
    assert spec.vision is None
    assert [(caveat.code, caveat.variant) for caveat in spec.caveats] == [("part_not_described", "vision")]
    assert spec.parameters_total > 10**9


@pytest.mark.parametrize(("kind", "tokens"), {"gemma3": 256, "paligemma": 256, "llava": 576, "idefics2": 325, "internvl": 1794}.items())
def test_tokens_of_pictures_whose_size_does_not_matter_or_is_cut_into_tiles(kind: str, tokens: int) -> None:
    """By the configurations of transformers: 16² pooled tokens; 24² patches; five pictures of 65; seven tiles of 256 and two marks."""
    vision = describe_vision(transformers.AutoConfig.for_model(kind))
    assert vision is not None
    assert count_image(ImageSize(1200, 800), vision.rules).tokens == tokens
