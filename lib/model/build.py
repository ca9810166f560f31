"""From a configuration to the real architecture, on the meta device: every module, every shape, no memory.

The config class of `transformers` reads the file, and its model class is constructed. So counts and traces come from the code that would
run. Nothing is downloaded and no code from outside is run: `auto_map` is never followed, the network is closed to the build
(`lib.model.meta_device`), and a class is only ever looked up among the model classes of `transformers`.

The class is, in this order: the one named in `architectures`; the same name spelled with other capitals or underscores; the class of
this `model_type` that has the same head ("…ForCausalLM"); without `architectures`, the class that `transformers`' auto classes take for
it. A `model_type` that only remote code knows is built as the class in `architectures`, if `transformers` has it (Kimi-K2 is a
DeepSeek-V3), or as a Llama if `lib.model.config` recognises one. Others are refused.

Gemma 3n takes its vision tower from `timm`, which needs a `torchvision` built for the very same torch; an app that must run with any
torch cannot ask for that. The modules of such towers are data here (`lib/data/vision_towers.json`, written by
`scripts/build_vision_towers.py` from `timm` itself): a substitute has the same parameters under the same names, and no forward pass, which
a text-only run does not need. Where `timm` is installed it is used.

This module imports `transformers`, and is itself imported only when something is built.
"""

from __future__ import annotations

import functools
import json
import logging
import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.resources import files
from threading import RLock
from typing import Any

import torch
import transformers
from torch import nn
from transformers import CONFIG_MAPPING, AutoModel, Gemma3nVisionConfig, PreTrainedConfig, PreTrainedModel, __version__
from transformers.models.auto import modeling_auto as auto
from transformers.utils.import_utils import is_timm_available

from lib.errors import AdvisorError, BadConfig, UnsupportedModel, quote_value
from lib.model.config import convert_to_llama, list_unknown_sizes
from lib.model.meta_device import MetaBuild, no_network
from lib.provenance import Caveat

_HEAD = re.compile(r"(For[A-Z]\w*|LMHeadModel|Model|Encoder|Decoder)$")


def config_class(config: Mapping[str, Any]) -> type[PreTrainedConfig]:
    """The class that `transformers` keeps for the config's `model_type`."""
    model_type = config.get("model_type")
    if not isinstance(model_type, str) or not model_type:
        raise BadConfig(
            f"model_type was {quote_value(model_type)}. Accepted: the model_type of a transformers model, such as 'llama'. "
            "Paste the whole config.json of the model."
        )
    if model_type not in CONFIG_MAPPING:
        raise UnsupportedModel(
            f"model_type {quote_value(model_type)} is not an architecture of transformers {__version__}; it needs remote code, which is "
            "never run here. Give the parameter count instead (such as '7B') for an estimate by rule of thumb."
        )
    return CONFIG_MAPPING[model_type]


def convert_to_named_class(config: Mapping[str, Any]) -> tuple[dict[str, Any], str] | None:
    """The config with the model_type of the class named in `architectures`, and that name; None if `transformers` lacks the class.

    Publishers rename the type of an architecture that they reuse, and keep its class. A config with sizes that the class does not have is
    another architecture under an old name (RWKV-5 names RWKV-4's class).
    """
    names = config.get("architectures")
    name = names[0] if isinstance(names, (list, tuple)) and names else None
    if not isinstance(name, str) or not name.isidentifier() or name.startswith("_"):
        return None
    kind = getattr(transformers, name, None)
    if not (isinstance(kind, type) and issubclass(kind, PreTrainedModel)) or kind is PreTrainedModel:
        return None
    model_type = getattr(kind.config_class, "model_type", "")
    if model_type not in CONFIG_MAPPING or list_unknown_sizes(config, functools.partial(hasattr, CONFIG_MAPPING[model_type]())):
        return None
    return {**config, "model_type": model_type}, name


