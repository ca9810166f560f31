"""How a model is shared out over n devices, and what the fullest of them holds.

Tensor parallel (vLLM, vLLM on TPU): each matrix is cut in n, everything else is held n times.

    M_device = sharded / n + replicated
    keys and values: heads are cut, not split: with H_kv < n each device holds one head, so the share is 1 / min(n, H_kv)
    latent attention: one latent vector serves all heads and is held by every device

Layers (transformers' `device_map`, llama.cpp's default split): whole layers in turn, embeddings with the first, the head with the last.

    M_device = ⌈L / n⌉ / L · layers + the larger of embeddings and head

Where it stops: frameworks balance by bytes, not by count, so the last line is an upper bound for uneven stacks; a device that is also
the display's, or a user's own device_map, is not known. Source: Shoeybi et al. 2019, "Megatron-LM", arXiv:1909.08053 (tensor parallel);
accelerate's device map documentation (layers).
"""

from __future__ import annotations

from lib.units import Bytes


def up(amount: int, parts: int) -> int:
    """⌈amount / parts⌉ in whole numbers."""
    return -(-amount // parts)


def tensor_parallel_bytes(*, sharded: int, replicated: int, devices: int) -> Bytes:
    """Bytes on one of n devices: the cut part, rounded up, and all of the rest."""
    return Bytes(up(sharded, devices) + replicated)


def head_share(*, kv_heads: int, devices: int) -> int:
    """In how many parts keys and values are cut: min(n, H_kv); 1 where the number of heads is unknown."""
    return max(1, min(devices, kv_heads))


def layer_split_bytes(*, in_layers: int, ends: int, layers: int, devices: int) -> Bytes:
    """Bytes on the fullest device when whole layers are dealt out and `ends` is the larger of embeddings and head.

    >>> layer_split_bytes(in_layers=32_000, ends=500, layers=32, devices=3)
    11500
    """
    if devices == 1:
        return Bytes(in_layers + ends)
    share = up(max(layers, 1), devices)
    return Bytes(up(in_layers * share, max(layers, 1)) + ends)
