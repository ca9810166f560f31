"""Peak of temporary tensors, found by running the model on the meta device, a few layers of each kind, without values.

Once per attention kernel and element size, with prime lengths (`lib.model.activation_ledger`): a prefill as `generate` makes it, logits
of the last position and their float32 copy, then one decode step, in which a cache that grows by concatenation holds one layer twice.
A second run with other primes has to confirm the sizes of all tensors; where it does not (scans by chunks of tokens), plain runs at a
few lengths are interpolated instead. Tensors of the cache itself are taken out; storage that a window's slice of the cache pins until
the first decode step is counted, for every layer of that kind.

Source: the installed transformers and torch, as executed. Limits: the whole context is taken as one prompt, which is the worst case;
without pictures or sound where a model takes text alone; kernels' own scratch memory is not seen.
"""

from __future__ import annotations

import warnings
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from lib.errors import UnsupportedModel
from lib.model.activation_fit import Key, envelope, fits, interpolated, shifted
from lib.model.activation_layers import few, kinds
from lib.model.activation_ledger import Ledger, Lengths, Polynomial, extent
from lib.model.activation_prompt import dressed, position_limit, prompt, windows
from lib.model.cache_leaves import returned

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module

    from lib.model.build import Built
    from lib.model.pass_through import Layer
    from lib.model.spec import ActivationFit

_BATCH, _OTHER_BATCH = 1009, 13
_ENCODER, _OTHER_ENCODER = 7919, 4099
_TOKENS = (200_003, 1_000_003, 10_000_019)
_SHORT_TOKENS = (251, 509, 1021, 2039, 4093)
_SAMPLED = (256, 512, 1024)


@dataclass(slots=True)
class Trace:
    """One run: moments of the prefill and of the decode step, and the sizes of all tensors in order."""

    moments: list[Polynomial] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    laws: list[Polynomial] = field(default_factory=list)


def trace_activations(built: Built) -> tuple[ActivationFit, ...]:
    """The moments that can be the fullest, by kernel and element size; () when the model cannot be run without values.

    The built model is as before when this returns.
    """
    from lib.model.build import LOCK

    with LOCK, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for module in _candidates(built.model):
            try:
                return _traced(module)
            except Exception:  # noqa: BLE001, S112 modelling code raises anything on an input it cannot take; the law of plain decoders stands in
                continue
    return ()


def _candidates(model: Module) -> list[Module]:
    """The model, then models inside it that take token ids."""
    from transformers import PreTrainedModel

    from lib.model.activation_prompt import takes

    inner = [m for m in model.modules() if isinstance(m, PreTrainedModel) and m is not model and takes(m, "input_ids")]
    return [model, *inner]


def _tensors(cache: object) -> dict[int, Tensor]:
    """The floating-point tensors of a cache object, by identity."""
    from torch import Tensor

    found: dict[int, Tensor] = {}
    seen: set[int] = set()

    def visit(value: Any, depth: int) -> None:
        if id(value) in seen or depth > 8 or value is None or isinstance(value, (int, float, str, bool)):  # noqa: PLR2004 as deep as caches go
            return
        seen.add(id(value))
        if isinstance(value, Tensor):
            found[id(value)] = value
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


def _pinned(ledger: Ledger, cache: object, layers: list[Layer], lengths: Lengths) -> Polynomial:
    """Storage that cached slices keep alive beyond their own size, over all layers of each kind."""
    twins = Counter(id(layer.first) for layer in layers)
    by_number = {number: layer for layer in layers for number in layer.numbers}
    counted: set[tuple[int, int]] = set()
    total: Counter[tuple[int, int, int]] = Counter()
    items = getattr(cache, "layers", None)
    for number, item in enumerate(items if isinstance(items, (list, tuple)) else ()):
        owner = by_number.get(number)
        kind = id(owner.first) if owner else -number - 1
        for position, tensor in enumerate(_tensors(item).values()):
            entry = ledger.entry(tensor.untyped_storage())
            if entry is None or (kind, position) in counted:
                continue
            counted.add((kind, position))
            held: Polynomial = {(0, 0, 0): tensor.element_size()}
            for size in tensor.shape:
                held = _product(held, extent(size, lengths))
            for sign, law in ((1, ledger.laws[entry]), (-1, held)):
                for monomial, c in law.items():
                    total[monomial] += sign * c * (twins[kind] if owner else 1)
    return {m: c for m, c in total.items() if c}


def _product(left: Polynomial, right: Polynomial) -> Polynomial:
    total: Counter[tuple[int, int, int]] = Counter()
    for (b, t, e), c in left.items():
        for (b2, t2, e2), c2 in right.items():
            total[b + b2, t + t2, e + e2] += c * c2
    return dict(total)


def _plus(left: Polynomial, right: Polynomial, sign: int = 1) -> Polynomial:
    total = Counter(left)
    for monomial, c in right.items():
        total[monomial] += sign * c
    return {m: c for m, c in total.items() if c}


def _entries(ledger: Ledger, cache: object) -> set[int]:
    found = (ledger.entry(t.untyped_storage()) for t in _tensors(cache).values())
    return {entry for entry in found if entry is not None}


