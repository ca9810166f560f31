"""The public contract: names of endpoints, arguments with their order and defaults, fields of the answers.

`contract.json` records it; `python -m tests.support.contract --write` writes the record from the code. `tests/test_contract.py` prints each
promise that the code breaks. Arguments may be added behind and fields anywhere; nothing is renamed, moved or dropped.
"""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parent))  # as pytest does, where this file is run as a command

from llama import llama_config

REQUIRED = object()
RECORD = Path(__file__).with_suffix(".json")
ENGINES = ["transformers", "vllm", "sglang", "tensorrt-llm", "tgi", "tei", "llama.cpp", "vllm-tpu"]


def list_fields(schema: Mapping[str, Any], definitions: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """The fields that every value of a JSON schema has, as paths: those of objects and of the items of lists below them too."""
    kinds = [kind for kind in schema.get("anyOf", []) if kind.get("type") != "null"]
    if "$ref" in schema:
        yield from list_fields(definitions[schema["$ref"].rpartition("/")[2]], definitions, path)
    elif "items" in schema or len(kinds) == 1:
        yield from list_fields(schema.get("items") or kinds[0], definitions, path)
    for name in schema.get("required", []):
        yield f"{path}{name}"
        yield from list_fields(schema["properties"][name], definitions, f"{path}{name}.")


def describe_contract() -> dict[str, Any]:
    """The contract as the code has it: arguments of each endpoint, the first `required` without a default, and fields of its answer."""
    from lib.service.app import services  # noqa: PLC0415  the tests that read the record need none of it
    from lib.ui.http.api import output_schema  # noqa: PLC0415

    contract = {}
    for name, endpoint in services().endpoints().items():
        schema = output_schema(endpoint.question)
        arguments = endpoint.question.arguments.list_fields().values()
        contract[name] = {
            "arguments": {argument.name: None if argument.required else argument.default for argument in arguments},
            "required": sum(argument.required for argument in arguments),
            "answer": [*list_fields(schema, schema.get("$defs", {}))],
        }
    return contract


CONTRACT: dict[str, Any] = json.loads(RECORD.read_text(encoding="utf-8"))
ARGUMENTS: dict[str, dict[str, Any]] = {
    name: {
        argument: REQUIRED if place < recorded["required"] else default
        for place, (argument, default) in enumerate(recorded["arguments"].items())
    }
    for name, recorded in CONTRACT.items()
}

TINY_CONFIG = json.dumps(llama_config())
TINY_PARAMETERS = 202_048
TINY_CACHE_BYTES_PER_TOKEN = 256
# Answered without a token and without a Hub; the account actions have tests of their own (tests/app/test_spaces.py).
EXAMPLE: dict[str, dict[str, Any]] = {
    "resolve_model": {"model": TINY_CONFIG},
    "estimate_memory": {"model": TINY_CONFIG, "context_tokens": 100, "batch_size": 3},
    "tensors": {"model": TINY_CONFIG, "precision": "bnb-nf4"},
    "dry_run": {"model": TINY_CONFIG, "prompt_tokens": 64},
    "recommend": {"model": TINY_CONFIG},
    "list_hardware": {},
    "estimate_speed": {"model": TINY_CONFIG, "hardware": "l4x1"},
    "estimate_cost": {"hardware": "l4x1"},
    "compare": {
        "model": TINY_CONFIG,
        "before": {"hardware": "l4x1"},
        "after": {"hardware": "t4-small", "engine": "vllm", "precision": "fp16", "concurrency": 8},
    },
    "ways_to_save": {"hardware": "l4x1", "model": TINY_CONFIG, "requests_per_day": 1000},
    "compare_gpu_tpu": {"model": TINY_CONFIG, "framework": "jax", "torchtpu_claim": True},
    "estimate_training": {"model": TINY_CONFIG, "rank": 4, "method": "qlora"},
    "simulate_batching": {"model": TINY_CONFIG, "hardware": "l4x1", "duration_s": 30, "max_ttft_s": 0.5, "capacity": True},
    "solve": {"model": TINY_CONFIG, "hardware": "l4x1", "max_ttft_s": 2},
    "diagnose_latency": {"model": TINY_CONFIG, "hardware": "l4x1", "ttft_ms": 40, "tpot_ms": 9},
    "write_files": {"model": "Qwen/Qwen3-8B", "hardware": "l4x1"},
    "what_runs": {"hardware": "RTX-4090", "query": "qwen2.5", "limit": 3},
    "estimate_batch": {"model": TINY_CONFIG, "items": 1000},
    "explain": {"text": "CUDA out of memory. Tried to allocate 2.00 GiB."},
}


def find_entries(answer: Any, path: str) -> list[Any]:
    """The values at a path in an answer, those of every item of a list."""
    entries = [answer]
    for name in path.split(".") if path else ():
        entries = [entry[name] for entry in entries]
        entries = [item for entry in entries for item in (entry if isinstance(entry, list) else [entry]) if isinstance(item, dict)]
    return entries


def check_fields(endpoint: str, answer: Any) -> None:
    """The answer has the fields that the contract names, in it and in its entries; null and an empty list have none to check."""
    assert answer["schema"] == 1
    for field in CONTRACT[endpoint]["answer"]:
        parent, _, name = field.rpartition(".")
        assert all(name in entry for entry in find_entries(answer, parent)), field


def broken_promises(recorded: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What the record promises and the code no longer keeps, a line each."""
    lines = [f"{name}: the endpoint is gone" for name in recorded.keys() - now.keys()]
    for name in recorded.keys() & now.keys():
        promised, found = recorded[name], now[name]
        pairs = itertools.zip_longest(promised["arguments"].items(), found["arguments"].items())
        lines += [f"{name}: argument {old} became {new}" for old, new in pairs if old not in (None, new)]
        if promised["required"] != found["required"]:
            lines.append(f"{name}: {promised['required']} arguments without a default became {found['required']}")
        lines += [f"{name}: field {field} is gone" for field in promised["answer"] if field not in found["answer"]]
    return lines


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit("usage: python -m tests.support.contract --write")
    RECORD.write_text(json.dumps(describe_contract(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
