"""The public contract, written down once more for the tests: endpoint names, arguments with defaults, fields of the answers."""

from __future__ import annotations

import json
from typing import Any

from llama import llama_config

REQUIRED = object()
ENGINES = ["transformers", "vllm", "sglang", "tensorrt-llm", "tgi", "tei", "llama.cpp", "vllm-tpu"]
COMMON = {"schema", "caveats", "sources"}
PROMPT_MEDIA: dict[str, Any] = {"images": 0, "image_width": 1024, "image_height": 1024, "audio_seconds": 0}
MEDIA: dict[str, Any] = {"width": 0, "height": 0, "frames": 0, "steps": 0, "guidance": "auto", **PROMPT_MEDIA}
COST_ARGUMENTS: dict[str, Any] = {
    "hardware": REQUIRED,
    "hours_per_day": 24,
    "days_per_month": 30,
    "replicas": 1,
    "requests_per_day": 0,
    "sleep_after_s": 0,
    "storage_gb": 0,
    "account": "free",
    "model": "",
    "precision": "auto",
    "engine": "transformers",
    "prompt_tokens": 512,
    "output_tokens": 256,
    "concurrency": 1,
    "provider_usd_per_million_output_tokens": 0,
    "region": "",
    **MEDIA,
    "visitor_account": "auto",
    "visitors_per_day": 0,
}
ARGUMENTS: dict[str, dict[str, Any]] = {
    "resolve_model": {"model": REQUIRED},
    "estimate_memory": {
        "model": REQUIRED,
        "precision": "auto",
        "engine": "transformers",
        "context_tokens": 4096,
        "batch_size": 1,
        "kv_precision": "auto",
        "mode": "inference",
        "devices": 1,
        "encoder_tokens": 0,
        "gpu_layers": -1,
        "micro_batch": 512,
        "flash_attention": True,
        "width": 0,
        "height": 0,
        "frames": 0,
        "guidance": "auto",
        "offload": "none",
        "vae_tiling": False,
        "vae_slicing": False,
        "quantized": "all",
        **PROMPT_MEDIA,
        "hardware": "",
    },
    "tensors": {"model": REQUIRED, "precision": "auto", "engine": "transformers", "quantized": "all"},
    "dry_run": {
        "model": REQUIRED,
        "prompt_tokens": 512,
        "output_tokens": 64,
        "batch_size": 1,
        "mode": "inference",
        "rank": 16,
        "checkpointing": True,
    },
    "recommend": {
        "model": REQUIRED,
        "task": "auto",
        "context_tokens": 4096,
        "concurrency": 1,
        "requests_per_day": 100,
        "hours_per_day": 24,
        "precision": "auto",
        "account": "free",
        "max_usd_per_month": 0,
        "min_tokens_per_s": 0,
        "priority": "balanced",
        "platforms": "spaces",
        "prompt_tokens": 0,
        "output_tokens": 0,
        "max_ttft_s": 0,
        "engine": "auto",
        "sdk": "auto",
        "width": 0,
        "height": 0,
        "frames": 0,
        "steps": 0,
        "guidance": "auto",
        "offload": "none",
        **PROMPT_MEDIA,
        "visitor_account": "auto",
        "limit": 0,
        "own_hardware": "",
        "visitors_per_day": 0,
    },
    "list_hardware": {"platform": "spaces", "include_retired": False},
    "estimate_speed": {
        "model": REQUIRED,
        "hardware": REQUIRED,
        "precision": "auto",
        "engine": "transformers",
        "prompt_tokens": 512,
        "output_tokens": 256,
        "concurrency": 1,
        "gpu_layers": -1,
        **MEDIA,
    },
    "estimate_cost": COST_ARGUMENTS,
    "compare": {
        "model": REQUIRED,
        "before": REQUIRED,
        "after": REQUIRED,
        "prompt_tokens": 512,
        "output_tokens": 256,
        "requests_per_day": 100,
        "hours_per_day": 24,
        "days_per_month": 30,
        "effort_usd": 0,
    },
    "ways_to_save": {"hardware": REQUIRED, "model": REQUIRED}
    | {name: COST_ARGUMENTS[name] for name in [*COST_ARGUMENTS][1:] if name != "model"},
    "compare_gpu_tpu": {
        "model": "",
        "framework": "pytorch",
        "phase": "inference",
        "shape_changes": False,
        "custom_kernels": False,
        "dynamic_shapes": False,
        "outside_gcp": False,
        "on_gcp": False,
        "chips_at_scale": 0,
        "latency_sensitive": False,
        "precision": "auto",
        "static_shapes": False,
        "kernels": "none",
        "irregular_control_flow": False,
        "unstructured_sparsity": False,
        "large_embeddings": False,
        "on_prem": False,
        "edge": False,
        "multi_cloud": False,
        "regulated": False,
        "training_steps": 0,
        "batch": "not_stated",
        "team": "not_stated",
        "experiments": False,
        "budget": "not_stated",
        "context_tokens": 4096,
        "concurrency": 8,
        "max_ttft_s": 0,
        "region": "us-central1",
        "commitment": "on_demand",
        "torchtpu_claim": False,
        "prompt_tokens": 0,
        "output_tokens": 0,
        **MEDIA,
    },
    "estimate_training": {
        "model": REQUIRED,
        "method": "lora",
        "rank": 16,
        "target_modules": "all-linear",
        "optimizer": "adamw",
        "precision": "mixed",
        "checkpointing": "layers",
        "attention": "sdpa",
        "sequence_tokens": 2048,
        "packing": True,
        "micro_batch": 1,
        "accumulation": 8,
        "stack": "trl",
        "fused_loss": "auto",
        "double_quantization": True,
        "sharding": "none",
        "devices": 1,
        "rows": 10_000,
        "tokens_per_row": 512,
        "epochs": 1,
        "platforms": "spaces,jobs",
    },
    "simulate_batching": {
        "model": REQUIRED,
        "hardware": REQUIRED,
        "policy": "continuous",
        "requests_per_s": 1,
        "prompt_tokens": 512,
        "output_tokens": 256,
        "max_batch_size": 32,
        "timeout_s": 0.05,
        "duration_s": 300,
        "seed": 0,
        "precision": "auto",
        "arrivals": "poisson",
        "burstiness": 0.25,
        "clients": 0,
        "trace": "",
        "capacity": False,
        "engine": "vllm",
        "lengths": "uniform",
        "spread": 0.5,
        "replicas": 1,
        "cold_start_s": 120,
        "scale_to_zero_after_s": 0,
        "concurrency_limit": 0,
        "shared_prefix_tokens": 0,
        "token_budget": 0,
        "max_ttft_s": 0,
        "max_tpot_s": 0,
    },
    "solve": {
        "model": REQUIRED,
        "hardware": REQUIRED,
        "context_tokens": 4096,
        "concurrency": 1,
        "max_ttft_s": 0,
        "min_tokens_per_s": 0,
        "precision": "auto",
        "kv_precision": "auto",
        "engine": "transformers",
        "output_tokens": 256,
        "gpu_layers": -1,
        "platforms": "spaces",
    },
    "diagnose_latency": {
        "model": REQUIRED,
        "hardware": REQUIRED,
        "preprocess_ms": 0,
        "queue_ms": 0,
        "transfer_ms": 0,
        "ttft_ms": 0,
        "tpot_ms": 0,
        "postprocess_ms": 0,
        "metrics_text": "",
        "precision": "auto",
        "engine": "vllm",
        "prompt_tokens": 512,
        "output_tokens": 256,
        "concurrency": 1,
    },
    "chat": {"message": REQUIRED, "history": [], "max_new_tokens": 256, "temperature": 0.7},
    "measure": {"model": REQUIRED, "prompt_tokens": 512, "output_tokens": 64, "precision": "bf16"},
    "heartbeat": {"batch": 128, "hidden": 4096, "intermediate": 16384, "iterations": 100, "warmup": 5, "dtype": "float32"},
    "space_status": {"space_id": REQUIRED},
    "right_size": {
        "space_id": REQUIRED,
        "model": "",
        "task": "auto",
        "context_tokens": 4096,
        "concurrency": 1,
        "requests_per_day": 100,
        "hours_per_day": 24,
        "precision": "auto",
        "account": "free",
        "max_usd_per_month": 0,
        "min_tokens_per_s": 0,
        "priority": "balanced",
        "platforms": "spaces",
        "prompt_tokens": 0,
        "output_tokens": 0,
        "max_ttft_s": 0,
        "engine": "auto",
        "sdk": "auto",
        "width": 0,
        "height": 0,
        "frames": 0,
        "steps": 0,
        "guidance": "auto",
        "offload": "none",
        **PROMPT_MEDIA,
        "visitor_account": "auto",
        "visitors_per_day": 0,
    },
    "account_overview": {"owner": ""},
    "switch_hardware": {"space_id": REQUIRED, "hardware": REQUIRED, "confirm_usd_per_hour": REQUIRED, "sleep_time_s": -1},
    "set_sleep_time": {"space_id": REQUIRED, "seconds": REQUIRED},
    "pause_space": {"space_id": REQUIRED},
    "restart_space": {"space_id": REQUIRED, "factory": False},
    "stop_resource": {"kind": REQUIRED, "name": REQUIRED},
}
FIELDS: dict[str, set[str]] = {
    "resolve_model": {
        "id", "architecture", "task", "parameters_total", "parameters_active", "parameters_by_component", "weights_bytes",
        "weights_bytes_by_dtype", "weights_bytes_by_component", "context_limit_tokens", "layer_kinds", "source", "gguf_files",
        "media",
    },
    "estimate_memory": {
        "weights_bytes", "kv_cache_bytes", "activation_bytes", "runtime_bytes", "total_bytes", "per_device_bytes", "host_bytes",
        "rule_of_thumb_bytes", "fits",
        "stages",
    },
    "tensors": {"precision", "engine", "parameters_total", "weights_bytes", "tensors"},
    "dry_run": {"architecture", "mode", "layers", "layers_run", "peak_bytes", "figures"},
    "recommend": {"pick", "ranked", "ranked_total", "rejected", "rejected_total"},
    "list_hardware": {"hardware"},
    "estimate_speed": {"ttft_s", "inter_token_s", "decode_tokens_per_s", "throughput_tokens_per_s", "bound", "low", "high"},
    "estimate_cost": {
        "usd_per_hour", "billed_hours_per_month", "compute_usd_per_month", "storage_usd_per_month", "total_usd_per_month",
        "usd_per_million_output_tokens", "usd_per_million_output_tokens_one_at_a_time", "usd_per_request", "break_even",
        "usd_per_picture", "usd_per_audio_hour", "left_running_usd_per_month", "capacity", "best_load",
    },
    "compare": {"before", "after", "usd_per_million_output_tokens", "usd_per_request", "speed_ratio", "reasons", "verdict"},
    "ways_to_save": {"usd_per_month", "ways", "no_ways"},
    "compare_gpu_tpu": {
        "verdict", "score", "by_stage", "reasons", "options", "generations", "guidance", "optimum_tpu", "retired", "side_by_side",
        "recipes",
    },
    "estimate_training": {
        "parts", "allocated_bytes", "reserved_bytes", "reserved_low_bytes", "reserved_high_bytes", "device_bytes", "device_high_bytes",
        "host_bytes", "trained_parameters", "total_tokens", "steps", "options", "changes", "command", "script",
    },
    "simulate_batching": {
        "throughput_tokens_per_s", "utilisation", "ttft_p50_s", "ttft_p99_s", "latency_p50_s", "latency_p99_s", "completed",
        "usd_per_million_tokens", "tpot_p50_s", "tpot_p99_s", "queue_mean", "goodput_per_s", "capacity",
    },
    "solve": {
        "fits", "meets_limits", "longest_context", "most_requests", "largest_batch", "best_precision", "precisions", "cheapest",
        "memory_savings",
        "per_device_bytes", "capacity_bytes", "ttft_s", "tokens_per_s",
    },
    "diagnose_latency": {"parts", "dominant", "reasons", "next_steps", "precisions"},
    "chat": {"text", "metrics"},
    "measure": {"device", "weights", "peak_bytes", "ttft_s", "decode_tokens_per_s", "predicted", "error_ratio", "verdict"},
    "heartbeat": {
        "device", "mean_s", "median_s", "p95_s", "cold_first_s", "flops", "achieved_flops_per_s", "floor_s", "efficiency", "valid",
    },
    "space_status": {
        "stage", "hardware", "requested_hardware", "usd_per_hour", "usd_per_month", "sleep_time_s", "storage", "replicas", "volumes",
        "models",
    },
    "right_size": {"current", "pick", "saving_usd_per_month", "reasons"},
    "switch_hardware": {"before", "after", "stage"},
    "set_sleep_time": {"stage", "hardware", "sleep_time_s"},
    "pause_space": {"stage", "hardware", "sleep_time_s"},
    "restart_space": {"stage", "hardware", "sleep_time_s"},
    "account_overview": {
        "account", "owner", "organizations", "resources", "usd_per_hour", "usd_per_month", "always_on", "not_listed", "prices",
    },
    "stop_resource": {"kind", "name", "stage", "stage_message"},
}  # fmt: skip
FIT = {"hardware", "fits", "free_bytes", "max_context_tokens", "max_batch_size"}
ENTRY = {
    "hardware",
    "platform",
    "precision",
    "engine",
    "sdk",
    "devices",
    "gpu_layers",
    "replicas",
    "memory",
    "speed",
    "cost",
    "verdict",
    "reasons",
}
SPEED = {
    "ttft_s", "inter_token_s", "decode_tokens_per_s", "throughput_tokens_per_s", "bound", "low", "high",
    "decode_tokens_per_s_upper_bound", "request_s_lower_bound", "basis", "request_s", "real_time_factor",
}  # fmt: skip
WAY = {"code", "message", "saves_usd_per_month", "slower", "needs"}
COST = {"usd_per_hour", "total_usd_per_month", "usd_per_million_output_tokens", "usd_per_request", "usd_per_month_asleep"}
REJECTED = {"hardware", "reason_code", "reason", "also"}
CROSSING = {"below", "above", "requests_per_day", "tokens_per_month", "usd_per_month", "best_concurrency", "best_utilisation", "message"}
WEIGHED = {"code", "message", "favours", "weight"}
TIER = {"hardware", "platform", "replicas", "usd_per_hour", "ttft_p99_s", "tpot_p99_s", "steady"}
OPTION = {"kind", "hardware", "ttft_s", "decode_tokens_per_s", "usd_per_hour", "usd_per_million_output_tokens"}
CHANGE = {"code", "message", "saved_bytes", "device_bytes", "speed_ratio"}
ENTRIES = {"ranked": ENTRY, "rejected": REJECTED, "ways": WAY, "break_even": CROSSING, "changes": CHANGE}
TRAINING_OPTION = {
    "hardware",
    "platform",
    "verdict",
    "longest_sequence_tokens",
    "largest_micro_batch",
    "tokens_per_s",
    "hours",
    "usd",
    "sharding",
}
HARDWARE = {
    "id", "platform", "name", "accelerator", "accelerator_count", "vram_bytes_per_accelerator", "vcpu", "ram_bytes", "disk_bytes",
    "usd_per_hour", "usd_per_hour_by_region", "regions", "status", "since", "source", "checked",
}  # fmt: skip

