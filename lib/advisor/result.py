"""The advisor's answer: hardware with a configuration, its memory, speed and price, and the reasons, as codes (`lib.provenance`).

`lib.advisor.explain` gives the reasons of an entry; `lib.present.sentences` words them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import computed_field

from lib.advisor.candidates import Candidate
from lib.advisor.entry_memory import EntryMemory, FullLength
from lib.advisor.fit import Headroom
from lib.catalog import PriceState
from lib.catalog.offers import Hardware, Offer
from lib.engines import Engine, find_engine
from lib.model.spec import ModelSpec
from lib.precision import Loading
from lib.provenance import Answer, Reason, Reasons, Sentence
from lib.result import ABSENT, Exact, Hidden, Result, Usd
from lib.speed import End, Interval, SpeedEstimate, SpeedRequest
from lib.workload import Family, Sdk, Workload

DAYS_PER_MONTH = 30
"""Days of a month, as in `/estimate_cost`: a month of round-the-clock use is 720 hours."""
Verdict = Literal["comfortable", "usable", "tight", "slow"]
"""Room and speed to spare; room, and a speed between the limits of `lib.advisor.bands`; too little room to spare; too slow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedEnd(Result):
    """One end of the ranges of a prediction."""

    ttft_s: float
    """Time to first token."""
    inter_token_s: float | None
    """Time between tokens; null if nothing is decoded."""
    decode_tokens_per_s: float | None
    """Output tokens per second of one request; null if nothing is decoded."""
    throughput_tokens_per_s: float | None
    """Output tokens per second of all requests together; null if nothing is decoded."""


