"""llama-bench on Jobs: the command, and a row from what the real program printed.

`llama_bench.log` is the output of the command below with llama.cpp 0c1e57098 on two processors (2026-11-26), for a file with the shapes of
Qwen2.5-0.5B-Instruct in Q8_0 and random weights; only the paths of the program and of the file were changed before it ran.
"""

from __future__ import annotations

import subprocess
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from gguf_files import decoder, decoder_keys, gguf_file

from lib.catalog import load
from lib.errors import AgainstRules, BadArgument
from lib.hub.weight_files import parse_gguf
from lib.live.measurements import Measurement
from lib.model.file_header import resolve_gguf
from lib.model.spec import ModelSpec, Origin
from lib.service.job_bench import printed_buffers
from lib.service.job_plans import ImageCommand, JobPlan, JobRequest, check_fit
from lib.service.jobs import find_program, plan_job, plan_jobs, read_log

MODEL = "Qwen/Qwen2.5-0.5B-Instruct-GGUF:Q8_0"
LOG = (Path(__file__).parents[1] / "data" / "llama_bench.log").read_text(encoding="utf-8").splitlines()
ASKED = JobRequest(models=(MODEL,), prompt_tokens=64, output_tokens=16, precision="gguf:Q8_0")
BLANK = JobRequest(models=(), prompt_tokens=64, output_tokens=16, precision="")


@cache
def spec() -> ModelSpec:
    """The model of the log, read from a header as the Hub has it."""
    tensors = decoder(24, 896, 14, 2, 64, 4864, 151_936, tied=True)
    tensors |= {f"blk.{at}.attn_{part}.bias": ("F32", (size,)) for at in range(24) for part, size in (("q", 896), ("k", 128), ("v", 128))}
    keys = decoder_keys(24, 896, 14, 2, 64, 4864, 32_768, general__file_type=7)
    header = parse_gguf(gguf_file("qwen2", keys, tensors).head, "x")
    return resolve_gguf(header.keys, header.tensors, Origin(id=MODEL))


def plan(flavor: str = "cpu-upgrade") -> JobPlan:
    """A job of llama-bench."""
    return plan_job(flavor, 600, load(), "llama.cpp", "GGUF files")


def read(lines: list[str], flavor: str = "cpu-upgrade") -> tuple[tuple[Measurement, ...], tuple[str, ...]]:
    """The rows and complaints of a log."""
    return read_log(lines, plan(flavor), ASKED, lambda _: spec(), load().accelerators)  # type: ignore[arg-type]


def test_output_of_the_real_program_becomes_a_row() -> None:
    """Buffers 500.79 + 0.58 + 3.00 + 46.91 MiB; medians of five: 2.728 s for 64 tokens, 16 more in 7.411 s."""
    ((row,), complaints) = read(LOG)
    assert complaints == ()
    assert row.peak_bytes == pytest.approx((500.79 + 0.58 + 3.00 + 46.91) * 2**20, abs=4)
    assert row.ttft_s == pytest.approx(2.926785743)
    assert row.decode_tokens_per_s == pytest.approx(16 / 7.410789301)
    assert (row.device, row.devices, row.accelerator) == ("AMD EPYC", 1, None)
    assert (row.engine, row.model, row.precision, row.weights) == ("llama.cpp build 1 (0c1e570)", MODEL, "gguf:Q8_0", "checkpoint")
    assert row.predicted_peak_bytes is not None
    assert row.predicted_decode_tokens_per_s is not None


def test_weights_and_cache_are_predicted_to_the_byte() -> None:
    """The program states 525,120,000 bytes of weights and a cache of 3.00 MiB, which is 256 tokens of 80."""
    from lib.memory import estimate_memory  # noqa: PLC0415
    from lib.service.job_plans import memory_request  # noqa: PLC0415

    memory = estimate_memory(spec(), memory_request(plan(), ASKED, "llama.cpp"), plan().offer.processor)
    assert (memory.weights.bytes, memory.kv_cache.bytes) == (525_120_000, 3 * 2**20)


def test_command_prints_the_buffers_and_both_tests(tmp_path: Path) -> None:
    """The shell's line with a program that prints thousands of lines; where it fails, its last words are in the log and the status is 1."""
    command = find_program("llama.cpp").prepare(plan("l4x1"), ASKED)
    assert isinstance(command, ImageCommand)
    assert command.image == "ghcr.io/ggml-org/llama.cpp:full-cuda"
    assert f"-hf {MODEL} -r 5 -o jsonl" in command.words[2]
    program = tmp_path / "bench"
    line = command.words[2].replace("/app/llama-bench", str(program)).replace("/tmp/verbose", str(tmp_path / "verbose"))  # noqa: S108
    for body, lines in (
        ("seq 9000 >&2; echo 'x: CPU KV buffer size =     3.00 MiB' >&2; echo {}", ["{}", "x: CPU KV buffer size =     3.00 MiB", "{}"]),
        ("echo 'error: no such file' >&2; exit 3", ["error: no such file"]),
    ):
        program.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
        program.chmod(0o755)
        done = subprocess.run(["/bin/sh", "-c", line], check=False, capture_output=True, text=True)
        assert done.stdout.splitlines() == lines
        assert done.returncode == (0 if len(lines) > 1 else 1)


@pytest.mark.parametrize(
    ("lines", "flavor", "says"),
    [
        ([line for line in LOG if '"n_gen": 16' not in line], "cpu-upgrade", "no test with n_gen 16"),
        ([line.replace('"samples_ns": [ 2', '"samples_ns": [ -2') for line in LOG], "cpu-upgrade", "samples_ns"),
        (LOG, "l4x1", "a backend for the GPU"),
        (["{" * 500, '{"samples_ns": [1]}', "buffer size ="], "cpu-upgrade", "no test"),
    ],
)
def test_odd_logs_become_complaints(lines: list[str], flavor: str, says: str) -> None:
    """A missing test, a figure that is not a time, and a GPU's job that ran on its CPU."""
    rows, complaints = read(lines, flavor)
    assert rows == ()
    assert says in " ".join(complaints)
    assert printed_buffers([]) is None


def test_file_decides_about_program_and_precision() -> None:
    """A GGUF file is measured by llama-bench in its own format, on CPUs and GPUs; other models and other formats are refused."""
    found = plan_jobs({MODEL: spec()}, ["cpu-upgrade", "l4x4"], 600, load(), "auto", BLANK)
    assert [(job.engine, request.precision) for job, request in found] == [("llama.cpp", "gguf:Q8_0")] * 2
    with pytest.raises(BadArgument, match="gguf:Q8_0 with llama"):
        plan_jobs({MODEL: spec()}, ["l4x1"], 600, load(), "auto", replace(BLANK, precision="gguf:Q4_K_M"))
    with pytest.raises(AgainstRules, match="For GGUF files, choose --engine llama"):
        plan_jobs({MODEL: spec()}, ["l4x1"], 600, load(), "vllm", BLANK)
    with pytest.raises(AgainstRules, match="choose --engine transformers or vllm"):
        plan_jobs({"7B": replace(spec(), library="transformers")}, ["l4x1"], 600, load(), "llama.cpp", BLANK)
    unheard = plan_jobs({"org/unheard-GGUF": None}, ["l4x1"], 600, load(), "llama.cpp", BLANK)
    assert unheard[0][1].precision == ""
    check_fit(*found[0], MODEL, spec(), "llama.cpp")
