"""Runs of one model for its cache at a few lengths: all that is needed to tell how each tensor grows, and no more."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from torch import no_grad

from lib.errors import UnsupportedModel
from lib.model.cache_leaves import Leaf, leaves, returned
from lib.model.cache_prompt import prompt
from lib.model.growth import size
from lib.model.meta_run import MetaRun
from lib.model.pass_through import Layer, Stand, kept_inside

if TYPE_CHECKING:
    from transformers import PreTrainedModel

Run = dict[str, Leaf]
"""A cache after a prefill: its tensors by path."""

ONE, SHORT, MIDDLE = 1, 11, 1021
LONG = (16_777_259, 131_071, 8_191, 2_039, 509)
"""Lengths that are run: primes beside 1, so that no block length divides them. The first of the long ones exceeds every published
window; the next is taken where the model does not run at such a length."""
BATCH = 3
ENCODED, ENCODED_LONGER = 13, 29
"""Lengths of the encoder's output that a decoder with cross attention is given."""


@dataclass(slots=True, kw_only=True)
class Runs:
    """A model standing for its runs; `answer` is given where values are asked for, `encoded` is the length of the encoder's output."""

    module: PreTrainedModel
    stand: Stand
    answer: int | None
    encoded: int

    def cache(self, tokens: int, batch: int = 1, encoded: int = 0) -> Run | None:
        """The cache after a prefill, by path; None if the model returns none."""
        for layer in self.stand.layers:
            layer.forget(idle=self.stand.idle)
        arguments = prompt(self.module, tokens, batch, encoded or self.encoded)
        with no_grad(), MetaRun(self.answer):
            kept = returned(self.module(**arguments))
        return None if kept is None else {leaf.path: leaf for leaf in leaves(kept)}


@dataclass(slots=True, kw_only=True)
class Record:
    """What was run.

    `first` is the cache after one token of `BATCH` sequences, `by_length` those of one sequence by length, `by_encoder` at `SHORT`
    tokens by length of the encoder's output. `owners` are the layers by place in the cache; `idle` names first layers that did not
    run at lengths beyond `SHORT`, because what they hold does not grow.
    """

    first: Run
    owners: dict[int, Layer]
    by_length: dict[int, Run] = field(default_factory=dict)
    by_encoder: dict[int, Run] = field(default_factory=dict)
    idle: frozenset[int] = frozenset()


def _owners(stand: Stand, first: Run) -> dict[int, Layer]:
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


def _part(stand: Stand, owners: dict[int, Layer], first: Run) -> bool:
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


def _idle(one: Run, short: Run, owners: dict[int, Layer]) -> set[int]:
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


def _long(runs: Runs) -> tuple[int, Run]:
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


def _first(runs: Runs) -> tuple[Run, dict[int, Layer]] | None:
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


def record(runs: Runs, *, free_encoder: bool) -> Record | None:
    """Run the model at all lengths that are needed; None if it returns no cache.

    Args:
        runs: the model.
        free_encoder: whether the encoder's output may have any length; then a second length is run.

    Raises:
        UnsupportedModel: the cache is not linear in the batch, or a run takes too many operations.
    """
    runs.stand.begin()
    started = _first(runs)
    if started is None:
        return None
    first, owners = started
    made = Record(first=first, owners=owners, by_length={SHORT: runs.cache(SHORT) or {}})
    made.by_encoder[ENCODED] = made.by_length[SHORT]
    if free_encoder:
        made.by_encoder[ENCODED_LONGER] = runs.cache(SHORT, encoded=ENCODED_LONGER) or {}
    runs.stand.idle = _idle(first, made.by_length[SHORT], owners)
    made.idle = frozenset(runs.stand.idle)
    if not _still(first, made.by_length[SHORT], owners):
        longest, found = _long(runs)
        made.by_length[longest] = found
        if not _plain(first, made.by_length, owners):
            between = MIDDLE if longest > MIDDLE else longest // 2 | 1
            made.by_length[between] = runs.cache(between) or {}
    return made


def repeats(runs: Runs, made: Record) -> bool:
    """Whether the shortest and the longest run of `made` come out the same again, under the present answer."""
    longest = max(made.by_length)
    runs.stand.begin()
    one = runs.cache(ONE, BATCH)
    runs.stand.idle, runs.stand.ends = set(made.idle), False
    return one == made.first and runs.cache(longest) == made.by_length[longest]


def _kept(one: Run, owners: dict[int, Layer]) -> dict[str, int]:
    """Elements of one sequence after one token, of the tensors of first layers."""
    mine = {p: leaf for p, leaf in one.items() if leaf.index is None or leaf.index not in owners or owners[leaf.index].twin is None}
    return {path: size(leaf.shape) // BATCH for path, leaf in mine.items()}


def _still(one: Run, short: Run, owners: dict[int, Layer]) -> bool:
    """Whether nothing at all changed between the two short runs."""
    return _kept(one, owners) == {path: size(leaf.shape) for path, leaf in short.items()}


def _plain(one: Run, by_length: dict[int, Run], owners: dict[int, Layer]) -> bool:
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
