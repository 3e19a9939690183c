"""Traces and computations on them, shared by all sessions.

One cache, bounded in bytes, holds both under their requests, arrays read-only. Sentences take turns
among each other, and so do computations. Nothing here needs a session, so downloads use it too.
Progress goes to `transformer.worker.job.report`, which may raise; that leaves nothing behind.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable
from typing import Any, Generic, NamedTuple, TypeVar

from transformer.trace.records import Trace
from transformer.worker.job import UNKNOWN, in_turn, report, this_job
from transformer.worker.limits import shares
from transformer.worker.process import Pool
from transformer.worker.scheduler import Scheduler
from transformer.worker.tracing import (
    MODEL_BYTES,
    SENTENCES,
    is_small,
    model_bytes,
    trace_by_reference,
    trace_in_turn,
    warm_up,
)
from ui.core.view import Request
from ui.work.lru import Lru, seal
from ui.work.models import load

T = TypeVar("T")

#: A sentence of 30 tokens through 6 layers of 8 heads takes about 1 MB with its search record.
CACHE = Lru(320 * 2**20)

#: A trace larger than 1 / _LARGEST of the cache is stored without its search record.
_LARGEST = 5

#: Schedules of computations and tables, and of pictures, which have no steps between which they
#: could make way. After some seconds the next one starts beside such a file.
LONG, PICTURES = Scheduler(patience=5.0), Scheduler(patience=5.0)

#: Processes that trace sentences when several wait.
WORKERS = Pool(shares().workers, warm_up)


class Computation(NamedTuple, Generic[T]):
    """A result to be computed from a model and a trace."""

    #: name, args: identify it; `make` may depend on these and the request only
    name: str
    args: Hashable
    #: called with the model and the trace in its turn; may ask for other results and report its
    #: progress
    make: Callable[[Any, Trace], T]

    def key(self, request: Request) -> Hashable:
        """Return the result's cache key."""
        return (request, self.name, self.args)


def waiting() -> int:
    """Return the number of sentences, computations and files that wait."""
    return sum(lane.waiting for lane in (SENTENCES, LONG, PICTURES))


def trace(request: Request) -> Trace:
    """Return the trace of a request, from the cache or made now.

    Raises: what `ui.work.models.load` and `Tracer.trace` raise.
    """

    def make() -> Trace:
        model = load(request)
        sentence, arguments = request.sentence, request.arguments()
        worker = None
        fits = is_small(model) and model_bytes(model) <= MODEL_BYTES
        # A snapshot or an edited model is hardly ever read by two.
        shared = request.model.updates is None and not request.model.edits
        if fits and shared and model.device == "cpu":
            worker = WORKERS.free(SENTENCES.waiting)
        if worker is None:
            return _bounded(trace_in_turn(model, sentence, arguments))
        late = 0.0 if (job := this_job()) is None else job.late
        asked = (request.model, request.device, sentence, arguments, late)
        return _bounded(worker.start(trace_by_reference, *asked).result(report))

    return CACHE.once(request, make)


def result_of(request: Request, computation: Computation[T]) -> T:
    """Return the result of a computation, from the cache or made now, its trace included.

    Raises: what loading, tracing or `make` raises.
    """

    def make() -> T:
        recorded, model = trace(request), load(request)
        with in_turn(LONG):
            report(*UNKNOWN)
            return computation.make(model, recorded)

    return CACHE.once(computation.key(request), make)


def once(key: Hashable, make: Callable[[], T]) -> T:
    """Return the result of `make` for this key, cached or made now, outside the schedule."""
    return CACHE.once(key, make)


def _bounded(found: Trace) -> Trace:
    """Drop a search record that would push too much else out of the cache.

    For a long sentence it holds every row of the beam, many times the size of the rest.
    """
    large = found.search is not None and seal(found) > CACHE.limit // _LARGEST
    return dataclasses.replace(found, search=None) if large else found
