"""A model on hardware as it runs today, in two forms: served by an engine, and paid by a visitor.

`ServingConfig` spreads the model as the engine does and asks memory and speed of the whole machine. `CurrentSetup` is one rented offer with
its use: other offers of its platform that hold a changed request, their monthly price, and the effect of a smaller format on speed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Literal

from lib import memory
from lib import precision as formats
from lib.advisor.candidates import Candidate, family_of, task_of
from lib.advisor.fit import measure_headroom
from lib.advisor.speed import Roofline, bound_speed, find_roofline
from lib.catalog import Catalog
from lib.catalog.kernels import reads_format
from lib.catalog.offers import Hardware, Offer
from lib.catalog.silicon import Accelerator
from lib.cost import TokenPrice, Usage, bill_offer
from lib.engines import TRAITS, Engine, list_engines, traits_of
from lib.errors import BadArgument, UnknownHardware, quote_value
from lib.laws.forward_pass import decode_floor
from lib.laws.parallelism import ceil_divide
from lib.memory.resolve import check_server, choose_engine, settle_formats
from lib.memory.spread import spread
from lib.model.spec import ModelSpec
from lib.request.serving import DEFAULTS, Serving, drop_settings
from lib.request.types import AUTO
from lib.speed import SpeedEstimate, SpeedRequest, predict_each
from lib.speed.batch import resolve_engine_config
from lib.speed.hardware import resolve_devices
from lib.speed.model_work import count_multiplied
from lib.workload import Family, MemoryRequest

Gain = Literal["compute", "bandwidth", "memory_only"]
Predict = Callable[[ModelSpec, Offer, MemoryRequest, Usage], SpeedEstimate | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingConfig:
    """A model on hardware: `requests` at a time, each of `context_tokens`, of which `output_tokens` are its answer.

    The engine runs `copies` of the model, each on `devices`; `memory_bytes` is the memory of one device. `gpu_layers` as in
    `MemoryRequest`, `serving` without the settings that other fields say.
    """

    spec: ModelSpec
    hardware: Hardware
    accelerators: Mapping[str, Accelerator]
    silicon: Accelerator
    engine: Engine
    precision: str
    kv_precision: str
    context_tokens: int
    output_tokens: int
    requests: int
    devices: int
    copies: int
    memory_bytes: int
    gpu_layers: int | None = None
    serving: Serving = DEFAULTS

    @property
    def memory_request(self) -> MemoryRequest:
        """The load of one copy."""
        return MemoryRequest(
            precision=self.precision,
            engine=self.engine,
            context_tokens=self.context_tokens,
            batch_size=ceil_divide(self.requests, self.copies),
            kv_precision=self.kv_precision,
            devices=self.devices,
            gpu_layers=self.gpu_layers,
            serving=drop_settings(self.serving, "data_parallel"),
        )

    @property
    def speed_request(self) -> SpeedRequest:
        """The same as a question about speed."""
        output = min(self.output_tokens, max(1, self.context_tokens // 2))
        return SpeedRequest(
            precision=self.precision,
            engine=self.engine,
            prompt_tokens=max(1, self.context_tokens - output),
            output_tokens=output,
            concurrency=self.requests,
            kv_precision=self.kv_precision,
            gpu_layers=self.gpu_layers,
            serving=self.serving,
        )

    def fit(self) -> memory.MemoryFit:
        """Whether one copy fits its devices."""
        host_bytes = memory.host_memory(self.hardware, experts=bool(self.serving.cpu_moe_layers))
        return memory.fit_memory(self.spec, self.memory_request, self.memory_bytes, self.silicon, host_bytes=host_bytes)

    def estimate(self) -> memory.MemoryEstimate:
        """The memory of one copy."""
        return memory.estimate_memory(self.spec, self.memory_request, self.silicon)

    def predict(self) -> SpeedEstimate | None:
        """How fast it is; None if no speed is predicted."""
        return predict_each([(self.spec, self.hardware, self.speed_request)], self.accelerators)[0]


def resolve_setup(
    spec: ModelSpec,
    hardware: Hardware,
    accelerators: Mapping[str, Accelerator],
    *,
    engine: Engine,
    precision: str = "auto",
    kv_precision: str = "auto",
    context_tokens: int = 4096,
    output_tokens: int = 256,
    requests: int = 1,
    gpu_layers: int | None = None,
    serving: Serving = DEFAULTS,
) -> ServingConfig:
    """The model as the engine spreads it over the hardware. On ZeroGPU every call has a card of its own, so `requests` is one there.

    Raises:
        BadArgument: the precision is unknown, or the engine needs other hardware or does not run the model.
        UnknownHardware: the hardware's memory is not known.
        UnsupportedModel: nothing is known about the model's work.
    """
    memory_bytes = memory.usable_memory(hardware)
    if memory_bytes is None:
        raise UnknownHardware(f"The memory of {quote_value(hardware.id)} is not known, so nothing can be said of what it holds.")
    name = choose_engine(spec, engine)
    check_server(spec, name, serving, context_tokens, requests)
    settled = settle_formats(SpeedRequest(kv_precision=kv_precision, gpu_layers=gpu_layers, serving=serving))
    silicon, devices, copies = _spread(spec, hardware, accelerators, name, precision, settled.serving)
    return ServingConfig(
        spec=spec,
        hardware=hardware,
        accelerators=accelerators,
        silicon=silicon,
        engine=name,
        precision=precision,
        kv_precision=settled.kv_precision,
        context_tokens=context_tokens,
        output_tokens=output_tokens,
        requests=1 if on_zerogpu(hardware) else requests,
        devices=devices,
        copies=copies,
        memory_bytes=memory_bytes,
        gpu_layers=settled.gpu_layers,
        serving=settled.serving,
    )


def _spread(
    spec: ModelSpec, hardware: Hardware, accelerators: Mapping[str, Accelerator], engine: Engine, precision: str, serving: Serving
) -> tuple[Accelerator, int, int]:
    """The silicon, over how many devices the engine spreads a copy of the model, and how many copies there are."""
    silicon = resolve_devices(hardware, accelerators).silicon
    if not traits_of(engine).runs_on(silicon, sparse=spec.sparse_attention):
        able = [name for name in list_engines(spec.work) if traits_of(name).runs_on(silicon, sparse=spec.sparse_attention)]
        raise BadArgument("engine", engine, f"{', '.join(able) or 'other hardware, for no engine runs this model'} on {hardware.name}")
    if not traits_of(engine).timed_as or on_zerogpu(hardware):
        layout = resolve_engine_config((spec, hardware, SpeedRequest(precision=precision, engine=engine)), accelerators).layout
        if layout.engine != engine and layout.engine in TRAITS:  # on a TPU
            raise BadArgument("engine", engine, f"{layout.engine} on {hardware.name}")
    shared = spread(spec, engine, hardware, serving)
    return silicon, shared.devices, shared.copies


def on_zerogpu(hardware: Hardware) -> bool:
    """Whether each call has a card of its own there."""
    return hardware.traits.per_call


@dataclass(frozen=True, slots=True, kw_only=True)
class FittingTier:
    """An offer with its configuration and its monthly price."""

    offer: Offer
    request: MemoryRequest
    estimate: memory.MemoryEstimate
    usd_per_month: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentSetup:
    """The current deployment: a model in one configuration on one offer, and how it is used.

    `price` is a provider's price per token, if known; `speed` estimates how fast an offer runs the model.
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
    def needed_tokens(self) -> int:
        """Tokens of one request of its traffic."""
        return self.usage.prompt_tokens + self.usage.output_tokens

    @property
    def family(self) -> Family:
        """The kind of work that the model does."""
        return family_of(task_of("auto", self.spec))

    def estimate(self, offer: Offer, request: MemoryRequest) -> memory.MemoryEstimate:
        """Memory of a configuration on an offer."""
        return memory.estimate_memory(self.spec, request, offer.processor)

    def predict(self, offer: Offer, request: MemoryRequest) -> SpeedEstimate | None:
        """The speed on an offer; `None` if it is not predicted."""
        return None if self.speed is None else self.speed(self.spec, offer, request, self.usage)

    def price_month(self, offer: Offer, request: MemoryRequest) -> Decimal:
        """USD per month on an offer, with as many replicas as serve the traffic."""
        return bill_offer(offer, self.usage, self.catalog.rules, speed=self.predict(offer, request)).serving_usd_per_month

    def fit_tier(self, offer: Offer, request: MemoryRequest) -> FittingTier | None:
        """The configuration on this offer, spread over its cards; `None` when it does not fit with room to spare."""
        capacity = memory.usable_memory(offer)
        too_few = request.serving.devices > max(1, offer.accelerator_count)
        if capacity is None or too_few or not can_compute(self.spec, offer, request):
            return None
        request = replace(request, devices=spread(self.spec, request.engine, offer, request.serving).devices)
        estimate = self.estimate(offer, request)
        if not measure_headroom(estimate, capacity, self.family).comfortable:
            return None
        return FittingTier(offer=offer, request=request, estimate=estimate, usd_per_month=self.price_month(offer, request))

    def cheapest_tier(self, request: MemoryRequest) -> FittingTier | None:
        """The cheapest tier with an accelerator on the same platform that holds it."""
        offers = [offer for offer in self.catalog.on((self.offer.platform,)) if offer.silicon is not None and offer.usd_per_hour]
        tiers = [tier for tier in (self.fit_tier(offer, request) for offer in offers) if tier is not None]
        return min(tiers, key=lambda tier: (tier.usd_per_month, tier.offer.accelerator_count, tier.offer.id), default=None)

    def bound_tokens_per_s(self, offer: Offer, request: MemoryRequest) -> float | None:
        """Tokens per second of one request that the datasheet allows at most."""
        estimate, roofline = self._find_roofline(offer, request)
        return bound_speed(self.spec, self.family, estimate, roofline, request.batch_size).decode_tokens_per_s_upper_bound

    def _find_roofline(self, offer: Offer, request: MemoryRequest) -> tuple[memory.MemoryEstimate, Roofline | None]:
        estimate = self.estimate(offer, request)
        candidate = Candidate(precision=estimate.precision, engine=request.engine, devices=request.devices)
        return estimate, find_roofline(offer, candidate, estimate.precision, ())

    def classify_gain(self, smaller: MemoryRequest, offer: Offer) -> tuple[Gain, bool]:
        """Effect of a smaller format on speed on this offer, and whether its silicon multiplies in it natively.

        Bound by compute when 2·P·B/φ exceeds the time to read weights and cache, both from the datasheet, in today's format.
        """
        silicon, batch = offer.silicon, self.request.batch_size
        format_name = formats.weight_format(smaller.precision, smaller.engine).name
        native = silicon is not None and formats.check_support(format_name, silicon) == "native"
        estimate, roofline = self._find_roofline(offer, self.request)
        if roofline is not None and roofline.peak is not None:
            floor = decode_floor(
                weight_bytes=estimate.weights_bytes,
                cache_bytes=estimate.kv_cache_bytes // batch,
                bandwidth=roofline.bandwidth,
                active_parameters=count_multiplied(self.spec),
                batch=batch,
                peak=roofline.peak,
            )
            if floor.bound == "compute":
                return ("compute" if native else "memory_only"), native
        return ("bandwidth" if traits_of(smaller.engine).packed_kernels else "memory_only"), native


def can_compute(spec: ModelSpec, offer: Offer, request: MemoryRequest) -> bool:
    """Whether the silicon runs the format. Accelerators that are not GPUs need an engine of their own, which a saving does not change."""
    silicon = offer.silicon
    if silicon is None:
        return False
    kinds = traits_of(request.engine).silicon
    if "gpu" not in kinds:
        return silicon.kind in kinds
    reads = request.precision == AUTO or reads_format(request.engine, request.precision, silicon, mixture=spec.is_mixture)
    return silicon.kind == "gpu" and reads
