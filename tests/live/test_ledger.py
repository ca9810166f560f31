"""The ledger: what it keeps, what it refuses, and how it gets by without a file."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import stat
import threading
import time
from dataclasses import asdict, fields
from pathlib import Path

import pytest
from llama import llama_config
from measured_row import ROW, row

from lib.errors import BadArgument, BadCatalog
from lib.live import ledger as ledger_file
from lib.live import measurements
from lib.live.ledger import Ledger, LedgerPlace, ledger_place
from lib.live.measurements import OPTIONAL, Measurement, bundled_rows, model_label, read_row
from lib.model import bundled
from lib.model.resolve import resolve_config

CONFIG = llama_config()


def _ledger(path: Path | None, most_rows: int = 100) -> Ledger:
    return Ledger(LedgerPlace(path=path, lasting=True, words="a file of the test"), most_rows=most_rows)


def test_row_comes_back_as_it_was_written(tmp_path: Path) -> None:
    """Also through another connection, after the first was closed."""
    ledger = _ledger(tmp_path / "new folder" / "ledger.sqlite3")
    assert ledger.keep(ROW)
    ledger.close()
    assert _ledger(tmp_path / "new folder" / "ledger.sqlite3").own_rows() == (ROW,)


def test_same_measurement_stands_once(tmp_path: Path) -> None:
    """A job's result that is merged twice is one row."""
    ledger = _ledger(tmp_path / "l.sqlite3")
    assert ledger.keep(ROW)
    assert not ledger.keep(row())
    assert ledger.own_rows() == (ROW,)


def test_oldest_rows_go_first(tmp_path: Path) -> None:
    """Room for three: of five the first two are gone."""
    ledger = _ledger(tmp_path / "l.sqlite3", most_rows=3)
    for minute in range(5):
        ledger.keep(row(when=f"2026-11-21T09:3{minute}Z"))
    assert [r.when[-3:-1] for r in ledger.own_rows()] == ["32", "33", "34"]


def test_each_row_is_read_once_and_what_others_write_or_delete_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full ledger takes seconds to read: a visit reads what is new. Of four rows one in the middle goes, so the rest is read anew."""
    path, seen = tmp_path / "l.sqlite3", []
    ledger, other = _ledger(path), _ledger(path)
    monkeypatch.setattr(ledger_file, "read_row", lambda found: seen.append(found["when"][-3:-1]) or read_row(found))
    for minute in range(3):
        other.keep(row(when=f"2026-11-21T09:3{minute}Z"))
    assert [r.when[-3:-1] for r in ledger.own_rows()] == ["30", "31", "32"]
    other.keep(row(when="2026-11-21T09:33Z"))
    assert [r.when[-3:-1] for r in ledger.own_rows()] == ["30", "31", "32", "33"]
    assert len(ledger.own_rows()) == 4
    assert seen == ["30", "31", "32", "33"]
    with sqlite3.connect(path) as third:
        third.execute("DELETE FROM measurement WHERE \"when\" LIKE '%:31Z'")
    assert [r.when[-3:-1] for r in ledger.own_rows()] == ["30", "32", "33"]


def test_rows_are_newest_first_with_the_shipped_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Own and shipped rows stand together, each once."""
    old = row(when="2026-11-01", provenance="shipped with the app")
    monkeypatch.setattr(ledger_file, "bundled_rows", lambda: (old, ROW))
    ledger = _ledger(tmp_path / "l.sqlite3")
    ledger.keep(ROW)
    assert ledger.rows() == (ROW, old)


