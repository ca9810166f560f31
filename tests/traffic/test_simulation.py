"""The simulation against queueing theory, what it must never lose or exceed, and what its policies do."""

from __future__ import annotations

import heapq
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from traffic_stand_in import EqualSteps, OneByteATokenRoom

from lib.traffic.arrivals import Arrival, RequestShape, draw_arrivals
from lib.traffic.replica import BLOCK_TOKENS, POLICIES, ServerPlan
from lib.traffic.simulation import Simulation, Target, TooManyEvents, TrafficResult, run_all, summarise

STEPS, ROOM = EqualSteps(), OneByteATokenRoom()


def run_arrivals(arrivals: list[Arrival], plan: ServerPlan, steps: EqualSteps = STEPS, room: OneByteATokenRoom = ROOM) -> Simulation:
    """All of them, answered."""
    return run_all(Simulation(plan, steps, room, arrivals=arrivals))


def figures(of: Simulation, **asked: object) -> TrafficResult:
    """The result, which there is."""
    result = summarise(of, **({"duration_s": 0.0} | asked))  # type: ignore[arg-type]
    assert result is not None
    return result


def kiefer_wolfowitz(arrivals: list[Arrival], slots: int, token_s: float) -> list[float]:
    """Waits of requests that take so long a token, by the moments at which slots become free."""
    free, waits = [0.0] * slots, []
    for arrival in arrivals:
        begins = max(arrival.at_s, heapq.heappop(free))
        waits.append(begins - arrival.at_s)
        heapq.heappush(free, begins + arrival.output_tokens * token_s)
    return waits


def test_one_slot_and_equal_requests_wait_as_m_d_1_says() -> None:
    """A request is 1000 steps of 1 ms, one at a time: D = 1 s. At load 1/2 the mean wait is ρ·D / (2·(1 - ρ)) = 0.5 s."""
    arrivals = draw_arrivals(0.5, 60_000, RequestShape(prompt_tokens=1, output_tokens=1000), np.random.default_rng(1))
    of = run_arrivals(arrivals, ServerPlan(max_batch_size=1))
    assert figures(of).wait_mean_s == pytest.approx(0.5, rel=0.02)
    assert figures(of).wait_mean_s == pytest.approx(np.mean(kiefer_wolfowitz(arrivals, 1, 0.001)), abs=1e-6)


def draw_exponential(count: int, seed: int) -> list[Arrival]:
    """One request a second on average, of 2000 tokens on average: both exact in the sample, which halves the noise of the waits."""
    random = np.random.default_rng(seed)
    gaps, lengths = random.exponential(1.0, count), random.exponential(2000.0, count)
    tokens = np.maximum(1, np.round(lengths * 2000 / lengths.mean())).astype(int).tolist()
    return [Arrival(at, 1, each) for at, each in zip(np.cumsum(gaps / gaps.mean()).tolist(), tokens, strict=True)]


def test_two_replicas_and_exponential_requests_wait_as_m_m_c_says() -> None:
    """Means of 1 s, one a second: P(wait) = 1/3 (Erlang C), and the mean wait is 1/3 / (2 - 1) s.

    With 60,000 requests the mean wait has a standard error of 1.6 %, so the simulation is also held to the same requests worked out
    without it.
    """
    arrivals = draw_exponential(60_000, 2)
    of = run_arrivals(arrivals, ServerPlan(replicas=2, max_batch_size=1), EqualSteps(each_s=0.0005))
    mean = figures(of).wait_mean_s
    assert mean == pytest.approx(1 / 3, rel=0.02)
    assert np.mean([(job.started_s or 0) > job.arrival.at_s + 0.001 for job in of.jobs]) == pytest.approx(1 / 3, rel=0.02)
    assert mean == pytest.approx(np.mean(kiefer_wolfowitz(arrivals, 2, 0.0005)), abs=1e-6)


