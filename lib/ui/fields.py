"""The questions of each tab: arguments of the API, their defaults, their ranges, and the words people choose from."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from lib import precision as precisions
from lib.catalog import Catalog
from lib.catalog.offers import Offer
from lib.catalog.silicon import OWNED_KINDS
from lib.cost.usage import TARGET_TPOT_S, TARGET_TTFT_S
from lib.engines import ENGINES
from lib.platforms import OWN, PLATFORMS, TPU_PLATFORMS, TRAITS, with_listed
from lib.present import training_cards
from lib.present.cards import PLATFORM_NAMES
from lib.present.markup import refusal_note
from lib.present.numbers import usd_per_hour
from lib.request.types import ACCOUNTS, AUTO, LONGEST_IMAGE, LONGEST_SOUND_S, MAX_STEPS, MOST_IMAGES, SHORTEST_SIDE
from lib.workload import GUIDANCES, LONGEST_SIDE, MODES, MOST_FRAMES, MOST_RANK, OFFLOADS, PRIORITIES, SDKS

MODEL_LENGTH = 600
_TEXT_LENGTH = 200

Value = str | float | int | list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One question: the argument of the API it becomes, its name in a link, its default, what it accepts, and how the page calls it.

    `low` and `high` bound a number, `choices` the words; a list is joined with commas in a link.
    """

    argument: str
    name: str
    default: Value
    low: float = 0
    high: float = 0
    choices: tuple[str, ...] = ()
    label: str = ""

    def read(self, text: str) -> Value | None:
        """The value that a link's text gives this field; `None` when the text is not one of its values."""
        if isinstance(self.default, list):
            words = [word for word in text[:_TEXT_LENGTH].split(",") if word in self.choices]
            return words or None
        if isinstance(self.default, str):
            return text if text in self.choices else None
        return self._number(text)

    def _number(self, text: str) -> Value | None:
        try:
            value = float(text[:40])
        except ValueError:
            return None
        if not math.isfinite(value) or not self.low <= value <= self.high:
            return None
        return int(value) if value.is_integer() else None if isinstance(self.default, int) else value


def arguments(fields: Sequence[Field], values: Sequence[Value]) -> dict[str, Any]:
    """The values of a tab as arguments of the API, by name: an emptied number is its default, several platforms are a comma list."""
    pairs = zip(fields, values, strict=True)
    named: dict[str, Any] = {field.argument: field.default if value is None else value for field, value in pairs}
    return {name: ",".join(value) if isinstance(value, list) else value for name, value in named.items()}


def format_error(refused: Exception | str, failed: str = "", box: Sequence[Field] = ()) -> str:
    """The markup of a refusal, under what failed ("No bill."), with the label of a field (first of the box's) in place of its argument.

    "iterations was '1'." becomes "Timed products was '1'.", and "Before: concurrency was None." "Before: concurrent requests was None.".
    """
    sentence, labels = str(refused), {**LABELS, **{field.argument: field.label for field in box}}
    name, was, rest = sentence.partition(" was ")
    side, colon, argument = name.rpartition(": ")
    label = labels.get(argument, "") if was else ""
    label = label[:1].lower() + label[1:] if side else label
    return refusal_note(f"{side}{colon}{label} was {rest}" if label else sentence, failed)


EXAMPLE = "meta-llama/Llama-3.1-8B-Instruct"
LONGEST_CONTEXT = 1_048_576
MOST_AT_ONCE = 256
MOST_DEVICES = 16
MOST_GPU_LAYERS = 200

TASKS: tuple[tuple[str, str], ...] = (
    ("Automatic", "auto"),
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
    ("Inference", "inference"),
    ("LoRA fine-tuning", "lora"),
    ("QLoRA fine-tuning", "qlora"),
    ("Full fine-tuning", "full"),
)
PRIORITY_WORDS: tuple[tuple[str, str], ...] = (("Cheapest", "cheapest"), ("Balanced", "balanced"), ("Fastest", "fastest"))
ACCOUNT_WORDS: tuple[tuple[str, str], ...] = (
    ("Free", "free"),
    ("PRO", "pro"),
    ("Team", "team"),
    ("Enterprise", "enterprise"),
    ("Not signed in", "anonymous"),
)
VISITOR_WORDS: tuple[tuple[str, str], ...] = (("As the host", AUTO), *ACCOUNT_WORDS)
PLATFORM_WORDS: tuple[tuple[str, str], ...] = tuple(
    (" and ".join(TRAITS[held].label for held in with_listed(name)), name) for name in PLATFORMS if TRAITS[name].listed_with is None
)
_PLATFORMS = tuple(value for _, value in PLATFORM_WORDS)
COMPARED_PLATFORM_WORDS: tuple[tuple[str, str], ...] = (
    *((TRAITS[name].label, name) for name in PLATFORMS),
    ("A provider, per token", "providers"),
)
COMPARED_PLATFORMS = [*(name for name in PLATFORMS if TRAITS[name].on_hub), "providers"]
AXIS_WORDS: tuple[tuple[str, str], ...] = (("Requests a day", "requests"), ("Hours a day", "hours"))
SDK_WORDS: tuple[tuple[str, str], ...] = (("Any", AUTO), ("Gradio", "gradio"), ("Docker", "docker"))
ENGINE_WORDS: tuple[tuple[str, str], ...] = (("Automatic", AUTO), *((name, name) for name in ENGINES))
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


