"""Models that are not built but read from the header of their weights' file: GGUF files, and models of timm.

A GGUF file names every tensor, a layer's kind is read off what it holds, and the cache is the one that llama.cpp makes of its keys:

    blk.N.attn_k, attn_qkv        attention: H_kv·(D_k + D_v) of layer N, with head counts and widths as the keys state them
    blk.N.attn_kv_a_mqa           latent attention, where the file is for it (key_length_mla, or one key/value head): r_kv + d_rope
    blk.N.ssm_*                   Mamba or a linear attention: the last K − 1 inputs of the convolution and the state, both float32
    blk.N.shortconv.*             a gated short convolution: its last l − 1 inputs
    blk.N.time_mix_*              RWKV: shifted tokens, and one matrix for each head

Windows: `attention.sliding_window`, in the layers that `attention.sliding_window_pattern` names (a list, or a period). Older files leave
the pattern out; then it is the one that llama.cpp takes for the architecture, and where it takes none (Llama, Phi-3, Qwen 2) it keeps all
tokens. The last `shared_kv_layers` layers hold nothing, nor do the layers for multi-token prediction, which are not loaded.

A config.json of timm names an architecture that only timm can build. What it takes while it computes follows from pixels and is not known
here; layers are not told apart, and statistics of batch norms are buffers.

Source: llama.cpp `src/llama-model.cpp` (load_hparams), `src/llama-hparams.cpp` (is_swa, has_kv, n_embd_r, n_embd_s) and the
`src/models/*.cpp` of gemma4, cohere2, gpt-oss and modern-bert, read 2026-11-22; names of keys and tensors as in package gguf 0.19;
transformers 5.23.0, `TimmWrapperConfig` (a config.json with `architecture`, `num_classes` and `pretrained_cfg`), read 2026-11-22.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from lib.errors import BadConfig, UnsupportedModel, quote_value
from lib.laws.cache_growth import Growth
from lib.laws.weights import BLOCKS, FILE_TYPES, file_type_of
from lib.model import spec
from lib.provenance import Caveat, Source

Keys = Mapping[str, str | int | float | bool | tuple[int, ...]]

MAX_LAYERS = 1024  # llama.cpp's own bound is 512
_MAX_SIZE = 2**31
_GUESSED = 1024  # a bit of general.file_type
_BLOCK = re.compile(r"^(?:(enc|dec)\.)?blk\.(\d+)\.(.+)$")
_EXPERTS = re.compile(r"_exps\.(?:weight|bias)$")
_STATES = re.compile(r"^(?:ssm_|time_mix_)")
_PERIODS: Mapping[str, tuple[int, bool]] = {
    "gemma2": (2, False), "gemma3": (6, False), "gemma3n": (5, False), "gemma-embedding": (6, False), "cohere2": (4, False),
    "olmo2": (4, False), "exaone4": (4, False), "exaone-moe": (4, False), "gpt-oss": (2, False), "llama4": (4, False), "afmoe": (4, False),
    "plamo3": (8, False), "smallthinker": (4, True), "modern-bert": (3, True),
}  # fmt: skip
"""Every n-th layer is full where the file does not say which: the last of n, or the first."""
_CHUNK = 8192  # of Llama 4, whatever its file says


@dataclass(frozen=True, slots=True)
class _Header:
    """The keys of one architecture, checked as they are read."""

    keys: Keys
    architecture: str
    layers: int

    def whole(self, name: str, default: int = 0) -> int:
        """A whole number; of a list the largest."""
        value = self.keys.get(f"{self.architecture}.{name}", default)
        if type(value) is int and 0 <= value < _MAX_SIZE:
            return value
        return max(self.each(name, default), default=default)

    def each(self, name: str, default: int = 0) -> tuple[int, ...]:
        """One whole number for each layer: the list as it is, or the same number everywhere."""
        value = self.keys.get(f"{self.architecture}.{name}", default)
        if isinstance(value, tuple):
            numbers = value
            if len(value) < self.layers:
                raise BadConfig(f"The GGUF file lists {len(value)} values of {name} for {self.layers} layers. {_NEXT}.")
        elif isinstance(value, int):
            numbers = (int(value),) * max(1, self.layers)
        else:
            raise BadConfig(f"The GGUF file has {quote_value(value)} as {name}, and a whole number belongs there. {_NEXT}.")
        if any(not 0 <= number < _MAX_SIZE for number in numbers):
            raise BadConfig(f"The GGUF file has a {name} of {quote_value(next(n for n in numbers if not 0 <= n < _MAX_SIZE))}. {_NEXT}.")
        return numbers

    def has(self, name: str) -> bool:
        return f"{self.architecture}.{name}" in self.keys


_NEXT = "Choose another file, or name the model it was made from"


def resolve_gguf(keys: Keys, tensors: Mapping[str, spec.StoredTensor], origin: spec.Origin = spec.UNKNOWN_ORIGIN) -> spec.ModelSpec:
    """Resolve a GGUF file from its header.

    Args:
        keys: of the header: scalars, and short lists of whole numbers.
        tensors: by name, of all parts of the file.
        origin: where it came from.
    """
    architecture = keys.get("general.architecture")
    if not isinstance(architecture, str) or not architecture:
        raise BadConfig(f"The GGUF file names no architecture. {_NEXT}.")
    if architecture == "clip" or keys.get("general.type", "model") != "model":
        kind = "a projector for pictures" if architecture == "clip" else str(keys.get("general.type"))
        raise UnsupportedModel(f"The GGUF file holds {quote_value(kind)}, not a model. Name the model's own file instead.")
    # Layers, tensors and cache, as the header names them.
    layer_tensors = _layers_held(tensors)
    header = _Header(keys, architecture, 0)
    header = replace(header, layers=_layer_count(header, layer_tensors))
    causal = keys.get(f"{architecture}.attention.causal", True) is not False
    groups = _group(tensors, header, encodes=not causal)
    terms = _cache(header, layer_tensors) if causal else ()
    latent_heads = header.each("attention.head_count_kv", header.whole("attention.head_count"))
    heads = header.whole("attention.head_count")
    hidden = header.whole("embedding_length")
    vocabulary = next((g.shape[0] for g in groups if g.name.startswith("token_embd.") and len(g.shape) > 1), 0)
    # Bytes by format, and whether the file embeds or generates.
    by_type: Counter[str] = Counter()
    for tensor in tensors.values():
        by_type[tensor.dtype] += _bytes(tensor)
    pooled = isinstance(keys.get(f"{architecture}.pooling_type"), int) and keys[f"{architecture}.pooling_type"] != 0
    sizes = spec.Dimensions(
        hidden_size=hidden,
        layers=header.layers,
        attention_heads=heads,
        kv_heads=max(latent_heads, default=0),
        head_dim=header.whole("attention.key_length_mla") or header.whole("attention.key_length") or (hidden // heads if heads else 0),
        intermediate_size=header.whole("feed_forward_length"),
        vocab_size=vocabulary,
    )
    return spec.ModelSpec(
        id=origin.id,
        architecture=architecture,
        model_type=architecture,
        task="text-generation" if causal and not pooled else "feature-extraction",
        library="gguf",
        source="gguf",
        parameters_total=sum(g.parameters for g in groups),
        parameters_active=spec.parameters_active(groups),
        tensors=groups,
        dimensions=sizes,
        layer_kinds=spec.count_layer_kinds(terms or None, header.layers) if terms or not causal else {},
        cache_terms=terms or None,
        unknown_cache=causal and not terms,
        activations=(),
        context_limit=header.whole("context_length") or None,
        stored=spec.StoredWeights(
            dtype="float16",
            bytes_by_dtype=dict(by_type),
            quantization=spec.Quantization(method="gguf", format=f"gguf:{_file_type(keys, by_type)}"),
        ),
        license=origin.license,
        gated=origin.gated,
        caveats=(Caveat("gguf_engine"),),
        sources=(
            Source(
                what="tensors, layers and cache", source=f"header of the GGUF file, architecture {architecture}", checked=origin.checked
            ),
        ),
    )


def _layers_held(tensors: Mapping[str, spec.StoredTensor]) -> dict[int, set[str]]:
    """Names of the tensors of each layer that makes text; of an encoder-decoder its decoder's."""
    names: dict[int, set[str]] = {}
    decodes = any(name.startswith("dec.blk.") for name in tensors)
    for name in tensors:
        match = _BLOCK.match(name)
        if match and (match[1] == "dec" or not decodes):
            names.setdefault(int(match[2]), set()).add(match[3])
    return names


