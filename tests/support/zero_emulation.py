"""ZeroGPU without a GPU: the real package `spaces` against a scheduler on this machine, its moves of tensors replaced by nothing.

    with Scheduler() as scheduler, emulated(scheduler, DEMO_MODEL=folder) as url: ...

What is real: the decorator, the forked processes, the pickling, the requests to the scheduler and the errors that come of its answers.
What is not: CUDA. A model that was put on "cuda" while the app started lies in the forked process where it was, in host memory.
"""

from __future__ import annotations

import json
import runpy
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from running_app import start_app

GRANT = {"idle": True, "nvidiaIndex": 0, "nvidiaUUID": "GPU-emulated", "allowToken": "let-me-in"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What /schedule answers."""

    status: int = 200
    body: Any = field(default_factory=lambda: GRANT)
    headers: tuple[tuple[str, str], ...] = ()
    events: tuple[str, ...] = ()


class Scheduler:
    """The API that hands out GPUs. `reply` is what the next call of /schedule gets; `seen` what was asked, path and query."""

    def __init__(self) -> None:
        self.reply = Reply()
        self.seen: list[tuple[str, dict[str, str]]] = []
        self.changed = threading.Condition()
        scheduler = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                scheduler._answer(self)

            def log_message(self, *_: object) -> None:
                """Nothing is logged."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _answer(self, call: BaseHTTPRequestHandler) -> None:
        parts = urlsplit(call.path)
        reply = self.reply if parts.path == "/schedule" else Reply(body={})
        with self.changed:
            self.seen.append((parts.path, {name: values[0] for name, values in parse_qs(parts.query).items()}))
            self.changed.notify_all()
        pieces = [f"event: {event}\n\n".encode() for event in reply.events] or [json.dumps(reply.body).encode()]
        call.send_response(reply.status)
        call.send_header("Content-Type", "text/event-stream" if reply.events else "application/json")
        call.send_header("Content-Length", str(sum(map(len, pieces))))
        for name, value in reply.headers:
            call.send_header(name, value)
        call.end_headers()
        for piece in pieces:  # the client takes what arrives at once for one event
            call.wfile.write(piece)
            time.sleep(0.2 if reply.events else 0)

    def list_queries(self, path: str) -> list[dict[str, str]]:
        """The queries of all calls of this path so far."""
        return [query for seen, query in self.seen if seen == path]

    def wait_for(self, path: str, count: int, seconds: float = 20.0) -> bool:
        """Whether the path has been called this often, now or soon."""
        with self.changed:
            return self.changed.wait_for(lambda: len(self.list_queries(path)) >= count, seconds)


@contextmanager
def start_emulated_app(scheduler: Scheduler, **environment: str) -> Iterator[str]:
    """The real app on this ZeroGPU, as a process group of its own; yields its address."""
    settings = {"SPACES_ZERO_GPU": "true", "SPACES_ZERO_DEVICE_API_URL": scheduler.url, "HF_HUB_OFFLINE": "1"}
    with start_app(script=str(Path(__file__)), **settings, **environment) as url:
        yield url


def _without_cuda(*_: Any) -> None:
    raise RuntimeError("no CUDA in this build")


def take_cuda_s_place() -> None:
    """Let `spaces` believe in CUDA: before it is imported, and where it would move tensors."""
    import torch  # noqa: PLC0415 the order matters

    torch.version.cuda = "13.0"
    torch._C._cuda_init = _without_cuda  # type: ignore[attr-defined]
    torch.cuda._is_in_bad_fork = bool  # type: ignore[assignment]  # spaces forks while it is imported and pickles this by its name
    import spaces.zero.torch as on_zero  # noqa: PLC0415
    from spaces.zero.torch import patching  # noqa: PLC0415

    def move(callback: Any = None) -> None:  # noqa: ARG001 as spaces calls it
        for stand_in, original in list(patching.cuda_aliases.items()):
            if original is not None:
                stand_in.data = original

    on_zero.pack = patching._total_unpacked_size
    on_zero.init = lambda _uuid: None
    on_zero.move = move


if __name__ == "__main__":
    take_cuda_s_place()
    sys.path.insert(0, str(Path.cwd()))
    runpy.run_path("app.py", run_name="__main__")
