"""Vision towers of the `timm` library, for counting without it.

Gemma 3n takes its tower from `timm`, which needs a `torchvision` built for the very same torch; an app that must run with any torch
cannot ask for that. The towers' modules are data here (`lib/data/vision_towers.json`, written by `scripts/build_vision_towers.py` from
`timm` itself): a stand-in has the same parameters under the same names, and no forward pass, which a text-only run does not need.
Where `timm` is installed it is used, and this module does nothing.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any

from torch import empty, nn
from transformers import AutoModel, Gemma3nVisionConfig, PreTrainedModel
from transformers.utils.import_utils import is_timm_available

from lib.errors import UnsupportedModel, shown

TABLE = "vision_towers.json"
Leaf = tuple[str, str, list[int], bool]
"""Path, kind of module (conv, linear, norm, other), shape of its weight, whether it has a bias."""


@cache
def _towers() -> dict[str, list[Leaf]]:
    return json.loads(files("lib.data").joinpath(TABLE).read_text(encoding="utf-8"))["towers"]  # type: ignore[no-any-return]


def _module(kind: str, shape: list[int], *, bias: bool) -> nn.Module:
    """A leaf with a weight of this shape."""
    if kind == "conv":
        return nn.Conv2d(shape[1], shape[0], (shape[2], shape[3]), bias=bias)
    if kind == "linear":
        return nn.Linear(shape[1], shape[0], bias=bias)
    if kind == "norm":
        return nn.LayerNorm(shape, bias=bias)
    leaf = nn.Module()
    leaf.register_parameter("weight", nn.Parameter(empty(shape)))
    return leaf


def _plant(root: nn.Module, path: str, leaf: nn.Module) -> None:
    """Put a leaf at a dotted path, with plain modules on the way."""
    *way, last = path.split(".")
    for name in way:
        if name not in dict(root.named_children()):
            root.add_module(name, nn.Module())
        root = root.get_submodule(name)
    root.add_module(last, leaf)


class VisionStandIn(PreTrainedModel):
    """The parameters of a `timm` tower."""

    config_class = Gemma3nVisionConfig
    base_model_prefix = "timm_model"
    main_input_name = "pixel_values"

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        leaves = _towers().get(config.architecture)
        if leaves is None or config.model_args:
            raise UnsupportedModel(
                f"The vision tower {shown(config.architecture)} needs timm, which is not installed here. Install it, or give the parameter "
                "count instead (such as '7B')."
            )
        self.timm_model = nn.Module()
        for path, kind, shape, bias in leaves:
            _plant(self.timm_model, path, _module(kind, shape, bias=bias))
        self.post_init()  # type: ignore[no-untyped-call]


def register() -> None:
    """Let `transformers` use the stand-in where `timm` is missing."""
    if not is_timm_available():
        AutoModel.register(Gemma3nVisionConfig, VisionStandIn, exist_ok=True)
