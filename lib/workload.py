"""What is asked of a model: the task, how long, how many at once, how often, and what may be spent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from decimal import Decimal
from typing import Any, Literal, get_args

from lib.engines import MICRO_BATCH, Engine
from lib.errors import BadArgument

Mode = Literal["inference", "lora", "qlora", "full"]
Account = Literal["anonymous", "free", "pro", "team", "enterprise"]
VisitorAccount = Account | Literal["auto"]
Priority = Literal["cheapest", "balanced", "fastest"]
Sdk = Literal["gradio", "docker"]

Method = Literal["full", "lora", "dora", "qlora"]
Optimizer = Literal["adamw", "adamw_foreach", "adamw_8bit", "paged_adamw", "paged_adamw_8bit", "adafactor", "muon", "sgd"]
TrainingPrecision = Literal["bf16", "mixed", "fp32"]
Checkpointing = Literal["none", "layers", "offloaded"]
AttentionKernel = Literal["sdpa", "flash", "eager"]
Stack = Literal["transformers", "trl", "unsloth", "ms-swift", "axolotl", "torchtune"]
Sharding = Literal["none", "ddp", "zero1", "zero2", "zero3", "fsdp", "fsdp_offload"]

MODES: tuple[Mode, ...] = get_args(Mode)
METHODS: tuple[Method, ...] = get_args(Method)
OPTIMIZERS: tuple[Optimizer, ...] = get_args(Optimizer)
TRAINING_PRECISIONS: tuple[TrainingPrecision, ...] = get_args(TrainingPrecision)
CHECKPOINTING: tuple[Checkpointing, ...] = get_args(Checkpointing)
ATTENTION_KERNELS: tuple[AttentionKernel, ...] = get_args(AttentionKernel)
STACKS: tuple[Stack, ...] = get_args(Stack)
SHARDINGS: tuple[Sharding, ...] = get_args(Sharding)
ACCOUNTS: tuple[Account, ...] = get_args(Account)
PRIORITIES: tuple[Priority, ...] = get_args(Priority)
SDKS: tuple[Sdk, ...] = get_args(Sdk)
AUTO: Literal["auto"] = "auto"


def visitors_plan(account: Account, visitor_account: VisitorAccount) -> Account:
    """The plan whose quota a visitor of a ZeroGPU Space has; "auto" is that of the account that hosts.

    >>> visitors_plan("pro", "auto"), visitors_plan("pro", "free")
    ('pro', 'free')
    """
    return account if visitor_account == "auto" else visitor_account


PROMPT_TOKENS, OUTPUT_TOKENS = 512, 256
"""The shape of a request wherever none is stated: the defaults of /estimate_speed."""


PROMPT_SHARE = PROMPT_TOKENS / 4096
"""Share of the context that a prompt fills where none is stated: that of the default prompt in the default context. A judgement."""


def prompt_and_output_tokens(context_tokens: int) -> tuple[int, int]:
    """The shape of a request within a context: output min(256, half of it), prompt max(512, an eighth), at most the rest; a token at least.

    >>> prompt_and_output_tokens(4096), prompt_and_output_tokens(100), prompt_and_output_tokens(131_072)
    ((512, 256), (50, 50), (16384, 256))
    """
    output = min(OUTPUT_TOKENS, max(1, context_tokens // 2))
    prompt = max(PROMPT_TOKENS, int(context_tokens * PROMPT_SHARE))
    return min(prompt, max(1, context_tokens - output)), output


Offload = Literal["none", "model", "group", "sequential"]
Guidance = Literal["auto", "off"]
Quantized = Literal["all", "denoiser"]
OFFLOADS: tuple[Offload, ...] = get_args(Offload)
GUIDANCES: tuple[Guidance, ...] = get_args(Guidance)
QUANTIZED: tuple[Quantized, ...] = get_args(Quantized)


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineRequest:
    """What a pipeline is asked to make, and how it saves memory; 0 is the pipeline's own size, frames or steps.

    `guidance` "auto" is as the pipeline takes it, "off" asks a distilled model once a step. `offload` is what waits in the host's memory,
    `quantized` which components a format of 8 or 4 bits is for.
    """

    width: int = 0
    height: int = 0
    frames: int = 0
    steps: int = 0
    guidance: Guidance = "auto"
    offload: Offload = "none"
    vae_tiling: bool = False
    vae_slicing: bool = False
    quantized: Quantized = "all"


AS_THE_PIPELINE = PipelineRequest()


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaRequest:
    """What each request brings beside its text, or in its place: pictures of one size, in pixels, and seconds of sound.

    0 seconds are half a minute for a model that hears.
    """

    images: int = 0
    image_width: int = 1024
    image_height: int = 1024
    audio_seconds: float = 0.0


TEXT_ONLY = MediaRequest()
MEDIA_ARGUMENTS = tuple(field.name for field in fields(MediaRequest))
PICTURE_ARGUMENTS = tuple(field.name for field in fields(PipelineRequest))


def gather_media(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values by name, with those about what is made and what is brought gathered as `pictures` and `media`."""
    rest = {name: value for name, value in values.items() if name not in {*PICTURE_ARGUMENTS, *MEDIA_ARGUMENTS}}
    pictures = {name: values[name] for name in PICTURE_ARGUMENTS if name in values}
    media = {name: values[name] for name in MEDIA_ARGUMENTS if name in values}
    return {**rest, "pictures": PipelineRequest(**pictures), "media": MediaRequest(**media)}


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRequest:
    """One question about memory.

    `precision` and `kv_precision` are names that `lib.precision` knows, "auto" included. `context_tokens` counts the tokens a
    sequence's cache has seen (decoder tokens for an encoder-decoder), without those of `media`;
    `encoder_tokens` = 0 means the model's own full length.
    `devices` is how many accelerators share the model (tensor parallel). llama.cpp alone: `gpu_layers` is its `-ngl`, None for everything
    on the GPU; `micro_batch` its `-ub`, tokens; without `flash_attention` scores are held.
    """

    precision: str = "auto"
    engine: Engine = "transformers"
    context_tokens: int = 4096
    batch_size: int = 1
    kv_precision: str = "auto"
    mode: Mode = "inference"
    devices: int = 1
    encoder_tokens: int = 0
    pictures: PipelineRequest = AS_THE_PIPELINE
    media: MediaRequest = TEXT_ONLY
    gpu_layers: int | None = None
    micro_batch: int = MICRO_BATCH
    flash_attention: bool = True