def test_shipped_rows_are_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No file is no row; a broken one is our mistake."""
    monkeypatch.setattr(measurements, "DATA", tmp_path)
    bundled_rows.cache_clear()
    assert bundled_rows() == ()
    for text, told in (('{"rows": [{}]}', "fields"), ("[", "JSON")):
        (tmp_path / "measured.json").write_text(text, encoding="utf-8")
        bundled_rows.cache_clear()
        with pytest.raises(BadCatalog, match=told):
            bundled_rows()
    (tmp_path / "measured.json").write_text(json.dumps({"rows": [asdict(ROW)]}), encoding="utf-8")
    bundled_rows.cache_clear()
    assert bundled_rows() == (ROW,)
    bundled_rows.cache_clear()


def test_real_shipped_rows_can_be_read() -> None:
    """Whatever comes with the app today passes the same checks."""
    bundled_rows.cache_clear()
    assert all(isinstance(r, Measurement) for r in bundled_rows())


def test_two_writers_of_one_file_do_not_lose_rows(tmp_path: Path) -> None:
    """Two connections, four threads, a hundred rows: all are there."""
    path = tmp_path / "l.sqlite3"
    ledgers = [_ledger(path, most_rows=1000), _ledger(path, most_rows=1000)]

    def write(which: int) -> None:
        for n in range(25):
            ledgers[which % 2].keep(row(prompt_tokens=1000 * which + n))

    threads = [threading.Thread(target=write, args=(which,)) for which in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({r.prompt_tokens for r in ledgers[0].own_rows()}) == 100
    assert [ledger.status().problem for ledger in ledgers] == [None, None]


@pytest.mark.parametrize("opened_before", [True, False])
def test_row_that_finds_the_file_locked_is_written_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opened_before: bool) -> None:
    """Another program holds the file longer than the patience: rows are seen and counted meanwhile, and in the file once it lets go."""
    monkeypatch.setattr(ledger_file, "_PATIENCE_S", 0.05)
    monkeypatch.setattr(ledger_file, "_LATE_S", 0.05)
    path, late = tmp_path / "l.sqlite3", row(when="2026-11-22")
    first, ledger = _ledger(path), _ledger(path)
    first.keep(ROW)
    first.close()
    if opened_before:
        assert ledger.own_rows() == (ROW,)
    other = sqlite3.connect(path, isolation_level=None, timeout=5)
    if not opened_before:
        other.execute("PRAGMA journal_mode=DELETE")  # in which a lock keeps readers out too, and those who open the file
    other.execute("BEGIN EXCLUSIVE")
    assert ledger.keep(late)
    assert not ledger.keep(late)
    assert late in ledger.own_rows()
    assert "rows that wait to be written: 1" in (ledger.status().problem or "")
    other.execute("COMMIT")
    until = time.monotonic() + 20
    while ledger.status().problem and time.monotonic() < until:
        time.sleep(0.02)
    assert ledger.status().problem is None
    assert _ledger(path).own_rows() == ledger.own_rows() == (ROW, late)
    other.close()


def test_unusable_place_means_memory_and_says_so(tmp_path: Path) -> None:
    """A file where a folder should be: rows are still kept, and the status tells it without the path."""
    (tmp_path / "taken").write_text("x", encoding="utf-8")
    ledger = _ledger(tmp_path / "taken" / "l.sqlite3")
    assert ledger.keep(ROW)
    assert ledger.own_rows() == (ROW,)
    status = ledger.status()
    assert status.problem is not None
    assert "memory" in status.place
    assert not status.lasting
    assert str(tmp_path) not in f"{status}"


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes anywhere")
def test_read_only_folder_means_memory(tmp_path: Path) -> None:
    """A folder that may not be written."""
    tmp_path.chmod(stat.S_IRUSR | stat.S_IXUSR)
    ledger = _ledger(tmp_path / "l.sqlite3")
    assert ledger.keep(ROW)
    assert ledger.status().problem is not None
    tmp_path.chmod(stat.S_IRWXU)


def test_a_file_of_version_1_keeps_its_rows_and_takes_pictures(tmp_path: Path) -> None:
    """It is given the columns that it lacks; its rows have the digest that they had, so none is kept twice."""
    path, cells = tmp_path / "l.sqlite3", {name: value for name, value in asdict(ROW).items() if name not in OPTIONAL}
    digest = hashlib.sha256(json.dumps(cells, sort_keys=True).encode()).hexdigest()
    with sqlite3.connect(path) as first:
        first.execute(f"CREATE TABLE measurement (digest TEXT PRIMARY KEY, {', '.join(f'{name!r}' for name in cells)})")
        first.execute(f"INSERT INTO measurement VALUES ({', '.join('?' * (1 + len(cells)))})", (digest, *cells.values()))  # noqa: S608
        first.execute("PRAGMA user_version = 1")
    first.close()
    ledger, picture = _ledger(path), row(picture_s=4.5, width=1024, height=1024, steps=28, guidance=0.0)
    assert not ledger.keep(ROW)
    assert ledger.keep(picture)
    assert _ledger(path).own_rows() == (ROW, picture)
    assert ledger.status().problem is None


@pytest.mark.parametrize(
    ("make", "told"),
    [
        ("PRAGMA user_version = 7", "version 7"),
        ("CREATE TABLE other (x)", "another program's"),
    ],
)
def test_file_that_is_not_ours_is_left_alone(tmp_path: Path, make: str, told: str) -> None:
    """A newer app's ledger and another program's file keep every byte."""
    path = tmp_path / "l.sqlite3"
    with sqlite3.connect(path) as other:
        other.execute(make)
    other.close()
    before = path.read_bytes()
    ledger = _ledger(path)
    ledger.keep(ROW)
    assert told in (ledger.status().problem or "")
    assert ledger.own_rows() == (ROW,)
    assert path.read_bytes() == before


def test_garbage_instead_of_a_database(tmp_path: Path) -> None:
    """A file that SQLite cannot read is left alone too."""
    path = tmp_path / "l.sqlite3"
    path.write_bytes(b"no database at all " * 100)
    ledger = _ledger(path)
    assert ledger.keep(ROW)
    assert "DatabaseError" in (ledger.status().problem or "")
    assert path.read_bytes() == b"no database at all " * 100


def test_file_that_breaks_later_does_not_take_the_rows_along(tmp_path: Path) -> None:
    """The table is dropped under the ledger: the next row is kept in memory, and the measurement is not lost."""
    path = tmp_path / "l.sqlite3"
    ledger = _ledger(path)
    ledger.keep(ROW)
    with sqlite3.connect(path) as other:
        other.execute("DROP TABLE measurement")
    other.close()
    assert ledger.keep(row(when="2026-11-22"))
    assert [r.when for r in ledger.own_rows()] == ["2026-11-22"]
    assert "could no longer be written" in (ledger.status().problem or "")


def test_full_disk_keeps_what_can_still_be_read(tmp_path: Path) -> None:
    """Writing fails, reading does not: the old rows are carried over into memory."""
    path = tmp_path / "l.sqlite3"
    ledger = _ledger(path)
    ledger.keep(ROW)
    assert ledger._open is not None
    ledger._open.execute("PRAGMA query_only = ON")  # every write is refused from now on, as on a full disk
    assert ledger.keep(row(when="2026-11-22"))
    assert [r.when for r in ledger.own_rows()] == [ROW.when, "2026-11-22"]


def test_row_of_a_tampered_file_is_left_out(tmp_path: Path) -> None:
    """What does not pass the checks of a row is not shown."""
    path = tmp_path / "l.sqlite3"
    ledger = _ledger(path)
    ledger.keep(ROW)
    ledger.keep(row(when="2026-11-22"))
    with sqlite3.connect(path) as other:
        other.execute("UPDATE measurement SET model = '<script>' WHERE \"when\" = '2026-11-22'")
    other.close()
    assert ledger.own_rows() == (ROW,)


def test_place_follows_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """LEDGER_PATH first, then a mounted volume, then the user's own folder; on a Space only a volume outlives a restart."""
    never = lambda _: False  # noqa: E731
    told = ledger_place({"LEDGER_PATH": str(tmp_path / "x.sqlite3")}, never)
    assert (told.path, told.lasting) == (tmp_path / "x.sqlite3", True)
    on_space = {"SPACE_ID": "a/b", "LEDGER_PATH": str(tmp_path / "x.sqlite3")}
    assert not ledger_place(on_space, never).lasting
    assert ledger_place(on_space, lambda folder: folder == tmp_path).lasting
    monkeypatch.setattr(ledger_file, "VOLUME", tmp_path)
    assert ledger_place({"SPACE_ID": "a/b"}, lambda folder: folder == tmp_path).path == tmp_path / "ledger.sqlite3"
    own = ledger_place({"XDG_DATA_HOME": "/somewhere"}, never)
    assert own.path == Path("/somewhere/spaces-hardware-advisor/ledger.sqlite3")
    assert own.lasting
    assert not ledger_place({"SPACE_ID": "a/b"}, never).lasting


