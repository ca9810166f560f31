"""A question about traffic as a simulation: a model on hardware becomes replicas with step times and room for the cache.

Work is bounded: an engine's step costs about 0.1 ms of processor time. A question of more than `MOST_EVENTS` steps is refused with the
calculation; steps are counted beforehand from its requests, and again in the simulation.

Hardware for a traffic: the search finds the fewest replicas that keep a target at the 99th percentile. It starts from the laws' maximum per
replica, adds replicas one by one while they are few, then a quarter at a time, and ends between the last two numbers. Where the first try
misses the target and `MOST_REPLICAS` do too, nothing is searched between them. A try simulates at most `TRIED_REPLICAS` of them with their
share of the requests, `TRIED_REQUESTS` with the same seed: that many requests over all replicas would be gone before the first of them is
answered, and no queue would be seen to grow. Fewer replicas level out chance less well, so the answer is rather too many than too few.

`sweep_loads` runs the three policies at several rates of requests.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from math import ceil

import numpy as np

from lib.catalog.offers import Hardware
from lib.catalog.silicon import Accelerator
from lib.engines import Engine, traits_of
from lib.errors import BadArgument, UnknownHardware, quote_value
from lib.laws.serving import MEAN_FILL
from lib.memory import CacheHeadroom, cache_headroom, fit_memory, usable_memory
from lib.memory.resolve import check_server, choose_engine
from lib.model.spec import ModelSpec
from lib.provenance import Caveat
from lib.request.serving import DEFAULTS, Serving, drop_settings
from lib.speed import SpeedRequest
from lib.speed.batch import EngineConfig
from lib.speed.steps import StepTable, resolve_steps
from lib.traffic.arrivals import Arrival, Arrivals, RequestShape, draw_arrivals
from lib.traffic.replica import PagedCache, Policy, ServerPlan
from lib.traffic.simulation import Simulation, Target, TooManyEvents, TrafficResult, event_work, run_all, summarise
from lib.units import GIB
from lib.workload import MemoryRequest

MOST_EVENTS = 50_000
"""Steps, or runs of equal steps, of one simulation, a step of 64 sequences counted twice: about 4 s of processor time."""
MOST_WORK = 2.0 * MOST_EVENTS
"""The same for all tries of a search for capacity together: the searches of usual questions take 6,000 to 37,000 (2026-11-23)."""
_EVENTS_EACH = 2  # a request joins and leaves; its prompt takes as many more as it has chunks
_STATIC = frozenset({"static", "dynamic"})
FEW = 100
"""Requests below which a 99th percentile is that of one or two of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrafficQuestion:
    """The requests, how they are served, and what they have to keep.

    `arrivals` "recorded" replays `recording`, "closed" keeps `clients` at work; both ignore the rate.
    """

    shape: RequestShape = field(default_factory=RequestShape)
    plan: ServerPlan = field(default_factory=ServerPlan)
    arrivals: Arrivals = "poisson"
    requests_per_s: float = 1.0
    burstiness: float = 0.25
    clients: int = 0
    recording: tuple[Arrival, ...] = ()
    duration_s: float = 300.0
    seed: int = 0
    target: Target = field(default_factory=Target)


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A model on hardware as replicas. `engines` are the independent copies on one such hardware, `usd_per_hour` the price of all of it."""

    hardware: Hardware
    engine_config: EngineConfig
    plan: ServerPlan
    steps: StepTable
    room: CacheHeadroom
    engines: int
    usd_per_hour: Decimal | None
    longest_tokens: int

    @property
    def usd_per_engine_hour(self) -> Decimal | None:
        """The price of one copy."""
        return None if self.usd_per_hour is None else self.usd_per_hour / self.engines

    def with_replicas(self, replicas: int) -> Server:
        """The same with so many pieces of hardware."""
        return replace(self, plan=replace(self.plan, replicas=replicas * self.engines))


def resolve_server(
    spec: ModelSpec,
    hardware: Hardware,
    question: TrafficQuestion,
    accelerators: Mapping[str, Accelerator],
    *,
    precision: str = "auto",
    engine: Engine = "vllm",
    serving: Serving = DEFAULTS,
) -> Server:
    """The server that a question describes; its `plan.replicas` counts pieces of hardware, and a token budget of 0 is the engine's own.

    The plan says the batch, the budget and the shared prefix; `serving` says the rest.
    """
    shape, engine = question.shape, choose_engine(spec, engine)
    if hardware.traits.per_call:
        accepted = (
            "hardware that is rented by the hour, such as l4x1: ZeroGPU lends its card for one call at a time, so no server stays on it "
            "and no requests are batched. /recommend and /estimate_cost count the visitors' quota there"
        )
        raise BadArgument("hardware", hardware.id, accepted)
    memory = usable_memory(hardware)
    if memory is None:
        raise UnknownHardware(f"The memory of {quote_value(hardware.id)} is not known, so nothing can be said of its cache.")
    plan = replace(question.plan, token_budget=question.plan.token_budget or traits_of(engine).profiled_tokens(memory))
    longest, prompt = shape.longest, shape.longest_prompt
    if question.recording:
        longest = max(arrival.prompt_tokens + arrival.output_tokens for arrival in question.recording)
        prompt = max(arrival.prompt_tokens for arrival in question.recording)
    if serving.uses_host:
        raise BadArgument("serving", "layers on the processor", "gpu_layers -1 and cpu_moe_layers 0: a simulation has all on the GPU")
    check_server(spec, engine, serving, longest, plan.max_batch_size)
    serving = drop_settings(serving, "prefix_share", "max_num_seqs", "max_num_batched_tokens", "parallel", "ctx_size")
    prompt_tokens, output_tokens = shape.prompt_tokens, shape.output_tokens
    request = SpeedRequest(precision=precision, engine=engine, prompt_tokens=prompt_tokens, output_tokens=output_tokens, serving=serving)
    together = plan.batch_limit if plan.policy in _STATIC else 1
    served = resolve_steps(
        spec, hardware, request, accelerators,
        sequences=plan.batch_limit, prefill_tokens=max(plan.token_budget, together * prompt), longest=longest,
    )  # fmt: skip
    layout = served.engine_config.layout
    budget = question.plan.token_budget or None if "max_num_batched_tokens" in traits_of(engine).settings else None
    profiled = drop_settings(replace(serving, max_num_batched_tokens=budget), "data_parallel")
    cards = layout.tensor_parallel * layout.pipeline_stages
    memory_request = MemoryRequest(precision=precision, engine=engine, devices=cards, serving=profiled)
    if plan.policy in _STATIC:
        memory_request = replace(memory_request, context_tokens=longest)
        most = fit_memory(spec, memory_request, memory, hardware.silicon).max_batch_size
        plan = replace(plan, max_batch_size=max(1, min(plan.max_batch_size, plan.max_batch_size if most is None else most)))
        room = cache_headroom(spec, replace(memory_request, batch_size=plan.max_batch_size), memory, hardware.silicon)
    else:
        room = cache_headroom(spec, replace(memory_request, context_tokens=min(plan.token_budget, longest)), memory, hardware.silicon)
    check_room(room, hardware, shape)
    return Server(
        hardware=hardware,
        engine_config=served.engine_config,
        plan=replace(plan, replicas=plan.replicas * layout.replicas),
        steps=served.steps,
        room=room,
        engines=layout.replicas,
        usd_per_hour=hardware.usd_per_hour,
        longest_tokens=longest,
    )


def _mean_shape(question: TrafficQuestion) -> RequestShape:
    """The mean lengths: those of the recording, if there is one."""
    rows = question.recording
    if not rows:
        return question.shape
    prompt, output = (math.ceil(sum(getattr(row, name) for row in rows) / len(rows)) for name in ("prompt_tokens", "output_tokens"))
    return replace(question.shape, prompt_tokens=prompt, output_tokens=output)


def check_room(room: CacheHeadroom, hardware: Hardware, shape: RequestShape) -> None:
    """Refuse hardware that does not hold the model with one request."""
    needed = room.sequence_bytes(shape.prompt_tokens + shape.output_tokens)
    if needed > room.capacity_bytes:
        left = f"leaves {room.capacity_bytes / GIB:.2f} GiB" if room.capacity_bytes > 0 else "leaves nothing"
        accepted = (
            f"hardware that holds the model and one request: this {left} for the cache, and a request of "
            f"{shape.prompt_tokens + shape.output_tokens:,} tokens takes {needed / GIB:.2f} GiB"
        )
        raise BadArgument("hardware", hardware.id, accepted)


def start_simulation(server: Server, question: TrafficQuestion, *, most_events: int = MOST_EVENTS) -> Simulation:
    """The simulation, not yet begun.

    Raises:
        TooManyEvents: it would take too many steps.
    """
    _check_work(server, question, most_events)
    random = np.random.default_rng(question.seed)
    plan, steps, room = server.plan, server.steps, server.room
    limit = 2 * most_events
    if question.arrivals == "closed":
        lengths = question.shape.draw(random)
        return Simulation(plan, steps, room, clients=question.clients, lengths=lengths, until_s=question.duration_s, most_events=limit)
    if question.arrivals == "recorded":
        return Simulation(plan, steps, room, arrivals=question.recording, most_events=limit)
    burstiness = question.burstiness if question.arrivals == "bursty" else 1.0
    arrivals = draw_arrivals(question.requests_per_s, question.duration_s, question.shape, random, burstiness=burstiness)
    return Simulation(plan, steps, room, arrivals=arrivals, most_events=limit)


def summarise_run(simulation: Simulation, server: Server, question: TrafficQuestion) -> TrafficResult | None:
    """The figures of a simulation of the question that has ended, at the server's price; None if no request was answered."""
    return summarise(simulation, duration_s=question.duration_s, usd_per_hour=server.usd_per_engine_hour, target=question.target)


