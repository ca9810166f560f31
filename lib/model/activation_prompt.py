"""What a model is given when its activations are traced, and in which dtype and with which attention it runs."""

from __future__ import annotations

import inspect
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from torch import dtype as Dtype  # noqa: N812 a type, named like one
from torch import long, zeros
from torch.nn import Embedding, Module

if TYPE_CHECKING:
    from collections.abc import Iterator

MEDIA = ("pixel_values", "input_features", "input_values")
AUDIO_SAMPLES = 480_000  # 30 s at 16 kHz
IMAGE_SIZE = 224  # where a config names none
_WINDOW = re.compile(r"sliding_window|attention_chunk_size|local_attention|attention_window")


class Lengths(NamedTuple):
    """The three lengths of a run; 1 where a model has no such axis."""

    batch: int
    tokens: int
    encoder: int = 1


def takes(module: Module, name: str) -> bool:
    """Whether the module's forward has an argument of this name."""
    return name in inspect.signature(type(module).forward).parameters


def own_dtype(module: Module) -> Dtype:
    """The dtype of the module's matrices; single vectors may be kept in another."""
    return next(p.dtype for p in module.parameters() if p.ndim > 1)


def windows(config: Any) -> list[int]:
    """Lengths after which some layer of the text decoder changes its mask, in order."""
    text = config.get_text_config(decoder=True)
    return sorted({value for key, value in vars(text).items() if _WINDOW.search(key) and type(value) is int and value > 1})


def position_limit(module: Module) -> int | None:
    """Positions of the smallest learned table, after which a prompt cannot be run; None without such a table."""
    tables = [m for name, m in module.named_modules() if "position" in name and "vision" not in name and isinstance(m, Embedding)]
    return min((m.num_embeddings for m in tables), default=None)


def media(module: Module, name: str, batch: int) -> Any:
    """A picture or a sound of the model's own size, as its forward takes it."""
    config: Any = module.config
    if name == "pixel_values":
        of = getattr(config, "vision_config", None) or config
        size = getattr(of, "image_size", None) or IMAGE_SIZE
        high, wide = size if isinstance(size, (list, tuple)) else (size, size)
        shape = [batch, getattr(of, "num_channels", 3), high, wide]
    elif name == "input_features":
        shape = [batch, config.num_mel_bins, 2 * config.max_source_positions]
    else:
        shape = [batch, AUDIO_SAMPLES]
    return zeros(shape, dtype=own_dtype(module))


def prompt(module: Module, lengths: Lengths) -> dict[str, Any]:
    """Arguments of a prefill as `generate` makes them: token ids, logits of the last position only.

    An encoder-decoder gets its encoder's input and one decoder token; a model that writes gets text alone.
    """
    config: Any = module.config
    given: dict[str, Any] = {}
    if config.is_encoder_decoder:
        main = str(getattr(module, "main_input_name", "input_ids"))
        given[main] = zeros(lengths.batch, lengths.encoder, dtype=long) if main == "input_ids" else media(module, main, lengths.batch)
        given["decoder_input_ids"] = zeros(lengths.batch, 1, dtype=long)
    else:
        if takes(module, "input_ids"):
            given["input_ids"] = zeros(lengths.batch, lengths.tokens, dtype=long)
        writes = "input_ids" in given and takes(module, "logits_to_keep")
        given |= {name: media(module, name, lengths.batch) for name in MEDIA if not writes and takes(module, name)}
    if takes(module, "logits_to_keep"):
        given["logits_to_keep"] = 1
    if takes(module, "use_cache"):
        given["use_cache"] = True
    return given


@contextmanager
def dressed(module: Module, dtype: Dtype, kernel: str) -> Iterator[None]:
    """The module in another dtype and with another attention kernel while this lasts; parts kept in float32 stay so."""
    own = own_dtype(module)
    saved = [(t, t.data) for t in (*module.parameters(), *module.buffers()) if dtype != own and t.dtype == own]
    configs = {id(c): c for m in module.modules() if hasattr(c := getattr(m, "config", None), "_attn_implementation_internal")}
    kernels: list[tuple[Any, Any]] = [(c, getattr(c, "_attn_implementation_internal", None)) for c in configs.values()]
    try:
        for tensor, data in saved:
            tensor.data = data.to(dtype)
        for config, _ in kernels:
            config._attn_implementation_internal = kernel  # noqa: SLF001 no public way sets one without checks of the device
        yield
    finally:
        for tensor, data in saved:
            tensor.data = data
        for config, before in kernels:
            config._attn_implementation_internal = before  # noqa: SLF001 as above
