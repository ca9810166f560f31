"""How Gradio, plain HTTP and MCP call the public endpoints (`lib.service.endpoint.ENDPOINTS`).

`register` gives them to Gradio, for `gradio_client`, `POST /gradio_api/call/NAME` and the page's "Use via API". `lib.ui.http.shortcuts`
answers them over plain HTTP, and `lib.ui.http.mcp` makes tools of them. Arguments of a question that have no default, then those with one,
are public; a keyword-only `token` is the caller's own and is in no list: it acts for an account, or reads a gated or private model.

`wrap_question` and `wrap_stream` put a question into a device queue and turn every exception into the interface's own refusal. A refusal
has its own words. Anything else is a mistake of ours: it is logged, and the caller gets a sentence without details, because those could
have a path, a token or someone else's input.
"""

from __future__ import annotations

import difflib
import functools
import inspect
import logging
import time
import traceback
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar, get_args, get_origin

import gradio as gr
from gradio.events import api
from starlette.responses import JSONResponse

from lib.errors import AdvisorError, InvalidInput, quote_value
from lib.live.device_queue import turn, width
from lib.present.sentences import to_json
from lib.result import json_schema
from lib.service.endpoint import Endpoint
from lib.ui.http.bodies import RefusedBody
from lib.ui.http.gradio_internals import describe_answer, gradio_error

log = logging.getLogger(__name__)

Question = Callable[..., Any]
AnswerFunction = Callable[..., Any]


# Arguments, matched to the question's signature before anything else sees them.


class UnknownEndpoint(InvalidInput):
    """A name that is not public."""


@functools.lru_cache(maxsize=256)
def public_signature(question: Question) -> inspect.Signature:
    """The signature that callers see: without keyword-only parameters, which the interface fills in (the caller's token)."""
    whole = inspect.signature(question)
    return whole.replace(parameters=[p for p in whole.parameters.values() if p.kind is not inspect.Parameter.KEYWORD_ONLY])


def _missing(name: str, question: Question) -> InvalidInput:
    return InvalidInput(f"{name} is missing. {question.__name__} takes {', '.join(public_signature(question).parameters)}.")


def check_names(question: Question, arguments: Mapping[str, object]) -> None:
    """Refuse unknown names and missing required ones."""
    parameters = public_signature(question).parameters
    for name in arguments:
        if name not in parameters:
            near = difflib.get_close_matches(str(name)[:100], parameters, n=1)
            hint = f" Did you mean {near[0]}?" if near else ""
            raise InvalidInput(f"{question.__name__} has no argument {quote_value(name)}.{hint} It takes {', '.join(parameters)}.")
    for name, parameter in parameters.items():
        if parameter.default is inspect.Parameter.empty and name not in arguments:
            raise _missing(name, question)


def fill_defaults(question: Question, values: Sequence[object]) -> list[object]:
    """The values in order, with the defaults of those that were left out at the end."""
    parameters = public_signature(question).parameters
    if len(values) > len(parameters):
        raise InvalidInput(f"{len(values)} values came. {question.__name__} takes at most {len(parameters)}: {', '.join(parameters)}.")
    rest = list(parameters.values())[len(values) :]
    for parameter in rest:
        if parameter.default is inspect.Parameter.empty:
            raise _missing(parameter.name, question)
    return [*values, *(parameter.default for parameter in rest)]


def values_of(name: str, call: Mapping[str, object]) -> list[object]:
    """The arguments that a call of this endpoint sends in order."""
    values = call.get("data")
    if not isinstance(values, list):
        raise InvalidInput(f'The body has no list under "data". Accepted: {{"data": [...]}} with the arguments of {name} in order.')
    return values


def token_of(call: Mapping[str, object]) -> str | None:
    """The caller's own token, if a call sends one."""
    token = call.get("oauth_token")
    if token is not None and not isinstance(token, str):
        raise InvalidInput('"oauth_token" is not a text. Accepted: your own Hugging Face token as a text, or nothing.')
    return token or None


# Questions as functions for an interface: same signature, turns on the device, exceptions as refusals.

