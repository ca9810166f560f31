"""A request for one model on one device: everything that "auto" left open is decided, except how long and how many.

The result is the key under which work is shared. The sizes of a layer that the laws of plain decoders need are read off the spec here too.

With it come the parts of a question beyond its model, as caveats: a length that it does not read, an encoder that it does not have.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, TypeVar

from lib import precision as formats
from lib.catalog.rows import ById
from lib.engines import Engine, list_engines, traits_of
from lib.engines.traits import MICRO_BATCH, Work
from lib.errors import BadArgument
from lib.laws.activation import FLOAT32, HALF
from lib.laws.expert_split import layers_in_host
from lib.laws.parallelism import ceil_divide
from lib.memory.media import NO_MEDIA, PromptMedia, resolve_media
from lib.model.resolve import typical_decoder
from lib.model.spec import ModelSpec
from lib.provenance import Caveat
from lib.request.serving import DEFAULTS, Serving, check_settings, drop_settings, merge_setting
from lib.request.types import AUTO
from lib.workload import AS_THE_PIPELINE, MemoryRequest, Mode, PipelineRequest, TrainingRequest

if TYPE_CHECKING:
    from collections.abc import Callable

    from lib.catalog.silicon import Accelerator


_AMPERE = (8, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedRequest:
    """Names as resolved, sizes of an element in bytes, and properties of the silicon.

    `silicon` is its kind, that of the engine if no silicon `is_named`. `profiled_tokens` are those of the run by which an engine sets
    activations aside; without a card those of the largest, so that the estimate does not come out too small. `gpu_layers` is None where
    everything is on the device (a processor has no other). `experts_in_host` counts the layers whose routed experts the host holds.
    `serving` holds the settings that no other field says.
    """

    precision: str
    kv_precision: str
    compute_dtype: str
    engine: Engine
    mode: Mode
    devices: int
    encoder_tokens: int
    kv_element_bytes: float
    silicon: str
    is_named: bool
    compute_capability: tuple[int, int] | None
    profiled_tokens: int
    gpu_layers: int | None = None
    experts_in_host: int = 0
    micro_batch: int = MICRO_BATCH
    flash_attention: bool = True
    pictures: PipelineRequest = AS_THE_PIPELINE
    media: PromptMedia = NO_MEDIA
    serving: Serving = DEFAULTS

    @property
    def stages(self) -> int:
        """Groups of devices that hold layers in turn, each layer split over the devices of a group."""
        stages = self.serving.pipeline_parallel or 1
        return stages if self.devices % stages == 0 else 1

    @property
    def element_bytes(self) -> int:
        """Bytes of one element of the compute dtype."""
        return FLOAT32 if self.compute_dtype == "fp32" else HALF

    @property
    def shared_heads_need_scores(self) -> bool:
        """Whether this GPU, with a torch before that of mid 2026, has no fused kernel for key heads that several query heads share.

        FlashAttention needs compute capability 8.0 and 16 bits; the memory-efficient kernel took no shared heads before
        github.com/pytorch/pytorch/pull/191085 (2026-07-25).
        """
        old = self.compute_capability is not None and self.compute_capability < _AMPERE
        return self.silicon == "gpu" and (old or self.element_bytes == FLOAT32)


_DOES: Mapping[Work, str] = MappingProxyType(
    {
        "decoder": "makes text token by token",
        "embedding decoder": "embeds or ranks text with the layers of a decoder",
        "text encoder": "reads text in one pass",
        "encoder-decoder": "reads one text and writes another",
        "speech": "turns sound into text",
        "other encoder": "reads pictures, sound or other data in one pass",
        "pipeline": "makes pictures",
    }
)


def choose_engine(spec: ModelSpec, engine: Engine) -> Engine:
    """The engine that runs the model: the one that was asked for; llama.cpp for a GGUF file, which is its own.

    Raises:
        BadArgument: it does not run such a model; with the engines that do.
    """
    if spec.library == "gguf":
        return "llama.cpp"
    if spec.work not in traits_of(engine).works:
        raise BadArgument("engine", engine, f"{', '.join(list_engines(spec.work))} for a model that {_DOES[spec.work]}")
    return engine


def resolve_cache_format(spec: ModelSpec, engine: str, precision: str, asked: str, compute: str) -> str:
    """The format of the KV cache: as asked, else that of activations, or fp8 where the engine's checkpoints bring scales for it.

    TensorRT-LLM's checkpoints in fp8 and nvfp4 are made by ModelOpt, whose hf_quant_config.json states `kv_cache_quant_algo: FP8`
    (nvidia.github.io/TensorRT-LLM, quantization; read 2026-11-25). Latent caches stay in 16 bits.
    """
    if asked != AUTO:
        return asked
    scaled = traits_of(engine).fp8_cache and formats.weight_format(precision).arithmetic in {"fp8", "fp4"}
    latent = any("latent" in term.kind for term in spec.cache_terms or ())
    return "fp8" if scaled and not latent else compute


class _Served(Protocol):
    """A request that says some settings of a server in fields of its own."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def kv_precision(self) -> str: ...
    @property
    def gpu_layers(self) -> int | None: ...
    @property
    def serving(self) -> Serving: ...


