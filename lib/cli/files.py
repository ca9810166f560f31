"""The files for a recommendation, as JSON and as text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lib.present.snippet_setup import setup


def files_entry(entry: Mapping[str, Any], model: str, framework: str) -> dict[str, Any]:
    """README front matter (null where it is no Space), requirements.txt, and what to know about them.

    Raises:
        BadArgument: the hardware does not run this framework.
    """
    made = setup(entry, model=model, framework=framework)
    return {
        "framework": made.framework,
        "readme_front_matter": made.front_matter,
        "requirements_txt": made.requirements,
        "notes": list(made.notes),
        "sources": [{"what": one.what, "source": one.source, "checked": one.checked} for one in made.sources],
    }


def files_text(files: Mapping[str, Any]) -> str:
    """The files one below the other, each under its name."""
    front = [] if files["readme_front_matter"] is None else ["README.md:", "", files["readme_front_matter"]]
    return "\n".join([*front, "requirements.txt:", "", files["requirements_txt"], *(f"note: {note}" for note in files["notes"])])
