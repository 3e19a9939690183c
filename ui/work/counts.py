"""What this server has done since it started."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field


@dataclass
class Counts:
    """Totals since the start. Thread-safe through `add`."""

    sentences: int = 0
    computations: int = 0
    over_budget: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def add(self, name: str) -> None:
        """Count one more."""
        with self._lock:
            setattr(self, name, getattr(self, name) + 1)


COUNTS = Counts()
