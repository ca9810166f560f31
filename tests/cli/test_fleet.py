"""`fleet` through the real client against the stand-ins: an account's models, Jobs with their price, a shard that fails, a schedule."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import huggingface_hub.constants
import pytest
from click.testing import CliRunner, Result
from hub_stand_in import Fault, Repo
from jobs_stand_in import FakeDataset, JobsStandIn, Outcome
from prices_stand_in import as_listed
from pyarrow import parquet
from space_stand_in import FakeSpace, SpaceStandIn

from lib.catalog import load
from lib.cli import fleet as command
from lib.cli.app import main
from lib.hub.datasets import FILE, DatasetFile
from lib.hub.jobs import Jobs
from lib.service.fleet import answer_row
from lib.service.fleet_files import split_parts
from lib.service.models import Models

Fleet = Callable[..., Result]
FLAVOR = "cpu-upgrade"


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[JobsStandIn]:
    """The stand-in, and this machine logged in there; parts of two rows."""
    monkeypatch.setattr(split_parts, "__defaults__", (2,))
    with JobsStandIn() as running:
        monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", running.url)
        monkeypatch.setenv("HF_TOKEN", "hf_ada")
        monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
        yield running


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    """Run the command over seven questions."""
    (tmp_path / "in.csv").write_text("model,hardware\n" + "".join(f"{size}B,l4x1\n" for size in range(1, 8)), encoding="utf-8")

    def run(*options: str, typed: str | None = None) -> Result:
        return CliRunner().invoke(main, ["fleet", str(tmp_path / "in.csv"), str(tmp_path / "out.parquet"), *options], input=typed)

    return run


def test_the_price_comes_first_and_nothing_starts_without_go(hub: JobsStandIn, fleet: Fleet, tmp_path: Path) -> None:
    """Two jobs of half an hour at 0.03 are at most 0.03; a live price of 0.06 counts; no is no; a time-out that is too short is refused."""
    seen = fleet("--jobs", "2", "--timeout", "1800")
    assert seen.exit_code == 0, seen.output
    assert "Together at most 0.03 USD" in seen.output
    assert "Nothing was started. Add --go" in seen.output
    hub.prices = as_listed("jobs", cpu_upgrade="0.06")
    asked = fleet("--jobs", "2", "--timeout", "1800", "--go", typed="n\n")
    assert asked.exit_code == 7
    assert "at most 0.06 USD" in asked.output
    (tmp_path / "in.csv").write_text("model\n" + "7B\n" * 20_000, encoding="utf-8")
    short = fleet("--jobs", "1", "--timeout", "60", "--go", "--yes")
    assert short.exit_code == 1
    assert "Set --timeout" in short.output
    assert not hub.jobs
    assert not (tmp_path / "out.parquet").exists()


@pytest.mark.slow
def test_a_shard_that_fails_is_given_to_a_second_job(hub: JobsStandIn, fleet: Fleet, tmp_path: Path) -> None:
    """The first job dies without an answer, the second answers its shard, a third the rest: the same rows as here, each once."""
    hub.outcomes[FLAVOR] = [Outcome(lines=("out of disk",), stage="ERROR", message="Exit code: 1"), Outcome(execute=True)]
    seen = fleet("--jobs", "2", "--go", "--yes")
    assert seen.exit_code == 0, (seen.output, [job.lines for job in hub.jobs.values()])
    assert "ended as ERROR Exit code: 1" in seen.output
    assert len(hub.jobs) == 4  # two rounds of two, because four parts are dealt to two jobs and one half is missing
    table = parquet.read_table(tmp_path / "out.parquet")
    assert table["row"].to_pylist() == list(range(7))
    expected = [answer_row(Models(), load(), at, {"model": f"{at + 1}B", "hardware": "l4x1"}) for at in range(7)]
    assert table["per_device_bytes"].to_pylist() == [row.per_device_bytes for row in expected]
    assert table["saving_usd_per_month"].to_pylist() == [float(row.saving_usd_per_month or 0) for row in expected]
    job = hub.jobs["job1"]
    assert "hf_ada" not in job.script + json.dumps(job.request)
    (tmp_path / "out.parquet").unlink()
    again = fleet("--jobs", "2", "--go", "--yes")
    assert again.exit_code == 0, again.output
    assert len(hub.jobs) == 4  # the answers were in the bucket: nothing is paid twice


def test_no_credit_and_lost_jobs_are_sentences(hub: JobsStandIn, fleet: Fleet, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without credit nothing runs; a job that never answers is given up after two rounds; one of a killed command is waited for."""
    hub.faults["/api/jobs/ada"] = Fault(status=402)
    refused = fleet("--jobs", "2", "--go", "--yes")
    assert refused.exit_code == 4
    assert "needs credits" in refused.output
    hub.faults.clear()
    monkeypatch.setattr(Jobs, "look_every_s", 0.05)
    hub.outcomes[FLAVOR] = Outcome(stage="ERROR", message="no disk")
    lost = fleet("--jobs", "1", "--go", "--yes")
    assert lost.exit_code == 1
    assert "4 of 4 parts have no answers after 2 rounds" in lost.output
    assert len(hub.jobs) == 2
    started = tmp_path / "out.parquet.parts" / "jobs.json"
    assert not started.exists()
    started.write_text(json.dumps([{"id": "job0", "owner": "ada", "url": "u"}]), encoding="utf-8")
    assert "started by an earlier command" in fleet("--jobs", "1", "--go", "--yes").output


