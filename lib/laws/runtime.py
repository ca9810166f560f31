"""Memory of a process on a device apart from the model, and the share of the rest that its engine leaves to the cache.

Context and libraries, workspaces, captured graphs, the interpreter:

    M_runtime = context + workspace + graphs        per process and device

Each figure is a range (low, typical, high): the truth depends on driver, versions and settings. None depends on the model. Sources, by
figure:

    CUDA context and loaded kernels     0.3 … 0.6 GiB a process     facts on accelerators (not in this repository), 2026-11-21
    cuBLAS workspace                    8.125 MiB; 32 MiB from compute capability 9.0 on, asked of the allocator at the first product
                                        docs.nvidia.com/cuda/cublas (recommended sizes), PyTorch's default
                                        CUBLAS_WORKSPACE_CONFIG :4096:2:16:8; 8 519 680 bytes seen in discuss.pytorch.org/t/178671
    vLLM outside torch                  0.16 … 1.79 GiB             start-up logs, github.com/vllm-project/vllm/pull/12126 and 10511
    vLLM captured graphs                0.3 … 1.0 GiB               judgement from start-up logs of 1B to 8B models
    process on a CPU                    0.38 … 0.47 GiB             resident set measured here: torch 2.13.0+cpu, transformers 5.23.0,
                                        after a generate call; the high value with gradio 6.31.0 loaded

Limits: the ranges of vLLM are taken for the other engines that capture graphs (SGLang, TensorRT-LLM, TGI), of which no such figures were
published; a native process (llama.cpp, TEI) is a judgement. Collectives of several cards (NCCL buffers) are in those ranges only; TPU
runtimes hold compiled programs whose size is not published: their figure is 0 and the estimate says so.

The share of memory that an engine claims at start, by default:

    K = M - W - A - R                       transformers, llama.cpp, TEI: all that is left
    K = u · M - W - A - R                   vLLM, vLLM on TPU: u = gpu_memory_utilization = 0.9
    K = u · M - W - A - (R - G)             TGI: u = 0.9; graphs are captured in the tenth that is left
    K = u · (M - W - A - (R - G))           TensorRT-LLM: u = free_gpu_memory_fraction = 0.9 of the free memory once the model is loaded
    K = f · (M - (R - G)) - W               SGLang: f = mem_fraction_static = 1 - r / M; activations and graphs live in r

    r = 512 MiB + 1.5 MiB · chunk + 2 MiB · captured sequences + 128 MiB · N, at least 10 GiB on devices of more than 60 GiB

    K  room for the cache on one device       M  usable memory of the device        W  weights on it
    A  activations that are set aside         R  runtime: context, libraries and    G  captured graphs        N  devices

K is never more than M - W - A - R. vLLM refuses to start with a maximum length whose cache is larger than K, and every engine admits no
more sequences than K holds; so K decides whether a request fits, the longest context, the largest batch and how many requests run at once.

    vLLM          by release: `VLLM_SHARES`. The law counts with 0.9, which the code to copy sets, and with graphs inside the share.
                  tpu-inference sizes its pages by the same option
    TGI           `TGI_WIGGLE_ROOM` times `--cuda-memory-fraction` (1.0): `server/text_generation_server/models/globals.py` and
                  `flash_causal_lm.py` (`warmup`), `utils/import_utils.py` (db931fc)
    TensorRT-LLM  nvidia.github.io/TensorRT-LLM/examples/kvcacheconfig.html
    SGLang        the rule of `_handle_gpu_memory_settings` in `python/sglang/srt/server_args.py`, with its table of chunks and captured
                  sequences by memory; docs/advanced_features/hyperparameter_tuning.md (21ff1af); github.com/sgl-project/sglang/pull/10975

A stated share takes the place of u and of f; TGI's u is 0.9 times its --cuda-memory-fraction. Without CUDA graphs G is 0. Stated bytes of
the cache (vLLM's --kv-cache-memory-bytes) are K, and the share is ignored; if they are more than M - W - A - R, the server does not start.

Limits: another process on the device takes from M. On a CPU nothing is claimed ahead. SGLang keeps more for DP attention
and for speculative decoding.
Source: the engines' defaults, as listed; read 2026-11-22.
"""

