"""The meta device: models are built and run without memory, without values and without the network.

A tensor on torch's meta device has a shape and a dtype and no values. `MetaBuild` makes a constructor put every tensor there, in the
dtype of the load; `MetaRun` keeps a forward pass there. Both belong to the thread that enters them (the process-wide default dtype and
device stay as they are, so a model that another thread runs is not disturbed), and both count calls, so that a hostile configuration
cannot occupy the process.

Code that asks a meta tensor for a value ("is the longest position past 4096?") cannot go on by itself. `MetaRun(answer=0)` and
`MetaRun(answer=1)` answer every such question with that number. A result may then be used only if all answers lead to the same one.

Some configuration classes of `transformers` look a name up on the Hub (`backbone` in DPT, UPerNet, DETR …), and they do it with the
server's own token. Such names cannot all be listed, so `no_network` closes the one way that every connection takes: Python's audit
events, for the thread that builds.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, Self

from torch import Tensor, allclose, device, dtype, empty, equal, get_default_dtype, is_nonzero, ones, rand, randn, zeros
from torch import bool as boolean
from torch.distributions import Distribution
from torch.overrides import TorchFunctionMode

from lib.errors import AdvisorError, BadConfig, UnsupportedModel

if TYPE_CHECKING:
    from collections.abc import Callable

BUILD_BUDGET = 100_000
"""Torch calls that one build may make. Published models need up to 7 thousand, at some 60 µs each."""
RUN_BUDGET = 20_000
"""Torch calls that one run may make. The deepest published models need some 2 thousand, layers that run once counted once."""

_FILLS = frozenset({Tensor.uniform_, Tensor.normal_, Tensor.fill_, Tensor.zero_})
_ALLOCATIONS = frozenset({empty, zeros, ones, rand, randn})
_CONVERSIONS = frozenset({Tensor.float, Tensor.to, Tensor.type, Tensor.double, Tensor.half})

_TRUTHS = frozenset({Tensor.__bool__, Tensor.is_nonzero, is_nonzero, equal, Tensor.equal, allclose, Tensor.allclose, Tensor.__contains__})
_NUMBERS: dict[Any, type[int | float]] = {Tensor.__int__: int, Tensor.__index__: int, Tensor.__float__: float}
_VALUES = frozenset({Tensor.item, Tensor.tolist})


class _MetaDevice(TorchFunctionMode):
    """New tensors go to the meta device, or the one named; more than `budget` torch calls are refused with `refusal`."""

    def __init__(self, budget: int, refusal: AdvisorError, device_type: str = "meta") -> None:
        super().__init__()
        self._budget = budget
        self._refusal = refusal
        self._device = device(device_type)
        self.calls = 0

    def __enter__(self) -> Self:
        """Enter the mode and, inside it, the meta device."""
        super().__enter__()  # type: ignore[no-untyped-call]
        self._device.__enter__()
        return self

    def __exit__(self, *failure: object) -> None:
        """Leave in the reverse order."""
        self._device.__exit__(*failure)
        super().__exit__(*failure)  # type: ignore[no-untyped-call]

    def __torch_function__(self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Count the call and make it."""
        self.calls += 1
        if self.calls > self._budget:
            raise self._refusal
        return self._call(func, args, kwargs or {})

    def _call(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        raise NotImplementedError


class MetaBuild(_MetaDevice):
    """A constructor's tensors go to the meta device, floating-point ones in the dtype `half` unless the code names another.

    Random fills are skipped: a meta tensor has no values. A module built under this mode has the parameter dtypes that
    `from_pretrained(dtype=…)` gives it.

    Raises:
        BadConfig: more than `budget` calls were made, so the configuration describes more modules than any real model has.
    """

    def __init__(self, half: dtype, budget: int = BUILD_BUDGET) -> None:
        message = (
            f"Building this configuration takes more than {budget:,} tensor operations, which no published model needs. "
            "Check the layer and expert counts."
        )
        super().__init__(budget, BadConfig(message))
        self._dtype = half

    def _call(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Give new floating-point tensors the dtype of the load."""
        if func in _FILLS:
            return args[0]
        if func in _ALLOCATIONS and kwargs.get("dtype") is None:
            return func(*args, **{**kwargs, "dtype": self._dtype})
        result = func(*args, **kwargs)
        took_default = isinstance(result, Tensor) and result.dtype is get_default_dtype() and func not in _CONVERSIONS
        return result.to(self._dtype) if took_default and _has_no_float(args, kwargs) else result


def _has_no_float(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether no argument is floating-point or a dtype: a float result (`arange`, `log` of whole numbers) then has torch's default."""
    values = [*args, *kwargs.values()]
    values += [item for value in values if isinstance(value, (list, tuple)) for item in value]
    return not any(isinstance(value, dtype) or "float" in str(getattr(value, "dtype", "")) for value in values)


class MetaRun(_MetaDevice):
    """A forward pass stays on the meta device; with an `answer`, questions for a tensor's value get that number.

    Under torch's FakeTensorMode the device is "cpu": its tensors have no values either.

    Raises:
        UnsupportedModel: more than `budget` calls were made (a loop over the tokens, written in Python).
    """

    def __init__(self, answer: int | None = None, budget: int = RUN_BUDGET, device_type: str = "meta") -> None:
        refusal = UnsupportedModel(f"The forward pass takes more than {budget:,} tensor operations at this length.")
        super().__init__(budget, refusal, device_type)
        self._answer = answer

    def _call(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Answer what needs a value, where an answer was given."""
        if self._answer is None or not (func in _TRUTHS or func in _NUMBERS or func in _VALUES):
            return func(*args, **kwargs)
        if func in _TRUTHS:
            return bool(self._answer)
        if func in _NUMBERS:
            return _NUMBERS[func](self._answer)
        tensor: Tensor = args[0]
        value: Any = _element_type(tensor)(self._answer)
        for extent in reversed(tensor.shape if func is Tensor.tolist else ()):
            value = [value] * extent
        return value


def _element_type(tensor: Tensor) -> type[bool | int | float]:
    """The Python type of the tensor's elements."""
    if tensor.is_floating_point():
        return float
    return bool if tensor.dtype is boolean else int


_CONNECTIONS = frozenset(
    {"socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr", "socket.sendto", "socket.sendmsg"}
)


class _Thread(threading.local):
    closed = False


_thread = _Thread()


def _refuse_connection(event: str, _arguments: object) -> None:
    if event in _CONNECTIONS and _thread.closed:
        raise UnsupportedModel(
            "The configuration names something that would have to be fetched from another place (such as a backbone), which is not done "
            "here. Paste a config.json that holds it in full, or give the parameter count instead (such as '7B')."
        )


@cache
def _add_hook() -> None:
    """Once a process: an audit hook cannot be taken out again, so it is put in at the first build and does nothing elsewhere."""
    sys.addaudithook(_refuse_connection)


@contextmanager
def no_network() -> Iterator[None]:
    """Within this block, on this thread, every attempt to connect or to look up a host is refused.

    Raises:
        UnsupportedModel: something tried to.
    """
    _add_hook()
    before, _thread.closed = _thread.closed, True
    try:
        yield
    finally:
        _thread.closed = before


@contextmanager
def unchecked_distributions() -> Iterator[None]:
    """Distributions do not look at their parameters while this lasts: tensors without values have none to look at."""
    before = Distribution._validate_args  # noqa: SLF001 there is only a public way to set it
    Distribution.set_default_validate_args(False)
    try:
        yield
    finally:
        Distribution.set_default_validate_args(before)
