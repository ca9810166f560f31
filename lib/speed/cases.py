"""Cases as columns: one entry per combination of a model, hardware and a request; every law works on all of them at once."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from lib.laws.speed.quantity import Array


@dataclass(frozen=True, slots=True, kw_only=True)
class Cases:
    """What the laws take, in base units; arrays of n entries, `bandwidth` and `compute` of n × (card classes + 1).

    Model: bytes of dense weights and of routed experts, experts and how many a token reaches, parameters a token uses, layers, hidden
    size, attention width, layers with full and windowed attention, the sums of `lib.laws.speed.cache_read`, and over how many devices
    the cache can be divided at most (its heads). Hardware: datasheet ceilings of one device by class and rates that were reached on it
    (`lib.speed.ceilings`), memory of one device, link of one device in bytes/s, whether that is the bus to the host. Layout: devices that
    split every layer, devices that hold layers one after another, independent copies. `row_split` and `staged`: llama.cpp's two ways.
    Request: prompt, answer, sequences, and the allocated length that static caches read (0 elsewhere).
    """

    engine: NDArray[np.int64]
    form: NDArray[np.int64]
    eager: NDArray[np.bool_]
    dense_bytes: Array
    expert_bytes: Array
    experts: Array
    per_token: Array
    active: Array
    layers: Array
    hidden: Array
    width: Array
    full_layers: Array
    windowed_layers: Array
    cache_constant: Array
    cache_per_token: Array
    cache_windowed: Array
    window: Array
    cache_split: Array
    bandwidth: Array
    compute: Array
    memory: Array
    link: Array
    bus: NDArray[np.bool_]
    split: Array
    stages: Array
    copies: Array
    row_split: NDArray[np.bool_]
    staged: NDArray[np.bool_]
    prompt: Array
    answer: Array
    batch: Array
    static: Array

    def __len__(self) -> int:
        """How many cases."""
        return len(self.engine)

    def take(self, which: NDArray[np.bool_] | NDArray[np.int64]) -> Cases:
        """Some of the cases."""
        return Cases(**{f.name: getattr(self, f.name)[which] for f in fields(self)})
