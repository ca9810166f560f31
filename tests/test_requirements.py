"""What the app imports is what it asks for: a package that comes along with another one today may be gone tomorrow."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from importlib.metadata import packages_distributions, version
from pathlib import Path

import pytest

from lib.hub.jobs import DEPENDENCIES
from lib.service import fleet_jobs, job_pictures

ROOT = Path(__file__).parents[1]
LINE = re.compile(r"^(?P<name>[A-Za-z0-9_.-]+)(\[[\w,]+\])?(?P<bounds>[<>=!~].*)?$")
FREE = {"torch"}
"""ZeroGPU admits versions of its own list and installs the newest of them."""


PART_OF = {"pydantic_core": "pydantic"}
"""Modules whose package another one pins to the very version."""


def normalize_name(name: str) -> str:
    """A package's name as the index compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def requirements(path: str) -> dict[str, str]:
    """Packages with their bounds."""
    lines = [line.partition("#")[0].strip() for line in (ROOT / path).read_text(encoding="utf-8").splitlines()]
    found = [LINE.match(line) for line in lines if line]
    assert all(found)
    return {normalize_name(match["name"]): match["bounds"] or "" for match in found if match}


def find_imports(*sources: Path) -> set[str]:
    """Top-level modules from outside that these files import, anywhere in them."""
    names: set[str] = set()
    for source in sources:
        for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
                names.add(node.module.partition(".")[0])
    return names - set(sys.stdlib_module_names) - {"lib", "__future__"}


ASKED = requirements("requirements.txt")
PACKAGES = packages_distributions()


def packages(*sources: Path) -> set[str]:
    """The packages that these files import from; where a module comes from several, those that are asked for."""
    modules = {PART_OF.get(module, module) for module in find_imports(*sources)}
    named = [{normalize_name(one) for one in PACKAGES[module]} for module in sorted(modules)]
    return set().union(*(one & ASKED.keys() or one for one in named))


def test_every_direct_import_of_the_app_is_listed_and_nothing_else() -> None:
    """A package that nothing imports is not installed for nothing."""
    app = packages(ROOT / "app.py", *(ROOT / "lib").rglob("*.py"))
    assert app - ASKED.keys() == set()
    assert ASKED.keys() - app == set()


@pytest.mark.parametrize("name", sorted(ASKED.keys() - FREE))  # in order: parallel runs have to collect the same
def test_a_version_has_a_lower_and_an_upper_bound(name: str) -> None:
    """The next major release of anything may break what works today; what is installed lies within."""
    bounds = ASKED[name]
    assert bounds.startswith("==") or ("<" in bounds and ">=" in bounds)
    installed = tuple(int(part) for part in re.findall(r"\d+", version(name))[:2])
    for sign, text in re.findall(r"(>=|<|==)([\d.]+)", bounds):
        bound = tuple(int(part) for part in text.split("."))[: len(installed)]
        assert {">=": installed >= bound, "<": installed < bound, "==": installed == bound}[sign], f"{name} {installed} {sign} {bound}"


ROW = (
    "from lib.catalog import load; from lib.service import fleet; from lib.service.fleet_files import FleetPart, write_part;"
    "from lib.service.models import Models; from pathlib import Path; import tempfile;"
    "write_part(Path(tempfile.mkdtemp()) / 'a.parquet', FleetPart(number=0, first=0, cells=({'model': '7B'},)),"
    "[fleet.answer_row(Models(), load(), 0, {'model': '7B'})]);"
)


@pytest.mark.parametrize(
    ("module", "work", "asked"),
    [
        ("service.jobs", "", DEPENDENCIES),
        ("live.measure_pictures", "", (*DEPENDENCIES, *job_pictures.DEPENDENCIES)),
        ("service.fleet_jobs", ROW, (*DEPENDENCIES, *fleet_jobs.DEPENDENCIES)),
    ],
)
def test_a_job_asks_for_the_packages_that_its_script_loads(module: str, work: str, asked: tuple[str, ...]) -> None:
    """The script brings the files of the app along, and no package."""
    code = f"import sys, lib.{module}; {work} print(*{{name.partition('.')[0] for name in sys.modules}})"
    loaded = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    needed = {normalize_name(one) for name in loaded for one in PACKAGES.get(name, ())} & ASKED.keys()
    assert needed
    assert needed <= {normalize_name(re.split("[<>=]", one)[0]) for one in asked}


def test_packages_that_the_space_does_without_are_listed() -> None:
    """`require` names a package that requirements-fleet.txt installs and requirements.txt does not."""
    asked = {name for file in (ROOT / "lib").rglob("*.py") for name in re.findall(r'require\("(\w+)', file.read_text(encoding="utf-8"))}
    listed = requirements("requirements-fleet.txt").keys()
    assert asked == listed
    assert not listed & ASKED.keys()
