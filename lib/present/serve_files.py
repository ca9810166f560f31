"""How an engine that is a server of its own is started: its image and command, as a Dockerfile for a Space and as lines for `hf`.

    command_words("vllm", "Qwen/Qwen3-8B", Start(precision="bf16", devices=1, context_tokens=8192))

The flags repeat what the recommendation was computed with (length, devices, format, share of the device), so that the defaults of another
release do not change what fits. Words from outside stay one word each: JSON in a Dockerfile, shell quoting in a command.
Sources of the flags, read 2026-11-22: `vllm serve --help` (docs.vllm.ai), docs.sglang.io server arguments, trtllm-serve
(nvidia.github.io/TensorRT-LLM), TGI `launcher/src/main.rs` (db931fc), text-embeddings-inference 1.9 README, llama.cpp tools/server README.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from lib.engines import traits_of
from lib.precision import weight_format

PORT = 8000
_DTYPES = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}
_TGI_FORMATS = {"awq-4": "awq", "gptq-4": "gptq", "gptq-8": "gptq", "bnb-int8": "bitsandbytes", "bnb-nf4": "bitsandbytes-nf4"}
_MANAGED = {"vllm": "vllm", "sglang": "sglang", "tgi": "tgi", "tei": "tei", "llama.cpp": "llamacpp"}
"""Names under which Inference Endpoints run an engine themselves (`hf endpoints deploy --engine`)."""
MADE_WHILE_LOADING = frozenset({"plain", "scaled_tensor", "bnb8", "bnb4", "bnb4_double"})
"""Laws of formats that a server makes of a plain checkpoint; the others are checkpoints of their own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """What the recommendation was computed with; 0 tokens leave the length to the engine, -1 layers are all of them on the GPU."""

    precision: str
    devices: int = 1
    context_tokens: int = 0
    sequences: int = 1
    on_gpu: bool = True
    gpu_layers: int = -1


def command_words(engine: str, model: str, start: Start) -> list[str]:
    """The command of a server that listens on `PORT`, word by word.

    >>> " ".join(command_words("vllm", "Qwen/Qwen3-8B", Start(precision="bf16", devices=2, context_tokens=8192)))
    'vllm serve Qwen/Qwen3-8B --host 0.0.0.0 --port 8000 --max-model-len 8192 --tensor-parallel-size 2 --gpu-memory-utilization 0.9 --dtype bfloat16'
    """  # noqa: E501 one line of output
    listen = ["--host", "0.0.0.0", "--port", str(PORT)]  # noqa: S104 the container's own address
    match engine:
        case "vllm":
            return ["vllm", "serve", model, *listen, *_vllm(start, with_devices=True)]
        case "sglang":
            return ["python3", "-m", "sglang.launch_server", "--model-path", model, *listen, *_sglang(start, with_devices=True)]
        case "tensorrt-llm":
            length = ["--max_seq_len", str(start.context_tokens)] if start.context_tokens else []
            share = str(traits_of(engine).memory_share)
            tp = ["--tp_size", str(start.devices)]
            return ["trtllm-serve", model, *listen, *tp, *length, "--kv_cache_free_gpu_memory_fraction", share]
        case "tgi":
            return ["text-generation-launcher", "--model-id", model, "--hostname", "0.0.0.0", "--port", str(PORT), *_tgi(start)]  # noqa: S104
        case "tei":
            return ["text-embeddings-router", "--model-id", model, "--hostname", "0.0.0.0", "--port", str(PORT), *_tei(start)]  # noqa: S104
        case "llama.cpp":
            return ["/app/llama-server", *_llama_cpp_model(model, start), *listen, *_llama_cpp(start)]
    raise ValueError(f"no server of an engine named {engine}")


def _quantized(start: Start) -> list[str]:
    law = weight_format(start.precision).law
    name = {"scaled_tensor": "fp8", "bnb8": "bitsandbytes", "bnb4": "bitsandbytes", "bnb4_double": "bitsandbytes"}.get(law, "")
    return ["--quantization", name] if name else ["--dtype", _DTYPES[start.precision]] if start.precision in _DTYPES else []


def _vllm(start: Start, *, with_devices: bool) -> list[str]:
    length = ["--max-model-len", str(start.context_tokens)] if start.context_tokens else []
    devices = ["--tensor-parallel-size", str(start.devices)] if with_devices else []
    return [*length, *devices, "--gpu-memory-utilization", str(traits_of("vllm").memory_share), *_quantized(start)]


