"""Every row of the bundled catalog, walked: plausible figures, sources, dates, and what the researched facts say."""

from __future__ import annotations

import json
import pickle
from decimal import Decimal
from pathlib import Path

import pytest
from pydantic import ValidationError

from lib.catalog import load
from lib.catalog.offers import Offer
from lib.catalog.silicon import Accelerator
from lib.platforms import PLATFORMS

FACTS = json.loads((Path(__file__).parents[1] / "data" / "platform_facts.json").read_text(encoding="utf-8"))
CATALOG = load()
FACT_SILICON = {"A100": "A100-SXM4-80GB", "H100": "H100-SXM", "H200": "H200-SXM", "RTX PRO 6000": "RTX-PRO-6000-Blackwell-Server"}
FACT_SILICON |= {"TPU v5e": "TPU-v5e"}
STATUS = {"listed": "listed", "removed": "retired", "deprecated since 2025-07": "deprecated", "deprecated since 2025-12": "deprecated"}
EVERY_OFFER = pytest.mark.parametrize("offer", CATALOG.offers, ids=lambda offer: f"{offer.platform}/{offer.id}")
EVERY_CARD = pytest.mark.parametrize("card", CATALOG.accelerators.values(), ids=lambda card: card.id)


@EVERY_OFFER
def test_an_offer_has_a_price_a_source_and_a_date(offer: Offer) -> None:
    """Today's price is positive or openly free; a retired one has none; nothing is dated after the catalog."""
    if offer.status == "retired":
        assert offer.usd_per_hour is None
        assert offer.since is not None
    else:
        assert offer.usd_per_hour is not None
        free = offer.platform == "zerogpu" or (offer.platform, offer.id) == ("spaces", "cpu-basic")
        assert offer.usd_per_hour == 0 if free else 0 < offer.usd_per_hour < 30_000
    assert offer.sources
    assert offer.source
    assert offer.checked <= CATALOG.as_of
    assert offer.checked == offer.sources[0].checked
    assert offer.since is None or offer.since <= CATALOG.as_of


@EVERY_OFFER
def test_an_offer_stands_on_known_silicon(offer: Offer) -> None:
    """Memory of a card is its usable memory times the share of it; without a card there is none."""
    if offer.silicon is None:
        assert (offer.accelerator, offer.accelerator_count, offer.vram_bytes_per_accelerator, offer.vram_bytes) == (None, 0, None, None)
        return
    assert CATALOG.accelerator(offer.silicon.id) is offer.silicon
    assert offer.silicon.memory_usable is not None
    assert offer.vram_bytes_per_accelerator == offer.silicon.memory_usable * offer.accelerator_fraction
    assert offer.vram_bytes == offer.vram_bytes_per_accelerator * offer.accelerator_count


@EVERY_OFFER
def test_a_card_hour_costs_what_cards_cost(offer: Offer) -> None:
    """Between 30 cents and 15 dollars per card and hour: a slip of a digit, or a total typed for one card, leaves this range."""
    price = offer.usd_per_hour if offer.usd_per_hour is not None else offer.last_usd_per_hour
    if offer.accelerator_count and price:
        assert Decimal("0.3") <= price / offer.accelerator_count <= 15


def ridge_point(card: Accelerator, dtype: str) -> float:
    """FLOP per byte above which a kernel is bound by compute: peak / bandwidth (Williams et al. 2009, "Roofline")."""
    peak = card.peak(dtype)
    assert peak is not None
    return peak / card.bandwidth


@EVERY_CARD
def test_a_card_is_plausible(card: Accelerator) -> None:
    """The ridge point of the 16-bit rate lies between 10 and 1000 FLOP per byte: TB/s typed for GB/s leaves this range."""
    assert card.sources
    assert card.checked <= CATALOG.as_of
    rate = "bf16" if card.peak("bf16") else "fp16"
    ridge = ridge_point(card, rate if card.kind != "cpu" else "fp32")
    assert (10 if card.kind != "cpu" else 1) < ridge < 1000
    if card.kind != "cpu":
        assert card.memory_usable is not None
        assert card.memory_advertised is not None
        lent = card.kind == "gpu" and card.interconnect is None  # a part of the processor's memory; Metal lends two thirds of a small Mac's
        least = 0.66 if lent or card.kind == "apple" else 0.9
        assert least * card.memory_advertised <= card.memory_usable <= card.memory_advertised
    else:
        assert not card.bandwidth_is_peak


