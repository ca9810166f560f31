"""The order of the entries that qualify, and those that no other one beats.

First comes hardware that is comfortable or usable, then tight (`Headroom.comfortable` in `lib.advisor.fit`), then slow
(`lib.advisor.judge`), last offers of several hosts. In each level one machine comes before several without a common address, and engines
that list the model before those that do not. Among equals, by priority:

    balanced    the price of the whole workload, multiplied by
                    precision     1 as stored, 1.2 in FP8, 2 in other eight bits, 2.5 in four bits; for pictures and clips 3 and 5, because
                                  smaller weights do not draw faster and the smaller card draws slower
                    speed         1.5 for each measure that is usable and not comfortable; more for a late first token (`weigh_speed`)
                    convenience   1.5 for a Job, for hardware with an allowlist, and for several machines; 1.5 for an engine of more effort
    cheapest    the price; slow hardware comes last
    fastest     the predicted tokens per second of all requests; hardware within a tenth of the fastest counts as equal, because the
                predictions err by more, and the price decides among them; then the same from the fastest of the others on

In evaluations of Llama 3.1 at 8B, 70B and 405B, FP8 (W8A8) is effectively lossless and int8 (W8A8) loses 1 to 3 % (Kurtic et al. 2024,
arXiv:2411.02355, abstract). The factors are judgements.

For embeddings and speech, balanced puts a CPU that runs the model as stored and costs less than every GPU before ZeroGPU: no queue, no
quota, any SDK. Text goes to free hardware first, because it is faster there. Free hardware is ordered by the factors alone, then by
ZeroGPU's default size. Ties end at the order of platforms and the id, so the order of the catalog never shows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal

from lib.advisor.candidates import AS_STORED, EIGHT_BITS, FOUR_BITS, SERVED_TASKS
from lib.advisor.result import Configuration, Entry, Speed, Verdict
from lib.catalog.offers import Hardware
from lib.engines import traits_of
from lib.platforms import PLATFORMS
from lib.precision import NAMES, weight_format
from lib.provenance import Reason
from lib.workload import Family, Priority

WEIGHTS = {AS_STORED: Decimal(1), EIGHT_BITS: Decimal(2), FOUR_BITS: Decimal("2.5")}
DRAWING_WEIGHTS = {AS_STORED: Decimal(1), EIGHT_BITS: Decimal(3), FOUR_BITS: Decimal(5)}
FP8_WEIGHT = Decimal("1.2")
MISSED_WEIGHT = Decimal("1.5")
INCONVENIENT = Decimal("1.5")
INCONVENIENCES = frozenset({"jobs_time_limit", "needs_allowlist"})
VERDICTS: tuple[Verdict, ...] = ("comfortable", "usable", "tight", "slow")
LEVELS: Mapping[Verdict, int] = {"comfortable": 0, "usable": 0, "tight": 1, "slow": 2}
"""Comfortable and usable hardware compete by price."""
MANY_HOSTS = len(LEVELS)
Level = tuple[int, bool, bool]
"""The level of a verdict; whether it takes several machines without a common address; whether the engine does not list the model."""
TESTED: Level = (0, False, False)
UNTESTED = frozenset({"engine_untested", "tpu_untested"})
NEARLY_AS_FAST = 0.1
"""Share below the fastest that counts as equally fast: half-widths of predicted speeds are several times that (`lib.speed`)."""

Key = tuple[object, ...]


def weigh(step: int, precision: str, family: Family) -> Decimal:
    """The factor of a price for weights that are compressed by `step` into this precision."""
    if family in {"image", "video"}:
        return DRAWING_WEIGHTS[step]
    is_fp8 = step == EIGHT_BITS and precision in NAMES and weight_format(precision).arithmetic == "fp8"
    return FP8_WEIGHT if is_fp8 else WEIGHTS[step]


def weigh_speed(reasons: Sequence[Reason]) -> Decimal:
    """The factor of a price for measures of speed that are not comfortable.

    A speed that is not usable counts twice, and a late first token counts one more for each doubling of its limit: 500 s are worse than 80
    s.
    """
    return MISSED_WEIGHT ** sum((_count_misses(reason) for reason in reasons), Decimal(0))


def _count_misses(reason: Reason) -> Decimal:
    missed = Decimal({"below_comfortable": 1, "below_usable": 2}.get(reason.code, 0))
    first_s, limit_s = reason.values.get("expected_s"), reason.values.get("limit_s")
    if reason.code != "below_usable" or reason.variant != "ttft_s" or not isinstance(first_s, float) or not isinstance(limit_s, float):
        return missed
    return missed + Decimal(str(round(math.log2(first_s / limit_s), 3)))


def order_configurations(configuration: Configuration, hardware: Hardware, priority: Priority, family: Family) -> Key:
    """The key by which the configurations of one offer are ordered."""
    candidate = configuration.candidate
    usd_per_hour = (hardware.usd_per_hour or Decimal(0)) * configuration.replicas
    level: Level = (LEVELS[configuration.verdict], are_apart(hardware, configuration.replicas), bool(candidate.untested))
    weight = weigh(candidate.step, configuration.headroom.memory.precision, family) * weigh_speed(configuration.reasons)
    if priority == "fastest":
        return (level > TESTED, -total_rate(configuration.speed, configuration.replicas), weight)
    if priority == "balanced":
        weight *= (INCONVENIENT if configuration.replicas > 1 else 1) * (INCONVENIENT if traits_of(candidate.engine).effort else 1)
    return (level, usd_per_hour * weight, weight, configuration.replicas)


def settles(configuration: Configuration) -> bool:
    """Whether it does all that is asked on one machine, with an engine that lists the model and takes no extra effort."""
    candidate = configuration.candidate
    alone = configuration.replicas == 1 and not candidate.untested
    return alone and configuration.verdict == "comfortable" and not traits_of(candidate.engine).effort


def are_apart(hardware: Hardware, replicas: int) -> bool:
    """Whether this number of machines has no common address."""
    return replicas > 1 and not hardware.traits.shares_address


def drop_uncertain_gains(passing: Sequence[Configuration]) -> list[Configuration]:
    """Configurations without those whose engine takes more effort (`lib.engines`) for a gain within the range of the prediction."""
    return [tested for tested in passing if not any(_is_enough(plain, tested) for plain in passing)]


def _is_enough(plain: Configuration, special: Configuration) -> bool:
    """Whether the plainer engine does the same work: no worse a verdict, no more machines or compression, no certain loss of speed."""
    if traits_of(plain.candidate.engine).effort >= traits_of(special.candidate.engine).effort:
        return False
    equal = (
        LEVELS[plain.verdict] <= LEVELS[special.verdict]
        and plain.candidate.step <= special.candidate.step
        and plain.replicas <= special.replicas
        and bool(plain.candidate.untested) <= bool(special.candidate.untested)
    )
    return equal and total_rate(plain.speed, plain.replicas) >= _low_rate(special)


def _low_rate(configuration: Configuration) -> float:
    """`total_rate` at the low end of the prediction."""
    speed = configuration.speed
    rate, predicted = total_rate(speed, configuration.replicas), speed.predicted
    if predicted is None or predicted.output_tokens_per_s is None:
        return rate
    return rate * predicted.output_tokens_per_s.low / predicted.output_tokens_per_s.value


def total_rate(speed: Speed, replicas: int) -> float:
    """Measure of "fast" for this work: tokens per second of all requests, else requests per second; bounds if nothing is predicted."""
    predicted = speed.predicted
    if predicted is not None:
        output_tokens_per_s = predicted.output_tokens_per_s
        return replicas * (1.0 / predicted.request_s if output_tokens_per_s is None else output_tokens_per_s.value)
    if speed.decode_tokens_per_s_upper_bound is not None:
        return replicas * speed.decode_tokens_per_s_upper_bound
    if speed.request_s_lower_bound:
        return replicas / speed.request_s_lower_bound
    return replicas * (speed.peak_flops_per_s or 0.0)


def rate_speed(entry: Entry) -> float:
    """`total_rate` of an entry."""
    return total_rate(entry.speed, entry.replicas)


def rank_entries(entries: Sequence[Entry], priority: Priority, family: Family) -> tuple[Entry, ...]:
    """The entries in order, those that no other beats marked."""
    gpus = [entry.cost.usd_per_hour for entry in entries if entry.offer.silicon is not None and entry.cost.usd_per_hour > 0]
    cheapest_gpu = min(gpus, default=None)
    ordered = sorted(entries, key=_key(priority, family, cheapest_gpu, _group_speeds(entries) if priority == "fastest" else {}))
    best = find_frontier(ordered)
    return tuple(replace(entry, pareto=True) if number in best else entry for number, entry in enumerate(ordered))


def _group_speeds(entries: Sequence[Entry]) -> dict[float, int]:
    """The group of each speed: a group is led by its fastest, and holds those less than a tenth slower."""
    groups: dict[float, int] = {}
    number, leader = -1, math.inf
    for rate in sorted({rate_speed(entry) for entry in entries if _level(entry) == TESTED}, reverse=True):
        if rate < (1 - NEARLY_AS_FAST) * leader:
            number, leader = number + 1, rate
        groups[rate] = number
    return groups


def _level(entry: Entry) -> Level:
    untested = any(reason.code in UNTESTED for reason in entry.reasons)
    level = MANY_HOSTS if entry.offer.tpu is not None and entry.offer.tpu.hosts > 1 else LEVELS[entry.verdict]
    return (level, are_apart(entry.offer, entry.replicas), untested)


def _key(priority: Priority, family: Family, cheapest_gpu: Decimal | None, groups: Mapping[float, int]) -> Callable[[Entry], Key]:
    def last(entry: Entry) -> Key:
        on_gpu = entry.offer.silicon is not None
        place = (PLATFORMS.index(entry.offer.platform), entry.offer.id)
        return (takes_more_quota(entry), entry.devices, -rate_speed(entry), on_gpu, -entry.free_share, *place)

    def takes_more_quota(entry: Entry) -> bool:
        return any(reason.code == "zerogpu_xlarge" for reason in entry.reasons)

    def is_cheap_cpu(entry: Entry) -> bool:
        plain = entry.memory is not None and entry.offer.silicon is None and entry.step == AS_STORED and entry.replicas == 1
        return plain and family not in SERVED_TASKS and (cheapest_gpu is None or entry.cost.usd_per_hour < cheapest_gpu)

    def weight(entry: Entry) -> Decimal:
        inconvenient = INCONVENIENCES & {reason.code for reason in entry.reasons}
        factor = weigh(entry.step, entry.precision, family) * weigh_speed(entry.reasons)
        several = inconvenient or entry.replicas > 1
        laborious = entry.memory is not None and traits_of(entry.engine).effort
        return factor * (INCONVENIENT if several else 1) * (INCONVENIENT if laborious else 1)

    def balance_key(entry: Entry) -> Key:
        weighed = weight(entry)
        return (_level(entry), not is_cheap_cpu(entry), entry.cost.total_usd_per_month * weighed, weighed, *last(entry))

    def price_key(entry: Entry) -> Key:
        slow = entry.verdict == "slow"
        return (slow, entry.cost.total_usd_per_month, not is_cheap_cpu(entry), _level(entry), weight(entry), *last(entry))

    def speed_key(entry: Entry) -> Key:
        group = groups.get(rate_speed(entry), len(groups))
        return (_level(entry) > TESTED, group, entry.cost.total_usd_per_month, -rate_speed(entry), weight(entry), *last(entry))

    return {"balanced": balance_key, "cheapest": price_key, "fastest": speed_key}[priority]


def find_frontier(entries: Sequence[Entry]) -> frozenset[int]:
    """Indices of the entries that no other one beats in price and speed: by price, each that is faster than all that cost less."""
    points = sorted({(entry.cost.total_usd_per_month, -rate_speed(entry)) for entry in entries})
    best: set[tuple[Decimal, float]] = set()
    fastest = float("inf")
    for price, slowness in points:
        if slowness < fastest:
            best.add((price, slowness))
            fastest = slowness
    return frozenset(i for i, entry in enumerate(entries) if (entry.cost.total_usd_per_month, -rate_speed(entry)) in best)