def _sglang(start: Start, *, with_devices: bool) -> list[str]:
    length = ["--context-length", str(start.context_tokens)] if start.context_tokens else []
    devices = ["--tp-size", str(start.devices)] if with_devices else []
    return [*length, *devices, *_quantized(start)]


def _tgi(start: Start) -> list[str]:
    length = ["--max-total-tokens", str(start.context_tokens)] if start.context_tokens else []
    kind = "fp8" if weight_format(start.precision).arithmetic == "fp8" else _TGI_FORMATS.get(start.precision, "")
    form = ["--quantize", kind] if kind else ["--dtype", _DTYPES[start.precision]] if start.precision in {"fp16", "bf16"} else []
    return ["--num-shard", str(start.devices), *length, *form]


def _tei(start: Start) -> list[str]:
    return ["--dtype", "float32" if start.precision == "fp32" else "float16"]


def _llama_cpp_model(model: str, start: Start) -> list[str]:
    """The file that was named, by its quantization or in full; else the one of this precision."""
    repository, _, file = model.partition(":")
    if file.lower().endswith(".gguf"):
        return ["-hf", repository, "-hff", file]
    return ["-hf", f"{repository}:{file or start.precision.removeprefix('gguf:').upper()}"]


def _llama_cpp(start: Start) -> list[str]:
    """`-c` is the length of all slots together."""
    slots = ["-np", str(start.sequences)]
    length = ["-c", str(start.context_tokens * start.sequences)] if start.context_tokens else []
    return [*slots, *length, *(["-ngl", str(start.gpu_layers if start.gpu_layers >= 0 else 99)] if start.on_gpu else [])]


def dockerfile(image: str, words: Sequence[str]) -> str:
    """A Dockerfile for a Space, which runs its container as user 1000."""
    return "\n".join(
        (
            f"FROM {image}",
            "# a Space runs its container as user 1000",
            "RUN mkdir -p /home/user && chown 1000 /home/user",
            "USER 1000",
            "ENV HOME=/home/user HF_HOME=/home/user/.cache/huggingface",
            "ENV HF_HUB_CACHE=/home/user/.cache/huggingface/hub HUGGINGFACE_HUB_CACHE=/home/user/.cache/huggingface/hub",
            "WORKDIR /home/user",
            f"EXPOSE {PORT}",
            f"ENTRYPOINT {json.dumps(list(words))}",
            "",
        )
    )


def job_command(image: str, words: Sequence[str], flavor: str) -> str:
    """The line that runs the server as a Job, reachable through the Jobs proxy; `--` keeps the server's options from being read by `hf`."""
    options = ["--flavor", flavor, "--expose", str(PORT), "--timeout", "8h", "--secrets", "HF_TOKEN"]
    return shlex.join(["hf", "jobs", "run", *options, "--", image, *words])


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """Where an Inference Endpoint runs."""

    accelerator: str
    vendor: str
    region: str
    instance_type: str
    instance_size: str
    replicas: int = 1


def endpoint_command(engine: str, model: str, image: str, start: Start, at: Instance) -> str:
    """The line that deploys an Inference Endpoint; the platform starts the engines that it manages, and mounts the model at /repository."""
    managed = _MANAGED.get(engine)
    if managed is None:
        words = command_words(engine, "/repository", start)
        how = ["--container-command", shlex.join(words), "--health-route", "/health", "--port", str(PORT)]
    else:
        how = ["--engine", managed]
        shared = {"vllm": _vllm(start, with_devices=False), "sglang": _sglang(start, with_devices=False)}
        arguments = shared.get(engine) or {"tgi": _tgi, "tei": _tei, "llama.cpp": _llama_cpp}[engine](start)
        how += ["--tensor-parallel-size", str(start.devices)] if engine in shared and start.devices > 1 else []
        how.append(f"--container-args={shlex.join(arguments)}")
    options = [
        "--repo", model.partition(":")[0], "--framework", "custom", "--custom-image", image, *how, "--accelerator", at.accelerator,
        "--vendor", at.vendor, "--region", at.region, "--instance-type", at.instance_type, "--instance-size", at.instance_size,
        "--min-replica", "0", "--max-replica", str(at.replicas), "--scale-to-zero-timeout", "60",
    ]  # fmt: skip
    return shlex.join(["hf", "endpoints", "deploy", "my-endpoint", *options])
