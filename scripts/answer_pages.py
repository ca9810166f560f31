"""The calls that `scripts.write_answers` records apart from endpoints: the page's events and description, listings, HTTP, the CLI.

Events are found by their names and their inputs by label, so nothing here knows in which module of the program a tab lives. The program is
imported inside functions, because the environment is set first.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator, Mapping
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from scripts.answer_calls import COUNTS, FAMILIES, LLAMA

if TYPE_CHECKING:
    from lib.service.app import Services

Case = tuple[str, str, Callable[[], Any]]
"""File, id of the call, the call."""

_REFERENCE = "model-reference"
"""The field of the page that holds its model and is not shown."""
_VOLATILE = {"app_id", "dev_mode", "theme_hash", "version", "duration", "average_duration"}
_RECOMMEND: tuple[dict[str, Any], ...] = (
    {},
    {"Context length": 32_768, "Requests at once": 16},
    {"Priority": "cheapest", "Precision": "int4"},
    {"Priority": "fastest", "Where": ["spaces", "endpoints", "jobs", "tpu"]},
    {"Budget, USD per month": 100, "Hours per day it runs": 8},
    {"Least speed, tokens/s": 100_000},
    {"Where": []},
    {"Task": "inference-api"},
    {"Account that hosts": "pro", "Requests per day": 100_000},
    {"Context length": None},
)
_MEMORY: tuple[dict[str, Any], ...] = (
    {},
    {"Context": 65_536, "Sequences at once": 8},
    {"Weights": "int4", "Cache": "fp8", "Engine": "vllm"},
    {"Weights": "gguf:Q4_K_M", "Engine": "llama.cpp"},
    {"What for": "lora", "Devices that share it": 2},
    {"What for": "qlora"},
    {"What for": "full", "Devices that share it": 8},
    {"Engine": "vllm-tpu", "Devices that share it": 4},
    {"Devices that share it": 3},
    {"Context": None},
)
_COST: tuple[dict[str, Any], ...] = (
    {},
    {"Draw bills along": "hours"},
    {"Hardware": "spaces:a100-large", "Replicas": 2},
    {"Hardware": "tpu:v6e-8", "Requests a day": 50_000},
    {"Hardware": "zerogpu:zero-a10g", "Account": "pro"},
    {"Sleep after": "0", "Hours a day": 8},
    {"Prompt": 0.2, "Answer": 0.6, "Requests a day": 5000},
    {"Platforms": []},
    {"Private storage, GB": 2000, "Account": "team", "Days a month": 22},
    {"Requests a day": None},
)
_COMPARE: tuple[dict[str, Any], ...] = (
    {},
    {"After: hardware": "spaces:a100-large", "Effort, USD": 500},
    {"After: precision": "int4", "Requests a day": 20_000},
    {"Before: measured tokens/s of a replica": 20, "After: measured tokens/s of a replica": 60, "After: p99, s": 3},
    {"After: hardware": "spaces:t4-small"},
    {"After: hardware": "tpu:v6e-4", "After: engine": "vllm-tpu"},
)
_LINKS: tuple[dict[str, str], ...] = (
    {},
    {"tab": "memory", "model": "openai-community/gpt2", "context": "8192", "batch": "2"},
    {"tab": "memory", "context": "<b>", "batch": "-3"},
    {"tab": "cost", "model": "7B", "hardware": "spaces:l4x1", "along": "hours"},
    {"model": "no/such-model"},
    {"model": "Qwen/Qwen3-8B", "priority": "fastest", "context": "100000000"},
    {"tab": "nowhere", "task": "<script>"},
)
_HTTP: tuple[tuple[str, str, Any], ...] = (
    ("POST", "/gradio_api/run/resolve_model", {"data": ["7B"]}),
    ("POST", "/gradio_api/run/resolve_model", {"data": []}),
    ("POST", "/gradio_api/run/resolve_model", {"data": ["7B", 1, 2]}),
    ("POST", "/gradio_api/run/resolve_model", {}),
    ("POST", "/gradio_api/run/estimate_memory", {"data": [LLAMA]}),
    ("POST", "/gradio_api/run/recommend", {"data": [LLAMA, "auto", "many"]}),
    ("POST", "/gradio_api/run/list_hardware", {"data": ["moon"]}),
    ("POST", "/gradio_api/run/nothing", {"data": []}),
    ("POST", "/gradio_api/call/nothing", {"data": []}),
    ("POST", "/gradio_api/call/v2/estimate_memory", {"modell": "7B"}),
    ("POST", "/gradio_api/call/v2/estimate_memory", {}),
    ("POST", "/gradio_api/run/space_status", {"data": ["ada/chat"]}),
    ("GET", "/gradio_api/info", None),
    ("GET", "/gradio_api/mcp/schema", None),
    ("GET", "/gradio_api/mcp/", None),
    ("GET", "/monitoring/summary", None),
    ("POST", "/gradio_api/mcp/", {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}),
    *(
        ("POST", "/gradio_api/mcp/", {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": arguments}})
        for name, arguments in (
            ("resolve_model", {"model": LLAMA}),
            ("recommend", {"model": LLAMA}),
            ("list_hardware", {"platform": "moon"}),
            ("estimate_memory", {"modell": "7B"}),
            ("estimate_memory", {}),
            ("delete_space", {}),
            ("pause_space", {"space_id": "ada/chat"}),
        )
    ),
)
_COMMANDS: tuple[str, ...] = (
    "",
    "nothing",
    "tiers",
    "tiers --all",
    "tiers --json",
    f"recommend {LLAMA}",
    f"recommend {LLAMA} --platforms all --priority fastest",
    f"recommend {LLAMA} --json",
    "recommend 7B --priority cheapest --hours-per-day 8",
    "recommend 70B --max-usd-per-month 1",
    "recommend Qwen/Qwen3-8B --files pytorch",
    "recommend Qwen/Qwen3-8B --files jax",
    "recommend Qwen/Qwen3-8B --files tensorflow --json",
    "recommend Qwen/Qwen3-8B --files cobol",
    "recommend no/such-model",
    "recommend no/such-model --json",
    "recommend 7B --context-tokens many",
    "recommend 7B --priority best",
    "status ada/chat",
    "status a/b/c --json",
    "pause ada/chat",
    "hardware ada/chat",
    "hardware ada/chat --tier moon",
    "sleep ada/chat",
    "sleep ada/chat 3600 --sleep-time 60",
    "right-size ada/chat",
)


def program() -> tuple[Any, Any]:
    """The services and the page, as `python app.py` makes them."""
    from app import advisor, demo  # noqa: PLC0415

    return advisor, demo


def public(advisor: Services) -> Mapping[str, Any]:
    """The public endpoints by name, each with its `question`."""
    return advisor.endpoints()


def to_plain(value: Any) -> Any:
    """The value as JSON: a figure as Plotly describes it, a component as its type, keys as text."""
    if isinstance(value, Mapping):
        return {str(key): to_plain(item) for key, item in value.items() if key not in _VOLATILE}
    if isinstance(value, list | tuple):
        return [to_plain(item) for item in value]
    if isinstance(value, set | frozenset):
        return sorted(to_plain(item) for item in value)
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if hasattr(value, "to_plotly_json"):
        return json.loads(value.to_json())
    return type(value).__name__


def calls(advisor: Any, demo: Any) -> Iterator[Case]:
    """Every call."""
    yield "page", "components", lambda: _components(demo)
    yield "page", "events", lambda: _events(demo)
    yield "page", "api", demo.get_api_info
    yield from _events_called(demo)
    yield from _http(advisor, demo)
    yield from _cli()


def _components(demo: Any) -> list[Any]:
    """Types and properties in the order of the page, without the numbers that Gradio gives them."""
    props = [(one["type"], one["props"]) for one in demo.config["components"]]
    return [{"type": kind, "props": {k: v for k, v in of.items() if k not in {"name", "_selectable"}}} for kind, of in props]


def _events(demo: Any) -> list[Any]:
    """Every event: its name, how it is called, and what it reads and writes."""
    return [
        {
            "name": fn.api_name,
            "visibility": fn.api_visibility,
            "queue": fn.queue,
            "limit": str(fn.concurrency_limit),
            "trigger_mode": fn.trigger_mode,
            "triggers": [event for _, event in fn.targets],
            "inputs": [_label(block) for block in fn.inputs],
            "outputs": [_label(block) for block in fn.outputs],
        }
        for fn in demo.fns.values()
    ]


def _label(block: Any) -> str:
    return str(getattr(block, "label", None) or getattr(block, "elem_id", None) or type(block).__name__)


def _find_event(demo: Any, name: str) -> Any:
    return next(fn for fn in demo.fns.values() if fn.api_name == name)


def _call_event(demo: Any, event: str, model: str, values: Mapping[str, Any]) -> Any:
    """The outputs of an event whose inputs have their defaults, except `values` by label and the model of the page.

    Raises:
        LookupError: a label that this event does not read.
    """
    fn = _find_event(demo, event)
    unread = set(values) - {_label(block) for block in fn.inputs}
    if unread:
        raise LookupError(f"{event} does not read {sorted(unread)}")
    by_label = {_REFERENCE: model, **values}
    inputs = [_state(block.value) if type(block).__name__ == "State" else by_label.get(_label(block), block.value) for block in fn.inputs]
    injected = len([p for p in inspect.signature(fn.fn).parameters.values() if "OAuthToken" in str(p.annotation)])
    answer = fn.fn(*[None] * injected, *inputs)
    answers = list(answer) if inspect.isgenerator(answer) else [answer]
    listed = [_in_order(one, fn.outputs) for one in answers]
    return listed if inspect.isgenerator(answer) else listed[0]


def _in_order(answer: Any, outputs: Any) -> Any:
    """Updates by component in the order of the event's outputs, a single one by itself; any other answer as it is."""
    if not isinstance(answer, dict) or not all(block in outputs for block in answer):
        return answer
    listed = [answer.get(block, {"__type__": "update"}) for block in outputs]
    return listed if len(listed) > 1 else listed[0]