def hardware_words(catalog: Catalog) -> list[tuple[str, str]]:
    """Every offer of today with its price."""
    return [_hardware(offer) for offer in catalog.on(PLATFORMS)]


def own_words(catalog: Catalog) -> list[tuple[str, str]]:
    """Every card and Mac of the catalog, as hardware of the visitor's own, with the maker's words: the field searches its labels."""
    owned = [card for card in catalog.accelerators.values() if card.kind in OWNED_KINDS]
    return [(f"{card.name} · {PLATFORM_NAMES[OWN]}", card.id) for card in owned]


WORKLOAD: tuple[Field, ...] = (
    Field(argument="context_tokens", name="context", default=4096, low=1, high=LONGEST_CONTEXT, label="Context length"),
    Field(argument="prompt_tokens", name="prompt", default=0, low=0, high=LONGEST_CONTEXT, label="Prompt tokens"),
    Field(argument="output_tokens", name="answer", default=0, low=0, high=LONGEST_CONTEXT, label="Output tokens"),
    Field(argument="concurrency", name="concurrency", default=1, low=1, high=MOST_AT_ONCE, label="Concurrent requests"),
    Field(argument="requests_per_day", name="requests", default=100, low=0, high=1_000_000_000, label="Requests a day"),
    Field(argument="visitors_per_day", name="daily_visitors", default=0, low=0, high=1_000_000_000, label="Visitors a day"),
    Field(argument="hours_per_day", name="hours", default=24.0, low=1, high=24, label="Hours a day"),
    Field(argument="precision", name="precision", default="auto", choices=tuple(precisions.NAMES), label="Precision"),
    Field(argument="engine", name="engine", default=AUTO, choices=(AUTO, *ENGINES), label="Engine"),
    Field(argument="account", name="account", default="free", choices=ACCOUNTS, label="Account"),
    Field(argument="visitor_account", name="visitors", default=AUTO, choices=(AUTO, *ACCOUNTS), label="Visitors' account"),
    Field(argument="hardware", name="hardware", default="auto", choices=("auto",), label="Hardware"),
    Field(argument="cards", name="cards", default=1, low=1, high=MOST_DEVICES, label="Card count"),
    Field(argument="images", name="images", default=0, low=0, high=MOST_IMAGES, label="Images in a prompt"),
    Field(argument="image_width", name="image_width", default=1024, low=SHORTEST_SIDE, high=LONGEST_IMAGE, label="Image width, pixels"),
    Field(argument="image_height", name="image_height", default=1024, low=SHORTEST_SIDE, high=LONGEST_IMAGE, label="Image height, pixels"),
    Field(argument="audio_seconds", name="sound", default=0.0, low=0, high=LONGEST_SOUND_S, label="Length of sound, s"),
    Field(argument="width", name="width", default=0, low=0, high=LONGEST_SIDE, label="Width, pixels"),
    Field(argument="height", name="height", default=0, low=0, high=LONGEST_SIDE, label="Height, pixels"),
    Field(argument="frames", name="frames", default=0, low=0, high=MOST_FRAMES, label="Frames"),
    Field(argument="steps", name="denoising", default=0, low=0, high=MAX_STEPS, label="Denoising steps"),
    Field(argument="guidance", name="guidance", default="auto", choices=GUIDANCES, label="Guidance"),
)
"""What every tab asks about, beside the model: one state above the tabs. What follows the hardware is asked of some models
(`FIELDS_BY_MEDIUM`)."""
FIELDS_BY_MEDIUM: dict[str, tuple[str, ...]] = {
    "pictures": ("width", "height", "denoising", "guidance"), "clips": ("frames",), "images": ("images",), "sound": ("sound",),
    "context": (), "prompt": ("prompt",), "answer": ("answer",),
}  # fmt: skip
"""What a model may make, or take beside text or in its place, which lengths its requests have (`lib.advisor.candidates.lengths_of`), and
the questions about that, by name: each medium has a row. The context keeps its value."""
RECOMMEND: tuple[Field, ...] = (
    Field(argument="task", name="task", default="auto", choices=tuple(value for _, value in TASKS), label="Task"),
    Field(argument="priority", name="priority", default="balanced", choices=PRIORITIES, label="Priority"),
    Field(argument="max_usd_per_month", name="budget", default=0.0, low=0, high=1_000_000_000, label="Budget, USD a month"),
    Field(argument="min_tokens_per_s", name="speed", default=0.0, low=0, high=1_000_000, label="Minimum speed, tokens/s"),
    Field(argument="max_ttft_s", name="ttft", default=0.0, low=0, high=86_400, label="Longest time to first token, s"),
    Field(argument="sdk", name="sdk", default=AUTO, choices=(AUTO, *SDKS), label="Space SDK"),
    Field(argument="platforms", name="platforms", default=["spaces"], choices=_PLATFORMS, label="Where"),
)
"""What else decides which hardware is recommended."""
QUESTION = (*WORKLOAD, *RECOMMEND)
"""The whole question, as `/recommend` takes it, and the hardware that other tabs look at. Every tab asks it, then its own fields."""
GUIDANCE_WORDS: tuple[tuple[str, str], ...] = (("Automatic", "auto"), ("Off (distilled models)", "off"))
OFFLOAD_WORDS: tuple[tuple[str, str], ...] = (
    ("Nothing", "none"),
    ("Idle components", "model"),
    ("Idle blocks", "group"),
    ("Idle layers", "sequential"),
)


