"""The calls whose answers `scripts.write_answers` records: names of endpoints and their arguments, nothing of the program itself.

A model that starts with "config:" means a pasted config.json of `CONFIGS`; `paste_config` gives its text. Variations rotate through
their lists by the position of a model, so that every value is met while the number of calls stays small; the same lists give the same
calls on every machine and day.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Call = tuple[str, dict[str, Any]]
"""Endpoint and arguments."""


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


LLAMA = "meta-llama/Llama-3.1-8B-Instruct"
CONFIG = "config:"
FAMILIES = (
    LLAMA,
    "Qwen/Qwen3-30B-A3B",
    "google/gemma-3-27b-it",
    "deepseek-ai/DeepSeek-V3",
    "ibm-granite/granite-4.0-h-small",
    "openai/whisper-large-v3",
    "google/flan-t5-xxl",
    "BAAI/bge-large-en",
    "openai/gpt-oss-20b",
    "black-forest-labs/FLUX.1-dev",
    "Qwen/Qwen3-VL-8B-Instruct",
    "openai/clip-vit-base-patch16",
)
COUNTS = ("7B", "350M", "70B", "1.5B", "405B", "22M", "1T")
ENGINES = ("transformers", "vllm", "sglang", "tensorrt-llm", "tgi", "tei", "llama.cpp", "vllm-tpu")
MODES = ("inference", "lora", "qlora", "full")
PRECISIONS = ("auto", "fp32", "fp16", "bf16", "fp8", "int8", "int4")
FORMATS = _words(
    "fp8-block fp8-block-e8m0 fp8-channel fp8-tensor int8-channel bnb-int8 bnb-nf4 bnb-nf4-double bnb-fp4 gptq-4 gptq-8 awq-4 int4-group "
    "mxfp4 nvfp4 gguf:F32 gguf:F16 gguf:BF16 gguf:Q8_0 gguf:Q6_K gguf:Q5_K_M gguf:Q5_K_S gguf:Q5_1 gguf:Q5_0 gguf:Q4_K_M gguf:Q4_K_S "
    "gguf:Q4_1 gguf:Q4_0 gguf:IQ4_NL gguf:IQ4_XS gguf:Q3_K_L gguf:Q3_K_M gguf:IQ3_M gguf:IQ3_S gguf:Q3_K_S gguf:Q2_K gguf:MXFP4_MOE "
    "bfloat16 Q4_K_M"
)
DEVICES = (1, 2, 4, 8, 3, 5)
CONTEXTS = (1, 512, 4096, 32_768, 131_072, 1_000_000)
BATCHES = (1, 8, 64, 256)
SILICON = _words(
    "H100-SXM H100-SXMx8 H200-SXMx4 B200 A100-SXM4-80GBx2 A10G L4 T4 RTX-4090 RTX-3090x2 MI300X TPU-v6ex4 TPU-v5e TPU-v5px8 Inferentia2 "
    "CPU-2vCPU CPU-8vCPU CPU-SPR-48core V100-SXM2 H20x3"
)
PLATFORMS = ("spaces", "zerogpu", "endpoints", "jobs", "tpu", "all", "spaces,jobs", "tpu,endpoints")
ACCOUNTS = ("free", "anonymous", "pro", "team", "enterprise")
PRIORITIES = ("balanced", "cheapest", "fastest")
TASKS = _words(
    "text-generation summarization chat image-text-to-text text-classification fill-mask feature-extraction sentence-similarity "
    "image-classification automatic-speech-recognition text-to-speech text-to-image text-to-video inference-api token-classification "
    "object-detection zero-shot-classification translation depth-estimation text-ranking"
)
_DECODER = {
    "hidden_size": 512,
    "intermediate_size": 1408,
    "num_attention_heads": 8,
    "num_hidden_layers": 6,
    "num_key_value_heads": 2,
    "vocab_size": 32_000,
    "max_position_embeddings": 8192,
}


def _decoder(architecture: str, model_type: str, **own: Any) -> dict[str, Any]:
    return {"architectures": [architecture], "model_type": model_type, **_DECODER, **own}


CONFIGS: Mapping[str, Any] = {
    "llama": _decoder("LlamaForCausalLM", "llama", torch_dtype="bfloat16", tie_word_embeddings=False),
    "qwen3": _decoder("Qwen3ForCausalLM", "qwen3", head_dim=64, dtype="bfloat16"),
    "mistral-window": _decoder("MistralForCausalLM", "mistral", sliding_window=1024, torch_dtype="float16"),
    "gemma2": _decoder("Gemma2ForCausalLM", "gemma2", head_dim=64, sliding_window=512),
    "mixtral": _decoder("MixtralForCausalLM", "mixtral", num_local_experts=4, num_experts_per_tok=2),
    "qwen3-moe": _decoder("Qwen3MoeForCausalLM", "qwen3_moe", head_dim=64, num_experts=8, num_experts_per_tok=2, moe_intermediate_size=256),
    "phi3": _decoder("Phi3ForCausalLM", "phi3", pad_token_id=0, bos_token_id=1, eos_token_id=2),
    "gptq": _decoder("LlamaForCausalLM", "llama", quantization_config={"quant_method": "gptq", "bits": 4, "group_size": 128}),
    "fp8": _decoder("Qwen3ForCausalLM", "qwen3", quantization_config={"quant_method": "fp8", "weight_block_size": [128, 128]}),
    "deepseek": _decoder(
        "DeepseekV3ForCausalLM",
        "deepseek_v3",
        num_key_value_heads=8,
        kv_lora_rank=64,
        q_lora_rank=128,
        qk_nope_head_dim=32,
        qk_rope_head_dim=16,
        v_head_dim=32,
        n_routed_experts=8,
        n_group=2,
        topk_group=1,
        num_experts_per_tok=2,
        moe_intermediate_size=256,
        first_k_dense_replace=1,
    ),
    "gpt2": {"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "n_embd": 256, "n_head": 4, "n_layer": 4, "vocab_size": 5000},
    "bert": {"architectures": ["BertModel"], "model_type": "bert", "hidden_size": 384, "num_attention_heads": 6, "num_hidden_layers": 3},
    "t5": {
        "architectures": ["T5ForConditionalGeneration"],
        "model_type": "t5",
        "d_model": 256,
        "d_ff": 1024,
        "num_layers": 3,
        "num_heads": 4,
    },
    "whisper": {
        "architectures": ["WhisperForConditionalGeneration"],
        "model_type": "whisper",
        "d_model": 256,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "encoder_attention_heads": 4,
        "decoder_attention_heads": 4,
    },
    "mamba": {"architectures": ["MambaForCausalLM"], "model_type": "mamba", "hidden_size": 256, "num_hidden_layers": 4, "vocab_size": 5000},
    "vit": {"architectures": ["ViTForImageClassification"], "model_type": "vit", "hidden_size": 192, "num_attention_heads": 3},
    "empty": {},
    "no-class": {"model_type": "nonsense"},
    "remote-code": _decoder("OwnForCausalLM", "own", auto_map={"AutoModelForCausalLM": "modeling_own.OwnForCausalLM"}),
    "negative": _decoder("LlamaForCausalLM", "llama") | {"hidden_size": -512},
    "text-layers": _decoder("LlamaForCausalLM", "llama") | {"num_hidden_layers": "many"},
    "huge": _decoder("LlamaForCausalLM", "llama") | {"num_hidden_layers": 10_000_000},
    "indivisible": _decoder("LlamaForCausalLM", "llama") | {"num_attention_heads": 7},
}
BAD_MODELS: tuple[Any, ...] = (
    *("", "   ", "7X", "-7B", "0B", "{", "[]", "{}x", "null", "../secret", "a/b/c", "no/such-model", "ünïcode/mödel", "a" * 500, "x\x00y"),
    *("meta-llama/Llama-3.1-8B-Instruc", "https://huggingface.co/Qwen/Qwen3-8B", "llama", None, 7, True, [], {}, 1.5),
)
BAD_VALUES: tuple[Any, ...] = (None, True, "many", "", -1, 0, 1.5, 10**12, float("nan"), [1], {"a": 1}, "x" * 300)
DEFAULTS: Mapping[str, dict[str, Any]] = {
    "estimate_memory": {"model": LLAMA},
    "tensors": {"model": LLAMA},
    "estimate_speed": {"model": LLAMA, "hardware": "l4x1"},
    "estimate_cost": {"hardware": "l4x1"},
    "recommend": {"model": LLAMA},
    "list_hardware": {},
    "estimate_training": {"model": LLAMA},
    "simulate_batching": {"model": LLAMA, "hardware": "l4x1", "duration_s": 20},
    "diagnose_latency": {"model": LLAMA, "hardware": "l4x1"},
    "solve": {"model": LLAMA, "hardware": "l4x1"},
}
ARGUMENTS: Mapping[str, str] = {
    "estimate_memory": "precision engine context_tokens batch_size kv_precision mode devices encoder_tokens width height frames "
    "guidance offload vae_tiling vae_slicing quantized images image_width image_height audio_seconds",
    "tensors": "precision engine quantized",
    "estimate_speed": "hardware precision engine prompt_tokens output_tokens concurrency",
    "estimate_cost": "hardware hours_per_day days_per_month replicas requests_per_day sleep_after_s storage_gb account model precision "
    "engine prompt_tokens output_tokens concurrency provider_usd_per_million_output_tokens region",
    "recommend": "task context_tokens concurrency requests_per_day hours_per_day precision account max_usd_per_month min_tokens_per_s "
    "priority platforms",
    "list_hardware": "platform include_retired",
    "estimate_training": "method rank target_modules optimizer precision checkpointing attention sequence_tokens packing micro_batch "
    "accumulation stack fused_loss sharding devices rows tokens_per_row epochs platforms",
    "simulate_batching": "hardware policy requests_per_s prompt_tokens output_tokens max_batch_size timeout_s duration_s seed precision "
    "arrivals burstiness clients trace capacity engine lengths spread replicas cold_start_s scale_to_zero_after_s concurrency_limit "
    "shared_prefix_tokens token_budget max_ttft_s max_tpot_s",
    "diagnose_latency": "hardware preprocess_ms queue_ms transfer_ms ttft_ms tpot_ms postprocess_ms metrics_text precision engine "
    "prompt_tokens output_tokens concurrency",
    "solve": "hardware context_tokens concurrency max_ttft_s min_tokens_per_s precision kv_precision engine output_tokens gpu_layers "
    "platforms",
}


def paste_config(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments with the text of the config.json in place of its name."""
    model = arguments.get("model")
    if not isinstance(model, str) or not model.startswith(CONFIG):
        return dict(arguments)
    return {**arguments, "model": json.dumps(CONFIGS[model.removeprefix(CONFIG)])}


