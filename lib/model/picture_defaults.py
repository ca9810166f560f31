"""The usual settings of a distilled pipeline: steps, guidance and size as its model card states them (`lib/data/picture_defaults.json`).

A pipeline's class in diffusers has one default for all its checkpoints. A checkpoint that was distilled to a few steps without guidance is
another load: Z-Image-Turbo 9 evaluations where its class makes 100. A model without a row is taken as its class takes it.
"""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from lib.errors import BadCatalog

_DATA = Path(__file__).parent.parent / "data" / "picture_defaults.json"


class CardDefaults(BaseModel):
    """A row: steps, whether guidance asks the denoiser twice, and the size in pixels (0: the pipeline's own)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    models: tuple[str, ...]
    steps: int
    guided: bool
    width: int = 0
    height: int = 0
    source: str
    checked: str


@lru_cache(maxsize=1)
def _read_rows() -> dict[str, CardDefaults]:
    content = json.loads(_DATA.read_text(encoding="utf-8"))
    try:
        rows = [CardDefaults.model_validate(row) for row in content["rows"]]
    except (KeyError, ValueError) as error:
        raise BadCatalog(f"picture_defaults.json: {error}") from None
    return {name.casefold(): row for row in rows for name in row.models}


def find_card_defaults(model_id: str) -> CardDefaults | None:
    """Settings that the card of a model states; None if it does not differ from its pipeline's class, or is not known."""
    return _read_rows().get(model_id.casefold())
