"""What each engine is: one row of properties for every program that a model can be run with.

An engine is a row here and a name in `Engine`. Whatever treats engines differently asks the row (`traits_of`), so that no caller keeps a
list of names of its own. Constants of speed are fitted, not stated (`lib.speed.calibration`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, get_args

Engine = Literal["transformers", "vllm", "llama.cpp", "vllm-tpu"]
ENGINES: tuple[Engine, ...] = get_args(Engine)

CacheLayout = Literal["exact", "grouped blocks", "cells", "pages"]
StartUp = Literal["forward pass", "profile run", "compute buffer"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineTraits:
    """The properties of one engine, at its defaults."""

    silicon: frozenset[str]
    """Kinds of silicon that it runs on, of "gpu", "apple", "cpu", "tpu" and "neuron"."""
    tensor_parallel: bool = False
    """Splits every layer over several devices; the others give each device whole layers in turn."""
    pipelined: bool = False
    """Devices that hold layers in turn work on micro-batches of a prompt at the same time."""
    static_batch: bool = False
    """Requests start together as one batch; the others take each as soon as there is a place."""
    eager: bool = False
    """Launches kernels one by one while the device computes, and takes any number of requests into a batch."""
    max_num_seqs: int = 256
    """Sequences that it runs at once at most, where it is not eager."""
    packed_kernels: bool = False
    """Its kernels read packed weights; the others unpack them first and gain no speed from a smaller format."""
    own_files: bool = False
    """Loads files of its own (GGUF) instead of the checkpoint."""
    memory_share: float = 1.0
    """Share of a device that it claims at start, whatever the requests need (`lib.laws.memory_claim`); 1 where it takes what it needs."""
    captured_graphs: bool = False
    """Captures its decode step as graphs, which take memory on a GPU."""
    cache: CacheLayout
    """How it lays out the cache (`lib.laws.kv_cache_by_engine`)."""
    start_up: StartUp
    """What its activations are: the model's own forward pass, a run at start that sets them aside, or a fixed buffer."""
    fp8: str
    int8: str
    int4: str
    """What these words mean to it as a precision: a name of `lib.precision`."""
    small_cache: str = "int8"
    """Its cache format of eight bits."""

    @property
    def preallocates(self) -> bool:
        """Whether it fills its share of the device with cache at start."""
        return self.memory_share < 1


GPU, TPU = frozenset({"gpu"}), frozenset({"tpu"})
ANYWHERE = frozenset({"gpu", "cpu", "tpu", "neuron"})
ALSO_ON_MACS = ANYWHERE | {"apple"}

TRAITS: Mapping[Engine, EngineTraits] = MappingProxyType(
    {
        "transformers": EngineTraits(
            silicon=ALSO_ON_MACS, static_batch=True, eager=True, cache="exact", start_up="forward pass",
            fp8="fp8-block", int8="bnb-int8", int4="bnb-nf4",
        ),
        "vllm": EngineTraits(
            silicon=ANYWHERE, tensor_parallel=True, packed_kernels=True, memory_share=0.9, captured_graphs=True, cache="grouped blocks",
            start_up="profile run", fp8="fp8-tensor", int8="int8-channel", int4="awq-4", small_cache="fp8",
        ),
        "llama.cpp": EngineTraits(
            silicon=ALSO_ON_MACS, pipelined=True, static_batch=True, packed_kernels=True, own_files=True, cache="cells",
            start_up="compute buffer", fp8="gguf:Q8_0", int8="gguf:Q8_0", int4="gguf:Q4_K_M",
        ),
        "vllm-tpu": EngineTraits(
            silicon=TPU, tensor_parallel=True, packed_kernels=True, memory_share=0.9, cache="pages", start_up="profile run",
            fp8="fp8-channel", int8="int8-channel", int4="int4-group", small_cache="fp8",
        ),
    }
)  # fmt: skip
"""One row for each engine."""


def traits_of(engine: str) -> EngineTraits:
    """The row of an engine.

    Raises:
        ValueError: there is none of this name; arguments from outside are checked before.
    """
    for name, row in TRAITS.items():
        if name == engine:
            return row
    raise ValueError(f"no law of memory or speed for an engine named {engine}")