def _check_work(server: Server, question: TrafficQuestion, most_events: int) -> None:
    """Refuse a question before it runs if it would take too much work. Little's law gives the number of sequences at a time."""
    shape = _mean_shape(question)
    chunks = math.ceil(shape.prompt_tokens / server.plan.token_budget)
    alone = lone_request_s(server, shape)
    if question.arrivals == "recorded":
        requests, how = float(len(question.recording)), f"{len(question.recording):,} recorded requests"
    elif question.arrivals == "closed":
        served = min(question.clients / alone, most_requests_per_s(server, shape))
        requests = question.clients + served * question.duration_s
        how = f"{question.clients:,} clients, who are served at most {served:.2g} requests per second, for {question.duration_s:,.0f} s"
    else:
        requests = question.requests_per_s * question.duration_s
        how = f"{question.requests_per_s:,.4g} requests per second for {question.duration_s:,.0f} s"
    events = requests * (_EVENTS_EACH + chunks)
    sequences = min(server.plan.batch_limit, requests / max(1.0, question.duration_s) * alone / server.plan.replicas)
    work = events * (event_work(sequences) if server.plan.policy == "continuous" else 1.0)
    if work > most_events:
        longest = int(question.duration_s * most_events / work)
        fewer = "fewer rows" if question.arrivals == "recorded" else f"a duration_s of at most {longest:,}" if longest else "a lower rate"
        raise TooManyEvents(
            f"That is too much to simulate: {how} are {requests:,.0f} requests, at {_EVENTS_EACH + chunks} events each "
            f"{events:,.0f}, with about {sequences:,.0f} sequences in each the work of {work:,.0f}; at most {most_events:,} are simulated. "
            f"Ask for {fewer}: percentiles settle after some thousands of requests."
        )