def test_two_sequences_of_one_replica_wait_like_two_replicas() -> None:
    """Steps that take the same time for one as for two: each sequence is a server. Joining at a step's end rounds waits by 0.5 ms."""
    arrivals = draw_exponential(10_000, 3)
    of = run_arrivals(arrivals, ServerPlan(max_batch_size=2), EqualSteps(each_s=0.0005))
    assert figures(of).wait_mean_s == pytest.approx(np.mean(kiefer_wolfowitz(arrivals, 2, 0.0005)), abs=0.0005)


arrivals_lists = st.lists(
    st.builds(Arrival, st.floats(0, 2, allow_nan=False), st.integers(1, 200), st.integers(1, 60)), min_size=1, max_size=30
).map(sorted)
plans = st.builds(
    ServerPlan,
    policy=st.sampled_from(POLICIES),
    max_batch_size=st.integers(1, 8),
    timeout_s=st.sampled_from([0.0, 0.05, 1.0]),
    replicas=st.integers(1, 3),
    token_budget=st.integers(1, 256),
    cold_start_s=st.sampled_from([0.0, 0.5]),
    scale_to_zero_after_s=st.sampled_from([0.0, 0.1]),
    concurrency_limit=st.sampled_from([0, 1, 4]),
    shared_prefix_tokens=st.sampled_from([0, 48]),
)


def check_conserved(of: Simulation, expected: int) -> None:
    """Each request once; every token; never more cache than there is; nothing before its cause."""
    assert len({id(job) for job in of.jobs}) == len(of.jobs)
    assert len(of.jobs) + len(of.refused) == expected
    assert all(job.left == 0 and job.cache_bytes == 0 for job in of.jobs)
    for replica in of.replicas:
        assert replica.peak_bytes <= of.room.capacity
        assert (replica.load, replica.cache_bytes) == (0, 0)
        assert replica.busy_s <= replica.bill(of.env.now) + 1e-6
    for job in of.jobs:
        started, first, done = job.started_s, job.first_s, job.done_s
        assert started is not None and first is not None and done is not None  # noqa: PT018  for the type checker
        assert job.arrival.at_s - 1e-9 <= started < first <= done  # a clock that adds up waits rounds
    assert not of.queue
    assert of.in_service == 0


@given(arrivals=arrivals_lists, plan=plans, room=st.integers(64, 600))
def test_every_request_is_answered_once_within_the_cache(arrivals: list[Arrival], plan: ServerPlan, room: int) -> None:
    """Whatever the policy, the cache and the limits; requests that would never fit are refused."""
    of = run_arrivals(arrivals, plan, room=OneByteATokenRoom(capacity_bytes=room))
    check_conserved(of, len(arrivals))


@given(clients=st.integers(1, 9), plan=plans)
def test_clients_in_a_closed_loop_are_all_answered(clients: int, plan: ServerPlan) -> None:
    """40 requests, each sent when the one before is answered: never more on their way than there are clients."""
    lengths = iter([(number % 7 + 1, number % 5 + 1) for number in range(40)])
    of = run_all(Simulation(plan, STEPS, ROOM, clients=clients, lengths=lengths))
    check_conserved(of, 40)
    ends = sorted([(job.arrival.at_s, 1) for job in of.jobs] + [(job.done_s, -1) for job in of.jobs], key=lambda end: (end[0], end[1]))
    assert max(np.cumsum([change for _, change in ends])) <= clients


@given(arrivals=arrivals_lists, room=st.integers(264, 400))
def test_the_work_of_a_sequence_is_its_tokens(arrivals: list[Arrival], room: int) -> None:
    """One slot, no preemption: a request takes a step for its prompt (in its budget) and one for each further token."""
    of = run_arrivals(arrivals, ServerPlan(max_batch_size=1), room=OneByteATokenRoom(capacity_bytes=room))
    for job in of.jobs:
        assert job.done_s == pytest.approx((job.started_s or 0.0) + 0.001 * job.arrival.output_tokens)
    assert of.replicas[0].busy_s == pytest.approx(0.001 * sum(job.arrival.output_tokens for job in of.jobs))


