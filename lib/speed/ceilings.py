"""What a card's datasheet allows, by card class, and which weaker cards vouch for it.

The last column is no class: it holds rates that were reached on the machine itself, of which nothing is to be taken off.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from lib.catalog import load
from lib.laws.speed.quantity import Array
from lib.silicon import Accelerator
from lib.speed.constants import CLASSES

HALVES = ("fp16", "bf16")
_SLOT = 32e9
_BUS = 100e9  # no bus to a host is as fast, no link between cards as slow


def card_class(card: Accelerator) -> str:
    """The class whose share of the sheet figures a card has: by maker, kind of memory and architecture, never by card."""
    if card.kind in {"cpu", "tpu", "neuron"}:
        return card.kind
    if card.vendor == "AMD":
        return "cdna"
    capability = card.compute_capability or (0, 0)
    if capability < (8, 0):
        return "turing"
    if capability in {(8, 0), (9, 0)}:
        return "a100" if capability == (8, 0) else "hopper"
    return "blackwell" if capability[0] == 10 else "gddr"  # noqa: PLR2004 sm_100: HBM; sm_86, 89 and 120 have GDDR


def peak(card: Accelerator, arithmetic: str) -> float:
    """Dense rate at which weights in this arithmetic are multiplied: the native unit's, else that of half precision, else float32's.

    Emulation is no unit: bf16 on a T4 counts as fp16 there. 0 where no rate was published.
    """
    wanted = (arithmetic, *HALVES, "fp32") if arithmetic != "fp32" else ("fp32", *HALVES)
    for name in wanted:
        rate = card.peak(name)
        if rate:
            return float(rate)
    return 0.0


Row = tuple[tuple[float, ...], tuple[float, ...]]


def with_reached(class_logit: Array) -> Array:
    """The logits of the classes' shares, and that of a rate that was reached, whose share is one."""
    return np.append(class_logit, np.inf)


@lru_cache(maxsize=4096)
def ceilings(silicon: str, share: float, arithmetic: str) -> Row:
    """Highest bandwidth and peak of each class among the cards of one kind that this one equals or exceeds in both.

    `share` is the part of the card that is rented. See `lib.laws.speed.achieved` for why weaker cards count.
    """
    cards = load().accelerators
    card = cards[silicon]
    own_bandwidth, own_peak = card.bandwidth * share, peak(card, arithmetic) * share
    bandwidth, compute = np.zeros(len(CLASSES) + 1), np.zeros(len(CLASSES) + 1)
    for other in (*cards.values(), None):
        if other is None:
            at, fast, flops = CLASSES.index(card_class(card)), own_bandwidth, own_peak
        else:
            at, fast, flops = CLASSES.index(card_class(other)), other.bandwidth, peak(other, arithmetic)
            if other.kind != card.kind or fast > own_bandwidth or flops > own_peak:
                continue
        bandwidth[at], compute[at] = max(bandwidth[at], fast), max(compute[at], flops)
    return tuple(bandwidth), tuple(compute)


def _reached(card: Accelerator, share: float, arithmetic: str) -> Row:
    none = (0.0,) * len(CLASSES)
    return (*none, card.bandwidth * share), (*none, peak(card, arithmetic) * share)


def ceiling_rows(keys: Sequence[tuple[str | Accelerator, float, str]]) -> tuple[Array, Array]:
    """`ceilings` of many cards, given as they are or by the catalog's id, as two arrays of n × (classes + 1)."""
    found = []
    for card, share, arithmetic in keys:
        if isinstance(card, Accelerator) and card.reached:
            found.append(_reached(card, share, arithmetic))
        else:
            found.append(ceilings(card.id if isinstance(card, Accelerator) else card, share, arithmetic))
    return np.array([f[0] for f in found]), np.array([f[1] for f in found])


def link(card: Accelerator) -> tuple[float, bool]:
    """Bytes per second to the other cards, one direction, and whether that goes over the bus to the host.

    Where the source gives no figure, a PCIe 4.0 slot of 16 lanes is taken.
    """
    found = card.interconnect
    if found is None:
        return _SLOT, True
    rate = float(found.one_direction or (found.both_directions or 0.0) / 2)
    return (rate, rate < _BUS) if rate else (_SLOT, True)
