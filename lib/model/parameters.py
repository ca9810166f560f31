"""The parts of a built model: its parameters in groups of equal role and shape, and its task, sizes, limits and layer kinds.

Every parameter is counted once, a tied weight under its first name; buffers are not counted among them. The groups carry what the memory
laws ask about: kind, component, experts, and which dtype a load in half precision gives them. Sizes are read from `transformers`'
normalised configuration, which answers to the customary names, also where the file has others.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from torch import float32, nn

from lib.model.build import output_head, word_table
from lib.model.config import read_field, text_config
from lib.model.spec import Dimensions, TensorGroup, TensorKind
from lib.provenance import Caveat

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel

    from lib.model.build import BuiltModel

_NUMBER = re.compile(r"(?<![^._])\d+(?![^.])")
_PER_TOKEN = (
    "top_k", "num_experts_per_tok", "num_experts_per_token", "top_k_experts", "moe_topk", "moe_top_k", "moe_k", "num_selected_experts",
)  # fmt: skip
_COMPONENTS = (
    (re.compile(r"projector|connector|resampler|aligner|embed_vision|embed_audio|projection|image_newline|mm_input"), "projector"),
    (re.compile(r"vision|visual|vit$|image|vpm|vqmodel|qformer"), "vision_tower"),
    (re.compile(r"audio|speech|code2wav|talker|codec"), "audio_tower"),
    (re.compile(r"^(?:language_model|text_model|llm|thinker)$"), "language_model"),
    (re.compile(r"^encoders?$"), "encoder"),
    (re.compile(r"^decoders?$"), "decoder"),
)
_HEADS = ("head", "classifier", "score", "qa_outputs", "pooler", "predictions", "predictor", "cls")


@dataclass(frozen=True, slots=True)
class ParameterPlace:
    """One parameter, with the module that holds it and the modules around that one, outermost first."""

    path: str
    module: nn.Module
    parents: tuple[nn.Module, ...]
    tensor: Tensor


_LARGE_BUFFER = 1 << 20
_WIDEST_FLOAT = 4


def count_buffer_bytes(built: BuiltModel) -> int:
    """Bytes of large tensors that are not parameters: masks over all positions, tables of positions, of routes.

    Floats are taken at four bytes each, for such tables are often kept in float32 at every weight format. A buffer of less than 1 MiB
    (the frequencies of rotary embeddings have some hundred bytes) is left out.
    """
    sizes = (buffer.numel() * (_WIDEST_FLOAT if buffer.is_floating_point() else buffer.element_size()) for buffer in built.model.buffers())
    return sum(size for size in sizes if size >= _LARGE_BUFFER)


def iterate_parameters(model: nn.Module) -> Iterator[ParameterPlace]:
    """Parameters in the model's own order, each once."""
    visited: set[int] = set()

    def visit(module: nn.Module, prefix: str, parents: tuple[nn.Module, ...]) -> Iterator[ParameterPlace]:
        for name, tensor in module.named_parameters(recurse=False, remove_duplicate=False):
            if id(tensor) not in visited:
                visited.add(id(tensor))
                yield ParameterPlace(prefix + name, module, parents, tensor)
        for name, child in module.named_children():
            yield from visit(child, f"{prefix}{name}.", (*parents, module))

    yield from visit(model, "", ())


def _count_experts(place: ParameterPlace) -> int:
    """The number of routed experts that the tensor holds or belongs to; 0 when it belongs to none.

    `transformers` keeps them in a module called `experts`: as one tensor with the experts along its first axis, or as a
    list of modules, or as a dict of `expert_0` … .
    """
    parts = place.path.split(".")
    if "experts" not in parts:
        return 0
    at = parts.index("experts")
    container = (*place.parents, place.module)[at + 1]
    if isinstance(container, (nn.ModuleList, nn.ModuleDict)):
        return len(container)
    stacks = [p.shape[0] for p in container.parameters() if p.ndim == 3]  # noqa: PLR2004 experts × out × in
    return place.tensor.shape[0] if place.tensor.ndim > 1 and place.tensor.shape[0] in stacks else 0


def _experts_per_token(place: ParameterPlace, experts: int, config: Any) -> int:
    """How many of them one token reaches, from their router or from the configuration; 0 when neither says."""
    at = place.path.split(".").index("experts")
    chain = (*place.parents, place.module)
    owner = chain[at]
    near = [owner, *owner.children(), chain[at + 1]]
    for source in (*near, *(getattr(m, "config", None) for m in reversed(chain[: at + 2])), config):
        for name in _PER_TOKEN:
            value = read_field(source, name)
            if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= experts:
                return value
    return 0


