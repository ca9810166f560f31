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


def text_config(config: Any) -> Any:
    """The configuration of the text decoder; the whole where there is no other, or more than one.

    Of an encoder-decoder it answers with the decoder's figures under the customary names (`num_hidden_layers` …); its `decoder_…`
    fields are not to be read.
    """
    try:
        return config.get_text_config(decoder=True)
    except ValueError:
        return config
