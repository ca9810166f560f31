"""The operators that a CUDA device runs, in place of those that torch takes for tensors on a CPU.

Attention, the mixed softmax, dropout and products of experts are called with their own shapes, autograd formulas and FLOP; which kernel
attention runs in is decided as `lib.model.activation_trace` says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, float32, ops
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from transformers.integrations import moe

from lib.model.activation_trace import pad_width, takes_flash, widens_in_softmax

if TYPE_CHECKING:
    from collections.abc import Callable

assert moe, "imported because it registers the products of experts"  # noqa: S101 or the import would seem unused
_GROUPED = frozenset({getattr(functional, "grouped_mm", None), getattr(torch, "_grouped_mm", None)})


class CudaOperators(TorchFunctionMode):
    """Calls the operators that a CUDA device would, with their own shapes, autograd formulas and FLOP."""

    def __torch_function__(self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Answer these calls, and run every other as it is."""
        kwargs = kwargs or {}
        if func is functional.scaled_dot_product_attention:
            return _attention(*args, **kwargs)
        if widens_in_softmax(func, args, kwargs):
            return ops.aten._softmax(args[0], kwargs.get("dim", args[1] if len(args) > 1 else -1), True)  # noqa: SLF001 as called
        if func in _GROUPED and args[0].dtype is float32:  # the CUDA operator takes it, its meta function does not
            return ops.transformers.grouped_mm_fallback(args[0], args[1], kwargs["offs"])
        if func is functional.dropout:
            return _dropout(*args, **kwargs)
        return func(*args, **kwargs)


def _dropout(x: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:  # noqa: ARG001 torch's
    if not training or p == 0:
        return x
    dropped: Tensor = ops.aten.native_dropout(x, p, True)[0]
    return dropped


def _attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """What `scaled_dot_product_attention` calls on CUDA: FlashAttention, or the memory-efficient kernel."""
    if torch.is_autocast_enabled("cpu"):
        query, key, value = (t.to(torch.get_autocast_dtype("cpu")) for t in (query, key, value))
    width = value.shape[-1]
    lead, squeezed = query.shape[:-3], query.ndim == 3  # noqa: PLR2004 heads, positions, width
    if squeezed:
        query, key, value = (t.unsqueeze(0) for t in (query, key, value))
    if takes_flash(query, value, attn_mask):
        more = pad_width(width) - width
        if more:
            query, key, value = (functional.pad(t, (0, more)) for t in (query, key, value))
        result = ops.aten._scaled_dot_product_flash_attention(query, key, value, dropout_p, is_causal, scale=scale)[0]  # noqa: SLF001
        result = result[..., :width] if more else result
    else:
        if enable_gqa and key.shape[-3] != query.shape[-3]:
            key, value = (t.repeat_interleave(query.shape[-3] // t.shape[-3], -3) for t in (key, value))
        if attn_mask is not None:
            if attn_mask.dtype is torch.bool:
                attn_mask = torch.zeros_like(attn_mask, dtype=query.dtype).masked_fill_(attn_mask.logical_not(), float("-inf"))
            attn_mask = attn_mask.expand(*query.shape[:-1], key.shape[-2])
        kept = torch.is_grad_enabled() and any(t.requires_grad for t in (query, key, value))
        result = ops.aten._scaled_dot_product_efficient_attention(query, key, value, attn_mask, kept, dropout_p, is_causal, scale=scale)[0]  # noqa: SLF001
    attended: Tensor = result.squeeze(0) if squeezed and lead == () else result
    return attended
