"""ModelSpec: everything the laws need to know about a model, as a small frozen value.

A model is resolved once (a config is built on the meta device, its default cache is run, its activations are traced);
after that every question is arithmetic on this value. It holds no torch object and goes to JSON and back unchanged
(`lib.model.bundled`), so that popular models answer at once and offline.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol, get_args

from lib.engines.traits import Work
from lib.laws.cache_growth import Growth
from lib.laws.media_tokens import ImageRules, SoundRules
from lib.provenance import Caveat, Source
from lib.result import Result

TensorKind = Literal["linear", "expert", "embedding", "head", "norm", "conv", "other"]
SpecSource = Literal["safetensors", "architecture", "catalog", "gguf", "rule_of_thumb"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorGroup:
    """Parameters that share a role and a shape.

    `name` is the parameter's path with layer numbers replaced by `*` ("model.layers.*.mlp.down_proj.weight").
    `component` is the part of the model it belongs to ("language_model", "vision_tower", "embeddings", "head" …).
    `kind`: linear = a matrix a quantizer may replace; expert = routed experts of a mixture, fused or one by one
    (`experts` of them in one group, of which a token reaches `experts_per_token`); head = the output projection.
    `shape` is that of one tensor, in torch's order (out_features, in_features); `count` tensors have it.
    `fp32`: transformers keeps it in float32 when the model is loaded in half precision; `fp32_in_fp16`: only when that is float16.
    `skipped`: the checkpoint's own quantization leaves it as it is. `convertible`: a quantizer of `transformers` that works while
    loading would replace the module (plain matrices and fused experts, not the head, tied or float32 ones). `stored_bytes`: what the whole
    group takes in a file whose types differ from tensor to tensor (GGUF), 0 where the format says it. `stored_as`: its format where
    the checkpoint mixes formats and states one for each module.
    """

    name: str
    component: str
    kind: TensorKind
    shape: tuple[int, ...]
    count: int
    experts: int = 0
    experts_per_token: int = 0
    fp32: bool = False
    fp32_in_fp16: bool = False
    skipped: bool = False
    convertible: bool = False
    stored_bytes: int = 0
    stored_as: str = ""

    @property
    def parameters(self) -> int:
        """Parameters of the whole group."""
        size = self.count
        for extent in self.shape:
            size *= extent
        return size

    @property
    def block(self) -> str:
        """The module of a layer that it belongs to, as its name says ("self_attn", "mlp"); its kind where the name names none."""
        inside = self.name.partition(".*.")[2].split(".")
        while inside[1:2] == ["*"]:  # a stack inside a layer, as a UNet and T5 have: attentions.*.transformer_blocks.*
            inside = inside[2:]
        if len(inside) < (3 if self.kind == "norm" else 2):
            return self.kind
        return inside[0].partition("_")[0] if self.name.startswith("blk.") else inside[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheTerm(Result):
    """The cache of one kind of layer for one sequence, as a function of its length T (or of the encoder length E).

        elements(T) = layers · elements · n(T)

    with n(T) by `growth`:  tokens T · window min(T, span) · blocks ⌊T / span⌋ · remainder T mod span
    · step [T ≥ span] · constant 1 · encoder E (positions after the encoder; `span` mel frames or patches give one).
    """

    kind: str
    """Kind of layer: full attention, sliding window, latent attention (MLA), linear attention state, cross attention …"""
    holds: str
    """Cached tensors: keys and values, latent and rope key, recurrent state …"""
    layers: int
    """Number of layers of this kind."""
    elements: int
    """Elements that one layer caches for each n(T)."""
    growth: Growth
    """How the cache grows with the length T."""
    span: int = 0
    """Tokens of a window or block; 0 where the growth has none."""
    dtype: str = "model"
    """"model" (the compute or cache dtype that the caller chose), or a fixed one such as "float32" that no choice changes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivationFit:
    """Temporary tensors at one moment of a prefill or of a decode step, B sequences of T tokens (encoder: E positions).

        bytes = constant + per_token · B·T + per_token_squared · B·T² + mask · T²
                + per_sequence · B + per_position · T + per_encoder_token · B·E + per_encoder_token_squared · B·E²

    for one attention kernel and one element size of the compute dtype, as traced on the meta device. Which moment is the fullest
    changes with the length: a spec holds one fit for each moment that can be, and the peak is the largest of those whose
    `from_tokens` ≤ T (past a sliding window a mask is built that shorter prompts do without). Logits of the last position are
    included, those of the other positions are not.
    """

    kernel: Literal["sdpa", "eager"]
    element_bytes: int
    constant: float
    per_token: float
    per_token_squared: float
    mask: float = 0.0
    per_sequence: float = 0.0
    per_position: float = 0.0
    per_encoder_token: float = 0.0
    per_encoder_token_squared: float = 0.0
    from_tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Dimensions:
    """Sizes of the text decoder (or of the only stack), for laws that need them; 0 where the model has no such thing."""

    hidden_size: int = 0
    layers: int = 0
    attention_heads: int = 0
    kv_heads: int = 0
    head_dim: int = 0
    intermediate_size: int = 0
    vocab_size: int = 0
    encoder_tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantization:
    """How a checkpoint is stored, from its own `quantization_config` (or `hf_quant_config.json`).

    `method` is the checkpoint's word (fp8, mxfp4, modelopt, gptq, awq, bitsandbytes, compressed-tensors …); `format` is the
    name under which `lib.precision` knows the storage format; `skipped` are module patterns left unquantized.
    """

    method: str
    format: str
    group_size: int = 0
    skipped: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredWeights:
    """The weights as they lie on the Hub: bytes by safetensors dtype, as far as headers were read.

    `dtype` is the dtype the config names for loading ("bfloat16"); `bytes_by_dtype` is empty when no header was read.
    `bytes_by_component` holds the bytes to download for each part that has a folder of its own (a pipeline's denoiser, text encoders, VAE).
    """

    dtype: str
    bytes_by_dtype: dict[str, int] = field(default_factory=dict)
    quantization: Quantization | None = None
    bytes_by_component: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class StageFit:
    """Temporary tensors at one moment of a stage of a pipeline: B pictures or clips of A megapixels and f latent frames (pictures: 1).

        bytes = (c0 + c1·B) + (c2 + c3·B)·A + (c4 + c5·B)·A·f

    in 16 bits, as run on the meta device with guidance as the pipeline takes it unless told otherwise. `dtype` is "fp16" where that differs
    from bfloat16 (a VAE that is put into float32), else "". The peak of a stage is the largest of its fits.
    """

    stage: Literal["encode", "denoise", "decode"]
    component: str
    coefficients: tuple[float, ...]
    dtype: str = ""


