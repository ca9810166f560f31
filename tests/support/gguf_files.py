"""GGUF files for the Hub stand-in: headers from gguf's own writer, tensors of the real size that are never written."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from gguf import GGMLQuantizationType, GGUFWriter
from gguf.quants import quant_shape_to_byte_shape
from hub_stand_in import Blob

Shapes = Mapping[str, tuple[str, tuple[int, ...]]]
"""Type and shape, in torch's order, by the tensor's name."""


def gguf_file(architecture: str, keys: Mapping[str, Any], tensors: Shapes) -> Blob:
    """A file of these keys ("block_count" is that of the architecture) and tensors, zeros for the data."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.gguf"
        writer = GGUFWriter(path, architecture)
        for name, value in keys.items():
            full_key = name if name.startswith(("general.", "split.")) else f"{architecture}.{name}"
            if isinstance(value, list):
                writer.add_array(full_key, value)
            elif isinstance(value, str):
                writer.add_string(full_key, value)
            elif isinstance(value, bool):
                writer.add_bool(full_key, value)
            else:
                writer.add_uint32(full_key, value)
        writer.add_token_list(["a", "b", "c"])
        size = 0
        for name, (dtype, shape) in tensors.items():
            kind = GGMLQuantizationType[dtype]
            byte_shape = quant_shape_to_byte_shape(shape, kind) if dtype not in {"F32", "F16"} else shape
            size += int(np.prod(byte_shape)) * {"F32": 4, "F16": 2}.get(dtype, 1)
            storage_dtype = np.dtype({"F32": np.float32, "F16": np.float16}.get(dtype, np.uint8))
            writer.add_tensor_info(
                name,
                list(byte_shape),
                storage_dtype,
                int(np.prod(byte_shape)) * storage_dtype.itemsize,
                raw_dtype=None if dtype in {"F32", "F16"} else kind,
            )
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_ti_data_to_file()
        writer.close()
        head = path.read_bytes()
    return Blob(head=head, size=len(head) + size)


def decoder(
    layers: int, hidden: int, heads: int, kv_heads: int, width: int, inner: int, vocabulary: int, *, dtype: str = "Q8_0", tied: bool = False
) -> dict[str, tuple[str, tuple[int, ...]]]:
    """The tensors of a plain decoder; vectors in F32."""
    tensors: dict[str, tuple[str, tuple[int, ...]]] = {
        "token_embd.weight": (dtype, (vocabulary, hidden)),
        "output_norm.weight": ("F32", (hidden,)),
    }
    if not tied:
        tensors["output.weight"] = (dtype, (vocabulary, hidden))
    for layer in range(layers):
        tensors |= {
            f"blk.{layer}.attn_norm.weight": ("F32", (hidden,)),
            f"blk.{layer}.attn_q.weight": (dtype, (heads * width, hidden)),
            f"blk.{layer}.attn_k.weight": (dtype, (kv_heads * width, hidden)),
            f"blk.{layer}.attn_v.weight": (dtype, (kv_heads * width, hidden)),
            f"blk.{layer}.attn_output.weight": (dtype, (hidden, heads * width)),
            f"blk.{layer}.ffn_norm.weight": ("F32", (hidden,)),
            f"blk.{layer}.ffn_gate.weight": (dtype, (inner, hidden)),
            f"blk.{layer}.ffn_up.weight": (dtype, (inner, hidden)),
            f"blk.{layer}.ffn_down.weight": (dtype, (hidden, inner)),
        }
    return tensors


def decoder_keys(layers: int, hidden: int, heads: int, kv_heads: int, width: int, inner: int, context: int, **more: Any) -> dict[str, Any]:
    """The keys of a plain decoder, with changes; two underscores stand for a dot."""
    return {
        "block_count": layers, "embedding_length": hidden, "attention.head_count": heads, "attention.head_count_kv": kv_heads,
        "attention.key_length": width, "attention.value_length": width, "feed_forward_length": inner, "context_length": context,
    } | {name.replace("__", "."): value for name, value in more.items()}  # fmt: skip


def qwen3_8b(dtype: str = "Q8_0", file_type: int = 7) -> Blob:
    """Qwen3-8B."""
    keys = decoder_keys(36, 4096, 32, 8, 128, 12_288, 40_960, general__file_type=file_type)
    return gguf_file("qwen3", keys, decoder(36, 4096, 32, 8, 128, 12_288, 151_936, dtype=dtype))


