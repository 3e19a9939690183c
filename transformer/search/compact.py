"""Many small records, stored as tuples that the garbage collector need not visit again.

A search records every continuation that it considered, and a server keeps searches for hours.
Python's collector visits every object that could be part of a cycle again and again, but a plain
tuple of numbers and strings only once. So records are stored as such tuples and rebuilt on access.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import fields
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")


class Compact(Sequence[T], Generic[T]):
    """A sequence of dataclass records of one kind, whose fields are numbers and texts."""

    __slots__ = ("_kind", "_rows")

    def __init__(self, kind: type[T], records: Iterable[T]) -> None:
        """Args: kind: the class of each of `records`."""
        names = [each.name for each in fields(kind)]  # type: ignore[arg-type]
        self._kind = kind
        self._rows = tuple(tuple([getattr(record, name) for name in names]) for record in records)

    @property
    def nbytes(self) -> int:
        """Approximate memory in bytes, without strings, which the vocabulary shares."""
        if not self._rows:
            return 0
        numbers = sum(sys.getsizeof(each) for each in self._rows[0] if not isinstance(each, str))
        return len(self._rows) * (sys.getsizeof(self._rows[0]) + numbers)

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[T, ...]: ...
    def __getitem__(self, index: int | slice) -> T | tuple[T, ...]:
        if isinstance(index, slice):
            return tuple(self._kind(*row) for row in self._rows[index])
        return self._kind(*self._rows[index])

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)
