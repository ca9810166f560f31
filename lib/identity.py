"""A key for caches over objects that cannot be hashed (they hold dictionaries) and are the same object for the same thing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class ById(Generic[T]):
    """One object, equal to nothing but itself. The key keeps the object alive, so that its id is not given to another one.

    >>> one = {"a": 1}
    >>> ById(one) == ById(one), ById(one) == ById(dict(one))
    (True, False)
    """

    value: T

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ById) and other.value is self.value
