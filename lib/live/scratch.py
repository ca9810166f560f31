"""Temporary folders of this app, and those that a killed run left behind.

A process that is killed removes nothing: homes of child processes and copies of rows stayed in the system's folder for temporary files, run
after run. So all of them lie in one folder of the process, which is named in a file that the process keeps locked. The kernel lets the
lock go however a process ends; a folder whose lock can be taken is nobody's, and the next process that needs a folder removes it.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path

try:
    import fcntl
except ImportError:  # another system than Linux or macOS: nothing is told from what is in use, and nothing is removed
    fcntl = None  # type: ignore[assignment]

_NAME = "spaces-hardware-advisor"
_LOCK = ".lock"
_locks: list[int] = []
"""Descriptors that keep the locks of this process until it ends."""


@cache
def scratch_folder() -> Path:
    """The folder of this process, made when it is first asked for; what killed runs left is removed then."""
    base = _base()
    if base is None or fcntl is None:
        return Path(tempfile.mkdtemp(prefix=f"{_NAME}-"))
    remove_leftovers(base)
    descriptor, lock = tempfile.mkstemp(suffix=_LOCK, dir=base)
    while not (_take(descriptor) and os.path.exists(lock)):  # noqa: PTH110  taken away by a process that starts at the same moment
        os.close(descriptor)
        descriptor, lock = tempfile.mkstemp(suffix=_LOCK, dir=base)
    _locks.append(descriptor)
    folder = Path(lock).with_suffix("")
    folder.mkdir(mode=0o700)
    atexit.register(_remove, Path(lock), os.getpid())
    return folder


def remove_leftovers(base: Path) -> None:
    """Remove the folders in `base` that no process keeps."""
    for lock in base.glob(f"*{_LOCK}"):
        with suppress(OSError):  # another process removes it now
            descriptor = os.open(lock, os.O_RDWR | os.O_NOFOLLOW)
            try:
                if _take(descriptor):
                    shutil.rmtree(lock.with_suffix(""), ignore_errors=True)
                    lock.unlink(missing_ok=True)
            finally:
                os.close(descriptor)


def _base() -> Path | None:
    """The folder of all runs of this user's; None where somebody else made it, or it cannot be made."""
    base = Path(tempfile.gettempdir()) / f"{_NAME}-{os.getuid() if hasattr(os, 'getuid') else 0}"
    try:
        base.mkdir(mode=0o700, exist_ok=True)
        owner = base.lstat().st_uid
    except OSError:
        return None
    return base if not base.is_symlink() and (not hasattr(os, "getuid") or owner == os.getuid()) else None


def _take(descriptor: int) -> bool:
    """Lock an open file, if nobody has; whether it was done."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _remove(lock: Path, process: int) -> None:
    if os.getpid() == process:  # a fork ends too, and the folder is not its own
        shutil.rmtree(lock.with_suffix(""), ignore_errors=True)
        lock.unlink(missing_ok=True)
