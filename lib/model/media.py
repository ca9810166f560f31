"""How a model takes pictures, read from its configuration: the rule by which one becomes tokens, and the tower's sizes; and one pass, run.

Tiles, patches and merging are in config.json, the classes of `transformers` fill in the rest. The largest picture is in the
processor's own file, which is not read: those limits are here by model type, as the makers publish them.

An encoder that reads a picture (or a spectrogram) instead of tokens is run once on the meta device, at its configured size. If it also
reads a text (CLIP, SigLIP), that has its full length. `positions` are those that the first layer of the picture's own tower reads: patches
and class tokens of a vision transformer, places of the feature map after the stem of a convolutional network. Later stages of such a
network see fewer places, and the FLOP say so.

Source: the installed transformers and torch, as executed; FLOP by `torch.utils.flop_counter`. Limits: one size, the one in
the configuration, or 224 pixels where that names none; clips of several frames are not run.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor, device, no_grad, ops
from torch.utils.flop_counter import FlopCounterMode
from transformers import PreTrainedModel

from lib.laws.media_tokens import ImageRules
from lib.model.build import LOCK, BuiltModel
from lib.model.layer_dedup import first_hidden_states, wrap_forwards
from lib.model.layer_extrapolation import layers_of
from lib.model.meta_device import MEDIA, Lengths, MetaRun, describe_sound, has_argument, position_limit, prefill_inputs
from lib.model.spec import CacheTerm, Dimensions, PicturePass, VisionInput

Reader = Callable[[Any, Any], ImageRules | None]
"""From the configurations of a model and of its tower."""
_AREAS = {
    "qwen2_vl": (4 * 28**2, 16_384 * 28**2),
    "qwen2_5_vl": (4 * 28**2, 16_384 * 28**2),
    "qwen3_vl": (64 * 32**2, 16_384 * 32**2),
    "qwen3_vl_moe": (64 * 32**2, 16_384 * 32**2),
    "qwen3_5": (64 * 32**2, 16_384 * 32**2),
    "qwen3_5_moe": (64 * 32**2, 16_384 * 32**2),
    "glm4v": (112**2 // 2, 28**2 * 7_500),
    "glm4v_moe": (112**2 // 2, 28**2 * 7_500),
}
"""Least and most pixels of a picture: preprocessor_config.json of Qwen's checkpoints (3,136-12,845,056; 65,536-16,777,216), and
Glm4vImageProcessor of transformers, whose limits are for two frames."""
_TILES_TO_A_SIDE = 4  # idefics3 and smolvlm bring the longest side to so many tiles (size.longest_edge of their checkpoints)
_LLAMA4_TILES = 16  # max_patches of transformers' Llama4ImageProcessor
_INTERNVL_TILES = 12  # max_patches of transformers' GotOcr2ImageProcessor, which InternVL's processor asks to crop
_KEEP_EVERY_LAYER = frozenset({"mllama"})  # its tower stacks the outputs of several layers at the end
_IDEFICS2_PICTURES = 5  # with do_image_splitting: four quarters and the whole


def describe_vision(config: Any) -> VisionInput | None:
    """Tokens and sizes of a picture for the model of a `transformers` configuration; None if it takes none or its rule is not known.

    Raises:
        AttributeError, TypeError, ValueError: the configuration leaves out or mistypes what its rule needs.
    """
    vision = getattr(config, "vision_config", None)
    rules = None if vision is None else _rules(config, vision)
    if rules is None:
        return None
    if not all(isinstance(value, int) for value in rules[1:-1]):
        raise TypeError("a number of the picture's rules is not a number")
    tower, windowed, window = _tower(vision)
    kept_layers = tower.layers if config.model_type in _KEEP_EVERY_LAYER else 0
    return VisionInput(rules=rules, tower=tower, windowed_layers=windowed, window=window, kept_layers=kept_layers, cross=_cross(config))


def _rules(config: Any, vision: Any) -> ImageRules | None:
    """By the tower's model type where it has rules of its own, else by the model's."""
    read = _BY_TOWER.get(str(getattr(vision, "model_type", ""))) or _BY_MODEL.get(str(config.model_type))
    return None if read is None else read(config, vision)


def _area(config: Any, vision: Any) -> ImageRules:
    least, most = _AREAS[str(config.model_type)]
    merge = _first(vision, "spatial_merge_size") or 1
    return ImageRules("area", _first(vision, "patch_size"), merge, least_pixels=least, most_pixels=most)


def _longest_side(config: Any, vision: Any) -> ImageRules:
    merge = int(getattr(config, "spatial_merge_size", 1))
    return ImageRules("longest side", _first(vision, "patch_size"), merge, longest=_first(vision, "image_size"))


def _budget(config: Any, vision: Any) -> ImageRules:
    patch = _first(vision, "patch_size")
    most = config.vision_soft_tokens_per_image * (patch * vision.pooling_kernel_size) ** 2
    return ImageRules("budget", patch, vision.pooling_kernel_size, most_pixels=most)


def _split(config: Any, vision: Any) -> ImageRules:
    patch, side = _first(vision, "patch_size"), _first(vision, "image_size")
    return ImageRules(
        "split", patch, tile=side, longest=_TILES_TO_A_SIDE * side, tile_tokens=(side // patch) ** 2 // config.scale_factor**2
    )


def _canvas(_: Any, vision: Any) -> ImageRules:
    patch, side = _first(vision, "patch_size"), _first(vision, "image_size")
    tokens = round((side // patch) ** 2 * vision.pixel_shuffle_ratio**2)
    return ImageRules("canvas", patch, tile=side, most_tiles=_LLAMA4_TILES, tile_tokens=tokens, class_positions=1)


def _any_size(config: Any, vision: Any) -> ImageRules | None:
    """Grids of tiles of the tower's own size, and the most tiles after which OneVision shrinks ("anyres_max_9"); None without grids."""
    patch, side, own = _first(vision, "patch_size"), _first(vision, "image_size"), _class_position(vision)
    if not (patch and side and config.image_grid_pinpoints) or min(map(min, config.image_grid_pinpoints)) < side:
        return None
    most = str(getattr(config, "vision_aspect_ratio", None) or "").removeprefix("anyres_max_")
    return ImageRules(
        "any size",
        patch,
        tile=side,
        most_tiles=int(most) if most.isdecimal() else 0,
        tile_tokens=(side // patch) ** 2 + own - int(config.vision_feature_select_strategy == "default"),
        class_positions=own,
        grids=tuple((high // side, wide // side) for high, wide in config.image_grid_pinpoints),
    )


def _fixed(vision: Any, tokens: int = 0, *, most_tiles: int = 1, class_positions: int = 0) -> ImageRules:
    """Every picture is as large as any other."""
    patch, side = _first(vision, "patch_size") or 1, _first(vision, "image_size")
    return ImageRules("fixed", patch, tile=side, most_tiles=most_tiles, tile_tokens=tokens, class_positions=class_positions)


def _nearest_grid(config: Any, vision: Any) -> ImageRules:
    """Every tile is as large as any other."""
    fixed = _fixed(vision, config.image_seq_length, most_tiles=_INTERNVL_TILES, class_positions=1)
    return fixed._replace(rule="nearest grid")


def _patches(vision: Any) -> int:
    return (_first(vision, "image_size") // (_first(vision, "patch_size") or 1)) ** 2


def _llava(config: Any, vision: Any) -> ImageRules:
    own = _class_position(vision)
    dropped = getattr(config, "vision_feature_select_strategy", "default") == "default"
    return _fixed(vision, _patches(vision) + (0 if dropped else own), class_positions=own)


_BY_TOWER: Mapping[str, Reader] = {"pixtral": _longest_side}
_BY_MODEL: Mapping[str, Reader] = {
    **dict.fromkeys(_AREAS, _area),
    "gemma4": _budget,
    "gemma4_unified": _budget,
    "idefics3": _split,
    "smolvlm": _split,
    "llama4": _canvas,
    "llava_next": _any_size,
    "llava_onevision": _any_size,
    "internvl": _nearest_grid,
    "mllama": lambda _, vision: _fixed(vision, most_tiles=vision.max_num_tiles, class_positions=1),
    "idefics2": lambda config, vision: _fixed(vision, config.perceiver_config.resampler_n_latents + 1, most_tiles=_IDEFICS2_PICTURES),
    "gemma3": lambda config, vision: _fixed(vision, config.mm_tokens_per_image),
    "gemma3n": lambda config, vision: _fixed(vision, config.vision_soft_tokens_per_image),
    "paligemma": lambda _, vision: _fixed(vision, _patches(vision)),
    "llava": _llava,
    "vipllava": _llava,
}
"""How the rule of a picture is read, by `model_type`."""


def _class_position(vision: Any) -> int:
    """Further positions of CLIP's tower, besides the patches; SigLIP has none."""
    return int(getattr(vision, "model_type", "") == "clip_vision_model")


def _tower(vision: Any) -> tuple[Dimensions, int, int]:
    """Sizes of the vision transformer, how many of its layers attend within windows, and positions of a window."""
    hidden = _first(vision, "embed_dim", "hidden_size")
    layers = _first(vision, "num_hidden_layers", "depth") + _first(vision, "num_global_layers")
    heads = _first(vision, "num_attention_heads", "num_heads", "attention_heads")
    if not (hidden and layers and heads):
        return Dimensions(), 0, 0
    mlp = _first(vision, "intermediate_size") or round(hidden * getattr(vision, "mlp_ratio", 4))
    sizes = Dimensions(
        hidden_size=hidden, layers=layers, attention_heads=heads, kv_heads=heads, head_dim=hidden // heads, intermediate_size=mlp
    )
    whole = getattr(vision, "fullatt_block_indexes", None)
    if not whole:
        return sizes, 0, 0
    return sizes, layers - len(whole), (vision.window_size // vision.patch_size) ** 2


def _cross(config: Any) -> CacheTerm | None:
    """Bytes that layers which attend to the picture alone cache for each of its positions."""
    text = config.get_text_config()
    crossing = getattr(text, "cross_attention_layers", None)
    if not crossing:
        return None
    width = text.num_key_value_heads * (text.hidden_size // text.num_attention_heads)
    return CacheTerm(kind="cross attention", holds="keys and values", layers=len(crossing), elements=2 * width, growth="encoder")


def _first(config: Any, *names: str) -> int:
    """The first of these sizes that the configuration states, of a pair its first; 0 without one."""
    values = (getattr(config, name, None) for name in names)
    sizes = (value[0] if isinstance(value, (list, tuple)) and value else value for value in values)
    return next((int(size) for size in sizes if isinstance(size, int)), 0)


_BETWEEN_POSITIONS = (ops.aten.bmm, ops.aten.baddbmm)  # scores and weighted sums; products with weights are mm and addmm


def run_picture_pass(built: BuiltModel) -> PicturePass | None:
    """The pass, executed; None for a model that takes no picture in place of tokens, or that cannot be run without values."""
    model = built.model
    if not any(has_argument(model, name) for name in MEDIA) or describe_sound(built.config) is not None:
        return None
    counter, text = FlopCounterMode(display=False), Lengths(1, position_limit(model) or 1)
    lengths: list[int] = []
    with LOCK, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            with no_grad(), MetaRun(0), device("meta"), wrap_forwards() as wrap:
                inputs = prefill_inputs(model, text)
                pixels = next(value for name, value in inputs.items() if name in MEDIA)
                models = [module for module in model.modules() if isinstance(module, PreTrainedModel)]
                tower = next(each for each in reversed(models) if any(has_argument(each, name) for name in MEDIA))
                for layer in layers_of(tower):
                    wrap(layer.module, _counting(layer.module.forward, pixels, getattr(tower.config, "hidden_size", 0), lengths))
                with counter:
                    model(**inputs)
        except Exception:  # noqa: BLE001 modelling code raises anything on an input that it cannot take
            return None
    if not lengths:
        return None
    modules = sum(1 for module in model.modules() if module._parameters)  # noqa: SLF001 those of its own, without children's
    attention = sum(counter.get_flop_counts()["Global"].get(packet, 0) for packet in _BETWEEN_POSITIONS)
    return PicturePass(positions=lengths[0], flop=counter.get_total_flops() - attention, attention_flop=attention, modules=modules)


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
