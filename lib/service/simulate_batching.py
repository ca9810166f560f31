"""`/simulate_batching`: requests that arrive together on a model and hardware, by policy; and streams for the tab *Traffic*."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, TypeVar, cast

import numpy as np

from lib.answers.traffic import BatchingAnswer, CapacityNeedEntry, LoadEntry, LoadsAnswer, TierNeedEntry
from lib.catalog.offers import Hardware as AnyHardware
from lib.errors import AdvisorError, BadArgument, Busy, InvalidInput, UnsupportedModel
from lib.model.spec import ModelSpec
from lib.provenance import Caveat, Source
from lib.request.fields import Arguments, Form, number, one_of, whole_number
from lib.request.serving import DEFAULTS, ServingSettings, merge_setting
from lib.request.types import Engine, Flag, Hardware, Model, Precision, Tokens, TokensOrNone, text_of
from lib.result import fields_of
from lib.service.endpoint import App, endpoint
from lib.service.fair_turns import FairTurns
from lib.speed import SpeedRequest, predict_speed
from lib.traffic import arrivals as arriving
from lib.traffic.arrivals import Arrival, RequestShape, read_recording
from lib.traffic.replica import POLICIES, Policy, ServerPlan
from lib.traffic.server import (
    LOADS,
    CapacityNeed,
    Server,
    SweepPoint,
    TrafficQuestion,
    WorkBudget,
    describe_caveats,
    describe_needs,
    describe_points,
    find_replicas,
    lone_request_s,
    most_requests_per_s,
    rank_needs,
    resolve_server,
    start_simulation,
    summarise_run,
    sweep_loads,
)
from lib.traffic.simulation import Simulation, Target, TooManyEvents, TrafficResult, run_all
from lib.workload import LONGEST_CONTEXT

MOST_BATCH = 1_024
MOST_REPLICAS = 64
MOST_CLIENTS = 4_096
LONGEST_S = arriving.MAX_SPAN_S
LEAST_RATE, MOST_RATE = 0.0001, 10_000
_AT_ONCE, _WAIT_S = 2, 30.0
MAX_SIMULATIONS_WAITING, _OWN_WAITING = 16, 4
_TURNS = FairTurns(_AT_ONCE, queue_slots=MAX_SIMULATIONS_WAITING, own_queue_slots=_OWN_WAITING)
"""A running simulation occupies a processor, so only `_AT_ONCE` run at a time and the others wait.