def test_answers_go_into_a_private_dataset(hub: JobsStandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new one is private and has the rows of the file here; a second run asks nothing; a lost race writes nothing and is made up for."""
    monkeypatch.chdir(tmp_path)
    Path("in.csv").write_text("model\n7B\n", encoding="utf-8")

    def fleet(out: str) -> Result:
        return CliRunner().invoke(main, ["fleet", "in.csv", out, "--workers", "1"])

    seen = fleet("datasets/ada/answers")
    assert seen.exit_code == 0, seen.output
    dataset = hub.datasets["ada/answers"]
    assert (dataset.private, dataset.commits) == (True, 1)
    assert parquet.read_table(BytesIO(dataset.files[FILE]))["model"].to_pylist() == ["7B"]
    assert not Path("ada--answers.parquet").exists()
    assert "hf_ada" not in seen.output
    again = fleet("hf://datasets/ada/answers")
    assert again.exit_code == 1
    assert "has answers already" in again.output

    Path("ada--raced.parquet").write_bytes(dataset.files[FILE])  # an earlier run could not write it to the Hub
    hub.datasets["ada/raced"] = FakeDataset(private=False)
    look = DatasetFile.look
    monkeypatch.setattr(DatasetFile, "look", lambda self: replace(look(self), revision="f" * 40))
    raced = fleet("datasets/ada/raced")
    assert raced.exit_code == 6
    assert "Another run wrote to the dataset" in raced.output
    monkeypatch.setattr(DatasetFile, "look", look)
    assert "in the public dataset" in fleet("datasets/ada/raced").output
    assert hub.datasets["ada/raced"].files[FILE] == dataset.files[FILE]


def test_dataset_that_cannot_take_answers_is_refused_first(hub: JobsStandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One with other files, a Hub that fails, and no login: nothing is answered."""
    monkeypatch.chdir(tmp_path)
    hub.datasets["ada/photos"] = FakeDataset(private=True, files={"a.jpg": b""})
    (tmp_path / "in.csv").write_text("model\n7B\n", encoding="utf-8")

    def fleet(out: str) -> Result:
        return CliRunner().invoke(main, ["fleet", "in.csv", out])

    assert "has other files, such as a.jpg" in fleet("datasets/ada/photos").output
    hub.faults["/api/datasets/ada/photos"] = Fault(status=403)
    assert "The token may not do this (reading the dataset ada/photos)" in fleet("datasets/ada/photos").output
    monkeypatch.delenv("HF_TOKEN")
    assert "a Hugging Face login is needed" in fleet("datasets/ada/new").output
    assert [path.name for path in tmp_path.iterdir() if path.name != "home"] == ["in.csv"]


def test_schedule_is_a_cron_expression(hub: JobsStandIn, fleet: Fleet) -> None:
    """Five fields or a word; anything else is refused before the price."""
    assert "each time (0 6 * * 1)" in fleet("--jobs", "1", "--schedule", "0 6 * * 1").output
    for wrong in ("weekly", "* * * *", "@never", "0 6 * * 1; rm"):
        refused = fleet("--jobs", "1", "--schedule", wrong, "--go", "--yes")
        assert refused.exit_code != 0
        assert "five fields such as" in refused.output
    assert not hub.scheduled


def test_a_schedule_starts_nothing_now(hub: JobsStandIn, fleet: Fleet) -> None:
    """The questions are in the bucket, and the platform has the times."""
    seen = fleet("--jobs", "1", "--schedule", "@weekly", "--go", "--yes")
    assert seen.exit_code == 0, seen.output
    (asked,) = hub.scheduled
    assert asked["schedule"] == "@weekly"
    assert asked["jobSpec"]["environment"] == {"ADVISOR_FOLDER": "/advisor"}
    assert any(name.startswith("fleet/") and "questions" in name for name in hub.bucket)
    assert not hub.jobs
    assert "each time (@weekly)" in seen.output


def test_an_account_s_models_are_rows(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Those that its Spaces link, on their hardware, then its own; a Space without hardware has none."""
    asked: list[str] = []
    monkeypatch.setattr(
        command, "_answer", lambda parts, *_, **__: asked.extend(str(dict(c)) for part in parts for c in part.cells) or False
    )
    with SpaceStandIn() as stand_in:
        monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", stand_in.url)
        stand_in.add_space(FakeSpace(id="ada/chat", hardware="l4x1", requested="l4x1", models=["Qwen/Qwen3-8B"]))
        stand_in.add_space(FakeSpace(id="ada/page", sdk="static", hardware=None, requested=None, models=["Qwen/Qwen3-8B"]))
        stand_in.add(Repo(id="ada/own-model", files={}))
        stand_in.add(Repo(id="bob/other", files={}))
        seen = CliRunner().invoke(main, ["fleet", "--owner", "ada", str(tmp_path / "out.parquet")])
    assert seen.exit_code == 0, seen.output
    assert asked == [str({"model": "Qwen/Qwen3-8B", "hardware": "l4x1", "label": "ada/chat"}), str({"model": "ada/own-model"})]


@pytest.mark.parametrize(
    "words",
    [("in.csv",), ("in.csv", "out.parquet", "--go"), ("a", "b", "--ray", "auto", "--jobs", "2"), ("--owner", "ada", "a", "b")],
)
def test_wrong_words_are_refused(words: tuple[str, ...]) -> None:
    """Exit status 2, before anything is read."""
    assert CliRunner().invoke(main, ["fleet", *words]).exit_code == 2