def lone_request_s(server: Server, shape: RequestShape) -> float:
    """Seconds of a request that has a replica to itself, by the laws."""
    steps, middle = server.steps, shape.prompt_tokens + shape.output_tokens * MEAN_FILL
    read = steps.step_s(0, shape.prompt_tokens, 0.0) + steps.attention_s(0, shape.prompt_tokens)
    return read + (shape.output_tokens - 1) * steps.step_s(1, 0, middle) + steps.fixed_s


def most_requests_per_s(server: Server, shape: RequestShape) -> float:
    """Requests per second that all replicas serve when none of their slots is ever empty and prompts are read in full steps, at most.

    With n sequences, a request takes its prompt and 1/n of each decode step; n is bounded by the slots and by the cache. Of a shared
    prefix nothing is read, and the cache holds it once.
    """
    tokens = shape.prompt_tokens + shape.output_tokens * MEAN_FILL
    cache = PagedCache(server.room, server.plan.shared_prefix_tokens)
    fits = cache.capacity / max(1, cache.bytes_of(math.ceil(tokens)))
    running = max(1, min(server.plan.batch_limit, int(fits)))
    budget = max(1, server.plan.token_budget - running)
    prompt = max(1, shape.prompt_tokens - cache.shared_tokens)
    chunk = min(prompt, budget)
    step_s = server.steps.step_s(running, 0, tokens)
    full_s = server.steps.step_s(running, budget, tokens)
    attention_s = server.steps.attention_s(shape.prompt_tokens - prompt, shape.prompt_tokens)
    prompt_s = max(0.0, full_s - step_s) * prompt / max(chunk, budget) + attention_s
    return server.plan.replicas / (prompt_s + shape.output_tokens * step_s / running)


