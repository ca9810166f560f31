"""The box for many models: rows of known models only, a few at a time, errors as rows, and a download that no spreadsheet runs."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from html import unescape
from urllib.parse import unquote

import gradio as gr
import pytest

from lib.catalog import load
from lib.errors import InvalidInput
from lib.present.fleet_cards import fleet_csv, fleet_finding, fleet_table
from lib.service.app import Services
from lib.service.endpoint import App
from lib.service.fleet_sheet import MOST_CHARACTERS, MOST_ROWS, STEP_ROWS, read_sheet, stream_sheet
from lib.service.models import Models
from lib.ui.fleet_box import EXAMPLE, build, fleet_scenes

LIST = """model,hardware,label
Qwen/Qwen2.5-0.5B-Instruct,t4-small,=1+1
Qwen/Qwen3-8B,a100-large,chat
org/unheard-of,l4x1,
7B,,@SUM(A1)
<script>alert(1)</script>,l4x1,-x
"""


@pytest.fixture(scope="module")
def services() -> Services:
    """Bundled prices; a model that has to be looked up would fail the test by its network call."""
    catalog = load()
    return Services(App(catalog=lambda: catalog, models=Models()))


def test_the_rows_so_far_are_shown_and_the_largest_bill_comes_first(services: Services) -> None:
    """The last picture has every row, an unknown model is an error row, and the busy ones say how far it is."""
    scenes = list(fleet_scenes(services, LIST))
    assert [bool(scene.get("busy")) for scene in scenes] == [True, True, True, False]
    assert "4 of 5 rows are answered" in scenes[2]["status"]
    finding, _, table = unescape(scenes[-1]["card"]).partition("<table")
    assert table.index("Qwen/Qwen3-8B") < table.index("Qwen/Qwen2.5-0.5B-Instruct") < table.index("is not known here yet")
    assert "costs $2,088 a month; moving 2 of them saves $2,088. 2 rows could not be answered." in finding
    assert "<script>alert" not in scenes[-1]["card"]


def test_cells_are_never_formulas(services: Services) -> None:
    """Neither labels nor models of the download begin as a formula does; the table is sorted by its numbers."""
    *_, last = services[stream_sheet](LIST)
    lines = fleet_csv(last.rows).splitlines()
    assert [line.split(",")[1] for line in lines[1:]] == ["'=1+1", "chat", "", "'@SUM(A1)", "'-x"]
    assert "=1+1" in unquote(unescape(fleet_table(last.rows)))
    assert 'data-key="1800.0"' in fleet_table(last.rows)
    assert fleet_finding(last.rows[2:3]) == "1 row could not be answered."
    assert fleet_finding([replace(last.rows[3], pick=None), last.rows[2]]) == "No hardware suits 1 row. 1 row could not be answered."
    assert fleet_finding(last.rows[3:4]) == "The picks of 1 row cost $0 a month together."


def test_each_step_is_short_and_a_stop_ends_the_work(services: Services) -> None:
    """A step answers few rows, so others take their turns between; closed early, the rest is not asked."""
    with closing(services[stream_sheet]("model\n" + "7B\n" * 50)) as steps:
        assert [len(step.rows) for step in (next(steps), next(steps), next(steps))] == [0, STEP_ROWS, 2 * STEP_ROWS]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no rows"),
        ("model", "no rows"),
        ("name\nx", "'model' is missing"),
        ("model\n" + "7B\n" * (MOST_ROWS + 1), f"more than {MOST_ROWS} rows"),
        ("model\n" + "x" * 200_000, "more than 200,000 characters"),
        ('model\n"7B', "not CSV"),
    ],
)
def test_a_list_that_cannot_be_used_is_refused(text: str, words: str) -> None:
    """With what is accepted; nothing of it is answered."""
    with pytest.raises(InvalidInput, match=words):
        read_sheet(text)
    assert len(read_sheet("\ufeffmodel\n" + "7B\n" * MOST_ROWS)) == MOST_ROWS


def test_a_file_that_is_too_long_is_refused_and_not_cut() -> None:
    """The field takes one character more than a list may have, so the list that a browser cuts there is refused."""
    with gr.Blocks():
        text = build().inputs[0]
    assert isinstance(text, gr.Textbox)
    with pytest.raises(InvalidInput, match="more than 200,000 characters"):
        read_sheet(("model\n" + "7B\n" * MOST_CHARACTERS)[: text.max_length])


def test_the_example_is_answered(services: Services) -> None:
    """The placeholder is a list that works."""
    *_, last = services[stream_sheet](EXAMPLE)
    assert [row.error_code for row in last.rows] == [None, None]
