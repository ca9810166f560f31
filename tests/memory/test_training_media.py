"""Training with pictures and sound: the law next to steps that run on a CPU, with every tensor counted."""

from __future__ import annotations

import re
import warnings
from typing import Any, Literal

import pytest
import torch
from written import ask

from lib.catalog import load
from lib.errors import BadArgument, UnsupportedModel
from lib.memory.tower import add_media, find_encoder
from lib.memory.trained import is_frozen
from lib.memory.training import estimate_training, step_peaks
from lib.model import bundled
from lib.model.build import build
from lib.model.dry_run import _OPTIMIZERS
from lib.model.layer_extrapolation import RunCounter
from lib.model.resolve import resolve_config
from lib.model.spec import ModelSpec
from lib.request.media import MediaRequest, TrainTower
from lib.service.endpoint import App
from lib.service.estimate_training import estimate_training as question
from lib.service.models import Models
from lib.speed.training import step_work
from lib.workload import TrainingRequest

ASK = ask(question, App(catalog=load, models=Models()))
QWEN, WHISPER = "Qwen/Qwen2-VL-2B-Instruct", "openai/whisper-small"
_TEXT = {"hidden_size": 256, "intermediate_size": 1024, "num_attention_heads": 4, "num_hidden_layers": 6, "vocab_size": 4000}
_SIGLIP = {"hidden_size": 192, "intermediate_size": 768, "num_attention_heads": 4, "num_hidden_layers": 6, "patch_size": 14}
CONFIGS: dict[str, dict[str, Any]] = {
    "qwen2_5_vl": {
        "architectures": ["Qwen2_5_VLForConditionalGeneration"], "model_type": "qwen2_5_vl", "image_token_id": 3000,
        "video_token_id": 3001, "vision_start_token_id": 3002, "vision_end_token_id": 3003,
        "text_config": _TEXT
        | {"model_type": "qwen2_5_vl_text", "num_key_value_heads": 2, "rope_scaling": {"type": "mrope", "mrope_section": [8, 12, 12]}},
        "vision_config": {
            "model_type": "qwen2_5_vl_vision", "depth": 6, "hidden_size": 256, "intermediate_size": 704, "num_heads": 4,
            "out_hidden_size": 256, "patch_size": 14, "spatial_merge_size": 2, "temporal_patch_size": 2, "in_channels": 3,
            "fullatt_block_indexes": [2, 5], "window_size": 112,
        },
    },
    "idefics3": {
        "architectures": ["Idefics3ForConditionalGeneration"], "model_type": "idefics3", "image_token_id": 3000, "scale_factor": 3,
        "tie_word_embeddings": False, "vocab_size": 4000,
        "text_config": _TEXT | {"model_type": "llama", "num_key_value_heads": 4, "tie_word_embeddings": False},
        "vision_config": _SIGLIP | {"model_type": "idefics3_vision", "image_size": 378},
    },
    "gemma3": {
        "architectures": ["Gemma3ForConditionalGeneration"], "model_type": "gemma3", "image_token_index": 3000, "boi_token_index": 3001,
        "eoi_token_index": 3002, "mm_tokens_per_image": 256,
        "text_config": _TEXT | {"model_type": "gemma3_text", "num_key_value_heads": 2, "head_dim": 64, "sliding_window": 1024},
        "vision_config": _SIGLIP | {"model_type": "siglip_vision_model", "image_size": 448, "vision_use_head": False},
    },
    "whisper": {
        "architectures": ["WhisperForConditionalGeneration"], "model_type": "whisper", "d_model": 256, "encoder_layers": 6,
        "decoder_layers": 6, "num_hidden_layers": 6, "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 1024,
        "decoder_ffn_dim": 1024, "vocab_size": 1000, "pad_token_id": 1, "bos_token_id": 1, "eos_token_id": 1, "decoder_start_token_id": 2,
        "is_encoder_decoder": True, "max_source_positions": 1500, "max_target_positions": 448, "num_mel_bins": 80,
    },
}  # fmt: skip
Method = Literal["full", "lora"]


