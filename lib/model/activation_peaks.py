"""Peak of temporary tensors, found by running the model on the meta device, a few layers of each kind, without values.

Once per attention kernel and element size, with prime lengths (`lib.model.activation_storages`): a prefill as `generate` makes it, logits
of the last position and their float32 copy, then one decode step, in which a cache that grows by concatenation holds one layer twice.
A plain run at a short length has to agree, tensor by tensor, with what the laws foretell; where it does not (scans written as loops
over the tokens), plain runs at a few lengths are interpolated instead. Tensors of the cache itself are taken out; storage that a
window's slice of the cache pins until the first decode step is counted, for every layer of that kind.

Source: the installed transformers and torch, as executed. Limits: the whole context is taken as one prompt, which is the worst case;
without pictures or sound where a model takes text alone; kernels' own scratch memory is not seen; for layers of many
operations the float32 trace is twice the 16-bit one, an upper bound, and the eager kernel is left out.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from torch import bfloat16, float32
from torch.distributions import Distribution
from torch.nn import Module
from transformers import PreTrainedModel

from lib.errors import UnsupportedModel
from lib.model.activation_fit import Key, doubled, envelope, fits, interpolated
from lib.model.activation_storages import BLOCK, Lengths, dressed, position_limit, takes, value, windows
from lib.model.activation_trace import Stage, Trace, layers_of, run, working
from lib.model.build import LOCK, Built
from lib.model.spec import ActivationFit

_BATCH, _FEW = 2003, 3
_ENCODER, _SHORT_ENCODER = 7919, 64
_PRIMES = (1009, 4099, 16_411)
_BELOW_LIMIT = (31, 61, 127, 251, 509, 1021, 2039, 4093)
_SHORTEST = 4  # of these: shorter prompts need so little that their own laws do not matter
_PROBE_BUDGET = 6000
_HEAVY, _LONG = 1200, 500
_LOOPING, _CHUNKED, _FAR = 16, 256, 16_384


def trace_activations(built: Built) -> tuple[ActivationFit, ...]:
    """The moments that can be the fullest, by kernel and element size; () when the model cannot be run without values.

    The built model is as before when this returns.
    """
    with LOCK, warnings.catch_warnings(), _unchecked_distributions():
        warnings.simplefilter("ignore")
        for stage in _stages(built.model):
            try:
                return _traced(stage)
            except Exception:  # noqa: BLE001, S112 modelling code raises anything on an input it cannot take; the law of plain decoders stands in
                continue
    return ()


@contextmanager
def _unchecked_distributions() -> Iterator[None]:
    """Distributions do not look at their parameters while this lasts: a meta tensor has no values to look at."""
    before = Distribution._validate_args  # noqa: SLF001 there is only a public way to set it
    Distribution.set_default_validate_args(False)
    try:
        yield
    finally:
        Distribution.set_default_validate_args(before)


def _stages(model: Module) -> list[Stage]:
    """The model with a few layers, with all layers up to the last of these, then models inside it that take token ids."""
    inner = [m for m in model.modules() if isinstance(m, PreTrainedModel) and m is not model and takes(m, "input_ids")]
    stages = []
    for module in (model, *inner):
        layers = layers_of(module)
        kept = working(layers)
        stages.append(Stage(module=module, layers=layers, kept=kept))
        if len(kept) < len(layers):
            stages.append(Stage(module=module, layers=layers, kept=working(layers, prefix=True)))
    return stages


class _Plan:
    """The lengths to run a stage at: `long` past every window, `short` below the first one (0 = none), `check` for the comparison."""

    def __init__(self, stage: Stage) -> None:
        self.edges = windows(stage.module.config)
        last = max(self.edges, default=0)
        limit = position_limit(stage.module)
        self.long = next((BLOCK * p for p in _PRIMES if BLOCK * p > 2 * last), BLOCK * _PRIMES[-1])
        self.check = max(2 * BLOCK, -(-2 * last // BLOCK) * BLOCK)
        if limit is not None and limit < self.long:
            self.long = max((t for t in _BELOW_LIMIT if t <= limit), default=limit)
            self.check = max(1, self.long // 2)
        self.far_check = max(_FAR, self.check) if limit is None or limit >= self.long > _FAR else self.check + 1
        self.short = max((t for t in _BELOW_LIMIT[_SHORTEST:] if self.edges and t < self.edges[0]), default=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Probe:
    """What the first runs told: the trace whose laws hold, or the length at which to sample instead, and the operations of a run."""

    trace: Trace | None
    sample_at: int
    operations: int


def _traced(stage: Stage) -> tuple[ActivationFit, ...]:
    config: Any = stage.module.config
    own = config._attn_implementation  # noqa: SLF001 the kernel transformers chose for this class
    kernels: tuple[Literal["sdpa", "eager"], ...] = ("sdpa", "eager") if own == "sdpa" else ("eager",)
    plan = _Plan(stage)
    first = Key(kernels[0], bfloat16.itemsize)
    with dressed(stage.module, bfloat16, first.kernel):
        probe = _probed(stage, plan)
        found = _fits(stage, plan, first, probe, probe.trace)
    if probe.operations > _LONG and probe.sample_at != _LOOPING:
        return (*found, *map(doubled, found))
    for dtype in (bfloat16, float32):
        for kernel in kernels:
            key = Key(kernel, dtype.itemsize)
            if key == first or (probe.trace is None and kernel != kernels[0]):
                continue
            with dressed(stage.module, dtype, kernel):
                found += _fits(stage, plan, key, probe, None)
    return tuple(found)


def _probed(stage: Stage, plan: _Plan) -> _Probe:
    """Run short and plain, then with primes, and compare."""
    lengths = Lengths(_FEW, plan.check, _SHORT_ENCODER)
    try:
        plain = run(stage, lengths, budget=_PROBE_BUDGET, symbolic=False, decode=False)
    except UnsupportedModel:
        return _Probe(trace=None, sample_at=_LOOPING, operations=_PROBE_BUDGET)
    count = plain.operations
    at = Lengths(_BATCH, plan.long, _ENCODER)
    try:
        trace = run(stage, at, budget=3 * count, decode=count <= _HEAVY)
        held = _confirmed(trace, plain, lengths)
        if not held:  # entries chosen by score (top-k) need a longer prompt to be all there
            lengths = lengths._replace(tokens=plan.far_check)
            plain = run(stage, lengths, budget=3 * count, symbolic=False, decode=False)
            held = _confirmed(trace, plain, lengths)
        if not held:  # a module that keeps state (dynamic rope) makes other tensors the first time
            trace = run(stage, at, budget=3 * count, decode=count <= _HEAVY)
            held = _confirmed(trace, plain, lengths)
    except UnsupportedModel:
        held = False
    if held:
        return _Probe(trace=trace, sample_at=0, operations=count)
    return _Probe(trace=None, sample_at=min(_CHUNKED, plan.check), operations=count)


def _confirmed(trace: Trace, other: Trace, lengths: Lengths) -> bool:
    """Whether every size of the other run is what the first run's laws say."""
    same = len(trace.laws) == len(other.sizes)
    return same and all(value(law, lengths) == size for law, size in zip(trace.laws, other.sizes, strict=True))


