"""Engines: one row of properties for every program that a model can be run with.

An engine is a row here and a name in `Engine`. Code that treats engines differently reads the row (`traits_of`), so that no caller keeps a
list of names of its own. Constants of speed are fitted, not stated (`lib.speed.calibration`).

Sources of the rows, read 2026-11-22: vLLM's documentation of engine arguments and supported models; SGLang's server arguments and
hyperparameter tuning (docs.sglang.io); TensorRT-LLM's `llm_args.py` and trtllm-serve (nvidia.github.io/TensorRT-LLM); TGI at db931fc
(`models/globals.py`, `models/flash_causal_lm.py`, `launcher/src/main.rs`); text-embeddings-inference 1.9 (README, supported models);
llama.cpp's README. Where a default depends on the release or the card, the field says which value is used.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Literal, get_args

from lib.engines.traits import EngineTraits, ServerCommand, Setting, Work

Engine = Literal["transformers", "vllm", "sglang", "tensorrt-llm", "tgi", "tei", "llama.cpp", "vllm-tpu"]
ENGINES: tuple[Engine, ...] = get_args(Engine)

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
_SUFFIXED: frozenset[Setting] = frozenset({"max_model_len", "max_num_batched_tokens", "kv_cache_memory_bytes"})
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
    suffixed=_SUFFIXED,
    cache_words={"auto": "auto", "fp8": "fp8", "fp16": "float16", "bf16": "bfloat16"}, cache_flag="--kv-cache-memory-bytes {bytes}",
    options=("--quantization {quantization}", "--dtype {dtype}"),
    formats=_QUANTIZED, endpoint_name="vllm", endpoint_splits=True, ready="Application startup complete",
    over_machines="--distributed-executor-backend ray",
)  # fmt: skip
_ON_TPU: tuple[Setting, ...] = (
    "max_model_len", "max_num_seqs", "max_num_batched_tokens", "tensor_parallel", "data_parallel", "gpu_memory_utilization",
)  # fmt: skip
_VLLM_TPU = ServerCommand(
    program=_VLLM.program,
    settings={name: _VLLM.settings[name] for name in _ON_TPU},
    other_names=_VLLM.other_names,
    options=_VLLM.options,
    suffixed=_SUFFIXED,
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


_BY_NAME: Mapping[str, Engine] = {name: name for name in ENGINES}


@cache
def traits_of(engine: str) -> EngineTraits:
    """The row of an engine.

    Raises:
        ValueError: there is none of this name; arguments from outside are checked before.
    """
    if engine not in _BY_NAME:
        raise ValueError(f"no law of memory or speed for an engine named {engine}")
    return TRAITS[_BY_NAME[engine]]


def find_engine(name: str) -> Engine | None:
    """The engine of this name; None if there is none."""
    return _BY_NAME.get(name)


def list_engines(work: Work) -> tuple[Engine, ...]:
    """The engines that run models of this kind."""
    return tuple(name for name, row in TRAITS.items() if work in row.works)


def usual_engine(kind: str, *, own_files: bool = False) -> Engine:
    """The engine that is counted with if none was chosen: the first row that is advised on this kind of silicon.

    >>> usual_engine("gpu"), usual_engine("tpu"), usual_engine("gpu", own_files=True)
    ('transformers', 'vllm-tpu', 'llama.cpp')
    """
    fitting = (name for name, row in TRAITS.items() if row.own_files == own_files and (own_files or kind in row.advised_on))
    return next(fitting, ENGINES[0])
