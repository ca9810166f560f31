"""The advisor over the bundled models: nothing is left unjudged or unworded, and no prediction beats the datasheet."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lib.advisor import recommend
from lib.catalog import load
from lib.model import bundled
from lib.present.sentences import sentence
from lib.request.types import ACCOUNTS
from lib.workload import PRIORITIES, Workload

CATALOG = load()
EVERYWHERE = ("spaces", "zerogpu", "endpoints", "jobs", "tpu")
workloads = st.builds(
    Workload,
    context_tokens=st.integers(1, 200_000),
    concurrency=st.integers(1, 64),
    requests_per_day=st.integers(0, 100_000),
    account=st.sampled_from(ACCOUNTS),
    priority=st.sampled_from(PRIORITIES),
    platforms=st.just(EVERYWHERE),
)


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(st.sampled_from(bundled.list_ids()), workloads)
def test_every_offer_is_judged_once_for_bundled_models(model_id: str, workload: Workload) -> None:
    """Each listed offer is ranked or rejected exactly once, what is ranked fits, and every reason has its sentence."""
    spec = bundled.find_spec(model_id)
    assert spec is not None
    found = recommend(spec, workload, CATALOG)
    judged = [(e.offer.platform, e.offer.id) for e in found.ranked] + [(r.offer.platform, r.offer.id) for r in found.rejected]
    assert sorted(judged) == sorted((o.platform, o.id) for o in CATALOG.on(EVERYWHERE))
    assert all(e.memory is None or e.memory.free_bytes >= 0 for e in found.ranked)
    for e in found.ranked:
        of = e.speed.predicted
        if of is None:
            assert e.speed.basis != "prediction"
            continue
        assert of.ttft_s.low <= of.ttft_s.value <= of.ttft_s.high
        assert e.speed.request_s_lower_bound is None or of.request_s >= e.speed.request_s_lower_bound * 0.999
        made, bound = of.decode_tokens_per_s, e.speed.decode_tokens_per_s_upper_bound
        measured = of.floor is not None and of.floor.tpot_s == 0  # rates of the machine itself: the datasheet sets no bound
        assert made is None or (bound is None and measured) or (bound is not None and made.high <= bound * 1.001)
    for reason in (
        *(x for e in found.ranked for x in e.reasons),
        *(r.reason for r in found.rejected),
        *found.notes,
        *found.provider.reasons,
    ):
        assert "{" not in sentence(reason)
