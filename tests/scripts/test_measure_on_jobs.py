"""Measuring on Jobs: plan, price, confirmation, the script that travels, its log, the ledger. Through the real Hub client over HTTP."""

from __future__ import annotations

import json
import os
import stat
import sys
import time
from dataclasses import asdict, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner
from contract import TINY_CONFIG
from hub_stand_in import Fault
from jobs_stand_in import JobsStandIn, Outcome, run
from measured_row import row
from prices_stand_in import as_listed

from lib.catalog import load
from lib.cli import job_runs
from lib.errors import AgainstRules, HubError, HubGarbage, NotPermitted, PaymentNeeded, RateLimited, TooLong, UnknownHardware
from lib.hub.jobs import Jobs, mark_result, own_script, parse_results, vllm_script, zip_sources
from lib.live.ledger import Ledger, LedgerPlace
from lib.live.measurements import NAMES, Measurement
from lib.service import job_starts
from lib.service.endpoint import App
from lib.service.job_plans import JobRequest, most_usd
from lib.service.jobs import PROGRAMS, find_program, plan_job, read_log
from lib.service.models import Models
from scripts import measure_on_jobs

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ROW = row(
    kind="job",
    model="Qwen/Qwen3-8B",
    predicted_peak_bytes=17_000_000_000,
    peak_bytes=16_900_000_000,
    predicted_ttft_s=0.2,
    ttft_s=0.21,
    predicted_decode_tokens_per_s=15.0,
    decode_tokens_per_s=14.5,
    provenance="Hugging Face Jobs, l4x1",
)
ASKED = JobRequest(models=("Qwen/Qwen3-8B",), prompt_tokens=512, output_tokens=64, precision="bf16")
VLLM = {
    "model": "Qwen/Qwen3-8B",
    "first_s": [0.06, 0.05, 0.05],
    "whole_s": [1.05, 1.05, 1.3],
    "device": "NVIDIA A100-SXM4-80GB",
    "driver": "580.65.06",
    "torch": "2.13.0",
    "vllm": "0.32.0",
}
LINE = mark_result({"row": asdict(ROW)})


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[JobsStandIn]:
    """The stand-in, and this machine logged in there."""
    from huggingface_hub import constants  # noqa: PLC0415

    with JobsStandIn() as running:
        monkeypatch.setattr(constants, "ENDPOINT", running.url)
        monkeypatch.setenv("HF_TOKEN", "hf_ada")
        monkeypatch.setenv("HF_HUB_DISABLE_PROGRESS_BARS", "1")
        monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
        yield running


def _jobs(hub: JobsStandIn, token: str = "hf_ada") -> Jobs:  # noqa: S107
    return Jobs(token, endpoint=hub.url)


def _command(tmp_path: Path, *more: str, models: tuple[str, ...] = ("Qwen/Qwen3-8B",), answer: str | None = None) -> Any:
    flags = ["--ledger", str(tmp_path / "l.sqlite3"), *more]
    return CliRunner().invoke(measure_on_jobs.main, [*models, *flags], input=answer)


def _rows(tmp_path: Path) -> tuple[Measurement, ...]:
    return Ledger(LedgerPlace(path=tmp_path / "l.sqlite3", lasting=True, words="a file")).own_rows()


def test_plan_costs_the_whole_time_out_at_the_price() -> None:
    """Half an hour on an L4 at 0.80 is 0.40; on four A100 at 10.00 it is 5.00: exact, and together 5.40."""
    plans = [plan_job(flavor, 1800, load()) for flavor in ("l4x1", "a100x4")]
    assert [plan.most_usd for plan in plans] == [Decimal("0.40"), Decimal(5)]
    assert most_usd(plans) == Decimal("5.40")
    assert [plan.engine for plan in plans] == ["transformers", "vllm"]
    assert plan_job("cpu-upgrade", 3600, load()).engine == "transformers"


