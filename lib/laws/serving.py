"""A server with many requests: how many run at once, time to first token, time per output token, throughput, waits.

Closed loop: a request that ends is replaced at once, so each of the b requests in flight begins once per cycle of p + O·s.

    p  seconds of one prompt (prefill)      O  output tokens of a request      t(n)  seconds of a decode step of n sequences
    s  mean time per output token (TPOT)    f  mean time to first token (TTFT)

Every law is at its function, in this order: requests that run, TPOT and TTFT, throughput at full load, and, for arrivals at random
instead of a closed loop, Erlang's waits.
Limits: prompts answered from a prefix cache are not read. Source of the closed loop: mean-value reasoning, Reiser and Lavenberg 1980,
doi:10.1145/322186.322195; shares from `scripts/calibrate.py`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from lib.laws import Law
from lib.laws.forward_pass import FITTED_CONSTANTS, Array, Quantity

_CLOSED_LOOP = "closed loop, Reiser and Lavenberg 1980, doi:10.1145/322186.322195; " + FITTED_CONSTANTS
INTERRUPTIONS = Law("share of a prompt · time of a prompt · other requests / output tokens", _CLOSED_LOOP)
PROMPTS_AHEAD = Law("time of a prompt · share ahead · other requests", _CLOSED_LOOP)
STEPS_WAITED = Law("steps waited · time per output token · chance that others decode", _CLOSED_LOOP)
FIXED_TIME = Law("fixed time of a request in this engine", FITTED_CONSTANTS)
PLACES = Law("(in flight / running - 1) · time of a request", "Reiser and Lavenberg 1980, doi:10.1145/322186.322195")
"""Parts of a request's wait, as an explained answer shows it; each is 0 or more."""

MEAN_FILL = 0.5
"""Share of its answer that a running request holds in the cache on average."""
FULL_LOAD_FILL = 0.6
"""The same where more requests wait than run; with this share the factor of full load was fitted."""
_CLAIMED = 0.92
_LEAST = 0.02


def running_requests(*, limit: Quantity, memory: Quantity, weight_bytes: Quantity, sequence_bytes: Quantity) -> Array:
    """Sequences that an engine runs at once when more wait than it takes: max(1, min(limit, (0.92 · M - W) / C(T))).

        limit  the engine's own (max_num_seqs)      M  memory of the devices that share the model      W  weights
        C(T)   cache of one sequence at its mean length

    Not rounded down, so that it is smooth for the fit. 0.92 is the share of the memory that servers claim by default (vLLM 0.9,
    TensorRT-LLM 0.9 of the free memory, SGLang about 0.9). Where the weights leave less than 2 % of the memory, 2 % is taken: something
    ran, or there would be no measurement. Limits: the limit can be configured; paging and prefix sharing admit more.
    Source: the engines' documented defaults.

    A 16.06 GB model on 24 GB leaves 6.02 GB: 22.4 sequences of 2048 tokens of 128 KiB:

    >>> round(float(running_requests(limit=256, memory=24e9, weight_bytes=16.06e9, sequence_bytes=2048 * 131072)), 1)
    22.4
    """
    free = np.maximum(_CLAIMED * np.asarray(memory, dtype=np.float64) - weight_bytes, np.multiply(memory, _LEAST))
    return np.asarray(np.maximum(1.0, np.minimum(limit, free / np.maximum(sequence_bytes, 1.0))))


def decoding_requests(*, requests: Quantity, prompt_s: Quantity, step_s: Quantity, output_tokens: Quantity) -> Array:
    """Sequences that decode at the same time, of b in flight: 1 + (b - 1) · O·t / (O·t + p).

    Eight requests whose prompt takes as long as their whole output: 1 + 7 / 2:

    >>> float(decoding_requests(requests=8, prompt_s=2.0, step_s=0.02, output_tokens=100))
    4.5
    """
    answering = np.multiply(output_tokens, step_s)
    return np.asarray(1.0 + np.subtract(requests, 1.0) * answering / (answering + prompt_s))


def time_per_output_token(
    *, step_s: Quantity, prompt_s: Quantity, requests: Quantity, output_tokens: Quantity, interference: Quantity
) -> Quantity:
    """Mean seconds between two tokens of one answer (TPOT): t(n) + ι · p · (b - 1) / O.

    Every other request's prompt interrupts each answer once; ι is the share of a prompt's time that an answer loses, for chunks of a
    prompt share their steps with decoding (chunked prefill).
    """
    return step_s + interference * prompt_s * np.maximum(np.subtract(requests, 1.0), 0.0) / output_tokens


def chance_of_decoding(*, requests: Quantity, prompt_s: Quantity, step_s: Quantity, output_tokens: Quantity) -> Array:
    """Probability that a new request finds at least one of the other b - 1 decoding: 1 - (p / (p + (O - 1)·t))^(b - 1).

    Each of the others spends p seconds on its prompt, whose pass gives the first token, and decodes O - 1 steps. Grows with b from 0 for a
    lone request.

    Answers of one second after prompts of one second, one other and two:

    >>> [float(chance_of_decoding(requests=b, prompt_s=1.0, step_s=0.01, output_tokens=101)) for b in (1, 2, 3)]
    [0.0, 0.5, 0.75]
    """
    decodes = np.multiply(np.maximum(np.subtract(output_tokens, 1.0), 0.0), step_s)
    reads = prompt_s / np.maximum(np.add(prompt_s, decodes), 1e-12)
    return np.asarray(1.0 - np.power(reads, np.maximum(np.subtract(requests, 1.0), 0.0)))


