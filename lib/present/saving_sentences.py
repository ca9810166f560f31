"""Ways to save as sentences."""

from __future__ import annotations

from lib.present.cost_sentences import usd
from lib.savings import NoWay, Way

WHAT = {
    "provider": "Pay {provider} per token instead of renting hardware",
    "zerogpu": "Host it on ZeroGPU ({size}): visitors spend their own quota, {requests per visitor and day} such requests each a day",
    "cheaper_tier": "Move to {offer}, which holds it as it is",
    "l4_over_a10g": "Take the L4 ({offer}) instead of the A10G: the same memory for less",
    "fp8": "Store the weights in fp8 ({precision}) and move to {offer}",
    "int8": "Store the weights in eight bits ({precision}) and move to {offer}",
    "int4": "Store the weights in four bits ({precision}) and move to {offer}",
    "shorter_context": "Hold {context tokens} tokens of context and move to {offer}",
    "smaller_batch": "Serve {batch} at a time and move to {offer}",
    "cache_precision": "Keep the cache in {cache} and move to {offer}",
    "sleep": "Let it sleep after {sleep after s} s without requests (it wakes {wakes a day} times a day)",
    "development_tier": "Develop on {offer} in four bits, {hours per month} hours a month (a working week, if you stated none)",
}
GAINS = {
    "compute": "On the same card it is faster too: it multiplies this format natively, and the work is bound by compute.",
    "bandwidth": "On the same card it makes tokens faster too: fewer bytes are read per token, and the engine reads the packed weights.",
    "memory_only": "It saves memory only: no speed is gained.",
}
TRADES = {
    "provider": "Speed and limits are the provider's, and what is asked goes there.",
    "zerogpu": "Visitors wait for a free card and stop at their quota.",
    "fp8": "Answers change a little.",
    "int8": "Answers change a little.",
    "int4": "Answers get measurably worse: try it on your own task.",
    "shorter_context": "Longer requests are refused.",
    "smaller_batch": "The others wait.",
    "cache_precision": "Answers change a little, most at long context.",
    "sleep": "The request that wakes it waits for the start-up.",
    "development_tier": "Only while you work on it; its answers are those of a four-bit model.",
}
"""What a way gives up, in words: no figure is claimed where none was measured."""
REASONS = {
    "price_unknown": "no price per token is known",
    "traffic_not_stated": "it needs the requests per day",
    "not_for_this_account": "this account cannot host it",
    "not_on_this_platform": "it is not offered on this platform",
    "does_not_fit": "the model does not fit",
    "quota_too_small": "one request takes more than a visitor's daily quota",
    "none_holds_it": "no cheaper tier holds the model",
    "no_cheaper_tier": "it opens no cheaper tier",
    "already_as_small": "it is that small already",
    "costs_as_much": "it costs as much or more",
}


def what_to_do(way: Way) -> str:
    """What to do, without its figures."""
    return WHAT[way.code].format(**(dict(way.inputs) | {"offer": "" if way.offer is None else way.offer.id}))


def effect(way: Way) -> str:
    """What it does to speed, "" when nothing is to be said."""
    said = [] if way.gain is None else [GAINS[way.gain]]
    told = way.speed_ratio is not None and not (way.gain == "memory_only" and way.speed_ratio > 1)
    if told and not 0.95 < (way.speed_ratio or 1.0) < 1.05:  # noqa: PLR2004  a twentieth is within the datasheets' own error
        said.append(f"By the datasheets it makes at most {way.speed_ratio:.2g} times the tokens per second.")
    return " ".join(said)


def trade(way: Way) -> str:
    """What it costs in quality and speed, "" for nothing."""
    return f"{TRADES.get(way.code, '')} {effect(way)}".strip()


def way_sentence(way: Way) -> str:
    """What to do, what it saves, and what it does to speed."""
    said = f"{what_to_do(way)}: {usd(way.usd_per_month)} instead of {usd(way.usd_per_month_before)} a month."
    return f"{said} {effect(way)}".rstrip()


def no_way_sentence(none: NoWay) -> str:
    """Why a way saves nothing here."""
    freed = "" if not none.freed_bytes else f" It would free {none.freed_bytes / 2**30:.1f} GiB."
    return f"{REASONS[none.reason][:1].upper()}{REASONS[none.reason][1:]}.{freed}"
