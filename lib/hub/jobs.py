"""Hugging Face Jobs: builds a job's script, parses its output, and starts, follows and cancels jobs with `huggingface_hub`.

A job cannot read this machine's files, so its script is one file. On one GPU or a CPU it unpacks this app's own sources from a zip and runs
`lib.service.jobs`; on several GPUs it is the source of a few functions here and needs vLLM only. Its dependencies are in its head
(PEP 723), where `uv run` reads them. It prints each result as one line of JSON between two marks, so that results can be found in the rest
of its log.

`Jobs` uses the token of the user who runs the command. `run_uv_job` uploads a local script to a private bucket of
the account (`jobs-artifacts`, which the client creates) and mounts it in the job.
"""

from __future__ import annotations

import base64
import inspect
import io
import json
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import warnings
import zipfile
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import lib
from lib.errors import Conflict, HubError, HubGarbage, HubUnreachable, NotPermitted, PaymentNeeded, RateLimited, RepoNotFound, TooLong
from lib.hub.refusals import client_refusal

if TYPE_CHECKING:
    from huggingface_hub import HfApi

DEPENDENCIES = (
    "torch>=2.8",
    "transformers>=5.23,<6",
    "huggingface_hub>=2.4,<3",
    "diffusers>=0.35",
    "gguf>=0.17",
    "markupsafe>=3,<4",
    "cachetools>=7,<9",
    "numpy>=2,<3",
    "pydantic>=2.11,<3",
    "spaces>=0.51",
)
VLLM_DEPENDENCIES = ("vllm",)
_LEFT_OUT = frozenset({"ui", "cli", "__pycache__"})
_DAY_ONE = (1980, 1, 1, 0, 0, 0)  # the same sources make the same script

_HEAD = '''# /// script
# requires-python = ">=3.11"
# dependencies = {dependencies}
# ///
"""Made by Spaces Hardware Advisor, whose sources it has."""

'''
_UNPACK = """import base64, io, json, sys, tempfile, zipfile

folder = tempfile.mkdtemp()
zipfile.ZipFile(io.BytesIO(base64.b64decode(SOURCES))).extractall(folder)
sys.path.insert(0, folder)

from {module} import main

if __name__ == "__main__":
    main(json.loads(REQUEST))
"""


def zip_sources() -> bytes:
    """This app's `lib` as a zip, without the page and the command line."""
    root = Path(next(iter(lib.__path__)))
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as packed:
        for file in sorted(root.rglob("*")):
            inner = file.relative_to(root)
            if file.is_file() and file.suffix not in {".pyc", ".pyi"} and not _LEFT_OUT.intersection(inner.parts):
                packed.writestr(zipfile.ZipInfo(f"lib/{inner.as_posix()}", _DAY_ONE), file.read_bytes(), zipfile.ZIP_DEFLATED, 9)
    return out.getvalue()


def _head(dependencies: Sequence[str], request: Mapping[str, Any]) -> str:
    return _HEAD.format(dependencies=json.dumps(list(dependencies))) + f"REQUEST = {json.dumps(request)!r}\n"


def own_script(request: Mapping[str, Any], module: str = "lib.service.jobs", further: Sequence[str] = ()) -> str:
    """A script that runs `main(request)` of a module of this app; `further` are dependencies that only this module has."""
    packed = base64.b64encode(zip_sources()).decode()
    return f'{_head((*DEPENDENCIES, *further), request)}SOURCES = "{packed}"\n\n{_UNPACK.format(module=module)}'


BEGIN, END = "<<<measured ", " measured>>>"
LONGEST = 20_000
"""Characters of a line that is read; the log of a job may hold anything."""


def mark_result(result: Mapping[str, Any]) -> str:
    """The line that a job prints."""
    return f"{BEGIN}{json.dumps(result, allow_nan=False)}{END}"


def parse_results(lines: Iterable[str]) -> tuple[dict[str, Any], ...]:
    """The objects between the marks, in order; a line that is cut off, too long or not a JSON object is skipped."""
    results = []
    for line in lines:
        start, stop = line.find(BEGIN), line.rfind(END)
        if start < 0 or stop < start or len(line) > LONGEST:
            continue
        try:
            result = json.loads(line[start + len(BEGIN) : stop])
        except (ValueError, RecursionError):
            continue
        if isinstance(result, dict):
            results.append(result)
    return tuple(results)