DENOISERS = ("transformer", "unet")
"""Folders of a pipeline that hold its denoiser."""
Trained = Literal["attention", "all-linear", "full"]
"""The weights of a denoiser that are trained: adapters on the projections of attention, adapters on every linear layer, or every weight."""
TRAINED: tuple[Trained, ...] = get_args(Trained)
_PROJECTIONS = (
    "to_q", "to_k", "to_v", "to_out.0", "to_out.*", "to_out", "to_qkv", "add_q_proj", "add_k_proj", "add_v_proj", "to_add_out",
    "to_query", "to_key", "to_value", "self_attention.out_layer", "cross_attention.out_layer",
)  # fmt: skip


def is_attention(module: str) -> bool:
    """Whether a module of a denoiser is a projection of attention, by the names that diffusers gives them.

    >>> is_attention("blocks.0.attn1.to_q"), is_attention("blocks.0.ff.net.2")
    (True, False)
    """
    return any(module == name or module.endswith(f".{name}") for name in _PROJECTIONS)


KeptGroup = Literal["outside", "checkpoints", "blocks", "largest", "per_rank", "product_inputs", "outside_inputs", "outside_weights"]
KEPT_GROUPS: tuple[KeptGroup, ...] = get_args(KeptGroup)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptFit:
    """Bytes that a denoiser keeps for its backward pass, in 16 bits: coefficients of the terms of `StageFit`.

    `group`: kept outside of blocks, as inputs of blocks (checkpoints), inside of all blocks, inside the largest one, or inside of all
    blocks for each rank of adapters. Three are elements: product_inputs and outside_inputs are the inputs of all linear layers in blocks
    and outside of them, as far as gradients reach them; outside_weights are the frozen weights outside of blocks that gradients pass.
    `autocast`: norms are computed and kept in float32, as in mixed precision.
    """

    trained: Trained
    autocast: bool
    group: KeptGroup
    coefficients: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """The default request of a pipeline that makes pictures or clips, and its memory and work as functions of a request.

    `granularity` divides height and width, `frame_step` the frames after the first (0: it makes pictures). `guidance`: a guided step runs
    the denoiser on twice the batch ("batched"), twice ("sequential"), or once ("embedded": guidance is an input, or there is none). `flop`
    of the denoiser for one picture and evaluation, and `decoder_flop` of the VAE, as coefficients of 1, A, A·f, A²·f, A·f², A²·f²;
    `encoder_flop` of all text encoders for one prompt. `product_bytes_per_flop`: activations that the denoiser's products read and write,
    in 16 bits, without attention. `tile`: megapixels of a tile of the VAE (0: it has none). `units` are, by component, the parameters of
    the largest module without children and of the largest block, which offloading moves one by one, and of parameters outside of blocks.
    `kept` is what training keeps of a forward pass (() where it was not run). `blocks` of the denoiser can be recomputed: their number, the
    parameters of all of them, and those of the largest.
    """

    granularity: int
    frame_step: int
    height: int
    width: int
    frames: int
    steps: int
    prompt_tokens: int
    guidance: Literal["batched", "sequential", "embedded"]
    flop: tuple[float, ...]
    decoder_flop: tuple[float, ...]
    encoder_flop: float
    product_bytes_per_flop: float
    tile: float
    units: dict[str, tuple[int, int, int]]
    fits: tuple[StageFit, ...]
    kept: tuple[KeptFit, ...] = ()
    blocks: tuple[int, int, int] = (0, 0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class VisionInput:
    """How a model that writes takes pictures: what one becomes, and the tower that reads it.

    `tower` has the sizes of the vision transformer, 0 where it is none; `windowed_layers` of it attend within `window` positions, and the
    output of `kept_layers` is kept until the last has run.
    `cross` is what layers of cross-attention cache of a picture's positions (then its tokens are not in the prompt).
    """

    rules: ImageRules
    tower: Dimensions
    windowed_layers: int = 0
    window: int = 0
    kept_layers: int = 0
    cross: CacheTerm | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PicturePass:
    """One pass of an encoder over a picture of its configured size (or a spectrogram), as executed.

    `positions` are those that the first layer of the picture's tower reads; `flop` of products with weights, `attention_flop` of those
    between positions; `modules` have weights of their own.
    """

    positions: int
    flop: int
    attention_flop: int
    modules: int


_EMBEDS = frozenset({
    "feature-extraction", "sentence-similarity", "fill-mask", "text-classification", "token-classification", "text-ranking",
    "question-answering", "zero-shot-classification",
})  # fmt: skip
_HEARS = frozenset({"automatic-speech-recognition", "text-to-speech", "text-to-audio"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSpec:
    """A model, resolved.

    `id` is the Hub id, or "" for a pasted config or a bare count. `task` is a Hub pipeline tag ("text-generation", …).
    `parameters_total` counts every parameter of the architecture once, `parameters_active` those one token uses.
    `cache_terms` is None when the model keeps no cache (an encoder) and () is never used. `unknown_cache` says that a cache
    exists whose growth could not be told (then no number is given and a caveat says so).
    `layer_kinds` counts layers by kind for people. `context_limit` is in tokens, None when the config states none. `buffer_bytes` is what
    large tensors that are not parameters take in memory (`lib.model.parameters.count_buffer_bytes`). `gguf_files` are the GGUF files of the
    repository, by the names that mean them, with their bytes (0: not told).
    `vision` is None where the model takes no pictures, or where what one becomes is not known here; so is `sound`, what its encoder makes
    of sound. `picture_pass` is that of an encoder that reads a picture, or a spectrogram, in place of tokens. `read_with_token`: a
    visitor's token read it, so nothing of it goes where others see it. `caps_logits`: logits pass a tanh, which a training step keeps.
    `drops_hidden`, `drops_scores`: dropout is active in training, on the outputs of attention and MLP and on the scores of attention.
    """

    id: str
    architecture: str
    model_type: str
    task: str
    library: Literal["transformers", "diffusers", "gguf", "timm", "none"]
    source: SpecSource
    parameters_total: int
    parameters_active: int
    tensors: tuple[TensorGroup, ...]
    dimensions: Dimensions
    layer_kinds: dict[str, int]
    cache_terms: tuple[CacheTerm, ...] | None
    unknown_cache: bool
    activations: tuple[ActivationFit, ...]
    context_limit: int | None
    stored: StoredWeights
    license: str | None = None
    gated: bool | None = None
    caveats: tuple[Caveat, ...] = ()
    sources: tuple[Source, ...] = ()
    buffer_bytes: int = 0
    gguf_files: tuple[tuple[str, int], ...] = ()
    pipeline: Pipeline | None = None
    vision: VisionInput | None = None
    sound: SoundRules | None = None
    picture_pass: PicturePass | None = None
    read_with_token: bool = False
    caps_logits: bool = False
    drops_hidden: bool = False
    drops_scores: bool = False

    @property
    def is_mixture(self) -> bool:
        """Whether a token passes only some of its experts."""
        return self.parameters_active < self.parameters_total

    @property
    def sparse_attention(self) -> bool:
        """Whether an indexer chooses which tokens its attention reads (DeepSeek-V3.2 and -V4, GLM-5)."""
        return any(term.holds in {"indexer keys", "index entries"} for term in self.cache_terms or ())

    @property
    def work(self) -> Work:
        """The kind of work: by its library, its cache and its task; a bare parameter count is a decoder."""
        if self.library == "diffusers":
            return "pipeline"
        if self.picture_pass is not None:
            return "other encoder"
        embeds = self.task in _EMBEDS
        if self.cache_terms is None and not self.unknown_cache and self.tensors:
            return "text encoder" if embeds or not self.task else "decoder" if self.task == "text-generation" else "other encoder"
        if self.task in _HEARS:
            return "speech"
        if {"encoder", "decoder"} <= {group.component for group in self.tensors}:
            return "encoder-decoder"
        return "embedding decoder" if embeds else "decoder"

    @property
    def has_encoder(self) -> bool:
        """Whether an encoder reads the prompt, whose positions the decoder's layers cache."""
        return self.dimensions.encoder_tokens > 0 or any(term.growth == "encoder" for term in self.cache_terms or ())

    @property
    def parameters_by_component(self) -> dict[str, int]:
        """Parameters of each component; they add up to `parameters_total` unless only a bare count is known."""
        total: dict[str, int] = {}
        for group in self.tensors:
            total[group.component] = total.get(group.component, 0) + group.parameters
        return total


class Origin(NamedTuple):
    """Properties of a model outside its files; `checked` is an ISO date, `task` the Hub's pipeline tag ("": that of the class)."""

    id: str = ""
    source: SpecSource = "architecture"
    task: str = ""
    license: str | None = None
    gated: bool | None = None
    checked: str = ""
    bytes_by_dtype: Mapping[str, int] | None = None


UNKNOWN_ORIGIN = Origin()


class StoredTensor(Protocol):
    """A tensor as the header of a file lists it: type in the file's words ("F32", "Q4_K"), shape in torch's order."""

    @property
    def dtype(self) -> str:
        """For instance "Q4_K"."""

    @property
    def shape(self) -> tuple[int, ...]:
        """For instance (4096, 4096)."""


def make_tokenless_spec(tensors: tuple[TensorGroup, ...], **fields: Any) -> ModelSpec:
    """A model that reads no tokens (pixels go in, at any size): nothing is cached and no length limits it; `fields` are its others."""
    total = sum(group.parameters for group in tensors)
    return ModelSpec(
        model_type="",
        parameters_total=total,
        parameters_active=total,
        tensors=tensors,
        dimensions=Dimensions(),
        layer_kinds={},
        cache_terms=None,
        unknown_cache=False,
        activations=(),
        context_limit=None,
        **fields,
    )


def parameters_active(tensors: tuple[TensorGroup, ...]) -> int:
    """Parameters that one token uses: all of them, less the routed experts it does not reach."""
    idle = sum(g.parameters * (g.experts - g.experts_per_token) // g.experts for g in tensors if g.experts)
    return sum(g.parameters for g in tensors) - idle


def count_layer_kinds(terms: tuple[CacheTerm, ...] | None, layers: int) -> dict[str, int]:
    """How many layers there are of each kind: by what they cache, or all alike where nothing is cached."""
    if terms is None:
        return {"attention without cache": layers} if layers else {}
    layers_by_tensor: dict[str, dict[str, int]] = {}
    for term in terms:
        by_tensor = layers_by_tensor.setdefault(term.kind, {})
        by_tensor[term.holds] = by_tensor.get(term.holds, 0) + term.layers
    return {kind: max(by_tensor.values()) for kind, by_tensor in layers_by_tensor.items()}
