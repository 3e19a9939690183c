"""Listing and loading: checkpoints, files of arrays, models of other libraries.

Each is loaded once and shared by all sessions. Its path is checked against the configured roots
every time (see `ui.work.roots`).
"""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Mapping
from dataclasses import replace

import torch

from figures.labels import in_bytes
from transformer.checkpoint.reference import fingerprint
from transformer.errors import CheckpointError, InputError
from transformer.files.safe import modified
from transformer.models.arrays.kind import ArchivedTrace
from transformer.models.catalogue import Entry, describe, inspect_entry, list_entries
from transformer.trace.tracer import Tracer
from transformer.worker import tracing
from transformer.worker.job import report
from transformer.worker.limits import free_memory, shares
from transformer.worker.tracing import COPIES, open_unchanged
from ui.core.view import Request
from ui.work.lru import Lru, seal
from ui.work.roots import checkpoint_roots, within_roots

#: Opened first, if it exists.
DEFAULT_CHECKPOINT = "everyday-en-de"

#: Free memory in bytes that loading a model must leave.
_LEFT_FREE = 256 * 2**20

#: Copies of the weights of other kinds of models than the project's translators, while one loads.
_READ = 2

#: Errors of loading a model or reading a sentence; a page shows one line.
REFUSALS = (InputError, CheckpointError, MemoryError, torch.OutOfMemoryError)

#: A listing is reused for so many times as long as it took to make, up to some seconds, so that a
#: crowd does not list a root for everybody. Additions and removals show at once all the same.
_TIMES, _LONGEST = 20, 3.0

_listing = threading.Lock()
_listed: tuple[object, float, list[Entry]] = (None, 0.0, [])


def entries() -> list[Entry]:
    """Return all entries of the roots by name, broken ones with the reason."""
    global _listed
    roots = checkpoint_roots()
    with _listing:
        mark = [(root, modified(root)) for root in roots]
        begun = time.monotonic()
        if _listed[0] == mark and begun < _listed[1]:
            return list(_listed[2])
        found = list_entries(roots, within_roots)
        now = time.monotonic()
        _listed = mark, now + min(_LONGEST, _TIMES * (now - begun)), found
    return list(found)


def default_name(usable: Mapping[str, Entry]) -> str:
    """Return the name of the entry that opens first, "" if there is none."""
    return DEFAULT_CHECKPOINT if DEFAULT_CHECKPOINT in usable else next(iter(usable), "")


def fresh(entry: Entry) -> Entry:
    """Return an up-to-date copy of an entry, since a listing may be a few seconds old."""
    if entry.ref.mark and fingerprint(entry.ref.folder) == entry.ref.mark:
        return entry
    return replace(inspect_entry(entry.ref), name=entry.name)


def load(what: Entry | Request, device: str = "") -> Tracer:
    """Load an entry on a device, or a request's model on its device; shared by all sessions.

    Raises: what `open_tracer` raises, `CheckpointError` if the files have changed since they were
        listed, and what `report` raises, before the model is read.
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
        # A collection takes 74 ms with PyTorch, and Streamlit runs one after every answer.
        if not _frozen.is_set():
            _frozen.set()
            gc.collect()
            gc.freeze()
        return loaded

    return MODELS.once((ref, device), make)


def _make_room(entry: Entry) -> None:
    """Forget models, the least recently used first, until memory is enough for this one.

    Raises: `CheckpointError`, before any is forgotten, if all of them would not be enough.
    """
    needed = 4 * entry.n_numbers * (COPIES if entry.config else _READ)
    while (free := free_memory()) is not None and free < needed + _LEFT_FREE:
        # One that has not decoded yet gives back one copy of its weights.
        most = free + MODELS.nbytes // COPIES - _LEFT_FREE
        if most < needed:
            raise CheckpointError(
                f"{entry.path}: needs {in_bytes(needed)} of memory, of which "
                f"{in_bytes(max(0, most))} can be had"
            )
        MODELS.forget()
        gc.collect()


def model_bytes(loaded: Tracer) -> int:
    """Return the bytes that a model in memory takes."""
    return seal(loaded.record) if isinstance(loaded, ArchivedTrace) else tracing.model_bytes(loaded)


#: The models in memory, by reference and device; the least recently used go first. One at a time is
#: loaded, since each one looks for free memory first.
MODELS = Lru(shares().server, model_bytes, alone=True)


_frozen = threading.Event()
