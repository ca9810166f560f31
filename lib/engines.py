"""Engines: one row of properties for every program that a model can be run with.

An engine is a row here and a name in `Engine`. Whatever treats engines differently asks the row (`traits_of`), so that no caller keeps a
list of names of its own. Constants of speed are fitted, not stated (`lib.speed.calibration`).

Sources of the rows, read 2026-11-22: vLLM's documentation of engine arguments and supported models; SGLang's server arguments and
hyperparameter tuning (docs.sglang.io); TensorRT-LLM's `llm_args.py` and trtllm-serve (nvidia.github.io/TensorRT-LLM); TGI at db931fc
(`models/globals.py`, `models/flash_causal_lm.py`, `launcher/src/main.rs`); text-embeddings-inference 1.9 (README, supported models);
llama.cpp's README. Where a default depends on the release or the card, the field says what is taken.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType
from typing import Literal, Protocol, get_args

from lib.units import GIB

Engine = Literal["transformers", "vllm", "sglang", "tensorrt-llm", "tgi", "tei", "llama.cpp", "vllm-tpu"]
ENGINES: tuple[Engine, ...] = get_args(Engine)

MICRO_BATCH = 512
"""Tokens that llama.cpp computes at once by default (n_ubatch)."""

Setting = Literal[
    "gpu_memory_utilization", "max_model_len", "max_num_seqs", "max_num_batched_tokens", "kv_cache_dtype", "prefix_share", "cuda_graphs",
    "kv_cache_memory_bytes", "tensor_parallel", "pipeline_parallel", "data_parallel", "gpu_layers", "cpu_moe_layers", "ctx_size",
    "parallel",
]  # fmt: skip
"""Settings of a server (`lib.request.serving`)."""

Split = Literal["tensor", "layers", "none"]
Work = Literal["decoder", "embedding decoder", "text encoder", "encoder-decoder", "speech", "other encoder", "pipeline"]
"""Work of a model: makes text token by token; reads text with a decoder's layers, to embed or rank it; reads text in one pass; reads one
text and writes another; hears; reads pictures or sound in one pass; makes pictures."""
CacheLayout = Literal["exact", "grouped blocks", "blocks", "even blocks", "cells", "pages", "none"]
StartUp = Literal["forward pass", "profile run", "compute buffer"]
Claims = Literal["what it needs", "a share", "a share, graphs beside it", "a share of the rest", "weights and cache"]
"""Of a device's memory, at start (`lib.laws.runtime`)."""


