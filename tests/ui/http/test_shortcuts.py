"""The page is rendered once, and each visitor gets it under the address that they came by."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import gradio as gr
import pytest
from gradio.routes import App
from starlette.middleware import Middleware
from starlette.testclient import TestClient

from lib.ui.http.shortcuts import LINKED, PATHS, CompressEvents, PageCache, lighten_page, page_name, put_config_last

HOSTS: list[dict[str, str]] = [
    {"host": "localhost:7860"},
    {"x-forwarded-host": "ada-advisor.hf.space", "x-forwarded-proto": "https"},
    {"host": "a'</script><b>.example"},
]


def ask(model: str) -> int:
    """A question."""
    return len(model)


def repeat(text: str) -> str:
    """A long answer to a long question."""
    return text


class Asked:
    """Stands before Gradio and counts what it is asked."""

    paths: list[str]

    def __init__(self, app: Any, paths: list[str]) -> None:
        """Count into `paths`."""
        self._app, self._paths = app, paths

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass the request on."""
        if scope["type"] == "http":
            self._paths.append(scope["path"])
        await self._app(scope, receive, send)


@pytest.fixture(scope="module")
def page() -> gr.Blocks:
    """A page with a title and one question."""
    with gr.Blocks(title="Advice", analytics_enabled=False) as page:
        model = gr.Textbox("7B", label="Model")
        gr.api(ask, api_name="ask")
        model.submit(repeat, model, model, api_visibility="private", queue=False)
    page.theme = gr.themes.Default()  # as a launch sets it
    page.config = page.get_config_file()
    return page


@pytest.fixture(scope="module")
def clients(page: gr.Blocks) -> Iterator[tuple[TestClient, TestClient, list[str]]]:
    """The page as Gradio serves it and as it is served here, and what Gradio was asked for the latter."""
    asked: list[str] = []
    once = [Middleware(PageCache, page=page), Middleware(Asked, paths=asked)]
    with TestClient(App.create_app(page)) as plain, TestClient(App.create_app(page, app_kwargs={"middleware": once})) as rendered:
        yield plain, rendered, asked


def _drop_addresses(text: str) -> str:
    """Without what differs between two objects of the same function."""
    return re.sub("0x[0-9a-f]+", "", text)


@pytest.mark.parametrize("headers", HOSTS)
@pytest.mark.parametrize("path", ["/", "/config", "/?view=api&model=7B"])
def test_it_is_what_gradio_serves(clients: tuple[TestClient, TestClient, list[str]], headers: dict[str, str], path: str) -> None:
    """To the letter, whatever the address."""
    plain, rendered, _ = clients
    ours, theirs = rendered.get(path, headers=headers), plain.get(path, headers=headers)
    assert _drop_addresses(ours.text) == _drop_addresses(theirs.text)
    assert (ours.status_code, ours.headers["content-type"]) == (200, theirs.headers["content-type"])
    assert "rendered.invalid" not in ours.text


def test_gradio_is_asked_once_for_each_path(clients: tuple[TestClient, TestClient, list[str]], page: gr.Blocks) -> None:
    """Visitors, addresses and logins do not matter; whether there is a link, and another configuration of the page, do."""
    _, rendered, asked = clients
    page.config = {**page.config}
    asked.clear()
    for headers in HOSTS:
        for path in sorted(PATHS):
            rendered.get(path, headers=headers | {"cookie": "session=signed"})
        for link in ("deep_link=anything", "model=7B"):
            rendered.get(f"/?{link}", headers=headers)
        rendered.head("/", headers=headers)
    assert sorted(asked) == sorted([*PATHS, "/"])
    assert {"/", "/config", "/gradio_api/info", "/gradio_api/openapi.json"} <= PATHS
    page.config = {**page.config}
    rendered.get("/")
    assert asked.count("/") == 3


def test_it_is_compressed_for_those_who_take_it(clients: tuple[TestClient, TestClient, list[str]]) -> None:
    """And whole for the others; a HEAD has the length of the body that it does not carry."""
    _, rendered, _ = clients
    packed, whole = rendered.get("/", headers={"accept-encoding": "gzip"}), rendered.get("/", headers={"accept-encoding": "identity"})
    assert packed.text == whole.text
    for takes, header in (
        (True, "br, GZIP;q=0.5"),
        (True, "*"),
        (False, "gzip;q=0"),
        (False, "gzip; q=0.000, *"),
        (False, "br"),
        (False, "*;q=0"),
    ):
        assert (rendered.get("/", headers={"accept-encoding": header}).headers.get("content-encoding") == "gzip") is takes, header
    assert int(packed.headers["content-length"]) < len(whole.content) == int(whole.headers["content-length"])
    head = rendered.head("/", headers={"accept-encoding": "identity"})
    assert (head.content, head.headers["content-length"]) == (b"", whole.headers["content-length"])


