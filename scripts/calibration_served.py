"""The loaded-server means of `served_throughput.csv` as cases."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from lib.speed.calibration import ALL_ROWS, ENGINES, KERNELS
from lib.speed.hardware import find_link_rate
from scripts.calibration_points import CARDS, Point, read_bytes


class ModelSizes(NamedTuple):
    """Sizes of a model of the served table, from its config; billions of parameters.

    `cache` counts elements per token of layers that keep everything, `windowed` those of layers that keep 128 tokens; `full` is the
    share of layers that attend to everything, `constant` the bytes of recurrent states.
    """

    parameters: float
    active: float
    routed: float
    layers: int
    hidden: int
    width: int
    kv_heads: int
    experts: int
    per_token: int
    cache: float
    vocabulary: int
    windowed: float = 0.0
    full: float = 1.0
    constant: float = 0.0


LATENT = 576.0
SIZES = {
    "Llama-3.1-70B": ModelSizes(70.554, 70.554, 0, 80, 8192, 8192, 8, 0, 0, 2 * 80 * 8 * 128, 128256),
    "Llama-3.1-8B": ModelSizes(8.03, 8.03, 0, 32, 4096, 4096, 8, 0, 0, 2 * 32 * 8 * 128, 128256),
    "Qwen3-32B": ModelSizes(32.762, 32.762, 0, 64, 5120, 8192, 8, 0, 0, 2 * 64 * 8 * 128, 151936),
    "gpt-oss-120b": ModelSizes(116.83, 5.13, 114.7, 36, 2880, 4096, 8, 128, 4, 36 * 8 * 64, 201088, 36 * 8 * 64, 0.5),
    "MiniMax-M2.5": ModelSizes(228.69, 11.03, 224.68, 62, 3072, 6144, 8, 256, 8, 2 * 62 * 8 * 128, 200064),
    "Qwen3.5-397B": ModelSizes(396.8, 17.8, 386.55, 60, 4096, 8192, 2, 512, 10, 15 * 2 * 2 * 256, 248320, 0, 0.25, 193.2e6),
    "GLM-5": ModelSizes(743.9, 41.8, 724.8, 78, 6144, 64 * 256, 1, 256, 8, 78 * LATENT, 154880),
    "Kimi-K2.5": ModelSizes(1026.9, 33.3, 1014.7, 61, 7168, 64 * 160, 1, 384, 8, 61 * LATENT, 163840),
    "DeepSeek": ModelSizes(671.0, 37.55, 653.9, 61, 7168, 128 * 160, 1, 256, 8, 61 * LATENT, 129280),
    "Qwen3-235B": ModelSizes(235.09, 22.2, 227.1, 94, 4096, 8192, 4, 128, 8, 2 * 94 * 4 * 128, 151936),
}
SERVED_CARDS = {"b200_sxm": "B200", "b300_sxm": "B200", "h100_sxm": "H100-SXM", "h200_sxm": "H200-SXM", "gb200": "GB200"}
SERVED_KERNELS = {
    "nvfp4": (4.5, "fp4", "fp4"), "fp4": (4.5, "fp4", "fp4"), "fp8": (8.0, "fp8", "fp8"), "fp8_block": (8.0, "fp8", "fp8"),
    "int4_wo": (4.5, "int4-experts", "bf16"), "bf16": (16.0, "half", "bf16"),
}  # fmt: skip
"""Bits of a weight with scales, kernels, arithmetic."""
BILLION = 1e9
SERVED_WEIGHT = 0.35
"""Of one point against a public one: there are many of few models."""
MOST_OF_A_NODE = 8
SHORTEST = 0.8
"""Share of a stated length from which the benchmark of InferenceX draws lengths, evenly up to all of it."""
DRAWN_MEAN = (1.0 + SHORTEST) / 2.0
DRAWN_SHAPES = frozenset({("1024", "1024"), ("1024", "8192"), ("8192", "1024")})
"""Shapes of InferenceX, whose benchmark draws lengths from 80 to 100 % of these. The others are aiconfigurator's own runs, with requests of
one length (github.com/ai-dynamo/aiconfigurator at 5e16187, src/aiconfigurator/eval/benchmarks/genai_perf_runner.py: both standard
deviations 0, ten requests for each in flight)."""
AHEAD_SINCE = (0, 14)
BALANCED_STEPS = {"DeepSeek": 60.0, "gpt-oss-120b": 50.0}
"""Maximum of steps that TensorRT-LLM waits until each copy of attention has a prompt to read. On average it waits half of them, because it
keeps counting while no request waits (`_balance_adp_requests` of its pyexecutor/py_executor.py). `timeout_iters: 60` in
dsr1_fp4_b200_trt.sh, dsr1_fp8_b200_trt.sh
and dsr1_fp8_h200_trt.sh, the default of 50 in gptoss_fp4_b200_trt.sh; the repository is that of `_held_steps`."""


def _served_devices(row: Mapping[str, str], *, experts: bool) -> tuple[int, int, bool, bool]:
    """Devices, requests in flight, whether attention is copied to each device, whether experts are spread.

    The table multiplies layouts out: rows with tp (or dp) = moe_tp · moe_ep and moe_tp = moe_ep = g ran on g devices (the same runs are
    there twice, as 8 × 32 and as 64 × 4 requests), and with tp = dp = g, moe_ep = g² too. Requests are counted per copy of attention.
    """

    def read_count(key: str) -> int:
        return max(1, int(float(row[key]))) if row[key] else 1

    split, copies, across, spread = (read_count(key) for key in ("tp_size", "attention_dp_size", "moe_tp_size", "moe_ep_size"))
    both = across * spread if experts else 1
    devices = max(split, both)
    if both > 1 and across == spread and both in {split, copies}:
        devices = across
    elif split == copies > 1 and spread == split * copies:
        devices = split
    elif experts and not row["attention_dp_size"] and split < both:
        copies = both // split
    return devices, read_count("concurrency") * copies, copies > 1, spread > 1


def _schedules_late(row: Mapping[str, str]) -> bool:
    """Whether the engine schedules a step only when the last one has ended; those of these rows else schedule a step ahead by default.

    Sources: release notes of vLLM 0.14.0 ("Async scheduling is now enabled by default"); TensorRT-LLM, features/overlap-scheduler.html
    ("Enabled by default", "one extra decoding step"), which names SGLang's scheduler since 0.4 as its model. Read on 2026-11-23.
    """
    version = re.match(r"(\d+)\.(\d+)", row["backend_version"])
    return row["backend"] == "vllm" and version is not None and (int(version[1]), int(version[2])) < AHEAD_SINCE


def _held_steps(row: Mapping[str, str], model: str, requests: float, *, copied: bool) -> float:
    """Decode steps that the benchmark's own scripts let a new request wait for company; the engines' defaults are 0.

    SGLang looks for requests every so many steps (`--scheduler-recv-interval`, half of it on average), TensorRT-LLM gathers them for so
    many iterations (`batch_wait_timeout_iters`). Source: github.com/SemiAnalysisAI/InferenceX at 843c625, benchmarks/single_node
    (dsr1_fp4_b200.sh, dsr1_fp4_b300.sh, dsr1_fp8_b200_trt.sh, qwen3.5_bf16_b200.sh, qwen3.5_fp4_b200.sh, qwen3.5_fp4_b300.sh,
    glm5_fp4_b200.sh), and its former script for Llama 70B with TensorRT-LLM ("batch_wait_timeout_iters: 20" below eight devices).
    """
    card, shape = row["accelerator"], (row["prompt_tokens"], row["output_tokens"])
    short = shape == ("1024", "1024")
    if row["backend"] == "trtllm" and copied and shape in DRAWN_SHAPES:
        return BALANCED_STEPS.get(model, 0.0) / 2
    if row["backend"] == "trtllm" and card == "b200_sxm" and short:
        if model == "Llama-3.1-70B":
            return 20.0 if float(row["tp_size"]) < MOST_OF_A_NODE else 0.0
        return 40.0 if model == "DeepSeek" and row["precision"] == "fp8" and requests >= 64 else 0.0  # noqa: PLR2004
    if row["backend"] != "sglang" or card not in {"b200_sxm", "b300_sxm"} or row["precision"] == "fp8":
        return 0.0
    from_requests = {"DeepSeek": 16, "GLM-5": math.inf, "Qwen3.5-397B": 5 if (card, row["precision"]) == ("b200_sxm", "fp4") else 16}
    if model not in from_requests:
        return 0.0
    return (30.0 if requests >= from_requests[model] else 10.0) / 2


def served_points(facts: Path) -> Iterator[Point]:
    """The loaded-server means; runs that are in the table more than once are one point, at their geometric mean.

    DeepSeek-R1 and V3 are one model (the table has the same runs under both names), whose releases are left out together.
    """
    groups: dict[tuple[object, ...], tuple[Point, list[float]]] = {}
    with (facts / "served_throughput.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            for point, key in _served_points(row):
                groups.setdefault(key, (point, []))[1].append(point.value)
    for point, values in groups.values():
        mean = math.exp(sum(map(math.log, values)) / len(values))
        weight = point.weight * math.sqrt(min(len(values), 2))
        yield replace(point, value=mean, weight=weight)


def _served_points(row: Mapping[str, str]) -> Iterator[tuple[Point, tuple[object, ...]]]:
    name = row["model"].split("/")[1]
    model = next(start for start in SIZES if name.startswith(start))
    m = SIZES[model]
    engine = {"trtllm": "tensorrt-llm"}.get(row["backend"], row["backend"])
    bits, kernel, arithmetic = SERVED_KERNELS[row["gemm_quant_mode"] or row["precision"] or "bf16"]
    if name.endswith("NVFP4"):
        bits, kernel, arithmetic = SERVED_KERNELS["nvfp4"]
    if name.startswith("gpt-oss"):  # its experts are MXFP4 whatever the rest is called
        bits, kernel, arithmetic = 4.35, "fp4", "fp4"
    card = CARDS[SERVED_CARDS[row["accelerator"]]]
    devices, requests, is_copied, spread = _served_devices(row, experts=m.experts > 0)
    is_fp8_cache = kernel in {"fp8", "fp4"} and m.kv_heads > 1  # servers keep the cache in fp8 with these, latent caches in 16 bits
    rate, bus = find_link_rate(card)
    table, routed = float(m.vocabulary * m.hidden), m.routed * BILLION
    has_equal_shapes = (row["prompt_tokens"], row["output_tokens"]) not in DRAWN_SHAPES
    prompt, output = (float(row[column]) * (1.0 if has_equal_shapes else DRAWN_MEAN) for column in ("prompt_tokens", "output_tokens"))
    weights = read_bytes(parameters=m.parameters * BILLION, table=table, tied=False, bits=bits, kernel=kernel)
    case: dict[str, float] = {
        "engine": ENGINES.index(engine), "kernel": KERNELS.index(kernel), "eager": False,
        "dense_bytes": weights - routed * bits / 8, "expert_bytes": routed * bits / 8,
        "experts": m.experts, "experts_per_token": m.per_token,
        "active_parameters": m.active * BILLION - table, "head_parameters": table,
        "layers": m.layers, "hidden": m.hidden, "attention_width": m.width,
        "full_layers": m.layers * m.full, "windowed_layers": m.layers * m.full if m.windowed else 0,
        "cache_constant": m.constant, "cache_per_token": m.cache * (1 if is_fp8_cache else 2),
        "cache_windowed": m.windowed * (1 if is_fp8_cache else 2),
        "window": 128 if m.windowed else 0, "cache_shards": devices if is_copied else m.kv_heads,
        "cache_copied": False, "cache_repeats": 1, "packed_parameters": 0, "fused_rows": ALL_ROWS, "emulated": False, "converted": False,
        "memory": float(card.memory_usable or 0), "link": rate, "over_pcie": bus,
        "tensor_parallel": devices, "pipeline_stages": 1, "replicas": 1,
        "row_split": False, "pipelined": False, "prompt_tokens": prompt, "output_tokens": output,
        "running_requests": requests, "static_cache_tokens": 0,
        "held_steps": _held_steps(row, model, requests, copied=is_copied),
        "bunched_arrivals": has_equal_shapes and not _schedules_late(row), "scheduled_between": False,
    }  # fmt: skip
    key = (
        row["backend"],
        model,
        row["accelerator"],
        kernel,
        case["prompt_tokens"],
        case["output_tokens"],
        requests,
        devices,
        is_copied,
        spread,
    )
    for metric, column in (("served_between", "mean_tpot_ms"), ("served_first", "mean_ttft_ms")):
        if row[column] and float(row[column]) > 0:
            weight = SERVED_WEIGHT if devices <= MOST_OF_A_NODE else 0.0  # larger ones are several engines, prompts apart from answers
            if (metric, row["backend"], model) == ("served_first", "trtllm", "Llama-3.1-8B"):
                weight = 0.0  # their first token waits for a place: O · s / b longer, as where b - 1 requests run
            point = Point(
                case=case,
                card=(card.id, 1.0, arithmetic),
                metric=metric,
                value=float(row[column]),
                weight=weight,
                model=f"served {model}",
                accelerator=row["accelerator"],
                regime="served",
                source="served",
            )
            yield point, (*key, metric)
