"""The questions of each tab: arguments of the API, their defaults, their ranges, and the words people choose from."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lib import precision as precisions
from lib.advisor.tpu_options import HOME_REGION
from lib.catalog import Catalog
from lib.catalog.host_memory import read_host_memory
from lib.catalog.offers import Offer
from lib.catalog.silicon import OWNED_KINDS
from lib.cost.usage import TARGET_TPOT_S, TARGET_TTFT_S
from lib.engines import ENGINES
from lib.errors import BadArgument, InvalidInput
from lib.platforms import OWN, PLATFORMS, TPU_PLATFORMS, TRAITS, with_listed
from lib.present import training_cards
from lib.present.cards import PLATFORM_NAMES
from lib.present.markup import refusal_note
from lib.present.numbers import usd_an_hour
from lib.request.fields import Argument, Arguments, Form
from lib.request.serving import check_serving
from lib.request.types import AUTO, MAX_TOKENS_PER_S
from lib.service.compare_gpu_tpu import GpuTpuArguments
from lib.service.estimate_training import TrainingArguments
from lib.service.memory import MemoryArguments
from lib.service.outlook import OutlookArguments
from lib.service.recommend import RecommendArguments
from lib.service.simulate_batching import BatchingArguments
from lib.workload import MOST_DEVICES

MODEL_LENGTH = 600
_TEXT_LENGTH = 200

Value = str | float | int | list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One question of the page. Most are made of an argument of the API (`fields_of`).

    `low` and `high` bound a number, `choices` the words; a list is joined with commas in a link.
    """

    argument: str
    name: str
    default: Value
    low: float = 0
    high: float = 0
    choices: tuple[str, ...] = ()
    label: str = ""
    info: str | None = None
    check: Callable[[str, str], object] | None = None
    """Of a free text: reads it, or refuses it (`lib.errors`)."""

    def read(self, text: str) -> Value | None:
        """The value that a link's text gives this field; `None` when the text is not one of its values."""
        if self.check is not None:
            return self._text(text)
        if isinstance(self.default, list):
            words = [word for word in text[:_TEXT_LENGTH].split(",") if word in self.choices]
            return words or None
        if isinstance(self.default, str):
            return text if text in self.choices else None
        return self._number(text)

    def _text(self, text: str) -> str | None:
        try:
            self.check(self.argument, text)  # type: ignore[misc]  # the caller looked
        except InvalidInput:
            return None
        return text

    def _number(self, text: str) -> Value | None:
        try:
            value = float(text[:40])
        except ValueError:
            return None
        if not math.isfinite(value) or not self.low <= value <= self.high:
            return None
        return int(value) if value.is_integer() else None if isinstance(self.default, int) else value


def fields_of(asked: type[Arguments], group: str, **changes: Mapping[str, Any]) -> tuple[Field, ...]:
    """The fields of a group (`Form`) among an endpoint's arguments; `changes` are what the page asks otherwise, by argument."""
    listed = [(argument, argument.form) for argument in asked.list_fields().values() if argument.form is not None]
    return tuple(_field(argument, form, changes.get(argument.name, {})) for argument, form in listed if form.group == group)


def _field(argument: Argument, form: Form, changes: Mapping[str, Any]) -> Field:
    check, default, choices = argument.check, argument.default, argument.check.choices
    if check.shown is bool:
        default, choices = "yes" if default else "no", ("yes", "no")
    low, high = (check.low if form.low is None else form.low), (check.high if form.high is None else form.high)
    field = Field(
        argument=argument.name,
        name=form.link or argument.name,
        default=float(default) if check.shown is float else default,
        low=low or 0,
        high=high or 0,
        choices=choices,
        label=form.label,
        info=form.info or None,
    )
    return replace(field, **changes)