_Request = TypeVar("_Request", bound=_Served)


def settle_formats(request: _Request) -> _Request:
    """The request with the format of the cache and the layers on the GPU in the fields that say the same as its server's settings.

    Raises:
        BadArgument: a field and its setting differ.
    """
    serving = request.serving
    if serving is DEFAULTS:
        return request
    layers = None if serving.gpu_layers is None or serving.gpu_layers < 0 else serving.gpu_layers
    return replace(
        request,
        kv_precision=merge_setting("kv_precision", request.kv_precision, AUTO, "kv_cache_dtype", serving.kv_cache_dtype),
        gpu_layers=merge_setting("gpu_layers", request.gpu_layers, None, "gpu_layers", layers),
        serving=drop_settings(serving, "kv_cache_dtype", "gpu_layers"),
    )


def settle_serving(request: MemoryRequest) -> MemoryRequest:
    """The request of one copy of the model, with its server's settings in the fields that say the same, and the sequences that it holds.

    llama.cpp allocates all of `parallel` and of `ctx_size` at start; other servers hold no more than `max_num_seqs`.

    Raises:
        BadArgument: a field and its setting differ.
    """
    if request.serving is DEFAULTS:
        return request
    request = settle_formats(request)
    serving, tokens = request.serving, request.context_tokens
    batch = ceil_divide(request.batch_size, serving.data_parallel or 1)
    cards = (serving.tensor_parallel or 1) * (serving.pipeline_parallel or 1)
    if serving.ctx_size is not None:
        tokens = max(tokens, serving.longest_tokens(batch) or 0)
    return replace(
        request,
        context_tokens=tokens,
        batch_size=serving.parallel or min(batch, serving.max_num_seqs or batch),
        devices=cards if request.devices == 1 else request.devices,
        serving=drop_settings(serving, "data_parallel"),
    )


def check_server(spec: ModelSpec, engine: Engine, serving: Serving, tokens: int, requests: int = 1) -> None:
    """Refuse settings that the engine does not have, and a server that does not take requests of so many tokens.

    Raises:
        BadArgument: the first of them.
    """
    check_settings(engine, serving)
    limit_length(spec, serving, tokens, requests)


LONGEST_WHOLE_PROFILE, _CHUNK_TOKENS = 32_768, 512
"""vLLM 0.5.3 to 0.6 reads prompts in chunks of 512 tokens if a request may be longer than 32,768 (arg_utils.py, config.py, read on
2026-11-26); not with a sliding window or media."""


def first_engine_step(spec: ModelSpec, length: int) -> int:
    """Tokens of the profile run of vLLM's first engine: the whole length, or one chunk if it splits prompts by default."""
    windowed = any(term.growth == "window" for term in spec.cache_terms or ())
    whole = windowed or spec.vision is not None or spec.sound is not None
    return length if whole or length <= LONGEST_WHOLE_PROFILE else _CHUNK_TOKENS


def limit_length(spec: ModelSpec, serving: Serving, tokens: int, requests: int = 1) -> None:
    """Refuse a server whose longest request is shorter than the request, or longer than the model's context.

    Raises:
        BadArgument: with the lengths that it may state.
    """
    bound, limit = serving.limit_tokens(requests), spec.context_limit
    if bound is None:
        return
    (setting, longest), name = bound, f"serving.{bound[0]}"
    stated, parallel = serving.stated[setting], 1 if setting == "max_model_len" else serving.parallel or requests
    each = "" if parallel == 1 else f", {longest:,} for each of {parallel} requests"
    if longest < tokens:
        raise BadArgument(name, f"{stated:,}{each}", f"at least {tokens * parallel:,}, because a request has {tokens:,} tokens")
    if limit is not None and longest > limit:
        raise BadArgument(name, f"{stated:,}{each}", f"at most {limit * parallel:,}: {spec.id or 'the model'} takes {limit:,} tokens")


