"""What runs inside a job: each model measured as the page's Measure does it, and its row printed for whoever follows the log."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from lib.catalog import load
from lib.errors import AdvisorError
from lib.live.job_lines import marked
from lib.live.push import Push
from lib.live.record import Ledger, Place
from lib.service.ledger import LedgerQuestions
from lib.service.live import LiveQuestions
from lib.service.models import Models


def main(asked: Mapping[str, Any]) -> None:
    """Measure `models`, with `prompt_tokens`, `output_tokens` and `precision`; a model that fails does not stop the others."""
    ledger = Ledger(Place(path=None, lasting=False, words="memory of the job"))
    live = LiveQuestions(catalog=load, models=Models(), ledger=LedgerQuestions(ledger, Push(None)))
    for model in asked["models"]:
        sys.stdout.write(marked(_one(model, asked, live, ledger)) + "\n")
        sys.stdout.flush()


def _one(model: str, asked: Mapping[str, Any], live: LiveQuestions, ledger: Ledger) -> dict[str, Any]:
    known = len(ledger.own_rows())
    try:
        live.measure(model, asked["prompt_tokens"], asked["output_tokens"], asked["precision"])
    except AdvisorError as refusal:
        return {"model": model[:200], "error": str(refusal)}
    except Exception as error:  # noqa: BLE001 the log shows the trace, and the next model gets its turn
        traceback.print_exc()
        return {"model": model[:200], "error": f"It failed ({type(error).__name__}); the log says more."}
    rows = ledger.own_rows()
    if len(rows) == known:
        return {"model": model[:200], "error": "It was measured, but gave no row for the ledger; the log says why."}
    return {"row": asdict(replace(rows[-1], kind="job", provenance=asked["provenance"]))}
