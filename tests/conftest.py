"""A really started app, for the tests that call it from outside."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hub_repos import demo_repos
from hub_stand_in import StandIn
from running_app import started


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
