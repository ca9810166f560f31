"""Runs of one model for its cache at a few lengths: all that is needed to tell how each tensor grows, and no more.

Which part of a model is given a prompt, and what prompt.

A decoder is given its encoder's output as made, so that no picture or sound has to be invented for it. How many positions that
output has is the caller's to choose, unless the encoder takes inputs of one size only (pictures; Whisper's 30 seconds): such an
encoder is run once, on an input of that size, to see.

The shapes of each cached tensor of a model, by length: what its growth is told from.

From the shapes of cached tensors to cache terms.

What a model's own default cache holds, found by running it: on the meta device, at a few lengths, without values.

1. All layers, one token, three sequences: which tensors there are, and that their size is linear in the batch.
2. The first of equal layers, one sequence, at a few more lengths, the last two past every window. Layers whose cache is the
   same after 1 and after `SHORT` tokens (recurrent states) do not run again.
3. `lib.model.cache_growth` tells the law of each tensor. Equal layers count together.

No architecture is named here. What cannot be run or explained raises; it is never guessed.
Source: the model and cache classes of the installed transformers, as executed. Limit: dense batch, text-only prompt.
"""

from __future__ import annotations

import inspect
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from torch import bfloat16, long, no_grad, zeros
from transformers import PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput

from lib.errors import AdvisorError, UnknownGrowth, UnsupportedModel
from lib.model.cache_closed_form import named
from lib.model.cache_growth import Law, block_length, holds_of, kind_of, size, tell
from lib.model.layer_dedup import Layer, Leaf, Stand, holds_cache, in_dtype, kept_inside, leaves, once, returned, standing
from lib.model.meta_device import MetaRun
from lib.model.spec import CacheTerm

if TYPE_CHECKING:
    from torch.nn import Module

    from lib.model.build import Built


def _takes(module: Module, name: str) -> bool:
    return name in inspect.signature(type(module).forward).parameters


def candidates(model: Module) -> Iterator[PreTrainedModel]:
    """The model, then the models inside it that take token ids and a cache, outermost first."""
    for module in model.modules():
        if not isinstance(module, PreTrainedModel) or not holds_cache(module):
            continue
        if module is model or _takes(module, "input_ids"):
            yield module


class _Encoded(BaseModelOutput):
    """An encoder's output in which everything beside the hidden states is absent."""

    def __getattr__(self, name: str) -> None:
        """Absent, unless Python itself asks."""
        if name.startswith("__"):
            raise AttributeError(name)


def _encoder_width(module: PreTrainedModel) -> int:
    """Width of the hidden states that the encoder hands to its decoder."""
    own: Any = getattr(module.get_encoder(), "config", module.config)
    for config in (own.get_text_config(encoder=True), own.get_text_config(), own, module.config):
        width = getattr(config, "hidden_size", None)
        if width:
            return int(width)
    raise UnsupportedModel("The width of this model's encoder is not stated, so its decoder was not run.")


def _inputs(config: Any, name: str) -> list[tuple[int, ...]]:
    """Shapes of the largest input that an encoder takes and of a smaller one; nothing if its config does not tell."""
    encoder = getattr(config, "encoder", None) or config
    side, bins, positions = (getattr(encoder, key, None) for key in ("image_size", "num_mel_bins", "max_source_positions"))
    if name == "pixel_values" and side:
        height, width = side if isinstance(side, (list, tuple)) else (side, side)
        return [(1, getattr(encoder, "num_channels", 3), height, width)]
    if name == "input_features" and bins and positions:
        return [(1, bins, 2 * positions), (1, bins, positions)]
    return []