def _values(words: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    return tuple(value for _, value in words)


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
PRIORITY_WORDS: tuple[tuple[str, str], ...] = (("Cheapest", "cheapest"), ("Balanced", "balanced"), ("Fastest", "fastest"))
ACCOUNT_WORDS: tuple[tuple[str, str], ...] = (
    ("Free", "free"),
    ("PRO", "pro"),
    ("Team", "team"),
    ("Enterprise", "enterprise"),
    ("Not signed in", "anonymous"),
)
VISITOR_WORDS: tuple[tuple[str, str], ...] = (("Same as mine", AUTO), *ACCOUNT_WORDS)
PLATFORM_WORDS: tuple[tuple[str, str], ...] = tuple(
    (" and ".join(TRAITS[held].label for held in with_listed(name)), name) for name in PLATFORMS if TRAITS[name].listed_with is None
)
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
    where, price = PLATFORM_NAMES[offer.platform], usd_an_hour(offer.usd_per_hour)
    return f"{offer.name} · {where} · {price} · {offer.id}", f"{offer.platform}:{offer.id}"


def hardware_words(catalog: Catalog) -> list[tuple[str, str]]:
    """Every offer of today with its price and its id: the field searches its labels."""
    return [_hardware(offer) for offer in catalog.on(PLATFORMS)]


def own_words(catalog: Catalog) -> list[tuple[str, str]]:
    """Every card and Mac of the catalog, as hardware of the visitor's own, with the maker's words: the field searches its labels."""
    owned = [card for card in catalog.accelerators.values() if card.kind in OWNED_KINDS]
    return [(f"{card.name} · {PLATFORM_NAMES[OWN]}", card.id) for card in owned]


WORKLOAD = (
    *fields_of(RecommendArguments, "workload", serving={"default": "", "choices": ("",), "check": check_serving}),
    Field(argument="hardware", name="hardware", default="auto", choices=("auto",), label="Hardware"),
    Field(argument="cards", name="cards", default=1, low=1, high=MOST_DEVICES, label="Card count"),
    Field(argument="host_memory", name="ram", default="", choices=("",), check=read_host_memory, label="Memory of your machine"),
)
"""The question of every tab, without the model: one state above the tabs. Some are asked of some models only (`FIELDS_BY_MEDIUM`).

The card count and the memory count for hardware of the visitor's own only."""
FIELDS_BY_MEDIUM: dict[str, tuple[str, ...]] = {
    "pictures": ("width", "height", "denoising", "guidance"), "clips": ("frames",), "images": ("images",), "sound": ("sound",),
    "context": (), "prompt": ("prompt",), "answer": ("answer",),
}  # fmt: skip
"""Media that a model may make, or take with text or alone, which lengths its requests have (`lib.advisor.candidates.lengths_of`), and
the questions about that, by name: each medium has a row. The context keeps its value."""
RECOMMEND = fields_of(
    RecommendArguments, "recommend", task={"choices": _values(TASKS)}, platforms={"default": ["spaces"], "choices": _values(PLATFORM_WORDS)}
)
"""Further fields that decide which hardware is recommended."""
QUESTION = (*WORKLOAD, *RECOMMEND)
"""The whole question, as `/recommend` takes it, and the hardware that other tabs look at. Every tab asks it, then its own fields."""


MOST_COLUMNS = 3
"""Columns of a comparison."""


def split_columns(_: str, text: object) -> list[str]:
    """The hardware and models of a comparison, as a link has them between commas.

    Raises:
        BadArgument: more than a comparison has columns, or longer than their names may be.
    """
    items = list(dict.fromkeys(item for item in str(text).split(",") if item))
    if len(items) > MOST_COLUMNS or any(len(item) > MODEL_LENGTH for item in items):
        accepted = f"at most {MOST_COLUMNS} names of hardware or models, each up to {MODEL_LENGTH} characters"
        raise BadArgument("compare", f"a list of {len(items)}", accepted)
    return items


COMPARED = Field(argument="compare", name="compare", default="", choices=("",), check=split_columns)
"""The columns that the tab *Recommend* compares: offers (`spaces:l4x1`), the visitor's own cards (`RTX-4090x2`), and models."""
GUIDANCE_WORDS: tuple[tuple[str, str], ...] = (("Automatic", "auto"), ("Off (distilled models)", "off"))
CACHED_WORDS: tuple[tuple[str, str], ...] = (
    ("Latents and text embeddings", "all"), ("Latents", "latents"), ("Text embeddings", "text"), ("Nothing", "none"),
)  # fmt: skip
TOWER_WORDS: tuple[tuple[str, str], ...] = (
    ("Automatic", "auto"), ("Frozen", "no"), ("Frozen, its projector trains", "projector"), ("Trains", "yes"),
)  # fmt: skip
BASE_WORDS: tuple[tuple[str, str], ...] = (
    ("16 bits", "bf16"), ("8 bits (fp8, torchao)", "fp8"), ("8 bits, inputs too (fp8, torchao)", "fp8-dynamic"),
    ("8 bits (int8, SDNQ)", "int8"),
    ("4 bits (NF4)", "nf4"),
)  # fmt: skip
OFFLOAD_WORDS: tuple[tuple[str, str], ...] = (
    ("Nothing", "none"),
    ("Idle components", "model"),
    ("Idle blocks", "group"),
    ("Idle layers", "sequential"),
)


MEMORY = fields_of(MemoryArguments, "memory", devices={"default": 0, "low": 0})
COST = fields_of(
    OutlookArguments,
    "cost",
    sleep_after_s={"default": "900", "choices": _values(SLEEP_WORDS)},
    beside={"default": COMPARED_PLATFORMS, "choices": _values(COMPARED_PLATFORM_WORDS)},
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
    ("Data residency", "regulated"),
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


GPU_TPU = (
    *fields_of(GpuTpuArguments, "tpu", region={"choices": (HOME_REGION,)}),
    Field(argument="shapes", name="shapes", default="not_stated", choices=_values(SHAPE_WORDS), label="Shapes change"),
    Field(argument="places", name="places", default=[], choices=_values(PLACE_WORDS)),
    Field(argument="traits", name="traits", default=[], choices=_values(TRAIT_WORDS)),
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
    ("TTFT p99", "ttft"), ("Latency p99", "latency"), ("Tokens/s", "throughput"), ("USD per 1M tokens", "price"),
)  # fmt: skip
PEAK_FACTOR = 3.0
"""Busiest hour over the mean of the hours in use, where a visitor states nothing: our judgement, not a published figure."""
TRAFFIC = (
    *fields_of(
        BatchingArguments,
        "traffic",
        requests_per_s={"default": 0.0, "low": 0, "info": "0: from requests a day"},
        duration_s={"default": 0.0, "low": 0, "info": "0: automatic"},
        max_ttft_s={"default": TARGET_TTFT_S},
        max_tpot_s={"default": TARGET_TPOT_S},
        clients={"default": 8},
        trace={"choices": ("",)},
    ),
    Field(argument="peak_factor", name="peak", default=PEAK_FACTOR, low=1, high=100, label="Peak ÷ mean", info="3 is our assumption."),
)
"""A rate of 0 follows the workload above the tabs: requests a day, spread over the hours a day, times the peak factor."""


def every_field(catalog: Catalog) -> tuple[Field, ...]:
    """`ALL_FIELDS` with the hardware and the regions of today."""
    hardware = (*hardware_words(catalog), *own_words(catalog))
    own = tuple(value for _, value in hardware)
    choices = {"hardware": ("auto", *own), "have": own, "region": tuple(tpu_regions(catalog))}
    return tuple(replace(field, choices=choices[field.name]) if field.name in choices else field for field in ALL_FIELDS)


def tpu_regions(catalog: Catalog) -> list[str]:
    """Regions where Cloud TPU has a price."""
    return sorted({region for offer in catalog.on(TPU_PLATFORMS) for region in offer.usd_per_hour_by_region})


METHOD_WORDS: tuple[tuple[str, str], ...] = (
    ("LoRA", "lora"), ("QLoRA", "qlora"), ("LoRA in 8 bits", "lora-8bit"), ("DoRA", "dora"), ("Full", "full"),
)  # fmt: skip
OBJECTIVE_WORDS = tuple((label, name) for name, label in training_cards.OBJECTIVE_WORDS.items())
ROLLOUT_WORDS: tuple[tuple[str, str], ...] = (
    ("The trainer's model (transformers)", "transformers"), ("vLLM on the training GPUs", "vllm-colocate"),
    ("vLLM on other GPUs", "vllm-server"),
)  # fmt: skip
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
    ("axolotl", "axolotl"), ("torchtune", "torchtune"), ("LLaMA-Factory, as TRL", "llama-factory"), ("OpenRLHF, as TRL", "openrlhf"),
    ("veRL, as TRL", "verl"), ("NeMo RL, as TRL", "nemo-rl"),
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
TRAIN = fields_of(
    TrainingArguments,
    "train",
    platforms={"default": ["spaces", "jobs"], "choices": _values(TRAINING_PLACES)},
    target_modules={"choices": _values(MODULE_WORDS)},
)


KIND_WORDS: tuple[tuple[str, str], ...] = (
    *((label, name) for label, name in TASKS if name not in {"auto", "inference-api"}), ("Every model, for its own task", "auto"),
)  # fmt: skip
WHAT_RUNS = (
    Field(argument="hardware", name="have", default="RTX-4090", choices=("RTX-4090",), label="I have"),
    Field(argument="cards", name="count", default=1, low=1, high=MOST_DEVICES, label="Card count"),
    Field(
        argument="min_tokens_per_s", name="least", default=0.0, low=0, high=MAX_TOKENS_PER_S, label="At least, tokens/s", info="0: no limit"
    ),
    Field(argument="task", name="kind", default="text-generation", choices=_values(KIND_WORDS), label="Kind of model"),
)
"""Fields of *What runs here* besides the workload; of rented hardware the card count has no effect."""


TAB_FIELDS: dict[str, tuple[Field, ...]] = {
    "what-runs": WHAT_RUNS, "memory": MEMORY, "train": TRAIN, "cost": COST, "tpu": GPU_TPU, "traffic": TRAFFIC,
}  # fmt: skip
"""The fields of tabs that are not in `QUESTION`."""
ALL_FIELDS = (*QUESTION, COMPARED, *(field for own in TAB_FIELDS.values() for field in own))
"""Every field of the page in one order, each with a name of its own: what a link carries."""
FIELDS_BY_NAME = {field.name: field for field in ALL_FIELDS}
LABELS = {field.argument: field.label for field in reversed(ALL_FIELDS) if field.label}


def precision_choices() -> list[tuple[str, str]]:
    """Every precision on offer: the plain ones by their words, then the named formats as they are called."""
    return _choices(PRECISIONS, precisions.NAMES)


def kv_precision_choices() -> list[tuple[str, str]]:
    """Every cache precision on offer."""
    return _choices(PRECISIONS, precisions.KV_NAMES)


def _choices(worded: Sequence[tuple[str, str]], names: Sequence[str]) -> list[tuple[str, str]]:
    plain = {value for _, value in worded}
    return [pair for pair in worded if pair[1] in names] + [(name, name) for name in names if name not in plain]
