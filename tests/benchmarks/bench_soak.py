"""Half an hour of mixed questions at half load: memory, threads and file handles of the app, sampled.

python tests/benchmarks/bench_soak.py [--minutes 30] [--clients 4] [--share 0.5]

Starts the app of this checkout on the loopback with a Hub stand-in behind it. Each client asks, then rests so long that it asks `share`
of the time: calls by name and over MCP, page events by number, visits, known and unseen models, comparisons, simulated traffic, diagnoses,
GPU or TPU, wrong arguments, Spaces.
Printed are a row a minute and, at the end, the growth after the warm-up; the exit status is 1 where something grew or failed:
memory by more than 100 MB, threads or file handles by more than 10.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

import httpx
import psutil
from fuzz_runs import bad_lines, serve_app
from fuzzing import Fuzzer
from llama import LLAMA_8B_CONFIG

JSON = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
GROWN_MIB, GROWN = 100, 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What the app's process and its children hold at one moment."""

    minute: float
    resident_mib: int
    children_mib: int
    threads: int
    handles: int


def app_process(url: str) -> psutil.Process:
    """The process that listens there: one of our own children."""
    port = int(url.rpartition(":")[2])
    for child in psutil.Process().children(recursive=True):
        if any(line.laddr.port == port and line.status == psutil.CONN_LISTEN for line in child.net_connections()):
            return child
    raise LookupError(f"no child of ours serves {url}")


def look(process: psutil.Process, minute: float) -> Sample:
    """A sample."""
    children = 0
    for child in process.children(recursive=True):
        try:
            children += child.memory_info().rss
        except psutil.NoSuchProcess:
            continue  # a child that was replaced just now
    return Sample(
        minute=minute,
        resident_mib=process.memory_info().rss >> 20,
        children_mib=children >> 20,
        threads=process.num_threads(),
        handles=process.num_fds(),
    )


