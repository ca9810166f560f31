"""The device that this process runs on: the host (CPUs, memory), a CUDA device, or the GPU that ZeroGPU lends to a decorated function.

The owner of a Space may switch its hardware at any time, which restarts the app, so the device is detected and never configured.
A container (cgroup, version 1 or 2) usually gets less than the machine has; the smaller figure counts. On systems other than Linux the
sizes come from `os.sysconf`, and all memory counts as free.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Literal

from lib.answers.live import DeviceEntry
from lib.catalog import Catalog
from lib.catalog.offers import ZEROGPU_OFFERS, Hardware, ZeroGpuSizeName, own_hardware
from lib.catalog.silicon import Accelerator
from lib.platforms import PER_CALL
from lib.units import Bytes

IMPORT_LOCK = threading.RLock()
"""Held while torch or transformers is imported for the first time: of two threads that do so at once, one may get a half-made module
("cannot import name 'AutoModelForCausalLM'")."""

_NO_LIMIT = 1 << 60  # version 1 writes a number near 2**63 where nothing is limited
_V2, _V1 = ("memory.max", "memory.current", "inactive_file"), ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """Processors and bytes of memory that this process may use; `free_bytes` can be allocated now; file caches count as free."""

    name: str
    cores: int
    memory_bytes: int
    free_bytes: int


def _text(path: Path) -> str:
    """The file's text, "" if there is none or it may not be read: the kernel shows each container something else."""
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
    """Bytes of the processor's last cache, as the kernel states it; 0 if it does not."""
    sizes = [re.fullmatch(r"(\d+)([KM])", _text(path).strip()) for path in (root / "sys/devices/system/cpu/cpu0/cache").glob("index*/size")]
    return max((int(size[1]) << {"K": 10, "M": 20}[size[2]] for size in sizes if size), default=0)


@cache
def copies_head(precision: str) -> bool:
    """Whether this processor copies the output projection for the logits of the last token of a prompt.

    Torch computes products in bf16 with oneDNN on processors with AVX-512, which copies the weight for one row out of several. Growth
    of the process in such a product (torch 2.13, EPYC, 2026-11-26): 74 MiB for 73.6 MiB (GPT-2), 54 for 54.0 (SmolLM2-135M), 297 for
    296.8 (Qwen3-0.6B); none with fp16 or fp32, and none for a single row.
    """
    if precision != "bf16":
        return False
    import torch  # noqa: PLC0415 loaded when first needed

    return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())  # noqa: SLF001 torch asks this before it takes oneDNN


def _quota(root: Path) -> float:
    """Processors' worth of time that the container gets; infinite without a limit."""
    new = _text(root / "sys/fs/cgroup/cpu.max").split()
    old = [_text(root / f"sys/fs/cgroup/cpu/cpu.cfs_{name}_us").strip() for name in ("quota", "period")]
    for pair in (new, old):
        if len(pair) == 2 and all(n.isdigit() and int(n) > 0 for n in pair):  # noqa: PLR2004 time and period
            return int(pair[0]) / int(pair[1])
    return float("inf")


def read_host(root: Path = Path("/"), environment: Mapping[str, str] = os.environ) -> Host:
    """Memory that this process may use now.

    `CPU_CORES` and `MEMORY` are what Spaces writes into a container's environment ("2", "16Gi"); they can only lower the figures.
    `root` is where /proc and /sys are read.
    """
    match = re.search(r"^model name\s*:\s*(.+)$", _text(root / "proc/cpuinfo"), re.MULTILINE)
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    stated = environment.get("CPU_CORES", "")
    cores = min(allowed, _quota(root), float(stated) if re.fullmatch(r"\d+(\.\d+)?", stated) else float("inf"))
    sizes = {name: kib << 10 for name, kib in _counts(_text(root / "proc/meminfo")).items()}
    whole = sizes.get("MemTotal") or os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limits = list(_limits(root))
    size = re.fullmatch(r"(\d+)Gi", environment.get("MEMORY", ""))
    memory = min([whole, *(limit for limit, _ in limits), *([int(size[1]) << 30] if size else [])])
    free = min([sizes.get("MemAvailable", whole), memory, *(free for _, free in limits)])
    return Host(name=match[1].strip() if match else "CPU", cores=max(1, int(cores)), memory_bytes=memory, free_bytes=free)


Size = ZeroGpuSizeName


_NEAR = 0.08  # drivers show a little less memory than a card has, by version
_PLAIN = frozenset({"nvidia", "amd", "tesla", "geforce", "instinct", "quadro", "graphics"})
_MEMORY = re.compile(r"\d+gb?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Device(DeviceEntry):
    """A card, or the processors of the host."""

    free_bytes: int
    """Free memory when it was looked at."""
    capability: tuple[int, int] | None
    """CUDA compute capability; None without CUDA."""

    @property
    def per_call(self) -> bool:
        """Whether ZeroGPU lends it to one call at a time, on the visitor's quota."""
        return self.kind in PER_CALL

    @property
    def torch_name(self) -> Literal["cpu", "cuda"]:
        """Torch's name for it."""
        return "cpu" if self.kind == "cpu" else "cuda"


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """Properties of a CUDA device as torch reports them (or a ROCm one, whose capability is not a CUDA figure)."""

    name: str
    memory_bytes: int
    capability: tuple[int, int] | None
    sm_count: int | None


def _words(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"[a-z0-9]+", text.lower())) - _PLAIN


