"""Allocations of a GPU: the tensors of CUDA's kernels, and each storage followed from the operation that makes it to its release.

A run is made once, with a prime for each of batch, tokens and encoder positions. The meaning of an extent of a tensor is then found by
division: 3 · 258 304 is three per token, 128 is a width. The size of a storage is the product of its extents, so one run gives a
polynomial in the three lengths and not one value; `lib.model.activations` makes a second run with other lengths and compares before
it relies on it. Storages that existed before the run (weights) are not recorded; those of the cache are taken out by the caller.

A storage is released when the last reference to it goes. What a cycle of references keeps would stay until Python's garbage collector
runs, so code of ours that looks at tensors must not make such cycles: a trace has to be the same every time.

Two modes replace a CUDA device. `GpuKernels` (the meta device) replaces attention, the mixed softmax and the products of experts by
allocations of the same size; `CudaOperators` (fake tensors) calls the operators of CUDA, with their shapes, autograd formulas and FLOP.

* On the meta device `scaled_dot_product_attention` would fall back to plain matrix products and hold T² scores that no GPU kernel holds:

      no mask, 16 bits, head width ≤ 256, equal for keys and values    FlashAttention: output, and float32 log-sum-exp per row;
                                                                       widths are padded to multiples of 8
      otherwise                                                        memory-efficient kernel: a boolean mask once more in the
                                                                       compute dtype; output; above width 128 a float32 accumulator

* A softmax from 16 bits to float32 is one kernel on CUDA; on the meta device its input would first be copied.
* The grouped product of a mixture's experts allocates its output: its meta function refuses float32, which the CUDA one takes.

Source: aten/src/ATen/native/transformers of PyTorch 2.13 (attention.cpp, cuda/sdp_utils.cpp, cuda/attention.cu). Limits: cards before
compute capability 8.0, and float32, have no kernel for shared key heads and take scores: there the "eager" trace is nearer.
"""

from __future__ import annotations

import weakref
from collections import Counter
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, empty, empty_like, float32, ops, softmax
from torch import bool as boolean
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from transformers.integrations import moe  # noqa: F401 it registers the products of experts

from lib.errors import UnsupportedModel
from lib.laws.activation import HALF
from lib.model.meta_device import Lengths

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from torch import UntypedStorage

Monomial = tuple[int, int, int]
"""Powers of batch, tokens and encoder positions."""
Coefficient = int | Fraction
Polynomial = dict[Monomial, Coefficient]

BLOCK = 256
"""Tokens are a prime times this, so that scans by chunks and blocks of tokens need no padding. Batch and encoder are primes."""
_NEAR = 64
_BLOCKS = 64
_PADDED = 2
_IN_AND_OUT = 2  # of a layer


def evaluate(polynomial: Polynomial, at: Lengths) -> Coefficient:
    """The polynomial at these lengths."""
    total: Coefficient = 0
    for (b, t, e), c in polynomial.items():
        total += c * (at.batch**b * at.tokens**t * at.encoder**e)
    return total


def multiply(left: Polynomial, right: Polynomial) -> Polynomial:
    """Product of two polynomials."""
    product: Counter[Monomial] = Counter()
    for (b, t, e), c in left.items():
        for (b2, t2, e2), c2 in right.items():
            product[b + b2, t + t2, e + e2] += c * c2  # type: ignore[assignment]  # a Counter also counts in fractions
    return dict(product)


def add(left: Polynomial, right: Polynomial, sign: int = 1) -> Polynomial:
    """Sum of two polynomials, or their difference with `sign` -1."""
    total = dict(left)
    for monomial, c in right.items():
        total[monomial] = total.get(monomial, 0) + sign * c
    return {m: c for m, c in total.items() if c}


def shift_by_token(moment: Polynomial) -> Polynomial:
    """The moment of a step that made the cache one token longer, in terms of the length after it: T becomes T - 1."""
    total: Polynomial = {}
    for (b, t, e), c in moment.items():
        for power, factor in enumerate({0: (1,), 1: (-1, 1), 2: (1, -2, 1)}[t]):
            total[b, power, e] = total.get((b, power, e), 0) + c * factor
    return {m: c for m, c in total.items() if c}


