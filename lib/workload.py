"""Requests to a model: the task, the lengths, the traffic, and the limits on money and time.

Every request here is plain data with one docstring under each field; `lib.request.fields` says who reads it. A field without a check is set
by code and is not an argument.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from types import MappingProxyType
from typing import Annotated, Literal, get_args

from lib.engines.traits import MICRO_BATCH
from lib.errors import BadArgument
from lib.precision import NAMES
from lib.request import types as asked
from lib.request.checks import MAX_NAME, check_choice, describe_value
from lib.request.fields import Asked, Checked, Form, Request, count_of, one_of, whole_number
from lib.request.media import TEXT_ONLY, TRAIN_TOWER, MediaRequest, TrainTower
from lib.request.objectives import AS_TRL, OBJECTIVE_TRAITS, OBJECTIVES, ONE_PAIR, Objective, PairsRequest, RolloutRequest
from lib.request.pictures import DEFAULT_PICTURES, LONGEST_SIDE, MOST_FRAMES, PictureTrainingRequest
from lib.request.serving import DEFAULTS, ServingSettings
from lib.request.sharding import SHARDING_TRAITS, SHARDINGS, Sharding
from lib.request.types import AccountName, VisitorAccountName
from lib.request.words import find_choice

Mode = Literal["inference", "lora", "qlora", "full"]
Priority = Literal["cheapest", "balanced", "fastest"]
Sdk = Literal["gradio", "docker"]

Method = Literal["full", "lora", "dora", "qlora", "lora-8bit"]
Optimizer = Literal["adamw", "adamw_foreach", "adamw_8bit", "paged_adamw", "paged_adamw_8bit", "adafactor", "muon", "sgd"]
TrainingPrecision = Literal["bf16", "mixed", "fp32"]
Checkpointing = Literal["none", "layers", "offloaded"]
AttentionKernel = Literal["sdpa", "flash", "eager"]
Stack = Literal["transformers", "trl", "unsloth", "ms-swift", "axolotl", "torchtune", "llama-factory", "openrlhf", "verl", "nemo-rl"]

QUANTIZED_METHODS: frozenset[Method] = frozenset({"qlora", "lora-8bit"})
WHOLE_WEIGHTS: frozenset[Method] = frozenset({"lora-8bit"})
"""Methods whose weights are not sharded: FSDP refuses integers (torch 2.11: "Cannot flatten integer dtype tensors", tried on an H100)."""
MODES: tuple[Mode, ...] = get_args(Mode)
METHODS: tuple[Method, ...] = get_args(Method)
OPTIMIZERS: tuple[Optimizer, ...] = get_args(Optimizer)
TRAINING_PRECISIONS: tuple[TrainingPrecision, ...] = get_args(TrainingPrecision)
CHECKPOINTING: tuple[Checkpointing, ...] = get_args(Checkpointing)
ATTENTION_KERNELS: tuple[AttentionKernel, ...] = get_args(AttentionKernel)
STACKS: tuple[Stack, ...] = get_args(Stack)
PRIORITIES: tuple[Priority, ...] = get_args(Priority)
SDKS: tuple[Sdk, ...] = get_args(Sdk)

Family = Literal["generate", "vision_language", "encode", "speech", "image", "video", "provider"]
_MEMBERS: dict[Family, tuple[str, ...]] = {
    "generate": ("text-generation", "text2text-generation", "summarization", "translation", "conversational", "chat"),
    "vision_language": (
        "image-text-to-text", "image-to-text", "visual-question-answering", "document-question-answering",
        "video-text-to-text", "audio-text-to-text", "any-to-any", "vision-language",
    ),
    "encode": (
        "text-classification", "token-classification", "zero-shot-classification", "fill-mask", "question-answering",
        "table-question-answering", "feature-extraction", "sentence-similarity", "text-ranking", "image-classification",
        "zero-shot-image-classification", "object-detection", "zero-shot-object-detection", "image-segmentation",
        "mask-generation", "depth-estimation", "keypoint-detection", "image-feature-extraction", "audio-classification",
        "video-classification", "voice-activity-detection", "tabular-classification", "tabular-regression",
        "time-series-forecasting", "visual-document-retrieval", "classification", "embedding",
    ),
    "speech": ("automatic-speech-recognition", "text-to-speech", "text-to-audio", "audio-to-audio", "speech"),
    "image": (
        "text-to-image", "image-to-image", "unconditional-image-generation", "inpainting", "image-to-3d", "text-to-3d", "image",
    ),
    "video": ("text-to-video", "image-to-video", "video-to-video", "image-text-to-video", "video"),
    "provider": ("inference-api", "inference-provider"),
}  # fmt: skip
FAMILIES = MappingProxyType({task: family for family, tasks in _MEMBERS.items() for task in tasks})
TASKS: tuple[str, ...] = ("auto", *FAMILIES)


def visitors_plan(account: AccountName, visitor_account: VisitorAccountName) -> AccountName:
    """The plan whose quota a visitor of a ZeroGPU Space has; "auto" is that of the account that hosts.

    >>> visitors_plan("pro", "auto"), visitors_plan("pro", "free")
    ('pro', 'free')
    """
    return account if visitor_account == "auto" else visitor_account


PROMPT_TOKENS, OUTPUT_TOKENS = 512, 256
"""The shape of a request wherever none is stated: the defaults of /estimate_speed."""
ACCUMULATION = 8
"""Micro-batches of a training step if none are stated: with one sequence each, the 8 answers that TRL's GRPOTrainer takes by default."""