def kind_of(place: ParameterPlace, head: object) -> TensorKind:
    """The role of a tensor, from the module that holds it; `head` is the output projection."""
    from transformers.pytorch_utils import Conv1D  # noqa: PLC0415 loaded when first needed

    module, tensor = place.module, place.tensor
    if tensor.ndim <= 1:
        return "norm" if "norm" in type(module).__name__.lower() or "norm" in place.path.lower() else "other"
    if module is head:
        return "head"
    if isinstance(module, nn.Embedding):
        return "embedding"
    if isinstance(module, (nn.Linear, Conv1D)):
        return "linear"
    return "conv" if isinstance(module, nn.modules.conv._ConvNd) else "other"  # noqa: SLF001 the common base has no public name


def _component(place: ParameterPlace, table: object, head: object, default: str) -> str:
    """The part of the model, from the first telling word on the way to the tensor."""
    if place.module is table:
        return "embeddings"
    if place.module is head:
        return "head"
    parts = place.path.split(".")[:-1]
    for part in parts:
        for pattern, component in _COMPONENTS:
            if pattern.search(part):
                alone = component in {"encoder", "decoder"} and default == "language_model"
                return default if alone or (component == "language_model" and default == "text_encoder") else component
    return "head" if parts and any(part.endswith(_HEADS) for part in parts[:2]) else default


def _default_component(built: BuiltModel) -> str:
    """The part of layers that no name assigns: a generating model's to its language model, an encoder's to the encoder."""
    text = text_config(built.config)
    if built.config.is_encoder_decoder:
        return "decoder"
    if built.model.can_generate() or getattr(text, "is_decoder", False):
        return "language_model"
    return "encoder" if text is built.config else "text_encoder"


def build_fp32_test(built: BuiltModel) -> Callable[[str], tuple[bool, bool]]:
    """A test by parameter path: kept in float32 in any half-precision load, and only in a float16 load.

    The same patterns and the same search that `from_pretrained` uses.
    """
    from transformers.core_model_loading import build_glob_alternation  # noqa: PLC0415 loaded when first needed

    def search(patterns: Any) -> Callable[[str], bool]:
        if not patterns:
            return lambda _path: False
        expression = build_glob_alternation(sorted(patterns))[0]
        return lambda path: expression.search(path) is not None

    always, in_fp16 = search(built.model._keep_in_fp32_modules_strict), search(built.model._keep_in_fp32_modules)  # noqa: SLF001
    return lambda path: (always(path), in_fp16(path))


def _convertible(model: PreTrainedModel) -> Callable[[ParameterPlace], bool]:
    """A test for the modules that `transformers` replaces when it quantizes while loading, by its own rule."""
    from transformers.pytorch_utils import Conv1D  # noqa: PLC0415 loaded when first needed
    from transformers.quantizers.base import HfQuantizer  # noqa: PLC0415
    from transformers.quantizers.quantizers_utils import should_convert_module  # noqa: PLC0415

    unconverted = HfQuantizer.get_modules_to_not_convert(model, None, list(model._keep_in_fp32_modules or ()))  # noqa: SLF001

    def test(place: ParameterPlace) -> bool:
        path = place.path.rpartition(".")[0]
        plain = type(place.module) is nn.Linear or isinstance(place.module, Conv1D) or path.endswith(".experts")
        return plain and bool(should_convert_module(path, unconverted))

    return test


def path_pattern(path: str) -> str:
    """A parameter's path with layer numbers replaced by `*`."""
    return _NUMBER.sub("*", path)


def group_parameters(
    built: BuiltModel, skipped: Callable[[str], bool] = lambda _path: False, stored_as: Callable[[str], str] = lambda _path: ""
) -> tuple[TensorGroup, ...]:
    """The parameters of a model on the meta device, grouped.

    Args:
        built: from `lib.model.build.build`, in bfloat16.
        skipped: whether the checkpoint's quantization leaves the module at this path alone.
        stored_as: the format of the module at this path where the checkpoint states one for each.
    """
    model, config = built.model, text_config(built.config)
    head, table = output_head(model), word_table(model)
    default, in_fp32, converts = _default_component(built), build_fp32_test(built), _convertible(model)
    counts: dict[TensorGroup, int] = {}
    for place in iterate_parameters(model):
        experts = _count_experts(place)
        always, in_fp16 = in_fp32(place.path)
        always = always or place.tensor.dtype is float32
        group = TensorGroup(
            name=path_pattern(place.path),
            component=_component(place, table, head, default),
            kind="expert" if experts else kind_of(place, head),
            shape=tuple(place.tensor.shape),
            count=0,
            experts=experts,
            experts_per_token=(_experts_per_token(place, experts, config) or experts) if experts else 0,
            fp32=always,
            fp32_in_fp16=in_fp16 and not always,
            skipped=skipped(place.path.rpartition(".")[0]),
            convertible=place.tensor.ndim > 1 and converts(place),
            stored_as=stored_as(place.path.rpartition(".")[0]),
        )
        counts[group] = counts.get(group, 0) + 1
    return tuple(replace(group, count=count) for group, count in counts.items())


