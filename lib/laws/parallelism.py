"""Splitting a model over N devices, and between GPU and host: the bytes of the fullest device.

Tensor parallelism (vLLM, vLLM on TPU): every matrix is cut in N parts, everything else is held N times.

    M_device = sharded / N + replicated

    Keys and values are cut by heads. With fewer key/value heads H_kv than devices each device holds one head, so the share is
    1 / min(N, H_kv). Latent attention keeps one vector for all heads, which every device holds.

Which N vLLM starts with (any other N ends with an error):

    H mod N = 0                                   attention heads
    H_kv mod N = 0  or  N mod H_kv = 0            key/value heads are divided, or each is copied equally often
    f mod N = 0                                   width of the MLP, and of one routed expert
    64 · ⌈V / 64⌉ mod N = 0                       vocabulary, padded as vLLM pads it

Whole layers in turn (transformers' `device_map`, llama.cpp's default split): embeddings on the first device, the head on the last.

    M_device = ⌈L / N⌉ / L · layers + the larger of embeddings and head

Limits: quantized checkpoints add conditions of their own (a group of scales must not be cut); vision towers have heads of their own; vLLM
on TPU pads some of these sizes and so starts with a few more N than the rule allows. Where the heads are not known, the largest power of
two up to one host's 8 devices is taken. `device_map` balances by bytes, not by layers, so the last line is an upper bound for stacks of
uneven layers.
Sources: Shoeybi et al. 2019, "Megatron-LM", arXiv:1909.08053 (tensor parallelism); vLLM `vllm/config/model.py`
(`verify_with_parallel_config`), the attention of `models/llama.py`, `layers/fused_moe/layer.py` and `layers/vocab_parallel_embedding.py`,
read 2026-11-22; accelerate's documentation of device maps.

A model that llama.cpp splits between GPU and host: `-ngl N` puts the last N of L + 1 slots on the GPU.

    slots            L layers in their order, and the output matrix as the last slot
    on the GPU       output, if N ≥ 1; layers n = min(N − 1, L), the last ones
    on the host      the table of words, always; the other layers with their part of the cache

    M_gpu  = n / L · (layers + cache) + output + 4·u·(V + h)
    M_host = table + (1 − n / L) · (layers + cache) + 4·u·(h + C) + process
    t      = s · t_gpu + (1 − s) · t_host

    u  micro-batch (512)      C  cells of the context      s  share of the bytes that a step reads that lie on the GPU
    t_gpu, t_host  time of the whole model on either; layers run one after another, so the times add up

A model whose output is its table keeps it twice: on the host to look words up, on the GPU to multiply. Over several GPUs the n layers
are dealt out whole, which adds memory and not speed. For prompts of 32 tokens and more the GPU also computes the host's layers if that is
faster; their weights are copied to it for each micro-batch.

Limits: layers count as equal; if some have a sliding window, the choice of layers on the GPU changes the cache by a layer. Experts on the
host alone (`--n-cpu-moe`) are in `lib.laws.expert_split`; other placements by tensor are not modelled.
Sources: i_gpu_start = max(L + 1 − N, 0) and the input on the CPU: llama.cpp `src/llama-model.cpp` (load_tensors) as readers quote it;
the GPU's buffer is as large with one layer there as with all: github.com/ggml-org/llama.cpp/issues/27953 (2026-09-01); the host's buffer:
368.05 MiB printed for h 7168, u 4096, C 16 384 (a log of ik_llama.cpp with DeepSeek-R1-0528, 2025-07-27), this law 368.00; read 2026-11-22.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache

from lib.laws import Law
from lib.laws.activation import FLOAT32
from lib.units import Bytes, Seconds

ONE_HOST = 8  # devices of the largest single machines in the catalog
VOCABULARY_PADDING = 64


def tensor_parallel_degree(*, heads: int, kv_heads: int, devices: int, mlp_widths: Iterable[int] = (), vocabulary: int = 0) -> int:
    """The most of `devices` over which vLLM splits every layer; sizes that are not known are 0 and are not checked.

    Args:
        heads: H, attention heads; 0 if they are not known.
        kv_heads: H_kv; 0 if they are not known.
        devices: how many there are.
        mlp_widths: f of the dense layers and of one routed expert.
        vocabulary: V, words.

    Qwen2-7B has 28 heads, 4 of them for keys and values: neither 8 nor 7 devices start, 4 do. phi-4 has 40 and 10 heads; 5 devices would
    suit the heads, but not its vocabulary of 100,352 words:

    >>> tensor_parallel_degree(heads=28, kv_heads=4, devices=8)
    4
    >>> tensor_parallel_degree(heads=40, kv_heads=10, devices=8, mlp_widths=(17_920,), vocabulary=100_352)
    2
    """
    if heads == 0:
        return largest_power_of_two(min(devices, ONE_HOST))
    padded = ceil_divide(vocabulary, VOCABULARY_PADDING) * VOCABULARY_PADDING
    return _largest_divisor(heads, kv_heads or heads, (padded, *mlp_widths), devices)


@lru_cache(maxsize=1024)
def _largest_divisor(heads: int, kv_heads: int, sizes: tuple[int, ...], devices: int) -> int:
    return max(
        n
        for n in range(1, max(1, min(devices, heads)) + 1)
        if heads % n == 0 and (kv_heads % n == 0 or n % kv_heads == 0) and all(size % n == 0 for size in sizes)
    )


def largest_power_of_two(most: int) -> int:
    """The largest power of two up to `most` (1, 2, 4, 8 and so on).

    >>> largest_power_of_two(6)
    4
    """
    return 1 << (max(1, most).bit_length() - 1)


def ceil_divide(amount: int, parts: int) -> int:
    """⌈amount / parts⌉ in whole numbers."""
    return -(-amount // parts)


def tensor_parallel_bytes(*, sharded: int, replicated: int, devices: int) -> Bytes:
    """Bytes on one of N devices: the part that is cut, rounded up, and all of the rest."""
    return Bytes(ceil_divide(sharded, devices) + replicated)


def head_share(*, kv_heads: int, devices: int) -> int:
    """In how many parts keys and values are cut: min(N, H_kv); 1 where the number of heads is not known."""
    return max(1, min(devices, kv_heads))


def layer_split_bytes(*, in_layers: int, ends: int, layers: int, devices: int) -> Bytes:
    """Bytes on the fullest device when whole layers are dealt out and `ends` is the larger of embeddings and head.

    >>> layer_split_bytes(in_layers=32_000, ends=500, layers=32, devices=3)
    11500
    """
    if devices == 1:
        return Bytes(in_layers + ends)
    share = ceil_divide(max(layers, 1), devices)
    return Bytes(ceil_divide(in_layers * share, max(layers, 1)) + ends)


LAW = Law(equation="the last min(N − 1, L) of L layers and the output on the GPU, the rest on the host", source="lib/laws/parallelism.py")
LEAST_TOKENS = 32


def layers_on_gpu(*, layers: int, gpu_layers: int) -> int:
    """n: whole layers on the GPU for `-ngl gpu_layers`.

    >>> [layers_on_gpu(layers=36, gpu_layers=n) for n in (0, 1, 20, 37, 99)]
    [0, 0, 19, 36, 36]
    """
    return max(0, min(gpu_layers - 1, layers))


def gpu_part(size: int, *, layers: int, on_gpu: int) -> Bytes:
    """The GPU's share of the bytes of all layers, rounded up."""
    return Bytes(ceil_divide(size * on_gpu, max(1, layers)))


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
