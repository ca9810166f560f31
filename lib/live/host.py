"""The machine this process may use: processors and memory, as the kernel and the container's limits state them.

A container (cgroup, version 1 or 2) usually gets less than the machine has; the smaller of the two counts. Linux only: elsewhere the
sizes come from `os.sysconf`, and what is free is taken to be all of it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

_NO_LIMIT = 1 << 60  # version 1 writes a number near 2**63 where nothing is limited
_V2, _V1 = ("memory.max", "memory.current", "inactive_file"), ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """Processors and bytes of memory that this process may use; `free_bytes` is what can be taken now, caches of files given back."""

    name: str
    cores: int
    memory_bytes: int
    free_bytes: int


def _text(path: Path) -> str:
    """The file's text, "" where there is none or it may not be read: the kernel shows each container something else."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _counts(text: str) -> dict[str, int]:
    """Lines of a name and a number, such as /proc/meminfo and memory.stat, in the units of the file."""
    return {m[1]: int(m[2]) for m in re.finditer(r"^(\w+):?\s+(\d+)", text, re.MULTILINE)}


def _groups(root: Path) -> Iterator[tuple[Path, tuple[str, str, str]]]:
    """Folders of the control groups that hold this process, innermost first, with the names of the files that state memory."""
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if controllers == "memory":
            mount, names = root / "sys/fs/cgroup/memory", _V1
        elif controllers == "":
            mount, names = root / "sys/fs/cgroup", _V2
        else:
            continue
        inner = mount / path.strip("/")
        # Inside a container the path may be the one outside of it; then the mount itself is the group.
        for folder in (inner, *inner.parents):
            if folder == mount or mount in folder.parents:
                yield folder, names


def _limits(root: Path) -> Iterator[tuple[int, int]]:
    """Limit and free bytes of each control group that limits memory."""
    for folder, (limit_name, used_name, cached_name) in _groups(root):
        limit, used = _text(folder / limit_name).strip(), _text(folder / used_name).strip()
        if limit.isdigit() and used.isdigit() and int(limit) < _NO_LIMIT:
            cached = _counts(_text(folder / "memory.stat")).get(cached_name, 0)
            yield int(limit), max(0, int(limit) - int(used) + cached)


def last_cache_bytes(root: Path = Path("/")) -> int:
    """Bytes of the processor's last cache, as the kernel states it; 0 where it does not."""
    sizes = [re.fullmatch(r"(\d+)([KM])", _text(path).strip()) for path in (root / "sys/devices/system/cpu/cpu0/cache").glob("index*/size")]
    return max((int(size[1]) << {"K": 10, "M": 20}[size[2]] for size in sizes if size), default=0)


def _quota(root: Path) -> float:
    """Processors' worth of time that the container gets; infinite without a limit."""
    new = _text(root / "sys/fs/cgroup/cpu.max").split()
    old = [_text(root / f"sys/fs/cgroup/cpu/cpu.cfs_{name}_us").strip() for name in ("quota", "period")]
    for pair in (new, old):
        if len(pair) == 2 and all(n.isdigit() and int(n) > 0 for n in pair):  # noqa: PLR2004 time and period
            return int(pair[0]) / int(pair[1])
    return float("inf")


def host(root: Path = Path("/"), environment: Mapping[str, str] = os.environ) -> Host:
    """What this process may use now.

    `CPU_CORES` and `MEMORY` are what Spaces writes into a container's environment ("2", "16Gi"); they can only lower the figures.
    `root` is where /proc and /sys are read.
    """
    found = re.search(r"^model name\s*:\s*(.+)$", _text(root / "proc/cpuinfo"), re.MULTILINE)
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    told = environment.get("CPU_CORES", "")
    cores = min(allowed, _quota(root), float(told) if re.fullmatch(r"\d+(\.\d+)?", told) else float("inf"))
    sizes = {name: kib << 10 for name, kib in _counts(_text(root / "proc/meminfo")).items()}
    whole = sizes.get("MemTotal") or os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limits = list(_limits(root))
    size = re.fullmatch(r"(\d+)Gi", environment.get("MEMORY", ""))
    memory = min([whole, *(limit for limit, _ in limits), *([int(size[1]) << 30] if size else [])])
    free = min([sizes.get("MemAvailable", whole), memory, *(free for _, free in limits)])
    return Host(name=found[1].strip() if found else "CPU", cores=max(1, int(cores)), memory_bytes=memory, free_bytes=free)
