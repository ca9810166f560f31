"""What a messenger shows of a link, and which visitors get it."""

from __future__ import annotations

import asyncio
from html import unescape
from typing import Any

import pytest

from lib.catalog import load
from lib.errors import Busy
from lib.service.app import Services
from lib.service.endpoint import App
from lib.service.models import Models
from lib.ui.http.fair_queue import Threads
from lib.ui.http.link_preview import LinkPreview, place_tags, read_preview

ROOT = "https://ada-advisor.hf.space"


@pytest.fixture(scope="module")
def services() -> Services:
    """With the bundled models only."""
    return Services(App(catalog=load, models=Models()))


def _scope(query: str, **headers: str) -> dict[str, Any]:
    raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return {"type": "http", "path": "/", "query_string": query.encode(), "headers": raw, "client": ("127.0.0.1", 1)}


def _tags(services: Services, query: str, **headers: str) -> bytes | None:
    return asyncio.run(LinkPreview(services, Threads()).link_tags(_scope(query, **headers), ROOT))


def test_a_link_to_a_recommendation_shows_its_pick(services: Services) -> None:
    """Hardware and price stand in the sentence, and the tags lead back to the link; on a Space, to its page on the Hub."""
    tags = unescape(str(_tags(services, "model=Qwen/Qwen3-8B&concurrency=20"), "utf-8"))
    assert '<meta property="og:title" content="Qwen/Qwen3-8B · Recommend · Spaces Hardware Advisor" />' in tags
    assert "per hour, $" in tags
    assert f'content="{ROOT}/?model=Qwen/Qwen3-8B&concurrency=20"' in tags
    assert f'content="{ROOT}/preview.png"' in tags


def test_on_a_space_the_tags_lead_to_the_hub(services: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    """Visitors of a Space see it in a frame of its page there."""
    monkeypatch.setenv("SPACE_ID", "ada/advisor")
    assert b'content="https://huggingface.co/spaces/ada/advisor?model=7B"' in (_tags(services, "model=7B") or b"")


@pytest.mark.parametrize(
    ("asked", "title"),
    [
        ({}, "Recommend · "),
        ({"tab": "memory", "model": "Qwen/Qwen3-8B"}, "Qwen/Qwen3-8B · Memory · "),
        ({"tab": "nonsense", "model": "ada/unknown"}, "ada/unknown · Recommend · "),
        ({"model": '{"architectures": []}'}, "Recommend · "),
        ({"model": "Qwen/Qwen3-8B", "concurrency": "-1", "platforms": "moon"}, "Qwen/Qwen3-8B · Recommend · "),
    ],
)
def test_the_hub_is_not_asked(services: Services, asked: dict[str, str], title: str) -> None:
    """Another tab, an unknown model and nonsense have a title and the general sentence, or the pick under the defaults."""
    assert read_preview(services, asked).title.startswith(title)


def test_hostile_names_are_escaped(services: Services) -> None:
    """Nothing of a link leaves its attribute."""
    tags = _tags(services, 'model="/><script>alert(1)</script>') or b""
    assert b"<script" not in tags
    assert b"&lt;script&gt;" in tags


@pytest.mark.parametrize(
    ("query", "headers"),
    [
        ("", {}),
        ("model=7B", {"sec_fetch_mode": "navigate"}),
        (f"model={'x' * 2_000}", {}),
        ("model=hf_abcdefghijklmnopqrstuvwxyz12345678", {}),
        ("model=hf%5Fabcdefghijklmnopqrstuvwxyz12345678", {}),
        ("model=%E2%80%AEgnp", {}),
    ],
)
def test_the_general_tags_do(services: Services, query: str, headers: dict[str, str]) -> None:
    """For a browser, no link, one that is too long, a token or hidden marks: nothing is computed, nothing repeated."""
    assert _tags(services, query, **headers) is None


def test_without_a_turn_the_general_tags_do(services: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    """A crowded server still shows its page."""

    async def refuse(*_: object, **__: object) -> None:
        raise Busy("no turn")

    monkeypatch.setattr(Threads, "run", refuse)
    assert _tags(services, "model=7B") is None


def test_gradios_own_tags_go() -> None:
    """Its template has two sets of them."""
    tags = b'<meta property="og:title"\n content="Gradio" />\n<meta name="twitter:image"\n content="" />'
    html = b"<head>\n" + tags + b'<style></style>window.gradio_config = {"<meta>"}'
    assert place_tags(html, b"HERE") == b'<head>\nHERE<style></style>window.gradio_config = {"<meta>"}'