def qwen3_06b(dtype: str = "Q8_0", file_type: int = 7) -> Blob:
    """Qwen3-0.6B, whose output is its table."""
    keys = decoder_keys(28, 1024, 16, 8, 128, 3072, 40_960, general__file_type=file_type)
    return gguf_file("qwen3", keys, decoder(28, 1024, 16, 8, 128, 3072, 151_936, dtype=dtype, tied=True))


def gemma_3_12b() -> Blob:
    """gemma-3-12b: five of six layers slide; its file says the window and not which layers."""
    keys = decoder_keys(48, 3840, 16, 8, 256, 15_360, 131_072, attention__sliding_window=1024, general__file_type=7)
    return gguf_file("gemma3", keys, decoder(48, 3840, 16, 8, 256, 15_360, 262_208, tied=True))


def gpt_oss_20b() -> Blob:
    """gpt-oss-20b: every other layer slides; 32 experts in MXFP4, of which a token reaches 4."""
    keys = decoder_keys(
        24, 2880, 64, 8, 64, 2880, 131_072, attention__sliding_window=128, expert_count=32, expert_used_count=4,
        expert_feed_forward_length=2880, general__file_type=38,
    )  # fmt: skip
    tensors = {name: row for name, row in decoder(24, 2880, 64, 8, 64, 2880, 201_088).items() if ".ffn_" not in name or "norm" in name}
    for layer in range(24):
        tensors |= {f"blk.{layer}.ffn_{part}_exps.weight": ("MXFP4", (32, 2880, 2880)) for part in ("gate", "up", "down")}
        tensors[f"blk.{layer}.ffn_gate_inp.weight"] = ("F32", (32, 2880))
    return gguf_file("gpt-oss", keys, tensors)


def deepseek_v3() -> Blob:
    """DeepSeek-V3: latent attention of 512 + 64 elements, 256 experts of which a token reaches 8."""
    layers, hidden, heads = 61, 7168, 128
    keys = decoder_keys(
        layers, hidden, heads, 1, 576, 18_432, 163_840, attention__kv_lora_rank=512, attention__q_lora_rank=1536,
        rope__dimension_count=64, attention__key_length_mla=192, attention__value_length_mla=128, expert_count=256, expert_used_count=8,
        expert_feed_forward_length=2048, leading_dense_block_count=3, general__file_type=7,
    )  # fmt: skip
    tensors: dict[str, tuple[str, tuple[int, ...]]] = {
        "token_embd.weight": ("Q8_0", (129_280, hidden)), "output.weight": ("Q8_0", (129_280, hidden)),
        "output_norm.weight": ("F32", (hidden,)),
    }  # fmt: skip
    for layer in range(layers):
        tensors |= {
            f"blk.{layer}.attn_q_a.weight": ("Q8_0", (1536, hidden)),
            f"blk.{layer}.attn_q_b.weight": ("Q8_0", (heads * 192, 1536)),
            f"blk.{layer}.attn_kv_a_mqa.weight": ("Q8_0", (576, hidden)),
            f"blk.{layer}.attn_k_b.weight": ("Q8_0", (heads, 512, 128)),
            f"blk.{layer}.attn_v_b.weight": ("Q8_0", (heads, 128, 512)),
            f"blk.{layer}.attn_output.weight": ("Q8_0", (hidden, heads * 128)),
        }
        inner = 18_432 if layer < 3 else 2048
        dense = "" if layer < 3 else "_shexp"
        tensors |= {f"blk.{layer}.ffn_{part}{dense}.weight": ("Q8_0", (inner, hidden)) for part in ("gate", "up")}
        tensors[f"blk.{layer}.ffn_down{dense}.weight"] = ("Q8_0", (hidden, inner))
        if layer >= 3:
            tensors |= {f"blk.{layer}.ffn_{part}_exps.weight": ("Q8_0", (256, 2048, hidden)) for part in ("gate", "up")}
            tensors[f"blk.{layer}.ffn_down_exps.weight"] = ("Q8_0", (256, hidden, 2048))
            tensors[f"blk.{layer}.ffn_gate_inp.weight"] = ("F32", (256, hidden))
    return gguf_file("deepseek2", keys, tensors)
