"""Running a model for its cache alone: modules that hold no cache stand aside, equal layers run once.

* A module that is handed no cache cannot change one. It runs as it is, once for equal calls; where it cannot run without values
  (routing to experts) and multiplies by several matrices, its input passes through.
* Of equal layers (`lib.model.layer_dedup`) only the first needs to run, and the others hand on its output, provided the cache made
  the same empty place for them. `lib.model.cache_executed` runs the last of them once too and compares.

What a module is, as far as its cache goes: whether it is handed one, and which layers are equal.

Nothing here knows an architecture. Two layers are equal if they are of one class with equal sub-modules, equal parameter shapes
and equal settings, their own number aside, and every per-layer list of the configuration has the same entry for both.

The tensors of a cache, whatever class holds it: floating-point tensors by path, each object once.
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
from typing import TYPE_CHECKING, Any

from torch import Tensor
from torch.nn import Module, ModuleList
from transformers import PreTrainedConfig
from transformers.cache_utils import Cache, EncoderDecoderCache

from lib.errors import UnsupportedModel

if TYPE_CHECKING:
    from torch import dtype as Dtype  # noqa: N812 a type, named like one

_CACHE_ARGUMENT = re.compile(r"past_key_values?|layer_past|past|cache_params|cache|state|mems|past_buckets_states|past_states")
_NUMBER = re.compile(r"(layer|block|attn|attention)?_?(idx|index|id|number)")


@cache
def _takes_cache(forward: Callable[..., Any]) -> bool:
    return any(_CACHE_ARGUMENT.fullmatch(name) for name in inspect.signature(forward).parameters)


def holds_cache(module: Module) -> bool:
    """Whether the module or one inside it is handed a cache."""
    return any(_takes_cache(type(m).forward) for m in module.modules())


@cache
def returns(forward: Callable[..., Any]) -> int:
    """How many values a `forward` returns: 1, or the length of the tuple it is written to return."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(forward)))
    except (OSError, TypeError, SyntaxError):
        return 1
    lengths = {len(n.value.elts) for n in ast.walk(tree) if isinstance(n, ast.Return) and isinstance(n.value, ast.Tuple)}
    return max(lengths, default=1)


def stacks(model: Module) -> list[list[Module]]:
    """The lists of layers that hold the cache, outermost first, without lists inside their layers."""
    inner: set[int] = set()
    found: list[list[Module]] = []
    for module in model.modules():
        if (
            isinstance(module, ModuleList)
            and id(module) not in inner
            and any(_takes_cache(type(m).forward) for item in module for m in item.modules())
        ):
            found.append(list(module))
            inner.update(id(m) for item in module for m in item.modules())
    return found


def bystanders(layer: Module) -> Iterator[Module]:
    """The largest modules inside `layer` that hold no cache, torch's own (one operation each) aside."""
    for child in layer.children():
        if holds_cache(child):
            yield from bystanders(child)
        elif not type(child).__module__.startswith("torch.nn") or any(True for _ in child.children()):
            yield child


def plain(value: Any) -> Any:
    """A number, a word, or a tuple of such; Ellipsis for anything else."""
    if isinstance(value, (bool, int, float, str)) or value is None:
        return value
    if isinstance(value, (list, tuple)):
        parts = tuple(plain(v) for v in value)
        return ... if ... in parts else parts
    return ...


def likeness(layer: Module) -> tuple[Any, ...]:
    """What the layer computes, as far as its modules say, without its own number."""
    parts: list[Any] = []
    for name, module in layer.named_modules():
        settings = tuple(
            (key, kept)
            for key, value in vars(module).items()
            if key[0] != "_" and not _NUMBER.fullmatch(key) and (kept := plain(value)) is not ...
        )
        shapes = tuple((key, tuple(p.shape), p.dtype) for key, p in module._parameters.items() if p is not None)  # noqa: SLF001 direct ones only
        parts.append((name, type(module), settings, shapes))
    return tuple(parts)


