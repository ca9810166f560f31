"""What holds for every workload."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from random import Random

from advisor_specs import decoder, encoder, pipeline
from hypothesis import given, settings
from hypothesis import strategies as st

from lib.advisor import recommend
from lib.advisor.rank import rate_speed
from lib.catalog import load
from lib.engines import ENGINES
from lib.model.spec import ModelSpec
from lib.present.sentences import sentence
from lib.request.types import ACCOUNTS
from lib.workload import PRIORITIES, SDKS, Workload

CATALOG = load()
PLATFORMS = ("spaces", "zerogpu", "endpoints", "jobs", "tpu")
models = st.one_of(
    st.builds(decoder, st.sampled_from([1e8, 6e8, 3e9, 8e9, 14e9, 34e9, 70e9, 240e9, 700e9]), kv_heads=st.sampled_from([1, 8, 32])),
    st.builds(encoder, st.sampled_from([3e7, 1.1e8, 3.5e8, 6e8])),
    st.builds(pipeline, st.sampled_from([1e9, 4e9, 17e9, 60e9]), task=st.sampled_from(["text-to-image", "text-to-video"])),
)
workloads = st.builds(
    Workload,
    context_tokens=st.integers(1, 200_000),
    concurrency=st.integers(1, 64),
    requests_per_day=st.integers(0, 1_000_000),
    hours_per_day=st.decimals(0, 24, places=1),
    precision=st.sampled_from(["auto", "fp32", "fp16", "bf16", "fp8", "int8", "int4", "bnb-nf4", "gguf:Q4_K_M", "mxfp4"]),
    account=st.sampled_from(ACCOUNTS),
    max_usd_per_month=st.sampled_from([Decimal(0), Decimal(30), Decimal(600), Decimal(5000)]),
    min_tokens_per_s=st.sampled_from([0.0, 5.0, 50.0]),
    priority=st.sampled_from(PRIORITIES),
    prompt_tokens=st.sampled_from([0, 0, 3, 2000]),
    output_tokens=st.sampled_from([0, 0, 1, 1500]),
    max_ttft_s=st.sampled_from([0.0, 0.0, 0.5, 5.0]),
    engine=st.sampled_from(["auto", "auto", *ENGINES]),
    sdk=st.sampled_from(["auto", "auto", *SDKS]),
    platforms=st.lists(st.sampled_from(PLATFORMS), min_size=1, unique=True).map(tuple),
)


questions = st.tuples(models, workloads).filter(
    lambda of: of[0].context_limit is None or of[1].prompt_tokens + of[1].output_tokens <= of[0].context_limit
)


@settings(max_examples=60, deadline=None)
@given(questions)
def test_every_offer_is_judged_once(question: tuple[ModelSpec, Workload]) -> None:
    """Each listed offer of the asked platforms is ranked or rejected, exactly once; each reason has its sentence."""
    spec, workload = question
    found = recommend(spec, workload, CATALOG)
    judged = [(e.offer.platform, e.offer.id) for e in found.ranked] + [(r.offer.platform, r.offer.id) for r in found.rejected]
    assert sorted(judged) == sorted((o.platform, o.id) for o in CATALOG.on(workload.platforms))
    assert found.pick is (found.ranked[0] if found.ranked else None)
    assert any(e.pareto for e in found.ranked) or not found.ranked
    for reason in (
        *(x for e in found.ranked for x in e.reasons),
        *(reason for r in found.rejected for reason in (r.reason, *r.also)),
        *found.notes,
        *found.provider.reasons,
    ):
        assert "{" not in sentence(reason)


@settings(max_examples=60, deadline=None)
@given(questions)
def test_what_is_ranked_fits(question: tuple[ModelSpec, Workload]) -> None:
    """No entry needs more than its device has, costs more than the budget, or cannot reach the wanted rate."""
    spec, workload = question
    for e in recommend(spec, workload, CATALOG).ranked:
        assert e.memory is not None
        assert e.memory.free_bytes >= 0
        assert not workload.max_usd_per_month or e.cost.total_usd_per_month <= workload.max_usd_per_month
        assert e.speed.tokens_per_s is None or e.speed.tokens_per_s >= workload.min_tokens_per_s
        port = CATALOG.rules.jobs.ports_usd_per_hour if e.offer.platform == "jobs" and workload.requests_per_day else 0
        hourly = e.cost.usd_per_hour + port
        assert not workload.hours_per_day or e.cost.total_usd_per_month == hourly * workload.hours_per_day * 30 * e.replicas


@settings(max_examples=40, deadline=None)
@given(questions)
def test_unbeaten_in_price_and_speed(question: tuple[ModelSpec, Workload]) -> None:
    """An entry is marked exactly when no other is as cheap and as fast, and better in one of them."""
    spec, workload = question
    ranked = recommend(spec, workload, CATALOG).ranked
    points = [(e.cost.total_usd_per_month, -rate_speed(e)) for e in ranked]
    for e, (price, slow) in zip(ranked, points, strict=True):
        assert e.pareto is not any(other != (price, slow) and other[0] <= price and other[1] <= slow for other in points)


@settings(max_examples=40, deadline=None)
@given(questions, st.integers(2, 8))
def test_a_longer_context_never_makes_room(question: tuple[ModelSpec, Workload], times: int) -> None:
    """What is too small stays too small when more tokens are held."""
    spec, workload = question
    longer = replace(workload, context_tokens=workload.context_tokens * times)
    small = {(r.offer.platform, r.offer.id) for r in recommend(spec, workload, CATALOG).rejected if r.reason.code == "too_small"}
    assert not small & {(e.offer.platform, e.offer.id) for e in recommend(spec, longer, CATALOG).ranked}


@settings(max_examples=30, deadline=None)
@given(questions, st.randoms(use_true_random=False))
def test_the_order_of_the_catalog_does_not_matter(question: tuple[ModelSpec, Workload], random: Random) -> None:
    """A shuffled catalog, and platforms asked for in another order, give the same answer."""
    spec, workload = question
    offers = list(CATALOG.offers)
    random.shuffle(offers)
    shuffled = replace(CATALOG, offers=tuple(offers))
    first, second = recommend(spec, workload, CATALOG), recommend(spec, replace(workload, platforms=workload.platforms[::-1]), shuffled)
    assert [(e.offer.platform, e.offer.id, e.pareto) for e in first.ranked] == [
        (e.offer.platform, e.offer.id, e.pareto) for e in second.ranked
    ]
    assert first.rejected == second.rejected


@settings(max_examples=30, deadline=None)
@given(questions)
def test_a_larger_budget_never_takes_hardware_away(question: tuple[ModelSpec, Workload]) -> None:
    """Whatever is ranked within a budget is ranked without one."""
    spec, workload = question
    free = recommend(spec, replace(workload, max_usd_per_month=Decimal(0)), CATALOG)
    within = {(e.offer.platform, e.offer.id) for e in recommend(spec, workload, CATALOG).ranked}
    assert within <= {(e.offer.platform, e.offer.id) for e in free.ranked}
