"""Ways to save, on cases small enough to follow: each is the real estimate run again."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest
from cost_examples import CATALOG, state_price
from hypothesis import given, settings
from hypothesis import strategies as st

from lib.advisor.alternatives import NoSaving, Saving, SavingsReport, find_savings
from lib.advisor.fit import COMFORT
from lib.advisor.setup import CurrentSetup
from lib.catalog.offers import Offer
from lib.cost import Usage, bill_offer, bill_tokens
from lib.memory import estimate_memory, usable_memory
from lib.model.resolve import resolve_count
from lib.present.sentences import no_saving_sentence, saving_effect, saving_step
from lib.present.wording import load_wording
from lib.workload import MemoryRequest

RULES = CATALOG.rules
BUSY = Usage(requests_per_day=Decimal(200), request_s=Decimal(10))


def case(model: str, hardware: str, request: MemoryRequest | None = None, usage: Usage = BUSY, **more: object) -> CurrentSetup:
    """A model of so many parameters on a Spaces tier."""
    return CurrentSetup(
        spec=resolve_count(model),
        offer=CATALOG.offer(hardware, "spaces"),
        request=request or MemoryRequest(),
        usage=usage,
        catalog=CATALOG,
        **more,
    )  # type: ignore[arg-type]


def way(found: SavingsReport, code: str) -> Saving:
    """The way of this code; fails when it saves nothing."""
    return next(one for one in found.savings if one.code == code)


def find_no_saving(found: SavingsReport, code: str) -> NoSaving:
    """The way of this code among those that save nothing."""
    return next(one for one in found.no_savings if one.code == code)


def test_l4_instead_of_a10g() -> None:
    """8B in bf16 are 16 GB and fit both cards of 24: 1.00 - 0.80 = 0.20 × 720 = 144 USD; 300 of 600 GB/s: half the speed."""
    found = way(find_savings(case("8B", "a10g-small")), "l4_over_a10g")
    assert found.saves_usd_per_month == 144
    assert found.offer is not None
    assert found.offer.id == "l4x1"
    assert found.speed_ratio == pytest.approx(0.5, abs=0.01)


def test_rates_compare_whole_offers() -> None:
    """34B over four A100 reads bf16 at 4 × 2.039 TB/s; in eight bits half as many bytes, at the bandwidth of the tier that is found."""
    found = find_savings(case("34B", "a100x4", MemoryRequest(engine="vllm", context_tokens=16)))
    packed = way(found, "fp8")
    assert packed.offer is not None
    assert packed.offer.silicon is not None
    bandwidth = packed.offer.silicon.bandwidth * packed.offer.accelerator_count
    assert packed.speed_ratio == pytest.approx(2 * bandwidth / (4 * 2.039e12), rel=0.03)


def test_a_provider_instead_of_a_gpu() -> None:
    """200 requests a day of 512 + 256 tokens at 0.10 and 0.40: 6000 × 0.0001536 - 0.10 = 0.8216 USD instead of 576."""
    found = way(find_savings(case("8B", "l4x1", price=state_price("0.10", "0.40"))), "provider")
    assert (found.usd_per_month_before, found.usd_per_month) == (576, Decimal("0.8216"))
    silent = find_savings(case("8B", "l4x1", usage=Usage(), price=state_price("0.10", "0.40")))
    assert find_no_saving(silent, "provider").reason == "traffic_not_stated"
    assert find_no_saving(find_savings(case("8B", "l4x1")), "provider").reason == "price_unknown"


def test_zerogpu_by_account_and_size() -> None:
    """A call of 10 s takes 15 s of 300: 20 a day and visitor, of whom users report 8 runs: 200 need 25 of them.

    30B (60 GB) needs the whole card, 70B does not fit; anonymous visitors may not host.
    """
    found = way(find_savings(case("8B", "l4x1")), "zerogpu")
    assert (found.usd_per_month, found.values["requests_per_visitor"], found.values["visitors"]) == (0, 8, 25)
    large = way(find_savings(case("30B", "a100-large")), "zerogpu")
    assert large.offer is not None
    assert large.offer.id == "zero-a10g-xlarge"
    assert find_no_saving(find_savings(case("70B", "a100x4")), "zerogpu").reason == "does_not_fit"
    nobody = find_savings(case("8B", "l4x1", usage=replace(BUSY, account="anonymous")))
    assert find_no_saving(nobody, "zerogpu").reason == "not_for_this_account"
    assert (
        find_no_saving(find_savings(case("8B", "l4x1", usage=replace(BUSY, request_s=Decimal(300)))), "zerogpu").reason == "quota_too_small"
    )


def test_formats_say_whether_speed_is_gained() -> None:
    """13B in bf16 (26 GB) needs 48; in eight bits (13 GB) 24 do. transformers unpacks bitsandbytes, vLLM reads packed weights."""
    eager = way(find_savings(case("13B", "l40sx1")), "int8")
    served = way(find_savings(case("13B", "l40sx1", MemoryRequest(engine="vllm"))), "int8")
    assert eager.gain == "memory_only"
    assert served.gain == "bandwidth"
    assert served.usd_per_month < served.usd_per_month_before
    assert "it is not faster" in saving_effect(eager)


def test_compute_bound_work_gains_from_native_units_only() -> None:
    """With 2048 short requests at once a step multiplies longer than it reads: fp8 units help, four bits as storage do not."""
    packed = MemoryRequest(engine="vllm", context_tokens=16, batch_size=2048)
    found = find_savings(case("30B", "rtx-pro-6000x2", packed))
    gains = {one.code: one.gain for one in (*found.savings, *found.no_savings) if one.code in {"fp8", "int4"}}
    assert gains == {"fp8": "compute", "int4": "memory_only"}


def test_fp8_needs_the_units_or_weight_only_kernels() -> None:
    """With transformers no tier without fp8 units (A10G, T4, A100) is offered for fp8; vLLM's Marlin reads it on a T4 too."""
    served = way(find_savings(case("8B", "a100x4", MemoryRequest(engine="vllm"))), "fp8")
    assert (served.offer and served.offer.id, served.native) == ("t4-small", False)
    for model in ("8B", "13B", "30B"):
        for one in find_savings(case(model, "a100x4", MemoryRequest(engine="transformers"))).savings:
            if one.code == "fp8":
                assert one.offer is not None
                assert one.offer.silicon is not None
                assert one.offer.silicon.supports("fp8")


