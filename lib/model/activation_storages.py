"""A ledger of temporary tensors: what is alive after each operation, as a polynomial in batch, tokens and encoder positions.

A run is made once, with a prime for each of the three. An extent of a tensor is then told apart by division: 3 · 258 304 is three per
token, 128 is a width. A storage's size is the product of its extents, so one run gives the law, not one value; `lib.model.
activation_run` makes a second run with other primes and compares before it believes it. Storages that existed before (weights) are
not entered; those of the cache are taken out by the caller.

What a model is given when its activations are traced, and in which dtype and with which attention it runs.
"""

from __future__ import annotations

import inspect
import re
import weakref
from collections import Counter
from contextlib import contextmanager
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

from torch import Tensor, empty_like, long, ops, zeros
from torch import dtype as Dtype  # noqa: N812 a type, named like one
from torch.nn import Embedding, Module
from torch.utils._python_dispatch import TorchDispatchMode

from lib.errors import UnsupportedModel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from torch import UntypedStorage

MEDIA = ("pixel_values", "input_features", "input_values")
AUDIO_SAMPLES = 480_000  # 30 s at 16 kHz
IMAGE_SIZE = 224  # where a config names none
_WINDOW = re.compile(r"sliding_window|attention_chunk_size|local_attention|attention_window")


class Lengths(NamedTuple):
    """The three lengths of a run; 1 where a model has no such axis."""

    batch: int
    tokens: int
    encoder: int = 1


def takes(module: Module, name: str) -> bool:
    """Whether the module's forward has an argument of this name."""
    return name in inspect.signature(type(module).forward).parameters


def own_dtype(module: Module) -> Dtype:
    """The dtype of the module's matrices; single vectors may be kept in another."""
    return next(p.dtype for p in module.parameters() if p.ndim > 1)


def windows(config: Any) -> list[int]:
    """Lengths after which some layer of the text decoder changes its mask, in order."""
    text = config.get_text_config(decoder=True)
    return sorted({value for key, value in vars(text).items() if _WINDOW.search(key) and type(value) is int and value > 1})


def position_limit(module: Module) -> int | None:
    """Positions of the smallest learned table, after which a prompt cannot be run; None without such a table."""
    tables = [m for name, m in module.named_modules() if "position" in name and "vision" not in name and isinstance(m, Embedding)]
    return min((m.num_embeddings for m in tables), default=None)


def media(module: Module, name: str, batch: int) -> Any:
    """A picture or a sound of the model's own size, as its forward takes it."""
    config: Any = module.config
    if name == "pixel_values":
        of = getattr(config, "vision_config", None) or config
        size = getattr(of, "image_size", None) or IMAGE_SIZE
        high, wide = size if isinstance(size, (list, tuple)) else (size, size)
        shape = [batch, getattr(of, "num_channels", 3), high, wide]
    elif name == "input_features":
        shape = [batch, config.num_mel_bins, 2 * config.max_source_positions]
    else:
        shape = [batch, AUDIO_SAMPLES]
    return zeros(shape, dtype=own_dtype(module))


def prompt(module: Module, lengths: Lengths) -> dict[str, Any]:
    """Arguments of a prefill as `generate` makes them: token ids, logits of the last position only.

    An encoder-decoder gets its encoder's input and one decoder token; a model that writes gets text alone.
    """
    config: Any = module.config
    given: dict[str, Any] = {}
    if config.is_encoder_decoder:
        main = str(getattr(module, "main_input_name", "input_ids"))
        given[main] = zeros(lengths.batch, lengths.encoder, dtype=long) if main == "input_ids" else media(module, main, lengths.batch)
        given["decoder_input_ids"] = zeros(lengths.batch, 1, dtype=long)
    else:
        if takes(module, "input_ids"):
            given["input_ids"] = zeros(lengths.batch, lengths.tokens, dtype=long)
        writes = "input_ids" in given and takes(module, "logits_to_keep")
        given |= {name: media(module, name, lengths.batch) for name in MEDIA if not writes and takes(module, name)}
    if takes(module, "logits_to_keep"):
        given["logits_to_keep"] = 1
    if takes(module, "use_cache"):
        given["use_cache"] = True
    return given