def find_end(speed: SpeedEstimate, end: End) -> SpeedEnd:
    """The values of a prediction, or one end of their ranges."""

    def at(band: Interval[float] | None) -> float | None:
        return None if band is None else band.at(end)

    return SpeedEnd(
        ttft_s=speed.ttft_s.at(end),
        inter_token_s=at(speed.tpot_s),
        decode_tokens_per_s=at(speed.decode_tokens_per_s),
        throughput_tokens_per_s=at(speed.output_tokens_per_s),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed(Result):
    """The predicted speed for `concurrency` requests of this shape, and the bounds of the datasheet.

    The shape: as stated, else answer = min(256, half of the context) and prompt = max(512, an eighth of it), at most the rest; the
    published shape for pictures (then the token counts mean nothing), as many seconds of sound as were asked for.
    """

    decode_tokens_per_s_upper_bound: float | None
    """Tokens per second of one request that the datasheet allows at most: no engine can be faster on this hardware."""
    request_s_lower_bound: float | None
    """Time of a request that the datasheet allows at least."""
    peak_flops_per_s: Hidden[float | None]
    """Peak of the devices that work at the same time."""
    basis: str
    """`prediction`, else the origin of the bounds; then all predictions are null."""
    predicted: Hidden[SpeedEstimate | None] = None
    """The prediction."""

    @property
    def tokens_per_s(self) -> float | None:
        """Tokens per second of one request: predicted, else the upper bound."""
        return self.decode_tokens_per_s_upper_bound if self.inter_token_s is None else self.decode_tokens_per_s

    @property
    def likely_request_s(self) -> float | None:
        """Time of a request: predicted, else the lower bound."""
        return self.request_s_lower_bound if self.predicted is None else self.predicted.request_s

    def _value(self, figure: Literal["ttft_s", "tpot_s", "decode_tokens_per_s", "output_tokens_per_s", "real_time_factor"]) -> float | None:
        band: Interval[float] | None = None if self.predicted is None else getattr(self.predicted, figure)
        return None if band is None else band.value

    @computed_field
    @property
    def ttft_s(self) -> float | None:
        """Predicted time to first token (of one pass, of one picture); the whole request if nothing is decoded."""
        return self._value("ttft_s")

    @computed_field
    @property
    def inter_token_s(self) -> float | None:
        """Predicted time between tokens; null if nothing is decoded."""
        return self._value("tpot_s")

    @computed_field
    @property
    def decode_tokens_per_s(self) -> float | None:
        """Predicted output tokens per second of one request; null if nothing is decoded."""
        return self._value("decode_tokens_per_s")

    @computed_field
    @property
    def throughput_tokens_per_s(self) -> float | None:
        """Predicted output tokens per second of all requests together; null if nothing is decoded."""
        return self._value("output_tokens_per_s")

    @computed_field
    @property
    def request_s(self) -> float | None:
        """Predicted time of a request."""
        return None if self.predicted is None else self.predicted.request_s

    @computed_field
    @property
    def real_time_factor(self) -> float | None:
        """Predicted seconds of sound per second; null for other work."""
        return self._value("real_time_factor")

    @computed_field
    @property
    def bound(self) -> str | None:
        """Limit of the speed: bandwidth, compute, overhead, or transfer of weights from host memory."""
        return None if self.predicted is None else self.predicted.bound

    @computed_field
    @property
    def low(self) -> SpeedEnd | None:
        """Low end of the ranges."""
        return None if self.predicted is None else find_end(self.predicted, "low")

    @computed_field
    @property
    def high(self) -> SpeedEnd | None:
        """High end of the ranges."""
        return None if self.predicted is None else find_end(self.predicted, "high")

    @computed_field
    @property
    def prompt_tokens(self) -> int | None:
        """Tokens of a prompt."""
        return None if self.predicted is None else self.predicted.request.prompt_tokens

    @computed_field
    @property
    def output_tokens(self) -> int | None:
        """Tokens of an answer."""
        return None if self.predicted is None else self.predicted.request.output_tokens

    @computed_field
    @property
    def concurrency(self) -> int | None:
        """Requests at the same time."""
        return None if self.predicted is None else self.predicted.request.concurrency


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost(Result):
    """Price of the hardware per hour and month, storage left out."""

    usd_per_hour: Usd
    """Price of one machine."""
    total_usd_per_month: Usd
    """Price of all replicas in the stated hours, without sleep."""
    hours_per_day: Exact
    """Hours a day that it runs."""
    days_per_month: int
    """Days of a month."""
    replicas: Hidden[int] = 1
    """Machines."""
    usd_per_million_output_tokens: Usd | None = None
    """Price of a million output tokens at full use, at this concurrency; null if the speed is not predicted."""
    usd_per_request: Usd | None = None
    """The month divided by its requests; without traffic the share of an hour that one takes. Null if the speed is not predicted."""
    usd_per_month_unpaused: Usd | None = None
    """The month if it is not paused outside its hours; null if that makes no difference."""
    usd_per_month_asleep: Usd | None = None
    """The month if it falls asleep between requests; null if that does not halve the bill."""
    sleep_after_s: int | None = None
    """Seconds without requests until it falls asleep, for `usd_per_month_asleep`."""
    wakes_per_day: Exact | None = None
    """Starts a day, for `usd_per_month_asleep`."""
    cold_start_s: int
    """Seconds that a start takes: the machine, then the model's files to fetch and load."""
    file_bytes: Hidden[int] = 0
    """Bytes that a start fetches and loads."""
    usd_per_request_beyond_quota: Usd | None = None
    """ZeroGPU: price of a request beyond the visitor's quota; null elsewhere, and where the visitors' plan cannot pay."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """A configuration that does the work on an offer, with its speed, the machines that the traffic takes, reasons and caveats."""

    candidate: Candidate
    headroom: Headroom
    speed: Speed
    replicas: int
    verdict: Verdict
    reasons: tuple[Reason, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedHardware(Result):
    """Hardware, by its names."""

    offer: Hidden[Hardware]
    """The offer, or the visitor's own cards."""

    @computed_field
    @property
    def hardware(self) -> str:
        """Id of the hardware on its platform."""
        return self.offer.id

    @computed_field
    @property
    def platform(self) -> str:
        """Platform that rents it out; "own" for the visitor's own cards."""
        return self.offer.platform

    @computed_field
    @property
    def name(self) -> str:
        """Name of the hardware."""
        return self.offer.name


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfiguredHardware(JudgedHardware):
    """Hardware that runs the model as asked, and the configuration in which it does."""

    precision: str
    """Format of the weights."""
    engine: Engine | Literal["provider"]
    """Engine; "provider" where the model runs elsewhere."""
    sdk: Sdk | Literal[""]
    """SDK that the Space needs: gradio or docker; "" if the hardware is not that of a Space."""
    devices: int
    """Devices that hold a copy of the model."""
    gpu_layers: int = -1
    """llama.cpp's `-ngl` where the devices do not hold all layers; -1: they do."""
    cpu_moe_layers: int = 0
    """llama.cpp's `--n-cpu-moe`: layers, from the first, whose routed experts are in the host's memory; 0: none."""
    replicas: int
    """Machines that the day's requests take."""
    step: Hidden[int]
    """Compression of the weights below the requested format: 0 none, 1 to eight bits, 2 to four."""
    memory: EntryMemory | None
    """Memory of the configuration; null if the model runs elsewhere."""
    speed: Speed
    """Speed of the configuration."""
    verdict: Verdict
    """`comfortable`, `usable` (a measure of speed is between its limits), `tight` (less than a tenth of a device is free) or `slow`."""
    reasons: Reasons
    """Memory, precision and devices, speed, price, requirements of the platform."""
    loading: Loading = "as stored"
    """`as stored`, `quantized on load` (by the engine) or `other checkpoint` (which must exist)."""
    full_length: FullLength | None = None
    """Memory with every request at full length, of the pick and of own hardware; null of others, and if nothing is cached."""

    @property
    def hosted_with(self) -> Engine | None:
        """The engine on this hardware; `None` if the model runs elsewhere."""
        return find_engine(self.engine)

    @property
    def free_share(self) -> float:
        """Free memory over capacity, 1 when nothing is held."""
        return 1.0 if self.memory is None else self.memory.free_bytes / self.memory.capacity_bytes

    @computed_field
    @property
    def accelerator(self) -> str | None:
        """Id of the card or chip; null on a CPU."""
        return self.offer.accelerator

    @computed_field
    @property
    def accelerator_count(self) -> int:
        """Number of cards or chips."""
        return self.offer.accelerator_count

    @computed_field
    @property
    def repository(self) -> str | None:
        """Hub id of the checkpoint to load; "" for the model's own, null if another one is needed and none is known."""
        needed = next((reason for reason in self.reasons if reason.code == "checkpoint"), None)
        return "" if needed is None else str(needed.values["repository"]) or None


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry(ConfiguredHardware):
    """Hardware that is rented, with its price."""

    offer: Hidden[Offer]
    """The offer."""
    cost: Cost
    """Price."""
    pareto: bool = False
    """Whether no other entry is both as cheap and as fast."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnHardware(JudgedHardware):
    """The visitor's own cards under the same question."""

    usd_per_hour: None = None
    """Null: nothing is rented, and neither electricity nor the purchase is counted."""
    runs_as: ConfiguredHardware | None
    """The configuration in which they run the model."""
    obstacles: Reasons = ()
    """Reasons that they do not run it."""
    larger: tuple[ConfiguredHardware, ...] = ()
    """More or larger cards of the same kind that run it."""

    @computed_field
    @property
    def fits(self) -> bool:
        """Whether they run the model."""
        return self.runs_as is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejection(JudgedHardware):
    """An offer that does not run the model as asked; without all its obstacles it would."""

    offer: Hidden[Offer]
    """The offer."""
    reason: Sentence
    """The first obstacle."""
    also: Reasons = ()
    """Further obstacles."""

    @computed_field
    @property
    def reason_code(self) -> str:
        """A stable code of the first obstacle."""
        return self.reason.code


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderOption(Result):
    """Inference Providers, which are paid per token."""

    suits: bool
    """Whether providers serve this task."""
    available: bool | None
    """Whether one serves this model; null when the Hub was not asked."""
    providers: tuple[str, ...]
    """Names of those that do."""
    reasons: Reasons
    """Price, credits and limits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recommendation(Answer):
    """Hardware to run a model on: the pick, all that qualifies in order, and all that does not, with reasons.

    Each listed offer of the asked platforms is in exactly one of `ranked` and `rejected`.
    """

    model: str
    """Id of the model; "" if a provider runs it."""
    task: str
    """Task on the Hub that was judged."""
    pick: Entry | None
    """The first of `ranked`; null if nothing qualifies."""
    ranked: tuple[Entry, ...]
    """Offers that run the model as asked, best first, up to the call's limit."""
    ranked_total: int
    """Number of offers that do."""
    rejected: tuple[Rejection, ...]
    """Offers that do not, up to the call's limit."""
    rejected_total: int
    """Number of offers that do not."""
    provider: ProviderOption
    """Inference Providers as the way without hardware."""
    notes: Reasons
    """Reasons about the whole answer."""
    prices: PriceState
    """Prices in use."""
    own: Annotated[OwnHardware | None, ABSENT] = None
    """The visitor's own cards, if `own_hardware` names any."""
    workload: Hidden[Workload]
    """The question."""
    family: Hidden[Family]
    """Kind of work that was judged."""
    usual: Hidden[SpeedRequest]
    """The request whose speed is predicted."""
    spec: Hidden[ModelSpec | None] = None
    """The model; None if none runs here."""