def _classes_of_type(config: PreTrainedConfig) -> list[type[PreTrainedModel]]:
    """Model classes in the modeling file of this config; none if `transformers` uses the classes of another type."""
    place = type(config).__module__.replace(".configuration_", ".modeling_")
    try:
        module = import_module(place)
    except ModuleNotFoundError as error:
        if error.name != place:
            raise
        return []
    classes = [
        c for c in vars(module).values() if isinstance(c, type) and issubclass(c, PreTrainedModel) and c.__module__ == module.__name__
    ]
    return [c for c in classes if c.__module__ == module.__name__ and not c.__name__.endswith("PreTrainedModel")]


def _fold(name: str) -> str:
    """The name without differences of spelling."""
    return name.replace("_", "").lower()


def _class_by_name(config: PreTrainedConfig, name: str) -> tuple[type[PreTrainedModel] | None, bool]:
    """The class called `name`, and whether the spelling had to be mended."""
    candidate = getattr(transformers, name, None) if name.isidentifier() and not name.startswith("_") else None
    if isinstance(candidate, type) and issubclass(candidate, PreTrainedModel) and candidate is not PreTrainedModel:
        accepted = candidate.config_class
        if (accepted is not None and isinstance(config, accepted)) or candidate is _class_of_auto(config):
            return candidate, False
    alike = [c for c in _classes_of_type(config) if _fold(c.__name__) == _fold(name)]
    return (alike[0], alike[0].__name__ != name) if len(alike) == 1 else (None, False)


def _class_by_head(config: PreTrainedConfig, name: str) -> type[PreTrainedModel] | None:
    """The class of this model_type that ends like `name`."""
    head = _HEAD.search(name)
    if head is None:
        return None
    alike = [c for c in _classes_of_type(config) if (match := _HEAD.search(c.__name__)) is not None and match[1] == head[1]]
    alike = [c for c in alike if isinstance(config, c.config_class or ())]
    return alike[0] if len(alike) == 1 else None


def _class_of_auto(config: PreTrainedConfig) -> type[PreTrainedModel] | None:
    """Class that the auto classes take: a generating class for a generating type, the bare model for an encoder."""
    kind = type(config)
    order = [
        auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING,
        auto.MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING,
        auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING,
    ]
    # A type with a masked-word head is an encoder, although most of those have a seldom used causal class too.
    if kind not in auto.MODEL_FOR_MASKED_LM_MAPPING or getattr(config, "is_decoder", False):
        order.append(auto.MODEL_FOR_CAUSAL_LM_MAPPING)
    for mapping in (*order, auto.MODEL_MAPPING):
        if kind in mapping:
            classes = mapping[kind]
            return classes[0] if isinstance(classes, (tuple, list)) else classes
    return None


def model_class(config: PreTrainedConfig, raw: Mapping[str, Any]) -> tuple[type[PreTrainedModel], tuple[Caveat, ...]]:
    """The class to build, and a caveat if it is not literally the one that the file names."""
    names = raw.get("architectures")
    if names is not None and (not isinstance(names, (list, tuple)) or not all(isinstance(n, str) and len(n) < 200 for n in names)):  # noqa: PLR2004
        raise BadConfig(f"architectures was {quote_value(names)}. Accepted: a list of class names, such as ['LlamaForCausalLM'].")
    if names:
        kind, respelled = _class_by_name(config, names[0])
        if kind is not None:
            return kind, (Caveat("architecture_spelling", {"stated": names[0], "class": kind.__name__}),) if respelled else ()
        kind = _class_by_head(config, names[0])
    else:
        kind = None
    kind = kind or _class_of_auto(config)
    if kind is None:
        raise UnsupportedModel(
            f"transformers has no model class for architectures {quote_value(names)} with model_type {quote_value(config.model_type)}. "
            "Name a class of transformers in 'architectures', or give the parameter count instead (such as '7B')."
        )
    values = {"class": kind.__name__, "stated": names[0][:60]} if names else {"class": kind.__name__}
    return kind, (Caveat("architecture_inferred", values, variant="unknown_class" if names else ""),)


TABLE = "vision_towers.json"
Leaf = tuple[str, str, list[int], bool]
"""Path, kind of module (conv, linear, norm, other), shape of its weight, whether it has a bias."""


