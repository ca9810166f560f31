"""A local stand-in for the Hugging Face Hub: real file headers with range requests, and faults on demand.

In a test:            with StandIn() as hub: hub.add(Repo(id="org/name", files={...})); ... hub.url, hub.requests
As a process:         python tests/support/hub_stand_in.py --port 8931     then start the app with HF_ENDPOINT=http://127.0.0.1:8931
                      (the repositories that it then serves are those of `hub_repos.demo_repos`)

What is answered: /api/models/{id}[/revision/{rev}], /api/models?search=&filter=, /{id}/resolve/{rev}/{file}. Statuses and the headers
X-Error-Code, X-Error-Message, X-Repo-Commit follow what huggingface_hub 2.4 reads from the Hub (utils/_http.py).
A file may be larger than its bytes: `Blob(head, size)` serves zeros after its head, so a 100 GB file costs nothing.
"""

from __future__ import annotations

import argparse
import json
import socket
import socketserver
import threading
import time
from dataclasses import dataclass, field
from typing import Any, Self
from urllib.parse import parse_qs, unquote, urlsplit

SHA = "0123456789abcdef0123456789abcdef01234567"
_REASONS = {200: "OK", 206: "Partial Content", 302: "Found", 307: "Temporary Redirect"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Blob:
    """A file of `size` bytes of which only the head is not zero."""

    head: bytes
    size: int

    def read_range(self, start: int, stop: int) -> bytes:
        """Bytes start (included) to stop (excluded)."""
        return self.head[start:stop].ljust(min(stop, self.size) - start, b"\0")


@dataclass(slots=True, kw_only=True)
class Repo:
    """A model repository: its files and what the Hub says about it. `readers` are the tokens that may read a closed one."""

    id: str
    files: dict[str, bytes | Blob]
    info: dict[str, Any] = field(default_factory=dict)
    private: bool = False
    gated: str | bool = False
    readers: frozenset[str] = frozenset()
    sha: str = SHA
    xet: bool = False
    headers_at_once: bool = False

    def blob(self, name: str) -> Blob | None:
        """The file of that name."""
        held = self.files.get(name)
        return Blob(head=held, size=len(held)) if isinstance(held, bytes) else held

    def to_json(self, *, blobs: bool) -> dict[str, Any]:
        """The JSON of /api/models/{id}."""
        listed = [{"rfilename": name} | ({"size": self.blob(name).size} if blobs else {}) for name in self.files]
        fixed = {"id": self.id, "modelId": self.id, "sha": self.sha, "private": self.private, "gated": self.gated, "disabled": False}
        return fixed | {"tags": [], "downloads": 1, "likes": 0, "siblings": listed} | self.info


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What to answer instead. `after` bytes of the true body are sent before a hang or a cut."""

    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes | None = None
    hang: bool = False
    cut: bool = False
    drip_s: float = 0.0
    drip_headers: bool = False
    ignore_range: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One request as it arrived; header names in lower case."""

    path: str
    headers: dict[str, str]
    method: str = "GET"
    body: bytes = b""


@dataclass(slots=True, kw_only=True)
class Answer:
    """What is sent back."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)


def refuse(status: int, code: str, message: str) -> Answer:
    """The Hub's way to say no: a status, its code for the client, its sentence."""
    headers = {"X-Error-Code": code, "X-Error-Message": message}
    return Answer(status=status, body=json.dumps({"error": message}).encode(), headers={k: v for k, v in headers.items() if v})


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 256


class StandIn:
    """The server. `url` is its endpoint, `requests` what it was asked, `faults` maps a part of a path to a Fault."""

    def __init__(self, port: int = 0) -> None:
        self.repos: dict[str, Repo] = {}
        self.faults: dict[str, Fault] = {}
        self.requests: list[Seen] = []
        self.stopping = threading.Event()
        hub = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                _converse(hub, self.request)

        self._server = _Server(("127.0.0.1", port), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopping.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)

    def add(self, repo: Repo) -> Repo:
        """Serve one more repository."""
        self.repos[repo.id] = repo
        return repo

    def paths(self) -> list[str]:
        """The paths asked for so far."""
        return [seen.path for seen in self.requests]

    def answer(self, seen: Seen) -> Answer:
        """What the Hub would say to this request."""
        parts = urlsplit(seen.path)
        path, query = unquote(parts.path), parse_qs(parts.query)
        if path == "/api/models":
            return self._search_repos(query)
        if "/safetensors-metadata/" in path:
            return self._headers(*path.removeprefix("/api/models/").split("/safetensors-metadata/", 1), seen)
        api = path.startswith("/api/models/")
        name, _, rest = path.removeprefix("/api/models/").lstrip("/").partition("/revision/" if api else "/resolve/")
        repo = self.repos.get(name)
        refusal = self._refuse_reader(repo, seen, api=api)
        if refusal:
            return refusal
        assert repo is not None
        revision, _, file = rest.partition("/")
        if revision not in ("", "main", repo.sha):
            return refuse(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        if api:
            return Answer(body=json.dumps(repo.to_json(blobs="blobs" in query)).encode())
        return self._file(repo, file, seen)

    def _headers(self, name: str, index: str, seen: Seen) -> Answer:
        """All shard headers of a copy, as the Hub has them for the main branch; nothing where it has not."""
        repo = self.repos.get(name)
        refusal = self._refuse_reader(repo, seen, api=False)
        if refusal:
            return refusal
        assert repo is not None
        if not repo.headers_at_once or index not in repo.files:
            return refuse(404, "EntryNotFound", "Entry not found")
        blob = repo.blob(index)
        assert blob is not None
        read = json.loads(blob.head)
        headers = {}
        for shard in sorted(set(read["weight_map"].values())):
            head = repo.blob(shard).head
            headers[shard] = json.loads(head[8 : 8 + int.from_bytes(head[:8], "little")])
        return Answer(body=json.dumps({"index": {"metadata": read["metadata"]}, "headers": headers}).encode())

    def _search_repos(self, query: dict[str, list[str]]) -> Answer:
        words, limit = query.get("search", [""])[0].lower(), int(query.get("limit", ["10"])[0])
        tags = query.get("filter", [])
        found = [repo.to_json(blobs=False) for repo in self.repos.values() if words in repo.id.lower() and not repo.private]
        found = [row for row in found if set(tags) <= set(row["tags"]) and row["id"].startswith(query.get("author", [""])[0])]
        return Answer(body=json.dumps(found[:limit]).encode())

    def _refuse_reader(self, repo: Repo | None, seen: Seen, *, api: bool) -> Answer | None:
        token = seen.headers.get("authorization", "").removeprefix("Bearer ")
        if repo is None or (repo.private and token not in repo.readers):
            return refuse(404, "RepoNotFound", "Repository not found") if token else refuse(401, "RepoNotFound", "Repository Not Found")
        if repo.gated and not api and token not in repo.readers:
            return refuse(403 if token else 401, "GatedRepo", f"Access to model {repo.id} is restricted.")
        return None

    def _file(self, repo: Repo, name: str, seen: Seen) -> Answer:
        blob = repo.blob(name)
        if blob is None:
            return refuse(404, "EntryNotFound", "Entry not found")
        if repo.xet and "via=cdn" not in seen.path:
            return Answer(status=302, headers={"Location": f"{seen.path}?via=cdn", "X-Repo-Commit": repo.sha})
        byte_range = seen.headers.get("range")
        if byte_range is None:
            headers = {"X-Repo-Commit": repo.sha, "ETag": f'"{len(name)}-{blob.size}"'}
            return Answer(body=blob.read_range(0, blob.size), headers=headers)
        first, _, last = byte_range.removeprefix("bytes=").partition("-")
        start, stop = int(first), min(int(last or blob.size) + 1, blob.size)
        if start >= blob.size:
            return Answer(status=416, headers={"Content-Range": f"bytes */{blob.size}"})
        return Answer(status=206, body=blob.read_range(start, stop), headers={"Content-Range": f"bytes {start}-{stop - 1}/{blob.size}"})

    def fault(self, path: str) -> Fault | None:
        """The fault set for a part of this path."""
        return next((fault for part, fault in self.faults.items() if part in path), None)


def _converse(hub: StandIn, sock: socket.socket) -> None:
    """Serve one connection until it is closed (HTTP/1.1, keep-alive)."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    pending = b""
    try:
        while not hub.stopping.is_set():
            while b"\r\n\r\n" not in pending:
                more = sock.recv(65536)
                if not more:
                    return
                pending += more
            head, _, pending = pending.partition(b"\r\n\r\n")
            first, *lines = head.decode("latin-1").split("\r\n")
            pairs = (line.partition(":") for line in lines)
            method, path, _ = first.split(" ")
            headers = {key.strip().lower(): value.strip() for key, _, value in pairs}
            length = int(headers.get("content-length", "0"))
            while len(pending) < length:
                more = sock.recv(65536)
                if not more:
                    return
                pending += more
            seen = Seen(path=path, headers=headers, method=method, body=pending[:length])
            pending = pending[length:]
            hub.requests.append(seen)
            if not _reply(hub, sock, seen):
                return
    except OSError:
        return  # the client went away, as a client may


def _reply(hub: StandIn, sock: socket.socket, seen: Seen) -> bool:
    """Send one answer; false when the connection cannot be used again."""
    fault = hub.fault(seen.path) or Fault()
    if fault.ignore_range:
        seen = Seen(path=seen.path, headers={key: value for key, value in seen.headers.items() if key != "range"})
    plain = fault.status == 200 and fault.body is None
    answer = hub.answer(seen) if plain else Answer(status=fault.status, body=fault.body or b"{}")
    headers = {"Content-Type": "application/json"} | answer.headers | {"Content-Length": str(len(answer.body))} | dict(fault.headers)
    lines = [f"HTTP/1.1 {answer.status} {_REASONS.get(answer.status, 'Status')}", *(f"{key}: {value}" for key, value in headers.items())]
    head = ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
    if fault.hang:
        hub.stopping.wait(60)
        return False
    if fault.cut:
        sock.sendall(head + answer.body[: len(answer.body) // 2])
        return False
    if fault.drip_s:
        dripped_bytes, head_bytes = (head + answer.body, b"") if fault.drip_headers else (answer.body, head)
        sock.sendall(head_bytes)
        for at in range(len(dripped_bytes)):
            if hub.stopping.wait(fault.drip_s):
                return False
            sock.sendall(dripped_bytes[at : at + 1])
        return True
    sock.sendall(head if seen.method == "HEAD" else head + answer.body)
    return True


def main() -> None:
    """Serve the demonstration repositories until stopped."""
    from hub_repos import demo_faults, demo_repos  # noqa: PLC0415 - that module imports this one

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--port", type=int, default=8931)
    with StandIn(parser.parse_args().port) as hub:
        for repo in demo_repos():
            hub.add(repo)
        hub.faults.update(demo_faults())
        print(hub.url, flush=True)  # noqa: T201 - the caller waits for this line
        while True:
            time.sleep(3600)


if __name__ == "__main__":
    main()