def fixed_positions(module: PreTrainedModel) -> int | None:
    """Positions that the encoder hands on, where it accepts one size of input only; None where the length is free."""
    config: Any = module.config
    encoder: Any = module.get_encoder() if config.is_encoder_decoder else None
    name = getattr(encoder, "main_input_name", "input_ids")
    if encoder is None or name == "input_ids":
        return None
    seen: list[int | None] = []
    with no_grad(), MetaRun(), once(encoder):
        for shape in _inputs(config, name):
            try:
                made = encoder(zeros(shape, dtype=module.dtype, device="meta"), return_dict=True)
                seen.append(made.last_hidden_state.shape[1])
            except (RuntimeError, ValueError):  # this size is refused
                seen.append(None)
    return seen[0] if seen and (len(seen) == 1 or seen[1] is None) else None


def prompt(module: PreTrainedModel, tokens: int, batch: int, encoded: int) -> dict[str, Any]:
    """Arguments for a prefill of `batch` sequences of `tokens`; an encoder's output of `encoded` positions is given as made."""
    ids = zeros(batch, tokens, dtype=long, device="meta")
    config: Any = module.config
    if not config.is_encoder_decoder:
        return {"input_ids": ids, "use_cache": True, "return_dict": True}
    states = zeros(batch, encoded, _encoder_width(module), dtype=module.dtype, device="meta")
    return {"decoder_input_ids": ids, "encoder_outputs": _Encoded(last_hidden_state=states), "use_cache": True, "return_dict": True}


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


def _tensors(made: Record) -> list[Tensor]:
    """A Tensor for each path that a first layer holds in any run, in the order of the cache."""
    twins = Counter(id(layer.first) for layer in {id(layer): layer for layer in made.owners.values()}.values())
    found: dict[str, Tensor] = {}
    for leaf in (leaf for run in (made.first, *made.by_length.values()) for leaf in run.values()):
        owner = made.owners.get(leaf.index) if leaf.index is not None else None
        if leaf.path in found or (owner is not None and owner.twin is not None):
            continue
        place = id(owner) if owner else -1 - (leaf.index or 0)
        found[leaf.path] = Tensor(path=leaf.path, dtype=leaf.dtype, layers=twins[id(owner)] if owner else 1, owner=place)
    return list(found.values())


