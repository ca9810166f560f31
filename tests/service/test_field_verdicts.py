"""Threads in which people say what ran and what did not: each is asked of its endpoint. Read 2026-11 on GitHub.

VEnhancer (issue 4: 2 s of 720p take over 40 GB) is missing: it is not stored for diffusers, so no endpoint says anything about its size.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from written import ask

from lib.catalog import load
from lib.service.compare_gpu_tpu import compare_gpu_tpu
from lib.service.endpoint import App
from lib.service.estimate_training import estimate_training
from lib.service.memory import solve
from lib.service.models import Models

APP = App(catalog=load, models=Models())
TRAIN, SOLVE, COMPARE = ask(estimate_training, APP), ask(solve, APP), ask(compare_gpu_tpu, APP)
STARCODER = json.dumps(
    {
        "model_type": "gpt_bigcode", "architectures": ["GPTBigCodeForCausalLM"], "n_embd": 6144, "n_layer": 40, "n_head": 48,
        "n_inner": 24_576, "n_positions": 8192, "vocab_size": 49_152, "multi_query": True, "attention_softmax_in_fp32": True,
    }
)  # fmt: skip
ARIA = json.dumps(
    {
        "model_type": "aria", "architectures": ["AriaForConditionalGeneration"], "image_token_index": 9, "torch_dtype": "bfloat16",
        "text_config": {
            "model_type": "aria_text", "hidden_size": 2560, "intermediate_size": 1664, "num_hidden_layers": 28, "num_attention_heads": 20,
            "num_key_value_heads": 20, "moe_num_experts": 64, "moe_topk": 6, "moe_num_shared_experts": 2, "vocab_size": 100_352,
            "max_position_embeddings": 65_536,
        },
        "vision_config": {
            "model_type": "idefics3_vision", "hidden_size": 1152, "image_size": 980, "intermediate_size": 4304, "num_attention_heads": 16,
            "num_hidden_layers": 27, "patch_size": 14,
        },
    }
)  # fmt: skip


def train(model: str, card: str, **asked: Any) -> str:
    """The verdict of a training on a card; with the number of cards that is asked for."""
    options = TRAIN(model, platforms="own,jobs,spaces", **asked)["options"]
    verdicts = {option["devices"]: option["verdict"] for option in options if option["accelerator"] == card}
    return str(verdicts[asked.get("devices", 1)])


def serve(model: str, hardware: str, **asked: Any) -> str:
    """Whether a server holds the model; "no" too where the answer warns that weights are whole while they are quantized."""
    answer = SOLVE(model, hardware, **asked)
    loads = asked.get("precision") != "int8" or all(caveat["code"] != "whole_while_loading" for caveat in answer["caveats"])
    return "fits" if answer["fits"] and loads else "no"


def runs_on_tpu(model: str, generation: str) -> str:
    """Whether vLLM is known to run the model on a generation of TPU."""
    (row,) = (row for row in COMPARE(model)["generations"] if row["id"] == generation)
    return "no" if row["support"] == "failing" else "fits"


LLAMA_70B, QWEN_7B, QWEN_3B = "meta-llama/Llama-3.3-70B-Instruct", "Qwen/Qwen2.5-7B-Instruct", "Qwen/Qwen2.5-3B-Instruct"
GEMMA: dict[str, Any] = {
    "method": "lora-8bit", "rank": 8, "optimizer": "adamw_8bit", "accumulation": 4, "stack": "unsloth", "packing": True, "fused_loss": "no",
}  # fmt: skip
"""unsloth#2366: rows of 28,000 tokens are cut to the limit, so all are of one length."""
GRPO_3B: dict[str, Any] = {
    "method": "full", "objective": "grpo", "precision": "bf16", "attention": "flash", "sharding": "zero3_offload", "devices": 8,
    "micro_batch": 8, "accumulation": 1, "generations": 8, "sequence_tokens": 8392, "completion_tokens": 200, "tokens_per_row": 8192,
    "beta": 0.04,
}  # fmt: skip
"""xiaomi-research/time-r1, scripts/posttrain/train_rl.sh; the decoder of Qwen2.5-VL-3B is that of Qwen2.5-3B."""
GRPO_7B: dict[str, Any] = {
    "method": "full", "objective": "grpo", "precision": "bf16", "checkpointing": "none", "sharding": "ddp", "devices": 4, "accumulation": 1,
    "generations": 2, "sequence_tokens": 768, "completion_tokens": 512, "beta": 0.04,
}  # fmt: skip
FULL_7B: dict[str, Any] = {"method": "full", "devices": 4, "stack": "transformers", "sequence_tokens": 128, "accumulation": 1}
SIX_CARDS: dict[str, Any] = {"precision": "fp8", "engine": "vllm", "serving": {"tensor_parallel": 2, "pipeline_parallel": 3}}


def wrong(reason: str, *case: Any, name: str) -> Any:
    """A verdict that is wrong today, with the reason."""
    return pytest.param(*case, id=name, marks=pytest.mark.xfail(strict=True, reason=reason))