class Client(threading.Thread):
    """Somebody who asks a mix of questions and rests between them."""

    def __init__(self, url: str, number: int, share: float, until: float) -> None:
        """Ask `share` of the time until then."""
        super().__init__(name=f"client-{number}")
        self.url, self.share, self.until = url, share, until
        self.random, self.fuzz = random.Random(number), Fuzzer(number)  # noqa: S311 - it guards nothing
        self.outcomes, self.waits = Counter[str](), list[float]()

    def run(self) -> None:
        """Ask until the time is over."""
        kinds = (
            (self.recommend, 30), (self.memory, 20), (self.list_hardware, 15), (self.resolve_new, 5), (self.ask_wrong, 8),
            (self.over_mcp, 8), (self.queue_call, 4), (self.visit, 3), (self.space, 4), (self.page_event, 3), (self.compare, 5),
            (self.gpu_tpu, 4), (self.traffic, 3), (self.diagnose, 5), (self.save, 3), (self.queued_recommendation, 3),
        )  # fmt: skip
        asks, weights = zip(*kinds, strict=True)
        with httpx.Client(base_url=self.url, timeout=120) as client:
            while time.monotonic() < self.until:
                ask = self.random.choices(asks, weights)[0]
                began = time.monotonic()
                try:
                    answer = ask(client)
                    bad = answer.status_code >= 500 and answer.json().get("title") != "busy"
                    self.outcomes[f"{ask.__name__} FAULT {answer.status_code}" if bad else ask.__name__] += 1
                except httpx.HTTPError as error:
                    self.outcomes[f"{ask.__name__} FAULT {type(error).__name__}"] += 1
                took = time.monotonic() - began
                self.waits.append(took)
                time.sleep(took * (1 - self.share) / self.share)

    def call(self, client: httpx.Client, name: str, *values: object) -> httpx.Response:
        """A call by name."""
        return client.post(f"/gradio_api/run/{name}", content=json.dumps({"data": values}), headers=JSON)

    def recommend(self, client: httpx.Client) -> httpx.Response:
        """Questions of which some repeat."""
        return self.call(
            client, "recommend", self.random.choice(("7B", "Qwen/Qwen3-8B", "350M")), "auto", self.random.randrange(1, 60) * 128
        )

    def memory(self, client: httpx.Client) -> httpx.Response:
        """Known models."""
        return self.call(
            client, "estimate_memory", self.random.choice(("Qwen/Qwen3-8B", "70B", "org/llama-8b")), self.random.randrange(1, 30_000)
        )

    def list_hardware(self, client: httpx.Client) -> httpx.Response:
        """A list."""
        return self.call(client, "list_hardware")

    def resolve_new(self, client: httpx.Client) -> httpx.Response:
        """A configuration that nobody asked for before."""
        config = LLAMA_8B_CONFIG | {
            "num_hidden_layers": self.random.randrange(1, 90),
            "intermediate_size": 64 * self.random.randrange(2, 400),
        }
        return self.call(client, "resolve_model", json.dumps(config))

    def ask_wrong(self, client: httpx.Client) -> httpx.Response:
        """Arguments that are refused."""
        return self.call(client, "estimate_speed", self.fuzz.value(), self.fuzz.value())

    def over_mcp(self, client: httpx.Client) -> httpx.Response:
        """A tool."""
        sent = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "list_hardware", "arguments": {}}}
        return client.post("/gradio_api/mcp/", content=json.dumps(sent), headers=JSON)

    def queue_call(self, client: httpx.Client) -> httpx.Response:
        """A call of which the answer is read afterwards, or never."""
        joined = client.post("/gradio_api/call/estimate_memory", content=json.dumps({"data": ["7B"]}), headers=JSON)
        if joined.status_code == 200 and self.random.random() < 0.7:
            return client.get(f"/gradio_api/call/estimate_memory/{joined.json()['event_id']}")
        return joined

    def queued_recommendation(self, client: httpx.Client) -> httpx.Response:
        """A long answer that is read afterwards, or never."""
        sent = {"data": ["7B", "auto", self.random.randrange(1, 2_000) * 16]}
        joined = client.post("/gradio_api/call/recommend", content=json.dumps(sent), headers=JSON)
        if joined.status_code == 200 and self.random.random() < 0.7:
            return client.get(f"/gradio_api/call/recommend/{joined.json()['event_id']}")
        return joined

    def compare(self, client: httpx.Client) -> httpx.Response:
        """Two ways to serve a model."""
        sides = ({"hardware": hardware, "concurrency": self.random.randrange(1, 64)} for hardware in ("l4x1", "a100-large"))
        return self.call(client, "compare", "Qwen/Qwen3-8B", *sides)

    def gpu_tpu(self, client: httpx.Client) -> httpx.Response:
        """GPU or TPU."""
        return self.call(client, "compare_gpu_tpu", self.random.choice(("7B", "Qwen/Qwen3-8B", "70B")))

    def traffic(self, client: httpx.Client) -> httpx.Response:
        """A short simulation, now and then of a recorded trace or with the search for replicas."""
        sent = {
            "model": "Qwen/Qwen3-8B",
            "hardware": "l4x1",
            "requests_per_s": self.random.uniform(0.1, 3),
            "duration_s": self.random.randrange(10, 60),
            "seed": self.random.randrange(1000),
        }
        if self.random.random() < 0.3:
            lines = (f"{second / 2},{self.random.randrange(1, 900)},{self.random.randrange(1, 300)}" for second in range(200))
            sent |= {"arrivals": "recorded", "trace": "\n".join(("time,prompt_tokens,output_tokens", *lines))}
        elif self.random.random() < 0.2:
            sent |= {"capacity": True, "max_ttft_s": 2.0}
        return self.call_by_names(client, "simulate_batching", **sent)

    def diagnose(self, client: httpx.Client) -> httpx.Response:
        """Where a request's time goes."""
        measured = {"ttft_ms": self.random.randrange(50, 9_000), "tpot_ms": self.random.randrange(20, 500)}
        return self.call_by_names(client, "diagnose_latency", model="Qwen/Qwen3-8B", hardware="l4x1", **measured)

    def save(self, client: httpx.Client) -> httpx.Response:
        """Ways to save."""
        return self.call_by_names(
            client, "ways_to_save", model="Qwen/Qwen3-8B", hardware="l4x1", hours_per_day=self.random.randrange(1, 25)
        )

    def call_by_names(self, client: httpx.Client, name: str, **sent: object) -> httpx.Response:
        """A call by the names of its arguments, whose answer is read."""
        joined = client.post(f"/gradio_api/call/v2/{name}", content=json.dumps(sent), headers=JSON)
        return client.get(f"/gradio_api/call/{name}/{joined.json()['event_id']}") if joined.status_code == 200 else joined

    def visit(self, client: httpx.Client) -> httpx.Response:
        """The page."""
        return client.get("/")

    def space(self, client: httpx.Client) -> httpx.Response:
        """A Space, there or not."""
        return self.call(client, "space_status", self.random.choice(("ada/chat", "bob/app", "ada/none")))

    def page_event(self, client: httpx.Client) -> httpx.Response:
        """An event of the page in a session of its own, as the page sends it."""
        event = next(one for one in client.get("/config").json()["dependencies"] if one["api_name"] == "page_opened")
        sent = {"data": [], "fn_index": event["id"], "session_hash": f"s{self.random.random()}"}
        return client.post("/gradio_api/queue/join", content=json.dumps(sent), headers=JSON)


