"""Arguments of a question, checked one by one, as the value that the core takes."""

from __future__ import annotations

import contextlib

from lib import precision as precisions
from lib.advisor import TASKS
from lib.catalog.offers import PLATFORMS
from lib.errors import BadArgument
from lib.service import arguments
from lib.workload import ACCOUNTS, ENGINES, MODES, PRIORITIES, MemoryRequest, Workload

ALL = "all"


def platforms_of(name: str, value: object) -> tuple[str, ...]:
    """The platforms that a comma list means: `spaces` holds ZeroGPU too (its tiers are hardware of a Space), `all` everything.

    Raises:
        BadArgument: one of them is unknown.
    """
    asked = arguments.choices(name, value, (*PLATFORMS, ALL))
    if ALL in asked:
        return PLATFORMS
    return tuple(dict.fromkeys(p for name in asked for p in (("spaces", "zerogpu") if name == "spaces" else (name,))))


def _precision(name: str, value: object, names: tuple[str, ...]) -> str:
    """The name of a precision in its own spelling; torch's words (`bfloat16`) and a bare GGUF type (`Q4_K_M`) are understood."""
    if isinstance(value, str) and len(value) <= arguments.MAX_NAME:
        with contextlib.suppress(BadArgument):
            return precisions.parse(value, names, name)
    return arguments.choice(name, value, names)  # refuses, with the nearest names


def memory_request(
    precision: object,
    engine: object,
    context_tokens: object,
    batch_size: object,
    kv_precision: object,
    mode: object,
    devices: object,
    encoder_tokens: object,
) -> MemoryRequest:
    """A question about memory.

    Raises:
        BadArgument: the first argument that is wrong.
    """
    return MemoryRequest(
        precision=_precision("precision", precision, precisions.NAMES),
        engine=arguments.choice("engine", engine, ENGINES),
        context_tokens=arguments.whole("context_tokens", context_tokens, 1, arguments.MAX_TOKENS),
        batch_size=arguments.whole("batch_size", batch_size, 1, arguments.MAX_BATCH),
        kv_precision=_precision("kv_precision", kv_precision, precisions.KV_NAMES),
        mode=arguments.choice("mode", mode, MODES),
        devices=arguments.whole("devices", devices, 1, arguments.MAX_DEVICES),
        encoder_tokens=arguments.whole("encoder_tokens", encoder_tokens, 0, arguments.MAX_TOKENS),
    )


def workload(
    *,
    task: object,
    context_tokens: object,
    concurrency: object,
    requests_per_day: object,
    hours_per_day: object,
    precision: object,
    account: object,
    max_usd_per_month: object,
    min_tokens_per_s: object,
    priority: object,
    platforms: tuple[str, ...],
) -> Workload:
    """What a Space has to do.

    Raises:
        BadArgument: the first argument that is wrong.
    """
    return Workload(
        task=arguments.choice("task", task, TASKS),
        context_tokens=arguments.whole("context_tokens", context_tokens, 1, arguments.MAX_TOKENS),
        concurrency=arguments.whole("concurrency", concurrency, 1, arguments.MAX_CONCURRENCY),
        requests_per_day=arguments.whole("requests_per_day", requests_per_day, 0, arguments.MAX_REQUESTS_PER_DAY),
        hours_per_day=arguments.decimal("hours_per_day", hours_per_day, 0, 24),
        precision=_precision("precision", precision, precisions.NAMES),
        account=arguments.choice("account", account, ACCOUNTS),
        max_usd_per_month=arguments.decimal("max_usd_per_month", max_usd_per_month, 0, arguments.MAX_USD_PER_MONTH),
        min_tokens_per_s=arguments.number("min_tokens_per_s", min_tokens_per_s, 0, arguments.MAX_TOKENS_PER_S),
        priority=arguments.choice("priority", priority, PRIORITIES),
        platforms=platforms,
    )
