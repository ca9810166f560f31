"""Published runs of a mixture of experts with experts in the host's memory: `offload_points.json` of a facts folder, as cases of the law.

Left out, with the reason that `read` counts: engines of other design (ktransformers), runs that something else limited (memory paged from
disk, spilled card memory), drafters, rates over whole requests, cards that are not in the catalog, and splits that the source does not
state. A fork's prompts are left out where it computes the experts on the processor, which llama.cpp does not do.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lib.catalog import load
from lib.catalog.host_memory import read_host_memory
from lib.errors import InvalidInput
from lib.laws.expert_split import layers_in_host
from lib.memory.resolve import count_expert_layers
from lib.model.bundled import find_spec
from lib.precision import NAMES

CATALOG = load()
QWEN = "Qwen/Qwen3.6-35B-A3B"
MODELS = {
    "Qwen3.6-35B-A3B (tuned copy)": QWEN, "Qwopus3.6-35B-A3B": QWEN, "gemma-4-26B-A4B-it (QAT)": "google/gemma-4-26B-A4B-it",
}  # fmt: skip
"""Copies with other weights and the same shapes."""
CARDS = {"RTX-4090-48GB": "RTX-4090", "RTX-PRO-6000-Blackwell": "RTX-PRO-6000-Blackwell-Workstation", "RX-7900-XT": "RX-7900XT"}
UNNAMED = {"DeepSeek-V4-Flash": "RTX-5090", "gpt-oss-120b": "RTX-4090"}
"""The card that is assumed where a source names the host only. The host decides these times; they are reported apart."""
HOSTS = {
    "7965WX": "DDR5-4800 8 channels", "Xeon 8480": "DDR5-4800 8 channels", "W5-3425": "DDR5-4800 8 channels",
    "5975WX": "DDR4-3200 8 channels", "EPYC 9355": "DDR5-6000 12 channels", "EPYC 56c": "DDR4-3200 8 channels",
    "Ryzen 5 5600": "DDR4-3200", "Ryzen 7 5800X": "DDR4-3200", "Ryzen 9 5900X": "DDR4-3200", "i7-7700K": "DDR4-2400",
    "i9-14900K": "DDR5-5600", "Ryzen 9 7950X": "DDR5-5200",
}  # fmt: skip
"""Memory by processor. The runs state it for the 7965WX, the Xeons and the channels of the 5975WX and the EPYC 9355.

For the others it is the fastest memory of the processor's specification: read for Ryzen 5000 (arvutitark.ee, Ryzen 5 5600, 2026-11-26), not
read anew for the rest. The fit takes these rates as known, so an error in them is an error of the fit."""
SPLITS = (
    (r"^gate experts of layers 20-60 on GPU", 58 - 41 / 3), (r"up and gate experts of layers 0-9 on GPU", 48 - 20 / 3),
    (r"up and gate experts of layers 0-1 on GPU", 24 - 2 / 3), (r"layers 3-12 on GPU 0 and 13-22", 38.0),
    (r"ffn of 8 layers on each of two GPUs", 42.0), (r"ffn of layers 3-9 on GPU", 51.0), (r"ffn of layers 0-15 on GPU", 78.0),
    (r"experts of 18 layers on CPU", 18.0),
)  # fmt: skip
"""Layers whose experts are in the host's memory, by the source's words; a third for each of the three matrices of an expert."""
ALL = re.compile(r"exps=CPU|--cpu-moe|-cmoe: all|all experts (?:on CPU|in host memory)")
LIKE = {
    "mxfp4": "MXFP4_MOE", "F16 GGUF (mxfp4 experts)": "MXFP4_MOE", "UD-Q4_K_XL (MXFP4 experts)": "MXFP4_MOE", "Q8_K_XL": "MXFP4_MOE",
    "UD-Q4_K_XL": "Q4_K_M", "UD-Q3_K_M": "Q3_K_M", "UD-IQ4_XS": "IQ4_XS", "UD-Q2_K_XL": "Q2_K", "UD-IQ3_XXS": "Q3_K_S",
    "IQ4_K_R4": "Q4_K_S", "mix-IQ3_K": "Q3_K_M", "IQ3_KT": "Q3_K_S", "IQ2_K_R4": "Q2_K", "Q2_K_R4": "Q2_K", "IQ2_XS_R4": "Q2_K",
    "about 40 GiB (like UD-Q2_K_XL)": "Q2_K", "Q4.5 (unsloth dynamic)": "Q4_K_M",
    "not printed in the post (author: ubergarm IQ-quants)": "Q3_K_S",
}  # fmt: skip
"""The file type whose mix is nearest; the stated size of the file corrects it."""
FILE_GIB = {"IQ2_K_R4": 219.0, "about 40 GiB (like UD-Q2_K_XL)": 40.0}
"""Sizes of files that the row does not repeat: DeepSeek-R1-0528-IQ2_K_R4 (ubergarm, 219 GiB), Scout as the row's words say."""