def soak(url: str, minutes: float, clients: int, share: float) -> tuple[list[Sample], list[Client]]:
    """Let the clients ask; a sample a minute."""
    process, began = app_process(url), time.monotonic()
    crowd = [Client(url, number, share, began + 60 * minutes) for number in range(clients)]
    for client in crowd:
        client.start()
    samples: list[Sample] = []
    while any(client.is_alive() for client in crowd):
        samples.append(look(process, (time.monotonic() - began) / 60))
        waits = sorted(wait for client in crowd for wait in client.waits[-200:]) or [0.0]
        sample = samples[-1]
        print(  # noqa: T201 - a benchmark prints
            f"{sample.minute:5.1f} min  RSS {sample.resident_mib:5} MiB, children {sample.children_mib:5} MiB, threads {sample.threads:3},"
            f" handles {sample.handles:4}; p50 {1000 * statistics.median(waits):4.0f} ms,"
            f" p95 {1000 * waits[int(0.95 * (len(waits) - 1))]:5.0f} ms; load {os.getloadavg()[0]:.1f}",
            flush=True,
        )
        time.sleep(min(60.0, max(1.0, 60 * minutes / 10)))
    for client in crowd:
        client.join()
    samples.append(look(process, (time.monotonic() - began) / 60))
    return samples, crowd


def growth(samples: list[Sample]) -> dict[str, int]:
    """From the first fifth after the warm-up to the last one, medians."""
    settled = samples[max(1, len(samples) // 10) :]
    part = max(1, len(settled) // 5)
    grown = {}
    for name in ("resident_mib", "children_mib", "threads", "handles"):
        first, last = ([getattr(sample, name) for sample in chosen] for chosen in (settled[:part], settled[-part:]))
        grown[name] = int(statistics.median(last) - statistics.median(first))
    return grown


def main() -> None:
    """Start, ask, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--share", type=float, default=0.5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        with serve_app(log) as url:
            samples, crowd = soak(url, options.minutes, options.clients, options.share)
        bad = bad_lines(log)
    outcomes = sum((client.outcomes for client in crowd), Counter[str]())
    grown = growth(samples)
    faults = {name: count for name, count in outcomes.items() if "FAULT" in name}
    print(f"{outcomes.total():,} questions: {dict(outcomes)}; grown {grown}; bad lines of the log {len(bad)}")  # noqa: T201
    over = grown["resident_mib"] > GROWN_MIB or grown["threads"] > GROWN or grown["handles"] > GROWN
    sys.exit(bool(over or faults or bad))


if __name__ == "__main__":
    main()
