"""Words of fine-tuning: names of parts, what to change, methods."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

PARTS: dict[str, tuple[str, str]] = {
    "weights": ("weights", "Weights"),
    "float32 tables and norms": ("weights", "Weights kept in float32 (embeddings, norms)"),
    "master weights": ("master", "Master weights"),
    "16-bit copies": ("master", "16-bit copies, gathered weights"),
    "adapters": ("adapters", "Adapters"),
    "optimizer": ("optimizer", "Optimizer states"),
    "optimizer step": ("optimizer", "Temporary copies in the optimizer step"),
    "gradients": ("gradients", "Gradients"),
    "saved activations": ("activations", "Saved activations"),
    "passing gradients": ("activations", "Activation gradients of one layer"),
    "logits and loss": ("loss", "Logits and loss"),
    "fragmentation and workspace": ("runtime", "Fragmentation and workspace"),
    "CUDA context": ("runtime", "CUDA context"),
}
"""The colour's name and the label of each part, in the order of the bar."""
METHODS = {"full": "Full fine-tuning", "lora": "LoRA", "dora": "DoRA", "qlora": "QLoRA"}
VERDICTS = {"fits": "Fits", "risky": "Risky", "no": "Does not fit"}
CHANGES: dict[str, str] = {
    "method_lora": "Train LoRA adapters of rank {rank} instead of all weights.",
    "method_qlora": "Store the base weights in 4 bits (QLoRA).",
    "rank": "Halve the adapter rank to {rank}.",
    "checkpointing_layers": "Use gradient checkpointing on every layer: activations are recomputed in the backward pass.",
    "checkpointing_offloaded": "Offload the checkpointed activations to host memory.",
    "fused_loss": "Use a fused loss (Liger, cut cross entropy): the logits are never all in memory at once.",
    "optimizer_adamw_8bit": "Use 8-bit AdamW (bitsandbytes).",
    "optimizer_paged_adamw_8bit": "Use paged 8-bit AdamW: its states move to host memory when the GPU is full.",
    "precision_bf16": "Train in pure bf16 without master weights; small updates get rounded away.",
    "micro_batch": "Use a micro-batch of {micro_batch} with {accumulation} accumulation steps.",
    "sequence": "Shorten sequences to {sequence_tokens:,} tokens.",
    "attention": "Use a fused attention kernel (sdpa) instead of eager.",
    "shard_2": "Shard weights, gradients and optimizer states over 2 GPUs (FSDP).",
    "shard_8": "Shard weights, gradients and optimizer states over 8 GPUs (FSDP).",
}


def change_sentence(code: str, request: Mapping[str, Any]) -> str:
    """What to change, in words.

    Args:
        code: of the change.
        request: the request after the change, by field.
    """
    return CHANGES[code].format_map(request)