def routing_caveats(built: BuiltModel, tensors: tuple[TensorGroup, ...]) -> tuple[Caveat, ...]:
    """A caveat where a mixture does not say how many experts a token reaches; all of them are counted as active then."""
    config = text_config(built.config)
    if not any(g.experts and g.experts_per_token == g.experts for g in tensors):
        return ()
    if any(read_field(config, name) for name in _PER_TOKEN):
        return ()
    return (Caveat("unknown_routing", {"architecture": built.architecture}),)


# The Hub's pipeline tag of each family of auto classes, the most telling first.
_TASKS = (
    ("MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING_NAMES", "automatic-speech-recognition"),
    ("MODEL_FOR_CTC_MAPPING_NAMES", "automatic-speech-recognition"),
    ("MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES", "image-text-to-text"),
    ("MODEL_FOR_CAUSAL_LM_MAPPING_NAMES", "text-generation"),
    ("MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES", "text2text-generation"),
    ("MODEL_FOR_MASKED_LM_MAPPING_NAMES", "fill-mask"),
    ("MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES", "text-classification"),
    ("MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING_NAMES", "token-classification"),
    ("MODEL_FOR_QUESTION_ANSWERING_MAPPING_NAMES", "question-answering"),
    ("MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES", "image-classification"),
    ("MODEL_FOR_OBJECT_DETECTION_MAPPING_NAMES", "object-detection"),
    ("MODEL_FOR_ZERO_SHOT_OBJECT_DETECTION_MAPPING_NAMES", "zero-shot-object-detection"),
    ("MODEL_FOR_SEMANTIC_SEGMENTATION_MAPPING_NAMES", "image-segmentation"),
    ("MODEL_FOR_UNIVERSAL_SEGMENTATION_MAPPING_NAMES", "image-segmentation"),
    ("MODEL_FOR_DEPTH_ESTIMATION_MAPPING_NAMES", "depth-estimation"),
    ("MODEL_FOR_MASK_GENERATION_MAPPING_NAMES", "mask-generation"),
    ("MODEL_FOR_AUDIO_CLASSIFICATION_MAPPING_NAMES", "audio-classification"),
    ("MODEL_FOR_TEXT_TO_SPECTROGRAM_MAPPING_NAMES", "text-to-speech"),
    ("MODEL_FOR_TEXT_TO_WAVEFORM_MAPPING_NAMES", "text-to-speech"),
    ("MODEL_FOR_ZERO_SHOT_IMAGE_CLASSIFICATION_MAPPING_NAMES", "zero-shot-image-classification"),
)
_LIMITS = ("max_position_embeddings", "n_positions", "max_target_positions", "max_seq_len", "seq_length", "n_ctx", "max_sequence_length")
_SOURCE_LIMITS = ("max_source_positions", "max_encoder_position_embeddings", "n_positions", "max_position_embeddings")


def _size(config: Any, *names: str) -> int:
    """The first of the names that holds a positive whole number, else 0; a list of equal roles counts with its largest."""
    for name in names:
        value = read_field(config, name)
        if isinstance(value, (list, tuple)) and value and all(isinstance(v, int) for v in value):
            value = max(value)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    return 0


def task_of(architecture: str) -> str:
    """The Hub's pipeline tag for what the class does; a bare model gives features."""
    from transformers.models.auto import modeling_auto  # noqa: PLC0415 loaded when first needed

    for mapping, tag in _TASKS:
        names = getattr(modeling_auto, mapping, {}).values()
        if any(architecture == n or (isinstance(n, (list, tuple)) and architecture in n) for n in names):
            return tag
    return "feature-extraction"


def _kv_heads(config: Any, heads: int) -> int:
    """Key/value heads; a configuration that does not name them has one (multi-query, by flag) or one a head."""
    stated = _size(config, "num_key_value_heads", "n_kv_heads", "num_kv_heads")
    if read_field(config, "multi_query") is True and not read_field(config, "new_decoder_architecture"):
        return 1
    return stated or heads