def _open(demo: Any, request: Any) -> Any:
    fn = _find_event(demo, "page_opened")
    return {_label(block): value for block, value in fn.fn(request).items()}


def _state(value: Any) -> Any:
    """The page's memory: an open box as true, the rest as it begins."""
    return True if isinstance(value, bool) else value


def _events_called(demo: Any) -> Iterator[Case]:
    ways_of_event: dict[str, tuple[tuple[dict[str, Any], ...], tuple[str, ...]]] = {
        "recommend_changed": (_RECOMMEND, (*FAMILIES, *COUNTS[:2], "", "no/such-model")),
        "roofline_changed": (_RECOMMEND[:4], (*FAMILIES[:4], FAMILIES[9], "7B", "")),
        "code_changed": (({}, {"Framework": "jax"}, {"Framework": "tensorflow"}, *_RECOMMEND[3:6]), (*FAMILIES, "7B", "")),
        "memory_changed": (_MEMORY, (*FAMILIES, "7B", "")),
        "curve_changed": (_MEMORY[:6], (*FAMILIES[:6], "7B", "")),
        "cost_changed": (_COST, (LLAMA, FAMILIES[1], FAMILIES[9], "7B", "")),
        "compare_changed": (_COMPARE, (LLAMA, FAMILIES[1], "7B", "")),
        "chat_said": (({"Message": ""},), ("",)),
        "chat_restarted": (({},), ("",)),
        "heartbeat_run": (({"Batch": -1}, {"Hidden": None}, {"Timed products": 10**9}), ("",)),
        "heartbeat_stopped": (({},), ("",)),
        "measure_stopped": (({},), ("",)),
        "measure_expected": (({},), ("", "7B")),
        "space_looked": (({}, {"Space": "no-owner"}, {"Space": "a/b/c"}), ("",)),
    }
    for event, (ways, models) in ways_of_event.items():
        for model in models:
            for way in ways:
                name = f"{event} {model} {json.dumps(way, sort_keys=True)}"
                yield "page", name, lambda event=event, model=model, way=way: _call_event(demo, event, model, way)  # type: ignore[misc]
    for link in _LINKS:
        request = SimpleNamespace(query_params=link)
        name = f"page_opened {json.dumps(link, sort_keys=True)}"
        yield "page", name, lambda request=request: _open(demo, request)  # type: ignore[misc]
    models = ("7B", "", "no/such-model", "{}")
    for way in (*({"Model": model} for model in (*FAMILIES, *models)), {"config.json": '{"model_type": "nonsense"}'}):
        yield "page", f"model_changed {json.dumps(way)}", lambda way=way: _call_event(demo, "model_changed", "", way)  # type: ignore[misc]
    for text in ("ll", "llama", "qwen 8b", "nothing-like-it", "{"):
        way = {"Model": text}
        yield "page", f"model_suggested {text}", lambda way=way: _call_event(demo, "model_suggested", "", way)  # type: ignore[misc]


