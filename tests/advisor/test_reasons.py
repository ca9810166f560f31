"""Every reason is true of its offer: recomputed from the answer's own figures, and every obstacle, removed, makes the offer pass."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal

from hypothesis import example, given, settings
from hypothesis import strategies as st

from lib.advisor import Entry, Recommendation, Rejection, recommend
from lib.advisor.candidates import engines_on, family_of, list_candidates, task_of
from lib.catalog import Catalog, load
from lib.catalog.offers import Offer
from lib.cost.usage import LIGHT_TRAFFIC_VISITORS
from lib.engines import ENGINES
from lib.memory import usable_memory
from lib.model import bundled
from lib.model.spec import ModelSpec
from lib.provenance import Reason
from lib.request.types import ACCOUNTS
from lib.workload import PRIORITIES, SDKS, Workload

CATALOG = load()
OFFERS = tuple(offer for offer in CATALOG.offers if offer.listed)
A10G_SMALL = next(offer for offer in OFFERS if offer.id == "a10g-small")
CPU_UPGRADE = next(offer for offer in OFFERS if offer.id == "cpu-upgrade")
MODELS = tuple(name for name in bundled.list_ids() if "GLM-5" not in name)
workloads = st.builds(
    Workload,
    context_tokens=st.sampled_from([256, 4096, 32_768, 131_072]),
    concurrency=st.sampled_from([1, 2, 16, 200]),
    requests_per_day=st.sampled_from([0, 100, 5_000, 400_000]),
    hours_per_day=st.sampled_from([Decimal(24), Decimal(3)]),
    precision=st.sampled_from(["auto", "auto", "auto", "bf16", "fp8", "int4", "gguf:Q4_K_M"]),
    account=st.sampled_from(ACCOUNTS),
    max_usd_per_month=st.sampled_from([Decimal(0), Decimal(30), Decimal(600)]),
    min_tokens_per_s=st.sampled_from([0.0, 0.0, 10.0, 60.0]),
    max_ttft_s=st.sampled_from([0.0, 0.0, 0.2, 3.0]),
    priority=st.sampled_from(PRIORITIES),
    engine=st.sampled_from(["auto", "auto", "auto", *ENGINES]),
    sdk=st.sampled_from(["auto", "auto", *SDKS]),
)

World = tuple[Workload, Catalog]


def recommend_offer(offer: Offer, spec: ModelSpec, workload: Workload, catalog: Catalog = CATALOG) -> Recommendation:
    """The recommendation for this offer alone."""
    return recommend(spec, replace(workload, platforms=(offer.platform,)), replace(catalog, offers=(offer,), aliases={}))


def with_memory(offer: Offer, needed: int) -> Offer:
    """The offer with twice the memory that is needed on each device."""
    if offer.silicon is None:
        return offer.model_copy(update={"ram_bytes": 4 * needed})
    card = offer.silicon.model_copy(update={"memory_usable": int(4 * needed / offer.accelerator_fraction)})
    return offer.model_copy(update={"silicon": card})


def remove(reason: Reason, offer: Offer, workload: Workload, catalog: Catalog) -> tuple[Offer, Workload, Catalog] | None:
    """The same question without this obstacle; `None` where what the obstacle says is recomputed instead."""
    rules = catalog.rules
    unlimited = {"daily_quota_s": dict.fromkeys(rules.zerogpu.daily_quota_s, 10**9), "runs_per_day_reported": {}}
    quotas = rules.zerogpu.model_copy(update=unlimited)
    plenty = replace(catalog, rules=rules.model_copy(update={"zerogpu": quotas}))
    removed: dict[str, Callable[[], tuple[Offer, Workload, Catalog]]] = {
        "over_budget": lambda: (offer, replace(workload, max_usd_per_month=Decimal(0)), catalog),
        "too_slow": lambda: (offer, replace(workload, min_tokens_per_s=float(reason.values["tokens_per_s"])), catalog),
        "first_token_late": lambda: (offer, replace(workload, max_ttft_s=float(reason.values["ttft_s"])), catalog),
        "too_small": lambda: (with_memory(offer, int(reason.values["needed_bytes"])), workload, catalog),
        "disk_too_small": lambda: (offer.model_copy(update={"disk_bytes": int(reason.values["download_bytes"])}), workload, catalog),
        "host_too_small": lambda: (offer.model_copy(update={"ram_bytes": 2 * int(reason.values["host_bytes"])}), workload, catalog),
        "cpu_basic_needs_plan": lambda: (offer.model_copy(update={"rules": offer.rules - {"paid_plan_to_create"}}), workload, catalog),
        "implausible_price": lambda: (offer.model_copy(update={"rules": offer.rules - {"implausible_price"}}), workload, catalog),
        "zerogpu_needs_account": lambda: (offer.model_copy(update={"rules": offer.rules - {"hosting_limit"}}), workload, catalog),
        "zerogpu_gradio_only": lambda: (offer, replace(workload, sdk="gradio"), catalog),
        "quota_too_small": lambda: (offer, workload, plenty),
        "zerogpu_busy": lambda: (offer, replace(workload, requests_per_day=1), catalog),
        "zerogpu_crowd": lambda: (offer, replace(workload, concurrency=LIGHT_TRAFFIC_VISITORS), catalog),
        "traffic_exceeds": lambda: (offer, replace(workload, requests_per_day=int(reason.values["served"]), concurrency=1), catalog),
    }
    return removed[reason.code]() if reason.code in removed else None


@settings(max_examples=120, deadline=None)
@given(st.sampled_from(MODELS), st.sampled_from(OFFERS), workloads)
def test_an_obstacle_removed_makes_it_pass(name: str, offer: Offer, workload: Workload) -> None:
    """Without all that is said to stand in the way the offer does it; with any one of it left it does not."""
    spec = bundled.find_spec(name)
    assert spec is not None
    found = recommend_offer(offer, spec, workload)
    if not found.rejected:
        return
    rejection = found.rejected[0]
    obstacles = (rejection.reason, *rejection.also)
    state = (offer, workload, CATALOG)
    for obstacle in obstacles:
        without = remove(obstacle, *state)
        if without is None:
            recompute(obstacle, rejection, spec, workload)
            return
        state = without
    free, asked, catalog = state
    after = recommend_offer(free, spec, asked, catalog)
    left = {reason.code for one in after.rejected for reason in (one.reason, *one.also)}
    assert not left & {obstacle.code for obstacle in obstacles}
    assert left <= frozenset().union(*(NEWLY_JUDGED.get(obstacle.code, frozenset()) for obstacle in obstacles))


NEWLY_JUDGED = {
    "too_small": frozenset({"too_slow", "first_token_late", "cpu_too_slow", "cpu_speed_unknown", "quota_too_small",
                            "zerogpu_busy", "zerogpu_crowd",
                            "traffic_exceeds", "disk_too_small", "over_budget"}),
    "disk_too_small": frozenset({"too_slow", "first_token_late", "cpu_too_slow", "cpu_speed_unknown", "quota_too_small",
                            "zerogpu_busy", "zerogpu_crowd",
                                 "traffic_exceeds", "over_budget"}),
    "too_slow": frozenset({"over_budget", "first_token_late"}),
    "first_token_late": frozenset({"over_budget", "too_slow"}),
    "quota_too_small": frozenset({"zerogpu_busy", "zerogpu_crowd"}),
    "zerogpu_busy": frozenset({"zerogpu_crowd"}),
}  # fmt: skip
"""What cannot be known before something is removed: the speed of what does not fit, the crowd where no call is carried,
the machines that it takes when fewer of them may be quick enough."""


def recompute(obstacle: Reason, rejection: Rejection, spec: ModelSpec, workload: Workload) -> None:
    """Obstacles that no change of the question removes, or that are about the model and the silicon."""
    offer, values = rejection.offer, obstacle.values
    family = family_of(task_of("auto", spec))
    match obstacle.code:
        case "dtype_missing":
            named = str(values["precision"])
            assert spec.stored.quantization is not None or workload.precision == named
        case "sparse_attention":
            assert spec.sparse_attention
            assert engines_on(offer, family, spec, workload.sdk, workload.engine) == ()
        case "no_engine":
            assert engines_on(offer, family, spec, workload.sdk, workload.engine) == ()
        case "engine_not_here" | "engine_needs_docker":
            possible = {engine for engine, _ in engines_on(offer, family, spec, workload.sdk, workload.engine)}
            assert workload.engine not in possible
            assert str(values["others"]).split(", ") == [
                engine for engine, _ in engines_on(offer, family, spec, workload.sdk, workload.engine)
            ]
            docker = {engine for engine, _ in engines_on(offer, family, spec, "docker", workload.engine)}
            assert (workload.engine in docker) is (obstacle.code == "engine_needs_docker")
        case "engine_form":
            assert list_candidates(spec, family, offer, workload).tried == ()
        case "cpu_too_slow":
            if "limit_s" in values and "limit_tokens_per_s" not in values:
                assert float(values["seconds"]) > float(values["limit_s"])
            elif "limit_tokens_per_s" in values:
                slow = float(values["tokens_per_s"]) < float(values["limit_tokens_per_s"])
                assert slow or float(values["seconds"]) > float(values["limit_s"])
            else:
                assert family in {"image", "video"}
        case "cpu_speed_unknown" | "memory_unknown":
            assert offer.silicon is None or usable_memory(offer) is None
        case _:
            raise AssertionError(f"nothing here checks {obstacle.code}")


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(MODELS), st.sampled_from(OFFERS), workloads)
@example("01-ai/Yi-34B", A10G_SMALL, Workload(concurrency=2, engine="tgi"))  # 955 tokens of one request, 477 each of two
def test_what_would_fit_fits(name: str, offer: Offer, workload: Workload) -> None:
    """The context or the number of requests that a refusal names does fit."""
    spec = bundled.find_spec(name)
    assert spec is not None
    for rejection in recommend_offer(offer, spec, workload).rejected:
        for reason in (rejection.reason, *rejection.also):
            if reason.code != "too_small" or not reason.variant:
                continue
            smaller = replace(workload, prompt_tokens=0, output_tokens=0)
            if reason.variant == "context":
                smaller = replace(smaller, context_tokens=int(reason.values["fits_tokens"]))
            else:
                smaller = replace(smaller, concurrency=int(reason.values["fits_at_once"]))
            after = recommend_offer(offer, spec, smaller)
            assert "too_small" not in {one.code for r in after.rejected for one in (r.reason, *r.also)}


@settings(max_examples=120, deadline=None)
@given(st.sampled_from(MODELS), st.sampled_from(OFFERS), workloads)
@example("google-t5/t5-base", CPU_UPGRADE, Workload(context_tokens=256, engine="llama.cpp"))  # a CPU is tried with eight bits first
def test_what_is_said_of_an_entry_is_true(name: str, offer: Offer, workload: Workload) -> None:
    """Reasons of what does the work agree with its own figures."""
    spec = bundled.find_spec(name)
    assert spec is not None
    for entry in recommend_offer(offer, spec, workload).ranked:
        for reason in entry.reasons:
            check_form(reason, entry, spec, workload)
            check_speed(reason, entry)
            check_use(reason, entry, workload)


def check_form(reason: Reason, entry: Entry, spec: ModelSpec, workload: Workload) -> None:
    """What is said of memory and of the weights' form."""
    values = reason.values
    match reason.code:
        case "fits" | "fits_tightly":
            assert values["free_bytes"] == entry.memory.free_bytes >= 0
            assert entry.verdict == "slow" or (reason.code == "fits") is (entry.verdict in {"comfortable", "usable"})
        case "needs_docker":
            assert entry.sdk == "docker"
        case "no_bf16":
            assert entry.offer.silicon is not None
            assert not entry.offer.silicon.supports("bf16")
        case "halved":
            assert spec.stored.dtype == "float32"
            assert entry.precision in {"bf16", "fp16"}
        case "unpacked":
            assert spec.stored.quantization is not None
        case "quantized" if reason.variant in {"", "refused", "untried"}:
            less = list_candidates(spec, family_of(task_of("auto", spec)), entry.offer, workload).tried
            assert any(candidate.step < entry.step for candidate in less) is (reason.variant != "untried")


