"""Measured beside predicted: a run, what is expected of it, and the ledger."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from live_fake import GIB, make_measurement, make_prediction, metrics, row

from lib.live.ledger import LedgerStatus
from lib.present.live_measurements import (
    FIGURES,
    compare_figures,
    draw_scatter,
    expected_card,
    format_error,
    measure_card,
    measure_csv,
    measure_text,
    newest_table,
    ratio_bars,
    scatter_head,
    select_points,
    storage_line,
)
from lib.provenance import StatementText


@pytest.mark.parametrize(
    ("kind", "ratio", "words"),
    [
        ("peak_bytes", None, ""),
        ("ttft_s", 0.004, "right to half a percent"),
        ("peak_bytes", 0.04, "4 % too high"),
        ("peak_bytes", -0.04, "4 % too low"),
        ("peak_bytes", 1.5, "2.5× too high"),  # predicted / measured = 2.5
        ("peak_bytes", -0.75, "4.0× too low"),  # 0.25
        ("ttft_s", -0.75, "4.0× too optimistic"),  # a fourth of the time
        ("ttft_s", 0.25, "25 % too pessimistic"),
        ("decode_tokens_per_s", 1.5, "2.5× too optimistic"),
        ("decode_tokens_per_s", -0.25, "25 % too pessimistic"),
    ],
)
def test_how_far_off_in_words(kind: str, ratio: float | None, words: str) -> None:
    """From twice on, and from half down, a factor; times and rates too optimistic or pessimistic, memory too high or too low."""
    assert format_error(kind, ratio) == words


def test_one_token_has_no_speed() -> None:
    """What was not measured has no line."""
    assert [figure.name for figure in compare_figures(metrics(decode_tokens_per_s=None))] == ["Time to first token", "Peak memory"]


def test_the_bars_are_drawn_on_one_scale() -> None:
    """Predicted half of what was measured: 100 % and 50 %. Beyond twice the bar is cut, and without a prediction there is none."""
    assert re.findall(r"width:([\d.]+)%", ratio_bars(0.5)) == ["100.0", "50.0"]
    assert re.findall(r"width:([\d.]+)%", ratio_bars(2.0)) == ["50.0", "100.0"]
    assert re.findall(r"width:([\d.]+)%", ratio_bars(40.0)) == ["50.0", "100.0"]
    assert ratio_bars(None) == ""


def test_a_measurement_beside_its_prediction() -> None:
    """The verdict first; a row for each figure; a pasted config is called that."""
    card = measure_card(make_measurement(), "Qwen/Qwen3-0.6B")
    assert '<em class="badge fits">prediction confirmed</em> Memory: predicted 4.0% less' in card
    assert "4 % too low" in card
    assert 'aria-label="Measurement"' in card
    assert "the pasted config with random weights in bf16" in measure_card(make_measurement(model=""), "{}")
    invalid = make_measurement(verdict=StatementText(code="invalid", message="No."))
    assert '<em class="badge lacks">not valid</em>' in measure_card(invalid, "x")
    text = measure_text(make_measurement(), "Qwen/Qwen3-0.6B")
    assert "Peak memory: 1.04 GiB, predicted 1.00 GiB (4 % too low)" in text
    assert measure_csv(make_measurement()).splitlines()[3] == "peak_bytes,1118481067,1073741824,-0.04"


def test_what_is_expected_of_a_run() -> None:
    """1 GiB + 10 MiB + 20 MiB + 0.5 GiB = 1.53 GiB of 9; 0.5 s + 64 / 12.5 = 5.62 s of 120."""
    card = expected_card(make_prediction(), "Qwen/Qwen3-0.6B")
    assert "weights 1.00 GiB + cache 10 MiB + activations 20 MiB + the process&#x27;s own" in card.replace("'", "&#x27;")
    assert "at most 1.53 GiB" in card
    assert "A run may take 9.00 GiB of the 10.0 GiB that are free. Predicted time 5.62 s; a run may take 120 s." in card
    assert "the run will probably be refused" in expected_card(make_prediction(limit_s=5.0), "Qwen/Qwen3-0.6B")


def test_the_scatter_holds_every_row_with_both_ends() -> None:
    """Three devices, one of the rows without a prediction; every point lies on the axes, and the band is 10 % to both sides."""
    rows = [row(), row(device="CPU", kind="chat", peak_bytes=4 * GIB, predicted_peak_bytes=4 * GIB), row(predicted_peak_bytes=None)]
    assert len(select_points(rows, "peak_bytes")) == 2
    figure: Any = draw_scatter(rows, "peak_bytes")
    low, high, line, *dots = figure.data
    assert [y / x for x, y in zip(low.x, low.y, strict=True)] == pytest.approx([0.9, 0.9])
    assert [y / x for x, y in zip(high.x, high.y, strict=True)] == pytest.approx([1.1, 1.1])
    assert line.x == line.y
    assert sorted((x, y) for dot in dots for x, y in zip(dot.x, dot.y, strict=True)) == [(1.0, pytest.approx(1.05)), (4.0, 4.0)]
    first, last = figure.layout.xaxis.range
    assert first < math.log10(1.0) < math.log10(4.0) < last
    assert figure.layout.xaxis.range == figure.layout.yaxis.range
    assert len(figure.layout.xaxis.tickvals) >= 3
    head = scatter_head(rows, "peak_bytes")
    assert "2 runs; 2 of them predicted within 10 % (the shaded band). The median error is 2.5 %." in head  # of 5 and 0


def test_nothing_is_drawn_of_nothing() -> None:
    """No row, or none with both ends: no picture, and the head says so."""
    for words, figure in FIGURES:
        assert draw_scatter([], figure) is None
        assert f"No row holds both a measured and a predicted {words.lower()}" in scatter_head([row(**{figure: None})], figure)
    assert newest_table([]) == ""


@given(st.lists(st.floats(min_value=1e-3, max_value=1e4), min_size=1, max_size=20))
def test_axes_are_marked_and_not_crowded(values: list[float]) -> None:
    """Three to eight marks, all within the axis, whatever the range."""
    figure: Any = draw_scatter([row(ttft_s=value, predicted_ttft_s=value * 1.3) for value in values], "ttft_s")
    low, high = (10**end for end in figure.layout.xaxis.range)
    marks = figure.layout.xaxis.tickvals
    assert 3 <= len(marks) <= 8
    assert all(low * 0.94 <= mark <= high * 1.06 for mark in marks)  # rounded to two digits


def test_names_in_the_ledger_are_no_markup() -> None:
    """A device's name comes from its driver."""
    odd = row(device="<img src=x>", model="a/b")
    figure: Any = draw_scatter([odd], "peak_bytes")
    for text in (scatter_head([odd], "peak_bytes"), newest_table([odd]), figure.data[-1].hovertemplate[0]):
        assert "<img" not in text


