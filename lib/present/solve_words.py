"""The words of inverse questions: what limits an answer, and what each way to take less memory does.

`lib.present.sentences` reads `REASONS` and `CAVEATS` with the others; values in braces are shown as it says.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

REASONS: Mapping[str, str] = MappingProxyType(
    {
        "limited:memory": "One more would not fit the memory of a device.",
        "limited:memory_none": "Not even one fits the memory of a device.",
        "limited:model": "The model was made for no more.",
        "limited:engine": "{engine!s} runs no more at once (max_num_seqs); further requests wait.",
        "limited:ttft": "One more is predicted to take longer than {max_ttft_s} to the first token.",
        "limited:ttft_none": "Even one is predicted to take longer than {max_ttft_s} to the first token.",
        "limited:speed": "One more is predicted to get fewer than {min_tokens_per_s}.",
        "limited:speed_none": "Even one is predicted to get fewer than {min_tokens_per_s}.",
        "limited:zerogpu": "Every call has a card of its own on ZeroGPU.",
        "limited:nothing": "Nothing that is known here bounds it.",
        "shrink:precision": "Weights in {precision!s}",
        "shrink:cache_precision": "Cache in {kv_precision!s}",
        "shrink:shorter_context": "Half the context: {context_tokens:,} tokens",
        "shrink:fewer_requests": "Half the requests at a time: {concurrency:,}",
        "shrink:kernel": "Fused attention (torch of mid 2026 or later, an engine with its own kernels, a card from Ampere on): without it "
        "scores are held, which the high end of the estimate counts",
        "shrink:offload": "{offload_bytes} of the weights in the host's memory",
        "shrink:layers_on_host": "{host_layers} of the layers on the processor (-ngl {gpu_layers!s})",
        "shrink:more_devices": "More devices: {hardware!s}",
    }
)
CAVEATS: Mapping[str, str] = MappingProxyType(
    {
        "full_length": "Every request is counted at its full length, and its prompt fills what the answer leaves of it. Shorter requests "
        "leave room for more.",
        "limits_not_checked": "No speed is predicted here, so the limits on the first token and on speed are not checked.",
        "calls_not_shared": "On ZeroGPU every call has a card of its own: the figures are those of one request.",
        "offload_price": "The price of offloading counts every offloaded byte at every step, over the link to the host as its maker states "
        "it.",
    }
)
SOONER, LATER = 0.95, 1.05
"""Ratios of seconds that are called a change: a twentieth is within what predictions can tell."""


def shrink_effect(tpot_ratio: float | None, ttft_ratio: float | None) -> str:
    """What a way costs in speed, in words."""
    if tpot_ratio is None and ttft_ratio is None:
        return "no change of speed is predicted"
    ratios = (("between tokens", tpot_ratio), ("to the first token", ttft_ratio))
    changed = [words for name, ratio in ratios if ratio is not None and (words := _change(name, ratio))]
    return "; ".join(changed) if changed else "about as fast"


def _change(name: str, ratio: float) -> str:
    if SOONER <= ratio <= LATER:
        return ""
    amount = f"{ratio:.1f} times as long" if ratio >= 2 else f"{abs(ratio - 1):.0%} {'longer' if ratio > 1 else 'shorter'}"  # noqa: PLR2004
    return f"{amount.replace('%', ' %')} {name}"
