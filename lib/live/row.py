"""One line of the ledger: what was measured, on what, beside what had been predicted.

A row says nothing of who asked. Its texts are names of public things only: a model is a public Hub id, or the class of its architecture
with a digest of its shapes; there is no field for a prompt, a token, an address or a person, and a text that looks like a token is refused.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, Literal, get_args

from lib.errors import BadArgument

if TYPE_CHECKING:
    from lib.model.spec import ModelSpec

Kind = Literal["measure", "chat", "job"]
Weights = Literal["random", "checkpoint"]

_WHEN = re.compile(r"\d{4}-\d\d-\d\d(T\d\d:\d\dZ)?")
_MODEL = re.compile(r"[A-Za-z0-9][\w.-]*(/[\w.-]+)?(#[0-9a-f]{8})?", re.ASCII)
_TOKEN = re.compile(r"hf_\w{8,}|(?i:bearer )")
_LONGEST = 200
_LARGEST = 1e18


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A measurement.

    `when` is UTC, to the minute or the day. `accelerator` is the catalog's id of the silicon, None for a CPU. `model` is a public Hub id,
    or `Class#digest`. `engine` names the program and its version. What was not measured or not predicted is None.
    """

    when: str
    kind: Kind
    device: str
    accelerator: str | None
    devices: int
    driver: str | None
    torch: str
    engine: str
    model: str
    architecture: str
    weights: Weights
    precision: str
    prompt_tokens: int
    output_tokens: int
    predicted_peak_bytes: int | None
    peak_bytes: int | None
    predicted_ttft_s: float | None
    ttft_s: float | None
    predicted_decode_tokens_per_s: float | None
    decode_tokens_per_s: float | None
    provenance: str

    def __post_init__(self) -> None:
        """Check every field: rows also come out of files and out of the logs of jobs.

        Raises:
            BadArgument: a field is not what it should be.
        """
        _check(self, "when", _WHEN.fullmatch(str(self.when)) is not None, "a UTC time such as 2026-11-21T09:30Z, or a day")
        _check(self, "kind", self.kind in get_args(Kind), ", ".join(get_args(Kind)))
        _check(self, "weights", self.weights in get_args(Weights), ", ".join(get_args(Weights)))
        for name in TEXTS:
            _check(self, name, _plain(getattr(self, name), none=name in MAY_BE_NONE), f"printable text of at most {_LONGEST} characters")
        _check(self, "model", _MODEL.fullmatch(self.model) is not None, "a Hub id, or an architecture's class with a digest")
        for name in COUNTS:
            _check(self, name, _counts(getattr(self, name), none=name in MAY_BE_NONE), "a whole number, not negative")
        for name in RATES:
            _check(self, name, _measures(getattr(self, name)), "a number above 0, or null")

    @property
    def digest(self) -> str:
        """The same for the same row, so that one that is merged twice stands once."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()


NAMES = tuple(f.name for f in fields(Row))
TEXTS = ("device", "accelerator", "driver", "torch", "engine", "model", "architecture", "precision", "provenance")
COUNTS = ("devices", "prompt_tokens", "output_tokens", "predicted_peak_bytes", "peak_bytes")
RATES = ("predicted_ttft_s", "ttft_s", "predicted_decode_tokens_per_s", "decode_tokens_per_s")
MAY_BE_NONE = frozenset({"accelerator", "driver", "predicted_peak_bytes", "peak_bytes", *RATES})


def _check(row: Row, name: str, good: bool, accepted: str) -> None:
    if not good:
        raise BadArgument(f"{name} of a measurement", str(getattr(row, name))[:_LONGEST], accepted)


def _plain(value: object, *, none: bool) -> bool:
    if value is None:
        return none
    return isinstance(value, str) and len(value) <= _LONGEST and value.isprintable() and not _TOKEN.search(value)


def _counts(value: object, *, none: bool) -> bool:
    if value is None:
        return none
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _LARGEST


def _measures(value: object) -> bool:
    if value is None:
        return True
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and 0 < value < _LARGEST


def read_row(found: Mapping[str, Any]) -> Row:
    """A row from JSON.

    Raises:
        BadArgument: a field is missing, unknown, or not what it should be.
    """
    if set(found) != set(NAMES):
        odd = sorted(set(found) ^ set(NAMES))
        raise BadArgument("a measurement's fields", ", ".join(str(name)[:40] for name in odd[:5]), "exactly those of a row")
    return Row(**found)


def label(spec: ModelSpec) -> str:
    """The model's name in the ledger: its Hub id (read without anyone's token, so it is public), else class and digest of its shapes."""
    if spec.id:
        return spec.id
    shapes = sorted((group.name, group.shape, group.count) for group in spec.tensors)
    digest = hashlib.sha256(json.dumps([spec.parameters_total, shapes]).encode()).hexdigest()[:8]
    name = re.sub(r"[^\w.-]", "", spec.architecture, flags=re.ASCII) or "Model"
    return f"{name}#{digest}"