ALL_LINEAR = "all-linear"
_SHOWN_NAMES = 12
MOST_RANK = 16_384


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingRequest:
    """One question about fine-tuning.

    `target_modules` are last parts of module names ("q_proj"), or `ALL_LINEAR` alone; without an adapter they count for nothing, as does
    `rank`. `precision` "bf16" trains and keeps everything in 16 bits, "mixed" multiplies in 16 bits and keeps what is trained, its
    gradients and states in 32, "fp32" does all in 32. `fused_loss` is None where the stack decides. A step takes `accumulation`
    micro-batches of `micro_batch` sequences of `sequence_tokens` each, on every one of `devices`; with `packing` all of them are full,
    without it lengths vary below that, and `row_tokens` is their mean (0: not stated). `double_quantization` holds the scales of QLoRA's
    blocks in 8 bits.
    """

    method: Method = "lora"
    rank: int = 16
    target_modules: tuple[str, ...] = (ALL_LINEAR,)
    optimizer: Optimizer = "adamw"
    precision: TrainingPrecision = "mixed"
    checkpointing: Checkpointing = "layers"
    attention: AttentionKernel = "sdpa"
    sequence_tokens: int = 2048
    packing: bool = True
    micro_batch: int = 1
    accumulation: int = 1
    stack: Stack = "trl"
    sharding: Sharding = "none"
    devices: int = 1
    fused_loss: bool | None = None
    double_quantization: bool = True
    row_tokens: float = 0

    @property
    def micro_batch_tokens(self) -> int:
        """Tokens of one micro-batch on one device."""
        return self.sequence_tokens * self.micro_batch

    @property
    def step_tokens(self) -> int:
        """Tokens of a step, on all devices."""
        return self.micro_batch_tokens * self.accumulation * self.devices

    @property
    def shards_weights(self) -> bool:
        """Whether each device keeps a part of the weights."""
        return self.sharding in {"zero3", "fsdp", "fsdp_offload"}


def is_targeted(module: str, targets: Iterable[str]) -> bool:
    """Whether one of the targets is `ALL_LINEAR` or the end of a module's name.

    >>> is_targeted("layers.0.self_attn.q_proj", ("q_proj",)), is_targeted("layers.0.self_attn.q_proj", ("proj",))
    (True, False)
    """
    return any(target in (ALL_LINEAR, module) or module.endswith(f".{target}") for target in targets)


def check_targets(targets: Sequence[str], modules: Sequence[str]) -> None:
    """Refuse a target that names none of the linear modules.

    Raises:
        BadArgument: with the names that are there.
    """
    for target in targets:
        if not any(is_targeted(module, (target,)) for module in modules):
            names = list(dict.fromkeys(module.rpartition(".")[2] for module in modules))[:_SHOWN_NAMES]
            accepted = f"{ALL_LINEAR}, or the end of a linear module's name, among {', '.join(names) or 'none, for it has none'}"
            raise BadArgument("target_modules", target, accepted)


def check_rank(rank: int, module: str, rows: int, columns: int) -> None:
    """Refuse a rank above the smaller side of a matrix; a gate with one output takes any.

    Raises:
        BadArgument: with the largest rank that it takes.
    """
    most = min(rows, columns)
    if most > 1 and rank > most:
        accepted = f"at most {most:,}, the smaller side of {module.rpartition('.')[2]} ({rows} × {columns})"
        raise BadArgument("rank", rank, accepted)


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """What a Space has to do, and what may be spent; 0 sets no limit in `max_usd_per_month`, `min_tokens_per_s` and `max_ttft_s`.

    `context_tokens` is the longest request, `prompt_tokens` and `output_tokens` the usual one (0: `prompt_and_output_tokens` of the
    context). `engine` and `sdk` are names of `ENGINES` and `SDKS`, or "auto". `account` hosts, `visitor_account` is what visitors have
    (`visitors_plan`), and `visitors_per_day` how many share the day's requests (0: not stated).
    """

    task: str = "auto"
    context_tokens: int = 4096
    concurrency: int = 1
    requests_per_day: int = 100
    hours_per_day: Decimal = Decimal(24)
    precision: str = "auto"
    account: Account = "free"
    max_usd_per_month: Decimal = Decimal(0)
    min_tokens_per_s: float = 0.0
    priority: Priority = "balanced"
    platforms: tuple[str, ...] = ("spaces", "zerogpu")
    prompt_tokens: int = 0
    output_tokens: int = 0
    max_ttft_s: float = 0.0
    engine: Engine | Literal["auto"] = "auto"
    sdk: Sdk | Literal["auto"] = "auto"
    visitor_account: VisitorAccount = "auto"
    visitors_per_day: int = 0
    pictures: PipelineRequest = AS_THE_PIPELINE
    media: MediaRequest = TEXT_ONLY