def resolve_request(spec: ModelSpec, request: MemoryRequest, accelerator: Accelerator | None) -> ResolvedRequest:
    """Decide precision, cache precision and compute dtype for this model on this card.

    Raises:
        BadArgument: a precision that no format has or that the engine does not load; a model that it does not run.
    """
    engine = choose_engine(spec, request.engine)
    check_settings(engine, request.serving)
    request = settle_serving(request)
    if spec.library == "gguf" and request.mode != "inference":
        raise BadArgument("mode", request.mode, "inference for a GGUF file; name the model that it was made from to train it")
    # Formats of weights, arithmetic and cache.
    by_default = formats.QLORA[TrainingRequest().double_quantization] if request.mode == "qlora" else AUTO
    precision_name = by_default if request.precision == AUTO else request.precision
    precision = formats.resolve(precision_name, spec, engine, accelerator)
    compute = formats.compute_dtype(precision, spec, accelerator)
    cache = resolve_cache_format(spec, engine, precision, request.kv_precision, compute)
    if request.gpu_layers is not None and not traits_of(engine).own_files:
        raise BadArgument("gpu_layers", request.gpu_layers, f"-1 with {engine}: only llama.cpp computes some layers on the processor")
    # What stays in the memory of the host.
    kind = accelerator.kind if accelerator else "gpu" if "gpu" in traits_of(engine).silicon else "tpu"
    whole = kind == "cpu" or request.mode != "inference"  # one memory holds everything
    experts_in_host = count_experts_in_host(spec, request.serving.cpu_moe_layers or 0)
    on_gpu = spec.dimensions.layers + 1 if experts_in_host and request.gpu_layers is None else request.gpu_layers
    media = resolve_media(spec, request.media)
    if request.mode != "inference":
        for name, brought in (("images", request.media.images), ("audio_seconds", request.media.audio_seconds)):
            if brought:
                raise BadArgument(name, f"{brought:g}", f"0 with mode {request.mode}: training is counted for text alone")
    memory = accelerator.memory_usable if accelerator else None
    return ResolvedRequest(
        precision=precision,
        kv_precision=cache,
        compute_dtype=compute,
        engine=engine,
        mode=request.mode,
        devices=request.devices,
        encoder_tokens=media.cross_positions or request.encoder_tokens or spec.dimensions.encoder_tokens,
        kv_element_bytes=formats.element_bytes(cache, compute),
        silicon=kind,
        is_named=accelerator is not None,
        compute_capability=accelerator.compute_capability if accelerator else None,
        profiled_tokens=request.serving.max_num_batched_tokens or traits_of(engine).profiled_tokens(memory),
        gpu_layers=None if whole else on_gpu,
        experts_in_host=0 if whole else experts_in_host,
        micro_batch=request.micro_batch,
        flash_attention=request.flash_attention,
        pictures=request.pictures,
        media=media,
        serving=request.serving,
    )