def test_status_says_what_a_restart_does() -> None:
    """On a Space without a volume visitors read that the rows go, in their own terms."""
    lost = Ledger(LedgerPlace(path=None, lasting=False, words="a file in the app's own folder")).status()
    assert "lost when the Space restarts" in lost.place
    assert "LEDGER_PATH" not in lost.place + ledger_place({"LEDGER_PATH": "x"}, lambda _: False).words  # a visitor cannot set it


@pytest.mark.parametrize(
    "wrong",
    [
        {"when": "yesterday"},
        {"when": "2026-11-21T09:30:12.123456Z"},  # finer than a minute could tell who was there
        {"kind": "visit"},
        {"weights": "mine"},
        {"model": "../../etc"},
        {"model": "a b"},
        {"model": "hf_abcdefghijklmnop"},
        {"device": "x" * 201},
        {"device": "line\nbreak"},
        {"device": None},
        {"provenance": "Bearer abc"},
        {"provenance": "with hf_abcdefghijkl"},
        {"prompt_tokens": -1},
        {"prompt_tokens": True},
        {"peak_bytes": 1.5},
        {"ttft_s": float("nan")},
        {"ttft_s": 0},
        {"picture_s": 0.0},
        {"guidance": -1.0},
        {"steps": 2.5},
        {"decode_tokens_per_s": float("inf")},
        {"decode_tokens_per_s": "fast"},
    ],
)
def test_row_refuses_what_does_not_belong_there(wrong: dict[str, object]) -> None:
    """Rows also come from files and logs of jobs."""
    with pytest.raises(BadArgument):
        row(**wrong)


