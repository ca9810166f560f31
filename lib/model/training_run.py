"""One forward pass of a denoiser with gradients on the meta device: the bytes that it keeps for the backward pass.

The denoiser gets the inputs that its pipeline gives it (`lib.model.pipeline_run`), and torch's own autograd says what it saves. Blocks are
the modules that the class of diffusers hands to its gradient checkpointing. The bytes fall into four groups:

    outside        saved outside of blocks
    checkpoints    the inputs of all blocks: the bytes that stay where every block is recomputed
    blocks         saved inside of all blocks, without their inputs
    largest        saved inside the largest block: the bytes that are added while it is recomputed

Adapters are run as peft runs them: two products next to a frozen one. Attention keeps what FlashAttention keeps: queries, keys, values,
the output and a float32 sum for each row. With autocast, functions get the dtype that CUDA's autocast gives them, and norms are kept in
float32.

Source: torch 2.13 autograd and diffusers 0.42.1, as executed; checked 2026-11-26. Limits: kernels' own scratch memory is not seen; a mask
is not counted; a prompt fills the length that the pipeline pads to.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, device, empty, float32, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.nn import Module, functional
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from lib.model.build import LOCK
from lib.model.dry_run_figures import KeptBytes
from lib.model.meta_device import MetaRun, without_values
from lib.model.pipeline_run import BUDGET, MetaPipeline, Shape
from lib.model.spec import Trained, is_attention

RANK = 13
"""Rank of the adapters in a run: a prime, so that no other extent is taken for it."""


class BlockSizes(NamedTuple):
    """The blocks that can be recomputed: how many, parameters in all of them and in the largest."""

    number: int
    parameters: int
    largest: int


def _storage(tensor: Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)  # noqa: SLF001 its identity while it lives


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _tensors(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item)


class _NoValues(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's
    """A question for a value gets 0."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch's

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run every other operation as it is."""
        if func is torch.ops.aten._local_scalar_dense.default:  # noqa: SLF001 torch's name for item()
            return 0
        return func(*args, **(kwargs or {}))


class _Attention(torch.autograd.Function):
    """Attention that allocates and keeps what FlashAttention does."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Allocate the output and a sum for each row."""
        output = empty((*query.shape[:-1], value.shape[-1]), dtype=query.dtype, device=query.device)
        ctx.save_for_backward(query, key, value, output, empty(query.shape[:-1], dtype=float32, device=query.device))
        return output

    @staticmethod
    def backward(ctx: Any, *_: Any) -> Any:
        """Never run: the bytes of the forward pass are wanted."""
        raise NotImplementedError


_IN_HALF = frozenset({functional.linear, functional.conv2d, functional.conv3d, functional.conv1d, torch.matmul, torch.bmm, Tensor.matmul})
_IN_FLOAT32 = frozenset(
    {functional.layer_norm, functional.group_norm, functional.softmax, torch.softmax, torch.pow, Tensor.pow, torch.rsqrt, Tensor.rsqrt}
)
"""Functions that CUDA's autocast runs in 16 bits and in float32 (aten/src/ATen/autocast_mode.h of torch 2.13), as far as denoisers call
them."""


def _cast(value: Any, dtype: torch.dtype) -> Any:
    """Floating-point tensors in this dtype."""
    if isinstance(value, Tensor):
        return value.to(dtype) if value.is_floating_point() else value
    if isinstance(value, dict):
        return {name: _cast(item, dtype) for name, item in value.items()}
    return tuple(_cast(item, dtype) for item in value) if isinstance(value, tuple) else value


