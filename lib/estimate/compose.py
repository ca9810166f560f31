"""Parts of an estimate from a demand: sums over devices, equations with their symbols, ranges, caveats, sources."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lib.estimate.caveats import caveats, sources
from lib.estimate.result import MemoryEstimate, Part
from lib.estimate.training import lighter_bytes, unchecked_bytes
from lib.laws.rule_of_thumb import rule_of_thumb_bytes
from lib.precision import weight_format

if TYPE_CHECKING:
    from lib.estimate.demand import Demand

CACHE_LAWS = {
    "transformers": "B · Σ layers · elements · n(T) · b",
    "vllm": "B · Σ slots · ⌈n(T) / s⌉ · s · elements · b, in blocks of s tokens",
    "llama.cpp": "B · Σ layers · elements · b · cells(T)",
    "vllm-tpu": "B · Σ layers · ⌈n(T) / s⌉ · s · row · b, in pages of s tokens",
}
RUNTIME_LAW = "context + workspace + graphs, for each process and device"
CACHE_SOURCES = {
    "transformers": "cache classes of transformers 5.23.0, executed; lib/laws/kv_cache.py",
    "vllm": "vllm, v1/kv_cache_interface.py (001cabc); lib/laws/kv_cache_vllm.py",
    "llama.cpp": "llama.cpp, src/llama-kv-cache.cpp (25ae3a9); lib/laws/kv_cache_llamacpp.py",
    "vllm-tpu": "tpu-inference b8692ff; lib/laws/kv_cache_tpu.py",
}
TRACE_SOURCE = "traced on the meta device with transformers 5.23.0; lib/model/activation_run.py"
LAW_SOURCE = "counted from the forward pass; lib/laws/activation.py"
TRAINING_SOURCE = "arXiv:1910.02054 and arXiv:2205.05198; lib/laws/training.py"
RUNTIME_SOURCE = "driver and start-up logs as listed in lib/laws/runtime.py"
_LAW_MARGIN = 0.15


def _with_rest(parts: dict[str, int], total: int, rest: str) -> dict[str, int]:
    """The parts and what is missing to the total."""
    missing = total - sum(parts.values())
    return {**parts, rest: missing} if missing else parts


def weights_part(of: Demand) -> Part:
    """Weights over all devices, copies included."""
    n = of.setting.devices
    total = of.device_weights * n if of.parallel else of.weights.total
    inputs = {"format": of.setting.precision, "P": f"{of.spec.parameters_total:,} parameters", "devices": str(n)}
    details = _with_rest(of.weights.by_component, total, "copies on other devices")
    return Part(name="weights", bytes=total, law=of.weights.law, inputs=inputs, source=of.weights.source, details=details)


def cache_part(of: Demand, tokens: int, batch: int) -> Part:
    """Cache over all devices, copies included."""
    by_kind = of.cache.by_kind(tokens, batch)
    total = of.cache.share(tokens, batch) * of.setting.devices if of.parallel else sum(by_kind.values())
    inputs = {"B": str(batch), "T": f"{tokens:,} tokens", "b": f"{of.setting.kv_element_bytes:g} bytes ({of.setting.kv_precision})"}
    if of.setting.encoder_tokens:
        inputs["E"] = f"{of.setting.encoder_tokens:,} encoder positions"
    details = _with_rest(by_kind, total, "copies on other devices")
    law, source = CACHE_LAWS[of.setting.engine], CACHE_SOURCES[of.setting.engine]
    return Part(name="kv_cache", bytes=total, law=law, inputs=inputs, source=source, details=details)


def activation_part(of: Demand, tokens: int, batch: int) -> Part:
    """Activations of all devices; in training also gradients and optimizer states."""
    n = of.setting.devices
    details = {name: size * n for name, size in of.activations(tokens, batch).items()}
    training = of.setting.mode != "inference"
    source = TRAINING_SOURCE if training else LAW_SOURCE if of.activation.by_law else TRACE_SOURCE
    inputs = {"B": str(batch), "T": f"{tokens:,} tokens", "b": f"{of.setting.element_bytes} bytes", **of.activation.inputs}
    total = sum(details.values())
    return Part(name="activation", bytes=total, law=of.activation.law, inputs=inputs, source=source, details=details)


def runtime_part(of: Demand) -> Part:
    """What each process needs beside the model, for all devices."""
    n = of.setting.devices
    details = {name: part.typical * n for name, part in of.runtime.items()}
    inputs = {"processes": str(n), "engine": of.setting.engine, "silicon": of.setting.silicon}
    total = sum(details.values())
    return Part(name="runtime", bytes=total, law=RUNTIME_LAW, inputs=inputs, source=RUNTIME_SOURCE, details=details)


def _margins(of: Demand, tokens: int, batch: int, cache: int, activation: int) -> tuple[int, int]:
    """How far the total may lie below and above, in bytes.

    A traced forward pass is exact, a law is not. A cache that grows by concatenation leaves the allocator with freed blocks of odd
    sizes, up to one cache more, which it gives back before it refuses; that counts in the high value only. Training may keep its
    states in 16 bits (low) or do without checkpointing (high).
    """
    n = of.setting.devices
    low = sum(part.typical - part.low for part in of.runtime.values()) * n
    high = sum(part.high - part.typical for part in of.runtime.values()) * n
    if of.setting.mode != "inference":
        return low + lighter_bytes(of.spec, of.setting) * n, high + unchecked_bytes(of.activation, tokens, batch) * n
    if of.activation.by_law:
        low, high = low + int(activation * _LAW_MARGIN), high + int(activation * _LAW_MARGIN)
    if of.setting.engine == "transformers" and of.setting.silicon == "gpu":
        high += cache + of.activation.scores(tokens, batch) * n
    return low, high


def compose(of: Demand, tokens: int, batch: int) -> MemoryEstimate:
    """The estimate at one length and batch."""
    weights, cache = weights_part(of), cache_part(of, tokens, batch)
    activation, runtime = activation_part(of, tokens, batch), runtime_part(of)
    total = weights.bytes + cache.bytes + activation.bytes + runtime.bytes
    low, high = _margins(of, tokens, batch, cache.bytes, activation.bytes)
    return MemoryEstimate(
        precision=of.setting.precision,
        kv_precision=of.setting.kv_precision,
        engine=of.setting.engine,
        weights=weights,
        kv_cache=cache,
        activation=activation,
        runtime=runtime,
        total_bytes=total,
        low_bytes=total - low,
        high_bytes=total + high,
        per_device_bytes=of.device(tokens, batch).total,
        rule_of_thumb_bytes=rule_of_thumb_bytes(of.spec.parameters_total, weight_format(of.setting.precision).effective_bits / 8),
        caveats=caveats(of, tokens),
        sources=sources(of),
    )
