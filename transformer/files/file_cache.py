"""Bounded cache of parsed files."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

T = TypeVar("T")

#: Default capacity in paths, more than any folder of checkpoints holds.
MAX_PATHS = 10_000


class FileCache(Generic[T]):
    """LRU cache, one result per path; a new version of a file replaces the old result."""

    def __init__(self, max_paths: int = MAX_PATHS) -> None:
        """Args: max_paths: results to keep."""
        self._max_paths = max_paths
        self._results: OrderedDict[Path, tuple[object, T]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, path: Path, version: object, read: Callable[[], T]) -> T:
        """Return the result cached for this path and version, or call `read` and cache that.

        Args:
            version: compares unequal once the file has changed, such as size and modification
                time.
        """
        with self._lock:
            cached = self._results.get(path)
            if cached is not None and cached[0] == version:
                self._results.move_to_end(path)
                return cached[1]
        result = read()
        with self._lock:
            self._results[path] = version, result
            self._results.move_to_end(path)
            while len(self._results) > self._max_paths:
                self._results.popitem(last=False)
        return result
