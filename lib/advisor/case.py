"""What is the same for all offers of one answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lib.advisor.forecast import Shape
from lib.advisor.tasks import Family
from lib.estimate import MemoryEstimate
from lib.model.spec import ModelSpec
from lib.platform_rules import PlatformRules
from lib.silicon import Accelerator
from lib.workload import MemoryRequest, Workload

Memory = Callable[[MemoryRequest, Accelerator | None], MemoryEstimate]


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """The model that the hardware runs. `memory` remembers its answers between offers; `stored_bytes` is the size of the download."""

    spec: ModelSpec
    stored_bytes: int
    memory: Memory


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Everything that is the same for all offers; `model` is `None` when the Space runs none itself, `shape` the request that is timed."""

    model: Model | None
    family: Family
    workload: Workload
    context_tokens: int
    shape: Shape
    sdk: str
    rules: PlatformRules
    cpus: tuple[Accelerator, ...]
