"""Runs of one model at several lengths, and the shapes of its cached tensors at each."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from torch import bfloat16, no_grad

from lib.errors import UnsupportedModel
from lib.model.cache_leaves import Leaf, leaves, returned
from lib.model.cache_prompt import fixed_positions, prompt
from lib.model.growth import size
from lib.model.meta_run import MetaRun
from lib.model.pass_through import Layer, Stand, in_dtype, kept_inside, standing

if TYPE_CHECKING:
    from transformers import PreTrainedModel

ONE, SHORT, MIDDLE = 1, 11, 1021
LONG = (16_777_259, 131_071, 8_191, 2_039, 509)
"""Lengths that are run: primes beside 1, so that no block length divides them. The first of the long ones exceeds every published
window; the next is taken where the model does not run at such a length."""
BATCH = 3
ENCODED, ENCODED_LONGER = 13, 29
"""Lengths of the encoder's output that a decoder with cross attention is given."""


@dataclass(slots=True, kw_only=True)
class Tensor:
    """One cached tensor of a first layer: shape for one sequence by length; `layers` equal layers hold one like it."""

    path: str
    dtype: str
    layers: int
    owner: int
    shapes: dict[int, tuple[int, ...]] = field(default_factory=dict)
    by_encoder: dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Samples:
    """All cached tensors of first layers, of a model whose parameters are all in `dtype`."""

    tensors: tuple[Tensor, ...]
    dtype: str = "bfloat16"


@dataclass(slots=True, kw_only=True)
class _Runs:
    module: PreTrainedModel
    stand: Stand
    answer: int | None
    encoded: int

    def cache(self, tokens: int, batch: int = 1, encoded: int = 0) -> dict[str, Leaf] | None:
        """The cache after a prefill, by path; None if the model returns none."""
        for layer in self.stand.layers:
            layer.forget(idle=self.stand.idle)
        arguments = prompt(self.module, tokens, batch, encoded or self.encoded)
        with no_grad(), MetaRun(self.answer):
            kept = returned(self.module(**arguments))
        return None if kept is None else {leaf.path: leaf for leaf in leaves(kept)}


def _owners(stand: Stand, first: dict[str, Leaf]) -> dict[int, Layer]:
    """The layer that writes each place of the cache; empty if that is not clear.

    Layers that share a module carry the numbers of that module, all the same: then the position in the stack counts.
    """
    called = [layer for layer in stand.layers if layer.called]
    if any(count > 1 for count in Counter(number for layer in called for number in layer.numbers).values()):
        for layer in called:
            layer.numbers = frozenset({layer.position})
    owners = {number: layer for layer in called for number in layer.numbers}
    unique = len(owners) == sum(len(layer.numbers) for layer in called)
    known = all(leaf.index is None or leaf.index in owners for leaf in first.values())
    return owners if unique and known else {}


def _part(stand: Stand, owners: dict[int, Layer], first: dict[str, Leaf]) -> bool:
    """Whether layers that were taken as equal turn out not to be; they run for themselves from now on."""
    called = [layer for layer in stand.layers if layer.called]
    by_number: dict[int, list[tuple[str, tuple[int, ...], str]]] = {}
    for leaf in first.values():
        if leaf.index is not None:
            by_number.setdefault(leaf.index, []).append((leaf.name, leaf.shape, leaf.dtype))

    def held(layer: Layer) -> list[Any]:
        return sorted(entry for number in layer.numbers for entry in by_number.get(number, []))

    def empty(layer: Layer) -> list[Any]:
        return [stand.empty.get(number) for number in sorted(layer.numbers)]

    apart = {
        id(layer.first)
        for layer in called
        if layer.twin is not None
        and (not owners or empty(layer) != empty(layer.first) or (layer.last and held(layer) != held(layer.first)))
    }
    for layer in called:
        if id(layer.first) in apart:
            layer.twin = None
    return bool(apart)


def _tensors(first: dict[str, Leaf], others: list[dict[str, Leaf]], owners: dict[int, Layer]) -> list[Tensor]:
    """A Tensor for each path that a first layer holds in any run, in the order of the cache."""
    twins = Counter(id(layer.first) for layer in {id(layer): layer for layer in owners.values()}.values())
    found: dict[str, Tensor] = {}
    for leaf in (leaf for run in (first, *others) for leaf in run.values()):
        owner = owners.get(leaf.index) if leaf.index is not None else None
        if leaf.path in found or (owner is not None and owner.twin is not None):
            continue
        layers = twins[id(owner)] if owner else 1
        found[leaf.path] = Tensor(path=leaf.path, dtype=leaf.dtype, layers=layers, owner=id(owner) if owner else -1 - (leaf.index or 0))
    return list(found.values())


def _idle(one: dict[str, Leaf], short: dict[str, Leaf], owners: dict[int, Layer]) -> set[int]:
    """First layers that hold something, and the same after one token and after many."""
    changed, held = set(), set()
    for path in one.keys() | short.keys():
        index = (one.get(path) or short[path]).index
        owner = owners.get(index) if index is not None else None
        if owner is None or owner.twin is not None:
            continue
        held.add(id(owner))
        if path not in one or path not in short or size(one[path].shape) != BATCH * size(short[path].shape):
            changed.add(id(owner))
    return held - changed