# What vLLM measures: its own latency benchmark with dummy weights, twice, for the first token and for all of them. With one output token a
# request is its prompt; what the others add is the decoding: rate = (tokens − 1) / (whole − first). vLLM fills the memory that it is given,
# so no peak is reported.
def measure_latencies(request: dict[str, Any], model: str, folder: Path, output_tokens: int) -> list[float]:
    """In the job: seconds of one request with so many output tokens, five times."""
    out = folder / f"latency-{output_tokens}.json"
    program = [shutil.which("vllm") or "vllm", "bench", "latency", "--model", model, "--load-format", "dummy", "--skip-tokenizer-init"]
    options = {
        "--tensor-parallel-size": request["devices"],
        "--input-len": request["prompt_tokens"],
        "--output-len": output_tokens,
        "--max-model-len": request["prompt_tokens"] + request["output_tokens"],
        "--batch-size": 1,
        "--num-iters-warmup": 2,
        "--num-iters": 5,
        "--dtype": {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}[request["precision"]],
        "--output-json": out,
    }
    subprocess.run([*program, "--disable-detokenize", *(str(part) for pair in options.items() for part in pair)], check=True)  # noqa: S603
    latencies: list[float] = json.loads(out.read_text(encoding="utf-8"))["latencies"]
    return latencies


def describe_machine() -> dict[str, Any]:
    """In the job: the cards' name and the driver, as nvidia-smi tells them; the versions installed."""
    command = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    try:
        lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()  # noqa: S603
        name, _, driver = lines[0].partition(", ")
    except (OSError, subprocess.CalledProcessError, IndexError):
        name, driver = "unknown card", None
    return {"device": name, "driver": driver, "torch": metadata.version("torch"), "vllm": metadata.version("vllm")}


def measure_on_vllm(request: dict[str, Any], model: str, config: dict[str, Any] | None) -> dict[str, Any]:
    """In the job: one model's result, or why there is none."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if config is not None:
            (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
        source = model if config is None else str(folder)
        try:
            first = measure_latencies(request, source, folder, 1)
            whole = measure_latencies(request, source, folder, request["output_tokens"])
        except (OSError, subprocess.CalledProcessError, ValueError, KeyError) as error:
            return {"model": model, "error": f"vllm bench latency failed ({type(error).__name__}); the log says more."}
        return {"model": model, "first_s": first, "whole_s": whole} | describe_machine()


def main(request: dict[str, Any]) -> None:
    """In the job: measure each model and print its line."""
    for model, config in request["models"]:
        sys.stdout.write(mark_result(measure_on_vllm(request, model, config)) + "\n")
        sys.stdout.flush()


_IN_JOB: tuple[Callable[..., Any], ...] = (mark_result, measure_latencies, describe_machine, measure_on_vllm, main)
_IN_JOB_HEAD = """from __future__ import annotations