def _layer_count(header: _Header, tensors: Mapping[int, set[str]]) -> int:
    """Layers that are loaded: those for multi-token prediction are not."""
    stated = header.whole("decoder_block_count") or header.whole("block_count")
    if not 0 < stated <= MAX_LAYERS:
        raise BadConfig(f"The GGUF file states {stated:,} layers; from 1 to {MAX_LAYERS:,} are read. {_NEXT}.")
    if set(tensors) != set(range(stated)):
        raise BadConfig(f"The GGUF file states {stated:,} layers and holds tensors of {len(tensors):,}. {_NEXT}.")
    extra = header.whole("nextn_predict_layers")
    return stated - extra if extra < stated else stated


def _bytes(tensor: spec.StoredTensor) -> int:
    weights, size = BLOCKS[tensor.dtype]
    return math.prod(tensor.shape) // weights * size


def _file_type(keys: Keys, by_type: Mapping[str, int]) -> str:
    """The mix that the file was made as, by its own word; else by the type that takes most of its bytes."""
    stated = keys.get("general.file_type")
    name = FILE_TYPES.get(stated & ~_GUESSED) if isinstance(stated, int) else None
    return name or file_type_of(max(by_type, key=lambda kind: by_type[kind], default="F16"))


def _group(tensors: Mapping[str, spec.StoredTensor], header: _Header, *, encodes: bool) -> tuple[spec.TensorGroup, ...]:
    """Tensors of one role and shape, with the bytes that they take as they are stored."""
    experts, per_token = header.whole("expert_count"), header.whole("expert_used_count")
    groups: dict[spec.TensorGroup, tuple[int, int]] = {}
    for name, tensor in tensors.items():
        match = _BLOCK.match(name)
        if match and int(match[2]) >= header.layers and header.has("nextn_predict_layers"):
            continue
        routed = bool(_EXPERTS.search(name)) and len(tensor.shape) > 1 and tensor.shape[0] == experts > 0
        group = spec.TensorGroup(
            name=_BLOCK.sub(lambda m: f"{m[1] + '.' if m[1] else ''}blk.*.{m[3]}", name),
            component=_component(name, encodes=encodes),
            kind="expert" if routed else _kind(name, tensor.shape),
            shape=tensor.shape,
            count=0,
            experts=experts if routed else 0,
            experts_per_token=min(experts, per_token) if routed else 0,
        )
        count, size = groups.get(group, (0, 0))
        groups[group] = (count + 1, size + _bytes(tensor))
    return tuple(replace(group, count=count, stored_bytes=size) for group, (count, size) in groups.items())