from __future__ import annotations

from typing import NamedTuple

from lib.engines import traits_of
from lib.laws import Law
from lib.units import GIB, MIB, Bytes

LAW = Law(
    equation="context + workspace + graphs, for each process and device", source="driver and start-up logs as listed in lib/laws/runtime.py"
)
WORKSPACE, GRAPHS = "cuBLAS workspace", "captured graphs"


class ByteRange(NamedTuple):
    """A figure known as a range, in bytes."""

    low: Bytes
    typical: Bytes
    high: Bytes


def _range(low: float, typical: float, high: float) -> ByteRange:
    return ByteRange(Bytes(int(low)), Bytes(int(typical)), Bytes(int(high)))


NOTHING = _range(0, 0, 0)
CUDA_CONTEXT = _range(0.3 * GIB, 0.45 * GIB, 0.6 * GIB)
VLLM_OUTSIDE_TORCH = _range(0.16 * GIB, 0.5 * GIB, 1.79 * GIB)
VLLM_GRAPHS = _range(0.3 * GIB, 0.6 * GIB, 1.0 * GIB)
CPU_TRANSFORMERS = _range(0.38 * GIB, 0.38 * GIB, 0.47 * GIB)
CPU_NATIVE = _range(8 * MIB, 32 * MIB, 64 * MIB)
_SMALL_WORKSPACE = 8_519_680
_HOPPER = (9, 0)


def cublas_workspace(compute_capability: tuple[int, int] | None) -> ByteRange:
    """Workspace of cuBLAS; with an unknown card it may be either."""
    if compute_capability is None:
        return _range(_SMALL_WORKSPACE, _SMALL_WORKSPACE, 32 * MIB)
    size = 32 * MIB if compute_capability >= _HOPPER else _SMALL_WORKSPACE
    return _range(size, size, size)


def runtime_parts(
    *, engine: str, silicon: str, compute_capability: tuple[int, int] | None = None, graphs: bool = True
) -> dict[str, ByteRange]:
    """Components of one process on one device of this kind (`gpu`, `cpu`, `tpu`, `neuron`), by name; `graphs` is whether any are captured.

    >>> sum(part.typical for part in runtime_parts(engine="transformers", silicon="gpu", compute_capability=(8, 9)).values()) // MIB
    468
    """
    if silicon == "cpu":
        return {"process": CPU_NATIVE if traits_of(engine).native else CPU_TRANSFORMERS}
    if silicon != "gpu":
        return {"device runtime": NOTHING}
    context = {"context and libraries": CUDA_CONTEXT}
    if traits_of(engine).captured_graphs:
        return {**context, "outside torch": VLLM_OUTSIDE_TORCH, **({GRAPHS: VLLM_GRAPHS} if graphs else {})}
    return {**context, WORKSPACE: cublas_workspace(compute_capability)}


CLAIM = Law(
    equation="weights + activations + runtime + cache ≤ the engine's share of M", source="engines' defaults, listed in lib/laws/runtime.py"
)
CLAIMING = frozenset({"gpu", "tpu"})
"""Kinds of silicon of which engines claim a share."""
LARGEST_SHARE = 0.97
"""A server's share above this leaves too little for the driver and the display. A judgement."""
_CAPTURED = ((60, 256, 512), (35, 32, 160), (20, 24, 80), (0, 8, 8))
"""Sequences up to which SGLang captures graphs: from GiB on, for fewer than four devices, for more."""
_MANY = 4
_LARGE, _LEAST_ON_LARGE = 60 * GIB, 10 * GIB