PROMPT_SHARE = PROMPT_TOKENS / 4096
"""Share of the context that a prompt fills if none is stated: that of the default prompt in the default context. A judgement."""


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


LONGEST_CONTEXT = 1_048_576
"""The longest context that the page offers."""
MOST_AT_ONCE = 256
"""The most requests at a time that the page offers."""
MOST_DEVICES = 16
MOST_GPU_LAYERS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineRequest(Request):
    """The pictures that a pipeline is asked to make, and how it saves memory."""

    width: Annotated[asked.Pixels, Form("Width, pixels", group="workload", high=LONGEST_SIDE, info="0: automatic")] = 0
    """Pictures and clips: pixels; 0 is the pipeline's own, as for height, frames and steps."""
    height: Annotated[asked.Pixels, Form("Height, pixels", group="workload", high=LONGEST_SIDE, info="0: automatic")] = 0
    """Pixels, as width."""
    frames: Annotated[asked.Pixels, Form("Frames", group="workload", high=MOST_FRAMES, info="0: automatic")] = 0
    """Frames of a clip."""
    steps: Annotated[int, whole_number(0, asked.MAX_STEPS), Form("Denoising steps", "denoising", group="workload", info="0: automatic")] = 0
    """Steps of denoising."""
    guidance: Annotated[Guidance, one_of(GUIDANCES, Guidance), Form("Guidance", group="workload")] = "auto"
    """auto: as the pipeline guides; off: a distilled model, which runs once a step."""
    offload: Annotated[Offload, one_of(OFFLOADS, Offload), Form("Moved to host memory", group="memory")] = "none"
    """The parts of the pipeline that wait in the host's memory."""
    vae_tiling: asked.Flag = False
    """The VAE decodes a large picture by tiles."""
    vae_slicing: asked.Flag = False
    """The VAE decodes one picture of a batch at a time."""
    quantized: Annotated[Quantized, one_of(QUANTIZED, Quantized)] = "all"
    """The components that a format of 8 or 4 bits applies to: the denoiser alone, or text encoders too."""


