"""How an endpoint is written: a frozen model of its arguments, and one function that takes the app and those arguments and answers.

`@endpoint(...)` makes the function public under its own name: API, MCP, `/agents` and plain HTTP read `ENDPOINTS`. A function without the
decorator answers the page only.

The model is the only description of the arguments: names, types, defaults, words, and the checks behind the types (see
`lib.request.fields`). `bind_arguments` makes of the function what the page, Gradio, MCP and the command line call: a function with those
arguments as named parameters, whose signature and docstring are read as documentation by `lib.ui.http.api` and `lib.ui.http.mcp`.
"""

from __future__ import annotations

import functools
import inspect
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar, get_type_hints

from lib.hub.search import find_providers, find_quantized, suggest_models
from lib.hub.spaces import Spaces
from lib.live.chat import Conversations
from lib.live.demo_model import DemoModel
from lib.live.device import current_device
from lib.live.heartbeat import on_device
from lib.live.limits import device_rates
from lib.live.measure import run_measurement
from lib.provenance import Answer as AnswerBase
from lib.request.fields import Arguments, Checked
from lib.request.words import collect_readings
from lib.service.fair_turns import anonymous_caller
from lib.service.reference import reading_as
from lib.service.runs import MeasurementLedger
from lib.speed import predict_speed

if TYPE_CHECKING:
    from lib.catalog import Catalog
    from lib.catalog.silicon import Accelerator
    from lib.hub.search import ProviderOffers
    from lib.live.device import Device, Size
    from lib.live.heartbeat import HeartbeatEvent, MatmulCase
    from lib.live.limits import DeviceRates
    from lib.live.measure import MeasuredRun, MeasureRequest, RunStage
    from lib.service.models import Models
    from lib.service.usage import Predict


Answer = TypeVar("Answer")
Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A public function, and how it is called.

    `queue`: it needs the device, so it waits in the device queue of this name; None answers at once. `heavy`: it computes for more than
    about 30 ms, so few run at a time. `writes`: it changes something that stays; `destroys`: it stops something that runs, or changes its
    bill; `repeatable`: asking twice does no more than asking once.
    """

    question: Callable[..., Any]
    queue: str | None = None
    heavy: bool = False
    writes: bool = False
    destroys: bool = False
    repeatable: bool = True
    account: bool = False
    """Whether it acts in the caller's name, by a token that is not for reading a model."""

    def __post_init__(self) -> None:
        """Refuse a stream without a queue.

        Raises:
            TypeError: without a queue Gradio sends the first piece alone.
        """
        if self.streams and self.queue is None:
            raise TypeError(f"{self.question.__name__}: only the queue can stream")

    @property
    def streams(self) -> bool:
        """Whether it is a generator: every item is an answer that is fuller than the one before."""
        return inspect.isgeneratorfunction(self.question)

    @property
    def takes_token(self) -> bool:
        """Whether a caller may send a token of their own."""
        token = inspect.signature(self.question).parameters.get("token")
        return token is not None and token.kind is inspect.Parameter.KEYWORD_ONLY


ENDPOINTS: dict[str, Endpoint] = {}
"""Every public function by its name, as `@endpoint` registered it."""


def endpoint(
    *, queue: str | None = None, heavy: bool = False, writes: bool = False, destroys: bool = False, repeatable: bool = True
) -> Callable[[Function], Function]:
    """Make a function public under its own name; the options are those of `Endpoint`."""

    def register(function: Function) -> Function:
        ENDPOINTS[function.__name__] = Endpoint(
            question=function,
            queue=queue,
            heavy=heavy,
            writes=writes,
            destroys=destroys,
            repeatable=repeatable,
            account="token" in inspect.signature(function).parameters,
        )
        return function

    return register


@dataclass(frozen=True, slots=True, kw_only=True)
class Time:
    """A clock in seconds, and how to wait."""

    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


@dataclass(frozen=True, slots=True, kw_only=True)
class App:
    """Dependencies of the endpoints: prices, models, the Hub, the device at hand. The defaults are those of the running app.

    Make it before Gradio is launched: on ZeroGPU the tasks for the device are announced by then. Nothing is loaded before it is asked for.
    """

    catalog: Callable[[], Catalog]
    """The catalog, which may hold fresher prices at each call."""
    refreshed_catalog: Callable[[], Catalog] | None = None
    """Asks the platform for its prices again, within a time limit, before one is confirmed; None takes `catalog`."""
    models: Models
    """Resolves the model that a caller named."""
    search: Callable[[str], Sequence[str]] = lambda text: suggest_models(text).ids
    """Ids on the Hub that match a text."""
    providers: Callable[[str], ProviderOffers] = find_providers
    """Providers of a model, from the router."""
    quantized: Callable[[str], Mapping[str, str] | None] = find_quantized
    """The quantized checkpoints of a model on the Hub, repository by format; None if it cannot be asked."""
    predict: Predict = predict_speed
    """How fast an offer runs a model, for bills."""
    spaces: Callable[[str | None], Spaces] = Spaces
    """The Hub's Spaces as the owner of a token sees them."""
    caller: Callable[[], Hashable] = anonymous_caller
    """The caller on the current thread; callers share the turns at work that takes a processor."""
    time: Time = field(default_factory=Time)
    """The clock that paces the watching of a Space."""
    rates: Callable[[Device, str], DeviceRates | None] = device_rates
    """Measured CPU throughput per dtype."""
    run_measurement: Callable[[MeasureRequest, Device], Iterator[RunStage | MeasuredRun]] = run_measurement
    run_heartbeat: Callable[[MatmulCase, Device, Accelerator | None, int], Iterator[HeartbeatEvent]] = on_device
    """They run where the device is: on ZeroGPU in the process that is given a GPU."""
    demo: DemoModel = field(default_factory=DemoModel)
    """The model of the chat."""
    find_device: Callable[..., Device] | None = None
    """The device as it is now, of a size on ZeroGPU; None: what the catalog makes of this machine."""
    account_actions: bool = True
    """Whether a Space may be changed from here (`ACCOUNT_ACTIONS=0` switches that off); looking at one is always offered."""
    ledger: MeasurementLedger = field(default_factory=MeasurementLedger)
    """Ledger of measurements."""
    conversations: Conversations = field(init=False)
    """Conversations with the demo model."""

    def __post_init__(self) -> None:
        """Announce the tasks for the device, which ZeroGPU asks to know before the launch."""
        object.__setattr__(self, "conversations", Conversations(self.demo, self.catalog))

    def device(self, size: Size = "large") -> Device:
        """The device as it is now; on ZeroGPU the one that a call of this size gets."""
        return current_device(self.catalog(), size) if self.find_device is None else self.find_device(size)

    def placed_bytes(self) -> int:
        """Bytes of the demo model's weights, which ZeroGPU moves to the device before a run."""
        loaded = self.demo.loaded_model
        return loaded.weights_bytes if loaded else 0


