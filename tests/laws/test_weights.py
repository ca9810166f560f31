"""Bytes of weights: against what transformers really holds, against published checkpoints, and by hand."""

from __future__ import annotations

import gzip
import json
import math
from dataclasses import replace
from importlib.resources import files
from typing import Any

import pytest
import torch
import transformers
from hypothesis import given
from hypothesis import strategies as st
from model_facts import LLAMA, config, facts
from transformers import FineGrainedFP8Config
from transformers.integrations.mxfp4 import Mxfp4GptOssExperts
from transformers.quantizers.auto import AutoHfQuantizer

from lib.laws.weights import BLOCKS, GgufShape, bytes_by_group_gguf, rule_of_thumb_bytes, weight_bytes
from lib.model.build import build
from lib.model.checkpoint import read_quantization, skip_test
from lib.model.parameters import group_parameters
from lib.model.spec import TensorGroup
from lib.precision import GGUF_TYPES, NAMES, weight_format

MIXTRAL: dict[str, Any] = {
    "model_type": "mixtral", "architectures": ["MixtralForCausalLM"], "hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "num_local_experts": 4, "vocab_size": 300,
}  # fmt: skip
T5: dict[str, Any] = {
    "model_type": "t5", "architectures": ["T5ForConditionalGeneration"], "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2,
    "num_heads": 4, "vocab_size": 128, "tie_word_embeddings": False, "feed_forward_proj": "gated-gelu",
}  # fmt: skip
JAMBA: dict[str, Any] = {
    "model_type": "jamba", "architectures": ["JambaForCausalLM"], "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 8,
    "num_attention_heads": 4, "num_key_value_heads": 2, "num_experts": 4, "vocab_size": 128, "mamba_dt_rank": 4, "use_mamba_kernels": False,
}  # fmt: skip
BERT: dict[str, Any] = {
    "model_type": "bert", "architectures": ["BertModel"], "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2,
    "intermediate_size": 64, "vocab_size": 100,
}  # fmt: skip


def parameter_bytes(model: torch.nn.Module) -> int:
    """Bytes of all parameters, each once."""
    return sum(p.numel() * p.element_size() for p in model.parameters())


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
@pytest.mark.parametrize("small", [LLAMA, MIXTRAL, T5, JAMBA, BERT], ids=lambda c: c["model_type"])
def test_plain_bytes_equal_a_real_load(small: dict[str, Any], dtype: str, tmp_path: Any) -> None:
    """A small random checkpoint, written and loaded by transformers in this dtype, holds exactly these bytes."""
    built = build(small)
    kind = getattr(transformers, built.architecture)
    model = kind(built.config)
    if small is T5:  # the published files hold both matrices
        model.config.tie_word_embeddings = False
        model.lm_head.weight = torch.nn.Parameter(torch.randn_like(model.shared.weight))
    model.save_pretrained(tmp_path)
    loaded = kind.from_pretrained(tmp_path, dtype=getattr(torch, dtype))
    name = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}[dtype]
    assert weight_bytes(group_parameters(built), weight_format(name)) == parameter_bytes(loaded)


@pytest.mark.parametrize(
    ("name", "listed"),
    [
        ("Qwen/Qwen3-8B-FP8", None),
        ("XiaomiMiMo/MiMo-V2-Flash", None),
        ("MiniMaxAI/MiniMax-M2.5", None),
        ("deepseek-ai/DeepSeek-R1", None),
        ("deepseek-ai/DeepSeek-V3.2", ["lm_head", "model.layers.3", "mlp.shared_experts"]),
    ],
)
def test_fp8_bytes_equal_the_quantizer_run_on_the_meta_device(name: str, listed: list[str] | None) -> None:
    """The library's own replacement of modules, on the real architecture, gives the same bytes to the last scale."""
    found = json.loads(json.dumps(config(name)))
    found["quantization_config"] |= {"modules_to_not_convert": listed} if listed else {}
    quantization, _told = read_quantization(found)
    assert quantization is not None
    said = {k: v for k, v in found["quantization_config"].items() if k not in {"quant_method", "fmt"}}
    built = build(found)
    tensors = group_parameters(built, skip_test(quantization, built.model))
    law = weight_bytes(tensors, weight_format(quantization.format), stored=True)

    quantizer = AutoHfQuantizer.from_config(FineGrainedFP8Config(**said), pre_quantized=True)
    with torch.device("meta"):
        quantizer._process_model_before_weight_loading(built.model)
    biases = sum(p.numel() * 2 for n, p in built.model.named_parameters() if n.endswith(".bias") and p.dtype is torch.float32)
    assert law == parameter_bytes(built.model) - biases  # the empty replacements hold biases in torch's default until they are loaded


