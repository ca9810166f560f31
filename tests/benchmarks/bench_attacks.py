"""What a stranger can do to the app, once each: its memory afterwards, and how long others wait meanwhile.

python tests/benchmarks/bench_attacks.py [--calls 1000] [--configs 2000] [--only bodies,index]
python tests/benchmarks/bench_attacks.py --beside [--only login,simulate]

Starts the app of this checkout on the loopback with a Hub stand-in behind it, attacks nothing else, and ends both. Strangers come from
127.0.0.2 (or one address each), the visitors from 127.0.0.1. `bench_load.py` measures how much the app can serve.

`--beside` makes the attacks that a Gradio app with one field suffers as well on both apps, one after the other in the same run. The wait of
others must stay within 100 ms or 1.5 times that at the empty app, and memory must come back to within 100 MiB.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import socket
import statistics
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from itertools import count
from multiprocessing import get_context
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Event
from pathlib import Path
from tempfile import mkdtemp
from urllib.parse import urlsplit

import httpx

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from fuzzing import bundled_configs
from hub_repos import as_json
from hub_stand_in import Blob, Fault, Repo
from llama import LLAMA_8B_CONFIG, llama_config
from running_app import start_app
from space_stand_in import SpaceStandIn

BODY_BYTES = 4 * 2**20 - 1024
INDEX_BYTES = 64 * 2**20 - 1024
CHEAP = ("/gradio_api/run/list_hardware", {"data": []})
CHEAP_EVENT = "traffic_stopped"
HALF_OPEN, PATIENCE_S = 300, 45
SHOWN_EVERY = 250
LEAST_S = 6
STRANGER = "127.0.0.2"


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


def cpu_s(process: int) -> float:
    """Processor time that a process has used, in seconds."""
    fields = Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Visitor:
    """Somebody who asks one cheap thing every 50 ms, on a connection of their own."""

    def __init__(self, url: str, name: str, ask: Callable[[httpx.Client], httpx.Response]) -> None:
        """Nothing is asked before `visit`."""
        self.url, self.name, self._request = url, name, ask
        self.waits: list[float] = []
        self.failed = 0

    def visit(self, over: Event) -> None:
        """Ask until it is over."""
        with client_from(self.url, "127.0.0.1", 60) as client:
            while not over.wait(0.05):
                began = time.perf_counter()
                try:
                    self._request(client).raise_for_status()
                except httpx.HTTPError:
                    self.failed += 1
                self.waits.append(time.perf_counter() - began)

    def waits_ms(self) -> list[int]:
        """Median, 95th percentile and maximum."""
        waits = sorted(self.waits)
        return [round(1000 * wait) for wait in (statistics.median(waits), waits[int(0.95 * (len(waits) - 1))], waits[-1])]

    def __str__(self) -> str:
        ms = self.waits_ms()
        return f"{self.name} {len(self.waits)} calls, {self.failed} failed, p50 {ms[0]} p95 {ms[1]} max {ms[2]} ms"


def visitors(url: str) -> list[Visitor]:
    """Those who ask for something cheap: an endpoint, the page, an event of the page, a tool."""
    listed = httpx.get(f"{url}/config").json()["dependencies"]
    page = Visitor(url, "page", lambda client: client.get("/"))
    if "double" in [one["api_name"] for one in listed]:  # the empty app
        return [Visitor(url, "endpoint", lambda client: client.post("/gradio_api/run/double", json={"data": [1]})), page]
    event = next((one["id"] for one in listed if one["api_name"] == CHEAP_EVENT), None)
    if event is None:
        raise SystemExit(f"The page has no event {CHEAP_EVENT} any more. Name another cheap one without inputs as CHEAP_EVENT.")
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "list_hardware", "arguments": {}}}
    kinds = {"accept": "application/json, text/event-stream"}
    return [
        Visitor(url, "endpoint", lambda client: client.post(CHEAP[0], json=CHEAP[1])),
        page,
        Visitor(url, "event", lambda client: client.post("/gradio_api/run/predict", json={"fn_index": event, "data": []})),
        Visitor(url, "tool", lambda client: client.post("/gradio_api/mcp/", json=message, headers=kinds)),
    ]


def visit(url: str, ready: Event, over: Event, told: Queue[list[tuple[str, list[int]]]]) -> None:
    """All visitors until it is over, in a process of their own: the attackers' threads would hold them up as much as the app does."""
    asking = visitors(url)
    threads = [threading.Thread(target=one.visit, args=(over,)) for one in asking]
    for thread in threads:
        thread.start()
    ready.set()
    for thread in threads:
        thread.join()
    told.put([(str(one), one.waits_ms()) for one in asking])


