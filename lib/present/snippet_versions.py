"""Versions to write into files that people copy: which release was today's, where that was read, and what it brings along.

The rows lie in `lib/data/frameworks.json`. Nothing is looked up while the app runs: a pin is a fact of the day it was read, and says so.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType

from lib.errors import BadCatalog
from lib.ledger import Row
from lib.provenance import Source

FILE = Path(__file__).parent.parent / "data" / "frameworks.json"
_NEVER = "2999-12-31"


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """A release; `brings` says in words what it installs with it, where that decides what else may be installed."""

    name: str
    version: str
    brings: str | None
    source: Source

    def line(self, extra: str = "") -> str:
        """A line of requirements.txt: `jax[cuda13]==0.10.2`."""
        return f"{self.name}{f'[{extra}]' if extra else ''}=={self.version}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Versions:
    """Everything that is pinned, and the values that the README's `suggested_hardware` takes."""

    as_of: str
    packages: Mapping[str, Package]
    python: str
    python_source: Source
    suggested_hardware: frozenset[str]
    suggested_hardware_source: Source

    def __getitem__(self, name: str) -> Package:
        """The release of a package that is known to be there: names are written in the code, not asked for by callers."""
        return self.packages[name]


def _source(row: Row, what: str, as_of: str) -> Source:
    return Source(what=what, source=row.label("source"), checked=row.day("checked", latest=as_of))


def read_versions(data: object) -> Versions:
    """The rows, checked.

    Raises:
        BadCatalog: one of them is wrong; the message names it.
    """
    top = Row("frameworks.json", data)
    as_of = top.day("as_of", latest=_NEVER)
    packages: dict[str, Package] = {}
    for row in top.rows("packages"):
        name, version = row.label("name"), row.label("version")
        if name in packages:
            raise row.bad("name", name, "each package once")
        source = _source(row, f"{name} {version}", as_of)
        packages[name] = Package(name=name, version=version, brings=row.optional("brings", str), source=source)
        row.finish()
    python, listed = top.group("python"), top.group("suggested_hardware")
    read = Versions(
        as_of=as_of,
        packages=MappingProxyType(packages),
        python=python.label("version"),
        python_source=_source(python, "Python of a Space, admitted by ZeroGPU too", as_of),
        suggested_hardware=frozenset(listed.labels("values")),
        suggested_hardware_source=_source(listed, "Values that suggested_hardware takes", as_of),
    )
    for row in (python, listed, top):
        row.finish()
    return read


@lru_cache(maxsize=1)
def versions() -> Versions:
    """The bundled rows, read at the first call."""
    try:
        data = json.loads(FILE.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BadCatalog(f"frameworks.json: it cannot be read as JSON ({type(error).__name__}).") from error
    return read_versions(data)
