"""What a built model is, in the words and sizes of `ModelSpec`: task, dimensions, limits, layer kinds.

Sizes are read from `transformers`' normalised configuration, which answers to the customary names whatever the file calls them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lib.model.config_field import field_of, text_config
from lib.model.spec import CacheTerm, Dimensions
from lib.provenance import Caveat

if TYPE_CHECKING:
    from lib.model.build import Built

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
        value = field_of(config, name)
        if isinstance(value, (list, tuple)) and value and all(isinstance(v, int) for v in value):
            value = max(value)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    return 0


def task(architecture: str) -> str:
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
    if field_of(config, "multi_query") is True and not field_of(config, "new_decoder_architecture"):
        return 1
    return stated or heads


def dimensions(built: Built) -> Dimensions:
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


def sizes_not_stated(built: Built) -> tuple[Caveat, ...]:
    """A caveat where the file leaves out a main size, so that the default of the configuration class stands in its place.

    A size that is not that default and stands in the file was stated, under whatever name ("n_embed" of older BLOOM files); a file
    read as a Llama states every one.
    """
    if any(told.code == "remote_code_as_llama" for told in built.caveats):
        return ()
    config: Any = text_config(built.config)
    customary = dict(getattr(config, "attribute_map", {}) or {})
    stated, values = _keys(built.raw), _numbers(built.raw)
    told = []
    for name in ("hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size"):
        own = customary.get(name, name)
        size = _size(config, name)
        renamed = size in values and size != getattr(type(config), own, size)
        if size and not renamed and not stated & {name, own, *(k for k, v in customary.items() if v == own)}:
            told.append(f"{own} = {size:,}")
    if not told:
        return ()
    said = f"The configuration does not state {', '.join(told)}: the default of {type(config).__name__} is used. Check that it is meant."
    return (Caveat(code="class_defaults", message=said),)


def _keys(raw: Any) -> set[str]:
    """Every key of a nested configuration."""
    if not isinstance(raw, Mapping):
        return set()
    return set(raw).union(*(_keys(value) for value in raw.values()))


def _numbers(raw: Any) -> set[int]:
    """Every whole number that stands under a key of a nested configuration."""
    if not isinstance(raw, Mapping):
        return {raw} if type(raw) is int else set()
    return set[int]().union(*(_numbers(value) for value in raw.values()))


def context_limit(built: Built) -> int | None:
    """Longest sequence in tokens that the configuration states, None when it states none (recurrent models, relative positions)."""
    config = text_config(built.config)
    found = _size(config, *_LIMITS)
    return found if found and _size(config, "vocab_size") else None


def layer_kinds(terms: tuple[CacheTerm, ...] | None, layers: int) -> dict[str, int]:
    """How many layers there are of each kind: by what they cache, or all alike where nothing is cached."""
    if terms is None:
        return {"attention without cache": layers} if layers else {}
    held: dict[str, dict[str, int]] = {}
    for term in terms:
        by_tensor = held.setdefault(term.kind, {})
        by_tensor[term.holds] = by_tensor.get(term.holds, 0) + term.layers
    return {kind: max(by_tensor.values()) for kind, by_tensor in held.items()}


def stored_dtype(raw: Mapping[str, Any]) -> str:
    """The dtype that the file names for loading: its own, or its text part's; "" when neither does."""
    text = raw.get("text_config")
    for place in (raw, text if isinstance(text, Mapping) else {}):
        for key in ("dtype", "torch_dtype"):
            if isinstance(place.get(key), str):
                return str(place[key])[:40].removeprefix("torch.")
    return ""