def test_a_bound_is_never_rounded_down(hub: JobsStandIn, tmp_path: Path) -> None:
    """A minute on an L4 at 0.80 is 0.0133 USD, half an hour of cpu-basic at 0.01 is 0.005: at most 0.02 and 0.01, not 0.01 and 0.00."""
    minute = _command(tmp_path, "--flavor", "l4x1", "--timeout", "60")
    assert "Together at most 0.02 USD" in minute.output
    cheap = _command(tmp_path, "--flavor", "cpu-basic")
    assert "Together at most 0.01 USD" in cheap.output
    assert not hub.jobs


def test_flavor_that_cannot_be_had() -> None:
    """An unknown one and one without a price start nothing."""
    with pytest.raises(UnknownHardware):
        plan_job("v5e-1x1", 1800, load())
    catalog = load()
    retired = replace(catalog, offers=tuple(o.model_copy(update={"status": "retired"}) if o.id == "l4x1" else o for o in catalog.offers))
    with pytest.raises(AgainstRules, match="no longer offered"):
        plan_job("l4x1", 1800, retired)
    unpriced = replace(catalog, offers=tuple(o.model_copy(update={"usd_per_hour": None}) if o.id == "l4x1" else o for o in catalog.offers))
    with pytest.raises(AgainstRules, match="price"):
        plan_job("l4x1", 1800, unpriced)


def test_dry_run_shows_prices_and_starts_nothing(hub: JobsStandIn, tmp_path: Path) -> None:
    """By default; the price list is asked for anonymously, nothing else is asked."""
    seen = _command(tmp_path, "--flavor", "l4x1", "--flavor", "a100x4")
    assert seen.exit_code == 0, seen.output
    assert "at most 5.40 USD" in seen.output
    assert "Nothing was started" in seen.output
    assert not hub.jobs
    assert not any("authorization" in request.headers for request in hub.requests)


def test_what_does_not_fit_is_refused_with_the_arithmetic(hub: JobsStandIn, tmp_path: Path) -> None:
    """Qwen3-32B in bf16 holds 61 GiB of weights, an L4 has 22.

    A flavor that holds it does not help the one that does not: nothing is started, with or without a yes.
    """
    seen = _command(tmp_path, "--flavor", "l4x1", "--flavor", "a100-large", "--go", "--yes", models=("Qwen/Qwen3-32B",))
    assert seen.exit_code == 2
    assert "Qwen/Qwen3-32B does not fit l4x1: weights 61.0 GiB + cache" in seen.output
    assert "does not fit a100-large" not in seen.output
    assert "Nothing was started." in seen.output
    assert not hub.jobs
    assert "fits was not checked" in _command(tmp_path, "--flavor", "l4x1", models=("org/unheard-of",)).output


def test_live_price_is_the_one_that_is_shown(hub: JobsStandIn, tmp_path: Path) -> None:
    """The platform's own list of now, not the bundled one."""
    hub.prices = as_listed("jobs", l4x1="1.20")
    seen = _command(tmp_path, "--flavor", "l4x1", "--timeout", "3600")
    assert "at most 1.20 USD" in seen.output
    assert "live prices" in seen.output


@pytest.mark.parametrize("answer", ["n\n", "\n", ""])
def test_without_a_yes_nothing_starts(hub: JobsStandIn, tmp_path: Path, answer: str) -> None:
    """No, nothing, and nobody at the terminal."""
    seen = _command(tmp_path, "--flavor", "l4x1", "--go", answer=answer)
    assert seen.exit_code == 4
    assert not hub.jobs


