"""Limits of a run: it is refused, with the arithmetic, when it needs more memory than is free or more time than a run may take.

    t = W / m  +  2 · P · (w + T) / φ  +  N · (R / β + ℓ · L)

W bytes of weights to create, m bytes created per second; P parameters used per token, T prompt tokens, w tokens of the warm-up;
N tokens to decode, R bytes read per step; L layers, ℓ seconds of launch overhead per layer. φ (FLOP/s of a product of many rows) and
β (bytes/s of a product of one row) are measured on the device first. Attention and cache are left out: the estimate only keeps hopeless
runs from starting.

The same two rates describe this machine's CPU to the speed laws, as a datasheet describes a card: the catalog knows a CPU only by its
number of virtual processors, and CPUs of one size differ several-fold (vector units, emulated 16-bit arithmetic, other load). They are
measured in the arithmetic of the run, over matrices larger than any cache, in 0.05 to 0.3 s; the fastest measurement counts.
Limits: they are rates of one matrix size, and a busy machine is slower.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from lib.errors import DoesNotFit, TooLong
from lib.live.device import last_cache_bytes
from lib.precision import TORCH_DTYPES
from lib.provenance import Caveat, Source
from lib.units import GIB, MIB, BytesPerSecond, FlopPerSecond

if TYPE_CHECKING:
    import torch

    from lib.answers.live import MemoryNeed
    from lib.catalog.silicon import Accelerator
    from lib.live.device import Device

SIDE, ROWS = 2048, 128
WARM_PROMPT, WARM_TOKENS = 16, 3
_AT_MOST_S = 0.1
"""Of repetitions, after the first two calls."""
NOISE_BYTES_PER_S = {"cpu": 0.7e9, "cuda": 50e9}
"""An allowance, not a measurement: noise is copied into new pages."""
LAYER_S = 0.0005
_TIMES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class RunWork:
    """The work of a run, in bytes, parameters, layers and tokens."""

    weights_bytes: int
    parameters_per_token: int
    step_bytes: int
    layers: int
    prompt_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceRates:
    """The rates of the device, measured just now."""

    flop_per_s: float
    bytes_per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Duration:
    """Seconds by what they are spent on."""

    weights_s: float
    prompt_s: float
    decode_s: float

    @property
    def total_s(self) -> float:
        """All of it."""
        return self.weights_s + self.prompt_s + self.decode_s


def _fastest(call: Callable[[], object], wait: Callable[[], object], goes_on: Callable[[int, float], bool]) -> float:
    """Seconds of the fastest call, the first (which loads the kernel) not counted; `goes_on(calls, seconds)`: whether to call again."""
    call()
    wait()
    best, calls, began = math.inf, 0, time.perf_counter()
    while not calls or goes_on(calls, time.perf_counter() - began):
        start = time.perf_counter_ns()
        call()
        wait()
        best, calls = min(best, (time.perf_counter_ns() - start) / 1e9), calls + 1
    return max(best, 1e-9)


def measure_rates(dtype: str, device: str, read_bytes: int = 0) -> DeviceRates:
    """Time a product of many rows and one of a single row; it also brings in the libraries that every run needs.

    The single row goes through matrices of `read_bytes` in all, one at least: to leave the caches it takes several times their size.
    """
    import torch  # noqa: PLC0415 loaded when first needed

    def wait() -> None:
        if device != "cpu":
            torch.cuda.synchronize()

    def few(calls: int, seconds: float) -> bool:
        return calls < _TIMES and seconds < _AT_MOST_S

    kind: Any = {"dtype": getattr(torch, dtype), "device": device}
    with torch.inference_mode():
        count = max(1, -(-read_bytes // (SIDE * SIDE * kind["dtype"].itemsize)))
        matrices = [torch.full((SIDE, SIDE), 0.01, **kind) for _ in range(count)]
        many, one = torch.ones(ROWS, SIDE, **kind), torch.ones(1, SIDE, **kind)
        rows_s = _fastest(lambda: torch.nn.functional.linear(many, matrices[0]), wait, few)
        row_s = _fastest(lambda: [torch.nn.functional.linear(one, matrix) for matrix in matrices], wait, few)
        part = many.view(1, ROWS, -1, 64).transpose(1, 2)
        torch.nn.functional.scaled_dot_product_attention(part, part, part, is_causal=True)
    return DeviceRates(flop_per_s=2 * ROWS * SIDE * SIDE / rows_s, bytes_per_s=sum(matrix.nbytes for matrix in matrices) / row_s)


SMALL_BYTES = 8 * MIB
_PASSES, _ENOUGH_S, _LIMIT_S = 12, 0.15, 3.0  # at least so many passes, for so long; less only where the limit ends first
_FLOAT = 4


def _read_rate(size_bytes: int, device: torch.device, wait: Callable[[], object]) -> float:
    import torch  # noqa: PLC0415 loaded when first needed

    width = max(1, math.isqrt(size_bytes // _FLOAT))
    height = max(1, size_bytes // _FLOAT // width)
    matrix, vector = torch.ones(height, width, device=device), torch.ones(width, device=device)
    again = max(1, min(64, 2**21 // size_bytes)) if size_bytes else 1  # several reads per pass, so that the clock's own cost fades

    def many(passes: int, seconds: float) -> bool:
        return seconds <= _LIMIT_S and (passes < _PASSES or seconds < _ENOUGH_S)

    def by_product() -> None:
        for _ in range(again):
            torch.mv(matrix, vector)

    def by_sum() -> None:
        for _ in range(again):
            matrix.sum()

    return again * height * width * _FLOAT / min(_fastest(by_product, wait, many), _fastest(by_sum, wait, many))


def read_bandwidth(size_bytes: int, device: torch.device, wait: Callable[[], object]) -> float:
    """Bytes per second at which a working set of this size is read; `wait` returns when the device has done all that it was given.

    A float32 matrix of that size is multiplied by a vector, which reads each element once. The fastest of several passes counts, because
    other load only makes a pass slower. Limits: a call takes a microsecond or more, so sets below some MiB look slower than they are; the
    rate of `SMALL_BYTES` replaces theirs where it is higher.
    """
    sizes = {size_bytes, max(size_bytes, SMALL_BYTES)}
    return max(_read_rate(size, device, wait) for size in sizes)


def estimate_duration(work: RunWork, pace: DeviceRates, device: str) -> Duration:
    """Seconds that the work takes at this pace."""
    read = 2 * work.parameters_per_token * (WARM_PROMPT + work.prompt_tokens) / pace.flop_per_s
    step = work.step_bytes / pace.bytes_per_s + LAYER_S * work.layers
    return Duration(
        weights_s=work.weights_bytes / NOISE_BYTES_PER_S[device],
        prompt_s=read,
        decode_s=(WARM_TOKENS + work.output_tokens) * step,
    )


LIMIT_S = {"cpu": 120.0, "cuda": 120.0, "zerogpu": 60.0}
"""Seconds that a run is estimated to take at most, by kind of device."""
OVERRUN = 2.0
START_S = 60.0
"""A run is ended when it takes `OVERRUN` times its limit, and `START_S` for Python, torch and transformers on a busy machine."""
SHARE = {"cpu": 0.9, "cuda": 0.95, "zerogpu": 0.95}
"""Share of the free memory that a run may use. The rest is for other work meanwhile, and for the allocator's rounding."""