def test_other_addresses_are_passed_on(clients: tuple[TestClient, TestClient, list[str]]) -> None:
    """What is not there is refused by Gradio itself, and nothing is kept of it."""
    _, rendered, asked = clients
    asked.clear()
    assert [rendered.get("/nowhere").status_code, rendered.post("/").status_code] == [404, 405]
    assert asked == ["/nowhere", "/"]


def test_a_browser_gets_no_components_of_the_api(clients: tuple[TestClient, TestClient, list[str]]) -> None:
    """Those of `gr.api` show nothing: the HTML goes without them, everything else in it stays, and `/config` has them all."""
    plain, _, _ = clients
    before, whole = plain.get("/").content, plain.get("/config").json()
    after = lighten_page(before)
    configs = [json.loads(re.search(rb"window\.gradio_config = (\{.*?\});</script>", html, re.DOTALL)[1]) for html in (before, after)]  # type: ignore[index]
    seen = [[one["type"] for one in config["components"]] for config in (*configs, whole)]
    assert seen == [["textbox", "api", "api", "form"], ["textbox", "form"], ["textbox", "api", "api", "form"]]
    assert [len(config["layout"]["children"]) for config in configs] == [3, 1]
    assert [len(config["page"][""]["layout"]["children"]) for config in configs] == [3, 1]
    assert configs[1]["dependencies"] == configs[0]["dependencies"]
    assert after.partition(b"window.gradio_config")[0] == before.partition(b"window.gradio_config")[0]
    infos = [json.loads(re.search(rb"window\.gradio_api_info = (\{.*?\});</script>", html, re.DOTALL)[1]) for html in (before, after)]  # type: ignore[index]
    told = [info["named_endpoints"]["/ask"] for info in infos]
    assert told[1]["parameters"] == told[0]["parameters"]
    assert [len(one["returns"]) for one in told] == [1, 1]
    assert "code_snippets" in told[0].keys() - told[1].keys()
    assert after.rpartition(b";</script>")[2] == before.rpartition(b";</script>")[2]


def test_a_browser_that_holds_the_page_gets_304(clients: tuple[TestClient, TestClient, list[str]], page: gr.Blocks) -> None:
    """Until the page or its address is another one."""
    _, rendered, _ = clients
    held = {"if-none-match": rendered.get("/").headers["etag"]}
    again = rendered.get("/", headers=held)
    assert (again.status_code, again.content) == (304, b"")
    assert rendered.get("/", headers=held | HOSTS[1]).status_code == 200
    page.config = {**page.config, "title": "Other"}
    assert rendered.get("/", headers=held).status_code == 200


def test_events_of_the_page_are_compressed(page: gr.Blocks) -> None:
    """Where they are long and the caller takes gzip."""
    with TestClient(App.create_app(page, app_kwargs={"middleware": [Middleware(CompressEvents)]})) as client:
        long = {"data": ["x" * 5_000]}
        answer = client.post("/gradio_api/run/predict", json={**long, "fn_index": 1})
        refused = client.post("/gradio_api/run/predict", json={**long, "fn_index": 1}, headers={"accept-encoding": "gzip;q=0"})
        short = client.post("/gradio_api/run/predict", json={"data": ["7B"], "fn_index": 1})
    assert answer.json()["data"] == ["x" * 5_000]
    assert [one.headers.get("content-encoding") for one in (answer, refused, short)] == ["gzip", None, None]


def test_the_first_view_comes_before_the_configuration(page: gr.Blocks) -> None:
    """Only the page without a link holds the example's answer, which its components have from the start."""
    field = next(iter(page.blocks))
    with TestClient(App.create_app(page)) as plain:
        before = plain.get("/").content
    after = put_config_last(lighten_page(before, {field: {"value": "the answer"}}))
    assert (b"the answer" in after, b"the answer" in put_config_last(lighten_page(before))) == (True, False)
    assert after.index(b"<gradio-app") < after.index(b"window.gradio_config =") < after.index(b"</body>")
    assert len(re.findall(rb"<script", after)) == len(re.findall(rb"<script", before))


@pytest.mark.parametrize(("query", "rendered"), [("", "/"), ("__theme=dark", "/"), ("model=7B", LINKED), ("__theme=dark&tab=cost", LINKED)])
def test_a_link_has_a_page_of_its_own(query: str, rendered: str) -> None:
    """Its address has parameters beside the theme."""
    assert page_name({"path": "/", "query_string": query.encode()}) == rendered
