"""What is at hand: cards matched to the catalog by what torch tells, containers' limits, ZeroGPU's two sizes."""

from __future__ import annotations

from pathlib import Path

import pytest

from lib.catalog import load
from lib.catalog.offers import own_hardware
from lib.live import device
from lib.live.device import Card, current_device, device_hardware, match_accelerator, on_zero_gpu, read_host

MIB, GIB = 2**20, 2**30


@pytest.mark.parametrize(
    ("name", "mib", "capability", "sm_count", "known"),
    [
        ("Tesla T4", 14_912, (7, 5), 40, "T4"),
        ("NVIDIA A10G", 22_699, (8, 6), 80, "A10G"),
        ("NVIDIA A10", 22_731, (8, 6), 72, "A10"),
        ("NVIDIA L4", 22_563, (8, 9), 58, "L4"),
        ("NVIDIA L40S", 45_468, (8, 9), 142, "L40S"),
        ("NVIDIA A100-SXM4-80GB", 81_051, (8, 0), 108, "A100-SXM4-80GB"),
        ("NVIDIA A100 80GB PCIe", 81_051, (8, 0), 108, "A100-PCIe-80GB"),
        ("NVIDIA H100 80GB HBM3", 81_079, (9, 0), 132, "H100-SXM"),
        ("NVIDIA H100 PCIe", 81_079, (9, 0), 114, "H100-PCIe"),
        ("NVIDIA H200", 143_156, (9, 0), 132, "H200-SXM"),
        ("NVIDIA H200 MIG 3g.71gb", 71_168, (9, 0), 60, "H200-MIG-3g.71gb"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", 97_250, (12, 0), 188, "RTX-PRO-6000-Blackwell-Server"),
        ("AMD Instinct MI300X", 196_096, None, None, "MI300X"),
        ("Quadro RTX 8000", 48_000, (7, 5), 72, None),  # not in the catalog
        ("NVIDIA H200 MIG 1g.18gb", 16_384, (9, 0), 16, None),  # a slice of another size is another device
        ("NVIDIA", 22_563, (8, 9), 58, None),  # an L4's figures without its name prove nothing
    ],
)
def test_a_card_is_the_catalogs_when_name_memory_and_capability_agree(
    name: str, mib: int, capability: tuple[int, int] | None, sm_count: int | None, known: str | None
) -> None:
    """Names as the driver writes them; memory as torch tells it."""
    card = Card(name=name, memory_bytes=mib * MIB, capability=capability, sm_count=sm_count)
    assert match_accelerator(card, load().accelerators) == known


def _machine(root: Path, files: dict[str, str]) -> Path:
    common = {
        "proc/cpuinfo": "processor\t: 0\nmodel name\t: Some Processor\n",
        "proc/meminfo": f"MemTotal: {64 * 2**20} kB\nMemAvailable: {48 * 2**20} kB\n",  # 64 and 48 GiB
    }
    for name, text in (common | files).items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_without_limits_the_machine_counts(tmp_path: Path) -> None:
    """Memory and free memory of the machine itself."""
    found = read_host(_machine(tmp_path, {}), {})
    assert (found.name, found.memory_bytes, found.free_bytes) == ("Some Processor", 64 * GIB, 48 * GIB)


def test_a_containers_limit_of_version_2_counts(tmp_path: Path) -> None:
    """16 GiB allowed, 6 used of which 2 are caches of files: 16 − 6 + 2 = 12 free; half a processor's time is still one core."""
    limits = {
        "proc/self/cgroup": "0::/\n",
        "sys/fs/cgroup/memory.max": f"{16 * GIB}\n",
        "sys/fs/cgroup/memory.current": f"{6 * GIB}\n",
        "sys/fs/cgroup/memory.stat": f"anon {4 * GIB}\ninactive_file {2 * GIB}\n",
        "sys/fs/cgroup/cpu.max": "50000 100000\n",
    }
    found = read_host(_machine(tmp_path, limits), {})
    assert (found.memory_bytes, found.free_bytes, found.cores) == (16 * GIB, 12 * GIB, 1)


def test_an_outer_groups_limit_of_version_1_counts(tmp_path: Path) -> None:
    """The inner group is unlimited (a number near 2**63), the one around it allows 8 GiB of which 3 are used."""
    limits = {
        "proc/self/cgroup": "4:memory:/outer/inner\n1:cpu:/\n",
        "sys/fs/cgroup/memory/outer/inner/memory.limit_in_bytes": "9223372036854771712",
        "sys/fs/cgroup/memory/outer/inner/memory.usage_in_bytes": f"{GIB}",
        "sys/fs/cgroup/memory/outer/memory.limit_in_bytes": f"{8 * GIB}",
        "sys/fs/cgroup/memory/outer/memory.usage_in_bytes": f"{3 * GIB}",
    }
    found = read_host(_machine(tmp_path, limits), {})
    assert (found.memory_bytes, found.free_bytes) == (8 * GIB, 5 * GIB)


def test_what_spaces_tells_its_container_can_only_lower_the_figures(tmp_path: Path) -> None:
    """CPU_CORES and MEMORY of a Space; text that is no size is passed over."""
    root = _machine(tmp_path, {})
    assert read_host(root, {"CPU_CORES": "1", "MEMORY": "16Gi"}).memory_bytes == 16 * GIB
    assert read_host(root, {"CPU_CORES": "1"}).cores == 1
    assert read_host(root, {"CPU_CORES": "lots", "MEMORY": "999Gi"}).memory_bytes == 64 * GIB


def test_this_machine_has_a_device() -> None:
    """Whatever runs the tests has processors, memory, and some of it free."""
    found = current_device(load())
    assert found.cores >= 1
    assert 0 < found.free_bytes <= found.memory_bytes
    assert found.torch
    assert found.transformers


def test_zero_gpu_is_known_by_its_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """The switch that `spaces` reads; half a card and the whole one, without asking any GPU."""
    monkeypatch.setenv("SPACES_ZERO_GPU", "true")
    half, whole = current_device(load()), current_device(load(), "xlarge")
    assert (half.kind, half.torch_name, whole.kind) == ("zerogpu", "cuda", "zerogpu")
    assert (half.memory_bytes, whole.memory_bytes) == (50_986_975_232, 101_973_950_464)
    assert device_hardware(whole, load(), "xlarge") == load().offer("zero-a10g-xlarge")
    assert not on_zero_gpu({"SPACES_ZERO_GPU": "false"})


def test_a_cuda_device_is_looked_up_and_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """The card by torch's figures, the free memory by the driver's; what the catalog does not hold has no hardware."""
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (20 * GIB, 22 * GIB))
    monkeypatch.setattr(device, "_card", lambda: Card(name="NVIDIA L4", memory_bytes=22_563 * MIB, capability=(8, 9), sm_count=58))
    found = current_device(load())
    assert (found.kind, found.accelerator, found.free_bytes) == ("cuda", "L4", 20 * GIB)
    assert device_hardware(found, load()) == own_hardware(load().accelerator("L4"))
    monkeypatch.setattr(device, "_card", lambda: Card(name="Unheard Of 9", memory_bytes=22_563 * MIB, capability=(8, 9), sm_count=58))
    assert device_hardware(current_device(load()), load()) is None


def test_processors_are_a_typical_shared_host_with_as_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two are the class of cpu-basic itself; any other number is left to the laws to scale."""
    monkeypatch.setattr(device, "_card", lambda: None)
    found = current_device(load())
    two = device_hardware(device.replace(found, cores=2), load())
    five = device_hardware(device.replace(found, cores=5), load())
    assert two is not None
    assert five is not None
    assert two.host_cpu == load().accelerator("CPU-2vCPU")  # type: ignore[union-attr]
    assert (five.host_cpu, five.vcpu) == (None, 5)  # type: ignore[union-attr]
