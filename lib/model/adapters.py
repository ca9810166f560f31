"""LoRA and 4-bit weights as peft and bitsandbytes hold them, as far as memory and arithmetic go: neither library is needed to count them.

    peft    y = base(x) + B(A(x')) · s      x' is x in the adapter's dtype (float32 beside 16-bit weights); y returns to that of base(x)
    bnb     y = x · dequantize(W)           W is unpacked to the compute dtype for each product, forward and backward; only packed W is kept

Source: peft `src/peft/tuners/lora/layer.py` (Linear.forward), bitsandbytes `bitsandbytes/autograd/_functions.py` (MatMul4Bit).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeGuard, cast

import torch
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from lib.laws.activation import FLOAT32
from lib.model.build import output_head
from lib.model.spec import check_rank, check_targets, is_targeted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from transformers import PreTrainedModel

_HALF = 2
_PACKED = 2  # weights in a byte
_BLOCK = 64  # weights with one scale
_SCALES = 256  # scales in 8 bits with one of their own in float32
Scales = Literal["single", "double"]


class LoraLinear(nn.Module):
    """A linear module with a low-rank update beside it."""

    def __init__(self, base: nn.Module, inputs: int, outputs: int, rank: int, dtype: torch.dtype) -> None:
        super().__init__()
        self.base = base
        self.down = nn.Linear(inputs, rank, bias=False, device="meta", dtype=dtype)
        self.up = nn.Linear(rank, outputs, bias=False, device="meta", dtype=dtype)

    @property
    def weight(self) -> Tensor:
        """The base's, whose dtype some models ask for."""
        return self.base.weight  # type: ignore[return-value]  # a tensor

    @property
    def bias(self) -> Tensor | None:
        """The base's, which Mamba's scan reads beside the module."""
        return self.base.bias  # type: ignore[return-value]  # as above

    def forward(self, x: Tensor) -> Tensor:
        """The base's result and the update."""
        result: Tensor = self.base(x)
        update = self.up(self.down(x.to(self.down.weight.dtype)))
        updated: Tensor = (result + update * 1.0).to(result.dtype)
        return updated


class _UnquantizedProduct(torch.autograd.Function):
    """x · Wᵀ with W unquantized for the product."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, outputs: int) -> Tensor:
        ctx.inputs, ctx.outputs = x.shape[-1], outputs
        return x @ x.new_empty(outputs, x.shape[-1]).t()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        gradient = gradients[0]
        return gradient @ gradient.new_empty(ctx.outputs, ctx.inputs), None


class Linear4bit(nn.Module):
    """A linear module whose weight is stored in 4 bits with a scale for each block."""

    def __init__(self, linear: nn.Linear | Conv1D, scales: Scales) -> None:
        super().__init__()
        self.inputs, self.outputs = _sizes(linear)
        self.dtype = linear.weight.dtype
        count = self.inputs * self.outputs
        quantized = torch.empty(-(-count // _PACKED), dtype=torch.uint8, device="meta")
        blocks = -(-count // _BLOCK)
        scale_bytes = FLOAT32 * blocks if scales == "single" else blocks + FLOAT32 * (-(-blocks // _SCALES) + 1)
        self.weight = nn.Parameter(quantized, requires_grad=False)
        self.scales = nn.Parameter(torch.empty(scale_bytes, dtype=torch.uint8, device="meta"), requires_grad=False)
        self.bias = linear.bias

    def forward(self, x: Tensor) -> Tensor:
        """The product in the compute dtype."""
        y: Tensor = _UnquantizedProduct.apply(x.to(self.dtype), self.outputs)  # type: ignore[no-untyped-call]  # torch's
        return y if self.bias is None else y + self.bias


def _linear_modules(model: PreTrainedModel) -> dict[str, nn.Module]:
    """Modules that an adapter can stand beside, by name; the output head is left out, as `all-linear` leaves it out."""
    head = output_head(model)
    return {name: m for name, m in model.named_modules() if isinstance(m, (nn.Linear, Conv1D)) and m is not head}


def _is_converted(module: nn.Module) -> TypeGuard[nn.Linear | Conv1D]:
    """Whether bitsandbytes packs a module: subclasses of `nn.Linear` stay as they are (transformers 5.23 integrations/bitsandbytes.py)."""
    return type(module) is nn.Linear or isinstance(module, Conv1D)


def _sizes(module: Any) -> tuple[int, int]:
    """Width of its input and of its output."""
    if isinstance(module, Conv1D):
        return module.weight.shape[0], module.weight.shape[1]
    return module.in_features, module.out_features


def adapt(model: PreTrainedModel, rank: int, targets: Sequence[str], *, scales: Scales | None) -> list[nn.Parameter]:
    """Put adapters beside the targeted modules of a model on the meta device and, where `scales` are named, plain linear ones in 4 bits.

    Returns:
        The adapters' parameters; every other parameter is frozen.

    Raises:
        BadArgument: a target matches no module, or the rank is above the smaller side of a matrix.
    """
    model.requires_grad_(requires_grad=False)
    modules = _linear_modules(model)
    check_targets(targets, list(modules))
    target_modules = {name: module for name, module in modules.items() if is_targeted(name, targets)}
    for name, module in target_modules.items():
        check_rank(rank, name, *reversed(_sizes(module)))
    trained: list[nn.Parameter] = []
    for name, module in (modules if scales else target_modules).items():
        base: nn.Module = Linear4bit(module, scales) if scales and _is_converted(module) else module
        if name in target_modules:
            dtype = cast("Tensor", module.weight).dtype
            adapted = LoraLinear(base, *_sizes(module), rank, torch.float32 if dtype.itemsize == _HALF else dtype)
            trained += [*adapted.down.parameters(), *adapted.up.parameters()]
            base = adapted
        parent, _, last = name.rpartition(".")
        setattr(model.get_submodule(parent), last, base)
    return trained