def _http(advisor: Any, demo: Any) -> Iterator[Case]:
    """Calls of the application that is served: Gradio's own behind our middleware."""
    from gradio.routes import App  # noqa: PLC0415
    from starlette.testclient import TestClient  # noqa: PLC0415

    from lib.ui.http.serve import launch_arguments  # noqa: PLC0415

    client = TestClient(App.create_app(demo, app_kwargs=launch_arguments(demo, advisor)["app_kwargs"]), base_url="http://127.0.0.1")
    for method, path, body in _HTTP:
        yield "http", f"{method} {path} {json.dumps(body)}", lambda m=method, p=path, b=body: _response(client, m, p, b)  # type: ignore[misc]


def _response(client: Any, method: str, path: str, body: Any) -> Any:
    headers = {"accept": "application/json, text/event-stream"}
    response = client.request(method, path, headers=headers, **({} if body is None else {"json": body}))
    kind = response.headers.get("content-type", "")
    return {"status": response.status_code, "type": kind, "body": response.json() if "json" in kind else response.text}


def _cli() -> Iterator[Case]:
    from lib.cli.app import main  # noqa: PLC0415

    for line in (*_COMMANDS, "--help", *(f"{name} --help" for name in main.commands)):
        yield "cli", line, lambda line=line: _capture_output(main, line)  # type: ignore[misc]


def _capture_output(main: Any, line: str) -> Any:
    from click.testing import CliRunner  # noqa: PLC0415

    ended = CliRunner().invoke(main, line.split(), prog_name="python scripts/manage_space.py")
    failure = ended.exception
    unexpected = repr(failure) if failure is not None and not isinstance(failure, SystemExit) else None
    return {"status": ended.exit_code, "stdout": ended.stdout, "stderr": ended.stderr, "unexpected": unexpected}