@contextmanager
def send_visitors(url: str) -> Iterator[Callable[[], list[tuple[str, list[int]]]]]:
    """Visitors come while the block runs; afterwards the function tells how they fared."""
    spawn = get_context("spawn")
    ready, over, told = spawn.Event(), spawn.Event(), spawn.Queue()
    process = spawn.Process(target=visit, args=(url, ready, over, told))
    process.start()
    ready.wait(60)
    try:
        yield lambda: told.get(timeout=120)
    finally:
        over.set()


def client_from(url: str, address: str, timeout: float = 120) -> httpx.Client:
    """A client whose requests come from this address of the loopback."""
    transport = httpx.HTTPTransport(local_address=address, limits=httpx.Limits(), verify=False)  # reading certificates takes 50 ms
    return httpx.Client(base_url=url, timeout=timeout, transport=transport)


def posts(url: str, path: str, body: bytes, times: int, at_once: int) -> Counter[str]:
    """The same body many times; what was answered, counted by status."""
    with client_from(url, STRANGER) as client, ThreadPoolExecutor(at_once) as pool:

        def post(_: int) -> str:
            try:
                return str(client.post(path, content=body, headers={"content-type": "application/json"}).status_code)
            except httpx.HTTPError as error:
                return type(error).__name__

        return Counter(pool.map(post, range(times)))


def get_many(url: str, path: str, times: int, at_once: int) -> Counter[str]:
    """The same address read many times."""
    with client_from(url, STRANGER) as client, ThreadPoolExecutor(at_once) as pool:
        return Counter(pool.map(lambda _: str(client.get(path).status_code), range(times)))


def half_sent(url: str) -> Counter[str]:
    """Requests that announce a megabyte, send half of it and wait; what ends them, counted."""
    at = urlsplit(url)
    head = f"POST /gradio_api/call/estimate_memory HTTP/1.1\r\nHost: {at.netloc}\r\nContent-Length: 1000000\r\n\r\n".encode()

    def one(_: int) -> str:
        with socket.create_connection((at.hostname or "", at.port or 0), PATIENCE_S, (STRANGER, 0)) as line:
            try:
                line.sendall(head + b" " * 500_000)
                return line.recv(64).decode(errors="replace").partition("\r")[0] or "closed"
            except TimeoutError:
                return f"still open after {PATIENCE_S} s"
            except OSError as error:
                return type(error).__name__

    with ThreadPoolExecutor(HALF_OPEN) as pool:
        return Counter(pool.map(one, range(HALF_OPEN)))


def slow_readers(url: str, count: int, seconds: int) -> Counter[str]:
    """Many who ask for the page at the same moment and read a byte of it each second; how many bytes they got."""
    at, got = urlsplit(url), Counter[str]()
    with ExitStack() as readers:
        lines = [
            readers.enter_context(socket.create_connection((at.hostname or "", at.port or 0), PATIENCE_S, (STRANGER, 0)))
            for _ in range(count)
        ]
        for line in lines:
            line.sendall(f"GET / HTTP/1.1\r\nHost: {at.netloc}\r\n\r\n".encode())
        for _ in range(seconds):
            time.sleep(1)
            got["bytes"] += sum(len(line.recv(1)) for line in lines)
    return got


def hanging_hub(url: str, hub: SpaceStandIn, how: str) -> Counter[str]:
    """Looks at Spaces while the Hub answers nothing."""
    hub.faults["/api/spaces"] = Fault(hang=True)
    try:
        return posts(url, f"/gradio_api/{how}/space_status", b'{"data": ["ada/chat"]}', 60, 60) + read_answers(url, how)
    finally:
        del hub.faults["/api/spaces"]


