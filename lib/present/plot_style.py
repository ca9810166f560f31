"""What all figures have in common: clear backgrounds for both themes, quiet grids, one font."""

from __future__ import annotations

from typing import Any

GRID = "rgba(128,128,128,.25)"
CLEAR = "rgba(0,0,0,0)"
MARK = "#8b93a1"
AXIS: dict[str, Any] = {"gridcolor": GRID, "zeroline": False}


def layout(*, height: int, right: int = 24, left: int = 64) -> dict[str, Any]:
    """Layout of a figure without legend (its key is markup beside it)."""
    return {
        "template": "none",
        "paper_bgcolor": CLEAR,
        "plot_bgcolor": CLEAR,
        "modebar": {"bgcolor": CLEAR},
        "font": {"size": 12, "family": "system-ui, sans-serif"},
        "height": height,
        "margin": {"l": left, "r": right, "t": 12, "b": 48},
        "hoverlabel": {"bgcolor": "#1d2530", "font": {"color": "#ffffff"}},
        "showlegend": False,
    }