@cache
def _towers() -> dict[str, list[Leaf]]:
    return json.loads(files("lib.data").joinpath(TABLE).read_text(encoding="utf-8"))["towers"]  # type: ignore[no-any-return]


def _leaf_module(kind: str, shape: list[int], *, bias: bool) -> nn.Module:
    """A leaf with a weight of this shape."""
    if kind == "conv":
        return nn.Conv2d(shape[1], shape[0], (shape[2], shape[3]), bias=bias)
    if kind == "linear":
        return nn.Linear(shape[1], shape[0], bias=bias)
    if kind == "norm":
        return nn.LayerNorm(shape, bias=bias)
    leaf = nn.Module()
    leaf.register_parameter("weight", nn.Parameter(torch.empty(shape)))
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
                f"The vision tower {quote_value(config.architecture)} needs timm, which is not installed here. Install it, or give the "
                "parameter count instead (such as '7B')."
            )
        self.timm_model = nn.Module()
        for path, kind, shape, bias in leaves:
            _plant(self.timm_model, path, _leaf_module(kind, shape, bias=bias))
        self.post_init()  # type: ignore[no-untyped-call]


LOCK = RLock()
"""One build or meta run at a time: Python's warning filters and some of `transformers`' registries belong to the process."""

SMALLEST = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 64,
    "num_attention_heads": 2,
    "num_hidden_layers": 2,
    "vocab_size": 100,
}
"""A configuration for a first build, which imports what every build needs."""

_DROPPED = frozenset(
    {
        "auto_map",  # remote code
        "quantization_config",  # read by lib.model.checkpoint; shapes are those of the unquantized model
        "attn_implementation", "_attn_implementation", "_attn_implementation_internal",  # kernels that are not installed
        "_attn_implementation_autoset",
        "experts_implementation", "_experts_implementation",
        "_name_or_path", "name_or_path", "use_pretrained_backbone", "_commit_hash",  # would be looked up on the Hub
        "gradient_checkpointing", "torchscript", "pruned_heads",
    }
)  # fmt: skip
_FETCHING = re.compile(r"[a-z_-]+:|[^/\\]*[/\\]")
_LONGEST_COMPLAINT = 4_000  # a complaint may quote the whole configuration
_BACKBONE_KEYS = frozenset({"backbone", "architecture"})


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BuiltModel:
    """A model on the meta device.

    `model` is in evaluation mode, with parameters in the dtype of the load; `config` is its normalised configuration and `raw` the
    file it came from. `architecture` is the class really built, `model_type` the file's own.
    """

    model: PreTrainedModel
    config: PreTrainedConfig
    raw: Mapping[str, Any]
    architecture: str
    model_type: str
    caveats: tuple[Caveat, ...]


def _clean(value: Any) -> Any:
    """The configuration without keys that would fetch, run or require something."""
    if isinstance(value, Mapping):
        for key in _BACKBONE_KEYS & value.keys():
            if isinstance(value[key], str) and _FETCHING.match(value[key]):
                raise UnsupportedModel(
                    f"The config's '{key}' points to another repository or file, which is not fetched here. Accepted: a plain name."
                )
        return {k: _clean(v) for k, v in value.items() if k not in _DROPPED}
    if isinstance(value, (list, tuple)):
        return [_clean(v) for v in value]
    return value


def _sentence(error: BaseException) -> str:
    """The first words of a library's complaint, on one line and without paths."""
    text = re.sub(r"(?:[A-Za-z]:)?(?:/[\w.\-]+){2,}", "…", " ".join(str(error)[:_LONGEST_COMPLAINT].split()))
    text = "".join(c if c.isprintable() else "·" for c in text)
    return f"{type(error).__name__}: {text[:200]}" if text else type(error).__name__


def _as_refusal(error: Exception, what: str) -> AdvisorError:
    """The sentence for an error of `transformers` on a configuration that it cannot use."""
    if isinstance(error, AdvisorError):
        return error
    if isinstance(error, ImportError):
        missing = re.search(r"requires the (\S+) library", str(error)[:_LONGEST_COMPLAINT])
        needs = missing[1] if missing else "a library"
        return UnsupportedModel(
            f"{what} needs {needs}, which is not installed here. Install it, or give the parameter count instead (such as '7B')."
        )
    return BadConfig(
        f"{what} cannot be built from this configuration ({_sentence(error)}). Check the sizes, or paste the published config.json."
    )