def read_dimensions(built: BuiltModel) -> Dimensions:
    """Sizes of the decoder, or of the only stack."""
    config: Any = text_config(built.config)
    if not _size(config, "hidden_size", "d_model"):  # an image or audio model: its own configuration, or that of its tower
        config = next((c for c in (built.config, getattr(built.config, "vision_config", None)) if _size(c, "hidden_size")), config)
    hidden = _size(config, "hidden_size", "d_model")
    heads = _size(config, "num_attention_heads")
    return Dimensions(
        hidden_size=hidden,
        layers=_size(config, "num_decoder_layers", "num_hidden_layers"),
        attention_heads=heads,
        kv_heads=_kv_heads(config, heads),
        head_dim=_size(config, "head_dim", "d_kv") or (hidden // heads if heads else 0),
        intermediate_size=_size(config, "ffn_dim", "intermediate_size", "d_ff", "n_inner", "ffn_hidden_size", "decoder_ffn_dim"),
        vocab_size=_size(config, "vocab_size"),
        encoder_tokens=_size(built.config, *_SOURCE_LIMITS) if built.config.is_encoder_decoder else 0,
    )


def default_size_caveats(built: BuiltModel) -> tuple[Caveat, ...]:
    """A caveat where the file leaves out a main size, so that the default of the configuration class is used.

    A size of the file that is not that default was stated, under any name ("n_embed" of older BLOOM files); a file
    read as a Llama states every one.
    """
    if any(caveat.code == "remote_code_as_llama" for caveat in built.caveats):
        return ()
    config: Any = text_config(built.config)
    aliases = dict(getattr(config, "attribute_map", {}) or {})
    stated, values = _keys(built.raw), _numbers(built.raw)
    defaults = []
    for name in ("hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size"):
        own = aliases.get(name, name)
        size = _size(config, name)
        renamed = size in values and size != getattr(type(config), own, size)
        if size and not renamed and not stated & {name, own, *(k for k, v in aliases.items() if v == own)}:
            defaults.append(f"{own} = {size:,}")
    if not defaults:
        return ()
    return (Caveat("class_defaults", {"fields": ", ".join(defaults), "config_class": type(config).__name__}),)


def _keys(raw: Any) -> set[str]:
    """Every key of a nested configuration."""
    if not isinstance(raw, Mapping):
        return set()
    return set(raw).union(*(_keys(value) for value in raw.values()))


def _numbers(raw: Any) -> set[int]:
    """Every whole number that a key of a nested configuration has."""
    if not isinstance(raw, Mapping):
        return {raw} if type(raw) is int else set()
    return set[int]().union(*(_numbers(value) for value in raw.values()))


HIDDEN_DROPOUT = ("hidden_dropout_prob", "resid_pdrop", "residual_dropout", "hidden_dropout", "dropout_rate", "dropout")
"""Names of the dropout on the outputs of attention and MLP."""
SCORE_DROPOUT = ("attention_probs_dropout_prob", "attn_pdrop", "attention_dropout")
"""Names of the dropout on the scores of attention."""


def drops_out(config: Any, names: tuple[str, ...]) -> bool:
    """Whether one of these rates is above 0."""
    rates = (getattr(text_config(config), name, 0) for name in names)
    return any(isinstance(rate, int | float) and rate > 0 for rate in rates)


def context_limit(built: BuiltModel) -> int | None:
    """Longest sequence in tokens that the configuration states, None when it states none (recurrent models, relative positions).

    RoBERTa's table of positions has rows for padding before the first token: it is longer than any text.
    """
    config = text_config(built.config)
    limit = _size(config, *_LIMITS)
    if not limit or not _size(config, "vocab_size"):
        return None
    tables = (module for name, module in built.model.named_modules() if name.rpartition(".")[2] == "position_embeddings")
    padding = next((table.padding_idx for table in tables if isinstance(table, nn.Embedding)), None)
    return limit if padding is None else limit - int(padding) - 1


def stored_dtype(raw: Mapping[str, Any]) -> str:
    """The dtype that the file names for loading: its own, or its text part's; "" when neither does."""
    text = raw.get("text_config")
    for place in (raw, text if isinstance(text, Mapping) else {}):
        for key in ("dtype", "torch_dtype"):
            if isinstance(place.get(key), str):
                return str(place[key])[:40].removeprefix("torch.")
    return ""
