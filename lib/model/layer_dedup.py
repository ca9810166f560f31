"""Equal layers run once: which layers of a model are equal, and how the others are skipped while the model runs for its cache.

Nothing here knows an architecture. Two layers are equal if they have the same class, sub-modules, parameter shapes and settings, apart from
their own number. Every per-layer list of the configuration must also have the same entry for both.

* Of equal layers only the first needs to run, and the others hand on its output, provided the cache made the same empty place for them.
  `lib.model.cache_executed` runs the last of them once too and compares.
* A module that is handed no cache cannot change one. It runs as it is, once for equal calls; where it cannot run without values
  (routing to experts) and multiplies by several matrices, its input passes through.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from torch import Tensor
from torch.nn import Module, ModuleList
from transformers.cache_utils import Cache, EncoderDecoderCache

from lib.errors import UnsupportedModel

_CACHE_ARGUMENT = re.compile(r"past_key_values?|layer_past|past|cache_params|cache|state|mems|past_buckets_states|past_states")
_NUMBER = re.compile(r"(layer|block|attn|attention)?_?(idx|index|id|number)")


@cache
def _takes_cache(forward: Callable[..., Any]) -> bool:
    return any(_CACHE_ARGUMENT.fullmatch(name) for name in inspect.signature(forward).parameters)


def holds_cache(module: Module) -> bool:
    """Whether the module or one inside it is handed a cache."""
    return any(_takes_cache(type(m).forward) for m in module.modules())


@cache
def _return_count(forward: Callable[..., Any]) -> int:
    """How many values a `forward` returns: 1, or the length of the tuple it is written to return."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(forward)))
    except (OSError, TypeError, SyntaxError):
        return 1
    lengths = {len(n.value.elts) for n in ast.walk(tree) if isinstance(n, ast.Return) and isinstance(n.value, ast.Tuple)}
    return max(lengths, default=1)


def _stacks(model: Module) -> list[list[Module]]:
    """The lists of layers that hold the cache, outermost first, without lists inside their layers."""
    inner: set[int] = set()
    stacks: list[list[Module]] = []
    for module in model.modules():
        if (
            isinstance(module, ModuleList)
            and id(module) not in inner
            and any(_takes_cache(type(m).forward) for item in module for m in item.modules())
        ):
            stacks.append(list(module))
            inner.update(id(m) for item in module for m in item.modules())
    return stacks


def _modules_without_cache(layer: Module) -> Iterator[Module]:
    """The largest modules inside `layer` that hold no cache, torch's own (one operation each) aside."""
    for child in layer.children():
        if holds_cache(child):
            yield from _modules_without_cache(child)
        elif not type(child).__module__.startswith("torch.nn") or any(True for _ in child.children()):
            yield child


def _plain(value: Any) -> Any:
    """A number, a word, or a tuple of such; Ellipsis for anything else."""
    if isinstance(value, (bool, int, float, str)) or value is None:
        return value
    if isinstance(value, (list, tuple)):
        parts = tuple(_plain(v) for v in value)
        return ... if ... in parts else parts
    return ...


def likeness(layer: Module) -> tuple[Any, ...]:
    """The layer's computation by its modules, without its own number: equal for equal layers."""
    parts: list[Any] = []
    for name, module in layer.named_modules():
        settings = tuple(
            (key, setting)
            for key, value in vars(module).items()
            if key[0] != "_" and not _NUMBER.fullmatch(key) and (setting := _plain(value)) is not ...
        )
        shapes = tuple((key, tuple(p.shape), p.dtype) for key, p in module._parameters.items() if p is not None)  # noqa: SLF001 direct ones only
        parts.append((name, type(module), settings, shapes))
    return tuple(parts)


def _numbers_in(modules: Iterable[Module]) -> frozenset[int]:
    """The layer numbers that these modules carry."""
    settings = ((key, value) for module in modules for key, value in vars(module).items())
    return frozenset(value for key, value in settings if type(value) is int and key[0] != "_" and _NUMBER.fullmatch(key))


def cache_positions(layer: Module, position: int) -> frozenset[int]:
    """The positions in a cache that the layer writes to.

    The numbers of the innermost modules that get the cache (a layer with two attentions writes to two places). Without such modules: those
    of any module of the layer, or else its own position.
    """
    innermost = [m for m in layer.modules() if _takes_cache(type(m).forward) and not any(holds_cache(child) for child in m.children())]
    return _numbers_in(innermost) or _numbers_in(layer.modules()) or frozenset({position})


