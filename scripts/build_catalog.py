"""Write the hardware catalog's rows (`lib/data/`) from the researched facts.

    python scripts/build_catalog.py FACTS_FOLDER

reads `hardware.json` and `accelerators.json` from the folder and writes `sources.json`, `accelerators.json`, `tpu_generations.json`,
`offers.json` and `platform.json` into `lib/data/`. Running it twice writes the same bytes. Decisions that are made here and not in the
facts:

- Memory figures on the box say GB and mean GiB in effect (an "80 GB" A100 reports 81920 MiB), except where a figure is decimal.
  RAM of Spaces and Jobs is GiB too (a "15 GB" Space reports `15Gi`); RAM of other hosts and all disks stay GB, the smaller reading.
- Each row's first source is the one its price comes from, and `checked` is the day of the state of that source. A source that
  carries no full date counts as checked on the day the facts were gathered.
- Cards that people own and the facts do not hold are rows of `scripts/catalog_cards.py`.
- An offer of Inference Endpoints is named vendor-type-size; the platform's own ids, which include a region, are aliases.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from scripts.catalog_cards import SOURCES, own_cards
from scripts.catalog_offers import ALIASES, as_list, endpoint, flavor, generation, text, tpu_slices, zerogpu
from scripts.catalog_rules import RULE_SOURCES, rules

DATA = Path(__file__).resolve().parent.parent / "lib" / "data"
DECIMAL_MEMORY = {"Inferentia2"}  # 34.4 GB = 32 GiB
TPU_BLOG = {
    "what": "TPU v5e on Spaces and Inference Endpoints: sizes and first prices",
    "ref": "github:huggingface/blog tpu-inference-endpoints-spaces.md @21c4d86",
    "date": "2024-07",
}
CPU_REPORT = {"what": "community report of a 4-thread virtual server; the host is unknown", "ref": "public forum report", "date": "undated"}


def source_row(fact: dict[str, Any], as_of: str) -> dict[str, str]:
    """Subject, address, and the day of the state that was read."""
    date = str(fact.get("date", ""))
    where = str(fact.get("ref") or fact.get("kind"))
    full = re.match(r"\d{4}-\d{2}-\d{2}", date)
    if not full and date and "undated" not in where and date != "undated":
        where = f"{where} ({date})"
    return {"what": str(fact["what"]), "source": where.replace("stored copy, ", ""), "checked": full[0] if full else as_of}


def sources(hardware: dict[str, Any], silicon: dict[str, Any]) -> dict[str, dict[str, str]]:
    """Both files' sources in one table; a key that both use for different things gets `-silicon` on the second."""
    rows = {key: source_row(fact, hardware["as_of"]) for key, fact in hardware["sources"].items() if not key.startswith("seed-")}
    rows["hf-blog-tpu"] = source_row(TPU_BLOG, hardware["as_of"])
    rows["cpu-report"] = source_row(CPU_REPORT, hardware["as_of"])
    for key, fact in silicon["sources"].items():
        rows[f"{key}-silicon" if key in rows else key] = source_row(fact, silicon["as_of"])
    return rows


def link(fact: dict[str, Any] | None) -> dict[str, Any] | None:
    """The interconnect of a card."""
    if fact is None:
        return None
    row: dict[str, Any] = {"kind": fact["kind"], "one_direction": text(fact.get("gb_per_s_one_direction"), "GB/s")}
    if "gb_per_s_one_direction_per_link" in fact:
        row["both_directions"] = text(fact["gb_per_s_bidirectional_per_chip"], "GB/s")
    if "host" in fact:
        row["to_host"] = link(fact["host"])
    return row


