"""What attention really allocates on a GPU, for a run on the meta device.

There `scaled_dot_product_attention` would fall back to plain matrix products and hold T² scores that no GPU kernel holds. This mode
answers with tensors of the sizes the CUDA kernels take:

    no mask, 16 bits, head width ≤ 256, equal for keys and values    FlashAttention: output, and float32 log-sum-exp per row;
                                                                     widths are padded to multiples of 8
    otherwise                                                        memory-efficient kernel: a boolean mask once more in the
                                                                     compute dtype; output; above width 128 a float32 accumulator

Source: aten/src/ATen/native/transformers of PyTorch 2.13 (attention.cpp, cuda/sdp_utils.cpp, cuda/attention.cu). Limits: cards before
compute capability 8.0, and float32, have no kernel for shared key heads and take scores: there the "eager" trace is nearer.
A softmax from 16 bits to float32 is one kernel on CUDA; on the meta device its input would first be copied. The grouped product of
a mixture's experts allocates its output; its meta function refuses float32, which the CUDA one takes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, empty, float32, softmax
from torch import bool as boolean
from torch.nn import functional
from torch.overrides import TorchFunctionMode

if TYPE_CHECKING:
    from collections.abc import Callable

_FLASH_WIDTH = 256
_ACCUMULATOR_WIDTH = 128
_PAD = 8
_HALF = 2
_SOFTMAX = frozenset({softmax, Tensor.softmax, functional.softmax})
_GROUPED = frozenset({getattr(torch, "_grouped_mm", None)})
_SDPA = functional.scaled_dot_product_attention


class GpuKernels(TorchFunctionMode):
    """Replaces attention, the mixed softmax and grouped products by allocations of the same size."""

    def __torch_function__(self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Answer these calls, and run every other as it is."""
        kwargs = kwargs or {}
        if func is _SDPA:
            return attention(*args, **kwargs)
        if func in _SOFTMAX and kwargs.get("dtype") is float32 and args[0].element_size() == _HALF:
            return empty(args[0].shape, dtype=float32, device=args[0].device)
        if func in _GROUPED:
            return empty((*args[0].shape[:-1], args[1].shape[-1]), dtype=args[0].dtype, device=args[0].device)
        return func(*args, **kwargs)


def attention(query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, *_: Any, **__: Any) -> Tensor:
    """Allocate what the fused kernel allocates; returns a tensor like its output, (batch, heads, length, width)."""
    *leading, length, width = query.shape
    wide = value.shape[-1]
    half = query.element_size() == _HALF
    if attn_mask is not None and attn_mask.dtype is boolean:
        attn_mask = empty(attn_mask.shape, dtype=query.dtype, device=query.device)
    if attn_mask is None and half and width == wide <= _FLASH_WIDTH:
        padded = -(-width // _PAD) * _PAD
        copies = [empty((*t.shape[:-1], padded), dtype=t.dtype, device=t.device) for t in (query, key, value) if padded != width]
        sums = empty((*leading, length), dtype=float32, device=query.device)
        out = _output(query, leading, length, padded)
        del copies, sums
        return out[..., :width]
    accumulator = empty((*leading, length, wide), dtype=float32, device=query.device) if half and wide > _ACCUMULATOR_WIDTH else None
    out = _output(query, leading, length, wide)
    del accumulator, attn_mask
    return out


def _output(query: Tensor, leading: list[int], length: int, width: int) -> Tensor:
    """Laid out as (batch, length, heads, width), as the kernels do, so that the transpose after it needs no copy."""
    if not leading:
        return empty((length, width), dtype=query.dtype, device=query.device)
    return empty((*leading[:-1], length, leading[-1], width), dtype=query.dtype, device=query.device).transpose(-3, -2)
