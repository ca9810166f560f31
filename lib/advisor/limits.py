"""The most that hardware takes of a model within limits on the first token and on speed, and ways to save memory on it.

    longest context     the most tokens of each of `requests` sequences
    most requests       the most sequences of `context_tokens` that run at once, within the limits and the engine's max_num_seqs
    largest batch       the same by memory alone
    best precision      the first of as stored, eight and four bits that fits and keeps the limits

Memory counts every sequence at its full length (`lib.memory`), speed is that of requests that fill the context: prompts of what the
answer leaves (`lib.speed`). Both grow with length and with requests, but for requests of a few tokens, so the answer is found by halving:
it fits, and one more does not.

Every way to save is an alternative to what runs today, on the same hardware: estimate and prediction are asked again with one thing
changed. Two are not settings of the laws:

    kernel     the attention scores that a fused kernel would not hold (`lib.memory.attention_scores`); it is not slower
    offload    some of the weights stay in the host's memory and cross its link at every step: TPOT' = TPOT + bytes / link, TTFT' alike

Offloaded are the bytes that are missing, or a quarter of the weights where nothing is missing. All of them are counted at each step, so the
price is an upper bound for mixtures of experts and for links that are read while the card computes.
Source: vLLM `cpu_offload_gb` (docs.vllm.ai, model_executor/offloader, UVA), transformers `device_map="auto"` (accelerate).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from lib.advisor.candidates import family_of, list_forms, task_of
from lib.catalog import Catalog
from lib.catalog.offers import Offer
from lib.catalog.silicon import Accelerator, Cards
from lib.engines import TRAITS, Engine, list_engines, traits_of
from lib.errors import BadArgument, UnknownHardware, quote_value
from lib.laws.parallelism import ceil_divide, layers_on_gpu
from lib.memory import (
    MemoryFit,
    attention_scores,
    estimate_memory,
    find_largest,
    fit_memory,
    host_memory,
    most_layers_on_card,
    usable_memory,
)
from lib.memory.resolve import choose_engine
from lib.memory.spread import spread
from lib.model.spec import ModelSpec
from lib.provenance import Value
from lib.speed import SpeedEstimate, SpeedRequest, predict_each
from lib.speed.batch import resolve_engine_config
from lib.speed.hardware import find_host_link_rate, resolve_devices
from lib.workload import MemoryRequest

LimitedBy = Literal["memory", "model", "engine", "ttft", "speed", "zerogpu", "nothing"]
LONGEST_CONTEXT = 10_000_000
_PARTS = 10**9  # a share of a limit, as a whole number


@dataclass(frozen=True, slots=True, kw_only=True)
class Targets:
    """Limits on the seconds to the first token and on the tokens per second of a request; 0 sets none."""

    max_ttft_s: float = 0.0
    min_tokens_per_s: float = 0.0

    @property
    def any_set(self) -> bool:
        """Whether there is any."""
        return self.max_ttft_s > 0 or self.min_tokens_per_s > 0

    def limit_usage(self, speed: SpeedEstimate) -> tuple[float, float]:
        """How much of each limit is used: above 1 it is missed."""
        rate = speed.decode_tokens_per_s
        first = speed.ttft_s.value / self.max_ttft_s if self.max_ttft_s > 0 else 0.0
        return first, self.min_tokens_per_s / rate.value if self.min_tokens_per_s > 0 and rate is not None else 0.0

    def missed_limit(self, speed: SpeedEstimate | None) -> LimitedBy | None:
        """The limit that is missed; without a prediction none is."""
        if speed is None:
            return None
        first, rate = self.limit_usage(speed)
        return "ttft" if first > 1 else "speed" if rate > 1 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingSetup:
    """A model on hardware: `requests` at a time, each of `context_tokens`, of which `output_tokens` are its answer.

    The engine runs `copies` of the model, each on `devices`; `memory_bytes` is what one device has. `gpu_layers` as in `MemoryRequest`.
    """

    spec: ModelSpec
    hardware: Offer | Cards
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

    @property
    def memory_request(self) -> MemoryRequest:
        """What one copy has to hold."""
        return MemoryRequest(
            precision=self.precision,
            engine=self.engine,
            context_tokens=self.context_tokens,
            batch_size=ceil_divide(self.requests, self.copies),
            kv_precision=self.kv_precision,
            devices=self.devices,
            gpu_layers=self.gpu_layers,
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
        )

    def fit(self) -> MemoryFit:
        """Whether one copy fits its devices."""
        return fit_memory(self.spec, self.memory_request, self.memory_bytes, self.silicon, host_bytes=host_memory(self.hardware))

    def per_device_bytes(self) -> int:
        """Bytes on the fullest device."""
        return estimate_memory(self.spec, self.memory_request, self.silicon).per_device_bytes

    def predict(self) -> SpeedEstimate | None:
        """How fast it is; None where no speed is predicted."""
        return predict_each([(self.spec, self.hardware, self.speed_request)], self.accelerators)[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Maximum:
    """The most that is possible (0: not even one, None: nothing bounds it), and what one more would pass."""

    value: int | None
    limited_by: LimitedBy


@dataclass(frozen=True, slots=True, kw_only=True)
class PrecisionTry:
    """One precision: whether it fits and which limit it misses, bytes of a device, and the prediction."""

    precision: str
    fits: bool
    missed_limit: LimitedBy | None
    weights_bytes: int
    per_device_bytes: int
    speed: SpeedEstimate | None


def resolve_setup(
    spec: ModelSpec,
    hardware: Offer | Cards,
    accelerators: Mapping[str, Accelerator],
    *,
    engine: Engine,
    precision: str = "auto",
    kv_precision: str = "auto",
    context_tokens: int = 4096,
    output_tokens: int = 256,
    requests: int = 1,
    gpu_layers: int | None = None,
) -> ServingSetup:
    """The model as the engine spreads it over the hardware. On ZeroGPU every call has a card of its own, so `requests` is one there.

    Raises:
        BadArgument: the precision is unknown, or the engine needs other hardware or does not run the model.
        UnknownHardware: the hardware's memory is not known.
        UnsupportedModel: nothing is known about the model's work.
    """
    memory = usable_memory(hardware)
    if memory is None:
        raise UnknownHardware(f"The memory of {quote_value(hardware.id)} is not known, so nothing can be said of what it holds.")
    name = choose_engine(spec, engine)
    silicon, devices, copies = _spread(spec, hardware, accelerators, name, precision)
    return ServingSetup(
        spec=spec,
        hardware=hardware,
        accelerators=accelerators,
        silicon=silicon,
        engine=name,
        precision=precision,
        kv_precision=kv_precision,
        context_tokens=context_tokens,
        output_tokens=output_tokens,
        requests=1 if on_zerogpu(hardware) else requests,
        devices=devices,
        copies=copies,
        memory_bytes=memory,
        gpu_layers=gpu_layers,
    )


def _spread(
    spec: ModelSpec, hardware: Offer | Cards, accelerators: Mapping[str, Accelerator], engine: Engine, precision: str
) -> tuple[Accelerator, int, int]:
    """The silicon, over how many devices the engine spreads a copy of the model, and how many copies there are."""
    silicon, count = resolve_devices(hardware, accelerators).silicon, max(1, hardware.accelerator_count)
    if not traits_of(engine).runs_on(silicon, sparse=spec.sparse_attention):
        able = [name for name in list_engines(spec.work) if traits_of(name).runs_on(silicon, sparse=spec.sparse_attention)]
        raise BadArgument("engine", engine, f"{', '.join(able) or 'other hardware, for no engine runs this model'} on {hardware.name}")
    if not traits_of(engine).timed_as or on_zerogpu(hardware):
        of = resolve_engine_config((spec, hardware, SpeedRequest(precision=precision, engine=engine)), accelerators)
        if of.layout.engine != engine and of.layout.engine in TRAITS:  # on a TPU
            raise BadArgument("engine", engine, f"{of.layout.engine} on {hardware.name}")
        return silicon, of.layout.tensor_parallel * of.layout.pipeline_stages, of.layout.replicas
    return silicon, *spread(spec, engine, count)


def on_zerogpu(hardware: Offer | Cards) -> bool:
    """Whether each call has a card of its own there."""
    return isinstance(hardware, Offer) and hardware.platform == "zerogpu"


def find_longest_context(of: ServingSetup, targets: Targets) -> Maximum:
    """The most tokens of each sequence, as many sequences as are asked for."""
    fits, limit = of.fit().max_context_tokens, of.spec.context_limit
    if fits == 0:
        return Maximum(value=0, limited_by="memory")
    most = Maximum(value=fits, limited_by="nothing" if fits is None else "model" if fits == limit else "memory")
    return _within(most, of, "context_tokens", targets, LONGEST_CONTEXT)


def find_largest_batch(of: ServingSetup) -> Maximum:
    """The most sequences of this length that all copies hold, whatever their speed."""
    each = of.fit().max_batch_size
    return Maximum(value=None if each is None else each * of.copies, limited_by="nothing" if each is None else "memory")


def find_most_requests(of: ServingSetup, targets: Targets) -> Maximum:
    """The most requests that run at once within the targets."""
    batch, traits = find_largest_batch(of), traits_of(of.engine)
    if batch.value == 0:
        return batch
    if on_zerogpu(of.hardware):
        return _within(Maximum(value=1, limited_by="zerogpu"), of, "requests", targets, 1)
    slots = of.copies * traits.max_num_seqs
    if not traits.eager and (batch.value is None or batch.value > slots):
        batch = Maximum(value=slots, limited_by="engine")
    return _within(batch, of, "requests", targets, of.copies * 4096)


def _within(most: Maximum, of: ServingSetup, name: Literal["context_tokens", "requests"], targets: Targets, endless: int) -> Maximum:
    """The largest value up to `most` that keeps the targets, and which of them one more would miss.

    It is looked for from the largest half, quarter, … that keeps them on: many requests of a few tokens are slower than fewer longer ones,
    because each of them takes a prompt, so what the shortest misses says nothing of the others.
    """

    def at(value: int) -> SpeedEstimate | None:
        return (replace(of, context_tokens=value) if name == "context_tokens" else replace(of, requests=value)).predict()

    if not targets.any_set:
        return most
    bound = endless if most.value is None else most.value
    if targets.missed_limit(at(bound)) is None:
        return most

    def used_parts(value: int) -> int:
        speed = at(value)
        return 0 if speed is None else int(min(max(targets.limit_usage(speed)), _PARTS) * _PARTS)  # a limit near 0 makes it infinite

    halves = [bound >> times for times in range(bound.bit_length())]
    first_met = next((place for place, value in enumerate(halves) if used_parts(value) <= _PARTS), None)
    if first_met is None:
        return Maximum(value=0, limited_by=targets.missed_limit(at(1)) or "ttft")
    below, above = halves[first_met], halves[first_met - 1]
    value = below + find_largest(lambda more: used_parts(below + more), _PARTS, above - below)
    return Maximum(value=value, limited_by=targets.missed_limit(at(value + 1)) or "ttft")


def try_precisions(of: ServingSetup, targets: Targets) -> tuple[PrecisionTry, ...]:
    """As stored (or as stated), then what the advisor would try of fewer bytes, those with most bytes first."""
    silicon = None if of.silicon.kind == "cpu" else of.silicon
    forms, _ = list_forms(of.spec, family_of(task_of("auto", of.spec)), silicon, of.engine, "auto", ())
    tries: list[PrecisionTry] = []
    for name in dict.fromkeys((of.precision, *(name for name, _, _ in forms))):
        one = replace(of, precision=name)
        try:
            memory, speed = estimate_memory(of.spec, one.memory_request, of.silicon), one.predict()
        except BadArgument:  # the engine does not load it
            continue
        if any(memory.precision == each.precision for each in tries) or (tries and memory.weights.bytes >= tries[0].weights_bytes):
            continue
        tries.append(
            PrecisionTry(
                precision=memory.precision, fits=one.fit().fits, missed_limit=targets.missed_limit(speed), speed=speed,
                weights_bytes=memory.weights.bytes, per_device_bytes=memory.per_device_bytes,
            )
        )  # fmt: skip
    return tuple(sorted(tries, key=lambda each: -each.weights_bytes))


def best_precision(tries: tuple[PrecisionTry, ...]) -> str | None:
    """The one with most bytes that fits and misses no limit."""
    return next((each.precision for each in tries if each.fits and each.missed_limit is None), None)


# Ways to save memory

MemorySavingCode = Literal[
    "precision", "cache_precision", "shorter_context", "fewer_requests", "kernel", "offload", "layers_on_host", "more_devices"
]
OFFLOADS = frozenset({"transformers", "vllm"})
"""Engines that leave weights in the host's memory and read them from there at each step. llama.cpp leaves whole layers to the processor,
which has laws of its own (`gpu_layers`)."""
_QUARTER = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySaving:
    """One way: bytes of the fullest device before and after, whether it fits then, and how fast a request is then against today.

    `saved_bytes` is negative where the way takes more. The ratios are seconds after / before, None without a prediction. `needs` are the
    settings that change, by the names of the API.
    """

    code: MemorySavingCode
    saved_bytes: int
    per_device_bytes: int
    fits: bool
    tpot_ratio: float | None
    ttft_ratio: float | None
    needs: Mapping[str, Value] = field(default_factory=dict)


def find_memory_savings(of: ServingSetup, catalog: Catalog) -> tuple[MemorySaving, ...]:
    """Every way that saves something, the most bytes first."""
    before, speed = of.per_device_bytes(), of.predict()
    ways = [*_settings(of, before, speed), *_kernel(of, before), *_offload(of, before, speed), *_more_devices(of, before, speed, catalog)]
    return tuple(sorted((one for one in ways if one.saved_bytes > 0), key=lambda one: -one.saved_bytes))


def _settings(of: ServingSetup, before: int, speed: SpeedEstimate | None) -> Iterator[MemorySaving]:
    """One argument of the estimate changed."""
    for tried in try_precisions(of, Targets())[1:]:
        yield _compare("precision", replace(of, precision=tried.precision), before, speed, {"precision": tried.precision})
    small = traits_of(of.engine).small_cache
    if of.spec.cache_terms is not None and of.kv_precision != small:
        yield _compare("cache_precision", replace(of, kv_precision=small), before, speed, {"kv_precision": small})
    if of.context_tokens > 1:
        half = of.context_tokens // 2
        yield _compare("shorter_context", replace(of, context_tokens=half), before, speed, {"context_tokens": half})
    if of.requests > 1:
        fewer = of.requests // 2
        yield _compare("fewer_requests", replace(of, requests=fewer), before, speed, {"concurrency": fewer})


def _compare(
    code: MemorySavingCode, after: ServingSetup, before_bytes: int, before: SpeedEstimate | None, needs: Mapping[str, Value]
) -> MemorySaving:
    size, speed = after.per_device_bytes(), after.predict()
    return MemorySaving(
        code=code,
        saved_bytes=before_bytes - size,
        per_device_bytes=size,
        fits=after.fit().fits,
        tpot_ratio=speed.tpot_s.value / before.tpot_s.value if before and speed and before.tpot_s and speed.tpot_s else None,
        ttft_ratio=speed.ttft_s.value / before.ttft_s.value if before and speed else None,
        needs=needs,
    )


def _kernel(of: ServingSetup, before: int) -> Iterator[MemorySaving]:
    """The scores are beside the estimate, in its high end: they are held by a torch that has no fused kernel for this card."""
    scores = attention_scores(of.spec, of.memory_request, of.silicon)
    if scores:
        fits = of.fit().fits
        yield MemorySaving(code="kernel", saved_bytes=scores, per_device_bytes=before, fits=fits, tpot_ratio=None, ttft_ratio=None)


def _offload(of: ServingSetup, before: int, speed: SpeedEstimate | None) -> Iterator[MemorySaving]:
    if of.silicon.kind != "gpu" or on_zerogpu(of.hardware):
        return
    if of.engine == "llama.cpp" and of.gpu_layers is None:
        yield from _leave_layers(of, before, speed)
    if of.engine not in OFFLOADS:
        return
    weights = estimate_memory(of.spec, of.memory_request, of.silicon).weights.bytes // of.devices
    fit = of.fit()
    moved = -fit.free_bytes if fit.free_bytes < 0 else ceil_divide(weights, _QUARTER)
    room = host_memory(of.hardware)
    if moved > weights or (room is not None and moved > room):
        return
    seconds = moved / find_host_link_rate(of.silicon)
    bands = (None, None) if speed is None else (speed.tpot_s, speed.ttft_s)
    slower = [None if band is None else (band.value + seconds) / band.value for band in bands]
    yield MemorySaving(
        code="offload",
        saved_bytes=moved,
        per_device_bytes=before - moved,
        fits=True,
        tpot_ratio=slower[0],
        ttft_ratio=slower[1],
        needs={"offload_bytes": moved},
    )


def _leave_layers(of: ServingSetup, before: int, speed: SpeedEstimate | None) -> Iterator[MemorySaving]:
    """As many layers as fit stay on the card, or three quarters of them where all do; the processor computes the others."""
    layers, fit = of.spec.dimensions.layers, of.fit()
    on_card = layers * (_QUARTER - 1) // _QUARTER
    if not fit.fits:
        on_card = most_layers_on_card(of.spec, of.memory_request, of.silicon, fit.capacity_bytes)
    on_host = layers - layers_on_gpu(layers=layers, gpu_layers=on_card)
    saving = _compare("layers_on_host", replace(of, gpu_layers=on_card), before, speed, {"gpu_layers": on_card, "host_layers": on_host})
    if on_host and saving.fits:
        yield saving


def _more_devices(of: ServingSetup, before: int, speed: SpeedEstimate | None, catalog: Catalog) -> Iterator[MemorySaving]:
    """The next larger count of the same silicon: an offer of the same platform where there is one, else plain cards."""
    if of.silicon.kind in {"cpu", "apple"}:
        return
    now = max(1, of.hardware.accelerator_count)
    larger: list[Offer | Cards] = [Cards(silicon=of.silicon, count=2 * now)]
    if isinstance(of.hardware, Offer):
        own = catalog.on((of.hardware.platform,))
        larger = [one for one in own if one.accelerator == of.hardware.accelerator and one.accelerator_count > now]
    for hardware in sorted(larger, key=lambda one: one.accelerator_count):
        try:
            after = resolve_setup(
                of.spec, hardware, of.accelerators, engine=of.engine, precision=of.precision, kv_precision=of.kv_precision,
                context_tokens=of.context_tokens, output_tokens=of.output_tokens, requests=of.requests,
            )  # fmt: skip
        except BadArgument:
            continue
        saving = _compare("more_devices", after, before, speed, {"hardware": hardware.id})
        if saving.saved_bytes > 0:
            yield saving
            return
