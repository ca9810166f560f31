"""What an estimate is: parts that add up, a range, the fullest device; and whether that fits."""

from __future__ import annotations

from dataclasses import dataclass

from lib.provenance import Caveat, Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One component of an estimate: bytes, the law that gave them, and the numbers that went in.

    `law` is the equation as text, `inputs` its symbols with values as shown to people, `source` where the law comes from.
    `details` splits the part further (cache by layer kind, weights by component); the split adds up to `bytes`.
    """

    name: str
    bytes: int
    law: str
    inputs: dict[str, str]
    source: str
    details: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryEstimate:
    """Memory of one configuration, by component, over all devices, and on the fullest one.

    `total_bytes` = weights + kv_cache + activation + runtime, summed over the devices. `per_device_bytes` is the peak of the
    fullest device. `low_bytes`/`high_bytes` bound the total where the truth is a range. `precision`, `kv_precision` and `engine`
    are those really used ("auto" is resolved). `rule_of_thumb_bytes` is the community's parameters × bytes × 1.2.
    """

    precision: str
    kv_precision: str
    engine: str
    weights: Part
    kv_cache: Part
    activation: Part
    runtime: Part
    total_bytes: int
    low_bytes: int
    high_bytes: int
    per_device_bytes: int
    rule_of_thumb_bytes: int
    caveats: tuple[Caveat, ...]
    sources: tuple[Source, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """Whether a configuration fits the memory of an offer, and how far it could be stretched.

    `capacity_bytes` is the usable memory of one device (RAM less the system's share on CPU), `free_bytes` what is left on the
    fullest device (negative when it does not fit), `max_context_tokens` and `max_batch_size` the largest that still fit with
    everything else unchanged (0 = not even one; context is bounded by the model's own limit, `None` = no limit found).
    """

    fits: bool
    capacity_bytes: int
    free_bytes: int
    max_context_tokens: int | None
    max_batch_size: int | None