FAILED = "Something failed on our side while answering; it has been logged. The question was understood, so asking it again may help."

Refuse = Callable[[str, str], Exception]
_Function = TypeVar("_Function", bound=Callable[..., Any])


class RefusedQuestion(Exception):
    """A refusal on its way out of an interface of our own: the sentence, and its code."""

    def __init__(self, sentence: str, code: str) -> None:
        super().__init__(sentence)
        self.code = code


_PRIVATE = 4
"""Length from which a text counts as private. Shorter texts are numbers and choices, which every sentence has."""


def log_failure(doing: str, failure: BaseException, private: Iterable[object]) -> None:
    """Log a mistake of ours. Its words hold none of the `private` texts: a library may name the header that it could not send."""
    secrets = sorted((text for text in private if isinstance(text, str) and len(text) >= _PRIVATE), key=len, reverse=True)
    texts = [form for text in secrets for form in (text, ascii(text)[1:-1], ascii(text.encode("utf-8", "surrogatepass"))[2:-1])]
    lines: list[str] = []
    error: BaseException | None = failure
    while error is not None:
        line = f"{type(error).__name__}: {error}"
        for text in texts:
            line = line.replace(text, "(what the caller sent)")
        lines = [*traceback.format_tb(error.__traceback__), line, *lines]
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    log.error("%s failed\n%s", doing, "\n".join(lines))


def wrap_question(question: Question, refuse: Refuse, queue: str | None = None, write: Callable[[object], Any] = to_json) -> AnswerFunction:
    """The question, asked at its turn in the device queue, answered in JSON, with every exception as `refuse(sentence, code)`."""

    @functools.wraps(question)
    def answer(*args: object, **named: object) -> Any:
        with refusing("endpoint", question.__name__, refuse, (*args, *named.values())), turn(queue):
            return write(question(*args, **named))

    return _with_types(answer, question)


def wrap_stream(
    question: Callable[..., Generator[object]], refuse: Refuse, queue: str | None = None
) -> Callable[..., Iterator[Mapping[str, Any]]]:
    """The same for a question that answers in pieces: who stops listening stops the question too.

    Its return annotation is the type of one piece, which is what Gradio reads of a generator.
    """

    @functools.wraps(question)
    def answer(*args: object, **named: object) -> Iterator[Mapping[str, Any]]:
        private = (*args, *named.values())
        with refusing("endpoint", question.__name__, refuse, private), turn(queue), closing(question(*args, **named)) as pieces:
            for piece in pieces:
                yield to_json(piece)

    return _with_types(answer, question)


def last_piece(stream: Callable[..., Iterator[Mapping[str, Any]]]) -> AnswerFunction:
    """The fullest answer of a stream, for an interface that takes one answer."""

    @functools.wraps(stream)
    def answer(*args: object, **named: object) -> Mapping[str, Any]:
        newest = deque(stream(*args, **named), maxlen=1)
        if not newest:
            raise ValueError(f"{stream.__name__} answered nothing")
        return newest[0]

    return answer


def output_schema(question: Question) -> dict[str, Any]:
    """The answer as a JSON schema; of a stream, any one of its items."""
    return json_schema(piece_type(inspect.signature(question, eval_str=True).return_annotation))


def piece_type(returned: Any) -> Any:
    """The type of one piece of an answer that comes in pieces; any other type as it is."""
    origin = get_origin(returned)
    return get_args(returned)[0] if isinstance(origin, type) and issubclass(origin, Iterator) else returned


@dataclass(slots=True)
class Progress:
    """How far a question is: with `unfinished`, a piece of its answer came and more follow, so that nothing is logged yet."""

    unfinished: bool = False


@contextmanager
def refusing(kind: str, name: str, refuse: Refuse, private: Iterable[object]) -> Iterator[Progress]:
    """Turn every exception into `refuse(sentence, code)`, and log how the question ended and how long it took, never what it was."""
    began, outcome, progress = time.perf_counter(), "cancelled", Progress()
    try:
        yield progress
        outcome = "answered"
    except gr.Error:
        outcome = "refused"
        raise
    except AdvisorError as error:
        outcome = error.code
        raise refuse(str(error), error.code) from None
    except Exception as failure:  # noqa: BLE001  anything at all
        outcome = "internal"
        log_failure(name, failure, private)
        raise refuse(FAILED, "internal") from None
    finally:
        if not progress.unfinished:
            log.info("", extra={"values": {kind: name, "outcome": outcome, "ms": round(1000 * (time.perf_counter() - began), 1)}})


