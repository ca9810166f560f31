"""Refreshing the bundled prices from a Hub on the loopback: the difference is shown, and written only when asked."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest
from prices_stand_in import JOBS, SPACES, PricesStandIn, Reply, as_listed, row

from lib.catalog import load, load_from
from scripts.build_catalog import DATA, format_rows
from scripts.refresh_prices import main

FILES = ("sources.json", "accelerators.json", "tpu_generations.json", "offers.json", "platform.json", "unpriced_hardware.json")


@pytest.fixture
def hub() -> Iterator[PricesStandIn]:
    """A Hub with a cheaper L4, a new pair of L40S, without t4-medium."""
    with PricesStandIn() as stand_in:
        spaces = [each for each in as_listed("spaces", l4x1="0.70") if each["name"] != "t4-medium"]
        stand_in.lists(SPACES, [*spaces, row("l40sx2", "3.60", accelerator=("L40S", 2, 96))])
        stand_in.lists(JOBS, as_listed("jobs"))
        yield stand_in


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the bundled lists."""
    for name in FILES:
        shutil.copy(DATA / name, tmp_path)
    return tmp_path


def read_all(folder: Path) -> dict[str, str]:
    """The texts of the lists."""
    return {name: (folder / name).read_text(encoding="utf-8") for name in FILES}


def test_the_difference_is_shown_first_and_written_when_asked(hub: PricesStandIn, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A price, a new tier and a withdrawn one; the written rows load, and a second run finds nothing to change."""
    before = read_all(folder)
    asked = ["--data", str(folder), "--endpoint", hub.url]
    assert main(asked) == 0
    shown = capsys.readouterr().out
    assert "price     spaces l4x1: 0.80 → 0.70 USD per hour" in shown
    assert "new       spaces l40sx2: 3.60 USD per hour" in shown
    assert "gone      spaces t4-medium: last 0.60 USD per hour" in shown
    assert read_all(folder) == before
    assert main([*asked, "--write"]) == 0
    catalog = load_from(folder)
    cheaper, added = catalog.offer("l4x1", "spaces"), catalog.offer("l40sx2", "spaces")
    assert (cheaper.usd_per_hour, cheaper.price_history[-1].usd_per_hour) == (Decimal("0.70"), Decimal("0.80"))
    assert (added.usd_per_hour, added.accelerator_count, added.accelerator) == (Decimal("3.60"), 2, "L40S")
    assert catalog.offer("t4-medium", "spaces").status == "retired"
    assert cheaper.checked == added.checked == catalog.prices["jobs"].newest > load().offer("l4x1", "spaces").checked
    unchanged = {(one.platform, one.id): one.usd_per_hour for one in load().offers} | {("spaces", "l4x1"): Decimal("0.70")}
    assert {key: one.usd_per_hour for one in catalog.offers if (key := (one.platform, one.id)) in unchanged} == unchanged | {
        ("spaces", "t4-medium"): None
    }
    capsys.readouterr()
    assert main(asked) == 0
    assert not any(line.startswith(("price ", "new ", "gone ", "machine ")) for line in capsys.readouterr().out.splitlines())


def test_a_list_that_cannot_be_had_writes_nothing(hub: PricesStandIn, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nor does one that names too few tiers to be believed."""
    before = read_all(folder)
    hub.replies[SPACES] = Reply(status=500)
    hub.lists(JOBS, [row("l4x1", "0.80")])
    assert main(["--data", str(folder), "--endpoint", hub.url, "--write"]) == 1
    told = capsys.readouterr()
    assert "HTTP 500" in told.err
    assert "too few to be believed" in told.out
    assert read_all(folder) == before


def test_rows_are_written_as_they_are_bundled() -> None:
    """A refresh that changes one price changes one line."""
    text = (DATA / "offers.json").read_text(encoding="utf-8")
    assert format_rows(json.loads(text)) == text
