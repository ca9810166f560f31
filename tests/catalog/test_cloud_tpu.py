"""Cloud TPU in the catalog against what was researched: chips, topologies, prices by region; spot, commitments, tested models."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from lib.catalog import load
from lib.catalog.gpu_or_tpu import load_tpu_software
from lib.units import GIB

FACTS: list[dict[str, Any]] = json.loads((Path(__file__).parent.parent / "data" / "cloud_tpu.json").read_text(encoding="utf-8"))[
    "generations"
]
CATALOG, SOFTWARE = load(), load_tpu_software()


def slices_of(generation: str) -> dict[str, Any]:
    """The catalog's slices of a generation, by id."""
    return {offer.id: offer for offer in CATALOG.on(("tpu",)) if offer.tpu is not None and offer.tpu.generation.id == generation}


@pytest.mark.parametrize("fact", FACTS, ids=[fact["generation"] for fact in FACTS])
def test_a_generation_is_as_researched(fact: dict[str, Any]) -> None:
    """Chip, price per chip-hour in every region, zones, runtime, and every slice with topology, chips and price."""
    offers = slices_of(fact["generation"])
    generation = next(iter(offers.values())).tpu.generation
    chip = CATALOG.accelerator(generation.accelerator)
    assert chip.memory_advertised == fact["hbm_gb_per_chip"] * GIB
    # 1,640 GB/s in one source, 1,638 in the other
    assert chip.bandwidth == pytest.approx(fact["bandwidth_gb_s"] * 1e9, rel=0.002)
    assert chip.peak("bf16") == fact["peak_bf16_tflops"] * 1e12
    assert chip.interconnect is not None
    assert chip.interconnect.both_directions == fact["ici_gb_s_bidirectional"] * 1e9
    assert fact["interconnect"] in chip.interconnect.kind
    assert generation.runtime_version == fact["runtime_version"]
    assert set(generation.zones) >= set(fact["zones"])
    assert {region: float(price) for region, price in generation.usd_per_chip_hour.items()} == fact["usd_per_chip_hour_by_region"]
    assert offers.keys() == {one["accelerator_type"] for one in fact["slices"]}
    for one in fact["slices"]:
        offer = offers[one["accelerator_type"]]
        assert (offer.tpu.topology, offer.accelerator_count) == (one["topology"], one["chips"])
        assert float(offer.usd_per_hour) == pytest.approx(one["usd_per_hour_us_central1"])


@pytest.mark.parametrize("generation", [fact["generation"] for fact in FACTS])
def test_other_prices_are_below_the_list(generation: str) -> None:
    """Spot and committed chip-hours cost less than the list price of the same region, and name regions of the list."""
    terms = SOFTWARE.terms(generation)
    listed = next(iter(slices_of(generation).values())).tpu.generation.usd_per_chip_hour
    assert terms is not None
    assert set(terms.usd_per_chip_hour_spot) <= set(listed)
    assert all(0 < price < listed[region] for region, price in terms.usd_per_chip_hour_spot.items())
    assert all(0 < each.usd_per_chip_hour < min(listed.values()) for each in terms.commitments)


def test_a_year_costs_more_than_three() -> None:
    """The longer the commitment, the lower the price: 1.89 and 1.22 USD for a chip-hour of v6e."""
    trillium = SOFTWARE.terms("v6e")
    assert trillium is not None
    assert [(each.years, each.usd_per_chip_hour) for each in trillium.commitments] == [(1, Decimal("1.89")), (3, Decimal("1.22"))]


def test_the_matrix_is_whole() -> None:
    """31 models on two chips each, none twice, and only chips of the catalog."""
    rows = SOFTWARE.support.rows
    assert len(rows) == 62
    assert {row.accelerator for row in rows} == {"TPU-v6e", "TPU7x"}
    assert all(row.accelerator in CATALOG.accelerators for row in rows)