def _component(name: str, *, encodes: bool) -> str:
    if name.startswith(("token_embd.", "per_layer_token_embd.", "position_embd.", "token_types.")):
        return "embeddings"
    if name.startswith(("output.", "cls.", "cls.output.")):
        return "head"
    if name.startswith(("enc.", "dec.")):
        return "encoder" if name.startswith("enc.") else "decoder"
    return "encoder" if encodes else "language_model"


def _kind(name: str, shape: tuple[int, ...]) -> spec.TensorKind:
    if len(shape) < 2:  # noqa: PLR2004 vectors
        return "norm" if "norm" in name else "other"
    if name.startswith(("token_embd.", "per_layer_token_embd.", "position_embd.", "token_types.")):
        return "embedding"
    if name.startswith("output."):
        return "head"
    return "conv" if "conv" in name.rpartition(".weight")[0].rpartition(".")[2] else "linear"


def _cache(header: _Header, tensors: Mapping[int, set[str]]) -> tuple[spec.CacheTerm, ...]:
    """Cache of each layer, equal layers counted together; nothing if a layer's kind is unknown."""
    counts: Counter[spec.CacheTerm] = Counter()
    sharing = header.layers - header.whole("attention.shared_kv_layers")
    slides = _sliding(header)
    for layer in range(header.layers):
        terms = _layer_terms(header, tensors[layer], layer, window=slides[layer]) if layer < sharing else ()
        counts.update(terms)
    return tuple(replace(term, layers=count) for term, count in counts.items())