def check_speed(reason: Reason, entry: Entry) -> None:
    """What is said of speed and of the devices."""
    values, speed = reason.values, entry.speed
    match reason.code:
        case "speed":
            assert values["tokens_per_s"] == speed.tokens_per_s
        case "below_comfortable":
            assert entry.verdict in {"usable", "tight", "slow"}
        case "below_usable":
            assert entry.verdict == "slow"
        case "cpu_enough":
            assert entry.offer.silicon is None
        case "tensor_parallel" | "layer_split":
            assert values["devices"] == entry.devices > 1
        case "cards_unused":
            assert entry.devices < entry.offer.accelerator_count


def check_use(reason: Reason, entry: Entry, workload: Workload) -> None:
    """What is said of traffic, price and quota."""
    values = reason.values
    match reason.code:
        case "replicas_needed":
            assert values["replicas"] == entry.replicas > 1
            day, together = int(values["served"]) * entry.replicas, int(values["concurrency"]) * entry.replicas
            assert day >= workload.requests_per_day
            assert together >= workload.concurrency
            fewer = entry.replicas - 1
            enough = (
                int(values["served"]) * fewer >= workload.requests_per_day and int(values["concurrency"]) * fewer >= workload.concurrency
            )
            assert not enough
        case "traffic_in_flight":
            assert entry.speed.predicted is not None
            assert values["concurrency"] == entry.speed.predicted.request.concurrency > workload.concurrency
        case "price":
            port = CATALOG.rules.jobs.ports_usd_per_hour if entry.offer.platform == "jobs" and workload.requests_per_day else 0
            hourly = entry.offer.usd_per_hour + port  # type: ignore[operator]
            assert values["usd_per_month"] == hourly * workload.hours_per_day * 30 * entry.replicas
        case "free":
            assert entry.offer.usd_per_hour == 0
        case "paused_outside_hours":
            assert values["usd_per_month"] == entry.offer.usd_per_hour * 720 * entry.replicas  # type: ignore[operator]
            assert workload.hours_per_day < 24
        case "zerogpu_quota":
            visitors = -(-workload.requests_per_day // int(values["requests_per_visitor"]))
            assert values["visitors"] == visitors
            assert reason.variant != "stated" or visitors <= values["visitors_per_day"]
            assert values["gpu_s"] <= values["most_gpu_s"]
