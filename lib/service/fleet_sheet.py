"""A list of up to 200 questions as CSV text, answered for the page a few rows at a time, so that other callers get turns in between."""

from __future__ import annotations

import io
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

from lib.answers.fleet import FleetRow
from lib.errors import InvalidInput, UnknownModel, quote_value
from lib.model import bundled
from lib.model.spec import ModelSpec
from lib.request.fields import Arguments
from lib.request.types import text_of
from lib.service.endpoint import App
from lib.service.fleet import answer_row, check_columns
from lib.service.fleet_files import BYTE_ORDER_MARK, Cells, read_csv
from lib.service.models import Models
from lib.service.reference import read_reference

MOST_ROWS = 200
MOST_CHARACTERS = 200_000
_SHORTER = "Send fewer rows, or run `python scripts/manage_space.py fleet` on your own machine."
STEP_ROWS = 2
"""Rows of one step: each takes some 20 ms, so a step is shorter than the 100 ms that one caller may delay another."""


class SheetArguments(Arguments):
    """Arguments of `stream_sheet`."""

    text: Annotated[str, text_of("a CSV with a line of column names")]
    """CSV whose first line names the columns: model, any argument of /recommend, hardware (your current one) and label (your text)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SheetProgress:
    """The rows that are answered so far, and how many there are."""

    rows: tuple[FleetRow, ...]
    total: int


def read_sheet(text: str) -> list[Cells]:
    """The questions of a list.

    Raises:
        InvalidInput: it is not CSV, too long, or has other columns.
    """
    if len(text) > MOST_CHARACTERS:
        raise InvalidInput(f"The list has more than {MOST_CHARACTERS:,} characters. {_SHORTER}")
    rows = list(itertools.islice(read_csv(io.StringIO(text.removeprefix(BYTE_ORDER_MARK).strip(), newline=""), "the list"), MOST_ROWS + 1))
    if not rows:
        raise InvalidInput("The list has no rows. Write a line of column names such as 'model,hardware', then one line for each question.")
    check_columns(rows[0])
    if len(rows) > MOST_ROWS:
        raise InvalidInput(f"The list has more than {MOST_ROWS} rows. {_SHORTER}")
    return rows


def find_known(models: Models, model: object) -> ModelSpec:
    """The model, if neither a request to the Hub nor a build is needed.

    Raises:
        UnknownModel: it is not a model, or not known here yet.
    """
    reference = read_reference(model)
    if reference.kind == "count" or (not reference.file and bundled.find_spec(reference.text)):
        return models(model)
    known = models.find_public(reference.text, reference.file) if reference.kind == "id" else None
    if known is None:
        raise UnknownModel(
            f"{quote_value(reference.text)} is not known here yet. Name it once in the model field of the page, then ask again. Bundled "
            "models and counts such as 7B are always known."
        )
    return known


def stream_sheet(app: App, arguments: SheetArguments) -> Iterator[SheetProgress]:
    """Answer the questions in order, a few at a time.

    Returns:
        The answers so far, after every few rows.
    """
    cells, catalog, answered = read_sheet(arguments.text), app.catalog(), list[FleetRow]()
    yield SheetProgress(rows=(), total=len(cells))
    for start in range(0, len(cells), STEP_ROWS):
        for row in range(start, min(start + STEP_ROWS, len(cells))):
            answered.append(answer_row(lambda model: find_known(app.models, model), catalog, row, cells[row]))
        yield SheetProgress(rows=tuple(answered), total=len(cells))
