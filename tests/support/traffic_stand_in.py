"""A server whose steps take the same time whoever is in them, with a cache of one byte a token: queueing theory has answers for it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class EqualSteps:
    """Each step takes `each_s` seconds; nothing is added to an answer."""

    each_s: float = 0.001
    steps_waited: float = 0.0
    fixed_s: float = 0.0

    def step_s(self, sequences: int, prefill_tokens: int, cached_tokens: float) -> float:
        """The same for every step."""
        assert sequences + prefill_tokens > 0
        assert cached_tokens >= 0
        return self.each_s

    def attention_s(self, done: int, until: int) -> float:
        """Part of the step."""
        assert 0 <= done < until
        return 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class OneByteATokenRoom:
    """A cache of so many tokens."""

    capacity_bytes: int = 10**12

    def sequence_bytes(self, tokens: int) -> int:
        """A byte for each."""
        return tokens
