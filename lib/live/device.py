"""What is at hand: this machine's processors, its CUDA device, or ZeroGPU's, which is only there inside a decorated function.

The owner of a Space may switch its hardware at any time, which starts the app anew: so the device is looked at, never configured.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Literal

from lib.catalog import Catalog, load
from lib.catalog.offers import Offer
from lib.catalog.silicon import Accelerator, Cards
from lib.live.host import host
from lib.units import Bytes

Kind = Literal["cpu", "cuda", "zerogpu"]
Size = Literal["large", "xlarge"]

OFFERS: Mapping[Size, str] = {"large": "zero-a10g", "xlarge": "zero-a10g-xlarge"}
"""The catalog's rows of ZeroGPU by the size that a call asks for."""

_NEAR = 0.08  # drivers show a little less memory than a card has, by version
_PLAIN = frozenset({"nvidia", "amd", "tesla", "geforce", "instinct", "quadro", "graphics"})
_MEMORY = re.compile(r"\d+gb?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """One device, or the processors of the host.

    `accelerator` is the catalog's id of the silicon, None for a CPU and for a card that the catalog does not hold. `free_bytes` was true
    when it was looked at. `cores` are the host's. `driver` is NVIDIA's, None without one.
    """

    kind: Kind
    name: str
    accelerator: str | None
    memory_bytes: int
    free_bytes: int
    capability: tuple[int, int] | None
    cores: int
    driver: str | None
    torch: str
    transformers: str

    @property
    def torch_name(self) -> Literal["cpu", "cuda"]:
        """What torch calls it."""
        return "cpu" if self.kind == "cpu" else "cuda"


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """What torch tells about a CUDA device (or a ROCm one, whose capability is no CUDA figure)."""

    name: str
    memory_bytes: int
    capability: tuple[int, int] | None
    sm_count: int | None


def _words(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"[a-z0-9]+", text.lower())) - _PLAIN


def matched(card: Card, accelerators: Mapping[str, Accelerator]) -> str | None:
    """The catalog's id of a card: same capability and processors, nearly the same memory, and the model's number in the name."""
    best: tuple[int, float, str] | None = None
    for known in accelerators.values():
        if known.kind != "gpu" or known.memory_usable is None:
            continue
        if known.compute_capability and card.capability and known.compute_capability != card.capability:
            continue
        if known.sm_count and card.sm_count and known.sm_count != card.sm_count:
            continue
        apart = abs(known.memory_usable / card.memory_bytes - 1)
        shared = _words(card.name) & (_words(known.id) | _words(known.name))
        if apart > _NEAR or not any(re.search(r"\d", word) and not _MEMORY.fullmatch(word) for word in shared):
            continue
        best = max(best or (0, -1.0, ""), (len(shared), -apart, known.id))
    return best[2] if best else None


def on_zero_gpu(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether this Space runs on ZeroGPU, read as the `spaces` package reads it."""
    return environment.get("SPACES_ZERO_GPU", "").lower() in {"1", "t", "true"}


def _version(package: str) -> str:
    """The installed version without importing the package; "" where it is not installed."""
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
    found = re.search(r"\b(\d{3}\.\d+(?:\.\d+)?)\b", text)
    return found[1] if found else None


@cache
def _card() -> Card | None:
    """The CUDA device of this process, None without one; imports torch."""
    import torch  # noqa: PLC0415 loaded when first needed

    if not torch.cuda.is_available():
        return None
    told = torch.cuda.get_device_properties(0)
    cuda = torch.version.hip is None
    return Card(
        name=told.name,
        memory_bytes=told.total_memory,
        capability=(told.major, told.minor) if cuda else None,
        sm_count=told.multi_processor_count if cuda else None,
    )


def at_hand(size: Size = "large") -> Device:
    """The device as it is now; on ZeroGPU, the one that a call of this size will get.

    The first call imports torch. On CUDA, asking what is free creates the process's context on the card.
    """
    machine = host()
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
        return _zero_gpu(base, size)
    card = _card()
    if card is None:
        return base
    import torch  # noqa: PLC0415 loaded above

    free, known = torch.cuda.mem_get_info(0)[0], matched(card, load().accelerators)
    on_card = replace(base, kind="cuda", name=card.name, accelerator=known, capability=card.capability)
    return replace(on_card, memory_bytes=card.memory_bytes, free_bytes=free)


def _zero_gpu(base: Device, size: Size) -> Device:
    """What a call of this size gets, as the catalog knows it: outside a decorated function no GPU can be asked."""
    offer = load().offer(OFFERS[size])
    silicon, memory = offer.silicon, offer.vram_bytes_per_accelerator
    assert silicon is not None, "ZeroGPU has a GPU"  # noqa: S101 a row of our own catalog
    assert memory is not None, "whose memory is known"  # noqa: S101 as above
    name = f"ZeroGPU {size} ({silicon.name})"
    on_card = replace(base, kind="zerogpu", name=name, accelerator=silicon.id, capability=silicon.compute_capability)
    return replace(on_card, memory_bytes=memory, free_bytes=memory)


def hardware(device: Device, catalog: Catalog, size: Size = "large", cpu: Accelerator | None = None) -> Offer | Cards | None:
    """The device as the laws of memory and speed take it; None where nothing is known about the card.

    A CPU is `cpu`, such as one whose rates were measured (`lib.live.processor`); else a shared host with these many processors.
    """
    if device.kind == "zerogpu":
        return catalog.offer(OFFERS[size])
    if device.accelerator is not None:
        return Cards(silicon=catalog.accelerator(device.accelerator))
    if device.kind == "cuda":
        return None
    host_class = catalog.offer("cpu-basic")
    exact = host_class.vcpu == device.cores
    known = cpu or (host_class.host_cpu if exact else None)
    return replace(host_class, host_cpu=known, vcpu=device.cores, ram_bytes=Bytes(device.memory_bytes))
