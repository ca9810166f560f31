"""Pictures and sound as a model counts them: tokens in the prompt, and positions that a tower or an encoder reads.

Pictures, by their size in pixels:

    rule           the picture becomes                                                       tokens
    fixed          a square of one size                                                      those of the model
    area           both sides to multiples of p·m, at least a and at most A pixels           w·h / (p·m)²
    longest side   scaled down to L pixels, each side up to a multiple of p·m                (w + 1)·h in units of p·m: rows end in a break
    budget         the largest multiples of p·m with the same proportions and ≤ A pixels     w·h / (p·m)²
    split          longest side to L, cut into tiles of s pixels, and the whole as one more  (n + 1)·t + marks of rows and columns
    canvas         put on the grid of ≤ N tiles that shrinks it least, and the whole         (n + 1)·t + separators

    any size       fitted on that of the grids which keeps most of it, and the whole         t + a·b + a: what it covers, and breaks
    nearest grid   stretched on the grid of ≤ N tiles nearest in proportion, and the whole   (n + 1)·t + 2 marks

    a, b  rows and columns of patches that it covers; above 1.1² · N · (s/p)² of them they are shrunk to N · (s/p)² (LLaVA-OneVision)
    p  pixels of a patch's side   m  patches along a side that make one token   s  pixels of a tile's side   t  tokens of a tile   n  tiles

Source: the image processors of transformers 5.23.0 (qwen2_vl, glm4v, pixtral, gemma4, idefics3, llama4, read 2026-11-22; llava_next,
llava_onevision, and got_ocr2 as InternVL's processor calls it, read 2026-11-23); the tests compare them. Limits: a picture alone, not
padded to the largest of a batch; words that a chat template puts around a picture are not counted.

Sound, by its length:

    windows        the sound is cut into pieces of s seconds, the last padded with silence; each is a pass of P positions
    convolutions   one pass over all samples: a convolution of k samples and stride d makes ⌊(n - k) / d⌋ + 1 of n

    s  seconds of a window = P · 2 · 160 samples / 16 kHz: a mel frame every 10 ms, two of them a position

Source: WhisperFeatureExtractor and Wav2Vec2FeatureExtractor of transformers 5.23.0, and `_get_feat_extract_output_lengths` of wav2vec 2.0
(read 2026-11-23; the tests compare them). Limits: sound longer than a window is read window after window, as `generate` does; windows that
overlap (the pipeline's `chunk_length_s`, with its strides) are more than are counted here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import product
from typing import Literal, NamedTuple

TOWERS = frozenset({"vision_tower", "audio_tower", "projector"})
"""Components that pictures and sound pass, and text does not."""
ImageRule = Literal["fixed", "area", "longest side", "budget", "split", "canvas", "any size", "nearest grid"]


class ImageSize(NamedTuple):
    """Pixels of a picture."""

    width: int
    height: int


class ImageCount(NamedTuple):
    """One picture as the model reads it: tokens in the prompt, passes of the tower (tiles), and positions in each."""

    tokens: int
    tiles: int
    positions: int


def resize_to_area(size: ImageSize, *, factor: int, least: int, most: int) -> ImageSize:
    """Both sides rounded to multiples of `factor`, scaled where the picture has fewer than `least` or more than `most` pixels.

    >>> resize_to_area(ImageSize(1024, 1024), factor=28, least=3136, most=12845056)
    ImageSize(width=1036, height=1036)
    """
    rounded = [round(side / factor) * factor for side in size]
    if math.prod(rounded) > most:
        shrunk = math.sqrt(math.prod(size) / most)
        rounded = [max(factor, math.floor(side / shrunk / factor) * factor) for side in size]
    elif math.prod(rounded) < least:
        grown = math.sqrt(least / math.prod(size))
        rounded = [math.ceil(side * grown / factor) * factor for side in size]
    return ImageSize(*rounded)


def fit_longest_side(size: ImageSize, *, factor: int, longest: int) -> ImageSize:
    """Scaled down to the longest side, then each side up to a multiple of `factor`.

    >>> fit_longest_side(ImageSize(1024, 768), factor=28, longest=1540)
    ImageSize(width=1036, height=784)
    """
    shrunk = max(1.0, max(size) / longest)
    sides = [math.floor(side / shrunk) if shrunk > 1 else side for side in size]
    return ImageSize(*((max(1, side) - 1) // factor * factor + factor for side in sides))


def fill_budget(size: ImageSize, *, factor: int, most: int) -> ImageSize:
    """The largest multiples of `factor` with about the picture's proportions whose area is at most `most` pixels.

    >>> fill_budget(ImageSize(1024, 1024), factor=48, most=280 * 48 * 48)
    ImageSize(width=768, height=768)
    """
    scale = math.sqrt(most / math.prod(size))
    width, height = (math.floor(side * scale / factor) * factor for side in size)
    longest = most // factor
    if not height:
        return ImageSize(min(size.width // size.height * factor, longest), factor)
    if not width:
        return ImageSize(factor, min(size.height // size.width * factor, longest))
    return ImageSize(width, height)


def split_grid(size: ImageSize, *, longest: int, tile: int) -> tuple[int, int]:
    """Rows and columns of tiles of a picture whose longest side is brought to `longest`; (0, 0) where one tile holds it.

    >>> split_grid(ImageSize(1024, 768), longest=1536, tile=384)
    (3, 4)
    """
    ratio = min(size) / max(size)
    shorter = int(longest * ratio)
    shorter += shorter % 2
    long_tiles, short_tiles = math.ceil(longest / tile), max(1, math.ceil(shorter / tile))
    if long_tiles * short_tiles == 1:
        return 0, 0
    return (short_tiles, long_tiles) if size.width >= size.height else (long_tiles, short_tiles)


def choose_canvas(size: ImageSize, *, tile: int, most_tiles: int) -> tuple[int, int]:
    """Rows and columns of the canvas that needs the least enlarging, else the least shrinking; the smallest of such.

    >>> choose_canvas(ImageSize(1024, 768), tile=336, most_tiles=16)
    (3, 4)
    """
    grids = [(rows, columns) for rows, columns in product(range(1, most_tiles + 1), repeat=2) if rows * columns <= most_tiles]
    scales = {grid: min(grid[0] * tile / size.height, grid[1] * tile / size.width) for grid in grids}
    enlarging = [scale for scale in scales.values() if scale >= 1]
    best = min(enlarging) if enlarging else max(scales.values())
    return min((grid for grid in grids if math.isclose(scales[grid], best)), key=math.prod)


def choose_grid(size: ImageSize, *, tile: int, grids: Iterable[tuple[int, int]]) -> tuple[int, int]:
    """Rows and columns of the grid on which most pixels of the picture are kept; among equals, the one with the least unused area.

    >>> choose_grid(ImageSize(1024, 768), tile=336, grids=[(1, 2), (2, 1), (2, 2), (3, 1), (1, 3)])
    (2, 2)
    """

    def count_pixels(grid: tuple[int, int]) -> tuple[int, int]:
        rows, columns = grid
        scale = min(columns * tile / size.width, rows * tile / size.height)
        used = min(int(size.width * scale) * int(size.height * scale), math.prod(size))
        return used, used - rows * columns * tile**2

    return max(grids, key=count_pixels)


def cover_grid(size: ImageSize, rows: int, columns: int) -> tuple[int, int]:
    """Rows and columns of a grid's places that a picture of these proportions covers, without the padding around it.

    >>> cover_grid(ImageSize(1024, 768), 48, 48)
    (36, 48)
    """
    if size.width / size.height > columns / rows:
        return rows - (rows - int(round(size.height * (columns / size.width), 7))) // 2 * 2, columns
    return rows, columns - (columns - int(round(size.width * (rows / size.height), 7))) // 2 * 2


def nearest_grid(size: ImageSize, *, tile: int, most_tiles: int) -> tuple[int, int]:
    """Rows and columns of the grid nearest in proportion; of equal ones the largest whose half the picture fills.

    >>> nearest_grid(ImageSize(1024, 768), tile=448, most_tiles=12)
    (3, 4)
    """
    grids = sorted(((c, r) for c, r in product(range(1, most_tiles + 1), repeat=2) if c * r <= most_tiles), key=math.prod)
    least = min(abs(size.width / size.height - columns / rows) for columns, rows in grids)
    near = [(c, r) for c, r in grids if abs(size.width / size.height - c / r) == least]
    columns, rows = next((grid for grid in reversed(near[1:]) if math.prod(size) > 0.5 * tile**2 * math.prod(grid)), near[0])
    return rows, columns


class ImageRules(NamedTuple):
    """The numbers of a rule: p, m, s (or L), the bounds of an area in pixels, N, t, and positions of a tile apart from its patches.

    `grids` are rows and columns of tiles, in the processor's order.
    """

    rule: ImageRule
    patch: int
    merge: int = 1
    tile: int = 0
    least_pixels: int = 0
    most_pixels: int = 0
    longest: int = 0
    most_tiles: int = 1
    tile_tokens: int = 0
    class_positions: int = 0
    grids: tuple[tuple[int, int], ...] = ()


_SHRUNK_ABOVE = 1.1  # of LlavaOnevisionProcessor


def count_image(size: ImageSize, image_rules: ImageRules) -> ImageCount:
    """Tokens and tower positions of one picture.

    Qwen2.5-VL reads 1,024 x 1,024 pixels as 37 x 37 tokens:

    >>> count_image(ImageSize(1024, 1024), ImageRules("area", patch=14, merge=2, least_pixels=3136, most_pixels=12845056))
    ImageCount(tokens=1369, tiles=1, positions=5476)
    """
    unit = image_rules.patch * image_rules.merge
    of_tile = (image_rules.tile // image_rules.patch) ** 2 + image_rules.class_positions
    if image_rules.rule == "fixed":
        return ImageCount(image_rules.tile_tokens * image_rules.most_tiles, image_rules.most_tiles, of_tile)
    if image_rules.rule == "split":
        rows, columns = split_grid(size, longest=image_rules.longest, tile=image_rules.tile)
        marks = rows * (columns * 2 + 1) + 3
        return ImageCount((rows * columns + 1) * image_rules.tile_tokens + marks, rows * columns + 1, of_tile)
    if image_rules.rule == "canvas":
        rows, columns = choose_canvas(size, tile=image_rules.tile, most_tiles=image_rules.most_tiles)
        tiles = rows * columns + 1 if rows * columns > 1 else 1
        separators = (rows * columns if tiles > 1 else 0) + 3
        return ImageCount(tiles * image_rules.tile_tokens + separators, tiles, of_tile)
    if image_rules.rule == "any size":
        rows, columns = choose_grid(size, tile=image_rules.tile, grids=image_rules.grids)
        side = image_rules.tile // image_rules.patch
        high, wide = cover_grid(size, rows * side, columns * side)
        shrunk = math.sqrt(high * wide / (image_rules.most_tiles * side**2)) if image_rules.most_tiles else 0.0
        if shrunk > _SHRUNK_ABOVE:
            high, wide = int(high // shrunk), int(wide // shrunk)
        return ImageCount(image_rules.tile_tokens + high * wide + high, rows * columns + 1, of_tile)
    if image_rules.rule == "nearest grid":
        tiles = math.prod(nearest_grid(size, tile=image_rules.tile, most_tiles=image_rules.most_tiles))
        tiles += int(tiles > 1)
        return ImageCount(tiles * image_rules.tile_tokens + 2, tiles, of_tile)
    if image_rules.rule == "area":
        made = resize_to_area(size, factor=unit, least=image_rules.least_pixels, most=image_rules.most_pixels)
    elif image_rules.rule == "longest side":
        made = fit_longest_side(size, factor=unit, longest=image_rules.longest)
    else:
        made = fill_budget(size, factor=unit, most=image_rules.most_pixels)
    columns, rows = made.width // unit, made.height // unit
    breaks = rows if image_rules.rule == "longest side" else 0
    return ImageCount(rows * columns + breaks, 1, rows * columns * image_rules.merge**2)


SoundRule = Literal["windows", "convolutions"]
SAMPLES_PER_S = 16_000
HOP_SAMPLES = 160
FRAMES_PER_POSITION = 2
DEFAULT_S = 30.0
"""Seconds of sound if none are stated: a window of Whisper's."""