@EVERY_CARD
def test_a_type_without_a_unit_has_no_rate(card: Accelerator) -> None:
    """A published rate means that the type is native, under the name that the silicon's own format has."""
    own_names = {"fp8": {"fp8", "cfp8", "fp8-fnuz"}, "tf32": {"tf32", "xf32"}}
    for dtype, rate in card.peaks.items():
        assert rate is None or rate > 0
        known_gap = card.id == "Trainium2" and dtype == "tf32"  # the sheet has a rate, the list of types names none
        assert rate is None or known_gap or own_names.get(dtype, {dtype}) & set(card.native_dtypes)


def test_what_old_cards_lack() -> None:
    """No bf16 on T4, no fp8 before Ada, no fp4 before Blackwell; the A10G is not the A10."""
    cards = CATALOG.accelerators
    assert not cards["T4"].supports("bf16")
    assert cards["T4"].peak("bf16") is None
    assert not cards["A100-SXM4-80GB"].supports("fp8")
    assert cards["L4"].supports("fp8")
    assert not cards["H100-SXM"].supports("fp4")
    assert cards["RTX-PRO-6000-Blackwell-Server"].supports("fp4")
    assert (cards["T4"].compute_capability or (0, 0)) < (8, 0) < (cards["RTX-PRO-6000-Blackwell-Server"].compute_capability or (0, 0))
    assert cards["A10G"].peak("fp16") == 70e12
    assert cards["A10"].peak("fp16") == 125e12


def test_a_limit_is_that_of_any_unit() -> None:
    """A T4 may multiply bf16 weights in fp16, a TPU float32 in bf16, and a processor without bf16 in float32."""
    cards = CATALOG.accelerators
    assert cards["T4"].limit("bf16") == 65e12
    assert cards["TPU-v5e"].limit("fp32", "tf32") == 197e12
    assert cards["CPU-8vCPU"].limit("bf16", "fp16") == 0.3e12
    assert cards["A100-SXM4-80GB"].limit("fp32") == 19.5e12


@pytest.mark.parametrize(
    ("card", "dtype", "ridge"),
    [("T4", "fp16", 203), ("L4", "bf16", 403), ("A100-SXM4-80GB", "bf16", 153), ("H100-SXM", "bf16", 295), ("TPU-v6e", "bf16", 560)],
)
def test_ridge_points(card: str, dtype: str, ridge: int) -> None:
    """T4: 65e12 FLOP/s / 320e9 B/s = 203; L4: 121 / 0.3 = 403; A100: 312 / 2.039 = 153; H100: 989 / 3.35 = 295; v6e: 918 / 1.64 = 560."""
    assert round(ridge_point(CATALOG.accelerator(card), dtype)) == ridge


@pytest.mark.parametrize("fact", FACTS["silicon"], ids=lambda fact: fact[0])
def test_silicon_is_that_of_the_facts(fact: list[object]) -> None:
    """Capacity to 0.01 GiB (two are known to the byte), bandwidth, every peak, native types."""
    key, usable, bandwidth, peaks, native = fact
    card = CATALOG.accelerator(str(key))
    assert isinstance(peaks, dict)
    if usable is None:
        assert card.memory_usable is None
    else:
        assert card.memory_usable is not None
        assert abs(card.memory_usable / 2**30 - float(str(usable))) < 0.01
    assert card.bandwidth == pytest.approx(float(str(bandwidth)) * 1e12)
    for dtype, rate in peaks.items():
        ours = card.peak(dtype.removesuffix("_tops"))
        assert ours is None if rate is None else ours == pytest.approx(float(rate) * 1e12)
    assert list(card.native_dtypes) == native


def test_all_silicon_is_there_and_no_more() -> None:
    """58 cards, chips and CPU hosts of the facts; behind them cards that people own, which the fit of speeds has not seen."""
    ids = [fact[0] for fact in FACTS["silicon"]]
    assert list(CATALOG.accelerators)[: len(ids)] == ids
    assert [key for key, card in CATALOG.accelerators.items() if card.in_calibration] == ids


