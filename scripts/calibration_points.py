"""Published measurements as cases: `measured_throughput.json` of a facts folder; `scripts.calibration_served` reads the served ones."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from lib.catalog import load
from lib.catalog.silicon import Accelerator
from lib.speed.batch import CostModelInputs, tabulate
from lib.speed.calibration import ALL_ROWS, CACHE_COPYING, EAGER, ENGINES, FUSED_ROWS, KERNELS
from lib.speed.hardware import class_ceilings, emulates, find_link_rate

CATALOG = load()
CARDS = CATALOG.accelerators
ENGINE_OF = {
    "transformers": "transformers", "autogptq": "transformers", "litgpt": "transformers", "torchscript": "compiled",
    "vllm": "vllm", "deepspeed-mii": "vllm", "lmdeploy": "vllm", "sglang": "sglang", "tgi": "tgi",
    "tensorrt-llm": "tensorrt-llm", "optimum-nvidia": "tensorrt-llm", "fastertransformer": "fastertransformer",
    "gpt-fast": "compiled", "mlc-llm": "compiled", "onnxruntime": "compiled", "ctranslate2": "compiled",
    "llama.cpp": "llama.cpp", "exllama": "exllama", "exllamav2": "exllama", "autoawq": "autoawq",
    "neuronx": "neuron", "vllm-neuron": "neuron", "jetstream": "vllm-tpu", "vllm-tpu": "vllm-tpu", "sglang-jax": "vllm-tpu",
    "ipex": "host", "mlperf-custom": "host",
}  # fmt: skip
EXPERTS = {"mixtral-8x7b": (8, 2), "qwen2-57b-a14b": (64, 8), "deepseek-r1": (256, 8)}
VOCABULARY = (  # first match; size of the vocabulary, and whether the output projection is the input table
    (r"codellama", 32016, False), (r"glm-4", 151552, False), (r"opt", 50272, True), (r"bloom", 250880, True), (r"bge", 30522, True),
    (r"deepseek-coder", 32256, False), (r"deepseek-r1", 129280, False), (r"falcon", 65024, True),
    (r"gemma", 256000, True), (r"gpt-oss", 201088, False), (r"gpt-j", 50400, False), (r"gpt-", 51200, True), (r"internlm", 103168, False),
    (r"llama-3", 128256, False), (r"llama|vicuna|mistral|mixtral", 32000, False), (r"mpt", 50432, True), (r"phi", 51200, False),
    (r"qwen(2|2\.5|3)-(0\.5|0\.6|1\.5|1\.7|3|4)b$", 151936, True), (r"qwen", 152064, False), (r"starcoder", 49152, True),
    (r"stablelm", 50432, False), (r"(distil|ro)?berta?", 30522, True), (r"tinyllama|openllama", 32000, False),
)  # fmt: skip
BITS_16 = 16.0
BYTES_OF_CACHE = {"fp8": 1, "int8": 1, "fp32": 4}
PCIE = 32e9


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One measurement: its case, its quantity, and the group with which it is left out."""

    case: Mapping[str, float]
    card: tuple[str, float, str]
    metric: str
    value: float
    weight: float
    model: str
    accelerator: str
    regime: str
    source: str

    @property
    def engine(self) -> str:
        """Name of the engine."""
        return ENGINES[int(self.case["engine"])]


def law_inputs(points: list[Point]) -> CostModelInputs:
    """The cases of n points as inputs of the laws, shape (n,)."""
    cards = (p.card for p in points)
    return tabulate([p.case for p in points], [class_ceilings(CARDS[card], share, arithmetic, CARDS) for card, share, arithmetic in cards])


OWN_UNITS = {"fp8": "fp8", "nvfp4": "fp4", "mxfp4": "fp4"}


def kernel_of(engine: str, quant: str, *, experts: bool) -> str:
    """Which kernels read weights stored so."""
    plain = {"bf16": "half", "fp16": "half", "fp32": "fp32", "tf32": "fp32"}
    if quant in plain:
        return plain[quant]
    if engine == "llama.cpp" or quant.startswith(("q", "exl2")):
        return "gguf"
    if quant in OWN_UNITS:
        return OWN_UNITS[quant]
    if quant.startswith(("bnb", "nf4")) or (engine == "transformers" and quant == "int8"):
        return "bnb8" if "int8" in quant else "bnb4"
    if quant == "awq" and engine in EAGER:
        return "awq"
    return ("int8" if "int8" in quant else "int4") + ("-experts" if experts else "")