def _long(runs: _Runs) -> tuple[int, dict[str, Leaf]]:
    """The longest run that the model takes: a table of positions, or a loop over the tokens, can set a limit.

    Raises:
        UnsupportedModel: a place of the cache has a setting, such as a window, that is not below the longest run that is possible.
    """
    failure: Exception | None = None
    for tokens in LONG:
        if isinstance(failure, UnsupportedModel) and tokens > LONG[-1]:
            continue
        try:
            found = runs.cache(tokens) or {}
        except Exception as error:  # noqa: BLE001 modelling code raises anything on a length it cannot take
            failure = failure or error
            continue
        bound = max((setting for place in runs.stand.empty.values() for setting in _numbers(place)), default=0)
        if failure is not None and bound >= tokens:
            raise failure
        return tokens, found
    raise failure or UnsupportedModel("This model runs at no length.")


def _numbers(place: Any) -> list[int]:
    if isinstance(place, tuple):
        return [number for part in place for number in _numbers(part)]
    return [place] if type(place) is int else []


def _first(runs: _Runs) -> tuple[dict[str, Leaf], dict[int, Layer]] | None:
    """The cache of one token of a batch, and which layer writes which place; equal layers have been checked to be equal."""
    first = runs.cache(ONE, BATCH)
    if not first:
        if kept_inside(runs.module):
            raise UnsupportedModel("This model keeps its states inside its modules instead of handing them on, so they were not counted.")
        return None
    if any(size(leaf.shape) % BATCH for leaf in first.values()):
        raise UnsupportedModel("The cache of this model does not grow with the number of sequences.")
    owners = _owners(runs.stand, first)
    if _part(runs.stand, owners, first):
        first = runs.cache(ONE, BATCH) or {}
    runs.stand.ends = False
    return first, owners


def _grown(runs: _Runs, first: dict[str, Leaf], owners: dict[int, Layer]) -> dict[int, dict[str, Leaf]]:
    """The cache at each further length; the long ones only where something grows."""
    by_length = {SHORT: runs.cache(SHORT) or {}}
    runs.stand.idle = _idle(first, by_length[SHORT], owners)
    if not _still(first, by_length[SHORT], owners):
        longest, found = _long(runs)
        by_length[longest] = found
        if not _plain(first, by_length, owners):
            by_length[MIDDLE if longest > MIDDLE else longest // 2 | 1] = runs.cache(MIDDLE if longest > MIDDLE else longest // 2 | 1) or {}
    return by_length


def sample(module: PreTrainedModel, config: Any, answer: int | None) -> Samples | None:
    """Run `module` and collect what it caches; None if it returns no cache.

    Raises:
        UnsupportedModel: the cache is not linear in the batch, or a run takes too many operations.
    """
    with in_dtype(module, bfloat16), standing(module, config) as stand:
        fixed = fixed_positions(module)
        runs = _Runs(module=module, stand=stand, answer=answer, encoded=fixed or ENCODED)
        started = _first(runs)
        if started is None:
            return None
        first, owners = started
        by_length = _grown(runs, first, owners)
        by_encoder = {ENCODED: by_length[SHORT]}
        if config.is_encoder_decoder and fixed is None:
            stand.idle = set()
            by_encoder[ENCODED_LONGER] = runs.cache(SHORT, encoded=ENCODED_LONGER) or {}
        found = _tensors(first, list(by_length.values()), owners)
    for tensor in found:
        count = size(first[tensor.path].shape) // BATCH if tensor.path in first else 0
        tensor.shapes[ONE] = (count,)
        for tokens, run in by_length.items():
            if tokens == SHORT or tensor.owner not in stand.idle:
                tensor.shapes[tokens] = run[tensor.path].shape if tensor.path in run else (0,)
        tensor.by_encoder = {encoded: size(run[tensor.path].shape) if tensor.path in run else 0 for encoded, run in by_encoder.items()}
    return Samples(tensors=tuple(found))


def _kept(one: dict[str, Leaf], owners: dict[int, Layer]) -> dict[str, int]:
    """Elements of one sequence after one token, of the tensors of first layers."""
    mine = {p: leaf for p, leaf in one.items() if leaf.index is None or leaf.index not in owners or owners[leaf.index].twin is None}
    return {path: size(leaf.shape) // BATCH for path, leaf in mine.items()}


def _still(one: dict[str, Leaf], short: dict[str, Leaf], owners: dict[int, Layer]) -> bool:
    """Whether nothing at all changed between the two short runs."""
    return _kept(one, owners) == {path: size(leaf.shape) for path, leaf in short.items()}


def _plain(one: dict[str, Leaf], by_length: dict[int, dict[str, Leaf]], owners: dict[int, Layer]) -> bool:
    """Whether every tensor either stays as it is or grows with each token, up to the long run."""
    kept = _kept(one, owners)
    short, longest = by_length[SHORT], by_length[max(by_length)]
    if kept.keys() != short.keys():
        return False
    moving = {path for path, leaf in short.items() if size(leaf.shape) != kept[path]}
    return (
        all(size(run[path].shape) == tokens * kept[path] for tokens, run in by_length.items() for path in moving if path in run)
        and moving <= longest.keys()
    )
