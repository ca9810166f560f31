"""Write `lib/data/vision_towers.json`: the modules of the `timm` towers that `transformers` models take.

Needs `timm` and the `torchvision` built for the installed torch (`pip install timm torchvision`); the app itself needs neither.

    python scripts/build_vision_towers.py
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import nn

if TYPE_CHECKING:
    from lib.model.build import Leaf

NAMES = ("mobilenetv5_300m_enc",)
PATH = Path(__file__).resolve().parent.parent / "lib" / "data" / "vision_towers.json"


def _kind(module: nn.Module, shape: tuple[int, ...]) -> str:
    if isinstance(module, nn.Conv2d) and len(shape) == 4:  # noqa: PLR2004 out, in, height, width
        return "conv"
    if isinstance(module, nn.Linear):
        return "linear"
    return "norm" if "norm" in type(module).__name__.lower() and len(shape) == 1 else "other"


def leaves(model: nn.Module) -> list[Leaf]:
    """Every module that owns a weight, in order; any other parameter becomes a leaf of its own."""
    leaves: list[Leaf] = []
    for path, module in model.named_modules():
        own_shapes = {name: tuple(p.shape) for name, p in module.named_parameters(recurse=False)}
        weight = own_shapes.pop("weight", None)
        if weight is not None:
            kind = _kind(module, weight)
            bias = kind != "other" and own_shapes.pop("bias", None) is not None
            leaves.append((path, kind, list(weight), bias))
        leaves.extend((f"{path}.{name}", "other", list(shape), False) for name, shape in own_shapes.items())
    return leaves


def main() -> None:
    """Build each tower on the meta device and write what it is made of."""
    import timm  # type: ignore[import-not-found] # noqa: PLC0415 the import itself reports a missing library

    towers = {}
    for name in NAMES:
        with torch.device("meta"):
            model = timm.create_model(name, pretrained=False, num_classes=0)
        towers[name] = leaves(model)
        total = sum(p.numel() for p in model.parameters())
        print(f"{name}: {len(towers[name])} modules, {total:,} parameters", file=sys.stderr)
    content = {"source": f"timm {timm.__version__}, classes on the meta device", "towers": towers}
    PATH.write_text(json.dumps(content, separators=(",", ":")) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
