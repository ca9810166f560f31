"""A model that llama.cpp splits between GPU and host: `-ngl N` puts the last N of L + 1 slots on the GPU.

    slots            L layers in their order, and the output matrix as the last slot
    on the GPU       output, if N ≥ 1; layers n = min(N − 1, L), the last ones
    on the host      the table of words, always; the other layers with their part of the cache

    M_gpu  = n / L · (layers + cache) + output + 4·u·(V + h)
    M_host = table + (1 − n / L) · (layers + cache) + 4·u·(h + C) + process
    t      = s · t_gpu + (1 − s) · t_host

    u  micro-batch (512)      C  cells of the context      s  share of the bytes that a step reads that lie on the GPU
    t_gpu, t_host  time of the whole model on either; layers run one after another, so the times add up

A model whose output is its table keeps it twice: on the host to look words up, on the GPU to multiply. Over several GPUs the n layers
are dealt out whole, which adds memory and not speed. For prompts of 32 tokens and more the GPU computes the host's layers too, with weights
that are copied to it for each micro-batch, where that is faster.

Limits: layers count as alike; which ones lie on the GPU changes the cache by a layer where some slide. Experts on the host alone
(`--n-cpu-moe`) and other placements by tensor are not modelled.
Sources: i_gpu_start = max(L + 1 − N, 0) and the input on the CPU: llama.cpp `src/llama-model.cpp` (load_tensors) as readers quote it;
the GPU's buffer is as large with one layer there as with all: github.com/ggml-org/llama.cpp/issues/27953 (2026-09-01); the host's buffer:
368.05 MiB printed for h 7168, u 4096, C 16 384 (a log of ik_llama.cpp with DeepSeek-R1-0528, 2025-07-27), this law 368.00; read 2026-11-22.
"""

from __future__ import annotations

import math

from lib.laws import Law
from lib.laws.activation import FLOAT32
from lib.units import Bytes, Seconds

LAW = Law(equation="the last min(N − 1, L) of L layers and the output on the GPU, the rest on the host", source="lib/laws/offload.py")
MIX = Law(equation="s · t_gpu + (1 − s) · t_host", source="layers run one after another; lib/laws/offload.py")
LEAST_TOKENS = 32


def layers_on_gpu(*, layers: int, gpu_layers: int) -> int:
    """n: whole layers on the GPU for `-ngl gpu_layers`.

    >>> [layers_on_gpu(layers=36, gpu_layers=n) for n in (0, 1, 20, 37, 99)]
    [0, 0, 19, 36, 36]
    """
    return max(0, min(gpu_layers - 1, layers))


def gpu_part(size: int, *, layers: int, on_gpu: int) -> Bytes:
    """The part of what all layers hold that lies on the GPU, rounded up."""
    return Bytes(-(-size * on_gpu // max(1, layers)))


def host_buffer_bytes(*, hidden: int, context: int, micro_batch: int) -> Bytes:
    """Inputs of a micro-batch and its mask, in float32: 4·u·(h + C).

    >>> host_buffer_bytes(hidden=7168, context=16_384, micro_batch=4096) // 2**20
    368
    """
    return Bytes(FLOAT32 * micro_batch * (hidden + context))


def mixed_time(*, on_gpu_s: float, on_host_s: float, share: float) -> Seconds:
    """Seconds of a pass of which the GPU does `share`.

    >>> mixed_time(on_gpu_s=0.02, on_host_s=0.4, share=0.75)
    0.115
    """
    return Seconds(share * on_gpu_s + (1 - share) * on_host_s)


def copied_prompt_time(*, on_gpu_s: float, host_bytes: float, tokens: float, micro_batch: int, link: float) -> Seconds:
    """Seconds of a prompt on the GPU when the host's weights are copied over the link (bytes/s) for every micro-batch of tokens."""
    return Seconds(on_gpu_s + math.ceil(tokens / micro_batch) * host_bytes / link)
