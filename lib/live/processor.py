"""This machine's processor with the rates that it reaches, measured: what a datasheet is for a card.

The catalog knows a CPU by its number of virtual processors, and machines of one size differ several-fold: by their vector units, by
whether 16-bit arithmetic is emulated, by their neighbours. So two short products are timed (`lib.live.pace`), in the arithmetic of the
run, over matrices that no cache holds; 0.05 to 0.3 s. They are timed again after a while and the fastest counts: whatever else the
machine does can only make a product slower. Where it ends: rates of one size of matrix; a machine that is busy is slower than they say.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from lib.live.host import last_cache_bytes
from lib.live.pace import ROWS, SIDE, Pace, probe
from lib.provenance import Caveat, Source
from lib.units import BytesPerSecond, FlopPerSecond

if TYPE_CHECKING:
    from lib.catalog.silicon import Accelerator
    from lib.live.device import Device

KEPT_S = 60.0
_CACHES, _LEAST, _MOST = 4, 64 << 20, 512 << 20  # the working set: so many times the last cache, within these bytes

Probe = Callable[[str, str, int], Pace]


class Paces:
    """The best rates of this machine by type, measured when they are first asked for and again when they are old."""

    def __init__(self, run: Probe = probe, now: Callable[[], float] = time.monotonic) -> None:
        """`run` measures, `now` is the clock in seconds."""
        self._run, self._now = run, now
        self._seen: dict[str, tuple[float, Pace]] = {}
        self._one = threading.Lock()  # two at a time would measure each other

    def __call__(self, device: Device, precision: str) -> Pace | None:
        """The rates in this precision; None for a card, which has a datasheet, and for a format that no product is computed in."""
        if device.kind != "cpu":
            return None
        from lib.live.weights import DTYPES  # noqa: PLC0415 it loads torch

        dtype = DTYPES.get(precision)
        if dtype is None:
            return None
        with self._one:
            at, pace = self._seen.get(dtype, (0.0, None))
            if pace is None or self._now() - at > KEPT_S:
                new = self._run(dtype, "cpu", working_set(last_cache_bytes(), device.free_bytes))
                pace = new if pace is None else _faster(pace, new)
                self._seen[dtype] = self._now(), pace
            return pace


def _faster(one: Pace, other: Pace) -> Pace:
    """The better of each rate."""
    return Pace(flop_per_s=max(one.flop_per_s, other.flop_per_s), bytes_per_s=max(one.bytes_per_s, other.bytes_per_s))


def working_set(cache_bytes: int, free_bytes: int) -> int:
    """Bytes to read so that next to nothing comes from a cache, and memory that is short is left alone."""
    return min(max(_CACHES * cache_bytes, _LEAST), _MOST, free_bytes // 4)


paces = Paces()
"""Those of this process."""


def processor(pace: Pace, precision: str, device: Device, known: Accelerator) -> Accelerator:
    """The processor with the rates that were measured: of `known` only what it computes natively is left."""
    today = datetime.now(UTC).date().isoformat()
    return replace(
        known,
        id="this-machine",
        name=f"{device.name}, as measured",
        bandwidth=BytesPerSecond(pace.bytes_per_s),
        peaks=dict.fromkeys(known.peaks) | {precision: FlopPerSecond(pace.flop_per_s)},
        vcpu=device.cores,
        notes="",
        sources=(Source(what=_figures(pace, precision), source=_HOW.format(torch=device.torch), checked=today),),
        checked=today,
        reached=True,
    )


_HOW = f"measured on this machine with torch {{torch}}: products of {ROWS} rows and of one row with matrices of {SIDE} × {SIDE}"


def _figures(pace: Pace, precision: str) -> str:
    return f"rates of this processor: {pace.bytes_per_s / 1e9:.1f} GB/s and {pace.flop_per_s / 1e9:.0f} GFLOP/s in {precision}"


def told(pace: Pace, precision: str) -> Caveat:
    """What a prediction from these rates leaves open."""
    message = (
        f"The speed is predicted from rates measured on this machine just now ({pace.bytes_per_s / 1e9:.1f} GB/s, "
        f"{pace.flop_per_s / 1e9:.0f} GFLOP/s in {precision}), not from a datasheet; what else it does meanwhile makes a run slower."
    )
    return Caveat(code="rates_measured", message=message)
