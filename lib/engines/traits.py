"""The types of an engine's row: its properties, and the command of its server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from lib.units import GIB

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
        """CUDA's number; None if there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerCommand:
    """How the engine's server is started. An option whose value is not known is left out (`lib.present.snippets.command_words`)."""

    program: str
    options: tuple[str, ...]
    formats: Mapping[str, str] = field(default_factory=dict)
    """Its words for compressed weights, by precision, law or arithmetic of `lib.precision`."""
    dtypes: Mapping[str, str] = field(default_factory=lambda: {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16"})
    """Its words for other weights, by precision; "" means any other precision."""
    endpoint_name: str = ""
    """The name under which Inference Endpoints start it themselves (`hf endpoints deploy --engine`)."""
    endpoint_splits: bool = False
    """Inference Endpoints take the number of devices and hand it on."""
    settings: Mapping[Setting, str] = field(default_factory=dict)
    """Its flags, written before `options`: {0} is the value; without it the flag switches the setting off."""
    other_names: Mapping[str, Setting] = field(default_factory=dict)
    """Other names of its flags, for reading a pasted command."""
    suffixed: frozenset[Setting] = frozenset()
    """Settings whose flags take a number with a suffix: 16k is 16,000, 16K is 16,384. vLLM: `human_readable_int` in engine/arg_utils.py and
    utils/argparse_utils.py, read 2026-11-26."""
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
    GLM-5); None if it asks nothing of the card. No published run of `transformers` on older cards is known.

    Sources, read 2026-11-24: vllm issues 30644, 31936, 40851, 57144; sglang issue 35420; FlashMLA pull request 98 (Hopper);
    aiconfigurator pull request 383."""
    other_gpus: frozenset[str] | None = None
    """GPU architectures of other makers than NVIDIA that its documentation names; None if it names every one of the catalog.

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
    """Sequences that it runs at once at most, if it is not eager."""
    packed_kernels: bool = False
    """Its kernels read packed weights; the others unpack them first and gain no speed from a smaller format."""
    listed_only: bool = False
    """Runs only the models of its own list (`lib.catalog.engine_models`); the others try the modelling code of transformers."""
    share_by_release: bool = False
    """Its share of the memory, whether captured graphs are inside it (`lib.laws.runtime.VLLM_SHARES`), and the length of its profile run
    (`lib.memory.resolve.first_engine_step`) depend on the release."""
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
    """The meaning of these words as a precision: a name of `lib.precision`; empty if it has no such thing."""
    cannot_load: frozenset[str] = frozenset()
    """Laws of number formats (`lib.precision`) that it does not load."""
    not_in: frozenset[str] = frozenset()
    """Plain formats that it does not compute in."""
    small_cache: str = "int8"
    """Its cache format of eight bits."""
    command: ServerCommand | None = None
    """How its server is started, where it has one."""
    package: str = ""
    """The Python package that brings it (`lib/data/frameworks.json`), if that is not transformers."""
    package_note: str = ""
    """A warning for installing that package."""
    further_settings: frozenset[Setting] = frozenset()
    """Settings that it has in addition to the flags of `command`: `prefix_share` where it keeps prefixes in its cache by default."""
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
    """The program whose fitted constants are used for it (`lib.speed.calibration`), where too few measurements of it were published."""
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
        """Whether it fills its share of the device with cache at start, independent of the requests."""
        return self.claims != "what it needs"

    def profiled_tokens(self, memory: int | None) -> int:
        """Tokens of the run at start on a device of this many bytes; if they are not known, those of the largest, to be safe."""
        return next(tokens for gib, tokens in self.batched_tokens if memory is None or memory >= gib * GIB)

    @property
    def settings(self) -> frozenset[Setting]:
        """Settings of a server that it has."""
        return self.further_settings | (frozenset() if self.command is None else frozenset(self.command.settings))

    @property
    def stated_share(self) -> float | None:
        """The share that its commands state if none was chosen; None if its default does not depend on the release."""
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
