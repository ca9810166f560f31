"""The stages of a Space: in plain words, whether they last, and whether they are billed.

Billed is what is Starting or Running, used or not; builds, sleep and pause are not. While a running Space builds its next version the
old one goes on, and is billed. A stage that is not in the table is passed on as text, with nothing said about it.
Sources: huggingface_hub 2.4.0 `SpaceStage`, the JavaScript client (SLEEPING); billing: hub-docs spaces-gpus.md of 2026-07-21.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A stage. `settled`: it does not change by itself; `failed`: an error to look at; `billed`: `None` where nobody knows."""

    name: str
    words: str
    settled: bool = False
    failed: bool = False
    billed: bool | None = False

    @property
    def running(self) -> bool:
        """Whether the app answers, with nothing in preparation."""
        return self.name == "RUNNING"


_STAGES = (
    Stage(name="RUNNING", words="It is running.", settled=True, billed=True),
    Stage(name="RUNNING_BUILDING", words="It is running, and its next version is being built.", billed=True),
    Stage(name="RUNNING_APP_STARTING", words="It is running, and its next version is starting.", billed=True),
    Stage(name="BUILDING", words="It is being built."),
    Stage(name="APP_STARTING", words="The app is starting.", billed=True),
    Stage(name="SLEEPING", words="It is asleep; a visit wakes it.", settled=True),
    Stage(name="PAUSED", words="It is paused; only its owner can restart it.", settled=True),
    Stage(name="STOPPED", words="It is stopped.", settled=True),
    Stage(name="DELETING", words="It is being deleted.", settled=True),
    Stage(name="NO_APP_FILE", words="It has no app file yet: push one.", settled=True, failed=True),
    Stage(name="CONFIG_ERROR", words="The configuration in its README.md is wrong.", settled=True, failed=True),
    Stage(name="BUILD_ERROR", words="The build failed: its build log says why.", settled=True, failed=True),
    Stage(name="RUNTIME_ERROR", words="The app ended with an error: its log says why.", settled=True, failed=True),
)
STAGES = MappingProxyType({stage.name: stage for stage in _STAGES})


def stage(name: str) -> Stage:
    """The stage of this name; an unknown one is kept as text."""
    return STAGES.get(name) or Stage(name=name, words=f"Its stage is {name}, which is not known here.", billed=None)