MEMORY: tuple[Field, ...] = (
    Field(argument="kv_precision", name="kv", default="auto", choices=tuple(precisions.KV_NAMES), label="Cache precision"),
    Field(argument="mode", name="mode", default="inference", choices=MODES, label="Use"),
    Field(argument="devices", name="devices", default=0, low=0, high=MOST_DEVICES, label="GPUs"),
    Field(argument="gpu_layers", name="ngl", default=-1, low=-1, high=MOST_GPU_LAYERS, label="Layers on the GPU"),
    Field(argument="offload", name="offload", default="none", choices=OFFLOADS, label="Moved to host memory"),
)
COST: tuple[Field, ...] = (
    Field(argument="axis", name="along", default="requests", choices=tuple(value for _, value in AXIS_WORDS), label="X axis"),
    Field(argument="sleep_after_s", name="sleep", default="900", choices=tuple(value for _, value in SLEEP_WORDS), label="Sleep after"),
    Field(argument="usd_per_million_input", name="in", default=0.0, low=0, high=1_000_000, label="Prompt, USD per million"),
    Field(argument="usd_per_million_output", name="out", default=0.0, low=0, high=1_000_000, label="Output, USD per million"),
    Field(
        argument="beside",
        name="beside",
        default=COMPARED_PLATFORMS,
        choices=tuple(value for _, value in COMPARED_PLATFORM_WORDS),
        label="Compare with",
    ),
    Field(argument="days_per_month", name="days", default=30.0, low=0, high=31, label="Days a month"),
    Field(argument="replicas", name="replicas", default=0, low=0, high=1_000, label="Replicas"),
    Field(argument="storage_gb", name="storage", default=0.0, low=0, high=1_000_000_000, label="Private storage, GB"),
)
PHASE_WORDS: tuple[tuple[str, str], ...] = (("Serve", "inference"), ("Train", "training"), ("Both", "both"))
FRAMEWORK_WORDS: tuple[tuple[str, str], ...] = (("PyTorch", "pytorch"), ("JAX", "jax"), ("TensorFlow", "tensorflow"))
SHAPE_WORDS: tuple[tuple[str, str], ...] = (
    ("Not stated", "not_stated"),
    ("Never", "never"),
    ("Within a few buckets", "buckets"),
    ("At every step", "every_step"),
)
KERNEL_WORDS: tuple[tuple[str, str], ...] = (("None", "none"), ("CUDA", "cuda"), ("Triton", "triton"), ("Pallas", "pallas"))
PRECISION_NEEDED: tuple[tuple[str, str], ...] = (
    ("As above", "auto"), ("BF16", "bf16"), ("FP16", "fp16"), ("FP8", "fp8"), ("INT8", "int8"), ("INT4", "int4"),
    ("FP4", "fp4"), ("FP32", "fp32"), ("FP64", "fp64"),
)  # fmt: skip
PLACE_WORDS: tuple[tuple[str, str], ...] = (
    ("On Google Cloud already", "on_gcp"),
    ("Only outside Google Cloud", "outside_gcp"),
    ("In several clouds", "multi_cloud"),
    ("In our own data centre", "on_prem"),
    ("At the edge", "edge"),
    ("Rules on where data may be", "regulated"),
)
TRAIT_WORDS: tuple[tuple[str, str], ...] = (
    ("A limit on the slowest requests (p99)", "latency_sensitive"),
    ("Branches depend on the data", "irregular_control_flow"),
    ("Unstructured sparsity", "unstructured_sparsity"),
    ("Very large embedding tables", "large_embeddings"),
    ("Experiments: the program changes often", "experiments"),
)
BATCH_WORDS: tuple[tuple[str, str], ...] = (
    ("Not stated", "not_stated"), ("Large and regular", "large_regular"), ("Small or irregular", "small_irregular"),
)  # fmt: skip
TEAM_WORDS: tuple[tuple[str, str], ...] = (("Not stated", "not_stated"), ("CUDA", "cuda"), ("JAX and XLA", "jax"))
BUDGET_WORDS: tuple[tuple[str, str], ...] = (
    ("Not stated", "not_stated"), ("May be interrupted (spot)", "interruptible"), ("Used for one to three years", "committed"),
)  # fmt: skip
COMMITMENT_WORDS: tuple[tuple[str, str], ...] = (("On demand", "on_demand"), ("Spot", "spot"), ("1 year", "1_year"), ("3 years", "3_years"))