def count_expert_layers(spec: ModelSpec) -> int:
    """Layers that have routed experts; a GGUF file may hold those of one name in several types."""
    by_name: dict[str, int] = {}
    for group in spec.tensors:
        if group.kind == "expert" and group.experts:
            stacked = len(group.shape) >= _FUSED or "bias" in group.name
            by_name[group.name] = by_name.get(group.name, 0) + (group.count if stacked else group.count // group.experts)
    return max(by_name.values(), default=0)


def count_experts_in_host(spec: ModelSpec, cpu_moe_layers: int) -> int:
    """Layers whose routed experts stay in the host's memory with llama.cpp's `--n-cpu-moe`.

    Raises:
        BadArgument: a model without routed experts, or more layers than it has.
    """
    if not cpu_moe_layers:
        return 0
    name, layers = spec.id or "this model", spec.dimensions.layers
    if not (expert_layers := count_expert_layers(spec)):
        accepted = f"0 for {name}: it has no routed experts. gpu_layers splits a dense model"
        raise BadArgument("serving.cpu_moe_layers", cpu_moe_layers, accepted)
    if cpu_moe_layers > layers:
        raise BadArgument("serving.cpu_moe_layers", cpu_moe_layers, f"0 to {layers} for {name}, which has {layers} layers")
    return layers_in_host(layers=layers, expert_layers=expert_layers, cpu_moe_layers=cpu_moe_layers)


class LayerSizes(NamedTuple):
    """Widths of one decoder layer, per token."""

    hidden: int
    query_width: int
    key_width: int
    mlp_width: int
    heads: int
    kv_heads: int
    vocabulary: int
    layers: int
    is_known: bool


_FUSED = 3  # a fused tensor has the experts as its first extent


@lru_cache(maxsize=1024)
def _expert_width(key: ById[ModelSpec]) -> int:
    """Width of the experts that one token reaches in a layer: k · parameters of one expert / 3h."""
    spec = key.value
    fused = [g for g in spec.tensors if g.kind == "expert" and g.experts]
    hidden = spec.dimensions.hidden_size
    if not fused or not hidden:
        return 0
    layers = max([1, *(g.count // g.experts if len(g.shape) < _FUSED else g.count for g in fused)])
    each = sum(g.parameters for g in fused) // (fused[0].experts * layers)
    return max(g.experts_per_token for g in fused) * each // (3 * hidden)


def layer_sizes(spec: ModelSpec) -> LayerSizes:
    """LayerSizes of the decoder; if they are not known, those of a typical one with as many parameters."""
    is_known = spec.dimensions.hidden_size > 0
    d = spec.dimensions if is_known else typical_decoder(spec.parameters_total)
    heads = d.attention_heads
    width = d.head_dim or (d.hidden_size // heads if heads else 0)
    kv_heads = d.kv_heads or heads
    mlp = max(d.intermediate_size, _expert_width(ById(spec)))
    return LayerSizes(d.hidden_size, heads * width, kv_heads * width, mlp, heads, kv_heads, d.vocab_size, d.layers, is_known=is_known)


def limit_context(spec: ModelSpec, context_tokens: int) -> tuple[int, tuple[Caveat, ...]]:
    """The counted context, at most the model's own limit, and a caveat if that is less than requested."""
    limit = spec.context_limit
    if limit is None or context_tokens <= limit:
        return context_tokens, ()
    return limit, (Caveat("context_cut", {"limit_tokens": limit, "asked_tokens": context_tokens}),)


def context_caveats(spec: ModelSpec, prompt_tokens: int, output_tokens: int) -> list[Caveat]:
    """A prompt and answer that the model cannot hold; in an encoder-decoder the answer alone has to fit, an encoder answers nothing."""
    answers = spec.work not in {"text encoder", "other encoder"}
    tokens = (output_tokens if answers else 0) + (0 if spec.has_encoder else prompt_tokens)
    if spec.context_limit is None or tokens <= spec.context_limit or spec.picture_pass is not None:  # beside a picture a text is cut
        return []
    return [Caveat("beyond_context", {"asked_tokens": tokens, "limit_tokens": spec.context_limit})]


def encoder_caveats(spec: ModelSpec, encoder_tokens: int) -> list[Caveat]:
    """A length of the encoder's side if there is none."""
    return [Caveat("no_encoder", {"encoder_tokens": encoder_tokens})] if encoder_tokens and not spec.has_encoder else []


def picture_caveats(spec: ModelSpec, request: MemoryRequest) -> list[Caveat]:
    """A context for pictures, or ways of a pipeline for a model that is none."""
    if spec.library == "diffusers":
        return [Caveat("context_of_pictures")] if request.context_tokens != MemoryRequest().context_tokens else []
    return [Caveat("not_a_pipeline")] if replace(request.pictures, width=0, height=0, frames=0) != AS_THE_PIPELINE else []


ENDLESS = 2**24
"""Tokens and sequences beyond which a search stops: no limit was found."""
UNLIMITED = 2**62
"""Bytes of a memory of which nothing is known, or that does not count."""


def find_largest(size: Callable[[int], int], capacity: int, limit: int) -> int:
    """The largest n from 1 to `limit` with size(n) ≤ capacity, 0 if even 1 is too large; `size` must not shrink.

    Interpolates, since most sizes are straight lines, and halves when that does not help.

    >>> find_largest(lambda n: 10 + 3 * n, 100, 1000)
    30
    """
    at_limit = size(limit)
    if at_limit <= capacity:
        return limit
    low, high = 1, limit
    at_low = size(low)
    if at_low > capacity:
        return 0
    straight = True
    while high - low > 1:
        guess = low + (capacity - at_low) * (high - low) // (at_limit - at_low) if straight else (low + high) // 2
        middle = min(max(guess, low + 1), high - 1)
        value = size(middle)
        if value <= capacity:
            straight = straight or guess == middle
            low, at_low = middle, value
        else:
            high, at_limit = middle, value
        straight = not straight if guess == middle else straight
    return low
