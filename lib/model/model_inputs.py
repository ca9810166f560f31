"""What a model is given when it is run on the meta device: token ids, media, an encoder's output, a dtype and an attention kernel.

Two kinds of run need inputs. A trace of activations (`lib.model.activation_peaks`) gives the model what `generate` gives it: text alone
to a model that writes, a picture or a sound of its own size to one that takes nothing else. A run for the cache
(`lib.model.cache_executed`) gives a decoder its encoder's output as made, so that no picture or sound has to be invented for it.
"""

from __future__ import annotations

import inspect
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from torch import Tensor, long, no_grad, zeros
from torch import dtype as Dtype  # noqa: N812 a type, named like one
from torch.nn import Embedding, Module
from transformers.modeling_outputs import BaseModelOutput

from lib.errors import UnsupportedModel
from lib.laws.media_tokens import DEFAULT_S, SAMPLES_PER_S, SoundRules, samples_for
from lib.model.layer_dedup import run_blocks_once
from lib.model.meta_device import MetaRun

if TYPE_CHECKING:
    from collections.abc import Iterator

    from transformers import PreTrainedModel

MEDIA = ("pixel_values", "input_features", "input_values")
IMAGE_SIZE = 224  # where a config names none
_BY_SAMPLES = frozenset({"wav2vec2", "hubert", "data2vec-audio", "unispeech", "unispeech-sat"})
_WINDOW = re.compile(r"sliding_window|attention_chunk_size|local_attention|attention_window")
_COUNTS_LAYERS = "pattern"


class Lengths(NamedTuple):
    """The three lengths of a run; 1 where a model has no such axis."""

    batch: int
    tokens: int
    encoder: int = 1


def has_argument(module: Module, name: str) -> bool:
    """Whether the module's forward has an argument of this name."""
    return name in inspect.signature(type(module).forward).parameters


def own_dtype(module: Module) -> Dtype:
    """The dtype of the module's matrices; single vectors may be kept in another."""
    return next(p.dtype for p in module.parameters() if p.ndim > 1)


def attention_windows(config: Any) -> list[int]:
    """Lengths after which some layer of the text decoder changes its mask, in order."""
    text = config.get_text_config(decoder=True)
    windows = {key: value for key, value in vars(text).items() if _WINDOW.search(key) and _COUNTS_LAYERS not in key}
    return sorted({value for value in windows.values() if type(value) is int and value > 1})


def position_limit(module: Module) -> int | None:
    """Positions of the smallest learned table, after which a prompt cannot be run; None without such a table."""
    tables = [m for name, m in module.named_modules() if "position" in name and "vision" not in name and isinstance(m, Embedding)]
    return min((m.num_embeddings for m in tables), default=None)


def describe_sound(config: Any) -> SoundRules | None:
    """What a sound is to the encoder of a `transformers` configuration; None where it takes none or its rule is not known."""
    if config.model_type == "whisper":
        return SoundRules("windows", positions=config.max_source_positions, mel_bins=config.num_mel_bins)
    if config.model_type in _BY_SAMPLES:
        return SoundRules("convolutions", kernels=tuple(config.conv_kernel), strides=tuple(config.conv_stride))
    return None


def _image_shape(config: Any, side: Any, batch: int) -> tuple[int, ...]:
    """Shape (batch, channels, height, width) of a picture of this side, or of these two."""
    height, width = side if isinstance(side, (list, tuple)) else (side, side)
    return (batch, getattr(config, "num_channels", 3), height, width)


def _media_input(module: Module, name: str, lengths: Lengths) -> Tensor:
    """A picture (batch, channels, height, width), mel frames (batch, bins, frames) of the model's own size; samples (batch, samples).

    A transformer of spectrograms (AST) calls its frames values, and has them first: (batch, frames, bins). The samples make as many
    positions as tokens are asked for, where the rule is known; else they are half a minute.
    """
    config: Any = module.config
    batch, rules = lengths.batch, describe_sound(config)
    samples = round(DEFAULT_S * SAMPLES_PER_S) if rules is None or not rules.kernels else samples_for(lengths.tokens, rules)
    shape: tuple[int, ...] = (batch, samples)
    if name == "pixel_values":
        vision = getattr(config, "vision_config", None) or config
        shape = _image_shape(vision, getattr(vision, "image_size", None) or IMAGE_SIZE, batch)
    elif name == "input_values" and hasattr(config, "num_mel_bins"):
        shape = (batch, config.max_length, config.num_mel_bins)
    elif name == "input_features":
        shape = (batch, config.num_mel_bins, 2 * config.max_source_positions)
    return zeros(shape, dtype=own_dtype(module))