def _filled(tensor: Tensor, made: Record) -> Tensor:
    """The tensor with its shapes for one sequence."""
    tensor.shapes[ONE] = (size(made.first[tensor.path].shape) // BATCH if tensor.path in made.first else 0,)
    for tokens, run in made.by_length.items():
        if tokens == SHORT or tensor.owner not in made.idle:
            tensor.shapes[tokens] = run[tensor.path].shape if tensor.path in run else (0,)
    tensor.by_encoder = {encoded: size(run[tensor.path].shape) if tensor.path in run else 0 for encoded, run in made.by_encoder.items()}
    return tensor


def _answered(runs: Runs, error: Exception, *, free_encoder: bool) -> Record | None:
    """The record of a model that asks for values: under one answer, and confirmed under the other unless that one cannot be run."""
    for answer in (0, 1):
        runs.answer = answer
        try:
            made = record(runs, free_encoder=free_encoder)
        except AdvisorError:
            raise
        except Exception:  # noqa: BLE001, S112 an answer that leads to a refusal is not one that a real run could get
            continue
        runs.answer = 1 - answer
        try:
            same = made is None or answer == 1 or repeats(runs, made)
        except AdvisorError:
            raise
        except Exception:  # noqa: BLE001 as above
            same = True
        if not same:
            raise UnsupportedModel("What this model caches depends on the values in the prompt, not only on its length.") from error
        return made
    raise error


def sample(module: PreTrainedModel) -> Samples | None:
    """Run `module` and collect what it caches; None if it returns no cache.

    Raises:
        UnsupportedModel: the cache is not linear in the batch, depends on values, or a run takes too many operations.
    """
    config: Any = module.config
    with in_dtype(module, bfloat16), standing(module, config) as stand:
        fixed = fixed_positions(module)
        runs = Runs(module=module, stand=stand, answer=None, encoded=fixed or ENCODED)
        free_encoder = bool(config.is_encoder_decoder) and fixed is None
        try:
            made = record(runs, free_encoder=free_encoder)
        except AdvisorError:
            raise
        except Exception as error:  # noqa: BLE001 modelling code raises anything where a value is missing
            made = _answered(runs, error, free_encoder=free_encoder)
    return None if made is None else Samples(tensors=tuple(_filled(tensor, made) for tensor in _tensors(made)))


def _spans(tensors: list[Tensor]) -> set[int]:
    """Block lengths that show in any tensor of one layer."""
    return {block for tensor in tensors if len(tensor.shapes) > 3 and (block := block_length(tensor.shapes)) > 1}  # noqa: PLR2004 with long runs


def _law(tensor: Tensor, spans: set[int]) -> Law:
    counts = tensor.by_encoder
    if len(set(counts.values())) > 1:
        law = tell({encoded: (count,) for encoded, count in counts.items()})
        if law is None or law.growth != "tokens" or tell(tensor.shapes) is None:
            raise UnknownGrowth(f"The cached tensor '{tensor.path}' grows with the encoder's length by no law that is known here.")
        return replace(law, growth="encoder", span=1)
    found = tell(tensor.shapes, spans)
    if found is None:
        raise UnknownGrowth(f"The cached tensor '{tensor.path}' grows with the prompt by no law that is known here.")
    return found


def terms(samples: Samples) -> tuple[CacheTerm, ...]:
    """Terms of all layers; tensors of a layer that hold the same thing by the same law are one term, and so are equal layers.

    Raises:
        UnknownGrowth: no law explains a tensor.
    """
    by_owner: dict[tuple[int, int], list[Tensor]] = defaultdict(list)
    for tensor in samples.tensors:
        if any(size(shape) for shape in tensor.shapes.values()):
            by_owner[tensor.owner, tensor.layers].append(tensor)
    found: Counter[CacheTerm] = Counter()
    for (_, layers), tensors in by_owner.items():
        spans = _spans(tensors)
        held: Counter[CacheTerm] = Counter()
        for tensor in tensors:
            law = _law(tensor, spans)
            holds = holds_of(tensor.path)
            kind = kind_of(tensor.path, holds, law.growth, compressed=bool(spans))
            dtype = "model" if tensor.dtype == samples.dtype else tensor.dtype
            held[CacheTerm(kind=kind, holds=holds, layers=1, elements=0, growth=law.growth, span=law.span, dtype=dtype)] += law.elements
        for term, elements in held.items():
            found[replace(term, elements=elements)] += layers
    return tuple(replace(term, layers=layers) for term, layers in found.items())


def run_cache(built: Built) -> tuple[CacheTerm, ...] | None:
    """The terms of the model's default cache, or None if the model keeps none (an encoder).

    The built model is as before when this returns.

    Raises:
        UnsupportedModel: the model could not be run, or a tensor grows by a law that is not known here.
    """
    from lib.model.build import LOCK  # noqa: PLC0415 loaded when first needed

    if not holds_cache(built.model):
        return None
    with LOCK, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return _terms(built)
        except AdvisorError:
            raise
        except Exception as error:
            raise UnsupportedModel(
                f"The cache of {built.architecture} could not be run ({type(error).__name__}), so its size is not known here."
            ) from error


def _terms(built: Built) -> tuple[CacheTerm, ...] | None:
    """Ask the whole model, then the text decoders inside it, until one runs."""
    failure: Exception | None = None
    for module in candidates(built.model):
        try:
            samples = sample(module)
        except AdvisorError:
            raise
        except Exception as error:  # noqa: BLE001 modelling code raises anything on an input it cannot take
            failure = failure or error
        else:
            # A part of a model that did not run as a whole may well be its encoder, which has no cache of its own.
            if samples is not None:
                return named(terms(samples), built.config)
            if module is built.model:
                return None
    raise failure or UnsupportedModel(f"{built.architecture} has no part that takes tokens, so its cache was not run.")
