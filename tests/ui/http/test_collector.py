"""The collector of garbage while many objects are kept."""

from __future__ import annotations

import gc
import weakref

from lib.ui.http.serve import LOOK_AGAIN_S, spare_survivors


class Ring:
    """An object that only the collector frees."""

    def __init__(self) -> None:
        """It holds itself."""
        self.own = self


def test_what_survives_a_full_collection_is_looked_at_again_after_a_while() -> None:
    """Garbage among it is not found before, and is found then; new garbage is found at once."""
    now = 0.0
    callback = spare_survivors(lambda: now)
    kept, frozen = Ring(), gc.get_freeze_count()
    gone = weakref.ref(kept)
    gc.callbacks.append(callback)
    try:
        gc.collect()
        assert gc.get_freeze_count() > frozen
        del kept
        new = weakref.ref(Ring())
        gc.collect()
        assert (gone() is None, new() is None) == (False, True)
        now = LOOK_AGAIN_S
        gc.collect()
        assert gone() is None
    finally:
        gc.callbacks.remove(callback)
        gc.unfreeze()