def test_a_picture_has_its_size_steps_and_seconds() -> None:
    """The table and the scatter have its seconds; a row of tokens has none."""
    run = {"ttft_s": None, "decode_tokens_per_s": None, "predicted_picture_s": 5.0, "picture_s": 4.0, "engine": "diffusers 0.42.1"}
    picture = row(**run, width=1024, height=768, steps=28, guidance=3.5)
    shown = newest_table([picture, row()])
    for words in ("1,024 × 768, 28 steps, guidance 3.5", "4 s", "predicted 5 s, 25 % too pessimistic", "diffusers 0.42.1"):
        assert words in shown
    assert "Seconds per picture: predicted against measured, median error 25 % on 1 run" in scatter_head([picture, row()], "picture_s")


def test_the_newest_rows_and_the_rest_behind_a_line() -> None:
    """Thirty rows: five are seen, twenty wait, and the files hold all."""
    shown = newest_table([row(when=f"2026-11-21T09:{minute:02}Z") for minute in range(30)])
    assert shown.count('<tr role="row"><th role="rowheader"') == 25
    assert "<summary>20 more, of 30; the files hold all</summary>" in shown
    assert "predicted 1.05 GiB, 5 % too high" in shown


def test_where_the_ledger_lies_is_said() -> None:
    """With and without rows, lasting or not, and what is wrong."""
    status = LedgerStatus(place="a file", lasting=True, rows=0, own_rows=0, problem=None, copied="Not copied.")
    assert "Nothing has been measured yet" in storage_line(status)
    assert "kept in a file, which outlives a restart." in storage_line(status)
    assert "3 rows, 1 of them from this machine." in storage_line(replace(status, rows=3, own_rows=1))
    lost = storage_line(replace(status, rows=1, own_rows=1, lasting=False, place="memory, until the app restarts", problem="Full."))
    assert "1 row, from this machine. New rows are kept in memory, until the app restarts. Full." in lost