def _fits(stage: Stage, plan: _Plan, key: Key, probe: _Probe, trace: Trace | None) -> list[ActivationFit]:
    """The fullest moments of one kernel and element size, past every window and, where a model has one, below the first."""
    if probe.sample_at:
        return [_sampled(stage, key, probe.sample_at)]
    at = Lengths(_BATCH, plan.long, _ENCODER)
    budget = 4 * probe.operations
    long = envelope((trace or run(stage, at, budget=budget, decode=key.kernel == "sdpa")).moments)
    if not plan.short:
        return fits(key, long, 0)
    try:
        short = run(stage, at._replace(tokens=plan.short), budget=budget, decode=False)
        return fits(key, long, plan.edges[0]) + fits(key, envelope(short.moments), 0)
    except UnsupportedModel:  # below the window an extent could not be told from a width: the longer prompt's laws stand in
        return fits(key, long, 0)


def _sampled(stage: Stage, key: Key, tokens: int) -> ActivationFit:
    """A straight line through the peaks of three plain runs."""
    points = ((1, tokens), (2, tokens), (1, 2 * tokens))
    peaks = {}
    for point in points:
        trace = run(stage, Lengths(*point, _SHORT_ENCODER), budget=4 * _PROBE_BUDGET, symbolic=False, decode=False)
        peaks[point] = max(moment.get((0, 0, 0), 0) for moment in trace.moments)
    return interpolated(key, peaks)
