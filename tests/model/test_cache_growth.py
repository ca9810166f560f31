"""How a cached tensor's growth is told from its shapes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lib.laws.kv_cache import units
from lib.model.cache_growth import Growth, Law, fit_law

LENGTHS = (1, 11, 1021, 16_777_259)


def shapes(growth: Growth, span: int, width: int) -> dict[int, tuple[int, ...]]:
    """What runs at `LENGTHS` would show of a tensor of this growth: batch, entries, width."""
    return {tokens: (1, units(growth, span, tokens), width) for tokens in LENGTHS}


@given(st.integers(1, 5000))
def test_every_token(width: int) -> None:
    """One entry a token is told as such, with the width as its elements."""
    assert fit_law(shapes("tokens", 0, width)) == Law(growth="tokens", elements=width)


@given(st.integers(2, 10**6), st.integers(1, 5000))
def test_a_window(span: int, width: int) -> None:
    """The window is read off the longest run, wherever it bends; a window of one token is a constant."""
    assert fit_law(shapes("window", span, width)) == Law(growth="window", elements=width, span=span)


@given(st.integers(1, 5000))
def test_a_constant(width: int) -> None:
    """The same at every length."""
    assert fit_law(shapes("constant", 0, width)) == Law(growth="constant", elements=width)


@given(st.integers(2, 1021), st.integers(1, 5000))
def test_blocks_and_what_goes_with_them(span: int, width: int) -> None:
    """Blocks give their length; remainders and steps are told with the lengths of blocks in the same layer."""
    assert fit_law(shapes("blocks", span, width)) == Law(growth="blocks", elements=width, span=span)
    open_block = fit_law(shapes("remainder", span, width), {span})
    assert open_block is not None
    assert all(open_block.at(tokens) == width * (tokens % span) for tokens in LENGTHS)
    overlap = fit_law(shapes("step", span, width), {span})
    assert overlap is not None
    assert all(overlap.at(tokens) == width * (tokens >= span) for tokens in LENGTHS)


@given(st.integers(1, 64), st.integers(1, 64))
def test_what_no_law_explains_is_not_told(offset: int, width: int) -> None:
    """Tokens and something on top (a prefix that is cached too) is none of the laws, so nothing is said."""
    assert fit_law({tokens: (1, tokens + offset, width) for tokens in LENGTHS}) is None


def test_a_square_root_is_not_told() -> None:
    """A tensor that grows ever slower is not mistaken for a window."""
    assert fit_law({tokens: (1, int(tokens**0.5), 8) for tokens in LENGTHS}) is None


def test_an_empty_tensor_has_no_law() -> None:
    """A value tensor of width 0, as some latent attention keeps, holds nothing."""
    assert fit_law({tokens: (1, 1, tokens, 0) for tokens in LENGTHS}) is None
