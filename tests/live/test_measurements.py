"""The ledger's rows as Parquet, and copied to the owner's dataset: through a stub, and through the Hub client's own scheduler."""

from __future__ import annotations

import base64
import io
import json
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hub_stand_in import Answer, StandIn, refuse
from measured_row import ROW, row

from lib.live import measurements as pushing
from lib.live.measurements import NAMES, DatasetPush, parquet_bytes, start_push

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hub_stand_in import Seen


def test_parquet_comes_back_with_its_types() -> None:
    """Whole numbers stay whole, what is missing is null, also when no row has it."""
    parquet = pytest.importorskip("pyarrow.parquet")
    table = parquet.read_table(io.BytesIO(parquet_bytes([ROW, row(peak_bytes=None, driver=None)])))
    assert table.column_names == list(NAMES)
    assert table["peak_bytes"].to_pylist() == [1_450_000_000, None]
    assert str(table.schema.field("peak_bytes").type) == "int64"
    assert str(table.schema.field("ttft_s").type) == "double"
    assert table["model"].to_pylist() == [ROW.model] * 2
    assert parquet.read_table(io.BytesIO(parquet_bytes([]))).num_rows == 0


class Stub:
    """A scheduler that commits nothing; remembers where it was told to look."""

    def __init__(self, dataset: str, folder: Path) -> None:
        self.dataset, self.folder = dataset, folder
        self.lock = threading.Lock()

    def push_to_hub(self) -> None:
        """Nothing."""

    def lines(self) -> list[dict[str, Any]]:
        """What a commit would take along."""
        return [json.loads(line) for file in sorted(self.folder.iterdir()) for line in file.read_text().splitlines()]


def test_rows_are_appended_for_the_scheduler() -> None:
    """One JSON line a row, in order, and the scheduler is started once."""
    started: list[Stub] = []
    copying = DatasetPush("ada/measured", lambda name, folder: started.append(Stub(name, folder)) or started[-1])
    copying.add(ROW)
    copying.wait(5)
    copying.add(row(when="2026-11-22"))
    copying.wait(5)
    assert [stub.dataset for stub in started] == ["ada/measured"]
    assert [line["when"] for line in started[0].lines()] == [ROW.when, "2026-11-22"]
    assert "every 5 minutes" in copying.status()


def test_off_unless_the_owner_asks() -> None:
    """Without the variable nothing is started."""

    def fail_to_start(*_: object) -> Stub:
        pytest.fail("started")

    copying = DatasetPush(None, fail_to_start)
    copying.add(ROW)
    copying.wait(1)
    assert "not copied" in copying.status()
    assert start_push({})._dataset is None
    assert start_push({"LEDGER_DATASET": " ada/measured "})._dataset == "ada/measured"
    assert start_push({"LEDGER_DATASET": "https://elsewhere/x"})._dataset is None


def test_failure_is_told_and_the_next_row_tries_again(caplog: pytest.LogCaptureFixture) -> None:
    """The first start fails: nothing is raised, the status says it without the error's words, and nothing is lost."""
    stubs: list[Stub] = []
    failures = [RuntimeError("secret words of the server")]

    def start(name: str, folder: Path) -> Stub:
        if failures:
            raise failures.pop()
        stubs.append(Stub(name, folder))
        return stubs[-1]

    copying = DatasetPush("ada/measured", start)
    copying.add(ROW)
    copying.wait(5)
    assert "RuntimeError" in copying.status()
    assert "secret" not in copying.status()
    assert "could not be handed" in caplog.text
    copying.add(row(when="2026-11-22"))
    copying.wait(5)
    assert [line["when"] for line in stubs[0].lines()] == [ROW.when, "2026-11-22"]
    assert "every 5 minutes" in copying.status()


def test_slow_hub_holds_nobody_up() -> None:
    """Starting the scheduler waits for the Hub; adding a row does not."""
    answered = threading.Event()

    def start(name: str, folder: Path) -> Stub:
        assert answered.wait(10)
        return Stub(name, folder)

    copying = DatasetPush("ada/measured", start)
    copying.add(ROW)
    copying.add(row(when="2026-11-22"))
    answered.set()
    copying.wait(5)
    assert "every" in copying.status()


class DatasetHub(StandIn):
    """A Hub that takes commits to datasets."""

    def __init__(self) -> None:
        super().__init__()
        self.committed: dict[str, str] = {}

    def answer(self, seen: Seen) -> Answer:
        """Repository, upload modes, commit."""
        path = seen.path.partition("?")[0]
        if path == "/api/repos/create":
            return Answer(body=json.dumps({"url": f"{self.url}/datasets/ada/measured"}).encode())
        if path.endswith("/preupload/main"):
            asked = json.loads(seen.body)["files"]
            told = [{"path": file["path"], "uploadMode": "regular", "shouldIgnore": False} for file in asked]
            return Answer(body=json.dumps({"files": told}).encode())
        if path.endswith("/commit/main"):
            for line in map(json.loads, seen.body.splitlines()):
                if line["key"] == "file":
                    self.committed[line["value"]["path"]] = base64.b64decode(line["value"]["content"]).decode()
            told = {"commitUrl": f"{self.url}/datasets/ada/measured/commit/1", "commitOid": "1", "success": True}
            return Answer(body=json.dumps(told).encode())
        return refuse(404, "", "unknown")


@pytest.fixture
def hub() -> Iterator[DatasetHub]:
    """The stand-in, running."""
    with DatasetHub() as running:
        yield running


def test_real_scheduler_commits_the_rows(hub: DatasetHub, monkeypatch: pytest.MonkeyPatch) -> None:
    """The Hub's own client makes a private dataset and commits the file, with the server's own token."""
    import huggingface_hub  # noqa: PLC0415

    kept = []

    def start(dataset: str, folder: Path) -> Any:
        api = huggingface_hub.HfApi(endpoint=hub.url, token="hf_server")  # noqa: S106
        real = huggingface_hub.CommitScheduler
        monkeypatch.setattr(huggingface_hub, "CommitScheduler", lambda **named: real(**named, hf_api=api))
        kept.append(pushing.commit_scheduler(dataset, folder))
        return kept[-1]

    copying = DatasetPush("ada/measured", start)
    copying.add(ROW)
    copying.wait(10)
    kept[0].trigger().result(10)
    kept[0].stop()
    (name, text), *others = hub.committed.items()
    assert not others
    assert name.startswith("data/measured-")
    assert json.loads(text)["model"] == ROW.model
    created = next(seen for seen in hub.requests if seen.path == "/api/repos/create")
    assert json.loads(created.body)["type"] == "dataset"
    assert {seen.headers["authorization"] for seen in hub.requests if "authorization" in seen.headers} == {"Bearer hf_server"}
