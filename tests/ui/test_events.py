"""What goes wrong in an event of the page leaves it as a sentence."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Iterator
from typing import Any

import gradio as gr
import pytest
from gradio.routes import App

from lib.errors import UnknownModel
from lib.present.wording import page_note
from lib.ui import fields
from lib.ui.events import Page
from lib.ui.http.api import FAILED
from lib.ui.tabs import TAB_NAMES, TABS

SECRET = "a text that a visitor typed"  # noqa: S105 - the word of the test


def react(number: float, kind: str, said: str) -> str:
    """Refuse, fail or answer."""
    if number == 1:
        raise UnknownModel("Nobody knows it. Accepted: 7B.")
    if number == 2:
        raise RuntimeError(f"died of {said}")
    return kind


@pytest.fixture(scope="module")
def page() -> gr.Blocks:
    """A page with one event."""
    made: gr.Blocks
    with Page(analytics_enabled=False) as made:
        number, kind, said = gr.Slider(0, 10), gr.Dropdown(["a", "b"]), gr.Textbox()
        gr.Button().click(react, [number, kind, said], said, api_name="react", api_visibility="private")
    return made


def run_event(page: gr.Blocks, values: list[Any]) -> Any:
    """The answer to the event."""
    return asyncio.run(page.process_api(page.fns[0], values))["data"]


def test_an_answer_in_pieces_is_one_line_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """Gradio asks once for each piece; the line comes with the last."""

    def count() -> Iterator[str]:
        yield from "abc"

    with Page(analytics_enabled=False) as made:
        gr.Button().click(count, None, gr.Textbox(), api_name="count", api_visibility="private")

    async def stream() -> None:
        answer: Any = {"iterator": None, "is_generating": True}
        while answer["is_generating"]:
            answer = await made.process_api(made.fns[0], [], iterator=answer["iterator"], state=gr.state_holder.SessionState(made))

    with caplog.at_level(logging.INFO):
        asyncio.run(stream())
    assert [record.values["event"] for record in caplog.records if hasattr(record, "values")] == ["count"]


def test_the_settings_are_gradios_and_put_together_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """When they are read: not for each time that Gradio asks while it makes a page and its web app."""
    composed: list[gr.Blocks] = []
    compose = gr.Blocks.get_config_file
    monkeypatch.setattr(gr.Blocks, "get_config_file", lambda page: composed.append(page) or compose(page))  # type: ignore[func-returns-value]
    with Page(analytics_enabled=False) as made:
        gr.Slider(0, 10, label="context")
    App.create_app(made)
    assert composed == []
    assert "context" in [one["props"].get("label") for one in made.config["components"]]
    assert made.config is made.config
    assert made.config == compose(made)
    assert composed == [made]
    made.config = made.get_config_file()  # as Gradio does at a launch
    assert composed == [made]
    assert made.config["components"]
    assert composed == [made, made]


def test_the_signature_of_a_component_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where Gradio looks for it whenever it makes or describes one."""
    with Page(analytics_enabled=False):
        expected = inspect.signature(gr.Number.__init__)
        with monkeypatch.context() as patch:
            patch.setattr(inspect, "_signature_from_function", lambda *_, **__: pytest.fail("a signature was read again"))
            number = gr.Number(7, label="users", minimum=1)
            assert number.get_config().items() >= {"value": 7, "label": "users", "minimum": 1}.items()
            assert inspect.signature(gr.Number.__init__) is expected


def test_an_event_answers(page: gr.Blocks) -> None:
    """With the values of its fields."""
    assert run_event(page, [0, "a", ""]) == ["a"]


@pytest.mark.parametrize("values", [[], [0, "a"], ["many", "a", ""], [0, "c", ""], [{}, "a", ""]], ids=repr)
def test_values_of_another_page_are_refused(page: gr.Blocks, values: list[Any]) -> None:
    """Too few, of another type, or no choice of the field; none of them is repeated."""
    with pytest.raises(gr.Error) as refused:
        run_event(page, values)
    assert (refused.value.message, refused.value.title, refused.value.print_exception) == (page_note("outdated"), "invalid_input", False)


def test_a_refusal_keeps_its_words_and_a_failure_gets_ours(page: gr.Blocks, caplog: pytest.LogCaptureFixture) -> None:
    """What failed is logged without what the visitor typed."""
    with pytest.raises(gr.Error) as refused:
        run_event(page, [1, "a", SECRET])
    assert (refused.value.message, refused.value.title) == ("Nobody knows it. Accepted: 7B.", "unknown_model")
    with caplog.at_level(logging.INFO), pytest.raises(gr.Error) as failed:
        run_event(page, [2, "a", SECRET])
    assert (failed.value.message, failed.value.title) == (FAILED, "internal")
    assert "died of (what the caller sent)" in caplog.text
    assert SECRET not in caplog.text
    assert [record.values["outcome"] for record in caplog.records if hasattr(record, "values")] == ["internal"]


def test_fields_are_those_of_a_tab() -> None:
    """Panels have names of their own."""
    assert set(fields.TAB_FIELDS) <= set(TAB_NAMES)
    panels = [panel.name for tab in TABS for panel in tab.panels]
    assert len(panels) == len(set(panels))