def test_without_a_login_nothing_starts(hub: JobsStandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit status 3 and what to do."""
    import huggingface_hub  # noqa: PLC0415

    monkeypatch.setattr(huggingface_hub, "get_token", lambda: None)
    seen = _command(tmp_path, "--flavor", "l4x1", "--go", "--yes")
    assert seen.exit_code == 3
    assert "hf auth login" in seen.output
    assert not hub.jobs


@pytest.mark.parametrize(
    "wrong", [("--timeout", "10"), ("--precision", "int4"), ("--output-tokens", "1"), ("--flavor", "nothing"), ("--prompt-tokens", "0")]
)
def test_wrong_arguments(hub: JobsStandIn, tmp_path: Path, wrong: tuple[str, str]) -> None:
    """Exit status 2, with what is accepted."""
    assert _command(tmp_path, "--flavor", "l4x1", *wrong).exit_code == 2
    assert not hub.jobs


def test_confirmed_job_is_started_followed_and_merged(hub: JobsStandIn, tmp_path: Path) -> None:
    """Its row lands in the ledger among whatever else the log holds; a second run of the same adds nothing."""
    hub.outcomes["l4x1"] = Outcome(lines=("Installed 60 packages", "{not json}", f"prefix {LINE} suffix", "bye"))
    seen = _command(tmp_path, "--flavor", "l4x1", "--go", answer="y\n")
    assert seen.exit_code == 0, seen.output
    assert _rows(tmp_path) == (ROW,)
    (job,) = hub.jobs.values()
    assert (job.request["flavor"], job.request["timeoutSeconds"]) == ("l4x1", 1800)
    assert job.request["command"][:2] == ["uv", "run"]
    again = _command(tmp_path, "--flavor", "l4x1", "--go", "--yes")
    assert "known already" in again.output
    assert _rows(tmp_path) == (ROW,)


def test_token_stays_here(hub: JobsStandIn, tmp_path: Path) -> None:
    """Neither the job, nor its script, nor anything printed or kept holds it."""
    hub.outcomes["l4x1"] = Outcome(lines=(LINE,))
    seen = _command(tmp_path, "--flavor", "l4x1", "--go", "--yes")
    (job,) = hub.jobs.values()
    assert "hf_ada" not in seen.output
    assert "hf_ada" not in json.dumps(job.request)
    assert "hf_ada" not in job.script
    assert b"hf_ada" not in (tmp_path / "l.sqlite3").read_bytes()
    assert not any("hf_ada" in request.path for request in hub.requests)


def test_failed_job_shows_its_last_words(hub: JobsStandIn, tmp_path: Path) -> None:
    """Exit status 1; the platform's message and the end of the log, printable."""
    hub.outcomes["l4x1"] = Outcome(lines=("first", "torch.OutOfMemoryError: \x1b[31mCUDA"), stage="ERROR", message="Exit code: 1")
    seen = _command(tmp_path, "--flavor", "l4x1", "--go", "--yes")
    assert seen.exit_code == 1
    assert "ended as ERROR Exit code: 1" in seen.output
    assert "OutOfMemoryError" in seen.output
    assert "\x1b" not in seen.output
    assert _rows(tmp_path) == ()


def test_cancelled_job_is_told(hub: JobsStandIn, tmp_path: Path) -> None:
    """Somebody ended it on the page."""
    hub.outcomes["l4x1"] = Outcome(stage="CANCELED")
    seen = _command(tmp_path, "--flavor", "l4x1", "--go", "--yes")
    assert seen.exit_code == 1
    assert "ended as CANCELED" in seen.output


def test_refused_measurement_is_passed_on(hub: JobsStandIn, tmp_path: Path) -> None:
    """The job's own sentence, and nothing in the ledger."""
    hub.outcomes["l4x1"] = Outcome(lines=(mark_result({"model": "Qwen/Qwen3-8B", "error": "It does not fit: 90 GB of 24 GB."}),))
    seen = _command(tmp_path, "--flavor", "l4x1", "--go", "--yes")
    assert seen.exit_code == 1
    assert "Qwen/Qwen3-8B: It does not fit" in seen.output


def test_job_that_does_not_end_is_ended(hub: JobsStandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its log hangs beyond the time-out and the waiting: it is cancelled, and that is said."""
    monkeypatch.setattr(job_runs, "SCHEDULING_S", -59)  # of the 60 s of the time-out, one is left
    hub.outcomes["l4x1"] = Outcome(looks=1000)
    hub.faults["/logs"] = Fault(hang=True)
    seen = _command(tmp_path, "--flavor", "l4x1", "--go", "--yes", "--timeout", "60")
    assert seen.exit_code == 1
    assert "had not ended after 1 s" in seen.output
    assert all(job.cancelled for job in hub.jobs.values())


def test_second_job_that_cannot_start_ends_the_first(hub: JobsStandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No job is left running and paid for when the command gives up."""
    real = Jobs.start

    def start(self: Jobs, file: Path, **named: Any) -> Any:
        if named["flavor"] == "a100-large":
            raise PaymentNeeded("No credits.")
        return real(self, file, **named)

    monkeypatch.setattr(Jobs, "start", start)
    hub.outcomes["l4x1"] = Outcome(looks=1000)
    seen = _command(tmp_path, "--flavor", "l4x1", "--flavor", "a100-large", "--go", "--yes")
    assert seen.exit_code == 1
    assert "No credits." in seen.output
    assert [job.cancelled for job in hub.jobs.values()] == [True]


@pytest.mark.parametrize(
    ("status", "kind"), [(401, NotPermitted), (402, PaymentNeeded), (403, NotPermitted), (429, RateLimited), (422, HubGarbage)]
)
def test_refusals_of_the_hub(hub: JobsStandIn, tmp_path: Path, status: int, kind: type[HubError]) -> None:
    """Each has its sentence, which holds nothing that the server said."""
    file = tmp_path / "script.py"
    file.write_text("print()", encoding="utf-8")
    hub.faults["/api/jobs/ada"] = Fault(status=status, body=b'{"error": "secret words"}')
    with pytest.raises(kind) as caught:
        _jobs(hub).start(file, flavor="l4x1", timeout_s=60)
    assert "secret" not in str(caught.value)
    assert "starting a job on l4x1" in str(caught.value)


def test_garbage_instead_of_a_job(hub: JobsStandIn, tmp_path: Path) -> None:
    """An answer without an id is garbage, not a crash."""
    file = tmp_path / "script.py"
    file.write_text("print()", encoding="utf-8")
    hub.faults["/api/jobs/ada"] = Fault(body=b"[]")
    with pytest.raises(HubGarbage):
        _jobs(hub).start(file, flavor="l4x1", timeout_s=60)


def test_following_is_bounded(hub: JobsStandIn, tmp_path: Path) -> None:
    """A log that says nothing is left at the limit."""
    file = tmp_path / "script.py"
    file.write_text("print()", encoding="utf-8")
    hub.outcomes["l4x1"] = Outcome(looks=1000)
    jobs = _jobs(hub)
    job = jobs.start(file, flavor="l4x1", timeout_s=60)
    hub.faults["/logs"] = Fault(hang=True)
    with pytest.raises(TooLong, match="may still run and cost"):
        list(jobs.follow(job, limit_s=0.3))


def test_late_log_is_waited_for_but_not_for_ever(hub: JobsStandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The job is over while its log is silent: what comes within the grace counts, then it is left."""
    monkeypatch.setattr(Jobs, "look_every_s", 0.05)
    monkeypatch.setattr(Jobs, "log_grace_s", 0.5)
    file = tmp_path / "script.py"
    file.write_text("print()", encoding="utf-8")
    hub.outcomes["l4x1"] = Outcome(lines=("late",), looks=0)
    jobs = _jobs(hub)
    job = jobs.start(file, flavor="l4x1", timeout_s=60)
    monkeypatch.setattr(jobs, "_read", lambda _, lines: (time.sleep(0.3), lines.put("late"), lines.put(None)))
    assert list(jobs.follow(job, limit_s=30)) == ["late"]
    monkeypatch.setattr(jobs, "_read", lambda *_: None)
    assert list(jobs.follow(job, limit_s=30)) == []


@pytest.mark.parametrize(
    "line",
    [
        "<<<measured {} ",
        " measured>>> <<<measured ",
        "<<<measured [1] measured>>>",
        "<<<measured {broken measured>>>",
        f"<<<measured {'[' * 9000} measured>>>",
        f"<<<measured {{}} measured>>>{'x' * 30_000}",
    ],
)
def test_garbage_between_the_marks_is_no_result(line: str) -> None:
    """The log of a job may hold anything."""
    assert parse_results([line]) == ()


@pytest.mark.parametrize(
    "found",
    [
        {"row": None},
        {"row": []},
        {"row": {"when": "2026-11-21"}},
        {"row": asdict(ROW) | {"model": "<script>alert(1)</script>"}},
        {"row": asdict(ROW) | {"ttft_s": "fast"}},
    ],
)
def test_row_that_is_none_becomes_a_complaint(found: dict[str, Any]) -> None:
    """Nothing of it reaches the ledger."""
    rows, complaints = read_log([mark_result(found)], plan_job("l4x1", 60, load()), ASKED, Models(), load().accelerators)
    assert rows == ()
    assert len(complaints) == 1


def test_vllm_latencies_become_a_row() -> None:
    """First token 0.05 s; 63 further ones in 1.05 − 0.05 s: 63 tokens/s. The prediction is for vLLM on four cards."""
    (row,), complaints = read_log([mark_result(VLLM)], plan_job("a100x4", 60, load()), ASKED, Models(), load().accelerators)
    assert complaints == ()
    assert (row.ttft_s, row.decode_tokens_per_s) == (0.05, pytest.approx(63.0))
    assert (row.device, row.devices, row.engine) == ("4 × NVIDIA A100-SXM4-80GB", 4, "vllm 0.32.0")
    assert row.peak_bytes is None
    assert row.predicted_decode_tokens_per_s is not None
    assert row.predicted_decode_tokens_per_s > 63  # its weights alone are read 400 times a second by four such cards


@pytest.mark.parametrize(
    "odd",
    [
        {"model": "other/model"},
        {"first_s": []},
        {"first_s": [0]},
        {"first_s": [True]},
        {"whole_s": "1"},
        {"whole_s": [float(10**9)]},
        {"driver": {"a": 1}},
        {"device": "x\ny"},
    ],
)
def test_odd_vllm_results_become_complaints(odd: dict[str, Any]) -> None:
    """Each field is checked."""
    rows, complaints = read_log([mark_result(VLLM | odd)], plan_job("a100x4", 60, load()), ASKED, Models(), load().accelerators)
    assert rows == ()
    assert len(complaints) == 1


def test_script_is_the_same_for_the_same_question() -> None:
    """So a bucket stores it once; and it holds no page and no command line."""
    asked = {"models": ["a/b"], "prompt_tokens": 1, "output_tokens": 2, "precision": "bf16", "provenance": "x"}
    assert own_script(asked) == own_script(asked)
    assert b"lib/ui/" not in zip_sources()
    assert own_script(asked).startswith("# /// script\n")


def test_config_of_a_bundled_model_travels_with_the_vllm_script() -> None:
    """So no licence and no token is needed in the job."""
    text = find_program("vllm").prepare(plan_job("a100x4", 60, load()), ASKED)
    assert isinstance(text, str)
    assert "Qwen3ForCausalLM" in text
    compile(text, "script", "exec")


def test_vllm_script_really_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a program named vllm that writes what the real one writes: two runs, one row; one that fails is told."""
    program = tmp_path / "vllm"
    program.write_text(
        f"#!{sys.executable}\n"
        "import json, sys\n"
        "told = dict(zip(sys.argv[1:], sys.argv[2:]))\n"
        "config = json.load(open(told['--model'] + '/config.json'))\n"
        "assert config['hidden_size'] == 64 and told['--tensor-parallel-size'] == '4'\n"
        "json.dump({'latencies': [0.5 + 0.01 * int(told['--output-len'])] * 3}, open(told['--output-json'], 'w'))\n",
        encoding="utf-8",
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    asked = {
        "prompt_tokens": 8,
        "output_tokens": 5,
        "precision": "bf16",
        "devices": 4,
        "models": [["tiny", json.loads(TINY_CONFIG)], ["no", {}]],
    }
    version = "from importlib import metadata\nmetadata.version = lambda name: '1.0'\n"  # neither torch's nor vLLM's is asked here
    lines = run(vllm_script(asked).replace("REQUEST = ", f"{version}REQUEST = "))
    good, bad = parse_results(lines)
    assert good["first_s"] == [0.51] * 3
    assert good["whole_s"] == [0.55] * 3
    assert "failed" in bad["error"]


@pytest.mark.slow
def test_shipped_script_really_measures(hub: JobsStandIn, tmp_path: Path) -> None:
    """Uploaded, unpacked and run in a bare process: a tiny model's row comes back and is merged, without its text."""
    hub.outcomes["cpu-upgrade"] = Outcome(execute=True)
    jobs, ledger = _jobs(hub), Ledger(LedgerPlace(path=tmp_path / "l.sqlite3", lasting=True, words="a file"))
    asked = JobRequest(models=(TINY_CONFIG,), prompt_tokens=16, output_tokens=4, precision="fp32")
    good = measure_on_jobs._run([(plan_job("cpu-upgrade", 240, load()), asked)], jobs, ledger, load())
    (row,) = ledger.own_rows() or (None,)
    assert good, next(iter(hub.jobs.values())).lines
    assert row is not None
    assert row.kind == "job"
    assert row.model.startswith("LlamaForCausalLM#")
    assert row.provenance == "Hugging Face Jobs, cpu-upgrade"
    assert row.peak_bytes is not None


@pytest.mark.parametrize("row", [5, [["when"]], list(NAMES), "row", None, {"when": {}}, {name: [] for name in NAMES}])
def test_a_log_that_forges_a_row_is_complained_about(row: object) -> None:
    """Whatever stands between the marks: a complaint, and the jobs that still run are followed on."""
    rows, complaints = read_log([mark_result({"row": row})], plan_job("l4x1", 60, load()), ASKED, Models(), load().accelerators)
    assert (rows, len(complaints)) == ((), 1)


STARTED = (
    "INFO [gpu_model_runner.py:2634] Model loading took 15.27 GiB and 12.1 seconds",
    "INFO [gpu_worker.py:298] Available KV cache memory: 3.21 GiB",
    "INFO [kv_cache_utils.py:1087] GPU KV cache size: 23,376 tokens",
    "INFO:     Application startup complete.",
    "INFO: a request came",
)
BUFFERS = (
    "load_tensors: offloaded 37/37 layers to GPU",
    "load_tensors:        CUDA0 model buffer size =  4455.34 MiB",
    "load_tensors:   CPU_Mapped model buffer size =   166.92 MiB",
    "llama_kv_cache:      CUDA0 KV buffer size =    72.00 MiB",
    "llama_context:      CUDA0 compute buffer size =   304.75 MiB",
    "main: server is listening on http://0.0.0.0:8000 - starting the main loop",
)


def test_start_lines_become_a_row(hub: JobsStandIn, tmp_path: Path) -> None:
    """The server of the engine's row is started, ended when it takes requests, and its weights are compared with the predicted ones."""
    hub.outcomes["l4x1"] = Outcome(lines=STARTED, looks=1000)
    seen = _command(tmp_path, "--flavor", "l4x1", "--start-only", "vllm", "--prompt-tokens", "4096", "--timeout", "600", "--go", "--yes")
    assert seen.exit_code == 0, seen.output
    (job,) = hub.jobs.values()
    assert job.cancelled
    assert job.request["dockerImage"].startswith("vllm/vllm-openai:")
    assert job.request["command"][:3] == ["vllm", "serve", "Qwen/Qwen3-8B"]
    (row,) = _rows(tmp_path)
    assert (row.kind, row.accelerator, row.peak_bytes) == ("start", "L4", round(15.27 * 2**30))
    assert row.predicted_peak_bytes == pytest.approx(row.peak_bytes, rel=0.02)
    assert row.provenance.endswith("start lines: weights_bytes")
    assert "kv_cache_tokens 23376 (predicted" in seen.output


def test_a_plan_of_models_and_flavors_has_its_price(hub: JobsStandIn, tmp_path: Path) -> None:
    """Two models on two flavors are four jobs of ten minutes: 2 × (0.80 + 2.50) / 6 = 1.10 USD; without --go none starts."""
    models = ("Qwen/Qwen3-8B", "Qwen/Qwen2.5-0.5B-Instruct")
    options = ("--flavor", "l4x1", "--flavor", "a100-large", "--start-only", "vllm", "--timeout", "600")
    seen = _command(tmp_path, *options, models=models)
    assert seen.exit_code == 0, seen.output
    assert "Together at most 1.10 USD" in seen.output
    assert seen.output.count("vllm serve") == 4
    assert not hub.jobs


def test_llama_cpp_and_a_start_that_fails(hub: JobsStandIn, tmp_path: Path) -> None:
    """Its model buffers on card and host are added up; lines without a figure give no row and exit status 1."""
    plans = job_starts.plan_starts(
        ("Qwen/Qwen3-8B",), ("l4x1",), "llama.cpp", precision="gguf:Q4_K_M", context_tokens=512, timeout_s=600, catalog=load()
    )
    assert plans[0].words[:3] == ("/app/llama-server", "-hf", "Qwen/Qwen3-8B:Q4_K_M")
    found, _ = job_starts.read_start(BUFFERS, plans[0], App(catalog=load, models=Models()))
    assert found is not None
    assert found.peak_bytes == pytest.approx((4455.34 + 166.92) * 2**20, rel=1e-6)
    hub.outcomes["l4x1"] = Outcome(lines=("RuntimeError: no",), stage="ERROR")
    failed = _command(tmp_path, "--flavor", "l4x1", "--start-only", "vllm", "--go", "--yes")
    assert failed.exit_code == 1
    assert "no figure was printed" in failed.output
    assert _rows(tmp_path) == ()
    assert _command(tmp_path, "--flavor", "l4x1", "--start-only", "tei").exit_code == 2


def test_programs_of_the_option_are_those_of_the_rows() -> None:
    """--help imports no rows, so it has their names once more."""
    assert tuple(program.name for program in PROGRAMS) == measure_on_jobs.ENGINES


def test_plan_of_pictures_and_text_has_its_price_and_starts_each_job(hub: JobsStandIn, tmp_path: Path) -> None:
    """Two models on two flavors are four jobs: 2 × (0.80 + 2.50) / 2 = 3.30 USD; one has no result, so the status is 1."""
    models, flavors = ("Qwen/Qwen3-8B", "Tongyi-MAI/Z-Image-Turbo"), ("--flavor", "l4x1", "--flavor", "a100-large")
    shown = _command(tmp_path, *flavors, "--steps", "8", "--guidance", "0", models=models)
    assert shown.exit_code == 0, shown.output
    assert "Together at most 3.30 USD" in shown.output
    assert "diffusers: steps 8, guidance 0; the others are those of the model's card or of its pipeline" in shown.output
    assert not hub.jobs
    picture = {
        "model": "Tongyi-MAI/Z-Image-Turbo", "seconds": [3.0], "peak_bytes": 20 * 2**30, "width": 1024, "height": 1024, "steps": 8,
        "guidance": 0.0, "device": "NVIDIA L4", "driver": None, "torch": "2.15.0", "diffusers": "0.42.1",
    }  # fmt: skip
    hub.outcomes["l4x1"] = Outcome(lines=(LINE, mark_result(picture)))
    seen = _command(tmp_path, *flavors, "--steps", "8", "--guidance", "0", "--go", "--yes", models=models)
    assert seen.exit_code == 1, seen.output
    assert len(hub.jobs) == 4
    assert "Z-Image-Turbo on l4x1: 3.00 s a picture of 1024 × 1024 pixels in 8 steps" in seen.output
    assert any(row.picture_s == 3.0 and row.predicted_picture_s is not None for row in _rows(tmp_path))


@pytest.mark.parametrize("wrong", [("--steps", "-1"), ("--width", "9999"), ("--guidance", "nan"), ("--precision", "gguf:Q4_K_M")])
def test_wrong_sizes_of_pictures(hub: JobsStandIn, tmp_path: Path, wrong: tuple[str, str]) -> None:
    """Exit status 2 before anything is started."""
    assert _command(tmp_path, "--flavor", "l4x1", *wrong, "--go", "--yes", models=("Tongyi-MAI/Z-Image-Turbo",)).exit_code == 2
    assert not hub.jobs


def test_vllm_is_measured_on_one_gpu_when_asked() -> None:
    """A CPU is refused, and several GPUs with transformers."""
    assert plan_job("l4x1", 60, load(), "vllm").engine == "vllm"
    for flavor, engine in (("cpu-upgrade", "vllm"), ("a100x4", "transformers")):
        with pytest.raises(AgainstRules, match="is not measured on"):
            plan_job(flavor, 60, load(), engine)
