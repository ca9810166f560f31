"""The public endpoints, registered with Gradio: `gradio_client`, plain HTTP and the page's "Use via API" find them here."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import gradio as gr
from gradio.events import api

from lib.ui.answered import answered, streamed
from lib.ui.endpoints import Endpoint
from lib.ui.turns import width

Answer = Callable[..., Any]


def register(endpoints: Mapping[str, Endpoint]) -> None:
    """Add the endpoints to the Blocks in whose context this is called.

    Most bypass the queue: an answer takes milliseconds, and a waiting queue would make it seconds. Those that need the device wait in it.
    """
    for name, endpoint in endpoints.items():
        waits = {"concurrency_limit": width(endpoint.slot), "concurrency_id": endpoint.slot}
        api(_registered(endpoint), api_name=name, queue=endpoint.queued, **(waits if endpoint.queued else {"concurrency_limit": None}))


def _registered(endpoint: Endpoint) -> Answer:
    slot = endpoint.slot if endpoint.queued else None
    shape = streamed if endpoint.streams else answered
    answer = shape(endpoint.question, _refusal, slot)
    return _in_their_name(answer, streams=endpoint.streams) if endpoint.account else answer


def _refusal(sentence: str, code: str) -> gr.Error:
    return gr.Error(sentence, title=code, print_exception=False)


def _sent(token: gr.OAuthToken | None) -> str | None:
    """The token that came with the call itself. One from the browser's login has an expiry, and is not meant for the API."""
    return token.token if token is not None and not token.expires_at else None


def _in_their_name(answer: Answer, *, streams: bool) -> Answer:
    """The answer with its `token` as Gradio fills it in: a last positional argument that is in no list."""

    @functools.wraps(answer)
    def acting(*given: Any) -> Any:
        return answer(*given[:-1], token=_sent(given[-1]))

    @functools.wraps(answer)
    def acting_in_pieces(*given: Any) -> Iterator[Any]:
        yield from answer(*given[:-1], token=_sent(given[-1]))

    function: Answer = acting_in_pieces if streams else acting
    signature = inspect.signature(answer)
    injected = inspect.Parameter("oauth_token", inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None, annotation=gr.OAuthToken | None)
    shown = [p for p in signature.parameters.values() if p.kind is not inspect.Parameter.KEYWORD_ONLY]
    function.__signature__ = signature.replace(parameters=[*shown, injected])  # type: ignore[attr-defined]
    function.__annotations__ = {p.name: p.annotation for p in [*shown, injected]} | {"return": signature.return_annotation}
    return function
