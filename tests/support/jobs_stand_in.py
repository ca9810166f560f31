"""A stand-in of Hugging Face Jobs and of the bucket that scripts travel through; answers huggingface_hub and hf_xet over HTTP.

In a test:     with JobsStandIn() as hub: hub.outcomes["l4x1"] = Outcome(lines=("…",))      hub.jobs, hub.scripts, hub.requests

A script that `run_uv_job` is given goes the client's own way: a bucket, chunks packed by hf_xet into xorbs and listed in a shard, a batch
that names the file. Here the chunks are unpacked again, so that `Outcome(execute=True)` really runs what was shipped, on this machine.
Formats: huggingface_hub 2.4 (_jobs_api.py, hf_api.py), hf_xet 1.8 (xorb: chunks with an 8-byte header, stored or LZ4; shard: 48-byte
records).
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import lz4.frame
from hub_stand_in import Answer, Seen, StandIn, refuse

RECORD = 48
_EXPIRES_S = 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How jobs on a flavor go: the lines of their log, the stage they end in after so many looks; or the script is really run."""

    lines: tuple[str, ...] = ()
    stage: str = "COMPLETED"
    message: str | None = None
    looks: int = 0
    execute: bool = False


@dataclass(slots=True, kw_only=True)
class FakeJob:
    """A job: what it was asked to do and how it goes."""

    id: str
    owner: str
    request: dict[str, Any]
    outcome: Outcome
    script: str
    folder: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    looks: int = 0
    cancelled: bool = False
    lines: tuple[str, ...] | None = None

    def stage(self) -> str:
        """Where it stands."""
        if self.cancelled:
            return "CANCELED"
        ready = self.lines is not None if self.outcome.execute else self.looks > self.outcome.looks
        return self.outcome.stage if ready else "RUNNING"

    def log(self) -> tuple[str, ...]:
        """Its log; the script is run when it is first asked for."""
        if self.lines is None:
            self.lines = run(self.script, self.files, self.folder) if self.outcome.execute else self.outcome.lines
        return self.lines

    def to_json(self) -> dict[str, Any]:
        """The JSON of a job."""
        status = {"stage": self.stage(), "message": self.outcome.message if self.stage() == self.outcome.stage else None}
        return {
            "id": self.id,
            "createdAt": "2026-11-21T09:00:00.000Z",
            "dockerImage": self.request.get("dockerImage"),
            "command": self.request["command"],
            "arguments": [],
            "environment": {},
            "flavor": self.request["flavor"],
            "status": status,
            "durations": {"schedulingSecs": 3, "runningSecs": 42, "totalSecs": 45},
            "owner": {"id": "1", "name": self.owner, "type": "user"},
        }


@dataclass(slots=True, kw_only=True)
class FakeDataset:
    """A dataset: its files, and a commit for each time that some were written."""

    private: bool
    files: dict[str, bytes] = field(default_factory=lambda: {".gitattributes": b""})
    commits: int = 0

    @property
    def sha(self) -> str:
        """The newest commit."""
        return f"{self.commits:040x}"


def run(script: str, files: dict[str, bytes] | None = None, mounted: str = "") -> tuple[str, ...]:
    """Execute a shipped script as a job would, without the Hub, this repository or a login in its reach.

    The files of a bucket below `mounted` are a folder of the job; what it writes there is in the bucket afterwards.
    """
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as volume:
        file = Path(folder) / "script.py"
        file.write_text(script, encoding="utf-8")
        bare = {"PATH": os.environ["PATH"], "HOME": folder, "HF_HUB_OFFLINE": "1", "PYTHONUNBUFFERED": "1", "OMP_NUM_THREADS": "1"}
        bare["ADVISOR_FOLDER"] = volume
        for name, content in (files or {}).items():
            if mounted and name.startswith(f"{mounted}/"):
                (Path(volume) / name.removeprefix(f"{mounted}/")).write_bytes(content)
        done = subprocess.run([sys.executable, str(file)], check=False, capture_output=True, text=True, cwd=folder, env=bare, timeout=240)
        for written in Path(volume).rglob("*") if mounted and files is not None else ():
            if written.is_file():
                files[f"{mounted}/{written.relative_to(volume)}"] = written.read_bytes()
    return (*done.stdout.splitlines(), *done.stderr.splitlines(), f"exit {done.returncode}")


