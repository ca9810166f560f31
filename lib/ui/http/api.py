"""The public endpoints, registered with Gradio: `gradio_client`, plain HTTP and the page's "Use via API" find them here.

The public endpoints in one table: who answers, in whose name, and how.

Gradio, plain HTTP (`lib.ui.http.middleware`) and MCP (`lib.ui.http.mcp`) are built from it, so a line here is all that a new endpoint
needs. Arguments without a default, then those with one, are public; a keyword-only `token` is the caller's own and is in no list.

Methods of the services as functions for an outside interface: same signature, refusals passed on, failures kept inside.

Arguments of a call that came as names or as a list, matched to the question's signature before anything else sees them.
"""

from __future__ import annotations

import difflib
import functools
import inspect
import logging
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar, get_args, get_origin

import gradio as gr
from gradio.events import api

from lib.errors import AdvisorError, InvalidInput, shown
from lib.service.app import Services
from lib.ui.device_queue import turn, width


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A public question, and how it is asked.

    `account`: it acts in the caller's name, so it takes a keyword-only `token: str | None`. `queued`: it takes long or needs the device,
    so it waits its turn; those of the same `slot` come one after the other. `streams`: it is a generator, and every item is an answer
    that is fuller than the one before.
    """

    question: Callable[..., Any]
    account: bool = False
    queued: bool = False
    streams: bool = False
    slot: str = "device"

    def __post_init__(self) -> None:
        """Hold the table to what the questions really are.

        Raises:
            TypeError: the question takes a token and does not say so, or the other way round; or it streams past the queue.
        """
        token = inspect.signature(self.question).parameters.get("token")
        if self.account != (token is not None and token.kind is inspect.Parameter.KEYWORD_ONLY):
            raise TypeError(f"{self.question.__name__}: `account` and a keyword-only `token` go together")
        if self.streams and not self.queued:
            raise TypeError(f"{self.question.__name__}: only the queue can stream")


def endpoints(services: Services) -> dict[str, Endpoint]:
    """The endpoints by name: these, and no others, are answered over the API and MCP."""
    return {
        "resolve_model": Endpoint(question=services.resolve_model),
        "estimate_memory": Endpoint(question=services.estimate_memory),
        "recommend": Endpoint(question=services.recommend),
        "list_hardware": Endpoint(question=services.list_hardware),
        "estimate_speed": Endpoint(question=services.estimate_speed),
        "estimate_cost": Endpoint(question=services.estimate_cost),
        "chat": Endpoint(question=services.live.chat, queued=True, streams=True, slot="chat"),
        "measure": Endpoint(question=services.live.measure, queued=True),
        "heartbeat": Endpoint(question=services.live.heartbeat, queued=True),
        "space_status": Endpoint(question=services.account.space_status, account=True),
        "right_size": Endpoint(question=services.account.right_size, account=True),
        "switch_hardware": Endpoint(question=services.account.switch_hardware, account=True),
        "set_sleep_time": Endpoint(question=services.account.set_sleep_time, account=True),
        "pause_space": Endpoint(question=services.account.pause_space, account=True),
        "restart_space": Endpoint(question=services.account.restart_space, account=True),
    }


log = logging.getLogger(__name__)

FAILED = "Something failed on our side while answering; it has been logged. The question was understood, so asking it again may help."

Refuse = Callable[[str, str], Exception]
_Answer = TypeVar("_Answer", bound=Callable[..., Any])


class Refused(Exception):
    """A refusal on its way out of an interface of our own: the sentence, and its code."""

    def __init__(self, sentence: str, code: str) -> None:
        super().__init__(sentence)
        self.code = code


def answered(question: Callable[..., Mapping[str, Any]], refuse: Refuse, slot: str | None = None) -> Callable[..., Mapping[str, Any]]:
    """The question, asked when its slot is free (`lib.ui.device_queue`), with every exception turned into `refuse(sentence, code)`.

    What was refused says so in its own words. Anything else is a mistake of ours: it is logged here, and the caller gets a sentence
    without details, for they could hold a path, a token or someone else's input.
    """

    @functools.wraps(question)
    def answer(*args: object, **named: object) -> Mapping[str, Any]:
        with _refusing(question, refuse, named.get("token")), turn(slot):
            return question(*args, **named)

    return _typed(answer, question)


def streamed(
    question: Callable[..., Iterator[Mapping[str, Any]]], refuse: Refuse, slot: str | None = None
) -> Callable[..., Iterator[Mapping[str, Any]]]:
    """The same for a question that answers in pieces: who stops listening stops the question too.

    Its return annotation is the type of one piece, which is what Gradio reads of a generator.
    """

    @functools.wraps(question)
    def answer(*args: object, **named: object) -> Iterator[Mapping[str, Any]]:
        with _refusing(question, refuse, named.get("token")), turn(slot):
            yield from question(*args, **named)

    return _typed(answer, question)


def last(pieces: Callable[..., Iterator[Mapping[str, Any]]]) -> Callable[..., Mapping[str, Any]]:
    """The fullest answer of a stream, for an interface that takes one answer."""

    @functools.wraps(pieces)
    def answer(*args: object, **named: object) -> Mapping[str, Any]:
        newest = deque(pieces(*args, **named), maxlen=1)
        if not newest:
            raise ValueError(f"{pieces.__name__} answered nothing")
        return newest[0]

    return answer


def piece(returned: Any) -> Any:
    """The type of one piece of an answer that comes in pieces; any other type as it is."""
    origin = get_origin(returned)
    return get_args(returned)[0] if isinstance(origin, type) and issubclass(origin, Iterator) else returned


@contextmanager
def _refusing(question: Callable[..., object], refuse: Refuse, token: object) -> Iterator[None]:
    try:
        yield
    except AdvisorError as refusal:
        raise refuse(str(refusal), refusal.code) from None
    except Exception:  # noqa: BLE001  anything at all
        log.error("%s failed\n%s", question.__name__, _without(token, traceback.format_exc()))  # noqa: TRY400  the text is looked through
        raise refuse(FAILED, "internal") from None


def _without(token: object, text: str) -> str:
    """A library may name the header that it could not send; the caller's token stays out of the log all the same."""
    return text.replace(token, "(the caller's token)") if isinstance(token, str) and token else text