At most 14 threads call `/simulate_batching` (`lib.ui.http.fair_queue`), and two events of the page stream it, so `MAX_SIMULATIONS_WAITING`
places are enough.
"""


class ManySimulations(Busy):
    """Too many simulations run at the same time."""

    def __init__(self) -> None:
        AdvisorError.__init__(
            self,
            f"{_AT_ONCE} simulations run right now, and this one did not get its turn within {_WAIT_S:.0f} s, or {_OWN_WAITING} of yours "
            f"({MAX_SIMULATIONS_WAITING} of all visitors) wait already. Try again in some seconds.",
        )


Seconds = Annotated[float, number(0, LONGEST_S)]


class ServedArguments(Arguments):
    """The model, how it is served, and the usual request."""

    model: Model
    hardware: Hardware
    """An id such as l4x1 or v6e-8, or plain silicon with a count such as H100-SXMx8."""
    prompt_tokens: Tokens = 512
    """Tokens of a prompt, on average."""
    output_tokens: Tokens = 256
    """Tokens of an answer, on average."""
    max_batch_size: Annotated[int, whole_number(1, MOST_BATCH), Form("Largest batch", "slots", group="traffic")] = 32
    """Sequences that a replica takes at a time (max_num_seqs)."""
    timeout_s: Annotated[float, number(0, 3_600), Form("Timeout, s (dynamic)", "timeout", group="traffic")] = 0.05
    """Dynamic batching: seconds after which a batch starts unfilled."""
    precision: Precision = "auto"
    engine: Engine = "vllm"
    lengths: Annotated[arriving.Lengths, one_of(arriving.LENGTHS), Form("Lengths", group="traffic")] = "uniform"
    """uniform or lognormal around these means, or fixed: then all clients of a closed loop stay in lockstep."""
    spread: Annotated[float, number(0, 3), Form("Spread", group="traffic")] = 0.5
    """Uniform: share of the mean either way (at most 1); lognormal: its variation."""
    replicas: Annotated[int, whole_number(1, MOST_REPLICAS), Form("Replicas", "machines", group="traffic")] = 1
    """Replicas of the model, each on hardware of this kind."""
    cold_start_s: Annotated[float, number(0, 3_600), Form("Cold start, s", "cold", group="traffic")] = 120
    """Seconds that a replica takes to wake."""
    scale_to_zero_after_s: Annotated[Seconds, Form("Scale to zero after, s", "idle", group="traffic")] = 0
    """Seconds without requests after which a replica sleeps; 0 is never."""
    concurrency_limit: Annotated[int, whole_number(0, MOST_CLIENTS), Form("Concurrency limit of the app", "limit", group="traffic")] = 0
    """Requests that the app in front lets through at a time (default_concurrency_limit of a Space); 0 sets no limit."""
    shared_prefix_tokens: Annotated[TokensOrNone, Form("Shared prefix, tokens", "prefix", group="traffic", high=LONGEST_CONTEXT)] = 0
    """Tokens with which all prompts begin, cached once."""
    token_budget: Annotated[int, whole_number(0, 65_536)] = 0
    """Tokens of a step at most (max_num_batched_tokens); 0 is the engine's own default."""
    max_ttft_s: Annotated[Seconds, Form("Target: TTFT, s", "ttft_target", group="traffic")] = 0
    """Target: seconds to the first token; 0 is none."""
    max_tpot_s: Annotated[Seconds, Form("Target: TPOT, s", "tpot_target", group="traffic")] = 0
    """Target: seconds between tokens; 0 is none."""
    serving: ServingSettings = DEFAULTS

    @property
    def shape(self) -> RequestShape:
        """The usual request.

        Raises:
            BadArgument: a spread that would make lengths negative, or a shared prefix as long as the prompt.
        """
        if self.lengths == "uniform" and self.spread > 1:
            raise BadArgument("spread", self.spread, "a number from 0 to 1 where lengths are uniform")
        if self.shared_prefix_tokens >= self.prompt_tokens:
            raise BadArgument("shared_prefix_tokens", self.shared_prefix_tokens, f"fewer than the {self.prompt_tokens:,} of the prompt")
        return RequestShape(prompt_tokens=self.prompt_tokens, output_tokens=self.output_tokens, lengths=self.lengths, spread=self.spread)

    def question(self, policy: Policy) -> TrafficQuestion:
        """The question with default arrivals and duration."""
        fields, serving = type(self).model_fields, self.serving
        batch = merge_setting("max_batch_size", self.max_batch_size, fields["max_batch_size"].default, "max_num_seqs", serving.sequences)
        if batch > MOST_BATCH:
            raise BadArgument("serving.max_num_seqs", batch, f"at most {MOST_BATCH:,} in a simulation")
        budget = merge_setting("token_budget", self.token_budget, 0, "max_num_batched_tokens", serving.max_num_batched_tokens)
        shared = None if serving.prefix_share is None else serving.shared_tokens(self.prompt_tokens)
        plan = ServerPlan(
            policy=policy,
            max_batch_size=batch,
            timeout_s=self.timeout_s,
            replicas=self.replicas,
            token_budget=budget,
            cold_start_s=self.cold_start_s,
            scale_to_zero_after_s=self.scale_to_zero_after_s,
            concurrency_limit=self.concurrency_limit,
            shared_prefix_tokens=merge_setting("shared_prefix_tokens", self.shared_prefix_tokens, 0, "prefix_share", shared),
        )
        return TrafficQuestion(shape=self.shape, plan=plan, target=Target(ttft_s=self.max_ttft_s, tpot_s=self.max_tpot_s))