def _carried(modules: Iterable[Module]) -> frozenset[int]:
    """The numbers that these modules carry."""
    settings = ((key, value) for module in modules for key, value in vars(module).items())
    return frozenset(value for key, value in settings if type(value) is int and key[0] != "_" and _NUMBER.fullmatch(key))


def numbers(layer: Module, position: int) -> frozenset[int]:
    """The positions in a cache that the layer writes to.

    The numbers of the innermost modules that are handed the cache (a layer with two attentions writes to two places), else
    those of any module of the layer, else its own position.
    """
    innermost = [m for m in layer.modules() if _takes_cache(type(m).forward) and not any(holds_cache(child) for child in m.children())]
    return _carried(innermost) or _carried(layer.modules()) or frozenset({position})


def listed(config: Any, position: int, layers: int) -> tuple[Any, ...]:
    """The entry of this layer in every per-layer list of the configuration and of its parts."""
    entries: list[Any] = []
    for key, value in sorted(vars(config).items()):
        if isinstance(value, (list, tuple)) and len(value) == layers and list(value) != list(range(layers)):
            entries.append((key, repr(value[position])))
        elif hasattr(value, "to_dict") and hasattr(value, "model_type"):
            entries.append((key, listed(value, position, layers)))
    return tuple(entries)


_DEPTH = 8
_INDEX = re.compile(r"\[(\d+)\]")
_FIELDS = ("past_key_values", "cache_params", "state", "mems", "past_buckets_states", "memory")
"""Where `transformers` models return what they want back at the next step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """One cached tensor: its path in the cache ("layers[3].keys"), its shape, and its dtype as torch spells it ("bfloat16")."""

    path: str
    shape: tuple[int, ...]
    dtype: str

    @property
    def index(self) -> int | None:
        """Position in the cache's list of layers; None for a tensor outside any list, or in one that is only a list of tensors."""
        found = _INDEX.search(self.path)
        return int(found[1]) if found and found[0] != self.path else None

    @property
    def name(self) -> str:
        """The path without the layer: the same for equal tensors of different layers."""
        return _INDEX.sub("[]", self.path, count=1)


def _children(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, (list, tuple)):
        yield from ((f"[{i}]", child) for i, child in enumerate(value))
    elif isinstance(value, Mapping):
        yield from ((f"[{key}]" if type(key) is int else f".{key}", child) for key, child in value.items())
    elif hasattr(value, "__dict__") and not isinstance(value, (Module, PreTrainedConfig, type)):
        yield from ((f".{key}", child) for key, child in vars(value).items())


def leaves(cache: object) -> tuple[Leaf, ...]:
    """Every floating-point tensor reachable from `cache`, in the order in which the cache keeps them.

    Integer tensors are bookkeeping and are left out. Two names of one tensor object are one tensor: the memory is held once.
    """
    seen: set[int] = set()
    found: list[Leaf] = []

    def visit(path: str, value: Any, depth: int) -> None:
        if id(value) in seen or depth > _DEPTH or value is None or isinstance(value, (int, float, str)):
            return
        seen.add(id(value))
        if isinstance(value, Tensor):
            if value.is_floating_point():
                found.append(Leaf(path=path.lstrip("."), shape=tuple(value.shape), dtype=str(value.dtype).removeprefix("torch.")))
            return
        for step, child in _children(value):
            visit(path + step, child, depth + 1)

    visit("", cache, 0)
    return tuple(found)


def returned(output: Any) -> object | None:
    """What a model's output carries for the next step: the value of the first field that is one, None without any."""
    for name in _FIELDS:
        value = getattr(output, name, None)
        if value is not None:
            return value  # type: ignore[no-any-return]
    return None


def shape_of(value: object) -> tuple[int, ...] | None:
    """The shape of a tensor, None for anything else."""
    return tuple(value.shape) if isinstance(value, Tensor) else None


