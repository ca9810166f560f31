"""The shapes that every answer is built from, and the one way money, caveats, sources and prices are written in them.

The public contract names the fields; every field that is added stays. Units are in the key. Numbers are plain JSON numbers: no NaN, no
infinity; a price is the shortest decimal that means it (0.8). `typing_extensions.TypedDict` because Pydantic, which derives the JSON
schemas from these shapes, asks for it below Python 3.12.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, KeysView, Mapping
from decimal import Decimal
from operator import attrgetter
from typing import TYPE_CHECKING, NotRequired, TypeAlias, TypeVar, cast

from typing_extensions import TypedDict

if TYPE_CHECKING:
    from lib.catalog import PriceState
    from lib.provenance import Source

SCHEMA = 1
Shape = TypeVar("Shape")


class CaveatEntry(TypedDict):
    """Something the answer leaves open."""

    code: str
    message: str


class SourceEntry(TypedDict):
    """Where a figure comes from, and when that was read or run."""

    what: str
    source: str
    checked: str


class Answer(TypedDict):
    """What every answer carries."""

    schema: int
    caveats: list[CaveatEntry]
    sources: list[SourceEntry]


class HardwareEntry(TypedDict):
    """One row of the catalog.

    `regions` are those in which the vendor has it; `usd_per_hour_by_region` has an entry for each region with a price of its own (TPU),
    and `usd_per_hour` is then that of us-central1.
    """

    id: str
    platform: str
    name: str
    accelerator: str | None
    accelerator_count: int
    accelerator_fraction: float
    vram_bytes_per_accelerator: int | None
    vcpu: int | None
    ram_bytes: int | None
    disk_bytes: int | None
    usd_per_hour: float | None
    usd_per_hour_by_region: dict[str, float]
    regions: list[str]
    last_usd_per_hour: float | None
    price_verified: bool
    price_basis: str
    status: str
    since: str | None
    successor: str | None
    rules: list[str]
    notes: str
    source: str
    checked: str


class HardwareAnswer(Answer):
    """The catalog, or one platform of it."""

    hardware: list[HardwareEntry]


class ReasonEntry(TypedDict):
    """Why something is as it is: a stable code and a sentence."""

    code: str
    message: str


class EntryMemory(TypedDict):
    """Memory of the configuration on this hardware, over all devices; capacity and free space are those of the fullest device.

    `context_tokens` and `batch_size` are the sequences that are held: a server holds one of the longest, or all of the usual length.
    """

    context_tokens: int
    batch_size: int
    weights_bytes: int
    kv_cache_bytes: int
    activation_bytes: int
    runtime_bytes: int
    total_bytes: int
    per_device_bytes: int
    capacity_bytes: int | None
    free_bytes: int | None


class SpeedEnd(TypedDict):
    """One end of the ranges of a prediction."""

    ttft_s: float
    inter_token_s: float | None
    decode_tokens_per_s: float | None
    throughput_tokens_per_s: float | None


class EntrySpeed(TypedDict):
    """The prediction for `concurrency` requests of this shape, and what the datasheet allows at best.

    The shape: as stated, else answer = min(256, half of the context) and prompt = max(512, an eighth of it), at most the rest; the
    published shape for pictures (then the token counts mean nothing), as many seconds of sound as were asked for.
    `decode_tokens_per_s` is that of one request, `throughput_tokens_per_s` of all together,
    both null where nothing is decoded: there `ttft_s` is the whole request. All predictions are null where `basis` is not "prediction".
    """

    ttft_s: float | None
    inter_token_s: float | None
    decode_tokens_per_s: float | None
    throughput_tokens_per_s: float | None
    request_s: float | None
    real_time_factor: float | None
    bound: str | None
    low: SpeedEnd | None
    high: SpeedEnd | None
    prompt_tokens: int | None
    output_tokens: int | None
    concurrency: int | None
    decode_tokens_per_s_upper_bound: float | None
    request_s_lower_bound: float | None
    basis: str


class EntryCost(TypedDict):
    """Price per hour of one machine, and per month of all replicas, `days_per_month` days of `hours_per_day` hours; without sleep.

    `usd_per_request` divides the month by its requests (without traffic: the share of an hour that one takes), the price of a million
    tokens is that of full use at this concurrency; both null where the speed is not predicted. `usd_per_month_unpaused` is the month
    of one who never pauses it outside its hours; `usd_per_month_asleep` that of one who lets it fall asleep `sleep_after_s` seconds after
    the last request. Each is null where it makes no difference, the second also where it does not halve the bill.
    """

    usd_per_hour: float
    total_usd_per_month: float
    hours_per_day: float
    days_per_month: int
    usd_per_million_output_tokens: float | None
    usd_per_request: float | None
    usd_per_month_unpaused: float | None
    usd_per_month_asleep: float | None
    sleep_after_s: int | None


class ConfiguredEntry(TypedDict):
    """Hardware that does it, and the configuration it does it in; `platform` is "own" for the visitor's own cards.

    `sdk` is what a Space has to be built with ("gradio" or "docker"), "" where the hardware is not that of a Space. `replicas` are the
    machines that the day's requests take, `gpu_layers` llama.cpp's `-ngl` where the cards do not hold all layers
    (-1: they do). `verdict`: "comfortable", "tight" (less than a tenth of a device stays free), or "slow".
    `repository` is the Hub id of the checkpoint to load, "" for the model's own, null where another one is needed and none is known.
    `loading`: "as stored", "quantized on load" (by the engine) or "other checkpoint" (somebody has to have made it).
    """

    hardware: str
    platform: str
    name: str
    accelerator: str | None
    accelerator_count: int
    precision: str
    engine: str
    sdk: str
    devices: int
    gpu_layers: int
    replicas: int
    memory: EntryMemory | None
    speed: EntrySpeed
    verdict: str
    reasons: list[ReasonEntry]
    repository: str | None
    loading: str


class RankedEntry(ConfiguredEntry):
    """Hardware that is rented, with its price; `pareto` where no other is both as cheap and as fast."""

    cost: EntryCost
    pareto: bool


class OwnEntry(TypedDict):
    """The visitor's own cards under the same question: how they run the model, else why not and what of the same kind would.

    `usd_per_hour` is null, not 0: nothing is rented, and neither electricity nor the purchase is counted.
    """

    hardware: str
    platform: str
    name: str
    fits: bool
    usd_per_hour: None
    runs_as: ConfiguredEntry | None
    obstacles: list[ReasonEntry]
    larger: list[ConfiguredEntry]


class RejectedEntry(TypedDict):
    """Hardware that does not do it, the first thing that stands in the way, and what else does: without all of these it would do it."""

    hardware: str
    platform: str
    name: str
    reason_code: str
    reason: str
    also: list[ReasonEntry]


class ProviderEntry(TypedDict):
    """Paying per token instead of renting hardware; `available` is null when nobody asked the Hub."""

    suits: bool
    available: bool | None
    providers: list[str]
    reasons: list[ReasonEntry]


class PriceEntry(TypedDict):
    """Which prices an answer uses: the bundled ones or the platform's own of today, and the day (or moment) of the oldest."""

    basis: str
    checked: str


