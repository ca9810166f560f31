"""GPU and TPU side by side: what differs, with the figures of the parts that this catalog rents out today.

Words on execution and fit follow docs.cloud.google.com/compute/docs/tpus/overview (read 2026-11-22); every figure comes from the catalog.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from lib.answers.gpu_tpu import PropertyEntry
from lib.catalog import Catalog
from lib.catalog.offers import Offer
from lib.catalog.silicon import PEAK_DTYPES, Accelerator
from lib.present.cards import PLATFORM_NAMES
from lib.present.numbers import gib, usd


def list_properties(catalog: Catalog) -> list[PropertyEntry]:
    """The rows of the table, for the cards and chips that are offered today."""
    gpus, tpus = _offered(catalog, "gpu"), _offered(catalog, "tpu")
    gpu, tpu = _silicon(gpus), _silicon(tpus)
    rows = (
        (
            "Execution",
            "Thousands of threads run kernels that are launched one by one; shapes and branches may change at any time.",
            "Matrix units run one program that XLA compiled for fixed shapes; another shape is another compilation.",
        ),
        (
            "Best at",
            "Mixed and irregular work, kernels of one's own, small batches, low latency, experiments.",
            "Large dense matrix products in large, regular batches; long training; thousands of chips.",
        ),
        ("Memory", _range(gpu, _memory), _range(tpu, _memory)),
        ("Memory bandwidth", _range(gpu, _bandwidth), _range(tpu, _bandwidth)),
        ("Dense bf16", _range([card for card in gpu if card.peak("bf16")], _bf16), _range(tpu, _bf16)),
        ("FLOP per byte to be bound by compute", _range([card for card in gpu if card.peak("bf16")], _ridge), _range(tpu, _ridge)),
        ("Interconnect", _links(gpu), _links(tpu)),
        (
            "Devices in one offer",
            f"up to {max(offer.accelerator_count for offer in gpus)} cards",
            f"up to {max(offer.accelerator_count for offer in tpus):,} chips in one slice",
        ),
        ("Computes in", _dtypes(gpu), _dtypes(tpu)),
        (
            "Frameworks",
            "PyTorch, JAX, TensorFlow, and everything written in CUDA",
            "JAX, PyTorch (torch_tpu, beta), TensorFlow (not on TPU7x)",
        ),
        ("Engines", "transformers, vLLM, llama.cpp and many more", "vLLM (vllm-tpu); Optimum TPU in maintenance, JetStream archived"),
        (
            "Deployment",
            "A container or a Space, on any cloud, one's own machines, the edge",
            "TPU VM, queued resource or GKE, on Google Cloud",
        ),
        ("Rented from", _platforms(gpus), _platforms(tpus)),
        ("USD per hour and device", _range_of_prices(gpus), _range_of_prices(tpus)),
    )
    return [{"property": name, "gpu": on_gpu, "tpu": on_tpu} for name, on_gpu, on_tpu in rows]


def _offered(catalog: Catalog, kind: str) -> list[Offer]:
    offers = [offer for offer in catalog.offers if offer.listed and offer.silicon is not None and offer.silicon.kind == kind]
    return [offer for offer in offers if offer.platform != "zerogpu"]


def _silicon(offers: Iterable[Offer]) -> list[Accelerator]:
    return list({offer.silicon.id: offer.silicon for offer in offers if offer.silicon is not None}.values())


def _range(cards: list[Accelerator], figure: Callable[[Accelerator], tuple[float, str]]) -> str:
    """The lowest and the highest figure, with the parts that have them."""
    low, high = min(cards, key=lambda card: figure(card)[0]), max(cards, key=lambda card: figure(card)[0])
    if figure(low)[0] == figure(high)[0]:
        return figure(low)[1]
    return f"{figure(low)[1]} ({_short(low)}) to {figure(high)[1]} ({_short(high)})"


def _short(card: Accelerator) -> str:
    return card.name.removeprefix("Google ").removeprefix("NVIDIA ").partition(" (")[0]


def _memory(card: Accelerator) -> tuple[float, str]:
    held = card.memory_usable or 0
    return held, f"{gib(held)} usable"


def _bandwidth(card: Accelerator) -> tuple[float, str]:
    return card.bandwidth, f"{card.bandwidth / 1e9:,.0f} GB/s"


def _bf16(card: Accelerator) -> tuple[float, str]:
    peak = card.peak("bf16") or 0
    return peak, f"{peak / 1e12:,.0f} TFLOP/s"


def _ridge(card: Accelerator) -> tuple[float, str]:
    ratio = (card.peak("bf16") or 0) / card.bandwidth
    return ratio, f"{ratio:,.0f}"


def _links(cards: list[Accelerator]) -> str:
    kinds = [card.interconnect.kind for card in cards if card.interconnect is not None]
    return ", ".join(dict.fromkeys(kinds))


def _dtypes(cards: list[Accelerator]) -> str:
    """Types by the number of parts that compute in them."""
    counted = {name: sum(card.supports(name) for card in cards) for name in (*PEAK_DTYPES, "fp64")}
    return ", ".join(f"{name}" if count == len(cards) else f"{name} (some)" for name, count in counted.items() if count)


def _platforms(offers: list[Offer]) -> str:
    return ", ".join(dict.fromkeys(PLATFORM_NAMES[offer.platform] for offer in offers))


def _range_of_prices(offers: list[Offer]) -> str:
    prices = [offer.usd_per_hour / offer.accelerator_count for offer in offers if offer.usd_per_hour]
    return f"{usd(min(prices))} to {usd(max(prices))}"
