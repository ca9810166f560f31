"""One pass of an encoder over a picture of its configured size, or over the spectrogram that it makes of a sound: positions and FLOP.

The model runs on the meta device, with a text of its full length where it also reads one (CLIP, SigLIP). `positions` are those that
the first layer of the picture's own tower reads: patches and class tokens of a vision transformer, places of the feature map after the
stem of a convolutional network. What is counted is what was executed: later stages of such a network see fewer places, and the FLOP say so.

Source: the installed transformers and torch, as executed; FLOP by `torch.utils.flop_counter.flop_registry`. Limits: one size, the one in
the configuration, or 224 pixels where that names none; clips of several frames are not run.
"""

from __future__ import annotations

import warnings
from typing import Any

from torch import Tensor, device, no_grad, ops
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry
from transformers import PreTrainedModel

from lib.model.activation_trace import layers_of
from lib.model.build import LOCK, BuiltModel
from lib.model.layer_dedup import first_hidden_states, wrap_forwards
from lib.model.media import describe_sound
from lib.model.meta_device import MetaRun
from lib.model.model_inputs import MEDIA, Lengths, has_argument, position_limit, prefill_inputs
from lib.model.spec import PicturePass

_BETWEEN_POSITIONS = frozenset({ops.aten.bmm, ops.aten.baddbmm})  # scores and weighted sums; products with weights are mm and addmm


class _FlopCounter(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's
    """FLOP of products with weights, and of products between positions."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch's
        self.weights = self.attention = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Make the call and count it."""
        result = func(*args, **(kwargs or {}))
        packet = func._overloadpacket  # noqa: SLF001 torch's own counter does so
        if packet in flop_registry:
            flop = flop_registry[packet](*args, **(kwargs or {}), out_val=result)
            if packet in _BETWEEN_POSITIONS:
                self.attention += flop
            else:
                self.weights += flop
        return result


def run_picture_pass(built: BuiltModel) -> PicturePass | None:
    """The pass, executed; None for a model that takes no picture in place of tokens, or that cannot be run without values."""
    model = built.model
    if not any(has_argument(model, name) for name in MEDIA) or describe_sound(built.config) is not None:
        return None
    counter, text = _FlopCounter(), Lengths(1, position_limit(model) or 1)
    lengths: list[int] = []
    with LOCK, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            with no_grad(), MetaRun(0), device("meta"), wrap_forwards() as wrap:
                inputs = prefill_inputs(model, text)
                pixels = next(value for name, value in inputs.items() if name in MEDIA)
                tower = _tower(model)
                for layer in layers_of(tower):
                    wrap(layer.module, _counting(layer.module.forward, pixels, getattr(tower.config, "hidden_size", 0), lengths))
                with counter:
                    model(**inputs)
        except Exception:  # noqa: BLE001 modelling code raises anything on an input that it cannot take
            return None
    modules = sum(1 for module in model.modules() if module._parameters)  # noqa: SLF001 those of its own, without children's
    return PicturePass(positions=lengths[0], flop=counter.weights, attention_flop=counter.attention, modules=modules) if lengths else None


def _tower(model: PreTrainedModel) -> PreTrainedModel:
    """The innermost model that takes the picture."""
    towers = [m for m in model.modules() if isinstance(m, PreTrainedModel) and any(has_argument(m, name) for name in MEDIA)]
    return towers[-1]


def _counting(compute: Any, pixels: Tensor, width: int, lengths: list[int]) -> Any:
    """A layer's forward that notes how many positions it reads; the picture itself (a stage that starts with its own stem) is none."""

    def forward(*args: Any, **kwargs: Any) -> Any:
        hidden = first_hidden_states(args, kwargs)
        if hidden is not None and hidden.shape != pixels.shape:
            width_first = hidden.ndim == 4 and hidden.shape[-1] != width  # noqa: PLR2004 batch, width, rows, columns, as convolutions have it
            grid = hidden.shape[2:] if width_first else hidden.shape[1:-1]
            lengths.append(grid.numel())
        return compute(*args, **kwargs)

    return forward