def _card(row: Mapping[str, Any]) -> str | None:
    name = CARDS.get(row["accelerator"], row["accelerator"])
    if "not" in name.split():
        return UNNAMED.get(row["model"]) if row.get("host_ram") else None
    try:
        return CATALOG.resolve_hardware(name).id
    except InvalidInput:
        return None


def _in_host(row: Mapping[str, Any], layers: int, expert_layers: int) -> float | None:
    text = row.get("settings") or ""
    stated = re.search(r"--n-cpu-moe (\d+)", text)
    asked = row.get("n_cpu_moe") if stated is None else int(stated[1])
    if asked is not None:
        return float(layers_in_host(layers=layers, expert_layers=expert_layers, cpu_moe_layers=min(layers, asked)))
    for pattern, moved in SPLITS:
        if re.search(pattern, text):
            return moved
    return float(expert_layers) if ALL.search(text) else None


def _refusal(row: Mapping[str, Any]) -> str:
    spills = row.get("vram_spill") is True or (row.get("suspect_vram_spill") and row.get("n_cpu_moe") != 48)  # noqa: PLR2004 "all but 48"
    copies = "copied over PCIe" in (row.get("settings") or "")
    possible = (
        ("llama" not in row["engine"], "another engine"),
        (bool(row.get("paged_from_disk")), "paged from disk"),
        (spills, "card memory spilled"),
        (bool(row.get("speculative")), "a drafter"),
        (row["metric"].startswith("e2e"), "rate over whole requests"),
        ("all layers on GPU" in (row.get("settings") or ""), "no experts in host memory"),
        (row["engine"] == "ik_llama.cpp" and row["metric"].startswith("prefill") and not copies, "a fork's prompt on the processor"),
        (row["metric"].startswith("prefill") and row["n_devices"] > 1, "a prompt on two buses"),
        (not find_spec(MODELS.get(row["model"], row.get("model_hf_id") or "")), "model not bundled"),
        (_card(row) is None, "card not named or not in the catalog"),
        (_precision(row) is None, "file type not stated"),
    )
    return next((why for holds, why in possible if holds), "")


def _precision(row: Mapping[str, Any]) -> str | None:
    quant = row.get("quant") or ""
    name = f"gguf:{LIKE.get(quant, quant)}"
    return name if name in NAMES else None


def _host(row: Mapping[str, Any]) -> tuple[str, float] | None:
    """The host's memory and its bandwidth in GB/s; None if the run does not name its processor."""
    stated = re.search(r"([\d.]+) GB/s theoretical", row.get("host_ram") or "")
    if stated:
        return f"{row['host_ram']}", float(stated[1])
    text = next((memory for name, memory in HOSTS.items() if name in (row.get("host_cpu") or "")), None)
    host = read_host_memory("host", text) if text else None
    return None if host is None else (f"{row['host_cpu']}: {host.name}", host.bandwidth / 1e9)


def _micro_batch(row: Mapping[str, Any]) -> int:
    stated = re.search(r"-ub (\d+)", row.get("settings") or "")
    return int(row.get("ubatch") or (stated[1] if stated else 512))


def _read_rows(facts: Path) -> list[dict[str, Any]]:
    """The rows with experts in host memory; a file's size that another row of the same source states holds for all of its rows."""
    points = json.loads((facts / "offload_points.json").read_text(encoding="utf-8"))["points"]
    rows = [row for row in points if row["kind"] == "hybrid_moe"]
    sizes = {_file(row): row["weights_gib"] for row in rows if "weights_gib" in row}
    return [{"weights_gib": sizes[_file(row)], **row} if _file(row) in sizes else row for row in rows]


def _file(row: Mapping[str, Any]) -> tuple[object, ...]:
    return row["source_path"], row["model"], row.get("quant")


def _source(row: Mapping[str, Any]) -> str:
    """The place of publication; files of which only the text is known keep a number."""
    return str(row["source_path"]).replace("file index", "public file")


def _file_gib(row: Mapping[str, Any]) -> float | None:
    """The size of the file in GiB; the guide that writes GB means GiB (its 19.7 are the 19.70 GiB of the file type)."""
    size = row.get("weights_gib") or FILE_GIB.get(row.get("quant") or "") or row.get("weights_gb")
    return None if size is None else round(float(size), 3)