def test_context_and_cache_make_room() -> None:
    """8B with 8 × 32768 tokens holds 37 GB of cache and 16 of weights; the traffic needs 768 tokens: one L4 does it for 576."""
    long = MemoryRequest(engine="vllm", context_tokens=32_768, batch_size=8)
    found = find_savings(case("8B", "rtx-pro-6000", long, usage=Usage()))
    shorter = way(found, "shorter_context")
    assert (shorter.usd_per_month, shorter.values["context_tokens"]) == (576, 768)
    assert shorter.request is not None
    assert shorter.request.context_tokens == 768
    halved = way(found, "cache_precision")
    assert halved.request is not None
    assert halved.request.kv_precision == "fp8"
    fewer = way(found, "smaller_batch")
    assert fewer.request is not None
    assert fewer.request.batch_size < 8


def test_sleep_is_the_law_run_again() -> None:
    """The bill with 900 s of sleep time, and with five minutes where it sleeps after 900 s already; nothing beyond."""
    few = replace(BUSY, requests_per_day=Decimal(10))
    found = way(find_savings(case("8B", "l4x1", usage=few)), "sleep")
    asleep = replace(few, sleep_after_s=Decimal(900))
    assert found.usd_per_month == bill_offer(CATALOG.offer("l4x1", "spaces"), asleep, RULES).total_usd_per_month
    sooner = way(find_savings(case("8B", "l4x1", usage=asleep)), "sleep")
    assert sooner.values["sleep_after_s"] == 300
    assert (
        find_no_saving(find_savings(case("8B", "l4x1", usage=replace(few, sleep_after_s=Decimal(300)))), "sleep").reason
        == "already_as_small"
    )


def test_development_on_a_smaller_tier() -> None:
    """8B in four bits (5 GB) fits a T4: 40 hours × (2.50 - 0.40) = 84 USD; hours can be stated."""
    found = way(find_savings(case("8B", "a100-large")), "development_tier")
    assert found.saves_usd_per_month == 84
    assert (
        way(find_savings(case("8B", "a100-large", development_hours_per_month=Decimal(10))), "development_tier").saves_usd_per_month == 21
    )


@settings(max_examples=20, deadline=None)
@given(
    model=st.sampled_from(("1B", "8B", "13B", "34B", "70B")),
    offer=st.sampled_from([row for row in CATALOG.on(("spaces",)) if row.silicon is not None]),
    engine=st.sampled_from(("transformers", "vllm")),
    context=st.sampled_from((512, 4096, 32_768)),
    batch=st.sampled_from((1, 4, 32)),
    requests=st.sampled_from((0, 10, 5000)),
)
def test_every_way_saves_fits_and_reads_well(model: str, offer: Offer, engine: str, context: int, batch: int, requests: int) -> None:
    """Sorted by what is saved, which is more than nothing; the configuration named really fits with room to spare; a sentence for each."""
    request = MemoryRequest(engine=engine, context_tokens=context, batch_size=batch)  # type: ignore[arg-type]
    found = find_savings(
        case(model, offer.id, request, Usage(requests_per_day=Decimal(requests), request_s=Decimal(5)), price=state_price("0.10", "0.40"))
    )
    saved = [one.saves_usd_per_month for one in found.savings]
    assert saved == sorted(saved, reverse=True)
    assert all(amount > 0 for amount in saved)
    for one in found.savings:
        assert saving_step(one)
        if one.offer is not None and one.request is not None and one.code != "sleep":
            held = usable_memory(one.offer)
            assert held is not None
            needed = estimate_memory(resolve_count(model), one.request, one.offer.silicon).per_device_bytes
            assert needed <= (1 - COMFORT) * held
    for none in found.no_savings:
        assert none.reason in load_wording("terms")["no_saving"]
        assert no_saving_sentence(none)
    codes = [one.code for one in (*found.savings, *found.no_savings)]
    assert len(codes) == len(set(codes)) == 12


def test_the_provider_bill_is_the_same_as_alone() -> None:
    """No second arithmetic: the way's figure is `bill_tokens` at the same traffic, with the storage that stays."""
    stored = replace(BUSY, storage_gb=Decimal(200))
    found = way(find_savings(case("8B", "l4x1", usage=stored, price=state_price("1", "2"))), "provider")
    assert found.usd_per_month == bill_tokens(state_price("1", "2"), stored, RULES.providers).total_usd_per_month + Decimal("1.8")
