"""Running modules without values: every new tensor on the meta device, within a counted budget.

A meta tensor has a shape and no value, so code that asks for one ("is the longest position past 4096?") cannot go on by itself.
`MetaRun(answer=0)` and `MetaRun(answer=1)` go on with that answer to every such question. A result may then be used only if all
answers lead to the same one.

Building modules without memory: every tensor on the meta device, in the dtype of the load, within a counted budget.

The mode belongs to the thread that enters it. The process-wide default dtype and default device stay as they are, so a model
that another thread is running is not disturbed.

Building without the network: while a stranger's configuration is built, this thread opens no connection.

Some configuration classes of `transformers` look a name up on the Hub (`backbone` in DPT, UPerNet, DETR …), and they do it with the
server's own token. Names of that kind cannot all be known, so the door is closed where every connection has to pass: Python's
audit events. Other threads are not concerned.
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
from torch.overrides import TorchFunctionMode

from lib.errors import BadConfig, UnsupportedModel

if TYPE_CHECKING:
    from collections.abc import Callable

RUN_BUDGET = 20_000
"""Torch calls that one run may make. The deepest published models need some 2 thousand, layers that run once counted once."""

_TRUTHS = frozenset({Tensor.__bool__, Tensor.is_nonzero, is_nonzero, equal, Tensor.equal, allclose, Tensor.allclose, Tensor.__contains__})
_NUMBERS: dict[Any, type[int | float]] = {Tensor.__int__: int, Tensor.__index__: int, Tensor.__float__: float}
_VALUES = frozenset({Tensor.item, Tensor.tolist})


class MetaRun(TorchFunctionMode):
    """Keeps a forward pass on the meta device.

    Raises:
        UnsupportedModel: more than `budget` calls were made (a loop over the tokens, written in Python).
    """

    def __init__(self, answer: int | None = None, budget: int = RUN_BUDGET) -> None:
        super().__init__()
        self._answer = answer
        self._budget = budget
        self._device = device("meta")
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
        """Count the call and, where an answer was given, answer what needs a value."""
        self.calls += 1
        if self.calls > self._budget:
            raise UnsupportedModel(f"The forward pass takes more than {self._budget:,} tensor operations at this length.")
        if self._answer is not None and (func in _TRUTHS or func in _NUMBERS or func in _VALUES):
            return self._value(func, self._answer, args[0])
        return func(*args, **(kwargs or {}))

    @staticmethod
    def _value(func: Callable[..., Any], answer: int, asked: Any) -> Any:
        if func in _TRUTHS:
            return bool(answer)
        if func in _NUMBERS:
            return _NUMBERS[func](answer)
        value: Any = type_of(asked)(answer)
        for extent in reversed(asked.shape if func is Tensor.tolist else ()):
            value = [value] * extent
        return value


def type_of(asked: Tensor) -> type[bool | int | float]:
    """The Python type of the tensor's elements."""
    if asked.is_floating_point():
        return float
    return bool if asked.dtype is boolean else int


CALL_BUDGET = 100_000
"""Torch calls that one build may make. Published models need up to 7 thousand, at some 60 µs each."""

_FILLS = frozenset({Tensor.uniform_, Tensor.normal_, Tensor.fill_, Tensor.zero_})
_ALLOCATIONS = frozenset({empty, zeros, ones, rand, randn})
_CONVERSIONS = frozenset({Tensor.float, Tensor.to, Tensor.type, Tensor.double, Tensor.half})


class MetaMode(TorchFunctionMode):
    """Tensors go to the meta device, floating-point ones in the dtype `half` unless the code names another.

    Random fills are skipped: a meta tensor has no values. A module built under this mode has the parameter dtypes that
    `from_pretrained(dtype=…)` gives it.

    Raises:
        BadConfig: more than `budget` calls were made, so the configuration describes more modules than any real model has.
    """

    def __init__(self, half: dtype, budget: int = CALL_BUDGET) -> None:
        super().__init__()
        self._dtype = half
        self._budget = budget
        self._device = device("meta")
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
        """Count the call and give new floating-point tensors the dtype of the load."""
        kwargs = kwargs or {}
        self.calls += 1
        if self.calls > self._budget:
            raise BadConfig(
                f"Building this configuration takes more than {self._budget:,} tensor operations, which no published model needs. "
                "Check the layer and expert counts."
            )
        if func in _FILLS:
            return args[0]
        if func in _ALLOCATIONS and kwargs.get("dtype") is None:
            return func(*args, **{**kwargs, "dtype": self._dtype})
        made = func(*args, **kwargs)
        if isinstance(made, Tensor) and made.dtype is get_default_dtype() and func not in _CONVERSIONS and _from_whole(args, kwargs):
            return made.to(self._dtype)
        return made


def _from_whole(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether a float result got torch's default dtype: nothing floating went in (`arange`, `log` of whole numbers), none was asked for."""
    given = [*args, *kwargs.values()]
    given += [v for g in given if isinstance(g, (list, tuple)) for v in g]
    return not any(isinstance(g, dtype) or "float" in str(getattr(g, "dtype", "")) for g in given)


_EVENTS = frozenset(
    {"socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr", "socket.sendto", "socket.sendmsg"}
)


class _Thread(threading.local):
    closed = False


_thread = _Thread()


def _refuse(event: str, _arguments: object) -> None:
    if event in _EVENTS and _thread.closed:
        raise UnsupportedModel(
            "The configuration names something that would have to be fetched from another place (such as a backbone), which is not done "
            "here. Paste a config.json that holds it in full, or give the parameter count instead (such as '7B')."
        )


@cache
def _hook() -> None:
    """Once a process: an audit hook cannot be taken out again, so it is put in at the first build and does nothing elsewhere."""
    sys.addaudithook(_refuse)


@contextmanager
def no_network() -> Iterator[None]:
    """Within this block, on this thread, every attempt to connect or to look up a host is refused.

    Raises:
        UnsupportedModel: something tried to.
    """
    _hook()
    before, _thread.closed = _thread.closed, True
    try:
        yield
    finally:
        _thread.closed = before
