"""Runs of the nonsense of `fuzzing` against the app: in process, over HTTP, against events of the page by their number, and over MCP.

The same runs serve a test of a few hundred cases and `tests/benchmarks/bench_fuzz.py`. A `Report` counts answers and refusals, and keeps as
faults: internal failures, bare status 500, broken connections, and every answer that holds the sentinel token, a path or a traceback.
"""

from __future__ import annotations

import inspect
import json
import math
import os
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import httpx
import orjson
from fuzzing import TOKENS, Fuzzer, find_leaks
from hub_repos import demo_repos, llama_8b
from huggingface_hub import constants
from running_app import start_app
from space_stand_in import SpaceStandIn, demo
from written import written

from lib.catalog import load
from lib.errors import AdvisorError, LiveError
from lib.hub.spaces import Spaces
from lib.service.app import Services
from lib.service.endpoint import App
from lib.service.measure import predict_measurement
from lib.service.models import Models
from lib.service.outlook import outlook
from lib.service.simulate_batching import stream_loads, stream_needs
from lib.service.space_actions import preview
from lib.service.speed import roofline
from lib.ui.http.api import check_names

AT_ONCE = 4
PROGRESS = 100
SHOWN = 40
LINE = 2048
LEAST, MOST = 20, 2_000
"""Characters of a sentence."""


class Report:
    """What came of the cases of one part."""

    def __init__(self, part: str) -> None:
        self.part, self.outcomes, self.faults = part, Counter[str](), list[str]()
        self.outcomes_by_question: dict[str, Counter[str]] = {}
        self.slowest: dict[str, tuple[float, str]] = {}
        self.began = time.perf_counter()

    def fault(self, number: int, what: str) -> None:
        """Something that may not be."""
        self.outcomes["FAULT"] += 1
        self.faults.append(f"{self.part} {number}: {what}")
        if len(self.faults) <= SHOWN:
            print("   FAULT", self.faults[-1][:900], flush=True)  # noqa: T201 - a benchmark prints

    def count(self, question: str, outcome: str, cpu_s: float, case: str) -> None:
        """How a question ended, and the processor time of this thread that it took."""
        self.outcomes[outcome] += 1
        self.outcomes_by_question.setdefault(question, Counter())[outcome] += 1
        self.slowest[question] = max(self.slowest.get(question, (0.0, "")), (cpu_s, case))

    def show(self) -> bool:
        """Print the counts; whether there was no fault."""
        total, took = self.outcomes.total(), time.perf_counter() - self.began
        counted = ", ".join(f"{name} {count:,}" for name, count in sorted(self.outcomes.items()))
        print(f"{self.part:8} {total:,} in {took:.0f} s: {counted}; load {os.getloadavg()[0]:.1f}", flush=True)  # noqa: T201
        for question, outcomes in sorted(self.outcomes_by_question.items()):
            cpu_s, case = self.slowest[question]
            print(f"    {question:20} {dict(outcomes)}; at most {cpu_s:.2f} s of CPU: {case:.240}", flush=True)  # noqa: T201
        return not self.faults


# In process: the questions as functions.


def _refuse_call(*_: Any) -> Any:
    raise LiveError("It is not here. Try again elsewhere.")


@contextmanager
def services_behind_stand_in() -> Iterator[Services]:
    """The services as the app has them, whose Hub is a stand-in, and whose device and providers refuse."""
    with SpaceStandIn() as hub, patch.object(constants, "ENDPOINT", hub.url):
        demo(hub)
        hub.add(llama_8b())  # that a Space of the demonstration names
        app = App(
            catalog=load,
            models=Models(),
            search=lambda _: (),
            providers=_refuse_call,
            run_measurement=_refuse_call,
            run_heartbeat=_refuse_call,
            spaces=Spaces,
        )
        yield Services(app)


