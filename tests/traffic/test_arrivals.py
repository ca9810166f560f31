"""Arrivals and lengths: means, spreads, recordings, and what a recording may not be."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lib.errors import BadArgument
from lib.traffic.arrivals import MAX_RECORDED, MAX_SPAN_S, Arrival, Lengths, RequestShape, draw_arrivals, read_recording

SHAPE = RequestShape(prompt_tokens=100, output_tokens=50)


def test_poisson_arrivals_have_their_rate_and_bursts_more_spread() -> None:
    """10 a second for 1000 s: 10,000 ± 3 · √10,000. Gaps of Poisson arrivals have a coefficient of variation of 1, of shape 1/4 of 2."""
    for burstiness, variation in ((1.0, 1.0), (0.25, 2.0)):
        arrivals = draw_arrivals(10, 1000, SHAPE, np.random.default_rng(0), burstiness=burstiness)
        assert len(arrivals) == pytest.approx(10_000, abs=300 * variation)
        gaps = np.diff([arrival.at_s for arrival in arrivals])
        assert gaps.std() / gaps.mean() == pytest.approx(variation, rel=0.05)


@pytest.mark.parametrize(("lengths", "longest"), [("fixed", 100), ("uniform", 150), ("lognormal", 386)])
def test_lengths_keep_their_mean_and_their_longest(lengths: Lengths, longest: int) -> None:
    """Lognormal with variation 0.5: σ = √ln 1.25 = 0.472, and the 99.9th percentile 100 · exp(3.09 · 0.472 - 0.472²/2) = 385.5."""
    shape = RequestShape(prompt_tokens=100, output_tokens=100, lengths=lengths, spread=0.5)
    assert shape.longest_prompt == longest
    drawn = np.array(list(itertools.islice(shape.draw(np.random.default_rng(0)), 20_000)))
    assert drawn.mean(axis=0) == pytest.approx([100, 100], rel=0.02)
    assert drawn.min() >= 1
    assert (drawn > longest).mean() < 0.002


def test_a_recording_is_read_with_and_without_names() -> None:
    """Times begin at 0; lengths that were not recorded are the usual ones; columns of Azure's public trace are known."""
    random = np.random.default_rng(0)
    assert read_recording("4,30,40\n5,10,20\n", SHAPE, random) == [Arrival(0, 30, 40), Arrival(1, 10, 20)]
    assert read_recording("arrival_s\n1\n3.5\n", SHAPE, random) == [Arrival(0, 100, 50), Arrival(2.5, 100, 50)]
    azure = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9799600,4808,10\n2023-11-16 18:17:04.4799600,3180,8\n"
    first, second = read_recording(azure, SHAPE, random)
    assert (first.prompt_tokens, second.output_tokens) == (4808, 8)
    assert second.at_s == pytest.approx(0.5)
    assert read_recording("\ufefftime,prompt\n0,7\n", SHAPE, random) == [Arrival(0, 7, 50)]  # a mark that spreadsheets write


@pytest.mark.parametrize(
    "text",
    ["", "\n\n", "prompt_tokens,output_tokens\n1,2\n", "arrival_s\n", "1,2\nx,3\n", "nan\n", "inf\n", "1,0,5\n", "1,1e400,5\n",
     "1," + "9" * 40, '"' + "1" * 200_000,
     "9" * 3_000_000, "1\n" * (MAX_RECORDED + 1), "0,1,1\n1e300,1,1\n", "0,1.5,2\n", f"0\n{MAX_SPAN_S + 1}\n"],
)  # fmt: skip
def test_what_is_no_recording_is_refused_in_a_sentence(text: str) -> None:
    """With the argument's name, and never with the whole text."""
    with pytest.raises(BadArgument, match=r"^trace was ") as refused:
        read_recording(text, SHAPE, np.random.default_rng(0))
    assert len(str(refused.value)) < 600


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "when,in,out\n1,2,3\n",
            "line 1: when,in,out'. Accepted: a time from 0 on, .* the time (arrival_s, at_s, .* response tokens or output)",
        ),
        ("prompt_tokens,output_tokens\n1,2\n", "names its columns: the time (arrival_s, at_s, arrival, timestamp, time or arrived_at)"),
        ("arrival_s\n1\n3\n2\n", "line 4: 2'. Accepted: lines in the order of their times"),
        ("-1,10,10\n2,10,10\n", "line 1: -1,10,10'. Accepted: a time from 0 on"),
    ],
)
def test_a_recording_that_is_refused_says_what_to_change(text: str, message: str) -> None:
    """The line, and the names that columns may have; times neither go back nor below 0."""
    with pytest.raises(BadArgument) as refused:
        read_recording(text, SHAPE, np.random.default_rng(0))
    for part in message.split(" .* "):
        assert part in str(refused.value)


@given(text=st.text(max_size=200))
def test_no_text_does_more_than_be_refused(text: str) -> None:
    """Either requests in order, or the refusal."""
    try:
        read = read_recording(text, SHAPE, np.random.default_rng(0))
    except BadArgument:
        return
    assert [arrival.at_s for arrival in read] == sorted(arrival.at_s for arrival in read)
    assert read[0].at_s == 0