def describe_caveats(server: Server, question: TrafficQuestion, result: TrafficResult | None) -> tuple[Caveat, ...]:
    """Caveats of the figures."""
    spec, plan = server.engine_config.spec, server.plan
    caveats: Sequence[tuple[bool, Caveat]] = [
        (True, Caveat("steps_predicted")),
        (
            spec.context_limit is not None and server.longest_tokens > spec.context_limit,
            Caveat("beyond_context_limit", {"limit_tokens": spec.context_limit or 0, "counted_tokens": server.longest_tokens}),
        ),
        (
            plan.policy == "continuous" and not server.steps.steps_waited,
            Caveat("continuous_what_if", {"engine": server.engine_config.layout.engine}),
        ),
        (
            plan.max_batch_size < question.plan.max_batch_size,
            Caveat("batch_cut", {"batch_size": plan.max_batch_size, "asked": question.plan.max_batch_size}),
        ),
        (plan.scale_to_zero_after_s > 0, Caveat("sleeps_at_start", {"cold_start_s": plan.cold_start_s})),
    ]
    if result is not None:
        slots = plan.replicas * plan.batch_limit
        caveats = [
            *caveats,
            (result.backlog > slots, Caveat("queue_grows", {"backlog": result.backlog, "requests": result.requests})),
            (result.refused > 0, Caveat("requests_refused", {"refused": result.refused, "requests": result.requests})),
            (result.completed < FEW, Caveat("few_requests", {"completed": result.completed})),
            (not result.steady, Caveat("not_steady", {"duration_s": question.duration_s, "span_s": result.span_s})),
            (result.preemptions > 0, Caveat("requests_preempted", {"preemptions": result.preemptions})),
        ]
    return tuple(caveat for holds, caveat in caveats if holds)


TRIED_REQUESTS, TRIED_REPLICAS = 600, 4
LEAST_S = 300.0
"""Simulated at least, where the requests are not through before: many times what a request takes."""
WAITING_SHARE = 0.05
"""Of the requests that may be waiting when the last one arrives; more is a queue that grows."""
MOST_REPLICAS = 64
_BY_ONE = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityNeed:
    """The replicas that one kind of hardware needs; None if `MOST_REPLICAS` do not suffice, with the best that was reached."""

    server: Server
    replicas: int | None
    result: TrafficResult | None

    @property
    def usd_per_hour(self) -> Decimal | None:
        """The price of all replicas."""
        return None if self.replicas is None or self.server.usd_per_hour is None else self.replicas * self.server.usd_per_hour


@dataclass(slots=True, kw_only=True)
class WorkBudget:
    """The rest of the work of a whole search, and the hardware that was left out when nothing was left."""

    left: float = MOST_WORK
    left_out: list[str] = field(default_factory=list)


def keeps_target(result: TrafficResult, target: Target) -> bool:
    """Whether the 99th percentiles are within the target, and no queue is left that grows on."""
    late = (target.ttft_s > 0 and result.ttft_p99_s > target.ttft_s) or (
        target.tpot_s > 0 and result.tpot_p99_s is not None and result.tpot_p99_s > target.tpot_s
    )
    return not late and not result.refused and result.backlog <= WAITING_SHARE * result.requests


def find_replicas(server: Server, question: TrafficQuestion, budget: WorkBudget) -> Iterator[CapacityNeed | None]:
    """The fewest replicas of this hardware that keep `question.target`; None at each try on the way to the answer, which comes last."""
    if not question.target.is_stated or question.arrivals not in {"poisson", "bursty"}:
        raise BadArgument("capacity", "true", "true with max_ttft_s or max_tpot_s above 0, and poisson or bursty arrivals")
    replicas = max(1, ceil(question.requests_per_s / most_requests_per_s(server.with_replicas(1), question.shape)))
    too_few, result = replicas - 1, None
    most_tried = server.plan.scale_to_zero_after_s > 0  # more replicas would sleep more often, and wake later
    while replicas <= MOST_REPLICAS:
        yield None
        result = _try(server, replicas, question, budget)
        if result is not None and keeps_target(result, question.target):
            break
        if not most_tried:
            yield None
            most_tried, best = True, _try(server, MOST_REPLICAS, question, budget)
            if best is None or not keeps_target(best, question.target):
                yield CapacityNeed(server=server, replicas=None, result=best)
                return
        too_few, replicas = replicas, replicas + (1 if replicas < _BY_ONE else ceil(replicas / 4))
    else:
        yield CapacityNeed(server=server, replicas=None, result=result)
        return
    while replicas - too_few > 1:
        yield None
        between = (replicas + too_few) // 2
        fewer = _try(server, between, question, budget)
        if fewer is not None and keeps_target(fewer, question.target):
            replicas, result = between, fewer
        else:
            too_few = between
    yield CapacityNeed(server=server, replicas=replicas, result=result)