def _layout(p: Mapping[str, Any], card: Accelerator, weights: float) -> tuple[float, float, float]:
    """Devices that split a layer, stages, copies."""
    layout, n = p["parallelism"], float(p["n_devices"])

    def count(mark: str) -> float:
        number = re.search(mark + r"(\d+)", layout)
        return float(number[1]) if number else 0.0

    if layout in {"layer-split", "pp-naive"}:
        return 1.0, n, 1.0
    if layout == "row-split" or "dep" in layout:
        return n, 1.0, 1.0
    if layout == "vendor choice":
        split = 1.0
        while split < n and split * float(card.memory_usable or 2e11) < weights * 1.3:
            split *= 2
        return split, 1.0, n / split
    split, stages, copies = count("tp") or 1.0, count("pp") or 1.0, count("dp")
    if "cores" in layout:  # Inferentia counts cores, two to a chip
        return max(1.0, split / 2), 1.0, max(1.0, copies if count("tp") else 1.0)
    return split, stages, copies or max(1.0, n / (split * stages))


def _vocabulary(model: str) -> tuple[int, bool]:
    for pattern, size, tied in VOCABULARY:
        if re.match(pattern, model):
            return size, tied
    raise ValueError(f"no vocabulary is known for {model}")


def read_bytes(*, parameters: float, table: float, tied: bool, bits: float, kernel: str) -> float:
    """Bytes of the weights that a step reads: without the input table, and with the head in 16 bits where the format leaves it so."""
    body = parameters - table * (1 if tied else 2)
    head = bits if kernel in {"half", "fp32", "gguf"} else BITS_16
    return (body * bits + table * head) / 8


class Software(NamedTuple):
    """Work of an engine's release apart from the matrices: versions differ, and so do measurements of the same engine.

    `cache_copied`: the cache grows by `torch.cat` at each step. `repeats_heads`: keys are first repeated for each query head. `all_logits`:
    the output projection runs on every position of a prompt.
    """

    cache_copied: bool = False
    repeats_heads: bool = False
    all_logits: bool = False


STATIC_CACHES = frozenset({"litgpt", "autoawq"})
"""Engines that the fit counts among the eager ones, with caches allocated in advance."""
GROUPED_SINCE = (4, 54)
"""The release of transformers whose attention takes grouped heads as they are (integrations/sdpa_attention.py, `enable_gqa`)."""


def software_of(p: Mapping[str, Any]) -> Software:
    """Traits of the engine of a point, from its name and version; transformers without a version is one of 2023."""
    if ENGINE_OF.get(p["engine"]) not in CACHE_COPYING or p["engine"] in STATIC_CACHES:
        return Software()
    version = re.search(r"\b(4)\.(\d+)", str(p.get("engine_version")))
    repeats = version is None or (int(version[1]), int(version[2])) < GROUPED_SINCE
    return Software(cache_copied=True, repeats_heads=repeats, all_logits="all positions" in p.get("notes", ""))


FIRST_SCHEDULERS = frozenset({"vllm", "deepspeed-mii"})
V1_SINCE = (0, 8)
"""The release of vLLM that made its second engine (V1) the default: its scheduler runs in a process of its own. V0 schedules, prepares
inputs and turns tokens to text in Python between two steps (vllm.ai/blog, "vLLM V1: A Major Upgrade", 2025-01-27; release notes of 0.8.0,
2025-03-18)."""


def schedules_between(p: Mapping[str, Any]) -> bool:
    """Whether the release of a point's engine schedules between two steps; a version that is a year is one of V0."""
    if p["engine"] not in FIRST_SCHEDULERS:
        return False
    version = re.search(r"\b0\.(\d+)", str(p.get("engine_version")))
    return version is None or (0, int(version[1])) < V1_SINCE


