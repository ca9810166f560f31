"""Resolve a folder of model records and write the bundled models: `lib/data/models.jsonl` and `lib/data/model_configs.jsonl.gz`.

    python scripts/build_models.py FOLDER          a record a file: {"hub_id": …, "kind": …, "config": …, "source": …}
    python scripts/build_models.py                 the bundled configurations again, with the installed transformers
    python scripts/build_models.py --only NAME     of those, the ones whose id contains NAME; the others stay as they are

`kind` is "transformers" (config: a config.json) or "diffusers-pipeline" (config: component name → its config.json). Optional keys:
`hf_quant_config`, `license`, `gated`, `task`. A record that cannot be resolved is named and left out. Needs diffusers for pipelines.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from lib.errors import AdvisorError  # noqa: E402 the repository is not installed
from lib.model import bundled  # noqa: E402
from lib.model.diffusion import resolve_pipeline  # noqa: E402
from lib.model.resolve import resolve_config  # noqa: E402
from lib.model.spec import ModelSpec, Origin  # noqa: E402
from lib.provenance import Caveat, Source  # noqa: E402

DATA = ROOT / "lib" / "data"
PIPELINE = "diffusers-pipeline"
_KEYS = ("hub_id", "kind", "config", "hf_quant_config", "license", "gated", "task", "source")

# Tasks that the Hub's cards name and the model's class does not tell: embedding models published as causal language models.
_TASKS = {
    "Alibaba-NLP/gte-Qwen2-7B-instruct": "sentence-similarity",
    "Qwen/Qwen3-Embedding-0.6B": "feature-extraction",
    "Qwen/Qwen3-Embedding-8B": "feature-extraction",
}


# Longest contexts of models whose sizes were taken from the configuration of another one: `max_position_embeddings` of their own
# config.json on the Hub (as stated by the maintainers on 2026-11-23). The other model's limit is not theirs.
_LIMITS = {
    **dict.fromkeys(("meta-llama/Llama-2-13b-hf", "meta-llama/Llama-2-13b-chat-hf", "lmsys/vicuna-13b-v1.5"), 4096),
    **dict.fromkeys(("meta-llama/Llama-2-70b-hf", "meta-llama/Llama-2-70b-chat-hf"), 4096),
    **dict.fromkeys((f"Qwen/Qwen2.5-{size}-Instruct" for size in ("1.5B", "14B", "32B", "72B")), 32_768),
    "Qwen/Qwen2.5-7B": 131_072,
}


# Modules that stay in 16 bits, where a record's own list is shortened. Meta left attention, and the first and last block, unquantized ("The
# Llama 3 Herd of Models", section 6.2). A start log of eight cards counts 57.75 GiB of weights each (vllm-project/vllm issue 6746): this
# list gives 57.7 with the 16 key/value heads of that day's release, the shortened one 48.4.
_SKIPPED = {
    "meta-llama/Llama-3.1-405B-Instruct-FP8": [
        *(f"model.layers.{layer}.mlp.{name}_proj" for layer in (0, 125) for name in ("down", "gate", "up")),
        *(f"model.layers.{layer}.self_attn.{name}_proj" for layer in range(126) for name in "kovq"),
    ]
}

_SIBLING = re.compile(r"(?:configuration of|same sizes as) ([\w.-]+/[\w.-]+)")
"""How a record names the model whose configuration its own sizes were put into."""


def warn_of_sibling(spec: ModelSpec, how: str) -> tuple[Caveat, ...]:
    """The caveat of a model whose configuration is another one's with its own sizes: what the sizes do not show may differ."""
    named = _SIBLING.search(how)
    return () if named is None or named[1] == spec.id else (Caveat("sibling_config", {"sibling": named[1]}),)


def records(folder: Path | None) -> Iterator[dict[str, Any]]:
    """Records of a folder, or those bundled, in the order of their ids."""
    if folder is not None:
        records = [json.loads(path.read_text(encoding="utf-8")) for path in folder.glob("*.json")]
    else:
        packed = gzip.decompress((DATA / bundled.CONFIGS).read_bytes()).decode()
        records = [json.loads(line) for line in packed.split("\n") if line]
    for record in sorted(records, key=lambda record: str(record["hub_id"]).lower()):
        config = record["config"]
        if (limit := _LIMITS.get(record["hub_id"])) is not None:
            config = config | {"max_position_embeddings": limit}
        if (skipped := _SKIPPED.get(record["hub_id"])) is not None:
            config = config | {"quantization_config": config["quantization_config"] | {"modules_to_not_convert": skipped}}
        yield record | {"config": config}


def _origin(record: Mapping[str, Any], checked: str) -> Source:
    """Source of the configuration."""
    origin = record.get("source") or {}
    place = f"{origin['repo']}@{origin.get('commit') or '?'} {origin.get('path') or ''}".strip() if origin.get("repo") else "put together"
    return Source(what="configuration", source=f"{place} ({origin.get('how') or 'as published'})", checked=checked)


def resolve(record: Mapping[str, Any], checked: str) -> ModelSpec:
    """One record as a spec of the catalog."""
    origin = Origin(
        id=record["hub_id"],
        source="catalog",
        task=record.get("task") or _TASKS.get(record["hub_id"], ""),
        license=record.get("license"),
        gated=record.get("gated"),
        checked=checked,
    )
    if record["kind"] == PIPELINE:
        spec = resolve_pipeline(record["config"], origin, limit_s=None)
    else:
        spec = resolve_config(record["config"], origin, record.get("hf_quant_config"))
    read = _origin(record, checked)
    return replace(spec, sources=(read, *spec.sources), caveats=(*spec.caveats, *warn_of_sibling(spec, read.source)))


def _bundled_spec(record: Mapping[str, Any], only: str | None) -> ModelSpec | None:
    """The bundled spec of a record that is not asked for again."""
    return bundled.find_spec(record["hub_id"]) if only is not None and only.lower() not in record["hub_id"].lower() else None


def main() -> int:
    """Write both files; 1 when nothing could be resolved."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", help="records to read; without it, the bundled ones again")
    parser.add_argument("--only", metavar="NAME", help="resolve only ids that contain this; the others are copied")
    arguments = parser.parse_args()
    check_date = datetime.now(UTC).date().isoformat()
    lines, configs = [], []
    for record in records(arguments.folder):
        try:
            spec = _bundled_spec(record, arguments.only) or resolve(record, check_date)
        except AdvisorError as error:
            print(f"left out {record['hub_id']}: {error}", file=sys.stderr)
            continue
        lines.append(json.dumps(bundled.to_json(spec), separators=(",", ":"), ensure_ascii=False))
        configs.append(json.dumps({k: record[k] for k in _KEYS if record.get(k) is not None}, separators=(",", ":"), ensure_ascii=False))
    if not lines:
        print("No record could be resolved; nothing was written.", file=sys.stderr)
        return 1
    (DATA / bundled.SPECS).write_text("\n".join(lines) + "\n", encoding="utf-8")
    (DATA / bundled.CONFIGS).write_bytes(gzip.compress(("\n".join(configs) + "\n").encode(), mtime=0))
    counts = {bundled.SPECS: len(lines), bundled.CONFIGS: len(configs)}
    (DATA / bundled.COUNTS).write_text(json.dumps(counts) + "\n", encoding="utf-8")
    print(f"{len(lines)} models", file=sys.stderr)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
