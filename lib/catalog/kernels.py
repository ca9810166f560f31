"""Number formats that an engine reads on a GPU, by compute capability.

    reads_format("vllm", "fp8-block", a100, mixture=False)    True: weight-only kernels
    is_weight_only("vllm", "fp8-block", a100, mixture=False)    True: 8 bits are read, 16 bits are multiplied

A row of `lib/data/kernels.json` says from which compute capability on an engine reads a format. A format without a row needs units of the
silicon, if it is fp8 or a plain format; others are unpacked on any GPU.
"""

from __future__ import annotations

from functools import cache
from typing import Annotated

from pydantic import BeforeValidator, TypeAdapter

from lib.catalog.rows import DATA, Day, Row, Text
from lib.catalog.silicon import Accelerator, parse_capability
from lib.engines import Engine
from lib.precision import NAMES, loads, weight_format

HALF_BITS = 16
_ON_TPU = frozenset({"bf16", "fp8", "int8"})
Capability = Annotated[tuple[int, int], BeforeValidator(parse_capability)]


class Kernels(Row):
    """The kernels of one engine for one format."""

    engine: Engine
    """The engine."""
    format: Text
    """fp8, or a law of `lib.precision`."""
    capability: Capability
    """Least compute capability for a dense model."""
    mixture_capability: Capability
    """Least compute capability for a mixture of experts."""
    version: str
    """Version of the engine that the source is about; empty if the source names none."""
    source: Text
    """Source of the row."""
    checked: Day
    """The day on which it was read."""


@cache
def read_kernels() -> dict[tuple[str, str], Kernels]:
    """The rows by engine and format."""
    rows = TypeAdapter(tuple[Kernels, ...]).validate_json((DATA / "kernels.json").read_bytes())
    return {(row.engine, row.format): row for row in rows}


def reads_format(engine: str, precision: str, silicon: Accelerator, *, mixture: bool) -> bool:
    """Whether the engine reads weights of this format on this silicon; `mixture` where the model routes tokens to experts.

    A format that `lib.precision` does not know is left to the engine, on a GPU.
    """
    form = weight_format(precision, engine if loads(engine, precision) else "transformers") if precision in NAMES else None
    needed, bits = ("", 0) if form is None else (form.arithmetic, form.bits)
    if silicon.kind == "tpu":
        return needed in _ON_TPU and silicon.supports(needed)
    row = None if form is None else read_kernels().get((engine, "fp8" if needed == "fp8" else form.law))
    capability = silicon.compute_capability
    if row is not None and capability is not None:
        return capability >= (row.mixture_capability if mixture else row.capability)
    return silicon.supports(needed) if needed == "fp8" or bits >= HALF_BITS else True


def is_weight_only(engine: str, precision: str, silicon: Accelerator, *, mixture: bool) -> bool:
    """Whether weights of fp8 are read packed and multiplied in 16 bits, because the silicon has no units for them."""
    form = weight_format(precision) if precision in NAMES else None
    if form is None or form.arithmetic != "fp8" or silicon.supports("fp8") or (engine, "fp8") not in read_kernels():
        return False
    return reads_format(engine, precision, silicon, mixture=mixture)
