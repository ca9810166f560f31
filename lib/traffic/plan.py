"""How requests are served: the policy, its limits, and what a simulation asks of an engine's steps and of its cache."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol, get_args

Policy = Literal["static", "dynamic", "continuous"]
POLICIES: tuple[Policy, ...] = get_args(Policy)
BLOCK_TOKENS = 16
"""Tokens of a block of the cache, vLLM's default (cache.block_size)."""


class Steps(Protocol):
    """Seconds of an engine's steps (`lib.speed.steps.StepTable`)."""

    @property
    def steps_waited(self) -> float:
        """Decode steps that a first token waits for beside its prompt."""

    @property
    def fixed_s(self) -> float:
        """Seconds of a request that no step holds."""

    def step_s(self, sequences: int, prefill_tokens: int, cached_tokens: float) -> float:
        """Seconds of a step of so many sequences that decode, with so many cached tokens on average, and of so many prompt tokens."""

    def attention_s(self, done: int, until: int) -> float:
        """Seconds of attention over a part of a prompt."""


class CacheRoom(Protocol):
    """Memory for the cache of one replica, on its fullest device (`lib.memory.CacheRoom`)."""

    @property
    def capacity_bytes(self) -> int:
        """Bytes beside weights, activations and runtime."""

    def sequence_bytes(self, tokens: int) -> int:
        """Bytes of a sequence of so many tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerPlan:
    """How requests are served.

    `max_batch_size` sequences at most at a time in a replica, `timeout_s` of dynamic batching, `token_budget` of a continuous step.
    `scale_to_zero_after_s`: seconds without requests after which a replica sleeps, 0 for never; then `cold_start_s` to wake. Replicas that
    may sleep do so at the start. `concurrency_limit`: requests that the app in front of the replicas lets through at a time (of a Gradio
    Space, `default_concurrency_limit`), 0 for no limit. `shared_prefix_tokens`: tokens with which all prompts begin, read and held once.
    """

    policy: Policy = "continuous"
    max_batch_size: int = 32
    timeout_s: float = 0.05
    replicas: int = 1
    token_budget: int = 2048
    cold_start_s: float = 0.0
    scale_to_zero_after_s: float = 0.0
    concurrency_limit: int = 0
    shared_prefix_tokens: int = 0

    @property
    def batch_limit(self) -> int:
        """Sequences that one replica can get at a time."""
        return min(self.max_batch_size, self.concurrency_limit) if self.concurrency_limit else self.max_batch_size