def layer_settings(config: Any, position: int, layers: int) -> tuple[Any, ...]:
    """The entry of this layer in every per-layer list of the configuration and of its parts."""
    entries: list[Any] = []
    for key, value in sorted(vars(config).items()):
        if isinstance(value, (list, tuple)) and len(value) == layers and list(value) != list(range(layers)):
            entries.append((key, repr(value[position])))
        elif hasattr(value, "to_dict") and hasattr(value, "model_type"):
            entries.append((key, layer_settings(value, position, layers)))
    return tuple(entries)


def shape_of(value: object) -> tuple[int, ...] | None:
    """The shape of a tensor, None for anything else."""
    return tuple(value.shape) if isinstance(value, Tensor) else None


def first_hidden_states(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Tensor | None:
    """The first tensor with a batch, a length and a width among the arguments of a layer: its hidden states."""
    for value in (*args, *kwargs.values()):
        if isinstance(value, Tensor) and value.ndim >= 3:  # noqa: PLR2004 batch, length, width
            return value
    return None


_MATRICES = 2
"""A block with fewer matrices (an embedding, a projection, a head) costs nothing and may change the width."""


@dataclass(slots=True, kw_only=True)
class DedupLayer:
    """One layer of a stack; `twin` is the first equal layer (None for the first itself), `positions` its places in a cache.

    `last`: no layer after it is equal.
    """

    module: Module
    position: int
    positions: frozenset[int]
    twin: DedupLayer | None = None
    last: bool = True
    called: bool = False
    output: Any = None
    width: int = 0

    @property
    def first(self) -> DedupLayer:
        """The layer that runs for this one."""
        return self.twin or self

    def forget(self, idle: set[int]) -> None:
        """Drop the output of an earlier run, unless it is the model for handing the input on."""
        if id(self) not in idle:
            self.output = None


@dataclass(slots=True, kw_only=True)
class DedupRun:
    """A model with its layers and blocks wrapped; the fields decide what a layer does in the present run."""

    layers: list[DedupLayer] = field(default_factory=list)
    idle: set[int] = field(default_factory=set)
    """Positions of first layers that hand their input on in the next runs (their cache is known not to grow)."""
    ends: bool = True
    """Whether the last of equal layers runs too, and not only the first."""
    empty: dict[int, tuple[Any, ...]] = field(default_factory=dict)
    """The kind of empty entry that the cache had for each layer before the first one ran."""
    outputs: dict[Any, Any] = field(default_factory=dict)
    """Outputs of modules without a cache, by what they are and what they were given."""

    def begin(self) -> None:
        """As before the first run; layers that turned out to differ stay apart."""
        self.idle, self.ends, self.empty = set(), True, {}
        self.outputs.clear()


def _match_layers(model: Module, config: Any) -> list[DedupLayer]:
    """All layers of the model's stacks, each with the first layer equal to it."""
    layers: list[DedupLayer] = []
    for stack in _stacks(model):
        firsts: dict[Any, DedupLayer] = {}
        latest: dict[int, DedupLayer] = {}
        repeated = len({id(m) for m in stack}) < len(stack)
        for position, module in enumerate(stack):
            layer = DedupLayer(module=module, position=position, positions=cache_positions(module, position))
            if not repeated and holds_cache(module):
                first = firsts.setdefault((likeness(module), layer_settings(config, position, len(stack))), layer)
                layer.twin = None if first is layer else first
                latest.get(id(first), layer).last = False
                layer.last = True
                latest[id(first)] = layer
            layers.append(layer)
    return layers


def _places(values: tuple[Any, ...]) -> dict[int, tuple[Any, ...]]:
    """The kind of each place in the cache among `values`: its class and settings, by number."""
    places: dict[int, tuple[Any, ...]] = {}
    for value in values:
        parts = [value] if isinstance(value, Cache) else []
        if isinstance(value, EncoderDecoderCache):
            parts = [value.self_attention_cache, value.cross_attention_cache]
        for part in parts:
            for position, place in enumerate(part.layers):
                settings = tuple((key, value) for key, raw in vars(place).items() if (value := _plain(raw)) is not ...)
                places[position] = (*places.get(position, ()), type(place), settings)
    return places


def _hand_on(template: Any, width: int, hidden: Any) -> Any:
    """`template`, an earlier output, with its hidden states replaced by `hidden`."""
    if isinstance(template, tuple):
        return tuple(_hand_on(part, width, hidden) for part in template)
    return hidden if getattr(template, "ndim", 0) == hidden.ndim and template.shape[-1] == width else template


def _layer_forward(layer: DedupLayer, dedup: DedupRun, run: Callable[..., Any]) -> Callable[..., Any]:
    def forward(*args: Any, **kwargs: Any) -> Any:
        hidden = first_hidden_states(args, kwargs)
        layer.called = True
        first = layer.first
        if not dedup.empty:
            dedup.empty = _places((*args, *kwargs.values()))
        if hidden is not None and id(first) in dedup.idle:
            return _hand_on(first.output, first.width, hidden)
        if first is not layer and first.output is not None and not (dedup.ends and layer.last):
            return first.output
        layer.output = run(*args, **kwargs)
        layer.width = hidden.shape[-1] if hidden is not None else 0
        return layer.output

    return forward


def _signature(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[Any, ...] | None:
    """Shapes, dtypes and plain values of the arguments; None if there is anything else among them."""
    parts: list[Any] = []
    for key, value in (*enumerate(args), *kwargs.items()):
        shape = shape_of(value)
        trait = (shape, value.dtype) if shape is not None else _plain(value)
        if trait is ...:
            return None
        parts.append((key, trait))
    return tuple(parts)


def _new_objects(output: Any) -> Any:
    """Other tensor objects of the same shapes, so that two layers never seem to cache one object; None if there is more than tensors."""
    if shape_of(output) is not None:
        return output.detach()
    if type(output) is tuple and all(part is None or shape_of(part) is not None for part in output):
        return tuple(None if part is None else part.detach() for part in output)
    return None


def _block_forward(block: Module, run: Callable[..., Any], outputs: dict[Any, Any]) -> Callable[..., Any]:
    """A module without a cache: without values its output is a matter of shapes, so equal calls of equal modules run once."""
    kind = likeness(block)

    def forward(*args: Any, **kwargs: Any) -> Any:
        signature = _signature(args, kwargs)
        earlier = outputs.get((kind, signature)) if signature is not None else None
        if earlier is not None:
            return _new_objects(earlier)
        try:
            output = run(*args, **kwargs)
        except UnsupportedModel:
            raise
        except Exception:  # whatever it was, it needs values; a block without a cache cannot change the cache's shape
            hidden = first_hidden_states(args, kwargs)
            if hidden is None or sum(p.ndim > 1 for p in block.parameters()) < _MATRICES:
                raise
            count = _return_count(type(block).forward)
            output = hidden if count == 1 else (hidden, *[None] * (count - 1))
        if signature is not None and _new_objects(output) is not None:
            outputs[kind, signature] = output
        return output

    return forward


@contextmanager
def dedup_layers(model: Module, config: Any) -> Iterator[DedupRun]:
    """Wrap the layers of `model` and the modules that use its cache for the time of the runs, and put every `forward` back."""
    dedup = DedupRun(layers=_match_layers(model, config))
    with _restore_after(model), wrap_forwards() as wrap:
        for layer in dedup.layers:
            for block in _modules_without_cache(layer.module) if holds_cache(layer.module) else ():
                wrap(block, _block_forward(block, block.forward, dedup.outputs))
            wrap(layer.module, _layer_forward(layer, dedup, layer.module.forward))
        yield dedup


@contextmanager
def _restore_after(model: Module) -> Iterator[None]:
    """Undo what runs leave in the modules themselves: states that some models keep there, tables of positions, flags."""
    before = [(vars(module), dict(vars(module)), dict(module._buffers)) for module in model.modules()]  # noqa: SLF001 no public way back
    try:
        yield
    finally:
        for current, attributes, buffers in before:
            current.clear()
            current.update(attributes)
            current["_buffers"].clear()
            current["_buffers"].update(buffers)


def keeps_state_inside(model: Module) -> bool:
    """Whether a module holds a tensor that is neither parameter nor buffer: a state that is not handed around."""
    return any(shape_of(value) for module in model.modules() for value in vars(module).values())


@contextmanager
def run_blocks_once(model: Module) -> Iterator[None]:
    """Run equal modules of the lists inside `model` once for equal calls, for the time of a run."""
    outputs: dict[Any, Any] = {}
    with wrap_forwards() as wrap:
        for stack in (module for module in model.modules() if isinstance(module, ModuleList)):
            for item in stack:
                wrap(item, _block_forward(item, item.forward, outputs))
        yield


@contextmanager
def wrap_forwards() -> Iterator[Callable[[Module, Callable[..., Any]], None]]:
    """A function that replaces the `forward` of one module object, until the context ends."""
    replaced: list[tuple[Module, dict[str, Any]]] = []

    def wrap(module: Module, forward: Callable[..., Any]) -> None:
        replaced.append((module, {key: value for key, value in vars(module).items() if key == "forward"}))
        vars(module)["forward"] = forward

    try:
        yield wrap
    finally:
        for module, before in reversed(replaced):
            vars(module).pop("forward", None)
            vars(module).update(before)