def ask_question(report: Report, number: int, question: Callable[..., Any], arguments: dict[str, Any]) -> None:
    """One call in process, as our routes make it: names are checked first."""
    case, began = f"{question.__name__}({arguments!r:.500})", time.thread_time()
    try:
        check_names(question, {name: value for name, value in arguments.items() if name != "token"})
        asked = written(question)(**arguments)
        answers = list(asked) if inspect.isgeneratorfunction(question) else [asked]
    except AdvisorError as refusal:
        report.count(question.__name__, "refused", time.thread_time() - began, case)
        sentence = str(refusal)
        if find_leaks(sentence) or not LEAST < len(sentence) < MOST:
            report.fault(number, f"{case} said {sentence!r}")
        return
    except Exception as error:  # noqa: BLE001 - this is what is looked for
        report.fault(number, f"{case}: {error!r}")
        return
    report.count(question.__name__, "answered", time.thread_time() - began, case)
    try:
        text = json.dumps(answers, allow_nan=False, ensure_ascii=False).encode().decode()
        orjson.dumps(answers)  # what the event stream writes with: it takes no keys but plain texts
    except (TypeError, ValueError) as error:
        report.fault(number, f"{case} is no JSON: {error!r}")
        return
    if find_leaks(text):
        report.fault(number, f"{case} answered with {find_leaks(text)}")


def questions_of(services: Services) -> dict[str, Callable[..., Any]]:
    """Every public question by its name, and those that only the page asks."""
    own = (services[outlook], services[roofline], services[preview], services[stream_loads])
    public = {name: endpoint.question for name, endpoint in services.endpoints().items()}
    return public | {question.__name__: question for question in (*own, services[stream_needs], services[predict_measurement])}


_WEIGHTS = {"chat": 1, "dry_run": 2, "simulate_batching": 4, "stream_loads": 0.2, "stream_needs": 0.2}
"""How often a question is drawn, by its cost: 20 for one of milliseconds, 1 for one that asks over HTTP."""


def in_process(count: int, seed: int, only: Collection[str] = ()) -> Report:
    """Arguments of every question, or of those called `only`."""
    report, fuzz = Report("process"), Fuzzer(seed)
    with services_behind_stand_in() as services:
        questions = {name: question for name, question in questions_of(services).items() if not only or name in only}
        weights = [_WEIGHTS.get(name, 1 if "space_id" in q.__annotations__ else 20) for name, q in questions.items()]
        for number in range(count):
            question = fuzz.random.choices([*questions.values()], weights)[0]
            ask_question(report, number, question, fuzz.arguments(question))
    return report


def configs(count: int, seed: int, most_s: float = math.inf) -> Report:
    """Pasted configurations near the bundled ones, worked out in the child process, until the time is up; counts are shown on the way."""
    report, fuzz = Report("configs"), Fuzzer(seed)
    with services_behind_stand_in() as services:
        for number in range(count):
            if number and number % PROGRESS == 0:
                report.show()
            if time.perf_counter() - report.began > most_s:
                print(f"configs  ended by its limit of {most_s:.0f} s after {number:,} of {count:,}", flush=True)  # noqa: T201
                break
            question = fuzz.random.choice((services.resolve_model, services.estimate_memory, services.recommend))
            ask_question(report, number, question, {"model": fuzz.config_text()})
    return report


# Over HTTP, against a started app.


def judge_response(report: Report, number: int, what: str, answer: httpx.Response) -> None:
    """One response."""
    text = answer.text
    found = find_leaks(text)
    if found:
        report.fault(number, f"{what}: {answer.status_code} holds {found}: {text[:300]}")
        return
    if answer.status_code >= 500:
        told = answer.json() if "json" in answer.headers.get("content-type", "") else {}
        if not (isinstance(told, dict) and isinstance(told.get("error"), str) and told.get("title") not in {"internal", None}):
            report.fault(number, f"{what}: {answer.status_code} {text[:300]}")
            return
    if answer.status_code >= 400 and '"error":null' in text.replace(" ", ""):
        report.fault(number, f"{what}: an error without a word: {text[:300]}")
        return
    report.outcomes[str(answer.status_code)] += 1


