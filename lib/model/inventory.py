"""What a built model is made of: its parameters in groups of equal role and shape.

Every parameter is counted once, a tied weight under its first name; buffers are not counted. The groups carry what the memory
laws ask about: kind, component, experts, and which dtype a load in half precision gives them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from torch import float32, nn

from lib.model.build import output_head, word_table
from lib.model.config_field import field_of, text_config
from lib.model.spec import TensorGroup, TensorKind
from lib.provenance import Caveat

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel

    from lib.model.build import Built

_NUMBER = re.compile(r"(?<![^._])\d+(?![^.])")
_PER_TOKEN = (
    "top_k",
    "num_experts_per_tok",
    "num_experts_per_token",
    "top_k_experts",
    "moe_topk",
    "moe_top_k",
    "moe_k",
    "num_selected_experts",
)
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
class Place:
    """One parameter where it was found."""

    path: str
    module: nn.Module
    parents: tuple[nn.Module, ...]
    tensor: Tensor


def places(model: nn.Module) -> Iterator[Place]:
    """Parameters in the model's own order, each once."""
    seen: set[int] = set()

    def visit(module: nn.Module, prefix: str, parents: tuple[nn.Module, ...]) -> Iterator[Place]:
        for name, tensor in module.named_parameters(recurse=False, remove_duplicate=False):
            if id(tensor) not in seen:
                seen.add(id(tensor))
                yield Place(prefix + name, module, parents, tensor)
        for name, child in module.named_children():
            yield from visit(child, f"{prefix}{name}.", (*parents, module))

    yield from visit(model, "", ())


def _experts_in(place: Place) -> int:
    """How many routed experts the tensor holds or stands beside; 0 when it belongs to none.

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


def _experts_per_token(place: Place, experts: int, config: Any) -> int:
    """How many of them one token reaches, from the router beside them or from the configuration; 0 when neither says."""
    at = place.path.split(".").index("experts")
    chain = (*place.parents, place.module)
    owner = chain[at]
    near = [owner, *owner.children(), chain[at + 1]]
    for source in (*near, *(getattr(m, "config", None) for m in reversed(chain[: at + 2])), config):
        for name in _PER_TOKEN:
            value = field_of(source, name)
            if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= experts:
                return value
    return 0


def kind_of(place: Place, head: object) -> TensorKind:
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


def _component(place: Place, table: object, head: object, default: str) -> str:
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


def _default_component(built: Built) -> str:
    """Where layers belong that no name assigns: a generating model's to its language model, an encoder's to the encoder."""
    text = text_config(built.config)
    if built.config.is_encoder_decoder:
        return "decoder"
    if built.model.can_generate() or getattr(text, "is_decoder", False):
        return "language_model"
    return "encoder" if text is built.config else "text_encoder"


def held_in_fp32(built: Built) -> Callable[[str], tuple[bool, bool]]:
    """A test by parameter path: kept in float32 in any half-precision load, and only in a float16 load.

    The same patterns and the same search that `from_pretrained` uses.
    """
    from transformers.core_model_loading import build_glob_alternation  # noqa: PLC0415 loaded when first needed

    def search(patterns: Any) -> Callable[[str], bool]:
        if not patterns:
            return lambda _path: False
        found = build_glob_alternation(sorted(patterns))[0]
        return lambda path: found.search(path) is not None

    always, in_fp16 = search(built.model._keep_in_fp32_modules_strict), search(built.model._keep_in_fp32_modules)  # noqa: SLF001
    return lambda path: (always(path), in_fp16(path))


def _convertible(model: PreTrainedModel) -> Callable[[Place], bool]:
    """A test for the modules that `transformers` replaces when it quantizes while loading, by its own rule."""
    from transformers.pytorch_utils import Conv1D  # noqa: PLC0415 loaded when first needed
    from transformers.quantizers.base import HfQuantizer  # noqa: PLC0415
    from transformers.quantizers.quantizers_utils import should_convert_module  # noqa: PLC0415

    kept = HfQuantizer.get_modules_to_not_convert(model, None, list(model._keep_in_fp32_modules or ()))  # noqa: SLF001

    def test(place: Place) -> bool:
        path = place.path.rpartition(".")[0]
        plain = type(place.module) is nn.Linear or isinstance(place.module, Conv1D) or path.endswith(".experts")
        return plain and bool(should_convert_module(path, kept))

    return test


def pattern(path: str) -> str:
    """A parameter's path with layer numbers replaced by `*`."""
    return _NUMBER.sub("*", path)


def inventory(built: Built, skipped: Callable[[str], bool] = lambda _path: False) -> tuple[TensorGroup, ...]:
    """The parameters of a model on the meta device, grouped.

    Args:
        built: from `lib.model.build.build`, in bfloat16.
        skipped: whether the checkpoint's quantization leaves the module at this path alone.
    """
    model, config = built.model, text_config(built.config)
    head, table = output_head(model), word_table(model)
    default, in_fp32, converts = _default_component(built), held_in_fp32(built), _convertible(model)
    counts: dict[TensorGroup, int] = {}
    for place in places(model):
        experts = _experts_in(place)
        always, in_fp16 = in_fp32(place.path)
        always = always or place.tensor.dtype is float32
        group = TensorGroup(
            name=pattern(place.path),
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
        )
        counts[group] = counts.get(group, 0) + 1
    return tuple(replace(group, count=count) for group, count in counts.items())


def unknown_routing(built: Built, tensors: tuple[TensorGroup, ...]) -> tuple[Caveat, ...]:
    """A caveat where a mixture does not say how many experts a token reaches; all of them are counted as active then."""
    config = text_config(built.config)
    if not any(g.experts and g.experts_per_token == g.experts for g in tensors):
        return ()
    if any(field_of(config, name) for name in _PER_TOKEN):
        return ()
    said = f"{built.architecture} has routed experts but does not say how many of them a token reaches; all are counted as active."
    return (Caveat(code="unknown_routing", message=said),)


def parameters_active(tensors: tuple[TensorGroup, ...]) -> int:
    """Parameters that one token uses: all of them, less the routed experts it does not reach."""
    idle = sum(g.parameters * (g.experts - g.experts_per_token) // g.experts for g in tensors if g.experts)
    return sum(g.parameters for g in tensors) - idle