def _gib(count: float) -> str:
    return f"{count / GIB:,.2f} GiB"


def usable_bytes(device: Device) -> int:
    """Bytes that a run may take on the device now."""
    return int(device.free_bytes * SHARE[device.kind])


def required_free_bytes(need: MemoryNeed, device: Device) -> int:
    """The least free memory in which `check_memory` lets a run start."""
    return math.ceil(need.total_bytes / SHARE[device.kind]) + 1  # `usable_bytes` rounds down


_LIBRARIES_BYTES = GIB
_TIMES_PREDICTED = 2


def memory_limit_bytes(need: MemoryNeed, device: Device) -> int:
    """Bytes that the process of a run may take on a CPU: twice the prediction and a gibibyte for libraries, never more than is free.

    A run that exceeds it was predicted wrongly by far; it ends before it takes memory that others need. 0 on a card: no bound.
    """
    return min(device.free_bytes, _TIMES_PREDICTED * need.total_bytes + _LIBRARIES_BYTES) if device.kind == "cpu" else 0


def check_memory(need: MemoryNeed, device: Device, advice: str) -> None:
    """Refuse a run that is predicted not to fit.

    Args:
        need: the prediction.
        device: as it is now.
        advice: a sentence about a run that would fit.
    """
    allowed = usable_bytes(device)
    if need.total_bytes > allowed:
        raise DoesNotFit(
            f"This run needs {_gib(need.total_bytes)}: weights {_gib(need.weights_bytes)} + cache {_gib(need.kv_cache_bytes)} + "
            f"activations {_gib(need.activation_bytes)} + process {_gib(need.runtime_bytes)}. {device.name} has {_gib(device.free_bytes)} "
            f"free, of which a run may take {_gib(allowed)}. {advice}"
        )