@pytest.mark.parametrize(
    ("card", "gib", "gb_per_s", "dtype", "tflops"),
    [
        ("RTX-3060", 12, 360, "fp16", 25.48),  # 2 × 12.74
        ("RTX-4060Ti-16GB", 16, 288, "fp8", 88.24),  # 4 × 22.06
        ("RTX-5090", 32, 1792, "bf16", 209.6),  # 2 × 104.8
        ("RTX-5090", 32, 1792, "fp4", 1676.8),  # 16 × 104.8
        ("MI325X", 256, 6000, "bf16", 1307),
        ("MI355X", 288, 8000, "fp8", 5000),
        ("B300", 288, 8000, "bf16", 2250),
        ("GB300", 288, 8000, "fp4", 15_000),
        ("M4-Max-128GB", 128, 546, "fp16", 18.4),
    ],
)
def test_cards_that_people_own(card: str, gib: int, gb_per_s: int, dtype: str, tflops: float) -> None:
    """Figures as the vendors print them (scripts/catalog_cards.py names where they were read)."""
    row = CATALOG.accelerator(card)
    assert row.memory_advertised == gib * 2**30
    assert row.bandwidth == gb_per_s * 1e9
    assert row.peak(dtype) == pytest.approx(tflops * 1e12)


def test_a_mac_holds_what_metal_gives_a_program() -> None:
    """Two thirds of 16 GiB, three quarters of 128."""
    assert CATALOG.accelerator("M4-16GB").memory_usable == pytest.approx(16 * 2**30 * 2 / 3, rel=1e-3)
    assert CATALOG.accelerator("M4-Max-128GB").memory_usable == pytest.approx(96 * 2**30)
    assert not CATALOG.accelerator("M1-16GB").supports("bf16")


@pytest.mark.parametrize(("platform", "fact"), [(name, fact) for name in ("spaces", "jobs") for fact in FACTS["flavors"][name]], ids=str)
def test_flavors_are_those_of_the_facts(platform: str, fact: list[object]) -> None:
    """Price, status, processors, memory (GiB in effect), disk (GB), silicon × count of every flavor of Spaces and Jobs."""
    key, vcpu, ram, disk, card, count, price, status, since = fact
    if key == "zero-a10g":
        offer = CATALOG.offer("zero-a10g", "zerogpu")
        assert (offer.usd_per_hour, offer.accelerator, offer.accelerator_fraction) == (0, "RTX-PRO-6000-Blackwell-Server", 0.5)
        return
    offer = CATALOG.offer(str(key), platform)  # type: ignore[arg-type]
    assert offer.status == STATUS[str(status)]
    assert (offer.vcpu, offer.accelerator_count) == (vcpu, count)
    assert offer.ram_bytes == (None if ram is None else int(str(ram)) * 2**30)
    assert offer.disk_bytes == (None if disk is None else int(str(disk)) * 10**9)
    assert offer.accelerator == (None if card is None else FACT_SILICON.get(str(card), card))
    assert offer.since == since or offer.listed
    if price is not None:
        assert (offer.last_usd_per_hour if status == "removed" else offer.usd_per_hour) == Decimal(str(price))


@pytest.mark.parametrize("fact", FACTS["endpoints"], ids=lambda fact: "-".join(fact[:3]))
def test_endpoints_are_those_of_the_facts(fact: list[object]) -> None:
    """Price, status and count of every instance."""
    vendor, kind, size, count, price, status, since = fact
    offer = CATALOG.offer(f"{vendor}-{kind}-{size}", "endpoints")
    assert offer.endpoint is not None
    assert (offer.endpoint.vendor, offer.endpoint.instance_type, offer.endpoint.instance_size) == (vendor, kind, size)
    assert (offer.status, offer.accelerator_count) == (STATUS[str(status)], count)
    assert (offer.last_usd_per_hour if status == "removed" else offer.usd_per_hour) == Decimal(str(price))
    assert since is None or offer.since == since


@pytest.mark.parametrize("fact", FACTS["tpu"], ids=lambda fact: fact[0])
def test_tpu_slices_are_those_of_the_facts(fact: list[object]) -> None:
    """The slice costs its chips times the chip-hour, in every region."""
    key, chips, price, per_chip = fact
    offer = CATALOG.offer(str(key), "tpu")
    assert offer.tpu is not None
    assert isinstance(per_chip, dict)
    assert isinstance(chips, int)
    assert offer.accelerator_count == chips
    assert offer.usd_per_hour == Decimal(str(price))
    assert offer.usd_per_hour_by_region == {region: Decimal(rate) * chips for region, rate in per_chip.items()}


