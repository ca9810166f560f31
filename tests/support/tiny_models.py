"""Models with random weights, small enough to run on a processor within a second, as folders that hold what a repository holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tiny_chat
import torch
from transformers import BertConfig, BertForSequenceClassification, BertModel, Qwen3Config, Qwen3Model

SIZES: dict[str, Any] = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
WORDS = 258
"""Tokens of `tiny_chat.tokenizer`: one per byte, and two of control."""


def save_embedder(folder: Path, pooling: str) -> Path:
    """A model with the modules of sentence-transformers: a BERT for "cls", a Qwen3 for "lasttoken"."""
    from sentence_transformers import SentenceTransformer  # noqa: PLC0415  slow
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer  # noqa: PLC0415

    torch.manual_seed(0)
    if pooling == "cls":
        model: Any = BertModel(BertConfig(vocab_size=WORDS, max_position_embeddings=128, **SIZES))
    else:
        model = Qwen3Model(Qwen3Config(vocab_size=WORDS, max_position_embeddings=128, num_key_value_heads=1, head_dim=16, **SIZES))
    body = folder.parent / f"{folder.name}-body"
    model.save_pretrained(body)
    tiny_chat.tokenizer(None).save_pretrained(body)
    SentenceTransformer(modules=[Transformer(str(body)), Pooling(32, pooling_mode=pooling)], device="cpu").save(str(folder))
    return folder


def save_classifier(folder: Path, labels: int) -> Path:
    """A BERT that gives a text, or a pair of texts, so many scores."""
    torch.manual_seed(0)
    model = BertForSequenceClassification(BertConfig(vocab_size=WORDS, max_position_embeddings=128, num_labels=labels, **SIZES))
    model.save_pretrained(folder)
    tiny_chat.tokenizer(None).save_pretrained(folder)
    return folder


def save_whisper(folder: Path) -> Path:
    """A Whisper of two layers on each side, with the byte tokenizer in the place of its own."""
    from transformers import (  # noqa: PLC0415  slow
        GenerationConfig,
        WhisperConfig,
        WhisperFeatureExtractor,
        WhisperForConditionalGeneration,
        WhisperTokenizer,
    )

    torch.manual_seed(0)
    special = ["<|endoftext|>", "<|startoftranscript|>", "<|en|>", "<|transcribe|>", "<|translate|>", "<|notimestamps|>"]
    from tokenizers import pre_tokenizers  # noqa: PLC0415

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    words = {letter: at for at, letter in enumerate(letters)}
    tokenizer = WhisperTokenizer(vocab=words | {"<|endoftext|>": len(words)}, merges=[], unk_token="<|endoftext|>")  # noqa: S106
    tokenizer.add_special_tokens({"additional_special_tokens": special[1:]})
    tokenizer.add_tokens([f"<|{step * 0.02:.2f}|>" for step in range(1501)])
    ids = {name: tokenizer.convert_tokens_to_ids(name) for name in special}
    layers = {
        f"{side}_{part}": size for side in ("encoder", "decoder") for part, size in (("layers", 2), ("attention_heads", 2), ("ffn_dim", 64))
    }
    config = WhisperConfig(
        vocab_size=len(tokenizer), d_model=32, num_mel_bins=80, max_target_positions=64, bos_token_id=ids["<|endoftext|>"],
        eos_token_id=ids["<|endoftext|>"], pad_token_id=ids["<|endoftext|>"], decoder_start_token_id=ids["<|startoftranscript|>"], **layers,
    )  # fmt: skip
    model = WhisperForConditionalGeneration(config)
    model.generation_config = GenerationConfig(
        no_timestamps_token_id=ids["<|notimestamps|>"], is_multilingual=True, lang_to_id={"<|en|>": ids["<|en|>"]}, max_length=16,
        task_to_id={"transcribe": ids["<|transcribe|>"], "translate": ids["<|translate|>"]}, eos_token_id=ids["<|endoftext|>"],
        pad_token_id=ids["<|endoftext|>"], decoder_start_token_id=ids["<|startoftranscript|>"], max_initial_timestamp_index=50,
    )  # fmt: skip
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    WhisperFeatureExtractor(feature_size=80).save_pretrained(folder)
    return folder


SEES = (
    "{% for m in messages %}{{ m['role'] + ': ' }}{% for part in m['content'] %}"
    "{% if part['type'] == 'image' %}{{ '<image>' }}{% else %}{{ part['text'] }}{% endif %}{% endfor %}{{ '\n' }}{% endfor %}"
)


def save_llava(folder: Path) -> Path:
    """A LLaVA: a CLIP tower of 4 patches, and a Llama."""
    from transformers import (  # noqa: PLC0415  slow
        CLIPImageProcessorPil,
        CLIPVisionConfig,
        LlavaConfig,
        LlavaForConditionalGeneration,
        LlavaProcessor,
    )

    torch.manual_seed(0)
    tokenizer = tiny_chat.tokenizer(None)
    tokenizer.add_special_tokens({"additional_special_tokens": ["<image>"]})
    text = tiny_chat.config(vocab_size=len(tokenizer) + 8, max_position_embeddings=1024, num_hidden_layers=2)
    vision = CLIPVisionConfig(image_size=16, patch_size=8, **SIZES)
    image = tokenizer.convert_tokens_to_ids("<image>")
    model = LlavaForConditionalGeneration(LlavaConfig(vision_config=vision, text_config=text, image_token_index=image, image_seq_length=4))
    model.generation_config.eos_token_id, model.generation_config.pad_token_id = None, 0
    model.save_pretrained(folder)
    side = {"height": 16, "width": 16}
    processor = LlavaProcessor(
        CLIPImageProcessorPil(size={"shortest_edge": 16}, crop_size=side), tokenizer, patch_size=8,
        vision_feature_select_strategy="default", num_additional_image_tokens=1, chat_template=SEES,
    )  # fmt: skip
    processor.save_pretrained(folder)
    return folder


def save_painter(folder: Path) -> Path:
    """A Stable Diffusion pipeline: UNet and VAE of two blocks, a CLIP text encoder of two layers."""
    from diffusers import AutoencoderKL, DDIMScheduler, StableDiffusionPipeline, UNet2DConditionModel  # noqa: PLC0415  slow
    from transformers import CLIPTextConfig, CLIPTextModel  # noqa: PLC0415

    torch.manual_seed(0)
    up, down = ("UpDecoderBlock2D",) * 2, ("DownEncoderBlock2D",) * 2
    unet = UNet2DConditionModel(
        block_out_channels=(32, 32), layers_per_block=1, sample_size=8, in_channels=4, out_channels=4, cross_attention_dim=32,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"), up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"), attention_head_dim=4,
    )  # fmt: skip
    vae = AutoencoderKL(block_out_channels=(32, 32), down_block_types=down, up_block_types=up, latent_channels=4, norm_num_groups=8)
    text = CLIPTextModel(
        CLIPTextConfig(
            vocab_size=WORDS, projection_dim=32, max_position_embeddings=77, bos_token_id=WORDS - 2, eos_token_id=WORDS - 1, **SIZES
        )
    )
    scheduler = DDIMScheduler(steps_offset=1, clip_sample=False)
    pipeline = StableDiffusionPipeline(
        vae=vae, text_encoder=text, tokenizer=_clip_tokenizer(), unet=unet, scheduler=scheduler, safety_checker=None,
        feature_extractor=None, requires_safety_checker=False,
    )  # fmt: skip
    pipeline.save_pretrained(folder)
    return folder


def save_flux(folder: Path) -> Path:
    """A FLUX pipeline: a transformer of two blocks, a VAE of two, a CLIP and a T5 of a few layers."""
    from diffusers import (  # noqa: PLC0415  slow
        AutoencoderKL,
        FlowMatchEulerDiscreteScheduler,
        FluxPipeline,
        FluxTransformer2DModel,
    )
    from transformers import CLIPTextConfig, CLIPTextModel, T5Config, T5EncoderModel, T5Tokenizer  # noqa: PLC0415

    torch.manual_seed(0)
    transformer = FluxTransformer2DModel(
        patch_size=1, in_channels=16, num_layers=1, num_single_layers=1, attention_head_dim=16, num_attention_heads=2,
        joint_attention_dim=32, pooled_projection_dim=32, guidance_embeds=True, axes_dims_rope=(4, 6, 6),
    )  # fmt: skip
    up, down = ("UpDecoderBlock2D",) * 2, ("DownEncoderBlock2D",) * 2
    vae = AutoencoderKL(
        block_out_channels=(32, 32), down_block_types=down, up_block_types=up, latent_channels=4, norm_num_groups=8, shift_factor=0.1,
        scaling_factor=0.4, use_quant_conv=False, use_post_quant_conv=False,
    )  # fmt: skip
    clip = CLIPTextConfig(
        vocab_size=WORDS, projection_dim=32, max_position_embeddings=77, bos_token_id=WORDS - 2, eos_token_id=WORDS - 1, **SIZES
    )
    letters = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("\u2581", -1.0), *((chr(code), -2.0) for code in range(33, 127))]
    pipeline = FluxPipeline(
        scheduler=FlowMatchEulerDiscreteScheduler(), vae=vae, text_encoder=CLIPTextModel(clip), tokenizer=_clip_tokenizer(),
        text_encoder_2=T5EncoderModel(T5Config(vocab_size=200, d_model=32, d_kv=8, d_ff=32, num_layers=1, num_heads=2)),
        tokenizer_2=T5Tokenizer(vocab=letters, extra_ids=0), transformer=transformer,
    )  # fmt: skip
    pipeline.save_pretrained(folder)
    return folder


def save_wan(folder: Path) -> Path:
    """A Wan pipeline that makes clips: a transformer and a VAE of four, a T5 of one layer."""
    from diffusers import (  # noqa: PLC0415  slow
        AutoencoderKLWan,
        FlowMatchEulerDiscreteScheduler,
        WanPipeline,
        WanTransformer3DModel,
    )
    from transformers import T5Config, T5EncoderModel, T5Tokenizer  # noqa: PLC0415

    torch.manual_seed(0)
    transformer = WanTransformer3DModel(
        patch_size=(1, 2, 2), num_attention_heads=2, attention_head_dim=12, in_channels=16, out_channels=16, text_dim=32, freq_dim=32,
        ffn_dim=32, num_layers=2, cross_attn_norm=True, qk_norm="rms_norm_across_heads", rope_max_seq_len=32,
    )  # fmt: skip
    vae = AutoencoderKLWan(base_dim=3, z_dim=16, dim_mult=[1, 1, 1, 1], num_res_blocks=1, temperal_downsample=[False, True, True])
    letters = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("\u2581", -1.0), *((chr(code), -2.0) for code in range(33, 127))]
    pipeline = WanPipeline(
        tokenizer=T5Tokenizer(vocab=letters, extra_ids=0), vae=vae, scheduler=FlowMatchEulerDiscreteScheduler(), transformer=transformer,
        text_encoder=T5EncoderModel(T5Config(vocab_size=200, d_model=32, d_kv=8, d_ff=32, num_layers=1, num_heads=2)),
    )  # fmt: skip
    pipeline.save_pretrained(folder)
    return folder


def _clip_tokenizer() -> Any:
    from transformers import CLIPTokenizer  # noqa: PLC0415  slow

    letters = [chr(code) for code in range(33, 127)]
    words = {word: at for at, word in enumerate([*letters, *(f"{letter}</w>" for letter in letters), "<|startoftext|>", "<|endoftext|>"])}
    return CLIPTokenizer(vocab=words, merges=[], model_max_length=77)
