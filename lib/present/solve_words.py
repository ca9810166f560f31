"""The words of `/solve`: what limits each maximum, and what each way to save memory does.

`lib.present.sentences` reads `REASONS` and `CAVEATS` with the others; values in braces are shown as it says.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

REASONS: Mapping[str, str] = MappingProxyType(
    {
        "limited:memory": "More would not fit in the memory of a device.",
        "limited:memory_none": "Not even one fits in the memory of a device.",
        "limited:model": "The model's own limit.",
        "limited:engine": "The limit of {engine!s} (max_num_seqs); more requests would wait in its queue.",
        "limited:ttft": "More would take longer than {max_ttft_s} to the first token (predicted).",
        "limited:ttft_none": "Even one takes longer than {max_ttft_s} to the first token (predicted).",
        "limited:speed": "With more, each request would get fewer than {min_tokens_per_s} (predicted).",
        "limited:speed_none": "Even one gets fewer than {min_tokens_per_s} (predicted).",
        "limited:zerogpu": "On ZeroGPU each call has its own GPU.",
        "limited:nothing": "No known limit.",
        "memory_saving:precision": "Weights in {precision!s}",
        "memory_saving:cache_precision": "Cache in {kv_precision!s}",
        "memory_saving:shorter_context": "Half the context: {context_tokens:,} tokens",
        "memory_saving:fewer_requests": "Half the concurrent requests: {concurrency:,}",
        "memory_saving:kernel": "Fused attention (torch of mid 2026 or later, an engine with its own kernels, or an Ampere or newer GPU): "
        "without it attention scores stay in memory, which the high end of the estimate counts",
        "memory_saving:offload": "Offload {offload_bytes} of the weights to host memory",
        "memory_saving:layers_on_host": "Run {host_layers} of the layers on the CPU (-ngl {gpu_layers!s})",
        "memory_saving:more_devices": "More devices: {hardware!s}",
    }
)
CAVEATS: Mapping[str, str] = MappingProxyType(
    {
        "full_length": "Every request is counted at its full length, with a prompt that fills what the answer does not. Shorter requests "
        "leave room for more: /recommend counts those of the usual length on servers.",
        "limits_not_checked": "No speed is predicted here, so the limits on the first token and on speed are not checked.",
        "calls_not_shared": "On ZeroGPU each call has its own GPU: memory and speed there are those of one request at a time, not of "
        "{concurrency:,}.",
        "offload_price": "The slowdown of offloading counts every offloaded byte at every step, over the host link at its maker's "
        "stated speed.",
    }
)
SOONER, LATER = 0.95, 1.05
"""Ratios of seconds that are called a change: a twentieth is within what predictions can tell."""


def describe_speed_change(tpot_ratio: float | None, ttft_ratio: float | None) -> str:
    """What a saving costs in speed, in words."""
    if tpot_ratio is None and ttft_ratio is None:
        return "speed is not predicted"
    ratios = (("between tokens", tpot_ratio), ("to the first token", ttft_ratio))
    changed = [words for name, ratio in ratios if ratio is not None and (words := _change(name, ratio))]
    return "; ".join(changed) if changed else "about as fast"


def _change(name: str, ratio: float) -> str:
    if SOONER <= ratio <= LATER:
        return ""
    amount = f"{ratio:.1f} times as long" if ratio >= 2 else f"{abs(ratio - 1):.0%} {'longer' if ratio > 1 else 'shorter'}"  # noqa: PLR2004
    return f"{amount.replace('%', ' %')} {name}"