class _TrainingKernels(TorchFunctionMode):
    """Replaces attention by one that keeps what the kernel of a GPU keeps; with `autocast`, casts as CUDA's autocast does."""

    def __init__(self, *, autocast: bool) -> None:
        super().__init__()
        self._autocast = autocast

    def __torch_function__(self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Answer attention, and run every other call as it is."""
        kwargs = kwargs or {}
        if func is functional.scaled_dot_product_attention:
            of = dict(zip(("query", "key", "value"), args, strict=False)) | kwargs
            three = (_cast(of[name], torch.bfloat16) if self._autocast else of[name] for name in ("query", "key", "value"))
            return _Attention.apply(*three)  # type: ignore[no-untyped-call]  # torch's
        if self._autocast and (func in _IN_HALF or func in _IN_FLOAT32):
            dtype = torch.bfloat16 if func in _IN_HALF else float32
            args, kwargs = _cast(args, dtype), _cast(kwargs, dtype)
        return func(*args, **kwargs)


@dataclass(slots=True)
class _Block:
    """A block that is running or has run: its inputs, and the bytes that it saved."""

    inputs: frozenset[int]
    parameters: int
    saved: dict[int, int] = field(default_factory=dict)
    per_rank: int = 0
    product_inputs: int = 0


class _Recording:
    """Bytes that a forward pass saves, by block."""

    def __init__(self, weights: frozenset[int]) -> None:
        self._weights = weights
        self._running: _Block | None = None
        self._counted: set[int] = set()
        self._alive: list[Tensor] = []  # so that no later storage gets the identity of an earlier one
        self._seen: dict[Any, tuple[_Block, Any]] = {}
        self._inputs: dict[int, int] = {}
        self._outside: dict[int, int] = {}
        self._outside_weights: dict[int, int] = {}
        self._outside_inputs = 0
        self.blocks: list[_Block] = []

    def save(self, tensor: Tensor) -> Tensor:
        """Note a tensor that autograd saves."""
        identity = _storage(tensor)
        if identity in self._weights and self._running is None:
            self._outside_weights[identity] = tensor.numel()
        if identity in self._weights or identity in self._counted:
            return tensor
        self._counted.add(identity)
        self._alive.append(tensor)
        size = tensor.untyped_storage().nbytes()
        if self._running is None:
            self._outside[identity] = size
        elif tensor.ndim and tensor.shape[-1] == RANK:
            self._running.per_rank += size // RANK
        elif identity not in self._running.inputs:
            self._running.saved[identity] = size
        return tensor

    def multiply(self, _: Module, arguments: tuple[Any, ...]) -> None:
        """Note the input of a linear layer, as a hook before it."""
        if not arguments or not arguments[0].requires_grad:
            return
        if self._running is None:
            self._outside_inputs += arguments[0].numel()
        else:
            self._running.product_inputs += arguments[0].numel()

    def checkpoint(self, block: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """Run a block, as the function that diffusers hands its blocks to; of equal blocks with equal inputs only the first runs."""
        if self._running is not None:
            return block(*arguments, **options)
        given = [tensor for tensor in _tensors((arguments, options)) if _storage(tensor) not in self._weights]
        self._alive += given
        sizes = {_storage(tensor): tensor.untyped_storage().nbytes() for tensor in given}
        self._inputs |= sizes
        key = (_describe(block), tuple((t.shape, t.dtype, t.requires_grad) for t in given))
        if key in self._seen:
            twin, output = self._seen[key]
            self.blocks.append(replace(twin, inputs=frozenset(sizes)))
            return _copy(output)
        parameters = sum(p.numel() for p in block.parameters()) if isinstance(block, Module) else 0
        running = self._running = _Block(frozenset(sizes), parameters)
        self.blocks.append(running)
        try:
            output = block(*arguments, **options)
        finally:
            self._running = None
        self._seen[key] = running, output
        return output

    def result(self) -> tuple[KeptBytes, BlockSizes]:
        """The bytes of the whole pass, and the blocks."""
        saved = [sum(block.saved.values()) for block in self.blocks]
        parameters = [block.parameters for block in self.blocks]
        kept = KeptBytes(
            outside=sum(size for identity, size in self._outside.items() if identity not in self._inputs),
            checkpoints=sum(self._inputs.values()),
            blocks=sum(saved),
            largest=max(saved, default=0),
            per_rank=sum(block.per_rank for block in self.blocks),
            product_inputs=sum(block.product_inputs for block in self.blocks),
            outside_inputs=self._outside_inputs,
            outside_weights=sum(self._outside_weights.values()),
        )
        return kept, BlockSizes(len(self.blocks), sum(parameters), max(parameters, default=0))


def _describe(block: Callable[..., Any]) -> Any:
    """Equal for blocks that do the same."""
    if not isinstance(block, Module):
        return id(block)
    return type(block), tuple((name, tuple(p.shape), p.requires_grad) for name, p in block.named_parameters())


def _copy(value: Any) -> Any:
    """New tensors like these."""
    if isinstance(value, Tensor):
        return torch.empty_like(value, requires_grad=value.requires_grad)
    if isinstance(value, (list, tuple)):
        return type(value)(_copy(item) for item in value)
    return value


@contextmanager
def _training(model: Module, trained: Trained, recording: _Recording) -> Iterator[None]:
    """Train these weights while this lasts."""
    before = [(p, p.requires_grad) for p in model.parameters()]
    handles = [m.register_forward_pre_hook(recording.multiply) for m in model.modules() if isinstance(m, nn.Linear)]
    for parameter, _ in before:
        parameter.requires_grad_(trained == "full")
    for name, module in model.named_modules() if trained != "full" else ():
        if isinstance(module, nn.Linear) and (trained == "all-linear" or is_attention(name)):
            handles.append(module.register_forward_hook(_adapter(module)))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
        for parameter, required in before:
            parameter.requires_grad_(required)


def _adapter(module: nn.Linear) -> Callable[..., Tensor]:
    down, up = (
        empty(shape, dtype=module.weight.dtype, device="meta", requires_grad=True)
        for shape in ((RANK, module.in_features), (module.out_features, RANK))
    )
    return lambda _, arguments, output: output + functional.linear(functional.linear(arguments[0], down), up)


def run_training(pipeline: MetaPipeline, shape: Shape, trained: Trained, *, autocast: bool) -> tuple[KeptBytes, BlockSizes]:
    """The bytes that the denoiser keeps at this shape in 16 bits, and its blocks (none: it cannot be checkpointed)."""
    args, kwargs = pipeline.capture(shape, torch.bfloat16)
    model: Any = pipeline.denoiser
    recording = _Recording(frozenset(_storage(t) for t in (*model.parameters(), *model.buffers())))
    checkpoints = bool(getattr(model, "_supports_gradient_checkpointing", False))
    if checkpoints:
        model.enable_gradient_checkpointing(gradient_checkpointing_func=recording.checkpoint)
    try:
        with (
            LOCK, warnings.catch_warnings(), torch.enable_grad(), without_values(), MetaRun(0, BUDGET),
            _TrainingKernels(autocast=autocast), device("meta"), _NoValues(), _training(model, trained, recording),
            saved_tensors_hooks(recording.save, lambda tensor: tensor),
        ):  # fmt: skip
            warnings.simplefilter("ignore")
            model(*args, **kwargs)
    finally:
        if checkpoints:
            model.disable_gradient_checkpointing()
    return recording.result()
