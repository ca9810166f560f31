"""The live demo in words and pictures: each figure beside its prediction, nothing that a model or device is called as markup."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from live_fake import GIB, beat, expected, measured, metrics, piece, row

from lib.live.device import Device
from lib.present.live_cards import (
    STAGES,
    chat_card,
    chat_text,
    compare_figures,
    device_line,
    expected_card,
    format_error,
    format_seconds,
    measure_card,
    measure_csv,
    measure_text,
    progress_line,
    ratio_bars,
    stage_list,
)
from lib.present.live_heartbeat import format_flops, heartbeat_card, heartbeat_text, phase_words, script_block
from lib.present.live_ledger import FIGURES, draw_scatter, newest_table, scatter_head, select_points, storage_line

CPU = Device(
    kind="cpu", name="Some <b>Processor</b>", accelerator=None, memory_bytes=16 * GIB, free_bytes=12 * GIB, capability=None, cores=2,
    driver=None, torch="2.13.0", transformers="5.23.0",
)  # fmt: skip


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (5.6e-6, "5.6 µs"),
        (1.64e-4, "0.164 ms"),
        (0.0234, "23.4 ms"),
        (0.7051, "705 ms"),
        (0.9999, "1 s"),
        (1.236, "1.24 s"),
        (1236, "1,240 s"),
    ],
)
def test_a_time_keeps_three_digits(seconds: float, text: str) -> None:
    """In the unit that suits it; a hundredth of a millisecond and more are milliseconds, as heartbeats are published."""
    assert format_seconds(seconds) == text


@given(st.floats(min_value=1e-6, max_value=1e5))
def test_a_time_in_words_is_the_time(seconds: float) -> None:
    """Read back it is within half of the third digit: 0.5 %."""
    number, unit = format_seconds(seconds).split(" ")
    assert float(number.replace(",", "")) * {"s": 1, "ms": 1e-3, "µs": 1e-6}[unit] == pytest.approx(seconds, rel=0.00501)


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


def test_an_answer_stands_beside_its_prediction() -> None:
    """Three figures, each with prediction, range and error; what is not known is said; names are no markup."""
    card = chat_card(metrics(), piece("done", "Hi", taken=metrics()))
    assert "<dd>400 ms<small>predicted 500 ms (250 ms to 1 s)</small><small>25 % too pessimistic</small>" in card
    assert "<dd>10 tokens/s<small>predicted 12 tokens/s (10 to 20 tokens/s)</small><small>25 % too optimistic</small>" in card
    assert "<dd>1.00 GiB<small>predicted 1.00 GiB</small><small>right to half a percent</small>" in card
    assert "Some &lt;Processor&gt;" in card
    assert "<typical>" not in card
    nothing: dict[str, Any] = dict.fromkeys(("ttft_s", "decode_tokens_per_s", "peak_bytes"))
    unknown = metrics(predicted=nothing | {"low": nothing, "high": nothing}, error_ratio=nothing)
    assert chat_card(unknown, piece("done")).count("not predicted") == 3


def test_one_token_has_no_speed() -> None:
    """What was not measured has no line."""
    assert [figure.name for figure in compare_figures(metrics(decode_tokens_per_s=None))] == ["Time to first token", "Peak memory"]


def test_the_answer_in_plain_words() -> None:
    """What was said, then what it took."""
    text = chat_text(" Hi there ", metrics())
    assert text.splitlines()[:3] == ["Hi there", "", "tiny-instruct on Some <Processor>"]
    assert "Peak memory: 1.00 GiB, predicted 1.00 GiB (right to half a percent)" in text


def test_the_bars_are_drawn_on_one_scale() -> None:
    """Predicted half of what was measured: 100 % and 50 %. Beyond twice the bar is cut, and without a prediction there is none."""
    assert re.findall(r"width:([\d.]+)%", ratio_bars(0.5)) == ["100.0", "50.0"]
    assert re.findall(r"width:([\d.]+)%", ratio_bars(2.0)) == ["50.0", "100.0"]
    assert re.findall(r"width:([\d.]+)%", ratio_bars(40.0)) == ["50.0", "100.0"]
    assert ratio_bars(None) == ""


def test_where_it_runs() -> None:
    """Cores and memory of a CPU; a GPU by its name; of ZeroGPU also what a second costs."""
    assert "<strong>CPU (2 cores, 16.0 GiB)</strong>, Some &lt;b&gt;Processor" in device_line(CPU, on_space=True)
    assert "The chat is answered by <strong>a/&lt;b&gt;</strong>." in device_line(CPU, on_space=True, chat="a/<b>")
    assert device_line(CPU, on_space=False).startswith('<p class="device" role="status">This app runs on')
    card = replace(CPU, kind="cuda", name="NVIDIA L4", memory_bytes=22 * GIB)
    assert "This Space runs on <strong>NVIDIA L4 (22.0 GiB)</strong>" in device_line(card, on_space=True)
    zero = replace(CPU, kind="zerogpu", name="ZeroGPU large", memory_bytes=48 * GIB)
    assert "takes 1.5 s of your own daily quota" in device_line(zero, on_space=True, quota_per_s=1.5)


def test_stages_tell_where_a_run_is() -> None:
    """Two done, one now, the others ahead; a note is text; a bar where the end is known."""
    shown = stage_list(STAGES, "weights")
    assert [shown.count(f'class="{kind}"') for kind in ("done", "now", "ahead")] == [2, 1, 2]
    assert "<progress" not in progress_line("At <work>")
    assert "At &lt;work&gt;" in progress_line("At <work>")
    assert '<progress max="9" value="3"' in progress_line("At work", 3, 9)


def test_a_measurement_beside_its_prediction() -> None:
    """The verdict first; a row for each figure; a pasted config is called that."""
    card = measure_card(measured(), "Qwen/Qwen3-0.6B")
    assert '<em class="badge fits">prediction confirmed</em> Memory: predicted 4.0% less' in card
    assert "4 % too low" in card
    assert 'aria-label="Measurement"' in card
    assert "the pasted config with random weights in bf16" in measure_card(measured(model=""), "{}")
    assert '<em class="badge lacks">not valid</em>' in measure_card(measured(verdict={"code": "invalid", "message": "No."}), "x")
    text = measure_text(measured(), "Qwen/Qwen3-0.6B")
    assert "Peak memory: 1.04 GiB, predicted 1.00 GiB (4 % too low)" in text
    assert measure_csv(measured()).splitlines()[3] == "peak_bytes,1118481067,1073741824,-0.04"


def test_what_is_expected_of_a_run() -> None:
    """1 GiB + 10 MiB + 20 MiB + 0.5 GiB = 1.53 GiB of 9; 0.5 s + 64 / 12.5 = 5.62 s of 120."""
    card = expected_card(expected(), "Qwen/Qwen3-0.6B")
    assert "weights 1.00 GiB + cache 10 MiB + activations 20 MiB + the process&#x27;s own" in card.replace("'", "&#x27;")
    assert "at most 1.53 GiB" in card
    assert "A run may take 9.00 GiB of the 10.0 GiB that are free. Predicted time 5.62 s; a run may take 120 s." in card
    assert "most likely the run will be refused" in expected_card(expected() | {"limit_s": 5.0}, "Qwen/Qwen3-0.6B")


def test_a_heartbeat_that_can_be_believed() -> None:
    """Cold apart from warm, floor, efficiency, rate: a 40 ms median over a floor of 10 ms is 25 %."""
    card = heartbeat_card(beat())
    assert '<span class="figure">40 ms</span> <em class="badge fits">valid</em>' in card
    for name, text in (("First product, cold", "200 ms"), ("Floor", "10 ms"), ("Efficiency", "25.0 %"), ("Achieved", "0.43 TFLOP/s")):
        assert f"<dt>{name}</dt><dd>{text}</dd>" in card
    assert "One product of 128 × 4,096 by 4,096 × 16,384 in float32, on Some &lt;Processor&gt;" in card
    assert "efficiency 25.0 %" in heartbeat_text(beat())


def test_a_heartbeat_that_cannot() -> None:
    """It says so first, and why; it has no efficiency."""
    card = heartbeat_card(beat(valid=False))
    assert "These times cannot be right.</strong> The shortest time was 0.0056 ms" in card
    assert '<em class="badge lacks">not valid</em>' in card
    assert "<dt>Efficiency</dt><dd>none</dd>" in card
    assert "NOT valid" in heartbeat_text(beat(valid=False))


def test_small_words_of_the_heartbeat() -> None:
    """How far it is; a rate in the unit that suits; the script as text."""
    assert phase_words({"phase": "warm", "done": 37, "of": 1000, "last_s": 0.0231}) == "Product 37 of 1,000, each awaited: 23.1 ms"
    assert phase_words({"phase": "cold", "done": 0, "of": 1, "last_s": None}).startswith("The first product")
    assert format_flops(1.24e10) == "12.4 GFLOP/s"
    assert format_flops(1.5e14) == "150.00 TFLOP/s"
    assert "&lt;b&gt;" in script_block("x.py", "print('<b>')")
    assert 'download="x.py"' in script_block("x.py", "print(1)")


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
    assert "2 runs; 2 of them predicted within 10 % (the shaded band). The median prediction is 2.5 % off." in head  # of 5 and 0


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


def test_the_newest_rows_and_the_rest_behind_a_line() -> None:
    """Thirty rows: five are seen, twenty wait, and the files hold all."""
    shown = newest_table([row(when=f"2026-11-21T09:{minute:02}Z") for minute in range(30)])
    assert shown.count('<tr role="row"><th role="rowheader"') == 25
    assert "<summary>20 more, of 30; the files hold all</summary>" in shown
    assert "predicted 1.05 GiB, 5 % too high" in shown


def test_where_the_ledger_lies_is_said() -> None:
    """With and without rows, lasting or not, and what is wrong."""
    status: dict[str, Any] = {"kept": "a file", "lasting": True, "rows": 0, "own_rows": 0, "problem": None, "copied": "Not copied."}
    assert "Nothing has been measured yet" in storage_line(status)
    assert "kept in a file, which outlives a restart." in storage_line(status)
    assert "3 rows, 1 of them from this machine." in storage_line(status | {"rows": 3, "own_rows": 1})
    lost = storage_line(status | {"rows": 1, "own_rows": 1, "lasting": False, "kept": "memory, until the app restarts", "problem": "Full."})
    assert "1 row, from this machine. New rows are kept in memory, until the app restarts. Full." in lost