def _typed(answer: _Answer, question: Callable[..., Any]) -> _Answer:
    """Real types instead of text: Gradio reads the return type from the signature."""
    signature = inspect.signature(question, eval_str=True)
    signature = signature.replace(return_annotation=piece(signature.return_annotation))
    answer.__signature__ = signature  # type: ignore[attr-defined]
    answer.__annotations__ = {p.name: p.annotation for p in signature.parameters.values()} | {"return": signature.return_annotation}
    return answer


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


Question = Callable[..., Any]


def public(question: Question, *, types: bool = False) -> inspect.Signature:
    """The signature that callers see: without what is keyword-only, which the interface fills in (the caller's token).

    With `types`, annotations are types instead of text; that takes 0.1 ms.
    """
    whole = inspect.signature(question, eval_str=types)
    return whole.replace(parameters=[p for p in whole.parameters.values() if p.kind is not inspect.Parameter.KEYWORD_ONLY])


def _missing(name: str, question: Question) -> InvalidInput:
    return InvalidInput(f"{name} is missing. {question.__name__} takes {', '.join(public(question).parameters)}.")


def check_names(question: Question, arguments: Mapping[str, object]) -> None:
    """Refuse unknown names and missing required ones.

    Raises:
        InvalidInput: names the argument, and the ones that exist.
    """
    known = public(question).parameters
    for name in arguments:
        if name not in known:
            near = difflib.get_close_matches(str(name)[:100], known, n=1)
            hint = f" Did you mean {near[0]}?" if near else ""
            raise InvalidInput(f"{question.__name__} has no argument {shown(name)}.{hint} It takes {', '.join(known)}.")
    for name, parameter in known.items():
        if parameter.default is inspect.Parameter.empty and name not in arguments:
            raise _missing(name, question)


def filled(question: Question, values: Sequence[object]) -> list[object]:
    """The values in order, with the defaults of those that were left out at the end.

    Raises:
        InvalidInput: too many values, or one without a default is left out.
    """
    known = public(question).parameters
    if len(values) > len(known):
        raise InvalidInput(f"{len(values)} values came. {question.__name__} takes at most {len(known)}: {', '.join(known)}.")
    rest = list(known.values())[len(values) :]
    for parameter in rest:
        if parameter.default is inspect.Parameter.empty:
            raise _missing(parameter.name, question)
    return [*values, *(parameter.default for parameter in rest)]