def check_time(work: RunWork, pace: DeviceRates, needed: Duration, limit_s: float) -> None:
    """Refuse a run that would take longer than allowed."""
    if needed.total_s <= limit_s:
        return
    rest = limit_s - needed.weights_s - needed.decode_s
    tokens = int(rest * pace.flop_per_s / (2 * work.parameters_per_token)) - 32
    instead = f"A prompt of {tokens:,} tokens would do" if tokens > 0 else "Name a smaller model, or ask for fewer tokens"
    raise TooLong(
        f"This run would take about {needed.total_s:,.0f} s: {needed.weights_s:,.0f} s to make {_gib(work.weights_bytes)} of weights, "
        f"{needed.prompt_s:,.0f} s for {work.prompt_tokens:,} prompt tokens × {2 * work.parameters_per_token / 1e9:,.2f} GFLOP at "
        f"{pace.flop_per_s / 1e9:,.0f} GFLOP/s, {needed.decode_s:,.0f} s for {work.output_tokens:,} tokens × {_gib(work.step_bytes)} at "
        f"{pace.bytes_per_s / 1e9:,.1f} GB/s (both measured on this device just now). A run may take {limit_s:,.0f} s. {instead}."
    )


RATES_VALID_S = 60.0
_CACHES, _LEAST, _MOST = 4, 64 << 20, 512 << 20  # the working set: so many times the last cache, within these bytes

MeasureRates = Callable[[str, str, int], DeviceRates]


class RateProbe:
    """The best rates of this machine by type, measured when they are first asked for and again when they are old."""

    def __init__(self, run: MeasureRates = measure_rates, now: Callable[[], float] = time.monotonic) -> None:
        """`run` measures, `now` is the clock in seconds."""
        self._run, self._now = run, now
        self._rates: dict[str, tuple[float, DeviceRates]] = {}
        self._one = threading.Lock()  # two at a time would measure each other

    def __call__(self, device: Device, precision: str) -> DeviceRates | None:
        """The rates in this precision; None for a card, which has a datasheet, and for a format that no product is computed in."""
        if device.kind != "cpu":
            return None
        dtype = TORCH_DTYPES.get(precision)
        if dtype is None:
            return None
        with self._one:
            at, pace = self._rates.get(dtype, (-math.inf, DeviceRates(flop_per_s=0.0, bytes_per_s=0.0)))
            if self._now() - at > RATES_VALID_S:
                new = self._run(dtype, "cpu", choose_working_set(last_cache_bytes(), device.free_bytes))
                pace = DeviceRates(flop_per_s=max(pace.flop_per_s, new.flop_per_s), bytes_per_s=max(pace.bytes_per_s, new.bytes_per_s))
                self._rates[dtype] = self._now(), pace
            return pace


def choose_working_set(cache_bytes: int, free_bytes: int) -> int:
    """Bytes to read: enough that a cache serves almost none of them, and never more than a quarter of the free memory."""
    return min(max(_CACHES * cache_bytes, _LEAST), _MOST, free_bytes // 4)


device_rates = RateProbe()
"""Those of this process."""


def apply_measured_rates(pace: DeviceRates, precision: str, device: Device, accelerator: Accelerator) -> Accelerator:
    """The processor with the rates that were measured: of `accelerator` only what it computes natively is left."""
    today = datetime.now(UTC).date().isoformat()
    source = Source(
        what=f"rates of this processor: {pace.bytes_per_s / 1e9:.1f} GB/s and {pace.flop_per_s / 1e9:.0f} GFLOP/s in {precision}",
        source=f"measured on this machine with torch {device.torch}: products of {ROWS} rows and of one row with "
        f"matrices of {SIDE} × {SIDE}",
        checked=today,
    )
    return accelerator.model_copy(
        update={
            "id": "this-machine",
            "name": f"{device.name}, as measured",
            "bandwidth": BytesPerSecond(pace.bytes_per_s),
            "peaks": dict.fromkeys(accelerator.peaks) | {precision: FlopPerSecond(pace.flop_per_s)},
            "vcpu": device.cores,
            "notes": "",
            "sources": (source,),
            "checked": today,
            "reached": True,
        }
    )


def rates_caveat(pace: DeviceRates, precision: str) -> Caveat:
    """Caveats of a prediction from these rates."""
    return Caveat("rates_measured", {"gb_per_s": pace.bytes_per_s / 1e9, "gflop_per_s": pace.flop_per_s / 1e9, "precision": precision})
