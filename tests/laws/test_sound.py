"""Positions of sound: as the feature extractors of transformers pad it and as the convolutions of the models cut it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import device
from transformers import AutoModel, PreTrainedModel, WhisperFeatureExtractor
from transformers.models.auto.configuration_auto import AutoConfig

from lib.laws.sound import SAMPLES_PER_S, SoundRules, count_sound, samples_for
from lib.model.media import describe_sound

BY_SAMPLES = ("wav2vec2", "hubert", "data2vec-audio", "unispeech", "unispeech-sat")


def built(kind: str) -> PreTrainedModel:
    """A small model of this kind, without values; the convolutions are those of the published ones."""
    config = AutoConfig.for_model(kind, num_hidden_layers=1)
    with device("meta"):
        model = AutoModel.from_config(config)
    assert isinstance(model, PreTrainedModel)
    return model


@pytest.mark.parametrize("kind", BY_SAMPLES)
@settings(max_examples=40, deadline=None)
@given(samples=st.integers(400, 100 * SAMPLES_PER_S))
def test_convolutions_make_as_many_positions_as_the_models_say(kind: str, samples: int) -> None:
    """`_get_feat_extract_output_lengths` of each model, for any number of samples; and back."""
    model = MODELS.setdefault(kind, built(kind))
    rules = describe_sound(model.config)
    assert rules is not None
    positions = count_sound(samples / SAMPLES_PER_S, rules).positions
    lengths: int = model._get_feat_extract_output_lengths(samples)  # type: ignore[operator]
    assert positions == int(lengths)
    assert count_sound(samples_for(positions, rules) / SAMPLES_PER_S, rules).positions == positions
    assert samples <= samples_for(positions, rules) < samples + 320


MODELS: dict[str, PreTrainedModel] = {}


@pytest.mark.parametrize("seconds", [1, 29.9])
def test_whisper_pads_to_half_a_minute(seconds: float) -> None:
    """3,000 mel frames whatever the length, of which its encoder makes 1,500 positions."""
    frames = WhisperFeatureExtractor()(np.zeros(round(seconds * SAMPLES_PER_S)), sampling_rate=SAMPLES_PER_S).input_features[0].shape
    rules = SoundRules("windows", positions=1500, mel_bins=80)
    assert frames == (80, 3000)
    assert (rules.window_s, rules.features) == (30, 80 * 3000)
    assert count_sound(seconds, rules) == (1, 1500)


@pytest.mark.parametrize(("seconds", "windows"), [(30, 1), (30.01, 2), (3600, 120)])
def test_longer_sound_is_read_window_after_window(seconds: float, windows: int) -> None:
    """Each window is whole."""
    assert count_sound(seconds, SoundRules("windows", positions=1500)).windows == windows