class RecommendationAnswer(Answer):
    """The pick, everything that does it in order, everything that does not with its reason.

    A call with a limit gets that many entries of `ranked` and of `rejected`; `ranked_total` and `rejected_total` count all. `own` is there
    where `own_hardware` was named.
    """

    model: str
    task: str
    pick: RankedEntry | None
    ranked: list[RankedEntry]
    ranked_total: int
    rejected: list[RejectedEntry]
    rejected_total: int
    provider: ProviderEntry
    notes: list[ReasonEntry]
    prices: PriceEntry
    own: NotRequired[OwnEntry]


def usd(amount: Decimal | None) -> float | None:
    """A price as a JSON number that prints as in the catalog: JSON writes the shortest decimal that means the float, 0.80 → 0.8."""
    return None if amount is None else float(amount)


def source_entries(sources: Iterable[Source]) -> list[SourceEntry]:
    """Each distinct source once, in the order met."""
    return [{"what": source.what, "source": source.source, "checked": source.checked} for source in dict.fromkeys(sources)]


def price_entry(state: PriceState) -> PriceEntry:
    """Which prices are used, and how old the oldest is."""
    return {"basis": state.basis, "checked": state.checked}


_PLAIN = frozenset({str, int, float, bool, type(None)})

_Read: TypeAlias = "Callable[[object], tuple[object, ...]]"
_PLANS: dict[tuple[object, ...], tuple[dict[str, object], tuple[tuple[tuple[str, ...], _Read], ...]]] = {}
"""How `fill` makes a shape of values of these names and sources of these types: as many plans as it has callers."""


def fill(shape: type[Shape], *sources: object, **values: object) -> Shape:
    """An answer or entry of this shape: each field is the value of that name, else that attribute of the first source that has it.

    Of an attribute, money becomes a JSON number, a tuple a list and a mapping a dict; a value stays, but for money. `schema` is `SCHEMA`.

    Raises:
        AttributeError: no source has a field. Sources of one type have the same attributes.
        TypeError: the shape has no field for a value.
    """
    key = (shape, *values, *map(type, sources))
    if (plan := _PLANS.get(key)) is None:
        plan = _PLANS[key] = _plan(shape, sources, values.keys())
    blank, readers = plan
    answer = blank | values
    for name, value in values.items():
        if type(value) is Decimal:
            answer[name] = float(value)
    # The plan was made of these sources and names: equally many, and `strict` would take a tenth of the call.
    for source, (names, read) in zip(sources, readers):  # noqa: B905
        for name, value in zip(names, read(source)):  # noqa: B905
            answer[name] = value if type(value) in _PLAIN else _to_json(value)
    return cast("Shape", answer)


def _plan(
    shape: type, sources: Iterable[object], values: KeysView[str]
) -> tuple[dict[str, object], tuple[tuple[tuple[str, ...], _Read], ...]]:
    """The shape's fields in their order, and what is taken of each source: the names, and what reads them all at once."""
    fields = shape.__annotations__
    if unknown := values - fields.keys():
        raise TypeError(f"{shape.__name__} has no {', '.join(sorted(unknown))}")
    open_fields = [name for name in fields if name not in values and name != "schema"]
    readers: list[tuple[tuple[str, ...], _Read]] = []
    for source in sources:
        names = tuple(name for name in open_fields if hasattr(source, name))
        open_fields = [name for name in open_fields if name not in names]
        readers.append((names, _read_attributes(names)))
    if open_fields:
        raise AttributeError(f"{shape.__name__}.{open_fields[0]} is an attribute of none of its sources")
    return {name: SCHEMA if name == "schema" else None for name in fields}, tuple(readers)


def _read_attributes(names: tuple[str, ...]) -> _Read:
    if len(names) > 1:
        return attrgetter(*names)
    return lambda source: tuple(getattr(source, name) for name in names)  # attrgetter of one name gives no tuple


def _to_json(value: object) -> object:
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, tuple):
        return [_to_json(each) for each in value]
    # The event stream takes texts alone for keys: a member of a StrEnum, which is one by its class, ends it without an answer.
    return {str(name): _to_json(each) for name, each in value.items()} if isinstance(value, Mapping) else value