def send_request(report: Report, number: int, what: str, request: Callable[[], httpx.Response]) -> httpx.Response | None:
    """Send and judge; a connection that breaks is a fault."""
    try:
        answer = request()
    except httpx.HTTPError as error:
        report.fault(number, f"{what}: {error!r}")
        return None
    judge_response(report, number, what, answer)
    return answer


def dump_json(value: Any) -> bytes:
    """JSON as a careless client writes it: NaN, infinity, halves of surrogate pairs."""
    return json.dumps(value).encode()


def header(text: str) -> bytes:
    """A text as the value of a header: what the client's library would refuse to send is left out."""
    return text.encode("utf-8", "surrogatepass").translate(None, bytes(range(32))).strip()


def over_http(url: str, count: int, seed: int) -> Report:
    """Calls by name, changed bodies, odd paths and headers."""
    report = Report("http")
    info = httpx.get(f"{url}/gradio_api/info").json()["named_endpoints"]
    names = {path.strip("/"): [p["parameter_name"] for p in told["parameters"]] for path, told in info.items()}
    paths = (
        "/config", "/gradio_api/info", "/gradio_api/openapi.json", "/", "/gradio_api/cancel", "/gradio_api/reset", "/login/huggingface",
        "/logout", "/gradio_api/heartbeat", "/gradio_api/component_server", "/gradio_api/stream/x", "/gradio_api/file=/etc/passwd",
        "/gradio_api/proxy=x", "/gradio_api/queue/status", "/gradio_api/upload", "/static/../../app.py", "/theme.css", "/manifest.json",
        "/monitoring", "/gradio_api/user", "/gradio_api/token", "/gradio_api/app_id", "/gradio_api/startup-events", "/ledger.csv",
        "/healthz", "/gradio_api/call/recommend/none", "/pwa_icon/x", "/custom_component/1/client/component/index.js", "/svelte/x",
        "/assets/../x",
    )  # fmt: skip

    def one(number: int) -> None:
        fuzz = Fuzzer(seed * 1_000_003 + number)
        draw = fuzz.random
        headers = {"content-type": draw.choice(("application/json", "application/json", "text/plain", "multipart/form-data; boundary=x"))}
        if draw.random() < 0.1:
            odd = draw.choice(("x-hf-token", "authorization", "cookie", "origin", "x-forwarded-host", "accept-encoding", "x-gradio-user"))
            headers[odd] = (
                draw.choice(TOKENS).encode("utf-8", "surrogatepass").replace(b"\r\n", b"").replace(b"\0", b"").strip().decode("latin-1")
            )
        if draw.random() < 0.2:
            method = draw.choice(("GET", "POST", "PUT", "HEAD", "OPTIONS", "DELETE"))
            path = draw.choice(paths)
            body = fuzz.mutate_body(dump_json(fuzz.value()))
        else:
            name = (
                draw.choice(sorted(names))
                if draw.random() < 0.95
                else draw.choice(("predict", "no_such", "%00", "space_confirmed", "a" * 300))
            )
            how = draw.choice(("run", "run", "run", "api", "call", "call/v2"))
            method, path = "POST", f"/gradio_api/{how}/{name}"
            arguments = {argument: fuzz.vary_value(fuzz.value()) for argument in names.get(name, ["x"]) if draw.random() < 0.7}
            if "model" in names.get(name, ()) and draw.random() < 0.7:
                arguments["model"] = draw.choice(("7B", "Qwen/Qwen3-8B", "no-such/model", "org/llama-8b"))
            if "space_id" in names.get(name, ()) and draw.random() < 0.7:
                arguments["space_id"] = draw.choice(("ada/chat", "ada/secret", "bob/app", "ada/none"))
            payload = arguments if how == "call/v2" else {"data": list(arguments.values())}
            if draw.random() < 0.5:
                payload["oauth_token"] = draw.choice((*TOKENS, "hf_ada", "hf_ada_oauth", fuzz.value()))
            if draw.random() < 0.1:
                payload[draw.choice(("fn_index", "session_hash", "batched", "trigger_id", "event_data", "event_id", "simple_format"))] = (
                    fuzz.value()
                )
            body = dump_json(payload) if draw.random() < 0.85 else fuzz.mutate_body(dump_json(payload))
        raw = [(key.encode("latin-1"), value.encode("latin-1")) for key, value in headers.items()]
        answer = send_request(
            report, number, f"{method} {path} {body[:200]!r}", lambda: client.request(method, url + path, content=body, headers=raw)
        )
        if answer is not None and answer.status_code == 200 and answer.text.startswith('{"event_id"') and draw.random() < 0.3:
            event = answer.json()["event_id"]
            where = f"{url}/gradio_api/call/{path.rpartition('/')[2]}/{event}"
            send_request(report, number, f"GET {where}", lambda: client.get(where))

    with httpx.Client(timeout=120) as client, ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(one, range(count)))
    return report