def _with_types(function: _Function, question: Question) -> _Function:
    """Real types instead of text: Gradio reads the return type from the signature."""
    signature = inspect.signature(question, eval_str=True)
    signature = signature.replace(return_annotation=piece_type(signature.return_annotation))
    function.__signature__ = signature  # type: ignore[attr-defined]
    function.__annotations__ = {p.name: p.annotation for p in signature.parameters.values()} | {"return": signature.return_annotation}
    return function


# Gradio's own endpoints.


def register(endpoints: Mapping[str, Endpoint]) -> None:
    """Add the endpoints to the Blocks in whose context this is called.

    Most bypass Gradio's queue: an answer takes milliseconds, and a waiting queue would make it seconds. Those that need the device wait.
    """
    for name, endpoint in endpoints.items():
        queue = endpoint.queue
        limits = {"concurrency_limit": None} if queue is None else {"concurrency_limit": width(queue), "concurrency_id": queue}
        api(gradio_function(endpoint), api_name=name, queue=queue is not None, **limits)
        describe_answer(functools.partial(output_schema, endpoint.question))


def gradio_function(endpoint: Endpoint) -> Callable[..., Any]:
    """The function that Gradio calls; one that takes a token takes it where Gradio fills it in."""
    wrap = wrap_stream if endpoint.streams else wrap_question
    function = wrap(endpoint.question, gradio_error, endpoint.queue)
    return _with_oauth_token(function, streams=endpoint.streams) if endpoint.takes_token else function


def _call_token(token: gr.OAuthToken | None) -> str | None:
    """The token that came with the call itself. One from the browser's login has an expiry, and is not meant for the API."""
    return token.token if token is not None and not token.expires_at else None


def _with_oauth_token(function: Callable[..., Any], *, streams: bool) -> Callable[..., Any]:
    """The function with its `token` as Gradio fills it in: a last positional argument that is in no list."""

    @functools.wraps(function)
    def act(*args: Any) -> Any:
        return function(*args[:-1], token=_call_token(args[-1]))

    @functools.wraps(function)
    def act_in_pieces(*args: Any) -> Iterator[Any]:
        yield from function(*args[:-1], token=_call_token(args[-1]))

    acting: Callable[..., Any] = act_in_pieces if streams else act
    signature = inspect.signature(function)
    injected = inspect.Parameter("oauth_token", inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None, annotation=gr.OAuthToken | None)
    parameters = [*(p for p in signature.parameters.values() if p.kind is not inspect.Parameter.KEYWORD_ONLY), injected]
    acting.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    acting.__annotations__ = {p.name: p.annotation for p in parameters} | {"return": signature.return_annotation}
    return acting


# Refusals as responses.

_STATUS = {
    "internal": 500,
    "bad_catalog": 500,
    "repo_not_found": 404,
    "repo_gated": 403,
    "not_permitted": 403,
    "switched_off": 403,
    "rate_limited": 429,
    "hub_garbage": 502,
    "hub_error": 502,
    "hub_unreachable": 503,
    "busy": 503,
}
_MENDABLE = 422  # every other code is something that the caller can mend


def error_body(sentence: str, code: str, status: int | None = None) -> JSONResponse:
    """A refusal in Gradio's form, with the status of its code if none is given."""
    return JSONResponse({"error": sentence, "title": code}, status_code=status or _STATUS.get(code, _MENDABLE))


def error_response(error: AdvisorError, status: int | None = None) -> JSONResponse:
    """A refusal in Gradio's form, with the HTTP status of its cause."""
    if status is None:
        status = error.status if isinstance(error, RefusedBody) else 404 if isinstance(error, UnknownEndpoint) else None
    return error_body(str(error), error.code, status)