AS_THE_PIPELINE = PipelineRequest()


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRequest(Request):
    """One question about memory."""

    precision: asked.Precision = "auto"
    engine: asked.Engine = "transformers"
    context_tokens: asked.Tokens = 4096
    """Tokens that each sequence's cache holds, pictures and sound apart (decoder tokens of an encoder-decoder)."""
    batch_size: Annotated[int, whole_number(1, asked.MAX_BATCH)] = 1
    """Sequences held at the same time."""
    kv_precision: Annotated[asked.CachePrecision, Form("Cache precision", "kv", group="memory")] = "auto"
    mode: Annotated[Mode, one_of(MODES, Mode)] = "inference"
    """Inference, or how the model is trained."""
    devices: Annotated[
        int, count_of(1, asked.MAX_DEVICES), Form("GPUs", group="memory", high=MOST_DEVICES, info="0: as many as the hardware has.")
    ] = 1
    """Accelerators that share the model (tensor parallel)."""
    encoder_tokens: asked.TokensOrNone = 0
    """Length of the encoder's side; 0 is the model's own full length."""
    gpu_layers: Annotated[
        asked.GpuLayers,
        Form("Layers on the GPU", "ngl", group="memory", high=MOST_GPU_LAYERS, info="llama.cpp (-ngl); −1 is everything."),
    ] = None
    micro_batch: Annotated[int, whole_number(1, 65_536)] = MICRO_BATCH
    """llama.cpp: tokens computed together (-ub)."""
    flash_attention: asked.Flag = True
    """llama.cpp: whether attention holds no scores (-fa)."""
    pictures: Annotated[PipelineRequest, Asked("width height frames guidance offload vae_tiling vae_slicing quantized")] = AS_THE_PIPELINE
    media: MediaRequest = TEXT_ONLY
    serving: ServingSettings = DEFAULTS


ALL_LINEAR = "all-linear"
_SHOWN_NAMES = 12
MOST_RANK = 16_384
_FUSED_LOSS: Mapping[str, bool | None] = {"auto": None, "yes": True, "no": False}


def _check_training_precision(name: str, value: object) -> TrainingPrecision:
    """The number format that training computes in; a format of quantized weights is refused with the method that holds them."""
    try:
        return check_choice(name, value, TRAINING_PRECISIONS)
    except BadArgument:
        if not isinstance(value, str) or find_choice(name, value, NAMES) is None:
            raise
        accepted = (
            f"{', '.join(TRAINING_PRECISIONS)}, the format that training computes in; to hold the base weights in 4 bits set method=qlora"
        )
        raise BadArgument(name, value.strip(), accepted) from None


def _check_modules(name: str, value: object) -> tuple[str, ...]:
    accepted = f"all-linear, or names of modules such as q_proj,v_proj, at most {MAX_NAME} characters"
    if not isinstance(value, str) or len(value) > MAX_NAME or not value.isprintable():
        raise BadArgument(name, describe_value(value), accepted)
    names = tuple(dict.fromkeys(part.strip() for part in value.split(",") if part.strip()))
    if not names or (ALL_LINEAR in names and len(names) > 1):
        raise BadArgument(name, value, accepted)
    return names