class Silicon(Protocol):
    """The part of an accelerator that this module reads."""

    @property
    def kind(self) -> str:
        """Of "gpu", "apple", "cpu", "tpu" and "neuron"."""

    @property
    def vendor(self) -> str:
        """Its vendor."""

    @property
    def architecture(self) -> str:
        """The vendor's name of the generation."""

    @property
    def compute_capability(self) -> tuple[int, int] | None:
        """CUDA's number; None where there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerCommand:
    """How the engine's server is started. An option whose value is not known is left out (`lib.present.snippets.command_words`)."""

    program: str
    options: tuple[str, ...]
    formats: Mapping[str, str] = field(default_factory=dict)
    """Its words for compressed weights, by precision, law or arithmetic of `lib.precision`."""
    dtypes: Mapping[str, str] = field(default_factory=lambda: {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16"})
    """Its words for other weights, by precision; "" stands for any other precision."""
    endpoint_name: str = ""
    """The name under which Inference Endpoints start it themselves (`hf endpoints deploy --engine`)."""
    endpoint_splits: bool = False
    """Inference Endpoints take the number of devices and hand it on."""
    settings: Mapping[Setting, str] = field(default_factory=dict)
    """Its flags, written before `options`: {0} is the value; without it the flag switches the setting off."""
    other_names: Mapping[str, Setting] = field(default_factory=dict)
    """Other names of its flags, for reading a pasted command."""
    cache_flag: str = ""
    """Its flag that fixes the size of the KV cache: {bytes} on each device, or {tokens} of all requests (vllm/config/cache.py @002f10e)."""
    refuses_more: bool = False
    """Refuses requests beyond its `max_num_seqs` instead of letting them wait: the flag is written only where it was stated."""
    cache_words: Mapping[str, str] = field(default_factory=dict)
    """Its words for formats of the KV cache, by name of `lib.precision.KV_NAMES`."""
    over_machines: str = ""
    """Its words for running on several machines: Ray executes it (docs.vllm.ai, serving/parallelism_scaling, read 2026-11-26)."""
    ready: str = ""
    """A part of the line of its log that says that it takes requests. Read 2026-11-26: vLLM (uvicorn) in vllm-project/vllm#24162, SGLang in
    its start-up guides, llama.cpp in containers/ramalama#1486."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineTraits:
    """The properties of one engine, at its defaults."""

    silicon: frozenset[str]
    """Kinds of silicon that it runs on, of "gpu", "apple", "cpu", "tpu" and "neuron"."""
    least_capability: tuple[int, int] = (0, 0)
    """CUDA's compute capability from which on it runs on a card of NVIDIA."""
    sparse_capabilities: frozenset[int] | None = None
    """First numbers of the compute capabilities on which it is known to run attention that an indexer makes sparse (DeepSeek-V3.2 and -V4,
    GLM-5); None where it asks nothing of the card. No published run of `transformers` on older cards is known.

    Sources, read 2026-11-24: vllm issues 30644, 31936, 40851, 57144; sglang issue 35420; FlashMLA pull request 98 (Hopper);
    aiconfigurator pull request 383."""
    other_gpus: frozenset[str] | None = None
    """Architectures of GPUs beside NVIDIA's that its documentation names; None where it names every one of the catalog.

    Sources, read 2026-11-25: docs.vllm.ai installation (gfx90a to gfx950, RX 7900 and 9000, Ryzen AI Max; Intel Arc), docs.sglang.io AMD
    and XPU (Instinct; Arc B-series), huggingface.co/docs/optimum AMD (TGI: MI210, MI250, MI300)."""
    works: frozenset[Work]
    """Kinds of models that it runs."""
    on_zerogpu: bool = False
    """Runs on ZeroGPU, which lends its card to PyTorch in a Gradio Space."""
    in_process: frozenset[str] = frozenset()
    """Kinds of silicon on which it runs inside the Python process of a Space; elsewhere it is a server of its own, for a Docker Space."""
    advised_on: frozenset[str]
    """Kinds of silicon on which `/recommend` chooses it."""
    split: Split = "layers"
    """How it uses several devices (`lib.memory.spread`): every layer is split, each device holds some layers, or one device holds all."""
    pipelined: bool = False
    """Devices that hold layers in turn work on micro-batches of a prompt at the same time."""
    static_batch: bool = False
    """Requests start together as one batch; the others take each as soon as there is a place."""
    eager: bool = False
    """Launches kernels one by one while the device computes, and takes any number of requests into a batch."""
    max_num_seqs: int = 256
    """Sequences that it runs at once at most, where it is not eager."""
    packed_kernels: bool = False
    """Its kernels read packed weights; the others unpack them first and gain no speed from a smaller format."""
    listed_only: bool = False
    """Runs only the models of its own list (`lib.catalog.engine_models`); the others try the modelling code of transformers."""
    share_by_release: bool = False
    """Its share of the memory, and whether captured graphs lie inside it, depend on the release (`lib.laws.runtime.VLLM_SHARES`)."""
    fp8_cache: bool = False
    """Its checkpoints with 8- or 4-bit floating-point weights hold scales for an fp8 KV cache, which it then uses by default."""
    own_files: bool = False
    """Loads files of its own (GGUF) instead of the checkpoint, and can leave layers that the devices do not hold to the processor."""
    native: bool = False
    """A program without Python: its process on a CPU is small."""
    claims: Claims = "what it needs"
    """Which part of a device it takes at start."""
    memory_share: float = 1.0
    """The share that `claims` speaks of, where it is a constant."""
    captured_graphs: bool = False
    """Captures its decode step as graphs, which take memory on a GPU."""
    cache: CacheLayout
    """How it lays out the cache (`lib.laws.kv_cache_by_engine`)."""
    block_tokens: int = 1
    """Tokens of a block, in a cache of blocks."""
    start_up: StartUp
    """Its activations: the model's own forward pass, a run at start that sets them aside, or a fixed buffer."""
    batched_tokens: tuple[tuple[int, int], ...] = ((0, 8192),)
    """Tokens of that run at start by the GiB of a device from which on they hold, the largest first."""
    fp8: str = ""
    int8: str = ""
    int4: str = ""
    """The meaning of these words as a precision: a name of `lib.precision`; empty where it has no such thing."""
    cannot_load: frozenset[str] = frozenset()
    """Laws of number formats (`lib.precision`) that it does not load."""
    not_in: frozenset[str] = frozenset()
    """Plain formats that it does not compute in."""
    small_cache: str = "int8"
    """Its cache format of eight bits."""
    command: ServerCommand | None = None
    """How its server is started, where it has one."""
    package: str = ""
    """The Python package that brings it (`lib/data/frameworks.json`), where that is not transformers."""
    package_note: str = ""
    """A warning for installing that package."""
    further_settings: frozenset[Setting] = frozenset()
    """Settings that it has beside the flags of `command`: `prefix_share` where it keeps prefixes in its cache by default."""
    instead: Mapping[Setting, str] = field(default_factory=dict)
    """Alternatives to settings that it does not have."""
    share_factor: float = 1.0
    """Factor on a stated gpu_memory_utilization: TGI fills 0.9 of the memory that --cuda-memory-fraction leaves it."""
    effort: int = 0
    """Work before it serves, beyond one command on a public checkpoint: 0 none, 1 some. Another engine of less effort is preferred unless
    the predicted gain exceeds the range of the prediction (`lib.advisor.rank.drop_uncertain_gains`).

    TensorRT-LLM has 1: an image of NVIDIA's registry, quantized checkpoints from NVIDIA's Model Optimizer, and no engine that Inference
    Endpoints start. It compiles nothing since its TensorRT backend was removed (nvidia.github.io/TensorRT-LLM: torch.html,
    legacy/tensorrt-backend-removal.html, read 2026-11-26)."""
    streams_weights: bool = False
    """Can leave weights in the host's memory and read them from there at each step."""
    timed_as: str = ""
    """The program whose fitted constants stand for its own (`lib.speed.calibration`), where too few measurements of it were published."""
    timed_as_title: str = ""
    """The program in words."""

    @property
    def own_modules(self) -> bool:
        """Whether it runs the model's modules as `transformers` defines them."""
        return self.start_up == "forward pass"

    @property
    def generates(self) -> bool:
        """Whether it makes text."""
        return "decoder" in self.works

    @property
    def preallocates(self) -> bool:
        """Whether it fills its share of the device with cache at start, whatever the requests need."""
        return self.claims != "what it needs"

    def profiled_tokens(self, memory: int | None) -> int:
        """Tokens of the run at start on a device of this many bytes; where they are not known, those of the largest, to be safe."""
        return next(tokens for gib, tokens in self.batched_tokens if memory is None or memory >= gib * GIB)

    @property
    def settings(self) -> frozenset[Setting]:
        """Settings of a server that it has."""
        return self.further_settings | (frozenset() if self.command is None else frozenset(self.command.settings))

    @property
    def stated_share(self) -> float | None:
        """The share that its commands state where none was chosen; None where its default does not depend on the release."""
        return self.memory_share if self.claims in {"a share", "a share of the rest"} else None

    @property
    def quantizes(self) -> bool:
        """Whether it can quantize an unquantized checkpoint while it loads it."""
        return self.command is None or any("{quantization}" in option for option in self.command.options)

    @property
    def tensor_parallel(self) -> bool:
        """Whether every layer is split over several devices."""
        return self.split == "tensor"

    @property
    def devices_in_turn(self) -> bool:
        """Whether several devices work one after another, so that more of them are never faster."""
        return self.split == "layers" and not self.pipelined

    def known_on(self, silicon: Silicon) -> bool:
        """Whether runs of sparse attention are known with it on this silicon."""
        capability = silicon.compute_capability
        return self.sparse_capabilities is None or capability is None or capability[0] in self.sparse_capabilities

    def runs_on(self, silicon: Silicon, *, sparse: bool = False) -> bool:
        """Whether it runs on this silicon; `sparse` where an indexer makes the model's attention sparse, which kernels have to know."""
        if sparse and self.packed_kernels and not self.known_on(silicon):
            return False
        if silicon.kind != "gpu":
            return silicon.kind in self.silicon
        if silicon.vendor != "NVIDIA":
            return "gpu" in self.silicon and (self.other_gpus is None or silicon.architecture in self.other_gpus)
        return "gpu" in self.silicon and (silicon.compute_capability is None or silicon.compute_capability >= self.least_capability)


_GPU, _TPU, _SERVER = frozenset({"gpu"}), frozenset({"tpu"}), frozenset({"gpu", "cpu"})
_ANYWHERE = frozenset({"gpu", "cpu", "tpu", "neuron"})
_ALSO_ON_MACS = _ANYWHERE | {"apple"}
_OWNED = frozenset({"gpu", "cpu", "apple"})
_DECODERS: frozenset[Work] = frozenset({"decoder", "embedding decoder"})
_TEXT: frozenset[Work] = _DECODERS | {"text encoder"}
_VOLTA, _T4, _AMPERE = (7, 0), (7, 5), (8, 0)
_INSTINCT = frozenset({"CDNA2", "CDNA3", "CDNA4"})
_FLASH_MLA = frozenset({9, 10})  # Hopper and the Blackwell of data centres
_QUANTIZED = {"scaled_tensor": "fp8", "bnb8": "bitsandbytes", "bnb4": "bitsandbytes", "bnb4_double": "bitsandbytes"}
_VLLM = ServerCommand(
    program="vllm serve {model} --host 0.0.0.0 --port {port}",
    settings={
        "max_model_len": "--max-model-len {0}", "max_num_seqs": "--max-num-seqs {0}",
        "max_num_batched_tokens": "--max-num-batched-tokens {0}", "tensor_parallel": "--tensor-parallel-size {0}",
        "pipeline_parallel": "--pipeline-parallel-size {0}", "data_parallel": "--data-parallel-size {0}",
        "gpu_memory_utilization": "--gpu-memory-utilization {0}", "kv_cache_dtype": "--kv-cache-dtype {0}",
        "cuda_graphs": "--enforce-eager", "kv_cache_memory_bytes": "--kv-cache-memory-bytes {0}",
    },
    other_names={"-tp": "tensor_parallel", "-pp": "pipeline_parallel", "-dp": "data_parallel"},
    cache_words={"auto": "auto", "fp8": "fp8", "fp16": "float16", "bf16": "bfloat16"}, cache_flag="--kv-cache-memory-bytes {bytes}",
    options=("--quantization {quantization}", "--dtype {dtype}"),
    formats=_QUANTIZED, endpoint_name="vllm", endpoint_splits=True, ready="Application startup complete",
    over_machines="--distributed-executor-backend ray",
)  # fmt: skip
_ON_TPU: tuple[Setting, ...] = (
    "max_model_len", "max_num_seqs", "max_num_batched_tokens", "tensor_parallel", "data_parallel", "gpu_memory_utilization",
)  # fmt: skip
_VLLM_TPU = ServerCommand(
    program=_VLLM.program, settings={name: _VLLM.settings[name] for name in _ON_TPU}, other_names=_VLLM.other_names, options=_VLLM.options
)
_SGLANG = ServerCommand(
    program="python3 -m sglang.launch_server --model-path {model} --host 0.0.0.0 --port {port}",
    settings={
        "max_model_len": "--context-length {0}", "max_num_seqs": "--max-running-requests {0}",
        "max_num_batched_tokens": "--chunked-prefill-size {0}", "tensor_parallel": "--tp-size {0}", "pipeline_parallel": "--pp-size {0}",
        "data_parallel": "--dp-size {0}", "gpu_memory_utilization": "--mem-fraction-static {0}", "kv_cache_dtype": "--kv-cache-dtype {0}",
        "cuda_graphs": "--disable-cuda-graph",
    },
    other_names={
        "--tp": "tensor_parallel", "--tensor-parallel-size": "tensor_parallel", "--pipeline-parallel-size": "pipeline_parallel",
        "--pp": "pipeline_parallel", "--dp": "data_parallel", "--data-parallel-size": "data_parallel",
    },
    cache_words={"auto": "auto", "fp8": "fp8_e4m3", "bf16": "bf16"}, cache_flag="--max-total-tokens {tokens}",
    options=("--quantization {quantization}", "--dtype {dtype}"),
    formats=_QUANTIZED, endpoint_name="sglang", endpoint_splits=True, ready="The server is fired up",
)  # fmt: skip
_TENSORRT_LLM = ServerCommand(
    program="trtllm-serve {model} --host 0.0.0.0 --port {port}",
    settings={
        "tensor_parallel": "--tp_size {0}", "pipeline_parallel": "--pp_size {0}", "max_model_len": "--max_seq_len {0}",
        "max_num_seqs": "--max_batch_size {0}", "max_num_batched_tokens": "--max_num_tokens {0}",
        "gpu_memory_utilization": "--kv_cache_free_gpu_memory_fraction {0}",
    },
    other_names={
        "--tensor_parallel_size": "tensor_parallel", "--pipeline_parallel_size": "pipeline_parallel",
        "--free_gpu_memory_fraction": "gpu_memory_utilization",
    },
    options=(),
)  # fmt: skip
_TGI = ServerCommand(
    program="text-generation-launcher --model-id {model} --hostname 0.0.0.0 --port {port}",
    settings={
        "tensor_parallel": "--num-shard {0}", "max_model_len": "--max-total-tokens {0}", "max_num_seqs": "--max-concurrent-requests {0}",
        "max_num_batched_tokens": "--max-batch-prefill-tokens {0}", "gpu_memory_utilization": "--cuda-memory-fraction {0}",
        "kv_cache_dtype": "--kv-cache-dtype {0}", "cuda_graphs": "--cuda-graphs 0",
    },
    cache_words={"fp8": "fp8_e4m3fn"}, refuses_more=True,
    options=("--quantize {quantization}", "--dtype {dtype}"),
    formats={"fp8": "fp8", "awq-4": "awq", "gptq-4": "gptq", "gptq-8": "gptq", "bnb-int8": "bitsandbytes", "bnb-nf4": "bitsandbytes-nf4"},
    dtypes={"fp16": "float16", "bf16": "bfloat16"}, endpoint_name="tgi",
)  # fmt: skip
_TEI = ServerCommand(
    program="text-embeddings-router --model-id {model} --hostname 0.0.0.0 --port {port}",
    settings={"max_num_batched_tokens": "--max-batch-tokens {0}"},
    options=("--dtype {dtype}",), dtypes={"fp32": "float32", "": "float16"}, endpoint_name="tei",
)  # fmt: skip
_LLAMA_CPP = ServerCommand(
    program="/app/llama-server {files} --host 0.0.0.0 --port {port}",
    settings={
        "parallel": "-np {0}", "ctx_size": "-c {0}", "gpu_layers": "-ngl {0}", "cpu_moe_layers": "--n-cpu-moe {0}",
        "kv_cache_dtype": "-ctk {0} -ctv {0}",
    },
    other_names={
        "--parallel": "parallel", "--ctx-size": "ctx_size", "--gpu-layers": "gpu_layers", "--n-gpu-layers": "gpu_layers",
        "-ncmoe": "cpu_moe_layers", "--cache-type-k": "kv_cache_dtype", "--cache-type-v": "kv_cache_dtype",
    },
    cache_words={"fp32": "f32", "fp16": "f16", "bf16": "bf16", "int8": "q8_0", "int4": "q4_0"},
    options=(), endpoint_name="llamacpp", ready="server is listening on",
)  # fmt: skip
_PREFIXES: frozenset[Setting] = frozenset({"prefix_share"})
_IN_FILE = "trtllm-serve reads it from the file of --config"
_ONE_SERVER_EACH: Mapping[Setting, str] = {
    "pipeline_parallel": "it splits every layer with tensor_parallel",
    "data_parallel": "start one server for each copy, with tensor_parallel cards",
}
_WHOLE_LAYERS = "it gives each card whole layers by itself"
_SLOTS: Mapping[Setting, str] = {
    "max_num_seqs": "use parallel (-np)", "max_model_len": "use ctx_size (-c), the tokens of all parallel requests together",
    "gpu_memory_utilization": "it allocates the cache of ctx_size tokens, whatever share of the card that is",
    "max_num_batched_tokens": "its micro-batch is the argument micro_batch (-ub)", "prefix_share": "each of its slots keeps a copy",
    "tensor_parallel": _WHOLE_LAYERS, "pipeline_parallel": _WHOLE_LAYERS, "data_parallel": "start one server for each copy",
}  # fmt: skip

TRAITS: Mapping[Engine, EngineTraits] = MappingProxyType(
    {
        "transformers": EngineTraits(
            streams_weights=True,
            silicon=_ALSO_ON_MACS, works=frozenset(get_args(Work)), on_zerogpu=True, in_process=_ANYWHERE | {"apple"},
            advised_on=_OWNED, static_batch=True, eager=True,
            cache="exact", start_up="forward pass", fp8="fp8-block", int8="bnb-int8", int4="bnb-nf4",
            sparse_capabilities=_FLASH_MLA,
        ),
        "vllm": EngineTraits(
            command=_VLLM, further_settings=_PREFIXES, streams_weights=True,
            silicon=_ANYWHERE, least_capability=_VOLTA, sparse_capabilities=_FLASH_MLA,
            works=_TEXT | {"speech"}, split="tensor", packed_kernels=True, advised_on=_GPU, share_by_release=True,
            claims="a share", memory_share=0.9, captured_graphs=True, cache="grouped blocks", block_tokens=16, start_up="profile run",
            batched_tokens=((70, 8192), (0, 2048)), fp8="fp8-tensor", int8="int8-channel", int4="awq-4", small_cache="fp8",
        ),
        "sglang": EngineTraits(
            command=_SGLANG, further_settings=_PREFIXES,
            silicon=_SERVER, least_capability=_T4, sparse_capabilities=_FLASH_MLA, works=_TEXT, split="tensor",
            max_num_seqs=2048, packed_kernels=True, advised_on=_GPU, other_gpus=_INSTINCT | {"Xe2"},
            claims="weights and cache", captured_graphs=True, cache="blocks", block_tokens=1, start_up="profile run", small_cache="fp8",
            batched_tokens=((160, 16_384), (60, 8192), (35, 4096), (0, 2048)), fp8="fp8-tensor", int8="int8-channel", int4="awq-4",
        ),
        "tensorrt-llm": EngineTraits(
            command=_TENSORRT_LLM, further_settings=_PREFIXES,
            instead={
                "kv_cache_dtype": f"use the argument kv_precision; {_IN_FILE}", "cuda_graphs": _IN_FILE,
                "data_parallel": "start one server for each copy",
            },
            silicon=_GPU, least_capability=_AMPERE, sparse_capabilities=_FLASH_MLA, other_gpus=frozenset(),
            works=frozenset({"decoder"}), split="tensor", max_num_seqs=1024, packed_kernels=True, advised_on=_GPU, fp8_cache=True, effort=1,
            claims="a share of the rest", memory_share=0.9, captured_graphs=True, cache="blocks", block_tokens=32,
            start_up="profile run", fp8="fp8-tensor", int8="int8-channel", int4="awq-4",
            cannot_load=frozenset({"gguf", "bnb8", "bnb4", "bnb4_double"}), small_cache="fp8",
        ),
        "tgi": EngineTraits(
            command=_TGI, further_settings=_PREFIXES, share_factor=0.9, instead=_ONE_SERVER_EACH,
            silicon=_SERVER, least_capability=_T4, sparse_capabilities=frozenset(), works=frozenset({"decoder", "encoder-decoder"}),
            split="tensor", max_num_seqs=128, packed_kernels=True, advised_on=_GPU, claims="a share, graphs beside it", memory_share=0.9,
            captured_graphs=True, cache="even blocks", block_tokens=1, start_up="profile run", batched_tokens=((0, 4096),),
            fp8="fp8-tensor", int8="bnb-int8", int4="awq-4",
            cannot_load=frozenset({"gguf", "mxfp4", "nvfp4"}), small_cache="fp8", other_gpus=_INSTINCT,
        ),
        "tei": EngineTraits(
            command=_TEI,
            silicon=_SERVER | {"apple"}, least_capability=_T4, other_gpus=frozenset(),
            works=frozenset({"text encoder", "embedding decoder"}),
            native=True, listed_only=True, advised_on=_OWNED, split="none", cache="none", start_up="profile run",
            batched_tokens=((0, 16_384),), timed_as="compiled", timed_as_title="other compiled encoders (ONNX Runtime, TorchScript)",
            not_in=frozenset({"bf16"}), cannot_load=frozenset({
                "fp8_block", "fp8_block_e8m0", "scaled_rows", "scaled_tensor", "bnb8", "bnb4", "bnb4_double", "gptq", "awq", "int_groups",
                "mxfp4", "nvfp4", "gguf",
            }),
        ),
        "llama.cpp": EngineTraits(
            # llama-server serves no encoder-decoder: llama.cpp issue 26565, read 2026-11-24
            command=_LLAMA_CPP, instead=_SLOTS, package="llama-cpp-python",
            package_note="PyPI holds its source only; on a GPU build it with CMAKE_ARGS=-DGGML_CUDA=on",
            silicon=_ALSO_ON_MACS, works=_TEXT, in_process=frozenset({"cpu"}), advised_on=_OWNED, pipelined=True, static_batch=True,
            packed_kernels=True, own_files=True, native=True, listed_only=True, cache="cells", start_up="compute buffer",
            fp8="gguf:Q8_0", int8="gguf:Q8_0", int4="gguf:Q4_K_M",
        ),
        "vllm-tpu": EngineTraits(
            package="vllm-tpu", package_note="brings its own torch and libtpu: pin no other",
            command=_VLLM_TPU, further_settings=_PREFIXES, silicon=_TPU, works=_DECODERS, advised_on=_TPU, split="tensor",
            packed_kernels=True, claims="a share", memory_share=0.9, cache="pages", start_up="profile run", small_cache="fp8",
            batched_tokens=((70, 8192), (0, 2048)), fp8="fp8-channel", int8="int8-channel", int4="int4-group",
        ),
    }
)  # fmt: skip
"""One row for each engine."""


@cache
def traits_of(engine: str) -> EngineTraits:
    """The row of an engine.

    Raises:
        ValueError: there is none of this name; arguments from outside are checked before.
    """
    for name, row in TRAITS.items():
        if name == engine:
            return row
    raise ValueError(f"no law of memory or speed for an engine named {engine}")


def list_engines(work: Work) -> tuple[Engine, ...]:
    """The engines that run models of this kind."""
    return tuple(name for name, row in TRAITS.items() if work in row.works)


def usual_engine(kind: str, *, own_files: bool = False) -> Engine:
    """The engine that is counted with where none was chosen: the first row that is advised on this kind of silicon.

    >>> usual_engine("gpu"), usual_engine("tpu"), usual_engine("gpu", own_files=True)
    ('transformers', 'vllm-tpu', 'llama.cpp')
    """
    fitting = (name for name, row in TRAITS.items() if row.own_files == own_files and (own_files or kind in row.advised_on))
    return next(fitting, ENGINES[0])
