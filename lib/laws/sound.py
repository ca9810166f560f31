"""Positions of an encoder of sound, by the length of the sound.

    windows        the sound is cut into pieces of s seconds, the last padded with silence; each is a pass of P positions
    convolutions   one pass over all samples: a convolution of k samples and stride d makes ⌊(n - k) / d⌋ + 1 of n

    s  seconds of a window = P · 2 · 160 samples / 16 kHz: a mel frame every 10 ms, two of them a position

Source: WhisperFeatureExtractor and Wav2Vec2FeatureExtractor of transformers 5.23.0, and `_get_feat_extract_output_lengths` of wav2vec 2.0
(read 2026-11-23; the tests compare them). Limits: sound longer than a window is read window after window, as `generate` does; windows that
overlap (the pipeline's `chunk_length_s`, with its strides) are more than are counted here.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

SoundRule = Literal["windows", "convolutions"]
SAMPLES_PER_S = 16_000
HOP_SAMPLES = 160
FRAMES_PER_POSITION = 2
DEFAULT_S = 30.0
"""Seconds of sound where none are stated: a window of Whisper's."""


class SoundCount(NamedTuple):
    """What a sound is to the model: passes of the encoder and positions in each."""

    windows: int
    positions: int


class SoundRules(NamedTuple):
    """The numbers of a rule: P and the mel bins of a frame, or k and d of each convolution."""

    rule: SoundRule
    positions: int = 0
    mel_bins: int = 0
    kernels: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()

    @property
    def window_s(self) -> float:
        """Seconds of a window; 0 where there are none."""
        return self.positions * FRAMES_PER_POSITION * HOP_SAMPLES / SAMPLES_PER_S

    @property
    def features(self) -> int:
        """Elements of a window's mel spectrogram; 0 where samples go in."""
        return self.mel_bins * self.positions * FRAMES_PER_POSITION


def count_sound(seconds: float, of: SoundRules) -> SoundCount:
    """Passes and positions of a sound; one too short for the first position counts as one.

    >>> count_sound(10, SoundRules("windows", positions=1500)), count_sound(61, SoundRules("windows", positions=1500))
    (SoundCount(windows=1, positions=1500), SoundCount(windows=3, positions=1500))
    >>> count_sound(1, SoundRules("convolutions", kernels=(10, 3, 3, 3, 3, 2, 2), strides=(5, 2, 2, 2, 2, 2, 2)))
    SoundCount(windows=1, positions=49)
    """
    if of.rule == "windows":
        return SoundCount(max(1, math.ceil(seconds / of.window_s)), of.positions)
    extent = round(seconds * SAMPLES_PER_S)
    for kernel, stride in zip(of.kernels, of.strides, strict=True):
        extent = (extent - kernel) // stride + 1
    return SoundCount(1, max(1, extent))


def samples_for(positions: int, of: SoundRules) -> int:
    """The most samples of which convolutions make so many positions.

    >>> samples_for(49, SoundRules("convolutions", kernels=(10, 3, 3, 3, 3, 2, 2), strides=(5, 2, 2, 2, 2, 2, 2)))
    16079
    """
    extent = positions + 1
    for kernel, stride in zip(reversed(of.kernels), reversed(of.strides), strict=True):
        extent = (extent - 1) * stride + kernel
    return extent - 1
