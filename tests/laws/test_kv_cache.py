"""The law of cache bytes: worked by hand, linear, monotone, and invertible."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lib.laws.kv_cache import cache_bytes, cache_bytes_by_kind, linear_cache, peak_tokens, units
from lib.model.spec import CacheTerm

FULL = CacheTerm(kind="full attention", holds="keys and values", layers=32, elements=2048, growth="tokens")
SLIDING = CacheTerm(kind="sliding window", holds="keys and values", layers=25, elements=4096, growth="window", span=1023)
STATE = CacheTerm(kind="linear attention state", holds="recurrent state", layers=36, elements=524288, growth="constant", dtype="float32")
CONVOLUTION = CacheTerm(kind="convolution state", holds="convolution state", layers=36, elements=32768, growth="constant")
CROSS = CacheTerm(kind="cross attention", holds="keys and values", layers=6, elements=1024, growth="encoder", span=2)
ENTRIES = CacheTerm(kind="compressed attention", holds="entries", layers=20, elements=512, growth="blocks", span=128)
OPEN = CacheTerm(kind="compressed attention", holds="open block", layers=20, elements=1024, growth="remainder", span=128)
OVERLAP = CacheTerm(kind="compressed attention", holds="overlap", layers=21, elements=2048, growth="step", span=4)

growths = st.sampled_from(["tokens", "window", "constant", "blocks", "step", "encoder"])
spans = st.integers(min_value=1, max_value=300)


@st.composite
def steady_terms(draw: st.DrawFn) -> CacheTerm:
    """Terms whose bytes never shrink with the length."""
    return CacheTerm(
        kind=draw(st.sampled_from(["a", "b"])),
        holds="keys and values",
        layers=draw(st.integers(1, 100)),
        elements=draw(st.integers(1, 5000)),
        growth=draw(growths),
        span=draw(spans),
        dtype=draw(st.sampled_from(["model", "float32"])),
    )


lengths = st.integers(min_value=0, max_value=100_000)
batches = st.integers(min_value=1, max_value=64)
widths = st.sampled_from([4.0, 2.0, 1.0, 34 / 32, 18 / 32])


def test_llama_8b_at_4096_tokens() -> None:
    """32 layers · 2·8·128 elements · 4096 tokens · 2 bytes = 512 MiB, and twice that for two sequences."""
    assert cache_bytes([FULL], tokens=4096, batch=1, element_bytes=2) == 512 * 2**20
    assert cache_bytes([FULL], tokens=4096, batch=2, element_bytes=2) == 1024 * 2**20


@pytest.mark.parametrize(
    ("term", "tokens", "encoder", "expected"),
    [
        (SLIDING, 1000, 0, 1000),
        (SLIDING, 1023, 0, 1023),
        (SLIDING, 9000, 0, 1023),
        (STATE, 9000, 0, 1),
        (CROSS, 9000, 3000, 1500),
        (ENTRIES, 127, 0, 0),
        (ENTRIES, 256, 0, 2),
        (OPEN, 127, 0, 127),
        (OPEN, 128, 0, 0),
        (OVERLAP, 3, 0, 0),
        (OVERLAP, 4, 0, 1),
    ],
)
def test_units_of_each_growth(term: CacheTerm, tokens: int, encoder: int, expected: int) -> None:
    """n(T) as the page's table says, at and around the places where it bends."""
    assert units(term.growth, term.span, tokens, encoder) == expected


def test_an_unknown_growth_is_refused() -> None:
    """A growth that the law does not know is an error, not zero bytes."""
    with pytest.raises(ValueError, match="no such growth: sideways"):
        cache_bytes([replace(FULL, growth="sideways")], tokens=1, batch=1, element_bytes=2)  # type: ignore[arg-type]


def test_no_cache_is_no_bytes() -> None:
    """An encoder keeps nothing."""
    assert cache_bytes(None, tokens=512, batch=8, element_bytes=2) == 0
    assert cache_bytes_by_kind((), tokens=512, batch=8, element_bytes=2) == {}


