"""Published runs of fine-tuning as questions to the law: memory from the folder of facts, by stack.

A run states model, method, optimizer, checkpointing, length and batch; here they become a `TrainingRequest`. Left out are runs that hide
what they hold: methods of other families (GaLore, LISA, AdaLoRA, LLaMA Pro, adapters of GPTQ and AWQ checkpoints, RWKV, which
transformers does not hold), a run that reports less than its own weights take, and models of which no configuration is at hand.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from lib.errors import AdvisorError
from lib.model import bundled
from lib.model.resolve import resolve_config, resolve_count
from lib.model.spec import ModelSpec, Origin
from lib.units import GIB, MIB
from lib.workload import Optimizer, Stack, TrainingRequest

UNITS = {"GB": 10**9, "GiB": GIB, "MiB": MIB}
CONTEXT = 1343 * MIB  # in the figures of hf-perf-guide, as it states
OPTIMIZERS: dict[str, Optimizer] = {
    "adamw_torch": "adamw_foreach", "adamw": "adamw_foreach", "adamw_torch_fused": "adamw", "adamw_bnb_8bit": "adamw_8bit",
    "adamw_8bit": "adamw_8bit", "adamw_torch_8bit": "adamw_8bit", "adafactor": "adafactor", "adam 8-bit (bnb)": "adamw_8bit",
}  # fmt: skip
STACKS: dict[str, Stack] = {
    "swift-bench": "ms-swift", "axolotl-examples": "axolotl", "swift-examples": "ms-swift", "hf-perf-guide": "transformers",
}  # fmt: skip
OTHERS = ("galore", "lisa", "adalora", "llamapro", "expert")
BELOW_ITS_WEIGHTS = ("Qwen/Qwen3.5-27B", "full")
SAME_AS = {
    "NousResearch/Llama-2-70b-hf": "meta-llama/Llama-2-70b-hf",
    "huggyllama/llama-7b": "meta-llama/Llama-2-7b-hf",
    "01-ai/Yi-6B-Chat": "01-ai/Yi-1.5-6B",
    "allenai/Olmo-3-7B-Instruct-SFT": "allenai/Olmo-3-7B-Instruct",
    "katanemo/Plano-Orchestrator-4B": "Qwen/Qwen3-4B-Instruct-2507",
    "mistralai/Ministral-3-3B-Reasoning-2512": "mistralai/Ministral-3-3B-Instruct-2512",
}


def _decoder(model_type: str, architecture: str, sizes: tuple[int, int, int, int, int, int], **more: Any) -> dict[str, Any]:
    hidden, layers, heads, key_heads, width, vocabulary = sizes
    return {
        "model_type": model_type, "architectures": [architecture], "hidden_size": hidden, "num_hidden_layers": layers,
        "num_attention_heads": heads, "num_key_value_heads": key_heads, "intermediate_size": width, "vocab_size": vocabulary,
        "tie_word_embeddings": False, "torch_dtype": "bfloat16", "max_position_embeddings": 32768, **more,
    }  # fmt: skip


def _qwen(*sizes: int) -> dict[str, Any]:
    hidden, layers, heads, width, vocabulary = sizes
    return _decoder("qwen2", "Qwen2ForCausalLM", (hidden, layers, heads, heads, width, vocabulary))


CONFIGS: dict[str, dict[str, Any]] = {
    "Qwen/Qwen-1_8B-Chat": _qwen(2048, 24, 16, 5504, 151936),
    "Qwen/Qwen-7B-Chat": _qwen(4096, 32, 32, 11008, 151936),
    "Qwen/Qwen-14B-Chat": _qwen(5120, 40, 40, 13696, 152064),
    "Qwen/Qwen-72B-Chat": _qwen(8192, 80, 64, 24576, 152064),
    "THUDM/chatglm3-6b": _decoder(
        "glm", "GlmForCausalLM", (4096, 28, 32, 2, 13696, 65024), attention_bias=True, head_dim=128, pad_token_id=0
    ),
    "OpenBuddy/openbuddy-zephyr-7b-v14.1": _decoder("mistral", "MistralForCausalLM", (4096, 32, 32, 8, 14336, 36608)),
    "baichuan-inc/Baichuan2-7B-Chat": _decoder("llama", "LlamaForCausalLM", (4096, 32, 32, 32, 11008, 125696)),
    "facebook/opt-350m": {
        "model_type": "opt", "architectures": ["OPTForCausalLM"], "hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16,
        "ffn_dim": 4096, "vocab_size": 50272, "word_embed_proj_dim": 512, "do_layer_norm_before": False,
        "max_position_embeddings": 2048,
    },
    "bigcode/gpt_bigcode-santacoder": {
        "model_type": "gpt_bigcode", "architectures": ["GPTBigCodeForCausalLM"], "n_embd": 2048, "n_head": 16, "n_layer": 24,
        "n_inner": 8192, "n_positions": 2048, "vocab_size": 49280, "multi_query": True,
    },
    "ibm/PowerLM-3b": _decoder("granite", "GraniteForCausalLM", (2304, 40, 36, 36, 9216, 49152), tie_word_embeddings=True),
    "google-bert/bert-large-uncased": {
        "model_type": "bert", "architectures": ["BertForSequenceClassification"], "hidden_size": 1024, "num_hidden_layers": 24,
        "num_attention_heads": 16, "intermediate_size": 4096, "vocab_size": 30522, "max_position_embeddings": 512,
    },
}  # fmt: skip
"""Models whose own code transformers does not hold, as the architecture of transformers with the same matrices; each of them has the number
of parameters that the facts print (`check_counts`)."""


KEEPS_GRADIENTS = frozenset({"hf-perf-guide"})
"""Sources with torch before 2.0, where `zero_grad` filled gradients with zeros: they stay on the device between steps, as with
accumulation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A published run: its request, and the bytes that its allocator had reserved."""

    source: str
    model: str
    spec: ModelSpec
    request: TrainingRequest
    reserved_bytes: int


@cache
def find_model(model_id: str) -> ModelSpec | None:
    """The bundled model, else one built of `CONFIGS`."""
    spec = bundled.find_spec(SAME_AS.get(model_id, model_id))
    if spec is None and model_id in CONFIGS:
        return resolve_config(CONFIGS[model_id], Origin(id=model_id))
    return spec


def read_points(facts: Path, name: str, key: str = "points") -> list[dict[str, Any]]:
    """The rows of a file of facts."""
    return list(json.loads((facts / name).read_text(encoding="utf-8"))[key])


def check_counts(facts: Path) -> list[str]:
    """Models of `CONFIGS` whose number of parameters is not the printed one within 1 %."""
    printed = {p.get("model_hf_id"): p["params_b"] for p in read_points(facts, "training_memory.json") if p.get("params_b")}
    specs = {name: find_model(name) for name in CONFIGS if name in printed}
    return [name for name, spec in specs.items() if spec and abs(spec.parameters_total / 1e9 / printed[name] - 1) > 0.01]  # noqa: PLR2004


def single_device_runs(facts: Path) -> Iterator[Run]:
    """The runs of `training_memory.json` on one device with a stated length, of reliability high or medium."""
    for point in read_points(facts, "training_memory.json"):
        model = point.get("model_hf_id") or ""
        if not point.get("seq_len") or point["n_devices"] != 1 or point["reliability"] == "low" or point["source"] not in STACKS:
            continue
        spec = find_model(model)
        request = _request(point, spec) if spec is not None and (model, point["method"]) != BELOW_ITS_WEIGHTS else None
        if spec is None or request is None:
            continue
        reserved = point["bytes"] - (CONTEXT if point["source"] == "hf-perf-guide" else 0)
        yield Run(source=point["source"], model=model, spec=spec, request=request, reserved_bytes=reserved)


def _request(point: dict[str, Any], spec: ModelSpec) -> TrainingRequest | None:
    variant = point.get("variant") or ""
    optimizer = OPTIMIZERS.get(point["optimizer"])
    if point["source"] == "hf-perf-guide" and optimizer == "adamw_foreach":
        optimizer = "adamw"  # torch before 2.0 steps tensor by tensor
    by_quantizer = point["method"] == "qlora" and point["quant"] not in {"nf4", "bf16"}
    if point["method"] not in {"full", "lora", "qlora"} or optimizer is None or by_quantizer or any(word in variant for word in OTHERS):
        return None
    attention = point.get("attention") or ""
    single = point["quant"].startswith("fp32")
    return TrainingRequest(
        method="dora" if variant == "dora" else point["method"],
        rank=point.get("lora_rank") or 8,
        target_modules=targets_of(point.get("target_modules") or "", spec),
        optimizer=optimizer,
        precision="mixed" if "amp" in point["compute_dtype"] else "fp32" if single else "bf16",
        checkpointing="layers" if point["gradient_checkpointing"] is True else "none",
        attention="flash" if attention.startswith("flash") else "eager" if attention.startswith(("eager", "model code")) else "sdpa",
        sequence_tokens=point["seq_len"],
        micro_batch=point["batch"],
        accumulation=max(point.get("grad_accum") or 1, 2 if point["source"] in KEEPS_GRADIENTS else 1),
        stack=STACKS[point["source"]],
        packing=_lengths_are_equal(point),
        fused_loss=_fuses(point),
    )


def _lengths_are_equal(point: dict[str, Any]) -> bool:
    """Whether every micro-batch is as long: packed, or dummy data.

    A cap is none: of rows of 91 to 19,548 tokens ms-swift deleted the longer ones (`truncation_strategy`, swift/llm/utils/argument.py at
    db07118d0), and its packing left a shorter piece of each buffer (`ConstantLengthDataset`, swift/llm/utils/utils.py).
    """
    return not (point.get("seq_len_kind") or "").startswith("cap")


def _fuses(point: dict[str, Any]) -> bool:
    """Whether no logits over the vocabulary are held: a fused loss, or the two classes that the guide of 2022 trains."""
    fused = point.get("fused_loss") == "cut cross entropy" or point.get("use_liger") in {"true", True}
    return fused or point["source"] == "hf-perf-guide"


def targets_of(modules: str, spec: ModelSpec) -> tuple[str, ...]:
    """The targeted modules that the model has; all of them where none is named."""
    names = {group.name.removesuffix(".weight").rpartition(".")[2] for group in spec.tensors if group.kind == "linear"}
    if "DEFAULT" in modules:
        return tuple(name for name in ("q_proj", "k_proj", "v_proj") if name in names) or ("all-linear",)
    if "," in modules and "(" not in modules:
        return tuple(name for name in (part.rpartition(".")[2] for part in modules.split(",")) if name in names) or ("all-linear",)
    return ("all-linear",)


def other_runs(facts: Path) -> Iterator[Run]:
    """Runs of peft's method comparison: another stack. Qwen's own script is left out, whose page does not say which memory it prints."""
    for point in read_points(facts, "bench_memory.json"):
        plain = point.get("method") in {"lora", "full"} and not any(
            word in point.get("variant", "") for word in ("ff", "bdlora", "fa", "mica")
        )
        if point.get("source") != "peft-metamath-raw" or point.get("memory_kind") != "reserved_peak_p99" or not plain:
            continue
        lora = point["method"] == "lora"
        request = TrainingRequest(
            method=point["method"], rank=point.get("lora_rank") or 8, target_modules=tuple(point.get("lora_targets") or ("all-linear",)),
            optimizer="adamw" if lora else "adamw_foreach", precision="bf16", checkpointing="none", packing=False,
            sequence_tokens=point["seq_len"], micro_batch=point["batch"], stack="transformers",
        )  # fmt: skip
        yield from _run(point, "peft-metamath", request)


def _run(point: dict[str, Any], source: str, request: TrainingRequest) -> Iterator[Run]:
    model = point["model_hf_id"]
    try:
        spec = find_model(model)
    except AdvisorError:
        return
    if spec is not None:
        yield Run(source=source, model=model, spec=spec, request=request, reserved_bytes=round(point["value"] * UNITS[point["unit"]]))


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedRun:
    """A published run with the seconds of its step."""

    source: str
    model: str
    card: str
    spec: ModelSpec
    request: TrainingRequest
    step_s: float


class FailedRun(NamedTuple):
    """A published run that ended out of memory, and the card's bytes; `spec` is a pipeline's where pictures or clips were trained."""

    model: str
    spec: ModelSpec
    request: TrainingRequest
    card_bytes: int


A_PIPELINE = "Wan-AI/Wan2.1-T2V-14B-Diffusers"
"""Represents the families of pictures and clips of which no configuration is at hand: whether a pipeline can be trained is asked of one."""


def failed_runs(facts: Path) -> Iterator[FailedRun]:
    """Runs that ended out of memory; RWKV-6 by its number of parameters, with the float32 states of DeepSpeed, as its rows say."""
    for point in read_points(facts, "training_memory.json", "oom_points"):
        text = point["task"] == "llm-finetune"
        spec = resolve_count(point["model"].rpartition("-")[2].upper()) if text else find_model(A_PIPELINE)
        if spec is not None:
            request = TrainingRequest(
                method="full" if point["method"] == "full" else "lora", rank=point.get("lora_rank") or 16, stack="transformers",
                checkpointing="layers", sequence_tokens=point.get("seq_len") or 1, micro_batch=point["batch"],
            )  # fmt: skip
            yield FailedRun(point["model"], spec, request, round(point["card_gib"] * GIB))


class NotebookRun(NamedTuple):
    """A public notebook of Unsloth: the request at 512 tokens, GiB reserved after loading, and the card it ran on ("" for a load alone)."""

    model: str
    spec: ModelSpec
    request: TrainingRequest
    loaded_gib: float | None
    ran_on: str


_NOTEBOOK_NAMES = {"llama-3-8b-instruct": "meta-llama-3-8b-instruct", "mistral-nemo-base-2407": "mistral-nemo-instruct-2407"}
"""Unsloth's name of a repository, and that of a bundled model with the same matrices."""
_NOTEBOOK_TOKENS = 512
"""Tokens of a row at which the notebooks are judged: they print the limit, and no length of their rows."""