class SoundCount(NamedTuple):
    """A sound as the model reads it: passes of the encoder and positions in each."""

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
        """Seconds of a window; 0 if there are none."""
        return self.positions * FRAMES_PER_POSITION * HOP_SAMPLES / SAMPLES_PER_S

    @property
    def features(self) -> int:
        """Elements of a window's mel spectrogram; 0 if samples go in."""
        return self.mel_bins * self.positions * FRAMES_PER_POSITION


def count_sound(seconds: float, sound_rules: SoundRules) -> SoundCount:
    """Passes and positions of a sound; one too short for the first position counts as one.

    >>> count_sound(10, SoundRules("windows", positions=1500)), count_sound(61, SoundRules("windows", positions=1500))
    (SoundCount(windows=1, positions=1500), SoundCount(windows=3, positions=1500))
    >>> count_sound(1, SoundRules("convolutions", kernels=(10, 3, 3, 3, 3, 2, 2), strides=(5, 2, 2, 2, 2, 2, 2)))
    SoundCount(windows=1, positions=49)
    """
    if sound_rules.rule == "windows":
        return SoundCount(max(1, math.ceil(seconds / sound_rules.window_s)), sound_rules.positions)
    extent = round(seconds * SAMPLES_PER_S)
    for kernel, stride in zip(sound_rules.kernels, sound_rules.strides, strict=True):
        extent = (extent - kernel) // stride + 1
    return SoundCount(1, max(1, extent))


def samples_for(positions: int, sound_rules: SoundRules) -> int:
    """The most samples of which convolutions make so many positions.

    >>> samples_for(49, SoundRules("convolutions", kernels=(10, 3, 3, 3, 3, 2, 2), strides=(5, 2, 2, 2, 2, 2, 2)))
    16079
    """
    extent = positions + 1
    for kernel, stride in zip(reversed(sound_rules.kernels), reversed(sound_rules.strides), strict=True):
        extent = (extent - 1) * stride + kernel
    return extent - 1