def test_every_platform_has_exactly_the_offers_of_the_facts() -> None:
    """ZeroGPU is one flavor in the facts and two sizes here."""
    count = {name: sum(offer.platform == name for offer in CATALOG.offers) for name in PLATFORMS}
    assert count == {
        "spaces": len(FACTS["flavors"]["spaces"]) - 1,
        "zerogpu": 2,
        "jobs": len(FACTS["flavors"]["jobs"]),
        "endpoints": len(FACTS["endpoints"]),
        "tpu": len(FACTS["tpu"]),
    }


def test_what_the_platform_withdrew_stays_with_dates_and_last_prices() -> None:
    """TPU v5e on Spaces (announced at 1.375 / 5.50 / 11.00) and Endpoints (1.20 / 4.75 / 9.50, first 1.38 / 5.50 / 11.00), and H100."""
    last = {key: CATALOG.offer(key).last_usd_per_hour for key in ("v5e-1x1", "v5e-2x2", "v5e-2x4", "h100", "h100x8")}
    assert [str(price) for price in last.values()] == ["1.375", "5.50", "11.00", "4.50", "36.00"]
    assert CATALOG.offer("v5e-2x2").since == "2025-04-02"
    tpu = [CATALOG.offer(f"gcp-tpu-{shape}") for shape in ("1x1", "2x2", "2x4")]
    assert [str(offer.last_usd_per_hour) for offer in tpu] == ["1.20", "4.75", "9.50"]
    assert [str(offer.price_history[0].usd_per_hour) for offer in tpu] == ["1.38", "5.50", "11.00"]
    assert {offer.since for offer in tpu} == {"2025-07-17"}
    assert [offer.id for offer in CATALOG.on(["spaces"], include_retired=True) if offer.status == "retired"] == [
        *("h100", "h100x8", "v5e-1x1", "v5e-2x2", "v5e-2x4", "inf2x6", "sprx8"),
    ]


def test_prices_that_were_not_seen_on_the_platforms_own_page_say_so() -> None:
    """RTX PRO 6000 on Spaces is priced as on Jobs; TPU prices come from copies of Google's list."""
    assert not CATALOG.offer("rtx-pro-6000", "spaces").price_verified
    assert CATALOG.offer("rtx-pro-6000", "jobs").price_verified
    assert not any(offer.price_verified for offer in CATALOG.on(["tpu"]))


def test_listed_offers_by_platform() -> None:
    """Only what can be asked for today, in the order asked; `all` means every platform."""
    assert [offer.id for offer in CATALOG.on(["zerogpu", "spaces"])][:3] == ["zero-a10g", "zero-a10g-xlarge", "cpu-basic"]
    assert len(CATALOG.on(["spaces"])) == 20
    assert CATALOG.on(["all"]) == CATALOG.on(PLATFORMS)
    assert all(offer.listed for offer in CATALOG.on(["all"]))
    assert not [offer for offer in CATALOG.on(["endpoints"]) if "h100" in offer.id and offer.id.startswith("aws")]


def test_the_catalog_is_loaded_once() -> None:
    """Whoever asks gets the same one."""
    assert load() is load()


def test_rows_travel_to_another_process() -> None:
    """On ZeroGPU the card of a heartbeat goes, pickled, to the process that has the GPU; its tables stay read-only."""
    for row in (CATALOG.accelerator("L4"), CATALOG.offer("v6e-8"), CATALOG.rules):
        assert pickle.loads(pickle.dumps(row)) == row  # noqa: S301 our own bytes
    with pytest.raises(TypeError):
        pickle.loads(pickle.dumps(CATALOG.accelerator("L4"))).peaks["bf16"] = 1.0  # noqa: S301 as above


def test_a_row_cannot_be_changed() -> None:
    """Neither a field nor a table."""
    with pytest.raises(ValidationError):
        CATALOG.offer("l4x1").usd_per_hour = Decimal(1)  # type: ignore[misc, assignment]
    with pytest.raises(TypeError):
        CATALOG.accelerator("L4").peaks["bf16"] = 1.0  # type: ignore[index]
