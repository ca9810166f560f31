"""How much the app serves to many clients at once, beside an empty Gradio app in the same run.

python tests/benchmarks/bench_load.py [--clients 300] [--seconds 8] [--only page,repeated]

Every client has an address of its own, keeps one connection and asks again as soon as it has its answer. (One address may use eight
threads of the app; clients of one address would measure refusals.) Clients and app share the machine's processors. The rate counts
answers with status 200 only.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from bench_attacks import cpu_s, process_of, resident_mib
from running_app import start_app

MODEL = "meta-llama/Llama-3.1-8B-Instruct"
EMPTY = "tests/benchmarks/empty_gradio.py"
Request = Callable[[int], bytes]
_numbers = count()


def get(path: str) -> Request:
    """Reading an address as a browser does."""
    return lambda _: f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: gzip\r\n\r\n".encode()


def run(name: str, data: Callable[[int], list[object]]) -> Request:
    """A call of an endpoint, with other arguments for each number."""

    def request(number: int) -> bytes:
        body = json.dumps({"data": data(number)}).encode()
        head = f"POST /gradio_api/run/{name} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        head += f"Content-Length: {len(body)}\r\n\r\n"
        return head.encode() + body

    return request


CASES: dict[str, tuple[str, Request]] = {
    "empty page": (EMPTY, get("/")),
    "empty endpoint": (EMPTY, run("double", lambda number: [number])),
    "page": ("app.py", get("/")),
    "cheap": ("app.py", run("list_hardware", lambda _: [])),
    "memory": ("app.py", run("estimate_memory", lambda number: [MODEL, "auto", "transformers", 1024 + number % 100_000])),
    "repeated": ("app.py", run("recommend", lambda _: [MODEL])),
    "ten": ("app.py", run("recommend", lambda number: [MODEL, "auto", 1024 + number % 10])),
    "distinct": ("app.py", run("recommend", lambda number: [MODEL, "auto", 1024 + number % 100_000])),
}


async def client(address: str, url: SplitResult, request: Request, until: float, waits: list[float], statuses: Counter[str]) -> None:
    """Ask as the client of one address until the time is over."""
    reader, writer = await asyncio.open_connection(url.hostname, url.port, limit=2**22)
    forwarded = f"\r\nX-Forwarded-For: {address}\r\n".encode()
    with suppress(asyncio.IncompleteReadError, ConnectionError):
        while time.perf_counter() < until:
            began = time.perf_counter()
            writer.write(request(next(_numbers)).replace(b"\r\n", forwarded, 1))
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r")[0])
            await reader.readexactly(length)
            statuses[head[9:12].decode()] += 1
            if head[9:12] == b"200":
                waits.append(time.perf_counter() - began)
        writer.close()
        return
    statuses["lost"] += 1


async def crowd(url: str, request: Request, clients: int, seconds: float) -> tuple[list[float], Counter[str]]:
    """Run all clients together; return the seconds of each answered request, and the number of answers by status."""
    waits, statuses = list[float](), Counter[str]()
    until = time.perf_counter() + seconds
    addresses = (f"198.18.{number // 250}.{number % 250 + 1}" for number in range(clients))
    await asyncio.gather(*(client(address, urlsplit(url), request, until, waits, statuses) for address in addresses))
    return waits, statuses


def main() -> None:
    """Start each app, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--clients", type=int, default=300)
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    wanted = {name: case for name, case in CASES.items() if not options.only or name in options.only.split(",")}
    for script in dict.fromkeys(script for script, _ in wanted.values()):
        with start_app(script=script) as url:
            for name, (where, request) in wanted.items():
                if where != script:
                    continue
                asyncio.run(crowd(url, request, 2, 1))
                process = process_of(url)
                cpu, began = cpu_s(process), time.perf_counter()
                waits, statuses = asyncio.run(crowd(url, request, options.clients, options.seconds))
                took, cpu = time.perf_counter() - began, cpu_s(process) - cpu
                waits.sort()
                p50, p95 = (1000 * waits[int(part * (len(waits) - 1))] if waits else 0 for part in (0.5, 0.95))
                print(  # noqa: T201 - a benchmark prints
                    f"{name:15} {options.clients} clients: {len(waits) / took:6.0f}/s, {1000 * cpu / max(1, len(waits)):5.1f} ms of CPU,"
                    f" p50 {p50:5.0f} p95 {p95:5.0f} ms,"
                    f" {dict(statuses)}, RSS {resident_mib(process)} MiB, load {os.getloadavg()[0]:.1f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
