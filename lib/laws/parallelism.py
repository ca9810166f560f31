"""How a model is shared out over N devices, and what the fullest of them holds.

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
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from lib.units import Bytes

ONE_HOST = 8  # devices of the largest single machines in the catalog
VOCABULARY_PADDING = 64


def tensor_parallel_degree(*, heads: int, kv_heads: int, devices: int, mlp_widths: Iterable[int] = (), vocabulary: int = 0) -> int:
    """The most of `devices` over which vLLM splits every layer; sizes that are not known are 0 and are not checked.

    Args:
        heads: H, attention heads; 0 where they are not known.
        kv_heads: H_kv; 0 where they are not known.
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
