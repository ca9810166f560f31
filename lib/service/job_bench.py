"""llama.cpp measured on Jobs with its own `llama-bench`: the command of a job, and a row from its log.

`llama-bench` decodes after a prompt of the stated length (`-d`), then reads such a prompt. With `-v` it prints the buffers that it
allocates, among thousands of other lines, which stay in the job. The sum of the buffers is the memory; the host's compute buffer next to a
GPU is left out.

Format of its JSONL: github.com/ggml-org/llama.cpp tools/llama-bench/llama-bench.cpp @0104b15 (`get_fields`, `jsonl_printer`) and its README
@08d0baa, read 2026-11-26: `n_prompt`, `n_gen`, `n_depth`, `samples_ns` and `build_number` have been there since build 5163.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lib.catalog.silicon import Accelerator
from lib.engines import Engine
from lib.errors import AdvisorError, BadArgument, InvalidInput
from lib.explain import explain_text
from lib.hub.jobs import LONGEST
from lib.live.measurements import Measurement
from lib.memory import estimate_memory
from lib.present.releases import load_versions
from lib.present.snippets import Start, own_file_words
from lib.service.job_plans import ImageCommand, JobPlan, JobRequest, job_row, median_of, memory_request
from lib.service.models import Models
from lib.service.runs import run_end
from lib.speed import SpeedRequest, predict_each

ENGINE: Engine = "llama.cpp"
PROGRAM = "/app/llama-bench"
REPEATS = 5
_NANO = 1e9
_MOST_BUFFERS = 200
_ON_CPU = "CPU"
_BUFFER = "buffer size ="
_SCRIPT = f"{{decode}} 2> /tmp/verbose || {{{{ tail -n 20 /tmp/verbose; exit 1; }}}}; grep '{_BUFFER}' /tmp/verbose; {{read}}"
"""In the job: the buffers among what the first program says; where it fails, its last lines."""


def bench_command(plan: JobPlan, request: JobRequest) -> ImageCommand:
    """The image with all of llama.cpp's programs, and the command: decoding, then the prompt."""
    image = load_versions().image(ENGINE, "gpu" if plan.offer.accelerator_count else "cpu", "benchmark").image
    program = [PROGRAM, *own_file_words(request.models[0], Start(precision=request.precision)), "-r", str(REPEATS), "-o", "jsonl"]
    decode = [*program, "-v", "-p", "0", "-n", str(request.output_tokens), "-d", str(request.prompt_tokens)]
    read = [*program, "-p", str(request.prompt_tokens), "-n", "0"]
    return ImageCommand(image=image, words=("/bin/sh", "-c", _SCRIPT.format(decode=shlex.join(decode), read=shlex.join(read))))


def read_tests(lines: Iterable[str]) -> list[dict[str, Any]]:
    """The tests that `llama-bench -o jsonl` printed, in order; other lines are skipped."""
    tests = []
    for line in lines:
        if not line.startswith("{") or len(line) > LONGEST:
            continue
        try:
            test = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(test, dict) and "samples_ns" in test:
            tests.append(test)
    return tests


def read_bench(
    lines: Sequence[str], plan: JobPlan, request: JobRequest, models: Models, accelerators: Mapping[str, Accelerator]
) -> Measurement:
    """The row of a job's log.

    Raises:
        InvalidInput: a test is missing, a figure is not one, or it ran on the CPU of a flavor with GPUs.
        UnsupportedModel: the model is not known.
    """
    tests = read_tests(lines)
    decode = _find(tests, n_gen=request.output_tokens, n_prompt=0, n_depth=request.prompt_tokens)
    read = _find(tests, n_gen=0, n_prompt=request.prompt_tokens, n_depth=0)
    if plan.offer.accelerator_count and decode.get("backends") == _ON_CPU:
        raise BadArgument("backends of llama-bench", _ON_CPU, f"a backend for the GPU of {plan.offer.id}")
    spec = models(request.models[0])
    shape = SpeedRequest(
        precision=request.counted_as, engine=ENGINE, prompt_tokens=request.prompt_tokens, output_tokens=request.output_tokens
    )
    expected = run_end(predict_each([(spec, plan.offer, shape)], accelerators)[0], "value")
    memory = estimate_memory(spec, memory_request(plan, request, ENGINE), plan.offer.processor)
    cards = max(1, plan.offer.accelerator_count)
    return job_row(
        plan,
        spec,
        device=str(decode.get("gpu_info") or decode.get("cpu_info"))[:200],
        devices=cards,
        torch="none",
        engine=f"llama.cpp build {decode.get('build_number')} ({decode.get('build_commit')})"[:200],
        precision=request.precision,
        prompt_tokens=request.prompt_tokens,
        output_tokens=request.output_tokens,
        predicted_peak_bytes=memory.weights.bytes + memory.kv_cache.bytes + memory.activation.bytes,
        peak_bytes=printed_buffers(lines),
        predicted_ttft_s=expected.ttft_s,
        ttft_s=median_of("samples_ns", read.get("samples_ns"), _NANO),
        predicted_decode_tokens_per_s=expected.decode_tokens_per_s,
        decode_tokens_per_s=request.output_tokens / median_of("samples_ns", decode.get("samples_ns"), _NANO),
        provenance=f"{plan.provenance}, llama-bench: {decode.get('model_type')}"[:200],
    )


def _find(tests: Iterable[Mapping[str, Any]], **shape: int) -> Mapping[str, Any]:
    for test in tests:
        if all(test.get(name) == value for name, value in shape.items()):
            return test
    wanted = ", ".join(f"{name} {value}" for name, value in shape.items())
    raise InvalidInput(f"llama-bench printed no test with {wanted}. The log of the job says why.")


def printed_buffers(lines: Sequence[str]) -> int | None:
    """Bytes of the buffers that the lines have, each taken from its first line; None if there are none."""
    try:
        numbers = explain_text("\n".join([line[:300] for line in lines if _BUFFER in line][:_MOST_BUFFERS])).numbers
    except AdvisorError:
        return None
    host_compute = {name for name in numbers if name.startswith("compute_") and name.endswith("_host_bytes")}
    sizes = [value for name, value in numbers.items() if name.endswith("_bytes") and name not in host_compute]
    return sum(int(size) for size in sizes if isinstance(size, int | float) and size > 0) or None
