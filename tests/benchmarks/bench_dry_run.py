"""Closed forms beside executed architectures, as the README states them.

    python -m tests.benchmarks.bench_dry_run [MODEL ...]                inference: without names one model of each architecture, the
        smallest; prompts of 1 · 512, 4 · 2048 and 16 · 256 tokens (or as many as the model takes), 64 tokens of answer
    python -m tests.benchmarks.bench_dry_run --training [MODEL ...]     a training step, without names of `TRAINED`: in full, LoRA and
        QLoRA of rank 16, with and without checkpoints, one sequence of 512 tokens, bf16, AdamW
    python -m tests.benchmarks.bench_dry_run --pipelines [MODEL ...]    pictures and clips, without names of `PICTURES`, in bf16, at sizes
        that the closed form was not fitted on (it is fitted on 0.5, 0.75 and 1 times the pipeline's own sides)

Every row is printed with its ratios, closed form / executed; a refusal with its sentence. Each table takes some minutes.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Iterable, Iterator
from itertools import product
from typing import Any, Literal

import torch

from lib.errors import AdvisorError
from lib.memory import estimate_memory
from lib.model import bundled
from lib.model.build import BuiltModel
from lib.model.diffusion import build_component
from lib.model.dry_run import dry_run
from lib.model.pipeline_run import MetaPipeline, Shape, run_encoder
from lib.model.spec import ModelSpec
from lib.service.resolve_model import DryRunArguments, inference_figures, training_figures, training_step
from lib.workload import MemoryRequest, PipelineRequest

SHAPES = ((1, 512), (4, 2048), (16, 256))
_OUTPUT = 64
_CLOSE = 0.05
_INFERENCE = ("cache at the end", "activations of the prompt", "peak", "prefill", "decode step")
_STAGES = ("weights", "encode", "denoise", "decode", "peak")
_STEP = ("weights and buffers", "gradients", "optimizer states", "saved activations", "peak")
TRAINED = (
    "meta-llama/Llama-3.2-1B", "Qwen/Qwen2.5-0.5B", "Qwen/Qwen3-0.6B", "google/gemma-2-2b", "google/gemma-3-1b-it",
    "allenai/OLMo-2-0425-1B", "ibm-granite/granite-3.3-8b-instruct", "mistralai/Mistral-7B-v0.1", "microsoft/phi-1",
    "microsoft/Phi-3-mini-128k-instruct", "EleutherAI/pythia-14m", "distilbert/distilgpt2", "bigcode/starcoder2-3b",
    "stabilityai/stablelm-2-zephyr-1_6b", "tiiuae/falcon-7b", "bigscience/bloom-560m", "allenai/OLMoE-1B-7B-0125-Instruct",
    "state-spaces/mamba-130m-hf", "google-bert/bert-base-uncased",
)  # fmt: skip
PICTURES: dict[str, Shape] = {
    "stable-diffusion-v1-5/stable-diffusion-v1-5": Shape(batch=3, height=640, width=768),
    "stabilityai/stable-diffusion-xl-base-1.0": Shape(batch=2, height=1216, width=832),
    "stabilityai/stable-diffusion-3-medium-diffusers": Shape(batch=4, height=768, width=1344),
    "black-forest-labs/FLUX.1-schnell": Shape(batch=1, height=1536, width=1024),
    "black-forest-labs/FLUX.2-klein-4B": Shape(batch=2, height=1152, width=896),
    "Tongyi-MAI/Z-Image-Turbo": Shape(batch=2, height=1280, width=768),
    "Qwen/Qwen-Image": Shape(batch=1, height=1328, width=1328),
    "THUDM/CogVideoX-2b": Shape(batch=1, height=416, width=640, frames=33),
    "Wan-AI/Wan2.1-T2V-1.3B-Diffusers": Shape(batch=1, height=480, width=832, frames=41),
}
METHODS: tuple[Literal["full", "lora", "qlora"], ...] = ("full", "lora", "qlora")


def find_smallest() -> Iterator[str]:
    """The smallest bundled model of each architecture of transformers."""
    smallest: dict[str, ModelSpec] = {}
    for spec in filter(None, map(bundled.find_spec, bundled.list_ids())):
        other = smallest.get(spec.architecture)
        if spec.library == "transformers" and (other is None or spec.parameters_total < other.parameters_total):
            smallest[spec.architecture] = spec
    yield from (spec.id for spec in smallest.values())


def compare(name: str, asked: DryRunArguments, cells: tuple[str, ...]) -> tuple[str, float | None]:
    """A row of ratios, and that of the peak; a refusal's sentence where nothing is executed."""
    spec, config = bundled.find_spec(name), bundled.find_config(name)
    if spec is None or config is None:
        return "no configuration is bundled", None
    step = None if asked.mode == "inference" else training_step(asked)
    try:
        run = dry_run(config, batch=asked.batch_size, prompt_tokens=asked.prompt_tokens, output_tokens=asked.output_tokens, training=step)
    except AdvisorError as refused:
        return str(refused), None
    figures = inference_figures(run, run.inference, spec, asked) if run.inference else []
    figures += training_figures(run, run.training, spec, asked) if run.training else []
    ratios = {figure["name"]: figure["ratio"] for figure in figures}
    return " | ".join("–" if ratios.get(cell) is None else f"{ratios[cell]:.3f}" for cell in cells), ratios["peak"]