def page_events(url: str, count: int, seed: int) -> Report:
    """Events of the page by number: the values its fields start with, and others in their place."""
    report = Report("events")
    config = httpx.get(f"{url}/config").json()
    fields = {component["id"]: component for component in config["components"]}
    events = [event for event in config["dependencies"] if event["api_name"] is not False]
    slow = {"measured", "beaten", "heartbeat", "chat", "measure"}
    calls = [event for event in events if not any(word in str(event["api_name"]) for word in slow)]

    def one(number: int) -> None:
        fuzz = Fuzzer(seed * 1_000_003 + number)
        draw = fuzz.random
        event = draw.choice(calls)
        data = [near_field(fuzz, fields.get(field, {})) for field in event["inputs"]]
        if draw.random() < 0.1:
            data = data[: draw.randrange(len(data) + 1)] + [fuzz.value() for _ in range(draw.randrange(3))]
        session = f"fuzz{draw.randrange(50)}"
        body = {
            "data": data,
            "fn_index": event["id"],
            "session_hash": session,
            "trigger_id": draw.choice((None, 1, 999)),
            "event_data": None,
        }
        if draw.random() < 0.1:
            body[draw.choice(list(body))] = fuzz.value()
        if draw.random() < 0.03:
            body["fn_index"] = draw.choice((10_000, -1, 0, 3, "7", 2**70))
        is_queued = event["queue"] is not False
        path = "/gradio_api/queue/join" if is_queued and draw.random() < 0.9 else "/gradio_api/run/predict"
        answer = send_request(
            report,
            number,
            f"{path} {event['api_name']} {dump_json(body)[:600]!r}",
            lambda: client.post(url + path, content=dump_json(body), headers=JSON),
        )
        if is_queued and answer is not None and answer.status_code == 200 and draw.random() < 0.5 and isinstance(body["session_hash"], str):
            read_stream(report, number, str(event["api_name"]), client, f"{url}/gradio_api/queue/data?session_hash={session}")

    with httpx.Client(timeout=60) as client, ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(one, range(count)))
    return report


JSON = {"content-type": "application/json"}


def read_stream(report: Report, number: int, what: str, client: httpx.Client, address: str) -> None:
    """Read a session's stream until an event ends."""
    deadline_s = time.monotonic() + 10
    try:
        with client.stream("GET", address) as stream:
            for line in stream.iter_lines():
                if find_leaks(line):
                    report.fault(number, f"{what} streamed {find_leaks(line)}: {line[:300]}")
                if "process_completed" in line:
                    if '"error":null' in line.replace(" ", "") and '"success":false' in line.replace(" ", ""):
                        report.fault(number, f"{what} failed without a word: {line[:300]}")
                    report.outcomes["streamed"] += 1
                if '"close_stream"' in line or time.monotonic() > deadline_s:
                    return
    except httpx.ReadTimeout:
        report.outcomes["still open"] += 1
    except httpx.HTTPError as error:
        report.fault(number, f"{what}: {error!r}")