def _powers(size: int, prime: int) -> tuple[int, int]:
    """How often the prime divides `size`, and the remaining factor."""
    power = 0
    while prime > 1 and size and size % prime == 0:
        size //= prime
        power += 1
    return power, size


def extent_law(size: int, lengths: Lengths) -> Polynomial:
    """Meaning of an extent: a multiple of the lengths' product, or of a length and a few positions more or less."""
    prime = lengths.tokens // BLOCK if lengths.tokens % BLOCK == 0 else lengths.tokens
    unit = lengths.tokens // prime if prime else 1
    batch, rest = _powers(size, lengths.batch)
    encoder, rest = _powers(rest, lengths.encoder)
    tokens, rest = _powers(rest, prime)
    if tokens:
        share = Fraction(rest, unit**tokens)
        return {(batch, tokens, encoder): share.numerator if share.denominator == 1 else share}
    scans = unit == BLOCK
    blocks = _BLOCKS if 2 * rest < lengths.tokens else rest
    rules = [(lengths.tokens, Fraction(1), rest, _NEAR), (prime, Fraction(1, unit), blocks, _PADDED)] if scans else []
    for length, share, most, near in rules or [(lengths.tokens, Fraction(1), 1, 1)]:
        multiple = round(rest / length) if length > near else 0
        more = rest - multiple * length
        if 0 < multiple <= most and abs(more) <= near:
            slope = multiple * share
            return {(batch, 1, encoder): slope.numerator if slope.denominator == 1 else slope, (batch, 0, encoder): more}
    return {(batch, 0, encoder): rest}


def size_law(tensor: Tensor, lengths: Lengths) -> Polynomial:
    """Bytes of a tensor as a polynomial."""
    law: Polynomial = {(0, 0, 0): tensor.element_size()}
    for length in tensor.shape:
        law = multiply(law, extent_law(length, lengths))
    return law


_ELEMENTWISE = frozenset(
    {ops.aten.mul.Tensor, ops.aten.add.Tensor, ops.aten.sub.Tensor, ops.aten.div.Tensor, ops.aten.neg.default, ops.aten.rsqrt.default}
)
_PAIR = 2


def _elementwise_result(args: tuple[Any, ...]) -> Tensor | None:
    """The result of an element-wise operation without the cost of its meta function, where its shape and dtype are plain."""
    first = args[0]
    if not isinstance(first, Tensor) or not first.is_floating_point():
        return None
    if len(args) == _PAIR and isinstance(args[1], Tensor):
        second = args[1]
        if second.dtype is not first.dtype or not first.ndim >= second.ndim:
            return None
        if any(b not in {1, a} for a, b in zip(first.shape[first.ndim - second.ndim :], second.shape, strict=True)):
            return None
    return empty_like(first)


def _identity(storage: UntypedStorage) -> int:
    """The address of the storage, which no other one has while it lives."""
    return int(storage._cdata)  # noqa: SLF001 the Python object around a storage may be another one each time


