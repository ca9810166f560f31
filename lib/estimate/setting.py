"""A request with everything that "auto" left open decided, except how long and how many: the key under which work is shared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lib import precision as formats
from lib.workload import Engine, Mode

if TYPE_CHECKING:
    from lib.model.spec import ModelSpec
    from lib.silicon import Accelerator
    from lib.workload import MemoryRequest

LARGE_CARD = 70 * 2**30  # from here on vLLM's server profiles with 8192 tokens instead of 2048
_HALF = 2
_FLOAT32 = 4
_AMPERE = (8, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Names as resolved, sizes of an element in bytes, and what matters of the silicon.

    `large_card` is true when the device's memory is unknown: an estimate without a card should not come out too small.
    """

    precision: str
    kv_precision: str
    compute_dtype: str
    engine: Engine
    mode: Mode
    devices: int
    encoder_tokens: int
    kv_element_bytes: float
    silicon: str
    compute_capability: tuple[int, int] | None
    large_card: bool

    @property
    def element_bytes(self) -> int:
        """Bytes of one element of the compute dtype."""
        return _FLOAT32 if self.compute_dtype == "fp32" else _HALF

    @property
    def shared_heads_need_scores(self) -> bool:
        """Whether this GPU, with a torch before that of mid 2026, has no fused kernel for key heads that several query heads share.

        FlashAttention needs compute capability 8.0 and 16 bits; the memory-efficient kernel took no shared heads before
        github.com/pytorch/pytorch/pull/191085 (2026-07-25).
        """
        old = self.compute_capability is not None and self.compute_capability < _AMPERE
        return self.silicon == "gpu" and (old or self.element_bytes == _FLOAT32)


def settle(spec: ModelSpec, request: MemoryRequest, accelerator: Accelerator | None) -> Setting:
    """Decide precision, cache precision and compute dtype for this model on this card.

    Raises:
        BadArgument: a precision that no format has.
    """
    asked = "bnb-nf4" if request.mode == "qlora" and request.precision == "auto" else request.precision
    precision = formats.resolve(asked, spec, request.engine, accelerator)
    compute = formats.compute_dtype(precision, spec, accelerator)
    if precision == "gguf:F32":
        compute = "fp16"  # llama.cpp's cache and activations do not follow the weights
    kind = accelerator.kind if accelerator else "tpu" if request.engine == "vllm-tpu" else "gpu"
    memory = accelerator.memory_usable if accelerator else None
    return Setting(
        precision=precision,
        kv_precision=compute if request.kv_precision == "auto" else request.kv_precision,
        compute_dtype=compute,
        engine=request.engine,
        mode=request.mode,
        devices=request.devices,
        encoder_tokens=request.encoder_tokens or spec.dimensions.encoder_tokens,
        kv_element_bytes=formats.element_bytes(request.kv_precision, compute),
        silicon=kind,
        compute_capability=accelerator.compute_capability if accelerator else None,
        large_card=memory is None or memory >= LARGE_CARD,
    )
