"""The order of what fits, and which entries no other one beats.

Balanced weighs first how much has to be given up, then the price:

    level 0     as stored (or as asked), on one device, with room to spare
    level 2, 4  the same in eight, in four bits: one card with a quantized model before several cards with the whole one
    level 6-8   over several devices: eight bits, as stored, four bits
    + 1         ZeroGPU `xlarge` (twice the quota), calls above the default duration, hardware that falls asleep by itself, Jobs,
                more traffic than it serves at this concurrency
    + 10        tight: less than a tenth of a device stays free
    + 20        several hosts

Within level 0 a CPU that is quick enough and cheaper than every GPU comes first: no queue, no quota, any SDK. Then the price decides, so
that ZeroGPU comes before rented cards. Cheapest puts the price before the level; fastest the predicted speed, which knows nothing of the
exchange between hosts, so that several hosts and tight fits come last there too.
Ties end at the order of platforms and the id, so the order of the catalog never shows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal

from lib.advisor.candidates import AS_STORED, EIGHT_BITS, FOUR_BITS
from lib.advisor.result import Entry
from lib.catalog.offers import PLATFORMS
from lib.workload import Priority

INCONVENIENCES = frozenset({"zerogpu_xlarge", "zerogpu_long_call", "sleeps", "jobs_time_limit", "needs_allowlist", "traffic_exceeds"})
ONE_DEVICE = {AS_STORED: 0, EIGHT_BITS: 2, FOUR_BITS: 4}
SEVERAL_DEVICES = {EIGHT_BITS: 6, AS_STORED: 7, FOUR_BITS: 8}
TIGHT, MANY_HOSTS = 10, 20

Key = tuple[object, ...]


def count_sacrifices(entry: Entry) -> int:
    """The sum of the sacrifices, by the table above; a Space that runs no model gives up nothing."""
    if entry.memory is None:
        return 0
    codes = {reason.code for reason in entry.reasons}
    sacrifices = (ONE_DEVICE if entry.devices <= 1 else SEVERAL_DEVICES)[entry.step]
    sacrifices += 1 if codes & INCONVENIENCES else 0
    sacrifices += TIGHT if entry.verdict == "tight" else 0
    return sacrifices + (MANY_HOSTS if "multi_host" in codes else 0)


def rate_speed(entry: Entry) -> float:
    """What "fast" means for this work: tokens per second of all requests, else requests per second; bounds where nothing is predicted."""
    of, predicted = entry.speed, entry.speed.predicted
    if predicted is not None:
        output_tokens_per_s = predicted.output_tokens_per_s
        return 1.0 / predicted.request_s if output_tokens_per_s is None else output_tokens_per_s.value
    if of.decode_tokens_per_s_upper_bound is not None:
        return of.decode_tokens_per_s_upper_bound
    if of.request_s_lower_bound:
        return 1.0 / of.request_s_lower_bound
    return of.peak_flops_per_s or 0.0


def rank_entries(entries: Sequence[Entry], priority: Priority) -> tuple[Entry, ...]:
    """The entries in order, those that no other beats marked."""
    gpus = [entry.cost.usd_per_hour for entry in entries if entry.offer.silicon is not None and entry.cost.usd_per_hour > 0]
    cheapest_gpu = min(gpus, default=None)
    ordered = sorted(entries, key=_key(priority, cheapest_gpu))
    best = find_frontier(ordered)
    return tuple(replace(entry, pareto=number in best) for number, entry in enumerate(ordered))


def _key(priority: Priority, cheapest_gpu: Decimal | None) -> Callable[[Entry], Key]:
    def last(entry: Entry) -> Key:
        on_gpu = entry.offer.silicon is not None
        return (-rate_speed(entry), on_gpu, -entry.free_share, PLATFORMS.index(entry.offer.platform), entry.offer.id)

    def is_cheap_cpu(entry: Entry) -> bool:
        plain = entry.memory is not None and entry.offer.silicon is None
        return plain and (cheapest_gpu is None or entry.cost.usd_per_hour < cheapest_gpu)

    def balanced(entry: Entry) -> Key:
        return (count_sacrifices(entry), not is_cheap_cpu(entry), entry.cost.usd_per_month, *last(entry))

    def cheapest(entry: Entry) -> Key:
        return (entry.cost.usd_per_month, not is_cheap_cpu(entry), count_sacrifices(entry), *last(entry))

    def fastest(entry: Entry) -> Key:
        return (
            entry.verdict == "tight" or count_sacrifices(entry) >= MANY_HOSTS,
            -rate_speed(entry),
            count_sacrifices(entry),
            entry.cost.usd_per_month,
            *last(entry),
        )

    return {"balanced": balanced, "cheapest": cheapest, "fastest": fastest}[priority]


def find_frontier(entries: Sequence[Entry]) -> frozenset[int]:
    """Indices of the entries that no other one beats in price and speed: by price, each that is faster than all that cost less."""
    points = sorted({(entry.cost.usd_per_month, -rate_speed(entry)) for entry in entries})
    best: set[tuple[Decimal, float]] = set()
    fastest = float("inf")
    for price, slowness in points:
        if slowness < fastest:
            best.add((price, slowness))
            fastest = slowness
    return frozenset(i for i, entry in enumerate(entries) if (entry.cost.usd_per_month, -rate_speed(entry)) in best)
