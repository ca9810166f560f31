"""Memory of a model: ModelSpec × request × device → bytes by part, and whether they fit.

    estimate_memory(spec, MemoryRequest(context_tokens=8192)).total_bytes
    fit_memory(spec, MemoryRequest(), usable_memory(offer), offer.silicon).max_context_tokens

This package is the only place that unpacks a spec for the laws of memory. `resolve` decides what "auto" left open; `components` gives
weights, cache and activations as functions of tokens and batch, `pipeline` the stages of one that makes pictures, `training` a step;
`per_device` adds them up on the fullest device and searches for the longest context and the largest batch; `result` is the estimate with
its laws, ranges, caveats and sources. Functions that take a spec and a request raise BadArgument for a precision that
no format has and for a model that the engine does not run.
"""

from lib.memory.per_device import (
    CacheHeadroom,
    MemoryFit,
    PerDevice,
    cache_headroom,
    count_per_device,
    count_sequences,
    fit_memory,
    host_memory,
    usable_memory,
)  # fmt: skip
from lib.memory.resolve import find_largest
from lib.memory.result import (
    GenerationMemory,
    MemoryEstimate,
    MemoryPart,
    attention_scores,
    compose,
    estimate_generation,
    estimate_memory,
    fewest_experts_on_host,
    most_layers_on_card,
)  # fmt: skip

__all__ = [
    "CacheHeadroom", "GenerationMemory", "MemoryEstimate", "MemoryFit", "MemoryPart", "PerDevice", "attention_scores", "cache_headroom",
    "compose", "count_per_device", "count_sequences", "estimate_generation", "estimate_memory", "fewest_experts_on_host", "find_largest",
    "fit_memory", "host_memory", "most_layers_on_card", "usable_memory",
]  # fmt: skip
