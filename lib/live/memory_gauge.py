"""How much memory a run took at its fullest moment.

CUDA: what torch's allocator had given out at most (`torch.cuda.max_memory_allocated`), less what it had given out before. CPU: the
resident set at its highest, less the resident set before the weights. The kernel keeps the highest value itself; where it does not let
it be reset (some sandboxes), a thread looks every few milliseconds.
"""

from __future__ import annotations

import re
import threading
from pathlib import Path

_STATUS, _RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")
_RESET_PEAK = "5"  # proc(5): sets the highest resident set to the present one
_LOOK_S = 0.003


def _status(key: str) -> int:
    """A size from /proc/self/status, in bytes."""
    found = re.search(rf"^{key}:\s+(\d+) kB", _STATUS.read_text(encoding="ascii", errors="replace"), re.MULTILINE)
    return int(found[1]) << 10 if found else 0


def resident_bytes() -> int:
    """Bytes that this process holds in memory now."""
    return _status("VmRSS")


class HostGauge:
    """The resident set of this process."""

    def __init__(self, *, kernel: bool = True) -> None:
        """Start from what is held now; without `kernel`, a thread looks."""
        self.before = resident_bytes()
        self._kernel = kernel and self._reset()
        self._highest = 0
        self._done = threading.Event()
        if not self._kernel:
            threading.Thread(target=self._look, name="resident", daemon=True).start()

    @staticmethod
    def _reset() -> bool:
        try:
            _RESET.write_text(_RESET_PEAK, encoding="ascii")
        except OSError:
            return False
        return True

    def _look(self) -> None:
        while not self._done.wait(_LOOK_S):
            self._highest = max(self._highest, resident_bytes())

    def restart(self) -> None:
        """Forget the highest value so far."""
        self._highest = 0
        if self._kernel:
            self._reset()

    def peak(self) -> int:
        """The highest value since the last restart."""
        highest = _status("VmHWM") if self._kernel else max(self._highest, resident_bytes())
        return max(0, highest - self.before)

    def count_bytes(self) -> int:
        """The bytes held now."""
        return max(0, resident_bytes() - self.before)

    def close(self) -> None:
        """Stop looking."""
        self._done.set()


class CudaGauge:
    """Bytes that torch's allocator has given out on the card."""

    def __init__(self) -> None:
        import torch  # noqa: PLC0415 loaded when first needed

        self._cuda = torch.cuda
        self.before = torch.cuda.memory_allocated()

    def restart(self) -> None:
        """Forget the highest value so far."""
        self._cuda.reset_peak_memory_stats()

    def peak(self) -> int:
        """The highest value since the last restart."""
        return max(0, int(self._cuda.max_memory_allocated()) - self.before)

    def count_bytes(self) -> int:
        """The bytes held now."""
        return max(0, int(self._cuda.memory_allocated()) - self.before)

    def close(self) -> None:
        """Nothing to stop."""
