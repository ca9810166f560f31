"""Everything that people and programs send by mistake or malice, through the really started app: a sentence, and the app goes on."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from contract import TINY_CONFIG, TINY_PARAMETERS
from hub_repos import as_json, demo_faults, llama_8b
from hub_stand_in import Blob, Repo, StandIn
from llama import LLAMA_8B_CONFIG
from running_app import start_app

HUNDRED_GB = 100 * 10**9
BIG_JSON = json.dumps({"model_type": "llama", "padding": [1] * 330_000})  # 0.99 MB
LEAKS = ("Traceback", "site-packages", "/lib/", 'File "', "object at 0x")
SECONDS = 60.0


@pytest.fixture(scope="module")
def hub() -> Iterator[StandIn]:
    """A Hub with one repository for each way to fail."""
    with StandIn() as served:
        served.add(llama_8b())
        served.add(llama_8b("org/gated-8b", gated="manual"))
        for name, fault in demo_faults().items():
            served.add(llama_8b(name))
            served.faults[name] = fault
        claim = Blob(head=struct.pack("<Q", HUNDRED_GB) + b"{", size=HUNDRED_GB + 8)
        served.add(Repo(id="faults/claims-100-gb", files={"config.json": as_json(LLAMA_8B_CONFIG), "model.safetensors": claim}))
        yield served


@pytest.fixture(scope="module")
def url(hub: StandIn) -> Iterator[str]:
    """A started app that asks this Hub."""
    with start_app(HF_ENDPOINT=hub.url) as address:
        yield address


@pytest.fixture(scope="module", autouse=True)
def asked_early(url: str) -> Iterator[dict[str, Future[httpx.Response]]]:
    """The answer of a Hub that the app waits for: 8 s, in which the other tests ask it."""
    with ThreadPoolExecutor(1) as callers:
        yield {model: callers.submit(ask, url, "resolve_model", model=model) for model in ("faults/hang",)}


def ask(url: str, endpoint: str, **arguments: Any) -> httpx.Response:
    """One call by name over plain HTTP, waited for; NaN and infinity travel as Python's JSON writes them."""
    body = json.dumps(arguments)
    headers = {"content-type": "application/json"}
    joined = httpx.post(f"{url}/gradio_api/call/v2/{endpoint}", content=body, headers=headers, timeout=SECONDS)
    if joined.status_code != 200:
        return joined
    return httpx.get(f"{url}/gradio_api/call/{endpoint}/{joined.json()['event_id']}", timeout=SECONDS)


def read_refusal(answer: httpx.Response) -> str:
    """The sentence of a refusal, checked to be one."""
    if answer.status_code == 200:
        assert "event: error" in answer.text, answer.text[:500]
        said = json.loads(answer.text.rpartition("data: ")[2])
    else:
        assert answer.status_code in {404, 413, 422}
        said = answer.json()
    sentence = str(said["error"])
    assert said.get("title") != "internal", sentence
    assert len(sentence) > 20
    assert len(sentence) < 700
    assert not any(leak in sentence for leak in LEAKS)
    return sentence


def answers_well(url: str) -> bool:
    """The app still answers a good question."""
    answer = httpx.post(f"{url}/gradio_api/run/resolve_model", json={"data": [TINY_CONFIG]}, timeout=SECONDS)
    return bool(answer.json()["data"][0]["parameters_total"] == TINY_PARAMETERS)


@pytest.mark.parametrize(
    ("model", "says"),
    [
        ("", "empty"),
        ("   \n", "empty"),
        ("no-such/model", "no-such/model"),
        ("meta-llama/Llama-3.1-8B-Instrukt", "Llama-3.1-8B-Instruct"),
        ("../../etc/passwd", "etc/passwd"),
        ("https://evil.example/model", "evil.example"),
        ("a b c", "a b c"),
        ("x" * 5_000, "characters"),
        ("\u0000\u202e", "id"),
        ("{", "JSON"),
        ("{}", "config"),
        ("[1, 2]", "object"),
        ('{"model_type": "llama"', "JSON"),
        ('{"model_type": "no_such_architecture"}', "no_such_architecture"),
        ('{"model_type": "llama", "hidden_size": -1}', "hidden_size"),
        ('{"model_type": "llama", "hidden_size": NaN}', "hidden_size"),
        ('{"model_type": "llama", "hidden_size": 1e400}', "hidden_size"),
        ('{"model_type": "llama", "num_hidden_layers": 1000000000}', "num_hidden_layers"),
        ('{"model_type": "llama", "hidden_size": "many"}', "hidden_size"),
        ('{"model_type": "llama", "hidden_size": ' + "9" * 5_000 + "}", "digits"),
        ('{"a": ' * 50_000, "nested"),
        ("[" * 100_000, "nested"),
        (BIG_JSON, "more than 50,000 values"),
        ('{"x": "' + "y" * 1_100_000 + '"}', "characters"),
        ("0B", "0B"),
        ("-7B", "-7B"),
        ("9" * 400 + "B", "parameter count"),
        ("1e999B", "1e999B"),
        ("NaN", "NaN"),
    ],
    ids=lambda value: ascii(value)[1:25],
)
def test_what_is_no_model(url: str, model: str, says: str) -> None:
    """The sentence repeats what was seen, shortened, and nothing else happens."""
    assert says.casefold() in read_refusal(ask(url, "resolve_model", model=model)).casefold()