def case(name: str, *values: Any) -> Any:
    """A verdict that must be right."""
    return pytest.param(*values, id=name)


RAN, FAILED = {"fits", "risky"}, {"no", "risky"}
VERDICTS = [
    case("LlamaFactory#4559, 4 × A10G", train, (LLAMA_70B, "A10G"),
         {"method": "qlora", "sequence_tokens": 1024, "sharding": "ddp", "devices": 4}, {"no"}),
    case("LlamaFactory#4559, 48 GB", train, (LLAMA_70B, "L40S"), {"method": "qlora", "sequence_tokens": 1024}, RAN),
    case("Aria#24, 4 × L40S", serve, (ARIA, "L40Sx4"), {"engine": "vllm", "precision": "bf16", "context_tokens": 65_536}, RAN),
    wrong(
        "Weights take 11.8 of 22 GiB a card. vLLM 0.6 loaded the model and ended at the first prompt; the thread names no cause.",
        serve, (ARIA, "L4x4"), {"engine": "vllm", "precision": "bf16", "context_tokens": 65_536}, FAILED, name="Aria#24, 4 × L4",
    ),
    case("starcoder#103, 6,000 tokens", train, (STARCODER, "A100-SXM4-80GB"),
         {"method": "lora-8bit", "sequence_tokens": 6000, "stack": "transformers", "attention": "eager"}, RAN),
    wrong(
        "With dropout masks and scores it takes 60 of 79 GiB. The run of 2023 ended out of memory; what took the rest is not known.",
        train, (STARCODER, "A100-SXM4-80GB"),
        {"method": "lora-8bit", "sequence_tokens": 8192, "stack": "transformers", "attention": "eager"}, FAILED,
        name="starcoder#103, 8,192 tokens",
    ),
    case("unsloth#2366, 14,000 tokens", train, ("google/gemma-3-12b-it", "H100-SXM"), {**GEMMA, "sequence_tokens": 14_000}, RAN),
    case("unsloth#2366, 15,000 tokens", train, ("google/gemma-3-12b-it", "H100-SXM"), {**GEMMA, "sequence_tokens": 15_000}, FAILED),
    wrong(
        "With today's fused loss of Unsloth it fits. The release of 2025-04 agrees only if it held the logits (262,144 entries, 44 GiB).",
        train, ("google/gemma-3-12b-it", "H100-SXM"), {**GEMMA, "sequence_tokens": 15_000, "fused_loss": "auto"}, FAILED,
        name="unsloth#2366, 15,000 tokens, fused loss",
    ),
    case("vllm#9331, 8 × v5e, quantized while loading", serve, (LLAMA_70B, "v5litepod-8"),
         {"precision": "int8", "engine": "vllm-tpu"}, FAILED),
    case("time-r1#6, 80 GB", train, (QWEN_3B, "A100-SXM4-80GB"), GRPO_3B, RAN),
    case("time-r1#6, 48 GB", train, (QWEN_3B, "L40S"), GRPO_3B, {"no"}),
    case("trl#2972, 4 × H20", train, (QWEN_7B, "H20"), GRPO_7B, FAILED),
    case("OpenRLHF#424, ZeRO-3", train, ("Qwen/Qwen2-7B-Instruct", "RTX-4090"), {**FULL_7B, "sharding": "zero3"}, {"no"}),
    case("OpenRLHF#424, with offload", train, ("Qwen/Qwen2-7B-Instruct", "RTX-4090"), {**FULL_7B, "sharding": "zero3_offload"}, RAN),
    wrong(
        "The language model alone fits an L4. Kimi-Audio's program also loads Whisper and a detokenizer, which its config does not name.",
        serve, ("9.77B", "l4x1"), {"precision": "bf16"}, FAILED, name="Kimi-Audio#39, L4",
    ),
    case("rtx6kpro#7, six RTX PRO 6000 as TP2 × PP3", serve,
         ("Qwen/Qwen3.5-397B-A17B", "RTX-PRO-6000-Blackwell-Workstationx6"), SIX_CARDS, RAN),
    wrong(
        "vLLM 0.8.3 captured graphs outside its share, in the 0.44 GiB that 0.98 leaves; since 0.21 the share includes them.",
        serve, ("google/gemma-3-27b-it", "A10G"),
        {"precision": "awq-4", "engine": "vllm", "context_tokens": 128, "serving": {"gpu_memory_utilization": 0.98}}, FAILED,
        name="vllm#16199, A10G at 0.98",
    ),
    case("tpu-inference#2453, v5e", runs_on_tpu, ("google/gemma-4-26B-A4B-it", "v5e"), {}, FAILED),
]  # fmt: skip


@pytest.mark.parametrize(("endpoint", "subject", "asked", "expected"), VERDICTS)
def test_verdicts_of_threads(endpoint: Callable[..., str], subject: tuple[str, str], asked: dict[str, Any], expected: set[str]) -> None:
    """A run that worked is not called too large; a run that ended for want of memory does not "fit"."""
    assert endpoint(*subject, **asked) in expected