class MemoryTracker(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's
    """Follows the storages that an execution makes: the bytes alive now, the most there were, and the operations so far.

    Storages in `existing` (weights, a cache made before) are not counted.

    Raises:
        UnsupportedModel: more than `budget` operations (a loop over the tokens, written in Python).
    """

    def __init__(self, existing: Iterable[Tensor], budget: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch's
        self._budget = budget
        # The storages themselves, so that none of them can go while the run lasts and leave its identity to a new one.
        self._existing = {_identity(storage): storage for storage in (tensor.untyped_storage() for tensor in existing)}
        self._alive: dict[int, tuple[Any, int]] = {}
        self._made = 0
        self.operations = 0
        self.live_bytes = 0
        self.peak_bytes = 0

    def _budget_refusal(self) -> str:
        return f"The forward pass takes more than {self._budget:,} operations for a few layers."

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the operation and follow storages that are new."""
        result = self._result(func, args, kwargs or {})
        self.operations += func.namespace != "prim"  # fake tensors ask so for their device
        if self.operations > self._budget:
            raise UnsupportedModel(self._budget_refusal())
        for tensor in result if isinstance(result, (tuple, list)) else (result,):
            if isinstance(tensor, Tensor):
                self._follow(tensor)
        return result

    def _result(self, func: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        return func(*args, **kwargs)

    def _follow(self, tensor: Tensor) -> None:
        storage = tensor.untyped_storage()
        identity = _identity(storage)
        if identity in self._existing or identity in self._alive:
            return
        number, size = self._made, storage.nbytes()
        self._made += 1
        self._add(tensor, size)
        self._alive[identity] = (weakref.ref(storage, lambda _: self._release(identity, number, size)), number)

    def _add(self, tensor: Tensor, size: int) -> None:  # noqa: ARG002 a recorder wants the tensor
        self.live_bytes += size
        self.peak_bytes = max(self.peak_bytes, self.live_bytes)

    def _release(self, identity: int, number: int, size: int) -> None:  # noqa: ARG002 as above
        self._alive.pop(identity, None)
        self.live_bytes -= size


class StorageRecorder(MemoryTracker):  # type: ignore[no-untyped-call]
    """Records each new storage of a run: its bytes, and the operations at which it appears and goes.

    `sizes` and `laws` hold the bytes of each storage in the order of appearance, as a number and as a polynomial; `moments()` lists the
    storages alive each time a new one appeared. A storage is named by its place in these lists.
    """

    def __init__(self, weights: Iterable[Tensor], lengths: Lengths, budget: int) -> None:
        super().__init__(weights, budget)
        self._lengths = lengths
        self.sizes: list[int] = []
        self.laws: list[Polynomial] = []
        self._births: list[int] = []
        self._deaths: list[int | None] = []

    def _result(self, func: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """The result, without the cost of a meta function where its shape and dtype are plain."""
        result = _elementwise_result(args) if func in _ELEMENTWISE else None
        return func(*args, **kwargs) if result is None else result

    def _add(self, tensor: Tensor, size: int) -> None:
        super()._add(tensor, size)
        self.sizes.append(size)
        self.laws.append(self._law_of(tensor, size))
        self._births.append(self.operations)
        self._deaths.append(None)

    def _law_of(self, tensor: Tensor, size: int) -> Polynomial:
        law = size_law(tensor, self._lengths)
        return law if evaluate(law, self._lengths) == size else {(0, 0, 0): size}

    def _release(self, identity: int, number: int, size: int) -> None:
        super()._release(identity, number, size)
        self._deaths[number] = self.operations

    def number_of(self, tensor: Tensor) -> int | None:
        """The place of the tensor's storage in the lists, None if it was not recorded."""
        entry = self._alive.get(_identity(tensor.untyped_storage()))
        return entry[1] if entry else None

    def collected_bytes(self, numbers: Sequence[int]) -> Polynomial:
        """Bytes of these storages, one made after the other, if all of them were alive when the last was made."""
        total: Polynomial = {}
        ends = [self._deaths[number] for number in numbers]
        if len(numbers) <= _IN_AND_OUT or any(end is not None and end < self._births[numbers[-1]] for end in ends):
            return total
        for number in numbers:
            total = add(total, self.laws[number])
        return total

    def moments(self, without: Iterable[int] = (), since: int = 0) -> list[Polynomial]:
        """Bytes alive right after each operation that made something, from storage `since` on, leaving out the storages in `without`."""
        left_out = set(without)
        start = 2 * self._births[since] if since < len(self._births) else 0
        changes: dict[int, list[tuple[int, Polynomial]]] = {}
        for number, law in enumerate(self.laws):
            if number not in left_out:
                changes.setdefault(2 * self._births[number], []).append((1, law))
                end = self._deaths[number]
                if end is not None:
                    changes.setdefault(2 * end + 1, []).append((-1, law))
        alive: dict[Monomial, Coefficient] = {}
        moments: list[Polynomial] = []
        for when in sorted(changes):
            for sign, law in changes[when]:
                for monomial, c in law.items():
                    alive[monomial] = alive.get(monomial, 0) + sign * c
            if when % 2 == 0 and when >= start:
                moments.append({m: c for m, c in alive.items() if c})
        return moments


_FLASH_WIDTH = 256
_ACCUMULATOR_WIDTH = 128
_PAD = 8
_SOFTMAX = frozenset({softmax, Tensor.softmax, functional.softmax})
_GROUPED = frozenset({getattr(functional, "grouped_mm", None), getattr(torch, "_grouped_mm", None)})
_SDPA = functional.scaled_dot_product_attention


def widens_in_softmax(func: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    """Whether this is a softmax from 16 bits to float32, one kernel on CUDA."""
    return func in _SOFTMAX and kwargs.get("dtype") is float32 and args[0].element_size() == HALF


def takes_flash(query: Tensor, value: Tensor, mask: Tensor | None) -> bool:
    """Whether attention of these runs in FlashAttention on CUDA; else in the memory-efficient kernel."""
    return mask is None and query.element_size() == HALF and query.shape[-1] == value.shape[-1] <= _FLASH_WIDTH


def pad_width(width: int) -> int:
    """The width of a head as FlashAttention takes it."""
    return -(-width // _PAD) * _PAD


class GpuKernels(TorchFunctionMode):
    """Replaces attention, the mixed softmax and grouped products by allocations of the same size."""

    def __torch_function__(self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Answer these calls, and run every other as it is."""
        kwargs = kwargs or {}
        if func is _SDPA:
            return _allocate_attention(*args, **kwargs)
        if widens_in_softmax(func, args, kwargs):
            return empty(args[0].shape, dtype=float32, device=args[0].device)
        if func in _GROUPED:
            return empty((*args[0].shape[:-1], args[1].shape[-1]), dtype=args[0].dtype, device=args[0].device)
        return func(*args, **kwargs)


def _allocate_attention(query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, *_: Any, **__: Any) -> Tensor:
    """Allocate what the fused kernel allocates; returns a tensor like its output, (batch, heads, length, width)."""
    *leading, length, width = query.shape
    wide = value.shape[-1]
    half = query.element_size() == HALF
    if attn_mask is not None and attn_mask.dtype is boolean:
        attn_mask = empty(attn_mask.shape, dtype=query.dtype, device=query.device)
    if takes_flash(query, value, attn_mask):
        padded = pad_width(width)
        copies = [empty((*t.shape[:-1], padded), dtype=t.dtype, device=t.device) for t in (query, key, value) if padded != width]
        sums = empty((*leading, length), dtype=float32, device=query.device)
        output = _empty_output(query, leading, length, padded)
        del copies, sums
        return output[..., :width]
    accumulator = empty((*leading, length, wide), dtype=float32, device=query.device) if half and wide > _ACCUMULATOR_WIDTH else None
    output = _empty_output(query, leading, length, wide)
    del accumulator, attn_mask
    return output


def _empty_output(query: Tensor, leading: list[int], length: int, width: int) -> Tensor:
    """In memory as (batch, length, heads, width), as the kernels write it, so that the transpose after it needs no copy."""
    if not leading:
        return empty((length, width), dtype=query.dtype, device=query.device)
    return empty((*leading[:-1], length, leading[-1], width), dtype=query.dtype, device=query.device).transpose(-3, -2)


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
    """Kernel that `scaled_dot_product_attention` calls on CUDA: FlashAttention, or the memory-efficient kernel."""
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
        sums = torch.is_grad_enabled() and any(t.requires_grad for t in (query, key, value))
        result = ops.aten._scaled_dot_product_efficient_attention(query, key, value, attn_mask, sums, dropout_p, is_causal, scale=scale)[0]  # noqa: SLF001
    attended: Tensor = result.squeeze(0) if squeezed and lead == () else result
    return attended
