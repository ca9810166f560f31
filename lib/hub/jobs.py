"""Hugging Face Jobs through the Hub's own client: start a script, follow it, end it. It uses the token of the user who runs the command.

A local script reaches the job by way of a bucket that the client makes (`jobs-artifacts` of the account, private): `run_uv_job` uploads it
there and mounts it.
"""

from __future__ import annotations

import queue
import threading
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lib.errors import Conflict, HubError, HubGarbage, HubUnreachable, NotPermitted, PaymentNeeded, RateLimited, RepoNotFound, TooLong

if TYPE_CHECKING:
    from huggingface_hub import HfApi

COMPLETED_STAGE = "COMPLETED"
FINAL_STAGES = frozenset({COMPLETED_STAGE, "CANCELED", "ERROR", "DELETED"})
_LONGEST = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job that was started: its id, whose it is, and where people see it."""

    id: str
    owner: str
    url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobState:
    """A job's stage, what the platform says about it ("" where nothing), and seconds that it has run, where told."""

    stage: str
    message: str
    running_s: float | None


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
_SERVER_ERRORS = 500


def _refusal(error: Exception, doing: str) -> HubError:
    """Our error for one of the client's, without what the server said: that may hold anything."""
    status = getattr(getattr(error, "response", None), "status_code", None)
    if status in _BY_STATUS:
        kind, words = _BY_STATUS[status]
        return kind(words.format(doing=doing))
    if isinstance(status, int) and status < _SERVER_ERRORS:
        return HubGarbage(f"The Hub refused {doing} (status {status}). Check the flavor and the time-out.")
    if isinstance(status, int):
        return HubUnreachable(f"The Hub has a problem (status {status}) with {doing}. Try again later.")
    if isinstance(error, (LookupError, TypeError, ValueError, AttributeError)):
        return HubGarbage(f"The Hub's answer to {doing} cannot be read ({type(error).__name__}). Look at the job on its page.")
    return HubUnreachable(f"The Hub could not be reached for {doing} ({type(error).__name__}). Try again later.")


class Jobs:
    """The jobs of one account. Calls take as long as the Hub does; `follow` is bounded."""

    look_every_s = 15.0
    log_grace_s = 45.0
    """The log of a job that is over may still be on its way; a line comes at the latest with the Hub's next sign of life, after 30 s."""

    def __init__(self, token: str, *, endpoint: str | None = None, namespace: str | None = None) -> None:
        """`namespace` is a user or organization, by default the token's own."""
        from huggingface_hub import HfApi  # noqa: PLC0415  slow to import

        self._api: HfApi = HfApi(endpoint=endpoint, token=token)
        self._namespace = namespace

    def start(self, script: Path, *, flavor: str, timeout_s: int, image: str | None = None) -> Job:
        """Upload the script and start it; from its start on the job is billed by the minute.

        Raises:
            HubError: it was not started.
        """
        doing = f"starting a job on {flavor}"
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", message=".*run_uv_job.* is experimental")  # known; the client is pinned below 3
                submitted = self._api.run_uv_job(str(script), flavor=flavor, timeout=timeout_s, image=image, namespace=self._namespace)
            return Job(id=_printable(submitted.id), owner=_printable(submitted.owner.name), url=_printable(submitted.url))
        except Exception as error:
            raise _refusal(error, doing) from error

    def look(self, job: Job) -> JobState:
        """The state of a job.

        Raises:
            HubError: the Hub did not tell.
        """
        try:
            answer = self._api.inspect_job(job_id=job.id, namespace=job.owner)
            stage = getattr(answer.status.stage, "value", answer.status.stage)
            ran = None if answer.durations is None else answer.durations.running_secs
            return JobState(stage=_printable(stage), message=_printable(answer.status.message), running_s=ran)
        except Exception as error:
            raise _refusal(error, f"asking for the job {job.id}") from error

    def cancel(self, job: Job) -> None:
        """End it now.

        Raises:
            HubError: it may still run.
        """
        try:
            self._api.cancel_job(job_id=job.id, namespace=job.owner)
        except Exception as error:
            raise _refusal(error, f"ending the job {job.id}") from error

    def follow(self, job: Job, *, limit_s: float) -> Iterator[str]:
        """The lines of its log until it ends; a log that stays silent after that is not waited for without end.

        Raises:
            TooLong: it had not ended after the limit; it still runs.
            HubError: the Hub did not tell how it stands.
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

    def _is_over(self, job: Job) -> bool:
        """Whether it has ended; a Hub that cannot be reached for a moment is asked again later."""
        try:
            return self.look(job).stage in FINAL_STAGES
        except (HubUnreachable, RateLimited):
            return False

    def _read(self, job: Job, lines: queue.SimpleQueue[Any]) -> None:
        """In a thread of its own: the client waits for the next line without end."""
        try:
            for line in self._api.fetch_job_logs(job_id=job.id, namespace=job.owner, follow=True):
                for part in str(line).splitlines():
                    lines.put(part)
        except Exception as error:  # noqa: BLE001 told by the one who follows
            lines.put(error)
        else:
            lines.put(None)