def _run(module: Module, layers: list[Layer], lengths: Lengths, *, symbolic: bool = True, decode: bool = True) -> Trace:
    """Prefill and, where there is a cache and it is asked for, one decode step."""
    from torch import device, float32, no_grad

    from lib.model.activation_kernels import GpuKernels
    from lib.model.meta_run import MetaRun

    named = lengths if symbolic else Lengths(1, 1, 1)
    ledger = Ledger([*module.parameters(), *module.buffers()], named, budget=6000 if symbolic else 30_000)
    config: Any = module.config
    with ExitStack() as modes:
        modes.enter_context(few(layers))
        for mode in (no_grad(), MetaRun(0), GpuKernels(), device("meta"), ledger):
            modes.enter_context(mode)
        given = prompt(module, lengths)
        out = module(**given)
        logits = getattr(out, "logits", None)
        sampled = logits[:, -1].to(dtype=float32, copy=True) if logits is not None and "use_cache" in given else None
        cache = returned(out) if "use_cache" in given else None
        encoded = getattr(out, "encoder_last_hidden_state", None)
        del out, logits, sampled
        prefill_end = len(ledger.sizes)
        held = _entries(ledger, cache)
        trace = Trace(moments=[*ledger.moments(without=held)], sizes=list(ledger.sizes), laws=list(ledger.laws))
        pinned = _pinned(ledger, cache, layers, named)
        trace.moments = [_plus(m, pinned) for m in trace.moments]
        if cache is None or not decode:
            return trace
        del given
        trace.moments += _step(module, ledger, cache, encoded, lengths, config, prefill_end)
    return trace


def _step(module: Module, ledger: Ledger, cache: object, encoded: Any, lengths: Lengths, config: Any, start: int) -> list[Polynomial]:
    """Moments of one decode step, less the cache as it was before it."""
    from torch import float32, long, zeros
    from transformers.modeling_outputs import BaseModelOutput

    name = "past_key_values" if hasattr(cache, "get_seq_length") or isinstance(cache, tuple) else "cache_params"
    given: dict[str, Any] = {name: cache, "use_cache": True}
    if config.is_encoder_decoder:
        given |= {
            "encoder_outputs": BaseModelOutput(last_hidden_state=encoded),
            "decoder_input_ids": zeros(lengths.batch, lengths.tokens, dtype=long),
        }
        module(**given)
    old = _entries(ledger, cache)
    first = len(ledger.sizes)
    before: Polynomial = {}
    for entry in old:
        before = _plus(before, ledger.laws[entry])
    step = {key: value for key, value in given.items() if "input_ids" not in key}
    step["decoder_input_ids" if config.is_encoder_decoder else "input_ids"] = zeros(lengths.batch, 1, dtype=long)
    out = module(**step)
    logits = getattr(out, "logits", None)
    sampled = logits[:, -1].to(dtype=float32, copy=True) if logits is not None else None
    found = ledger.moments(since=first)
    del sampled, start
    return [shifted(_plus(m, before, -1)) for m in found]


def _confirmed(trace: Trace, other: Trace, lengths: Lengths) -> bool:
    """Whether every size of the other run is what the first run's laws say."""
    return len(trace.laws) == len(other.sizes) and all(
        lengths.value(law) == size for law, size in zip(trace.laws, other.sizes, strict=True)
    )


def _traced(module: Module) -> tuple[ActivationFit, ...]:
    from torch import bfloat16, float32

    layers = kinds(module)
    config: Any = module.config
    own = config._attn_implementation  # noqa: SLF001 the kernel transformers chose for this class
    kernels: tuple[Literal["sdpa", "eager"], ...] = ("sdpa", "eager") if own == "sdpa" else ("eager",)
    limit, edges = position_limit(module), windows(config)
    long = next((t for t in _TOKENS if t > 2 * max(edges, default=0)), _TOKENS[-1])
    if limit and limit < long:
        long = max((t for t in _SHORT_TOKENS if t < limit), default=0)
    short = max((t for t in _SHORT_TOKENS if edges and t < min(edges)), default=0)
    found: list[ActivationFit] = []
    regular = True
    for dtype in (bfloat16, float32):
        for kernel in kernels:
            key = Key(kernel, dtype.itemsize)
            with dressed(module, dtype, kernel):
                decode = kernel == kernels[0]
                if not found:
                    regular = _regular(module, layers, long, limit)
                if not regular:
                    found += _sampled(module, layers, key, limit) if decode else []
                    continue
                trace = _run(module, layers, Lengths(_BATCH, long, _ENCODER), decode=decode)
                found += fits(key, envelope(trace.moments), min(edges, default=0) if short else 0)
                if short and decode:
                    found += fits(key, envelope(_run(module, layers, Lengths(_BATCH, short, _ENCODER), decode=False).moments), 0)
    return tuple(found)


def _regular(module: Module, layers: list[Layer], tokens: int, limit: int | None) -> bool:
    """Whether the laws of one run foretell another."""
    other = Lengths(_OTHER_BATCH, tokens - 2 if limit else tokens // 2 + 1, _OTHER_ENCODER)
    try:
        first = _run(module, layers, Lengths(_BATCH, tokens, _ENCODER), decode=False)
        return _confirmed(first, _run(module, layers, other, decode=False), other)
    except UnsupportedModel:
        return False


def _sampled(module: Module, layers: list[Layer], key: Key, limit: int | None) -> list[ActivationFit]:
    """Peaks at a few lengths and batches, interpolated."""
    lengths = [t for t in _SAMPLED if not limit or t <= limit] or [limit or 1]
    peaks: dict[tuple[int, int], int] = {}
    for batch in (1, 2):
        for tokens in lengths:
            moments = _run(module, layers, Lengths(batch, tokens, _OTHER_ENCODER), symbolic=False).moments
            peaks[batch, tokens] = max(m.get((0, 0, 0), 0) for m in moments)
    return [interpolated(key, peaks)]