@contextmanager
def dressed(module: Module, dtype: Dtype, kernel: str) -> Iterator[None]:
    """The module in another dtype and with another attention kernel while this lasts; parts kept in float32 stay so."""
    own = own_dtype(module)
    saved = [(t, t.data) for t in (*module.parameters(), *module.buffers()) if dtype != own and t.dtype == own]
    configs = {id(c): c for m in module.modules() if hasattr(c := getattr(m, "config", None), "_attn_implementation_internal")}
    kernels: list[tuple[Any, Any]] = [(c, getattr(c, "_attn_implementation_internal", None)) for c in configs.values()]
    try:
        for tensor, data in saved:
            tensor.data = data.to(dtype)
        for config, _ in kernels:
            config._attn_implementation_internal = kernel  # noqa: SLF001 no public way sets one without checks of the device
        yield
    finally:
        for tensor, data in saved:
            tensor.data = data
        for config, before in kernels:
            config._attn_implementation_internal = before  # noqa: SLF001 as above


_ELEMENTWISE = frozenset(
    {ops.aten.mul.Tensor, ops.aten.add.Tensor, ops.aten.sub.Tensor, ops.aten.div.Tensor, ops.aten.neg.default, ops.aten.rsqrt.default}
)
_PAIR = 2

Monomial = tuple[int, int, int]
"""Powers of batch, tokens and encoder positions."""
Coefficient = int | Fraction
Polynomial = dict[Monomial, Coefficient]

BLOCK = 256
"""Tokens are a prime times this, so that scans by chunks and blocks of tokens need no padding. Batch and encoder are primes."""
_NEAR = 64
_BLOCKS = 64
_PADDED = 2


def value(polynomial: Polynomial, at: Lengths) -> Coefficient:
    """The polynomial at these lengths."""
    total: Coefficient = 0
    for (b, t, e), c in polynomial.items():
        total += c * (at.batch**b * at.tokens**t * at.encoder**e)
    return total


def times(left: Polynomial, right: Polynomial) -> Polynomial:
    """Product of two polynomials."""
    product: Counter[Monomial] = Counter()
    for (b, t, e), c in left.items():
        for (b2, t2, e2), c2 in right.items():
            product[b + b2, t + t2, e + e2] += c * c2  # type: ignore[assignment]  # a Counter also counts in fractions
    return dict(product)


def plus(left: Polynomial, right: Polynomial, sign: int = 1) -> Polynomial:
    """Sum of two polynomials, or their difference with `sign` -1."""
    total = dict(left)
    for monomial, c in right.items():
        total[monomial] = total.get(monomial, 0) + sign * c
    return {m: c for m, c in total.items() if c}


def _powers(size: int, prime: int) -> tuple[int, int]:
    power = 0
    while prime > 1 and size and size % prime == 0:
        size //= prime
        power += 1
    return power, size


def extent(size: int, lengths: Lengths) -> Polynomial:
    """What an extent stands for: a multiple of the lengths' product, or of a length and a few positions more or less."""
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
        law = times(law, extent(length, lengths))
    return law


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


class Ledger(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's
    """Follows storages from the operation that makes them to their release.

    `sizes` and `laws` hold the bytes of each new storage in order, as a number and as a polynomial; `moments()` what was alive each time
    something new appeared.

    Raises:
        UnsupportedModel: more than `budget` operations (a loop over the tokens, written in Python).
    """

    def __init__(self, known: Iterable[Tensor], lengths: Lengths, budget: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch's
        self._lengths = lengths
        self._budget = budget
        self._known = {tensor.untyped_storage()._cdata for tensor in known}  # noqa: SLF001 the storage's identity
        self._alive: dict[int, tuple[Any, int]] = {}
        self.sizes: list[int] = []
        self.laws: list[Polynomial] = []
        self.births: list[int] = []
        self.deaths: list[int | None] = []
        self.operations = 0

    def __torch_dispatch__(self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the operation and enter storages that are new."""
        made = _like(args) if func in _ELEMENTWISE else None
        if made is None:
            made = func(*args, **(kwargs or {}))
        self.operations += 1
        if self.operations > self._budget:
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
        law = size_law(tensor, self._lengths)
        if value(law, self._lengths) != size:
            law = {(0, 0, 0): size}
        self.sizes.append(size)
        self.laws.append(law)
        self.births.append(self.operations)
        self.deaths.append(None)
        self._alive[key] = (weakref.ref(storage, lambda _: self._leave(key, number)), number)

    def _leave(self, key: int, number: int) -> None:
        self._alive.pop(key, None)
        self.deaths[number] = self.operations

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
        alive: dict[Monomial, Coefficient] = {}
        found: list[Polynomial] = []
        for when in sorted(changes):
            for sign, law in changes[when]:
                for monomial, c in law.items():
                    alive[monomial] = alive.get(monomial, 0) + sign * c
            if when % 2 == 0 and when >= start:
                found.append({m: c for m, c in alive.items() if c})
        return found
