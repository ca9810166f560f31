"""What a stranger can do to the app, once each: its memory afterwards, and how long others wait meanwhile.

python tests/benchmarks/bench_attacks.py [--calls 1000] [--only bodies,index]

Starts the app of this checkout on the loopback with a Hub stand-in behind it, attacks nothing else, and ends both.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

import httpx

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from hub_repos import as_json
from hub_stand_in import Blob, Repo, StandIn
from llama import LLAMA_8B_CONFIG
from running_app import started

BODY_BYTES = 4 * 2**20 - 1024
INDEX_BYTES = 64 * 2**20 - 1024
CHEAP = ("/gradio_api/run/list_hardware", {"data": []})
HALF_OPEN, PATIENCE_S = 40, 45


def process_of(url: str) -> int:
    """The process that serves the address: the one of our own children that was told its port."""
    told = f"GRADIO_SERVER_PORT={urlsplit(url).port}".encode()
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if told in (folder / "environ").read_bytes().split(b"\0"):
                return int(folder.name)
    raise LookupError(f"no process serves {url}")


def resident_mib(process: int, field: str = "VmRSS") -> int:
    """Resident memory in MiB; `VmHWM` is its peak."""
    for line in Path(f"/proc/{process}/status").read_text(encoding="ascii").splitlines():
        if line.startswith(field):
            return int(line.split()[1]) // 1024
    raise LookupError(field)


class Visitor:
    """Somebody who asks a cheap question every 50 ms, on a connection of their own."""

    def __init__(self, url: str) -> None:
        """Nothing is asked before `with`."""
        self.url, self.waits, self._stop = url, [], threading.Event()  # type: tuple[str, list[float], threading.Event]
        self.failed = 0
        self._thread = threading.Thread(target=self._ask)

    def _ask(self) -> None:
        with httpx.Client(base_url=self.url, timeout=60) as client:
            while not self._stop.is_set():
                began = time.perf_counter()
                try:
                    client.post(CHEAP[0], json=CHEAP[1]).raise_for_status()
                except httpx.HTTPError:
                    self.failed += 1
                self.waits.append(time.perf_counter() - began)
                self._stop.wait(0.05)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def __str__(self) -> str:
        waits = sorted(self.waits)
        p95 = waits[int(0.95 * (len(waits) - 1))]
        ms = [round(1000 * wait) for wait in (statistics.median(waits), p95, waits[-1])]
        return f"{len(waits)} cheap calls, {self.failed} failed: p50 {ms[0]} ms, p95 {ms[1]} ms, max {ms[2]} ms"


def posts(url: str, path: str, body: bytes, times: int, at_once: int) -> Counter[str]:
    """The same body many times; what was answered, counted by status."""
    with httpx.Client(base_url=url, timeout=120) as client, ThreadPoolExecutor(at_once) as pool:

        def post(_: int) -> str:
            try:
                return str(client.post(path, content=body, headers={"content-type": "application/json"}).status_code)
            except httpx.HTTPError as error:
                return type(error).__name__

        return Counter(pool.map(post, range(times)))


def half_sent(url: str) -> Counter[str]:
    """Requests that announce a megabyte, send half of it and wait; what ends them, counted."""
    at = urlsplit(url)
    head = f"POST /gradio_api/call/estimate_memory HTTP/1.1\r\nHost: {at.netloc}\r\nContent-Length: 1000000\r\n\r\n".encode()

    def one(_: int) -> str:
        with socket.create_connection((at.hostname or "", at.port or 0), timeout=PATIENCE_S) as line:
            try:
                line.sendall(head + b" " * 500_000)
                return line.recv(64).decode(errors="replace").partition("\r")[0] or "closed"
            except TimeoutError:
                return f"still open after {PATIENCE_S} s"
            except OSError as error:
                return type(error).__name__

    with ThreadPoolExecutor(HALF_OPEN) as pool:
        return Counter(pool.map(one, range(HALF_OPEN)))


def nested_index() -> Repo:
    """A model whose index is a list of empty lists."""
    index = b'{"weight_map": [' + b"[]," * (INDEX_BYTES // 3) + b"[]]}"
    files: dict[str, bytes | Blob] = {"config.json": as_json(LLAMA_8B_CONFIG), "model.safetensors.index.json": index}
    return Repo(id="attack/nested", files=files, info={"library_name": "transformers"})


def attacks(url: str, calls: int) -> dict[str, Callable[[], object]]:
    """The attacks by name."""
    call, run = "/gradio_api/call/estimate_memory", "/gradio_api/run/estimate_memory"
    lists, within = (b'{"data": [[' + b"[]," * ((size - 20) // 3) + b"[]]]}" for size in (BODY_BYTES, BODY_BYTES // 2))
    config = json.dumps(LLAMA_8B_CONFIG | {"_comment": "x" * 19_000})
    return {
        "bodies": lambda: posts(url, call, lists, 20, 4),
        "run_bodies": lambda: posts(url, run, lists, 20, 4),
        "number_bodies": lambda: posts(url, "/gradio_api/queue/join", b'{"fn_index": 1, "session_hash": "s", ' + lists[1:], 20, 4),
        "within_limit": lambda: posts(url, call, within, 100, 4),
        "half_sent": lambda: half_sent(url),
        "index": lambda: posts(url, run, b'{"data": ["attack/nested"]}', 1, 1),
        "calls": lambda: posts(url, call, b'{"data": ["7B"]}', calls, 8),
        "config_calls": lambda: posts(url, call, json.dumps({"data": [config]}).encode(), calls, 8),
        "wait": lambda: time.sleep(75),
    }


def main() -> None:
    """Start, warm up, attack, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--calls", type=int, default=1000)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    with StandIn() as hub:
        hub.add(nested_index())
        with started(HF_ENDPOINT=hub.url) as url:
            app = process_of(url)
            posts(url, "/gradio_api/run/estimate_memory", json.dumps({"data": [json.dumps(LLAMA_8B_CONFIG)]}).encode(), 3, 1)
            posts(url, CHEAP[0], b'{"data": []}', 20, 2)
            for name, attack in attacks(url, options.calls).items():
                if options.only and name not in options.only.split(","):
                    continue
                before, began = resident_mib(app), time.perf_counter()
                with Visitor(url) as visitor:
                    answers = attack()
                took = time.perf_counter() - began
                load = os.getloadavg()[0]
                print(  # noqa: T201 - a benchmark prints
                    f"{name:14} {took:6.1f} s  RSS {before} -> {resident_mib(app)} MiB, peak {resident_mib(app, 'VmHWM')};"
                    f" {visitor}; {answers if isinstance(answers, Counter) else ''} load {load:.1f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
