"""A log that an attack cannot fill.

When a process has no descriptor left, asyncio writes a line with a traceback for each connection
that it cannot accept, thousands a second.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

#: Loggers of the server, whose lines visitors can cause.
LOGGERS = ("asyncio", "uvicorn.error", "uvicorn.access")

#: Lines of one kind that are written within `WINDOW` seconds; the rest are counted.
MOST, WINDOW = 5, 60.0

#: Kinds of line that are told apart.
_KINDS = 200


class Sparse(logging.Filter):
    """Lets a few lines of each kind through, then says how many it left out. Thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._seen: dict[tuple[str, int, str], tuple[float, int]] = {}
        self._lock = threading.Lock()

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a line is to be written."""
        kind = (record.name, record.levelno, str(record.msg).partition("\n")[0][:200])
        now = self._clock()
        with self._lock:
            since, count = self._seen.pop(kind, (now, 0))
            if now - since >= WINDOW:
                left_out, since, count = max(0, count - MOST), now, 0
                if left_out:
                    record.msg = f"{record.msg} ({left_out:,} more like this were not written)"
            self._seen[kind] = (since, count + 1)
            while len(self._seen) > _KINDS:
                self._seen.pop(next(iter(self._seen)))
        return count < MOST


def quieten() -> None:
    """Install the filter, once for each logger."""
    for name in LOGGERS:
        logger = logging.getLogger(name)
        if not any(isinstance(each, Sparse) for each in logger.filters):
            logger.addFilter(Sparse())