def test_mxfp4_bytes_equal_the_module_of_transformers() -> None:
    """Experts of gpt-oss-20b: packed weights and biases as the library's own module declares them, and a scale byte per 32."""
    built = build(config("openai/gpt-oss-20b"))
    experts = [g for g in group_parameters(built) if g.kind == "expert"]
    with torch.device("meta"):
        module = Mxfp4GptOssExperts(built.config)
    scales = sum(p.numel() * 2 // 32 for n, p in module.named_parameters() if not n.endswith("bias"))
    assert weight_bytes(experts, weight_format("mxfp4"), stored=True) == 24 * (parameter_bytes(module) + scales)


def quantized_groups(name: str) -> tuple[list[TensorGroup], str]:
    """The matrices that a published checkpoint stores quantized, and the format."""
    lines = gzip.decompress(files("lib.data").joinpath("model_configs.jsonl.gz").read_bytes()).decode().splitlines()
    record = next(r for r in map(json.loads, lines) if r["hub_id"] == name)
    quantization, _told = read_quantization(record["config"], record.get("hf_quant_config"))
    assert quantization is not None
    built = build(record["config"])
    tensors = group_parameters(built, skip_test(quantization, built.model))
    matrices = [g for g in tensors if not g.skipped and (g.kind == "linear" or (g.kind == "expert" and not g.name.endswith("bias")))]
    return matrices, quantization.format


def test_published_elements_of_fp8() -> None:
    """Qwen3-8B-FP8 stores 423,936 elements beside its weights: one scale per 128 × 128 block of every matrix."""
    matrices, form = quantized_groups("Qwen/Qwen3-8B-FP8")
    assert form == "fp8-block"
    scales = sum(g.count * math.ceil(g.shape[0] / 128) * math.ceil(g.shape[1] / 128) for g in matrices)
    assert scales == facts()["Qwen/Qwen3-8B-FP8"]["published"]["difference"] == 423_936


def test_published_elements_of_mxfp4() -> None:
    """gpt-oss-20b stores 597,196,800 elements too many: a scale byte per 32 weights of its experts."""
    matrices, _form = quantized_groups("openai/gpt-oss-20b")
    experts = sum(g.parameters for g in matrices if g.kind == "expert")
    assert experts // 32 == facts()["openai/gpt-oss-20b"]["published"]["difference"] == 597_196_800


def test_published_elements_of_nvfp4() -> None:
    """Nemotron 3 Nano NVFP4: half an element a weight, a scale a 16, two scales a matrix, an excluded list with the published names.

    Published 18,237,772,608 elements; the law gives them up to what the producer stores besides (0.01 %).
    """
    name = "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-NVFP4"
    matrices, form = quantized_groups(name)
    quantized = sum(g.parameters for g in matrices)
    one_by_one = sum(g.count * (g.shape[0] if len(g.shape) == 3 else 1) for g in matrices)
    stored = facts()[name]["parameters"] - quantized + quantized // 2 + quantized // 16 + 2 * one_by_one
    assert form == "nvfp4"
    assert stored == pytest.approx(facts()[name]["published"]["total"], rel=1e-4)


def test_published_elements_of_int4() -> None:
    """Kimi K2.5: 31.71 billion scales, one per 32 weights of its routed experts (0.01 % are three shape entries a matrix)."""
    matrices, form = quantized_groups("moonshotai/Kimi-K2.5")
    experts = sum(g.parameters for g in matrices if g.kind == "expert")
    assert form == "int4-group"
    assert experts / 32 == pytest.approx(facts()["moonshotai/Kimi-K2.5"]["published"]["difference"], rel=1e-4)


@pytest.mark.parametrize(
    ("kind", "gib"),
    [("Q2_K", 2.95), ("Q3_K_S", 3.41), ("Q3_K_M", 3.74), ("Q3_K_L", 4.02), ("Q4_K_S", 4.36), ("Q4_K_M", 4.58), ("Q5_K_S", 5.21),
     ("Q5_K_M", 5.33), ("Q6_K", 6.14), ("Q8_0", 7.95), ("F16", 14.96)],
)  # fmt: skip
def test_llama_cpp_sizes_of_llama_3_1_8b(kind: str, gib: float) -> None:
    """The sizes that llama.cpp's own `quantize` documentation prints for Llama 3.1 8B, to the printed digit."""
    tensors = group_parameters(build(config("meta-llama/Llama-3.1-8B-Instruct")))
    assert round(sum(bytes_by_group_gguf(tensors, kind, GgufShape(layers=32, queries_per_kv=4, experts=0))) / 2**30, 2) == gib


def test_block_types_are_those_of_ggml() -> None:
    """Weights and bytes of every block type equal the table of the `gguf` package."""
    gguf = pytest.importorskip("gguf")
    sizes = {kind.name: tuple(size) for kind, size in gguf.GGML_QUANT_SIZES.items()}
    assert sizes == BLOCKS


def matrix(rows: int, columns: int, **changes: Any) -> TensorGroup:
    """One convertible matrix of a language model."""
    plain = TensorGroup(
        name="model.layers.*.mlp.up_proj.weight",
        component="language_model",
        kind="linear",
        shape=(rows, columns),
        count=1,
        convertible=True,
    )
    return replace(plain, **changes)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("bf16", 4096 * 4096 * 2),
        ("fp8-block", 4096 * 4096 + 32 * 32 * 4),
        ("fp8-channel", 4096 * 4096 + 4096 * 4),
        ("fp8-tensor", 4096 * 4096 + 8),
        ("bnb-int8", 4096 * 4096 + 4096 * 4),
        ("bnb-nf4", 4096 * 4096 // 2 + 4096 * 64 * 4),
        ("bnb-nf4-double", 4096 * 4096 // 2 + 4096 * 64 + 4 * 1024 + 4),
        ("gptq-4", 4096 * 4096 // 2 + 2 * 4096 * 32 + 4 * 512 * 32 + 4 * 4096),
        ("awq-4", 4096 * 4096 // 2 + 2 * 4096 * 32 + 4 * 512 * 32),
        ("int4-group", 4096 * 4096 // 2 + 2 * 4096 * 32 + 16),
        ("mxfp4", 4096 * 4096 // 2 + 4096 * 128),
        ("nvfp4", 4096 * 4096 // 2 + 4096 * 256 + 8),
    ],
)
def test_one_matrix_by_hand(name: str, expected: int) -> None:
    """A 4096 × 4096 matrix: payload, then scales, zeros and indices as each layout keeps them."""
    assert weight_bytes([matrix(4096, 4096)], weight_format(name)) == expected


def test_what_a_format_leaves_stays_in_half_precision() -> None:
    """Head, embedding and norm keep two bytes; bitsandbytes leaves fused experts too, fp8 takes them."""
    rest = [matrix(64, 32, kind="head"), matrix(64, 32, kind="embedding"), matrix(64, 1, kind="norm", shape=(64,))]
    experts = [matrix(8, 8, kind="expert", shape=(4, 64, 64), experts=4, experts_per_token=2)]
    assert weight_bytes(rest, weight_format("bnb-nf4")) == 2 * sum(g.parameters for g in rest)
    assert weight_bytes(experts, weight_format("bnb-nf4")) == 2 * 4 * 64 * 64
    assert weight_bytes(experts, weight_format("fp8-block")) == 4 * 64 * 64 + 4 * 4
    vision = [matrix(64, 64, component="vision_tower")]
    assert weight_bytes(vision, weight_format("awq-4")) == 2 * 64 * 64


@given(
    st.sampled_from([n for n in NAMES if n not in {"auto", "fp32"} and not n.startswith("gguf:")]), st.integers(1, 40), st.integers(1, 40)
)
def test_bytes_grow_with_the_model_and_stay_below_float32(name: str, rows: int, columns: int) -> None:
    """Twice the tensors are twice the bytes, and no format costs more than 32-bit floats for matrices of usual size."""
    form = weight_format(name)
    one = weight_bytes([matrix(64 * rows, 128 * columns)], form)
    assert weight_bytes([matrix(64 * rows, 128 * columns, count=2)], form) == 2 * one
    assert 0 < one < 4 * 64 * rows * 128 * columns


@pytest.mark.parametrize("kind", [kind for kind, _bits in GGUF_TYPES])
def test_every_file_type_has_a_size_between_one_and_thirty_two_bits(kind: str) -> None:
    """On a model whose rows no block divides, the fallbacks still give a size."""
    for width in (4096, 96, 80, 7):
        size = sum(bytes_by_group_gguf([matrix(128, width)], kind, GgufShape(layers=1, queries_per_kv=1, experts=0)))
        assert 128 * width * 2 // 8 < size <= 128 * width * 4


@pytest.mark.parametrize(
    ("parameters", "gigabytes"), [(124_000_000, 0.3), (8_000_000_000, 19), (70_000_000_000, 168), (47_000_000_000, 113)]
)
def test_examples_of_the_guide(parameters: int, gigabytes: float) -> None:
    """P · 2 · 1.2 in GB, as printed: GPT-2 0.298, Llama-3-8B 19.2, Llama-3-70B 168, Mixtral-8x7B 112.8."""
    exact = rule_of_thumb_bytes(parameters) / 10**9
    assert round(exact, 1 if gigabytes < 1 else 0) == gigabytes
