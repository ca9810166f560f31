"""Processes of this app: logs, environment and memory limit of a child, its end, and the peak memory of a run.

Both sides of a child are here. The app starts it in a process group of its own, which is killed as a whole. Its environment is an explicit
list (no token, no login). The child confines itself: it ends with its parent, and the kernel ends it first when memory runs out. Beyond its
own memory limit an allocation fails, which becomes a sentence; the kernel would end the process without one.
Used by measurements (`lib.live.measure`) and by the resolution of unseen models (`lib.service.build_process`).

Homes of children and copies of rows are temporary folders. A process that is killed removes nothing, so all of them lie in one folder of
the process, named in a file that the process keeps locked. The kernel releases the lock however a process ends; a folder whose lock can be
taken has no owner, and the next process that needs a folder removes it.

The peak of a run: on CUDA what torch's allocator had given out at most (`torch.cuda.max_memory_allocated`), less what it had given out
before. On a CPU the resident set at its highest, less the resident set before the weights. The kernel keeps the highest value itself; where
it does not let it be reset (some sandboxes), a thread looks every few milliseconds.

A line of the log is one JSON object of at most 2 kB. Who reads the log of a Space may not be who uses it: no line holds an address, a text
that a visitor typed or a token. Code that logs leaves out what a caller sent; what libraries write about it is looked through here. A line
is cut, because a visitor may choose how long a message is.
"""

from __future__ import annotations

import atexit
import json
import logging
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from lib.units import MIB

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
    """The folder of this process, made at its first use, when the remains of killed runs are removed."""
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
    """The folder of all runs of this user's; None if somebody else made it, or it cannot be made."""
    base = Path(tempfile.gettempdir()) / f"{_NAME}-{os.getuid() if hasattr(os, 'getuid') else 0}"
    try:
        base.mkdir(mode=0o700, exist_ok=True)
        owner = base.lstat().st_uid
    except OSError:
        return None
    return base if not base.is_symlink() and (not hasattr(os, "getuid") or owner == os.getuid()) else None


def _take(descriptor: int) -> bool:
    """Lock an open file if no other process has; whether it was done."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _remove(lock: Path, process: int) -> None:
    if os.getpid() == process:  # a fork ends too, and the folder is not its own
        shutil.rmtree(lock.with_suffix(""), ignore_errors=True)
        lock.unlink(missing_ok=True)


END_S = 30.0
"""Seconds that a killed process may take until the kernel has taken it away."""
_PASSED_ON = (
    "PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "VIRTUAL_ENV", "LANG", "LC_ALL", "TZ", "CUDA_HOME", "CUDA_PATH", "CUDA_VISIBLE_DEVICES",
    "NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "OMP_NUM_THREADS",
)  # fmt: skip
_BLOCK = MIB
_ROOT = Path(__file__).parents[2]
_FIRST_TO_END = "1000"  # proc(5), oom_score_adj: any process may raise its own


def child_environment(home: str) -> dict[str, str]:
    """The child's environment: where programs and devices are, an empty home, and no token.

    The C library is set to keep little: one arena, and blocks of a megabyte and more are given back at once. A measurement on a CPU reads
    the resident set, and a child that stays shall not grow. (By default freed blocks of up to 32 MB stay with the process: 3 to 6 % of a
    small model, seen on glibc 2.36.)
    """
    own = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    return own | {
        "HOME": home,
        "HF_HOME": home,
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "HF_HUB_DISABLE_IMPLICIT_TOKEN": "1",
        "PYTHONUNBUFFERED": "1",
        "PYTHONWARNINGS": "ignore",
        "TRANSFORMERS_VERBOSITY": "critical",
        "MALLOC_ARENA_MAX": "1",
        "MALLOC_MMAP_THRESHOLD_": str(_BLOCK),
    }


def start_child(command: Sequence[str], variables: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Start a child with pipes for questions (stdin) and answers (stdout); unknown failures go to the app's own log (stderr)."""
    return subprocess.Popen(  # noqa: S603 our own interpreter, a module of ours
        command,
        cwd=_ROOT,
        env=variables,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=None,
        start_new_session=True,
    )