def match_accelerator(card: Card, accelerators: Mapping[str, Accelerator]) -> str | None:
    """The catalog's id of a card: same capability and processors, nearly the same memory, and the model's number in the name."""
    best: tuple[int, float, str] | None = None
    for accelerator in accelerators.values():
        if accelerator.kind != "gpu" or accelerator.memory_usable is None:
            continue
        if accelerator.compute_capability and card.capability and accelerator.compute_capability != card.capability:
            continue
        if accelerator.sm_count and card.sm_count and accelerator.sm_count != card.sm_count:
            continue
        apart = abs(accelerator.memory_usable / card.memory_bytes - 1)
        shared = _words(card.name) & (_words(accelerator.id) | _words(accelerator.name))
        if apart > _NEAR or not any(re.search(r"\d", word) and not _MEMORY.fullmatch(word) for word in shared):
            continue
        best = max(best or (0, -1.0, ""), (len(shared), -apart, accelerator.id))
    return best[2] if best else None


def on_zero_gpu(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether this Space runs on ZeroGPU, read as the `spaces` package reads it."""
    return environment.get("SPACES_ZERO_GPU", "").lower() in {"1", "t", "true"}


def _version(package: str) -> str:
    """The installed version without importing the package; "" if it is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


@cache
def _driver() -> str | None:
    try:
        text = Path("/proc/driver/nvidia/version").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    match = re.search(r"\b(\d{3}\.\d+(?:\.\d+)?)\b", text)
    return match[1] if match else None


def device_kind() -> Literal["cpu", "cuda", "zerogpu"]:
    """The local device, as the system reports it; torch is not asked."""
    return "zerogpu" if on_zero_gpu() else "cuda" if _driver() else "cpu"


@cache
def _card() -> Card | None:
    """The CUDA device of this process, None without one; imports torch."""
    with IMPORT_LOCK:
        import torch  # noqa: PLC0415 loaded when first needed

    if not torch.cuda.is_available():
        return None
    properties = torch.cuda.get_device_properties(0)
    cuda = torch.version.hip is None
    return Card(
        name=properties.name,
        memory_bytes=properties.total_memory,
        capability=(properties.major, properties.minor) if cuda else None,
        sm_count=properties.multi_processor_count if cuda else None,
    )


def current_device(catalog: Catalog, size: Size = "large") -> Device:
    """The device as it is now; on ZeroGPU, the one that a call of this size will get, as the catalog knows it.

    The first call imports torch. On CUDA, asking for the free memory creates the process's context on the card.
    """
    machine = read_host()
    base = Device(
        kind="cpu",
        name=machine.name,
        accelerator=None,
        memory_bytes=machine.memory_bytes,
        free_bytes=machine.free_bytes,
        capability=None,
        cores=machine.cores,
        driver=_driver(),
        torch=_version("torch"),
        transformers=_version("transformers"),
    )
    if on_zero_gpu():
        return _zero_gpu(base, catalog, size)
    card = _card()
    if card is None:
        return base
    import torch  # noqa: PLC0415 loaded above

    free, accelerator = torch.cuda.mem_get_info(0)[0], match_accelerator(card, catalog.accelerators)
    on_card = replace(base, kind="cuda", name=card.name, accelerator=accelerator, capability=card.capability)
    return replace(on_card, memory_bytes=card.memory_bytes, free_bytes=free)


def _zero_gpu(base: Device, catalog: Catalog, size: Size) -> Device:
    """GPU of a call of this size, from the catalog: outside a decorated function no GPU can be asked."""
    offer = catalog.offer(ZEROGPU_OFFERS[size])
    silicon, memory = offer.silicon, offer.vram_bytes_per_accelerator
    assert silicon is not None, "ZeroGPU has a GPU"  # noqa: S101 a row of our own catalog
    assert memory is not None, "whose memory is known"  # noqa: S101 as above
    name = f"ZeroGPU {size} ({silicon.name})"
    on_card = replace(base, kind="zerogpu", name=name, accelerator=silicon.id, capability=silicon.compute_capability)
    return replace(on_card, memory_bytes=memory, free_bytes=memory)


def device_hardware(device: Device, catalog: Catalog, size: Size = "large", cpu: Accelerator | None = None) -> Hardware | None:
    """The device as the laws of memory and speed take it; None if nothing is known about the card.

    A CPU is `cpu`, such as one whose rates were measured (`lib.live.limits`); else a shared host with these many processors.
    """
    if device.per_call:
        return catalog.offer(ZEROGPU_OFFERS[size])
    if device.accelerator is not None:
        return own_hardware(catalog.accelerator(device.accelerator))
    if device.kind == "cuda":
        return None
    host_class = catalog.offer("cpu-basic")
    exact = host_class.vcpu == device.cores
    host_cpu = cpu or (host_class.host_cpu if exact else None)
    return host_class.model_copy(update={"host_cpu": host_cpu, "vcpu": device.cores, "ram_bytes": Bytes(device.memory_bytes)})
