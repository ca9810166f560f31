"""Reads figures that a program prints as `name=value unit`, `name: value unit`, `"name": value` or "name takes value unit".

They are added to the numbers of the rows in recognised texts. A name is read only if each of its words is in `_WORDS`, so no other word of
a text gets into an answer; a value is a number.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from itertools import islice

from lib.units import GIB, KIB, MIB

MOST = 24
"""Most figures that are read from a text."""
_CANDIDATES = 1_000
"""Most places that are checked."""
_BEFORE = 48
"""Characters before a value that are searched for its name."""
_SAME, _LARGE = 0.01, 1_000
"""Tolerance for the same figure in several lines, rounded differently, and the value from which it applies."""
_WORDS = frozenset((
    "accepted", "activation", "activations", "active", "allocated", "allowed", "attention", "avail", "available", "average", "avg",
    "batch", "batched", "batches", "beams", "blocks", "budget", "buffer", "buffers", "cache", "cached", "capability", "capacity",
    "card", "cards", "chunk", "chunked", "completion", "compute", "concurrency", "concurrent", "context", "count", "cpu", "ctx",
    "cuda", "current", "decode", "default", "desired", "devices", "dimension", "disk", "draft", "duration", "elapsed", "estimated",
    "eval", "experts", "extra", "file", "forward", "fraction", "frames", "free", "full", "gen", "generated", "generation",
    "gpu", "gpus", "graph", "graphs", "growth", "hbm", "head", "heads", "height", "hidden", "hit", "host", "images", "inference",
    "initial", "input", "inputs", "iteration", "iterations", "itl", "kv", "latency", "layer", "layers", "left", "len", "length",
    "limit", "load", "loaded", "loading", "loss", "margin", "max", "maximum", "mean", "median", "mem", "memory", "micro", "min",
    "minimum", "model", "models", "needed", "nodes", "non", "num", "number", "of", "offload", "offloaded", "on", "optimizer", "other",
    "output", "overhead", "p50", "p90", "p95", "p99", "pages", "parallel", "parameters", "params", "partial", "peak", "pending",
    "per", "percent", "pipeline", "pool", "post", "preemptions", "prefill", "prefix", "process", "processes", "profile", "projected",
    "prompt", "prompts", "queue", "queued", "ram", "rate", "ratio", "remaining", "request", "requested", "requests", "required",
    "reserved", "resident", "retries", "rss", "running", "samples", "seconds", "seq", "seqs", "sequence", "sequences", "shard",
    "share", "shared", "shm", "size", "slots", "space", "speed", "split", "static", "step", "steps", "storage", "swa", "swap",
    "system", "tensor", "throughput", "time", "timeout", "token", "tokenization", "tokens", "torch", "total", "tpot", "tps", "train",
    "trainable", "training", "ttft", "usage", "used", "util", "utilization", "vocab", "vram", "waiting", "warmup", "weight",
    "weights", "width", "window", "workers", "world",
))  # fmt: skip
"""The words of names."""
_ALONE = frozenset((
    "duration", "frames", "height", "layers", "loss", "pending", "preemptions", "requests", "running", "timeout", "tokens", "waiting",
    "width",
))  # fmt: skip
"""Words that count as a name by themselves, without a unit."""
_MEMORY = frozenset((
    "memory", "mem", "hbm", "vram", "ram", "used", "free", "total", "cache", "size", "reserved", "limit", "storage", "disk", "shm",
    "swap", "usage",
))  # fmt: skip
"""Words of sizes in memory or on disk; a single letter is a unit only after one of them."""
_JOINING = frozenset({"of", "on", "per", "for"})
"""Words at which a name does not begin or end."""
_SIZES = {
    "bytes": 1, "KiB": KIB, "KB": KIB, "kB": KIB, "K": KIB, "MiB": MIB, "MB": MIB, "M": MIB, "GiB": GIB, "GB": GIB, "G": GIB,
    "Gi": GIB, "Mi": MIB, "TiB": 2**40, "TB": 2**40,
}  # fmt: skip
"""GB and G count as GiB, as in the rows."""
_UNITS = {
    "tokens/s": "_tokens_per_s", "token/s": "_tokens_per_s", "tok/s": "_tokens_per_s", "t/s": "_tokens_per_s",
    "tokens per second": "_tokens_per_s", "req/s": "_requests_per_s", "requests/s": "_requests_per_s", "it/s": "_steps_per_s",
    "s/it": "_s_per_step", "µs": "_us",
    "ms": "_ms", "milliseconds": "_ms", "seconds": "_s", "secs": "_s", "sec": "_s", "s": "_s", "minutes": "_min", "min": "_min",
    "%": "_pct", "tokens": "_tokens", "layers": "_layers", "requests": "_requests", "reqs": "_requests", "req": "_requests",
}  # fmt: skip
_UNIT = "|".join(map(re.escape, sorted((*_SIZES, *_UNITS), key=len, reverse=True)))
_VALUE = re.compile(
    r"(?P<sign>(?:['\"] ?)?[=:] ?['\"\[(]{0,2}|\( ?['\"]?| (?:takes?|took|is|are|of|has|used|needs?|uses?) | ?\| ?| )"
    rf"(?P<value>-?(?:\d{{1,3}}(?:,\d{{3}}){{1,4}}|\d{{1,15}})(?:\.\d{{1,9}})?) ?(?P<unit>{_UNIT})?(?!\d|,\d|(?<=%)\||[\w.:/-]\w)"
)
_NAME = re.compile(r"[A-Za-z#][\w.#-]{0,40}(?: [A-Za-z#][\w.#-]{0,30}){0,4}['\"]?\Z")
_PARTS = re.compile(r"[A-Z]?[a-z]+|[A-Z]{2,8}(?![a-z])|p\d\d|[A-Z]")


def read_figures(text: str) -> dict[str, int | float]:
    """The figures of a text whose secrets are masked, by name, in its order. The end of a name is its unit; sizes are bytes."""
    found: dict[str, int | float] = {}
    for name, value in _candidates(text):
        if len(found) < MOST:
            found.setdefault(name, value)
    return found


def complete_figures(figures: Mapping[str, int | float], numbers: Mapping[str, object]) -> dict[str, int | float]:
    """The figures that the numbers of the rows do not have yet, by name or by value."""
    known = {value for value in numbers.values() if isinstance(value, int | float)}
    known |= {one for value in numbers.values() if isinstance(value, list) for one in value if isinstance(one, int | float)}
    return {
        name: value for name, value in figures.items()
        if value and name not in numbers and not any(math.isclose(value, one, rel_tol=_SAME if abs(value) > _LARGE else 0) for one in known)
    }  # fmt: skip


def _candidates(text: str) -> Iterator[tuple[str, int | float]]:
    for match in islice(_VALUE.finditer(text), _CANDIDATES):
        unit, sign = match["unit"] or "", match["sign"]
        if not unit and not sign.strip(" '\"").startswith(("=", ":", "(")):
            continue  # "is 3" is not specific enough
        if not sign.strip(" |") and unit not in _SIZES and "/" not in unit:
            continue  # only a blank or a table border is between name and value
        before = _NAME.search(text[max(0, match.start() - _BEFORE) : match.start()])
        name = _name_of(before[0]) if before else ""
        if len(unit) == 1 and unit in _SIZES and _MEMORY.isdisjoint(name.split("_")):
            continue  # "7B" and "500M" also count parameters
        if name and (unit or name in _ALONE or ("_" in name and not sign.startswith("("))):
            yield _with_unit(name, match["value"], unit)


def _name_of(printed: str) -> str:
    """The name in small letters: its last words that are all known; "" if its last word has other parts."""
    known: list[str] = []
    for word in reversed(printed.rstrip("'\"").split(" ")):
        parts = [part.lower() for part in _PARTS.findall(word)]
        if not parts or not _WORDS.issuperset(parts) or re.search(r"\d", re.sub(r"p\d\d", "", word)):
            break
        known = parts + known
    while known and known[0] in _JOINING:
        known.pop(0)
    return "" if not known or known[-1] in _JOINING else "_".join(known)


def _with_unit(name: str, printed: str, unit: str) -> tuple[str, int | float]:
    digits = printed.replace(",", "")
    if unit in _SIZES:
        return f"{name.removesuffix('_bytes')}_bytes", round(float(digits) * _SIZES[unit])
    suffix = _UNITS.get(unit, "")
    value = float(digits) if "." in digits else int(digits)
    last = suffix.removeprefix("_").split("_")[0]
    plain = name.removesuffix(f"_{last}") if last in {"tokens", "layers", "requests"} else name
    return (plain if plain == last else plain + suffix), value