def _inputs(config: Any, request: TrainingRequest, spec: ModelSpec) -> dict[str, torch.Tensor]:
    kind, batch, half = config.model_type, request.micro_batch, torch.bfloat16
    if kind == "whisper":
        sound = torch.zeros(batch, config.num_mel_bins, 2 * config.max_source_positions, dtype=half)
        return {"input_features": sound, "labels": torch.zeros(batch, request.sequence_tokens, dtype=torch.long)}
    encoder = find_encoder(spec, request)
    assert encoder is not None
    ids = torch.zeros(batch, request.sequence_tokens, dtype=torch.long)
    tokens = encoder.passes * 81 if kind == "idefics3" else encoder.tokens
    ids[:, 8 : 8 + tokens] = 3000
    kinds = (ids == 3000).long()
    media: dict[str, torch.Tensor] = {"input_ids": ids, "labels": ids, "attention_mask": torch.ones_like(ids)}
    if kind == "qwen2_5_vl":
        side = round(encoder.positions**0.5)
        grid = torch.tensor([[1, side, side]] * batch)
        pixels = torch.zeros(batch * encoder.positions, 1176, dtype=half)
        return media | {"pixel_values": pixels, "image_grid_thw": grid, "mm_token_type_ids": kinds}
    pixels = torch.ones(batch, encoder.passes, 3, config.vision_config.image_size, config.vision_config.image_size, dtype=half)
    return media | ({"pixel_values": pixels} if kind == "idefics3" else {"pixel_values": pixels[:, 0], "token_type_ids": kinds})


def _starred(name: str) -> str:
    return re.sub(r"(?<=\.)\d+(?=\.)", "*", name)


def execute(config: dict[str, Any], request: TrainingRequest, spec: ModelSpec) -> tuple[int, int]:
    """Bytes at the peak of one step in bf16, and trained parameters; adapters and checkpoints are those of peft and TRL."""
    built = build(config, "bfloat16")
    with torch.device("cpu"):
        model: Any = type(built.model)._from_config(built.config, dtype=torch.bfloat16)
    frozen = {group.name for group in spec.tensors if is_frozen(group, spec, request)}
    if request.method == "full":
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(parameter.requires_grad and _starred(name) not in frozen)
    else:
        peft = pytest.importorskip("peft")
        linear = [name for name, module in model.named_modules() if isinstance(module, torch.nn.Linear)]
        targets = [name for name in linear if not name.endswith(("lm_head", "proj_out")) and _starred(f"{name}.weight") not in frozen]
        model = peft.get_peft_model(model, peft.LoraConfig(r=request.rank, target_modules=targets))
    model.train()
    if request.checkpointing != "none":
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False, "preserve_rng_state": False})
        if request.method != "full" and built.config.model_type != "whisper":
            model.enable_input_require_grads()
    given = _inputs(built.config, request, spec)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    held = [*model.parameters(), *model.buffers()]
    optimizer, counter = _OPTIMIZERS["adamw"](trained), RunCounter(held, 10**8)
    with counter:
        for parameter in trained:
            parameter.grad = torch.zeros_like(parameter)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        counter.begin()
        model(**given, use_cache=False).loss.backward()
        optimizer.step()
    sizes = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes() for tensor in (*held, *given.values())}
    return counter.peak_bytes + sum(sizes.values()), sum(parameter.numel() for parameter in trained)


@pytest.mark.parametrize(
    ("name", "method", "train_tower", "checkpointing"),
    [
        pytest.param("qwen2_5_vl", "lora", "no", "layers", marks=pytest.mark.slow),
        ("qwen2_5_vl", "full", "no", "none"),
        ("qwen2_5_vl", "full", "yes", "layers"),
        pytest.param("idefics3", "lora", "yes", "layers", marks=pytest.mark.slow),
        ("idefics3", "lora", "no", "none"),
        ("gemma3", "full", "yes", "layers"),
        pytest.param("gemma3", "lora", "yes", "none", marks=pytest.mark.slow),
        ("whisper", "full", "yes", "layers"),
        pytest.param("whisper", "full", "no", "layers", marks=pytest.mark.slow),
        ("whisper", "lora", "no", "none"),
        pytest.param("whisper", "lora", "yes", "layers", marks=pytest.mark.slow),
    ],
)
def test_peak_of_a_step(name: str, method: Method, train_tower: TrainTower, checkpointing: Literal["none", "layers"]) -> None:
    """One picture or window of sound and 100 tokens of text, in bf16: within 6 % of the executed peak; as many parameters train."""
    side = {"qwen2_5_vl": 560, "idefics3": 378, "gemma3": 448}.get(name, 0)
    media = MediaRequest(images=1, image_width=side, image_height=side) if side else MediaRequest()
    spec = resolve_config(CONFIGS[name])
    asked = TrainingRequest(
        method=method, precision="bf16", checkpointing=checkpointing, sequence_tokens=100, stack="transformers", fused_loss=False,
        micro_batch=2, media=media, train_tower=train_tower,
    )  # fmt: skip
    request = add_media(spec, asked)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        executed, trained = execute(CONFIGS[name], request, spec)
    closed = max(sum(moment.values()) for moment in step_peaks(spec, request))
    assert closed == pytest.approx(executed, rel=0.06)
    assert estimate_training(spec, request).trained_parameters == pytest.approx(trained, rel=0.04)  # positions of Whisper do not train