def accelerator(key: str, fact: dict[str, Any], exact: dict[str, int], source_keys: set[str], table: dict[str, Any]) -> dict[str, Any]:
    """One card or chip. `exact` holds usable bytes where a program reported them to the byte."""
    unit = "GB" if key in DECIMAL_MEMORY else "GiB"
    usable = text(exact[key], "B") if key in exact else text(fact["memory_usable_gib"], "GiB")
    keys = [f"{name}-silicon" if name in source_keys else name for name in as_list(fact["source"])] or ["cpu-report"]
    peaks = {dtype.removesuffix("_tops"): text(rate, "TFLOP/s") for dtype, rate in fact["peak_dense_tflops"].items()}
    return {
        "id": key,
        "name": fact["name"],
        "vendor": fact["vendor"],
        "architecture": fact["architecture"],
        "memory_advertised": text(fact["memory_advertised_gb"], unit),
        "memory_usable": usable,
        "bandwidth": text(fact["memory_bandwidth_tb_per_s"] * 1000, "GB/s"),
        "bandwidth_is_peak": "memory_bandwidth_is" not in fact,
        "peaks": peaks,
        "native_dtypes": fact["native_dtypes"],
        "compute_capability": None if fact["compute_capability"] is None else str(fact["compute_capability"]),
        "interconnect": link(fact["interconnect"]),
        "sm_count": fact.get("sm_count"),
        "l2": text(fact.get("l2_mb"), "MiB"),
        "tdp_w": fact["tdp_w"],
        "vcpu": fact.get("vcpu"),
        "notes": fact.get("notes", ""),
        "sources": keys,
        "checked": max(table[name]["checked"] for name in keys),
    }


def format_rows(content: dict[str, Any]) -> str:
    """The text of a file of rows: one row per line, so that a changed figure is a changed line."""
    lines = []
    for key, value in content.items():
        if isinstance(value, list):
            body = ",\n".join(f"  {json.dumps(row, ensure_ascii=False)}" for row in value)
            lines.append(f' "{key}": [\n{body}\n ]')
        elif isinstance(value, dict):
            body = ",\n".join(f"  {json.dumps(k)}: {json.dumps(row, ensure_ascii=False)}" for k, row in value.items())
            lines.append(f' "{key}": {{\n{body}\n }}')
        else:
            lines.append(f' "{key}": {json.dumps(value)}')
    return "{\n" + ",\n".join(lines) + "\n}\n"


def write(name: str, content: dict[str, Any]) -> None:
    """Write one file of the bundled rows."""
    (DATA / name).write_text(format_rows(content), encoding="utf-8")


def main() -> None:
    """Read the facts, write the rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("facts", type=Path, help="folder with hardware.json and accelerators.json")
    folder = parser.parse_args().facts
    hardware = json.loads((folder / "hardware.json").read_text(encoding="utf-8"), parse_float=Decimal)
    silicon = json.loads((folder / "accelerators.json").read_text(encoding="utf-8"), parse_float=Decimal)
    table = sources(hardware, silicon)
    reported = {row["model"]: row["memory_bytes"] for row in hardware["zerogpu"]["device_table"]}
    exact = {
        "H200-MIG-3g.71gb": reported["NVIDIA H200"],
        "RTX-PRO-6000-Blackwell-Server": reported["NVIDIA RTX PRO 6000 Blackwell Server Edition"],
    }
    source_keys = set(hardware["sources"])
    cards = [accelerator(key, fact, exact, source_keys, table) for key, fact in silicon["accelerators"].items()]
    ids = {card["id"] for card in cards}
    cards += [card for card in own_cards() if card["id"] not in ids]
    table |= SOURCES | RULE_SOURCES
    offers = [flavor(fact, "spaces") for fact in hardware["spaces"] if fact["kind"] != "zerogpu"]
    offers += [row for fact in hardware["spaces"] if fact["kind"] == "zerogpu" for row in zerogpu(fact, hardware["zerogpu"])]
    offers += [endpoint(fact) for fact in hardware["inference_endpoints"]]
    offers += [flavor(fact, "jobs") for fact in hardware["jobs"]]
    offers += [row for fact in hardware["cloud_tpu"] for row in tpu_slices(fact)]
    for row in offers:
        row["checked"] = table[row["sources"][0]]["checked"]
    groups = rules(hardware, table)
    cited_keys = {key for row in [*cards, *offers, *groups.values()] for key in row["sources"]}
    as_of = max(hardware["as_of"], *(row["checked"] for key, row in table.items() if key in cited_keys))
    write("sources.json", {"as_of": as_of, "sources": {key: row for key, row in table.items() if key in cited_keys}})
    write("accelerators.json", {"accelerators": cards})
    write("tpu_generations.json", {"tpu_generations": [generation(fact) for fact in hardware["cloud_tpu"]]})
    write("offers.json", {"offers": offers, "aliases": ALIASES})
    write("platform.json", groups)
    print(f"{len(cards)} accelerators, {len(offers)} offers, {len(cited_keys)} sources")


if __name__ == "__main__":
    main()
