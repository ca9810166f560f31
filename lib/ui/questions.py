"""The questions of each tab: arguments of the API, their defaults, their ranges, and the words people choose from."""

from __future__ import annotations

from collections.abc import Sequence

from lib import precision as precisions
from lib.catalog import load
from lib.catalog.offers import PLATFORMS, Offer
from lib.present.cards import PLATFORM_NAMES
from lib.present.numbers import usd_per_hour
from lib.ui.links import Field
from lib.workload import ACCOUNTS, ENGINES, MODES, PRIORITIES

EXAMPLE = "meta-llama/Llama-3.1-8B-Instruct"
LONGEST_CONTEXT = 1_048_576
MOST_AT_ONCE = 256
MOST_DEVICES = 16

TASKS: tuple[tuple[str, str], ...] = (
    ("As the model says", "auto"),
    ("Text generation, chat", "text-generation"),
    ("Text classification", "text-classification"),
    ("Embeddings", "feature-extraction"),
    ("Image generation", "text-to-image"),
    ("Video generation", "text-to-video"),
    ("Images and text", "image-text-to-text"),
    ("Speech recognition", "automatic-speech-recognition"),
    ("Only call a provider", "inference-api"),
)
PRECISIONS: tuple[tuple[str, str], ...] = (
    ("Automatic", "auto"),
    ("32-bit float (fp32)", "fp32"),
    ("16-bit float (bf16)", "bf16"),
    ("16-bit float (fp16)", "fp16"),
    ("8-bit float (fp8)", "fp8"),
    ("8-bit integer (int8)", "int8"),
    ("4-bit integer (int4)", "int4"),
)
MODE_WORDS: tuple[tuple[str, str], ...] = (
    ("Run", "inference"),
    ("Tune: LoRA", "lora"),
    ("Tune: QLoRA", "qlora"),
    ("Train in full", "full"),
)
PRIORITY_WORDS: tuple[tuple[str, str], ...] = (("Cheapest", "cheapest"), ("Balanced", "balanced"), ("Fastest", "fastest"))
ACCOUNT_WORDS: tuple[tuple[str, str], ...] = (
    ("Free", "free"),
    ("PRO", "pro"),
    ("Team", "team"),
    ("Enterprise", "enterprise"),
    ("Not signed in", "anonymous"),
)
PLATFORM_WORDS: tuple[tuple[str, str], ...] = (
    ("Spaces and ZeroGPU", "spaces"),
    ("Inference Endpoints", "endpoints"),
    ("Jobs", "jobs"),
    ("Cloud TPU", "tpu"),
)
_PLATFORMS = tuple(value for _, value in PLATFORM_WORDS)
BESIDE_WORDS: tuple[tuple[str, str], ...] = (
    ("Spaces", "spaces"),
    ("ZeroGPU", "zerogpu"),
    ("Inference Endpoints", "endpoints"),
    ("Jobs", "jobs"),
    ("Cloud TPU", "tpu"),
    ("A provider, per token", "providers"),
)
BESIDE = ["spaces", "zerogpu", "endpoints", "jobs", "providers"]
AXIS_WORDS: tuple[tuple[str, str], ...] = (("Requests a day", "requests"), ("Hours a day", "hours"))
SLEEP_WORDS: tuple[tuple[str, str], ...] = (
    ("Never", "0"),
    ("5 minutes", "300"),
    ("15 minutes", "900"),
    ("1 hour", "3600"),
    ("1 day", "86400"),
)


def _hardware(offer: Offer) -> tuple[str, str]:
    where, price = PLATFORM_NAMES[offer.platform], usd_per_hour(offer.usd_per_hour)
    return f"{offer.id} · {where} · {price}", f"{offer.platform}:{offer.id}"


HARDWARE_WORDS: tuple[tuple[str, str], ...] = (("The best Space for the model", "auto"), *map(_hardware, load().on(PLATFORMS)))

