"""Peak of temporary tensors: the model runs on the meta device, a few layers of each kind, and the fullest moments become `ActivationFit`s.

Once per attention kernel and element size, with prime lengths (`lib.model.allocations`): a prefill as in `generate` (logits of the last
position and their float32 copy), then one decode step. A cache that grows by concatenation has one layer twice in that step. Of a deep
model the first two layers of each kind compute and the others hand their input on (`lib.model.layer_extrapolation`).
A plain run at a short length has to agree, tensor by tensor, with the polynomials of the first run; if it does not (scans written as
loops over the tokens), plain runs at a few lengths are interpolated instead. Tensors of the cache itself are taken out; storage that a
window's slice of the cache pins until the first decode step is counted, for every layer of that kind.

Source: the installed transformers and torch, as executed. Limits: the whole context is taken as one prompt, which is the worst case;
without pictures or sound where a model takes text alone; kernels' own scratch memory is not seen; for layers of many
operations the float32 trace is twice the 16-bit one, an upper bound, and the eager kernel is left out.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any, Literal, NamedTuple

import numpy as np
from torch import Tensor, bfloat16, device, empty_like, float32, long, no_grad, zeros
from torch import dtype as Dtype  # noqa: N812 a type, named like one
from torch.nn import Module
from transformers import PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput

from lib.errors import UnsupportedModel
from lib.model import meta_device
from lib.model.allocations import BLOCK, Coefficient, GpuKernels, Polynomial, StorageRecorder, add, evaluate, shift_by_token, size_law
from lib.model.build import LOCK, BuiltModel
from lib.model.cache_terms import cache_of, tensors_of
from lib.model.layer_extrapolation import Layer, layers_of, run_only, select_layers
from lib.model.spec import ActivationFit


@dataclass(slots=True)
class Trace:
    """Moments of the prefill and of the decode step; sizes of the prefill's tensors in order, as numbers and as polynomials."""

    moments: list[Polynomial] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    laws: list[Polynomial] = field(default_factory=list)
    operations: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PartialModel:
    """A module to run, its layers, and those of them that compute."""

    module: Module
    layers: list[Layer]
    working: list[Layer]


def trace_forward(stage: PartialModel, lengths: meta_device.Lengths, *, budget: int, symbolic: bool = True, decode: bool = True) -> Trace:
    """Prefill as `generate` makes it and, if there is a cache and it is asked for, one decode step.

    Args:
        stage: what to run.
        lengths: primes for a run whose moments are polynomials, any lengths otherwise.
        budget: operations after which the run is given up.
        symbolic: whether moments are to be polynomials; else they are numbers (constants).
        decode: whether a step follows.
    """
    unknowns = lengths if symbolic else meta_device.Lengths(1, 1, 1)
    recorder = StorageRecorder([*stage.module.parameters(), *stage.module.buffers()], unknowns, budget)
    idle: list[int | None] = []

    def aside(_: Layer, hidden: Tensor) -> Tensor:
        copy = empty_like(hidden)
        idle.append(recorder.number_of(copy))
        return copy

    with ExitStack() as modes:
        for mode in (
            run_only(stage.layers, stage.working, aside=aside),
            no_grad(),
            meta_device.MetaRun(0),
            GpuKernels(),
            device("meta"),
            recorder,
        ):
            modes.enter_context(mode)
        inputs = meta_device.prefill_inputs(stage.module, lengths)
        output = stage.module(**inputs)
        last = last_scores(output) if "use_cache" in inputs else None
        cache = cache_of(output) if "use_cache" in inputs else None
        encoder_states = getattr(output, "encoder_last_hidden_state", None)
        del output, last, inputs
        trace = Trace(sizes=list(recorder.sizes), laws=list(recorder.laws), operations=recorder.operations - len(idle))
        pinned = add(
            _pinned_by_slices(recorder, cache, stage.layers, unknowns), recorder.collected_bytes([n for n in idle if n is not None])
        )
        trace.moments = [add(moment, pinned) for moment in recorder.moments(without=_numbers_of(recorder, cache))]
        if cache is not None and decode:
            trace.moments += _decode_step(stage.module, recorder, cache, encoder_states, lengths)
    return trace