def test_a_full_cache_preempts_the_newest_and_reads_it_again() -> None:
    """Two requests of 32 + 100 tokens in a cache of 160: both join, the second gives way, and ends after the first."""
    of = run_arrivals([Arrival(0.0, 32, 100), Arrival(0.0, 32, 100)], ServerPlan(), room=OneByteATokenRoom(capacity_bytes=160))
    first, second = of.jobs
    assert (first.preemptions, second.preemptions) == (0, 1)
    assert (second.done_s or 0) > (first.done_s or 0)
    assert of.replicas[0].peak_bytes <= 160


def test_chunks_of_prompts_share_steps_with_decoding() -> None:
    """Budget 100: a prompt of 250 beside one running sequence takes 99 + 99 + 52 tokens, so three steps, in which the other goes on."""
    of = run_arrivals([Arrival(0.0, 10, 50), Arrival(0.0101, 250, 1)], ServerPlan(token_budget=100))
    running, read = sorted(of.jobs, key=lambda job: job.arrival.at_s)
    assert (read.first_s or 0) - (read.started_s or 0) == pytest.approx(0.003)
    assert running.done_s == pytest.approx(0.05)


def test_static_waits_for_a_full_batch_and_dynamic_for_its_timeout() -> None:
    """Two requests 10 ms apart, batches of four: static starts when nobody else can come, dynamic 50 ms after the first."""
    arrivals = [Arrival(0.0, 1, 1), Arrival(0.01, 1, 1), Arrival(1.0, 1, 1)]
    static = run_arrivals(arrivals, ServerPlan(policy="static", max_batch_size=4))
    assert [job.started_s for job in static.jobs] == [1.0, 1.0, 1.0]
    dynamic = run_arrivals(arrivals, ServerPlan(policy="dynamic", max_batch_size=4))
    assert [job.started_s for job in dynamic.jobs] == pytest.approx([0.05, 0.05, 1.0])
    full = run_arrivals(arrivals, ServerPlan(policy="dynamic", max_batch_size=2))
    assert [job.started_s for job in full.jobs] == pytest.approx([0.01, 0.01, 1.0])


def test_a_batch_is_padded_and_ends_together() -> None:
    """Answers of 1 and 100 tokens in one batch: both are complete when the longer one is."""
    of = run_arrivals([Arrival(0.0, 5, 1), Arrival(0.0, 5, 100)], ServerPlan(policy="static", max_batch_size=2))
    assert [job.done_s for job in of.jobs] == pytest.approx([0.1, 0.1])


def test_a_replica_that_sleeps_is_not_billed_and_takes_its_cold_start() -> None:
    """Asleep at first; awake from 10 s: 2 s of start, 0.01 s of work, 5 s until it sleeps again, and once more at 100 s, cut at 103 s."""
    plan = ServerPlan(cold_start_s=2.0, scale_to_zero_after_s=5.0)
    of = run_arrivals([Arrival(10.0, 1, 10), Arrival(100.0, 1, 10)], plan)
    assert [job.started_s for job in of.jobs] == pytest.approx([12.0, 102.0])
    result = figures(of, duration_s=103.0, usd_per_hour=Decimal("3.6"))
    assert result.cold_starts == 2
    assert result.billed_s == pytest.approx(7.01 + 3.0)
    assert float(result.usd_per_million_tokens or 0) == pytest.approx(10.01 * 0.001 / 20 * 1e6)


def test_rates_and_price_are_those_of_the_steady_part() -> None:
    """A request a second of 10 s (10,000 steps of 1 ms) for 100 s: from 10 s on ten run, and each gives 1000 tokens a second.

    The whole run of 109 s would say 1,000,000 / 109 = 9,174 a second, 9 % too dear; a run of 15 s has no steady part.
    """
    arrivals = [Arrival(float(second), 1, 10_000) for second in range(100)]
    of = run_arrivals(arrivals, ServerPlan(max_batch_size=20))
    result = figures(of, duration_s=100.0, usd_per_hour=Decimal(36))
    assert (result.counted_from_s, result.counted_until_s, result.steady) == (pytest.approx(10.0, abs=0.02), 100.0, True)
    assert result.throughput_tokens_per_s == pytest.approx(10_000, rel=0.002)
    assert result.requests_per_s == pytest.approx(1.0, rel=0.02)
    assert float(result.usd_per_million_tokens or 0) == pytest.approx(0.01 * 1e6 / 10_000, rel=0.002)
    assert result.span_s == pytest.approx(109.0, abs=0.1)
    short = figures(run_arrivals(arrivals[:15], ServerPlan(max_batch_size=20)), duration_s=15.0, usd_per_hour=Decimal(36))
    assert (short.counted_from_s, short.counted_until_s, short.steady) == (0.0, short.span_s, False)
    assert short.throughput_tokens_per_s == pytest.approx(150_000 / short.span_s)