def notebook_runs(facts: Path) -> Iterator[NotebookRun]:
    """Loads and runs of Unsloth's notebooks on text and pictures, of models that are bundled."""
    by_name = {name.rpartition("/")[2].lower(): name for name in bundled.list_ids()}
    for point in read_points(facts, "field_points.json"):
        ran = point["metric"] == "peak_memory_gib"
        if point["source"] != "unsloth-notebooks" or not (ran or point["metric"] == "loaded_memory_gib"):
            continue
        name = point["model_hf_id"].rpartition("/")[2].lower().removesuffix("-bnb-4bit").removesuffix("-unsloth")
        spec = find_model(by_name.get(_NOTEBOOK_NAMES.get(name, name), ""))
        if spec is None or spec.work != "decoder" or point["task"] not in {"load", "llm-finetune", "vlm-finetune"}:
            continue
        request = TrainingRequest(
            method=point["method"], rank=point.get("lora_rank") or 16, optimizer=OPTIMIZERS.get(point.get("optimizer", ""), "adamw_8bit"),
            sequence_tokens=_NOTEBOOK_TOKENS, packing=False, micro_batch=point.get("batch") or 2, stack="unsloth",
        )  # fmt: skip
        yield NotebookRun(spec.id, spec, request, None if ran else point["value"], point["accelerator"] if ran else "")


