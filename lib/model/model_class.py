"""Which `transformers` classes stand behind a configuration: the config class and the model class.

Order: the class named in `architectures`; the same name spelled with other capitals or underscores; the class of this
`model_type` that has the same head ("…ForCausalLM"); without `architectures`, the class that `transformers`' auto classes
take for it. A `model_type` that only remote code knows is refused, unless `lib.model.llama_shape` recognises it.
Imports `transformers`, and is itself imported only when something is built.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import transformers
from transformers import CONFIG_MAPPING, PreTrainedConfig, PreTrainedModel, __version__
from transformers.models.auto import modeling_auto as auto

from lib.errors import BadConfig, UnsupportedModel, shown
from lib.provenance import Caveat

_HEAD = re.compile(r"(For[A-Z]\w*|LMHeadModel|Model|Encoder|Decoder)$")


def config_class(config: Mapping[str, Any]) -> type[PreTrainedConfig]:
    """The class that `transformers` keeps for the config's `model_type`.

    Raises:
        BadConfig: no `model_type` in the file, or it is not text.
        UnsupportedModel: a `model_type` that `transformers` does not know.
    """
    model_type = config.get("model_type")
    if not isinstance(model_type, str) or not model_type:
        raise BadConfig(
            f"model_type was {shown(model_type)}. Accepted: the model_type of a transformers model, such as 'llama'. "
            "Paste the whole config.json of the model."
        )
    if model_type not in CONFIG_MAPPING:
        raise UnsupportedModel(
            f"model_type {shown(model_type)} is not an architecture of transformers {__version__}; it needs remote code, which is never "
            "run here. Give the parameter count instead (such as '7B') for an estimate by rule of thumb."
        )
    return CONFIG_MAPPING[model_type]


def _modelling(config: PreTrainedConfig) -> list[type[PreTrainedModel]]:
    """Model classes defined beside the config class; none where `transformers` runs this type by the classes of another one."""
    place = type(config).__module__.replace(".configuration_", ".modeling_")
    try:
        module = import_module(place)
    except ModuleNotFoundError as error:
        if error.name != place:
            raise
        return []
    found = [c for c in vars(module).values() if isinstance(c, type) and issubclass(c, PreTrainedModel) and c.__module__ == module.__name__]
    return [c for c in found if not c.__name__.endswith("PreTrainedModel")]


def _folded(name: str) -> str:
    return name.replace("_", "").lower()


def _named(config: PreTrainedConfig, name: str) -> tuple[type[PreTrainedModel] | None, bool]:
    """The class called `name`, and whether the spelling had to be mended."""
    candidate = getattr(transformers, name, None) if name.isidentifier() and not name.startswith("_") else None
    if isinstance(candidate, type) and issubclass(candidate, PreTrainedModel) and candidate is not PreTrainedModel:
        accepted = candidate.config_class
        if (accepted is not None and isinstance(config, accepted)) or candidate is _automatic(config):
            return candidate, False
    alike = [c for c in _modelling(config) if _folded(c.__name__) == _folded(name)]
    return (alike[0], alike[0].__name__ != name) if len(alike) == 1 else (None, False)


def _by_head(config: PreTrainedConfig, name: str) -> type[PreTrainedModel] | None:
    """The class of this model_type that ends like `name`."""
    head = _HEAD.search(name)
    if head is None:
        return None
    alike = [c for c in _modelling(config) if c.__name__.endswith(head[1]) and _HEAD.search(c.__name__)]
    alike = [c for c in alike if (found := _HEAD.search(c.__name__)) is not None and found[1] == head[1]]
    alike = [c for c in alike if isinstance(config, c.config_class or ())]
    return alike[0] if len(alike) == 1 else None


def _automatic(config: PreTrainedConfig) -> type[PreTrainedModel] | None:
    """What the auto classes take: a generating class for a generating type, the bare model for an encoder."""
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
            found = mapping[kind]
            return found[0] if isinstance(found, (tuple, list)) else found
    return None


def model_class(config: PreTrainedConfig, raw: Mapping[str, Any]) -> tuple[type[PreTrainedModel], tuple[Caveat, ...]]:
    """The class to build, and a caveat where it is not literally the one that the file names.

    Raises:
        BadConfig: `architectures` is not a list of names.
        UnsupportedModel: no class of `transformers` fits.
    """
    names = raw.get("architectures")
    if names is not None and (not isinstance(names, (list, tuple)) or not all(isinstance(n, str) and len(n) < 200 for n in names)):  # noqa: PLR2004
        raise BadConfig(f"architectures was {shown(names)}. Accepted: a list of class names, such as ['LlamaForCausalLM'].")
    if names:
        found, mended = _named(config, names[0])
        if found is not None:
            return found, (_spelling(names[0], found),) if mended else ()
        found = _by_head(config, names[0])
    else:
        found = None
    found = found or _automatic(config)
    if found is None:
        raise UnsupportedModel(
            f"transformers has no model class for architectures {shown(names)} with model_type {shown(config.model_type)}. "
            "Name a class of transformers in 'architectures', or give the parameter count instead (such as '7B')."
        )
    seen = f"'{names[0][:60]}' is not a class of transformers for this model_type" if names else "The config names no architecture"
    return found, (Caveat(code="architecture_inferred", message=f"{seen}; counted as {found.__name__}, the class of its model_type."),)


def _spelling(name: str, found: type[PreTrainedModel]) -> Caveat:
    return Caveat(code="architecture_spelling", message=f"'{name}' is spelled {found.__name__} in transformers; counted as that class.")
