"""Traces and computations on them, shared by all sessions.

One cache holds both by request, with read-only arrays. Sentences take turns, and so do
computations. Downloads use this module too, since it needs no session. Progress goes to
`transformer.worker.job.report`, which may raise without side effects.
"""

import dataclasses
from collections.abc import Callable, Hashable
from typing import Any, Generic, NamedTuple, TypeVar

from transformer.attribution.cells import measured
from transformer.trace.records import Trace
from transformer.worker import tracing
from transformer.worker.job import UNKNOWN, Scheduler, report, this_job
from transformer.worker.limits import shares
from transformer.worker.process import Pool
from ui.core.view import Request
from ui.work.lru import Lru, seal
from ui.work.models import load

T = TypeVar("T")

#: The trace of 30 tokens in 6 layers of 8 heads takes about 1 MB with its search record.
CACHE = Lru(320 * 2**20)

#: Traces larger than 1 / _LARGEST of the cache are stored without a search record.
_LARGEST = 5

#: Schedule of computations and files. After some seconds the next one starts beside a computation
#: or file without steps to yield at.
LONG = Scheduler(patience=5.0)

#: Processes that trace sentences while several wait.
WORKERS = Pool(shares().workers, tracing.warm_up)


class Computation(NamedTuple, Generic[T]):
    """A computation on a model and a trace."""

    #: name, args: cache key; `make` may depend on these and the request only
    name: str
    args: Hashable
    #: called with model and trace; may request other results and report progress
    make: Callable[[Any, Trace], T]

    def key(self, request: Request) -> Hashable:
        """Return the result's cache key."""
        return (request, self.name, self.args)


def waiting() -> int:
    """Return the number of waiting sentences, computations and files."""
    return tracing.SENTENCES.waiting + LONG.waiting


def trace(request: Request) -> Trace:
    """Return a request's trace, cached or computed.

    Raises: as `ui.work.models.load` and `Tracer.trace`.
    """

    def make() -> Trace:
        model = load(request)
        if request.cells:
            weights = trace(dataclasses.replace(request, cells=()))
            with LONG.turn():
                report(*UNKNOWN)
                return measured(model, weights, **dict(request.cells), progress=report)
        sentence, arguments = request.sentence, request.arguments()
        worker = None
        fits = tracing.is_small(model) and tracing.model_bytes(model) <= tracing.MODEL_BYTES
        # Several visitors rarely use one snapshot or edited model.
        shared = request.model.updates is None and not request.model.edits
        if fits and shared and model.device == "cpu":
            worker = WORKERS.free(tracing.SENTENCES.waiting)
        if worker is None:
            return _bounded(tracing.trace_in_turn(model, sentence, arguments))
        task = (request.model, request.device, sentence, arguments, this_job().late)
        return _bounded(worker.start(tracing.trace_by_reference, *task).result(report))

    return CACHE.once(request, make)


def result_of(request: Request, computation: Computation[T]) -> T:
    """Return a computation's result, cached or computed, with its trace.

    Raises: as loading, tracing and `make`.
    """

    def make() -> T:
        recorded, model = trace(request), load(request)
        with LONG.turn():
            report(*UNKNOWN)
            return computation.make(model, recorded)

    return CACHE.once(computation.key(request), make)


def once(key: Hashable, make: Callable[[], T]) -> T:
    """Return the cached result for this key, or compute it outside the schedule."""
    return CACHE.once(key, make)


def _bounded(trace: Trace) -> Trace:
    """Drop the search record of a large trace.

    For a long sentence it has every row of the beam, many times the size of the rest.
    """
    large = trace.search is not None and seal(trace) > CACHE.limit // _LARGEST
    return dataclasses.replace(trace, search=None) if large else trace
