"""Trainers with models of random weights and made-up data, for `scripts/measure_training.py`.

A case is a row of `scripts/training_cases.json`: fields of a training request of the app, the model and the steps.
"""

from __future__ import annotations

import gzip
import importlib
import inspect
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, get_peft_model
from tokenizers import Tokenizer, models, pre_tokenizers
from torch.utils.data import Dataset as TorchDataset
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForImageTextToText,
    AutoModelForSequenceClassification,
    AutoModelForSpeechSeq2Seq,
    PreTrainedTokenizerFast,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
    Trainer,
    TrainingArguments,
)

from scripts.training_meter import CUDA

CONFIGS = Path(__file__).resolve().parent.parent / "lib" / "data" / "model_configs.jsonl.gz"
TRL: Any = importlib.import_module("trl")
ORPO: Any = importlib.import_module("trl.experimental.orpo")
MODULES: Any = importlib.import_module("sentence_transformers.models")
LOSSES: Any = importlib.import_module("sentence_transformers.losses")
SENTENCES: Any = importlib.import_module("sentence_transformers")
CROSS_LOSSES: Any = importlib.import_module("sentence_transformers.cross_encoder.losses")
Dataset: Any = importlib.import_module("datasets").Dataset
DEVICE = torch.device("cuda" if CUDA else "cpu")
Case = dict[str, Any]


def read_configs() -> dict[str, Case]:
    """Configurations by model."""
    with gzip.open(CONFIGS, "rt", encoding="utf-8") as lines:
        return {row["hub_id"]: row["config"] for row in map(json.loads, lines)}


_TINY = {
    "num_hidden_layers": 2, "hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
    "vocab_size": 1000, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "shared_expert_intermediate_size": 64,
    "d_model": 64, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
    "encoder_ffn_dim": 128, "decoder_ffn_dim": 128, "depth": 2, "num_heads": 4, "out_hidden_size": 64, "embed_dim": 64,
    "deepstack_visual_indexes": [0, 1], "fullatt_block_indexes": [1], "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
    "layer_types": None, "begin_suppress_tokens": None, "suppress_tokens": None, "forced_decoder_ids": None, "decoder_start_token_id": 3,
    "image_token_id": 900, "video_token_id": 901, "vision_start_token_id": 902, "vision_end_token_id": 903, "max_window_layers": 2,
}  # fmt: skip


def shrink(config: Any, *, vision: bool = False) -> Any:
    """The configuration with small sizes, for a try on the CPU."""
    small = {}
    for name, value in config.items():
        if isinstance(value, dict) and "config" in name:
            small[name] = shrink(value, vision="vision" in name)
        elif name in _TINY and not (vision and name == "hidden_size" and "embed_dim" in config):
            small[name] = _TINY[name]
        elif name in {"rope_scaling", "rope_parameters"} and isinstance(value, dict) and "mrope_section" in value:
            small[name] = value | {"mrope_section": [2, 3, 3]}
        else:
            small[name] = value
    return small


def half_or_whole(case: Case) -> torch.dtype:
    """The format of the weights: float32 where they are trained in mixed precision, else bf16."""
    whole = case.get("precision", "mixed") == "fp32" or (case.get("precision", "mixed") == "mixed" and case["method"] == "full")
    return torch.float32 if whole else torch.bfloat16


def build(case: Case, configs: dict[str, Case], auto: Any = AutoModelForCausalLM, **settings: Any) -> Any:
    """The case's model with random weights, on the device."""
    plain = dict(configs[case["model"]]) | case.get("config_changes", {})
    plain.pop("_name_or_path", None)
    if case.get("tiny"):
        plain = shrink(plain)
    config = AutoConfig.for_model(plain.pop("model_type"), **plain)
    for name, value in settings.items():
        setattr(config, name, value)
    with torch.device(DEVICE):
        return auto.from_config(config, dtype=half_or_whole(case), attn_implementation=case.get("attention", "sdpa"))


def make_tokenizer(vocabulary: int) -> Any:
    """A tokenizer of one word a token: `w17` is token 17."""
    words = {"<pad>": 0, "<s>": 1, "</s>": 2} | {f"w{n}": n for n in range(3, min(vocabulary, 30_000))}
    plain = Tokenizer(models.WordLevel(words, unk_token="<pad>"))  # noqa: S106  a token of text
    plain.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    made: Any = PreTrainedTokenizerFast
    return made(tokenizer_object=plain, pad_token="<pad>", bos_token="<s>", eos_token="</s>")  # noqa: S106  tokens of text


