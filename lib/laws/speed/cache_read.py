"""Bytes of cache that one sequence holds, and a decode step therefore reads, as a function of its length.

    C(T) = c₀ + c₁·T + c_w·min(T, w)

    c₀   bytes that do not grow (states of linear and convolutional layers, cross attention)
    c₁   bytes per token of layers that keep everything     c_w  bytes per token of layers that keep a window
    w    length of that window, tokens

The three sums come from the cache terms of the model (`lib.model.spec.CacheTerm`), so sliding windows, latent attention and hybrids
each count what they hold. The static caches of TPU and Neuron engines read the whole allocated length instead: T is that length.
Limits: layers that hold everything and read a selection (sparse attention with an index) read less than this. Blocks of a
compressed cache are taken as proportional to T. Models with windows of several lengths are given their mean, weighted by bytes.
Source: `lib.laws.kv_cache` for what is held; one read per step: Pope et al. 2022, arXiv:2211.05102, §2.
"""

from __future__ import annotations

import numpy as np

from lib.laws.speed.quantity import Quantity


def cache_read(*, constant: Quantity, per_token: Quantity, windowed_per_token: Quantity, window: Quantity, tokens: Quantity) -> Quantity:
    """Bytes for one sequence of `tokens`.

    Llama-3.1-8B keeps 128 KiB per token; a model with half of such layers in a window of 1024 keeps less at 4096 tokens:

    >>> int(cache_read(constant=0, per_token=131072, windowed_per_token=0, window=0, tokens=4096)) // 2**20
    512
    >>> int(cache_read(constant=0, per_token=65536, windowed_per_token=65536, window=1024, tokens=4096)) // 2**20
    320
    """
    return constant + per_token * tokens + windowed_per_token * np.minimum(tokens, window)
