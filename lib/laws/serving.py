"""A server with a fixed number of requests in flight: time to the first token, time between tokens.

    decoding  n = 1 + (b - 1) · O·t / (O·t + p)                 sequences that decode at the same time, of b in flight
    between   s = t(n) + ι · p · (b - 1) / O                     every other request's prompt interrupts each answer once
    first     f = p · (1 + q · (b - 1)) + κ · s + τ              the request's own prompt, those queued before it, the step under way

    p  seconds of one prompt    O  tokens of the answer    t(n)  seconds of a decode step of n sequences
    ι  share of a prompt's time that an answer loses (chunks share steps with decoding)    q  share of the others that are ahead
    κ  steps waited for     τ  fixed time of a request in this engine

Closed loop: a request that ends is replaced at once, so each of the b requests begins once per cycle of p + O·s.
Limits: open arrivals queue differently (`/simulate_batching`); prompts answered from a prefix cache are not read.
Source: mean-value reasoning for closed systems, Reiser and Lavenberg 1980, doi:10.1145/322186.322195; shares from
`scripts/calibrate.py`.

How many sequences an engine runs at once when more requests wait than it takes.

    n = max(1, min(limit, ⌊(0.92 · M - W) / C(T)⌋))

    limit  the engine's own   M  memory of the devices that share the model   W  weights   C(T)  cache of one sequence at its mean length

0.92 is the share of the memory that servers claim by default (vLLM 0.9, TensorRT-LLM 0.9 of what is free, SGLang about 0.9). Where
the weights leave less than 2 % of the memory, 2 % is taken: something ran, or there would be no measurement.
Limits: the limit can be configured; paging and prefix sharing admit more. Source: the engines' documented defaults.

How long a request waits for a free slot.

    P(wait > t) = C(c, A) · exp(-(c - A) · t / T)          A = λ · T,  A < c

    C(c, A)  Erlang's C: the probability that all slots are taken      c  slots (requests served at once, all replicas)
    λ  requests per second      T  mean time of a request once it is served, s      A  slots in use on average

Random arrivals, times of random length, first come first served. Batched generation has steadier times than that, so waits are rather
shorter; bursts make them longer. At A ≥ c the queue grows without end.
Source: Erlang 1917, "Solution of some problems in the theory of probabilities of significance in automatic telephone exchanges".
"""

from __future__ import annotations

import math

import numpy as np

from lib.laws.forward_pass import Array, Quantity


def decoding(*, requests: Quantity, prompt_s: Quantity, step_s: Quantity, answer: Quantity) -> Array:
    """Sequences that decode at the same time.

    Eight requests whose prompt takes as long as their whole answer: 1 + 7 / 2:

    >>> float(decoding(requests=8, prompt_s=2.0, step_s=0.02, answer=100))
    4.5
    """
    answering = np.multiply(answer, step_s)
    count: Array = 1.0 + np.subtract(requests, 1.0) * answering / (answering + prompt_s)
    return count


def between_tokens(*, step_s: Quantity, prompt_s: Quantity, requests: Quantity, answer: Quantity, interruption: Quantity) -> Quantity:
    """Mean seconds between two tokens of one answer."""
    return step_s + interruption * prompt_s * np.maximum(np.subtract(requests, 1.0), 0.0) / answer


def first_token(
    *, prompt_s: Quantity, requests: Quantity, queued: Quantity, token_s: Quantity, steps: Quantity, fixed_s: Quantity
) -> Quantity:
    """Mean seconds until the first token.

    Alone: the prompt, a step and the fixed part: 0.2 + 0.01 + 0.02:

    >>> round(float(first_token(prompt_s=0.2, requests=1, queued=0.3, token_s=0.01, steps=1, fixed_s=0.02)), 3)
    0.23
    """
    return prompt_s * (1.0 + queued * np.maximum(np.subtract(requests, 1.0), 0.0)) + steps * token_s + fixed_s


def waiting(*, requests: Quantity, running: Quantity, first_s: Quantity, token_s: Quantity, answer: Quantity) -> Quantity:
    """Mean seconds a request waits for a place when more are in flight than the engine runs: (b / n - 1) · (f + O·s).

    Forty requests, twenty places, requests of 2 s: each waits for one other to end:

    >>> float(waiting(requests=40, running=20, first_s=1.0, token_s=0.01, answer=100))
    2.0
    """
    return np.maximum(np.divide(requests, running) - 1.0, 0.0) * (first_s + np.multiply(answer, token_s))


_CLAIMED = 0.92
_LEAST = 0.02


def admitted(*, limit: Quantity, memory: Quantity, weight_bytes: Quantity, sequence_bytes: Quantity) -> Array:
    """Sequences that run at once; not rounded, so that it is smooth for the fit.

    A 16.06 GB model on 24 GB leaves 6.02 GB: 22 sequences of 2048 tokens of 128 KiB:

    >>> int(admitted(limit=256, memory=24e9, weight_bytes=16.06e9, sequence_bytes=2048 * 131072))
    22
    """
    free = np.maximum(_CLAIMED * np.asarray(memory, dtype=np.float64) - weight_bytes, np.multiply(memory, _LEAST))
    count: Array = np.maximum(1.0, np.minimum(limit, free / np.maximum(sequence_bytes, 1.0)))
    return count


def erlang_c(*, slots: int, load: float) -> float:
    """Probability that an arriving request has to wait; 1 when the load is not below the slots.

    One slot half in use is taken half of the time; two slots at load 1: 1/3 (Erlang B 1/5, C = B / (1 - A/c·(1-B))).

    >>> erlang_c(slots=1, load=0.5), round(erlang_c(slots=2, load=1.0), 4)
    (0.5, 0.3333)
    """
    if load >= slots:
        return 1.0
    blocked = 1.0
    for taken in range(1, slots + 1):  # Erlang B by its recursion, which cannot overflow
        blocked = load * blocked / (taken + load * blocked)
    return blocked / (1.0 - load / slots * (1.0 - blocked))


def wait_seconds(*, slots: int, load: float, request_s: float, percentile: float) -> float | None:
    """The wait that this share of requests (0.5, 0.99) stays below; `None` when the queue never empties.

    >>> round(wait_seconds(slots=1, load=0.5, request_s=2.0, percentile=0.99), 2)
    15.65
    """
    if load >= slots:
        return None
    waits = erlang_c(slots=slots, load=load)
    if waits <= 1.0 - percentile:
        return 0.0
    return request_s / (slots - load) * math.log(waits / (1.0 - percentile))
