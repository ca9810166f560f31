"""Running modules without values: every new tensor on the meta device, within a counted budget.

A meta tensor has a shape and no value, so code that asks for one ("is the longest position past 4096?") cannot go on by itself.
`MetaRun(answer=0)` and `MetaRun(answer=1)` go on with that answer to every such question. A result may then be used only if all
answers lead to the same one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from torch import Tensor, allclose, device, equal, is_nonzero
from torch import bool as boolean
from torch.overrides import TorchFunctionMode

from lib.errors import UnsupportedModel

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
