"""The public endpoints, registered with Gradio: `gradio_client`, plain HTTP and the page's "Use via API" find them here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import gradio as gr
from gradio.events import api

from lib.service.services import Services
from lib.ui.answered import answered

Question = Callable[..., Mapping[str, Any]]


def questions(services: Services) -> dict[str, Question]:
    """The public questions by endpoint name: these, and no others, are answered over the API and MCP."""
    return {
        "resolve_model": services.resolve_model,
        "estimate_memory": services.estimate_memory,
        "recommend": services.recommend,
        "list_hardware": services.list_hardware,
        "estimate_speed": services.estimate_speed,
        "estimate_cost": services.estimate_cost,
    }


def _refusal(sentence: str, code: str) -> gr.Error:
    return gr.Error(sentence, title=code, print_exception=False)


def register(services: Services) -> None:
    """Add the endpoints to the Blocks in whose context this is called.

    They bypass the queue: an answer takes milliseconds, and a waiting queue would make it seconds.
    """
    for name, question in questions(services).items():
        api(answered(question, _refusal), api_name=name, queue=False, concurrency_limit=None)
