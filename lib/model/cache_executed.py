"""Content of a model's own default cache, found by running it: on the meta device, at a few lengths, without values.

1. All layers, one token, three sequences: which tensors there are, and that their size is linear in the batch.
2. The first of equal layers, one sequence, at a few more lengths, the last two past every window. Layers whose cache is the
   same after 1 and after `SHORT` tokens (recurrent states) do not run again.
3. `lib.model.cache_terms` finds the law of each tensor. Equal layers count together.

No architecture is named here. What cannot be run or explained raises; it is never guessed.
Source: the model and cache classes of the installed transformers, as executed. Limit: dense batch, text-only prompt.
"""

from __future__ import annotations

import warnings
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from torch import bfloat16, no_grad
from transformers import PreTrainedModel

from lib.errors import AdvisorError, UnknownGrowth, UnsupportedModel
from lib.model import cache_terms
from lib.model.build import LOCK
from lib.model.layer_dedup import DedupLayer, DedupRun, dedup_layers, holds_cache, keeps_state_inside
from lib.model.meta_device import MetaRun, decoder_inputs, fixed_encoder_positions, has_argument, in_dtype
from lib.model.spec import CacheTerm

if TYPE_CHECKING:
    from lib.model.build import BuiltModel

ONE, SHORT, MIDDLE = 1, 11, 1021
LONG = (16_777_259, 131_071, 8_191, 2_039, 509)
"""Lengths that are run: 1 and primes, so that no block length divides them. The first of the long ones exceeds every published
window; the next is taken where the model does not run at such a length."""
BATCH = 3
ENCODED, ENCODED_LONGER = 13, 29
"""Lengths of the encoder's output that a decoder with cross attention is given."""

Snapshot = dict[str, cache_terms.CachedTensor]
"""A cache after a prefill: its tensors by path."""


@dataclass(slots=True, kw_only=True)
class CacheRunner:
    """A module with its equal layers wrapped.

    `answer` is given where a tensor's value is asked for (`MetaRun`). The encoder hands on `encoder_positions`, unless their number is
    free: then a second one is run too.
    """

    module: PreTrainedModel
    dedup: DedupRun
    encoder_positions: int
    free_encoder: bool
    answer: int | None = None

    def run(self, tokens: int, batch: int = 1, encoder_positions: int = 0) -> Snapshot | None:
        """The cache after a prefill, by path; None if the model returns none."""
        for layer in self.dedup.layers:
            layer.forget(idle=self.dedup.idle)
        inputs = decoder_inputs(self.module, tokens, batch, encoder_positions or self.encoder_positions)
        with no_grad(), MetaRun(self.answer):
            cache = cache_terms.cache_of(self.module(**inputs))
        return None if cache is None else {tensor.path: tensor for tensor in cache_terms.describe_tensors(cache)}


def _owners_of(dedup: DedupRun, first: Snapshot) -> dict[int, DedupLayer]:
    """The layer that writes each place of the cache; empty if that is not clear.

    Layers that share a module carry the numbers of that module, all the same: then the position in the stack counts.
    """
    called = [layer for layer in dedup.layers if layer.called]
    if any(count > 1 for count in Counter(place for layer in called for place in layer.positions).values()):
        for layer in called:
            layer.positions = frozenset({layer.position})
    owners = {place: layer for layer in called for place in layer.positions}
    unique = len(owners) == sum(len(layer.positions) for layer in called)
    complete = all(tensor.index is None or tensor.index in owners for tensor in first.values())
    return owners if unique and complete else {}


def _separate_unequal(dedup: DedupRun, owners: dict[int, DedupLayer], first: Snapshot) -> bool:
    """Whether layers that were taken as equal turn out not to be; they run for themselves from now on."""
    called = [layer for layer in dedup.layers if layer.called]

    def contents(layer: DedupLayer) -> list[Any]:
        return sorted((tensor.name, tensor.shape, tensor.dtype) for tensor in first.values() if tensor.index in layer.positions)

    def empty_places(layer: DedupLayer) -> list[Any]:
        return [dedup.empty.get(place) for place in sorted(layer.positions)]

    unequal = {
        id(layer.first)
        for layer in called
        if layer.twin is not None
        and (not owners or empty_places(layer) != empty_places(layer.first) or (layer.last and contents(layer) != contents(layer.first)))
    }
    for layer in called:
        if id(layer.first) in unequal:
            layer.twin = None
    return bool(unequal)


