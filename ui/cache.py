"""What is computed once and shared by every session: models, and the traces of sentences.

Sessions hold keys only. A trace is kept in one cache bounded in bytes, its arrays read-only, and
two forward passes run at a time: small models gain nothing from more, and a classroom pressing
the button together is served in turn.
"""

from __future__ import annotations

import dataclasses
import gc
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import streamlit as st
import torch

from transformer.checkpoint import CheckpointError, fingerprint
from transformer.records import Trace
from transformer.translator import InputError, Translator
from ui import state
from ui.controls import View, is_blank
from ui.decoding import ALPHA
from ui.progress import Progress, resume, stopped
from ui.roots import without_root
from ui.text import plain
from ui.traces import TraceCache, TraceKey, hold

#: Bytes of traces kept. A sentence of 30 tokens through 6 layers of 8 heads takes about 1 MB with
#: its search record.
CACHE_BYTES = 256 * 2**20

#: Models kept in memory, the least recently loaded one goes first.
MODELS_KEPT = 4

#: Models up to this many parameters are faster, and steadier under load, with one thread each.
_ONE_THREAD_PARAMETERS = 100_000_000


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
        with hold(PERMITS, waiting):
            steered = key.arguments(model.config.eos_id)
            made = model.trace(key.sentence, **steered, progress=report)
            if made.search is not None:
                made = dataclasses.replace(made, forcing_gap=model.forcing_gap(made))
        TRACES.put(key, made)
        return TRACES.get(key) or made


def key_of(view: View) -> TraceKey:
    """What the trace of a view is kept under."""
    searched = view.target is None
    return TraceKey(
        path=str(view.path),
        mark=fingerprint(view.path),
        device=view.device,
        sentence=view.sentence,
        beam_size=view.beam_size if searched else 1,
        # Only a beam compares translations of different length.
        alpha=view.alpha if view.beam_size > 1 and searched else ALPHA.default,
        prefix=view.prefix if searched else (),
        target=view.target,
        sampling=view.sampling if searched else None,
    )


def get_translator(view: View) -> Translator:
    """The view's model. Where it cannot be loaded the page says why and the run ends."""
    with said(), st.spinner(f"Loading {plain(view.checkpoint)}"):
        return translator(view.path, view.device)


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
        _end()
    key = key_of(view)
    if stopped(key):
        st.info("Stopped.", icon=":material/stop_circle:")
        st.button("Translate this sentence", on_click=resume)
        _end()
    found = TRACES.get(key)
    if found is not None:
        return found
    get_translator(view)
    progress = Progress(key)
    with said():
        try:
            return trace(key, progress)
        finally:
            progress.close()


def _end() -> NoReturn:
    """End the run here. The frame does not come to write the URL then, so this does."""
    state.write_url()
    st.stop()


@contextmanager
def said() -> Iterator[None]:
    """Turn what may go wrong into one line on the page, and end the run there."""
    try:
        yield
        return
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
    _end()


_frozen = threading.Event()


def _freeze_garbage() -> None:
    """Take what is loaded by now out of garbage collection, once.

    Streamlit collects garbage after every run; with PyTorch loaded that takes 74 ms each time.
    """
    if not _frozen.is_set():
        _frozen.set()
        gc.collect()
        gc.freeze()