class BatchingArguments(ServedArguments):
    """Arguments of `/simulate_batching`."""

    behind = (
        "hardware policy requests_per_s prompt_tokens",
        "timeout_s duration_s seed precision arrivals burstiness clients trace capacity engine",
    )

    policy: Annotated[Policy, one_of(POLICIES), Form("Batching", group="traffic")] = "continuous"
    """static, dynamic or continuous batching."""
    requests_per_s: Annotated[float, number(LEAST_RATE, MOST_RATE), Form("Requests per second", "rate", group="traffic")] = 1
    """Requests that arrive per second, on average."""
    duration_s: Annotated[float, number(1, LONGEST_S), Form("Duration, s", "duration", group="traffic")] = 300
    """Seconds in which requests arrive; all of them are answered. At most about 10,000 requests are simulated."""
    seed: Annotated[int, whole_number(0, 2**31), Form("Seed", group="traffic")] = 0
    """Seed of the random numbers; the same seed gives the same requests."""
    arrivals: Annotated[arriving.Arrivals, one_of(arriving.ARRIVALS), Form("Arrivals", group="traffic")] = "poisson"
    """poisson, bursty, recorded or closed."""
    burstiness: Annotated[float, number(0.01, 1), Form("Burstiness", "bursts", group="traffic")] = 0.25
    """Bursty: shape of the gamma distributed gaps; 1 is poisson."""
    clients: Annotated[int, whole_number(0, MOST_CLIENTS), Form("Clients (closed loop)", "clients", group="traffic", low=1)] = 0
    """Closed: clients that send the next request when one is answered."""
    trace: Annotated[str, text_of("a CSV"), Form("", group="traffic")] = ""
    """Recorded: CSV with a time in each line, and prompt_tokens and output_tokens if recorded."""
    capacity: Flag = False
    """Also find the replicas and tiers that keep max_ttft_s and max_tpot_s at the 99th percentile."""

    def whole_question(self) -> TrafficQuestion:
        """The whole question.

        Raises:
            BadArgument: clients or a trace are missing or would not be used, or the trace cannot be read.
        """
        question = self.question(self.policy)
        if self.arrivals == "closed" and not self.clients:
            raise BadArgument("clients", 0, f"a whole number from 1 to {MOST_CLIENTS:,} where arrivals are closed")
        if self.clients and self.arrivals != "closed":
            raise BadArgument("clients", self.clients, f"0 where arrivals are {self.arrivals}; closed keeps that many clients at work")
        if self.trace.strip() and self.arrivals != "recorded":
            raise BadArgument(
                "trace", f"{len(self.trace):,} characters", f"nothing where arrivals are {self.arrivals}; recorded replays it"
            )
        recording: tuple[Arrival, ...] = ()
        if self.arrivals == "recorded":
            recording = tuple(read_recording(self.trace, question.shape, np.random.default_rng(self.seed)))
        return replace(
            question,
            arrivals=self.arrivals,
            requests_per_s=self.requests_per_s,
            burstiness=self.burstiness,
            clients=self.clients,
            recording=recording,
            duration_s=recording[-1].at_s if recording else self.duration_s,
            seed=self.seed,
        )


Step = TypeVar("Step")


def _in_turns(app: App, steps: Iterator[Step]) -> Iterator[Step]:
    """Compute each step in a turn of its own, so that a caller who reads slowly or asks for many does not delay others."""
    end, caller = object(), app.caller()
    while True:
        with _TURNS.turn(caller, _WAIT_S, ManySimulations):
            step = next(steps, end)
        if step is end:
            return
        yield cast("Step", step)


