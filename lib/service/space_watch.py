"""A Space watched on its way: polled until it runs on the hardware that was asked for, or until an error stage; never for ever.

A stage that rests counts at once when the Space reached it under our eyes; one that was there from the start may still be the stage
before the action, and gets some seconds. The Hub may fail to answer a few times in a row; that is told, and tried again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace

from lib.advisor.space_rules import stage
from lib.answers.spaces import Progress
from lib.catalog import Catalog
from lib.errors import HubError, HubGarbage, HubUnreachable, RateLimited
from lib.hub.spaces import Runtime, Space, Spaces
from lib.service.space_answer import is_changing, status_answer

FIRST_S, LONGEST_S, GROWTH = 2.0, 10.0, 1.15  # between two looks: 2 s at first, 10 s after about a minute
CROWDED_S = 30.0
BEAT_S = 15.0
GRACE_S = 30.0
FAILURES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Time:
    """A clock in seconds, and how to wait."""

    clock: Callable[[], float]
    sleep: Callable[[float], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class _View:
    """What is known of the Space; `failures` looks in a row went wrong, the last one by `trouble`."""

    space: Space
    failures: int = 0
    trouble: HubError | None = None

    def next(self, look: Callable[[], Runtime]) -> _View:
        """After one more look.

        Raises:
            HubError: the Hub refuses, or failed too often in a row.
        """
        try:
            seen = look()
        except (HubUnreachable, HubGarbage, RateLimited) as trouble:
            if self.failures >= FAILURES:
                raise
            return replace(self, failures=self.failures + 1, trouble=trouble)
        now = {field.name: getattr(seen, field.name) for field in fields(Runtime) if field.name != "id"}
        return _View(space=replace(self.space, **now))

    def arrived(self, hardware: str | None) -> bool:
        """Whether it runs on what was asked for; without a name, on what the Hub says was asked for."""
        at = self.space
        return self.trouble is None and stage(at.stage).running and not is_changing(at) and hardware in {None, at.hardware}

    @property
    def rests(self) -> bool:
        """Whether nothing more will happen by itself, as far as this look tells."""
        at = stage(self.space.stage)
        return self.trouble is None and at.settled and not (at.running and is_changing(self.space))


def watched(
    spaces: Spaces, space_id: str, hardware: str | None, seconds: float, catalog: Callable[[], Catalog], time: Time
) -> Iterator[Progress]:
    """The Space at each change and at least every 15 s; the last item is `done`: arrived, at rest elsewhere, or `seconds` are over.

    Raises:
        HubError: the Hub refuses, or failed to answer too often in a row.
    """
    began = time.clock()
    view = first = _View(space=spaces.look(space_id))
    shown: _View | None = None
    told = looked = began
    pause = FIRST_S
    while True:
        now = time.clock()
        arrived = view.arrived(hardware)
        left = view.space.stage != first.space.stage or now - began >= GRACE_S
        done = arrived or (view.rests and left and not stage(view.space.stage).running) or now - began >= seconds
        done = done or (view.rests and now - began >= GRACE_S)  # it runs, and not on what was asked for
        if done or view != shown or now - told >= BEAT_S:
            yield _progress(view, catalog(), now - began, done=done, arrived=arrived)
            shown, told = view, time.clock()
        if done:
            return
        due = looked + (CROWDED_S if isinstance(view.trouble, RateLimited) else pause)
        time.sleep(max(0.05, min(due, told + BEAT_S, began + seconds) - time.clock()))
        if time.clock() >= due:
            view, looked, pause = view.next(lambda: spaces.runtime(space_id)), time.clock(), min(LONGEST_S, pause * GROWTH)


def _progress(view: _View, catalog: Catalog, elapsed_s: float, *, done: bool, arrived: bool) -> Progress:
    trouble = None if view.trouble is None else str(view.trouble)
    return {
        **status_answer(view.space, catalog),
        "elapsed_s": round(elapsed_s, 1),
        "done": done,
        "arrived": arrived,
        "trouble": trouble,
    }
