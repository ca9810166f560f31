"""Loading refuses what is wrong, with the file, the row and the field in the message; quantities keep their value through text."""

from __future__ import annotations

import json
import shutil
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lib.catalog import load_from
from lib.catalog.rows import DATA, is_day
from lib.errors import BadCatalog, BadQuantity
from lib.units import parse_bytes, parse_bytes_per_second, parse_flop_per_second

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

FILES = ("sources.json", "accelerators.json", "tpu_generations.json", "offers.json", "platform.json", "unpriced_hardware.json")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the bundled rows."""
    for name in FILES:
        shutil.copy(DATA / name, tmp_path / name)
    return tmp_path


def spoil(folder: Path, name: str, change: Callable[[dict[str, Any]], object]) -> None:
    """Change one file."""
    rows = json.loads((folder / name).read_text(encoding="utf-8"))
    change(rows)
    (folder / name).write_text(json.dumps(rows), encoding="utf-8")


def offer(key: str, **fields: object) -> Callable[[dict[str, Any]], object]:
    """A change of one offer's fields."""
    return lambda data: next(row for row in data["offers"] if row["id"] == key).update(fields)


def card(key: str, **fields: object) -> Callable[[dict[str, Any]], object]:
    """A change of one card's fields."""
    return lambda data: next(row for row in data["accelerators"] if row["id"] == key).update(fields)


BAD = [
    ("offers.json", offer("l4x1", colour="red"), ["'l4x1'", "colour", "not permitted"]),
    ("offers.json", lambda data: data["offers"].append(data["offers"][0]), ["'spaces' 'cpu-basic' is there twice"]),
    ("offers.json", offer("l4x1", sources=[]), ["'l4x1'", "sources", "at least 1"]),
    ("offers.json", offer("l4x1", sources=["hearsay"]), ["'l4x1'", "'hearsay'"]),
    ("offers.json", offer("l4x1", checked="2026-13-01"), ["'l4x1'", "checked"]),
    ("offers.json", offer("l4x1", checked="2031-01-01"), ["'l4x1'", "not after 2026-11-25"]),
    ("offers.json", offer("l4x1", checked="yesterday"), ["'l4x1'", "checked"]),
    ("offers.json", offer("l4x1", since="2026-02-30"), ["'l4x1'", "since"]),
    ("offers.json", offer("l4x1", usd_per_hour="-1"), ["'l4x1'", "usd_per_hour"]),
    ("offers.json", offer("l4x1", usd_per_hour="NaN"), ["'l4x1'", "usd_per_hour"]),
    ("offers.json", offer("l4x1", usd_per_hour=0.8), ["'l4x1'", "usd_per_hour"]),
    ("offers.json", offer("l4x1", usd_per_hour=None), ["'l4x1'", "usd_per_hour"]),
    ("offers.json", offer("l4x1", accelerator="L5"), ["'l4x1'", "'L5'"]),
    ("offers.json", offer("l4x1", count=0), ["'l4x1'", "count"]),
    ("offers.json", offer("l4x1", count=True), ["'l4x1'", "count"]),
    ("offers.json", offer("l4x1", fraction="1.5"), ["'l4x1'", "fraction"]),
    ("offers.json", offer("l4x1", ram="30"), ["'l4x1'", "'30' is not a quantity"]),
    ("offers.json", offer("l4x1", ram="0 GiB"), ["'l4x1'", "ram", "greater than 0"]),
    ("offers.json", offer("l4x1", ram="30 GB/s"), ["'l4x1'", "ram"]),
    ("offers.json", offer("l4x1", platform="moon"), ["'l4x1'", "platform"]),
    ("offers.json", offer("l4x1", platform=["spaces"]), ["'l4x1'", "platform"]),
    ("offers.json", offer("l4x1", status="gone"), ["'l4x1'", "status"]),
    ("offers.json", offer("l4x1", status="deprecated"), ["'l4x1'", "since"]),
    ("offers.json", offer("l4x1", rules=["be nice"]), ["'l4x1'", "be nice"]),
    ("offers.json", offer("l4x1", successor="l6x1"), ["'l4x1'", "successor"]),
    ("offers.json", offer("h100", usd_per_hour="4.50"), ["'h100'", "null for a retired offer"]),
    ("offers.json", offer("v6e-8", usd_per_hour="2.70"), ["'v6e-8'", "chip-hour"]),
    ("offers.json", offer("v6e-8", tpu=None), ["'v6e-8'", "tpu"]),
    ("offers.json", offer("aws-nvidia-l4-x1", endpoint=None), ["'aws-nvidia-l4-x1'", "endpoint"]),
    ("offers.json", lambda data: data["offers"][0].pop("ram"), ["'cpu-basic'", "ram", "required"]),
    ("offers.json", lambda data: data["aliases"]["spaces"].update(l5="l5x1"), ["aliases, spaces", "l5"]),
    ("offers.json", lambda data: data["aliases"]["spaces"].update(l4x1="l4x4"), ["aliases, spaces", "itself an id"]),
    ("offers.json", lambda data: data.update(extra=1), ["offers.json", "extra", "not permitted"]),
    ("accelerators.json", card("L4", bandwidth="0.3"), ["'L4'", "bandwidth"]),
    ("accelerators.json", card("L4", bandwidth=None), ["'L4'", "bandwidth"]),
    ("accelerators.json", card("L4", memory_usable=None), ["'L4'", "memory_usable"]),
    ("accelerators.json", card("L4", peaks={"bf16": "121 TFLOP/s"}), ["'L4'", "peaks"]),
    ("accelerators.json", card("L4", compute_capability="eight"), ["'L4'", "compute_capability"]),
    ("accelerators.json", card("L4", vendor="Acme"), ["'L4'", "vendor"]),
    ("accelerators.json", card("L4", sources=[]), ["'L4'", "sources", "at least 1"]),
    ("accelerators.json", lambda data: data["accelerators"].append(data["accelerators"][0]), ["'T4'", "twice"]),
    ("accelerators.json", lambda data: data["accelerators"].append("T4"), ["accelerators, ", "'T4'", "an object"]),
    ("sources.json", lambda data: data["sources"]["nv-l4"].update(checked="2027-01-01"), ["nv-l4", "checked"]),
    ("sources.json", lambda data: data["sources"]["nv-l4"].update(source=" "), ["nv-l4", "source"]),
    ("platform.json", lambda data: data["zerogpu"].update(mood="good"), ["zerogpu", "mood", "not permitted"]),
    ("platform.json", lambda data: data["zerogpu"]["sizes"][0].update(offer="zero"), ["zerogpu, sizes, 0", "'zero'"]),
    ("platform.json", lambda data: data["storage"].update(private_volume_rates=[[1]]), ["storage, private_volume_rates, 0, 1", "required"]),
    ("platform.json", lambda data: data["accounts"].update(cpu_basic_accounts=["vip"]), ["accounts", "vip"]),
    ("platform.json", lambda data: data.pop("sleep"), ["sleep", "required"]),
]