def test_a_fixed_dtype_ignores_the_cache_precision() -> None:
    """Recurrent states stay float32: 36 · 524288 · 4 bytes at any cache precision; convolution states follow the compute dtype."""
    state = 36 * 524288 * 4
    convolution = 36 * 32768 * 2
    for width in (4.0, 2.0, 1.0):
        held = cache_bytes_by_kind([STATE, CONVOLUTION], tokens=10, batch=1, element_bytes=width, state_bytes=2)
        assert held == {"linear attention state": state, "convolution state": convolution}
    assert cache_bytes([CONVOLUTION], tokens=10, batch=1, element_bytes=4) == 2 * convolution


def test_quantized_elements_carry_their_scales() -> None:
    """q8_0 stores 34 bytes for 32 elements: 65536 elements a token take 69632 bytes."""
    assert cache_bytes([FULL], tokens=1, batch=1, element_bytes=34 / 32) == 69632


@given(st.lists(steady_terms(), max_size=5), lengths, lengths, batches, widths, lengths)
def test_longer_is_never_smaller(terms: list[CacheTerm], short: int, more: int, batch: int, width: float, encoder: int) -> None:
    """All growths but the open block are monotone in the length."""

    def total_bytes(tokens: int) -> int:
        return cache_bytes(terms, tokens=tokens, batch=batch, element_bytes=width, encoder_tokens=encoder)

    assert total_bytes(short) <= total_bytes(short + more)


@given(st.lists(steady_terms(), max_size=5), lengths, batches, lengths)
def test_linear_in_the_batch(terms: list[CacheTerm], tokens: int, batch: int, encoder: int) -> None:
    """B sequences hold B times what one holds, exactly, when an element is a whole number of bytes."""
    one = cache_bytes(terms, tokens=tokens, batch=1, element_bytes=2, encoder_tokens=encoder)
    assert cache_bytes(terms, tokens=tokens, batch=batch, element_bytes=2, encoder_tokens=encoder) == batch * one


@given(st.lists(steady_terms(), max_size=5), lengths, batches, widths)
def test_parts_add_up(terms: list[CacheTerm], tokens: int, batch: int, width: float) -> None:
    """The split by kind adds up to the total to the byte."""
    split = cache_bytes_by_kind(terms, tokens=tokens, batch=batch, element_bytes=width)
    assert sum(split.values()) == cache_bytes(terms, tokens=tokens, batch=batch, element_bytes=width)


@given(st.integers(0, 3000), st.sampled_from([(4, 128), (4, 6), (3, 5), (128,)]))
def test_the_peak_is_among_the_lengths_named(tokens: int, blocks: tuple[int, ...]) -> None:
    """`peak_tokens` names a length at which the cache is as large as at any length up to T."""
    terms = [replace(ENTRIES, span=min(blocks)), *(replace(OPEN, span=block, elements=700) for block in blocks)]
    held = [cache_bytes(terms, tokens=t, batch=1, element_bytes=2) for t in range(tokens + 1)]
    assert max(held[t] for t in peak_tokens(terms, tokens)) == max(held)


def test_a_growth_by_blocks_needs_their_length() -> None:
    """Blocks of no tokens, and a growth that nobody knows, are refused."""
    for growth in ("blocks", "remainder", "step", "doubling"):
        with pytest.raises(ValueError, match=growth):
            units(growth, 0, 100)


@given(st.lists(st.sampled_from([FULL, SLIDING, STATE, CONVOLUTION, CROSS]), max_size=5), st.integers(0, 10**6), st.integers(0, 3000))
def test_straight_lines_are_the_law(terms: list[CacheTerm], tokens: int, encoder: int) -> None:
    """Without blocks, and with windows of one length, C(T) is the law to the byte."""
    line = linear_cache(terms, 2, encoder)
    held = line.constant + line.per_token * tokens + line.windowed_per_token * min(tokens, line.window)
    assert held == cache_bytes(terms, tokens=tokens, batch=1, element_bytes=2, encoder_tokens=encoder)


def test_straight_lines_through_blocks() -> None:
    """Entries of 128 tokens count for each token in part, an open block as half full, what overlaps as always there."""
    line = linear_cache([ENTRIES, OPEN, OVERLAP], 2)
    assert line.per_token == 20 * 512 * 2 / 128
    assert line.constant == 20 * 1024 * 2 * 128 / 2 + 21 * 2048 * 2