def last_scores(output: Any) -> Tensor | None:
    """Scores of the last position in float32, as `generate` copies them."""
    logits = getattr(output, "logits", None)
    return logits[:, -1].to(dtype=float32, copy=True) if logits is not None else None


def step_inputs(module: Module, cache: object, encoder_states: Any) -> tuple[str, dict[str, Any]]:
    """The name of a decode step's token ids, and its other arguments."""
    config: Any = module.config
    name = "cache_params" if meta_device.has_argument(module, "cache_params") else "past_key_values"
    inputs: dict[str, Any] = {name: cache, "use_cache": True}
    if not config.is_encoder_decoder:
        return "input_ids", inputs
    return "decoder_input_ids", {**inputs, "encoder_outputs": BaseModelOutput(last_hidden_state=encoder_states)}


def _decode_step(
    module: Module, recorder: StorageRecorder, cache: object, encoder_states: Any, lengths: meta_device.Lengths
) -> list[Polynomial]:
    """Moments of one decode step, less the cache as it was before it."""
    config: Any = module.config
    ids, inputs = step_inputs(module, cache, encoder_states)
    if config.is_encoder_decoder:
        module(**inputs, **{ids: zeros(lengths.batch, lengths.tokens, dtype=long)})
    before: Polynomial = {}
    for number in _numbers_of(recorder, cache):
        before = add(before, recorder.laws[number])
    first = len(recorder.sizes)
    output = module(**inputs, **{ids: zeros(lengths.batch, 1, dtype=long)})
    last = last_scores(output)
    moments = recorder.moments(since=first)
    del last
    return [shift_by_token(add(moment, before, -1)) for moment in moments]


def _numbers_of(recorder: StorageRecorder, cache: object) -> set[int]:
    """The storages of a cache, as the recorder numbers them."""
    numbers = (recorder.number_of(tensor) for _, tensor in tensors_of(cache))
    return {number for number in numbers if number is not None}


def _pinned_by_slices(recorder: StorageRecorder, cache: object, layers: list[Layer], lengths: meta_device.Lengths) -> Polynomial:
    """Storage that cached slices keep alive beyond their own size, over all layers of each kind."""
    twins = Counter(layer.kind for layer in layers)
    by_position = {position: layer for layer in layers for position in layer.positions}
    counted: set[tuple[int, int]] = set()
    total: Polynomial = {}
    items = getattr(cache, "layers", None)
    for position, item in enumerate(items if isinstance(items, (list, tuple)) else ()):
        owner = by_position.get(position)
        kind = owner.kind if owner else -position - 1
        for order, (_, tensor) in enumerate(tensors_of(item)):
            number = recorder.number_of(tensor)
            if number is None or (kind, order) in counted:
                continue
            counted.add((kind, order))
            count = twins[kind] if owner else 1
            total = add(total, add(recorder.laws[number], size_law(tensor, lengths), -1), count)
    return total


_BATCH, _FEW = 2003, 3
_ENCODER, _SHORT_ENCODER = 7919, 64
_PRIMES = (1009, 4099, 16_411)
_BELOW_LIMIT = (31, 61, 127, 251, 509, 1021, 2039, 4093)
_SHORTEST = 4  # of these: shorter prompts need so little that their own laws do not matter
_PROBE_BUDGET = 6000
_HEAVY, _LONG = 1200, 500
_LOOPING, _CHUNKED, _FAR = 16, 256, 16_384


class Key(NamedTuple):
    """The configuration that a fit is valid for."""

    kernel: Literal["sdpa", "eager"]
    element_bytes: int


# Which moments are kept, and the form they take in a spec