def read(facts: Path) -> tuple[list[dict[str, Any]], Counter[str]]:
    """The runs as cases of the law, and how many are left out by reason."""
    cases, refused = [], Counter[str]()
    for row in _read_rows(facts):
        if why := _refusal(row):
            refused[why] += 1
            continue
        model = MODELS.get(row["model"], row["model_hf_id"])
        spec = find_spec(model)
        assert spec is not None  # noqa: S101 refused above
        moved = _in_host(row, spec.dimensions.layers, count_expert_layers(spec))
        if moved is None:
            refused["split not stated"] += 1
            continue
        host = _host(row)
        cases.append(
            {
                "id": row["id"], "model": model, "published_as": row["model"], "card": _card(row), "devices": row["n_devices"],
                "card_assumed": row["accelerator"] != _card(row) and row["accelerator"] not in CARDS,
                "precision": _precision(row), "quant": row.get("quant"), "file_gib": _file_gib(row), "in_host": round(moved, 4),
                "fork": row["engine"].startswith("ik"), "host": host and host[0], "bandwidth_gb_s": host and host[1],
                "micro_batch": _micro_batch(row), "metric": "decode" if row["metric"].startswith("decode") else "prompt",
                "prompt_tokens": row.get("prompt_tokens") or 512, "cached_tokens": row.get("n_kv") or 0,
                "output_tokens": row.get("output_tokens") or 128, "tokens_per_s": row["value"], "source": _source(row), "date": row["date"],
            }
        )  # fmt: skip
    return cases, refused


MEBIBYTE, GIBIBYTE = 2**20, 2**30
STATED = (
    (r"full context, about 8 GB of VRAM", {"card": 8e9, "context_tokens": 131_072}),
    (r"GPU 1 about 22.8 GB, host about 42 GB", {"card": 22.8e9, "host": 42e9, "context_tokens": 38_000}),
)
"""Memory that a row states in words: of the fullest card, and of the host."""
_KV = {"q8_0": "int8", "q4_0": "int4"}


def _stated_memory(row: Mapping[str, Any]) -> dict[str, Any]:
    """Bytes on the fullest card and on the host as the row states them; of weights alone where it is a log of buffers."""
    text = row.get("settings") or ""
    if "gpu_weights_mib" in row:
        host = row["cpu_weights_mib"] * MEBIBYTE if "cpu_weights_mib" in row else None
        return {"card": row["gpu_weights_mib"] * MEBIBYTE, "host": host, "weights_only": True}
    if "vram_used_mib" in row:
        return {"card": row["vram_used_mib"] * MEBIBYTE}
    if "vram_used_gb" in row:
        return {"card": row["vram_used_gb"] * GIBIBYTE}
    if "host_ram_used_gib" in row:
        return {"host": row["host_ram_used_gib"] * GIBIBYTE}
    return next((dict(found) for pattern, found in STATED if re.search(pattern, text)), {})


def read_memory(facts: Path) -> list[dict[str, Any]]:
    """The runs that state memory of card or host, each setting once; not those whose card memory spilled, and no other engine."""
    cases: dict[str, dict[str, Any]] = {}
    for row in _read_rows(facts):
        text, model = row.get("settings") or "", MODELS.get(row.get("model", ""), row.get("model_hf_id"))
        stated = _stated_memory(row) if "llama" in row["engine"] and row.get("vram_spill") is not True else {}
        spec = find_spec(model) if stated and model else None
        if spec is None:
            continue
        layers, expert_layers = spec.dimensions.layers, count_expert_layers(spec)
        moved = _in_host(row, layers, expert_layers)
        context, cache = re.search(r"-c (\d+)", text), next((name for word, name in _KV.items() if word in text), "auto")
        if moved is None or _precision(row) is None:
            continue
        case = {
            "model": model, "published_as": row["model"], "devices": row["n_devices"], "precision": _precision(row),
            "quant": row.get("quant"), "file_gib": _file_gib(row), "cpu_moe_layers": round(moved) + layers - expert_layers,
            "context_tokens": stated.pop("context_tokens", None) or int(context[1] if context else 4096), "kv_precision": cache,
            "card_bytes": None, "host_bytes": None, "weights_only": stated.pop("weights_only", False), "source": _source(row),
        }  # fmt: skip
        case |= {f"{name}_bytes": None if size is None else round(size) for name, size in stated.items()}
        cases.setdefault(json.dumps(case), case)
    return list(cases.values())
