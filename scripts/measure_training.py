"""Measure training steps on one CUDA card: seconds and peak memory of each phase, written as JSON.

    python -m scripts.measure_training --out rows.json               every case of scripts/training_cases.json
    python -m scripts.measure_training --out rows.json --only grpo   cases whose name contains a word
    python -m scripts.measure_training --out rows.json --tiny        shrunken models on the CPU, to try the script
    python -m scripts.measure_training --out rows.json --only flux --without-cudnn   FLUX, which cuDNN's attention of torch 2.11 ended

Models have random weights and the published shapes (`lib/data/model_configs.jsonl.gz`), so that nothing is downloaded. They are trained by
TRL, transformers, sentence-transformers and peft; pictures by diffusers' models in a loop like that of its examples. Sequences have exactly
the stated length, or vary around `row_tokens`. Random weights seldom write an end token, so answers of GRPO have their full length too.

The device is synchronized whenever a phase begins or ends. The first step and a profiled one are dropped. A case that fails is recorded
with its error, and the next one follows. The file is written after each case, so that a stopped run keeps its results.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import importlib.metadata
import json
import os
import tempfile
import time
import traceback
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import diffusers
import torch
from diffusers.training_utils import cast_training_params
from peft import LoraConfig

from scripts.training_meter import CUDA, Meter, StepEnds
from scripts.training_rigs import DEVICE, TRAINERS, Case, read_configs, trl_trainer

CASES = Path(__file__).resolve().parent / "training_cases.json"
PACKAGES = ("torch", "transformers", "trl", "peft", "accelerate", "sentence-transformers", "diffusers", "datasets")


def run_trainer(trainer: Any, meter: Meter, profiled_step: int | None) -> None:
    """Train with every phase counted."""
    meter.wrap(trainer, "compute_loss", "forward")
    meter.wrap(trainer.accelerator, "backward", "backward")
    meter.wrap(trainer.accelerator, "clip_grad_norm_", "clip")
    if hasattr(trainer, "_generate"):
        meter.wrap(trainer, "_generate", "rollout")
    for model in (trainer.model, getattr(trainer, "ref_model", None)):
        if model is not None:
            meter.watch(model)
    trainer.add_callback(StepEnds(meter, profiled_step))
    trainer.train()


def run_pictures(case: Case, configs: dict[str, Case], meter: Meter) -> None:
    """LoRA on a denoiser with cached latents and text embeddings, as diffusers' examples train."""
    plain = configs[case["model"]]
    part = plain.get("transformer") or plain["unet"]
    flux = "transformer" in plain
    batch, height, width = case.get("micro_batch", 1), case["height"] // 8, case["width"] // 8
    if case.get("tiny"):
        part = part | ({"num_layers": 1, "num_single_layers": 1, "num_attention_heads": 2} if flux else {"transformer_layers_per_block": 1})
    with torch.device(DEVICE):
        before = torch.get_default_dtype()
        torch.set_default_dtype(torch.bfloat16)
        try:
            model = getattr(diffusers, part["_class_name"]).from_config(part)
        finally:
            torch.set_default_dtype(before)
    model = model.to(DEVICE, torch.bfloat16)
    model.requires_grad_(False)
    targets = case.get("target_modules", ["to_k", "to_q", "to_v", "to_out.0"])
    model.add_adapter(LoraConfig(r=case.get("rank", 16), lora_alpha=case.get("rank", 16), target_modules=targets))
    if case.get("checkpointing", "layers") == "layers":
        model.enable_gradient_checkpointing()
    cast_training_params(model, dtype=torch.float32)
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-6)
    model.train()
    half: dict[str, Any] = {"device": DEVICE, "dtype": torch.bfloat16}
    if flux:
        latents = torch.randn(batch, height * width // 4, part["in_channels"], **half)
        ids = torch.zeros(height * width // 4, 3, **half)
        texts = case.get("text_tokens", 512)
        inputs: dict[str, Any] = {
            "hidden_states": latents, "timestep": torch.full((batch,), 0.5, **half), "guidance": torch.ones(batch, device=DEVICE),
            "pooled_projections": torch.randn(batch, part["pooled_projection_dim"], **half),
            "encoder_hidden_states": torch.randn(batch, texts, part["joint_attention_dim"], **half),
            "txt_ids": torch.zeros(texts, 3, **half), "img_ids": ids,
        }  # fmt: skip
    else:
        latents = torch.randn(batch, part["in_channels"], height, width, **half)
        inputs = {
            "sample": latents, "timestep": torch.full((batch,), 500, device=DEVICE),
            "encoder_hidden_states": torch.randn(batch, 77, part["cross_attention_dim"], **half),
            "added_cond_kwargs": {"text_embeds": torch.randn(batch, 1280, **half), "time_ids": torch.zeros(batch, 6, **half)},
        }  # fmt: skip
    target = torch.randn_like(latents)
    meter.switch("between")
    meter.current = {}
    for _ in range(case["steps"]):
        with meter.during("forward"), torch.autocast(DEVICE.type, torch.bfloat16):
            out = model(**inputs, return_dict=False)[0]
            loss = torch.nn.functional.mse_loss(out.float(), target.float())
        with meter.during("backward"):
            torch.autograd.backward(loss)
        with meter.during("clip"):
            torch.nn.utils.clip_grad_norm_(trained, 1.0)
        with meter.during("optimizer"):
            optimizer.step()
        optimizer.zero_grad()
        meter.end_step()


def measure(case: Case, configs: dict[str, Case]) -> Case:
    """The measured row of a case."""
    meter, started = Meter(), time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        if case.get("kind") == "diffusion":
            run_pictures(case, configs, meter)
        else:
            trainer = TRAINERS.get(case.get("kind") or case["objective"], trl_trainer)(case, configs, folder)
            try:
                run_trainer(trainer, meter, case["steps"] - 1 if case.get("profile") else None)
                trained = [p for p in trainer.model.parameters() if p.requires_grad]
                extra = {
                    "trained_parameters": sum(p.numel() for p in trained),
                    "trained_dtypes": sorted({str(p.dtype) for p in trained}),
                    "parameters": sum(p.numel() for p in trainer.model.parameters()),
                    "experts": getattr(getattr(trainer.model, "config", None), "_experts_implementation", None),
                }
            finally:
                trainer.optimizer = trainer.model = trainer.model_wrapped = None
                trainer.accelerator.free_memory()
    row = meter.summary() | {"wall_s": round(time.perf_counter() - started, 2)}
    if case.get("kind") != "diffusion":
        row |= extra
    if CUDA:
        free, total = torch.cuda.mem_get_info()
        row["outside_allocator"] = total - free - torch.cuda.memory_reserved()
    return row


def release() -> int:
    """Free what a case left; returns the bytes that remain."""
    gc.collect()
    if CUDA:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        return torch.cuda.memory_allocated()
    return 0


def read_cpu() -> str:
    """Name of the processor, and how many cores this process may use."""
    names = [line.partition(":")[2].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    return f"{names[0] if names else 'unknown'}, {len(os.sched_getaffinity(0))} cores"


def describe_machine() -> Case:
    """Card, versions and date."""
    versions = {}
    for name in PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    of = torch.cuda.get_device_properties(0) if CUDA else None
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "card": of.name if of else "CPU",
        "card_bytes": of.total_memory if of else 0,
        "cpu": read_cpu(),
        "cuda": torch.version.cuda,
        "versions": versions,
    }


def shrink_case(case: Case) -> Case:
    """The case for a try on the CPU: short sequences, two steps."""
    small = case | {
        "tiny": True,
        "steps": 2,
        "sequence_tokens": min(case.get("sequence_tokens", 48), 48),
        "micro_batch": min(case["micro_batch"], 2),
    }
    if case.get("kind") == "vlm":
        small |= {"height": 56, "width": 84}
    if case.get("kind") == "diffusion":
        small |= {"height": 128, "width": 128}
    if "pairs" in case:
        small["pairs"] = case["pairs"] | {"cached_batch": 2}
        small["micro_batch"] = 4
    small.pop("prompt_tokens", None)
    if "row_tokens" in case:
        small["row_tokens"] = 20
    if case.get("profile"):
        small["steps"] = 3
    if "rollout" in case:
        small["rollout"] = case["rollout"] | {"generations": 2, "completion_tokens": 16}
    return small


def main() -> int:
    """Measure the cases and write the rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=Path, default=CASES)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--skip", nargs="*", default=[], help="names of cases that are left out")
    parser.add_argument("--tiny", action="store_true", help="shrunken models")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no case after so many seconds")
    parser.add_argument("--without-cudnn", action="store_true", help="attention by torch's own kernels")
    asked = parser.parse_args()
    if asked.without_cudnn:
        torch.backends.cuda.enable_cudnn_sdp(enabled=False)
    started = time.perf_counter()
    configs, rows = read_configs(), []
    for listed in json.loads(asked.cases.read_text(encoding="utf-8")):
        if asked.only and not any(word in listed["name"] for word in asked.only):
            continue
        if listed["name"] in asked.skip:
            continue
        if time.perf_counter() - started > asked.seconds:
            print(f"not begun: {listed['name']}", flush=True)
            continue
        case = shrink_case(listed) if asked.tiny else listed
        left = release()
        try:
            row = measure(dict(case), configs)
            said = f"{row['step_s']:.3f} s, {row['reserved'] / 2**30:.1f} GiB"
        except Exception as error:  # noqa: BLE001  the next case is independent of this one
            row = {"error": f"{type(error).__name__}: {error}"[:600], "traceback": traceback.format_exc()[-3000:]}
            said = row["error"][:300]
            error.__traceback__ = None
        rows.append({"case": case, "left_bytes": left, **row})
        asked.out.write_text(json.dumps({"machine": describe_machine(), "rows": rows}, indent=1), encoding="utf-8")
        print(f"{time.perf_counter() - started:6.1f} s  {case['name']}: {said}", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