def near_field(fuzz: Fuzzer, component: dict[str, Any]) -> Any:
    """A value for a component: what it starts with, one of its choices, a token where it is a text, or anything."""
    props = component.get("props", {})
    draw = fuzz.random.random()
    if draw < 0.5:
        return props.get("value")
    if props.get("choices") and draw < 0.7:
        return fuzz.random.choice(props["choices"])[1]
    if component.get("type") == "textbox" and draw < 0.9:
        return fuzz.random.choice((*TOKENS, "7B", "Qwen/Qwen3-8B", "ada/chat", "hf_ada", fuzz.text()))
    return fuzz.vary_value(props.get("value")) if draw < 0.9 else fuzz.value()


def over_mcp(url: str, count: int, seed: int) -> Report:
    """Messages of the protocol, most of them calls of tools, some of them changed."""
    report = Report("mcp")
    tools = {tool["name"]: list(tool["inputSchema"]["properties"]) for tool in httpx.get(f"{url}/gradio_api/mcp/schema").json()}
    fast = sorted(set(tools) - {"chat", "measure", "heartbeat"})
    methods = ("initialize", "tools/list", "tools/call", "ping", "prompts/get", "notifications/initialized", "", "x" * 500)
    paths = ("/gradio_api/mcp", "/gradio_api/mcp/x", "/gradio_api/mcp/schema", "/gradio_api/mcp/sse")

    def one(number: int) -> None:
        fuzz = Fuzzer(seed * 1_000_003 + number)
        draw = fuzz.random
        name = draw.choice(fast) if draw.random() < 0.95 else draw.choice(("chat", "no_such", "measure", ""))
        arguments = {argument: fuzz.value() for argument in tools.get(name, ["x"]) if draw.random() < 0.5}
        if name in {"chat", "measure"}:
            arguments["seconds"] = 1  # refused before the device is asked
        message: Any = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": {"name": name, "arguments": arguments}}
        if draw.random() < 0.2:
            message = {
                "jsonrpc": "2.0",
                "id": draw.choice((number, None, "a", 2**70, -1, 0.5, [], {}, True)),
                "method": draw.choice(methods),
                "params": fuzz.value(),
            }
        if draw.random() < 0.1:
            message[draw.choice(("jsonrpc", "method", "params", "extra"))] = fuzz.value()
        if draw.random() < 0.03:
            message = draw.choice(([], [message], [message, message], None, 7, "x", {}))
        body = dump_json(message) if draw.random() < 0.9 else fuzz.mutate_body(dump_json(message))
        good = draw.random() < 0.9
        headers = [
            (b"content-type", b"application/json" if good else draw.choice((b"text/plain", b"", b"multipart/form-data"))),
            (b"accept", b"application/json, text/event-stream" if good else draw.choice((b"*/*", b"application/json", b"", b"x"))),
            (b"x-hf-token", header(draw.choice(TOKENS))),
        ]
        if draw.random() < 0.1:
            headers.append((draw.choice((b"mcp-session-id", b"mcp-protocol-version", b"last-event-id")), header(ascii(fuzz.text()))))
        path = "/gradio_api/mcp/" if draw.random() < 0.9 else draw.choice(paths)
        method = "POST" if draw.random() < 0.97 else draw.choice(("GET", "DELETE", "PUT", "OPTIONS"))
        send_request(
            report, number, f"{method} {path} {body[:400]!r}", lambda: client.request(method, url + path, content=body, headers=headers)
        )

    with httpx.Client(timeout=120) as client, ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(one, range(count)))
    return report


SERVED = {"http": over_http, "events": page_events, "mcp": over_mcp}


@contextmanager
def serve_app(log: Path) -> Iterator[str]:
    """The app, started, with people, Spaces and models behind it; its address."""
    with SpaceStandIn() as hub:
        demo(hub)
        for repo in demo_repos():
            hub.add(repo)
        with start_app(log, HF_ENDPOINT=hub.url, LEDGER_PATH=str(log.with_name("ledger.sqlite"))) as url:
            yield url


def bad_lines(log: Path) -> list[str]:
    """Lines of a log with a token, a path of the server or a traceback in them, or longer than a line may be."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    return [line for line in lines if find_leaks(line) or len(line) > LINE]