def _values(words: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    return tuple(value for _, value in words)


GPU_TPU: tuple[Field, ...] = (
    Field(argument="phase", name="phase", default="inference", choices=_values(PHASE_WORDS)),
    Field(argument="framework", name="framework", default="pytorch", choices=_values(FRAMEWORK_WORDS), label="Framework"),
    Field(argument="shapes", name="shapes", default="not_stated", choices=_values(SHAPE_WORDS), label="Shapes change"),
    Field(argument="kernels", name="kernels", default="none", choices=_values(KERNEL_WORDS), label="Own kernels"),
    Field(argument="precision", name="needs", default="auto", choices=_values(PRECISION_NEEDED)),
    Field(argument="places", name="places", default=[], choices=_values(PLACE_WORDS)),
    Field(argument="traits", name="traits", default=[], choices=_values(TRAIT_WORDS)),
    Field(argument="batch", name="batches", default="not_stated", choices=_values(BATCH_WORDS), label="Batches"),
    Field(argument="chips_at_scale", name="chips", default=0, low=0, high=100_000, label="Chips or cards together"),
    Field(argument="training_steps", name="steps", default=0, low=0, high=10**12, label="Training steps"),
    Field(argument="team", name="team", default="not_stated", choices=_values(TEAM_WORDS), label="The team knows"),
    Field(argument="budget", name="spend", default="not_stated", choices=_values(BUDGET_WORDS), label="Budget"),
    Field(argument="region", name="region", default="us-central1", choices=("us-central1",), label="Region"),
    Field(argument="commitment", name="commitment", default="on_demand", choices=_values(COMMITMENT_WORDS), label="TPU price"),
    Field(argument="torchtpu_claim", name="claim", default="no", choices=("no", "yes")),
)


POLICY_WORDS: tuple[tuple[str, str], ...] = (("Static", "static"), ("Dynamic", "dynamic"), ("Continuous", "continuous"))
ARRIVAL_WORDS: tuple[tuple[str, str], ...] = (
    ("At random (Poisson)", "poisson"),
    ("In bursts", "bursty"),
    ("Closed loop: clients that wait", "closed"),
    ("As recorded (CSV)", "recorded"),
)
LENGTH_WORDS: tuple[tuple[str, str], ...] = (("Fixed", "fixed"), ("Uniform", "uniform"), ("Lognormal", "lognormal"))
MEASURE_WORDS: tuple[tuple[str, str], ...] = (
    ("TTFT p99", "ttft"), ("Latency p99", "latency"), ("Tokens/s", "throughput"), ("USD per million", "price"),
)  # fmt: skip
TRAFFIC: tuple[Field, ...] = (
    Field(argument="policy", name="policy", default="continuous", choices=_values(POLICY_WORDS), label="Batching"),
    Field(argument="requests_per_s", name="rate", default=1.0, low=0.0001, high=10_000, label="Requests per second"),
    Field(argument="max_ttft_s", name="ttft_target", default=TARGET_TTFT_S, low=0, high=604_800, label="Target: TTFT, s"),
    Field(argument="max_tpot_s", name="tpot_target", default=TARGET_TPOT_S, low=0, high=604_800, label="Target: TPOT, s"),
    Field(argument="arrivals", name="arrivals", default="poisson", choices=_values(ARRIVAL_WORDS), label="Arrivals"),
    Field(argument="duration_s", name="duration", default=300.0, low=1, high=604_800, label="Duration, s"),
    Field(argument="burstiness", name="bursts", default=0.25, low=0.01, high=1, label="Burstiness"),
    Field(argument="clients", name="clients", default=8, low=1, high=4_096, label="Clients (closed loop)"),
    Field(argument="trace", name="trace", default="", choices=("",)),
    Field(argument="lengths", name="lengths", default="uniform", choices=_values(LENGTH_WORDS), label="Lengths"),
    Field(argument="spread", name="spread", default=0.5, low=0, high=3, label="Spread"),
    Field(argument="seed", name="seed", default=0, low=0, high=2**31, label="Seed"),
    Field(argument="max_batch_size", name="slots", default=32, low=1, high=1_024, label="Largest batch"),
    Field(argument="timeout_s", name="timeout", default=0.05, low=0, high=3_600, label="Time-out, s (dynamic)"),
    Field(argument="shared_prefix_tokens", name="prefix", default=0, low=0, high=LONGEST_CONTEXT, label="Shared prefix, tokens"),
    Field(argument="replicas", name="machines", default=1, low=1, high=64, label="Replicas"),
    Field(argument="scale_to_zero_after_s", name="idle", default=0.0, low=0, high=604_800, label="Scale to zero after, s"),
    Field(argument="cold_start_s", name="cold", default=120.0, low=0, high=3_600, label="Cold start, s"),
    Field(argument="concurrency_limit", name="limit", default=0, low=0, high=4_096, label="Concurrency limit of the app"),
)


def every_field(catalog: Catalog) -> tuple[Field, ...]:
    """`ALL_FIELDS` with the hardware and the regions of today."""
    hardware = (*hardware_words(catalog), *own_words(catalog))
    choices = {"hardware": ("auto", *(value for _, value in hardware)), "region": tuple(tpu_regions(catalog))}
    return tuple(replace(field, choices=choices[field.name]) if field.name in choices else field for field in ALL_FIELDS)


def tpu_regions(catalog: Catalog) -> list[str]:
    """Regions where Cloud TPU has a price."""
    return sorted({region for offer in catalog.on(TPU_PLATFORMS) for region in offer.usd_per_hour_by_region})


METHOD_WORDS: tuple[tuple[str, str], ...] = (("LoRA", "lora"), ("QLoRA", "qlora"), ("DoRA", "dora"), ("Full", "full"))
OPTIMIZER_WORDS: tuple[tuple[str, str], ...] = (
    ("AdamW, fused", "adamw"), ("AdamW, foreach", "adamw_foreach"), ("AdamW, 8-bit states", "adamw_8bit"), ("Paged AdamW", "paged_adamw"),
    ("Paged AdamW, 8-bit states", "paged_adamw_8bit"), ("Adafactor", "adafactor"), ("Muon", "muon"), ("SGD", "sgd"),
)  # fmt: skip
TRAINING_PRECISION_WORDS: tuple[tuple[str, str], ...] = (
    ("Mixed, with master weights", "mixed"), ("Pure bf16", "bf16"), ("32-bit float (fp32)", "fp32"),
)  # fmt: skip
CHECKPOINTING_WORDS: tuple[tuple[str, str], ...] = (("None", "none"), ("Every layer", "layers"), ("Offloaded to host memory", "offloaded"))
STACK_WORDS: tuple[tuple[str, str], ...] = (
    ("TRL, fused loss", "trl"), ("transformers Trainer", "transformers"), ("Unsloth", "unsloth"), ("ms-swift", "ms-swift"),
    ("axolotl", "axolotl"), ("torchtune", "torchtune"),
)  # fmt: skip
SHARDING_WORDS = tuple((label, name) for name, label in training_cards.SHARDING_WORDS.items())
ATTENTION_WORDS: tuple[tuple[str, str], ...] = (("sdpa", "sdpa"), ("FlashAttention", "flash"), ("eager", "eager"))
TRAINING_PLACES: tuple[tuple[str, str], ...] = tuple(
    ("My own GPU" if traits.owned else traits.label, name) for name, traits in TRAITS.items() if traits.trains
)
MODULE_WORDS: tuple[tuple[str, str], ...] = (
    ("All linear layers", "all-linear"), ("q_proj, v_proj", "q_proj,v_proj"), ("Attention", "q_proj,k_proj,v_proj,o_proj"),
    ("MLP", "gate_proj,up_proj,down_proj"),
)  # fmt: skip
TRAIN: tuple[Field, ...] = (
    Field(argument="method", name="method", default="lora", choices=_values(METHOD_WORDS), label="Method"),
    Field(argument="sequence_tokens", name="sequence", default=2048, low=1, high=LONGEST_CONTEXT, label="Sequence, tokens"),
    Field(argument="micro_batch", name="microbatch", default=1, low=1, high=65_536, label="Micro-batch"),
    Field(argument="accumulation", name="accumulation", default=8, low=1, high=65_536, label="Accumulation steps"),
    Field(argument="rows", name="rows", default=10_000, low=0, high=10**12, label="Rows"),
    Field(argument="tokens_per_row", name="row", default=512, low=1, high=10**8, label="Tokens per row"),
    Field(argument="epochs", name="epochs", default=1.0, low=0.0001, high=10_000, label="Epochs"),
    Field(argument="platforms", name="where", default=["spaces", "jobs"], choices=_values(TRAINING_PLACES)),
    Field(argument="rank", name="rank", default=16, low=1, high=MOST_RANK, label="Rank of the adapters"),
    Field(argument="target_modules", name="modules", default="all-linear", choices=_values(MODULE_WORDS), label="Target modules"),
    Field(argument="optimizer", name="optimizer", default="adamw", choices=_values(OPTIMIZER_WORDS), label="Optimizer"),
    Field(argument="precision", name="master", default="mixed", choices=_values(TRAINING_PRECISION_WORDS)),
    Field(
        argument="checkpointing",
        name="checkpointing",
        default="layers",
        choices=_values(CHECKPOINTING_WORDS),
        label="Gradient checkpointing",
    ),
    Field(argument="attention", name="attention", default="sdpa", choices=_values(ATTENTION_WORDS), label="Attention kernel"),
    Field(argument="packing", name="packing", default="yes", choices=("yes", "no"), label="Packing"),
    Field(argument="stack", name="stack", default="trl", choices=_values(STACK_WORDS), label="Stack"),
    Field(argument="fused_loss", name="loss", default="auto", choices=("auto", "yes", "no"), label="Fused loss"),
    Field(argument="double_quantization", name="doublequant", default="yes", choices=("yes", "no"), label="Double quantization"),
    Field(argument="sharding", name="sharding", default="none", choices=_values(SHARDING_WORDS), label="Sharding"),
    Field(argument="devices", name="gpus", default=1, low=1, high=1_024, label="GPUs"),
)


TAB_FIELDS: dict[str, tuple[Field, ...]] = {
    "recommend": (), "memory": MEMORY, "train": TRAIN, "cost": COST, "tpu": GPU_TPU, "traffic": TRAFFIC, "live": (), "space": (),
}  # fmt: skip
"""The fields of each tab beside `QUESTION`."""
ALL_FIELDS = (*QUESTION, *(field for own in TAB_FIELDS.values() for field in own))
"""Every field of the page in one order, each with a name of its own: what a link carries."""
FIELDS_BY_NAME = {field.name: field for field in ALL_FIELDS}
LABELS = {field.argument: field.label for field in reversed(ALL_FIELDS) if field.label}
TABS = tuple(TAB_FIELDS)


def precision_choices() -> list[tuple[str, str]]:
    """Every precision on offer: the plain ones by their words, then the named formats as they are called."""
    return _choices(PRECISIONS, precisions.NAMES)


def kv_precision_choices() -> list[tuple[str, str]]:
    """Every cache precision on offer."""
    return _choices(PRECISIONS, precisions.KV_NAMES)


def _choices(worded: Sequence[tuple[str, str]], names: Sequence[str]) -> list[tuple[str, str]]:
    plain = {value for _, value in worded}
    return [pair for pair in worded if pair[1] in names] + [(name, name) for name in names if name not in plain]
