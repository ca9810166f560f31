"""What a process needs beside the model: context and libraries, workspaces, captured graphs, the interpreter.

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


class Range(NamedTuple):
    """A figure known as a range, in bytes."""

    low: Bytes
    typical: Bytes
    high: Bytes


def _range(low: float, typical: float, high: float) -> Range:
    return Range(Bytes(int(low)), Bytes(int(typical)), Bytes(int(high)))


NOTHING = _range(0, 0, 0)
CUDA_CONTEXT = _range(0.3 * GIB, 0.45 * GIB, 0.6 * GIB)
VLLM_OUTSIDE_TORCH = _range(0.16 * GIB, 0.5 * GIB, 1.79 * GIB)
VLLM_GRAPHS = _range(0.3 * GIB, 0.6 * GIB, 1.0 * GIB)
CPU_TRANSFORMERS = _range(0.38 * GIB, 0.38 * GIB, 0.47 * GIB)
CPU_NATIVE = _range(8 * MIB, 32 * MIB, 64 * MIB)
_SMALL_WORKSPACE = 8_519_680
_HOPPER = (9, 0)


def cublas_workspace(compute_capability: tuple[int, int] | None) -> Range:
    """Workspace of cuBLAS; with an unknown card it may be either."""
    if compute_capability is None:
        return _range(_SMALL_WORKSPACE, _SMALL_WORKSPACE, 32 * MIB)
    size = 32 * MIB if compute_capability >= _HOPPER else _SMALL_WORKSPACE
    return _range(size, size, size)


def runtime_parts(*, engine: str, silicon: str, compute_capability: tuple[int, int] | None = None) -> dict[str, Range]:
    """Components of one process on one device of this kind (`gpu`, `cpu`, `tpu`, `neuron`), by name.

    >>> sum(part.typical for part in runtime_parts(engine="transformers", silicon="gpu", compute_capability=(8, 9)).values()) // MIB
    468
    """
    if silicon == "cpu":
        return {"process": CPU_NATIVE if traits_of(engine).native else CPU_TRANSFORMERS}
    if silicon != "gpu":
        return {"device runtime": NOTHING}
    context = {"context and libraries": CUDA_CONTEXT}
    if traits_of(engine).captured_graphs:
        return {**context, "outside torch": VLLM_OUTSIDE_TORCH, GRAPHS: VLLM_GRAPHS}
    return {**context, WORKSPACE: cublas_workspace(compute_capability)}