@pytest.mark.parametrize(("name", "change", "says"), BAD, ids=[f"{number}" for number, _ in enumerate(BAD)])
def test_a_bad_row_is_named(folder: Path, name: str, change: Callable[[dict[str, Any]], object], says: list[str]) -> None:
    """One field spoiled at a time."""
    spoil(folder, name, change)
    with pytest.raises(BadCatalog) as refused:
        load_from(folder)
    assert all(word in str(refused.value) for word in says), str(refused.value)
    assert str(folder) not in str(refused.value)


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b"\xff", b"[" * 100_000])
def test_a_file_that_is_no_table_is_named(folder: Path, body: bytes) -> None:
    """Broken JSON, or JSON of another shape."""
    (folder / "offers.json").write_bytes(body)
    with pytest.raises(BadCatalog, match=r"offers\.json"):
        load_from(folder)


def test_a_missing_file_is_named(folder: Path) -> None:
    """Without its path."""
    (folder / "platform.json").unlink()
    with pytest.raises(BadCatalog, match=r"platform\.json: it cannot be read"):
        load_from(folder)


def test_the_unspoiled_copy_loads(folder: Path) -> None:
    """So that the tests above fail for their own reason."""
    assert load_from(folder) == load_from(DATA)


numbers = st.decimals(min_value=0, max_value=10**7, places=3, allow_nan=False, allow_infinity=False)
prefixes = st.sampled_from([("", 1), ("k", 10**3), ("M", 10**6), ("G", 10**9), ("T", 10**12)])
binary_prefixes = st.sampled_from([("Mi", 2**20), ("Gi", 2**30), ("Ti", 2**40)])


@given(numbers, prefixes | binary_prefixes)
def test_bytes_keep_their_value_through_text(number: Decimal, prefix: tuple[str, int]) -> None:
    """Text → bytes is number × prefix, rounded down to a whole byte."""
    assert parse_bytes(f"{number:f} {prefix[0]}B") == int(number * prefix[1])


@given(st.integers(min_value=0, max_value=10**15))
def test_whole_bytes_are_exact(size: int) -> None:
    """Bytes → text → bytes is the identity."""
    assert parse_bytes(f"{size} B") == size


@given(numbers, prefixes)
def test_rates_keep_their_value_through_text(number: Decimal, prefix: tuple[str, int]) -> None:
    """Bandwidth and compute alike."""
    assert parse_bytes_per_second(f"{number:f} {prefix[0]}B/s") == float(number * prefix[1])
    assert parse_flop_per_second(f"{number:f} {prefix[0]}FLOP/s") == float(number * prefix[1])


@given(st.text(max_size=40))
def test_any_other_text_is_refused(text: str) -> None:
    """Only BadQuantity comes out, or a size that is not negative."""
    try:
        size = parse_bytes(text)
    except BadQuantity:
        size = 0
    assert size >= 0


@given(st.dates())
def test_days_of_the_calendar_are_days(day: Any) -> None:
    """Every date of this century, and its month where months are allowed."""
    text = day.isoformat()
    assert is_day(text, months_too=False) == text.startswith("20")
    assert is_day(text[:7], months_too=True) == text.startswith("20")
    assert not is_day(text[:7], months_too=False)
