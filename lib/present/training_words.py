"""Words of fine-tuning: names of parts, what to change, methods."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

PARTS: dict[str, tuple[str, str]] = {
    "weights": ("weights", "Weights"),
    "float32 tables and norms": ("weights", "Weights in float32 (tables, norms)"),
    "master weights": ("master", "Master weights"),
    "16-bit copies": ("master", "16-bit copies, gathered weights"),
    "adapters": ("adapters", "Adapters"),
    "optimizer": ("optimizer", "Optimizer states"),
    "optimizer step": ("optimizer", "Optimizer's copies while it steps"),
    "gradients": ("gradients", "Gradients"),
    "saved activations": ("activations", "Saved activations"),
    "passing gradients": ("activations", "Gradients passing a layer"),
    "logits and loss": ("loss", "Logits and loss"),
    "fragmentation and workspace": ("runtime", "Fragmentation and workspace"),
    "CUDA context": ("runtime", "CUDA context"),
}
"""The colour's name and the label of each part, in the order of the bar."""
METHODS = {"full": "Full fine-tuning", "lora": "LoRA", "dora": "DoRA", "qlora": "QLoRA"}
VERDICTS = {"fits": "Fits", "risky": "Risky", "no": "Does not fit"}
CHANGES: dict[str, str] = {
    "method_lora": "Train adapters instead of all weights: LoRA of rank {rank}.",
    "method_qlora": "Hold the weights in 4 bits: QLoRA.",
    "rank": "Halve the rank of the adapters, to {rank}.",
    "checkpointing_layers": "Checkpoint every layer: activations are computed again in the backward pass.",
    "checkpointing_offloaded": "Keep the checkpoints in the host's memory (offloaded).",
    "fused_loss": "Fuse or chunk the loss (Liger, cut cross entropy): the logits of all tokens are never held at once.",
    "optimizer_adamw_8bit": "AdamW with states in 8 bits (bitsandbytes).",
    "optimizer_paged_adamw_8bit": "Paged AdamW in 8 bits: its states lie in the host's memory where the device has no room.",
    "precision_bf16": "Train in pure bf16 without master weights; small updates are rounded away.",
    "micro_batch": "Micro-batches of {micro_batch}, {accumulation} of them accumulated.",
    "sequence": "Sequences of {sequence_tokens:,} tokens.",
    "attention": "A fused attention kernel (sdpa) instead of eager.",
    "shard_2": "Share weights, gradients and states over 2 devices (FSDP).",
    "shard_8": "Share weights, gradients and states over 8 devices (FSDP).",
}


def change_sentence(code: str, request: Mapping[str, Any]) -> str:
    """What to change, in words.

    Args:
        code: of the change.
        request: the request after the change, by field.
    """
    return CHANGES[code].format_map(request)