PADDED = 307
"""Tokens to which peft's batches of four are padded: 1.46 times the mean of 209.9, as the longest of four is whose lengths vary by 45 %.
A judgement; the source prints the mean and the limit of 768 only, and counts no padding."""


def timed_runs(facts: Path) -> Iterator[TimedRun]:
    """Steps on one device, of reliability high or medium; without those that their source marks as bound by the host of a bare loop."""
    for point in read_points(facts, "bench_throughput.json"):
        usable = point.get("n_devices") == 1 and point["reliability"] != "low" and "host-bound" not in (point.get("notes") or "")
        case = _timed_request(point) if usable else None
        spec = find_model(point["model_hf_id"]) if case is not None else None
        if case is not None and spec is not None:
            request, step_s = case
            yield TimedRun(source=point["source"], model=spec.id, card=point["accelerator"], spec=spec, request=request, step_s=step_s)
    for point in read_points(facts, "training_memory.json"):
        spec = find_model("google-bert/bert-large-uncased") if point["source"] == "hf-perf-guide" else None
        if spec is not None and "fp16 amp" in point["compute_dtype"] and point.get("seq_len"):
            asked_of = _request(point, spec)
            if asked_of is not None:
                rows = point["batch"] * (point.get("grad_accum") or 1)
                yield TimedRun(
                    source="hf-perf-guide", model=spec.id, card="V100-SXM2", spec=spec, request=asked_of,
                    step_s=rows / point["speed"]["samples_per_s"],
                )  # fmt: skip