def public_case(p: Mapping[str, Any], m: Mapping[str, Any]) -> tuple[dict[str, float], tuple[str, float, str]]:
    """The case of a point and the card that it ran on; `m` are the sizes of its model."""
    card = CARDS[p["accelerator"]]
    software = software_of(p)
    engine = "host" if card.kind == "cpu" else ENGINE_OF[p["engine"]]
    experts, per_token = EXPERTS.get(p["model"], (m.get("experts", 0), m.get("top_k", 0)))
    kernel = kernel_of(engine, p["quant"], experts=experts > 0)
    size, is_tied = _vocabulary(p["model"])
    table, total, active = float(size * m["hidden"]), p["params_b"] * 1e9, p["active_params_b"] * 1e9
    encoder = p["task"] == "encoder"
    if encoder:
        total = active = m["body_params_b"] * 1e9
        table = 0.0
    routed = min(total - 2 * table, (total - active) / (1 - per_token / experts)) if experts else 0.0
    bits = m["fixed_weight_gib"] * 2**33 / total if "fixed_weight_gib" in m else p["weight_bits"]
    weights = read_bytes(parameters=total, table=table, tied=is_tied or encoder, bits=bits, kernel=kernel)
    expert_bytes = routed * bits / 8
    split, stages, copies = _layout(p, card, weights)
    half = 0.5 if "gpt-oss" in p["model"] else 0.0  # every other layer keeps a window of 128
    per = 2.0 * m["n_layers"] * m["kv_heads"] * m["head_dim"] * BYTES_OF_CACHE.get(p["kv_dtype"], 2)
    rate, bus = (PCIE, True) if p.get("interconnect") == "PCIe" else find_link_rate(card)
    arithmetic = "int8" if engine == "llama.cpp" and kernel == "gguf" else p["compute_dtype"]
    if arithmetic == "int8" and kernel not in {"int8", "gguf"}:
        arithmetic = "fp16"
    case = {
        "engine": ENGINES.index(engine), "kernel": KERNELS.index(kernel), "eager": engine in EAGER,
        "dense_bytes": weights - expert_bytes, "expert_bytes": expert_bytes, "experts": experts, "experts_per_token": per_token,
        "active_parameters": active - (0.0 if is_tied or encoder else table),
        "head_parameters": 0.0 if encoder or software.all_logits else table, "layers": m["n_layers"], "hidden": m["hidden"],
        "attention_width": m["heads"] * (160 if m.get("mla") else m["head_dim"]),
        "full_layers": m["n_layers"] * (1 - half), "windowed_layers": m["n_layers"] * half,
        "cache_constant": 0, "cache_per_token": per * (1 - half), "cache_windowed": per * half, "window": 128 if half else 0,
        "cache_shards": split if "dep" in p["parallelism"] else m["kv_heads"],
        "cache_copied": software.cache_copied and not encoder,
        "cache_repeats": m["heads"] / m["kv_heads"] if software.repeats_heads and not m.get("mla") else 1,
        "packed_parameters": total - 2 * table if engine in EAGER and kernel in FUSED_ROWS else 0,
        "fused_rows": FUSED_ROWS.get(kernel, ALL_ROWS), "emulated": emulates(card, arithmetic), "converted": False,
        "memory": float(card.memory_usable or 2e11), "link": rate, "over_pcie": bus,
        "tensor_parallel": split, "pipeline_stages": stages, "replicas": copies,
        "row_split": p["parallelism"] == "row-split", "pipelined": p["parallelism"] == "layer-split" and engine == "llama.cpp",
        "prompt_tokens": p["prompt_tokens"] or 1, "output_tokens": p["output_tokens"] or 1,
        "running_requests": max(p["batch_or_concurrency"] or 0, 1),
        "static_cache_tokens": p.get("static_kv_read_tokens") or 0, "held_steps": 0, "bunched_arrivals": False,
        "scheduled_between": schedules_between(p),
    }  # fmt: skip
    return case, (card.id, 1.0, arithmetic)


def public(facts: Path) -> Iterator[Point]:
    """The public points about language models and encoders whose conditions are known."""
    content = json.loads((facts / "measured_throughput.json").read_text(encoding="utf-8"))
    for p in content["points"]:
        if p["task"] not in {"llm", "encoder"} or p["reliability"] not in {"high", "medium"}:
            continue
        case, card = public_case(p, content["models"][p["model"]])
        unbounded = p["batch_or_concurrency"] is None or p["metric"] == "max_load_output_tok_s"
        yield Point(
            case=case,
            card=card,
            metric="full_load" if unbounded else p["metric"],
            value=p["value"],
            weight=1.0,
            model=p["model"],
            accelerator=p["accelerator"],
            regime=p["regime"],
            source="public",
        )