def read_answers(url: str, how: str) -> Counter[str]:
    """The same over `call`, each with its answer read, as a client of Gradio does."""
    if how != "call":
        return Counter()
    with ThreadPoolExecutor(60) as pool:
        return Counter(pool.map(lambda _: call_and_read(url, STRANGER, "space_status", ["ada/chat"])[0], range(60)))


def call_and_read(url: str, address: str, name: str, data: list[object]) -> tuple[str, str]:
    """What a call over Gradio's queue came to, in one word, and the text of it."""
    with client_from(url, address) as client:
        try:
            asked = client.post(f"/gradio_api/call/{name}", json={"data": data})
            if not asked.is_success:
                return str(asked.status_code), asked.text
            text = client.get(f"/gradio_api/call/{name}/{asked.json()['event_id']}").text
        except httpx.HTTPError as error:
            return type(error).__name__, ""
        return text.partition("\n")[0].removeprefix("event: "), text


_seen = iter(range(1, 10**9))


def unseen_config() -> str:
    """A configuration that nobody pasted before."""
    return json.dumps(llama_config(vocab_size=1000 + next(_seen)))


def distinct_configs(count: int) -> Iterator[str]:
    """Real configurations of all bundled families, each with a vocabulary that nobody sent before; those without one are left out."""
    real = [config for config in bundled_configs() if isinstance(config.get("vocab_size"), int)]
    for number in range(count):
        config = real[number % len(real)]
        yield json.dumps({**config, "vocab_size": config["vocab_size"] + 8 * (1 + number // len(real))})


def unseen_configs(url: str, count: int) -> Counter[str]:
    """Distinct real-looking configurations one after another, with the memory of the server's own process on the way."""
    app, answers = process_of(url), Counter[str]()
    with client_from(url, STRANGER) as client:
        for number, config in enumerate(distinct_configs(count), 1):
            answers[str(client.post("/gradio_api/run/resolve_model", json={"data": [config]}).status_code)] += 1
            if number % SHOWN_EVERY == 0:
                print(f"    {number} configs, RSS {resident_mib(app)} MiB", dict(answers), flush=True)  # noqa: T201 - a benchmark prints
    return answers


def strangers(url: str, addresses: Callable[[int], str], questions: int) -> Counter[str]:
    """50 clients paste unseen configurations without a pause while a visitor asks new questions; what these were answered, counted."""
    over = threading.Event()

    def paste(number: int) -> None:
        with client_from(url, addresses(number)) as client:
            while not over.is_set():
                with suppress(httpx.HTTPError):
                    client.post("/gradio_api/run/resolve_model", json={"data": [unseen_config()]})

    crowd = [threading.Thread(target=paste, args=(number,)) for number in range(50)]
    for one in crowd:
        one.start()
    time.sleep(2)
    answers: Counter[str] = Counter()
    with client_from(url, "127.0.0.1") as client:
        for _ in range(questions):
            began = time.perf_counter()
            status = client.post("/gradio_api/run/resolve_model", json={"data": [unseen_config()]}).status_code
            answers[str(status)] += 1
            answers["longest_ms"] = max(answers["longest_ms"], round(1000 * (time.perf_counter() - began)))
    over.set()
    for one in crowd:
        one.join()
    return answers


def simulations(url: str, seconds: float) -> Counter[str]:
    """8 callers at 8 addresses who ask for the replicas that a traffic needs, again and again; what they were answered, counted."""
    wanted = {
        "model": "7B",
        "hardware": "l4x1",
        "requests_per_s": 4,
        "duration_s": 600,
        "capacity": True,
        "max_ttft_s": 2,
        "max_tpot_s": 0.1,
    }
    until = time.monotonic() + seconds

    def ask(number: int) -> Counter[str]:
        answers = Counter[str]()
        with client_from(url, f"127.0.1.{number + 1}") as client:
            while time.monotonic() < until:
                answer = client.post("/gradio_api/call/v2/simulate_batching", json=wanted | {"seed": 1000 * number + answers.total()})
                answers[client.get(f"/gradio_api/call/v2/simulate_batching/{answer.json()['event_id']}").text[:15]] += 1
        return answers

    with ThreadPoolExecutor(8) as pool:
        return sum(pool.map(ask, range(8)), Counter())


def held_places(url: str) -> Counter[str]:
    """One stranger asks for the device as often as it can; what another visitor's calls then come to, and wrong ones, counted."""
    slow = json.dumps({"data": [4096, 4096, 4096, 10_000]}).encode()
    answers = posts(url, "/gradio_api/call/heartbeat", slow, 40, 8)
    others: Counter[str] = Counter({f"stranger {status}": times for status, times in answers.items()})
    began = time.perf_counter()
    others[f"wrong: {call_and_read(url, '127.0.0.1', 'heartbeat', ['many'])[0]}"] += 1
    others["wrong_ms"] = round(1000 * (time.perf_counter() - began))
    with client_from(url, "127.0.0.1") as client:
        for _ in range(3):
            others[f"visitor {client.post('/gradio_api/call/heartbeat', json={'data': [8, 64, 64, 3]}).status_code}"] += 1
    return others


def nested_index() -> Repo:
    """A model whose index is a list of empty lists."""
    index = b'{"weight_map": [' + b"[]," * (INDEX_BYTES // 3) + b"[]]}"
    files: dict[str, bytes | Blob] = {"config.json": as_json(LLAMA_8B_CONFIG), "model.safetensors.index.json": index}
    return Repo(id="attack/nested", files=files, info={"library_name": "transformers"})


def attacks(url: str, hub: SpaceStandIn, calls: int, configs: int) -> dict[str, Callable[[], object]]:
    """The attacks by name."""
    call, run = "/gradio_api/call/estimate_memory", "/gradio_api/run/estimate_memory"
    lists, within = (b'{"data": [[' + b"[]," * ((size - 20) // 3) + b"[]]]}" for size in (BODY_BYTES, BODY_BYTES // 2))
    config = json.dumps(LLAMA_8B_CONFIG | {"_comment": "x" * 19_000})
    return {
        "nobody": lambda: time.sleep(15),
        "bodies": lambda: posts(url, call, lists, 20, 4),
        "run_bodies": lambda: posts(url, run, lists, 20, 4),
        "number_bodies": lambda: posts(url, "/gradio_api/queue/join", b'{"fn_index": 1, "session_hash": "s", ' + lists[1:], 20, 4),
        "within_limit": lambda: posts(url, call, within, 100, 4),
        "half_sent": lambda: half_sent(url),
        "index": lambda: posts(url, run, b'{"data": ["attack/nested"]}', 1, 1),
        "calls": lambda: posts(url, call, b'{"data": ["7B"]}', calls, 8),
        "config_calls": lambda: posts(url, call, json.dumps({"data": [config]}).encode(), calls, 8),
        "hub_run": lambda: hanging_hub(url, hub, "run"),
        "hub_call": lambda: hanging_hub(url, hub, "call"),
        "strangers": lambda: strangers(url, lambda _: STRANGER, 25),
        "crowd": lambda: strangers(url, lambda number: f"127.0.1.{number + 1}", 5),
        "page": lambda: get_many(url, "/", 400, 8),
        "unseen": lambda: unseen_configs(url, configs),
        "simulations": lambda: simulations(url, 40),
        "slow_readers": lambda: slow_readers(url, 200, 20),
        "wait": lambda: time.sleep(75),
        "device": lambda: held_places(url),
    }


def large_bodies(url: str, path: str, mib: int) -> Counter[str]:
    """Two connections that send so much each; what they were answered, and how much was taken."""
    taken: Counter[str] = Counter()

    def pieces() -> Iterator[bytes]:
        for _ in range(mib):
            taken["MiB taken"] += 1
            yield bytes(2**20)

    def post(_: int) -> None:
        with client_from(url, STRANGER) as client:
            kind = {"content-type": "multipart/form-data; boundary=x"}
            try:
                taken[str(client.post(path, content=pieces(), headers=kind).status_code)] += 1
            except httpx.HTTPError as error:
                taken[type(error).__name__] += 1

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(post, range(2)))
    return taken


def open_calls(url: str, path: str, bodies: Iterator[object], times: int, addresses: Callable[[int], str]) -> Counter[str]:
    """So many calls open at the same time."""

    def post(number: int, body: object) -> str:
        with client_from(url, addresses(number)) as client:
            try:
                return str(client.post(path, json=body).status_code)
            except httpx.HTTPError as error:
                return type(error).__name__

    with ThreadPoolExecutor(times) as pool:
        return Counter(pool.map(post, range(times), bodies))


def queued_events(url: str, name: str, data: list[object]) -> Counter[str]:
    """An event of the page 400 times by one address, 50 at once: each is queued, and its answer read from the page's stream to its end."""
    listed = httpx.get(f"{url}/config").json()["dependencies"]
    event = next(one["id"] for one in listed if one["api_name"] == name)

    def ask(number: int) -> str:
        session = f"queued{number}x{time.monotonic_ns()}"
        with client_from(url, STRANGER, 60) as client:
            try:
                joined = client.post("/gradio_api/queue/join", json={"data": data, "fn_index": event, "session_hash": session})
                if joined.status_code == httpx.codes.OK:
                    with client.stream("GET", "/gradio_api/queue/data", params={"session_hash": session}) as lines:
                        list(lines.iter_lines())
                return str(joined.status_code)
            except httpx.HTTPError as error:
                return type(error).__name__

    with ThreadPoolExecutor(50) as pool:
        return Counter(pool.map(ask, range(400)))


def idle_connections(url: str, count: int, seconds: int) -> Counter[str]:
    """Connections that say nothing, more than the soft limit of open files that the app was started with."""
    at = urlsplit(url)
    with ExitStack() as held:
        for _ in range(count):
            held.enter_context(socket.create_connection((at.hostname or "", at.port or 0), PATIENCE_S, (STRANGER, 0)))
        time.sleep(seconds)
    return Counter({"connections": count})


def attacks_beside(url: str, *, empty: bool) -> dict[str, Callable[[], Counter[str]]]:
    """Attacks that mean the same to an empty app; where it has no such address, its own nearest one."""
    run = "/gradio_api/run/"
    doubled = (run + "double", lambda number: {"data": [number]})
    simulate = doubled if empty else (run + "simulate_batching", lambda number: {"data": ["7B", "l4x1", "continuous", 1 + number % 7]})
    recommend = doubled if empty else (run + "recommend", lambda number: {"data": ["7B", "auto", 1024 + number]})
    queued: tuple[str, list[object], list[object]] = ("queued", [1], [1])
    if not empty:
        queued = ("fleet_run", ["model,own_hardware\n7B," + "x" * 195_000], ["model,hardware\n" + "7B,l4x1\n" * 2])
    what_runs = doubled if empty else (run + "what_runs", lambda number: {"data": ["l4x1", "text-generation", 1024 + number]})
    tools = ("/gradio_api/info", b"") if empty else ("/gradio_api/mcp/", b'{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}')

    def one_address(_: int) -> str:
        return STRANGER

    def own_address(number: int) -> str:
        return f"127.0.{1 + number // 250}.{1 + number % 250}"

    return {
        "nobody": lambda: (time.sleep(10), Counter[str]())[1],
        "login": lambda: large_bodies(url, "/login", 300),
        "simulate": lambda: open_calls(url, simulate[0], map(simulate[1], count(1)), 300, one_address),
        "honest_simulate": lambda: open_calls(url, simulate[0], map(simulate[1], count(1)), 300, own_address),
        "agents": lambda: get_many(url, "/config" if empty else "/agents", 200, 20),
        "openapi": lambda: get_many(url, "/gradio_api/openapi.json", 200, 20),
        "tools": lambda: get_many(url, tools[0], 200, 20) if empty else posts_of_tools(url, *tools),
        "recommend": lambda: open_calls(url, recommend[0], map(recommend[1], count(1)), 400, one_address),
        "what_runs": lambda: open_calls(url, what_runs[0], map(what_runs[1], count(1)), 40, one_address),
        "queued_wide": lambda: queued_events(url, queued[0], queued[1]),
        "queued_rows": lambda: queued_events(url, queued[0], queued[2]),
        "handles": lambda: idle_connections(url, 1_500, 15),
    }


def posts_of_tools(url: str, path: str, body: bytes) -> Counter[str]:
    """The list of tools, 200 times."""
    kinds = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
    with client_from(url, STRANGER) as client, ThreadPoolExecutor(20) as pool:
        return Counter(pool.map(lambda _: str(client.post(path, content=body, headers=kinds).status_code), range(200)))


def compare_beside(only: str) -> None:
    """Each attack on this app and then on the empty one, and whether others waited too long here."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1_024, limits[1]))  # as a container's usual soft limit; the apps inherit it
    folder = Path(mkdtemp())
    with start_app(folder / "ours") as ours, start_app(folder / "empty", "tests/benchmarks/empty_gradio.py") as bare:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        posts(ours, "/gradio_api/run/recommend", b'{"data": ["7B"]}', 3, 1)
        here, there = attacks_beside(ours, empty=False), attacks_beside(bare, empty=True)
        for name in here:
            if only and name not in only.split(","):
                continue
            waits, empty_waits = (attack_once(name, app, url, attack) for app, url, attack in (
                ("ours", ours, here[name]), ("empty", bare, there[name])))  # fmt: skip
            most = max(100, round(1.5 * empty_waits))
            print(f"{name:16} others' p95 {waits} ms of at most {most}: {'kept' if waits <= most else 'MISSED'}", flush=True)  # noqa: T201
        for log in folder.iterdir():
            print(f"log of {log.name}: {log.stat().st_size / 2**20:.2f} MiB")  # noqa: T201 - a benchmark prints


def attack_once(name: str, app: str, url: str, attack: Callable[[], Counter[str]]) -> int:
    """Attack, print how others fared, and return the longest of their 95th percentiles in ms."""
    process = process_of(url)
    before, began = resident_mib(process), time.perf_counter()
    with send_visitors(url) as fared:
        answers = attack()
        while time.perf_counter() - began < LEAST_S:  # one that is refused at once goes on
            answers += attack()
        took = time.perf_counter() - began
    figures = fared()
    time.sleep(3)
    print(  # noqa: T201 - a benchmark prints
        f"{name:16} {app:5} {took:5.1f} s, RSS {before} -> {resident_mib(process)} MiB, peak {resident_mib(process, 'VmHWM')},"
        f" load {os.getloadavg()[0]:.1f}; {dict(answers)}",
        *(told for told, _ in figures),
        sep="\n    ",
        flush=True,
    )
    return max(waits[1] for _, waits in figures)


def main() -> None:
    """Start, warm up, attack, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--calls", type=int, default=1000)
    parser.add_argument("--configs", type=int, default=2000)
    parser.add_argument("--only", default="")
    parser.add_argument("--beside", action="store_true")
    options = parser.parse_args()
    if options.beside:
        compare_beside(options.only)
        return
    with SpaceStandIn() as hub:
        hub.add(nested_index())
        with start_app(HF_ENDPOINT=hub.url) as url:
            app = process_of(url)
            posts(url, "/gradio_api/run/estimate_memory", json.dumps({"data": [json.dumps(LLAMA_8B_CONFIG)]}).encode(), 3, 1)
            posts(url, CHEAP[0], b'{"data": []}', 20, 2)
            for name, attack in attacks(url, hub, options.calls, options.configs).items():
                if options.only and name not in options.only.split(","):
                    continue
                before = resident_mib(app)
                with send_visitors(url) as fared:
                    cpu, began = cpu_s(app), time.perf_counter()
                    answers = attack()
                    took, cpu = time.perf_counter() - began, cpu_s(app) - cpu
                print(  # noqa: T201 - a benchmark prints
                    f"{name:14} {took:6.1f} s, {cpu:.1f} s of CPU, RSS {before} -> {resident_mib(app)} MiB,"
                    f" peak {resident_mib(app, 'VmHWM')}, load {os.getloadavg()[0]:.1f};"
                    f" {dict(answers) if isinstance(answers, Counter) else ''}",
                    *(told for told, _ in fared()),
                    sep="\n    ",
                    flush=True,
                )


if __name__ == "__main__":
    main()