def end_child(child: subprocess.Popen[bytes]) -> None:
    """End the child and every process that it started; its memory is back when this returns."""
    if child.poll() is None:
        with suppress(ProcessLookupError):  # it ended between the two calls
            os.killpg(child.pid, signal.SIGKILL)
        child.wait(timeout=END_S)
    for pipe in (child.stdin, child.stdout):
        if pipe is not None:
            pipe.close()


def answer_descriptor() -> int:
    """In the child: a descriptor for answers. From now on, all output of libraries, also that written past Python, goes to stderr."""
    answers = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return answers


def end_with_parent() -> None:
    """In the child: end when the other side of stdin is gone, in the middle of any work."""
    threading.Thread(target=_wait_for_parent, name="parent", daemon=True).start()


def _wait_for_parent() -> None:
    watch = select.poll()
    watch.register(sys.stdin.fileno(), 0)  # nothing is read here; that the pipe was closed is reported all the same
    watch.poll()
    os._exit(1)


def confine(limit_bytes: int) -> None:
    """In the child: bound its memory (0: no bound) and offer it to the kernel first, where the system has the means.

    The bound is RLIMIT_DATA, private memory that can be written. RLIMIT_AS also counts mapped files, and the libraries of a torch with CUDA
    map several gigabytes. So a limit that protects the machine would forbid the import. The hard limit is set too: code in the child cannot
    raise it again, unless the whole app runs as root.
    """
    try:
        import resource  # noqa: PLC0415 not on every system
    except ImportError:
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if limit_bytes:
        hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
        most = limit_bytes if hard == resource.RLIM_INFINITY else min(limit_bytes, hard)
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    try:
        Path("/proc/self/oom_score_adj").write_text(_FIRST_TO_END, encoding="ascii")
    except OSError:
        return  # another kernel, or a sandbox that forbids it: then the largest process goes first, as ever


_STATUS, _RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")
_RESET_PEAK = "5"  # proc(5): sets the highest resident set to the present one
_LOOK_S = 0.003


def _status(key: str) -> int:
    """A size from /proc/self/status, in bytes."""
    size = re.search(rf"^{key}:\s+(\d+) kB", _STATUS.read_text(encoding="ascii", errors="replace"), re.MULTILINE)
    return int(size[1]) << 10 if size else 0


def resident_bytes() -> int:
    """Bytes that this process holds in memory now."""
    return _status("VmRSS")


class HostGauge:
    """The resident set of this process."""

    def __init__(self, *, kernel: bool = True) -> None:
        """Start from the bytes held now; without `kernel`, a thread looks."""
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


MOST_CHARACTERS = 2_000
_TOKENS = re.compile(r"hf_[^\s\"']{8,}|(?<=Bearer )[^\s\"']+")
_WHERE = re.compile(r'File "[^"]*?([^/"]+/[^/"]+)"')
_CUT = " … "


class LineFormatter(logging.Formatter):
    """A record as one line: when, how bad, who, what, and where it went wrong, the ends of a long text kept."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        line: dict[str, object] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "from": record.name,
        }
        line |= getattr(record, "values", {})
        text = record.getMessage()
        if record.exc_info:
            text += "\n" + self.formatException(record.exc_info)
        if text:
            line["said"] = ""
            line["said"] = _shorten(_WHERE.sub(r'File "\1"', _TOKENS.sub("(token)", text)), MOST_CHARACTERS - len(json.dumps(line)))
        return json.dumps(line, default=str)[:MOST_CHARACTERS]


def _shorten(text: str, most: int) -> str:
    """The beginning and the end of a text whose JSON is too long."""
    short, length = text, len(text)
    while length > 0 and len(json.dumps(short)) > most:
        length = length * 2 // 3
        short = text[: length // 3] + _CUT + text[len(text) - 2 * length // 3 :]
    return short


def write_lines(level: int | None = None) -> None:
    """Have every logger of this process write such lines to stderr: ours from `level` on, those of libraries their errors.

    Warnings of libraries quote the input. None takes the level of the environment (`LOG_LEVEL`), by default `info`: a line for every
    question.
    """
    if level is None:
        configured = logging.getLevelNamesMapping().get(os.environ.get("LOG_LEVEL", "").upper())
        level = logging.INFO if configured is None else configured
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LineFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.ERROR)
    logging.getLogger("lib").setLevel(level)
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access", "huggingface_hub", "transformers"):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True
    logging.captureWarnings(capture=True)
    warnings.filterwarnings("ignore", module="gradio")  # they quote what a visitor sent
