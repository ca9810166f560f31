"""The limits of hardware for a model: the longest context, the most requests, the best precision, the cheapest tier, server flags."""

from __future__ import annotations

from lib.answers.memory import CheapestTierEntry, MaximumEntry, SolveAnswer
from lib.present.cards import PLATFORM_NAMES
from lib.present.markup import code_blocks, definition_list, escape
from lib.present.numbers import gib, seconds, tokens_per_s, usd_an_hour, whole
from lib.present.sentences import say


def solve_card(answer: SolveAnswer, model: str) -> str:
    """The maxima, each with its limiting factor, and the cheapest tier."""
    tried = (
        f"{one.precision}: {'does not fit' if not one.fits else 'too slow' if not one.meets_limits else 'fits'}"
        for one in answer.precisions
    )
    figures = (
        ("Longest context", _maximum(answer.longest_context, "tokens"), answer.longest_context.message),
        ("Concurrent requests, at most", _maximum(answer.most_requests, ""), answer.most_requests.message),
        ("Largest batch that fits", _maximum(answer.largest_batch, ""), answer.largest_batch.message),
        ("Best precision", escape(answer.best_precision or "none"), ", ".join(tried)),
        (_cheapest_title(answer.cheapest), *_cheapest(answer.cheapest)),
    )
    cells = ((title, f"{figure}<small>{escape(why)}</small>") for title, figure, why in figures)
    memory = f"{gib(answer.per_device_bytes)} of {gib(answer.capacity_bytes)} on each device"
    return (
        '<section class="card" aria-label="Limits of this hardware">'
        f'<p class="eyebrow">{escape(model)} on {escape(answer.name)}</p>'
        f'<p class="quiet">{escape(answer.engine)}, {escape(answer.precision)} · {whole(answer.concurrency)} × '
        f"{whole(answer.context_tokens)} tokens take {memory}{'' if answer.fits else ': it does not fit'}"
        f"{' · at full length' if answer.ttft_s else ''}{_speed(answer.ttft_s, answer.tokens_per_s)}</p>"
        f"{definition_list(cells)}{_server_flags(answer)}</section>"
    )


def _server_flags(answer: SolveAnswer) -> str:
    """The flags that start the engine's server with room for the requests, to copy, with the least share of the cards."""
    server, requests = answer.server, f"{whole(answer.concurrency)} × {whole(answer.context_tokens)} tokens"
    if not server.flags:
        return code_blocks([(say("findings", "memory", "shorter"), server.shorter_flag)]) if server.shorter_flag else ""
    least = server.least_gpu_memory_utilization
    share = "" if least is None else f"; least share of the card {least:.2f}"
    by_size = [(say("findings", "memory", "by_size", tokens=server.cache_flag_tokens or 0), server.cache_flag)] if server.cache_flag else []
    return code_blocks([(f"Server flags for {requests}{share}", server.flags), *by_size])


def _maximum(most: MaximumEntry, unit: str) -> str:
    if most.value is None:
        return "no limit"
    return f"{whole(most.value)} {unit}".strip()


def _speed(ttft_s: float | None, decode_tokens_per_s: float | None) -> str:
    parts = [seconds(ttft_s) + " to the first token"] if ttft_s else []
    parts += [tokens_per_s(decode_tokens_per_s)] if decode_tokens_per_s else []
    return "".join(f" · {one}" for one in parts)


def _cheapest_title(tier: CheapestTierEntry | None) -> str:
    """It is judged as `/recommend` judges, not by memory alone, and in the precision of the question."""
    return "Cheapest to rent" if tier is None else f"Cheapest to rent that Recommend accepts in {tier.precision}"


def _cheapest(tier: CheapestTierEntry | None) -> tuple[str, str]:
    if tier is None:
        return "–", say("findings", "memory", "no_tier")
    what = f"{tier.name}, {PLATFORM_NAMES.get(tier.platform, tier.platform)}: {tier.engine}, {tier.precision}"
    several = f", {tier.replicas} machines" if tier.replicas > 1 else ""
    return usd_an_hour(tier.usd_per_hour), f"{what}{several}{_speed(tier.ttft_s, tier.tokens_per_s)}"