_FIELDS = {
    (0, 0, 0): "constant",
    (1, 0, 0): "per_sequence",
    (0, 1, 0): "per_position",
    (1, 1, 0): "per_token",
    (0, 2, 0): "mask",
    (1, 2, 0): "per_token_squared",
    (1, 0, 1): "per_encoder_token",
    (1, 0, 2): "per_encoder_token_squared",
}
_CLOSE = 0.005
_GRID = [meta_device.Lengths(*point) for point in product((1, 8, 256), [2**p for p in range(21)], (1, 64, 1500))]


def pareto_peaks(moments: list[Polynomial]) -> list[Polynomial]:
    """Those moments that are the fullest for some lengths, as few as leave the peak within `_CLOSE` of the true one."""
    unique = list({tuple(sorted(m.items())): m for m in moments}.values())
    monomials = sorted({monomial for moment in unique for monomial in moment})
    coefficients = np.array([[float(moment.get(m, 0)) for m in monomials] for moment in unique])  # (moments, monomials)
    powers = np.array([[float(b**i * t**j * e**k) for b, t, e in _GRID] for i, j, k in monomials])  # (monomials, points of the grid)
    return [unique[k] for k in find_peaks(coefficients, powers)]


def find_peaks(coefficients: Any, powers: Any) -> list[int]:
    """As few moments (rows of coefficients) as leave the peak within `_CLOSE` of the true one at every point (columns of powers)."""
    heights = coefficients @ powers  # (moments, points of the grid), bytes
    top = np.maximum(heights.max(axis=0), 1.0)
    covered = np.ones(heights.shape[1])
    chosen: list[int] = []
    point = heights.shape[1] - 1
    while not chosen or (top[point] - covered[point]) > _CLOSE * top[point]:
        chosen.append(int(np.argmax(heights[:, point])))
        covered = np.maximum(covered, heights[chosen[-1]])
        point = int(np.argmax((top - covered) / top))
    return sorted(set(chosen))


def _per_sequence(moment: Polynomial) -> Polynomial:
    """Terms of the encoder's length without a batch count as if for each sequence; there are none that matter."""
    total: Polynomial = {}
    for (b, t, e), c in moment.items():
        monomial = (1 if e else b, t, e)
        total[monomial] = total.get(monomial, 0) + c
    return total


def build_fits(key: Key, moments: list[Polynomial], from_tokens: int) -> list[ActivationFit]:
    """The moments in the form of a spec."""
    fits = []
    for moment in map(_per_sequence, moments):
        if not moment.keys() <= _FIELDS.keys():
            raise UnsupportedModel("Temporary tensors of this model grow in a way that is not known here.")
        values = {"constant": 0.0, "per_token": 0.0, "per_token_squared": 0.0} | {_FIELDS[m]: float(c) for m, c in moment.items()}
        fits.append(ActivationFit(kernel=key.kernel, element_bytes=key.element_bytes, from_tokens=from_tokens, **values))
    return fits


def interpolate(key: Key, peaks: dict[tuple[int, int], Coefficient]) -> ActivationFit:
    """A straight fit through peaks in bytes at (batch, tokens) = (1, T), (2, T) and (1, 2T), for a scan by chunks.

    What does not depend on the batch cannot be separated from what does; it counts for each sequence.
    """
    tokens = min(t for _, t in peaks)
    first, second, longer = float(peaks[1, tokens]), float(peaks[2, tokens]), float(peaks[1, 2 * tokens])
    constant = max(0.0, 2 * first - second)
    per_token = (longer - first) / tokens
    return ActivationFit(
        kernel=key.kernel, element_bytes=key.element_bytes, constant=constant, per_sequence=first - constant - per_token * tokens,
        per_token=per_token, per_token_squared=0.0,
    )  # fmt: skip


def upper_bound_fp32(fit: ActivationFit) -> ActivationFit:
    """An upper bound in float32 for a fit in 16 bits: no tensor more than doubles."""
    twice = {name: 2 * getattr(fit, name) for name in _FIELDS.values()}
    return replace(fit, element_bytes=2 * fit.element_bytes, **twice)


