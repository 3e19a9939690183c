"""What pages compute from a model and a trace: made once, kept for every session.

    stages = computed(view, "head", (kind, layer, head), lambda model, trace: ...)

Everything a result depends on is in its key: the checkpoint's files, device, sentence and search
(`ui.work.cache.key_of`), the name of the computation, and its arguments. Sessions hold none of it.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from transformer.trace.records import Trace
from transformer.translator import Translator
from ui.core.view import View
from ui.work.cache import PERMITS, end_where_stopped, get_trace, key_of, said, trace
from ui.work.models import tracer
from ui.work.progress import UNKNOWN, WORKING, Progress, Report, attended
from ui.work.traces import hold, seal

T = TypeVar("T")

#: Bytes of results kept.
COMPUTED_BYTES = 96 * 2**20

#: Counted for each entry beside its arrays, so that small results are bounded too.
_ENTRY_BYTES = 4096


class ResultCache:
    """Results of any type, least recently used out first, bounded in bytes. Safe for threads."""

    def __init__(self, limit: int) -> None:
        """Args: limit: bytes of array data to keep. The newest result is kept whatever its size."""
        self.limit = limit
        self._held: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def get(self, key: Hashable) -> tuple[Any] | None:
        """The result in a tuple of one, since it may be None itself; None where there is none."""
        with self._lock:
            found = self._held.get(key)
            if found is None:
                return None
            self._held.move_to_end(key)
            return (found[0],)

    def put(self, key: Hashable, result: Any) -> None:
        """Keep a result. Arrays in it, in records, sequences and mappings too, become read-only."""
        size = seal(result) + _ENTRY_BYTES
        with self._lock:
            if key in self._held:
                self._bytes -= self._held.pop(key)[1]
            self._held[key] = (result, size)
            self._bytes += size
            while self._bytes > self.limit and len(self._held) > 1:
                self._bytes -= self._held.popitem(last=False)[1][1]

    @property
    def nbytes(self) -> int:
        """Bytes held now."""
        return self._bytes

    def __len__(self) -> int:
        return len(self._held)


#: The one cache of results of this process.
RESULTS = ResultCache(COMPUTED_BYTES)


def computed(view: View, name: str, args: Hashable, make: Callable[[Translator, Trace], T]) -> T:
    """The result of `make` for this view, from the cache or made now.

    Args:
        name, args: say what is computed; with the view they are all that `make` may depend on.
        make: called under the same permits as traces, so it must not call `computed` itself.

    Returns: what `make` returned; its arrays are read-only.

    Where there is no trace to be had, `make` raises `InputError`, `CheckpointError` or runs out of
    memory, or the user stopped it, the page says so in one line and the run ends (see
    `ui.work.cache.get_trace`).
    """
    key = (key_of(view), name, args)
    end_where_stopped(key, "Go on")
    found = RESULTS.get(key)
    if found is not None:
        result: T = found[0]
        return result
    get_trace(view)
    with said():
        return attended(
            lambda report: result_of(view, name, args, make, report), Progress(key, WORKING)
        )


def result_of(
    view: View,
    name: str,
    args: Hashable,
    make: Callable[[Translator, Trace], T],
    report: Report = lambda step, most: None,
) -> T:
    """`computed` without a session: for what runs in a thread of its own, such as a download.

    Args:
        report: see `ui.work.cache.trace`.

    Raises: what loading, tracing or `make` raises.
    """
    key = (key_of(view), name, args)
    found = RESULTS.get(key)
    if found is None:
        made = trace(key_of(view), report)
        # Only pages that need a Translator's inside look at it; the frame opens them for no other.
        model: Any = tracer(view.path, view.device)
        # One session in front of the permits at a time may find what another just made.
        with hold(PERMITS, lambda: report(0, 0)):
            found = RESULTS.get(key)
            if found is None:
                report(*UNKNOWN)
                found = (make(model, made),)
                RESULTS.put(key, found[0])
    result: T = found[0]
    return result