def run_inference(names: Iterable[str]) -> Iterator[tuple[str, str, str, float | None]]:
    """(Architecture's model, shape, row, ratio of the peak)."""
    for name in names:
        spec = bundled.find_spec(name)
        limit = (spec.context_limit if spec else None) or 10**9
        for batch, tokens in SHAPES:
            prompt = max(1, min(tokens, limit - _OUTPUT))
            asked = DryRunArguments(model=name, prompt_tokens=prompt, output_tokens=_OUTPUT, batch_size=batch)
            yield name, f"{batch} · {prompt}", *compare(name, asked, _INFERENCE)


def run_training(names: Iterable[str]) -> Iterator[tuple[str, str, str, float | None]]:
    """(Model, method, row, ratio of the peak)."""
    for name, method, checkpointing in product(names, METHODS, (True, False)):
        asked = DryRunArguments(model=name, prompt_tokens=512, mode=method, checkpointing=checkpointing)
        yield name, f"{method}, {'with' if checkpointing else 'without'} checkpoints", *compare(name, asked, _STEP)


def run_pipelines(names: Iterable[str]) -> Iterator[tuple[str, str, str, float | None]]:
    """(Pipeline, size, row, ratio of the peak): temporary tensors of each stage, all components resident."""
    for name in names:
        shape, config, spec = PICTURES.get(name, Shape(batch=2, height=640, width=768)), bundled.find_config(name), bundled.find_spec(name)
        case = f"{shape.batch} · {shape.width} × {shape.height}" + (f" × {shape.frames}" if shape.frames else "")
        if config is None or spec is None:
            yield name, case, "no configuration is bundled", None
            continue
        parts: dict[str, Any] = {part: build_component(part, of).built for part, of in config.items()}
        encoders = {part: built for part, built in parts.items() if isinstance(built, BuiltModel)}
        pipeline = MetaPipeline({part: built for part, built in parts.items() if part not in encoders})
        run = pipeline.call(shape, torch.bfloat16)
        encode = max(run_encoder(built, shape.batch, pipeline.prompt_tokens).peak for built in encoders.values())
        modules = [built.model if isinstance(built, BuiltModel) else built for built in parts.values()]
        weights = sum(torch.bfloat16.itemsize * parameter.numel() for module in modules for parameter in module.parameters())
        asked = PipelineRequest(width=shape.width, height=shape.height, frames=shape.frames)
        stages = estimate_memory(spec, MemoryRequest(precision="bf16", batch_size=shape.batch, pictures=asked)).stages
        executed = [encode, run.denoise.peak, run.decode.peak]
        ratios = [stage.activation / did for stage, did in zip(stages, executed, strict=True)]
        peak = max(stage.total for stage in stages) / (weights + max(executed))
        held = sum(stages[0].weights.values()) / weights
        yield name, case, " | ".join(f"{ratio:.3f}" for ratio in (held, *ratios, peak)), peak


def main() -> None:
    """Print the rows and a summary."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*")
    parser.add_argument("--training", action="store_const", const="training", dest="what", default="inference")
    parser.add_argument("--pipelines", action="store_const", const="pipelines", dest="what")
    options = parser.parse_args()
    run, cells, usual = {
        "inference": (run_inference, _INFERENCE, find_smallest),
        "training": (run_training, _STEP, lambda: TRAINED),
        "pipelines": (run_pipelines, _STAGES, lambda: PICTURES),
    }[options.what]
    peaks: dict[str, list[float]] = {}
    print("| model | case | " + " | ".join(cells) + " |")  # noqa: T201 - a benchmark prints
    for name, case, row, peak in run(options.models or usual()):
        spec = bundled.find_spec(name)
        print(f"| {spec.architecture if spec else ''} {name} | {case} | {row} |", flush=True)  # noqa: T201
        if peak is not None:
            peaks.setdefault(name, []).append(peak)
    every = [ratio for of in peaks.values() for ratio in of]
    errors = [abs(ratio - 1) for ratio in every]
    whole = sum(all(abs(ratio - 1) <= _CLOSE for ratio in of) for of in peaks.values())
    print(  # noqa: T201
        f"{len(peaks)} architectures, {len(every)} cases: the peak is {statistics.median(errors):.2%} off in the median, within 5 % in "
        f"{sum(error <= _CLOSE for error in errors) / len(errors):.0%} of the cases and in every case of {whole}; lowest {min(every):.3f}, "
        f"highest {max(every):.3f}"
    )


if __name__ == "__main__":
    main()
