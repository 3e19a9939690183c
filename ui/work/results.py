"""Traces and computations on them, shared by all sessions.

One cache, bounded in bytes, holds both under their requests, arrays read-only. A scheduler runs
sentences and one runs computations. Nothing here needs a session, so downloads use it too.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Any, Generic, NamedTuple, TypeVar

from transformer.trace.records import Trace
from transformer.types import Report
from transformer.worker.job import UNKNOWN
from transformer.worker.limits import shares
from transformer.worker.process import Pool
from transformer.worker.scheduler import Scheduler
from transformer.worker.tracing import (
    MODEL_BYTES,
    is_small,
    model_bytes,
    trace_by_reference,
    trace_in_turn,
    warm_up,
)
from ui.core.view import Request
from ui.work.lru import Lru, seal
from ui.work.models import load
from ui.work.progress import LATE, REPORT, unreported

T = TypeVar("T")

#: A sentence of 30 tokens through 6 layers of 8 heads takes about 1 MB with its search record.
CACHE = Lru(320 * 2**20)

#: A trace larger than 1 / _LARGEST of the cache is stored without its search record.
_LARGEST = 5

#: Schedules of sentences, and of computations on traces. Two small models that alternate every few
#: microseconds would slow each other down.
SENTENCES, OTHERS = Scheduler(), Scheduler()

#: Schedules of pictures and of other files. A file may wait for a sentence; after some seconds the
#: next one starts beside it.
DRAWINGS, FILES = Scheduler(patience=5.0), Scheduler(patience=5.0)

SCHEDULES = SENTENCES, OTHERS, DRAWINGS, FILES

#: Processes that trace sentences when several wait.
WORKERS = Pool(shares().workers, warm_up)


class Computation(NamedTuple, Generic[T]):
    """A result to be computed from a model and a trace."""

    #: name, args: identify it; `make` may depend on these and the request only
    name: str
    args: Hashable
    #: called with the model and the trace in its turn, so it must not ask for other results; may
    #: report its progress by `unreported`
    make: Callable[[Any, Trace], T]

    def key(self, request: Request) -> Hashable:
        """Return the result's cache key."""
        return (request, self.name, self.args)


def trace(request: Request, report: Report = unreported) -> Trace:
    """Return the trace of a request, from the cache or made now.

    Args: report: progress callback; it may raise, which leaves nothing behind.

    Raises: what `ui.work.models.load` and `Tracer.trace` raise.
    """

    def make() -> Trace:
        model = load(request, report=report)
        sentence, arguments = request.sentence, request.arguments()
        worker = None
        fits = is_small(model) and model_bytes(model) <= MODEL_BYTES
        # A snapshot or an edited model is hardly ever read by two.
        shared = request.model.updates is None and not request.model.edits
        if fits and shared and model.device == "cpu":
            worker = WORKERS.free(SENTENCES.waiting)
        if worker is None:
            traced = trace_in_turn(model, sentence, arguments, SENTENCES, report, LATE.get())
            return _bounded(traced)
        asked = (request.model, request.device, sentence, arguments, LATE.get())
        return _bounded(worker.start(trace_by_reference, *asked).result(report))

    return CACHE.once(request, make, lambda: report(0, 0))


def result_of(request: Request, wanted: Computation[T], report: Report = unreported) -> T:
    """Return the result of a computation, from the cache or made now, its trace included.

    Raises: what loading, tracing or `make` raises.
    """
    report = REPORT.get() if report is unreported else report

    def make() -> T:
        recorded = trace(request, report)
        model = load(request, report=report)
        with in_turn(report) as step:
            step(*UNKNOWN)
            before = REPORT.set(step)
            try:
                return wanted.make(model, recorded)
            finally:
                REPORT.reset(before)

    return CACHE.once(wanted.key(request), make, lambda: report(0, 0))


@contextmanager
def in_turn(report: Report) -> Iterator[Report]:
    """Compute within, among other computations; what is yielded makes way for urgent ones."""
    with OTHERS.turn(lambda ahead: report(ahead, 0), late=LATE.get()) as turn:

        def reported(step: int, most: int) -> None:
            report(step, most)
            turn.offer()

        yield reported


def once(key: Hashable, make: Callable[[], T], report: Report = unreported) -> T:
    """Return the result of `make` for this key, cached or made now, outside the schedule."""
    return CACHE.once(key, make, lambda: report(0, 0))


def _bounded(found: Trace) -> Trace:
    """Drop a search record that would push too much else out of the cache.

    For a long sentence it holds every row of the beam, many times the size of the rest.
    """
    large = found.search is not None and seal(found) > CACHE.limit // _LARGEST
    return dataclasses.replace(found, search=None) if large else found