def test_pictures_are_tokens_of_the_sequence() -> None:
    """A picture of 1,024² pixels is 1,369 tokens of Qwen2-VL and 5,476 positions of its tower, whether that trains or not."""
    frozen, trained = ASK(QWEN, images=1), ASK(QWEN, images=1, train_tower="yes")
    assert (frozen["picture_tokens"], frozen["encoder_positions"], frozen["trained_encoder"]) == (1369, 5476, "no")
    assert frozen["tokens_per_step"] == 8 * (2048 + 1369)
    assert frozen["steps"] == 10_000 // 8
    assert frozen["total_tokens"] == 10_000 * (512 + 1369)
    assert frozen["trained_parameters"] < trained["trained_parameters"]
    text = ASK(QWEN, packing=False)
    assert text["picture_tokens"] == 0
    assert text["device_bytes"] < frozen["device_bytes"] <= trained["device_bytes"]
    assert {"training_pictures", "training_frozen_tower"} <= {caveat["code"] for caveat in frozen["caveats"]}
    assert "training_text_only" in {caveat["code"] for caveat in text["caveats"]}
    assert "tower_frozen" in {change["code"] for change in ASK(QWEN, images=1, train_tower="yes", method="full")["changes"]}


def test_work_of_the_encoder() -> None:
    """FLOPs of Whisper: 2 · P of each encoder position and pass, those of attention between 1,500, and keys and values of each layer."""
    spec = bundled.find_spec(WHISPER)
    assert spec is not None
    parts = {name: add_media(spec, TrainingRequest(method="full", stack="transformers", train_tower=name)) for name in ("yes", "no")}
    encoder = sum(g.parameters for g in spec.tensors if g.component == "encoder" and g.kind in {"linear", "conv"})
    one_pass = 1500 * (2 * encoder + 4 * 1500 * 768 * 12)
    work = {name: step_work(spec, request).flops for name, request in parts.items()}
    assert work["yes"] - work["no"] == pytest.approx(3 * one_pass)
    crossed = 12 * 2 * 768 * 768
    tokens = 448 * (2 * (spec.parameters_total - spec.parameters_by_component["encoder"] - crossed - 448 * 768) + 2 * 448 * 768 * 12)
    assert work["no"] == pytest.approx(one_pass + 4 * (tokens + 1500 * (2 * crossed + 4 * 448 * 768 * 12)), rel=0.01)


@pytest.mark.parametrize(
    ("model", "asked", "name"),
    [
        ("Qwen/Qwen3-0.6B", {"images": 1}, "images"),
        ("Qwen/Qwen3-0.6B", {"train_tower": "yes"}, "train_tower"),
        (QWEN, {"train_tower": "yes"}, "train_tower"),
        (QWEN, {"images": 1, "objective": "dpo"}, "objective"),
        (QWEN, {"images": 1, "objective": "grpo"}, "objective"),
        (QWEN, {"audio_seconds": 10}, "audio_seconds"),
        (QWEN, {"images": 1, "image_width": 16_384, "image_height": 28}, "image_width × image_height"),
        ("google/gemma-3n-E2B-it", {"images": 1}, "images"),
        (WHISPER, {"images": 1}, "images"),
        (WHISPER, {"audio_seconds": 31}, "audio_seconds"),
        (WHISPER, {"objective": "dpo"}, "objective"),
        (WHISPER, {"train_tower": "projector"}, "train_tower"),
        ("black-forest-labs/FLUX.1-dev", {"images": 1}, "images"),
    ],
)
def test_what_does_not_belong_together(model: str, asked: dict[str, Any], name: str) -> None:
    """The refusal names the argument."""
    with pytest.raises(BadArgument, match=name):
        ASK(model, **asked)


def test_speech() -> None:
    """Whisper trains in full with transformers, its encoder too; text is cut to 448 tokens; another kind of speech model is refused."""
    answer = ASK(WHISPER, method="full", optimizer="adamw_8bit", tokens_per_row=40, micro_batch=16, accumulation=1, stack="unsloth")
    assert (answer["stack"], answer["encoder_positions"], answer["trained_encoder"]) == ("transformers", 1500, "yes")
    assert answer["tokens_per_step"] == 16 * 448
    assert answer["steps"] == 625
    assert {"training_sound", "training_stack"} <= {caveat["code"] for caveat in answer["caveats"]}
    frozen = ASK(WHISPER, method="full", train_tower="no")
    assert frozen["trained_parameters"] == pytest.approx(answer["trained_parameters"] - 88_154_112, rel=0.001)
    with pytest.raises(UnsupportedModel, match="Whisper"):
        ASK("mistralai/Voxtral-Mini-3B-2507")
