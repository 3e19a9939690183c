"""What was seen of files, kept until they change."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

T = TypeVar("T")

#: Places remembered; as many checkpoints as nobody has in one folder.
MOST = 10_000


class Looks(Generic[T]):
    """The last look at each place, the least recently asked for forgotten first.

    Unlike a cache by arguments it keeps one look for each place: what changed is let go.
    """

    def __init__(self, most: int = MOST) -> None:
        """Args: most: places to remember."""
        self._most = most
        self._held: OrderedDict[Path, tuple[object, T]] = OrderedDict()
        self._lock = threading.Lock()

    def at(self, path: Path, mark: object, look: Callable[[], T]) -> T:
        """What `look` gave for the path when it was of this mark; called where it was not yet."""
        with self._lock:
            held = self._held.get(path)
            if held is not None and held[0] == mark:
                self._held.move_to_end(path)
                return held[1]
        seen = look()
        with self._lock:
            self._held[path] = mark, seen
            self._held.move_to_end(path)
            while len(self._held) > self._most:
                self._held.popitem(last=False)
        return seen
