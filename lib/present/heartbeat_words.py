"""The heartbeat in words: what a result says, and why a time that was published for a TPU cannot be one.

Every figure comes from the catalog and the default case; nothing is typed in but what was published.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lib.silicon import Accelerator

PUBLISHED_S = 5.6e-6
"""0.0056 ms on a TPU v6e for 128 × 4096 × 16384 in float32, mean of 100 iterations: the result that this explains."""
_BATCH, _HIDDEN, _INTERMEDIATE, _ELEMENT_BYTES = 128, 4096, 16384, 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Impossible:
    """The arithmetic against a published time: what the work needs at least, and what the time would mean if it were true."""

    published_s: float
    flops: int
    weight_bytes: int
    memory_s: float
    compute_s: float
    bandwidth_needed: float
    rate_needed: float


def impossible(chip: Accelerator, published_s: float = PUBLISHED_S) -> Impossible:
    """The published case on this chip; a chip without a float32 peak multiplies float32 in passes of its bf16 units, which bounds it."""
    flops = 2 * _BATCH * _HIDDEN * _INTERMEDIATE
    weights = _ELEMENT_BYTES * _HIDDEN * _INTERMEDIATE
    peak = chip.peak("fp32") or chip.peak("bf16")
    assert peak is not None, "a chip that multiplies"  # noqa: S101 of our own catalog
    return Impossible(
        published_s=published_s,
        flops=flops,
        weight_bytes=weights,
        memory_s=weights / chip.bandwidth,
        compute_s=flops / peak,
        bandwidth_needed=weights / published_s,
        rate_needed=flops / published_s,
    )


def why_impossible(chip: Accelerator, published_s: float = PUBLISHED_S) -> str:
    """Why the published time timed the dispatch."""
    seen = impossible(chip, published_s)
    least = max(seen.memory_s, seen.compute_s)
    return (
        f"A published run of this product on a {chip.name} took {_ms(published_s)}. It cannot have: the weights alone are "
        f"{seen.weight_bytes / 1e6:,.0f} MB, which at the chip's {chip.bandwidth / 1e9:,.0f} GB/s take {_ms(seen.memory_s)}, and its "
        f"{seen.flops / 1e9:,.1f} GFLOP take {_ms(seen.compute_s)} at the peak of its matrix units. At least {_ms(least)}, "
        f"{least / published_s:,.0f} times as long. Taken at its word, the chip would have read {seen.bandwidth_needed / 1e12:,.0f} TB/s "
        f"and computed {seen.rate_needed / 1e15:,.1f} PFLOP/s. What was timed is the dispatch: on a TPU (and on a GPU) the call returns "
        "when the work has been handed over, and the clock was stopped there. The script below waits: it reads each product's sum back "
        "before it looks at the clock."
    )


def verdict(answer: Mapping[str, Any]) -> str:
    """A result of /heartbeat in two sentences."""
    cold = _ms(answer["cold_first_s"])
    took = f"One product takes {_ms(answer['median_s'])} here (median of {answer['iterations']:,}; the first, cold, {cold})"
    if not answer["valid"]:
        return f"{took}, and that is not possible: at least {_ms(answer['floor_s'])} are needed. The caveats say why it is not believed."
    rate = f"{answer['achieved_flops_per_s'] / 1e9:,.0f} GFLOP/s"
    if answer["efficiency"] is None:
        return f"{took}: {rate}."
    bound = "memory" if answer["bound"] == "bandwidth" else "arithmetic"
    least = f"It cannot take less than {_ms(answer['floor_s'])} by the {bound}"
    return f"{took}: {rate}. {least}, so it reaches {answer['efficiency']:.0%} of what can be had."


def _ms(seconds: float) -> str:
    """A time in milliseconds with two or three figures that count."""
    return f"{seconds * 1e3:,.3g} ms" if seconds < 1 else f"{seconds:,.2f} s"