def _sliding(header: _Header) -> tuple[int, ...]:
    """The window of each layer in tokens, 0 for all."""
    window = header.whole("attention.sliding_window")
    if header.architecture == "llama4" and not (header.has("attention.sliding_window") and window == 0):
        window = _CHUNK
    if window == 0:
        return (0,) * header.layers
    stated = header.keys.get(f"{header.architecture}.attention.sliding_window_pattern")
    if isinstance(stated, tuple):
        return tuple(window if slides else 0 for slides in header.each("attention.sliding_window_pattern"))
    period, first = _PERIODS.get(header.architecture, (1, False))
    period = header.whole("attention.sliding_window_pattern", period)
    full = 0 if first else period - 1
    return tuple(window if period == 0 or layer % period != full else 0 for layer in range(header.layers))


def _layer_terms(header: _Header, tensors: set[str], layer: int, *, window: int) -> tuple[spec.CacheTerm, ...]:
    states = _state_terms(header, tensors)
    names = {name.partition(".")[0] for name in tensors}
    recurrent = any(_STATES.match(name) for name in names)
    attends = "attn_k" in names or "attn_kv_a_mqa" in names or ("attn_qkv" in names and not recurrent)
    if not attends:
        return states
    heads = header.each("attention.head_count_kv", header.whole("attention.head_count"))[layer]
    latent = header.whole("attention.kv_lora_rank")
    if latent and "attn_kv_a_mqa" in names and (header.has("attention.key_length_mla") or heads == 1):
        terms = [_term("latent attention (MLA)", "latent and rope key", latent + header.whole("rope.dimension_count"), window)]
        index = header.whole("attention.indexer.key_length")
        if index and any(name.startswith("indexer") for name in names):
            terms.append(_term("latent attention (MLA)", "indexer keys", index, window))
        return (*terms, *states)
    own = "_swa" if window and header.has("attention.key_length_swa") else ""
    usual = header.whole("embedding_length") // max(1, header.whole("attention.head_count"))
    width = header.whole(f"attention.key_length{own}", usual) + header.whole(f"attention.value_length{own}", usual)
    kind = "full attention" if not window else "chunked attention" if header.architecture == "llama4" else "sliding window"
    return (_term(kind, "keys and values", heads * width, window), *states) if heads * width else states


def _term(kind: str, holds: str, elements: int, window: int) -> spec.CacheTerm:
    growth: Growth = "window" if window else "tokens"
    return spec.CacheTerm(kind=kind, holds=holds, layers=0, elements=elements, growth=growth, span=window - 1 if window else 0)