import json, shutil, subprocess, sys, tempfile
from importlib import metadata
from pathlib import Path
"""


def vllm_script(request: Mapping[str, Any]) -> str:
    """The script for several GPUs; `request` is the argument of `main`."""
    head = _head(VLLM_DEPENDENCIES, request).replace("REQUEST = ", f"{_IN_JOB_HEAD}\nBEGIN, END = {(BEGIN, END)!r}\nREQUEST = ")
    return "\n\n".join([head, *map(inspect.getsource, _IN_JOB), 'if __name__ == "__main__":\n    main(json.loads(REQUEST))\n'])


COMPLETED_STAGE = "COMPLETED"
FINAL_STAGES = frozenset({COMPLETED_STAGE, "CANCELED", "ERROR", "DELETED"})
_LONGEST = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmittedJob:
    """A job that was started: its id, whose it is, and where people see it."""

    id: str
    owner: str
    url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobState:
    """A job's stage, and the platform's message ("" without one)."""

    stage: str
    message: str


ARTIFACTS = "jobs-artifacts"
"""The bucket that the client itself makes for scripts."""
LARGEST_FILE = 64 << 20
_NOT_FOUND = 404
FOLDER_VARIABLE = "ADVISOR_FOLDER"
"""In a job: the folder of the bucket as it is mounted."""
_MOUNT = "/advisor"


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketFolder:
    """A folder of a bucket (owner/name), which jobs read and write as files."""

    bucket: str
    path: str


def _mounted(folder: BucketFolder | None) -> dict[str, Any]:
    """The options of a job that has the folder."""
    if folder is None:
        return {}
    from huggingface_hub import Volume  # noqa: PLC0415  slow to import

    volume = Volume(type="bucket", source=folder.bucket, mount_path=_MOUNT, path=folder.path, read_only=False)
    return {"volumes": [volume], "env": {FOLDER_VARIABLE: _MOUNT}}


def _printable(text: object) -> str:
    return "".join(c if c.isprintable() else " " for c in str(text or ""))[:_LONGEST]


_BY_STATUS: dict[int, tuple[type[HubError], str]] = {
    401: (NotPermitted, "The Hub did not accept the token for {doing}. Run `hf auth login` with one that may run jobs."),
    402: (PaymentNeeded, "Jobs are paid in advance: {doing} needs credits. Add some on huggingface.co/settings/billing."),
    403: (NotPermitted, "The token may not do this ({doing}). Use one with the permission for jobs, or another --namespace."),
    404: (RepoNotFound, "The Hub knows no such job or account ({doing}). Check --namespace, and that the flavor exists."),
    409: (Conflict, "Something else is being done to it at the same time ({doing}). Try again."),
    429: (RateLimited, "The Hub asks for fewer requests ({doing}). Try again in some minutes."),
}


def _refusal(error: Exception, doing: str) -> HubError:
    return client_refusal(error, doing, _BY_STATUS)


class Jobs:
    """The jobs of one account. Only `follow` has a time limit; other calls wait for the Hub."""

    look_every_s = 15.0
    log_grace_s = 45.0
    """Seconds to wait for the rest of the log after a job has ended; the Hub sends a keep-alive line every 30 s."""

    def __init__(self, token: str, *, endpoint: str | None = None, namespace: str | None = None) -> None:
        """`namespace` is a user or organization, by default the token's own."""
        from huggingface_hub import HfApi  # noqa: PLC0415  slow to import

        self._api: HfApi = HfApi(endpoint=endpoint, token=token)
        self._namespace = namespace

    def start(
        self, script: Path, *, flavor: str, timeout_s: int, image: str | None = None, folder: BucketFolder | None = None
    ) -> SubmittedJob:
        """Upload the script and start it, billed by the minute from its start. `folder` is mounted at the path in `FOLDER_VARIABLE`.

        Raises:
            HubError: it was not started.
        """
        doing = f"starting a job on {flavor}"
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", message=".*run_uv_job.* is experimental")  # known; the client is pinned below 3
                submitted = self._api.run_uv_job(
                    str(script), flavor=flavor, timeout=timeout_s, image=image, namespace=self._namespace, **_mounted(folder)
                )
            return SubmittedJob(id=_printable(submitted.id), owner=_printable(submitted.owner.name), url=_printable(submitted.url))
        except Exception as error:
            raise _refusal(error, doing) from error

    def start_command(self, image: str, words: Sequence[str], *, flavor: str, timeout_s: int) -> SubmittedJob:
        """Start a command in an image; billed as `start`. No token goes there, so it downloads public models only.

        Raises:
            HubError: it was not started.
        """
        try:
            submitted = self._api.run_job(image=image, command=list(words), flavor=flavor, timeout=timeout_s, namespace=self._namespace)
            return SubmittedJob(id=_printable(submitted.id), owner=_printable(submitted.owner.name), url=_printable(submitted.url))
        except Exception as error:
            raise _refusal(error, f"starting a job on {flavor}") from error

    def schedule(self, script: Path, *, flavor: str, timeout_s: int, schedule: str, folder: BucketFolder) -> str:
        """Schedule the script with a cron expression and return the id of the schedule. Each start is billed like a job.

        Raises:
            HubError: it was not scheduled.
        """
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", message=".*uv_job.* is experimental")
                submitted = self._api.create_scheduled_uv_job(
                    str(script), schedule=schedule, flavor=flavor, timeout=timeout_s, namespace=self._namespace, **_mounted(folder)
                )
            return _printable(submitted.id)
        except Exception as error:
            raise _refusal(error, f"scheduling a job on {flavor}") from error

    def open_bucket(self, name: str = ARTIFACTS) -> str:
        """The id of a private bucket of the account; creates the bucket if it does not exist.

        Raises:
            HubError: the bucket cannot be created or opened.
        """
        try:
            owner = self._namespace or str(self._api.whoami()["name"])
            bucket = name if "/" in name else f"{owner}/{name}"
            self._api.create_bucket(bucket_id=bucket, exist_ok=True, private=True)
        except Exception as error:
            raise _refusal(error, f"opening the bucket {name[:80]}") from error
        return bucket

    def put(self, folder: BucketFolder, contents: Mapping[str, bytes]) -> None:
        """Write files into a folder of a bucket.

        Raises:
            HubError: some of the files may not be written.
        """
        try:
            self._api.batch_bucket_files(folder.bucket, add=[(content, f"{folder.path}/{name}") for name, content in contents.items()])
        except Exception as error:
            raise _refusal(error, f"writing to the bucket {folder.bucket}") from error

    def get(self, folder: BucketFolder, name: str) -> bytes | None:
        """A file of a folder; None if there is none.

        Raises:
            HubError: the Hub does not give it, or it is larger than `LARGEST_FILE`.
        """
        from huggingface_hub.utils import build_hf_headers, http_backoff  # type: ignore[attr-defined]  # noqa: PLC0415  slow to import

        url = f"{self._api.endpoint}/buckets/{folder.bucket}/resolve/{quote(f'{folder.path}/{name}', safe='')}"
        try:
            response = http_backoff("GET", url, headers=build_hf_headers(token=self._api.token), follow_redirects=True)
            if response.status_code == _NOT_FOUND:
                return None
            response.raise_for_status()
            content: bytes = response.content
        except Exception as error:
            raise _refusal(error, f"reading from the bucket {folder.bucket}") from error
        if len(content) > LARGEST_FILE:
            raise HubGarbage(f"A file of the bucket {folder.bucket} has more than {LARGEST_FILE:,} bytes.")
        return content

    def look(self, job: SubmittedJob) -> JobState:
        """The state of a job.

        Raises:
            HubError: the Hub did not return it.
        """
        try:
            answer = self._api.inspect_job(job_id=job.id, namespace=job.owner)
            stage = getattr(answer.status.stage, "value", answer.status.stage)
            return JobState(stage=_printable(stage), message=_printable(answer.status.message))
        except Exception as error:
            raise _refusal(error, f"asking for the job {job.id}") from error

    def cancel(self, job: SubmittedJob) -> None:
        """End it now.

        Raises:
            HubError: it may still run.
        """
        try:
            self._api.cancel_job(job_id=job.id, namespace=job.owner)
        except Exception as error:
            raise _refusal(error, f"ending the job {job.id}") from error

    def follow(self, job: SubmittedJob, *, limit_s: float) -> Generator[str]:
        """The lines of the job's log until it ends; after that, the rest of the log has `log_grace_s` to arrive.

        Raises:
            TooLong: it had not ended after the limit; it still runs.
            HubError: the Hub did not return its state.
        """
        lines: queue.SimpleQueue[str | Exception | None] = queue.SimpleQueue()
        threading.Thread(target=self._read, args=(job, lines), name=f"log-{job.id}", daemon=True).start()
        deadline, over = time.monotonic() + limit_s, 0.0
        while True:
            remaining_s = deadline - time.monotonic()
            if remaining_s <= 0:
                raise TooLong(f"The job {job.id} had not ended after {limit_s:,.0f} s. It may still run and cost: {job.url}")
            try:
                line = lines.get(timeout=min(remaining_s, self.look_every_s))
            except queue.Empty:
                over = over or (time.monotonic() if self._is_over(job) else 0.0)
                if over and time.monotonic() - over >= self.log_grace_s:
                    return
                continue
            if line is None:
                return
            if isinstance(line, Exception):
                raise _refusal(line, f"reading the log of the job {job.id}") from line
            yield line

    def _is_over(self, job: SubmittedJob) -> bool:
        """Whether the job has ended; False if the Hub cannot be reached now."""
        try:
            return self.look(job).stage in FINAL_STAGES
        except (HubUnreachable, RateLimited):
            return False

    def _read(self, job: SubmittedJob, lines: queue.SimpleQueue[Any]) -> None:
        """Runs in its own thread, because the client waits for the next line without a timeout."""
        try:
            for line in self._api.fetch_job_logs(job_id=job.id, namespace=job.owner, follow=True):
                for part in str(line).splitlines():
                    lines.put(part)
        except Exception as error:  # noqa: BLE001 raised by `follow`
            lines.put(error)
        else:
            lines.put(None)
