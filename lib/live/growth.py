"""How much memory this process grew by during a stretch of work, from the kernel's own high-water mark. Linux.

Freed pages are given back first, for memory that the process already holds would be taken again unseen. Whatever else the process does
meanwhile is counted too.
Source: proc(5), /proc/pid/clear_refs (5 resets VmHWM) and /proc/pid/status; malloc_trim(3).
"""

from __future__ import annotations

import ctypes
import gc
import re
from pathlib import Path

_SELF = Path("/proc/self")


def _status(name: str) -> int:
    found = re.search(rf"^{name}:\s+(\d+) kB", (_SELF / "status").read_text(encoding="utf-8"), re.MULTILINE)
    return int(found[1]) << 10 if found else 0


class Growth:
    """Begins to watch when it is made."""

    def __init__(self) -> None:
        gc.collect()
        try:
            ctypes.CDLL("libc.so.6").malloc_trim(0)
            (_SELF / "clear_refs").write_text("5", encoding="utf-8")
            self._before: int | None = _status("VmRSS")
        except (OSError, AttributeError):  # another C library, or a container whose kernel does not let a process reset its mark
            self._before = None

    @property
    def peak_bytes(self) -> int | None:
        """The most that was held at once beyond what was held at the start; None where the kernel does not tell."""
        return None if self._before is None else max(0, _status("VmHWM") - self._before)
