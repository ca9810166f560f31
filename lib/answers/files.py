"""The answer of `/write_files`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lib.provenance import Answer


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesAnswer(Answer):
    """Files that run a model on hardware, as they are copied."""

    model: str
    """Id of the model."""
    purpose: str
    """Purpose of the files."""
    task: str
    """The Hub task that they do."""
    precision: str
    """Format of the weights."""
    engine: str
    """The program that runs the model."""
    devices: int
    """Devices that share the model."""
    machines: int
    """Machines that share the model."""
    files: Mapping[str, str]
    """Text of each file by its path."""
    command: str | None
    """The line that starts them; null if the platform starts them by itself."""
    runs_on: str
    """The hardware, as other endpoints take it: `spaces:l4x1`."""
    repository: str | None
    """Hub id of the checkpoint that they load; null if another one is needed and none is known."""
    notes: tuple[str, ...]
    """Further steps and warnings."""
    tested_with: str
    """Coverage of this kind by the project's tests: `executed: MODEL`, `parsed` (read by a parser, not run), or `none`."""
