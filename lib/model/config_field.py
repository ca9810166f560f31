"""Reading one field of a `transformers` configuration, also where layers differ in it."""

from __future__ import annotations

from typing import Any

from transformers.integrations.heterogeneity.configuration_utils import AmbiguousGlobalPerLayerAttributeError


def field_of(config: Any, name: str) -> Any:
    """The value of a field, None where there is none; where layers differ, the largest of theirs."""
    try:
        return getattr(config, name, None)
    except AmbiguousGlobalPerLayerAttributeError:
        values = [getattr(layer, name, None) for layer in config.per_layer_config]
        return max((v for v in values if isinstance(v, int | float)), default=None)
