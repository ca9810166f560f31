"""The laws: plain quantities in, plain quantities out, each with its equation, symbols, source and limits.

Memory: `weights`, `kv_cache`, `kv_cache_by_engine`, `activation`, `pipeline`, `training`, `runtime`, `parallelism`, `media_tokens`.
Memory and speed: `expert_split`.
Speed: `forward_pass` (and what no time may go below), `serving`; they take one number or an array with one entry per case, so that the
calibration (`scripts/calibrate.py`) and an answer to a visitor run through the same lines. Fitted constants arrive as arguments; they are
fitted by engine and card class and never by model.
Time before the first request: `start_up`. Money: `price`; USD per month out of prices, hours, bytes, requests and tokens, all `Decimal`.
"""

from __future__ import annotations

from typing import NamedTuple


class Law(NamedTuple):
    """A law as text, for an answer that shows where its figure comes from: typed once, next to the code that computes it.

    Attributes:
        equation: the right-hand side, in the symbols or words that the answer's inputs are named by.
        source: a paper, an engine's code, or the module that counts it out.
    """

    equation: str
    source: str