class FirstToken(NamedTuple):
    """Mean seconds until the first token and their parts, each 0 or more: own prompt, prompts ahead, steps waited for, fixed time."""

    prompt_s: Quantity
    prompts_ahead_s: Quantity
    steps_s: Quantity
    fixed_s: Quantity

    @property
    def total(self) -> Array:
        """Their sum."""
        return np.asarray(self.prompt_s + self.prompts_ahead_s + self.steps_s + self.fixed_s)


def time_to_first_token(
    *,
    prompt_s: Quantity,
    requests: Quantity,
    decoding: Quantity,
    queued: Quantity,
    bunched: Quantity,
    tpot_s: Quantity,
    steps: Quantity,
    output_tokens: Quantity,
    fixed_s: Quantity,
) -> FirstToken:
    """Mean seconds until the first token (TTFT): p + p · (q · (b - 1) + φ · w) + min(κ, O - 1) · s · w + τ.

        q  share of the other prompts that are ahead     κ  decode steps waited for     τ  fixed time of a request in this engine
        φ  prompts ahead where requests of one length come bunched     w  chance that others decode (`chance_of_decoding`)

    While others decode, a request waits for the rest of the running step (half a step on average), and for the next step if an asynchronous
    scheduler has already queued it: for no more steps than an answer has. A lone request waits for nothing. Prompts are ahead where
    requests come together: in a benchmark of r rounds that starts all b at once, (b - 1) / 2 in the first round, so q = 1 / 2r; the fit
    finds that on runs of ten rounds, and no more from later rounds, for prompts that were read one after the other stay apart. Where every
    request has exactly one length, those that were read in adjacent steps also end in adjacent steps, and their successors arrive while
    prompts are being read. An engine that has scheduled the next step already reads them one later: they wait for φ prompts more, at every
    b. φ = 0 if lengths differ, or where the next step is scheduled only when one has ended (vLLM before 0.14). Limits: arrivals in
    bursts wait longer (`lib.traffic` simulates them).

    Alone the prompt and the fixed part, 0.2 + 0.02; among two also a step and a twentieth of the other prompt:

    >>> law = dict(prompt_s=0.2, queued=0.05, bunched=0.0, tpot_s=0.01, steps=1, output_tokens=100, fixed_s=0.02)
    >>> [round(float(time_to_first_token(requests=b, decoding=b - 1, **law).total), 3) for b in (1, 2)]
    [0.22, 0.24]
    """
    others = np.maximum(np.subtract(requests, 1.0), 0.0)
    waited = np.minimum(steps, np.maximum(np.subtract(output_tokens, 1.0), 0.0))
    return FirstToken(prompt_s, prompt_s * (queued * others + bunched * decoding), decoding * waited * tpot_s, fixed_s)


def queue_time(*, requests: Quantity, running: Quantity, ttft_s: Quantity, tpot_s: Quantity, output_tokens: Quantity) -> Quantity:
    """Mean seconds a request waits for a place when b are in flight and the engine runs n: (b / n - 1) · (f + O·s), at least 0.

    Forty requests, twenty places, requests of 2 s: each waits for one other to end:

    >>> float(queue_time(requests=40, running=20, ttft_s=1.0, tpot_s=0.01, output_tokens=100))
    2.0
    """
    return np.maximum(np.divide(requests, running) - 1.0, 0.0) * (ttft_s + np.multiply(output_tokens, tpot_s))


def full_load_throughput(*, prompt_s: Quantity, step_s: Quantity, running: Quantity, output_tokens: Quantity) -> Quantity:
    """Output tokens per second of an engine that always has more requests than it runs: O / (p + O · t(n) / n).

    Each request costs its own prompt, read in full chunks between the steps, and its share of O decode steps of n sequences.

    Prompts of 0.1 s, ten sequences, steps of 20 ms, 100 tokens: 100 / (0.1 + 0.2):

    >>> round(float(full_load_throughput(prompt_s=0.1, step_s=0.02, running=10, output_tokens=100)), 1)
    333.3
    """
    return output_tokens / (prompt_s + output_tokens * step_s / running)


def erlang_c(*, slots: int, load: float) -> float:
    """Probability that an arriving request has to wait for one of c slots; 1 when the load A = λ · T is not below the slots.

        λ  requests per second      T  mean time of a request once it is served, s      c  requests served at once, all replicas

    Random arrivals, times of random length, first come first served. Batched generation has steadier times than that, so waits are rather
    shorter; bursts make them longer. Source: Erlang 1917, "Solution of some problems in the theory of probabilities of significance in
    automatic telephone exchanges".

    One slot half in use is taken half of the time; two slots at load 1: 1/3 (Erlang B 1/5, C = B / (1 - A/c·(1-B))).

    >>> erlang_c(slots=1, load=0.5), round(erlang_c(slots=2, load=1.0), 4)
    (0.5, 0.3333)
    """
    if load >= slots:
        return 1.0
    blocked = 1.0
    for busy in range(1, slots + 1):  # Erlang B by its recursion, which cannot overflow
        blocked = load * blocked / (busy + load * blocked)
    return blocked / (1.0 - load / slots * (1.0 - blocked))


def wait_seconds(*, slots: int, load: float, request_s: float, percentile: float) -> float | None:
    """The wait t that this share of requests (0.5, 0.99) stays below, from P(wait > t) = C(c, A) · exp(-(c - A) · t / T).

    `None` when the queue never empties (A ≥ c).

    >>> round(wait_seconds(slots=1, load=0.5, request_s=2.0, percentile=0.99), 2)
    15.65
    """
    if load >= slots:
        return None
    waits = erlang_c(slots=slots, load=load)
    if waits <= 1.0 - percentile:
        return 0.0
    return request_s / (slots - load) * math.log(waits / (1.0 - percentile))
