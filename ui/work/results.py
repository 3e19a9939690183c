"""Results shared by all sessions: traces of sentences, and computations on them.

One cache, bounded in bytes, holds both by their request, arrays read-only. Sentences and
computations wait their turn, short sentences first (see `transformer.worker`). Nothing here needs a
session, so downloads use it too.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable
from typing import Any, Generic, NamedTuple, TypeVar

from transformer.trace.records import Trace
from transformer.worker.pool import Pool, most_workers
from transformer.worker.turns import Turns
from transformer.worker.work import is_small, trace_in_turn
from ui.core.request import Request
from ui.work.counts import COUNTS
from ui.work.lru import Lru, seal
from ui.work.models import load
from ui.work.progress import UNKNOWN, Report, unreported

T = TypeVar("T")

#: A sentence of 30 tokens through 6 layers of 8 heads takes about 1 MB with its search record.
CACHE = Lru(320 * 2**20)

#: A trace larger than 1 / _LARGEST of the cache is kept without its search record.
_LARGEST = 5

#: Turns of sentences to be traced, and of all else that is computed from traces, which has no steps
#: to be interrupted at. One place each: Python runs one of them at a time anyway, and two small
#: models that alternate every few microseconds slow each other down.
SENTENCES, OTHERS = Turns(1), Turns(1)

#: Processes that trace sentences when several wait.
WORKERS = Pool(most_workers())


class Computation(NamedTuple, Generic[T]):
    """A result to be computed from a model and a trace.

    Attributes:
        name, args: identify it; `make` may depend on these and the request only.
        make: called with the model and the trace while it holds a permit, so it must not ask for
            other results.
    """

    name: str
    args: Hashable
    make: Callable[[Any, Trace], T]

    def key(self, request: Request) -> Hashable:
        """Return the result's cache key."""
        return (request, self.name, self.args)


def trace(request: Request, report: Report = unreported) -> Trace:
    """Return the trace of a request, from the cache or made now.

    Args:
        report: progress callback; it may raise, which stops the work and leaves nothing behind.

    Raises: what `ui.work.models.load` and `Tracer.trace` raise.
    """

    def make() -> Trace:
        model = load(request)
        worker = None
        COUNTS.add("sentences")
        if is_small(model) and model.device == "cpu":
            worker = WORKERS.free(SENTENCES.waiting)
        if worker is None:
            arguments = request.arguments()
            return _bounded(trace_in_turn(model, request.sentence, arguments, SENTENCES, report))
        return _bounded(
            worker.trace(
                request.model, request.device, request.sentence, request.arguments(), report
            )
        )  # fmt: skip

    found: Trace = CACHE.once(request, make, lambda: report(0, 0))
    return found


def waiting_in(report: Report) -> Callable[[int], None]:
    """Return what reports the number of works that go before."""
    return lambda before: report(before, 0)


def result_of(request: Request, wanted: Computation[T], report: Report = unreported) -> T:
    """Return the result of a computation, from the cache or made now, its trace included.

    Raises: what loading, tracing or `make` raises.
    """

    def make() -> T:
        recorded = trace(request, report)
        model = load(request)
        with OTHERS.taken(waiting_in(report)):
            report(*UNKNOWN)
            COUNTS.add("computations")
            return wanted.make(model, recorded)

    result: T = CACHE.once(wanted.key(request), make, lambda: report(0, 0))
    return result


def once(key: Hashable, make: Callable[[], T], report: Report = unreported) -> T:
    """Return what `make` returned for this key, from the cache or made now, without a permit."""
    result: T = CACHE.once(key, make, lambda: report(0, 0))
    return result


def _bounded(made: Trace) -> Trace:
    """Drop a search record that would push too much else out of the cache.

    For a long sentence it holds every row of the beam, many times the size of the rest of the
    trace.
    """
    large = made.search is not None and seal(made) > CACHE.limit // _LARGEST
    return dataclasses.replace(made, search=None) if large else made