def calls(bundled: Sequence[str], hardware: Sequence[str]) -> Iterator[Call]:
    """Every call; `bundled` are ids of models, `hardware` ids of offers with their platform ("jobs:l4x1")."""
    ids = tuple(dict.fromkeys(one.partition(":")[2] for one in hardware))
    yield from _every_model(bundled, ids)
    yield from _memory()
    yield from _speed(ids)
    yield from _cost(hardware)
    yield from _recommend()
    yield from _private(hardware)
    yield from _people()
    yield from _refusals()
    for platform, retired in itertools.product(PLATFORMS, (False, True)):
        yield "list_hardware", {"platform": platform, "include_retired": retired}


def _nth(values: Sequence[Any], index: int) -> Any:
    return values[index % len(values)]


def _every_model(bundled: Sequence[str], hardware: Sequence[str]) -> Iterator[Call]:
    for index, model in enumerate([*bundled, *COUNTS, *(f"{CONFIG}{name}" for name in CONFIGS)]):
        yield "resolve_model", {"model": model}
        yield "estimate_memory", {"model": model}
        varied = {"precision": _nth(PRECISIONS + FORMATS, index), "engine": _nth(ENGINES, index), "devices": _nth(DEVICES, index // 4)}
        sizes = {"context_tokens": _nth(CONTEXTS, index // 2), "batch_size": _nth(BATCHES, index // 3)}
        yield "estimate_memory", {"model": model, **varied, **sizes, "kv_precision": _nth(("auto", "fp8", "bf16", "int8"), index // 5)}
        yield "estimate_memory", {"model": model, "mode": _nth(MODES[1:], index), "devices": _nth(DEVICES, index)}
        yield "estimate_speed", {"model": model, "hardware": "H100-SXM", "engine": "vllm", "concurrency": 8}
        yield "estimate_speed", {"model": model, "hardware": _nth(SILICON, index), "engine": _nth(ENGINES, index // 7)}
        yield "estimate_speed", {"model": model, "hardware": _nth(hardware, 7 * index), "prompt_tokens": 2048, "output_tokens": 64}
        yield "recommend", {"model": model}
        yield "recommend", {"model": model, "priority": _nth(PRIORITIES, index), "platforms": _nth(PLATFORMS, index), "concurrency": 16}


def _memory() -> Iterator[Call]:
    for model, precision, engine in itertools.product(FAMILIES[:4], PRECISIONS + FORMATS, ENGINES):
        yield "estimate_memory", {"model": model, "precision": precision, "engine": engine}
    for model, mode, devices in itertools.product(FAMILIES, MODES, DEVICES):
        yield "estimate_memory", {"model": model, "mode": mode, "devices": devices, "engine": "vllm" if mode == "inference" else ENGINES[0]}
    for model, tokens, batch in itertools.product(FAMILIES, CONTEXTS, BATCHES):
        yield "estimate_memory", {"model": model, "context_tokens": tokens, "batch_size": batch}
    for model, tokens in itertools.product(("openai/whisper-small", "google/flan-t5-base", "facebook/bart-base"), (0, 1, 512, 1500, 9000)):
        yield "estimate_memory", {"model": model, "encoder_tokens": tokens, "context_tokens": 448}
    for model, engine, kv_precision in itertools.product(FAMILIES[:4], ENGINES, PRECISIONS):
        yield "estimate_memory", {"model": model, "engine": engine, "kv_precision": kv_precision, "context_tokens": 16_384}


def _speed(hardware: Sequence[str]) -> Iterator[Call]:
    for model, hardware_name in itertools.product((LLAMA, FAMILIES[1]), (*hardware, *SILICON)):
        engine = "vllm-tpu" if "tpu" in hardware_name.lower() else "vllm"
        yield "estimate_speed", {"model": model, "hardware": hardware_name, "engine": engine, "concurrency": 4}
    for model, engine, precision in itertools.product(FAMILIES, ENGINES, PRECISIONS):
        hardware_name = "v6e-8" if engine == "vllm-tpu" else "a100-large"
        yield "estimate_speed", {"model": model, "hardware": hardware_name, "engine": engine, "precision": precision}
    for model, prompt, output, at_once in itertools.product(FAMILIES, (1, 512, 30_000), (1, 1024), (1, 32)):
        lengths = {"prompt_tokens": prompt, "output_tokens": output, "concurrency": at_once}
        yield "estimate_speed", {"model": model, "hardware": "l40sx4", "engine": "vllm", **lengths}
    for hardware_name in ("l4", "l40s", "a100", "h100", "zero-a10g", "zero-a10g-xlarge", "L4X1", "v5litepod-4", "nvidia-l4"):
        yield "estimate_speed", {"model": LLAMA, "hardware": hardware_name}


def _cost(hardware: Sequence[str]) -> Iterator[Call]:
    for hardware_name in hardware:
        yield "estimate_cost", {"hardware": hardware_name}
        traffic = {"requests_per_day": 5000, "sleep_after_s": 900, "hours_per_day": 12}
        yield "estimate_cost", {"hardware": hardware_name, "model": LLAMA, **traffic}
    ways: Sequence[dict[str, Any]] = (
        {"hours_per_day": 8, "days_per_month": 22},
        {"replicas": 3, "requests_per_day": 100_000},
        {"sleep_after_s": 300, "requests_per_day": 20},
        {"sleep_after_s": -1, "requests_per_day": 20},
        {"storage_gb": 5000},
        {"hours_per_day": 0},
        {"model": LLAMA, "precision": "int4", "engine": "llama.cpp", "requests_per_day": 100},
        {"model": FAMILIES[3], "requests_per_day": 1000},
        {"model": LLAMA, "engine": "vllm", "concurrency": 32, "provider_usd_per_million_output_tokens": 0.5, "requests_per_day": 100_000},
        {"model": "7B", "requests_per_day": 1000, "prompt_tokens": 4000, "output_tokens": 0},
        {"model": "black-forest-labs/FLUX.1-schnell", "requests_per_day": 300},
    )
    for hardware_name, way, account in itertools.product(
        ("l4x1", "zero-a10g", "aws-nvidia-l4-x1", "jobs:l4x1", "v6e-8", "cpu-basic"), ways, ACCOUNTS
    ):
        yield "estimate_cost", {"hardware": hardware_name, "account": account, **way}
        yield "ways_to_save", {"hardware": hardware_name, "account": account, "model": LLAMA, **way}


def _recommend() -> Iterator[Call]:
    for index, task in enumerate(TASKS):
        yield "recommend", {"model": _nth(FAMILIES, index), "task": task}
    for model, priority, platforms in itertools.product(FAMILIES, PRIORITIES, ("spaces", "all")):
        yield "recommend", {"model": model, "priority": priority, "platforms": platforms, "context_tokens": 8192}
    ways: Sequence[dict[str, Any]] = (
        {"max_usd_per_month": 0.01},
        {"max_usd_per_month": 100, "hours_per_day": 8},
        {"max_usd_per_month": 1000, "min_tokens_per_s": 30},
        {"min_tokens_per_s": 1000},
        {"context_tokens": 131_072},
        {"context_tokens": 5_000_000},
        {"concurrency": 200},
        {"requests_per_day": 0},
        {"requests_per_day": 10_000_000},
        {"task": "inference-api"},
        *({"precision": precision} for precision in (*PRECISIONS, "bnb-nf4", "gguf:Q4_K_M", "gptq-4", "mxfp4")),
        *({"account": account, "platforms": "zerogpu,spaces"} for account in ACCOUNTS),
        *({"platforms": platforms} for platforms in PLATFORMS),
    )
    for model, way in itertools.product((LLAMA, FAMILIES[1], FAMILIES[5], FAMILIES[7], FAMILIES[9], "7B"), ways):
        yield "recommend", {"model": model, **way}
    yield "recommend", {"model": "", "task": "inference-api"}


def _private(hardware: Sequence[str]) -> Iterator[Call]:
    for index, model in enumerate((*FAMILIES, *COUNTS[:2], f"{CONFIG}llama")):
        yield "outlook", {"model": model}
        yield (
            "outlook",
            {"model": model, "axis": "hours", "requests_per_day": 10 ** (index % 6), "sleep_after_s": _nth((0, 300, 3600), index)},
        )
        yield "outlook", {"model": model, "usd_per_million_input": 0.1, "usd_per_million_output": 0.4, "account": _nth(ACCOUNTS, index)}
        yield "outlook", {"model": model, "hardware": _nth(hardware, 11 * index), "replicas": 2, "storage_gb": 700}
        for hardware_name, engine in (
            ("a100-large", "vllm"),
            ("spaces:l4x1", "transformers"),
            ("tpu:v6e-8", "vllm-tpu"),
            ("cpu-basic", "llama.cpp"),
        ):
            common = {"precision": "auto", "prompt_tokens": 512, "output_tokens": 256, "concurrency": 1 + 7 * (index % 3)}
            yield "roofline", {"model": model, "hardware": hardware_name, "engine": engine, **common}
    before = {"hardware": "spaces:l4x1"}
    after: Sequence[dict[str, Any]] = (
        {"hardware": "spaces:l4x1", "engine": "vllm", "concurrency": 8},
        {"hardware": "spaces:l4x1", "precision": "int4"},
        {"hardware": "spaces:a100-large", "engine": "vllm", "concurrency": 32},
        {"hardware": "jobs:l40sx1", "precision": "fp8", "engine": "vllm"},
        {"hardware": "tpu:v6e-4", "engine": "vllm-tpu", "concurrency": 16},
        {"hardware": "spaces:l4x1", "tokens_per_s": 55.5, "latency_p50_s": 1.5, "latency_p99_s": 4},
        {"hardware": "spaces:t4-small"},
        {"hardware": "spaces:nothing"},
    )
    for model, other, effort in itertools.product((LLAMA, FAMILIES[1], "7B"), after, (0, 500)):
        yield "compare", {"model": model, "before": before, "after": other, "effort_usd": effort, "requests_per_day": 2000}
    side = {"hardware": "spaces:l4x1", "tokens_per_s": 20}
    yield "compare", {"model": "", "before": side, "after": side | {"tokens_per_s": 60}}
    yield "compare", {"model": "", "before": side, "after": before}
    choices: Sequence[dict[str, Any]] = (
        {},
        {"framework": "jax", "chips_at_scale": 256},
        {"on_prem": True},
        {"phase": "both", "training_steps": 10**6, "dynamic_shapes": True},
        {"max_ttft_s": 0.2, "region": "europe-west4", "commitment": "spot"},
        {"torchtpu_claim": True, "concurrency": 64},
    )
    for model, choice in itertools.product(("", LLAMA, "7B", FAMILIES[1]), choices):
        yield "compare_gpu_tpu", {"model": model, **choice}
    for model, method, checkpointing in itertools.product((LLAMA, *FAMILIES, "7B"), ("full", "lora", "dora", "qlora"), ("none", "layers")):
        yield "estimate_training", {"model": model, "method": method, "checkpointing": checkpointing, "micro_batch": 2}
    for model, method, objective in itertools.product((LLAMA, "7B"), ("full", "lora"), ("dpo", "kto", "reward", "orpo", "grpo")):
        yield "estimate_training", {"model": model, "method": method, "objective": objective, "micro_batch": 2, "beta": 0.04}
    for model, policy, rate in itertools.product((LLAMA, FAMILIES[1], "7B"), ("static", "dynamic", "continuous"), (0.2, 2)):
        yield "diagnose_latency", {"model": model, "hardware": "a100-large", "ttft_ms": 100 * rate, "tpot_ms": 20, "queue_ms": 30}
        yield "simulate_batching", {"model": model, "hardware": "a100-large", "policy": policy, "requests_per_s": rate, "duration_s": 60}
    for model, card, first_s in itertools.product((LLAMA, FAMILIES[1], "7B"), ("l4x1", "a100x4", "zero-a10g", "RTX-4090x2"), (0, 0.5)):
        yield "solve", {"model": model, "hardware": card, "max_ttft_s": first_s, "concurrency": 4}
    for model, precision in itertools.product((LLAMA, *FAMILIES), ("auto", "bnb-nf4", "gguf:Q4_K_M")):
        yield "tensors", {"model": model, "precision": precision, "engine": "llama.cpp" if "gguf" in precision else "transformers"}


PASTED = (
    "You have exceeded your Pro ZeroGPU quota (120s requested vs. 30s left). Try again in 20:12:05",
    "ZeroGPU illegal duration The requested GPU duration (300s) is larger than the maximum allowed",
    "You've reached your CPU-basic quota limit",
    "vllm serve meta-llama/Llama-3.1-8B-Instruct --dtype half  # NVIDIA L4\nNo available memory for the cache blocks",
    "The model's max seq len (131072) is larger than the maximum number of tokens that can be stored in KV cache (79392).",
    'vllm:num_requests_waiting{engine="0"} 17.0\nvllm:kv_cache_usage_perc{engine="0"} 0.97\nvllm:num_preemptions_total{engine="0"} 0.0',
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 648.00 MiB. GPU 0 has a total capacity of 22.03 GiB.",
    "KeyError: 'foo'",
)


def _people() -> Iterator[Call]:
    """Pasted texts, hardware without a model, piles of work, files, and calls on ZeroGPU."""
    for text, (model, hardware) in itertools.product(PASTED, (("", ""), (LLAMA, "l4x1"), (FAMILIES[1], "RTX-3090x2"))):
        yield "explain", {"text": text, "model": model, "hardware": hardware}
    for hardware, task in itertools.product(
        ("l4x1", "RTX-3090x2", "M4-Max-64GB"), ("text-generation", "feature-extraction", "text-to-image")
    ):
        yield "what_runs", {"hardware": hardware, "task": task, "limit": 20}
    yield "what_runs", {"hardware": "RTX-4090", "context_tokens": 32_768, "min_tokens_per_s": 20, "query": "qwen"}
    for model, (items, hours) in itertools.product((*FAMILIES, "7B"), ((10_000, 0), (1_000_000, 12))):
        yield "estimate_batch", {"model": model, "items": items, "deadline_hours": hours}
    for (model, hardware), purpose in itertools.product(
        ((LLAMA, "l4x1"), (FAMILIES[1], "a100x4"), (FAMILIES[7], "t4-small"), (FAMILIES[9], "zero-a10g")), ("app", "serve", "job", "train")
    ):
        yield "write_files", {"model": model, "hardware": hardware, "purpose": purpose}
    for seconds, size, account in itertools.product((0, 12, 400), ("auto", "xlarge"), ACCOUNTS):
        yield "zerogpu_quota", {"call_s": seconds, "size": size, "account": account}


REFUSED: tuple[Call, ...] = (
    ("explain", {"text": ""}),
    ("what_runs", {"hardware": "moon"}),
    ("estimate_batch", {"model": LLAMA, "items": 0}),
    ("write_files", {"model": LLAMA, "hardware": "moon"}),
    ("zerogpu_quota", {"call_s": -1}),
)


def _refusals() -> Iterator[Call]:
    yield from REFUSED
    for endpoint in ("resolve_model", "estimate_memory", "recommend"):
        for model in BAD_MODELS:
            yield endpoint, {"model": model}
    for endpoint, names in ARGUMENTS.items():
        for name, value in itertools.product(names.split(), BAD_VALUES):
            yield endpoint, {**DEFAULTS[endpoint], name: value}
    for where in ("moon", "l4x9", "h100x999", "H100-SXMx0", "H100-SXMx99999", "jobs:moon", "spaces:v6e-8", "t4-smal", "tpu"):
        yield "estimate_speed", {"model": LLAMA, "hardware": where}
        yield "estimate_cost", {"hardware": where}
    beats: Sequence[dict[str, Any]] = (
        {"batch": -1},
        {"hidden": "many"},
        {"dtype": "float7"},
        {"iterations": 0},
        {"warmup": None},
        {"batch": 10**9},
    )
    for arguments in beats:
        yield "heartbeat", arguments
    for arguments in (
        {"model": ""},
        {"model": "7B"},
        {"model": LLAMA, "prompt_tokens": -1},
        {"model": LLAMA, "precision": "x"},
        {"model": None},
    ):
        yield "measure", arguments
    for name in ("space_status", "right_size", "pause_space", "restart_space"):
        for space in ("", "no-owner", "a/b/c", None, "ada/chat"):
            yield name, {"space_id": space}
    yield "switch_hardware", {"space_id": "ada/chat", "hardware": "l4x1", "confirm_usd_per_hour": 0.8}
    yield "switch_hardware", {"space_id": "ada/chat", "hardware": "moon", "confirm_usd_per_hour": 0.8}
    yield "set_sleep_time", {"space_id": "ada/chat", "seconds": 3600}
    yield "set_sleep_time", {"space_id": "ada/chat", "seconds": "soon"}