TINY_CONFIG = json.dumps(llama_config())
TINY_PARAMETERS = 202_048
TINY_CACHE_BYTES_PER_TOKEN = 256
# Answered without a token and without a Hub; the account actions have tests of their own (tests/app/test_spaces.py).
EXAMPLE: dict[str, dict[str, Any]] = {
    "resolve_model": {"model": TINY_CONFIG},
    "estimate_memory": {"model": TINY_CONFIG, "context_tokens": 100, "batch_size": 3},
    "tensors": {"model": TINY_CONFIG, "precision": "bnb-nf4"},
    "dry_run": {"model": TINY_CONFIG, "prompt_tokens": 64},
    "recommend": {"model": TINY_CONFIG},
    "list_hardware": {},
    "estimate_speed": {"model": TINY_CONFIG, "hardware": "l4x1"},
    "estimate_cost": {"hardware": "l4x1"},
    "compare": {
        "model": TINY_CONFIG,
        "before": {"hardware": "l4x1"},
        "after": {"hardware": "t4-small", "engine": "vllm", "precision": "fp16", "concurrency": 8},
    },
    "ways_to_save": {"hardware": "l4x1", "model": TINY_CONFIG, "requests_per_day": 1000},
    "compare_gpu_tpu": {"model": TINY_CONFIG, "framework": "jax", "torchtpu_claim": True},
    "estimate_training": {"model": TINY_CONFIG, "rank": 4, "method": "qlora"},
    "simulate_batching": {"model": TINY_CONFIG, "hardware": "l4x1", "duration_s": 30, "max_ttft_s": 0.5, "capacity": True},
    "solve": {"model": TINY_CONFIG, "hardware": "l4x1", "max_ttft_s": 2},
    "diagnose_latency": {"model": TINY_CONFIG, "hardware": "l4x1", "ttft_ms": 40, "tpot_ms": 9},
}


