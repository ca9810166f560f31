"""What is asked of a model: the task, how long, how many at once, how often, and what may be spent."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Literal, get_args

from lib.engines import Engine

Mode = Literal["inference", "lora", "qlora", "full"]
Account = Literal["anonymous", "free", "pro", "team", "enterprise"]
Priority = Literal["cheapest", "balanced", "fastest"]

MODES: tuple[Mode, ...] = get_args(Mode)
ACCOUNTS: tuple[Account, ...] = get_args(Account)
PRIORITIES: tuple[Priority, ...] = get_args(Priority)


PROMPT_TOKENS, OUTPUT_TOKENS = 512, 256
"""The shape of a request wherever none is stated: the defaults of /estimate_speed."""


def prompt_and_output_tokens(context_tokens: int) -> tuple[int, int]:
    """The shape of a request within a context: output min(256, half of it), prompt min(512, the rest of it), at least a token each.

    >>> prompt_and_output_tokens(4096), prompt_and_output_tokens(100)
    ((512, 256), (50, 50))
    """
    output = min(OUTPUT_TOKENS, max(1, context_tokens // 2))
    return min(PROMPT_TOKENS, max(1, context_tokens - output)), output


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRequest:
    """One question about memory.

    `precision` and `kv_precision` are names that `lib.precision` knows, "auto" included. `context_tokens` counts the tokens a
    sequence's cache has seen (decoder tokens for an encoder-decoder); `encoder_tokens` = 0 means the model's own full length.
    `devices` is how many accelerators share the model (tensor parallel).
    """

    precision: str = "auto"
    engine: Engine = "transformers"
    context_tokens: int = 4096
    batch_size: int = 1
    kv_precision: str = "auto"
    mode: Mode = "inference"
    devices: int = 1
    encoder_tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """What a Space has to do, and what may be spent; 0 sets no limit in `max_usd_per_month` and `min_tokens_per_s`."""

    task: str = "auto"
    context_tokens: int = 4096
    concurrency: int = 1
    requests_per_day: int = 100
    hours_per_day: Decimal = Decimal(24)
    precision: str = "auto"
    account: Account = "free"
    max_usd_per_month: Decimal = Decimal(0)
    min_tokens_per_s: float = 0.0
    priority: Priority = "balanced"
    platforms: tuple[str, ...] = ("spaces", "zerogpu")