def _try(server: Server, replicas: int, question: TrafficQuestion, budget: WorkBudget) -> TrafficResult | None:
    """The figures of `replicas` at this traffic, from a share of both; a limit of the Space's own queue is that of all replicas.

    None if so few replicas would take more work than one simulation may: their requests take each other's cache without end.
    """
    tried = replicas if server.plan.concurrency_limit else min(replicas, TRIED_REPLICAS)
    rate = question.requests_per_s * tried / replicas
    share = replace(question, requests_per_s=rate, duration_s=min(max(question.duration_s, LEAST_S), TRIED_REQUESTS / rate))
    try:
        simulation = start_simulation(server.with_replicas(tried), share)
    except TooManyEvents:
        return None
    simulation.most_events = min(simulation.most_events, budget.left)
    try:
        run_all(simulation)
    except TooManyEvents:
        if simulation.work_done >= budget.left:
            raise TooManyEvents(
                f"The search for capacity was stopped: its tries together would take more than the work of {MOST_WORK:,.0f} events. Ask "
                "without capacity, for shorter answers, or for a smaller max_batch_size."
            ) from None
        return None
    finally:
        budget.left = max(0.0, budget.left - simulation.work_done)
    return summarise_run(simulation, server, share)


def rank_needs(needs: Sequence[CapacityNeed]) -> list[CapacityNeed]:
    """The cheapest first; those that do not suffice last."""
    return sorted(needs, key=lambda need: (need.replicas is None, need.usd_per_hour or Decimal(0)))


def describe_needs(needs: Sequence[CapacityNeed], left_out: Sequence[str]) -> tuple[Caveat, ...]:
    """Hardware that was left out, and hardware whose price is one of the whole run: the tried one has no steady part."""
    unsteady = sum(need.replicas is not None and need.result is not None and not need.result.steady for need in needs)
    caveats: Sequence[tuple[bool, Caveat]] = [
        (unsteady > 0, Caveat("needs_not_steady", {"unsteady": unsteady, "total": len(needs)})),
        (len(left_out) > 0, Caveat("needs_left_out", {"hardware": ", ".join(left_out)})),
    ]
    return tuple(caveat for holds, caveat in caveats if holds)


LOADS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1)
"""Rates, as shares of what continuous batching serves at most by the laws."""
POINT_REQUESTS = 400
"""Requests of each point."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepPoint:
    """One policy at one rate."""

    policy: Policy
    requests_per_s: float
    result: TrafficResult


def sweep_loads(servers: Mapping[Policy, Server], question: TrafficQuestion) -> Iterator[SweepPoint]:
    """Every policy at every load, load by load; requests arrive at random, the same ones for every policy."""
    most = most_requests_per_s(servers["continuous"], question.shape)
    for load in LOADS:
        rate = load * most
        at_rate = replace(question, arrivals="poisson", requests_per_s=rate, duration_s=POINT_REQUESTS / rate)
        for policy, server in servers.items():
            result = summarise_run(run_all(start_simulation(server, at_rate)), server, at_rate)
            if result is not None:
                yield SweepPoint(policy=policy, requests_per_s=rate, result=result)


def describe_points(points: Sequence[SweepPoint]) -> tuple[Caveat, ...]:
    """That at some points no steady part of the run is left to count (`TrafficResult.steady`)."""
    unsteady = [point for point in points if not point.result.steady]
    if not unsteady:
        return ()
    lowest = min(point.requests_per_s for point in unsteady)
    return (Caveat("loads_not_steady", {"points": len(unsteady), "total": len(points), "lowest_requests_per_s": lowest}),)
