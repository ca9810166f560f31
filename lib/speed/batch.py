"""From questions to cases: one row for the decoder (or the encoder, where there is only that), one more for an encoder before a decoder.

Cases as columns: one entry per combination of a model, hardware and a request; every law works on all of them at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lib import precision as precisions
from lib.catalog.offers import Offer
from lib.catalog.silicon import Accelerator, Cards
from lib.errors import UnsupportedModel
from lib.laws.forward_pass import Array, cache_bytes_read
from lib.laws.serving import running_requests
from lib.model.spec import ModelSpec
from lib.precision import weight_format
from lib.speed.constants import ADMITTED, EAGER, ENGINES, FORMS
from lib.speed.hardware import Ceilings, Layout, Machine, ceilings, layout, machine
from lib.speed.model_work import ModelNumbers, Stack, model_numbers
from lib.speed.result import SpeedRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Cases:
    """What the laws take, in base units; arrays of n entries, `bandwidth` and `compute` of n × (card classes + 1).

    Model: bytes of dense weights and of routed experts, experts and how many a token reaches, parameters a token uses, layers, hidden
    size, attention width, layers with full and windowed attention, the sums of `lib.laws.forward_pass`, and over how many devices
    the cache can be divided at most (its heads). Hardware: datasheet ceilings of one device by class and rates that were reached on it
    (`lib.speed.hardware`), memory of one device, link of one device in bytes/s, whether that is the bus to the host. Layout: devices that
    split every layer, devices that hold layers one after another, independent copies. `row_split` and `staged`: llama.cpp's two ways.
    Request: prompt, answer, sequences, and the allocated length that static caches read (0 elsewhere).
    """

    engine: NDArray[np.int64]
    form: NDArray[np.int64]
    eager: NDArray[np.bool_]
    dense_bytes: Array
    expert_bytes: Array
    experts: Array
    per_token: Array
    active: Array
    layers: Array
    hidden: Array
    width: Array
    full_layers: Array
    windowed_layers: Array
    cache_constant: Array
    cache_per_token: Array
    cache_windowed: Array
    window: Array
    cache_split: Array
    bandwidth: Array
    compute: Array
    memory: Array
    link: Array
    bus: NDArray[np.bool_]
    split: Array
    stages: Array
    copies: Array
    row_split: NDArray[np.bool_]
    staged: NDArray[np.bool_]
    prompt: Array
    answer: Array
    batch: Array
    static: Array

    def __len__(self) -> int:
        """How many cases."""
        return len(self.engine)

    def take(self, which: NDArray[np.bool_] | NDArray[np.int64]) -> Cases:
        """Some of the cases."""
        return Cases(**{f.name: getattr(self, f.name)[which] for f in fields(self)})


Question = tuple[ModelSpec, Offer | Cards, SpeedRequest]
_KINDS = {"engine": np.int64, "form": np.int64, "eager": np.bool_, "bus": np.bool_, "row_split": np.bool_, "staged": np.bool_}
_FILL = 0.5


class Setup(NamedTuple):
    """A question with everything decided."""

    spec: ModelSpec
    on: Machine
    laid: Layout
    request: SpeedRequest
    precision: str
    compute: str
    numbers: ModelNumbers
    arithmetic: str
    ceilings: Ceilings
    running: float


def arithmetic_of(precision: str, compute: str, card: Accelerator, engine: str) -> str:
    """The units that multiply weights of this format: its own where the silicon has a rate for them, else those of the compute dtype.

    llama.cpp multiplies quantized weights with 8-bit integer units of a GPU; bitsandbytes' int8 spends its time elsewhere.
    """
    form = weight_format(precision)
    if form.law == "gguf" and form.bits < 16 and engine == "llama.cpp":  # noqa: PLR2004
        return "int8"
    if form.law == "plain" or not form.arithmetic or form.law == "bnb8":
        return compute
    return form.arithmetic if card.peak(form.arithmetic) else compute


def setup(question: Question, accelerators: Mapping[str, Accelerator]) -> Setup:
    """Decide precision, layout and how many requests run at once; `accelerators` are the catalog's, as in `lib.speed.hardware`.

    Raises:
        BadArgument: the precision is unknown, or the engine needs other hardware.
        UnknownHardware: a CPU of which nothing is known.
        UnsupportedModel: nothing is known about the model's work per token.
    """
    spec, hardware, request = question
    if spec.library == "diffusers":
        raise UnsupportedModel(f"{spec.id or 'A pipeline'} makes pictures: its speed does not follow from tokens.")
    on = machine(hardware, accelerators)
    precision = precisions.resolve(request.precision, spec, request.engine, on.silicon)
    compute = precisions.compute_dtype(precision, spec, on.silicon)
    if precision == "gguf:F32":
        compute = "fp16"
    wanted = request.engine
    laid = layout(on, wanted, spec)
    numbers = model_numbers(spec, precision, compute, request.kv_precision, recorded=laid.engine not in EAGER)
    arithmetic = arithmetic_of(precision, compute, on.silicon, laid.engine)
    return Setup(
        spec=spec,
        on=on,
        laid=laid,
        request=request,
        precision=precision,
        compute=compute,
        numbers=numbers,
        arithmetic=arithmetic,
        ceilings=ceilings(on.silicon, on.share, arithmetic, accelerators),
        running=_running(numbers, on, laid, request),
    )


def _running(n: ModelNumbers, on: Machine, laid: Layout, request: SpeedRequest) -> float:
    """Requests that run at once, of those in flight: what fits beside the weights, and what the engine takes."""
    if n.decoder is None or not on.memory:
        return float(request.concurrency)
    held = cache_bytes_read(
        constant=n.cache_constant,
        per_token=n.cache_per_token,
        windowed_per_token=n.cache_windowed,
        window=n.window,
        tokens=request.prompt_tokens + request.output_tokens * _FILL,
    )
    copied = laid.split / min(laid.split, n.cache_split)
    limit = float("inf") if laid.engine in EAGER else ADMITTED.get(laid.engine, 256)
    one = running_requests(
        limit=limit, memory=on.memory * laid.split * laid.stages, weight_bytes=n.total_bytes, sequence_bytes=held * copied
    )
    return min(float(request.concurrency), float(one) * laid.copies)


def _row(s: Setup, stack: Stack, prompt: float, answer: float, *, cached: bool) -> dict[str, float]:
    n = s.numbers
    return {
        "engine": ENGINES.index(s.laid.engine), "form": FORMS.index(n.form), "eager": s.laid.engine in EAGER,
        "dense_bytes": stack.dense_bytes, "expert_bytes": stack.expert_bytes, "experts": stack.experts, "per_token": stack.per_token,
        "active": stack.active, "layers": stack.layers, "hidden": stack.hidden, "width": stack.width,
        "full_layers": stack.full_layers, "windowed_layers": stack.windowed_layers,
        "cache_constant": n.cache_constant if cached else 0.0, "cache_per_token": n.cache_per_token if cached else 0.0,
        "cache_windowed": n.cache_windowed if cached else 0.0, "window": n.window, "cache_split": n.cache_split,
        "memory": s.on.memory, "link": s.on.link, "bus": s.on.bus, "split": s.laid.split, "stages": s.laid.stages,
        "copies": min(s.laid.copies, s.running),
        "row_split": False, "staged": s.laid.staged, "prompt": prompt, "answer": answer, "batch": s.running, "static": 0.0,
    }  # fmt: skip


def rows(s: Setup) -> tuple[dict[str, float], dict[str, float] | None]:
    """The case of a question, and that of the encoder that runs before its decoder."""
    n, r = s.numbers, s.request
    if n.decoder is None:
        assert n.encoder is not None  # noqa: S101 one of the two is always there
        return _row(s, n.encoder, r.prompt_tokens, 1.0, cached=False), None
    if n.encoder is None:
        return _row(s, n.decoder, r.prompt_tokens, r.output_tokens, cached=True), None
    heard = n.encoder_tokens if s.spec.task == "automatic-speech-recognition" else r.prompt_tokens
    return _row(s, n.decoder, 1.0, r.output_tokens, cached=True), _row(s, n.encoder, heard, 1.0, cached=False)


def cases(of: Sequence[Setup], held: Sequence[dict[str, float]]) -> Cases:
    """Rows as columns."""
    names = [f.name for f in fields(Cases) if f.name not in {"bandwidth", "compute"}]
    table = np.array([[row[name] for name in names] for row in held], dtype=np.float64)
    columns: dict[str, Any] = {name: table[:, at].astype(_KINDS.get(name, np.float64)) for at, name in enumerate(names)}
    return Cases(bandwidth=np.array([s.ceilings.bandwidth for s in of]), compute=np.array([s.ceilings.compute for s in of]), **columns)
