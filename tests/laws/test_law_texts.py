"""What the laws say of themselves: equations that answers show, and sources that can be opened."""

from __future__ import annotations

import importlib
import pkgutil
import re
from pathlib import Path
from types import ModuleType

import pytest

import lib.laws
from lib.laws import Law

ROOT = Path(lib.laws.__file__).parents[2]
MODULES = [importlib.import_module(f"lib.laws.{found.name}") for found in pkgutil.iter_modules(lib.laws.__path__)]


def list_laws(module: ModuleType) -> list[Law]:
    """The laws that a module exports as text, alone or in a table."""
    values = [value for value in vars(module).values() if isinstance(value, Law)]
    tables = [value for value in vars(module).values() if isinstance(value, dict)]
    return values + [law for table in tables for law in table.values() if isinstance(law, Law)]


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_files_that_a_source_names_exist(module: ModuleType) -> None:
    """A source that names a file of this repository names one that is there; the same holds for docstrings."""
    texts = [law.source for law in list_laws(module)] + [Path(module.__file__ or "").read_text(encoding="utf-8")]
    for name in re.findall(r"\b(?:lib|scripts)/[\w/]+\.(?:py|json)", " ".join(texts)):
        assert (ROOT / name).exists(), name
    for name in re.findall(r"`(lib(?:\.[a-z_]+)+)", " ".join(texts)):
        found = name
        while found.count(".") > 1 and not (ROOT / (found.replace(".", "/") + ".py")).exists():
            found = found.rpartition(".")[0]
        assert (ROOT / (found.replace(".", "/") + ".py")).exists() or (ROOT / found.replace(".", "/")).is_dir(), name


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_a_law_has_a_source_and_limits(module: ModuleType) -> None:
    """Every module says where its laws come from, and where they stop or what they assume."""
    text = Path(module.__file__ or "").read_text(encoding="utf-8")
    assert re.search(r"Sources?\b", text)
    assert re.search(r"Limits?:|Where it stops|assumption|best case", text)


def test_laws_are_typed_once() -> None:
    """No two modules state the same equation, and there are as many laws as answers show parts."""
    equations = [(law.equation, module.__name__) for module in MODULES for law in set(list_laws(module)) if law.equation]
    shown = {equation for equation, _ in equations}
    assert len(shown) >= 20
    for equation in shown:
        copies = [path for path in ROOT.glob("lib/**/*.py") if f'"{equation}"' in path.read_text(encoding="utf-8")]
        assert len(copies) == 1, (equation, copies)