def _hex(raw: bytes) -> str:
    """A hash as xet writes it: four words, each with its bytes turned round."""
    return "".join(raw[at : at + 8][::-1].hex() for at in range(0, 32, 8))


def _chunks(xorb: bytes) -> list[bytes]:
    """The chunks packed in a xorb; what follows them (its footer) is left."""
    chunks, offset = [], 0
    while offset + 8 <= len(xorb) and xorb[offset] == 0:
        packed_size, scheme, size = (
            int.from_bytes(xorb[offset + 1 : offset + 4], "little"),
            xorb[offset + 4],
            int.from_bytes(xorb[offset + 5 : offset + 8], "little"),
        )
        data = xorb[offset + 8 : offset + 8 + packed_size]
        chunks.append(lz4.frame.decompress(data) if scheme else data)
        assert len(chunks[-1]) == size
        offset += 8 + packed_size
    return chunks


class JobsStandIn(StandIn):
    """The server.

    `tokens` maps tokens to accounts. `outcomes` says how jobs go by flavor, or how one after the other does. `bucket` has the files of all
    buckets by path, `scripts` those that are text.
    """

    def __init__(self, port: int = 0) -> None:
        super().__init__(port)
        self.tokens = {"hf_ada": "ada"}
        self.outcomes: dict[str, Outcome | list[Outcome]] = {}
        self.jobs: dict[str, FakeJob] = {}
        self.scripts: dict[str, str] = {}
        self.bucket: dict[str, bytes] = {}
        self.datasets: dict[str, FakeDataset] = {}
        self.scheduled: list[dict[str, Any]] = []
        self.prices: list[dict[str, Any]] = []
        self._xorbs: dict[str, list[bytes]] = {}
        self._files: dict[str, bytes] = {}

    def answer(self, seen: Seen) -> Answer:
        """What the Hub, its bucket store and its jobs would say."""
        path = urlsplit(seen.path).path
        if path == "/api/jobs/hardware" or path.startswith("/v"):
            return _json(self.prices) if path.startswith("/api") else self._store_body(path, seen.body)
        owner = self.tokens.get(seen.headers.get("authorization", "").removeprefix("Bearer "))
        if owner is None:
            return refuse(401, "", "Invalid username or password.")
        content = self.bucket.get(unquote(path.partition("/resolve/")[2]))
        if content is not None:
            return Answer(body=content)
        return self._of_account(path, owner, seen)

    def _of_account(self, path: str, owner: str, seen: Seen) -> Answer:
        match path.split("/")[2:]:
            case ["whoami-v2"]:
                return _json({"type": "user", "name": owner})
            case ["buckets", *_]:
                return self._bucket(path, seen)
            case ["scheduled-jobs", *_]:
                return self._schedule(json.loads(seen.body), owner)
            case ["jobs", *parts]:
                return self._job(parts, seen)
            case ["repos" | "datasets", *parts]:
                return self._dataset(parts, owner, seen)
        return refuse(404, "RepoNotFound", "Not found")

    def _dataset(self, parts: list[str], owner: str, seen: Seen) -> Answer:
        """A new one; its state; that a file is sent with the commit; and a commit on top of the state that the client saw."""
        if parts == ["create"]:
            asked = json.loads(seen.body)
            self.datasets[f"{owner}/{asked['name']}"] = FakeDataset(private=asked["visibility"] == "private")
            return _json({"url": f"{self.url}/datasets/{owner}/{asked['name']}"})
        name, dataset = "/".join(parts[:2]), self.datasets.get("/".join(parts[:2]))
        if dataset is None:
            return refuse(404, "RepoNotFound", "Not found")
        match parts[2:3]:
            case ["preupload"]:
                files = [{"path": one["path"], "uploadMode": "regular", "shouldIgnore": False} for one in json.loads(seen.body)["files"]]
                return _json({"files": files})
            case ["commit"]:
                head, *lines = map(json.loads, seen.body.splitlines())
                if head["value"].get("parentCommit") not in {None, dataset.sha}:
                    return refuse(412, "", "A commit has happened since. Please refresh and try again.")
                dataset.files |= {line["value"]["path"]: base64.b64decode(line["value"]["content"]) for line in lines}
                dataset.commits += 1
                return _json({"commitUrl": f"{self.url}/datasets/{name}/commit/{dataset.sha}", "commitOid": dataset.sha})
        listed = [{"rfilename": file} for file in dataset.files]
        return _json({"id": name, "sha": dataset.sha, "private": dataset.private, "siblings": listed, "tags": []})

    def _bucket(self, path: str, seen: Seen) -> Answer:
        if path.endswith("/xet-write-token"):
            told = {"X-Xet-Cas-Url": self.url, "X-Xet-Access-Token": "cas", "X-Xet-Token-Expiration": str(int(time.time()) + _EXPIRES_S)}
            named = {"casUrl": self.url, "accessToken": "cas", "exp": int(told["X-Xet-Token-Expiration"])}
            return Answer(body=json.dumps(named).encode(), headers=told)
        if path.endswith("/batch"):
            for line in map(json.loads, seen.body.splitlines()):
                self.scripts[line["path"]] = self._files[line["xetHash"]].decode()
                self.bucket[line["path"]] = self._files[line["xetHash"]]
            return _json({"failed": []})
        return _json({"url": f"{self.url}/buckets/{'/'.join(path.split('/')[3:5])}"})

    def _store_body(self, path: str, body: bytes) -> Answer:
        """The store behind the bucket: xorbs and shards."""
        if path.startswith("/v1/xorbs/"):
            self._xorbs[path.rpartition("/")[2]] = _chunks(body)
            return _json({"was_inserted": True})
        if path == "/v1/shards":
            self._read_shard(body)
            return _json({"result": 1})
        return refuse(404, "", "Not found")

    def _read_shard(self, shard: bytes) -> None:
        """Files listed in a shard: a header, per file a record and one for each run of chunks (and for each a hash, and one of its own)."""
        offset = RECORD
        while shard[offset : offset + 32] != b"\xff" * 32:
            flags, entries = (int.from_bytes(shard[offset + 32 + 4 * n : offset + 36 + 4 * n], "little") for n in range(2))
            content = b""
            for n in range(entries):
                entry = shard[offset + RECORD * (1 + n) :][:RECORD]
                first, last = int.from_bytes(entry[40:44], "little"), int.from_bytes(entry[44:48], "little")
                content += b"".join(self._xorbs[_hex(entry[:32])][first:last])
            self._files[_hex(shard[offset : offset + 32])] = content
            offset += RECORD * (1 + entries + (entries if flags >> 31 & 1 else 0) + (flags >> 30 & 1))

    def _job(self, parts: list[str], seen: Seen) -> Answer:
        if len(parts) == 1:
            return self._start_job(parts[0], json.loads(seen.body))
        job = self.jobs.get(parts[1])
        if job is None:
            return refuse(404, "", "Job not found")
        match parts[2:]:
            case ["logs"]:
                events = ({"timestamp": "2026-11-21T09:01:00.000Z", "data": line} for line in job.log())
                return Answer(
                    body="".join(f"data: {json.dumps(e)}\n\n" for e in events).encode(), headers={"Content-Type": "text/event-stream"}
                )
            case ["cancel"]:
                job.cancelled = True
                return _json({})
        job.looks += 1
        return _json(job.to_json())

    def _schedule(self, request: dict[str, Any], owner: str) -> Answer:
        self.scheduled.append(request)
        spec = request["jobSpec"] | {"arguments": [], "environment": {}, "timeout": 60}
        told = {"id": f"schedule{len(self.scheduled)}", "createdAt": "2026-11-21T09:00:00.000Z", "schedule": request["schedule"]}
        told |= {"suspend": False, "concurrency": False, "jobSpec": spec, "owner": {"id": "1", "name": owner, "type": "user"}}
        return _json(told | {"status": {"lastJob": None, "nextJobRunAt": None}})

    def _start_job(self, owner: str, request: dict[str, Any]) -> Answer:
        folders = {volume["mountPath"]: volume["path"] for volume in request.get("volumes", ())}
        name = f"{folders.pop('/data', '')}/{request['command'][2].removeprefix('/data/')}"
        outcomes = self.outcomes.get(request["flavor"], Outcome())
        outcome = outcomes if isinstance(outcomes, Outcome) else outcomes[min(len(self.jobs), len(outcomes) - 1)]
        job = FakeJob(
            id=f"job{len(self.jobs)}",
            owner=owner,
            request=request,
            outcome=outcome,
            script=self.scripts.get(name, ""),
            folder=next(iter(folders.values()), ""),
            files=self.bucket,
        )
        self.jobs[job.id] = job
        return _json(job.to_json())


def _json(value: Any) -> Answer:
    return Answer(body=json.dumps(value).encode())