FusedLoss = Annotated[
    bool | None,
    Checked(
        lambda name, value: _FUSED_LOSS[check_choice(name, value, tuple(_FUSED_LOSS))],
        str,
        "auto leaves it to the stack, yes and no set it.",
        choices=tuple(_FUSED_LOSS),
        write=lambda value: next(word for word, meaning in _FUSED_LOSS.items() if meaning == value),
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingRequest(Request):
    """One question about fine-tuning.

    A step takes `accumulation` micro-batches of `micro_batch` sequences of `sequence_tokens` each, on every one of `devices`.
    """

    method: Annotated[Method, one_of(METHODS), Form("Method", group="train")] = "lora"
    """full; lora, dora; qlora (base weights in 4 bits) or lora-8bit (base weights in 8 bits, LLM.int8 of bitsandbytes)."""
    rank: Annotated[int, whole_number(1, MOST_RANK), Form("Rank of the adapters", group="train")] = 16
    """Rank of the adapters."""
    target_modules: Annotated[tuple[str, ...], Checked(_check_modules, str), Form("Target modules", "modules", group="train")] = (
        ALL_LINEAR,
    )
    """all-linear, or a comma list of the last parts of module names (q_proj). Without an adapter it has no effect, as rank has none."""
    optimizer: Annotated[Optimizer, one_of(OPTIMIZERS), Form("Optimizer", group="train")] = "adamw"
    """adamw is torch's fused one."""
    precision: Annotated[
        TrainingPrecision, Checked(_check_training_precision, str, choices=TRAINING_PRECISIONS), Form("", "master", group="train")
    ] = "mixed"
    """mixed multiplies in 16 bits and keeps trained weights, their gradients and states in 32 bits (QLoRA in TRL keeps adapters in 16);
    bf16 does all in 16; fp32 all in 32."""
    checkpointing: Annotated[Checkpointing, one_of(CHECKPOINTING), Form("Gradient checkpointing", group="train")] = "layers"
    """none, layers or offloaded."""
    attention: Annotated[AttentionKernel, one_of(ATTENTION_KERNELS), Form("Attention kernel", group="train")] = "sdpa"
    """sdpa, flash or eager."""
    sequence_tokens: Annotated[asked.Tokens, Form("Sequence, tokens", "sequence", group="train", high=LONGEST_CONTEXT)] = 2048
    """Tokens of a sequence at most."""
    packing: Annotated[asked.Flag, Form("Packing", group="train")] = True
    """Whether sequences are packed to that length; without it their lengths vary below it."""
    micro_batch: Annotated[int, whole_number(1, asked.MAX_BATCH), Form("Micro-batch", "microbatch", group="train")] = 1
    """Sequences that a device takes together."""
    accumulation: Annotated[int, whole_number(1, asked.MAX_BATCH), Form("Accumulation steps", group="train")] = 1
    """Micro-batches of a step."""
    stack: Annotated[Stack, one_of(STACKS), Form("Stack", group="train")] = "trl"
    """The library that trains. Preferences and RL are those of TRL: for another stack TRL's figures are shown, with a caveat; likewise for
    llama-factory, openrlhf, verl and nemo-rl with any objective."""
    fused_loss: Annotated[FusedLoss, Form("Fused loss", "loss", group="train")] = None
    double_quantization: Annotated[asked.Flag, Form("Double quantization", "doublequant", group="train")] = True
    """Whether QLoRA holds the scales of its 4-bit blocks in 8 bits."""
    sharding: Annotated[Sharding, one_of(SHARDINGS), Form("Sharding", group="train")] = "none"
    """How several devices share the states. fsdp1: FSDP version 1. fsdp_grad_op: weights stay gathered until the backward pass
    (SHARD_GRAD_OP). fsdp_hybrid: the GPUs of a machine share, machines hold copies (HYBRID_SHARD). zero2_offload and zero3_offload: the
    optimizer is in host memory, on one GPU too; fsdp_offload: weights too."""
    devices: Annotated[
        int, count_of(1, 1_024), Form("GPUs", "gpus", group="train", info="Hardware with several GPUs trains on all of them.")
    ] = 1
    """Devices that train together."""
    machines: Annotated[int, whole_number(1, 128)] = 1
    """Machines that hold these devices, the same number each; fsdp_hybrid needs two or more."""
    objective: Annotated[Objective, one_of(OBJECTIVES), Form("Objective", group="train")] = "sft"
    """sft (supervised), dpo, kto, reward (a reward model), orpo or grpo, as TRL trains them: dpo, reward and orpo take pairs of a chosen
    and a rejected sequence, each of `sequence_tokens` at most, prompt included. grpo writes answers to prompts and trains on them; a row
    is a prompt, and `micro_batch` counts answers. contrastive (pairs of texts, with the rest of the micro-batch as negatives),
    contrastive-cached (the same in parts, GradCache) and rerank train as sentence-transformers does; classify gives texts a label."""
    rollout: RolloutRequest = AS_TRL
    pairs: PairsRequest = ONE_PAIR
    pictures: Annotated[
        PictureTrainingRequest, Asked("width height frames cached base_precision checkpoint_blocks checkpoint_every base_offload")
    ] = DEFAULT_PICTURES
    media: MediaRequest = TEXT_ONLY
    train_tower: Annotated[TrainTower, one_of(TRAIN_TOWER, TrainTower), Form("Encoder of pictures or sound", "tower", group="train")] = (
        "auto"
    )
    """Models that read pictures or sound: the part of their tower or encoder that is trained, by adapters or in full. no: it is frozen;
    projector: the projection into the language model alone; yes: both; auto: yes for Whisper, no for pictures."""
    row_tokens: float = 0
    """Mean length of unpacked sequences, tokens; 0: not stated."""
    media_tokens: int = 0
    """Tokens of pictures among `sequence_tokens`."""
    reads_sound: bool = False
    """Whether an example is sound with its text."""
    fp16: bool = False
    """Whether the card multiplies in fp16, because it lacks bf16; trained parameters are then in float32."""

    @property
    def micro_batch_tokens(self) -> int:
        """Tokens of one micro-batch on one device, of all sequences of an example."""
        return self.sequence_tokens * self.micro_batch * self.example_sequences

    @property
    def example_sequences(self) -> int:
        """Sequences of an example: both of a pair, and hard negatives."""
        traits = OBJECTIVE_TRAITS[self.objective]
        return traits.sequences + (self.pairs.negatives if traits.negatives else 0)

    @property
    def pass_tokens(self) -> int:
        """Tokens of one forward pass on one device: a micro-batch, one text of each of its pairs, or a part of these."""
        traits = OBJECTIVE_TRAITS[self.objective]
        if traits.loss != "similarities":
            return self.micro_batch_tokens
        return self.sequence_tokens * (min(self.micro_batch, self.pairs.cached_batch) if traits.in_parts else self.micro_batch)

    @property
    def reads_media(self) -> bool:
        """Whether an encoder reads pictures or sound of each example."""
        return self.media.images > 0 or self.reads_sound

    @property
    def samples(self) -> bool:
        """Whether the policy writes the answers that it trains on."""
        return OBJECTIVE_TRAITS[self.objective].samples

    @property
    def has_reference(self) -> bool:
        """Whether a reference gives log-probabilities."""
        return self.rollout.beta > 0 if self.samples else OBJECTIVE_TRAITS[self.objective].reference

    @property
    def passes_without_gradient(self) -> int:
        """Forward passes over the same sequences, besides the one that is trained on."""
        if not self.samples:
            return OBJECTIVE_TRAITS[self.objective].passes_without_gradient
        return int(self.rollout.traits.scores_again) + int(self.has_reference)

    @property
    def policy_passes(self) -> int:
        """Of the passes without gradient, those of the policy itself, with its adapters on."""
        return int(self.rollout.traits.scores_again) if self.samples else OBJECTIVE_TRAITS[self.objective].policy_passes

    @property
    def step_examples(self) -> int:
        """Rows of a step without packing, or its answers, on all devices; a pair is one row."""
        return self.micro_batch * self.accumulation * self.devices

    @property
    def step_tokens(self) -> int:
        """Tokens of a step, on all devices."""
        return self.micro_batch_tokens * self.accumulation * self.devices

    @property
    def quantizes(self) -> bool:
        """Whether bitsandbytes holds the base weights in fewer bits."""
        return self.method in QUANTIZED_METHODS

    @property
    def sharing_devices(self) -> int:
        """Devices among which the states are shared: those of one machine with fsdp_hybrid."""
        return self.devices // self.machines if SHARDING_TRAITS[self.sharding].within_machine else self.devices

    @property
    def shards_weights(self) -> bool:
        """Whether each device keeps a part of the weights."""
        return SHARDING_TRAITS[self.sharding].weights


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
class Workload(Request):
    """The work of a Space, and the limits on money and time."""

    task: Annotated[str, one_of(TASKS), Form("Task", group="recommend")] = "auto"
    """auto, or a Hub task such as text-generation."""
    context_tokens: Annotated[asked.Tokens, Form("Context length", "context", group="workload", high=LONGEST_CONTEXT)] = 4096
    """Tokens of the longest request, prompt and answer together."""
    concurrency: Annotated[asked.Concurrency, Form("Concurrent requests", group="workload", high=MOST_AT_ONCE)] = 1
    """Requests that are served at the same time."""
    requests_per_day: Annotated[asked.RequestsPerDay, Form("Requests a day", "requests", group="workload")] = 100
    """Requests that arrive in a day."""
    hours_per_day: Annotated[asked.HoursPerDay, Form("Hours a day", "hours", group="workload", low=1)] = Decimal(24)
    """Hours a day that the hardware runs."""
    precision: Annotated[asked.Precision, Form("Precision", group="workload")] = "auto"
    account: Annotated[asked.Account, Form("My plan", group="workload")] = "free"
    """The plan of the account that hosts the Space."""
    max_usd_per_month: Annotated[asked.UsdPerMonth, Form("Budget, USD a month", "budget", group="recommend", info="0: no limit")] = Decimal(
        0
    )
    """Budget; 0 sets no limit."""
    min_tokens_per_s: Annotated[asked.TokensPerSecond, Form("Minimum speed, tokens/s", "speed", group="recommend", info="0: no limit")] = (
        0.0
    )
    """Tokens per second that each request must get; 0 sets no limit."""
    priority: Annotated[Priority, one_of(PRIORITIES, Priority), Form("Priority", group="recommend")] = "balanced"
    """cheapest, balanced or fastest: the property that weighs more."""
    platforms: Annotated[asked.Platforms, Form("Where", group="recommend")] = ("spaces", "zerogpu")
    prompt_tokens: Annotated[
        asked.TokensOrNone, Form("Prompt tokens", "prompt", group="workload", high=LONGEST_CONTEXT, info="0: automatic")
    ] = 0
    """Tokens of the usual prompt; 0 takes a share of the context."""
    output_tokens: Annotated[
        asked.TokensOrNone, Form("Output tokens", "answer", group="workload", high=LONGEST_CONTEXT, info="0: automatic")
    ] = 0
    """Tokens of the usual answer; 0 takes a share of the context."""
    max_ttft_s: Annotated[
        asked.FirstTokenSeconds, Form("Longest time to first token, s", "ttft", group="recommend", info="0: no limit")
    ] = 0.0
    """Longest time to the first token in seconds; 0 sets no limit."""
    engine: Annotated[asked.AnyEngine, Form("Engine", group="workload")] = "auto"
    """The program that runs the model; auto tries vLLM before other servers; with priority fastest all compete."""
    sdk: Annotated[Sdk | Literal["auto"], one_of((asked.AUTO, *SDKS)), Form("Space SDK", group="recommend")] = "auto"
    """SDK of the Space: gradio, docker, or auto for either."""
    pictures: Annotated[PipelineRequest, Asked("width height frames steps guidance offload")] = AS_THE_PIPELINE
    media: MediaRequest = TEXT_ONLY
    visitor_account: Annotated[asked.VisitorAccount, Form("Visitors' plan", "visitors", group="workload")] = "auto"
    visitors_per_day: Annotated[asked.VisitorsPerDay, Form("Visitors a day", "daily_visitors", group="workload", info="0: not stated")] = 0
    serving: Annotated[ServingSettings, Form("Server settings", group="workload")] = DEFAULTS