def sglang_reserve_bytes(*, memory: int, devices: int) -> int:
    """r, what SGLang leaves to activations, graphs and other data of a device of this memory.

    On an L4 of 22.03 GiB: 512 + 1.5 · 2048 + 2 · 24 + 128 = 3760 MiB, so that f = 0.833:

    >>> sglang_reserve_bytes(memory=int(22.03 * 2**30), devices=1) / 2**20
    3760.0
    """
    chunk = traits_of("sglang").profiled_tokens(memory)
    captured = next(few if devices < _MANY else many for gib, few, many in _CAPTURED if memory >= gib * GIB)
    reserve = 512 * MIB + 3 * MIB * chunk // 2 + 2 * MIB * captured + 128 * MIB * devices
    return max(reserve, _LEAST_ON_LARGE) if memory > _LARGE else reserve


class ShareRule(NamedTuple):
    """Share that releases of vLLM from `since` on claim by default, and whether captured graphs lie inside that share."""

    since: tuple[int, int]
    share: float
    graphs_inside: bool
    source: str


VLLM_SHARES = (
    ShareRule((0, 6), 0.9, False, "docs.vllm.ai/en/v0.6.6, engine arguments; V0 captures after it has sized the cache"),
    ShareRule((0, 8), 0.9, False, "docs.vllm.ai/en/v0.8.5/serving/engine_args.html; start-up log in github.com/gpustack/runner/pull/251"),
    ShareRule((0, 21), 0.92, True, "vllm/config/cache.py at 002f10e; VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS is on since 0.21"),
)
"""By release, read 2026-11-22. `docs` of 0.21 and later name 0.92; logs of these releases mostly set another share."""


def vllm_share(version: tuple[int, int]) -> ShareRule:
    """The rule of a release.

    >>> vllm_share((0, 11)).graphs_inside, vllm_share((0, 26)).share
    (False, 0.92)
    """
    return next((rule for rule in reversed(VLLM_SHARES) if rule.since <= version), VLLM_SHARES[0])


class MemoryReservation(NamedTuple):
    """Bytes on one device apart from the cache, by owner; `graphs` are a part of `runtime`. `share` is None for the default.

    `cache` are the stated bytes of the cache; None if the engine computes them.
    """

    engine: str
    silicon: str
    weights: int
    activation: int
    runtime: int
    graphs: int = 0
    devices: int = 1
    share: float | None = None
    cache: int | None = None

    @property
    def beside(self) -> int:
        """W + A + R."""
        return self.weights + self.activation + self.runtime

    def cache_room_bytes(self, memory: int) -> int:
        """K, the room for the cache on one device of M = `memory` bytes; negative if even the rest is too large.

        Llama-3.1-8B in bf16 on 22.03 GiB, with 2 GiB apart from the weights: 0.9 · 22.03 - 14.96 - 2 = 2.87 GiB:

        >>> claim = MemoryReservation(engine="vllm", silicon="gpu", weights=16_060_522_496, activation=2**30, runtime=2**30)
        >>> round(claim.cache_room_bytes(int(22.03 * 2**30)) / 2**30, 2)
        2.87
        """
        left = memory - self.beside
        traits = traits_of(self.engine)
        share, libraries = traits.memory_share if self.share is None else self.share * traits.share_factor, self.runtime - self.graphs
        claims = traits.claims if self.silicon in CLAIMING else "what it needs"
        if self.cache is not None and claims != "what it needs":
            return self.cache if self.cache <= left else left - self.cache
        if claims == "a share":
            return min(left, int(share * memory) - self.beside)
        if claims == "a share, graphs beside it":
            return min(left, int(share * memory) - self.beside + self.graphs)
        if claims == "a share of the rest":
            return min(left, int(share * (left + self.graphs)))
        if claims == "weights and cache":
            static = self.share or 1 - sglang_reserve_bytes(memory=memory, devices=self.devices) / memory
            return min(left, int(static * (memory - libraries)) - self.weights)
        return left

    def capacity_bytes(self, memory: int) -> int:
        """Bytes of the device for the cache and everything else together."""
        return self.beside + self.cache_room_bytes(memory)
