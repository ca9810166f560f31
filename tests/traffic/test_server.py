"""A model on hardware as a server: the laws at low load, the cache within the card, work that is refused, capacity."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from lib.catalog import load
from lib.engines import Engine
from lib.errors import BadArgument
from lib.memory import usable_memory
from lib.model import bundled
from lib.model.spec import ModelSpec
from lib.speed import SpeedRequest, predict_speed
from lib.traffic.arrivals import RequestShape
from lib.traffic.replica import POLICIES, Policy, ServerPlan
from lib.traffic.server import (
    LOADS,
    Server,
    TrafficQuestion,
    WorkBudget,
    describe_caveats,
    find_replicas,
    keeps_target,
    lone_request_s,
    most_requests_per_s,
    resolve_server,
    start_simulation,
    sweep_loads,
)
from lib.traffic.simulation import Target, TooManyEvents, TrafficResult, run_all, summarise

CATALOG = load()
LLAMA = "meta-llama/Llama-3.1-8B-Instruct"


def spec_of(name: str) -> ModelSpec:
    """A bundled model."""
    spec = bundled.find_spec(name)
    assert spec is not None
    return spec


def server_of(question: TrafficQuestion, hardware: str = "l4x1", name: str = LLAMA, engine: Engine = "vllm") -> Server:
    """The server of a question."""
    return resolve_server(spec_of(name), CATALOG.resolve_hardware(hardware), question, CATALOG.accelerators, engine=engine)


def simulate_traffic(question: TrafficQuestion, server: Server) -> TrafficResult:
    """Its figures."""
    result = summarise(run_all(start_simulation(server, question)), duration_s=question.duration_s, target=question.target)
    assert result is not None
    return result


@pytest.mark.parametrize(
    ("name", "hardware", "engine", "policy"),
    [
        (LLAMA, "l4x1", "vllm", "continuous"),
        ("openai/gpt-oss-20b", "H100-SXMx2", "vllm", "continuous"),
        ("Qwen/Qwen3-0.6B", "t4-small", "transformers", "static"),
    ],
)
def test_a_long_run_at_low_load_is_the_speed_law(name: str, hardware: str, engine: Engine, policy: Policy) -> None:
    """A request every 200 times its own time, 300 of them: means of TTFT and TPOT are those predicted for one request at a time."""
    shape = RequestShape(prompt_tokens=600, output_tokens=200)
    request = SpeedRequest(engine=engine, prompt_tokens=600, output_tokens=200)
    predicted = predict_speed(spec_of(name), CATALOG.resolve_hardware(hardware), request, CATALOG.accelerators)
    question = TrafficQuestion(shape=shape, plan=ServerPlan(policy=policy, max_batch_size=1))
    server = server_of(question, hardware, name, engine)
    rate = 1 / (200 * lone_request_s(server, shape))
    result = simulate_traffic(replace(question, requests_per_s=rate, duration_s=300 / rate), server)
    assert predicted.tpot_s is not None
    assert result.ttft_p50_s == pytest.approx(predicted.ttft_s.value, rel=0.005)
    assert result.tpot_mean_s is not None
    assert result.tpot_mean_s == pytest.approx(predicted.tpot_s.value, rel=0.005)
    assert result.latency_p50_s == pytest.approx(predicted.request_s, rel=0.005)
    assert lone_request_s(server, shape) == pytest.approx(predicted.request_s, rel=0.005)


@pytest.mark.parametrize("policy", POLICIES)
def test_the_cache_stays_on_the_card(policy: Policy) -> None:
    """Ten times what it serves, batches as large as asked: weights and cache never take more than the card has."""
    shape = RequestShape(prompt_tokens=2000, output_tokens=500, lengths="lognormal")
    question = TrafficQuestion(shape=shape, plan=ServerPlan(policy=policy, max_batch_size=256), requests_per_s=4, duration_s=60)
    server = server_of(question)
    result = simulate_traffic(question, server)
    card = usable_memory(CATALOG.resolve_hardware("l4x1"))
    assert card is not None
    assert 0 < result.cache_peak_bytes <= result.cache_bytes < card - 2 * 8_030_261_248  # bytes of the weights
    assert result.completed + result.refused == result.requests


def test_hardware_without_room_is_refused_with_the_arithmetic() -> None:
    """16 GB of weights on a T4 of 16 GB leave nothing; a request of 200,000 tokens takes 24.4 GiB."""
    with pytest.raises(BadArgument, match="leaves nothing for the cache"):
        server_of(TrafficQuestion(), "t4-small")
    with pytest.raises(BadArgument, match=r"200,000 tokens takes 24\.41 GiB"):
        server_of(TrafficQuestion(shape=RequestShape(prompt_tokens=199_000, output_tokens=1000)))


def test_too_much_work_is_refused_before_it_begins() -> None:
    """10⁶ requests of three events each, and as many clients: the arithmetic is in the sentence."""
    question = TrafficQuestion(requests_per_s=1000, duration_s=1000)
    with pytest.raises(TooManyEvents, match=r"1,000 requests per second for 1,000 s are 1,000,000 requests, at 3 events each 3,000,000"):
        start_simulation(server_of(question), question)
    closed = TrafficQuestion(arrivals="closed", clients=4000, duration_s=100_000)
    with pytest.raises(TooManyEvents, match="4,000 clients"):
        start_simulation(server_of(closed), closed)


def test_what_the_refusal_asks_for_is_simulated() -> None:
    """The duration that the sentence names passes, one a hundredth longer does not; clients ask no faster than they are served."""
    question = TrafficQuestion(requests_per_s=1000, duration_s=1000)
    server = server_of(question)
    with pytest.raises(TooManyEvents) as refused:
        start_simulation(server, question)
    named = re.search(r"a duration_s of at most ([\d,.]+):", str(refused.value))
    assert named is not None
    longest = float(named[1].replace(",", ""))
    start_simulation(server, replace(question, duration_s=longest))
    with pytest.raises(TooManyEvents):
        start_simulation(server, replace(question, duration_s=longest * 1.1 + 1))
    crowd = TrafficQuestion(arrivals="closed", clients=200, duration_s=900)
    start_simulation(server_of(crowd), crowd)


def test_copies_on_one_piece_of_hardware_are_replicas() -> None:
    """Seven billion parameters of Qwen2 on eight cards: 28 heads split four ways, so two engines, each at half the price."""
    server = server_of(TrafficQuestion(plan=ServerPlan(replicas=3)), "l40sx8", "Qwen/Qwen2.5-7B-Instruct")
    assert (server.engines, server.plan.replicas) == (2, 6)
    assert server.usd_per_hour is not None
    assert server.usd_per_engine_hour == server.usd_per_hour / 2


def test_the_most_that_is_served_is_close_to_what_is_simulated() -> None:
    """Twice of it arrives: what is answered per second is within a tenth of the bound by the laws."""
    question = TrafficQuestion()
    server = server_of(question, "a100-large")
    most = most_requests_per_s(server, question.shape)
    result = simulate_traffic(replace(question, requests_per_s=2 * most, duration_s=500 / most), server)
    assert result.requests_per_s == pytest.approx(most, rel=0.1)
    assert "queue_grows" in {caveat.code for caveat in describe_caveats(server, question, result)}


def test_capacity_is_the_fewest_replicas_that_keep_the_target() -> None:
    """One replica fewer does not; a target that no number of them keeps has no answer."""
    target = Target(ttft_s=1.0, tpot_s=0.07)
    question = TrafficQuestion(requests_per_s=5, duration_s=120, target=target)
    server = server_of(question)
    *_, need = find_replicas(server, question, WorkBudget())
    assert need is not None
    assert need.replicas is not None
    assert need.result is not None
    assert keeps_target(need.result, target)
    assert need.replicas > 1
    assert not keeps_target(simulate_traffic(question, server.with_replicas(need.replicas - 1)), target)
    tries = list(find_replicas(server, replace(question, target=Target(tpot_s=0.001)), WorkBudget()))
    none = tries[-1]
    assert none is not None
    assert none.replicas is None
    assert none.result is not None
    assert len(tries) == 3  # the fewest, the most, and the answer: nothing is searched between two that fail
    with pytest.raises(BadArgument, match="max_ttft_s"):
        list(find_replicas(server, replace(question, target=Target()), WorkBudget()))


def test_capacity_holds_for_longer_than_it_was_tried() -> None:
    """20 requests/s of an 8B on L4: 15 replicas looked enough for 30 s, and had a queue that grew after some minutes."""
    target = Target(ttft_s=1.0, tpot_s=0.1)
    question = TrafficQuestion(requests_per_s=20, target=target)
    server = server_of(question)
    *_, need = find_replicas(server, question, WorkBudget())
    assert need is not None
    assert need.replicas is not None
    assert keeps_target(simulate_traffic(replace(question, duration_s=150), server.with_replicas(need.replicas)), target)


def test_continuous_batching_waits_least_at_every_load() -> None:
    """Every policy has a point at every load, and continuous batching the shortest 99th percentile of the first token."""
    question = TrafficQuestion()
    servers = {policy: server_of(replace(question, plan=ServerPlan(policy=policy))) for policy in POLICIES}
    points = list(sweep_loads(servers, question))
    assert len(points) == len(POLICIES) * len(LOADS)
    by_load: dict[float, dict[str, float]] = {}
    for point in points:
        by_load.setdefault(point.requests_per_s, {})[point.policy] = point.result.ttft_p99_s
    assert all(ttft["continuous"] < ttft["dynamic"] < ttft["static"] for load, ttft in by_load.items() if load < max(by_load))


def test_many_sequences_count_as_more_work() -> None:
    """16,000 requests of 2000 tokens: by Little's law hundreds run at a time, so what a batch of eight may ask is refused here."""
    question = TrafficQuestion(
        shape=RequestShape(prompt_tokens=100, output_tokens=2000), plan=ServerPlan(max_batch_size=1024), requests_per_s=40, duration_s=400
    )
    with pytest.raises(TooManyEvents, match=r"16,000 requests, at 3 events each 48,000, with about \d+ sequences"):
        start_simulation(server_of(question, "H100-SXMx8"), question)
    few = replace(question, plan=ServerPlan(max_batch_size=1), requests_per_s=30)
    start_simulation(server_of(few, "H100-SXMx8"), few)
