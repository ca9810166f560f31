"""A really started app, for the tests that call it from outside; which tests a machine can run, and which of them stay together."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hub_repos import demo_repos
from hub_stand_in import StandIn
from hypothesis import settings
from running_app import start_app

settings.register_profile("any machine", deadline=None)  # how long an example takes depends on what else the machine does
settings.load_profile("any machine")

os.environ.setdefault("OMP_NUM_THREADS", "1")
"""Read when torch is imported, here and in the apps that tests start. Test processes share the cores: with a thread for each core in each
of them, threads of small products spin while they wait for one another, and a training step takes eight times the processor time."""

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


FIRST = (
    *("tests/browser/", "tests/app/", "tests/api/", "tests/model/", "tests/service/", "tests/scripts/", "tests/memory/", "tests/live/"),
    *("tests/ui/", "tests/hub/", "tests/speed/", "tests/present/", "tests/advisor/"),
)
"""Folders whose files take longest begin first, so that no process is left alone with one at the end
(`--no-loadscope-reorder` keeps this order)."""
SHARING = frozenset({"tests/api", "tests/browser"})
"""Folders whose tests call one app, and therefore run in one process; elsewhere the tests of a file do. Own apps: tests/app."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Deals out whole files, or whole folders: what their tests share is made once."""
    from xdist.scheduler import LoadScopeScheduling  # noqa: PLC0415 without xdist nobody asks

    class Scheduler(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            folder = file.rpartition("/")[0]
            return folder if folder in SHARING else file

    return Scheduler(config, log)


def _rank(item: pytest.Item) -> int:
    return next((place for place, folder in enumerate(FIRST) if item.nodeid.startswith(folder)), len(FIRST))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long folders first. Without Chromium the tests of the page are skipped, each with the reason; where CI is set, they fail."""
    items.sort(key=_rank)
    if CHROMIUM or os.environ.get("CI"):
        return
    for item in items:
        if item.get_closest_marker("browser"):
            item.add_marker(pytest.mark.skip("no Chromium on PATH: install the package 'chromium'"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[pytest.TestReport]:
    """Show the end of the app's log with a test that failed while it called the app."""
    report: pytest.TestReport = yield
    log = item.funcargs.get("app_log") if isinstance(item, pytest.Function) else None
    if report.failed and log is not None and log.exists():
        report.sections.append(("the app's log", log.read_text(encoding="utf-8", errors="replace")[-6000:]))
    return report


@pytest.fixture(scope="session")
def chromium_path() -> str:
    """Where the system's Chromium is; a test that needs it fails without one."""
    assert CHROMIUM, "no Chromium on PATH: install the package 'chromium', or deselect with -m 'not browser'"
    return CHROMIUM


@pytest.fixture(scope="session", autouse=True)
def _own_ledger(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What tests measure goes to a ledger of theirs, also in apps that they start, never to that of whoever runs them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LEDGER_PATH", str(tmp_path_factory.mktemp("ledger") / "ledger.sqlite3"))
        yield


@pytest.fixture(scope="session")
def stand_in() -> Iterator[StandIn]:
    """The Hub's stand-in that the started app talks to."""
    with StandIn() as hub:
        for repo in demo_repos():
            hub.add(repo)
        yield hub


@pytest.fixture(scope="session")
def demo_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the started app looks for the chat's model; empty until a test puts one there."""
    return tmp_path_factory.mktemp("demo") / "tiny-instruct"


@pytest.fixture(scope="session")
def app_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the started app prints; a test that fails shows its end."""
    return tmp_path_factory.mktemp("app") / "app.log"


@pytest.fixture(scope="session")
def app_url(stand_in: StandIn, demo_folder: Path, app_log: Path) -> Iterator[str]:
    """The address of a started app whose Hub is the stand-in."""
    with start_app(app_log, HF_ENDPOINT=stand_in.url, DEMO_MODEL=str(demo_folder)) as url:
        yield url
