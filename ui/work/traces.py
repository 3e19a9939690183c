"""A cache of traces, bounded in bytes and shared by threads."""

from __future__ import annotations

import dataclasses
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from transformer.search.compact import Compact
from transformer.search.sampling import Sampling
from transformer.trace.records import Trace


@dataclass(frozen=True)
class TraceKey:
    """Everything a trace depends on.

    Attributes:
        path: the checkpoint's folder, or the file.
        mark: its files as they were, see `transformer.catalogue.mark_of`.
        device: where it runs.
        sentence: as the model gets it, a language's tag in front included.
        beam_size, alpha: how to search.
        prefix, target, sampling: how it is steered, see `ui.core.view.View`.
        src_lang, tgt_lang: what a model of many languages is told, None for what it is not.
    """

    path: str
    mark: str
    device: str
    sentence: str
    beam_size: int
    alpha: float
    prefix: tuple[int, ...] = ()
    target: str | None = None
    sampling: Sampling | None = None
    src_lang: str | None = None
    tgt_lang: str | None = None

    def arguments(self, eos_id: int) -> dict[str, Any]:
        """Keyword arguments of `Tracer.trace` beside the sentence; none that say nothing.

        A prefix that ends in `</s>` leaves nothing to search: it is followed like a target.
        """
        whole = self.prefix[-1:] == (eos_id,)
        target = list(self.prefix) if whole else self.target
        given: dict[str, Any] = {}
        if target is not None:
            given["target"] = target
        elif self.prefix:
            given["prefix"] = list(self.prefix)
        given |= {"beam_size": self.beam_size, "alpha": self.alpha}
        if self.sampling is not None and target is None:
            given["sampling"] = self.sampling
        for name in ("src_lang", "tgt_lang"):
            if getattr(self, name) is not None:
                given[name] = getattr(self, name)
        return given


class TraceCache:
    """Traces, least recently used out first, bounded in bytes. Safe to share between threads."""

    def __init__(self, limit: int) -> None:
        """Args: limit: bytes of array data to keep. The newest trace is kept whatever its size."""
        self.limit = limit
        self._held: OrderedDict[TraceKey, tuple[Trace, int]] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()
        self._making: dict[TraceKey, tuple[threading.Lock, int]] = {}

    def get(self, key: TraceKey) -> Trace | None:
        """The trace, or None; it becomes the most recently used one."""
        with self._lock:
            found = self._held.get(key)
            if found is None:
                return None
            self._held.move_to_end(key)
            return found[0]

    def put(self, key: TraceKey, trace: Trace) -> None:
        """Keep a trace, read-only from now on.

        The search record of a long sentence holds every row of the beam and is many times larger
        than the trace proper; it is left out where it would push too much else out.
        """
        size = seal(trace)
        if size > self.limit // 4 and trace.search is not None:
            trace = dataclasses.replace(trace, search=None)
            size = seal(trace)
        with self._lock:
            if key in self._held:
                self._bytes -= self._held.pop(key)[1]
            self._held[key] = (trace, size)
            self._bytes += size
            while self._bytes > self.limit and len(self._held) > 1:
                self._bytes -= self._held.popitem(last=False)[1][1]

    @contextmanager
    def making(self, key: TraceKey, waiting: Callable[[], None]) -> Iterator[None]:
        """Hold the right to make one trace, so that two sessions do not make the same one.

        `waiting` is called a few times a second while another thread makes it; it may raise.
        """
        with self._lock:
            lock, users = self._making.get(key, (threading.Lock(), 0))
            self._making[key] = (lock, users + 1)
        try:
            with hold(lock, waiting):
                yield
        finally:
            with self._lock:
                lock, users = self._making.pop(key)
                if users > 1:
                    self._making[key] = (lock, users - 1)

    @property
    def nbytes(self) -> int:
        """Bytes held now."""
        return self._bytes

    def __len__(self) -> int:
        return len(self._held)

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._held.clear()
            self._bytes = 0


@contextmanager
def hold(lock: threading.Lock | threading.Semaphore, waiting: Callable[[], None]) -> Iterator[None]:
    """Hold a lock, calling `waiting` five times a second until it is free."""
    while not lock.acquire(timeout=0.2):
        waiting()
    try:
        yield
    finally:
        lock.release()


def seal(record: Any) -> int:
    """Make every array in a record read-only.

    Returns: bytes of arrays, messages and compact records, each once.
    """
    seen: dict[int, int] = {}
    pending = [record]
    while pending:
        item = pending.pop()
        if isinstance(item, np.ndarray):
            owner = item if item.base is None else item.base
            nbytes = int(getattr(owner, "nbytes", item.nbytes))
            seen[id(owner)] = max(nbytes, item.nbytes)
            item.setflags(write=False)
        elif isinstance(item, bytes):
            seen[id(item)] = len(item)
        elif isinstance(item, Compact):
            seen[id(item)] = item.nbytes
        elif isinstance(item, tuple | list):
            pending.extend(item)
        elif isinstance(item, Mapping):
            pending.extend(item.values())
        elif dataclasses.is_dataclass(item):
            pending.extend(getattr(item, field.name) for field in dataclasses.fields(item))
    return sum(seen.values())
