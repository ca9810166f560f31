"""The public endpoints, registered with Gradio: `gradio_client`, plain HTTP and the page's "Use via API" find them here."""

from __future__ import annotations

from collections.abc import Mapping

import gradio as gr
from gradio.events import api

from lib.ui.answered import answered
from lib.ui.endpoints import Endpoint


def _refusal(sentence: str, code: str) -> gr.Error:
    return gr.Error(sentence, title=code, print_exception=False)


def register(endpoints: Mapping[str, Endpoint]) -> None:
    """Add the endpoints to the Blocks in whose context this is called.

    They bypass the queue: an answer takes milliseconds, and a waiting queue would make it seconds.
    """
    for name, endpoint in endpoints.items():
        api(answered(endpoint.question, _refusal), api_name=name, queue=False, concurrency_limit=None)