def _state_terms(header: _Header, tensors: set[str]) -> tuple[spec.CacheTerm, ...]:
    """Convolution and recurrent state of a layer, as llama.cpp sizes them."""
    names = {name.partition(".")[0] for name in tensors}
    hidden = header.whole("embedding_length")
    if "shortconv" in names:
        return (_state("convolution state", "convolution state", hidden * (header.whole("shortconv.l_cache") - 1)),)
    if any(name.startswith("time_mix_") for name in names):
        shifted = header.whole("token_shift_count", 2) * hidden
        matrix = header.whole("wkv.head_size") * hidden
        kind = "linear attention state"
        return tuple(_state(kind, name, size) for name, size in (("shifted tokens state", shifted), ("recurrent state", matrix)) if size)
    if not any(name.startswith("ssm_") for name in names):
        return ()
    inner, state = header.whole("ssm.inner_size"), header.whole("ssm.state_size")
    columns = inner + 2 * header.whole("ssm.group_count") * state
    kind = "linear attention state" if "attn_qkv" in names else "state space (Mamba) state"
    sizes = (("convolution state", columns * (header.whole("ssm.conv_kernel") - 1)), ("recurrent state", inner * state))
    return tuple(_state(kind, name, size) for name, size in sizes if size > 0)


def _state(kind: str, holds: str, elements: int) -> spec.CacheTerm:
    return spec.CacheTerm(kind=kind, holds=holds, layers=0, elements=elements, growth="constant", dtype="float32")


_BUFFERS = ("running_mean", "running_var", "num_batches_tracked")
_DTYPES = {"F32": "float32", "F16": "float16", "BF16": "bfloat16"}
_RANK_OF_CONV = 4


def is_timm(config: Mapping[str, Any]) -> bool:
    """Whether a config.json is one of timm's: an architecture by name, and none of the types of `transformers`."""
    return (
        isinstance(config.get("architecture"), str) and "model_type" not in config and bool({"num_classes", "pretrained_cfg"} & set(config))
    )


def resolve_timm(
    config: Mapping[str, Any], tensors: Mapping[str, spec.StoredTensor], origin: spec.Origin = spec.UNKNOWN_ORIGIN
) -> spec.ModelSpec:
    """Resolve a model of timm from its configuration and the header of its weights."""
    architecture = str(config["architecture"])[:200]
    if not tensors:
        raise UnsupportedModel(
            f"{quote_value(origin.id)} is a model of timm without safetensors, so nothing counts its parameters. "
            "Give the parameter count instead."
        )
    # Parameters by format, without buffers.
    parameters = {name: tensor for name, tensor in tensors.items() if not name.endswith(_BUFFERS)}
    by_dtype: Counter[str] = Counter()
    for tensor in parameters.values():
        by_dtype[tensor.dtype] += _stored_bytes(tensor)
    # Groups: the classifier that the configuration names is the head.
    settings = config.get("pretrained_cfg")
    head = str((isinstance(settings, Mapping) and settings.get("classifier")) or "head")
    groups = tuple(
        spec.TensorGroup(
            name=name,
            component="head" if name.startswith((f"{head}.", "head.", "fc.", "classifier.")) else "backbone",
            kind=_timm_kind(name, tensor.shape),
            shape=tensor.shape,
            count=1,
        )
        for name, tensor in parameters.items()
    )
    buffers = sum(_stored_bytes(tensor) for name, tensor in tensors.items() if name not in parameters)
    return spec.make_tokenless_spec(
        groups,
        id=origin.id,
        architecture=architecture,
        task=origin.task or "image-classification",
        library="timm",
        source="safetensors",
        stored=spec.StoredWeights(dtype=_DTYPES.get(max(by_dtype, key=lambda kind: by_dtype[kind]), ""), bytes_by_dtype=dict(by_dtype)),
        license=origin.license,
        gated=origin.gated,
        sources=(Source(what="parameters", source=f"header of the weights of {architecture}, a model of timm", checked=origin.checked),),
        buffer_bytes=buffers,
    )


def _stored_bytes(tensor: spec.StoredTensor) -> int:
    """Bytes of a tensor in safetensors; a type that is not known counts as float32."""
    return math.prod(tensor.shape) * BLOCKS.get(tensor.dtype, BLOCKS["F32"])[1]


def _timm_kind(name: str, shape: tuple[int, ...]) -> spec.TensorKind:
    if len(shape) <= 1:
        return "norm" if "norm" in name or "bn" in name else "other"
    return "conv" if len(shape) == _RANK_OF_CONV else "linear"