def _run_first(runner: CacheRunner) -> tuple[Snapshot, dict[int, DedupLayer]] | None:
    """The cache of one token of a batch, and which layer writes which place; equal layers have been checked to be equal."""
    first = runner.run(ONE, BATCH)
    if not first:
        if keeps_state_inside(runner.module):
            raise UnsupportedModel("This model keeps its states inside its modules instead of handing them on, so they were not counted.")
        return None
    if any(tensor.elements % BATCH for tensor in first.values()):
        raise UnsupportedModel("The cache of this model does not grow with the number of sequences.")
    owners = _owners_of(runner.dedup, first)
    if _separate_unequal(runner.dedup, owners, first):
        first = runner.run(ONE, BATCH) or {}
    runner.dedup.ends = False
    return first, owners


def _run_long(runner: CacheRunner) -> tuple[int, Snapshot]:
    """The longest run that the model takes: a table of positions, or a loop over the tokens, can set a limit."""
    failure: Exception | None = None
    for tokens in LONG:
        if isinstance(failure, UnsupportedModel) and tokens > LONG[-1]:
            continue
        try:
            snapshot = runner.run(tokens) or {}
        except Exception as error:  # noqa: BLE001 modelling code raises anything on a length it cannot take
            failure = failure or error
            continue
        bound = max((setting for place in runner.dedup.empty.values() for setting in _whole_numbers(place)), default=0)
        if failure is not None and bound >= tokens:
            raise failure
        return tokens, snapshot
    raise failure or UnsupportedModel("This model runs at no length.")


def _whole_numbers(place: Any) -> list[int]:
    if isinstance(place, tuple):
        return [number for part in place for number in _whole_numbers(part)]
    return [place] if type(place) is int else []