@pytest.mark.parametrize("model", [None, 7, 7.5, True, [], {}, ["7B"], {"model_type": "llama"}, float("nan")])
def test_a_model_is_text(url: str, model: Any) -> None:
    """Numbers, lists and objects are told to be written as text."""
    assert "model" in read_refusal(ask(url, "resolve_model", model=model))


@pytest.mark.parametrize(
    "value", [0, -1, 10**12, 10**400, 0.5, float("nan"), float("inf"), "4096", "", None, True, [], {}, [[1]]], ids=repr
)
@pytest.mark.parametrize("argument", ["context_tokens", "batch_size", "devices"])
def test_numbers_out_of_range_or_of_another_type(url: str, argument: str, value: Any) -> None:
    """The sentence names the argument and its range."""
    sentence = read_refusal(ask(url, "estimate_memory", model="7B", **{argument: value}))
    assert sentence.startswith(f"{argument} was")
    assert "a whole number from 1 to" in sentence


@pytest.mark.parametrize(
    ("endpoint", "arguments", "says"),
    [
        ("estimate_memory", {"precision": "int3"}, "precision was 'int3'"),
        ("estimate_memory", {"precision": 4}, "precision was '4'"),
        ("estimate_memory", {"engine": "olama"}, "Accepted: transformers, vllm"),
        ("estimate_memory", {"mode": None}, "mode was 'null'"),
        ("estimate_memory", {"kv_precision": "fp64"}, "kv_precision was 'fp64'"),
        ("estimate_memory", {"encoder_tokens": -1}, "encoder_tokens was '-1'"),
        ("estimate_memory", {"contex_tokens": 1}, "Did you mean context_tokens?"),
        ("recommend", {"task": "world-peace"}, "task was 'world-peace'"),
        ("recommend", {"concurrency": 0}, "concurrency was '0'"),
        ("recommend", {"requests_per_day": -5}, "requests_per_day was '-5'"),
        ("recommend", {"hours_per_day": 25}, "hours_per_day was '25'"),
        ("recommend", {"hours_per_day": float("nan")}, "hours_per_day was 'nan'"),
        ("recommend", {"max_usd_per_month": -0.01}, "max_usd_per_month was '-0.01'"),
        ("recommend", {"max_usd_per_month": "100"}, "max_usd_per_month was 'the text \"100\"'"),
        ("recommend", {"min_tokens_per_s": float("inf")}, "min_tokens_per_s was 'inf'"),
        ("recommend", {"account": "vip"}, "Accepted: anonymous, free"),
        ("recommend", {"priority": ""}, "Accepted: cheapest, balanced, fastest"),
        ("recommend", {"platforms": "spaces, moon"}, "platforms was 'moon'"),
        ("recommend", {"platforms": ""}, "a comma-separated list of spaces"),
    ],
)
def test_unknown_choices(url: str, endpoint: str, arguments: dict[str, Any], says: str) -> None:
    """The sentence names the argument and what is accepted."""
    assert says in read_refusal(ask(url, endpoint, model="7B", **arguments))


@pytest.mark.parametrize(("platform", "says"), [("moon", "platform was 'moon'"), (7, "platform was '7'"), ("", "platform was ''")])
def test_unknown_platforms(url: str, platform: Any, says: str) -> None:
    """The sentence names the platforms."""
    assert says in read_refusal(ask(url, "list_hardware", platform=platform))


def test_a_flag_is_not_text(url: str) -> None:
    """The text would be true in Python, whatever it says."""
    assert "include_retired was 'false'. Accepted: true or false." in read_refusal(ask(url, "list_hardware", include_retired="false"))


@pytest.mark.slow
def test_sixty_big_configs_at_once_do_not_stop_the_app(url: str) -> None:
    """Each is answered or told to come back; a question about known things is answered meanwhile.

    Three callers ask for each configuration: what they hold is that of sixty, what is built is twenty.
    """

    def one(number: int) -> int:
        config = json.dumps(LLAMA_8B_CONFIG | {"num_hidden_layers": 60 + number % 20})
        answer = httpx.post(f"{url}/gradio_api/run/resolve_model", json={"data": [config]}, timeout=180)
        assert answer.status_code == 200 or answer.json()["title"] == "busy", answer.text[:300]
        return answer.status_code

    with ThreadPoolExecutor(60) as callers:
        answers = [callers.submit(one, number) for number in range(60)]
        listed = httpx.post(f"{url}/gradio_api/run/list_hardware", json={"data": []}, timeout=SECONDS)
        assert listed.status_code == 200
        assert 200 in {answer.result() for answer in answers}
    assert answers_well(url)


@pytest.mark.parametrize(
    ("model", "says"),
    [
        ("org/missing", "no public model"),
        ("org/gated-8b", "gated"),
        ("faults/hang", "could not be reached"),
        pytest.param("faults/drip", "within", marks=pytest.mark.slow),
        ("faults/limit", "17 s"),
        ("faults/broken", "status 500"),
        ("faults/garbage", "cannot be used"),
        ("faults/claims-100-gb", "header"),
    ],
)
def test_a_hub_that_fails(url: str, asked_early: dict[str, Future[httpx.Response]], model: str, says: str) -> None:
    """Told apart, within bounded time, and without repeating what the server said."""
    assert says in read_refusal(asked_early[model].result() if model in asked_early else ask(url, "resolve_model", model=model))
    assert answers_well(url)