RECOMMEND: tuple[Field, ...] = (
    Field(argument="task", name="task", default="auto", choices=tuple(value for _, value in TASKS)),
    Field(argument="context_tokens", name="context", default=4096, low=1, high=LONGEST_CONTEXT),
    Field(argument="concurrency", name="concurrency", default=1, low=1, high=MOST_AT_ONCE),
    Field(argument="precision", name="precision", default="auto", choices=tuple(precisions.NAMES)),
    Field(argument="priority", name="priority", default="balanced", choices=PRIORITIES),
    Field(argument="requests_per_day", name="requests", default=100, low=0, high=1_000_000_000),
    Field(argument="hours_per_day", name="hours", default=24, low=1, high=24),
    Field(argument="max_usd_per_month", name="budget", default=0.0, low=0, high=1_000_000_000),
    Field(argument="min_tokens_per_s", name="speed", default=0.0, low=0, high=1_000_000),
    Field(argument="account", name="account", default="free", choices=ACCOUNTS),
    Field(argument="platforms", name="platforms", default=["spaces"], choices=_PLATFORMS),
)
MEMORY: tuple[Field, ...] = (
    Field(argument="context_tokens", name="context", default=4096, low=1, high=LONGEST_CONTEXT),
    Field(argument="batch_size", name="batch", default=1, low=1, high=MOST_AT_ONCE),
    Field(argument="precision", name="precision", default="auto", choices=tuple(precisions.NAMES)),
    Field(argument="kv_precision", name="kv", default="auto", choices=tuple(precisions.KV_NAMES)),
    Field(argument="engine", name="engine", default="transformers", choices=ENGINES),
    Field(argument="mode", name="mode", default="inference", choices=MODES),
    Field(argument="devices", name="devices", default=1, low=1, high=MOST_DEVICES),
)
COST: tuple[Field, ...] = (
    Field(argument="hardware", name="hardware", default="auto", choices=tuple(value for _, value in HARDWARE_WORDS)),
    Field(argument="axis", name="along", default="requests", choices=tuple(value for _, value in AXIS_WORDS)),
    Field(argument="requests_per_day", name="requests", default=100, low=0, high=1_000_000_000),
    Field(argument="hours_per_day", name="hours", default=24.0, low=0, high=24),
    Field(argument="sleep_after_s", name="sleep", default="900", choices=tuple(value for _, value in SLEEP_WORDS)),
    Field(argument="prompt_tokens", name="prompt", default=512, low=1, high=LONGEST_CONTEXT),
    Field(argument="output_tokens", name="answer", default=256, low=0, high=LONGEST_CONTEXT),
    Field(argument="usd_per_million_input", name="in", default=0.0, low=0, high=1_000_000),
    Field(argument="usd_per_million_output", name="out", default=0.0, low=0, high=1_000_000),
    Field(argument="platforms", name="beside", default=BESIDE, choices=tuple(value for _, value in BESIDE_WORDS)),
    Field(argument="account", name="account", default="free", choices=ACCOUNTS),
    Field(argument="days_per_month", name="days", default=30.0, low=0, high=31),
    Field(argument="replicas", name="replicas", default=1, low=1, high=1_000),
    Field(argument="storage_gb", name="storage", default=0.0, low=0, high=1_000_000_000),
)
TABS = ("recommend", "memory", "cost", "live", "space")


def precisions_shown() -> list[tuple[str, str]]:
    """Every precision on offer: the plain ones by their words, then the named formats as they are called."""
    return _shown(PRECISIONS, precisions.NAMES)


def kv_precisions_shown() -> list[tuple[str, str]]:
    """Every cache precision on offer."""
    return _shown(PRECISIONS, precisions.KV_NAMES)


def _shown(worded: Sequence[tuple[str, str]], names: Sequence[str]) -> list[tuple[str, str]]:
    known = {value for _, value in worded}
    return [pair for pair in worded if pair[1] in names] + [(name, name) for name in names if name not in known]