@dataclass(slots=True, kw_only=True)
class CacheRuns:
    """Caches of one model after all runs that are needed.

    `first` is the cache after one token of `BATCH` sequences. `by_length` has the caches of one sequence by tokens, `by_encoder` those at
    `SHORT` tokens by positions of the encoder's output. `owners` are the layers by place in the cache; `idle` names first layers that did
    not run at lengths beyond `SHORT`, because what they hold does not grow.
    """

    first: Snapshot
    owners: dict[int, DedupLayer]
    by_length: dict[int, Snapshot] = field(default_factory=dict)
    by_encoder: dict[int, Snapshot] = field(default_factory=dict)
    idle: frozenset[int] = frozenset()

    def owner(self, tensor: cache_terms.CachedTensor) -> DedupLayer | None:
        """The layer that wrote the tensor, None if that is not clear."""
        return self.owners.get(tensor.index) if tensor.index is not None else None

    def runs_for_itself(self, tensor: cache_terms.CachedTensor) -> bool:
        """Whether the tensor is not that of a layer for which another one runs."""
        owner = self.owner(tensor)
        return owner is None or owner.twin is None

    def per_sequence(self) -> dict[str, int]:
        """Elements of one sequence after one token, of the tensors of first layers."""
        return {path: tensor.elements // BATCH for path, tensor in self.first.items() if self.runs_for_itself(tensor)}

    def idle_owners(self) -> set[int]:
        """First layers that hold something, and the same after one token and after `SHORT`."""
        first, short = self.first, self.by_length[SHORT]
        holders, growing = set(), set()
        for path in first.keys() | short.keys():
            owner = self.owner(first.get(path) or short[path])
            if owner is None or owner.twin is not None:
                continue
            holders.add(id(owner))
            if path not in first or path not in short or first[path].elements != BATCH * short[path].elements:
                growing.add(id(owner))
        return holders - growing

    def constant(self) -> bool:
        """Whether nothing at all changed between the two short runs."""
        return self.per_sequence() == {path: tensor.elements for path, tensor in self.by_length[SHORT].items()}

    def grows_by_token(self) -> bool:
        """Whether every tensor either stays as it is or grows with each token, up to the long run."""
        one, short, longest = self.per_sequence(), self.by_length[SHORT], self.by_length[max(self.by_length)]
        if one.keys() != short.keys():
            return False
        growing = {path for path, tensor in short.items() if tensor.elements != one[path]}
        samples = [(tokens, path, run[path]) for tokens, run in self.by_length.items() for path in growing if path in run]
        return growing <= longest.keys() and all(tensor.elements == tokens * one[path] for tokens, path, tensor in samples)


def take_snapshots(runner: CacheRunner) -> CacheRuns | None:
    """Run the model at all lengths that are needed; None if it returns no cache."""
    dedup = runner.dedup
    dedup.begin()
    start = _run_first(runner)
    if start is None:
        return None
    first, owners = start
    snapshots = CacheRuns(first=first, owners=owners, by_length={SHORT: runner.run(SHORT) or {}})
    snapshots.by_encoder[ENCODED] = snapshots.by_length[SHORT]
    if runner.free_encoder:
        snapshots.by_encoder[ENCODED_LONGER] = runner.run(SHORT, encoder_positions=ENCODED_LONGER) or {}
    dedup.idle = snapshots.idle_owners()
    snapshots.idle = frozenset(dedup.idle)
    if not snapshots.constant():
        longest, snapshots.by_length[longest] = _run_long(runner)
        if not snapshots.grows_by_token():
            between = MIDDLE if longest > MIDDLE else longest // 2 | 1
            snapshots.by_length[between] = runner.run(between) or {}
    return snapshots


def _repeats(runner: CacheRunner, snapshots: CacheRuns) -> bool:
    """Whether the shortest and the longest run come out the same again, under the present answer."""
    longest = max(snapshots.by_length)
    runner.dedup.begin()
    one = runner.run(ONE, BATCH)
    runner.dedup.idle, runner.dedup.ends = set(snapshots.idle), False
    return one == snapshots.first and runner.run(longest) == snapshots.by_length[longest]


def _take_with_answers(runner: CacheRunner, error: Exception) -> CacheRuns | None:
    """The snapshots of a model that asks for values: under one answer, and confirmed under the other unless that one cannot be run."""
    for answer in (0, 1):
        runner.answer = answer
        try:
            snapshots = take_snapshots(runner)
        except AdvisorError:
            raise
        except Exception:  # noqa: BLE001, S112 an answer that leads to a refusal is not one that a real run could get
            continue
        runner.answer = 1 - answer
        try:
            same = snapshots is None or answer == 1 or _repeats(runner, snapshots)
        except AdvisorError:
            raise
        except Exception:  # noqa: BLE001 as above
            same = True
        if not same:
            raise UnsupportedModel("What this model caches depends on the values in the prompt, not only on its length.") from error
        return snapshots
    raise error


@dataclass(slots=True, kw_only=True)
class TensorShapes:
    """One cached tensor of a first layer: shape for one sequence by length; `layers` equal layers hold one like it.

    `by_encoder` are its elements by positions of the encoder's output.
    """

    path: str
    dtype: str
    layers: int
    owner: int
    shapes: dict[int, tuple[int, ...]] = field(default_factory=dict)
    by_encoder: dict[int, int] = field(default_factory=dict)


def _sample_tensors(snapshots: CacheRuns) -> list[TensorShapes]:
    """One entry for each path that a first layer holds in any run, in the order of the cache."""
    equal_layers = Counter(id(layer.first) for layer in {id(layer): layer for layer in snapshots.owners.values()}.values())
    samples: dict[str, TensorShapes] = {}
    for tensor in (tensor for run in (snapshots.first, *snapshots.by_length.values()) for tensor in run.values()):
        if tensor.path in samples or not snapshots.runs_for_itself(tensor):
            continue
        owner = snapshots.owner(tensor)
        place = id(owner) if owner else -1 - (tensor.index or 0)
        layers = equal_layers[id(owner)] if owner else 1
        samples[tensor.path] = TensorShapes(path=tensor.path, dtype=tensor.dtype, layers=layers, owner=place)
    for path, sample in samples.items():
        sample.shapes[ONE] = (snapshots.first[path].elements // BATCH if path in snapshots.first else 0,)
        for tokens, run in snapshots.by_length.items():
            if tokens == SHORT or sample.owner not in snapshots.idle:
                sample.shapes[tokens] = run[path].shape if path in run else (0,)
        sample.by_encoder = {positions: run[path].elements if path in run else 0 for positions, run in snapshots.by_encoder.items()}
    return list(samples.values())


def sample_cache(module: PreTrainedModel) -> list[TensorShapes] | None:
    """Run `module`, its parameters in bfloat16, and collect what it caches; None if it returns no cache."""
    config: Any = module.config
    with in_dtype(module, bfloat16), dedup_layers(module, config) as dedup:
        fixed = fixed_encoder_positions(module)
        free_encoder = bool(config.is_encoder_decoder) and fixed is None
        runner = CacheRunner(module=module, dedup=dedup, encoder_positions=fixed or ENCODED, free_encoder=free_encoder)
        try:
            snapshots = take_snapshots(runner)
        except AdvisorError:
            raise
        except Exception as error:  # noqa: BLE001 modelling code raises anything where a value is missing
            snapshots = _take_with_answers(runner, error)
    return None if snapshots is None else _sample_tensors(snapshots)


def _growth_of(tensor: TensorShapes, spans: set[int]) -> cache_terms.TensorGrowth:
    counts = tensor.by_encoder
    law = cache_terms.fit_growth(tensor.shapes, spans)
    if len(set(counts.values())) > 1:
        by_encoder = cache_terms.fit_growth({positions: (count,) for positions, count in counts.items()})
        if by_encoder is None or by_encoder.growth != "tokens" or cache_terms.fit_growth(tensor.shapes) is None:
            raise UnknownGrowth(f"The cached tensor '{tensor.path}' grows with the encoder's length by no law that is known here.")
        return replace(by_encoder, growth="encoder", span=1)
    if law is None:
        raise UnknownGrowth(f"The cached tensor '{tensor.path}' grows with the prompt by no law that is known here.")
    return law


def build_terms(samples: list[TensorShapes]) -> tuple[CacheTerm, ...]:
    """Terms of all layers; tensors of a layer that hold the same thing by the same law are one term, and so are equal layers."""
    by_owner: dict[tuple[int, int], list[TensorShapes]] = defaultdict(list)
    for tensor in samples:
        if any(0 not in shape for shape in tensor.shapes.values()):
            by_owner[tensor.owner, tensor.layers].append(tensor)
    layers_by_term: Counter[CacheTerm] = Counter()
    for (_, layers), tensors in by_owner.items():
        spans = {block for t in tensors if len(t.shapes) > 3 and (block := cache_terms.block_length(t.shapes)) > 1}  # noqa: PLR2004 one, short, between and long
        elements: Counter[CacheTerm] = Counter()
        for tensor in tensors:
            law = _growth_of(tensor, spans)
            holds = cache_terms.contents_of(tensor.path)
            kind = cache_terms.layer_kind_of(tensor.path, holds, law.growth, compressed=bool(spans))
            dtype = "model" if tensor.dtype == "bfloat16" else tensor.dtype
            elements[CacheTerm(kind=kind, holds=holds, layers=1, elements=0, growth=law.growth, span=law.span, dtype=dtype)] += law.elements
        for term, count in elements.items():
            layers_by_term[replace(term, elements=count)] += layers
    return tuple(replace(term, layers=layers) for term, layers in layers_by_term.items())


def run_cache(built: BuiltModel) -> tuple[CacheTerm, ...] | None:
    """The terms of the model's default cache, or None if the model keeps none (an encoder).

    The built model is as before when this returns.
    """
    if not holds_cache(built.model):
        return None
    with LOCK, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return _run_outermost(built)
        except AdvisorError:
            raise
        except Exception as error:
            raise UnsupportedModel(
                f"The cache of {built.architecture} could not be run ({type(error).__name__}), so its size is not known here."
            ) from error


def _run_outermost(built: BuiltModel) -> tuple[CacheTerm, ...] | None:
    """Run the whole model, else the models inside it that take token ids and a cache, outermost first, until one runs."""
    failure: Exception | None = None
    for module in built.model.modules():
        if not isinstance(module, PreTrainedModel) or not holds_cache(module):
            continue
        if module is not built.model and not has_argument(module, "input_ids"):
            continue
        try:
            samples = sample_cache(module)
        except AdvisorError:
            raise
        except Exception as error:  # noqa: BLE001 modelling code raises anything on an input it cannot take
            failure = failure or error
        else:
            # A part of a model that did not run as a whole may well be its encoder, which has no cache of its own.
            if samples is not None:
                return cache_terms.name_terms(build_terms(samples), built.config)
            if module is built.model:
                return None
    raise failure or UnsupportedModel(f"{built.architecture} has no part that takes tokens, so its cache was not run.")