def check_fields(endpoint: str, answer: Any) -> None:
    """The answer has the fields that the contract names, in it and in its entries."""
    assert answer["schema"] == 1
    assert FIELDS[endpoint] | COMMON <= answer.keys()
    for caveat in answer["caveats"]:
        assert set(caveat) == {"code", "message"}
    for source in answer["sources"]:
        assert set(source) == {"what", "source", "checked"}
    options = {"compare_gpu_tpu": OPTION, "estimate_training": TRAINING_OPTION}.get(endpoint, set())
    fits = set() if endpoint == "solve" else FIT  # there it is true or false
    for name, fields in {**ENTRIES, "fits": fits, "options": options}.items():
        assert not fields or all(entry.keys() >= fields for entry in answer.get(name, []))
    if endpoint == "simulate_batching":
        assert all(tier.keys() >= TIER for tier in answer["capacity"]["tiers"])
        assert isinstance(answer["capacity"]["left_out"], list)
    if endpoint == "solve":
        assert all(
            answer[name].keys() >= {"value", "limited_by", "message"} for name in ("longest_context", "most_requests", "largest_batch")
        )
        assert all(way.keys() >= {"code", "saved_bytes", "tpot_ratio"} for way in answer["memory_savings"])
    if endpoint == "diagnose_latency":
        assert all(part.keys() >= {"name", "measured_ms", "expected_ms"} for part in answer["parts"])
    for entry in answer.get("ranked", []):
        assert entry["speed"].keys() >= SPEED
        assert entry["cost"].keys() >= COST
    if endpoint == "compare_gpu_tpu":
        assert all(reason.keys() >= WEIGHED for reason in answer["reasons"])
    for row in answer["hardware"] if endpoint == "list_hardware" else []:
        assert row.keys() >= HARDWARE