@endpoint(heavy=True)
def simulate_batching(app: App, arguments: BatchingArguments) -> BatchingAnswer:
    """Simulate requests that arrive together: throughput, queue, percentiles of TTFT, TPOT and latency, cost of a million tokens.

    Returns:
        The figures of one simulation, and with `capacity` the replicas and tiers that keep the targets.
    """
    spec = app.models(arguments.model)  # outside of the turn, because it may wait for a build or the Hub
    with _TURNS.turn(app.caller(), _WAIT_S, ManySimulations):
        question = arguments.whole_question()  # reads a recording of up to a million characters
        hardware = app.catalog().resolve_hardware(arguments.hardware)
        server = _server(app, spec, hardware, question, arguments)  # a grid of steps
        simulation = run_all(start_simulation(server, question))
        result = summarise_answered(simulation, server, question)
    needs, budget = None, WorkBudget()
    if arguments.capacity:
        needs = [step for step in _in_turns(app, _find_needs(app, spec, server, question, arguments, budget)) if step is not None]
    alone, sources = _prediction(app, spec, server, arguments)
    return BatchingAnswer(
        **fields_of(result),
        model=spec.id,
        hardware=hardware.id,
        policy=server.plan.policy,
        precision=server.engine_config.precision,
        engine=server.engine_config.layout.engine,
        arrivals=question.arrivals,
        replicas=server.plan.replicas,
        max_batch_size=server.plan.max_batch_size,
        most_requests_per_s=most_requests_per_s(server, question.shape),
        capacity=None if needs is None else _capacity(needs, question, budget),
        caveats=(*describe_caveats(server, question, result), *describe_needs(needs or (), budget.left_out), *alone),
        sources=sources,
    )


def summarise_answered(simulation: Simulation, server: Server, question: TrafficQuestion) -> TrafficResult:
    """The figures of a simulation that has ended.

    Raises:
        BadArgument: no request arrived, or none could be answered.
    """
    result = summarise_run(simulation, server, question)
    if result is not None:
        return result
    if simulation.refused:
        raise BadArgument("trace", f"{len(simulation.refused):,} requests", "requests of which one at least fits the hardware's cache")
    raise BadArgument(
        "duration_s", question.duration_s, "a time in which at least one request arrives: ask for more seconds or requests_per_s"
    )


def _prediction(app: App, spec: ModelSpec, server: Server, arguments: ServedArguments) -> tuple[tuple[Caveat, ...], tuple[Source, ...]]:
    """Caveats of the prediction of a lone request, and the origin of the times."""
    request = SpeedRequest(
        precision=arguments.precision,
        engine=arguments.engine,
        prompt_tokens=arguments.prompt_tokens,
        output_tokens=arguments.output_tokens,
        serving=arguments.serving,
    )
    speed = predict_speed(spec, server.hardware, request, app.catalog().accelerators)
    return speed.caveats, speed.sources


def _server(app: App, spec: ModelSpec, hardware: AnyHardware, question: TrafficQuestion, arguments: ServedArguments) -> Server:
    accelerators = app.catalog().accelerators
    return resolve_server(
        spec, hardware, question, accelerators, precision=arguments.precision, engine=arguments.engine, serving=arguments.serving
    )


def _find_needs(
    app: App, spec: ModelSpec, server: Server, question: TrafficQuestion, arguments: ServedArguments, budget: WorkBudget
) -> Iterator[CapacityNeed | None]:
    """The replicas of the stated hardware, then of each tier of its platform that holds the model; None after each try."""
    once = server.with_replicas(1)
    yield from find_replicas(once, question, budget)
    if server.hardware.traits.owned:
        return
    catalog = app.catalog()
    for offer in catalog.on([server.hardware.rented_from]):
        if offer.id == server.hardware.id or offer.accelerator is None or not offer.usd_per_hour or "implausible_price" in offer.rules:
            continue
        if not budget.left:
            budget.left_out.append(offer.id)
            continue
        try:
            other = _server(app, spec, offer, replace(question, plan=replace(question.plan, replicas=1)), arguments)
        except (InvalidInput, UnsupportedModel):  # does not hold the model, or the engine does not run there
            continue
        try:
            yield from find_replicas(other, question, budget)
        except TooManyEvents:
            budget.left_out.append(offer.id)


