"""What is computed once and shared by every session: models, and the traces of sentences.

Sessions hold keys only. A trace is kept in one cache bounded in bytes, its arrays read-only, and
two forward passes run at a time: small models gain nothing from more, and a classroom pressing
the button together is served in turn.
"""

from __future__ import annotations

import dataclasses
import gc
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import streamlit as st
import torch

from transformer.checkpoint import CheckpointError, fingerprint
from transformer.records import Trace
from transformer.translator import InputError, Translator
from ui.controls import ALPHA, View, is_blank, without_root
from ui.progress import Progress, resume, stopped
from ui.text import plain

#: Bytes of traces kept. A sentence of 30 tokens through 6 layers of 8 heads takes about 1 MB with
#: its search record.
CACHE_BYTES = 256 * 2**20

#: Models kept in memory, the least recently loaded one goes first.
MODELS_KEPT = 4

#: Models up to this many parameters are faster, and steadier under load, with one thread each.
_ONE_THREAD_PARAMETERS = 100_000_000


@dataclass(frozen=True)
class TraceKey:
    """Everything a trace depends on.

    Attributes:
        path: the checkpoint's folder.
        mark: its files as they were, see `fingerprint`.
        device: where it runs.
        sentence: as typed.
        beam_size, alpha: how to search.
    """

    path: str
    mark: str
    device: str
    sentence: str
    beam_size: int
    alpha: float


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
        size = _seal(trace)
        if size > self.limit // 4 and trace.search is not None:
            trace = dataclasses.replace(trace, search=None)
            size = _seal(trace)
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
            with _held(lock, waiting):
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


#: The one cache of traces of this process, and the right to run a model.
TRACES = TraceCache(CACHE_BYTES)
PERMITS = threading.Semaphore(2)


def translator(path: Path, device: str) -> Translator:
    """The checkpoint on a device, loaded once. Raises `CheckpointError` (see `Translator.load`)."""
    return _load(str(path), fingerprint(path), device)


@st.cache_resource(show_spinner=False, max_entries=MODELS_KEPT)
def _load(path: str, mark: str, device: str) -> Translator:
    loaded = Translator.load(path, device=device)
    if loaded.device == "cpu" and loaded.config.n_parameters <= _ONE_THREAD_PARAMETERS:
        torch.set_num_threads(1)
    _freeze_garbage()
    return loaded


def trace(key: TraceKey, report: Callable[[int, int], None]) -> Trace:
    """The trace of one sentence, from the cache or made now.

    Args:
        report: called with (step, most steps) while decoding and with (0, 0) while waiting for
            others. It may raise, which stops the work and leaves nothing behind.

    Raises: what `Translator.load` and `Translator.trace` raise.
    """
    found = TRACES.get(key)
    if found is not None:
        return found
    model = translator(Path(key.path), key.device)

    def waiting() -> None:
        report(0, 0)

    with TRACES.making(key, waiting):
        found = TRACES.get(key)
        if found is not None:
            return found
        with _held(PERMITS, waiting):
            made = model.trace(
                key.sentence, beam_size=key.beam_size, alpha=key.alpha, progress=report
            )
        TRACES.put(key, made)
        return TRACES.get(key) or made


def key_of(view: View) -> TraceKey:
    """What the trace of a view is kept under."""
    return TraceKey(
        path=str(view.path),
        mark=fingerprint(view.path),
        device=view.device,
        sentence=view.sentence,
        beam_size=view.beam_size,
        # Greedy decoding does not look at the length penalty.
        alpha=view.alpha if view.beam_size > 1 else ALPHA.default,
    )


def get_translator(view: View) -> Translator:
    """The view's model. Where it cannot be loaded the page says why and the run ends."""
    with _said():
        with st.spinner(f"Loading {plain(view.checkpoint)}", show_time=False):
            return translator(view.path, view.device)
    st.stop()


def get_trace(view: View) -> Trace:
    """The view's trace, with progress shown and a way to stop.

    Where there is nothing to translate, the sentence is too long, the model cannot be loaded, or
    the user stopped, the page says so in one line and the run ends.
    """
    if is_blank(view.sentence):
        st.info(
            f"Nothing to translate yet. Type {view.examples.hint} on the left, or try an example.",
            icon=":material/edit:",
        )
        st.stop()
    key = key_of(view)
    if stopped(key):
        st.info("Stopped.", icon=":material/stop_circle:")
        st.button("Translate this sentence", on_click=resume)
        st.stop()
    if TRACES.get(key) is None:
        get_translator(view)
    progress = Progress(key)
    with _said():
        try:
            return trace(key, progress)
        finally:
            progress.close()
    st.stop()


@contextmanager
def _said() -> Iterator[None]:
    """Turn what may go wrong into one line on the page."""
    try:
        yield
    except InputError as error:
        text = str(error)
        st.warning(plain(f"{text[:1].upper()}{text[1:]}."), icon=":material/short_text:")
    except CheckpointError as error:
        st.error(
            plain(without_root(str(error))) + ". Choose another checkpoint on the left.",
            icon=":material/error:",
        )
    except (MemoryError, torch.OutOfMemoryError):
        st.error(
            "There is not enough memory for this sentence on this device. "
            "Try a shorter one, a smaller beam, or the CPU.",
            icon=":material/memory:",
        )


@contextmanager
def _held(
    lock: threading.Lock | threading.Semaphore, waiting: Callable[[], None]
) -> Iterator[None]:
    """Hold a lock, calling `waiting` five times a second until it is free."""
    while not lock.acquire(timeout=0.2):
        waiting()
    try:
        yield
    finally:
        lock.release()


def _seal(record: Any) -> int:
    """Make every array in a record read-only. Returns: their bytes, shared ones counted once."""
    seen: dict[int, int] = {}
    pending = [record]
    while pending:
        item = pending.pop()
        if isinstance(item, np.ndarray):
            owner = item if item.base is None else item.base
            nbytes = int(getattr(owner, "nbytes", item.nbytes))
            seen[id(owner)] = max(nbytes, item.nbytes)
            item.setflags(write=False)
        elif isinstance(item, tuple | list):
            pending.extend(item)
        elif dataclasses.is_dataclass(item):
            pending.extend(getattr(item, field.name) for field in dataclasses.fields(item))
    return sum(seen.values())


_frozen = threading.Event()


def _freeze_garbage() -> None:
    """Take what is loaded by now out of garbage collection, once.

    Streamlit collects garbage after every run; with PyTorch loaded that takes 74 ms each time.
    """
    if not _frozen.is_set():
        _frozen.set()
        gc.collect()
        gc.freeze()
