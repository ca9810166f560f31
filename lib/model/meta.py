"""Building modules without memory: every tensor on the meta device, in the dtype of the load, within a counted budget.

The mode belongs to the thread that enters it. The process-wide default dtype and default device stay as they are, so a model
that another thread is running is not disturbed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from torch import Tensor, device, dtype, empty, get_default_dtype, ones, rand, randn, zeros
from torch.overrides import TorchFunctionMode

from lib.errors import BadConfig

if TYPE_CHECKING:
    from collections.abc import Callable

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