def _capacity(needs: list[CapacityNeed], question: TrafficQuestion, budget: WorkBudget) -> CapacityNeedEntry:
    return CapacityNeedEntry(
        max_ttft_s=question.target.ttft_s,
        max_tpot_s=question.target.tpot_s,
        replicas=needs[0].replicas,
        tiers=tuple(map(_tier, rank_needs(needs))),
        left_out=tuple(budget.left_out),
    )


def _tier(need: CapacityNeed) -> TierNeedEntry:
    hardware, result = need.server.hardware, need.result
    return TierNeedEntry(
        replicas=need.replicas,
        usd_per_hour=need.usd_per_hour,
        hardware=hardware.id,
        platform=hardware.rented_from,
        name=hardware.name,
        ttft_p99_s=None if result is None else result.ttft_p99_s,
        tpot_p99_s=None if result is None else result.tpot_p99_s,
        usd_per_million_tokens=None if need.replicas is None or result is None else result.usd_per_million_tokens,
        steady=result is not None and result.steady,
    )


def stream_loads(app: App, arguments: ServedArguments) -> Iterator[LoadsAnswer]:
    """The three policies at rising loads; each answer has one load more.

    Raises:
        AdvisorError: an argument that is wrong, or hardware that does not hold the model.
    """
    spec, hardware = app.models(arguments.model), app.catalog().resolve_hardware(arguments.hardware)
    question = arguments.question("continuous")
    with _TURNS.turn(app.caller(), _WAIT_S, ManySimulations):
        servers: dict[Policy, Server] = {policy: _server(app, spec, hardware, arguments.question(policy), arguments) for policy in POLICIES}
        server = servers["continuous"]
        caveats, sources = _prediction(app, spec, server, arguments)
    answer = LoadsAnswer(
        model=spec.id,
        hardware=hardware.id,
        name=hardware.name,
        platform=hardware.rented_from,
        precision=server.engine_config.precision,
        engine=server.engine_config.layout.engine,
        usd_per_hour=server.usd_per_hour,
        most_requests_per_s=most_requests_per_s(server, question.shape),
        lone_request_s=lone_request_s(server, question.shape),
        points=(),
        done=0,
        total=len(LOADS) * len(POLICIES),
        sources=sources,
    )
    points: list[SweepPoint] = []
    for point in _in_turns(app, sweep_loads(servers, question)):
        points.append(point)
        if len(points) % len(POLICIES) == 0:
            open_points = (*describe_points(points), *describe_caveats(server, question, None), *caveats)
            yield replace(answer, points=tuple(map(_load_entry, points)), done=len(points), caveats=open_points)


def _load_entry(point: SweepPoint) -> LoadEntry:
    return LoadEntry(**fields_of(point.result), policy=point.policy, asked_requests_per_s=point.requests_per_s, steady=point.result.steady)


def stream_needs(app: App, arguments: BatchingArguments) -> Iterator[CapacityNeedEntry]:
    """The replicas that keep the targets, tier by tier; each answer has one tier more, the stated hardware first.

    Raises:
        AdvisorError: an argument that is wrong, no target, or hardware that does not hold the model.
    """
    spec = app.models(arguments.model)
    with _TURNS.turn(app.caller(), _WAIT_S, ManySimulations):
        question = arguments.whole_question()
        server = _server(app, spec, app.catalog().resolve_hardware(arguments.hardware), question, arguments)
    needs, budget = list[CapacityNeed](), WorkBudget()
    for need in _in_turns(app, _find_needs(app, spec, server, question, arguments, budget)):
        if need is not None:
            needs.append(need)
            yield _capacity(needs, question, budget)
    if budget.left_out:
        yield _capacity(needs, question, budget)
