"""Which part of a model is given a prompt, and what prompt.

A decoder is given its encoder's output as made, so that no picture or sound has to be invented for it. How many positions that
output has is the caller's to choose, unless the encoder takes inputs of one size only (pictures; Whisper's 30 seconds): such an
encoder is run once, on an input of that size, to see.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from torch import long, no_grad, zeros
from transformers import PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput

from lib.errors import UnsupportedModel
from lib.model.likeness import holds_cache
from lib.model.meta_run import MetaRun
from lib.model.pass_through import once

if TYPE_CHECKING:
    from torch.nn import Module


def _takes(module: Module, name: str) -> bool:
    return name in inspect.signature(type(module).forward).parameters


def candidates(model: Module) -> Iterator[PreTrainedModel]:
    """The model, then the models inside it that take token ids and a cache, outermost first."""
    for module in model.modules():
        if not isinstance(module, PreTrainedModel) or not holds_cache(module):
            continue
        if module is model or _takes(module, "input_ids"):
            yield module


class _Encoded(BaseModelOutput):
    """An encoder's output in which everything beside the hidden states is absent."""

    def __getattr__(self, name: str) -> None:
        """Absent, unless Python itself asks."""
        if name.startswith("__"):
            raise AttributeError(name)


def _encoder_width(module: PreTrainedModel) -> int:
    """Width of the hidden states that the encoder hands to its decoder."""
    own: Any = getattr(module.get_encoder(), "config", module.config)
    for config in (own.get_text_config(encoder=True), own.get_text_config(), own, module.config):
        width = getattr(config, "hidden_size", None)
        if width:
            return int(width)
    raise UnsupportedModel("The width of this model's encoder is not stated, so its decoder was not run.")


def _inputs(config: Any, name: str) -> list[tuple[int, ...]]:
    """Shapes of the largest input that an encoder takes and of a smaller one; nothing if its config does not tell."""
    encoder = getattr(config, "encoder", None) or config
    side, bins, positions = (getattr(encoder, key, None) for key in ("image_size", "num_mel_bins", "max_source_positions"))
    if name == "pixel_values" and side:
        height, width = side if isinstance(side, (list, tuple)) else (side, side)
        return [(1, getattr(encoder, "num_channels", 3), height, width)]
    if name == "input_features" and bins and positions:
        return [(1, bins, 2 * positions), (1, bins, positions)]
    return []


def fixed_positions(module: PreTrainedModel) -> int | None:
    """Positions that the encoder hands on, where it accepts one size of input only; None where the length is free."""
    config: Any = module.config
    encoder: Any = module.get_encoder() if config.is_encoder_decoder else None
    name = getattr(encoder, "main_input_name", "input_ids")
    if encoder is None or name == "input_ids":
        return None
    seen: list[int | None] = []
    with no_grad(), MetaRun(), once(encoder):
        for shape in _inputs(config, name):
            try:
                made = encoder(zeros(shape, dtype=module.dtype, device="meta"), return_dict=True)
                seen.append(made.last_hidden_state.shape[1])
            except (RuntimeError, ValueError):  # this size is refused
                seen.append(None)
    return seen[0] if seen and (len(seen) == 1 or seen[1] is None) else None


def prompt(module: PreTrainedModel, tokens: int, batch: int, encoded: int) -> dict[str, Any]:
    """Arguments for a prefill of `batch` sequences of `tokens`; an encoder's output of `encoded` positions is given as made."""
    ids = zeros(batch, tokens, dtype=long, device="meta")
    config: Any = module.config
    if not config.is_encoder_decoder:
        return {"input_ids": ids, "use_cache": True, "return_dict": True}
    states = zeros(batch, encoded, _encoder_width(module), dtype=module.dtype, device="meta")
    return {"decoder_input_ids": ids, "encoder_outputs": _Encoded(last_hidden_state=states), "use_cache": True, "return_dict": True}