def _timed_request(point: dict[str, Any]) -> tuple[TrainingRequest, float] | None:
    """The question of a point, and the seconds of its step; None for other sources and methods."""
    source = point["source"]
    method: Any = point.get("method")
    batch = point.get("micro_batch") or 0
    plain = TrainingRequest(precision="bf16", checkpointing="none", micro_batch=max(1, batch), stack="transformers", rank=8)
    if source == "ob-train" and "gptq" not in point["quant"]:
        modules = ("all-linear",) if method == "full" else ("q_proj", "v_proj")
        request = replace(plain, method=method, target_modules=modules, optimizer="adamw_foreach", attention="eager", sequence_tokens=256)
        return request, batch * 256 / point["value"]
    if source == "odissei-torchtune":
        return replace(plain, method="lora", rank=64, sequence_tokens=2048, stack="torchtune"), batch * 2048 / point["value"]
    if source == "lambda-bert" and batch and point["quant"] == "fp16":
        return replace(plain, method="full", precision="mixed", sequence_tokens=384), batch / point["value"]
    if (
        source == "peft-metamath-raw"
        and method in {"lora", "full"}
        and not any(v in point["variant"] for v in ("ff", "bdlora", "fa", "mica"))
    ):
        modules = tuple(point.get("lora_targets") or ("all-linear",))
        request = replace(plain, method=method, rank=point.get("lora_rank") or 8, target_modules=modules, sequence_tokens=PADDED)
        return request, point["step_s"]
    if source == "tf-docs-sdpa" and point["metric"] == "train_tokens_per_s":
        tokens = point.get("seq_len") or point["prompt_tokens"]
        request = replace(plain, method="full", optimizer="sgd", attention=point["attention"], sequence_tokens=tokens)
        return request, batch * tokens / point["value"]
    return None
