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
"""

from __future__ import annotations

import numpy as np

from lib.laws.speed.quantity import Array, Quantity


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
