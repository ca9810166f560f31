"""A catalog whose look-up of the hardware `deadly` ends the process, as the kernel does where memory runs out."""

from __future__ import annotations

import os
import signal
from dataclasses import fields
from typing import Any

from lib.catalog import Catalog, load


class DeadlyCatalog(Catalog):
    """Pickled by the name of this module, so it works in a spawned worker."""

    def resolve_offer(self, text: object, platform: Any = None) -> Any:
        """Die of one name."""
        if text == "deadly":
            os.kill(os.getpid(), signal.SIGKILL)
        return super().resolve_offer(text, platform)


def deadly() -> DeadlyCatalog:
    """The bundled catalog, with a trap."""
    catalog = load()
    return DeadlyCatalog(**{field.name: getattr(catalog, field.name) for field in fields(catalog) if field.init})