@given(arrivals=arrivals_lists, plan=plans)
def test_the_steady_part_never_counts_more_than_there_is(arrivals: list[Arrival], plan: ServerPlan) -> None:
    """No more tokens than were asked for, no more seconds than are billed, and a queue no longer than all requests."""
    result = figures(run_arrivals(arrivals, plan), duration_s=arrivals[-1].at_s, usd_per_hour=Decimal(1))
    seconds = result.counted_until_s - result.counted_from_s
    assert 0 <= result.counted_from_s < result.counted_until_s <= result.span_s
    assert result.throughput_tokens_per_s * seconds <= result.output_tokens * (1 + 1e-9)
    assert result.requests_per_s * seconds <= result.completed + 1e-9
    assert 0 <= result.queue_mean <= result.requests


def test_the_queue_of_a_space_lets_so_many_through() -> None:
    """`default_concurrency_limit` 1: one after another, however many the engine could take."""
    of = run_arrivals([Arrival(0.0, 1, 10)] * 3, ServerPlan(concurrency_limit=1))
    assert [job.started_s for job in of.jobs] == pytest.approx([0.0, 0.01, 0.02])
    assert run_arrivals([Arrival(0.0, 1, 10)] * 3, ServerPlan()).env.now == pytest.approx(0.01)


def test_a_shared_prefix_is_read_and_held_once() -> None:
    """160 of 200 prompt tokens shared: the second request reads 40, and both hold 64 beside the prefix (40 and 10 tokens, in blocks)."""
    plan = ServerPlan(shared_prefix_tokens=10 * BLOCK_TOKENS, token_budget=40)
    of = run_arrivals([Arrival(0.0, 200, 10), Arrival(1.0, 200, 10)], plan)
    assert [(job.first_s or 0) - (job.started_s or 0) for job in of.jobs] == pytest.approx([0.005, 0.001])
    assert of.replicas[0].peak_bytes == 64
    assert figures(of).cache_peak_bytes == 64 + 160


def test_goodput_counts_requests_within_both_targets() -> None:
    """One slot, 100 ms each, together: first tokens after 1, 101 and 201 ms; two of three come within 150 ms."""
    of = run_arrivals([Arrival(0.0, 1, 100)] * 3, ServerPlan(max_batch_size=1))
    result = figures(of, target=Target(ttft_s=0.15))
    assert result.on_target == pytest.approx(2 / 3)
    assert result.goodput_per_s == pytest.approx(2 / 0.3)
    assert figures(of, target=Target(tpot_s=0.0005)).on_target == 0
    assert figures(of).goodput_per_s is None


def test_too_many_events_are_refused_with_the_arithmetic() -> None:
    """The limit, how far it came, and what to do."""
    with pytest.raises(TooManyEvents, match=r"after 3 steps of the engine, at 0 s .*with 1 requests answered"):
        run_all(Simulation(ServerPlan(max_batch_size=1), STEPS, ROOM, arrivals=[Arrival(0.0, 1, 5)] * 9, most_events=3))


def test_the_same_seed_gives_the_same_answer() -> None:
    """Figures can be repeated."""
    shape = RequestShape(lengths="lognormal")
    runs = [figures(run_arrivals(draw_arrivals(20, 5, shape, np.random.default_rng(seed)), ServerPlan())) for seed in (3, 3, 4)]
    assert runs[0] == runs[1] != runs[2]
    assert replace(runs[0], events=0) != replace(runs[2], events=0)