def write_text(tokens: int, rng: random.Random) -> str:
    """A text of so many tokens."""
    return " ".join(f"w{rng.randrange(3, 900)}" for _ in range(tokens))


def make_adapter(case: Case, task: str | None = "CAUSAL_LM") -> Any:
    """The LoRA configuration of a case; None if it trains all weights."""
    if case["method"] == "full":
        return None
    return LoraConfig(r=case.get("rank", 16), lora_alpha=32, target_modules=case.get("target_modules", "all-linear"), task_type=task)


# Trainers


def settings(case: Case, folder: str) -> dict[str, Any]:
    """Arguments that every trainer takes."""
    recomputes = case.get("checkpointing", "layers") == "layers"
    return {
        "output_dir": folder, "per_device_train_batch_size": case.get("micro_batch", 1),
        "gradient_accumulation_steps": case.get("accumulation", 1), "max_steps": case["steps"], "logging_steps": 1000,
        "save_strategy": "no", "report_to": "none", "disable_tqdm": True, "bf16": case.get("precision", "mixed") != "fp32",
        "gradient_checkpointing": recomputes, "gradient_checkpointing_kwargs": {"use_reentrant": False} if recomputes else None,
        "optim": "adamw_torch_fused" if CUDA else "adamw_torch", "learning_rate": 1e-6, "dataloader_num_workers": 0, "use_cpu": not CUDA,
    }  # fmt: skip


def draw_length(case: Case, rng: random.Random) -> int:
    """Tokens of a row: the stated length, or with `row_tokens` drawn around that mean as rows of text vary, up to the stated length."""
    if not case.get("row_tokens"):
        return int(case["sequence_tokens"])
    spread = 0.7  # of the logarithm
    drawn = round(float(case["row_tokens"]) * rng.lognormvariate(-(spread**2) / 2, spread))
    return min(int(case["sequence_tokens"]), max(8, drawn))


def count_rows(case: Case) -> int:
    """Rows of the data set: enough for all steps."""
    return int(case.get("micro_batch", 1)) * int(case.get("accumulation", 1)) * (int(case["steps"]) + 1)