# Which runs are made


class TraceLengths:
    """The lengths to run a stage at: `long` past every window, `short` below the first one (0 = none), `check` for the comparison."""

    def __init__(self, stage: PartialModel) -> None:
        self.windows = meta_device.attention_windows(stage.module.config)
        last = max(self.windows, default=0)
        limit = meta_device.position_limit(stage.module)
        self.long = next((BLOCK * p for p in _PRIMES if BLOCK * p > 2 * last), BLOCK * _PRIMES[-1])
        self.check = max(2 * BLOCK, -(-2 * last // BLOCK) * BLOCK)
        if limit is not None and limit < self.long:
            self.long = max((t for t in _BELOW_LIMIT if t <= limit), default=limit)
            self.check = max(1, self.long // 2)
        self.far_check = max(_FAR, self.check) if limit is None or limit >= self.long > _FAR else self.check + 1
        self.short = max((t for t in _BELOW_LIMIT[_SHORTEST:] if self.windows and t < self.windows[0]), default=0)

    @property
    def primes(self) -> meta_device.Lengths:
        """The lengths of a run whose moments are polynomials."""
        return meta_device.Lengths(_BATCH, self.long, _ENCODER)


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceResult:
    """Result of the first runs: the trace whose polynomials hold, or the length at which to sample instead; operations of a run."""

    trace: Trace | None
    sample_at: int
    operations: int


def trace_activations(built: BuiltModel) -> tuple[ActivationFit, ...]:
    """The moments that can be the fullest, by kernel and element size; () when the model cannot be run without values.

    The built model is as before when this returns.
    """
    with LOCK, warnings.catch_warnings(), meta_device.unchecked_distributions():
        warnings.simplefilter("ignore")
        for stage in _stages(built.model):
            try:
                return _trace_stage(stage)
            except Exception:  # noqa: BLE001, S112 modelling code raises anything on an input it cannot take; the law of plain decoders stands in
                continue
    return ()


def _stages(model: Module) -> list[PartialModel]:
    """The model with a few layers, with all layers up to the last of these, then models inside it that take token ids."""
    inner = [m for m in model.modules() if isinstance(m, PreTrainedModel) and m is not model and meta_device.has_argument(m, "input_ids")]
    stages = []
    for module in (model, *inner):
        layers = layers_of(module)
        few = select_layers(layers)
        stages.append(PartialModel(module=module, layers=layers, working=few))
        if len(few) < len(layers):
            stages.append(PartialModel(module=module, layers=layers, working=select_layers(layers, prefix=True)))
    return stages


@contextmanager
def _load_as(module: Module, dtype: Dtype, kernel: str) -> Iterator[None]:
    """The module in another dtype and with another attention kernel while this lasts; parts kept in float32 stay so."""
    with meta_device.in_dtype(module, dtype, source=meta_device.own_dtype(module)), meta_device.with_kernel(module, kernel):
        yield


def _trace_stage(stage: PartialModel) -> tuple[ActivationFit, ...]:
    config: Any = stage.module.config
    own = config._attn_implementation  # noqa: SLF001 the kernel transformers chose for this class
    kernels: tuple[Literal["sdpa", "eager"], ...] = ("sdpa", "eager") if own == "sdpa" else ("eager",)
    plan = TraceLengths(stage)
    first = Key(kernels[0], bfloat16.itemsize)
    with _load_as(stage.module, bfloat16, first.kernel):
        probe = _run_probe(stage, plan)
        fits = _fits_of(stage, plan, first, probe, probe.trace)
    if probe.operations > _LONG and probe.sample_at != _LOOPING:
        return (*fits, *map(upper_bound_fp32, fits))
    for dtype in (bfloat16, float32):
        for kernel in kernels:
            key = Key(kernel, dtype.itemsize)
            if key == first or (probe.trace is None and kernel != kernels[0]):
                continue
            with _load_as(stage.module, dtype, kernel):
                fits += _fits_of(stage, plan, key, probe, None)
    return tuple(fits)


def _run_probe(stage: PartialModel, plan: TraceLengths) -> TraceResult:
    """Run short and plain, then with primes, and compare."""
    lengths = meta_device.Lengths(_FEW, plan.check, _SHORT_ENCODER)
    try:
        plain = trace_forward(stage, lengths, budget=_PROBE_BUDGET, symbolic=False, decode=False)
    except UnsupportedModel:
        return TraceResult(trace=None, sample_at=_LOOPING, operations=_PROBE_BUDGET)
    count = plain.operations
    try:
        trace = trace_forward(stage, plan.primes, budget=3 * count, decode=count <= _HEAVY)
        agrees = _foretells(trace, plain, lengths)
        if not agrees:  # entries chosen by score (top-k) need a longer prompt to be all there
            lengths = lengths._replace(tokens=plan.far_check)
            plain = trace_forward(stage, lengths, budget=3 * count, symbolic=False, decode=False)
            agrees = _foretells(trace, plain, lengths)
        if not agrees:  # a module that keeps state (dynamic rope) makes other tensors the first time
            trace = trace_forward(stage, plan.primes, budget=3 * count, decode=count <= _HEAVY)
            agrees = _foretells(trace, plain, lengths)
    except UnsupportedModel:
        agrees = False
    if agrees:
        return TraceResult(trace=trace, sample_at=0, operations=count)
    return TraceResult(trace=None, sample_at=min(_CHUNKED, plan.check), operations=count)


def _foretells(trace: Trace, other: Trace, lengths: meta_device.Lengths) -> bool:
    """Whether every size of the other run, at `lengths`, is what the polynomials of `trace` give."""
    same = len(trace.laws) == len(other.sizes)
    return same and all(evaluate(law, lengths) == size for law, size in zip(trace.laws, other.sizes, strict=True))


def _fits_of(stage: PartialModel, plan: TraceLengths, key: Key, probe: TraceResult, trace: Trace | None) -> list[ActivationFit]:
    """The fullest moments of one kernel and element size, past every window and, where a model has one, below the first."""
    if probe.sample_at:
        return _sample(stage, key, probe.sample_at)
    budget = 4 * probe.operations
    long = pareto_peaks((trace or trace_forward(stage, plan.primes, budget=budget, decode=key.kernel == "sdpa")).moments)
    if not plan.short:
        return build_fits(key, long, 0)
    try:
        short = trace_forward(stage, plan.primes._replace(tokens=plan.short), budget=budget, decode=False)
        return build_fits(key, long, plan.windows[0]) + build_fits(key, pareto_peaks(short.moments), 0)
    except UnsupportedModel:  # below the window an extent could not be told from a width: the longer prompt's fits stand in
        return build_fits(key, long, 0)


def _sample(stage: PartialModel, key: Key, tokens: int) -> list[ActivationFit]:
    """A straight line through the peaks of three plain runs; and the larger peak at a few tokens, where only weights make temporaries."""
    peaks = {}
    for point in ((1, tokens), (2, tokens), (1, 2 * tokens), (1, _FEW), (1, 2 * _FEW)):
        trace = trace_forward(stage, meta_device.Lengths(*point, _SHORT_ENCODER), budget=4 * _PROBE_BUDGET, symbolic=False, decode=False)
        peaks[point] = max(moment.get((0, 0, 0), 0) for moment in trace.moments)
    least, longer = (float(peaks.pop((1, few))) for few in (_FEW, 2 * _FEW))
    line, per_token = interpolate(key, peaks), (longer - least) / _FEW
    if least <= line.constant + line.per_sequence + line.per_token * _FEW:
        return [line]
    return [line, replace(line, constant=least - per_token * _FEW, per_sequence=0.0, per_token=per_token)]
