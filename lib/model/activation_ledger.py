"""A ledger of temporary tensors: what is alive after each operation, as a polynomial in batch, tokens and encoder positions.

A run is made once, with a prime for each of the three. An extent of a tensor is then told apart by division: 3 · 200 003 is three per
token, 128 is a width. A storage's size is the product of its extents, so one run gives the law, not one value; `lib.model.
activation_run` makes a second run with other primes and compares before it believes it. Storages that existed before (weights) are
not entered; those of the cache are taken out by the caller.
"""

from __future__ import annotations

import weakref
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from torch import Tensor, empty_like, ops
from torch.utils._python_dispatch import TorchDispatchMode

from lib.errors import UnsupportedModel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from torch import UntypedStorage

_ELEMENTWISE = frozenset(
    {ops.aten.mul.Tensor, ops.aten.add.Tensor, ops.aten.sub.Tensor, ops.aten.div.Tensor, ops.aten.neg.default, ops.aten.rsqrt.default}
)
_PAIR = 2

Monomial = tuple[int, int, int]
"""Powers of batch, tokens and encoder positions."""
Polynomial = dict[Monomial, int]


class Lengths(NamedTuple):
    """The three lengths of a run; 1 where the model has no such axis."""

    batch: int
    tokens: int
    encoder: int = 1

    def value(self, polynomial: Polynomial) -> int:
        """The polynomial at these lengths."""
        return sum(c * self.batch**b * self.tokens**t * self.encoder**e for (b, t, e), c in polynomial.items())


def _times(left: Polynomial, right: Polynomial) -> Polynomial:
    product: Counter[Monomial] = Counter()
    for (b, t, e), c in left.items():
        for (b2, t2, e2), c2 in right.items():
            product[b + b2, t + t2, e + e2] += c * c2
    return dict(product)


def extent(size: int, lengths: Lengths) -> Polynomial:
    """What an extent stands for: a multiple of the lengths' product, or one position more than a length."""
    powers = []
    rest = size
    for length in lengths:
        power = 0
        while length > 1 and rest and rest % length == 0:
            rest //= length
            power += 1
        powers.append(power)
    if not any(powers) and lengths.tokens > 1 and size == lengths.tokens + 1:
        return {(0, 1, 0): 1, (0, 0, 0): 1}
    return {(powers[0], powers[1], powers[2]): rest}


def _like(args: tuple[Any, ...]) -> Tensor | None:
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


class Ledger(TorchDispatchMode):
    """Follows storages from the operation that makes them to their release.

    `sizes` and `laws` hold the bytes of each new storage in order, as a number and as a polynomial; `moments()` what was alive each time
    something new appeared.

    Raises:
        UnsupportedModel: more than `budget` operations (a loop over the tokens, written in Python).
    """

    def __init__(self, known: Iterable[Tensor], lengths: Lengths, budget: int = 6000) -> None:
        super().__init__()
        self._lengths = lengths
        self._budget = budget
        self._known = {tensor.untyped_storage()._cdata for tensor in known}  # noqa: SLF001 the storage's identity
        self._alive: dict[int, tuple[Any, int]] = {}
        self.sizes: list[int] = []
        self.laws: list[Polynomial] = []
        self.births: list[int] = []
        self.deaths: list[int | None] = []
        self._operations = 0

    def __torch_dispatch__(self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:  # noqa: ARG002 torch's signature
        """Run the operation and enter storages that are new."""
        made = _like(args) if func in _ELEMENTWISE else None
        if made is None:
            made = func(*args, **(kwargs or {}))
        self._operations += 1
        if self._operations > self._budget:
            raise UnsupportedModel(f"The forward pass takes more than {self._budget:,} operations for a few layers.")
        for tensor in made if isinstance(made, (tuple, list)) else (made,):
            if isinstance(tensor, Tensor):
                self._enter(tensor)
        return made

    def _enter(self, tensor: Tensor) -> None:
        storage = tensor.untyped_storage()
        key = storage._cdata  # noqa: SLF001 the storage's identity
        if key in self._known or key in self._alive:
            return
        number = len(self.sizes)
        size = storage.nbytes()
        law: Polynomial = {(0, 0, 0): tensor.element_size()}
        for length in tensor.shape:
            law = _times(law, extent(length, self._lengths))
        if self._lengths.value(law) != size:
            law = {(0, 0, 0): size}
        self.sizes.append(size)
        self.laws.append(law)
        self.births.append(self._operations)
        self.deaths.append(None)
        self._alive[key] = (weakref.ref(storage, lambda _: self._leave(key, number)), number)

    def _leave(self, key: int, number: int) -> None:
        self._alive.pop(key, None)
        self.deaths[number] = self._operations

    def entry(self, storage: UntypedStorage) -> int | None:
        """The number under which a storage was entered, None if it was not."""
        found = self._alive.get(storage._cdata)  # noqa: SLF001 the storage's identity
        return found[1] if found else None

    def moments(self, without: Iterable[int] = (), since: int = 0) -> list[Polynomial]:
        """What is alive right after each operation that made something, from entry `since` on, leaving out some entries."""
        left_out = set(without)
        start = 2 * self.births[since] if since < len(self.births) else 0
        changes: dict[int, list[tuple[int, Polynomial]]] = {}
        for number, law in enumerate(self.laws):
            if number not in left_out:
                changes.setdefault(2 * self.births[number], []).append((1, law))
                end = self.deaths[number]
                if end is not None:
                    changes.setdefault(2 * end + 1, []).append((-1, law))
        alive: Counter[Monomial] = Counter()
        found: list[Polynomial] = []
        for when in sorted(changes):
            for sign, law in changes[when]:
                for monomial, c in law.items():
                    alive[monomial] += sign * c
            if when % 2 == 0 and when >= start:
                found.append({m: c for m, c in alive.items() if c})
        return found