def first_tensor(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Tensor | None:
    """The first tensor with a batch, a length and a width among the arguments of a layer: its hidden states."""
    for value in (*args, *kwargs.values()):
        if isinstance(value, Tensor) and value.ndim >= 3:  # noqa: PLR2004 batch, length, width
            return value
    return None


_MATRICES = 2
"""A block with fewer matrices (an embedding, a projection, a head) costs nothing and may change the width."""


@dataclass(slots=True, kw_only=True)
class Layer:
    """One layer of a stack; `twin` is the first equal layer (None for the first itself), `numbers` its places in a cache.

    `last`: no layer after it is equal.
    """

    module: Module
    position: int
    numbers: frozenset[int]
    twin: Layer | None = None
    last: bool = True
    called: bool = False
    output: Any = None
    width: int = 0

    @property
    def first(self) -> Layer:
        """The layer that runs for this one."""
        return self.twin or self

    def forget(self, idle: set[int]) -> None:
        """Drop the output of an earlier run, unless it is the model for handing the input on."""
        if id(self) not in idle:
            self.output = None


@dataclass(slots=True, kw_only=True)
class Stand:
    """A model with its layers and blocks wrapped; `skip` decides what a layer does in the present run."""

    layers: list[Layer] = field(default_factory=list)
    idle: set[int] = field(default_factory=set)
    """Positions of first layers that hand their input on in the next runs (their cache is known not to grow)."""
    ends: bool = True
    """Whether the last of equal layers runs too, and not only the first."""
    empty: dict[int, tuple[Any, ...]] = field(default_factory=dict)
    """What kind of empty place the cache had for each layer before the first one ran."""
    known: dict[Any, Any] = field(default_factory=dict)
    """Outputs of modules without a cache, by what they are and what they were given."""

    def begin(self) -> None:
        """As before the first run; layers that turned out to differ stay apart."""
        self.idle, self.ends, self.empty = set(), True, {}
        self.known.clear()


def arrange(model: Module, config: Any) -> list[Layer]:
    """All layers of the model's stacks, each with the first layer equal to it."""
    layers: list[Layer] = []
    for stack in stacks(model):
        seen: dict[Any, Layer] = {}
        latest: dict[int, Layer] = {}
        repeated = len({id(m) for m in stack}) < len(stack)
        for position, module in enumerate(stack):
            layer = Layer(module=module, position=position, numbers=numbers(module, position))
            if not repeated and holds_cache(module):
                first = seen.setdefault((likeness(module), listed(config, position, len(stack))), layer)
                layer.twin = None if first is layer else first
                latest.get(id(first), layer).last = False
                layer.last = True
                latest[id(first)] = layer
            layers.append(layer)
    return layers


def _places(values: tuple[Any, ...]) -> dict[int, tuple[Any, ...]]:
    """The kind of each place in the cache among `values`: its class and settings, by number."""
    found: dict[int, tuple[Any, ...]] = {}
    for value in values:
        parts = [value] if isinstance(value, Cache) else []
        if isinstance(value, EncoderDecoderCache):
            parts = [value.self_attention_cache, value.cross_attention_cache]
        for part in parts:
            for number, place in enumerate(part.layers):
                settings = tuple((key, kept) for key, raw in vars(place).items() if (kept := plain(raw)) is not ...)
                found[number] = (*found.get(number, ()), type(place), settings)
    return found


def _handed_on(template: Any, width: int, hidden: Any) -> Any:
    """`template`, an earlier output, with its hidden states replaced by `hidden`."""
    if isinstance(template, tuple):
        return tuple(_handed_on(part, width, hidden) for part in template)
    return hidden if getattr(template, "ndim", 0) == hidden.ndim and template.shape[-1] == width else template


def _layer_forward(layer: Layer, stand: Stand, run: Callable[..., Any]) -> Callable[..., Any]:
    def forward(*args: Any, **kwargs: Any) -> Any:
        hidden = first_tensor(args, kwargs)
        layer.called = True
        first = layer.first
        if not stand.empty:
            stand.empty = _places((*args, *kwargs.values()))
        if hidden is not None and id(first) in stand.idle:
            return _handed_on(first.output, first.width, hidden)
        if first is not layer and first.output is not None and not (stand.ends and layer.last):
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
        kept = (shape, value.dtype) if shape is not None else plain(value)
        if kept is ...:
            return None
        parts.append((key, kept))
    return tuple(parts)


def _anew(made: Any) -> Any:
    """Other tensor objects of the same shapes, so that two layers never seem to cache one object; None if there is more than tensors."""
    if shape_of(made) is not None:
        return made.detach()
    if type(made) is tuple and all(part is None or shape_of(part) is not None for part in made):
        return tuple(None if part is None else part.detach() for part in made)
    return None


def _block_forward(block: Module, run: Callable[..., Any], known: dict[Any, Any]) -> Callable[..., Any]:
    """A module without a cache: without values its output is a matter of shapes, so equal calls of equal modules run once."""
    kind = likeness(block)

    def forward(*args: Any, **kwargs: Any) -> Any:
        signature = _signature(args, kwargs)
        before = known.get((kind, signature)) if signature is not None else None
        if before is not None:
            return _anew(before)
        try:
            made = run(*args, **kwargs)
        except UnsupportedModel:
            raise
        except Exception:  # whatever it was, it needs values; a block without a cache cannot change the cache's shape
            hidden = first_tensor(args, kwargs)
            if hidden is None or sum(p.ndim > 1 for p in block.parameters()) < _MATRICES:
                raise
            count = returns(type(block).forward)
            made = hidden if count == 1 else (hidden, *[None] * (count - 1))
        if signature is not None and _anew(made) is not None:
            known[kind, signature] = made
        return made

    return forward


@contextmanager
def standing(model: Module, config: Any) -> Iterator[Stand]:
    """Wrap the layers of `model` and the modules beside its cache for the time of the runs, and put every `forward` back."""
    stand = Stand(layers=arrange(model, config))
    with untouched(model), wrapping() as wrap:
        for layer in stand.layers:
            for block in bystanders(layer.module) if holds_cache(layer.module) else ():
                wrap(block, _block_forward(block, block.forward, stand.known))
            wrap(layer.module, _layer_forward(layer, stand, layer.module.forward))
        yield stand


@contextmanager
def untouched(model: Module) -> Iterator[None]:
    """Undo what runs leave in the modules themselves: states that some models keep there, tables of positions, flags."""
    before = [(vars(module), dict(vars(module)), dict(module._buffers)) for module in model.modules()]  # noqa: SLF001 no public way back
    try:
        yield
    finally:
        for now, attributes, buffers in before:
            now.clear()
            now.update(attributes)
            now["_buffers"].clear()
            now["_buffers"].update(buffers)


def kept_inside(model: Module) -> bool:
    """Whether a module holds a tensor that is neither parameter nor buffer: a state that is not handed around."""
    return any(shape_of(value) for module in model.modules() for value in vars(module).values())


@contextmanager
def once(model: Module) -> Iterator[None]:
    """Run equal modules of the lists inside `model` once for equal calls, for the time of a run."""
    known: dict[Any, Any] = {}
    with wrapping() as wrap:
        for stack in (module for module in model.modules() if isinstance(module, ModuleList)):
            for item in stack:
                wrap(item, _block_forward(item, item.forward, known))
        yield


@contextmanager
def wrapping() -> Iterator[Callable[[Module, Callable[..., Any]], None]]:
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


@contextmanager
def in_dtype(model: Module, dtype: Dtype) -> Iterator[None]:
    """Floating-point parameters and buffers in `dtype`, as after `model.to(dtype)`, for the time of the runs."""
    before = [(p, p.data) for p in model.parameters() if p.is_floating_point() and p.dtype != dtype]
    buffers = [(m, name, b) for m in model.modules() for name, b in m._buffers.items() if b is not None]  # noqa: SLF001 no public way back to the same object
    try:
        for parameter, data in before:
            parameter.data = data.to(dtype)
        for module, name, buffer in buffers:
            if buffer.is_floating_point() and buffer.dtype != dtype:
                module._buffers[name] = buffer.to(dtype)  # noqa: SLF001 as above
        yield
    finally:
        for parameter, data in before:
            parameter.data = data
        for module, name, buffer in buffers:
            module._buffers[name] = buffer  # noqa: SLF001 as above
