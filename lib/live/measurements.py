"""Measurements: their rows, those that come with the app, and the same rows as CSV and Parquet.

A row states what was measured, on what device, beside the prediction. It says nothing about who measured: a model is a public Hub id or
the class of its architecture with a digest of its shapes. There is no field for a prompt, a token, an address or a person, and a text
that looks like a token is refused.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

from pydantic import AfterValidator, ConfigDict, Field, ModelWrapValidatorHandler, ValidationError, model_validator
from pydantic.dataclasses import dataclass as checked

from lib.catalog import DATA
from lib.errors import BadArgument, BadCatalog

if TYPE_CHECKING:
    from lib.model.spec import ModelSpec

Kind = Literal["measure", "chat", "job"]
Weights = Literal["random", "checkpoint"]

_WHEN = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}(T[0-9]{2}:[0-9]{2}Z)?$"
_MODEL = r"^[A-Za-z0-9][A-Za-z0-9_.-]*(/[A-Za-z0-9_.-]+)?(#[0-9a-f]{8})?$"
_TOKEN = re.compile(r"hf_\w{8,}|(?i:bearer )")
_LONGEST = 200
_LARGEST = 1e18


def _public(text: str) -> str:
    if not text.isprintable() or _TOKEN.search(text):
        raise ValueError("not printable, or it looks like a token")
    return text


Text = Annotated[str, Field(max_length=_LONGEST), AfterValidator(_public)]
Count = Annotated[int, Field(ge=0, lt=_LARGEST)]
Rate = Annotated[float, Field(gt=0, lt=_LARGEST)]


@checked(frozen=True, slots=True, kw_only=True, config=ConfigDict(strict=True, extra="forbid"))
class Measurement:
    """A measurement; a field that is not what it should be raises BadArgument, for rows also come out of files and logs of jobs."""

    when: Annotated[str, Field(pattern=_WHEN)]
    """UTC, to the minute or the day."""
    kind: Kind
    """Which question measured it."""
    device: Text
    """The device's own name."""
    accelerator: Text | None
    """The catalog's id of the silicon; None for a CPU."""
    devices: Count
    """How many shared the model."""
    driver: Text | None
    """NVIDIA's driver; None without one."""
    torch: Text
    """Version of torch."""
    engine: Text
    """The program and its version."""
    model: Annotated[Text, Field(pattern=_MODEL)]
    """A public Hub id, or `Class#digest`."""
    architecture: Text
    """Class of the model."""
    weights: Weights
    """Whose values the weights had."""
    precision: Text
    """Number format of the weights."""
    prompt_tokens: Count
    """Tokens that were read."""
    output_tokens: Count
    """Tokens that were written."""
    predicted_peak_bytes: Count | None
    """What was predicted; None where nothing was, here and below."""
    peak_bytes: Count | None
    """What was measured; None where nothing was, here and below."""
    predicted_ttft_s: Rate | None
    """Seconds to the first token, predicted."""
    ttft_s: Rate | None
    """Seconds to the first token."""
    predicted_decode_tokens_per_s: Rate | None
    """Tokens per second after the first, predicted."""
    decode_tokens_per_s: Rate | None
    """Tokens per second after the first."""
    provenance: Text
    """Where the row comes from."""

    @model_validator(mode="wrap")
    @classmethod
    def _refuse(cls, values: Any, check: ModelWrapValidatorHandler[Measurement]) -> Measurement:
        try:
            return check(values)
        except ValidationError as error:
            errors = error.errors(include_url=False)
        odd = sorted(str(one["loc"][0]) for one in errors if one["loc"][0] not in NAMES or one["type"].startswith("missing"))
        if odd:
            raise BadArgument("a measurement's fields", ", ".join(name[:40] for name in odd[:5]), "exactly those of a row")
        name = str(errors[0]["loc"][0])
        accepted = _ACCEPTED.get(name, f"printable text of at most {_LONGEST} characters")
        raise BadArgument(f"{name} of a measurement", str(errors[0]["input"])[:_LONGEST], accepted)

    @property
    def digest(self) -> str:
        """The same for the same row, so that one that is merged twice stands once."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()


NAMES = tuple(f.name for f in fields(Measurement))
COUNTS = ("devices", "prompt_tokens", "output_tokens", "predicted_peak_bytes", "peak_bytes")
RATES = ("predicted_ttft_s", "ttft_s", "predicted_decode_tokens_per_s", "decode_tokens_per_s")
_ACCEPTED = {
    "when": "a UTC time such as 2026-11-21T09:30Z, or a day",
    "kind": ", ".join(get_args(Kind)),
    "model": "a Hub id, or an architecture's class with a digest",
    "weights": ", ".join(get_args(Weights)),
    **dict.fromkeys(COUNTS, "a whole number, not negative"),
    **dict.fromkeys(RATES, "a number above 0, or null"),
}


def read_row(cells: Mapping[str, Any]) -> Measurement:
    """A row from JSON.

    Raises:
        BadArgument: a field is missing, unknown, or not what it should be.
    """
    return Measurement(**cells)


def model_label(spec: ModelSpec) -> str:
    """The model's name in the ledger: its Hub id (read without anyone's token, so it is public), else class and digest of its shapes."""
    if spec.id:
        return spec.id
    shapes = sorted((group.name, group.shape, group.count) for group in spec.tensors)
    digest = hashlib.sha256(json.dumps([spec.parameters_total, shapes]).encode()).hexdigest()[:8]
    name = re.sub(r"[^\w.-]", "", spec.architecture, flags=re.ASCII) or "Model"
    return f"{name}#{digest}"


@cache
def bundled_rows() -> tuple[Measurement, ...]:
    """Rows that were measured before and come with the app; none where there is no such file.

    Raises:
        BadCatalog: the file cannot be read.
    """
    path = DATA / "measured.json"
    if not path.exists():
        return ()
    try:
        return tuple(read_row(row) for row in json.loads(path.read_text(encoding="utf-8"))["rows"])
    except (ValueError, KeyError, TypeError, AttributeError, BadArgument) as error:
        raise BadCatalog(f"lib/data/measured.json cannot be read ({type(error).__name__}: {error}).") from error


def parquet_bytes(rows: Iterable[Measurement]) -> bytes:
    """A Parquet file with typed columns: text, whole numbers, floats; what is None is null."""
    import pyarrow as pa  # type: ignore[import-untyped]  # noqa: PLC0415 only when someone asks for the file
    from pyarrow import parquet  # noqa: PLC0415

    kinds = {name: pa.int64() if name in COUNTS else pa.float64() if name in RATES else pa.string() for name in NAMES}
    measurements = list(rows)
    table = pa.table({name: [getattr(row, name) for row in measurements] for name in NAMES}, schema=pa.schema(kinds.items()))
    out = io.BytesIO()
    parquet.write_table(table, out)
    return out.getvalue()