def _docstring(function: Callable[..., Any], arguments: type[Arguments]) -> str:
    head, returns, tail = inspect.cleandoc(function.__doc__ or "").partition("\n\nReturns:")
    descriptions = "\n".join(f"    {argument.name}: {argument.help}" for argument in arguments.list_fields().values())
    return f"{head}\n\nArgs:\n{descriptions}{returns}{tail}"


def bind_arguments(function: Callable[..., Answer], app: App) -> Callable[..., Answer]:
    """The endpoint's function as callers see it: with its arguments as parameters, checked before the function is called.

    A keyword-only parameter of the function (the caller's own `token`) stays what it is; one with a check of its own may be left out by
    the caller and is checked before the arguments. A question about a model takes a `token` too, which reads a gated or private one and
    reaches nothing else; a generator reads with the rights of its caller.
    """
    # The signature that callers see.
    types, annotated = get_type_hints(function), get_type_hints(function, include_extras=True)
    arguments: type[Arguments] = types["arguments"]
    keywords = [p for p in inspect.signature(function).parameters.values() if p.kind is inspect.Parameter.KEYWORD_ONLY]
    checks = {
        p.name: next((one for one in getattr(annotated[p.name], "__metadata__", ()) if isinstance(one, Checked)), None) for p in keywords
    }
    asked, kind = arguments.list_fields().values(), inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = [inspect.Parameter(one.name, kind, default=one.default, annotation=one.check.shown) for one in asked]
    further = [
        p.replace(annotation=types[p.name]) if (check := checks[p.name]) is None else p.replace(annotation=check.shown, default=None)
        for p in keywords
    ]
    is_stream = inspect.isgeneratorfunction(function)
    reads_model = "model" in arguments.list_fields() and "token" not in checks and not is_stream
    if reads_model:
        further.append(inspect.Parameter("token", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=str | None))
    signature = inspect.Signature([*parameters, *further], return_annotation=types["return"])
    # The call: names first, then checks of its own, then the arguments.
    positional, accepted = {p.name for p in parameters}, dict.fromkeys(p.name for p in (*parameters, *further))
    required = {p.name for p in (*parameters, *further) if p.default is inspect.Parameter.empty}

    def call(*values: object, **named: object) -> Answer:
        sent = dict(zip(accepted, values, strict=False)) | named
        if len(values) > len(positional) or len(sent) < len(values) + len(named) or not required <= sent.keys() <= accepted.keys():
            signature.bind(*values, **named)  # its TypeError names the wrong argument, as for any function
        own = {name: sent.pop(name, None) if check else sent.pop(name) for name, check in checks.items() if check or name in sent}
        own = {name: value if (check := checks[name]) is None else check.check(name, value) for name, value in own.items()}
        token = sent.pop("token", None) if reads_model else own.get("token")
        with reading_as(token), collect_readings() as readings:  # type: ignore[arg-type]  # a text or None: `lib.ui.http.api.token_of` sees to it
            answer = function(app, arguments.model_validate(sent), **own)
        if not readings or not isinstance(answer, AnswerBase):
            return answer
        return replace(answer, caveats=(*readings, *answer.caveats))

    def stream(*values: object, **named: object) -> Iterator[Any]:
        yield from call(*values, **named)  # type: ignore[misc]  # the function is a generator

    public: Any = stream if is_stream else call
    functools.update_wrapper(public, function)
    del public.__wrapped__  # `inspect` would show the function's own signature
    public.__signature__ = signature
    public.__annotations__ = {parameter.name: parameter.annotation for parameter in signature.parameters.values()}
    public.__doc__ = _docstring(function, arguments)
    public.arguments = arguments
    return public  # type: ignore[no-any-return]


def check_arguments(endpoint: Callable[..., Any], arguments: Mapping[str, object]) -> None:
    """Refuse arguments of a bound endpoint that it would itself refuse, without asking it; any other function's pass."""
    model: type[Arguments] | None = getattr(endpoint, "arguments", None)
    if model is not None:
        model.model_validate(arguments)