def prefill_inputs(module: Module, lengths: Lengths) -> dict[str, Any]:
    """Arguments of a prefill as `generate` makes them: token ids (batch, tokens), logits of the last position only.

    An encoder-decoder gets its encoder's input and one decoder token; a model that writes gets text alone.
    """
    config: Any = module.config
    inputs: dict[str, Any] = {}
    if config.is_encoder_decoder:
        main = str(getattr(module, "main_input_name", "input_ids"))
        ids_are_main = main == "input_ids"
        inputs[main] = zeros(lengths.batch, lengths.encoder, dtype=long) if ids_are_main else _media_input(module, main, lengths)
        inputs["decoder_input_ids"] = zeros(lengths.batch, 1, dtype=long)
    else:
        if has_argument(module, "input_ids"):
            inputs["input_ids"] = zeros(lengths.batch, lengths.tokens, dtype=long)
        writes = "input_ids" in inputs and has_argument(module, "logits_to_keep")
        inputs |= {name: _media_input(module, name, lengths) for name in MEDIA if not writes and has_argument(module, name)}
    if has_argument(module, "logits_to_keep"):
        inputs["logits_to_keep"] = 1
    if has_argument(module, "use_cache") or has_argument(module, "past_key_values"):  # some hand the first on unnamed
        inputs["use_cache"] = True
    return inputs


class _EncoderOutput(BaseModelOutput):
    """An encoder's output in which everything beside the hidden states is absent."""

    def __getattr__(self, name: str) -> None:
        """Absent, unless Python itself asks."""
        if name.startswith("__"):
            raise AttributeError(name)


def decoder_inputs(module: PreTrainedModel, tokens: int, batch: int, encoder_positions: int) -> dict[str, Any]:
    """Arguments for a prefill that fills the cache: ids (batch, tokens), encoder states (batch, encoder_positions, width) as made."""
    ids = zeros(batch, tokens, dtype=long, device="meta")
    config: Any = module.config
    options = {"use_cache": True, "return_dict": True}
    if not config.is_encoder_decoder:
        return {"input_ids": ids, **options}
    states = zeros(batch, encoder_positions, _encoder_width(module), dtype=module.dtype, device="meta")
    return {"decoder_input_ids": ids, "encoder_outputs": _EncoderOutput(last_hidden_state=states), **options}


def _encoder_width(module: PreTrainedModel) -> int:
    """Width of the hidden states that the encoder hands to its decoder."""
    own: Any = getattr(module.get_encoder(), "config", module.config)
    for config in (own.get_text_config(encoder=True), own.get_text_config(), own, module.config):
        width = getattr(config, "hidden_size", None)
        if width:
            return int(width)
    raise UnsupportedModel("The width of this model's encoder is not stated, so its decoder was not run.")


def _encoder_shapes(config: Any, name: str) -> list[tuple[int, ...]]:
    """Shapes of the largest input that an encoder takes and of a smaller one; nothing if its config does not tell."""
    encoder = getattr(config, "encoder", None) or config
    side, bins, positions = (getattr(encoder, key, None) for key in ("image_size", "num_mel_bins", "max_source_positions"))
    if name == "pixel_values" and side:
        return [_image_shape(encoder, side, 1)]
    if name == "input_features" and bins and positions:
        return [(1, bins, 2 * positions), (1, bins, positions)]
    return []


def fixed_encoder_positions(module: PreTrainedModel) -> int | None:
    """Positions that the encoder hands on, where it accepts one size of input only; None where the length is free.

    Encoders of pictures and Whisper's (30 seconds) are run once on an input of that size, to see.
    """
    config: Any = module.config
    encoder: Any = module.get_encoder() if config.is_encoder_decoder else None
    name = getattr(encoder, "main_input_name", "input_ids")
    if encoder is None or name == "input_ids":
        return None
    positions: list[int | None] = []
    with no_grad(), MetaRun(), run_blocks_once(encoder):
        for shape in _encoder_shapes(config, name):
            try:
                output = encoder(zeros(shape, dtype=module.dtype, device="meta"), return_dict=True)
                positions.append(output.last_hidden_state.shape[1])
            except (RuntimeError, ValueError):  # this size is refused
                positions.append(None)
    return positions[0] if positions and (len(positions) == 1 or positions[1] is None) else None


@contextmanager
def in_dtype(module: Module, dtype: Dtype, *, source: Dtype | None = None) -> Iterator[None]:
    """Floating-point parameters and buffers in `dtype` while this lasts; with `source` only those of that dtype."""
    tensors = [t for t in (*module.parameters(), *module.buffers()) if t.is_floating_point() and t.dtype != dtype]
    before = [(t, t.data) for t in tensors if source is None or t.dtype == source]
    try:
        for tensor, data in before:
            tensor.data = data.to(dtype)
        yield
    finally:
        for tensor, data in before:
            tensor.data = data


@contextmanager
def with_kernel(module: Module, kernel: str) -> Iterator[None]:
    """The module with another attention kernel ("sdpa", "eager") while this lasts."""
    configs = {id(c): c for m in module.modules() if hasattr(c := getattr(m, "config", None), "_attn_implementation_internal")}
    before: list[tuple[Any, Any]] = [(c, getattr(c, "_attn_implementation_internal", None)) for c in configs.values()]
    try:
        for config, _ in before:
            config._attn_implementation_internal = kernel  # noqa: SLF001 no public way sets one without checks of the device
        yield
    finally:
        for config, own in before:
            config._attn_implementation_internal = own  # noqa: SLF001 as above
