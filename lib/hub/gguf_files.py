"""The GGUF files of a repository: which model each is, what it is called, how large, and which one a name means.

A model is one file, or several parts (`-00001-of-00003`). Its label is the quantization in its name ("Q4_K_M", "UD-Q4_K_XL") where no other
model of the repository has it, else the name of the file. A projector (mmproj) and an importance matrix are not models.
Without a name llama.cpp's `-hf` takes Q4_K_M, else the first file. Source: llama.cpp's README on `-hf`, checked 2026-11-22.
"""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from lib.errors import UnknownModel, quote_value

PART = re.compile(r"-(\d{5})-of-(\d{5})(?=\.)")
_TYPE = re.compile(r"(?:UD-)?(?:I?Q\d\w*|TQ\d\w*|BF16|F16|F32|FP16|FP32|MXFP4\w*|NVFP4)(?=$|[-./])", re.IGNORECASE)
_NOT_MODELS = ("mmproj", "imatrix")
_DEFAULT = "Q4_K_M"
_LISTED = 12
_COMPARED = 200
"""Names that a misspelt one is compared with: 50,000 of them, which a repository may hold, would take a processor 15 s."""


class GgufFile(NamedTuple):
    """One model: its label, its file with all parts, and their bytes (None where the Hub does not tell)."""

    label: str
    files: tuple[str, ...]
    total_bytes: int | None


def list_gguf(files: Mapping[str, int | None]) -> tuple[GgufFile, ...]:
    """The models among the files of a repository, the smallest first; parts of which some are missing are no model."""
    models: dict[str, list[str]] = {}
    for name in sorted(files):
        if name.lower().endswith(".gguf") and not any(word in name.lower() for word in _NOT_MODELS):
            part = PART.search(name)
            models.setdefault(PART.sub(f"-of-{part[2]}", name) if part else name, []).append(name)
    whole = {name: parts for name, parts in models.items() if len(parts) == _part_count(parts[0])}
    labels = {name: _type_of(name) for name in whole}
    often = Counter(labels.values())
    found = [
        GgufFile(
            labels[name] if labels[name] and often[labels[name]] == 1 else parts[0],
            tuple(parts),
            None if any(files[part] is None for part in parts) else sum(files[part] or 0 for part in parts),
        )
        for name, parts in whole.items()
    ]
    return tuple(sorted(found, key=lambda one: (one.total_bytes or 0, one.label)))


def _part_count(name: str) -> int:
    part = PART.search(name)
    return int(part[2]) if part else 1


def _type_of(name: str) -> str:
    """The quantization in a file's name, or in that of its folder; the last one, for a model may be called so too."""
    for text in (PART.sub("", name.rpartition("/")[2]).removesuffix(".gguf").removesuffix(".GGUF"), name.rpartition("/")[0]):
        found = _TYPE.findall(text)
        if found:
            return str(found[-1]).upper()
    return ""


def choose_gguf(files: Mapping[str, int | None], label: str = "") -> tuple[str, ...]:
    """The files of the model that a label or a file's name means, all parts; "" is llama.cpp's own choice, empty where there is none.

    Raises:
        UnknownModel: the repository has no such file, or several are meant.
    """
    models = list_gguf(files)
    if not label:
        default = next((one for one in models if _type_of(one.files[0]) == _DEFAULT), None)
        first = default or min(models, key=lambda one: one.files, default=None)
        return first.files if first else ()
    folded = label.casefold()
    for names in (_exact_names, _loose_names):
        meant = [one for one in models if folded in names(one)]
        if len(meant) == 1:
            return meant[0].files
        if meant:
            raise UnknownModel(
                f"{quote_value(label)} means {len(meant)} GGUF files of this repository. Name one of them in full: {_words(meant)}."
            )
    if not models:
        raise UnknownModel(f"The repository holds no GGUF files, so none is called {quote_value(label)}. Name the repository alone.")
    near = difflib.get_close_matches(folded, [one.label.casefold() for one in models[:_COMPARED]], n=3, cutoff=0.6)
    nearest = [one for one in models if one.label.casefold() in near]
    hint = f"The nearest: {_words(nearest)}. " if nearest and len(models) > len(nearest) else ""
    raise UnknownModel(f"The repository holds no GGUF file {quote_value(label)}. {hint}It holds: {_words(models)}.")


def _exact_names(one: GgufFile) -> set[str]:
    names = {one.label, *one.files, *(name.rpartition("/")[2] for name in one.files), PART.sub("", one.files[0])}
    names |= {name.removesuffix(".gguf") for name in names}
    return {name.casefold() for name in names}


def _loose_names(one: GgufFile) -> set[str]:
    return {_type_of(one.files[0]).casefold(), _type_of(one.files[0]).casefold().removeprefix("ud-")} - {""}


def _words(models: Sequence[GgufFile]) -> str:
    """Labels with sizes, some of them where there are many."""
    listed = [one.label if one.total_bytes is None else f"{one.label} ({one.total_bytes / 1e9:.1f} GB)" for one in models[:_LISTED]]
    more = len(models) - len(listed)
    return ", ".join(listed) + (f" and {more} more" if more > 0 else "")
