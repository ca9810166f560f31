"""A really started app, for the tests that call it from outside; which tests a machine can run, and which of them stay together."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from hub_repos import demo_repos
from hub_stand_in import StandIn
from running_app import started

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that call the same app run in one process, and so do the tests of one file: what they share is made once.

    Without Chromium the tests of the page are skipped, each with its name and the reason; in CI, where CI is set, they fail.
    """
    for item in items:
        module = item.getparent(pytest.Module)
        assert module is not None
        shares_app = "app_url" in getattr(item, "fixturenames", ()) and not hasattr(module.obj, "app_url")
        item.add_marker(pytest.mark.xdist_group("app" if shares_app else module.path.stem))
        if item.get_closest_marker("browser") and not CHROMIUM and not os.environ.get("CI"):
            item.add_marker(pytest.mark.skip("no Chromium on PATH: install the package 'chromium'"))


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
def app_url(stand_in: StandIn, demo_folder: Path) -> Iterator[str]:
    """The address of a started app whose Hub is the stand-in."""
    with started(HF_ENDPOINT=stand_in.url, DEMO_MODEL=str(demo_folder)) as url:
        yield url
