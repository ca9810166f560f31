"""docs/architecture.md is true: its rooms are those of lib, its layers those of the import contract, its files exist.

And what it says of engines, platforms and cache kinds: each stands in every table that needs it, so that a new one is not forgotten there.
"""

from __future__ import annotations

import ast
import re
import tomllib
from contextlib import nullcontext
from pathlib import Path
from typing import get_args

import pytest

from lib.engines import ENGINES, TRAITS
from lib.engines.traits import CacheLayout
from lib.laws import kv_cache, kv_cache_by_engine
from lib.laws.cache_growth import GROWTHS, Growth
from lib.memory import estimate_memory
from lib.model import bundled
from lib.model.resolve import resolve_count
from lib.model.spec import CacheTerm
from lib.platforms import OWN, PLATFORMS
from lib.platforms import TRAITS as TRAITS_OF_PLATFORMS
from lib.precision import NAMES
from lib.speed import calibration
from lib.ui import fields
from lib.workload import MemoryRequest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
TEXTS = {page.name: page.read_text(encoding="utf-8") for page in (*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md")}
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
ROWS = [(int(layer), re.findall(r"`(\w+)`", rooms)) for layer, rooms in re.findall(r"^\| (\d+) \| ([^|]+) \|", PAGE, re.MULTILINE)]


def in_lib() -> set[str]:
    """Packages and modules that stand directly in lib."""
    packages = {folder.name for folder in (ROOT / "lib").iterdir() if (folder / "__init__.py").exists()}
    return packages | {file.stem for file in (ROOT / "lib").glob("*.py")} - {"__init__"}


def test_every_room_is_on_the_page_once() -> None:
    """No room of lib is missing, none that is named is gone."""
    named = [room for _, rooms in ROWS for room in rooms]
    assert sorted(named) == sorted(in_lib())


def test_the_layers_are_those_of_the_contract() -> None:
    """The same rooms in the same order, layer by layer."""
    on_page: dict[int, set[str]] = {}
    for layer, rooms in ROWS:
        on_page.setdefault(layer, set()).update(rooms)
    (contract,) = (one for one in CONTRACTS if one["type"] == "layers")
    assert contract["exhaustive"]
    assert [on_page[layer] for layer in sorted(on_page)] == [set(re.split(r" *[:|] *", line)) for line in contract["layers"]]


ALLOWED = {"gradio": {"ui"}, "huggingface_hub": {"ui", "cli", "hub", "live"}, "torch": {"model", "live"}}


@pytest.mark.parametrize("module", ALLOWED)
def test_a_ban_holds_for_every_room_but_those_named_here(module: str) -> None:
    """A new room is under the same bans as the others."""
    bans = [one for one in CONTRACTS if one["type"] == "forbidden" and module in one["forbidden_modules"]]
    banned = {name.removeprefix("lib.") for one in bans for name in one["source_modules"]}
    assert banned == in_lib() - ALLOWED[module]


@pytest.mark.parametrize("page", TEXTS)
def test_files_and_folders_that_are_named_exist(page: str) -> None:
    """Paths of this repository in README and docs."""
    paths = re.findall(r"(?<![\w/])((?:lib|scripts|tests|docs|assets|\.ci)/[\w./-]*[\w/])", TEXTS[page])
    assert [path for path in paths if not (ROOT / path).exists()] == []


NAMED = [
    (file, name)
    for file, beside in re.findall(r"`(lib/[\w/]+\.py)`\s\(([^)]*)\)", "\n".join(TEXTS.values()))
    for name in re.findall(r"`(\w+)`", beside)
]


@pytest.mark.parametrize(("file", "name"), NAMED)
def test_names_beside_a_file_stand_in_it(file: str, name: str) -> None:
    """What the page says is in a file."""
    assert re.search(rf"^(class |def |    def )?{name}\b", (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE)


def module_file(parts: list[str]) -> Path | None:
    """The file of a module or package."""
    place = ROOT.joinpath(*parts)
    return next((file for file in (place / "__init__.py", place.with_suffix(".py")) if file.exists()), None)


def defined_in(file: Path) -> set[str]:
    """Functions, classes, assigned and imported names of a module."""
    nodes = list(ast.walk(ast.parse(file.read_text(encoding="utf-8"))))
    named = {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)}
    assigned = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return named | assigned | {node.asname or node.name for node in nodes if isinstance(node, ast.alias)}


def exists(dotted: str) -> bool:
    """Whether a package, a module or a name in a module is there."""
    parts = dotted.split(".")
    above = module_file(parts[:-1])
    return module_file(parts) is not None or (above is not None and parts[-1] in defined_in(above))


def test_dotted_names_in_docstrings_and_comments_exist() -> None:
    """In code marks, from `lib` on: a module that moves or a function that is renamed takes its mentions along."""
    files = [file for folder in ("lib", "scripts", "tests", "docs") for file in (ROOT / folder).rglob("*") if file.suffix in {".py", ".md"}]
    texts = {file: file.read_text(encoding="utf-8") for file in (*files, ROOT / "README.md", ROOT / "app.py")}
    mentions = {(dotted, file.name) for file, text in texts.items() for dotted in re.findall(r"`(lib(?:\.\w+)+)`", text)}
    assert mentions
    assert sorted((dotted, name) for dotted, name in mentions if not exists(dotted)) == []


def test_every_engine_stands_in_every_table() -> None:
    """A row of properties, a law for its cache, number formats that exist, constants of speed; and its memory can be counted."""
    assert set(TRAITS) == set(ENGINES)
    assert {row.cache for row in TRAITS.values()} == set(kv_cache_by_engine.LAWS) == set(get_args(CacheLayout))
    assert {name for row in TRAITS.values() for name in (row.fp8, row.int8, row.int4)} <= {*NAMES, ""}
    assert {name for name, row in TRAITS.items() if not row.timed_as} == set(ENGINES) & set(calibration.ENGINES)
    for engine in ENGINES:
        model = bundled.find_spec("google-bert/bert-base-uncased") if engine == "tei" else resolve_count("7B")
        assert model is not None
        assert estimate_memory(model, MemoryRequest(engine=engine)).total_bytes > 0


def test_an_engine_without_a_law_is_refused() -> None:
    """Nothing is counted for it as if it were another."""
    with pytest.raises(ValueError, match="no law"):
        estimate_memory(resolve_count("7B"), MemoryRequest(engine="another"))  # type: ignore[arg-type]


OF_ROWS = {ROOT / "lib" / "platforms.py", *(ROOT / "lib" / "engines").glob("*.py")}
"""The files of the rows themselves, which may compare names."""


def is_name(side: ast.expr, names: frozenset[str]) -> bool:
    """Whether this is one of the names, or the constant of hardware of one's own."""
    return (isinstance(side, ast.Constant) and side.value in names) or (isinstance(side, ast.Name) and side.id == "OWN")


def compared_names(file: Path, names: frozenset[str]) -> list[str]:
    """Comparisons of a value with one of these names, and tables that are keyed by several of them."""
    found = []
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        sides: list[ast.expr] = []
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
        elif isinstance(node, ast.MatchValue):
            sides = [node.value]
        elif isinstance(node, ast.Dict) and sum(key is not None and is_name(key, names) for key in node.keys) > 1:
            sides = [key for key in node.keys if key is not None]
        parts = [part for side in sides for part in (side.elts if isinstance(side, ast.Tuple | ast.List | ast.Set) else [side])]
        if any(is_name(part, names) for part in parts):
            found.append(f"{file.relative_to(ROOT)}: {ast.unparse(node)[:100]}")
    return found


def test_no_name_of_a_platform_is_compared() -> None:
    """Code asks the row of a platform. "tpu" is also a kind of silicon, which is compared."""
    files = [file for file in (ROOT / "lib").rglob("*.py") if file not in OF_ROWS]
    compared = [line for file in files for line in compared_names(file, frozenset({*PLATFORMS, OWN}))]
    assert [line for line in compared if "tpu" not in line or "platform" in line.partition(": ")[2]] == []


def test_no_name_of_an_engine_is_compared() -> None:
    """Code asks the row of an engine. Left: libraries, kinds of repositories, and formats of metrics."""
    other = ("library", "repository.kind", "lib/traffic/metrics.py: {")
    files = [file for file in (ROOT / "lib").rglob("*.py") if file not in OF_ROWS]
    compared = [line for file in files for line in compared_names(file, frozenset(ENGINES))]
    assert [line for line in compared if not any(subject in line for subject in other)] == []
    assert len(compared) <= 4


NAMED_THING = {"platform", "engine", "provider"}
SAME_THING = {
    "lib/advisor/candidates.py: engine != software.support.engine": "the tests of a data file are of one engine",
    "lib/advisor/candidates.py: requested == engine": "whether the caller chose this one",
    "lib/advisor/judge.py: (of.candidate.engine, of.candidate.precision) == (candidate.engine, candidate.precision)": "the same form",
    "lib/advisor/setup.py: layout.engine != engine": "whether the hardware replaced the engine",
    "lib/present/tables.py: (entry.hardware, entry.platform) == (pick.hardware, pick.platform)": "the same offer",
    "lib/service/compare_gpu_tpu.py: options.findings.engine == 'none_on_tpu'": "a finding, not an engine",
    "lib/service/explain.py: row.program == arguments.engine": "the rows of the caller's program",
    "lib/speed/timing.py: i.engine != HOST": "a column of numbers",
    "lib/traffic/latency.py: name != request.engine": "the others",
    "lib/ui/traffic_tab.py: entry.engine in {engine, usual_engine('tpu')}": "the same configuration",
}
"""Comparisons of two values with each other, with the reason why no row is asked."""


def is_named(side: ast.expr) -> bool:
    """Whether this is the name of an engine, a platform or a provider."""
    return (isinstance(side, ast.Attribute) and side.attr in NAMED_THING) or (isinstance(side, ast.Name) and side.id in NAMED_THING)


def compared_things(file: Path) -> list[str]:
    """Equalities of such names with anything but "auto" and None. A set that is made of rows is a property: `engine in SERVERS`."""
    found = []
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Compare):
            continue
        in_rows = isinstance(node.ops[0], ast.In | ast.NotIn) and not isinstance(node.comparators[0], ast.Tuple | ast.List | ast.Set)
        if in_rows:
            continue
        sides = [
            part for side in (node.left, *node.comparators) for part in (side.elts if isinstance(side, ast.Tuple | ast.Set) else [side])
        ]
        others = {ast.unparse(side) for side in sides if not is_named(side)}
        if any(map(is_named, sides)) and not others & {"AUTO", "'auto'", "None"}:
            found.append(f"{file.relative_to(ROOT)}: {ast.unparse(node)}")
    return found


def test_names_of_engines_platforms_and_providers_are_looked_up() -> None:
    """A row is found by its key, and asked for a property; what is the same as what, is all that is compared."""
    files = [file for file in (ROOT / "lib").rglob("*.py") if file not in OF_ROWS]
    assert {line for file in files for line in compared_things(file)} == set(SAME_THING)


def test_every_platform_has_its_row_and_tick() -> None:
    """ZeroGPU is ticked with Spaces on the first tab."""
    assert tuple(TRAITS_OF_PLATFORMS) == (*PLATFORMS, OWN)
    assert {value for _, value in fields.PLATFORM_WORDS} == set(PLATFORMS) - {"zerogpu"}
    assert {value for _, value in fields.COMPARED_PLATFORM_WORDS} == {*PLATFORMS, "providers"}


def test_every_growth_of_a_cache_has_its_n_of_t() -> None:
    """The law knows each kind by name, also as a straight line; an unknown one is refused."""
    assert set(GROWTHS) == set(get_args(Growth))
    for growth in (*get_args(Growth), "another"):
        term = CacheTerm(kind="full attention", holds="keys and values", layers=1, elements=8, growth=growth, span=4)
        with pytest.raises(ValueError, match="no such growth") if growth == "another" else nullcontext():
            assert kv_cache.units(growth, 4, 9, 9) >= 0
        with pytest.raises(ValueError, match="no such growth") if growth == "another" else nullcontext():
            assert kv_cache.linear_cache([term], 2.0, 9)


def imports_of(module: str, files: dict[str, Path]) -> set[str]:
    """Modules of lib that a file imports anywhere in it: at its top, under TYPE_CHECKING, or in a function."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(files[module].read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {name if (name := f"{node.module}.{alias.name}") in files else node.module for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found & files.keys() - {module}


def test_no_file_imports_itself_through_others() -> None:
    """Circles of files, imports under TYPE_CHECKING and in functions included."""
    paths = {file: file.relative_to(ROOT).with_suffix("").parts for file in (ROOT / "lib").rglob("*.py")}
    files = {".".join(parts).removesuffix(".__init__"): file for file, parts in paths.items()}
    imports = {module: imports_of(module, files) for module in files}

    def reach(module: str) -> set[str]:
        seen: set[str] = set()
        waiting = [module]
        while waiting:
            new = imports[waiting.pop()] - seen
            seen |= new
            waiting += new
        return seen

    reached = {module: reach(module) for module in imports}
    circles = {tuple(sorted(other for other in reached[module] if module in reached[other])) for module in imports} - {()}
    assert circles == set()
