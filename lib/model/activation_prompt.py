"""What a model is given when its activations are traced, and in which dtype and with which attention it runs."""

from __future__ import annotations

import inspect
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import dtype as Dtype  # noqa: N812 a type, named like one
    from torch.nn import Module

    from lib.model.activation_ledger import Lengths

_WINDOW = re.compile(r".*(sliding_window|chunk_size|local_attention|attention_window).*")
AUDIO_SAMPLES = 480_000  # 30 s at 16 kHz
PATCHES_FALLBACK = 224


def takes(module: Module, name: str) -> bool:
    """Whether the module's forward has an argument of this name."""
    return name in inspect.signature(type(module).forward).parameters


def windows(config: Any) -> list[int]:
    """Lengths after which some layer of the text decoder changes its mask."""
    text = config.get_text_config(decoder=True)
    found = {value for key, value in vars(text).items() if _WINDOW.fullmatch(key) and type(value) is int and value > 1}
    return sorted(found)


def position_limit(module: Module) -> int | None:
    """Positions of a learned table, after which a prompt cannot be run; None without such a table."""
    limits = [
        m.weight.shape[0]
        for name, m in module.named_modules()
        if "position" in name and getattr(m, "weight", None) is not None and m.weight.ndim == 2
    ]  # noqa: E501, PLR2004
    return min(limits, default=None)


def _part(config: Any, name: str) -> Any:
    return getattr(config, name, None) or config


def media(module: Module, name: str, batch: int) -> Any:
    """A picture or a sound of the model's own size, as its forward takes it.

    Raises:
        ValueError: the input is of a kind that is not known here.
    """
    from torch import zeros

    config: Any = module.config
    if name == "pixel_values":
        of = _part(config, "vision_config")
        size = getattr(of, "image_size", None) or PATCHES_FALLBACK
        high, wide = size if isinstance(size, (list, tuple)) else (size, size)
        return zeros(batch, getattr(of, "num_channels", 3), high, wide, dtype=module.dtype)
    if name == "input_features":
        return zeros(batch, config.num_mel_bins, 2 * config.max_source_positions, dtype=module.dtype)
    if name == "input_values":
        return zeros(batch, AUDIO_SAMPLES, dtype=module.dtype)
    raise ValueError(name)


def prompt(module: Module, lengths: Lengths) -> dict[str, Any]:
    """Arguments of a prefill as `generate` makes them: token ids, logits of the last position only.

    An encoder-decoder gets its encoder's input and one decoder token.
    """
    from torch import long, zeros

    config: Any = module.config
    main = getattr(module, "main_input_name", "input_ids")
    given: dict[str, Any] = {}
    if config.is_encoder_decoder:
        given[main] = zeros(lengths.batch, lengths.encoder, dtype=long) if main == "input_ids" else media(module, main, lengths.batch)
        given["decoder_input_ids"] = zeros(lengths.batch, 1, dtype=long)
    elif takes(module, "input_ids"):
        given["input_ids"] = zeros(lengths.batch, lengths.tokens, dtype=long)
    if main != "input_ids" and main not in given and not (takes(module, "input_ids") and takes(module, "logits_to_keep")):
        given[main] = media(module, main, lengths.batch)
    if takes(module, "logits_to_keep"):
        given["logits_to_keep"] = 1
    if takes(module, "use_cache"):
        given["use_cache"] = True
    return given


@contextmanager
def dressed(module: Module, dtype: Dtype, kernel: str) -> Iterator[None]:
    """The module in another dtype and with another attention kernel while this lasts; parts kept in float32 stay so."""
    from torch import float32

    wanted = dtype if dtype is not module.dtype else None
    saved = [
        (t, t.data) for t in (*module.parameters(), *module.buffers()) if wanted and t.dtype is module.dtype and t.dtype is not float32
    ]
    configs = {
        id(c): c for m in module.modules() if (c := getattr(m, "config", None)) is not None and hasattr(c, "_attn_implementation_internal")
    }
    kernels = [(c, c._attn_implementation_internal) for c in configs.values()]  # noqa: SLF001 no public way sets one without checks of the device
    try:
        for tensor, data in saved:
            tensor.data = data.to(wanted)
        for config, _ in kernels:
            config._attn_implementation_internal = kernel  # noqa: SLF001 as above
        yield
    finally:
        for tensor, data in saved:
            tensor.data = data
        for config, before in kernels:
            config._attn_implementation_internal = before  # noqa: SLF001 as above
