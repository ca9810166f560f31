"""Rows are read from each format, and answers are written in parts that are whole or absent."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from lib.answers.fleet import FleetRow
from lib.errors import Busy, InvalidInput
from lib.hub.datasets import FILE
from lib.provenance import Reason
from lib.service.fleet_files import Cells, FleetPart, Output, find_dataset, read_rows, require, split_parts

QUESTIONS: list[Cells] = [{"model": f"{size}B", "concurrency": size} for size in range(1, 8)]


def _answers(part: FleetPart) -> list[FleetRow]:
    reasons = (Reason("nothing_fits"),)
    return [
        FleetRow(row=row, label="", model=str(cells["model"]), reasons=reasons, prices="bundled", prices_checked="2026-07-21")
        for row, cells in part.rows()
    ]


def _write(path: Path, text: str) -> str:
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_the_same_rows_from_each_format(tmp_path: Path) -> None:
    """CSV with a byte order mark and quoted configurations, lines of JSON with a nested one, Parquet."""
    config = '{"model_type": "llama",\n "hidden_size": 64}'
    quoted = config.replace('"', '""')
    text = f'\ufeffmodel, label\n"{quoted}",a\n7B,b\n'
    rows = list(read_rows(_write(tmp_path / "in.csv", text)))
    assert rows == [{"model": config, "label": "a"}, {"model": "7B", "label": "b"}]
    for separator in ";\t":
        other = text.replace("model, label", f"model{separator} label").replace('",a', f'"{separator}a').replace("7B,b", f"7B{separator}b")
        assert list(read_rows(_write(tmp_path / "in.csv", other))) == rows
    lines = json.dumps({"model": json.loads(config), "label": "a"}) + "\n\n" + json.dumps({"model": "7B", "label": "b"})
    read = list(read_rows(_write(tmp_path / "in.jsonl", lines)))
    assert [json.loads(str(read[0]["model"])), read[1]] == [json.loads(config), rows[1]]
    parquet.write_table(pa.Table.from_pylist(rows), tmp_path / "in.parquet")
    assert list(read_rows(str(tmp_path / "in.parquet"))) == rows


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("in.csv", "name\nx\n", "'model' is missing"),
        ("in.csv", "", "no rows"),
        ("in.csv", "model\n", "no rows"),
        ("in.csv", "model,model\n7B,8B\n", "two columns"),
        ("in.csv", "model\n7B\n8B,9B\n", "Line 3"),
        ("in.csv", "model;label\n7B;a;b\n", "Put texts with ';' into quotes"),
        ("in.jsonl", '{"model": "7B"}\n{"model": \n', "Line 2"),
        ("in.jsonl", '["7B"]\n', "not an object"),
        ("in.parquet", "not Parquet", "Parquet"),
        ("in.xlsx", "", "Accepted: .csv"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path, name: str, text: str, words: str) -> None:
    """With the line, and what is accepted."""
    with pytest.raises(InvalidInput, match=words):
        list(read_rows(_write(tmp_path / name, text)))


def test_a_missing_file_and_a_missing_package_are_refused(tmp_path: Path) -> None:
    """The second with the command that installs it."""
    with pytest.raises(InvalidInput, match="cannot be read"):
        list(read_rows(str(tmp_path / "none.csv")))
    with pytest.raises(InvalidInput, match=r"pip install -r requirements-fleet\.txt"):
        require("no_such_package.data", "for nothing")


def test_parts_are_joined_and_none_is_written_twice(tmp_path: Path) -> None:
    """A second run answers what the first one left, in order; the file then holds each row once."""
    path = tmp_path / "out.parquet"
    parts = list(split_parts(QUESTIONS, 3))
    assert [part.first for part in parts] == [0, 3, 6]
    with Output(path) as first:
        first.write(parts[2], _answers(parts[2]))
        first.write(parts[0], _answers(parts[0]))
        with pytest.raises(InvalidInput, match="missing"):
            first.join()
    (first.parts / "part-000001.unfinished").write_bytes(b"half a file")  # of a killed run
    with Output(path) as second:
        assert [part.number for part in second.missing(parts)] == [1]
        second.write(parts[1], _answers(parts[1]))
        assert second.join() == len(QUESTIONS)
    table = parquet.read_table(path)
    assert table["row"].to_pylist() == list(range(7))
    assert table["reasons"][0].as_py()[0]["code"] == "nothing_fits"
    assert table.schema.field("usd_per_month").type == pa.float64()
    assert not second.parts.exists()
    assert second.complete


def test_parts_of_other_questions_are_refused(tmp_path: Path) -> None:
    """An input that was changed in between, or answers in another order."""
    part = next(split_parts(QUESTIONS, 3))
    changed = next(split_parts([{"model": "70B"}, *QUESTIONS], 3))
    with Output(tmp_path / "out.parquet") as output:
        output.write(part, _answers(part))
        with pytest.raises(InvalidInput, match="other questions"):
            list(output.missing([changed]))
        with pytest.raises(ValueError, match="other rows"):
            output.write(part, _answers(part)[::-1])


def test_two_runs_do_not_write_one_output(tmp_path: Path) -> None:
    """The second is refused while the first runs, and only then."""
    with Output(tmp_path / "out.parquet"), pytest.raises(Busy, match="Another run"), Output(tmp_path / "out.parquet"):
        pass
    with Output(tmp_path / "out.parquet"):
        pass
    with pytest.raises(InvalidInput, match="not the name of a Parquet file"):
        Output(tmp_path / "out.csv")


def test_ten_million_rows_are_not_held() -> None:
    """They are read as they are asked for."""
    read = 0

    def rows() -> object:
        nonlocal read
        for _ in range(10_000_000):
            read += 1
            yield {"model": "7B"}

    parts = split_parts(rows())  # type: ignore[arg-type]
    next(parts)
    next(parts)
    assert read == 500


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("datasets/ada/rows", "ada/rows"), ("hf://datasets/ada/rows", "ada/rows"), ("hf://datasets/ada/rows.csv", "ada/rows.csv"),
        ("datasets/ada/rows.parquet", None), ("datasets/ada", None), ("hf://ada/rows", None), ("datasets/../rows", None),
        ("datasets/ada/rows/data", None),
    ],
)  # fmt: skip
def test_a_dataset_is_named_as_the_hub_names_it(text: str, name: str | None) -> None:
    """Two ways to write it; what ends as a file is a file."""
    assert find_dataset(text) == name


@pytest.mark.skipif(importlib.util.find_spec("datasets") is None, reason="datasets is not installed (requirements-fleet.txt)")
def test_a_dataset_is_read_as_its_answers_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The library finds the rows of the split train in the file that answers are written to; a folder takes the place of the Hub."""
    file = tmp_path / "ada" / "rows" / FILE
    file.parent.mkdir(parents=True)
    parquet.write_table(pa.table({"model": ["7B", "8B"], "concurrency": [4, None]}), file)
    monkeypatch.chdir(tmp_path)
    assert list(read_rows("datasets/ada/rows")) == [{"model": "7B", "concurrency": 4}, {"model": "8B", "concurrency": None}]