def preference_rows(case: Case, rng: random.Random) -> Any:
    """Prompts with a chosen and a rejected answer; each sequence has the stated length with its end token."""
    lengths = [draw_length(case, rng) for _ in range(count_rows(case))]
    prompts = [case.get("prompt_tokens", length // 2) for length in lengths]
    answers = [length - prompt - 1 for length, prompt in zip(lengths, prompts, strict=True)]
    return Dataset.from_dict(
        {
            "prompt": [write_text(tokens, rng) for tokens in prompts],
            "chosen": [" " + write_text(tokens, rng) for tokens in answers],
            "rejected": [" " + write_text(tokens, rng) for tokens in answers],
        }
    )


def reward_by_length(completions: list[str], **_columns: Any) -> list[float]:
    """A reward that costs no time and differs between answers."""
    return [float(len(set(answer.split()))) for answer in completions]


def trl_trainer(case: Case, configs: dict[str, Case], folder: str) -> Any:
    """TRL's trainer for the case's objective, with model and data."""
    rng, objective = random.Random(0), case["objective"]  # noqa: S311  not for secrets
    common, length = settings(case, folder), case["sequence_tokens"]
    auto, more = (AutoModelForSequenceClassification, {"num_labels": 1}) if objective == "reward" else (AutoModelForCausalLM, {})
    model = build(case, configs, auto, **more)
    tokenizer = make_tokenizer(model.config.vocab_size)
    adapter = make_adapter(case, "SEQ_CLS" if objective == "reward" else "CAUSAL_LM")
    given = {"model": model, "processing_class": tokenizer, "peft_config": adapter}
    match objective:
        case "sft":
            ids = [[rng.randrange(3, 900) for _ in range(draw_length(case, rng))] for _ in range(count_rows(case))]
            arguments = TRL.SFTConfig(max_length=length, packing=False, **common, **case.get("arguments", {}))
            return TRL.SFTTrainer(args=arguments, train_dataset=Dataset.from_dict({"input_ids": ids}), **given)
        case "dpo":
            reference = build(case, configs) if case["method"] == "full" else None
            arguments = TRL.DPOConfig(max_length=length, **common)
            return TRL.DPOTrainer(args=arguments, train_dataset=preference_rows(case, rng), ref_model=reference, **given)
        case "kto":
            rows = preference_rows(case, rng)
            labels = [n % 2 == 0 for n in range(len(rows))]
            rows = Dataset.from_dict({"prompt": rows["prompt"], "completion": rows["chosen"], "label": labels})
            reference = build(case, configs) if case["method"] == "full" else None
            return TRL.KTOTrainer(args=TRL.KTOConfig(max_length=length, **common), train_dataset=rows, ref_model=reference, **given)
        case "orpo":
            return ORPO.ORPOTrainer(args=ORPO.ORPOConfig(max_length=length, **common), train_dataset=preference_rows(case, rng), **given)
        case "reward":
            return TRL.RewardTrainer(args=TRL.RewardConfig(max_length=length, **common), train_dataset=preference_rows(case, rng), **given)
        case "grpo":
            rollout = case["rollout"]
            prompt = length - rollout["completion_tokens"]
            rows = Dataset.from_dict({"prompt": [write_text(prompt, rng) for _ in range(count_rows(case))]})
            if rollout.get("beta") and case["method"] == "full":
                model.save_pretrained(f"{folder}/start")  # TRL reads the reference from a folder
                model.config._name_or_path = f"{folder}/start"  # noqa: SLF001  TRL reads this name
            arguments = TRL.GRPOConfig(
                num_generations=rollout["generations"], max_completion_length=rollout["completion_tokens"], beta=rollout.get("beta", 0.0),
                **common,
            )  # fmt: skip
            return TRL.GRPOTrainer(args=arguments, train_dataset=rows, reward_funcs=reward_by_length, **given)
    raise ValueError(f"objective {objective} is not one of TRL's")


class MadeRows(TorchDataset[dict[str, torch.Tensor]]):
    """A data set of rows that a function makes."""

    def __init__(self, rows: int, make: Callable[[], dict[str, torch.Tensor]]) -> None:
        self.rows = [make() for _ in range(min(rows, 8))]
        self.count = rows

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return self.rows[index % len(self.rows)]


def stack_rows(rows: list[dict[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
    """A batch: rows of patches are joined, all others stacked."""
    joined = {"pixel_values", "image_grid_thw"}
    return {name: (torch.cat if name in joined else torch.stack)([row[name] for row in rows]) for name in rows[0]}


def with_adapter(model: Any, case: Case) -> Any:
    """The model with adapters where the case has them."""
    if case["method"] == "full":
        return model
    if case.get("checkpointing", "layers") == "layers":
        model.enable_input_require_grads()
    return get_peft_model(model, make_adapter(case, None))


def speech_trainer(case: Case, configs: dict[str, Case], folder: str) -> Any:
    """Whisper with transformers' Seq2SeqTrainer: 30 s of sound and so many tokens of text a row."""
    model = build(case, configs, AutoModelForSpeechSeq2Seq, use_cache=False)
    bins, frames = int(model.config.num_mel_bins), 2 * int(model.config.max_source_positions)
    make = lambda: {  # noqa: E731
        "input_features": torch.randn(bins, frames),
        "labels": torch.randint(3, 900, (case["sequence_tokens"],)),
    }
    if case.get("frozen_tower"):
        model.model.encoder.requires_grad_(False)
    arguments = Seq2SeqTrainingArguments(remove_unused_columns=False, **settings(case, folder))
    return Seq2SeqTrainer(
        model=with_adapter(model, case), args=arguments, train_dataset=MadeRows(count_rows(case), make), data_collator=stack_rows
    )


def picture_text_trainer(case: Case, configs: dict[str, Case], folder: str) -> Any:
    """A vision-language model with transformers' Trainer: pictures of a stated size, then text, in all `sequence_tokens` tokens."""
    model = build(case, configs, AutoModelForImageTextToText)
    vision, pictures = model.config.vision_config, case.get("pictures", 1)
    cell = vision.patch_size * vision.spatial_merge_size
    rows_of, columns_of = (round(case[side] / cell) * vision.spatial_merge_size for side in ("height", "width"))
    patches, temporal = rows_of * columns_of, int(getattr(vision, "temporal_patch_size", 2))
    seen = patches // vision.spatial_merge_size**2
    channels: Any = getattr(vision, "in_channels", None) or getattr(vision, "in_chans", 3)
    token = model.config.image_token_id

    def make() -> dict[str, torch.Tensor]:
        text = torch.randint(3, 890, (case["sequence_tokens"] - pictures * (seen + 2),))
        one = torch.cat([torch.tensor([model.config.vision_start_token_id]), torch.full((seen,), token), torch.tensor([3])])
        ids = torch.cat([*([one] * pictures), text])
        labels = ids.clone()
        labels[: pictures * (seen + 2)] = -100
        return {
            "input_ids": ids, "labels": labels, "attention_mask": torch.ones_like(ids), "mm_token_type_ids": (ids == token).int(),
            "pixel_values": torch.randn(pictures * patches, channels * temporal * vision.patch_size**2),
            "image_grid_thw": torch.tensor([[1, rows_of, columns_of]] * pictures),
        }  # fmt: skip

    tower = model.model.visual
    if case.get("frozen_tower"):
        tower.requires_grad_(False)
    arguments = TrainingArguments(remove_unused_columns=False, **settings(case, folder))
    if case["method"] != "full" and case.get("frozen_tower"):  # adapters in the text model alone
        case = case | {"target_modules": r".*language_model.*\.(q_proj|k_proj|v_proj|o_proj|gate_proj|up_proj|down_proj)"}
    case["picture_tokens"] = seen * pictures
    return Trainer(
        model=with_adapter(model, case), args=arguments, train_dataset=MadeRows(count_rows(case), make), data_collator=stack_rows
    )


def pairs_trainer(case: Case, configs: dict[str, Case], folder: str) -> Any:
    """Embedding models and rerankers with sentence-transformers."""
    rng, length = random.Random(0), case["sequence_tokens"]  # noqa: S311  not for secrets
    reranks = case["objective"] == "rerank"
    model = build(case, configs, AutoModelForSequenceClassification if reranks else AutoModel, **({"num_labels": 1} if reranks else {}))
    saved = f"{folder}/model"
    model.save_pretrained(saved)
    tokenizer = make_tokenizer(model.config.vocab_size)
    tokenizer.model_max_length = length
    tokenizer.save_pretrained(saved)
    dtype = model.dtype
    del model
    common = settings(case, folder)
    columns = 2 + case.get("pairs", {}).get("negatives", 0)
    names = ["anchor", "positive", *(f"negative_{n}" for n in range(columns - 2))]
    rows = range(count_rows(case))
    if reranks:
        encoder = SENTENCES.CrossEncoder(saved, num_labels=1, max_length=length, model_kwargs={"dtype": dtype}, device=str(DEVICE))
        half = length // 2
        data = Dataset.from_dict(
            {
                "query": [write_text(half, rng) for _ in rows],
                "answer": [write_text(length - half, rng) for _ in rows],
                "label": [float(n % 2) for n in rows],
            }
        )
        arguments = SENTENCES.CrossEncoderTrainingArguments(**common)
        return SENTENCES.CrossEncoderTrainer(
            model=encoder, args=arguments, train_dataset=data, loss=CROSS_LOSSES.BinaryCrossEntropyLoss(encoder)
        )
    body = MODULES.Transformer(saved, max_seq_length=length, **_model_arguments(MODULES.Transformer, dtype))
    embedder = SENTENCES.SentenceTransformer(
        modules=[body, MODULES.Pooling(body.get_word_embedding_dimension(), "cls")], device=str(DEVICE)
    )
    data = Dataset.from_dict({name: [write_text(length, rng) for _ in rows] for name in names})
    if case["objective"] == "contrastive-cached":
        loss = LOSSES.CachedMultipleNegativesRankingLoss(embedder, mini_batch_size=case["pairs"]["cached_batch"])
    else:
        loss = LOSSES.MultipleNegativesRankingLoss(embedder)
    return SENTENCES.SentenceTransformerTrainer(
        model=embedder, args=SENTENCES.SentenceTransformerTrainingArguments(**common), train_dataset=data, loss=loss
    )


def _model_arguments(module: Any, dtype: torch.dtype) -> dict[str, Any]:
    """The argument by which this version of sentence-transformers passes settings to the model."""
    name = "model_kwargs" if "model_kwargs" in inspect.signature(module.__init__).parameters else "model_args"
    return {name: {"dtype": dtype}}


TRAINERS: dict[str, Callable[[Case, dict[str, Case], str], Any]] = {
    "speech": speech_trainer, "vlm": picture_text_trainer,
    "contrastive": pairs_trainer, "contrastive-cached": pairs_trainer, "rerank": pairs_trainer,
}  # fmt: skip
"""Trainers by kind of model or objective; all others are TRL's."""