def test_row_from_json_has_exactly_its_fields() -> None:
    """One more or one less is refused; the same comes back."""
    good = json.loads(json.dumps(asdict(ROW)))
    assert read_row(good) == ROW
    for odd in (good | {"prompt": "my secret"}, {k: v for k, v in good.items() if k != "when"}):
        with pytest.raises(BadArgument):
            read_row(odd)


def test_there_is_no_field_for_a_visitor() -> None:
    """The columns are these: none holds a prompt, an address, a name or a token."""
    assert {f.name for f in fields(Measurement)} == {
        "when", "kind", "device", "accelerator", "devices", "driver", "torch", "engine", "model", "architecture", "weights", "precision",
        "prompt_tokens", "output_tokens", "predicted_peak_bytes", "peak_bytes", "predicted_ttft_s", "ttft_s",
        "predicted_decode_tokens_per_s", "decode_tokens_per_s", "provenance", "predicted_picture_s", "picture_s", "width", "height",
        "steps", "guidance",
    }  # fmt: skip


def test_pasted_config_becomes_class_and_digest() -> None:
    """Same shapes, same label; one more layer, another; nothing else of the text is in it."""
    spec = resolve_config(CONFIG | {"_name_or_path": "secret-lab/secret-model"})
    wider = resolve_config(CONFIG | {"num_hidden_layers": 3})
    assert model_label(spec).startswith("LlamaForCausalLM#")
    assert model_label(spec) == model_label(resolve_config(CONFIG))
    assert model_label(spec) != model_label(wider)
    assert "secret" not in model_label(spec)
    assert row(model=model_label(spec)).model == model_label(spec)


def test_bundled_model_keeps_its_id() -> None:
    """A public id stands as it is."""
    spec = bundled.find_spec("Qwen/Qwen3-0.6B")
    assert spec is not None
    assert model_label(spec) == "Qwen/Qwen3-0.6B"
