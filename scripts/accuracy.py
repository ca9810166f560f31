"""The errors of the laws on published measurements: the check scripts record them here, `docs/accuracy.md` is written from them.

    python -m scripts.accuracy        write docs/accuracy.md from docs/accuracy.json

A check script takes `--record` and replaces its own sections of `docs/accuracy.json`. A test fails while the page differs from the JSON.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from numpy.typing import ArrayLike

DOCS = Path(__file__).resolve().parents[1] / "docs"
FIGURES = DOCS / "accuracy.json"
PAGE = DOCS / "accuracy.md"
TEMPLATE = "accuracy.md.j2"


def summarize_errors(ratios: ArrayLike) -> dict[str, float]:
    """Number, median error, bias, 90th percentile and share within a factor of two.

    `ratios` are predicted / measured. Bias is the median of ratio − 1, the others are of |ratio − 1|; all but `n` are fractions.
    """
    ratio = np.asarray(ratios, float)
    error = np.abs(ratio - 1)
    within = np.abs(np.log(np.maximum(ratio, 1e-9))) < np.log(2)
    figures = {
        "median_error": np.median(error),
        "bias": np.median(ratio - 1),
        "p90_error": np.percentile(error, 90),
        "within_2x": np.mean(within),
    }
    return {"n": len(ratio)} | {name: round(float(value), 4) for name, value in figures.items()}


def record(section: str, command: str, rows: Iterable[Mapping[str, Any]]) -> None:
    """Replace a section of `docs/accuracy.json`: its command, today's date, and its rows."""
    content = read_figures() if FIGURES.exists() else {}
    content[section] = {"command": command, "date": dt.datetime.now(dt.UTC).date().isoformat(), "rows": list(rows)}
    FIGURES.write_text(json.dumps(dict(sorted(content.items())), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def read_figures() -> dict[str, Any]:
    """Every recorded section by its name."""
    content: dict[str, Any] = json.loads(FIGURES.read_text(encoding="utf-8"))
    return content


def percent(fraction: float) -> str:
    """A fraction in percent, with one decimal below 20 %."""
    value = 100 * fraction
    return f"{value:.1f} %" if abs(value) < 20 else f"{value:.0f} %"  # noqa: PLR2004


def render_page() -> str:
    """The text of `docs/accuracy.md`."""
    environment = Environment(loader=FileSystemLoader(DOCS), undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)  # noqa: S701
    environment.filters["percent"] = percent
    return environment.get_template(TEMPLATE).render(sections=read_figures())


if __name__ == "__main__":
    PAGE.write_text(render_page(), encoding="utf-8")
