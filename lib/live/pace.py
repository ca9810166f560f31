"""How long a run would take here, found by two small matrix products in the dtype of the run: before anything big is made.

    t = W / m  +  2 · P · (w + T) / φ  +  N · (R / β + ℓ · L)

W bytes of weights to make, m bytes a second that are made; P parameters that a token uses, T tokens of the prompt, w of the warm-up,
φ FLOP/s of a product of many rows; N tokens to decode, R bytes a step reads, β bytes/s of a product of one row; L layers, ℓ seconds of
host time per layer. Attention and cache are left out: it is an estimate that keeps hopeless runs from starting, no prediction.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lib.live.run_model import WARM_PROMPT, WARM_TOKENS

if TYPE_CHECKING:
    from collections.abc import Callable

SIDE, ROWS = 2048, 128
_AT_MOST_S = 0.1
"""Of repetitions, after the first two calls."""
MADE_BYTES_PER_S = {"cpu": 0.7e9, "cuda": 50e9}
"""An allowance, not a measurement: noise is copied into new pages."""
LAYER_S = 0.0005
_TIMES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What a run has to do, in plain numbers."""

    weights_bytes: int
    parameters_per_token: int
    step_bytes: int
    layers: int
    prompt_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """What the device does, measured just now."""

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


def _best(call: Callable[[], object], wait: Callable[[], None]) -> float:
    """Seconds of the fastest of a few calls; the first loads the kernel."""
    call()
    seconds: list[float] = []
    while not seconds or (len(seconds) < _TIMES and sum(seconds) < _AT_MOST_S):
        wait()
        began = time.perf_counter()
        call()
        wait()
        seconds.append(time.perf_counter() - began)
    return max(min(seconds), 1e-9)


def probe(dtype: str, device: str, read_bytes: int = 0) -> Pace:
    """Time a product of many rows and one of a single row; it also brings in the libraries that every run needs.

    The single row goes through matrices of `read_bytes` in all, one at least: to leave the caches it takes several times their size.
    """
    import torch  # noqa: PLC0415 loaded when first needed

    def wait() -> None:
        if device != "cpu":
            torch.cuda.synchronize()

    kind: Any = {"dtype": getattr(torch, dtype), "device": device}
    with torch.inference_mode():
        count = max(1, -(-read_bytes // (SIDE * SIDE * kind["dtype"].itemsize)))
        matrices = [torch.full((SIDE, SIDE), 0.01, **kind) for _ in range(count)]
        many, one = torch.ones(ROWS, SIDE, **kind), torch.ones(1, SIDE, **kind)
        rows_s = _best(lambda: torch.nn.functional.linear(many, matrices[0]), wait)
        row_s = _best(lambda: [torch.nn.functional.linear(one, matrix) for matrix in matrices], wait)
        part = many.view(1, ROWS, -1, 64).transpose(1, 2)
        torch.nn.functional.scaled_dot_product_attention(part, part, part, is_causal=True)
    return Pace(flop_per_s=2 * ROWS * SIDE * SIDE / rows_s, bytes_per_s=sum(matrix.nbytes for matrix in matrices) / row_s)


def duration(work: Work, pace: Pace, device: str) -> Duration:
    """Seconds that the work takes at this pace."""
    read = 2 * work.parameters_per_token * (WARM_PROMPT + work.prompt_tokens) / pace.flop_per_s
    step = work.step_bytes / pace.bytes_per_s + LAYER_S * work.layers
    return Duration(
        weights_s=work.weights_bytes / MADE_BYTES_PER_S[device],
        prompt_s=read,
        decode_s=(WARM_TOKENS + work.output_tokens) * step,
    )
