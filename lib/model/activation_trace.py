"""One run of a model on the meta device: what is alive at every moment of a prefill and of a decode step."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from torch import Tensor, device, float32, long, no_grad, zeros
from transformers.modeling_outputs import BaseModelOutput

from lib.model.activation_fit import shifted
from lib.model.activation_kernels import GpuKernels
from lib.model.activation_layers import Layer, few
from lib.model.activation_ledger import Ledger, Polynomial, plus, size_law
from lib.model.activation_prompt import Lengths, prompt
from lib.model.cache_leaves import returned
from lib.model.meta_run import MetaRun

if TYPE_CHECKING:
    from torch.nn import Module

_DEPTH = 8


@dataclass(slots=True)
class Trace:
    """Moments of the prefill and of the decode step; sizes of the prefill's tensors in order, as numbers and as laws."""

    moments: list[Polynomial] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    laws: list[Polynomial] = field(default_factory=list)
    operations: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A module to run, its layers, and those of them that compute."""

    module: Module
    layers: list[Layer]
    kept: list[Layer]


def run(stage: Stage, lengths: Lengths, *, budget: int, symbolic: bool = True, decode: bool = True) -> Trace:
    """Prefill as `generate` makes it and, where there is a cache and it is asked for, one decode step.

    Args:
        stage: what to run.
        lengths: primes for a run whose moments are laws, any lengths otherwise.
        budget: operations after which the run is given up.
        symbolic: whether moments are to be laws; else they are numbers (constants).
        decode: whether a step follows.

    Raises:
        UnsupportedModel: the budget is spent.
    """
    named = lengths if symbolic else Lengths(1, 1, 1)
    ledger = Ledger([*stage.module.parameters(), *stage.module.buffers()], named, budget)
    with ExitStack() as modes:
        for mode in (few(stage.layers, stage.kept), no_grad(), MetaRun(0), GpuKernels(), device("meta"), ledger):
            modes.enter_context(mode)
        given = prompt(stage.module, lengths)
        out = stage.module(**given)
        logits = getattr(out, "logits", None)
        sampled = logits[:, -1].to(dtype=float32, copy=True) if logits is not None and "use_cache" in given else None
        cache = returned(out) if "use_cache" in given else None
        encoded = getattr(out, "encoder_last_hidden_state", None)
        del out, logits, sampled, given
        trace = Trace(sizes=list(ledger.sizes), laws=list(ledger.laws), operations=ledger.operations)
        pinned = _pinned(ledger, cache, stage.layers, named)
        trace.moments = [plus(moment, pinned) for moment in ledger.moments(without=_entries(ledger, cache))]
        if cache is not None and decode:
            trace.moments += _step(stage.module, ledger, cache, encoded, lengths)
    return trace


def _step(module: Module, ledger: Ledger, cache: object, encoded: Any, lengths: Lengths) -> list[Polynomial]:
    """Moments of one decode step, less the cache as it was before it."""
    config: Any = module.config
    name = "past_key_values" if hasattr(cache, "get_seq_length") or isinstance(cache, tuple) else "cache_params"
    given: dict[str, Any] = {name: cache, "use_cache": True}
    ids = "input_ids"
    if config.is_encoder_decoder:
        ids = "decoder_input_ids"
        given["encoder_outputs"] = BaseModelOutput(last_hidden_state=encoded)
        module(**given, **{ids: zeros(lengths.batch, lengths.tokens, dtype=long)})
    before: Polynomial = {}
    for entry in _entries(ledger, cache):
        before = plus(before, ledger.laws[entry])
    first = len(ledger.sizes)
    out = module(**given, **{ids: zeros(lengths.batch, 1, dtype=long)})
    logits = getattr(out, "logits", None)
    sampled = logits[:, -1].to(dtype=float32, copy=True) if logits is not None else None
    found = ledger.moments(since=first)
    del sampled
    return [shifted(plus(moment, before, -1)) for moment in found]


def tensors_of(cache: object) -> list[Tensor]:
    """The tensors of a cache object, each once, in the order in which it keeps them."""
    found: list[Tensor] = []
    seen: set[int] = set()

    def visit(value: Any, depth: int) -> None:
        if id(value) in seen or depth > _DEPTH or value is None or isinstance(value, (int, float, str, bool)):
            return
        seen.add(id(value))
        if isinstance(value, Tensor):
            found.append(value)
        elif isinstance(value, dict):
            for part in value.values():
                visit(part, depth + 1)
        elif isinstance(value, (list, tuple)):
            for part in value:
                visit(part, depth + 1)
        elif hasattr(value, "__dict__") and "config" not in type(value).__name__.lower():
            visit(vars(value), depth + 1)

    visit(cache, 0)
    return found


def _entries(ledger: Ledger, cache: object) -> set[int]:
    found = (ledger.entry(tensor.untyped_storage()) for tensor in tensors_of(cache))
    return {entry for entry in found if entry is not None}


def _pinned(ledger: Ledger, cache: object, layers: list[Layer], lengths: Lengths) -> Polynomial:
    """Storage that cached slices keep alive beyond their own size, over all layers of each kind."""
    twins = Counter(layer.kind for layer in layers)
    by_number = {number: layer for layer in layers for number in layer.numbers}
    counted: set[tuple[int, int]] = set()
    total: Polynomial = {}
    items = getattr(cache, "layers", None)
    for number, item in enumerate(items if isinstance(items, (list, tuple)) else ()):
        owner = by_number.get(number)
        kind = owner.kind if owner else -number - 1
        for position, tensor in enumerate(tensors_of(item)):
            entry = ledger.entry(tensor.untyped_storage())
            if entry is None or (kind, position) in counted:
                continue
            counted.add((kind, position))
            count = twins[kind] if owner else 1
            total = plus(total, plus(ledger.laws[entry], size_law(tensor, lengths), -1), count)
    return total
