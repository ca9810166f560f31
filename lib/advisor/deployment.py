"""What a visitor runs today, and the cheapest tier that holds a configuration of it: the ground of the ways to save."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Literal

from lib import precision as formats
from lib.advisor.candidates import Candidate, Family, family_of, task_of
from lib.advisor.fit import measure_headroom
from lib.advisor.speed import bound_speed, count_decode_parameters, find_roofline
from lib.catalog import Catalog
from lib.catalog.offers import Offer
from lib.cost import TokenPrice, Usage, bill_offer
from lib.engines import traits_of
from lib.laws.forward_pass import decode_floor
from lib.memory import MemoryEstimate, estimate_memory, tensor_parallel_degree, usable_memory
from lib.model.spec import ModelSpec
from lib.speed import SpeedEstimate
from lib.workload import MemoryRequest

Gain = Literal["compute", "bandwidth", "memory_only"]
Predict = Callable[[ModelSpec, Offer, MemoryRequest, Usage], SpeedEstimate | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """What a visitor runs today: a model in one configuration on one offer, and how it is used.

    `price` is what a provider asks per token, where known; `speed` estimates how fast an offer runs the model.
    `development_hours_per_month` is how long one works on the Space rather than serves from it; 40, a working week, is an assumption.
    """

    spec: ModelSpec
    offer: Offer
    request: MemoryRequest
    usage: Usage
    catalog: Catalog
    price: TokenPrice | None = None
    speed: Predict | None = None
    development_hours_per_month: Decimal = Decimal(40)

    @property
    def family(self) -> Family:
        """The kind of work that the model does."""
        return family_of(task_of("auto", self.spec))

    def predict(self, offer: Offer, request: MemoryRequest) -> SpeedEstimate | None:
        """The speed on an offer; `None` where it is not predicted."""
        return None if self.speed is None else self.speed(self.spec, offer, request, self.usage)


@dataclass(frozen=True, slots=True, kw_only=True)
class FittingTier:
    """An offer with the configuration in it, and what the month costs."""

    offer: Offer
    request: MemoryRequest
    memory: MemoryEstimate
    usd_per_month: Decimal


def fit_tier(deployment: Deployment, offer: Offer, request: MemoryRequest) -> FittingTier | None:
    """The configuration on this offer, spread over its cards; `None` when it does not fit with room to spare."""
    capacity = usable_memory(offer)
    if capacity is None or not can_compute(offer, request):
        return None
    spread = replace(request, devices=count_devices(deployment, offer, request))
    memory = estimate_memory(deployment.spec, spread, offer.silicon or offer.host_cpu)
    if not measure_headroom(memory, capacity, deployment.family).comfortable:
        return None
    return FittingTier(offer=offer, request=spread, memory=memory, usd_per_month=price_month(deployment, offer, spread))


def count_devices(deployment: Deployment, offer: Offer, request: MemoryRequest) -> int:
    """As many cards as there are; tensor parallelism takes as many as it can split the model over."""
    count = max(1, offer.accelerator_count)
    return tensor_parallel_degree(deployment.spec, count) if traits_of(request.engine).tensor_parallel else count


def price_month(deployment: Deployment, offer: Offer, request: MemoryRequest) -> Decimal:
    """USD per month on an offer, at the deployment's use, with as many replicas as serve its traffic."""
    return bill_offer(offer, deployment.usage, deployment.catalog.rules, speed=deployment.predict(offer, request)).serving_usd_per_month


def find_cheapest_tier(deployment: Deployment, request: MemoryRequest) -> FittingTier | None:
    """The cheapest tier with an accelerator on the same platform that holds it."""
    offers = [offer for offer in deployment.catalog.on((deployment.offer.platform,)) if offer.silicon is not None and offer.usd_per_hour]
    tiers = [tier for tier in (fit_tier(deployment, offer, request) for offer in offers) if tier is not None]
    return min(tiers, key=lambda tier: (tier.usd_per_month, tier.offer.accelerator_count, tier.offer.id), default=None)


def can_compute(offer: Offer, request: MemoryRequest) -> bool:
    """Whether the silicon runs the format. Accelerators that are not GPUs need an engine of their own, which a saving does not change."""
    if offer.silicon is None:
        return False
    if "gpu" not in traits_of(request.engine).silicon:
        return offer.silicon.kind in traits_of(request.engine).silicon
    if offer.silicon.kind != "gpu" or (request.precision.startswith("fp8") and not offer.silicon.supports("fp8")):
        return False
    return (
        request.precision == "auto"
        or formats.check_support(formats.weight_format(request.precision, request.engine).name, offer.silicon) != "missing"
    )


def bound_tokens_per_s(deployment: Deployment, offer: Offer, request: MemoryRequest) -> float | None:
    """Tokens per second of one request that the datasheet allows at most."""
    memory = estimate_memory(deployment.spec, request, offer.silicon or offer.host_cpu)
    on = find_roofline(offer, Candidate(precision=memory.precision, engine=request.engine, devices=request.devices), memory.precision, ())
    return bound_speed(deployment.spec, deployment.family, memory, on, request.batch_size).decode_tokens_per_s_upper_bound


def classify_gain(deployment: Deployment, before: MemoryRequest, after: MemoryRequest, offer: Offer) -> tuple[Gain, bool]:
    """What a smaller format does for speed on this offer, and whether its silicon multiplies in it natively.

    Bound by compute when 2·P·B/φ exceeds the time to read weights and cache, both from the datasheet, in today's format.
    """
    silicon = offer.silicon
    native = silicon is not None and formats.check_support(formats.weight_format(after.precision, after.engine).name, silicon) == "native"
    if _compute_bound(deployment, before, offer):
        return ("compute" if native else "memory_only"), native
    return ("bandwidth" if traits_of(after.engine).packed_kernels else "memory_only"), native


def _compute_bound(deployment: Deployment, request: MemoryRequest, offer: Offer) -> bool:
    memory = estimate_memory(deployment.spec, request, offer.silicon)
    on = find_roofline(offer, Candidate(precision=memory.precision, engine=request.engine, devices=request.devices), memory.precision, ())
    if on is None or on.peak is None:
        return False
    least = decode_floor(
        weight_bytes=memory.weights_bytes,
        cache_bytes=memory.kv_cache_bytes // request.batch_size,
        bandwidth=on.bandwidth,
        active_parameters=count_decode_parameters(deployment.spec),
        batch=request.batch_size,
        peak=on.peak,
    )
    return least.bound == "compute"