def word_table(model: PreTrainedModel) -> Any:
    """The module that turns token ids into vectors, or None in a model without one."""
    try:
        return model.get_input_embeddings()
    except (NotImplementedError, AttributeError):
        return None


def output_head(model: PreTrainedModel) -> Any:
    """The module that turns vectors into word scores, or None in a model without one."""
    try:
        return model.get_output_embeddings()  # type: ignore[no-untyped-call]
    except (NotImplementedError, AttributeError):
        return None


def _untie_head(model: PreTrainedModel, raw: Mapping[str, Any]) -> tuple[Caveat, ...]:
    """Give the output head its own weight where the file says so and the class ties regardless until weights are loaded.

    T5 1.1 and FLAN files state `tie_word_embeddings: false`; the class overwrites that and unties when it finds both tensors.
    """
    if raw.get("tie_word_embeddings") is not False or not model.config.tie_word_embeddings:
        return ()
    table, head = word_table(model), output_head(model)
    if head is None or table is None or head.weight is not table.weight:
        return ()
    head.weight = nn.Parameter(head.weight.detach().clone(), requires_grad=False)
    return (Caveat("separate_head"),)


def _drop_values(model: PreTrainedModel) -> None:
    """Move to the meta device the parameters that a legacy constructor (`torch.FloatTensor(…)` in XLNet) allocated in memory."""
    moved: dict[int, nn.Parameter] = {}
    for module in model.modules():
        for name, parameter in module.named_parameters(recurse=False):
            if not parameter.is_meta:
                setattr(module, name, moved.setdefault(id(parameter), nn.Parameter(parameter.detach().to("meta"), requires_grad=False)))


def build(config: Mapping[str, Any], dtype: str = "bfloat16") -> BuiltModel:
    """Construct the architecture that a parsed config.json describes.

    Args:
        config: the parsed file; its ranges are checked by `lib.model.config.check_config`.
        dtype: dtype of the load, "bfloat16", "float16" or "float32".
    """
    with LOCK, no_network(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _build(config, dtype)


def _build(raw: Mapping[str, Any], dtype: str) -> BuiltModel:
    """`build`, inside its lock and without network."""
    if not is_timm_available():
        AutoModel.register(Gemma3nVisionConfig, VisionStandIn, exist_ok=True)
    transformers.logging.set_verbosity(logging.CRITICAL)  # its logs would quote a visitor's configuration
    caveats: tuple[Caveat, ...] = ()
    what = f"model_type {str(raw.get('model_type'))[:60]!r}"
    try:
        # A type that only remote code has is built as the class that the file names, or as a Llama.
        model_type = raw.get("model_type")
        has_class = not isinstance(model_type, str) or model_type in transformers.CONFIG_MAPPING
        named = None if has_class else convert_to_named_class(raw)
        llama = None if has_class or named else convert_to_llama(raw)
        if named is not None:
            caveats = (Caveat("foreign_model_type", {"config": what, "class": named[1]}),)
        elif llama is not None:
            caveats = (Caveat("remote_code_as_llama", {"config": what}),)
        # Remove keys that would fetch something, find the class, and construct it.
        used = _clean(named[0] if named else llama or raw)
        config = config_class(used).from_dict(dict(used))
        kind, inferred = model_class(config, used)
        what = kind.__name__
        with MetaBuild(getattr(torch, dtype)):
            model = kind(config)
        _drop_values(model)
        model.eval()  # type: ignore[no-untyped-call]
        caveats += inferred + _untie_head(model, raw)
    except Exception as error:  # noqa: BLE001 a hostile file can make any constructor raise anything
        raise _as_refusal(error, what) from None
    return BuiltModel(model=model, config=config, raw=raw, architecture=kind.__name__, model_type=str(raw["model_type"]), caveats=caveats)
