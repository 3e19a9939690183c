"""Thread-safe LRU cache bounded in bytes, which computes each result once."""

import dataclasses
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any, TypeVar

import numpy as np
from plotly.graph_objects import Figure

from transformer.search.records import Compact
from transformer.worker.job import paused, report

T = TypeVar("T")

#: Overhead counted per result, which bounds the number of small ones.
ENTRY_BYTES = 4096

#: Seconds between reports of a thread that waits for another thread's result.
_EVERY = 0.2


class Lru:
    """Results by key; the least recently used are dropped first."""

    def __init__(
        self, limit: int, measure: Callable[[Any], int] | None = None, *, alone: bool = False
    ) -> None:
        """Create a cache of up to `limit` bytes, or of the newest result if that is larger.

        Args:
            measure: returns a result's bytes, by default `seal`.
            alone: True if `once` computes one result at a time.
        """
        self.limit, self._alone = limit, alone
        self._measure = measure or seal
        self._results: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._bytes = 0
        self._lock = threading.RLock()  # `once` gets within it
        self._making: dict[Hashable, threading.Event] = {}

    def get(self, key: Hashable, default: Any = None) -> Any:
        """Return a result and mark it as recently used, or return `default`."""
        with self._lock:
            if key not in self._results:
                return default
            self._results.move_to_end(key)
            return self._results[key][0]

    def put(self, key: Hashable, result: Any) -> None:
        """Store a result; `seal`, the default measure, makes its arrays read-only."""
        size = self._measure(result) + seal(key) + ENTRY_BYTES
        with self._lock:
            if key in self._results:
                self._bytes -= self._results.pop(key)[1]
            self._results[key] = (result, size)
            self._bytes += size
            while self._bytes > self.limit and len(self._results) > 1:
                self._bytes -= self._results.popitem(last=False)[1][1]

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return a result; one thread computes a missing one while others wait.

        A waiting thread reports and gives up its turn.

        Args: make: computes the result; if it raises, the next thread tries.
        """
        name = None if self._alone else key
        while True:
            with self._lock:
                if key in self._results:
                    stored: T = self.get(key)
                    return stored
                mine = name not in self._making
                ended = self._making.setdefault(name, threading.Event())
            if not mine:
                with paused():
                    while not ended.wait(_EVERY):
                        report(0, 0)
                continue
            try:
                result = make()
                self.put(key, result)
                return result
            finally:
                with self._lock:
                    del self._making[name]
                ended.set()

    def __contains__(self, key: Hashable) -> bool:
        return key in self._results

    def __len__(self) -> int:
        return len(self._results)

    def __iter__(self) -> Iterator[Hashable]:
        """Iterate over the keys, least recently used first."""
        with self._lock:
            return iter(list(self._results))

    @property
    def nbytes(self) -> int:
        """Bytes in the cache."""
        return self._bytes

    def forget(self) -> None:
        """Drop the least recently used result."""
        with self._lock:
            if self._results:
                self._bytes -= self._results.popitem(last=False)[1][1]


def seal(record: Any) -> int:
    """Make every array in a record read-only, and return the record's bytes.

    Counts arrays, texts, messages, compact records and the data of Plotly figures, each once.
    """
    sizes: dict[int, int] = {}
    pending = [record]
    while pending:
        item = pending.pop()
        if isinstance(item, np.ndarray):
            owner = item if item.base is None else item.base
            nbytes = int(getattr(owner, "nbytes", item.nbytes))
            sizes[id(owner)] = max(nbytes, item.nbytes)
            item.setflags(write=False)
        elif isinstance(item, bytes | str):
            sizes[id(item)] = sys.getsizeof(item)
        elif isinstance(item, Compact):
            sizes[id(item)] = item.nbytes
        elif isinstance(item, Figure):
            pending.extend(getattr(line, axis, None) for line in item.data for axis in "xyz")
        elif isinstance(item, tuple | list):
            pending.extend(item)
        elif isinstance(item, Mapping):
            pending.extend(item.values())
        elif dataclasses.is_dataclass(item):
            pending.extend(getattr(item, field.name) for field in dataclasses.fields(item))
    return sum(sizes.values())
