"""Models, their traces and computations on them, loaded once and shared by all sessions.

One cache holds both by request, with read-only arrays. Sentences take turns, and so do
computations. Downloads use this module too, since it needs no session. Progress goes to
`transformer.worker.job.report`, which may raise without side effects.

All sessions share loaded models. Paths are checked against the configured roots every time (see
`ui.work.roots`).
"""

import gc
import threading
import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import Any, Generic, NamedTuple, TypeVar

import torch

from figures.labels import in_bytes
from transformer.attribution.cells import measured
from transformer.files.safe import fingerprint, modified
from transformer.models.arrays.trace_file import ArchivedTrace
from transformer.models.catalogue import Entry, describe, find, inspect_entry, list_entries
from transformer.trace.records import Trace
from transformer.trace.tracer import Tracer
from transformer.types import CheckpointError, InputError
from transformer.worker import tracing
from transformer.worker.job import UNKNOWN, Scheduler, report, this_job
from transformer.worker.limits import free_memory, shares
from transformer.worker.process import Pool
from transformer.worker.tracing import COPIES, open_unchanged
from ui.core.view import Request
from ui.work.lru import Lru, seal
from ui.work.roots import checkpoint_roots, within_roots

#: The default model, if it exists.
DEFAULT_CHECKPOINT = "everyday-en-de"

#: Bytes of free memory that a loaded model must leave.
_LEFT_FREE = 256 * 2**20

#: Copies of the weights in memory while a model that is not this project's loads.
_READ = 2

#: Errors of loading and tracing that a page shows in one line.
REFUSALS = (InputError, CheckpointError, MemoryError, torch.OutOfMemoryError)

#: A listing is reused for this multiple of the time it took, up to a limit in seconds, so that a
#: crowd shares it. Additions to and removals from a root still show at once.
_TIMES, _LONGEST = 20, 3.0

_listing = threading.Lock()
_listed: tuple[object, float, list[Entry]] = (None, 0.0, [])


def entries() -> list[Entry]:
    """Return all entries of the roots, broken ones with a reason."""
    global _listed
    roots = checkpoint_roots()
    with _listing:
        mark = [(root, modified(root)) for root in roots]
        begun = time.monotonic()
        if _listed[0] == mark and begun < _listed[1]:
            return list(_listed[2])
        listing = list_entries(roots, within_roots)
        now = time.monotonic()
        _listed = mark, now + min(_LONGEST, _TIMES * (now - begun)), listing
    return list(listing)


def resolve(
    name: str, listing: Sequence[Entry] | None = None
) -> tuple[Entry | None, str, Sequence[Entry]]:
    """Return the named model or snapshot, the reason for a fallback, and all entries.

    A missing snapshot falls back to its checkpoint, another missing model to a default.
    """
    listing, reason = entries() if listing is None else listing, ""
    usable = {entry.name: entry for entry in listing if entry.ok}
    entry = usable.get(name) or find(usable, name)
    if entry is None:
        broken = any(entry.name == name for entry in listing)
        names = [*([] if broken else [name.rpartition("@")[0]]), DEFAULT_CHECKPOINT, *usable]
        entry = next((usable[other] for other in names if other in usable), None)
        reason = "" if not name else "cannot be used" if broken else "is not installed"
    # The listing may be older than the files.
    if entry is not None and fingerprint(entry.ref.folder) != (entry.ref.mark or None):
        entry = replace(inspect_entry(entry.ref), name=entry.name)
    return entry, reason, listing


def load(what: Entry | Request, device: str = "") -> Tracer:
    """Load an entry on a device, or a request's model.

    Raises: as `open_tracer`, `CheckpointError` if the files have changed since they were listed,
        and as `report` before the model is read.
    """
    ref, device = (what.model, what.device) if isinstance(what, Request) else (what.ref, device)
    loaded: Tracer | None = MODELS.get((ref, device))
    if loaded is not None:
        return loaded
    stored = load(describe(ref.edited("")), device) if ref.edits else None

    def make() -> Tracer:
        report(0, 1)
        _make_room(describe(ref))
        loaded = open_unchanged(ref, device, stored)
        # Streamlit collects garbage after every run, which takes 74 ms with PyTorch imported.
        if not _frozen.is_set():
            _frozen.set()
            gc.collect()
            gc.freeze()
        return loaded

    return MODELS.once((ref, device), make)


def _make_room(entry: Entry) -> None:
    """Drop the least recently used models until there is memory for this one.

    Raises: `CheckpointError`, before dropping any, if dropping all would not suffice.
    """
    needed = 4 * entry.n_numbers * (COPIES if entry.config else _READ)
    while (free := free_memory()) is not None and free < needed + _LEFT_FREE:
        # A model that has not decoded yet holds only one copy of its weights.
        most = free + MODELS.nbytes // COPIES - _LEFT_FREE
        if most < needed:
            raise CheckpointError(
                f"{entry.path}: needs {in_bytes(needed)} of memory; {in_bytes(max(0, most))} "
                "available"
            )
        MODELS.forget()
        gc.collect()


def model_bytes(loaded: Tracer) -> int:
    """Return a loaded model's bytes."""
    return seal(loaded.record) if isinstance(loaded, ArchivedTrace) else tracing.model_bytes(loaded)


#: Loaded models by reference and device. They load one at a time, since each needs to find free
#: memory.
MODELS = Lru(shares().server, model_bytes, alone=True)


_frozen = threading.Event()


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

    @classmethod
    def of(cls, make: Callable[..., T], *args: Hashable) -> "Computation[T]":
        """Return the computation of `make(model, trace, *args)`."""
        name = f"{make.__module__}.{make.__qualname__}"
        return Computation(name, args, lambda model, trace: make(model, trace, *args))

    def key(self, request: Request) -> Hashable:
        """Return the result's cache key."""
        return (request, self.name, self.args)


def waiting() -> int:
    """Return the number of waiting sentences, computations and files."""
    return tracing.SENTENCES.waiting + LONG.waiting


def trace(request: Request) -> Trace:
    """Return a request's trace, cached or computed.

    Raises: as `ui.work.results.load` and `Tracer.trace`.
    """

    def make() -> Trace:
        model = load(request)
        if request.cells:
            weights = trace(replace(request, cells=()))
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
    return replace(trace, search=None) if large else trace
