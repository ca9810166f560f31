"""The time of any engine step, looked up: n sequences that decode and m prompt tokens that are read in the same forward pass.

    step(n, m, T) = forward pass over n + m tokens, the n sequences with T tokens of cache each       attention(a, b) = A(b) - A(a)

A simulation asks for hundreds of thousands of steps, and the laws of `lib.speed.timing` take a quarter of a millisecond for one question
or ten for thousands. So they are asked once, for a grid of n, m and T, and values between are interpolated linearly. The laws are linear in
T except for eager engines. The grids of n and m are narrow: interpolated values have a median error below 0.2 % and a maximum error below 3
% (tests/speed/test_steps.py). A(T) is the attention over a prompt of T tokens, which chunks of a prompt share by their places in it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from lib.catalog.offers import Hardware
from lib.catalog.silicon import Accelerator
from lib.errors import UnsupportedModel
from lib.laws.forward_pass import Array
from lib.model.spec import ModelSpec
from lib.speed.batch import CostModelInputs, EngineConfig, SpeedRequest, describe_passes, resolve_engine_config, tabulate
from lib.speed.calibration import ENGINES, Constants, load_calibration
from lib.speed.predict import STATIC_BATCH_ENGINES, predict_engine_configs
from lib.speed.timing import reach_rates, steps_waited, time_forward_pass, time_prefill

_GROWTH = 1.2
_LENGTHS = 15
_ATTENTION_POINTS = 129


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTable:
    """Seconds of steps on a grid, and of attention over prompts.

    `seconds[i][j][k]` is a step with `sequences[i]` that decode, `prefill[j]` tokens of prompts and `cached[k]` tokens of cache each;
    `attention_seconds[i]` is the attention over a prompt of `attention_tokens[i]`.
    To the prompt of a request the laws add `fixed_s`, its fixed time, and while others decode `steps_waited` decode steps (κ of
    `lib.laws.serving`, 0 if a batch starts together).
    """

    sequences: list[float]
    prefill: list[float]
    cached: list[float]
    seconds: list[list[list[float]]]
    attention_tokens: list[float]
    attention_seconds: list[float]
    steps_waited: float
    fixed_s: float

    def step_s(self, sequences: int, prefill_tokens: int, cached_tokens: float) -> float:
        """Seconds of one step; `cached_tokens` is the mean of the sequences that decode. The attention over prompts is not in it."""
        at_n, of_n = _place(self.sequences, sequences)
        at_t, of_t = _place(self.cached, cached_tokens)
        low, high = self.seconds[at_n], self.seconds[at_n + 1]
        if not prefill_tokens:  # the most frequent question
            below = low[0][at_t] + of_t * (low[0][at_t + 1] - low[0][at_t])
            above = high[0][at_t] + of_t * (high[0][at_t + 1] - high[0][at_t])
            return below + of_n * (above - below)
        at_m, of_m = _place(self.prefill, prefill_tokens)
        ends = []
        for rows in (low, high):
            less, more = rows[at_m], rows[at_m + 1]
            below = less[at_t] + of_t * (less[at_t + 1] - less[at_t])
            above = more[at_t] + of_t * (more[at_t + 1] - more[at_t])
            ends.append(below + of_m * (above - below))
        return ends[0] + of_n * (ends[1] - ends[0])

    def attention_s(self, done: int, until: int) -> float:
        """Seconds of attention while a prompt is read from the token `done` to the token `until`."""
        return self._attention(until) - self._attention(done)

    def _attention(self, tokens: int) -> float:
        at, of = _place(self.attention_tokens, tokens)
        low, high = self.attention_seconds[at : at + 2]
        return low + of * (high - low)


def _place(grid: Sequence[float], value: float) -> tuple[int, float]:
    """The interval of a value, and the share of it below the value; beyond the last interval its line goes on."""
    at = min(max(bisect_right(grid, value) - 1, 0), len(grid) - 2)
    return at, (value - grid[at]) / (grid[at + 1] - grid[at])


def _whole_grid(most: int, *also: int) -> list[float]:
    """0, 1, 2 … with growing distances up to `most`, with these among them."""
    grid, value = {0, 1, most, *(one for one in also if 0 < one <= most)}, 1.0
    while value < most:
        grid.add(int(value))
        value = max(value + 1.0, value * _GROWTH)
    return [float(one) for one in sorted(grid)]


def tabulate_steps(
    inputs: CostModelInputs, constants: Constants, *, sequences: int, prefill_tokens: int, longest: int, prompt_tokens: int, ttft_s: float
) -> StepTable:
    """The table for the only row of `inputs`, for up to `sequences` that decode, `prefill_tokens` in a step and `longest` tokens of one.

    `prompt_tokens` is the usual prompt, whose time is in the table as the laws give it. `ttft_s` is its time to the first token when no
    other request runs.
    """
    ns, ms = _whole_grid(max(2, sequences)), _whole_grid(max(2, prefill_tokens), prompt_tokens)
    ts = (
        1.0 + max(1.0, float(longest) - 1.0) * np.linspace(0.0, 1.0, _LENGTHS) ** 2
    )  # dense where an eager step turns from launches to cache
    n, m, t = (np.ravel(axis) for axis in np.meshgrid(ns, ms, ts, indexing="ij"))
    rows = inputs.take(np.zeros(len(n), dtype=np.int64))
    rates = reach_rates(rows, constants)
    passes = time_forward_pass(
        rows, constants, rates, tokens=np.maximum(n + m, 1.0), cached_tokens=np.where(n > 0, t, 0.0), sequences=np.maximum(n, 1.0)
    )
    whole = passes.total.reshape(len(ns), len(ms), len(ts))
    prompts = np.unique(np.append(np.linspace(1.0, max(2.0, float(longest)), _ATTENTION_POINTS), float(prompt_tokens)))
    attention, bubble = _prompts(inputs, constants, prompts, ms)
    decoding = np.where(np.asarray(ns)[:, None] > 0, whole[:, 0, :], 0.0)
    seconds = decoding[:, None, :] + (whole - decoding[:, None, :]) * bubble[None, :, None]
    static = ENGINES[int(inputs.engine[0])] in STATIC_BATCH_ENGINES
    table = StepTable(
        sequences=ns,
        prefill=ms,
        cached=ts.tolist(),
        seconds=seconds.tolist(),
        attention_tokens=[0.0, *prompts.tolist()],
        attention_seconds=[0.0, *attention.tolist()],
        steps_waited=0.0 if static else float(steps_waited(inputs, constants)[0]),
        fixed_s=0.0,
    )
    read_s = table.step_s(0, prompt_tokens, 0.0) + table.attention_s(0, prompt_tokens)
    return replace(table, fixed_s=max(0.0, ttft_s - read_s))


def _prompts(inputs: CostModelInputs, constants: Constants, prompts: Array, chunks: Sequence[float]) -> tuple[Array, Array]:
    """Seconds of attention over whole prompts, and the share of a chunk's time that stages at work at the same time leave of it.

    Each is of the shape of what it is asked for: `prompts` tokens, and `chunks` tokens.
    """
    lengths = np.append(prompts, np.maximum(chunks, 1.0))
    rows = replace(inputs.take(np.zeros(len(lengths), dtype=np.int64)), prompt_tokens=lengths)
    read = time_prefill(rows, constants, reach_rates(rows, constants), sequences=1.0)
    share = read.total / (read.matrices.total + read.attention)
    return (read.attention * share)[: len(prompts)], share[len(prompts) :]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedModel:
    """A model as an engine serves it: the times of its steps, and the configuration that they are of."""

    engine_config: EngineConfig
    steps: StepTable


def ridge_sequences(config: EngineConfig, most: int = 4096) -> int | None:
    """The fewest sequences with which the arithmetic of a decode step takes longer than reading the weights; None up to `most`.

    Below it, weights of fewer bytes make a step shorter; from it on, only faster arithmetic does (Williams et al. 2009, the ridge point).
    """
    row, _ = describe_passes(config)
    counts = np.arange(1, most + 1, dtype=np.float64)
    rows, constants = tabulate([row], [config.ceilings]).take(np.zeros(most, dtype=np.int64)), load_calibration().constants
    rates = reach_rates(rows, constants)
    step = time_forward_pass(rows, constants, rates, tokens=counts, cached_tokens=0.0, sequences=counts)
    bound = np.flatnonzero(step.compute >= step.weights)
    return int(counts[bound[0]]) if len(bound) else None


def resolve_steps(
    spec: ModelSpec,
    hardware: Hardware,
    request: SpeedRequest,
    accelerators: Mapping[str, Accelerator],
    *,
    sequences: int,
    prefill_tokens: int,
    longest: int,
) -> ServedModel:
    """The steps of a model on hardware; `request` states precision, engine and the usual lengths. For each of its independent replicas.

    Raises:
        BadArgument: the precision is unknown, or the engine needs other hardware.
        UnknownHardware: a CPU of which nothing is known.
        UnsupportedModel: a model that generates no tokens from tokens.
    """
    lone = replace(request, concurrency=1)
    of = resolve_engine_config((spec, hardware, lone), accelerators)
    row, encoder = describe_passes(of)
    if of.work.decoder is None or encoder is not None:
        raise UnsupportedModel(
            f"{spec.id or 'This model'} does not generate text token by token, so its steps cannot be batched as traffic."
        )
    steps = tabulate_steps(
        tabulate([row], [of.ceilings]),
        load_calibration().constants,
        sequences=sequences,
        prefill_tokens=prefill_tokens,
        longest=longest,
        prompt_tokens=request.prompt_tokens,
        ttft_s=float(predict_engine_configs([of]).ttft_s.value[0]),
    )
    return ServedModel(engine_config=of, steps=steps)
