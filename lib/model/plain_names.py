"""From plain words to the id of a bundled model: "qwen3 30b", "llama3.1:8b", "sdxl".

    find_id("qwen3 30b")    "Qwen/Qwen3-30B-A3B"

Words and ids are cut into letters, versions and sizes. A model is meant if its id has every part of the text. Of several names, the one
that starts with the first word wins, then the one with the fewest other parts. Then an instruction-tuned model wins, then that of the owner
with the most bundled models (the others are copies), then the latest. Letters or numbers alone ("llama", "3.1") mean no model unless they
are the whole name.
"""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from functools import cache

from lib.model.bundled import find_spec, list_ids
from lib.model.spec import ModelSpec, Quantization, StoredWeights
from lib.precision import NAMES, weight_format
from lib.request.words import find_choice, find_meaning

_PARTS = re.compile(r"[0-9]+(?:\.[0-9]+)?[bmk](?![a-z0-9])|[0-9]+(?:\.[0-9]+){0,8}|[a-z]+")
_TUNED = frozenset({"instruct", "it", "chat"})
LONGEST = 100
_LONGEST_ENDING = 3
"""Parts of the end of a repository's name that can say a format, such as unsloth-bnb-4bit."""


def _cut(text: str) -> tuple[str, ...]:
    return tuple(_PARTS.findall(text.casefold()))


@cache
def _index() -> tuple[tuple[str, frozenset[str], tuple[str, ...]], ...]:
    """Each id with the parts of owner and name together, and those of the name."""
    return tuple((model, frozenset(_cut(model)), _cut(model.rpartition("/")[2])) for model in list_ids())


def find_id(text: str) -> str | None:
    """The id of the bundled model that the words mean, or None."""
    if len(text) > LONGEST:
        return None
    whole = next((model for model in list_ids() if model.rpartition("/")[2].casefold() == text.casefold()), find_meaning("model", text))
    wanted = _cut(text)
    parts = set(wanted) - _TUNED
    digits = [part[0].isdigit() for part in parts]
    if whole is not None or not any(digits) or all(digits):
        return whole
    ranked = [
        ((name[:1] != wanted[:1], sum(part not in parts | _TUNED for part in name), not _TUNED & set(name)), model)
        for model, every, name in _index()
        if parts <= every
    ]
    best = min((rank for rank, _ in ranked), default=None)
    owners = Counter(model.partition("/")[0] for model in list_ids())
    return max((model for rank, model in ranked if rank == best), key=lambda model: (owners[model.partition("/")[0]], model), default=None)


def find_quantized(repository: str) -> tuple[str, str] | None:
    """The bundled model of which a repository is a quantized copy, and the format, both by its name; None if the name says neither.

    >>> find_quantized("gaunernst/gemma-3-27b-it-int4-awq")
    ('google/gemma-3-27b-it', 'awq-4')
    """
    for rest, stored_as in _split_format(repository[:LONGEST].rpartition("/")[2]):
        names = (rest, *(shorter for shorter, _ in _split_format(rest)))  # a name may say the format twice: "int4-awq"
        base = next(filter(None, map(find_id, names)), None)
        if base is not None:
            return base, stored_as
    return None


def _split_format(name: str) -> list[tuple[str, str]]:
    """The beginnings of a name whose ending says a format, each with that format; the longest ending first."""
    parts = name.split("-")
    found = []
    for length in range(min(_LONGEST_ENDING, len(parts) - 1), 0, -1):
        stored_as = find_choice("precision", "-".join(parts[-length:]), NAMES)
        if stored_as is not None:
            found.append(("-".join(parts[:-length]), stored_as))
    return found


_STORED_BY = {"awq": "awq", "gptq": "gptq", "fp8": "fp8", "bnb": "bitsandbytes"}
"""The words of checkpoints for the beginnings of formats."""
_WRITER = "vllm"
"""The engine for which quantized copies are mostly published."""


def resolve_copy(repository: str) -> ModelSpec | None:
    """A quantized copy of a bundled model by its name: the base with weights stored in that format; None if the name says neither."""
    meant = find_quantized(repository)
    base = None if meant is None else find_spec(meant[0])
    method = None if meant is None else _STORED_BY.get(meant[1].partition("-")[0])
    if meant is None or base is None or method is None or base.stored.quantization is not None or base.library == "diffusers":
        return None
    written = weight_format(meant[1], _WRITER).name  # a family, such as fp8, is the format that the usual tools write for vLLM
    stored = StoredWeights(dtype=base.stored.dtype, quantization=Quantization(method=method, format=written))
    return replace(base, id=repository, stored=stored)


@cache
def _by_name() -> Mapping[str, str]:
    """Ids by the name without its owner, in small letters; of several owners the one with the most bundled models."""
    owners = Counter(model.partition("/")[0] for model in list_ids())
    return {model.rpartition("/")[2].casefold(): model for model in sorted(list_ids(), key=lambda model: owners[model.partition("/")[0]])}


def find_by_name(name: str) -> str | None:
    """The id of the bundled model with exactly this name, of any owner; None if there is none."""
    return _by_name().get(name.casefold())


def list_near(name: str) -> tuple[str, ...]:
    """Ids of bundled models with the same spelling, with or without the owner."""
    spelled: dict[str, str] = {}
    for listed in list_ids():
        spelled |= {listed.casefold(): listed, listed.casefold().rpartition("/")[2]: listed}
    near = difflib.get_close_matches(name.casefold()[:LONGEST], spelled, n=3, cutoff=0.6)
    return tuple(dict.fromkeys(spelled[match] for match in near))
