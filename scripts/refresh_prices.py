"""Bring the bundled price lists up to date from the Hub, and show the difference before anything is written.

    python -m scripts.refresh_prices            # what the Hub lists differently today
    python -m scripts.refresh_prices --write    # the same, then written to lib/data/

The lists of Spaces (with ZeroGPU) and Jobs are asked for as the app asks for them (`lib.hub.prices`), and judged by the same rules
(`lib.catalog.live_prices`): an incredible price or an incomplete list changes nothing and is reported. Endpoints and Cloud TPU have no list
that can be read without an account. New rows are checked as the app checks them at start; a list that fails leaves the files as they are.
`scripts/build_catalog.py` writes the rows from the facts again and replaces these.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from lib.catalog import Catalog, load_from
from lib.catalog.live_prices import LIVE_LISTS, LiveList, apply_live_prices
from lib.catalog.offers import Offer
from lib.errors import BadCatalog, HubError
from lib.hub.prices import fetch_flavors
from lib.units import GIB
from scripts.build_catalog import DATA, format_rows

GB = 10**9
MACHINE = ("vcpu", "ram_bytes", "disk_bytes", "accelerator", "accelerator_count")
Key = tuple[str, str]


def index_offers(catalog: Catalog) -> dict[Key, Offer]:
    """The offers by platform and id."""
    return {(offer.platform, offer.id): offer for offer in catalog.offers}


def describe_changes(before: Catalog, after: Catalog) -> Iterator[str]:
    """A line for each offer that is new, gone, or has another price or machine, and a line for each confirmed list."""
    old = index_offers(before)
    for key, offer in index_offers(after).items():
        name, known = " ".join(key), old.get(key)
        if known is None:
            yield f"new       {name}: {offer.usd_per_hour} USD per hour"
        elif known.listed and not offer.listed:
            yield f"gone      {name}: last {known.usd_per_hour} USD per hour"
        elif known.usd_per_hour != offer.usd_per_hour:
            yield f"price     {name}: {known.usd_per_hour} → {offer.usd_per_hour} USD per hour"
        figures = () if known is None else MACHINE
        changed = [(each, getattr(known, each), getattr(offer, each)) for each in figures if getattr(known, each) != getattr(offer, each)]
        yield from (f"machine   {name}: {each} {was} → {now}" for each, was, now in changed)
    for platform in LIVE_LISTS:
        state = after.prices[platform]
        if state.basis == "live":
            same = sum(one.checked > old[key].checked for key, one in index_offers(after).items() if key[0] == platform and key in old)
            yield f"confirmed {platform}: {same} rows as of {state.checked[:10]}"
        yield from (f"remark    {platform}: {remark}" for remark in state.remarks)


def write_row(offer: Offer, before: dict[str, Any] | None, platform_source: str) -> dict[str, Any]:
    """The row of an offer as `offers.json` holds it: the old row with today's figures, or a new one."""
    row: dict[str, Any] = dict(before) if before is not None else {
        "id": offer.id, "platform": offer.platform, "name": offer.name, "accelerator": None, "count": 0, "fraction": "1", "host_cpu": None,
        "vcpu": None, "ram": None, "disk": None, "usd_per_hour": None, "last_usd_per_hour": None, "price_verified": True,
        "price_history": [], "status": "listed", "since": None, "successor": None, "rules": sorted(offer.rules), "endpoint": None,
        "tpu": None, "notes": offer.notes, "sources": [], "checked": offer.checked,
    }  # fmt: skip
    row |= {
        "accelerator": offer.accelerator,
        "count": offer.accelerator_count,
        "vcpu": offer.vcpu,
        "ram": None if offer.ram_bytes is None else f"{offer.ram_bytes / GIB:g} GiB",
        "disk": None if offer.disk_bytes is None else f"{offer.disk_bytes / GB:g} GB",
        "usd_per_hour": None if offer.usd_per_hour is None else str(offer.usd_per_hour),
        "last_usd_per_hour": None if offer.last_usd_per_hour is None else str(offer.last_usd_per_hour),
        "price_verified": offer.price_verified,
        "price_history": [{"usd_per_hour": str(past.usd_per_hour), "since": past.since} for past in offer.price_history],
        "status": offer.status,
        "since": offer.since,
        "successor": offer.successor,
        "sources": [platform_source, *(key for key in row["sources"] if key != platform_source)],
        "checked": offer.checked,
    }
    return row


def write_catalog(folder: Path, before: Catalog, after: Catalog, lists: Sequence[LiveList]) -> None:
    """Write `offers.json` and `sources.json`, once the folder with both is read without an objection.

    Raises:
        BadCatalog: a row is not one; nothing was written.
    """
    offers = json.loads((folder / "offers.json").read_text(encoding="utf-8"))
    sources = json.loads((folder / "sources.json").read_text(encoding="utf-8"))
    rows: dict[Key, dict[str, Any]] = {(row["platform"], row["id"]): row for row in offers["offers"]}
    old = index_offers(before)
    for live in lists:
        key = f"live-{live.platform}"
        sources["sources"][key] = {"what": live.source.what, "source": live.source.source, "checked": live.day}
        sources["as_of"] = max(sources["as_of"], live.day)
        for place, offer in index_offers(after).items():
            if live.source in offer.sources and offer is not old.get(place):
                rows[place] = write_row(offer, rows.get(place), key)
    offers["offers"] = list(rows.values())
    with tempfile.TemporaryDirectory() as trial:
        for name in ("accelerators.json", "tpu_generations.json", "platform.json", "unpriced_hardware.json"):
            shutil.copy(folder / name, trial)
        for name, content in (("offers.json", offers), ("sources.json", sources)):
            (Path(trial) / name).write_text(format_rows(content), encoding="utf-8")
        load_from(Path(trial))
        for name in ("offers.json", "sources.json"):
            shutil.copy(Path(trial) / name, folder / name)


def main(arguments: Sequence[str] | None = None) -> int:
    """Fetch, compare, write. The exit status is 1 where a list could not be had or is refused."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write the difference to lib/data/")
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the bundled lists")
    parser.add_argument("--endpoint", help="address of the Hub; by default HF_ENDPOINT or huggingface.co")
    asked = parser.parse_args(arguments)
    before, lists, failed = load_from(asked.data), [], False
    for platform in LIVE_LISTS:
        try:
            lists.append(fetch_flavors(platform, asked.endpoint))
        except HubError as error:
            failed = True
            print(error, file=sys.stderr)
    after = apply_live_prices(before, *lists)
    for line in describe_changes(before, after):
        print(line)
    taken = [live for live in lists if after.prices[live.platform].basis == "live"]
    if not asked.write or not taken:
        return int(failed or not taken)
    try:
        write_catalog(asked.data, before, after, taken)
    except BadCatalog as error:
        print(f"Nothing was written. {error}", file=sys.stderr)
        return 1
    print(f"written   {asked.data / 'offers.json'} and sources.json")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
