"""LoRA and 4-bit weights as peft and bitsandbytes hold them, as far as memory and arithmetic go: neither library is needed to count them.

    peft    y = base(x) + B(A(x')) · s      x' is x in the adapter's dtype (float32 beside 16-bit weights); y returns to that of base(x)
    bnb     y = x · dequantize(W)           W is unpacked to the compute dtype for each product, forward and backward; only packed W is kept

Source: peft `src/peft/tuners/lora/layer.py` (Linear.forward), bitsandbytes `bitsandbytes/autograd/_functions.py` (MatMul4Bit).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from lib.errors import BadArgument
from lib.model.build import output_head
from lib.model.dry_run_result import ALL_LINEAR

if TYPE_CHECKING:
    from collections.abc import Iterable

    from transformers import PreTrainedModel

_HALF = 2
_PACKED = 2  # weights in a byte
_BLOCK = 64  # weights with one float32 scale
_SHOWN = 12


class Adapted(nn.Module):
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

    def forward(self, x: Tensor) -> Tensor:
        """The base's result and the update."""
        result: Tensor = self.base(x)
        update = self.up(self.down(x.to(self.down.weight.dtype)))
        updated: Tensor = (result + update * 1.0).to(result.dtype)
        return updated


class _UnpackedProduct(torch.autograd.Function):
    """x · Wᵀ with W unpacked for the product."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, outputs: int) -> Tensor:
        ctx.inputs, ctx.outputs = x.shape[-1], outputs
        return x @ x.new_empty(outputs, x.shape[-1]).t()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        gradient = gradients[0]
        return gradient @ gradient.new_empty(ctx.outputs, ctx.inputs), None


class Packed(nn.Module):
    """A linear module whose weight is stored in 4 bits with a scale for each block."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.inputs, self.outputs, self.dtype = linear.in_features, linear.out_features, linear.weight.dtype
        count = self.inputs * self.outputs
        packed = torch.empty(-(-count // _PACKED), dtype=torch.uint8, device="meta")
        scales = torch.empty(-(-count // _BLOCK), dtype=torch.float32, device="meta")
        self.weight = nn.Parameter(packed, requires_grad=False)
        self.scales = nn.Parameter(scales, requires_grad=False)
        self.bias = linear.bias

    def forward(self, x: Tensor) -> Tensor:
        """The product in the compute dtype."""
        y: Tensor = _UnpackedProduct.apply(x.to(self.dtype), self.outputs)  # type: ignore[no-untyped-call]  # torch's
        return y if self.bias is None else y + self.bias


def _linear_modules(model: PreTrainedModel) -> dict[str, nn.Module]:
    """Modules that an adapter can stand beside, by name; the output head is left out, as `all-linear` leaves it out."""
    head = output_head(model)
    return {name: m for name, m in model.named_modules() if isinstance(m, (nn.Linear, Conv1D)) and m is not head}


def _targeted(model: PreTrainedModel, targets: Iterable[str]) -> dict[str, nn.Module]:
    """The modules that `targets` name.

    Raises:
        BadArgument: a name that ends no module's.
    """
    modules = _linear_modules(model)
    chosen: dict[str, nn.Module] = {}
    for target in targets:
        found = {name: m for name, m in modules.items() if target in (ALL_LINEAR, name) or name.endswith(f".{target}")}
        if not found:
            known = sorted({name.rpartition(".")[2] for name in modules})[:_SHOWN]
            raise BadArgument("targets", target, f"{ALL_LINEAR}, or the end of a linear module's name: {', '.join(known) or 'it has none'}")
        chosen |= found
    return chosen


def _sizes(module: Any) -> tuple[int, int]:
    """Width of its input and of its output."""
    if isinstance(module, Conv1D):
        return module.weight.shape[0], module.weight.shape[1]
    return module.in_features, module.out_features


def adapt(model: PreTrainedModel, rank: int, targets: Iterable[str], *, packed: bool) -> list[nn.Parameter]:
    """Put adapters beside the targeted modules of a model on the meta device and, if `packed`, all linear ones in 4 bits.

    Returns:
        The adapters' parameters; every other parameter is frozen.

    Raises:
        BadArgument: a target matches no module, or the rank is above the smaller side of a matrix.
    """
    model.requires_grad_(requires_grad=False)
    chosen = _targeted(model, targets)
    for name, module in chosen.items():
        if rank > min(_sizes(module)):
            sides = " × ".join(map(str, _sizes(module)))
            raise BadArgument("rank", rank, f"1 to {min(_sizes(module))}, the smaller side of {name} ({sides})")
    trained: list[nn.Parameter] = []
    for name, module in (_linear_modules(model) if packed else chosen).items():
        base: nn.Module = Packed(module) if packed and isinstance(module, nn.Linear) else module
        if name in chosen:
            dtype = cast("Tensor", module.weight).dtype
            adapted = Adapted(base, *_sizes(module), rank, torch.float32 if dtype.itemsize == _HALF else dtype)
            trained += [*adapted.down.parameters(), *adapted.up.parameters()]
            base = adapted
        parent, _, last = name.rpartition(".")
        setattr(model.get_submodule(parent), last, base)
    return trained
