"""Live prices: the real huggingface_hub client against a Hub on the loopback, well-behaved, broken and hostile."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
import time
import zlib
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from hub_stand_in import Fault
from hypothesis import given
from hypothesis import strategies as st
from prices_stand_in import JOBS, SPACES, PricesStandIn, Reply, as_listed, row

from lib.advisor.recommend import recommend
from lib.catalog import Catalog, load
from lib.catalog.live_prices import LiveList, apply_live_prices
from lib.errors import BadArgument, HubGarbage, HubUnreachable, RateLimited, UnknownHardware
from lib.hub.prices import PriceFeed, hourly_price
from lib.model import bundled
from lib.speed.training_hardware import rank_hardware
from lib.workload import TrainingRequest, Workload

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture
def hub() -> Iterator[PricesStandIn]:
    """A Hub on the loopback."""
    with PricesStandIn() as stand_in:
        yield stand_in


PATIENT_S = 60.0
"""For lists that do come: a busy machine takes longer than the five seconds that are usual, and a late list counts as a failure."""


def refresh_feed(hub: PricesStandIn) -> tuple[PriceFeed, Catalog]:
    """A feed that has been refreshed once from the stand-in."""
    feed = PriceFeed(load(), endpoint=hub.url, limit_s=PATIENT_S)
    return feed, feed.refresh()


def list_both(hub: PricesStandIn, **prices: str) -> None:
    """Both lists as bundled, with some prices of Spaces changed."""
    hub.lists(SPACES, as_listed("spaces", **prices))
    hub.lists(JOBS, as_listed("jobs"))


def test_lists_equal_to_the_bundled_rows_change_nothing_but_the_provenance(hub: PricesStandIn) -> None:
    """Every price survives the way through millionths per minute; basis, source and date become those of the list."""
    list_both(hub)
    feed, catalog = refresh_feed(hub)
    assert not feed.failures()
    for before, after in zip(load().offers, catalog.offers, strict=True):
        assert (before.id, before.usd_per_hour, before.ram_bytes, before.silicon) == (
            after.id,
            after.usd_per_hour,
            after.ram_bytes,
            after.silicon,
        )
        live = before.listed and before.platform in {"spaces", "zerogpu", "jobs"}
        assert after.price_basis == ("live" if live else "bundled")
        assert not live or after.sources[0].source.startswith("GET /api/")
    assert catalog.prices["spaces"].basis == catalog.prices["zerogpu"].basis == catalog.prices["jobs"].basis == "live"
    assert catalog.prices["tpu"].basis == "bundled"
    assert catalog.prices["spaces"].remarks == ()


def test_calls_are_anonymous(hub: PricesStandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    """A token of the server is not sent."""
    monkeypatch.setenv("HF_TOKEN", "hf_not_for_this")
    list_both(hub)
    refresh_feed(hub)
    assert {SPACES, JOBS} <= {seen.path for seen in hub.requests}
    assert all("authorization" not in seen.headers for seen in hub.requests)


def test_a_changed_price_is_taken_and_the_old_one_kept_as_history(hub: PricesStandIn) -> None:
    """0.80 → 0.95 USD per hour on Spaces; the same flavor on Jobs stays at 0.80."""
    list_both(hub, l4x1="0.95")
    _, catalog = refresh_feed(hub)
    offer = catalog.offer("l4x1")
    assert offer.usd_per_hour == Decimal("0.95")
    assert offer.price_history[-1].usd_per_hour == Decimal("0.80")
    assert offer.price_history[-1].since == "2026-07-21"
    assert catalog.offer("l4x1", "jobs").usd_per_hour == Decimal("0.80")
    assert load().offer("l4x1").usd_per_hour == Decimal("0.80")


def test_a_new_flavor_that_is_understood_is_added(hub: PricesStandIn) -> None:
    """Two H200 on Spaces: silicon, count, usable memory and price are known, so it can be recommended."""
    hub.lists(SPACES, [*as_listed("spaces"), row("h200x2", "9.90", accelerator=("H200", 2, 282), cpu="46 vCPU", ram="512 GB")])
    hub.lists(JOBS, as_listed("jobs"))
    _, catalog = refresh_feed(hub)
    offer = catalog.resolve_offer("h200x2")
    assert (offer.platform, offer.accelerator, offer.accelerator_count) == ("spaces", "H200-SXM", 2)
    assert (offer.usd_per_hour, offer.vcpu, offer.ram_bytes) == (Decimal("9.90"), 46, 512 * 2**30)
    assert any("'h200x2'" in remark for remark in catalog.prices["spaces"].remarks)


def test_a_new_flavor_at_an_implausible_price_is_listed_and_never_chosen(hub: PricesStandIn) -> None:
    """Eight H200 for next to nothing were the pick for DeepSeek-V3; a processor for a hundredth of its price is no pick either."""
    hub.lists(
        SPACES,
        [
            *as_listed("spaces"),
            row("h200x8-gift", "0.0006", accelerator=("H200", 8, 1128), cpu="192 vCPU", ram="1800 GB"),
            row("cpu-gift", "0.0001", cpu="64 vCPU", ram="512 GB"),
        ],
    )
    hub.lists(JOBS, as_listed("jobs"))
    _, catalog = refresh_feed(hub)
    for key in ("h200x8-gift", "cpu-gift"):
        offer = catalog.resolve_offer(key)
        assert (offer.price_verified, "implausible_price" in offer.rules) == (False, True)
        assert any(f"'{key}'" in remark and "never chosen" in remark for remark in catalog.prices["spaces"].remarks)
    large, small = bundled.find_spec("deepseek-ai/DeepSeek-V3"), bundled.find_spec("Qwen/Qwen3-8B")
    assert large is not None
    assert small is not None
    found = recommend(large, Workload(platforms=("all",)), catalog)
    assert "h200x8-gift" not in {entry.offer.id for entry in found.ranked}
    assert {"implausible_price"} <= {one.code for r in found.rejected if r.offer.id == "h200x8-gift" for one in (r.reason, *r.also)}
    options = rank_hardware(small, TrainingRequest(), catalog, ["spaces"], total_tokens=10**6)
    assert "h200x8-gift" not in {option.hardware for option in options}


def test_new_flavors_that_are_not_understood_are_told_and_left_out(hub: PricesStandIn) -> None:
    """An unknown card, a known name with another memory, and a card without a price."""
    extra = [
        row("b300x1", "12", accelerator=("B300", 1, 288)),
        row("l4-huge", "1", accelerator=("L4", 1, 48)),
        row("t4-gift", "0", accelerator=("T4", 1, 16)),
    ]
    hub.lists(SPACES, as_listed("spaces") + extra)
    hub.lists(JOBS, as_listed("jobs"))
    _, catalog = refresh_feed(hub)
    for added in extra:
        with pytest.raises(UnknownHardware):
            catalog.offer(added["name"])
        assert any(f"'{added['name']}'" in remark for remark in catalog.prices["spaces"].remarks)


def test_a_flavor_that_the_list_drops_is_retired_on_that_day(hub: PricesStandIn) -> None:
    """It keeps its last price, is not listed, and asking for it says so; Jobs still has it."""
    hub.lists(SPACES, [entry for entry in as_listed("spaces") if entry["name"] != "a100x8"])
    hub.lists(JOBS, as_listed("jobs"))
    _, catalog = refresh_feed(hub)
    gone = catalog.offer("a100x8", "spaces")
    assert (gone.status, gone.usd_per_hour, gone.last_usd_per_hour) == ("retired", None, Decimal("20.00"))
    assert gone.since == catalog.prices["spaces"].newest[:10]
    assert catalog.resolve_offer("a100x8").platform == "jobs"
    with pytest.raises(UnknownHardware, match="no longer offered"):
        catalog.resolve_offer("a100x8", "spaces")


def test_a_retired_flavor_that_comes_back_is_listed_again(hub: PricesStandIn) -> None:
    """h100 at 4.50: listed from the day of the fetch."""
    hub.lists(SPACES, [*as_listed("spaces"), row("h100", "4.50", accelerator=("H100", 1, 80))])
    hub.lists(JOBS, as_listed("jobs"))
    _, catalog = refresh_feed(hub)
    back = catalog.resolve_offer("h100")
    assert (back.platform, back.status, back.usd_per_hour) == ("spaces", "listed", Decimal("4.50"))


def test_zerogpu_stays_when_the_list_does_not_name_it(hub: PricesStandIn) -> None:
    """It has no price to be listed for, so its absence is told and nothing more."""
    hub.lists(SPACES, [entry for entry in as_listed("spaces") if entry["name"] != "zero-a10g"])
    hub.lists(JOBS, as_listed("jobs"))
    _, catalog = refresh_feed(hub)
    assert catalog.offer("zero-a10g").listed
    assert catalog.prices["zerogpu"].basis == "bundled"


@pytest.mark.parametrize(("price", "why"), [("0", "free"), ("800", "instead of"), ("0.05", "instead of")])
def test_a_price_that_cannot_be_is_not_taken(hub: PricesStandIn, price: str, why: str) -> None:
    """A paid card for nothing, for a thousand times as much, for a sixteenth: the bundled 0.80 stays and it is told."""
    list_both(hub, l4x1=price)
    _, catalog = refresh_feed(hub)
    assert catalog.offer("l4x1").usd_per_hour == Decimal("0.80")
    assert catalog.offer("l4x1").price_basis == "bundled"
    assert any("'l4x1'" in remark and why in remark for remark in catalog.prices["spaces"].remarks)


def test_another_card_under_the_same_name_is_taken_over(hub: PricesStandIn) -> None:
    """The platform puts an L40S under `a10g-small`: silicon and memory follow."""
    rows = [entry for entry in as_listed("spaces") if entry["name"] != "a10g-small"]
    hub.lists(SPACES, [*rows, row("a10g-small", "1.00", accelerator=("L40S", 1, 48))])
    hub.lists(JOBS, as_listed("jobs"))
    _, catalog = refresh_feed(hub)
    assert catalog.offer("a10g-small").accelerator == "L40S"
    assert catalog.offer("a10g-small").vram_bytes_per_accelerator == catalog.accelerator("L40S").memory_usable


HOSTILE: list[dict[str, Any]] = [
    {"unitCostMicroUSD": -5},
    {"unitCostMicroUSD": float("nan")},
    {"unitCostMicroUSD": float("inf")},
    {"unitCostMicroUSD": 10**400},
    {"unitCostMicroUSD": True},
    {"unitCostMicroUSD": "13333"},
    {"unitCostUSD": 5.0},
    {"unitCostUSD": float("nan")},
    {"unitCostUSD": 10**400},
    {"unitLabel": "fortnight"},
    {"unitLabel": ["minute"]},
    {"name": "../../etc/passwd"},
    {"name": "x" * 100_000},
    {"name": None},
    {"accelerator": {"type": "gpu", "model": "L4", "quantity": "-1", "vram": "24 GB", "manufacturer": "Nvidia"}},
    {"accelerator": {"type": "gpu", "model": "L4", "quantity": "9" * 5000, "vram": "24 GB", "manufacturer": "Nvidia"}},
    {"accelerator": {"type": "gpu", "model": "L" * 9999, "quantity": "1", "vram": "24 GB", "manufacturer": "Nvidia"}},
    {"accelerator": {"type": "gpu", "model": {}, "quantity": 1, "vram": None, "manufacturer": None}},
]


@pytest.mark.parametrize("harm", HOSTILE, ids=lambda harm: f"{next(iter(harm))}={str(next(iter(harm.values())))[:24]}")
def test_a_hostile_row_is_left_out_with_a_sentence_and_the_others_are_read(hub: PricesStandIn, harm: dict[str, Any]) -> None:
    """One poisoned row beside good ones."""
    hub.lists(SPACES, [*as_listed("spaces", l4x1="0.95"), row("poison", "1.00", accelerator=("L4", 1, 24)) | harm])
    hub.lists(JOBS, as_listed("jobs"))
    _, catalog = refresh_feed(hub)
    assert catalog.offer("l4x1").usd_per_hour == Decimal("0.95")
    assert "poison" not in {offer.id for offer in catalog.offers}
    (remark,) = catalog.prices["spaces"].remarks
    assert "is left out" in remark
    assert len(remark) < 400


@pytest.mark.parametrize(
    "harm", [{"cpu": "🚀"}, {"ram": "9" * 500 + " GB"}, {"ephemeralStorage": "-3 GB"}, {"cpu": 8}, {"prettyName": "a\x00b"}]
)
def test_an_unreadable_host_figure_leaves_the_bundled_one(hub: PricesStandIn, harm: dict[str, Any]) -> None:
    """Processors, memory, disk and name are not worth a lost price."""
    rows = [entry | harm if entry["name"] == "l4x1" else entry for entry in as_listed("spaces", l4x1="0.95")]
    hub.lists(SPACES, rows)
    hub.lists(JOBS, as_listed("jobs"))
    _, catalog = refresh_feed(hub)
    offer, bundled = catalog.offer("l4x1"), load().offer("l4x1")
    assert offer.usd_per_hour == Decimal("0.95")
    assert (offer.vcpu, offer.ram_bytes, offer.disk_bytes, offer.name) == (
        bundled.vcpu,
        bundled.ram_bytes,
        bundled.disk_bytes,
        bundled.name,
    )


@pytest.mark.parametrize("rows", [[], [row("l4x1", "0.95", accelerator=("L4", 1, 24))], [row(f"new-{n}", "1") for n in range(40)]])
def test_a_list_that_is_far_from_complete_is_not_believed(hub: PricesStandIn, rows: list[dict[str, Any]]) -> None:
    """Nothing is retired and no price is taken from an empty list, a single row, or a list of strangers."""
    hub.lists(SPACES, rows)
    hub.lists(JOBS, rows)
    _, catalog = refresh_feed(hub)
    assert [(o.id, o.status, o.usd_per_hour) for o in catalog.offers] == [(o.id, o.status, o.usd_per_hour) for o in load().offers]
    assert catalog.prices["spaces"].basis == "bundled"
    assert "too few" in catalog.prices["spaces"].remarks[-1]


BROKEN = [
    (Reply(status=500, body=b"oops"), HubUnreachable, "HTTP 500"),
    (Reply(status=503, body=b"<html>"), HubUnreachable, "HTTP 503"),
    (Reply(status=401, body=b"{}"), HubUnreachable, "HTTP 401"),
    (Reply(status=404, body=b"{}"), HubUnreachable, "HTTP 404"),
    (Reply(status=429, body=b"{}"), RateLimited, "too many requests"),
    (Reply(body=b"<!doctype html>"), HubGarbage, "format"),
    (Reply(body=b"\xff\xfe\x00garbage"), HubGarbage, "format"),
    (Reply(body=b'{"error": "none"}'), HubGarbage, "format"),
    (Reply(body=b"null"), HubGarbage, "format"),
    (Reply(body=b"[1, 2, 3]"), HubGarbage, "format"),
    (Reply(body=b'[{"name": "l4x1"}]'), HubGarbage, "format"),
    (Reply(body=b"[" * 200_000), HubGarbage, "format"),
    (Reply(body=b"[" + b",".join([b"{}"] * 9) + b"]"), HubGarbage, "format"),
]


@pytest.mark.parametrize(
    ("reply", "kind", "says"), BROKEN, ids=lambda value: value.body[:12].decode("latin1") if isinstance(value, Reply) else ""
)
def test_a_list_that_fails_leaves_the_other_and_is_told(hub: PricesStandIn, reply: Reply, kind: type[Exception], says: str) -> None:
    """Spaces is broken in some way, Jobs is fine: Jobs is live, Spaces bundled, and the failure is one of our errors."""
    hub.replies[SPACES] = reply
    hub.lists(JOBS, as_listed("jobs"))
    feed, catalog = refresh_feed(hub)
    assert (catalog.prices["spaces"].basis, catalog.prices["jobs"].basis) == ("bundled", "live")
    failure = feed.failures()["spaces"]
    assert type(failure) is kind
    assert says in str(failure)
    assert "127.0.0.1" not in str(failure)


@pytest.mark.parametrize(
    "fault",
    [
        Fault(body=gzip.compress(b"[" + b" " * 50_000_000 + b"]"), headers=(("Content-Encoding", "gzip"),)),
        Fault(body=zlib.compress(b" " * 50_000_000), headers=(("Content-Encoding", "deflate"),)),
        Fault(body=b"\x00", headers=(("Content-Encoding", "br"),)),
        Fault(status=307, headers=(("Location", "http://[::1]:1/api/spaces/hardware"),)),
    ],
)
def test_a_list_that_cannot_be_read_leaves_the_known_prices(hub: PricesStandIn, fault: Fault) -> None:
    """Packed, not JSON, or moved to where nobody answers: the lists of other platforms are read all the same."""
    hub.lists(JOBS, as_listed("jobs"))
    hub.faults[SPACES] = fault
    feed, catalog = refresh_feed(hub)
    assert (catalog.prices["spaces"].basis, catalog.prices["jobs"].basis) == ("bundled", "live")
    assert "The prices known before stay" in str(feed.failures()["spaces"])


def test_a_list_of_very_many_rows_is_refused(hub: PricesStandIn) -> None:
    """501 rows."""
    hub.lists(SPACES, [row(f"x{n}", "1") for n in range(501)])
    hub.lists(JOBS, as_listed("jobs"))
    feed, _ = refresh_feed(hub)
    assert "501 rows" in str(feed.failures()["spaces"])


def test_nobody_at_the_address(hub: PricesStandIn) -> None:
    """A closed port: both lists fail, the bundled catalog is served."""
    feed = PriceFeed(load(), endpoint="http://127.0.0.1:9")
    assert feed.refresh() == load()
    assert {type(failure) for failure in feed.failures().values()} == {HubUnreachable}
    assert not hub.requests


def test_a_hub_that_hangs_costs_the_limit_and_no_second_call(hub: PricesStandIn) -> None:
    """Both hang for longer than the limit of 0.3 s; the next refresh waits for the same calls instead of starting more."""
    hub.replies[SPACES] = hub.replies[JOBS] = Reply(wait_s=60)
    feed = PriceFeed(load(), endpoint=hub.url, limit_s=0.3)
    feed.refresh()
    feed.refresh()
    assert sorted(seen.path for seen in hub.requests if "hardware" in seen.path) == [JOBS, SPACES]
    assert all("within 0.3 s" in str(failure) for failure in feed.failures().values())
    assert len(feed.failures()) == 2


def wait_for(condition: Callable[[], bool], limit_s: float = PATIENT_S) -> bool:
    """Whether the condition became true in time."""
    deadline = time.monotonic() + limit_s
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)
    return condition()


def test_the_catalog_is_there_at_once_and_renewed_behind(hub: PricesStandIn) -> None:
    """The first call answers with bundled prices while the Hub is slow; later calls have the live ones."""
    list_both(hub, l4x1="0.95")
    for reply in hub.replies.values():
        reply.wait_s = 0.4
    feed = PriceFeed(load(), endpoint=hub.url, limit_s=PATIENT_S)
    assert feed.catalog().offer("l4x1").usd_per_hour == Decimal("0.80")
    assert wait_for(lambda: feed.catalog().offer("l4x1").usd_per_hour == Decimal("0.95"))


def test_refreshes_keep_their_distance(hub: PricesStandIn) -> None:
    """With a clock of our own: none before the hour is over, one after it; after a failure the shorter pause."""
    now = [0.0]
    list_both(hub)
    feed = PriceFeed(load(), endpoint=hub.url, limit_s=PATIENT_S, clock=lambda: now[0], ttl_s=3600, retry_s=300)

    def count_requests() -> int:
        return sum(seen.path == SPACES for seen in hub.requests)

    def is_idle() -> bool:
        with feed._lock:  # with the end of a refresh goes the time of the next one, which must not be read off a clock set meanwhile
            return not feed._running

    def settle() -> int:
        feed.catalog()
        assert wait_for(is_idle, 2 * PATIENT_S)
        return count_requests()

    assert settle() == 1
    now[0] = 3599
    assert settle() == 1
    now[0] = 3601
    hub.replies[SPACES] = Reply(status=500)
    assert settle() == 2
    now[0] += 299
    assert settle() == 2
    now[0] += 2
    assert settle() == 3
    assert feed.catalog().prices["spaces"].basis == "live"  # the list of the first hour is kept, with its time


def test_hf_endpoint_is_honoured(hub: PricesStandIn) -> None:
    """Without an address of its own the feed asks where HF_ENDPOINT points, in a process that starts with it."""
    list_both(hub, l4x1="0.95")
    code = (
        "from lib.catalog import load; from lib.hub.prices import PriceFeed\n"
        f"print(PriceFeed(load(), limit_s={PATIENT_S}).refresh().offer('l4x1').usd_per_hour)"
    )
    environment = {**os.environ, "HF_ENDPOINT": hub.url, "HF_HUB_OFFLINE": "0"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=2 * PATIENT_S, check=False)
    assert done.stdout.strip() == "0.95", done.stderr


@given(st.integers(min_value=0, max_value=99_999))
def test_every_price_in_cents_survives_the_minute(cents: int) -> None:
    """0 to 999.99 USD: hour → millionths per minute, rounded → hour is the identity."""
    price = Decimal(cents) / 100
    assert hourly_price(round(price * 10**6 / 60), "minute") == price


@given(st.integers(min_value=0, max_value=10**9))
def test_an_hourly_cost_is_exact(micro: int) -> None:
    """Per hour nothing is rounded."""
    assert hourly_price(micro, "hour") == Decimal(micro) / 10**6


def test_a_tenth_of_a_cent_is_not_rounded_away() -> None:
    """0.025 USD per hour = 416.67 millionths per minute, listed as 417; 417 × 60 = 0.02502, within 0.00003 of 0.025, not of 0.03."""
    assert hourly_price(417, "minute") == Decimal("0.025")


def test_no_list_means_the_same_catalog() -> None:
    """And a platform that is not one is refused by name."""
    assert apply_live_prices(load()) == load()
    with pytest.raises(BadArgument, match="spaces, zerogpu, endpoints, jobs, tpu"):
        load().on(["moon"])


def test_a_list_names_its_source() -> None:
    """The source of a live price says which call, and the day."""
    live = LiveList(platform="jobs", fetched_at="2026-11-21T10:00:00+00:00", flavors=(), remarks=())
    assert (live.source.source, live.source.checked) == ("GET /api/jobs/hardware (list_jobs_hardware)", "2026-11-21")
